//! The cork: the application holds partial segments back.

use std::time::Duration;

use crate::Instant;
use crate::deadline::Deadline;

/// How long a cork holds what lies behind it.
// RFC 9293 MUST-60: never indefinitely.
const HOLDS: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cork {
    is_in: bool,
    /// The latest time for held data to leave.
    deadline: Deadline,
    /// That time has passed, and what is held may leave.
    expired: bool,
}

impl Cork {
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Puts it in or takes it out. Data that it held gets a new time.
    pub fn set(&mut self, is_in: bool) {
        *self = Self { is_in, ..Self::default() };
    }

    #[inline]
    pub fn is_in(&self) -> bool {
        self.is_in
    }

    /// Whether it holds partial segments now.
    #[inline]
    pub fn holds(&self) -> bool {
        self.is_in && !self.expired
    }

    /// Whether it has held a partial segment long enough.
    #[inline]
    pub fn has_expired(&self) -> bool {
        self.expired
    }

    /// Data waits: starts its time, unless that is running already.
    pub fn hold(&mut self, now: Instant) {
        if self.is_in && !self.deadline.is_set() {
            self.deadline.set(now + HOLDS);
        }
    }

    pub fn expire(&mut self) {
        self.deadline.clear();
        self.expired = true;
    }

    /// Everything written has left. The next partial segment gets its own time.
    #[inline]
    pub fn release(&mut self) {
        (self.deadline, self.expired) = (Deadline::UNSET, false);
    }

    pub fn stop(&mut self) {
        self.deadline.clear();
    }
}

ackclock_form::form! {
    struct Cork { is_in, deadline, expired }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partial_segment_is_held_for_200_ms_from_its_first_byte() {
        let at = |millis| Instant::from_millis(millis);
        let mut cork = Cork::default();
        cork.hold(at(0));
        assert!(!cork.deadline().is_set() && !cork.holds(), "there is none");
        cork.set(true);
        cork.hold(at(100));
        cork.hold(at(250));
        assert_eq!((cork.deadline().at(), cork.holds()), (at(300), true));
        cork.expire();
        assert!(!cork.holds() && cork.has_expired() && !cork.deadline().is_set());
        cork.release();
        cork.hold(at(400));
        assert_eq!((cork.deadline().at(), cork.holds()), (at(600), true));
        cork.set(false);
        assert!(!cork.deadline().is_set() && !cork.is_in());
    }
}
