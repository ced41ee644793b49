//! A queue of small numbers that holds each at most once, so that its length is bounded by the table it is for.

use std::collections::VecDeque;

/// First in, first out; an index that waits already is not added again.
#[derive(Debug, Default)]
pub(super) struct IndexQueue {
    order: VecDeque<u32>,
    waiting: Vec<bool>,
}

impl IndexQueue {
    /// Adds an index to the end, unless it waits already.
    #[inline]
    pub(super) fn push(&mut self, index: u32) {
        let place = index as usize;
        if place >= self.waiting.len() {
            self.waiting.resize(place + 1, false);
        }
        if let Some(waiting) = self.waiting.get_mut(place)
            && !*waiting
        {
            *waiting = true;
            self.order.push_back(index);
        }
    }

    /// Takes the first index out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let index = self.order.pop_front()?;
        if let Some(waiting) = self.waiting.get_mut(index as usize) {
            *waiting = false;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_waits_once_and_keeps_its_place() {
        let mut queue = IndexQueue::default();
        [3, 1, 3, 2, 1].into_iter().for_each(|index| queue.push(index));
        assert_eq!([queue.pop(), queue.pop(), queue.pop(), queue.pop()], [Some(3), Some(1), Some(2), None]);
        queue.push(3);
        assert_eq!(queue.pop(), Some(3));
    }
}
