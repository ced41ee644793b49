//! Conformance pages of controllers: the checks of [`ackclock_control::kit`], and a fixed list of simulated
//! situations that a controller has to handle.
//!
//! ```
//! use ackclock_control::congestion::Registry;
//! use tcplab::kit;
//!
//! let result = kit::examine_in("reno", &Registry::with_experiments(), &kit::SITUATIONS[..1], 1)?;
//! assert!(result.checks.passed());
//! assert!(result.page().markdown().contains("| alone |"));
//! # Ok::<(), ackclock_sim::Problem>(())
//! ```

use ackclock_control::congestion::{About, Registry};
use ackclock_control::kit::{KitReport, Outcome};
use ackclock_sim::Problem;
use ackclock_sim::scenario::PathStep;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

pub use ackclock_sim::situations::{SITUATIONS, Situation};

use crate::measure::Measures;
use crate::page::Page;
use ackclock_cli::table::{bit_rate, millis, percent};

/// The number of runs of each situation on a page. Their seeds count from 1.
pub const SEEDS: u64 = 3;

/// The results of a controller.
#[derive(Clone, Debug)]
pub struct Examination {
    /// Its name, with its parameters if they are not the defaults.
    pub name: String,
    /// Its description.
    pub about: About,
    /// The checks of the control crate.
    pub checks: KitReport,
    /// Each situation, with the mean of its runs.
    pub situations: Vec<(&'static Situation, Measures)>,
}

/// Examines the controller called `name` in all situations.
///
/// # Errors
/// It cannot be run: `registry` lacks the controller.
pub fn examine(name: &str, registry: &Registry) -> Result<Examination, Problem> {
    examine_in(name, registry, SITUATIONS, SEEDS)
}

/// Examines a controller in these situations, with `seeds` runs of each.
///
/// # Errors
/// As [`examine`].
pub fn examine_in(
    name: &str,
    registry: &Registry,
    situations: &'static [Situation],
    seeds: u64,
) -> Result<Examination, Problem> {
    let factory = registry.find(name).map_err(|error| Problem {
        path: vec![PathStep::Key("controller".to_owned())],
        what: error.to_string(),
    })?;
    let runs: Vec<(usize, u64)> =
        (0..situations.len()).flat_map(|index| (1..=seeds).map(move |seed| (index, seed))).collect();
    let measured: Result<Vec<Measures>, Problem> =
        runs.into_par_iter().map(|(index, seed)| situations[index].run(name, registry, seed)).collect();
    let measured = measured?;
    let per_situation =
        measured.chunks(usize::try_from(seeds.max(1)).unwrap_or(usize::MAX)).map(Measures::mean);
    Ok(Examination {
        name: name.to_owned(),
        about: factory.about(),
        checks: ackclock_control::kit::examine(factory.as_ref()),
        situations: situations.iter().zip(per_situation).collect(),
    })
}

impl Examination {
    /// The page, always with the same parts.
    #[must_use]
    pub fn page(&self) -> Page {
        let name = &self.name;
        let mut page = Page::new(name);
        page.text(format!(
            "Made by `tcplab kit {name} --out docs/kit`; the same code gives the same page. \
             [All controllers](README.md)."
        ));
        let About { year, source, keeps_in_queue, deviations, .. } = self.about;
        let year = if year == 0 { String::new() } else { format!(" ({year})") };
        page.table(
            &["", "what it is"],
            vec![
                vec!["Source".to_owned(), format!("{source}{year}")],
                vec!["Signal of congestion".to_owned(), format!("{:?}", self.about.signal).to_lowercase()],
                vec!["Keeps in the queue".to_owned(), keeps_in_queue.to_owned()],
                vec!["Departs from its source".to_owned(), deviations.to_owned()],
            ],
        );
        page.heading("Checks");
        page.table(&["check", "outcome"], self.checks.results.iter().map(check_row).collect());
        page.heading("Situations");
        page.text(format!(
            "Unless a situation says otherwise: 10 Mbit/s, a round trip of 40 ms, a drop-tail queue of one \
             bandwidth-delay product (34 packets), one flow for 60 s with everything but the controller as \
             in the profile `modern` and a receive window that never limits. Each value is the mean of \
             {SEEDS} runs with their own seeds. *Of what is possible*: payload against what the path carries \
             in full packets. *Share*: this flow's part of what both carry, where they share the path."
        ));
        let head = [
            "situation",
            "throughput",
            "of what is possible",
            "share",
            "retransmitted",
            "timeouts",
            "queueing delay, mean",
            "p99",
        ];
        let rows = self.situations.iter().map(|(situation, measures)| situation_row(situation, measures));
        page.table(&head, rows.collect());
        page.heading("What the situations are");
        let rows = self.situations.iter().map(|(one, _)| vec![one.name.to_owned(), one.what.to_owned()]);
        page.table(&["situation", "what it is"], rows.collect());
        page
    }
}

/// The index page of all controllers.
#[must_use]
pub fn index(all: &[Examination]) -> Page {
    let mut page = Page::new("Controllers in the same situations");
    page.text(
        "Made by `tcplab kit --all --out docs/kit`, with a page for each controller that describes the \
         situations. Your own controller gets its page from `tcplab::kit::examine`, with a registry that \
         contains it.",
    );
    let Some(first) = all.first() else { return page };
    let mut table = |title: &str, cell: fn(&Situation, &Measures) -> String| {
        page.heading(title);
        // A situation without a result here has no column.
        let has_column = |index: &usize| {
            let (situation, measures) = &first.situations[*index];
            !cell(situation, measures).is_empty()
        };
        let columns: Vec<usize> = (0..first.situations.len()).filter(has_column).collect();
        let names = columns.iter().map(|&index| first.situations[index].0.name);
        let head: Vec<&str> = std::iter::once("controller").chain(names).collect();
        let rows = all.iter().map(|one| {
            let name = &one.name;
            let cells = columns.iter().map(|&index| {
                let (situation, measures) = &one.situations[index];
                cell(situation, measures)
            });
            std::iter::once(format!("[{name}]({name}.md)")).chain(cells).collect()
        });
        let rows = rows.collect();
        page.table(&head, rows);
    };
    table("Payload, of what is possible", |situation, measures| percent(situation.used(measures)));
    table("Share of the path, where it is shared", share);
    table("Mean queueing delay", |_, measures| millis(measures.queue_mean));
    table("Payload sent again", |_, measures| percent(measures.retransmitted));
    page.heading("Checks of the conformance kit");
    let rows = all.iter().map(|one| {
        let count = |wanted: fn(&Outcome) -> bool| {
            one.checks.results.iter().filter(|(_, outcome)| wanted(outcome)).count().to_string()
        };
        vec![
            format!("[{0}]({0}.md)", one.name),
            count(|outcome| matches!(outcome, Outcome::Passed)),
            count(|outcome| matches!(outcome, Outcome::Excused(_))),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
        ]
    });
    let rows = rows.collect();
    page.table(&["controller", "passed", "excused", "failed"], rows);
    page
}

fn check_row((check, outcome): &(&'static str, Outcome)) -> Vec<String> {
    let outcome = match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Excused(why) => format!("excused: {why}"),
        Outcome::Failed(message) => format!("**FAILED**: {message}"),
    };
    vec![(*check).to_owned(), outcome]
}

fn situation_row(situation: &Situation, measures: &Measures) -> Vec<String> {
    vec![
        situation.name.to_owned(),
        bit_rate(measures.flows.first().copied().unwrap_or(0.0)),
        percent(situation.used(measures)),
        share(situation, measures),
        percent(measures.retransmitted),
        format!("{:.1}", measures.timeouts),
        millis(measures.queue_mean),
        millis(measures.queue_p99),
    ]
}

/// The first flow's share of the total; empty if it is alone.
fn share(_: &Situation, measures: &Measures) -> String {
    match measures.flows.as_slice() {
        [first, _, ..] if measures.throughput > 0.0 => percent(first / measures.throughput),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_controller_is_named_with_those_that_there_are() {
        let error = examine("renoo", &Registry::with_experiments()).unwrap_err().to_string();
        assert!(error.contains("`renoo`") && error.contains(" reno, "), "{error}");
    }

    #[test]
    fn situations_tell_controllers_apart() {
        let registry = Registry::with_experiments();
        let used = |name: &str, situation: &str| {
            let index = SITUATIONS.iter().position(|one| one.name == situation).unwrap();
            let run = SITUATIONS[index].run(name, &registry, 1).unwrap();
            (SITUATIONS[index].used(&run), run)
        };
        // A loss of 1 % halves Reno's window again and again, and hardly affects a controller of rates.
        let (reno, bbr) = (used("reno", "loss of 1 %").0, used("bbr", "loss of 1 %").0);
        assert!(reno < 0.7 && bbr > 1.2 * reno, "{reno} {bbr}");
        // Vegas keeps a few packets in a queue that Reno fills.
        let (reno, vegas) = (used("reno", "bufferbloat").1, used("vegas", "bufferbloat").1);
        assert!(vegas.queue_mean < 0.1 * reno.queue_mean, "{vegas:?} {reno:?}");
        // It gets less than its share beside Reno.
        let (_, beside) = used("vegas", "beside Reno");
        assert!(beside.flows[0] < beside.flows[1], "{beside:?}");
        // Marks come before losses.
        let (_, marked) = used("reno", "marks instead of losses");
        assert!(marked.marked > 0.0 && marked.retransmitted == 0.0, "{marked:?}");
    }
}
