//! The fast path of a predicted segment: the next text, an acknowledgement of outstanding data, or both, and
//! nothing else.
//!
//! It equals the eight steps with the answers known beforehand. For a segment of the predicted form
//! ([`Predicted`]):
//!
//! | step | question | answer here |
//! |---|---|---|
//! | 1, sequence number | PAWS; within the window; to be trimmed | [`Connection::predicted_advance`] |
//! | 2 and 4, RST and SYN | the flags | neither, by its form |
//! | 5, ACK field | believable; the state | [`Connection::predicted_advance`]; then [`Connection::take_predicted_ack`], and in it mostly [`Flight::on_advance`](crate::sending::Flight::on_advance) |
//! | 6, URG | the flags | not set, by its form |
//! | 7, text | to be taken | [`Connection::take_text`] |
//! | 8, FIN | the flags; one that waits behind a gap | not set; none waits |
//!
//! A test gives the same segments to two endpoints, one without prediction, and compares all fields of the
//! connections after each.

use ackclock_wire::{Predicted, RxMeta};
use bytes::Bytes;

use super::super::receive::Text;
use super::super::{Connection, State, lend};
use super::{AckField, StepOutcome, coalesced};
use crate::Instant;
use crate::position::Position;

impl Connection {
    /// Takes the packet if it is this connection's, has the predicted form, and says what was expected.
    /// Returns whether it did; if not, nothing has changed.
    #[inline]
    pub(crate) fn take_predicted(
        &mut self,
        now: Instant,
        packet: &[u8],
        meta: RxMeta,
        block: Option<&Bytes>,
    ) -> bool {
        let timestamps = self.timestamps.is_some();
        let Some(predicted) = Predicted::parse(packet, &self.template, timestamps, meta.checksum) else {
            return false;
        };
        let Some(advanced) = self.predicted_advance(now, &predicted) else { return false };
        let (start, payload) = (self.rcv.nxt(), predicted.payload);
        let segments = coalesced(payload, meta);
        self.counts.segments_received = self.counts.segments_received.wrapping_add(u64::from(segments));
        self.note_timestamps(now, predicted.timestamps, start);
        self.note_heard(now);
        self.take_predicted_ack(now, start, self.flight.una() + advanced, &predicted);
        if !payload.is_empty() {
            let _: StepOutcome =
                self.take_text(&Text { now, bytes: payload, start, segments, cut: None, block });
        }
        self.update_send_timer(now);
        self.check_invariants();
        true
    }

    /// The ACK field: [`Connection::take_ack`](Self::take_ack) of a segment without SACK blocks and marks.
    #[inline(always)]
    fn take_predicted_ack(
        &mut self,
        now: Instant,
        start: Position,
        ack: Position,
        predicted: &Predicted<'_>,
    ) {
        let window = u32::from(predicted.window) << self.snd.scale;
        let before = self.take_window(now, start, ack, window);
        if self.says_no_more_than_window(ack) {
            return;
        }
        if ack > before.una {
            self.let_go_of_acknowledged(ack);
            let window_open = self.snd.wnd > 0;
            if !before.reopened && self.flight.on_advance(lend!(self, now), ack, window_open) {
                self.note_progress();
                return self.note_acknowledged();
            }
        }
        let (timestamps, bare) = (predicted.timestamps, predicted.payload.is_empty());
        self.judge_ack(&AckField { now, start, ack, window, timestamps, bare, segment: None }, &[], before);
    }

    /// By how much SND.UNA advances, if the steps would pass this segment unchanged, and only its ACK field
    /// and its text matter.
    #[inline]
    fn predicted_advance(&self, now: Instant, predicted: &Predicted<'_>) -> Option<u64> {
        let advanced = u64::from(predicted.ack.offset_from(self.flight.una().seq()));
        let is_as_predicted = self.state == State::Established
            && predicted.seq == self.rcv.nxt().seq()
            && predicted.payload.len() as u64 <= self.rcv.wnd()
            && self.rcv.wnd() > 0
            && self.rcv.fin().is_none()
            && advanced <= self.flight.flight_size()
            && !self.orphaned
            && self.ecn.is_none()
            && !self.trace.is_on()
            && !self.is_old(now, predicted.timestamps);
        is_as_predicted.then_some(advanced)
    }
}
