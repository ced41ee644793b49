//! The order of SACK blocks: which ranges beyond a gap were touched last.
//!
//! RFC 2018 §4: the first block contains the segment that triggered the acknowledgement, and the others
//! repeat the most recently reported. Every range has its place here until no gap precedes it: when newer
//! ones have merged, or become readable, there is room for it again.

use std::collections::VecDeque;

use ackclock_wire::SackBlocks;

use super::RangeSet;
use crate::position::Position;

/// Where each range begins, the one touched last at the back.
#[derive(Debug, Default)]
pub(super) struct BlockOrder {
    starts: VecDeque<Position>,
}

impl BlockOrder {
    /// The most bytes that the order of `ranges` ranges takes.
    pub fn bytes_of(ranges: usize) -> usize {
        size_of::<Self>().saturating_add(Self::capacity_for(ranges).saturating_mul(size_of::<Position>()))
    }

    /// The capacity of a deque that grows and shrinks with them.
    fn capacity_for(ranges: usize) -> usize {
        ranges.max(SackBlocks::MAX).checked_next_power_of_two().unwrap_or(ranges)
    }

    /// `range` was touched.
    pub fn touch(&mut self, range: (Position, Position)) {
        self.starts.retain(|&start| start < range.0 || range.1 <= start);
        self.starts.push_back(range.0);
        self.shrink();
    }

    /// Everything before `next` is now in order.
    pub fn remove_before(&mut self, next: Position) {
        self.starts.retain(|&start| start >= next);
        self.shrink();
    }

    /// Nothing is held from `end` on.
    pub fn remove_from(&mut self, end: Position) {
        self.starts.retain(|&start| start < end);
        self.shrink();
    }

    fn shrink(&mut self) {
        self.starts.shrink_to(Self::capacity_for(self.starts.len()));
    }

    /// At most `max` blocks: the one that contains `first`, if any, then the most recently touched.
    pub fn blocks(&self, ahead: &RangeSet, first: Option<Position>, max: usize) -> SackBlocks {
        let first = first.and_then(|place| ahead.containing(place));
        let others = self.starts.iter().rev().filter_map(|&start| ahead.containing(start));
        let mut blocks = SackBlocks::default();
        for (start, end) in first.into_iter().chain(others.filter(|&range| Some(range) != first)).take(max) {
            blocks.push(start.seq(), end.seq());
        }
        blocks
    }
}

ackclock_form::form! {
    struct BlockOrder { starts }
}
