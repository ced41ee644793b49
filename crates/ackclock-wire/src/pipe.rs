//! One direction of an emulated path, without a clock and without chance.
//!
//! A packet that comes in is transmitted, one after the other at the caller's rate, and then delayed. Who
//! emulates a path draws what is lost, doubled, damaged or held back, and says when each packet comes out;
//! L. Rizzo calls this part a pipe ("Dummynet: a simple approach to the evaluation of network protocols",
//! CCR 27 (1), 1997).

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// One direction of a path. `T` is the caller's time.
///
/// ```
/// use ackclock_wire::pipe::{Pipe, transmission_time};
/// use std::time::Duration;
///
/// // 1,500 bytes at 12 Mbit/s, with a delay of 5 ms.
/// let (mut pipe, start) = (Pipe::new(), Duration::ZERO);
/// let departs = pipe.transmit(start, 1500, transmission_time(1500, 12_000_000));
/// pipe.carry(departs + Duration::from_millis(5), "packet");
/// assert_eq!(pipe.next_due(), Some(Duration::from_millis(6)));
/// assert_eq!(pipe.take_due(Duration::from_millis(5)), None);
/// assert_eq!(pipe.take_due(Duration::from_millis(6)), Some((Duration::from_millis(6), "packet")));
/// ```
#[derive(Clone, Debug)]
pub struct Pipe<T, P> {
    /// For each packet in transmission or waiting for it: when it will have left, and its length.
    departures: VecDeque<(T, usize)>,
    /// The total bytes of `departures`.
    departing_bytes: usize,
    /// The packets after transmission, by the time when they come out; those with equal times in order.
    line: BinaryHeap<Reverse<InTransit<T, P>>>,
    carried: u64,
}

/// The packets in front of one that comes in. The first is in transmission, the others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog<T> {
    /// How many there are.
    pub packets: usize,
    /// The total bytes of those that wait.
    pub waiting_bytes: usize,
    /// When the last one will have left; now, if there is none.
    pub clear_at: T,
}

impl<T: Copy + Ord + Add<Duration, Output = T>, P> Pipe<T, P> {
    /// An empty pipe.
    #[must_use]
    pub fn new() -> Self {
        Self { departures: VecDeque::new(), departing_bytes: 0, line: BinaryHeap::new(), carried: 0 }
    }

    /// The backlog that a packet finds if it comes in now.
    pub fn backlog(&mut self, now: T) -> Backlog<T> {
        while let Some((_, gone)) = self.departures.front().filter(|(departure, _)| *departure <= now) {
            self.departing_bytes = self.departing_bytes.saturating_sub(*gone);
            self.departures.pop_front();
        }
        let transmitted = self.departures.front().map_or(0, |(_, len)| *len);
        Backlog {
            packets: self.departures.len(),
            waiting_bytes: self.departing_bytes.saturating_sub(transmitted),
            clear_at: self.departures.back().map_or(now, |(departure, _)| *departure),
        }
    }

    /// Transmits a packet of `len` bytes, which takes `takes`, after those that came in before. Returns when
    /// it will have left.
    pub fn transmit(&mut self, now: T, len: usize, takes: Duration) -> T {
        #[expect(clippy::arithmetic_side_effects, reason = "the caller's time says how it overflows")]
        let departure = self.backlog(now).clear_at + takes;
        self.departures.push_back((departure, len));
        self.departing_bytes = self.departing_bytes.saturating_add(len);
        departure
    }

    /// How many packets had not left when a packet last came in, itself included.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.departures.len()
    }

    /// Lets a packet come out at this time.
    pub fn carry(&mut self, due: T, packet: P) {
        self.carried = self.carried.wrapping_add(1);
        self.line.push(Reverse(InTransit { due, number: self.carried, packet }));
    }

    /// How many packets have been transmitted and have not come out.
    #[must_use]
    pub fn in_transit(&self) -> usize {
        self.line.len()
    }

    /// When the next packet comes out.
    #[must_use]
    pub fn next_due(&self) -> Option<T> {
        self.line.peek().map(|Reverse(next)| next.due)
    }

    /// The next packet that has come out by `now`, and when it did.
    pub fn take_due(&mut self, now: T) -> Option<(T, P)> {
        self.next_due().filter(|due| *due <= now)?;
        self.line.pop().map(|Reverse(InTransit { due, packet, .. })| (due, packet))
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>, P> Default for Pipe<T, P> {
    fn default() -> Self {
        Self::new()
    }
}

/// How long a packet of `len` bytes takes at this rate, rounded up.
#[must_use]
pub fn transmission_time(len: usize, rate_bps: u64) -> Duration {
    let bit_nanos = (len as u128).saturating_mul(8_000_000_000);
    let nanos = bit_nanos.div_ceil(u128::from(rate_bps.max(1)));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A packet in transit. Only its time and number order it.
#[derive(Clone)]
struct InTransit<T, P> {
    due: T,
    number: u64,
    packet: P,
}

impl<T: fmt::Debug, P: fmt::Debug> fmt::Debug for InTransit<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?}", self.due, self.packet)
    }
}

impl<T: Ord, P> Ord for InTransit<T, P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.due, self.number).cmp(&(&other.due, other.number))
    }
}

impl<T: Ord, P> PartialOrd for InTransit<T, P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord, P> PartialEq for InTransit<T, P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Ord, P> Eq for InTransit<T, P> {}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn packets_leave_one_after_the_other_and_an_idle_transmitter_starts_at_once() {
        let mut pipe = Pipe::<Duration, u8>::new();
        assert_eq!(pipe.transmit(MS, 100, MS), 2 * MS);
        assert_eq!(pipe.transmit(MS, 200, 3 * MS), 5 * MS);
        let backlog = pipe.backlog(2 * MS - Duration::from_nanos(1));
        assert_eq!(backlog, Backlog { packets: 2, waiting_bytes: 200, clear_at: 5 * MS });
        // A packet that leaves at this very time is no longer in front, and the next is in transmission.
        assert_eq!(pipe.backlog(2 * MS), Backlog { packets: 1, waiting_bytes: 0, clear_at: 5 * MS });
        assert_eq!(pipe.backlog(7 * MS), Backlog { packets: 0, waiting_bytes: 0, clear_at: 7 * MS });
        assert_eq!(pipe.transmit(7 * MS, 100, MS), 8 * MS);
        assert_eq!(pipe.queued(), 1);
    }

    #[test]
    fn packets_come_out_by_time_and_in_order_of_entry_where_times_are_equal() {
        let mut pipe = Pipe::new();
        for (due, packet) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            pipe.carry(due * MS, packet);
        }
        assert_eq!((pipe.next_due(), pipe.in_transit()), (Some(3 * MS), 4));
        assert_eq!(pipe.take_due(2 * MS), None);
        let out: Vec<_> = std::iter::from_fn(|| pipe.take_due(4 * MS)).collect();
        assert_eq!(out, [(3 * MS, 'b'), (3 * MS, 'd')]);
        let out: Vec<_> = std::iter::from_fn(|| pipe.take_due(9 * MS)).collect();
        assert_eq!(out, [(5 * MS, 'a'), (5 * MS, 'c')]);
        assert_eq!((pipe.next_due(), pipe.in_transit()), (None, 0));
    }

    #[test]
    fn transmission_takes_bits_by_rate_rounded_up() {
        assert_eq!(transmission_time(1500, 12_000_000), MS);
        // 8 / 3 of a second.
        assert_eq!(transmission_time(1, 3), Duration::from_nanos(2_666_666_667));
        assert_eq!(transmission_time(usize::MAX, 1), Duration::from_nanos(u64::MAX));
    }
}
