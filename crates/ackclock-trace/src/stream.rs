//! Extended sequence numbers and the segment size, which the views of a stream share.

use std::collections::BTreeMap;

/// The 64-bit position of `seq`, less than 2^31 from `near`.
pub(crate) fn extend(near: u64, seq: u32) -> u64 {
    let by = i64::from(seq.wrapping_sub(near as u32).cast_signed());
    near.saturating_add_signed(by)
}

/// The acknowledged position of a stream, in 64 bits. A trace that begins in the middle counts from its
/// beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Una(Option<u64>);

impl Una {
    /// The position of a sequence number near what is acknowledged.
    pub fn place(&mut self, seq: u32) -> u64 {
        let near = *self.0.get_or_insert(seq.into());
        extend(near, seq)
    }

    /// Everything before `place` is acknowledged. Returns the previous position.
    pub fn advance(&mut self, place: u64) -> u64 {
        let before = self.0.unwrap_or(place);
        self.0 = Some(before.max(place));
        before
    }
}

/// The most common of these lengths; the smallest of several; `None` without lengths.
pub(crate) fn most_common(lengths: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    lengths.for_each(|len| *counts.entry(len).or_default() += 1);
    let most = counts.into_iter().max_by_key(|&(len, count)| (count, std::cmp::Reverse(len)));
    most.map(|(len, _)| len)
}

#[cfg(test)]
mod tests {
    use super::{Una, extend, most_common};

    #[test]
    fn numbers_go_on_where_32_bits_turn_over() {
        assert_eq!(extend(u64::from(u32::MAX) - 10, 5), (1 << 32) + 5);
        assert_eq!(extend((1 << 32) + 5, u32::MAX), u64::from(u32::MAX));
        assert_eq!(extend(3, u32::MAX), 0, "nothing lies before the first");
    }

    #[test]
    fn trace_that_begins_in_the_middle_counts_from_there() {
        let mut una = Una::default();
        assert_eq!(una.place(3_000_000_000), 3_000_000_000);
        assert_eq!(una.advance(4_294_967_000), 3_000_000_000);
        assert_eq!(una.place(104), (1 << 32) + 104);
    }

    #[test]
    fn length_that_occurs_most_wins() {
        assert_eq!(most_common([1448, 200, 1448, 3].into_iter()), Some(1448));
        assert_eq!(most_common([7, 5].into_iter()), Some(5));
        assert_eq!(most_common(std::iter::empty()), None);
    }
}
