//! A. A. Awadallah and C. Rai, "TCP-BFA: Buffer Fill Avoidance", 1998.

mod competing;
mod fairness;
mod sharing;
mod single;
mod transatlantic;
mod variants;

use ackclock_sim::Report;
use ackclock_sim::papers::bfa::{BFA, DELAY_MS, LINK, PAYLOAD_BYTES, RENO, figure_3, ns};
use ackclock_sim::report::FlowReport;

use super::Experiment;
use super::net::BOTTLENECK;
use crate::witness::Witness;

pub(crate) const EXPERIMENTS: &[Experiment] =
    &[single::EXPERIMENT, competing::EXPERIMENT, fairness::EXPERIMENT, transatlantic::EXPERIMENT];

/// Buffers of the graphs: "5-100".
const BUFFERS: [u64; 20] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100];
/// A model by ns' rules and the paper's: sources (`bfa+reno`) with the numbers of buffers in [`MODELLED`].
const MODEL: Witness = Witness::new(include_str!("../../tests/vectors/bfa.csv"));
const MODELLED: [u64; 11] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

/// Packets delivered in order per second over `seconds`.
fn throughput(flow: &FlowReport, seconds: f64) -> f64 {
    flow.there.bytes as f64 / PAYLOAD_BYTES as f64 / seconds
}

/// Throughput over delay (§1, Jain 1989, Kleinrock 1979), the delay being the mean of the round trips timed.
fn power(flow: &FlowReport, seconds: f64) -> f64 {
    ackclock_sim::report::power(throughput(flow, seconds), flow.there.rtt.mean)
}

/// Packets that the bottleneck dropped.
fn drops(report: &Report) -> f64 {
    report.link(BOTTLENECK).map_or(0, |link| link.drops.iter().map(|(_, count)| *count).sum::<u64>()) as f64
}
