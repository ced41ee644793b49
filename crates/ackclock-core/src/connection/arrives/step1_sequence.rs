//! First, the sequence number (RFC 9293 §3.10.7.4, §3.4), and PAWS with it (RFC 7323 §5.3).

use ackclock_wire::Flags;

use super::super::limiter::Provocation;
use super::super::{Connection, Reply, State};
use super::{Arrival, StepOutcome};
use crate::Instant;
use crate::position::Position;

impl Connection {
    pub(super) fn step1_sequence(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        let reset = arrival.segment.flags.contains(Flags::RST);
        if self.is_old_duplicate(arrival) && !reset {
            self.answer_unacceptable(arrival);
            return StepOutcome::Drop;
        }
        // RFC 7323 §3.2: once negotiated, a segment without timestamps is dropped, unless it is a reset. A
        // SYN does not belong to this connection. It is challenged (RFC 5961 §4), or a peer that restarts
        // without timestamps could never come back.
        let syn = arrival.segment.flags.contains(Flags::SYN);
        if self.timestamps.is_some() && arrival.segment.options.timestamps.is_none() && !reset && !syn {
            return StepOutcome::Drop;
        }
        if !self.is_acceptable(arrival) {
            return self.unacceptable(arrival);
        }
        arrival.acceptable = true;
        self.trim_to_window(arrival);
        StepOutcome::Continue
    }

    /// PAWS: a timestamp from the past.
    fn is_old_duplicate(&self, arrival: &Arrival<'_>) -> bool {
        self.is_old(arrival.now, arrival.segment.options.timestamps)
    }

    /// The same for a segment with this option.
    #[inline]
    pub(super) fn is_old(&self, now: Instant, option: Option<(u32, u32)>) -> bool {
        let both = self.timestamps.zip(option);
        both.is_some_and(|(timestamps, (value, _))| timestamps.is_old(now, value))
    }

    /// The four cases of RFC 9293 §3.4: what begins or ends in the window is acceptable.
    #[inline]
    fn is_acceptable(&self, arrival: &Arrival<'_>) -> bool {
        let in_window = |at: Position| self.rcv.nxt() <= at && at < self.rcv.edge();
        let len = u64::from(arrival.segment.seq_len());
        if self.rcv.wnd() == 0 {
            // RFC 9293 MUST-66: RST and URG (and valid ACKs) are processed although the window is closed.
            // Deviation from RFC 9293 §3.4, Table 6: without text, one number beyond it too. A peer whose
            // SND.NXT counts the byte of its probe sends from there, and its acknowledgements must not wait
            // for its next probe. Step 2 challenges a reset there. Nothing follows the peer's FIN, no probe
            // either.
            let may_probe = self.state.takes_text();
            let counts = len == 0 && arrival.segment.flags.intersects(Flags::ACK | Flags::RST);
            return arrival.start == self.rcv.nxt()
                || may_probe && counts && arrival.start == self.rcv.nxt() + 1;
        }
        if len == 0 {
            // Deviation from RFC 9293 §3.4, Table 6: an acknowledgement without text is accepted one number
            // beyond the window. A peer that has filled the window sends it from there, and what it
            // acknowledges must not wait. Linux does so.
            let flags = arrival.segment.flags;
            let bare_ack = flags.contains(Flags::ACK) && !flags.contains(Flags::RST);
            return in_window(arrival.start) || bare_ack && arrival.start == self.rcv.edge();
        }
        in_window(arrival.start) || in_window(arrival.start + len.wrapping_sub(1))
    }

    fn unacceptable(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        let flags = arrival.segment.flags;
        if flags.contains(Flags::RST) {
            return StepOutcome::Drop;
        }
        if flags.contains(Flags::SYN) {
            // The SYN,ACK of a crossing open carries the number of the SYN before it (RFC 9293 §3.5
            // Figure 7).
            if self.state == State::SynReceived && arrival.start == self.rcv.irs() {
                if flags.contains(Flags::ACK) {
                    arrival.text = &[];
                    return StepOutcome::Continue;
                }
                self.answer_unacceptable(arrival);
                return StepOutcome::Drop;
            }
            // RFC 5961 §4: a challenge, whatever the sequence number.
            return self.step4_syn(arrival);
        }
        self.answer_unacceptable(arrival);
        // RFC 9293 Appendix A.2: when both ends are one byte off (crossing opens, closes, probes), only
        // processing the acknowledgement ends the exchange.
        let one_before = arrival.start + 1 == self.rcv.nxt() && arrival.segment.seq_len() <= 1;
        if one_before && flags.contains(Flags::ACK) && !self.is_old_duplicate(arrival) {
            arrival.text = &[];
            let _ = self.step5_ack(arrival);
        }
        StepOutcome::Drop
    }

    /// `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`, at a limited rate unless the peer is clearly repeating data,
    /// which it does until it learns that the data has arrived.
    fn answer_unacceptable(&mut self, arrival: &Arrival<'_>) {
        let len = u64::from(arrival.segment.seq_len());
        let end = arrival.start + len;
        let repeated = len > 0
            && end <= self.rcv.nxt()
            && self.rcv.nxt().since(arrival.start) <= self.repeat_reach()
            && self.has_believable_ack(arrival);
        if repeated && self.state == State::TimeWait {
            self.answer_in_time_wait(arrival, end);
        }
        if repeated {
            self.cold.count_duplicate(arrival.segment.payload.len() as u64);
            if self.state.is_synchronized() && !arrival.segment.payload.is_empty() {
                self.rcv.report(arrival.start, Some((arrival.start, end)), self.sack);
            }
        }
        if repeated || self.cold.allow(arrival.now, Provocation::Unacceptable) {
            self.reply = Some(Reply::Ack);
        }
    }

    /// How far behind RCV.NXT a repeated segment is believed to be the peer's.
    fn repeat_reach(&self) -> u64 {
        self.rcv.nxt().since(self.rcv.irs()).min((self.rcv.limit_max() as u64).saturating_mul(2))
    }

    /// RFC 9293 §3.10.7.4: in TIME-WAIT a repeated FIN restarts the 2 MSL timer.
    fn answer_in_time_wait(&mut self, arrival: &Arrival<'_>, end: Position) {
        let is_fin = arrival.segment.flags.contains(Flags::FIN) && end == self.rcv.nxt();
        if is_fin && !self.is_old_duplicate(arrival) {
            self.closing.set(arrival.now + self.tcp.time_wait);
        }
    }

    /// Trims what lies before RCV.NXT and beyond the window.
    pub(super) fn trim_to_window(&mut self, arrival: &mut Arrival<'_>) {
        let end = arrival.text_start + arrival.text.len() as u64;
        arrival.fin = arrival.segment.flags.contains(Flags::FIN) && end <= self.rcv.edge();
        if arrival.text_start < self.rcv.nxt() {
            let cut = self.rcv.nxt().index_from(arrival.text_start).min(arrival.text.len());
            arrival.text = arrival.text.get(cut..).unwrap_or_default();
            arrival.text_start += cut as u64;
            arrival.cut = cut as u64;
        }
        let room = self.rcv.edge().index_from(arrival.text_start);
        arrival.text = arrival.text.get(..room).unwrap_or(arrival.text);
    }
}
