//! One direction of the emulated path: loss by number, a bottleneck with a bounded queue, a fixed delay.
//!
//! Time is nanoseconds from an epoch that the caller chooses.

use std::collections::VecDeque;
use std::time::Duration;

/// What a direction does to packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaneSpec {
    /// From the bottleneck's end to the other end of the path.
    pub delay: Duration,
    /// Bits of IP packet a second; `None`: no bottleneck.
    pub rate_bps: Option<u64>,
    /// Bytes that fit in front of the bottleneck, the packet in transmission among them.
    pub queue_bytes: u64,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Decides which ones are.
    pub seed: u64,
}

/// One direction.
#[derive(Debug)]
pub struct Lane {
    spec: LaneSpec,
    /// When the bottleneck has sent all it has.
    idle_at: u64,
    line: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    counts: LaneCounts,
}

/// What a direction has done so far, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LaneCounts {
    /// Came in.
    pub offered: u64,
    /// Could be lost: those that belong to a connection's course, see [`Lane::offer`].
    pub drawn: u64,
    /// Of these, were lost.
    pub lost: u64,
    /// Found the queue of the bottleneck full.
    pub queue_full: u64,
    /// Came out.
    pub delivered: u64,
}

/// What became of a packet that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It will come out.
    Delivered,
    /// Chance has taken it.
    Lost,
    /// The queue was full.
    QueueFull,
}

impl Lane {
    /// An empty direction.
    #[must_use]
    pub fn new(spec: LaneSpec) -> Self {
        let counts = LaneCounts::default();
        Self { spec, idle_at: 0, line: VecDeque::new(), spare: Vec::new(), counts }
    }

    /// Takes in a packet. If it is `at_risk`, the number of packets at risk before it and the seed decide whether it is
    /// lost, nothing else: two senders that are compared lose their k-th packet both, or both do not.
    pub fn offer(&mut self, now: u64, packet: &[u8], at_risk: bool) -> Fate {
        self.counts.offered += 1;
        if at_risk {
            let number = self.counts.drawn;
            self.counts.drawn += 1;
            if is_lost(self.spec.seed, number, self.spec.loss) {
                self.counts.lost += 1;
                return Fate::Lost;
            }
        }
        let Some(departure) = self.departure(now, packet.len()) else {
            self.counts.queue_full += 1;
            return Fate::QueueFull;
        };
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(packet);
        self.line.push_back((departure + nanos(self.spec.delay), bytes));
        Fate::Delivered
    }

    /// When the next packet comes out.
    #[must_use]
    pub fn next_release(&self) -> Option<u64> {
        self.line.front().map(|(release, _)| *release)
    }

    /// Takes out the next packet if its time has come, and says when that was. Give it back to [`Lane::reuse`].
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        self.line.front().filter(|(release, _)| *release <= now)?;
        self.counts.delivered += 1;
        self.line.pop_front()
    }

    /// Takes back the memory of a packet.
    pub fn reuse(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(bytes);
        }
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> LaneCounts {
        self.counts
    }

    /// When a packet of `len` bytes that comes now has left the bottleneck; `None`: the queue is full.
    fn departure(&mut self, now: u64, len: usize) -> Option<u64> {
        let Some(rate_bps) = self.spec.rate_bps else { return Some(now) };
        let takes = |bytes: u64| bytes.saturating_mul(8_000_000_000).div_ceil(rate_bps);
        let start = self.idle_at.max(now);
        let departure = start + takes(len as u64);
        if departure - now > takes(self.spec.queue_bytes) {
            return None;
        }
        self.idle_at = departure;
        Some(departure)
    }
}

/// Whether the packet with this number is lost.
fn is_lost(seed: u64, number: u64, loss: f64) -> bool {
    let word = mix(seed ^ mix(number.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    (word >> 11) as f64 * (1.0 / (1_u64 << 53) as f64) < loss
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Packets whose memory is kept.
const SPARE_MAX: usize = 4096;
