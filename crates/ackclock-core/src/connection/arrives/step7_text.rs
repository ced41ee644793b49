//! Seventh, the segment text (RFC 9293 §3.10.7.4): into the buffer, and an acknowledgement owed.

use ackclock_control::bandwidth;
use ackclock_control::profile::AckPolicy;
use bytes::Bytes;

use super::super::Connection;
use super::super::timers::{ACK_DELAY_MAX, Timers};
use super::{Arrival, StepOutcome};
use crate::Instant;
use crate::position::Position;

/// Text within the window, with at least one new byte.
pub(super) struct Text<'a> {
    pub(super) now: Instant,
    pub(super) bytes: &'a [u8],
    /// Where it begins.
    pub(super) start: Position,
    /// The number of segments on the wire that it came in.
    pub(super) segments: u32,
    /// What was trimmed at its front.
    pub(super) cut: Option<(Position, Position)>,
    /// The block that contains the bytes, if they may stay there.
    pub(super) block: Option<&'a Bytes>,
}

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
        self.rare.count_duplicate(arrival.cut);
        let cut = (arrival.cut > 0).then(|| (arrival.text_start.back(arrival.cut), arrival.text_start));
        if arrival.text.is_empty() {
            // A probe of our closed window, or repeated data: both expect an answer.
            self.report_duplicate(arrival.text_start, cut);
            self.acks.now = true;
            return StepOutcome::Continue;
        }
        if self.orphaned {
            // RFC 9293 SHLD-3, RFC 2525 §2.16: this data will not be read, and the peer must learn that it is
            // lost.
            self.abort(arrival.now);
            return StepOutcome::Drop;
        }
        // Bytes beyond the peer's FIN cannot exist.
        if let Some(fin) = self.rcv.fin {
            let room = fin.index_from(arrival.text_start);
            arrival.text = arrival.text.get(..room).unwrap_or(arrival.text);
        }
        self.take_text(&Text {
            now: arrival.now,
            bytes: arrival.text,
            start: arrival.text_start,
            segments: arrival.segments,
            cut,
            block: arrival.block,
        })
    }

    // Always inlined, for the row "data segment received" of the counted instructions: most text is the next,
    // and untrimmed.
    #[inline(always)]
    pub(super) fn take_text(&mut self, text: &Text<'_>) -> StepOutcome {
        let gap_before = self.rcv.buffer.has_gap();
        let was_readable = self.rcv.buffer.readable() > 0;
        let received = self.rcv.buffer.insert(text.start, text.bytes, text.block);
        self.rcv.nxt += received.advanced;
        // RFC 4861 §7.3.1: the arrival of new data shows that earlier acknowledgements are delivered.
        self.progressed |= received.advanced > 0;
        self.counts.bytes_received = self.counts.bytes_received.wrapping_add(received.advanced);
        self.rare.count_duplicate(received.duplicate);
        if received.out_of_order {
            self.rare.count_out_of_order();
        }
        if received.advanced > 0 {
            self.timers.buffers = Timers::UNSET;
            if !was_readable {
                self.readiness.readable = true;
                self.rcv.waits_since = text.now;
            }
        }
        if received.dropped {
            // What was not taken is as if lost on the way: it is not acknowledged, so it comes again.
            self.report_duplicate(text.start, text.cut);
            self.acks.now = true;
            self.on_text_refused(text.now);
            return StepOutcome::Drop;
        }
        if received.advanced == 0 {
            self.timers.buffers = Timers::UNSET;
            if received.out_of_order && !gap_before && !was_readable {
                self.rcv.waits_since = text.now;
            }
        }
        let at_gap = gap_before || received.out_of_order;
        // RFC 2883 §4.2: of several duplicate stretches the first is reported.
        let duplicate = text.cut.or(received.repeated);
        if at_gap || duplicate.is_some() {
            self.report(text.start, duplicate);
        }
        if let Some(samples_max) = self.tcp.choices.receiver_bandwidth {
            // The peer's segment size is unknown; that on the wire is used.
            let smss = (text.bytes.len() as u64).div_ceil(u64::from(text.segments.max(1)));
            self.measure_arrival(text.now, smss, samples_max, received.advanced, at_gap);
        }
        self.owe_ack(text.now, text.segments, at_gap, received.advanced > 0);
        StepOutcome::Continue
    }

    /// When received data is acknowledged, as [`AckPolicy`] says.
    #[inline]
    fn owe_ack(&mut self, now: Instant, segments: u32, at_gap: bool, advanced: bool) {
        // RFC 9293 SHLD-19: at least one for every 2*RMSS bytes; a coalesced segment counts as those it
        // stands for.
        self.acks.segments = self.acks.segments.saturating_add(segments);
        let due = match self.tcp.choices.acks {
            AckPolicy::EverySecondSegment { .. } | AckPolicy::EverySecondByTick { .. } => {
                if at_gap && !advanced && !self.sack {
                    // RFC 9293 MAY-13 (RFC 5681 §4.2): a duplicate for each, though the batch is processed
                    // before the first leaves.
                    self.acks.owe_duplicates(self.rcv.nxt, segments);
                }
                // RFC 5681 §4.2: out-of-order segments, and those that fill a gap, are acknowledged at once.
                // Otherwise every second full-sized one is, and any within the delay.
                at_gap || self.acks.owes_report() || self.acks.segments >= 2
            }
            // Deviation from RFC 5681 §4.2 and RFC 9293 SHLD-19: neither gaps nor second segments count, as
            // in 4.3BSD, whose "lazy" receivers the paper of 1988 measures.
            AckPolicy::WindowShare { percent, .. } => self.rcv.may_move_by(percent),
        };
        if due || self.acks.quick {
            self.acks.now = true;
        } else {
            // RFC 9293 SHLD-18, RFC 9293 MUST-40: delayed, by less than 0.5 s.
            let latest = self.tcp.choices.acks.deadline(now).min(now + ACK_DELAY_MAX);
            self.timers.delayed_ack = self.timers.delayed_ack.min(latest);
        }
    }

    /// Reports the part of a segment that was received before, if the rest is not taken.
    fn report_duplicate(&mut self, text_start: Position, cut: Option<(Position, Position)>) {
        if cut.is_some() {
            self.report(text_start, cut);
        }
    }

    /// After a read: whether the window has opened by the share that the policy waits for.
    #[inline]
    pub(in crate::connection) fn share_is_due(&self) -> bool {
        match self.tcp.choices.acks {
            AckPolicy::EverySecondSegment { .. } | AckPolicy::EverySecondByTick { .. } => false,
            AckPolicy::WindowShare { percent, .. } => self.acks.segments > 0 && self.rcv.may_move_by(percent),
        }
    }

    /// Passes an arrival to the bandwidth estimator, which the first arrival creates.
    fn measure_arrival(&mut self, now: Instant, smss: u64, samples_max: usize, advanced: u64, at_gap: bool) {
        // The peer's initial window is unknown. The paper assumes that it equals ours.
        let initial_window = u64::from(self.tcp.choices.initial_window_segments.max(1)).saturating_mul(smss);
        let arrivals = self
            .rcv
            .extras
            .get_or_insert_default()
            .arrivals
            .get_or_insert_with(|| bandwidth::Receiver::new(samples_max, initial_window, smss));
        if at_gap {
            arrivals.on_loss();
        } else {
            arrivals.on_data(now, advanced);
        }
    }
}
