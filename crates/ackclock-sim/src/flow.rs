//! Measurements of a traffic: bytes, times, losses, round trips.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ackclock_core::{ConnectionInfo, Instant, fetch};
use ackclock_wire::random::mix;

use crate::meter::Histogram;

/// Which end of a traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host that opens connections.
    From,
    /// The host that accepts them.
    To,
}

/// The measurements of one traffic.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// When it begins.
    pub start: Instant,
    pub opened: u64,
    pub closed: u64,
    pub failed: u64,
    /// Payload read at `to`, and at `from`.
    pub bytes: [u64; 2],
    pub first_byte: Option<Instant>,
    pub last_byte: Option<Instant>,
    /// When the last of its connections closed in order.
    pub completed: Option<Instant>,
    /// When the last of its connections ended, in order or not.
    pub ended: Option<Instant>,
    /// Totals of the segments of `from`, and of those of `to`, on connections that are over.
    pub sent: [SentTotals; 2],
    pub rtt: [Histogram; 2],
    pub latency: Histogram,
}

impl Flow {
    /// Prefetches it.
    #[inline]
    pub fn warm(&self) {
        fetch(self, size_of::<Self>());
    }
}

/// Totals of the segments that one side's connections sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentTotals {
    pub bytes: u64,
    pub segments: u64,
    pub retransmits: u64,
    pub bytes_retransmitted: u64,
    pub timeouts: u64,
    pub loss_episodes: u64,
}

impl SentTotals {
    pub fn add(&mut self, info: &ConnectionInfo) {
        self.bytes += info.bytes_sent;
        self.segments += info.segments_sent;
        self.retransmits += info.retransmits;
        self.bytes_retransmitted += info.bytes_retransmitted;
        self.timeouts += info.timeouts;
        self.loss_episodes += info.loss_episodes;
    }
}

/// Times one segment of each connection at a time, at the host's edge of the network.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Stopwatches {
    /// The name last looked up, and its watch.
    last: Option<(u64, u32)>,
    watches: Vec<Stopwatch>,
    by_name: HashMap<u64, u32, BuildHasherDefault<NameHasher>>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Stopwatch {
    /// The sequence number after the timed segment, and when it was sent.
    timed: Option<(u32, u64)>,
    /// The next sequence number never sent.
    snd_max: Option<u32>,
    flow: u32,
    side: Side,
}

/// Identifies a connection at its host.
pub(crate) fn name(local_port: u16, remote_node: u32, remote_port: u16) -> u64 {
    u64::from(remote_node) << 32 | u64::from(local_port) << 16 | u64::from(remote_port)
}

impl Stopwatches {
    pub fn insert(&mut self, name: u64, flow: u32, side: Side) {
        let watch = Stopwatch { timed: None, snd_max: None, flow, side };
        let index = match self.free.pop() {
            Some(index) => {
                self.watches[index as usize] = watch;
                index
            }
            None => {
                if self.watches.is_empty() {
                    self.watches.reserve_exact(1);
                }
                self.watches.push(watch);
                (self.watches.len() - 1) as u32
            }
        };
        self.by_name.insert(name, index);
        self.last = None;
    }

    /// Prefetches the first watch; most hosts have one.
    #[inline]
    pub fn warm(&self) {
        if let Some(watch) = self.watches.first() {
            fetch(watch, size_of::<Stopwatch>());
        }
    }

    pub fn remove(&mut self, name: u64) {
        self.free.extend(self.by_name.remove(&name));
        self.last = None;
    }

    /// A segment with payload is sent.
    #[inline]
    pub fn sent(&mut self, name: u64, seq: u32, len: u32, now: u64) {
        let Some(watch) = self.find(name) else { return };
        let end = seq.wrapping_add(len);
        let is_new = watch.snd_max.is_none_or(|max| after(end, max));
        // Karn and Partridge 1987: a retransmission cannot be timed.
        if watch.timed.is_some_and(|(timed, _)| !is_new && !after(seq, timed.wrapping_sub(1))) {
            watch.timed = None;
        }
        if is_new {
            watch.snd_max = Some(end);
            watch.timed = watch.timed.or(Some((end, now)));
        }
    }

    /// An acknowledgement arrives. Returns the round trip with its traffic and side if the timed segment is
    /// acknowledged.
    #[inline]
    pub fn acked(&mut self, name: u64, ack: u32, now: u64) -> Option<(u32, Side, u64)> {
        let watch = self.find(name)?;
        let (end, sent) = watch.timed?;
        if after(end, ack) {
            return None;
        }
        watch.timed = None;
        Some((watch.flow, watch.side, now - sent))
    }

    #[inline]
    fn find(&mut self, name: u64) -> Option<&mut Stopwatch> {
        let index = match self.last {
            Some((last, index)) if last == name => index,
            _ => {
                let index = *self.by_name.get(&name)?;
                self.last = Some((name, index));
                index
            }
        };
        self.watches.get_mut(index as usize)
    }
}

/// Whether `a` is after `b` on the circle of sequence numbers.
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// The simulation itself makes the names, so no key is needed.
#[derive(Clone, Copy, Debug, Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_segment_at_a_time_is_timed_and_none_that_was_repeated() {
        let mut watches = Stopwatches::default();
        watches.insert(7, 3, Side::From);
        watches.sent(7, u32::MAX - 99, 100, 10);
        watches.sent(7, 0, 100, 11);
        assert_eq!(watches.acked(7, u32::MAX - 50, 20), None);
        assert_eq!(watches.acked(7, 0, 30), Some((3, Side::From, 20)));
        assert_eq!(watches.acked(7, 100, 31), None);
        watches.sent(7, 100, 100, 40);
        watches.sent(7, 100, 100, 50);
        assert_eq!(watches.acked(7, 200, 60), None);
        watches.sent(7, 200, 100, 70);
        assert_eq!(watches.acked(7, 300, 75), Some((3, Side::From, 5)));
        assert_eq!(watches.acked(8, 300, 75), None);
    }
}
