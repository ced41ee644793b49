//! The packets on the wires: for each wire a queue in order of arrival, linked through one table.
//!
//! A packet is on one wire at a time, so its slot in the table is its number. The table is small and stays in
//! the caches. With a separate queue for each of thousands of links, every packet would miss the cache.

use crate::near::Key;
use crate::packet::PacketId;

/// All packets on wires, by their number.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    legs: Vec<Leg>,
}

/// The packets on one wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    first: u32,
    last: u32,
}

/// When a packet arrives, and the packet behind it.
#[derive(Clone, Copy, Debug)]
struct Leg {
    arrives: Key,
    next: u32,
}

impl Flight {
    /// An empty wire.
    pub const NONE: Self = Self { first: NIL, last: NIL };
}

impl Flights {
    /// Appends a packet to a wire. Returns whether the wire was empty.
    #[inline]
    pub fn push(&mut self, flight: &mut Flight, packet: PacketId, arrives: Key) -> bool {
        let index = packet.0 as usize;
        if index >= self.legs.len() {
            self.legs.resize(index + 1, Leg::NONE);
        }
        self.legs[index] = Leg { arrives, next: NIL };
        let is_first = flight.first == NIL;
        if is_first {
            flight.first = packet.0;
        } else {
            self.legs[flight.last as usize].next = packet.0;
        }
        flight.last = packet.0;
        is_first
    }

    /// The first packet on a wire.
    #[inline]
    pub fn first(&self, flight: Flight) -> Option<PacketId> {
        (flight.first != NIL).then_some(PacketId(flight.first))
    }

    /// Removes the first packet from a wire. Returns it and the arrival time of the next.
    #[inline]
    pub fn pop(&mut self, flight: &mut Flight) -> (Option<PacketId>, Option<Key>) {
        let Some(leg) = self.legs.get(flight.first as usize) else { return (None, None) };
        let packet = PacketId(std::mem::replace(&mut flight.first, leg.next));
        (Some(packet), self.legs.get(flight.first as usize).map(|leg| leg.arrives))
    }
}

impl Leg {
    const NONE: Self = Self { arrives: Key { at: 0, number: 0 }, next: NIL };
}

/// Marks the absence of a packet; the table never grows this large.
const NIL: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_each_wire_in_the_order_in_which_they_came() {
        let mut flights = Flights::default();
        let [mut a, mut b] = [Flight::NONE; 2];
        let key = |at| Key { at, number: at };
        assert_eq!(flights.pop(&mut a), (None, None));
        for (number, at) in [(5, 1), (2, 3), (9, 5)] {
            assert_eq!(flights.push(&mut a, PacketId(number), key(at)), at == 1);
            assert_eq!(flights.push(&mut b, PacketId(number + 1), key(at + 1)), at == 1);
        }
        assert_eq!(flights.pop(&mut a), (Some(PacketId(5)), Some(key(3))));
        assert_eq!(flights.pop(&mut b), (Some(PacketId(6)), Some(key(4))));
        // A packet that has arrived may go onto another wire, behind the packets there.
        assert!(!flights.push(&mut b, PacketId(5), key(7)));
        assert_eq!(flights.pop(&mut a), (Some(PacketId(2)), Some(key(5))));
        assert_eq!(flights.pop(&mut a), (Some(PacketId(9)), None));
        assert!(flights.push(&mut a, PacketId(2), key(8)));
        let left: Vec<_> = std::iter::from_fn(|| flights.pop(&mut b).0).map(|packet| packet.0).collect();
        assert_eq!(left, [3, 10, 5]);
        assert_eq!(flights.pop(&mut a), (Some(PacketId(2)), None));
    }
}
