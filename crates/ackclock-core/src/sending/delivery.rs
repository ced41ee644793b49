//! What was delivered, for samples of the delivery rate.
//!
//! Y. Cheng, N. Cardwell, S. Hassas Yeganeh and V. Jacobson, "Delivery Rate Estimation",
//! draft-ietf-ccwg-bbr-05 §4.1, which took it in.

use ackclock_control::congestion::Lost;

use super::scoreboard::{AckOutcome, SendMoment};
use crate::Instant;
use crate::position::Position;

#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    bytes: u64,
    at: Instant,
    rate: u64,
    /// Sending was limited by the application until this much was delivered.
    app_limited_until: u64,
    /// The window was full when data up to here was sent.
    cwnd_limited_until: Option<Position>,
}

impl Delivery {
    pub(super) fn new(now: Instant) -> Self {
        Self { bytes: 0, at: now, rate: 0, app_limited_until: 0, cwnd_limited_until: None }
    }

    /// ESTABLISHED is reached.
    pub(super) fn restart(&mut self, now: Instant) {
        self.at = now;
    }

    /// Bytes delivered since the connection began.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The last sample in bytes a second.
    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// What is noted of a segment that leaves now.
    #[inline]
    pub(super) fn moment(&self, now: Instant, nothing_out: bool) -> SendMoment {
        SendMoment {
            at: now,
            delivered: self.bytes,
            delivered_at: if nothing_out { now } else { self.at },
            app_limited: self.app_limited_until > self.bytes,
        }
    }

    /// An acknowledgement delivered something.
    #[inline]
    pub(super) fn on_ack(&mut self, now: Instant, outcome: &AckOutcome) {
        self.bytes += outcome.newly_acked;
        if let Some((moment, _)) = outcome.newest_any {
            let bytes = self.bytes - moment.delivered;
            let nanos = now.as_nanos().saturating_sub(moment.delivered_at.as_nanos());
            if let Some(rate) = bytes.saturating_mul(1_000_000_000).checked_div(nanos) {
                self.rate = rate;
            }
        }
        if outcome.newly_acked > 0 {
            self.at = now;
        }
    }

    /// The application has nothing more to send, and the window had room.
    #[inline]
    pub(super) fn note_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = self.bytes + in_flight.max(1);
    }

    /// The window is full, with data up to `nxt` out.
    #[inline]
    pub(super) fn note_cwnd_limited(&mut self, nxt: Position) {
        self.cwnd_limited_until = Some(nxt);
    }

    /// Whether the window was full when the data below `una` was sent.
    #[inline]
    pub(super) fn was_cwnd_limited(&self, una: Position) -> bool {
        self.cwnd_limited_until.is_some_and(|until| una <= until)
    }

    /// What congestion control hears of a loss.
    pub(super) fn lost(&self, now: Instant, bytes: u64, newest: SendMoment) -> Lost {
        Lost {
            now,
            bytes,
            delivered: self.bytes,
            prior_delivered: newest.delivered,
            app_limited: newest.app_limited,
        }
    }
}
