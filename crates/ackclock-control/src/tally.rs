//! Counts, and sums of what is held, which overflow nowhere.

/// A count of events, or a sum of bytes held, kept in an integer.
///
/// Its owner adds what comes and subtracts what goes, so it neither wraps nor falls below zero. A build with
/// debug assertions checks that. In any other build it wraps upwards, and stops at zero downwards: a sum that
/// wrapped below zero would look like a table that is full for ever.
///
/// ```
/// use ackclock_control::tally::Tally;
///
/// let (mut packets, mut held_bytes) = (0_u64, 0_usize);
/// packets.count();
/// held_bytes.grow(1500);
/// held_bytes.shrink(500);
/// assert_eq!((packets, held_bytes), (1, 1000));
/// ```
pub trait Tally: Copy {
    /// One more.
    fn count(&mut self);
    /// `by` more.
    fn grow(&mut self, by: Self);
    /// `by` less.
    fn shrink(&mut self, by: Self);
}

macro_rules! tally {
    ($($integer:ty),*) => {$(
        impl Tally for $integer {
            #[inline]
            fn count(&mut self) {
                self.grow(1);
            }

            #[inline]
            fn grow(&mut self, by: Self) {
                debug_assert!(self.checked_add(by).is_some(), "{self} + {by} overflows");
                *self = self.wrapping_add(by);
            }

            #[inline]
            fn shrink(&mut self, by: Self) {
                debug_assert!(*self >= by, "{by} of {self} went");
                *self = self.saturating_sub(by);
            }
        }
    )*};
}

tally!(u32, u64, usize);

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn what_came_and_went_leaves_the_rest() {
        let mut bytes = 0_u64;
        bytes.grow(7);
        bytes.count();
        bytes.shrink(3);
        assert_eq!(bytes, 5);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "6 of 5 went"))]
    fn more_than_is_there_cannot_go() {
        let mut bytes = 5_usize;
        bytes.shrink(6);
        assert_eq!(bytes, 0);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "overflows"))]
    fn a_count_at_its_end_wraps() {
        let mut packets = u32::MAX;
        packets.count();
        assert_eq!(packets, 0);
    }
}
