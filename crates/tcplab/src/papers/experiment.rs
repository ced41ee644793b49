//! What an experiment is, and what it finds.

use ackclock_trace::chart::Figure;
use serde::Serialize;

/// One row of the list of experiments.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// Its id, as `VE5/7`.
    pub(crate) id: &'static str,
    /// The paper and its section or figure, as `Brakmo & Peterson 1995, figs. 5 and 7`.
    pub(crate) source: &'static str,
    /// What it shows, in a line.
    pub(crate) title: &'static str,
    /// The network, the connections, how many seeds; what the paper leaves out and what was chosen instead.
    pub(crate) set_up: &'static str,
    /// Runs it, on all cores where it has many runs.
    pub(crate) run: fn() -> anyhow::Result<Findings>,
}

/// What an experiment found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Findings {
    /// The values that are held against the paper's, each with its verdict.
    pub(crate) values: Vec<Value>,
    /// What else was measured.
    pub(crate) tables: Vec<Table>,
    /// Pictures, with the stem of their files.
    pub(crate) figures: Vec<(String, Figure)>,
    /// What the reader has to know: why a value leaves its band, what is different from the paper.
    pub(crate) notes: Vec<String>,
}

/// A measured value beside the paper's.
#[derive(Debug, Serialize)]
pub(crate) struct Value {
    /// What was measured, as `Vegas/Reno throughput`.
    pub(crate) name: String,
    /// Its unit; empty for ratios and counts.
    pub(crate) unit: &'static str,
    /// The paper's value in its own words; empty if it gives none.
    pub(crate) paper: &'static str,
    /// What another simulator gave for the same set-up, and which; empty if not known.
    pub(crate) others: &'static str,
    /// The mean over the runs.
    pub(crate) measured: f64,
    /// The least and the largest of single runs, where there were several.
    pub(crate) spread: Option<(f64, f64)>,
    /// Where it must lie.
    pub(crate) band: Band,
    /// Why it may lie outside, as found, not as supposed; without one, a value outside fails the command.
    pub(crate) reason: Option<&'static str>,
}

/// Where a value must lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Band {
    /// Nowhere in particular: it is reported.
    Reported,
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
    Above(f64),
    Within(f64, f64),
}

/// A table of text.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Band {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::Reported => true,
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Below(limit) => value < limit,
            Self::Above(limit) => value > limit,
            Self::Within(least, most) => (least..=most).contains(&value),
        }
    }
}
