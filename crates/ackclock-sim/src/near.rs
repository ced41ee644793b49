//! What happens next: the events of one short stretch of time, sorted by time and, at the same time, by number.
//!
//! Numbers come from one counter, so that events at the same time happen in the order in which they were caused. There are
//! few events here, four at 1 Gbit/s, and what is added while they happen mostly comes behind them: a sorted list takes it at
//! its end, and gives the next from its front, with fewer steps than a heap.

/// Events that are to happen.
#[derive(Debug)]
pub(crate) struct Near<E> {
    /// Sorted from `first` on; what lies before has happened.
    entries: Vec<Entry<E>>,
    first: usize,
}

/// An event with its place in the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<E> {
    pub(crate) key: Key,
    pub(crate) event: E,
}

/// When, in nanoseconds, and after what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) at: u64,
    pub(crate) number: u64,
}

impl Key {
    /// As one number: compared without a branch.
    #[inline]
    fn order(self) -> u128 {
        u128::from(self.at) << 64 | u128::from(self.number)
    }
}

impl<E: Copy> Near<E> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), first: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.entries.len()
    }

    /// When the next event is.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Key> {
        self.entries.get(self.first).map(|entry| entry.key)
    }

    /// What the next event is.
    #[inline]
    pub(crate) fn peek_event(&self) -> Option<E> {
        self.entries.get(self.first).map(|entry| entry.event)
    }

    /// All events, the next one first.
    #[inline]
    pub(crate) fn events(&self) -> impl Iterator<Item = E> + '_ {
        self.entries[self.first..].iter().map(|entry| entry.event)
    }

    /// Puts an event into its place.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry<E>) {
        let order = entry.key.order();
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > self.first && self.entries[hole - 1].key.order() > order {
            self.entries[hole] = self.entries[hole - 1];
            hole -= 1;
        }
        self.entries[hole] = entry;
    }

    /// Puts many events at the end, the last of them first; [`Self::sort`] sees to their order.
    #[inline]
    pub(crate) fn append(&mut self, entry: Entry<E>) {
        self.entries.push(entry);
    }

    /// Sorts what was appended. Events that were caused one after the other mostly happen so, too.
    #[inline]
    pub(crate) fn sort(&mut self) {
        let entries = &mut self.entries[self.first..];
        entries.reverse();
        entries.sort_unstable_by_key(|entry| entry.key.order());
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Entry<E>> {
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

/// The most events that keep their places after they have happened.
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
