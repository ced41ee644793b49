//! The next events: those of one short stretch of time, sorted by time and, at the same time, by number.
//!
//! Numbers come from one counter, so events at the same time happen in the order in which they were caused.
//! There are few events here, four at 1 Gbit/s, and those added meanwhile mostly come after them. A sorted
//! list appends them at its end and yields the next from its front, in fewer steps than a heap.

/// The events of a short stretch of time.
#[derive(Debug)]
pub(crate) struct Near<E> {
    /// Sorted from `first` on; events before it have happened.
    entries: Vec<Entry<E>>,
    first: usize,
}

/// An event with its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<E> {
    pub key: Key,
    pub event: E,
}

/// The order of an event: its time in nanoseconds, then its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub at: u64,
    pub number: u64,
}

impl Key {
    /// As one number, which compares without a branch.
    #[inline]
    fn order(self) -> u128 {
        u128::from(self.at) << 64 | u128::from(self.number)
    }
}

impl<E: Copy> Near<E> {
    pub fn new() -> Self {
        Self { entries: Vec::new(), first: 0 }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == self.entries.len()
    }

    /// When the next event is.
    #[inline]
    pub fn peek(&self) -> Option<Key> {
        self.entries.get(self.first).map(|entry| entry.key)
    }

    /// The next event.
    #[inline]
    pub fn peek_event(&self) -> Option<E> {
        self.entries.get(self.first).map(|entry| entry.event)
    }

    /// All events, the next one first.
    #[inline]
    pub fn events(&self) -> impl Iterator<Item = E> + '_ {
        self.entries[self.first..].iter().map(|entry| entry.event)
    }

    /// Inserts an event in order.
    #[inline]
    pub fn push(&mut self, entry: Entry<E>) {
        let order = entry.key.order();
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > self.first && self.entries[hole - 1].key.order() > order {
            self.entries[hole] = self.entries[hole - 1];
            hole -= 1;
        }
        self.entries[hole] = entry;
    }

    /// Appends an event out of order; [`Self::sort`] restores the order.
    #[inline]
    pub fn append(&mut self, entry: Entry<E>) {
        self.entries.push(entry);
    }

    /// Sorts the appended events. Most are already in order, because they were caused in order.
    #[inline]
    pub fn sort(&mut self) {
        let entries = &mut self.entries[self.first..];
        entries.reverse();
        entries.sort_unstable_by_key(|entry| entry.key.order());
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Entry<E>> {
        let next = *self.entries.get(self.first)?;
        self.first += 1;
        if self.is_empty() {
            self.entries.clear();
            self.first = 0;
        } else if self.first == HAPPENED_MAX {
            self.entries.drain(..HAPPENED_MAX);
            self.first = 0;
        }
        Some(next)
    }
}

/// The most past events that keep their entries.
const HAPPENED_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn events_come_out_by_time_and_then_by_number() {
        let mut rng = Rng::derive(3, "near");
        let mut near = Near::new();
        let mut model = BTreeSet::new();
        for number in 0..20_000u64 {
            let key = Key { at: rng.below(500), number: number * 8 };
            match rng.below(8) {
                0..=3 => assert_eq!(near.pop().map(|entry| entry.key), model.pop_first()),
                4 => {
                    for more in 1..6 {
                        let key = Key { at: rng.below(500), number: number * 8 + more };
                        model.insert(key);
                        near.append(Entry { key, event: () });
                    }
                    near.sort();
                }
                _ => {
                    model.insert(key);
                    near.push(Entry { key, event: () });
                }
            }
            assert_eq!(near.peek(), model.first().copied());
            assert_eq!(near.events().count(), model.len());
        }
        while let Some(entry) = near.pop() {
            assert_eq!(Some(entry.key), model.pop_first());
        }
        assert!(model.is_empty() && near.is_empty());
    }
}
