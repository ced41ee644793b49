//! Tries the points that a paper leaves open: an experiment over all combinations of some settings, and how
//! much each of them decides.

use ackclock_cli::table::{self, number};

use crate::many::Summary;
use crate::{Band, BandVerdict, Change, Changes, Experiment, Value, run};

/// A key of [`Changes`] and the values to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The key.
    pub key: String,
    /// At least one value.
    pub values: Vec<String>,
}

/// An experiment's values over all combinations of some unknowns.
#[derive(Debug)]
pub struct Sweep<'a> {
    experiment: &'a Experiment,
    unknowns: Vec<Unknown>,
    points: Vec<Point>,
}

/// One combination: the place of each unknown's value, and what was measured.
#[derive(Debug)]
struct Point {
    choice: Vec<usize>,
    values: Vec<Value>,
}

/// The most combinations.
pub const COMBINATIONS_MAX: usize = 500;

/// Runs `experiment` with every combination of the unknowns' values, and calls `done` after each.
///
/// # Errors
/// There are more than [`COMBINATIONS_MAX`] combinations, a setting is not possible, or a run fails.
pub fn sweep<'a>(
    experiment: &'a Experiment,
    unknowns: Vec<Unknown>,
    done: impl Fn() + Sync,
) -> anyhow::Result<Sweep<'a>> {
    let number = combinations(&unknowns);
    anyhow::ensure!(
        number <= COMBINATIONS_MAX,
        "these are {number} combinations; {COMBINATIONS_MAX} is the most: try fewer values"
    );
    let points = (0..number).map(|place| {
        let choice = choice(&unknowns, place);
        let changes: Changes = settings(&unknowns, &choice).collect();
        let outcome = run(&[experiment], &changes.clone().values_only(), &done)?.into_iter().next();
        let findings = outcome.map(|outcome| outcome.findings).unwrap_or_else(|| Ok(Default::default()));
        let findings = findings.map_err(|error| anyhow::anyhow!("with {changes}: {error}"))?;
        Ok(Point { choice, values: findings.values })
    });
    let points = points.collect::<anyhow::Result<_>>()?;
    Ok(Sweep { experiment, unknowns, points })
}

/// `SWEEPS.md` and, before it, a file of values for each sweep: their paths within one folder, and their
/// contents.
#[must_use]
pub fn sweeps(all: &[Sweep<'_>]) -> Vec<(String, String)> {
    let file = |sweep: &Sweep<'_>| format!("sweeps/{}.csv", sweep.experiment.id.replace('/', "-"));
    let section = |sweep: &Sweep<'_>| {
        format!(
            "{}\n`{}`; every setting with its values: [{}]({}).\n\n",
            sweep.page(),
            sweep.command(),
            file(sweep),
            file(sweep)
        )
    };
    let page = format!(
        "# What the papers leave open\n\nMade by `tcplab papers --sweeps --out DIR`. Some papers behind \
         [RESULTS.md](RESULTS.md) leave settings open. This page tries values of these settings in all \
         combinations. It says how much of a result's variance each setting explains, how many combinations \
         stay below the paper's number (its percentile), and which combinations agree with everything that \
         the paper says.\n\n{}",
        all.iter().map(section).collect::<String>()
    );
    let files = all.iter().map(|sweep| (file(sweep), sweep.csv()));
    files.chain([("SWEEPS.md".to_owned(), page)]).collect()
}

/// How many combinations these have.
#[must_use]
pub fn combinations(unknowns: &[Unknown]) -> usize {
    unknowns.iter().map(|unknown| unknown.values.len()).fold(1, usize::saturating_mul)
}

/// The combination with this number: the last unknown varies fastest.
fn choice(unknowns: &[Unknown], mut place: usize) -> Vec<usize> {
    let mut choice: Vec<usize> = unknowns
        .iter()
        .rev()
        .map(|unknown| {
            let count = unknown.values.len().max(1);
            let this = place % count;
            place /= count;
            this
        })
        .collect();
    choice.reverse();
    choice
}

fn settings<'a>(unknowns: &'a [Unknown], choice: &'a [usize]) -> impl Iterator<Item = Change> + 'a {
    unknowns.iter().zip(choice).map(|(unknown, at)| Change::new(&unknown.key, &unknown.values[*at]))
}

impl Sweep<'_> {
    /// The page of a sweep: a table of the values that the paper gives, and which settings give all at once.
    #[must_use]
    pub fn page(&self) -> String {
        let Experiment { id, title, .. } = self.experiment;
        let number_of = self.points.len();
        let open: Vec<String> = self
            .unknowns
            .iter()
            .map(|Unknown { key, values }| format!("`{key}`: {}", values.join(", ")))
            .collect();
        let mut head = vec!["value", "paper", "mean", "5 %", "95 %", "paper's percentile"];
        head.extend(self.unknowns.iter().map(|unknown| unknown.key.as_str()));
        head.extend(["the rest", "settings that agree"]);
        let judged = self.judged();
        let rows: Vec<Vec<String>> = judged.iter().map(|name| self.row(name)).collect();
        format!(
            "## {id}: {title}\n\nAll {number_of} combinations of {}. A setting's column gives its \
             share of a value's variance; the noise of the runs is part of it.\n\n{}\n{}{}\n",
            open.join("; "),
            table::markdown(&head, &rows),
            judged.iter().filter_map(|name| self.sentence(name)).collect::<String>(),
            self.agreement(&judged)
        )
    }

    /// For a value whose number the paper prints: what decides it, and where that number lies.
    fn sentence(&self, name: &str) -> Option<String> {
        let percentile = self.percentile(name)?;
        let shares = (0..self.unknowns.len()).map(|place| (place, self.explained(name, place)));
        let (most, share) =
            shares.filter(|(_, share)| share.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1))?;
        let key = &self.unknowns[most].key;
        Some(format!(
            "`{key}` explains {:.0} % of the variance of *{name}*; the paper's number is at percentile \
             {percentile:.0}.\n\n",
            100.0 * share
        ))
    }

    /// The command that repeats it.
    #[must_use]
    pub fn command(&self) -> String {
        let sweep = |Unknown { key, values }: &Unknown| format!(" --sweep '{key}={}'", values.join(" "));
        let sweeps: String = self.unknowns.iter().map(sweep).collect();
        format!("tcplab papers {}{sweeps}", self.experiment.id)
    }

    /// Every setting with every value that was measured, a line for each setting.
    #[must_use]
    pub fn csv(&self) -> String {
        let names = self.points.first().into_iter().flat_map(|point| &point.values).map(|value| &value.name);
        let cell = |text: &str| {
            if text.contains([',', '"']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let head = self.unknowns.iter().map(|unknown| &unknown.key).chain(names).map(|text| cell(text));
        let rows = self.points.iter().map(|point| {
            let settings =
                self.unknowns.iter().zip(&point.choice).map(|(unknown, at)| cell(&unknown.values[*at]));
            line(settings.chain(point.values.iter().map(|value| number(value.measured))).collect())
        });
        std::iter::once(line(head.collect())).chain(rows).collect()
    }

    /// The names of the values that the paper says something of.
    fn judged(&self) -> Vec<&str> {
        let values = self.points.first().map_or(&[][..], |point| &point.values);
        values
            .iter()
            .filter(|value| value.band != Band::NoReference)
            .map(|value| value.name.as_str())
            .collect()
    }

    /// The values of this name, with the choices that gave them.
    fn of<'b>(&'b self, name: &'b str) -> impl Iterator<Item = (&'b [usize], &'b Value)> + 'b {
        self.points.iter().filter_map(move |point| {
            let value = point.values.iter().find(|value| value.name == name)?;
            Some((point.choice.as_slice(), value))
        })
    }

    fn row(&self, name: &str) -> Vec<String> {
        let mut sorted: Vec<f64> = self.of(name).map(|(_, value)| value.measured).collect();
        sorted.sort_by(f64::total_cmp);
        let all = Summary::of(sorted.iter().copied());
        let quantile = |at: f64| {
            let place = ((sorted.len().saturating_sub(1)) as f64 * at).round() as usize;
            sorted.get(place).copied().unwrap_or(f64::NAN)
        };
        let paper = self.of(name).next().map(|(_, value)| value.paper).unwrap_or_default();
        let percentile = self.percentile(name).map_or_else(String::new, |percent| format!("{percent:.0}"));
        let shares: Vec<f64> = (0..self.unknowns.len()).map(|place| self.explained(name, place)).collect();
        let percent =
            |share: f64| if share.is_nan() { String::new() } else { format!("{:.0} %", 100.0 * share) };
        let rest = 1.0 - shares.iter().sum::<f64>();
        let agree = self.of(name).filter(|(_, value)| agrees(value)).count();
        let mut row = vec![name.to_owned(), paper.to_owned(), number(all.mean)];
        row.extend([number(quantile(0.05)), number(quantile(0.95)), percentile]);
        row.extend(shares.iter().chain([&rest]).map(|share| percent(*share)));
        row.push(format!("{agree} of {}", sorted.len()));
        row
    }

    /// How many in a hundred settings give less than the number that the paper prints, if it prints one.
    fn percentile(&self, name: &str) -> Option<f64> {
        let Band::Printed { number: printed, .. } = self.of(name).next()?.1.band else { return None };
        let below = self.of(name).filter(|(_, value)| value.measured < printed).count();
        Some(100.0 * below as f64 / self.points.len().max(1) as f64)
    }

    /// The share of the variance of a value that an unknown explains by itself: that of the means with each
    /// of its values.
    fn explained(&self, name: &str, place: usize) -> f64 {
        let square = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len().max(1) as f64
        };
        let all: Vec<f64> = self.of(name).map(|(_, value)| value.measured).collect();
        let with = |at: usize| {
            let these = self.of(name).filter(|(choice, _)| choice[place] == at);
            Summary::of(these.map(|(_, value)| value.measured)).mean
        };
        let means: Vec<f64> = (0..self.unknowns[place].values.len()).map(with).collect();
        square(&means) / square(&all)
    }

    /// Which settings agree with all values, or with the most.
    fn agreement(&self, judged: &[&str]) -> String {
        let score = |point: &Point| point.values.iter().filter(|value| agrees(value)).count();
        let most = self.points.iter().map(score).max().unwrap_or(0);
        let best: Vec<&Point> = self.points.iter().filter(|point| score(point) == most).collect();
        let first: Vec<String> = best
            .iter()
            .take(3)
            .map(|point| {
                let words: Vec<String> =
                    settings(&self.unknowns, &point.choice).map(|change| format!("`{change}`")).collect();
                words.join(" with ")
            })
            .collect();
        let what = if most == judged.len() {
            "every value of the paper at once".to_owned()
        } else {
            format!("{most} of the paper's {} values at once, and none gives more", judged.len())
        };
        format!("{} of {} settings give {what}: {}.", best.len(), self.points.len(), first.join("; "))
    }
}

/// Whether a value agrees with the paper.
fn agrees(value: &Value) -> bool {
    matches!(value.verdict(), BandVerdict::Equal | BandVerdict::Order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Findings;

    const EXPERIMENT: Experiment = Experiment {
        id: "T1",
        source: "a paper",
        title: "a sum",
        set_up: "",
        run: || Ok(Findings::default()),
    };

    fn unknown(key: &str, values: &[&str]) -> Unknown {
        Unknown { key: key.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    /// Three times the first and once the second, held against 3.
    fn sums() -> Sweep<'static> {
        let unknowns = vec![unknown("first", &["0", "1"]), unknown("second", &["0", "1", "2"])];
        let point = |place| {
            let choice = choice(&unknowns, place);
            let sum = 3 * choice[0] + choice[1];
            let value = Summary::of([sum as f64]).value("sum", "").printed("3").because("it is another sum");
            Point { choice, values: vec![value] }
        };
        let points = (0..combinations(&unknowns)).map(point).collect();
        Sweep { experiment: &EXPERIMENT, unknowns, points }
    }

    #[test]
    fn all_combinations_are_tried_and_too_many_refused() {
        let unknowns = [unknown("a", &["0", "1"]), unknown("b", &["0", "1", "2"])];
        let all: Vec<Vec<usize>> =
            (0..combinations(&unknowns)).map(|place| choice(&unknowns, place)).collect();
        assert_eq!(all, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
        let values: Vec<String> = (0..501).map(|value| value.to_string()).collect();
        let many = vec![Unknown { key: "seed".to_owned(), values }];
        assert!(sweep(&EXPERIMENT, many, || ()).unwrap_err().to_string().contains("501 combinations"));
    }

    #[test]
    fn shares_of_the_variance_are_those_of_a_sum() {
        let sums = sums();
        // 9/4 and 2/3 of 35/12.
        assert!((sums.explained("sum", 0) - 27.0 / 35.0).abs() < 1e-12);
        assert!((sums.explained("sum", 1) - 8.0 / 35.0).abs() < 1e-12);
        let row = sums.row("sum");
        assert_eq!(row, ["sum", "3", "2.5", "0", "5", "50", "77 %", "23 %", "0 %", "3 of 6"]);
        // 2, 3 and 4 are within two half digits.
        let page = sums.page();
        let most = "`first` explains 77 % of the variance of *sum*; the paper's number is at percentile 50.";
        assert!(page.contains(most), "{page}");
        let agree = "3 of 6 settings give every value of the paper at once: `first=0` with `second=2`; ";
        assert!(page.contains(agree), "{page}");
        assert_eq!(sums.command(), "tcplab papers T1 --sweep 'first=0 1' --sweep 'second=0 1 2'");
        assert_eq!(sums.csv(), "first,second,sum\n0,0,0\n0,1,1\n0,2,2\n1,0,3\n1,1,4\n1,2,5\n");
    }
}
