//! Packet bunch modes: the bandwidth at which bunches of packets arrive most often.
//!
//! V. Paxson, "End-to-End Internet Packet Dynamics", SIGCOMM 1997 (his dissertation has the details), as M.
//! Allman and V. Paxson use it (SIGCOMM 1999, §3.2): PBM over a whole trace as the benchmark, PBM′ up to the
//! first loss.
//!
//! Deviations: of Paxson's method the core, without its search for changes of route and for links of several
//! channels: bunches of two to five packets give one estimate each; the mode is the densest range of a fifth
//! among all of them, and the answer the median within it.

use super::bytes_per_second;
use crate::Instant;

/// PBM over arrivals at the receiver: times and payload bytes. The bandwidth in bytes a second, if there is a
/// mode.
pub fn pbm(arrivals: impl IntoIterator<Item = (Instant, u64)>) -> Option<u64> {
    let arrivals: Vec<(Instant, u64)> = arrivals.into_iter().take(ARRIVALS_MAX).collect();
    let mut estimates: Vec<u64> = BUNCHES.flat_map(|size| bunches(&arrivals, size)).collect();
    estimates.sort_unstable();
    let mode = densest(&estimates)?;
    mode.get(mode.len() / 2).copied()
}

/// PBM′: as [`pbm`], up to the first loss, which `lost` tells for each arrival.
pub fn pbm_prime(arrivals: impl IntoIterator<Item = (Instant, u64, bool)>) -> Option<u64> {
    pbm(arrivals.into_iter().take_while(|(.., lost)| !lost).map(|(at, bytes, _)| (at, bytes)))
}

/// One estimate for each bunch of `size` packets in a row: the bytes after the first, in the time since it.
fn bunches(arrivals: &[(Instant, u64)], size: usize) -> impl Iterator<Item = u64> + '_ {
    arrivals.windows(size).filter_map(|bunch| {
        let (&(first, _), rest) = bunch.split_first()?;
        let &(last, _) = rest.last()?;
        bytes_per_second(rest.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes)), first, last)
    })
}

/// The largest run of the sorted estimates in which the last is at most a fifth above the first; at least
/// two.
fn densest(sorted: &[u64]) -> Option<&[u64]> {
    let mut best: &[u64] = &[];
    let mut end = 0;
    for (start, &low) in sorted.iter().enumerate() {
        let high = low.saturating_add(low / 5);
        while sorted.get(end).is_some_and(|&estimate| estimate <= high) {
            end += 1;
        }
        let run = sorted.get(start..end)?;
        if run.len() > best.len() {
            best = run;
        }
    }
    (best.len() >= 2).then_some(best)
}

const BUNCHES: std::ops::RangeInclusive<usize> = 2..=5;
/// The most arrivals looked at: a trace of 1.5 GB.
const ARRIVALS_MAX: usize = 1 << 20;
