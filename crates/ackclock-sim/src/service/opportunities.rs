//! Turns at the delivery opportunities of a trace, as in Mahimahi.
//!
//! An opportunity carries 1,504 bytes of what waits at its time: several small packets, or a part of one. The
//! rest of the packet leaves with the next. Unused bytes of an opportunity are lost.

use crate::link_trace::{self, Kind, LinkTrace, OPPORTUNITY_BYTES};

/// The opportunities of a link.
#[derive(Debug)]
pub(super) struct Opportunities {
    trace: LinkTrace,
    /// The next one, counted from the first of the first round.
    next: u64,
    /// Bytes left of the one in use.
    left: u32,
    /// Bytes of the packet at the head that still have to leave; 0 if none has left.
    owed: u32,
}

impl Opportunities {
    pub fn new(trace: LinkTrace) -> Self {
        Self { trace, next: 0, left: 0, owed: 0 }
    }

    pub fn turn(&mut self, from: u64) -> u64 {
        if self.time() < from {
            self.next = self.times().map_or(0, |times| times.first_from(from));
        }
        self.time()
    }

    pub fn has_room(&self, now: u64) -> bool {
        self.left > 0 || self.time() <= now
    }

    pub fn take(&mut self, now: u64, bytes: u32) -> bool {
        if self.owed == 0 {
            self.owed = bytes;
        }
        loop {
            let used = self.left.min(self.owed);
            self.left -= used;
            self.owed -= used;
            if self.owed == 0 {
                return true;
            }
            if self.time() > now {
                return false;
            }
            self.next += 1;
            self.left = OPPORTUNITY_BYTES;
        }
    }

    pub fn close(&mut self, now: u64) -> u64 {
        self.left = 0;
        now
    }

    pub fn bits_until(&self, until: u64) -> u128 {
        self.times().map_or(0, |times| times.bits_until(until))
    }

    fn time(&self) -> u64 {
        self.times().map_or(u64::MAX, |times| times.time(self.next))
    }

    fn times(&self) -> Option<&link_trace::Opportunities> {
        match self.trace.kind() {
            Kind::Opportunities(times) => Some(times),
            Kind::Conditions(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opportunities(text: &str) -> Opportunities {
        Opportunities::new(LinkTrace::parse(text).expect("a trace"))
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn an_opportunity_carries_1504_bytes_in_packets_and_parts_of_packets() {
        let mut link = opportunities("1");
        assert_eq!(link.turn(0), MS);
        // Three leave at once; of the fourth, 504 bytes stay.
        assert!([500, 500, 4].iter().all(|bytes| link.take(MS, *bytes)));
        assert!(link.has_room(MS) && !link.take(MS, 1004));
        assert!(!link.has_room(MS));
        assert_eq!(link.close(MS), MS);
        assert_eq!(link.turn(MS), 2 * MS);
        assert!(link.take(2 * MS, 1004), "504 bytes of it were left");
        assert!(link.take(2 * MS, 1000));
        link.close(2 * MS);
        // The unused bytes of the last one are lost.
        assert_eq!(link.turn(2 * MS + 1), 3 * MS);
        assert!(!link.take(3 * MS, 1505));
    }

    #[test]
    fn opportunities_of_one_time_are_one_turn() {
        let mut link = opportunities("5\n5\n5\n");
        assert_eq!(link.turn(0), 5 * MS);
        assert!((0..3).all(|_| link.has_room(5 * MS) && link.take(5 * MS, 1500)));
        assert!(link.has_room(5 * MS) && !link.take(5 * MS, 1500), "12 bytes were left");
        link.close(5 * MS);
        assert_eq!(link.turn(5 * MS), 10 * MS);
    }

    #[test]
    fn a_large_packet_takes_as_many_as_it_needs() {
        let mut link = opportunities("1");
        for turn in 1..=6 {
            assert_eq!(link.turn(0), turn * MS);
            assert_eq!(link.take(turn * MS, 9000), turn == 6);
            link.close(turn * MS);
        }
    }

    #[test]
    fn an_idle_link_misses_its_opportunities() {
        let mut link = opportunities("1\n4\n");
        assert_eq!(link.turn(100 * MS), 100 * MS, "the 25th round ends then");
        assert_eq!(link.turn(100 * MS + 1), 101 * MS);
    }
}
