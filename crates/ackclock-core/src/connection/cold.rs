//! State that most connections never need, in a box that comes with the first need. For the benchmark row
//! "bytes of an idle connection".

use ackclock_wire::Experiment;

use super::fast_open::FastOpening;
use super::known::Known;
use super::limiter::{Limiter, Provocation};
use super::quiet::Quiet;
use super::user_timeout::UserTimeouts;
use crate::Instant;

#[derive(Debug, Default)]
pub(super) struct Cold(Option<Box<Parts>>);

#[derive(Debug, Default)]
pub(super) struct Parts {
    limiter: Limiter,
    /// The experimental option of the peer's SYN or SYN-ACK.
    pub(super) experiment: Option<Experiment>,
    /// Both ends' user timeouts.
    pub(super) user_timeouts: Option<UserTimeouts>,
    /// Since when no data has moved, with an idle timeout.
    pub(super) quiet: Option<Quiet>,
    /// Knowledge of the path from earlier connections, until the handshake is over.
    pub(super) known: Option<Known>,
    /// The handshake with data in its SYN, until it is over and its outcome reported.
    pub(super) fast_open: Option<FastOpening>,
}

impl Cold {
    /// The state, if any was needed yet.
    #[inline]
    pub(super) fn parts(&self) -> Option<&Parts> {
        self.0.as_deref()
    }

    #[inline]
    pub(super) fn parts_mut(&mut self) -> Option<&mut Parts> {
        self.0.as_deref_mut()
    }

    /// The parts, made if they were not needed before.
    #[cold]
    pub(super) fn need(&mut self) -> &mut Parts {
        self.0.get_or_insert_default()
    }

    /// Whether an unacceptable segment may be answered now. If so, it is counted.
    pub(super) fn allow(&mut self, now: Instant, provocation: Provocation) -> bool {
        self.need().limiter.allow(now, provocation)
    }
}

ackclock_form::form! {
    struct Cold(parts)
    struct Parts { limiter, experiment, user_timeouts, quiet, known, fast_open }
}
