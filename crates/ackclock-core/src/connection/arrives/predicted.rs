//! The short way of a segment that is as predicted: the next text, or an acknowledgement of what is outstanding, or both,
//! and nothing else.
//!
//! It is the eight steps with the answers known beforehand. What a segment of the predicted form
//! ([`Predicted`]) can be asked, and where:
//!
//! | step | what is asked | the answer here |
//! |---|---|---|
//! | 1, sequence number | PAWS; within the window; to be trimmed | [`Connection::is_as_predicted`] |
//! | 2 and 4, RST and SYN | the flags | neither, by its form |
//! | 5, ACK field | believable; the state | [`Connection::is_as_predicted`]; then [`Connection::take_ack`] |
//! | 6, URG | the flags | not set, by its form |
//! | 7, text | to be taken | [`Connection::step7_text`] |
//! | 8, FIN | the flags; one that waits behind a gap | not set; none waits |
//!
//! A test gives the same segments to two endpoints, one of which predicts nothing, and compares all fields of the
//! connections after each.

use ackclock_wire::{Codepoint, Flags, Predicted, RxMeta, Segment, TcpOptions};
use bytes::Bytes;

use super::super::{Connection, State};
use super::{Arrival, Verdict, coalesced};
use crate::Instant;

impl Connection {
    /// Whether timestamps were agreed on.
    #[inline]
    pub(crate) fn uses_timestamps(&self) -> bool {
        self.timestamps.is_some()
    }

    /// Takes a segment of the predicted form. Says whether it did; if not, nothing has changed.
    #[inline]
    pub(crate) fn take_predicted(
        &mut self,
        now: Instant,
        predicted: &Predicted<'_>,
        meta: RxMeta,
        block: Option<&Bytes>,
    ) -> bool {
        if !self.is_as_predicted(now, predicted) {
            return false;
        }
        let segment = Segment {
            src_port: self.tuple.remote_port,
            dst_port: self.tuple.local_port,
            seq: predicted.seq,
            ack: predicted.ack,
            flags: Flags::ACK,
            window: predicted.window,
            urgent: 0,
            options: TcpOptions { timestamps: predicted.timestamps, ..TcpOptions::default() },
            payload: predicted.payload,
        };
        let segments = coalesced(&segment, meta);
        self.counts.segments_received += u64::from(segments);
        let mut arrival = Arrival {
            now,
            segment: &segment,
            segments,
            codepoint: Codepoint::NotEct,
            start: self.rcv.nxt,
            acceptable: true,
            text: segment.payload,
            text_start: self.rcv.nxt,
            block,
            cut: 0,
            fin: false,
        };
        self.note_valid(&arrival);
        self.take_ack(&arrival, self.flight.una().near(predicted.ack));
        let _: Verdict = self.step7_text(&mut arrival);
        self.update_send_timer(now);
        self.check_invariants();
        true
    }

    /// Whether the steps would let this segment through untouched, and only its ACK field and its text have
    /// something to tell.
    #[inline]
    fn is_as_predicted(&self, now: Instant, predicted: &Predicted<'_>) -> bool {
        let ack = self.flight.una().near(predicted.ack);
        self.state == State::Established
            && predicted.seq == self.rcv.nxt.seq()
            && predicted.payload.len() as u64 <= self.rcv.wnd()
            && self.rcv.wnd() > 0
            && self.rcv.fin.is_none()
            && self.flight.una() <= ack
            && ack <= self.flight.nxt()
            && !self.orphaned
            && self.ecn.is_none()
            && !self.trace.is_on()
            && !self.is_old(now, predicted.timestamps)
    }
}
