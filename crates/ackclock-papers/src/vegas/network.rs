//! Shared by the experiments of Brakmo and Peterson: the measurements of a transfer. The network of fig. 6
//! and the senders are in [`ackclock_sim::papers::vegas`].
//!
//! [`super::alone`] and [`super::one_on_one`] show the results of other choices than those made there.

pub(super) use ackclock_sim::papers::vegas::{
    KB, MEGABYTE, NEWRENO, OTHER_RENOS, RENO, Sender, VEGAS, VEGAS_2_4, VEGAS_LATE, VEGAS_LINUX_LIKE,
    VEGAS_STAR, fig6, transfer,
};
use ackclock_sim::report::FlowReport;
use ackclock_sim::units::Span;
use ackclock_sim::{Report, Scenario, Simulation};
use anyhow::{Context, ensure};

use crate::changes;
use crate::many::Summary;

/// Runs until the transfers with these names are over.
pub(super) fn run_until_over(scenario: &Scenario, names: &[&str]) -> anyhow::Result<Report> {
    until_over(&mut changes::simulation(scenario)?, scenario, names)
}

/// Runs an observed simulation to its end.
pub(super) fn until_over(
    simulation: &mut Simulation,
    scenario: &Scenario,
    names: &[&str],
) -> anyhow::Result<Report> {
    let report = until_over_or_end(simulation, scenario, names);
    let (seed, time) = (scenario.seed, report.time);
    ensure!(are_over(&report, names), "with seed {seed}, {names:?} are not over after {time} s");
    Ok(report)
}

/// Runs until the transfers with these names are over, or the scenario is.
pub(super) fn until_over_or_end(simulation: &mut Simulation, scenario: &Scenario, names: &[&str]) -> Report {
    let mut now = ackclock_core::Instant::ZERO;
    loop {
        now += Span::seconds(2).duration();
        simulation.run_until(now);
        let report = simulation.report();
        if are_over(&report, names) || now.as_nanos() >= scenario.duration.0 {
            return report;
        }
    }
}

fn are_over(report: &Report, names: &[&str]) -> bool {
    names.iter().all(|name| report.flow(name).is_some_and(|flow| flow.completed.is_some()))
}

/// The results of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Transfer {
    /// KB/s from the start to the last byte.
    pub throughput: f64,
    /// KB retransmitted.
    pub retransmitted: f64,
    /// Coarse timeouts.
    pub timeouts: f64,
}

impl Transfer {
    pub fn of(report: &Report, name: &str) -> anyhow::Result<Self> {
        Ok(flow(report, name)?.into())
    }
}

impl From<&FlowReport> for Transfer {
    fn from(flow: &FlowReport) -> Self {
        Self {
            throughput: flow.goodput_bytes_per_second / KB as f64,
            retransmitted: flow.there.bytes_retransmitted as f64 / KB as f64,
            timeouts: flow.there.timeouts as f64,
        }
    }
}

/// Several transfers, summed up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfers {
    pub throughput: Summary,
    pub retransmitted: Summary,
    pub timeouts: Summary,
}

impl Transfers {
    pub fn of(all: &[Transfer]) -> Self {
        let over = |measure: fn(&Transfer) -> f64| Summary::of(all.iter().map(measure));
        Self {
            throughput: over(|one| one.throughput),
            retransmitted: over(|one| one.retransmitted),
            timeouts: over(|one| one.timeouts),
        }
    }

    /// Throughput, KB retransmitted and timeouts, for a table.
    pub fn cells(&self) -> [String; 3] {
        let Self { throughput, retransmitted, timeouts } = self;
        [
            format!("{:.1}", throughput.mean),
            format!("{:.1}", retransmitted.mean),
            format!("{:.2}", timeouts.mean),
        ]
    }
}

/// The head of a table with [`Transfers::cells`] of these senders between other columns; without senders, of
/// an unnamed one.
pub(super) fn head(first: &[&str], senders: &[Sender], last: &[&str]) -> Vec<String> {
    let of = |throughput: String| [throughput, "sent again (KB)".to_owned(), "timeouts".to_owned()];
    let named = senders.iter().map(|sender| of(format!("{} (KB/s)", sender.name)));
    let unnamed = senders.is_empty().then(|| of("KB/s".to_owned()));
    let columns = named.chain(unnamed).flatten();
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    owned(first).into_iter().chain(columns).chain(owned(last)).collect()
}

/// A traffic of a report.
pub(super) fn flow<'a>(report: &'a Report, name: &str) -> anyhow::Result<&'a FlowReport> {
    report.flow(name).with_context(|| format!("there is no traffic `{name}` in the report"))
}

/// One value over another.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { f64::NAN } else { part / whole }
}
