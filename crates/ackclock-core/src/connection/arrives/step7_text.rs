//! Seventh, the segment text (RFC 9293 §3.10.7.4): into the buffer, and an acknowledgement owed.

use ackclock_control::bandwidth;

use super::super::Connection;
use super::super::receive::{Taken, Text};
use super::{Arrival, StepOutcome};

impl Connection {
    pub(super) fn step7_text(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if arrival.fin && self.state.takes_text() {
            // Known before the text is taken, which may join what is held beyond it.
            let end = arrival.start + u64::from(arrival.segment.seq_len());
            self.rcv.note_fin(end.back(1));
        }
        if arrival.segment.payload.is_empty() || !self.state.takes_text() {
            return StepOutcome::Continue;
        }
        self.cold.count_duplicate(arrival.cut);
        let cut = (arrival.cut > 0).then(|| (arrival.text_start.back(arrival.cut), arrival.text_start));
        if arrival.text.is_empty() {
            // A probe of our closed window, or repeated data: both expect an answer.
            self.rcv.answer_repeated(arrival.text_start, cut, self.sack);
            return StepOutcome::Continue;
        }
        if self.orphaned {
            // RFC 9293 SHLD-3, RFC 2525 §2.16: this data will not be read, and the peer must learn that it is
            // lost.
            self.abort(arrival.now);
            return StepOutcome::Drop;
        }
        // Bytes beyond the peer's FIN cannot exist.
        arrival.text = self.rcv.before_fin(arrival.text_start, arrival.text);
        self.take_text(&Text {
            now: arrival.now,
            bytes: arrival.text,
            start: arrival.text_start,
            segments: arrival.segments,
            cut,
            block: arrival.block,
        })
    }

    // Always inlined, for the row "data segment received" of the counted instructions.
    #[inline(always)]
    pub(super) fn take_text(&mut self, text: &Text<'_>) -> StepOutcome {
        let taken = self.rcv.on_text(text, self.sack, &self.tcp.choices.acks);
        // RFC 4861 §7.3.1: the arrival of new data shows that earlier acknowledgements are delivered.
        self.progressed |= taken.advanced > 0;
        self.readiness.readable |= taken.readable;
        self.counts.bytes_received = self.counts.bytes_received.wrapping_add(taken.advanced);
        self.cold.count_duplicate(taken.duplicate);
        if taken.out_of_order {
            self.cold.count_out_of_order();
        }
        if taken.advanced > 0 || !taken.dropped {
            self.keeps_buffers.clear();
        }
        if taken.dropped {
            self.on_text_refused(text.now);
            return StepOutcome::Drop;
        }
        if let Some(samples_max) = self.tcp.choices.receiver_bandwidth {
            self.measure_arrival(text, samples_max, &taken);
        }
        StepOutcome::Continue
    }

    /// Passes an arrival to the bandwidth estimator, which the first arrival creates.
    fn measure_arrival(&mut self, text: &Text<'_>, samples_max: usize, taken: &Taken) {
        // The peer's segment size is unknown; that on the wire is used.
        let smss = (text.bytes.len() as u64).div_ceil(u64::from(text.segments.max(1)));
        // The peer's initial window is unknown. The paper assumes that it equals ours.
        let initial_window = u64::from(self.tcp.choices.initial_window_segments.max(1)).saturating_mul(smss);
        let arrivals = self
            .cold
            .need_rest()
            .arrivals
            .get_or_insert_with(|| bandwidth::Receiver::new(samples_max, initial_window, smss));
        if taken.at_gap {
            arrivals.on_loss();
        } else {
            arrivals.on_data(text.now, taken.advanced);
        }
    }
}
