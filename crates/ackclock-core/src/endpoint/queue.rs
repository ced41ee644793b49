//! A queue of small numbers that holds each at most once, so its length is bounded by the table that they
//! index.

use std::collections::VecDeque;

/// First in, first out. An index that waits already is not added again.
///
/// The first one is stored inline: an endpoint with one connection needs no allocation.
#[derive(Debug)]
pub(super) struct IndexQueue {
    /// [`NONE`] if the queue is empty.
    first: u32,
    rest: Option<Box<Rest>>,
}

/// What waits behind the first.
#[derive(Debug, Default)]
struct Rest {
    order: VecDeque<u32>,
    waiting: Vec<bool>,
}

impl IndexQueue {
    /// Appends an index, unless it waits already.
    #[inline]
    pub(super) fn push(&mut self, index: u32) {
        if self.first == NONE {
            self.first = index;
        } else if self.first != index {
            self.rest.get_or_insert_default().push(index);
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Removes the first index.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        if self.first == NONE {
            return None;
        }
        let next = self.rest.as_mut().and_then(|rest| rest.pop());
        Some(std::mem::replace(&mut self.first, next.unwrap_or(NONE)))
    }
}

impl Default for IndexQueue {
    fn default() -> Self {
        Self { first: NONE, rest: None }
    }
}

impl Rest {
    fn push(&mut self, index: u32) {
        let place = index as usize;
        if place >= self.waiting.len() {
            self.waiting.resize(place.saturating_add(1), false);
        }
        if let Some(waiting) = self.waiting.get_mut(place)
            && !*waiting
        {
            *waiting = true;
            self.order.push_back(index);
        }
    }

    fn pop(&mut self) -> Option<u32> {
        let index = self.order.pop_front()?;
        if let Some(waiting) = self.waiting.get_mut(index as usize) {
            *waiting = false;
        }
        Some(index)
    }
}

/// Marks absence; tables are smaller.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_index_waits_once_and_keeps_its_place() {
        let mut queue = IndexQueue::default();
        [3, 1, 3, 2, 1].into_iter().for_each(|index| queue.push(index));
        assert_eq!([queue.pop(), queue.pop(), queue.pop(), queue.pop()], [Some(3), Some(1), Some(2), None]);
        queue.push(3);
        assert_eq!(queue.pop(), Some(3));
    }

    proptest! {
        /// Compares with a plain list.
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec(prop::option::of(0u32..6), 1..200)) {
            let (mut queue, mut model) = (IndexQueue::default(), VecDeque::new());
            for step in steps {
                match step {
                    Some(index) => {
                        queue.push(index);
                        if !model.contains(&index) {
                            model.push_back(index);
                        }
                    }
                    None => prop_assert_eq!(queue.pop(), model.pop_front()),
                }
            }
        }
    }
}
