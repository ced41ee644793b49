//! Future events, sorted only as far as needed: a short list of the next ones, and wheels of slots behind it.
//!
//! A heap of all events costs each one a logarithm of their number in comparisons that the processor cannot
//! predict. Here an event waits unsorted in the slot of its time, and enters the list when the slot's turn
//! comes: George Varghese and Tony Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987, scheme 7, with
//! wheels of 256 slots, 8.192 µs long on the lowest. The list alone defines the order: by time and, at the
//! same time, by number.

use crate::near::{Entry, Key, Near};

/// Future events.
#[derive(Debug)]
pub(crate) struct Calendar<E> {
    /// All events up to the tick `reached`, and none beyond it.
    near: Near<E>,
    reached: u64,
    /// No event in a slot is due before this tick.
    soonest: u64,
    wheels: Box<[Wheel; WHEELS]>,
    /// Bit n: some slot of wheel n is in use.
    used: u8,
    /// Whether time has moved to another slot since this was last taken.
    turned: bool,
    /// The linked events of the slots, and the free nodes.
    nodes: Vec<Node<E>>,
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Wheel {
    /// Bit n: slot n is in use.
    used: [u64; SLOTS / 64],
    heads: [u32; SLOTS],
}

#[derive(Clone, Copy, Debug)]
struct Node<E> {
    entry: Entry<E>,
    next: u32,
}

impl<E: Copy> Calendar<E> {
    pub fn new() -> Self {
        Self {
            near: Near::new(),
            reached: 0,
            soonest: u64::MAX,
            wheels: Box::new([Wheel { used: [0; SLOTS / 64], heads: [NIL; SLOTS] }; WHEELS]),
            used: 0,
            turned: false,
            nodes: Vec::new(),
            free: NIL,
        }
    }

    /// When the next event is due in nanoseconds, if not after `until`. It may also return a later one.
    #[inline]
    pub fn peek_until(&mut self, until: u64) -> Option<Key> {
        while self.near.is_empty() && self.soonest <= tick(until) && self.advance(tick(until)) {}
        self.near.peek()
    }

    /// Whether time has moved to another slot since the last call.
    #[inline]
    pub fn take_turned(&mut self) -> bool {
        std::mem::take(&mut self.turned)
    }

    /// The next events, up to the end of the tick.
    #[inline]
    pub fn soon(&self) -> impl Iterator<Item = E> + '_ {
        self.near.events()
    }

    /// The next event. Call [`Self::peek_until`] first.
    #[inline]
    pub fn peek_event(&self) -> Option<E> {
        self.near.peek_event()
    }

    #[inline]
    pub fn push(&mut self, key: Key, event: E) {
        let entry = Entry { key, event };
        if tick(key.at) <= self.reached { self.near.push(entry) } else { self.hang(entry) }
    }

    /// Removes the next event. Call [`Self::peek_until`] first.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry<E>> {
        self.near.pop()
    }

    /// Replaces the next event by another one.
    #[inline]
    pub fn replace_next(&mut self, key: Key, event: E) {
        self.near.pop();
        self.push(key, event);
    }

    /// Puts an event that is later than `reached` into its slot.
    #[inline]
    fn hang(&mut self, entry: Entry<E>) {
        let tick = tick(entry.key.at);
        self.soonest = self.soonest.min(tick);
        // On the wheel of the highest digit in which it differs from `reached`.
        let wheel = ((tick ^ self.reached) | 1).ilog2() / DIGIT;
        let slot = (tick >> (wheel * DIGIT)) as usize % SLOTS;
        self.used |= 1 << wheel;
        let wheel = &mut self.wheels[wheel as usize];
        wheel.used[slot / 64] |= 1 << (slot % 64);
        let node = Node { entry, next: wheel.heads[slot] };
        match self.nodes.get_mut(self.free as usize) {
            Some(place) => {
                wheel.heads[slot] = self.free;
                self.free = place.next;
                *place = node;
            }
            None => {
                wheel.heads[slot] = self.nodes.len() as u32;
                self.nodes.push(node);
            }
        }
    }

    /// Moves to the next slot in use. Its events go into the list, which is empty, or onto lower wheels.
    /// Returns `false`, and does nothing, if no slot begins by the tick `until`.
    fn advance(&mut self, until: u64) -> bool {
        // Lower wheels come before higher ones, whose events differ from `reached` in a higher digit.
        if self.used == 0 {
            self.soonest = u64::MAX;
            return false;
        }
        let number = self.used.trailing_zeros();
        let wheel = &mut self.wheels[number as usize];
        let Some(slot) = wheel.first() else { return false };
        let shift = number * DIGIT;
        let above = (self.reached >> shift) & !(SLOTS as u64 - 1);
        let start = (above | slot as u64) << shift;
        self.soonest = start;
        if start > until {
            return false;
        }
        self.reached = start;
        self.turned = true;
        let mut index = std::mem::replace(&mut wheel.heads[slot], NIL);
        wheel.used[slot / 64] &= !(1 << (slot % 64));
        if wheel.used == [0; SLOTS / 64] {
            self.used &= !(1 << number);
        }
        while let Some(node) = self.nodes.get_mut(index as usize) {
            let Node { entry, next } = *node;
            node.next = self.free;
            self.free = index;
            index = next;
            if tick(entry.key.at) <= start { self.near.append(entry) } else { self.hang(entry) }
        }
        self.near.sort();
        true
    }
}

impl Wheel {
    /// The first slot in use.
    #[inline]
    fn first(&self) -> Option<usize> {
        let word = self.used.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.used[word].trailing_zeros() as usize)
    }
}

/// The tick of a time in nanoseconds.
#[inline]
fn tick(at: u64) -> u64 {
    at >> TICK_SHIFT
}

/// A tick is 2^13 ns. At 1 Gbit/s that is about four events, which a short list sorts more cheaply than a
/// wheel's slots; an access link's delay of 1 ms fits the lowest wheel.
const TICK_SHIFT: u32 = 13;
/// The bits of a tick number that one wheel resolves.
const DIGIT: u32 = 8;
const SLOTS: usize = 1 << DIGIT;
const WHEELS: usize = 7;
const NIL: u32 = u32::MAX;

const _: () = assert!(TICK_SHIFT + DIGIT * WHEELS as u32 >= u64::BITS, "the wheels span all of time");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a sorted set: time advances, events are added at any distance, some at the same
        /// time, some before events already peeked at.
        #[test]
        fn events_come_out_by_time_and_then_by_number(
            steps in prop::collection::vec((0u8..6, 0u32..60, any::<u64>()), 1..400),
        ) {
            let mut calendar = Calendar::new();
            let mut model = BTreeSet::new();
            let mut now = 0u64;
            for (number, (what, bits, draw)) in (0u64..).zip(steps) {
                let key = Key { at: now.saturating_add(draw >> (63 - bits)), number };
                match what {
                    0..=2 => {
                        model.insert(key);
                        calendar.push(key, number);
                    }
                    3 => {
                        // No later than requested, or not at all.
                        let until = key.at;
                        let seen = calendar.peek_until(until).filter(|key| key.at <= until);
                        prop_assert_eq!(seen, model.first().copied().filter(|key| key.at <= until));
                    }
                    4 => {
                        prop_assert_eq!(calendar.peek_until(u64::MAX), model.first().copied());
                        if let Some(first) = model.pop_first() {
                            now = first.at;
                            prop_assert_eq!(calendar.peek_event(), Some(first.number));
                            prop_assert_eq!(calendar.pop().map(|entry| entry.key), Some(first));
                        }
                    }
                    _ => {
                        if let Some(first) = calendar.peek_until(u64::MAX) {
                            prop_assert_eq!(model.pop_first(), Some(first));
                            let key = Key { at: key.at.max(first.at), number };
                            now = first.at;
                            model.insert(key);
                            calendar.replace_next(key, number);
                        }
                    }
                }
            }
            while let Some(first) = model.pop_first() {
                prop_assert_eq!(calendar.peek_until(u64::MAX), Some(first));
                prop_assert_eq!(calendar.pop().map(|entry| entry.event), Some(first.number));
            }
            prop_assert!(calendar.peek_until(u64::MAX).is_none());
        }
    }
}
