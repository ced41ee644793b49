//! Which of many connections deserve a look first.

use std::cmp::Reverse;
use std::time::Duration;

use super::timeline;
use crate::explain::{Account, Waiting, account};
use crate::file::Trace;

/// The numbers of the connections that sent data, the worst first: those that lost the most time to timeouts,
/// tail probes and recovery, then those that retransmitted the most bytes, then those that sent the most.
#[must_use]
pub fn worst(trace: &Trace) -> Vec<usize> {
    let mut all: Vec<_> = trace
        .connections()
        .filter(|source| timeline::has_data(source))
        .map(|source| {
            let account = account(source);
            (Reverse((lost_time(&account), account.again.bytes, account.bytes_sent)), source.number)
        })
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, number)| number).collect()
}

/// The time that a connection lost to timeouts, tail probes and recovery.
#[must_use]
pub fn lost_time(account: &Account) -> Duration {
    let kinds = [Waiting::Timeout, Waiting::TailProbe, Waiting::Recovery];
    kinds.iter().filter_map(|kind| account.waits.time.get(kind)).sum()
}
