//! Measurements of flows through one bottleneck.

use serde::{Deserialize, Serialize};

use crate::Report;
use crate::dumbbell::BOTTLENECK;
use crate::report::{jain_index, power};
use crate::units::Span;

/// The results of the flows through a [`shared`](crate::dumbbell::shared) bottleneck, over the whole
/// run from its first packet on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Payload read by the b's, in bytes a second.
    pub throughput: f64,
    /// Share of the time in which the bottleneck was sending.
    pub utilisation: f64,
    /// Share of the payload sent that was a retransmission.
    pub retransmitted: f64,
    /// Expiries of retransmission timers.
    pub timeouts: f64,
    /// Mean time in the bottleneck's queue, in seconds.
    pub queue_mean: f64,
    /// The 99th percentile of that time, in seconds.
    pub queue_p99: f64,
    /// Throughput over delay, in bytes per second squared. The delay is the empty path's round trip plus the
    /// mean time in the queue.
    pub power: f64,
    /// Jain's index of the flows' throughputs.
    pub jain: f64,
    /// Packets that the bottleneck marked.
    pub marked: f64,
    /// Payload of each flow that was read, in bytes a second.
    pub flows: Vec<f64>,
}

impl Measures {
    /// The measures of a report, on a path whose empty round trip takes `base_rtt`.
    #[must_use]
    pub fn of(report: &Report, base_rtt: Span) -> Self {
        let there = || report.flows.iter().map(|flow| flow.there);
        let flows: Vec<f64> = there().map(|way| way.bytes as f64 / report.time).collect();
        let sent: u64 = there().map(|way| way.bytes_sent).sum();
        let again: u64 = there().map(|way| way.bytes_retransmitted).sum();
        let throughput = flows.iter().sum();
        let link = report.link(BOTTLENECK);
        let queue = link.map(|link| link.queue_delay).unwrap_or_default();
        Self {
            throughput,
            utilisation: link.map_or(0.0, |link| link.utilisation),
            retransmitted: if sent == 0 { 0.0 } else { again as f64 / sent as f64 },
            timeouts: there().map(|way| way.timeouts).sum::<u64>() as f64,
            queue_mean: queue.mean,
            queue_p99: queue.p99,
            power: power(throughput, base_rtt.0 as f64 / 1e9 + queue.mean),
            jain: jain_index(&flows),
            marked: link.map_or(0.0, |link| link.marked as f64),
            flows,
        }
    }

    /// The mean of several, value by value; zeros without any.
    #[must_use]
    pub fn mean(of: &[Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| of.iter().map(value).sum::<f64>() / of.len().max(1) as f64;
        let count = of.iter().map(|one| one.flows.len()).min().unwrap_or(0);
        let flow = |index: usize| of.iter().map(|one| one.flows[index]).sum::<f64>() / of.len() as f64;
        Self {
            throughput: mean(|one| one.throughput),
            utilisation: mean(|one| one.utilisation),
            retransmitted: mean(|one| one.retransmitted),
            timeouts: mean(|one| one.timeouts),
            queue_mean: mean(|one| one.queue_mean),
            queue_p99: mean(|one| one.queue_p99),
            power: mean(|one| one.power),
            jain: mean(|one| one.jain),
            marked: mean(|one| one.marked),
            flows: (0..count).map(flow).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_taken_value_by_value() {
        let one = |throughput, jain| Measures {
            throughput,
            jain,
            flows: vec![throughput, 1.0],
            ..Measures::default()
        };
        let mean = Measures::mean(&[one(1.0, 0.5), one(3.0, 1.0)]);
        assert_eq!((mean.throughput, mean.jain, mean.flows), (2.0, 0.75, vec![2.0, 1.0]));
        assert_eq!(Measures::mean(&[]), Measures::default());
    }
}
