//! State that most connections never need, in boxes that come with the first need: the second for what only
//! options and searches need. For the benchmark row "bytes of an idle connection".

use ackclock_control::bandwidth;
use ackclock_control::tally::Tally;
use ackclock_wire::Experiment;

use super::fast_open::FastOpening;
use super::feedback::Feedback;
use super::limiter::{Limiter, Provocation};
use super::mtu_search::MtuSearch;
use super::user_timeout::UserTimeouts;
use crate::Instant;
use crate::deadline::Deadline;

#[derive(Debug, Default)]
pub(super) struct Cold(Option<Box<Parts>>);

#[derive(Debug)]
struct Parts {
    counts: RareCounts,
    limiter: Limiter,
    memory_retry: Deadline,
    rest: Option<Box<Rest>>,
}

/// Totals since the connection began, all of them 0 on a path without loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RareCounts {
    pub(super) bytes_retransmitted: u64,
    pub(super) bytes_duplicate: u64,
    pub(super) retransmits: u64,
    pub(super) out_of_order: u64,
}

/// State of options and searches.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// The delivery feedback that the application asked for.
    pub(super) feedback: Feedback,
    /// What the arrivals of the peer's slow start reveal about the path.
    pub(super) arrivals: Option<bandwidth::Receiver>,
    /// The experimental option of the peer's SYN or SYN-ACK.
    pub(super) experiment: Option<Experiment>,
    /// Both ends' user timeouts.
    pub(super) user_timeouts: Option<UserTimeouts>,
    /// Present if the connection was opened by Fast Open, until the handshake is over and its outcome
    /// reported.
    pub(super) fast_open: Option<FastOpening>,
    /// Whether the first SYN of that handshake was answered.
    pub(super) fast_open_clean: bool,
    /// The search for the path's MTU, once it has had a reason.
    pub(super) mtu_search: Option<MtuSearch>,
    /// Whether segments are signed.
    #[cfg(feature = "tcp-ao")]
    pub(super) authenticated: bool,
}

impl Cold {
    /// With all segments signed or not.
    #[cfg(feature = "tcp-ao")]
    pub(super) fn signed(mut self, signed: bool) -> Self {
        if signed {
            self.need_rest().authenticated = true;
        }
        self
    }

    /// The state of options and searches, if any was needed yet.
    #[inline]
    pub(super) fn rest(&self) -> Option<&Rest> {
        self.0.as_ref()?.rest.as_deref()
    }

    #[inline]
    pub(super) fn rest_mut(&mut self) -> Option<&mut Rest> {
        self.0.as_mut()?.rest.as_deref_mut()
    }

    /// The same, from now on needed.
    #[cold]
    pub(super) fn need_rest(&mut self) -> &mut Rest {
        self.parts().rest.get_or_insert_default()
    }

    pub(super) fn counts(&self) -> RareCounts {
        self.0.as_ref().map(|parts| parts.counts).unwrap_or_default()
    }

    /// Something was retransmitted.
    #[cold]
    pub(super) fn count_retransmission(&mut self, bytes: u64, segments: u64) {
        let counts = &mut self.parts().counts;
        counts.bytes_retransmitted.grow(bytes);
        counts.retransmits.grow(segments);
    }

    /// Counts bytes that arrived twice.
    #[inline]
    pub(super) fn count_duplicate(&mut self, bytes: u64) {
        if bytes > 0 {
            self.parts().counts.bytes_duplicate.grow(bytes);
        }
    }

    /// Text arrived beyond a gap.
    pub(super) fn count_out_of_order(&mut self) {
        self.parts().counts.out_of_order.count();
    }

    /// Whether an unacceptable segment may be answered now. If so, it is counted.
    pub(super) fn allow(&mut self, now: Instant, provocation: Provocation) -> bool {
        self.parts().limiter.allow(now, provocation)
    }

    /// When a writer that waits for the memory budget looks at it again.
    #[inline]
    pub(super) fn memory_retry(&self) -> Deadline {
        self.0.as_ref().map_or(Deadline::UNSET, |parts| parts.memory_retry)
    }

    pub(super) fn retry_memory(&mut self, at: Instant) {
        self.parts().memory_retry.set_no_later(at);
    }

    #[inline]
    pub(super) fn stop_retrying_memory(&mut self) {
        if let Some(parts) = &mut self.0 {
            parts.memory_retry.clear();
        }
    }

    #[cold]
    fn parts(&mut self) -> &mut Parts {
        self.0.get_or_insert_with(|| {
            Box::new(Parts {
                counts: RareCounts::default(),
                limiter: Limiter::new(),
                memory_retry: Deadline::UNSET,
                rest: None,
            })
        })
    }
}
