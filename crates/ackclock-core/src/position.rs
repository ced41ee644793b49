//! Positions: sequence numbers that do not wrap.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign};

use ackclock_wire::SeqNum;

/// A place in one direction of a connection: a sequence number extended to 64 bits, whose low half is the
/// number on the wire.
///
/// Positions are ordered and never wrap (the first lies above 2^32, so that old duplicates from before it
/// have one too). A number from the wire becomes a position once, at the border, and is an ordinary integer
/// from there on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position(NonZeroU64);

impl Position {
    /// `at`, or the first position for 0, so that an `Option` takes no extra room.
    #[inline]
    fn new(at: u64) -> Self {
        Self(NonZeroU64::new(at).unwrap_or(NonZeroU64::MIN))
    }

    /// The position of an initial sequence number.
    pub fn initial(seq: SeqNum) -> Self {
        Self::new((1 << 32) + u64::from(seq.raw()))
    }

    /// The position with this sequence number nearest to `self`, at most 2^31 away.
    #[inline]
    pub fn near(self, seq: SeqNum) -> Self {
        let ahead = seq.offset_from(self.seq());
        if ahead < 1 << 31 {
            Self(self.0.saturating_add(u64::from(ahead)))
        } else {
            self.back(u64::from(ahead.wrapping_neg()))
        }
    }

    /// The number on the wire.
    #[inline]
    pub fn seq(self) -> SeqNum {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the number on the wire")]
        SeqNum::new(self.0.get() as u32)
    }

    /// Bytes from `earlier` to `self`; zero if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }

    /// The distance from `earlier`, as an index into a buffer that begins there.
    #[inline]
    pub fn index_from(self, earlier: Self) -> usize {
        usize::try_from(self.since(earlier)).unwrap_or(usize::MAX)
    }

    /// The position `bytes` before this one.
    #[inline]
    pub fn back(self, bytes: u64) -> Self {
        Self::new(self.0.get().saturating_sub(bytes))
    }
}

impl Default for Position {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Add<u64> for Position {
    type Output = Self;
    #[inline]
    fn add(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }
}

impl AddAssign<u64> for Position {
    #[inline]
    fn add_assign(&mut self, bytes: u64) {
        *self = *self + bytes;
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

ackclock_form::form! {
    struct Position(at) => |position| position.0.get() < 1 << 62;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn near_inverts_seq_within_half_the_circle(start: u32, forward in 0u64..1 << 40, away in -(1i64 << 31) + 1..1i64 << 31) {
            let here = Position::initial(SeqNum::new(start)) + forward;
            let there = Position::new(here.0.get().saturating_add_signed(away));
            prop_assert_eq!(here.near(there.seq()), there);
        }

        #[test]
        fn order_of_positions_agrees_with_the_circle(start: u32, away in 1u64..1 << 31) {
            let here = Position::initial(SeqNum::new(start));
            let there = here + away;
            prop_assert!(here < there);
            prop_assert!(here.seq().before(there.seq()));
            prop_assert_eq!(there.since(here), away);
        }
    }
}
