//! Packet bunch modes: the bandwidth at which bunches of packets arrive most often.
//!
//! V. Paxson, "End-to-End Internet Packet Dynamics", SIGCOMM 1997 (his dissertation has the details), as used
//! by M. Allman and V. Paxson (SIGCOMM 1999, §3.2): PBM over a whole trace is the benchmark, PBM′ stops at
//! the first loss.
//!
//! A path shows its bandwidth only to packets that are sent faster than it. Where the sender's side of the
//! trace is known, a bunch therefore counts only if its packets arrived at least twice as far apart as they
//! were sent. Other bunches show the pace of the sender; in slow start, that is the pace of its round trips.
//!
//! Deviations: this is the core of Paxson's method, without its search for route changes and multi-channel
//! links. Bunches of two to five packets give one estimate each. The mode is the densest range of a fifth
//! among them, and the answer is the median of that range. Paxson derives from the clocks' resolution how
//! fast a bunch must be sent; here the bound is the factor of two.

use super::bytes_per_second;
use crate::Instant;

/// A packet seen at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When the packet left the sender, by the sender's clock.
    pub sent: Instant,
    /// When the packet arrived at the receiver, by the receiver's clock.
    pub arrived: Instant,
    /// Its payload.
    pub bytes: u64,
}

/// PBM over arrivals at the receiver, given as times and payload bytes, where the sender's side is not known.
/// Returns the bandwidth in bytes a second, or `None` without a mode.
pub fn pbm(arrivals: impl IntoIterator<Item = (Instant, u64)>) -> Option<u64> {
    let sent = Instant::ZERO;
    pbm_between(arrivals.into_iter().map(|(arrived, bytes)| Passage { sent, arrived, bytes }))
}

/// PBM′: as [`pbm`], up to the first arrival whose flag reports a loss.
pub fn pbm_prime(arrivals: impl IntoIterator<Item = (Instant, u64, bool)>) -> Option<u64> {
    pbm(arrivals.into_iter().take_while(|(.., lost)| !lost).map(|(at, bytes, _)| (at, bytes)))
}

/// PBM over packets seen at both ends, in order of arrival. Returns the bandwidth in bytes a second, or
/// `None` without a mode.
pub fn pbm_between(packets: impl IntoIterator<Item = Passage>) -> Option<u64> {
    let packets: Vec<Passage> = packets.into_iter().take(PACKETS_MAX).collect();
    let mut estimates: Vec<u64> = BUNCHES.flat_map(|size| bunches(&packets, size)).collect();
    estimates.sort_unstable();
    let mode = densest(&estimates)?;
    mode.get(mode.len() / 2).copied()
}

/// One estimate for each bunch of `size` consecutive packets that the path spread: the bytes after the first
/// packet, over the time since it.
fn bunches(packets: &[Passage], size: usize) -> impl Iterator<Item = u64> + '_ {
    packets.windows(size).filter_map(|bunch| {
        let (first, rest) = bunch.split_first()?;
        let last = rest.last()?;
        let (sent_in, arrived_in) =
            (last.sent.saturating_since(first.sent), last.arrived.saturating_since(first.arrived));
        if sent_in.saturating_mul(SPREAD_MIN) > arrived_in {
            return None;
        }
        let bytes = rest.iter().fold(0, |sum: u64, packet| sum.saturating_add(packet.bytes));
        bytes_per_second(bytes, first.arrived, last.arrived)
    })
}

/// The largest run of the sorted estimates whose last value is at most a fifth above its first. It has at
/// least two.
fn densest(sorted: &[u64]) -> Option<&[u64]> {
    let mut best: &[u64] = &[];
    for (start, &low) in sorted.iter().enumerate() {
        let high = low.saturating_add(low / 5);
        let end = sorted.partition_point(|&estimate| estimate <= high);
        let run = sorted.get(start..end)?;
        if run.len() > best.len() {
            best = run;
        }
    }
    (best.len() >= 2).then_some(best)
}

const BUNCHES: std::ops::RangeInclusive<usize> = 2..=5;
/// How many times longer a bunch must take to arrive than to send.
const SPREAD_MIN: u32 = 2;
/// The largest number of packets considered: a trace of 1.5 GB.
const PACKETS_MAX: usize = 1 << 20;
