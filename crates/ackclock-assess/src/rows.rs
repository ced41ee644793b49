//! The rows of Allman and Paxson's tables: what an estimator of the timeout (tables 1 to 4) or of the
//! bandwidth (tables 5 and 6) did on connections.

use ackclock_control::assess::timeouts::{Summary, Timeouts, assess};
use ackclock_control::rtt::presets::Preset;
use serde::Serialize;

use crate::beginning::{Estimator, Regions};
use crate::transfer::Transfer;

/// An estimator's results: a row of tables 1 to 4 of Allman and Paxson.
#[derive(Clone, Debug, Serialize)]
pub struct TimeoutRow {
    /// Its name.
    pub preset: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Timeouts: good first ones, bad ones and repeated ones.
    pub timeouts: u32,
    /// First timeouts of segments that were lost.
    pub good: u32,
    /// Timeouts of segments that were not lost.
    pub bad: u32,
    /// Timeouts of segments that had been sent again.
    pub repeated: u32,
    /// Bad ones that were undone; the others do not include them.
    pub undone: u32,
    /// W: the time waited for good first timeouts.
    pub w_seconds: f64,
    /// W̃: the mean time of a good first timeout, in round trips.
    pub w_tilde: f64,
    /// B: the mean share of bad timeouts, from 0 to 1.
    pub b: f64,
}

/// An estimator's results: its rows of tables 5 and 6, in counts of connections.
#[derive(Clone, Debug, Serialize)]
pub struct EstimateRow {
    /// Its name.
    pub estimator: String,
    /// Connections with loss (table 5).
    pub loss: LossCounts,
    /// Connections without loss (table 6).
    pub lossless: LosslessCounts,
}

/// Counts of connections that lost something while they started (table 5).
#[derive(Clone, Debug, Serialize)]
pub struct LossCounts {
    /// Without an estimate.
    pub no_estimate: u32,
    /// Where it changed nothing.
    pub no_impact: u32,
    /// Where it prevented the loss.
    pub loss_prevented: u32,
    /// Where it gave the rate of the steady state.
    pub steady_state: u32,
    /// Where it was optimal.
    pub optimal: u32,
    /// Where it made the connection slower.
    pub reduced_performance: u32,
    /// Whether it was slower by far on some.
    pub especially_bad: bool,
}

/// Counts of connections that lost nothing while they started (table 6).
#[derive(Clone, Debug, Serialize)]
pub struct LosslessCounts {
    /// Without an estimate.
    pub no_estimate: u32,
    /// Where its effect is not known.
    pub unknown_impact: u32,
    /// Where it was optimal.
    pub optimal: u32,
    /// Where it made the connection slower.
    pub reduced_performance: u32,
    /// Whether it was slower by far on some.
    pub especially_bad: bool,
}

/// An estimator's result on each transfer.
#[must_use]
pub fn timeouts(transfers: &[Transfer], preset: &Preset, undo_quarters: Option<u8>) -> Vec<Timeouts> {
    let each = transfers
        .iter()
        .map(|transfer| assess(transfer.replay.events.iter().copied(), &preset.config, undo_quarters));
    each.collect()
}

impl TimeoutRow {
    /// The sums and means over these connections.
    #[must_use]
    pub fn new(preset: &Preset, each: &[Timeouts]) -> Self {
        let summary = Summary::of(each.iter().copied());
        let sum = |count: fn(&Timeouts) -> u32| each.iter().map(count).sum::<u32>();
        let (good, bad, repeated) =
            (sum(|timeouts| timeouts.good), sum(|timeouts| timeouts.bad), sum(|timeouts| timeouts.repeated));
        Self {
            preset: preset.name,
            source: preset.source,
            timeouts: good + bad + repeated,
            good,
            bad,
            repeated,
            undone: sum(|timeouts| timeouts.undone),
            w_seconds: summary.w.as_secs_f64(),
            w_tilde: summary.w_tilde,
            b: summary.b,
        }
    }

    /// The columns' heads, for programs or for people, and with the column of undone timeouts.
    #[must_use]
    pub fn head(csv: bool, undo: bool) -> Vec<&'static str> {
        let undone = undo.then_some("undone");
        let measures = if csv { ["w_s", "w_tilde_rtt", "b_percent"] } else { ["W (s)", "W~ (RTT)", "B (%)"] };
        let counts = ["preset", "timeouts", "good", "bad", "repeated"];
        counts.into_iter().chain(undone).chain(measures).collect()
    }

    /// The heads in words.
    pub const LEGEND: &'static str = "\
good: first timeouts of segments that were lost; bad: timeouts of segments that were not
repeated: timeouts of segments that had been sent again
W: time spent waiting for good first timeouts; W~: their mean length in round trips
B: share of timeouts that were bad, as a mean over the connections
";

    /// Its cells below those heads.
    #[must_use]
    pub fn cells(&self, undo: bool) -> Vec<String> {
        let counts = [self.timeouts, self.good, self.bad, self.repeated].map(|count| count.to_string());
        let undone = undo.then(|| self.undone.to_string());
        let measures = [
            format!("{:.3}", self.w_seconds),
            format!("{:.2}", self.w_tilde),
            format!("{:.2}", self.b * 100.0),
        ];
        [self.preset.to_owned()].into_iter().chain(counts).chain(undone).chain(measures).collect()
    }
}

impl EstimateRow {
    /// An estimator's counts.
    #[must_use]
    pub fn new(estimator: Estimator, regions: &Regions) -> Self {
        let [no_estimate, no_impact, loss_prevented, steady_state, optimal, reduced_performance] =
            regions.loss.connections;
        let loss = LossCounts {
            no_estimate,
            no_impact,
            loss_prevented,
            steady_state,
            optimal,
            reduced_performance,
            especially_bad: regions.loss.is_especially_bad(),
        };
        let [no_estimate, unknown_impact, optimal, reduced_performance] = regions.lossless.connections;
        let especially_bad = regions.lossless.is_especially_bad();
        let lossless =
            LosslessCounts { no_estimate, unknown_impact, optimal, reduced_performance, especially_bad };
        Self { estimator: estimator.to_string(), loss, lossless }
    }

    /// The heads of table 5.
    pub const LOSS_HEAD: [&'static str; 8] =
        ["with loss", "no est.", "no imp.", "prv. loss", "stdy. state", "opt.", "tot.", "red. perf."];
    /// The heads of table 6.
    pub const LOSSLESS_HEAD: [&'static str; 5] =
        ["without loss", "no est.", "unk. imp.", "opt.", "red. perf."];

    /// The heads in words.
    pub const LEGEND: &'static str = "\
Shares of the connections. no est.: no estimate; no imp.: it changed nothing; unk. imp.: unknown effect
prv. loss: it prevented the loss; stdy. state: it gave the rate of the steady state; opt.: it was optimal
tot.: these three together; red. perf.: it made the connection slower (*: by far on some)
";

    /// The row of table 5: counts for programs, percentages for people.
    #[must_use]
    pub fn loss_cells(&self, csv: bool) -> Vec<String> {
        let LossCounts {
            no_estimate,
            no_impact,
            loss_prevented,
            steady_state,
            optimal,
            reduced_performance,
            ..
        } = self.loss;
        let helped = loss_prevented + steady_state + optimal;
        let counts =
            [no_estimate, no_impact, loss_prevented, steady_state, optimal, helped, reduced_performance];
        let all = no_estimate + no_impact + helped + reduced_performance;
        self.cells(&counts, all, self.loss.especially_bad, csv)
    }

    /// The row of table 6.
    #[must_use]
    pub fn lossless_cells(&self, csv: bool) -> Vec<String> {
        let LosslessCounts { no_estimate, unknown_impact, optimal, reduced_performance, especially_bad } =
            self.lossless;
        let counts = [no_estimate, unknown_impact, optimal, reduced_performance];
        self.cells(&counts, counts.iter().sum(), especially_bad, csv)
    }

    /// Counts for programs, percentages for people.
    fn cells(&self, counts: &[u32], all: u32, especially_bad: bool, csv: bool) -> Vec<String> {
        let shown = counts.iter().enumerate().map(|(column, count)| {
            let star = if especially_bad && column + 1 == counts.len() { "*" } else { "" };
            match all {
                _ if csv => count.to_string(),
                0 => "-".to_owned(),
                all => format!("{:.0}%{star}", f64::from(*count) * 100.0 / f64::from(all)),
            }
        });
        [self.estimator.clone()].into_iter().chain(shown).collect()
    }
}
