//! The source of a stack's time: its driver supplies a [`Clock`], and nothing else in this crate reads one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ackclock_core::Instant;
use tokio::runtime::{EnterGuard, Handle, RuntimeFlavor};

/// A clock that never goes backwards.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present time, counted from an epoch that the clock chooses.
    fn now(&self) -> Instant;
}

impl<C: Clock> Clock for Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }
}

/// A shard's clock.
#[derive(Clone, Debug)]
pub(crate) enum ShardClock {
    /// Its driver's runtime.
    Runtime(TokioClock),
    /// That of the owner of a [`Port`](crate::Port).
    Port(Arc<dyn Clock>),
}

impl ShardClock {
    pub fn now(&self) -> Instant {
        match self {
            Self::Runtime(clock) => clock.now(),
            Self::Port(clock) => clock.now(),
        }
    }

    /// For a call of the device: it reads the clock of the runtime that it is called in.
    pub fn enter(&self) -> Option<EnterGuard<'_>> {
        match self {
            Self::Runtime(clock) => clock.enter(),
            Self::Port(_) => None,
        }
    }
}

/// The clock of a driver's runtime, which a test may pause (`tokio::time::pause`). tokio's own functions read
/// the clock of the caller's runtime, which may be another one or none.
#[derive(Clone, Debug)]
pub(crate) struct TokioClock {
    runtime: Handle,
    epoch: tokio::time::Instant,
}

impl TokioClock {
    /// An `epoch` that this runtime's clock has not reached would make a stack wait for it; it counts as now.
    pub fn new(runtime: Handle, epoch: Option<tokio::time::Instant>) -> Self {
        let now = read(&runtime);
        Self { runtime, epoch: epoch.map_or(now, |epoch| epoch.min(now)) }
    }

    pub fn now(&self) -> Instant {
        Instant::ZERO + read(&self.runtime).saturating_duration_since(self.epoch)
    }

    /// `at` in the time of tokio's own timers.
    pub fn deadline(&self, at: Instant) -> tokio::time::Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        let deadline = self.epoch.checked_add(at.saturating_since(Instant::ZERO));
        // Some systems cannot represent centuries. A driver that wakes early sleeps again.
        deadline.unwrap_or_else(|| read(&self.runtime) + YEAR)
    }

    fn enter(&self) -> Option<EnterGuard<'_>> {
        enter(&self.runtime)
    }
}

/// `runtime`'s clock.
fn read(runtime: &Handle) -> tokio::time::Instant {
    // Only the clock of a single-threaded runtime can be paused.
    if !matches!(runtime.runtime_flavor(), RuntimeFlavor::CurrentThread) {
        return std::time::Instant::now().into();
    }
    let _within = enter(runtime);
    tokio::time::Instant::now()
}

/// Enters `runtime`, unless the thread is in it, or ends and cannot enter any.
fn enter(runtime: &Handle) -> Option<EnterGuard<'_>> {
    match Handle::try_current() {
        Ok(current) if current.id() == runtime.id() => None,
        Err(error) if error.is_thread_local_destroyed() => None,
        Ok(_) | Err(_) => Some(runtime.enter()),
    }
}
