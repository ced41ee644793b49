//! The experiments' findings, for people (`RESULTS.md`, the table on stdout) and for programs (JSON).

use std::iter;

use ackclock_chart::svg;
use ackclock_cli::table::{self, number};
use serde::Serialize;

use crate::{BandVerdict, Experiment, Findings, Value, experiments, unknowns};

/// An experiment and its outcome.
#[derive(Debug)]
pub struct ExperimentResult<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its findings, or why it could not be run.
    pub findings: Result<Findings, String>,
}

/// A row for programs.
#[derive(Debug, Serialize)]
struct Row<'a> {
    id: &'a str,
    source: &'a str,
    title: &'a str,
    set_up: &'a str,
    error: Option<&'a str>,
    values: Vec<Judged<'a>>,
    tables: &'a [crate::Table],
    notes: &'a [String],
    /// The stems of the pictures' files.
    pictures: Vec<&'a str>,
}

#[derive(Debug, Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    value: &'a Value,
    verdict: BandVerdict,
}

/// The number of values by verdict, and of experiments that could not be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Equal to the paper's number within noise.
    pub equal: usize,
    /// In the order, or the range, that the paper claims.
    pub order: usize,
    /// Without anything to judge them by.
    pub no_reference: usize,
    /// Different, with a reason.
    pub differs: usize,
    /// Different without a reason.
    pub outside: usize,
    /// Experiments that could not be run.
    pub failed: usize,
}

impl Counts {
    /// Counts the values of these outcomes.
    #[must_use]
    pub fn of(outcomes: &[ExperimentResult<'_>]) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            let Ok(findings) = &outcome.findings else {
                counts.failed += 1;
                continue;
            };
            for value in &findings.values {
                match value.verdict() {
                    BandVerdict::Equal => counts.equal += 1,
                    BandVerdict::Order => counts.order += 1,
                    BandVerdict::NoReference => counts.no_reference += 1,
                    BandVerdict::Differs => counts.differs += 1,
                    BandVerdict::Outside => counts.outside += 1,
                }
            }
        }
        counts
    }

    /// Whether every value that differs has an explanation.
    #[must_use]
    pub fn passed(self) -> bool {
        self.outside == 0 && self.failed == 0
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> String {
        let Self { equal, order, no_reference, differs, outside, failed } = self;
        let judged = equal + order + differs + outside;
        let mut words = format!(
            "{} values, {judged} judged: {equal} equal within noise, {order} order only, {differs} \
             differ with reason, {outside} OUTSIDE; {no_reference} with no reference",
            judged + no_reference
        );
        if failed > 0 {
            words += &format!("; {failed} experiments could not be done");
        }
        words
    }
}

/// The values as a table of text.
#[must_use]
pub fn table(outcomes: &[ExperimentResult<'_>]) -> String {
    let mut rows = Vec::new();
    for ExperimentResult { experiment, findings } in outcomes {
        match findings {
            Ok(findings) => {
                for value in &findings.values {
                    let mut row = vec![experiment.id.to_owned()];
                    row.extend(cells(value));
                    rows.push(row);
                }
            }
            Err(error) => rows.push(vec![experiment.id.to_owned(), format!("could not be done: {error}")]),
        }
    }
    table::columns(
        &["id", "value", "paper", "others", "measured", "SE", "n", "runs", "band", "verdict"],
        &rows,
    )
}

/// Everything as JSON.
///
/// # Errors
/// A value has no form in JSON.
pub fn json(outcomes: &[ExperimentResult<'_>]) -> serde_json::Result<serde_json::Value> {
    let rows: Vec<Row<'_>> = outcomes.iter().map(Row::new).collect();
    let counts = Counts::of(outcomes);
    Ok(serde_json::json!({ "counts": counts, "experiments": serde_json::to_value(rows)? }))
}

/// `RESULTS.md` and, before it, its pictures: their paths within one folder, and their contents.
pub fn files<'a>(outcomes: &'a [ExperimentResult<'a>]) -> impl Iterator<Item = (String, String)> + use<'a> {
    let figures =
        outcomes.iter().flat_map(|outcome| &outcome.findings).flat_map(|findings| &findings.figures);
    let pictures = figures.map(|(stem, figure)| (picture(stem), svg(figure)));
    let page = iter::once_with(|| ("RESULTS.md".to_owned(), page(outcomes, experiments().len())));
    pictures.chain(page)
}

/// `RESULTS.md`: the same bytes for the same code, so it contains no dates and no durations.
fn page(outcomes: &[ExperimentResult<'_>], all: usize) -> String {
    let command = match outcomes.len() {
        some if some < all => {
            let ids: Vec<&str> = outcomes.iter().map(|outcome| outcome.experiment.id).collect();
            format!("tcplab papers {} --out DIR", ids.join(" "))
        }
        _ => "tcplab papers --out DIR".to_owned(),
    };
    let mut page = format!(
        "# What the papers found, and what this code finds\n\nMade by `{command}`; every number comes \
         from running the code beside it, in virtual time, and is the same each time. {}.\n\nA value is \
         the mean over n runs. `SE` is its standard error, and `runs` gives the least and the largest \
         of single ones. Where the paper prints a number, the value is *equal within noise* if it \
         differs from it by at most two standard errors of the difference: of ours, and of the paper's, \
         which is that of as many of our runs as it had (one, unless it says more), or half a unit of \
         its last digit if that is more. Where it claims an order or a range, or its numbers are rows \
         of a table over traces that are not public, the verdict is *order only* if that holds; where \
         it calls something unchanged, the range is 0.91 to 1.09, since Brakmo and Peterson call 1.09 \
         so. Else it *differs*, by that many standard errors if there are any. Where the paper says \
         nothing, the verdict is 'no reference', which is not counted among the judged. A value outside \
         its `limit`, or one that differs without a written reason, fails the command.\n\nIn the \
         pictures a controller has the same colour throughout. Rings and dotted lines are the paper's own \
         numbers, with their place in the paper; bars through a point reach from the least to the most of \
         single runs. The curves of the papers' figures are not in their texts, and are not drawn.\n\n",
        Counts::of(outcomes).words()
    );
    page += &crate::claims::page(outcomes);
    page += "\n## The experiments\n\n";
    let summary = outcomes.iter().map(|ExperimentResult { experiment, findings }| {
        let verdict = match findings {
            Ok(findings) => worst(findings).to_string(),
            Err(_) => "FAILED".to_owned(),
        };
        vec![format!("[{}](#{})", experiment.id, anchor(experiment)), experiment.title.to_owned(), verdict]
    });
    page += &table::markdown(&["experiment", "what it shows", "verdict"], &summary.collect::<Vec<_>>());
    outcomes.iter().for_each(|outcome| page += &section(outcome));
    page
}

fn section(ExperimentResult { experiment, findings }: &ExperimentResult<'_>) -> String {
    let Experiment { id, source, title, set_up, .. } = experiment;
    let mut text = format!("\n## {id}: {title}\n\n*{source}.* {set_up}\n");
    let findings = match findings {
        Ok(findings) => findings,
        Err(error) => return text + &format!("\nCould not be done: {error}\n"),
    };
    if !findings.values.is_empty() {
        let rows: Vec<Vec<String>> = findings.values.iter().map(cells).collect();
        let head = ["value", "paper", "others", "measured", "SE", "n", "runs", "band", "verdict"];
        text += &format!("\n{}", table::markdown(&head, &rows));
    }
    for value in &findings.values {
        if let (BandVerdict::Differs, Some(reason)) = (value.verdict(), value.reason) {
            text += &format!("\n**{} differs:** {reason}\n", value.name);
        }
    }
    if !unknowns(experiment).is_empty() {
        let anchor = anchor(experiment);
        text += &format!("\nWhat the paper leaves open, tried: [SWEEPS.md](SWEEPS.md#{anchor}).\n");
    }
    for note in &findings.notes {
        text += &format!("\n{note}\n");
    }
    for table in &findings.tables {
        text += &format!("\n{}:\n\n{}", table.title, table::markdown(&table.head, &table.rows));
    }
    for (stem, figure) in &findings.figures {
        let (title, caption) = (&figure.title, &figure.caption);
        text += &format!("\n![{title}]({})\n\n{caption}\n", picture(stem));
    }
    text
}

/// A value in the columns of the tables.
fn cells(value: &Value) -> Vec<String> {
    let spread = value.spread.map(|(least, most)| format!("{} … {}", number(least), number(most)));
    let band = match value.limit {
        Some(limit) => format!("{}; limit {limit}", value.band).trim_start_matches("; ").to_owned(),
        None => value.band.to_string(),
    };
    let has_noise = value.runs > 1;
    vec![
        value.name.clone(),
        value.paper.to_owned(),
        value.others.to_owned(),
        format!("{} {}", number(value.measured), value.unit).trim_end().to_owned(),
        if has_noise { number(value.error()) } else { String::new() },
        if has_noise { value.runs.to_string() } else { String::new() },
        spread.unwrap_or_default(),
        band,
        value.words(),
    ]
}

fn worst(findings: &Findings) -> BandVerdict {
    let verdicts = || findings.values.iter().map(Value::verdict);
    let first = |verdict| verdicts().find(|other| *other == verdict);
    let order = [BandVerdict::Outside, BandVerdict::Differs, BandVerdict::Order, BandVerdict::Equal];
    order.into_iter().find_map(first).unwrap_or(BandVerdict::NoReference)
}

/// The anchor of a heading in rendered Markdown: lower case, hyphens for spaces, no other punctuation.
fn anchor(experiment: &Experiment) -> String {
    let heading = format!("{}: {}", experiment.id, experiment.title).to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

impl<'a> Row<'a> {
    fn new(outcome: &'a ExperimentResult<'a>) -> Self {
        let Experiment { id, source, title, set_up, .. } = outcome.experiment;
        let (findings, error) = match &outcome.findings {
            Ok(findings) => (Some(findings), None),
            Err(error) => (None, Some(error.as_str())),
        };
        let values = findings.iter().flat_map(|findings| &findings.values);
        let pictures = findings.iter().flat_map(|findings| &findings.figures);
        Row {
            id,
            source,
            title,
            set_up,
            error,
            values: values.map(|value| Judged { value, verdict: value.verdict() }).collect(),
            tables: findings.map_or(&[], |findings| &findings.tables),
            notes: findings.map_or(&[], |findings| &findings.notes),
            pictures: pictures.map(|(stem, _)| stem.as_str()).collect(),
        }
    }
}

/// The file of a picture, relative to `RESULTS.md`.
fn picture(stem: &str) -> String {
    format!("{PICTURES}/{stem}.svg")
}

/// The folder of the pictures, beside `RESULTS.md`.
pub const PICTURES: &str = "pictures";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Band;
    use crate::many::Summary;

    const EXPERIMENT: Experiment = Experiment {
        id: "VE5/7",
        source: "a paper, fig. 5",
        title: "alone on the link",
        set_up: "One flow.",
        run: || Ok(Findings::default()),
    };

    fn value(measured: f64, reason: Option<&'static str>) -> Value {
        let runs = Summary::of([measured - 0.1, measured + 0.1]);
        Value { paper: "1.37", band: Band::AtLeast(1.2), reason, ..runs.value("ratio", "KB/s") }
    }

    #[test]
    fn the_page_shows_values_verdicts_and_reasons() {
        let unknown = Value { band: Band::NoReference, ..value(1.3, None) };
        let values = vec![
            value(1.3, None),
            unknown,
            value(0.7, Some("the link is slower")),
            value(0.7, None),
            value(1.3, None).printed("1.37"),
        ];
        let findings = Findings { values, notes: vec!["A note.".to_owned()], ..Findings::default() };
        let outcomes = [
            ExperimentResult { experiment: &EXPERIMENT, findings: Ok(findings) },
            ExperimentResult { experiment: &EXPERIMENT, findings: Err("no host".to_owned()) },
        ];
        let page = page(&outcomes, 2);
        for wanted in [
            "5 values, 4 judged: 1 equal within noise, 1 order only, 1 differ with reason, 1 OUTSIDE; \
             1 with no reference; 1 experiments could not be done",
            "| ratio | 1.37 |  | 1.3 KB/s | 0.1 | 2 | 1.2 … 1.4 |  | no reference |",
            "| [VE5/7](#ve57-alone-on-the-link) | alone on the link | OUTSIDE |",
            "| ratio | 1.37 |  | 1.3 KB/s | 0.1 | 2 | 1.2 … 1.4 | ≥ 1.2 | order only |",
            "| ratio | 1.37 |  | 1.3 KB/s | 0.1 | 2 | 1.2 … 1.4 | 1.37 ± 0.005 | equal within noise |",
            "**ratio differs:** the link is slower",
            "A note.",
            "Could not be done: no host",
        ] {
            assert!(page.contains(wanted), "{wanted} in {page}");
        }
        let counts = Counts::of(&outcomes);
        assert_eq!(counts, Counts { equal: 1, order: 1, no_reference: 1, differs: 1, outside: 1, failed: 1 });
        assert!(!counts.passed() && Counts { differs: 1, ..Counts::default() }.passed());
        let json = json(&outcomes).unwrap();
        assert_eq!(json["experiments"][0]["values"][2]["verdict"], "differs");
        assert_eq!(json["experiments"][1]["error"], "no host");
    }
}
