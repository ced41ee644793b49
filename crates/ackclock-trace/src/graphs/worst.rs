//! Which of many connections deserve a look first.

use std::cmp::Reverse;

use super::timeline;
use crate::explain::{Waiting, account};
use crate::file::Trace;

/// The numbers of the connections that sent data, the worst first: those that lost the most time to timeouts,
/// tail probes and recovery, then those that retransmitted the most bytes.
#[must_use]
pub fn worst(trace: &Trace) -> Vec<usize> {
    let lost_time = [Waiting::Timeout, Waiting::TailProbe, Waiting::Recovery];
    let mut all: Vec<_> = trace
        .connections()
        .filter(|source| timeline::has_data(source))
        .map(|source| {
            let account = account(source);
            let lost: std::time::Duration =
                lost_time.iter().filter_map(|kind| account.waits.time.get(kind)).sum();
            (Reverse((lost, account.again.bytes)), source.number)
        })
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, number)| number).collect()
}
