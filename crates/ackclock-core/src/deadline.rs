//! A point in time at which its owner wants to act, or none.

use crate::Instant;

/// A deadline. An unset one lies in the far future, so that the next of several is a plain minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(Instant);

impl Default for Deadline {
    fn default() -> Self {
        Self::UNSET
    }
}

impl Deadline {
    pub const UNSET: Self = Self(Instant::FAR_FUTURE);

    /// When it comes; the far future if it is not set.
    #[inline]
    pub fn at(self) -> Instant {
        self.0
    }

    #[inline]
    pub fn is_set(self) -> bool {
        self != Self::UNSET
    }

    #[inline]
    pub fn has_come(self, now: Instant) -> bool {
        self.0 <= now
    }

    #[inline]
    pub fn set(&mut self, at: Instant) {
        self.0 = at;
    }

    /// Moves it forward to `at`, if it comes later or is not set.
    #[inline]
    pub fn set_no_later(&mut self, at: Instant) {
        self.0 = self.0.min(at);
    }

    #[inline]
    pub fn clear(&mut self) {
        *self = Self::UNSET;
    }
}

ackclock_form::form! {
    struct Deadline(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_of_two_stands_and_one_that_is_not_set_never_comes() {
        let (early, late) = (Instant::from_millis(10), Instant::from_millis(20));
        let mut deadline = Deadline::default();
        assert!(!deadline.is_set() && !deadline.has_come(Instant::from_millis(u64::from(u32::MAX))));
        deadline.set_no_later(late);
        deadline.set_no_later(early);
        deadline.set_no_later(late);
        assert_eq!((deadline.at(), deadline.is_set()), (early, true));
        assert!(deadline.has_come(early) && !deadline.has_come(Instant::from_millis(9)));
        deadline.clear();
        assert_eq!(deadline, Deadline::UNSET);
    }
}
