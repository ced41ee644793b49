//! Counts delivered bytes, for samples of the delivery rate.
//!
//! Y. Cheng, N. Cardwell, S. Hassas Yeganeh and V. Jacobson, "Delivery Rate Estimation",
//! draft-ietf-ccwg-bbr-05 §4.1, which took it in.

use ackclock_control::congestion::Lost;
use ackclock_control::tally::Tally;

use super::doubt::PathRtt;
use super::scoreboard::{AckOutcome, SendMoment};
use crate::Instant;
use crate::position::Position;

#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    bytes: u64,
    at: Instant,
    rate: u64,
    /// When the data delivered last had been sent (C.first_send_time).
    sent_at: Instant,
    /// Sending was limited by the application until this much was delivered.
    app_limited_until: u64,
    /// The window was full when data up to this position was sent.
    cwnd_limited_until: Option<Position>,
    /// Bytes found to be lost (C.lost), modulo 2^32.
    lost: u32,
    /// The times with which an acknowledgement's time is compared.
    path_rtt: PathRtt,
}

impl Delivery {
    pub fn new(now: Instant) -> Self {
        Self {
            bytes: 0,
            at: now,
            rate: 0,
            sent_at: now,
            app_limited_until: 0,
            cwnd_limited_until: None,
            lost: 0,
            path_rtt: PathRtt::UNMEASURED,
        }
    }

    pub fn path_rtt(&self) -> PathRtt {
        self.path_rtt
    }

    pub fn set_path_rtt(&mut self, path_rtt: PathRtt) {
        self.path_rtt = path_rtt;
    }

    /// Whether it is too soon to acknowledge what left at `moment`. Of what was `repeated` the first
    /// transmission may be what is acknowledged.
    #[inline]
    pub fn is_early(&self, now: Instant, moment: &SendMoment, repeated: bool) -> bool {
        !repeated && self.path_rtt.is_early(now.nanos_since(moment.at))
    }

    /// ESTABLISHED is reached.
    pub fn restart(&mut self, now: Instant) {
        (self.at, self.sent_at) = (now, now);
    }

    /// Bytes delivered since the connection began.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The last sample in bytes a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// The moment that samples of `bytes` that leave now will need, with `in_flight` bytes in flight.
    #[inline]
    pub fn moment(&mut self, now: Instant, in_flight: u64, bytes: u64) -> SendMoment {
        if in_flight == 0 {
            // Time with nothing in flight says nothing about the path.
            (self.at, self.sent_at) = (now, now);
        }
        let sending_us = now.nanos_since(self.sent_at) / 1000;
        SendMoment {
            at: now,
            delivered: self.bytes,
            delivered_at: self.at,
            sending_us: u32::try_from(sending_us).unwrap_or(u32::MAX),
            in_flight: u32::try_from(in_flight.saturating_add(bytes)).unwrap_or(u32::MAX),
            lost: self.lost,
            app_limited: self.app_limited_until > self.bytes,
        }
    }

    /// An acknowledgement delivered data.
    #[inline]
    pub fn on_ack(&mut self, now: Instant, outcome: &AckOutcome) {
        if let Some((moment, _)) = &outcome.newest_any {
            let repeated = outcome.newest_was_repeated;
            self.on_delivered(now, outcome.newly_acked, moment, repeated);
        }
    }

    /// `bytes` were delivered; the newest of them left at `moment`, and was `repeated`.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    pub fn on_delivered(&mut self, now: Instant, bytes: u64, moment: &SendMoment, repeated: bool) {
        self.bytes.grow(bytes);
        self.at = now;
        self.sent_at = moment.at;
        let nanos = if self.is_early(now, moment, repeated) { 0 } else { interval_ns(now, moment) };
        if let Some(rate) =
            self.bytes.saturating_sub(moment.delivered).saturating_mul(1_000_000_000).checked_div(nanos)
        {
            self.rate = rate;
        }
    }

    /// The application has nothing more to send, although the window has room.
    #[inline]
    pub fn note_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = self.bytes.saturating_add(in_flight.max(1));
    }

    /// The window is full, with data up to `nxt` in flight.
    #[inline]
    pub fn note_cwnd_limited(&mut self, nxt: Position) {
        self.cwnd_limited_until = Some(nxt);
    }

    /// Whether the window was full when the data below `una` was sent.
    #[inline]
    pub fn was_cwnd_limited(&self, una: Position) -> bool {
        self.cwnd_limited_until.is_some_and(|until| una <= until)
    }

    /// Whether any loss was found; wrong once in 2^32 bytes.
    #[inline]
    pub fn lost_any(&self) -> bool {
        self.lost != 0
    }

    /// Bytes found to be lost since `moment`.
    pub fn lost_since(&self, moment: &SendMoment) -> u64 {
        u64::from(self.lost.wrapping_sub(moment.lost))
    }

    /// `bytes` were found to be lost; the newest of them left at `newest`. Returns what congestion control
    /// must learn.
    pub fn on_lost(&mut self, now: Instant, bytes: u64, newest: SendMoment) -> Lost {
        self.lost = self.lost.wrapping_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        Lost {
            now,
            bytes,
            delivered: self.bytes,
            prior_delivered: newest.delivered,
            tx_in_flight: u64::from(newest.in_flight),
            lost: self.lost_since(&newest).max(bytes),
            app_limited: newest.app_limited,
        }
    }
}

/// The longer of the times over which the data delivered since `moment` was sent and delivered
/// (draft-ietf-ccwg-bbr-05 §4.1.2.3): delayed acknowledgements that arrive together do not make a path look
/// fast.
#[inline]
pub(super) fn interval_ns(now: Instant, moment: &SendMoment) -> u64 {
    let delivering = now.nanos_since(moment.delivered_at);
    delivering.max(u64::from(moment.sending_us) * 1000)
}

ackclock_form::form! {
    struct Delivery { bytes, at, rate, sent_at, app_limited_until, cwnd_limited_until, lost, path_rtt }
}
