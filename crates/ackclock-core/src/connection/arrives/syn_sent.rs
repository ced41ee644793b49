//! SYN-SENT (RFC 9293 §3.10.7.3).

use ackclock_wire::{Codepoint, Flags, Segment};

use super::super::{Connection, Reply, State};
use super::Arrival;
use crate::position::Position;
use crate::{ConnectionError, Instant};

impl Connection {
    pub(super) fn arrives_in_syn_sent(&mut self, now: Instant, segment: &Segment<'_>, codepoint: Codepoint) {
        // First, the ACK bit.
        let ack = segment.flags.contains(Flags::ACK).then(|| self.flight.una().near(segment.ack));
        if let Some(ack) = ack
            && (ack <= self.snd.iss || ack > self.flight.nxt() + self.sent_with_syn())
        {
            if !segment.flags.contains(Flags::RST) {
                self.reply = Some(Reply::Reset(segment.ack));
            }
            return;
        }
        // Second, the RST bit. Third, security, is empty.
        if segment.flags.contains(Flags::RST) {
            if ack.is_some() {
                self.close_with(now, Some(ConnectionError::Refused));
            }
            return;
        }
        // Fourth, the SYN bit. Fifth: neither SYN nor RST.
        if segment.flags.contains(Flags::SYN) {
            self.take_syn(now, segment, codepoint, ack);
        }
    }

    fn take_syn(&mut self, now: Instant, segment: &Segment<'_>, codepoint: Codepoint, ack: Option<Position>) {
        let irs = Position::initial(segment.seq);
        self.rcv.restart(irs);
        self.take_syn_options(now, &segment.options);
        self.note_heard(now);
        if let Some(ack) = ack {
            let clean = self.flight.timeouts_in_a_row() == 0;
            // Karn: no sample when the SYN went out more than once, or before a pause.
            if let Some(sent_at) =
                self.flight.syn_sent_once_at().filter(|&at| clean && !self.flight.left_before_pause(at))
            {
                self.flight.on_handshake_sample(now.saturating_since(sent_at));
            }
            // RFC 7413 §4.2.2: it acknowledges the SYN, and the part of its data that was accepted.
            self.flight.on_syn_acked(ack);
            self.take_ack_of_syn(now, ack);
            self.end_fast_open(clean);
            self.set_window_of_syn(segment.window);
            self.rcv.offer_unscaled();
            self.pending.syn = false;
            self.take_ecn_answer(segment.flags, codepoint);
            self.establish(now, clean);
            self.rcv.owe_ack_now();
            self.take_rest_of_syn(now, segment, codepoint, irs);
        } else {
            // RFC 9293 MUST-10: simultaneous open.
            self.set_window_of_syn(segment.window);
            self.rcv.offer_unscaled();
            self.enter(now, State::SynReceived);
            self.pending.syn = true;
        }
    }

    /// Text and FIN of a SYN,ACK (RFC 9293 §3.10.7.3: "continue processing at the sixth step").
    fn take_rest_of_syn(&mut self, now: Instant, segment: &Segment<'_>, codepoint: Codepoint, irs: Position) {
        let mut arrival = Arrival {
            now,
            segment,
            segments: 1,
            codepoint,
            start: irs,
            acceptable: true,
            text: segment.payload,
            text_start: irs + 1,
            block: None,
            cut: 0,
            fin: segment.flags.contains(Flags::FIN),
        };
        self.trim_to_window(&mut arrival);
        for step in [Self::step6_urgent, Self::step7_text, Self::step8_fin] {
            if step(self, &mut arrival) == super::StepOutcome::Drop {
                return;
            }
        }
    }
}
