//! The heap of events: a quaternary one, ordered by time and, at the same time, by number.
//!
//! Numbers come from one counter, so that events at the same time happen in the order in which they were caused. Four
//! children to a node make a heap half as deep as two, and the four lie in two cache lines.

/// Events that are to happen.
#[derive(Debug)]
pub(crate) struct Heap<E> {
    entries: Vec<Entry<E>>,
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

impl<E: Copy> Heap<E> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// When the next event is.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Key> {
        self.entries.first().map(|entry| entry.key)
    }

    /// What the next event is.
    #[inline]
    pub(crate) fn peek_event(&self) -> Option<E> {
        self.entries.first().map(|entry| entry.event)
    }

    #[inline]
    pub(crate) fn push(&mut self, key: Key, event: E) {
        let entry = Entry { key, event };
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.entries[parent].key.order() <= key.order() {
                break;
            }
            self.entries[hole] = self.entries[parent];
            hole = parent;
        }
        self.entries[hole] = entry;
    }

    /// Puts an event into the place of the next one: cheaper than to take that out first.
    #[inline]
    pub(crate) fn replace_next(&mut self, key: Key, event: E) {
        if self.entries.is_empty() {
            return self.push(key, event);
        }
        self.sift_down(Entry { key, event });
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Entry<E>> {
        let next = *self.entries.first()?;
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.sift_down(last);
        }
        Some(next)
    }

    /// Fills the root, whose entry is gone, with `entry`.
    #[inline]
    fn sift_down(&mut self, entry: Entry<E>) {
        let order = entry.key.order();
        let len = self.entries.len();
        let mut hole = 0;
        loop {
            let first = hole * 4 + 1;
            if first >= len {
                break;
            }
            let children = &self.entries[first..(first + 4).min(len)];
            let (mut least, mut least_order) = (0, children[0].key.order());
            for (index, child) in children.iter().enumerate().skip(1) {
                if child.key.order() < least_order {
                    (least, least_order) = (index, child.key.order());
                }
            }
            if order <= least_order {
                break;
            }
            self.entries[hole] = self.entries[first + least];
            hole = first + least;
        }
        self.entries[hole] = entry;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn events_come_out_by_time_and_then_by_number() {
        let mut rng = Rng::derive(3, "heap");
        let mut heap = Heap::new();
        let mut model = BTreeSet::new();
        for number in 0..20_000u64 {
            let key = Key { at: rng.below(500), number };
            match rng.below(5) {
                0 | 1 => {
                    let popped = heap.pop().map(|entry| entry.key);
                    assert_eq!(popped, model.pop_first());
                }
                2 => {
                    model.pop_first();
                    model.insert(key);
                    heap.replace_next(key, ());
                }
                _ => {
                    model.insert(key);
                    heap.push(key, ());
                }
            }
            assert_eq!(heap.peek(), model.first().copied());
        }
        while let Some(entry) = heap.pop() {
            assert_eq!(Some(entry.key), model.pop_first());
        }
        assert!(model.is_empty());
    }
}
