//! The order of SACK blocks: which ranges beyond a gap were touched last.
//!
//! RFC 2018 §4: the first block contains the segment that triggered the acknowledgement, and the others
//! repeat the most recently reported.

use std::collections::VecDeque;

use ackclock_wire::SackBlocks;

use super::RangeSet;
use crate::position::Position;

/// One position in each of the most recently touched ranges, the latest at the back.
#[derive(Debug, Default)]
pub(super) struct BlockOrder {
    places: VecDeque<Position>,
}

impl BlockOrder {
    /// The maximum size of one in bytes, with its positions: one more than there are blocks, rounded up to
    /// powers of two.
    pub(super) const BYTES_MAX: usize =
        size_of::<Self>() + (SackBlocks::MAX + 1).next_power_of_two() * size_of::<Position>();

    /// `range` was touched at `place`, which lies in it.
    pub(super) fn touch(&mut self, range: (Position, Position), place: Position) {
        self.places.retain(|&other| other < range.0 || range.1 <= other);
        self.places.push_back(place);
        if self.places.len() > SackBlocks::MAX {
            self.places.pop_front();
        }
    }

    /// Everything before `next` is now in order.
    pub(super) fn remove_before(&mut self, next: Position) {
        self.places.retain(|&place| place >= next);
    }

    /// At most `max` blocks: the one that contains `first`, if any, then the most recently touched.
    pub(super) fn blocks(&self, ahead: &RangeSet, first: Option<Position>, max: usize) -> SackBlocks {
        let first = first.and_then(|place| ahead.containing(place));
        let others = self.places.iter().rev().filter_map(|&place| ahead.containing(place));
        let mut blocks = SackBlocks::default();
        for (start, end) in first.into_iter().chain(others.filter(|&range| Some(range) != first)).take(max) {
            blocks.push(start.seq(), end.seq());
        }
        blocks
    }
}
