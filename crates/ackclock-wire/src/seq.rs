//! Sequence numbers: points on a circle of 2^32 (RFC 9293 §3.4).

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A TCP sequence number.
///
/// Sequence numbers lie on a circle and have no total order, so this type has no `Ord`. Compare two numbers
/// through [`before`](Self::before) and its siblings, which are meaningful while the two are less than 2^31
/// apart.
///
/// ```
/// use ackclock_wire::SeqNum;
/// let start = SeqNum::new(u32::MAX);
/// let end = start + 2;
/// assert!(start.before(end));
/// assert_eq!(end.offset_from(start), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeqNum(u32);

impl SeqNum {
    /// The sequence number with this value on the wire.
    #[must_use]
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The value on the wire.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// `self < other` on the circle.
    #[must_use]
    #[inline]
    pub const fn before(self, other: Self) -> bool {
        // The top bit of the difference is its sign; 2^31 apart counts as before in both directions.
        self.0.wrapping_sub(other.0) & (1 << 31) != 0
    }

    /// `self <= other` on the circle.
    #[must_use]
    #[inline]
    pub const fn before_eq(self, other: Self) -> bool {
        self.0 == other.0 || self.before(other)
    }

    /// `self > other` on the circle.
    #[must_use]
    #[inline]
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// `self >= other` on the circle.
    #[must_use]
    #[inline]
    pub const fn after_eq(self, other: Self) -> bool {
        other.before_eq(self)
    }

    /// Whether `self` is one of the `len` numbers from `start` on.
    #[must_use]
    #[inline]
    pub const fn in_window(self, start: Self, len: u32) -> bool {
        self.0.wrapping_sub(start.0) < len
    }

    /// How far `self` lies after `start`, going up the circle.
    #[must_use]
    #[inline]
    pub const fn offset_from(self, start: Self) -> u32 {
        self.0.wrapping_sub(start.0)
    }

    /// The later of two numbers less than 2^31 apart.
    #[must_use]
    #[inline]
    pub const fn later(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of two numbers less than 2^31 apart.
    #[must_use]
    #[inline]
    pub const fn earlier(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for SeqNum {
    type Output = Self;
    #[inline]
    fn add(self, len: u32) -> Self {
        Self(self.0.wrapping_add(len))
    }
}

impl AddAssign<u32> for SeqNum {
    #[inline]
    fn add_assign(&mut self, len: u32) {
        *self = *self + len;
    }
}

impl Sub<u32> for SeqNum {
    type Output = Self;
    #[inline]
    fn sub(self, len: u32) -> Self {
        Self(self.0.wrapping_sub(len))
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

ackclock_form::form! {
    struct SeqNum(raw)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Less than half the circle, where two numbers have an order.
    const HALF: u32 = 1 << 31;

    proptest! {
        #[test]
        fn order_is_that_of_the_distance(start: u32, distance in 1..HALF) {
            let (a, b) = (SeqNum::new(start), SeqNum::new(start) + distance);
            prop_assert!(a.before(b) && a.before_eq(b) && b.after(a) && b.after_eq(a));
            prop_assert!(!b.before(a) && !b.before_eq(a) && !a.after(b) && !a.after_eq(b));
            prop_assert_eq!((a.later(b), b.later(a)), (b, b));
            prop_assert_eq!((a.earlier(b), b.earlier(a)), (a, a));
        }

        #[test]
        fn offset_and_addition_are_inverse(start: u32, distance: u32) {
            let a = SeqNum::new(start);
            prop_assert_eq!((a + distance).offset_from(a), distance);
            prop_assert_eq!(a + distance - distance, a);
        }

        #[test]
        fn window_holds_exactly_its_numbers(start: u32, len: u32, at: u32) {
            let (start, number) = (SeqNum::new(start), SeqNum::new(start) + at);
            prop_assert_eq!(number.in_window(start, len), at < len);
        }
    }

    #[test]
    fn equal_numbers_are_neither_before_nor_after() {
        for raw in [0, HALF - 1, HALF, u32::MAX] {
            let a = SeqNum::new(raw);
            assert!(!a.before(a) && !a.after(a) && a.before_eq(a) && a.after_eq(a));
            assert!(!a.in_window(a, 0));
        }
    }
}
