//! The order of SACK blocks: which range beyond a gap was touched last, and which no acknowledgement has reported.
//!
//! RFC 2018 §4 has the first block be the one that holds the segment which triggered the acknowledgement, and the others
//! repeat what was reported last. Segments that are received together are all processed before the first
//! acknowledgement leaves. Their blocks are reported as if acknowledgements had left in between: the ranges touched first
//! go with the first acknowledgement.

use std::collections::VecDeque;

use ackclock_wire::{SackBlocks, SeqNum};

use super::RangeSet;
use crate::position::Position;

/// One place in each range that is to be reported or repeated, in the order in which they were last touched.
#[derive(Debug, Default)]
pub(super) struct BlockOrder {
    /// The range touched last is at the back. Those that were reported stand before those that were not.
    places: VecDeque<Position>,
    /// How many of them, at the back, have not been reported since they were touched.
    fresh: usize,
}

impl BlockOrder {
    /// The most ranges that wait to be reported: as many as a driver's batch has packets. Beyond it the one touched first
    /// is not reported, as if its acknowledgement had been lost.
    pub(super) const FRESH_MAX: usize = 64;
    /// The most fresh ranges of one acknowledgement. Where there is room for a fourth block it repeats an earlier one.
    const FRESH_PER_ACK: usize = 3;
    /// Reported ranges that are remembered, to be repeated.
    const REPORTED_MAX: usize = 3;

    /// `range` was touched at `place`, which lies in it.
    pub(super) fn touch(&mut self, range: (Position, Position), place: Position) {
        self.retain(|other| other < range.0 || range.1 <= other);
        self.places.push_back(place);
        self.fresh += 1;
        if self.fresh > Self::FRESH_MAX {
            self.places.remove(self.reported());
            self.fresh -= 1;
        }
    }

    /// Nothing before `next` lies beyond a gap any more.
    pub(super) fn remove_before(&mut self, next: Position) {
        self.retain(|place| place >= next);
    }

    /// Whether a range waits to be reported.
    #[inline]
    pub(super) fn has_fresh(&self) -> bool {
        self.fresh > 0
    }

    /// At most `max` blocks of the next acknowledgement: the one that holds `first`, if any does, then fresh ones, then
    /// reported ones.
    pub(super) fn blocks(&self, ahead: &RangeSet, first: Option<Position>, max: usize) -> SackBlocks {
        let reported = self.reported();
        let first = first.and_then(|place| ahead.containing(place));
        let room = max.saturating_sub(usize::from(first.is_some())).min(Self::FRESH_PER_ACK);
        let fresh = self.places.range(reported..reported + room.min(self.fresh)).rev();
        let repeated = self.places.range(..reported).rev();
        let others = fresh.chain(repeated).filter_map(|&place| ahead.containing(place));
        let mut blocks = SackBlocks::default();
        for (start, end) in first.into_iter().chain(others.filter(|&range| Some(range) != first)).take(max) {
            blocks.push(start.seq(), end.seq());
        }
        blocks
    }

    /// These blocks left on a segment.
    pub(super) fn on_reported(&mut self, blocks: &[(SeqNum, SeqNum)]) {
        let told = |place: Position| {
            blocks.iter().any(|&(left, right)| place.seq().in_window(left, right.offset_from(left)))
        };
        for index in self.reported()..self.places.len() {
            if let Some(place) = self.places.get(index).copied().filter(|&place| told(place)) {
                self.places.remove(index);
                self.places.insert(self.places.len() + 1 - self.fresh, place);
                self.fresh -= 1;
            }
        }
        while self.reported() > Self::REPORTED_MAX {
            self.places.pop_front();
        }
    }

    /// How many places stand before the fresh ones.
    fn reported(&self) -> usize {
        self.places.len() - self.fresh
    }

    fn retain(&mut self, keeps: impl Fn(Position) -> bool) {
        let reported = self.reported();
        let (mut index, mut dropped) = (0, 0);
        self.places.retain(|&place| {
            let kept = keeps(place);
            dropped += usize::from(!kept && index >= reported);
            index += 1;
            kept
        });
        self.fresh -= dropped;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::budget::Budget;
    use crate::buffer::ReceiveBuffer;

    fn at(offset: u64) -> Position {
        Position::initial(SeqNum::new(u32::MAX - 300)) + offset
    }

    proptest! {
        /// Whatever comes in one batch, acknowledgements report each range that it touched, three of them at a time and
        /// the newest last; a batch that touches nothing is owed none.
        #[test]
        fn every_touched_range_is_reported(
            batches in prop::collection::vec(prop::collection::vec((0u64..600, 1u64..12), 0..50), 1..6),
            room in 2usize..5,
        ) {
            let mut buffer = ReceiveBuffer::new(at(0), &Budget::new(1 << 20));
            let mut next = at(0);
            for batch in batches {
                let mut touched = Vec::new();
                for (start, len) in batch {
                    if at(start + len) <= next {
                        continue;
                    }
                    let from = at(start).max(next);
                    let data = vec![0; at(start + len).index_from(from)];
                    next += buffer.insert(from, &data).advanced;
                    touched.push(from);
                }
                let holds = |&(left, right): &(SeqNum, SeqNum), place: Position| {
                    place.seq().in_window(left, right.offset_from(left))
                };
                touched.retain(|&place| place >= next);
                let (mut told, mut first, mut acks) = (BTreeSet::new(), None, 0);
                while buffer.owes_report() {
                    let blocks = buffer.sack_blocks(None, room);
                    let distinct: BTreeSet<_> = blocks.as_slice().iter().map(|b| b.0.raw()).collect();
                    prop_assert_eq!(distinct.len(), blocks.as_slice().len(), "no block twice");
                    first = blocks.as_slice().first().copied();
                    told.extend(blocks.as_slice().iter().map(|b| (b.0.raw(), b.1.raw())));
                    buffer.on_reported(blocks.as_slice());
                    acks += 1;
                    prop_assert!(acks <= 64, "each acknowledgement reports something");
                }
                for &place in &touched {
                    let covers = |&(left, right): &(u32, u32)| holds(&(SeqNum::new(left), SeqNum::new(right)), place);
                    prop_assert!(told.iter().any(covers), "{place:?} in {told:?}");
                }
                prop_assert_eq!(acks == 0, touched.is_empty());
                if let Some(&last) = touched.last() {
                    prop_assert!(first.is_some_and(|block| holds(&block, last)), "the newest is first at the end");
                    let ranges: BTreeSet<_> = told.iter().collect();
                    prop_assert!(acks <= ranges.len().div_ceil(room.min(3)), "{acks} for {}", ranges.len());
                }
            }
        }
    }
}
