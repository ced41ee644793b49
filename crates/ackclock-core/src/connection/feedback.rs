//! What becomes of what was written, for an application that asks: what is acknowledged and since when, what was not sent yet, how
//! fast the path is.
//!
//! A connection whose application does not ask pays nothing for it on the short ways: [`Awaited`] is the byte that an
//! acknowledgement looks at anyway, and the rest is kept in [`Rare`](super::rare::Rare).

use super::Connection;
use super::sender::Awaited;
use crate::{DeliveryInfo, Instant};

/// What was asked for, and what came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Feedback {
    /// The most that may wait to be sent for the first time, in bytes.
    lowat: Option<u32>,
    /// Acknowledgements that delivered something since the application first asked.
    changes: u64,
    /// When the last of them arrived that advanced SND.UNA.
    acked_at: Option<Instant>,
    /// Tell when as many bytes are acknowledged.
    tell_at: Option<u64>,
    /// Tell of the next change.
    tell_next: bool,
}

impl Connection {
    /// What became of what was written, and how fast the path is.
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

    /// Bytes of the stream, from the first on, that the peer has acknowledged.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.flight.una().min(self.snd.data_end()).since(self.snd.iss + 1)
    }

    /// Bytes that were written and not yet sent for the first time.
    #[must_use]
    pub fn not_sent(&self) -> u64 {
        self.unsent()
    }

    /// How many bytes are acknowledged, and when the acknowledgement arrived, once they are at least `upto`; until then `None`, and
    /// [`Readiness::delivered`](crate::Readiness::delivered) tells when.
    ///
    /// Before the first such call, or one of [`await_feedback`](Self::await_feedback), the time is that of the last segment that
    /// arrived, which is no earlier than the acknowledgement.
    pub fn await_delivered(&mut self, upto: u64) -> Option<(u64, Instant)> {
        self.snd.awaited.add(Awaited::DELIVERY);
        let (acked, heard_at) = (self.acked(), self.give_up.heard_at);
        let feedback = self.rare.feedback_mut();
        if acked >= upto {
            return Some((acked, *feedback.acked_at.get_or_insert(heard_at)));
        }
        feedback.tell_at = Some(feedback.tell_at.map_or(upto, |other| other.min(upto)));
        None
    }

    /// How often the figures of [`delivery`](Self::delivery) have changed since feedback was first asked for, if that is not
    /// `seen`; else `None`, and [`Readiness::delivered`](crate::Readiness::delivered) tells of the next change.
    pub fn await_feedback(&mut self, seen: u64) -> Option<u64> {
        self.snd.awaited.add(Awaited::DELIVERY);
        let feedback = self.rare.feedback_mut();
        feedback.tell_next |= feedback.changes == seen;
        (feedback.changes != seen).then_some(feedback.changes)
    }

    /// The most that may wait to be sent for the first time, in bytes; `None`: what the send buffer holds.
    #[must_use]
    pub fn not_sent_lowat(&self) -> Option<u32> {
        self.rare.feedback().lowat
    }

    /// Bounds what waits to be sent for the first time, in bytes: a write takes no more, and the connection is writable again once
    /// half of it has left. Less than two segments counts as two, so that what Nagle's algorithm or a cork holds back does
    /// not hold the writer. `None`: no bound but the send buffer's.
    // Linux's TCP_NOTSENT_LOWAT (commits c9bee3b7fdec and a74f0fa082b7: fill up to it, wake below half); tcp(7) names it
    // among the options that it does not describe.
    pub fn set_not_sent_lowat(&mut self, lowat: Option<u32>) {
        if lowat.is_none() && self.not_sent_lowat().is_none() {
            return;
        }
        self.rare.feedback_mut().lowat = lowat;
        if self.snd.awaited.has(Awaited::ROOM) {
            // Who waits looks again, by the new mark.
            self.snd.awaited.remove(Awaited::ROOM);
            self.snd.awaited.remove(Awaited::SENT);
            self.readiness.writable = true;
        }
    }

    /// The most that the send buffer may hold: its own limit, and what the low-water mark allows beyond what was sent.
    pub(super) fn write_limit(&self) -> usize {
        let limit = self.send_limit();
        let Some(lowat) = self.lowat_bytes() else { return limit };
        let sent = self.snd.queued() as u64 - self.unsent();
        limit.min(usize::try_from(sent + lowat).unwrap_or(usize::MAX))
    }

    /// Whether so little is left to be sent that a writer who waits for that is to be woken.
    #[inline]
    pub(super) fn is_below_lowat(&self) -> bool {
        !self.snd.awaited.has(Awaited::SENT)
            || self.lowat_bytes().is_none_or(|lowat| self.unsent() <= lowat / 2)
    }

    fn lowat_bytes(&self) -> Option<u64> {
        let lowat = self.not_sent_lowat()?;
        Some(u64::from(lowat).max(2 * u64::from(self.smss())))
    }

    /// Something left, and nothing more will for now: a writer that waits for that is woken. An acknowledgement may be a round
    /// trip away.
    #[inline]
    pub(super) fn note_sent_enough(&mut self) {
        if self.snd.awaited.has(Awaited::SENT) {
            self.note_write_room();
        }
    }

    /// An acknowledgement had news; `advanced`: SND.UNA advanced.
    #[inline]
    pub(super) fn note_feedback(&mut self, advanced: bool) {
        if self.snd.awaited.has(Awaited::DELIVERY) {
            self.tell_feedback(advanced);
        }
    }

    #[cold]
    fn tell_feedback(&mut self, advanced: bool) {
        let (acked, heard_at) = (self.acked(), self.give_up.heard_at);
        let feedback = self.rare.feedback_mut();
        feedback.changes += 1;
        if advanced {
            feedback.acked_at = Some(heard_at);
        }
        let reached = feedback.tell_at.take_if(|upto| *upto <= acked).is_some();
        self.readiness.delivered |= std::mem::take(&mut feedback.tell_next) || reached;
    }
}
