//! State that most connections never need: counts of problems, and the limits of answers to unacceptable
//! segments.

use ackclock_control::tally::Tally;

use super::feedback::Feedback;
use super::limiter::{Limiter, Provocation};
use crate::Instant;

/// A pointer, empty until first needed, for the benchmark row "bytes of an idle connection".
#[derive(Debug, Default)]
pub(super) struct Rare(Option<Box<State>>);

#[derive(Debug)]
struct State {
    counts: RareCounts,
    limiter: Limiter,
    feedback: Feedback,
}

/// Totals since the connection began, all of them 0 on a path without loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RareCounts {
    pub(super) bytes_retransmitted: u64,
    pub(super) bytes_duplicate: u64,
    pub(super) retransmits: u64,
    pub(super) out_of_order: u64,
}

impl Rare {
    pub(super) fn counts(&self) -> RareCounts {
        self.0.as_ref().map(|state| state.counts).unwrap_or_default()
    }

    /// Something was retransmitted.
    #[cold]
    pub(super) fn count_retransmission(&mut self, bytes: u64, segments: u64) {
        let counts = &mut self.state().counts;
        counts.bytes_retransmitted.grow(bytes);
        counts.retransmits.grow(segments);
    }

    /// Counts bytes that arrived twice.
    #[inline]
    pub(super) fn count_duplicate(&mut self, bytes: u64) {
        if bytes > 0 {
            self.state().counts.bytes_duplicate.grow(bytes);
        }
    }

    /// Text arrived beyond a gap.
    pub(super) fn count_out_of_order(&mut self) {
        self.state().counts.out_of_order.count();
    }

    /// Whether an unacceptable segment may be answered now. If so, it is counted.
    pub(super) fn allow(&mut self, now: Instant, provocation: Provocation) -> bool {
        self.state().limiter.allow(now, provocation)
    }

    /// What was asked for of what becomes of writing.
    pub(super) fn feedback(&self) -> Feedback {
        self.0.as_ref().map(|state| state.feedback).unwrap_or_default()
    }

    pub(super) fn feedback_mut(&mut self) -> &mut Feedback {
        &mut self.state().feedback
    }

    #[cold]
    fn state(&mut self) -> &mut State {
        self.0.get_or_insert_with(|| {
            let (counts, feedback) = (RareCounts::default(), Feedback::default());
            Box::new(State { counts, limiter: Limiter::new(), feedback })
        })
    }
}
