//! RACK (RFC 8985 §6): a segment is lost when one sent later, by at least a reordering window, has been
//! delivered.
//!
//! Time replaces counting: a lost retransmission and a lost tail are found like any other loss, and
//! reordering within the window does not count as loss.

use std::time::Duration;

use ackclock_control::rtt::RttEstimator;
use ackclock_control::time::nanos;

use super::super::quarters;
use super::AckOutcome;
use crate::Instant;
use crate::position::Position;

/// The last delivery, and how far the path reorders.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: of all delivered transmissions, the one that left last.
    newest: Option<(Instant, Position)>,
    /// RACK.rtt: its round-trip time in nanoseconds.
    rtt_ns: u64,
    /// Whether a segment was ever delivered after one sent later.
    reordering_seen: bool,
    /// RACK.reo_wnd_mult minus 1: quarters of the smallest round-trip time added for spurious
    /// retransmissions.
    widened: u8,
    /// RACK.reo_wnd_persist: loss recoveries until the window narrows again.
    persist: u8,
    /// The window widens once a round trip: not before this is acknowledged.
    round: Position,
}

/// RFC 8985 §6.2 step 4: a widened window is kept for this many recoveries.
const PERSIST: u8 = 16;

impl Rack {
    /// RFC 8985 §6.2 steps 1 to 3: records what an acknowledgement delivered.
    pub fn on_ack(&mut self, now: Instant, outcome: &AckOutcome, estimator: &RttEstimator) {
        self.reordering_seen |= outcome.reordered;
        let Some((moment, end)) = &outcome.newest_any else { return };
        let rtt_ns = now.nanos_since(moment.at);
        // Step 2: an acknowledgement sooner than the path allows answers the first transmission, not the
        // retransmission.
        if outcome.newest_is_original || outcome.newest_was_repeated && rtt_ns < nanos(estimator.rtt_min()) {
            return;
        }
        self.on_delivered(now, moment.at, *end);
    }

    /// A transmission that left at `sent_at` and ends at `end` was delivered; of those acknowledged, it left
    /// last.
    #[inline]
    pub fn on_delivered(&mut self, now: Instant, sent_at: Instant, end: Position) {
        self.rtt_ns = now.nanos_since(sent_at);
        self.newest = self.newest.max(Some((sent_at, end)));
    }

    /// Step 4: the peer reported (RFC 2883) that a retransmission was unnecessary: the window was too small.
    pub fn on_duplicate_report(&mut self, una: Position, nxt: Position) {
        if una >= self.round {
            self.round = nxt;
            self.widened = self.widened.saturating_add(1);
            self.persist = PERSIST;
            self.reordering_seen = true;
        }
    }

    /// Forgets the newest delivery, which may have been that of another transmission.
    pub fn forget_delivery(&mut self) {
        self.newest = None;
    }

    /// A recovery ended: after enough of them the window narrows again.
    pub fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.widened = 0;
        }
    }

    /// Anything sent before this transmission and still in flight is late.
    pub fn newest(&self) -> Option<(Instant, Position)> {
        self.newest
    }

    /// How long after its sending a segment counts as lost: RACK.rtt plus the reordering window. `certain`:
    /// recovery is under way or three segments were SACKed, so that without a sign of reordering there is no
    /// wait.
    pub fn patience(&self, rtt_min: Duration, srtt: Duration, certain: bool) -> Duration {
        let rtt = Duration::from_nanos(self.rtt_ns);
        if certain && !self.reordering_seen {
            return rtt;
        }
        rtt.saturating_add(quarters(rtt_min, u32::from(self.widened).saturating_add(1)).min(srtt))
    }
}

ackclock_form::form! {
    struct Rack { newest, rtt_ns, reordering_seen, widened, persist, round }
}
