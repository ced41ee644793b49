//! The settings of an impaired direction, and its statistics.

use std::time::Duration;

use ackclock_control::quantity::Share;

/// The impairment of one direction.
///
/// They apply in this order: blackout, loss, marks, duplication, corruption, the bottleneck's queue and rate,
/// then delay, jitter and reordering. The default impairs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Rate of the bottleneck in bits of IP packet per second; `None`: no bottleneck.
    pub rate_bps: Option<u64>,
    /// How many packets may wait for the bottleneck. Further packets are dropped.
    pub queue_packets: usize,
    /// How many bytes may wait for the bottleneck; `None`: no limit beyond that on packets.
    pub queue_bytes: Option<usize>,
    /// A packet that finds at least this many waiting for the bottleneck is marked with Congestion
    /// Experienced, if it is ECN-capable; `None`: never.
    pub mark_above: Option<usize>,
    /// Probability of such a mark, whatever waits.
    pub mark: Share,
    /// Added to each packet's delay.
    pub delay: Duration,
    /// Up to this much is added on top, evenly distributed. It does not let packets overtake each other.
    pub jitter: Duration,
    /// Probability that a packet is lost.
    pub loss: Share,
    /// Probability that a packet is followed by a copy of itself.
    pub duplicate: Share,
    /// Probability that one bit of a packet, anywhere in it, is flipped.
    pub corrupt: Share,
    /// Probability that a packet is held back until others have overtaken it.
    pub reorder: Share,
    /// How many packets overtake one that is held back; it waits for them no longer than 20 ms.
    pub reorder_depth: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate_bps: None,
            queue_packets: 1000,
            queue_bytes: None,
            mark_above: None,
            mark: Share::ZERO,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Share::ZERO,
            duplicate: Share::ZERO,
            corrupt: Share::ZERO,
            reorder: Share::ZERO,
            reorder_depth: 3,
        }
    }
}

impl Settings {
    /// Checks that each value is possible.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if self.rate_bps == Some(0) { Err(SettingsError::RateZero) } else { Ok(()) }
    }
}

/// Why settings are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A rate at which nothing would ever pass.
    #[error("a rate of 0 bit/s lets nothing through; use a blackout for that")]
    RateZero,
}

/// Statistics of a direction, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Came in.
    pub offered: u64,
    /// Dropped by a blackout.
    pub blacked_out: u64,
    /// Dropped by chance.
    pub lost: u64,
    /// Dropped because the bottleneck's queue (or the delay line) was full.
    pub queue_full: u64,
    /// Marked with Congestion Experienced.
    pub marked: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Had a bit flipped.
    pub corrupted: u64,
    /// Overtaken by at least one later packet.
    pub reordered: u64,
    /// Went out, copies included.
    pub delivered: u64,
}
