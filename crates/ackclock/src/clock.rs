//! The source of a stack's time: its driver supplies a [`Clock`], and nothing else in this crate reads one.

use std::fmt;
use std::time::Duration;

use ackclock_core::Instant;

/// A clock that never goes backwards.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present time, counted from an epoch that the clock chooses.
    fn now(&self) -> Instant;
}

impl<C: Clock> Clock for std::sync::Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }
}

/// The clock of a tokio runtime; a test may pause it (`tokio::time::pause`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokioClock {
    epoch: tokio::time::Instant,
}

impl TokioClock {
    pub(crate) fn new(epoch: tokio::time::Instant) -> Self {
        Self { epoch }
    }

    /// `at` in the time of tokio's own timers; far-away instants are cut to a year from the epoch.
    pub(crate) fn deadline(&self, at: Instant) -> tokio::time::Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.epoch + at.saturating_since(Instant::ZERO).min(YEAR)
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }
}
