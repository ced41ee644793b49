//! A set of byte ranges: data that arrived out of order, or data that the peer holds beyond a gap.

use std::collections::BTreeMap;

use crate::position::Position;

/// Disjoint, non-adjacent ranges of positions, end exclusive. Every operation costs O(log n), plus one step
/// for each range that it merges or removes.
///
/// Most connections never have a range, so an unused set is only a pointer, for the benchmark row "bytes of
/// an idle connection".
#[derive(Debug, Default)]
pub(crate) struct RangeSet(Option<Box<Ranges>>);

/// The ranges of a set that has had some.
#[derive(Debug, Default)]
struct Ranges {
    ends: BTreeMap<Position, Position>,
    bytes: u64,
}

impl Ranges {
    /// Whether the ranges are disjoint and counted.
    fn is_sound(&self) -> bool {
        let (mut covered, mut bytes) = (None, 0_u64);
        for (&start, &end) in &self.ends {
            if start >= end || covered.is_some_and(|covered| start <= covered) {
                return false;
            }
            covered = Some(end);
            bytes = bytes.saturating_add(end.since(start));
        }
        bytes == self.bytes
    }
}

impl RangeSet {
    /// The most bytes that a range takes: nodes of the tree are at least half full.
    const RANGE_BYTES: usize = 40;

    /// The most bytes that `ranges` ranges take, including the node of an empty set.
    #[inline]
    pub fn bytes_of(ranges: usize) -> usize {
        const NODE: usize = 208 + size_of::<Ranges>();
        if ranges == 0 { 0 } else { ranges.saturating_mul(Self::RANGE_BYTES).saturating_add(NODE) }
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ranges| ranges.ends.len())
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|ranges| ranges.ends.is_empty())
    }

    /// How many positions the ranges cover.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |ranges| ranges.bytes)
    }

    /// Calls `visit` for each part of `start..end` that the set does not cover, in order.
    pub fn for_each_gap(&self, start: Position, end: Position, mut visit: impl FnMut(Position, Position)) {
        let mut from = self.containing(start).map_or(start, |(_, covered)| covered);
        while from < end {
            match self.0.as_ref().and_then(|ranges| ranges.ends.range(from..end).next()) {
                Some((&next, &covered)) => {
                    if from < next {
                        visit(from, next);
                    }
                    from = covered;
                }
                None => {
                    visit(from, end);
                    break;
                }
            }
        }
    }

    /// Adds `start..end`, merging what it touches.
    pub fn insert(&mut self, mut start: Position, mut end: Position) {
        if start >= end {
            return;
        }
        let ranges = self.0.get_or_insert_default();
        let joins_next = ranges.ends.range(start..=end).next().is_some();
        if let Some((&before, covered)) = ranges.ends.range_mut(..start).next_back()
            && *covered >= start
        {
            if !joins_next {
                // Mostly a range grows at its end, and stays where it is.
                ranges.bytes = ranges.bytes.wrapping_add(end.max(*covered).since(*covered));
                *covered = end.max(*covered);
                return;
            }
            start = before;
        }
        while let Some((&next, &covered)) = ranges.ends.range(start..=end).next() {
            ranges.ends.remove(&next);
            ranges.bytes = ranges.bytes.wrapping_sub(covered.since(next));
            end = end.max(covered);
        }
        ranges.ends.insert(start, end);
        ranges.bytes = ranges.bytes.wrapping_add(end.since(start));
    }

    /// Removes all positions before `at`.
    pub fn remove_before(&mut self, at: Position) {
        let Some(ranges) = &mut self.0 else { return };
        while let Some(first) = ranges.ends.first_entry() {
            let (start, end) = (*first.key(), *first.get());
            if start >= at {
                return;
            }
            first.remove();
            ranges.bytes = ranges.bytes.wrapping_sub(end.since(start));
            if end > at {
                ranges.ends.insert(at, end);
                ranges.bytes = ranges.bytes.wrapping_add(end.since(at));
                return;
            }
        }
    }

    /// Removes `start..end`.
    pub fn remove(&mut self, start: Position, end: Position) {
        if start >= end {
            return;
        }
        let mut from = self.containing(start).map_or(start, |(first, _)| first);
        let Some(ranges) = &mut self.0 else { return };
        while from < end
            && let Some((&first, &covered)) = ranges.ends.range(from..end).next()
        {
            ranges.ends.remove(&first);
            ranges.bytes = ranges.bytes.wrapping_sub(covered.since(first));
            for (left, right) in [(first, start), (end, covered)] {
                if left < right {
                    ranges.ends.insert(left, right);
                    ranges.bytes = ranges.bytes.wrapping_add(right.since(left));
                }
            }
            from = covered;
        }
    }

    /// The range that covers `at`.
    pub fn containing(&self, at: Position) -> Option<(Position, Position)> {
        let before = self.0.as_ref()?.ends.range(..=at).next_back();
        before.map(|(&start, &end)| (start, end)).filter(|&(_, end)| at < end)
    }

    /// The first stretch of `start..end` that the set covers.
    pub fn first_overlap(&self, start: Position, end: Position) -> Option<(Position, Position)> {
        let (from, until) = match self.containing(start) {
            Some((_, until)) => (start, until),
            None => self.0.as_ref()?.ends.range(start..end).next().map(|(&from, &until)| (from, until))?,
        };
        (from < end).then(|| (from, until.min(end)))
    }

    /// The lowest range.
    pub fn first(&self) -> Option<(Position, Position)> {
        self.0.as_ref()?.ends.first_key_value().map(|(&start, &end)| (start, end))
    }

    /// The ranges from the highest down.
    pub fn descending(&self) -> impl Iterator<Item = (Position, Position)> + '_ {
        self.0.iter().flat_map(|ranges| ranges.ends.iter().rev()).map(|(&start, &end)| (start, end))
    }

    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// Frees the memory of removed ranges.
    pub fn shrink(&mut self) {
        self.0.take_if(|ranges| ranges.ends.is_empty());
    }
}

ackclock_form::form! {
    struct RangeSet(ranges)
    struct Ranges { ends, bytes } => |ranges| ranges.is_sound();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ackclock_wire::SeqNum;

    use super::*;
    use proptest::prelude::*;

    const BASE: u32 = u32::MAX - 50; // positions cross the wrap of the wire's numbers

    fn at(offset: u64) -> Position {
        Position::initial(SeqNum::new(BASE)) + offset
    }

    proptest! {
        /// Against a set of single positions.
        #[test]
        fn equals_a_set_of_positions(steps in prop::collection::vec((0u8..4, 0u64..120, 0u64..20), 1..60)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (kind, start, len) in steps {
                match kind {
                    0 | 1 => {
                        let mut gaps = BTreeSet::new();
                        set.for_each_gap(at(start), at(start + len), |from, to| {
                            assert!(from < to);
                            let mut p = from;
                            while p < to { assert!(gaps.insert(p)); p += 1; }
                        });
                        let expected: BTreeSet<_> =
                            (start..start + len).map(at).filter(|p| !model.contains(p)).collect();
                        prop_assert_eq!(gaps, expected);
                        set.insert(at(start), at(start + len));
                        model.extend((start..start + len).map(at));
                    }
                    2 => {
                        set.remove(at(start), at(start + len));
                        model.retain(|&p| p < at(start) || p >= at(start + len));
                    }
                    _ => {
                        set.remove_before(at(start));
                        model.retain(|&p| p >= at(start));
                    }
                }
                prop_assert_eq!(set.bytes(), model.len() as u64);
                let mut previous = None;
                for (from, to) in set.descending() {
                    prop_assert!(from < to);
                    prop_assert!(previous.is_none_or(|p| to < p), "ranges touch");
                    previous = Some(from);
                }
                let ranges: Vec<_> = set.descending().collect();
                prop_assert_eq!((set.len(), set.is_empty()), (ranges.len(), model.is_empty()));
                prop_assert_eq!(set.first(), ranges.last().copied());
                for (from, to) in [(start, start + len), (start, start)] {
                    let held = (from..to).map(at).find(|p| model.contains(p));
                    let overlap = held.map(|from| {
                        let until = (0..300).map(|n| from + n).find(|p| !model.contains(p)).unwrap();
                        (from, until.min(at(to)))
                    });
                    prop_assert_eq!(set.first_overlap(at(from), at(to)), overlap);
                }
                for p in (0..150).map(at) {
                    prop_assert_eq!(set.containing(p).is_some(), model.contains(&p));
                }
            }
        }
    }
}
