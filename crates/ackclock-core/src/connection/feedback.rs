//! Delivery feedback for an application that asks: how much is acknowledged and since when, how much is still
//! unsent, and how fast the path is.
//!
//! A connection whose application does not ask pays nothing for it on the fast paths: [`Awaited`] is in a
//! byte that an acknowledgement reads anyway, and the rest is kept in [`Cold`](super::cold::Cold).

use ackclock_control::tally::Tally;

use super::Connection;
use super::sender::Awaited;
use crate::{DeliveryInfo, Instant};

/// The application's requests, and the answers so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Feedback {
    /// The most bytes that may wait to be sent for the first time.
    lowat: Option<u32>,
    /// Acknowledgements that delivered something since the application first asked.
    changes: u64,
    /// When the last acknowledgement that advanced SND.UNA arrived.
    acked_at: Option<Instant>,
    /// Wake the application once this many bytes are acknowledged.
    tell_at: Option<u64>,
    /// Wake the application at the next change.
    tell_next: bool,
}

impl Connection {
    /// Delivery so far, and the speed of the path.
    #[must_use]
    pub fn delivery(&self) -> DeliveryInfo {
        let (sending, rtt) = (self.flight.info(&self.tcp), self.flight.rtt());
        DeliveryInfo {
            written: self.written(),
            acked: self.acked(),
            not_sent: self.unsent(),
            in_flight: sending.in_flight,
            cwnd: sending.cwnd,
            delivery_rate: sending.delivery_rate,
            srtt: rtt.srtt(),
            rtt_min: rtt.rtt_min(),
            queueing_delay: rtt.srtt().saturating_sub(rtt.rtt_min()),
        }
    }

    /// Bytes of the stream that the application has written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.snd.data_end().since(self.snd.iss + 1)
    }

    /// Bytes from the start of the stream that the peer has acknowledged.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.flight.una().min(self.snd.data_end()).since(self.snd.iss + 1)
    }

    /// Bytes that were written but never sent.
    #[must_use]
    pub fn not_sent(&self) -> u64 {
        self.unsent()
    }

    /// The number of acknowledged bytes and when their acknowledgement arrived, once they are at least
    /// `upto`. Until then `None`, and [`Readiness::delivered`](crate::Readiness::delivered) reports when to
    /// ask again: then, or once [`shutdown`](Self::shutdown) has ended the stream.
    ///
    /// Before the first such call, or the first of [`await_feedback`](Self::await_feedback), the time is that
    /// of the last segment that arrived, which is no earlier than the acknowledgement.
    pub fn await_delivered(&mut self, upto: u64) -> Option<(u64, Instant)> {
        self.snd.awaited.add(Awaited::DELIVERY);
        let (acked, heard_at) = (self.acked(), self.silence.heard_at());
        let feedback = &mut self.cold.need_rest().feedback;
        if acked >= upto {
            return Some((acked, *feedback.acked_at.get_or_insert(heard_at)));
        }
        feedback.tell_at = Some(feedback.tell_at.map_or(upto, |other| other.min(upto)));
        None
    }

    /// The number of changes to the figures of [`delivery`](Self::delivery) since feedback was first asked
    /// for, if it differs from `seen`. Otherwise `None`, and
    /// [`Readiness::delivered`](crate::Readiness::delivered) reports the next change.
    pub fn await_feedback(&mut self, seen: u64) -> Option<u64> {
        self.snd.awaited.add(Awaited::DELIVERY);
        let feedback = &mut self.cold.need_rest().feedback;
        feedback.tell_next |= feedback.changes == seen;
        (feedback.changes != seen).then_some(feedback.changes)
    }

    /// The number of changes so far that [`await_feedback`](Self::await_feedback) counts.
    #[must_use]
    pub fn feedback_changes(&self) -> u64 {
        self.cold.rest().map_or(0, |rest| rest.feedback.changes)
    }

    /// The most bytes that may wait to be sent for the first time; `None`: as many as the send buffer holds.
    #[must_use]
    pub fn not_sent_lowat(&self) -> Option<u32> {
        self.cold.rest()?.feedback.lowat
    }

    /// Bounds the bytes that wait to be sent for the first time. A write takes no more than that, and the
    /// connection becomes writable again once half of it has been sent. A bound below two segments counts as
    /// two, so that the writer does not wait for data that Nagle's algorithm or a cork holds back. `None`:
    /// only the send buffer limits a write.
    // Linux's TCP_NOTSENT_LOWAT (commits c9bee3b7fdec and a74f0fa082b7: fill up to it, wake below half);
    // tcp(7) lists it among the options without a description.
    pub fn set_not_sent_lowat(&mut self, lowat: Option<u32>) {
        if lowat.is_none() && self.not_sent_lowat().is_none() {
            return;
        }
        self.cold.need_rest().feedback.lowat = lowat;
        self.wake_writer();
    }

    /// The most that the send buffer may hold: its own limit, or less if the low-water mark allows less
    /// beyond what was sent.
    pub(super) fn write_limit(&self) -> usize {
        let limit = self.send_limit();
        let Some(lowat) = self.lowat_bytes() else { return limit };
        let sent = (self.snd.queued() as u64).saturating_sub(self.unsent());
        limit.min(usize::try_from(sent.saturating_add(lowat)).unwrap_or(usize::MAX))
    }

    /// Whether little enough is unsent to wake a writer that waits for room.
    #[inline]
    pub(super) fn is_below_lowat(&self) -> bool {
        !self.snd.awaited.has(Awaited::SENT)
            || self.lowat_bytes().is_none_or(|lowat| self.unsent() <= lowat / 2)
    }

    fn lowat_bytes(&self) -> Option<u64> {
        let lowat = self.not_sent_lowat()?;
        Some(u64::from(lowat).max(2 * u64::from(self.smss())))
    }

    /// A segment was sent, and nothing more can be sent now: wakes a writer that waits for room. An
    /// acknowledgement may be a round trip away.
    #[inline]
    pub(super) fn note_sent_enough(&mut self) {
        if self.snd.awaited.has(Awaited::SENT) {
            self.note_write_room();
        }
    }

    /// An acknowledgement delivered something; `advanced`: SND.UNA advanced.
    #[inline]
    pub(super) fn note_feedback(&mut self, advanced: bool) {
        if self.snd.awaited.has(Awaited::DELIVERY) {
            self.tell_feedback(advanced);
        }
    }

    /// Nothing more will be written, so an awaited byte may never be.
    pub(super) fn note_end_of_writing(&mut self) {
        if self.snd.awaited.has(Awaited::DELIVERY) {
            self.readiness.delivered |= self.cold.need_rest().feedback.tell_at.take().is_some();
        }
    }

    #[cold]
    fn tell_feedback(&mut self, advanced: bool) {
        let (acked, heard_at) = (self.acked(), self.silence.heard_at());
        let feedback = &mut self.cold.need_rest().feedback;
        feedback.changes.count();
        if advanced {
            feedback.acked_at = Some(heard_at);
        }
        let reached = feedback.tell_at.take_if(|upto| *upto <= acked).is_some();
        self.readiness.delivered |= std::mem::take(&mut feedback.tell_next) || reached;
    }
}
