//! When empty buffers give their memory back: half a second after the connection was last used, because it
//! may be needed again soon.

use std::time::Duration;

use crate::Instant;
use crate::deadline::Deadline;

/// How long empty buffers keep their memory.
const KEPT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdleBuffers(Deadline);

impl IdleBuffers {
    /// A buffer is in use.
    #[inline]
    pub fn end(&mut self) {
        self.0.clear();
    }

    /// A buffer became empty.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        self.0.set_no_later(now + KEPT);
    }

    /// When to look whether they are still idle.
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.0
    }

    /// The deadline has come. Returns whether to give the memory back: not if something left or arrived since
    /// at `used`.
    pub fn judge(&mut self, now: Instant, used: Option<Instant>) -> bool {
        self.0.clear();
        match used.filter(|&at| now.saturating_since(at) < KEPT) {
            Some(at) => {
                self.begin(at);
                false
            }
            None => true,
        }
    }
}

ackclock_form::form! {
    struct IdleBuffers(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_half_a_second_after_the_last_use() {
        let at = |millis| Instant::from_millis(millis);
        let mut idle = IdleBuffers::default();
        idle.begin(at(100));
        idle.begin(at(300));
        assert_eq!(idle.deadline().at(), at(600));
        assert!(!idle.judge(at(600), Some(at(101))));
        assert_eq!(idle.deadline().at(), at(601));
        assert!(idle.judge(at(601), Some(at(101))) && !idle.deadline().is_set());
        idle.begin(at(700));
        idle.end();
        assert!(!idle.deadline().is_set());
        assert!(idle.judge(at(800), None));
    }
}
