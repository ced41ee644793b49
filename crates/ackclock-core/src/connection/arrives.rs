//! SEGMENT ARRIVES (RFC 9293 §3.10.7): the steps of §3.10.7.4, in the RFC's order.
//!
//! The endpoint handles CLOSED and LISTEN; SYN-SENT (§3.10.7.3) has its own steps. In all other states a
//! segment goes through the eight steps below, and each may end the processing. A predicted segment, which is
//! what the connection expects next, needs few of them. ICMP errors come last.

use ackclock_wire::icmp::IcmpKind;
use ackclock_wire::{Codepoint, Flags, Predicted, RxMeta, Segment, SeqNum};
use bytes::Bytes;

use super::ecn::Marking;
use super::limiter::Provocation;
use super::pending::Reply;
use super::pmtu::believed_mtu;
use super::receive::Text;
use super::send::AckField;
use super::{Connection, State, lend};
use crate::event::ReadinessBits;
use crate::position::Position;
use crate::trace::{Entry, Extension, saturated};
use crate::{ConnectionError, IcmpError, Instant, RxPacket};

/// A segment on its way through the steps.
struct Arrival<'a> {
    now: Instant,
    segment: &'a Segment<'a>,
    /// How many segments on the wire it represents.
    segments: u32,
    /// The ECN field of its IP header.
    codepoint: Codepoint,
    /// SEG.SEQ.
    start: Position,
    /// Whether its sequence number is acceptable.
    acceptable: bool,
    /// The text left after trimming to the window, and its start.
    text: &'a [u8],
    text_start: Position,
    /// The block that contains the packet, if it may be kept.
    block: Option<&'a Bytes>,
    /// Bytes trimmed at its front because they had been received before.
    cut: u64,
    /// Whether the FIN is within the window.
    fin: bool,
}

/// Whether a segment goes on to the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum StepOutcome {
    Continue,
    Drop,
}

impl Connection {
    /// A segment of this connection arrived.
    pub(crate) fn handle_segment(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        meta: RxMeta,
        codepoint: Codepoint,
        block: Option<&Bytes>,
    ) {
        let segments = coalesced(segment.payload, meta);
        self.trace_received(now, segment);
        self.segments_received = self.segments_received.wrapping_add(u64::from(segments));
        match self.life.state() {
            State::Closed | State::Listen => {}
            State::SynSent => self.arrives_in_syn_sent(now, segment, codepoint),
            _ => self.arrives_synchronized(now, segment, segments, codepoint, block),
        }
        self.snd.keep_time(|| lend!(self, now));
        self.trace_freed(now);
        self.check_invariants();
    }

    #[inline]
    fn trace_received(&mut self, now: Instant, segment: &ackclock_wire::Segment<'_>) {
        if self.trace.is_on() {
            let syn = segment.flags.contains(Flags::SYN);
            let irs = if syn { segment.seq } else { self.rcv.irs().seq() };
            let seq = segment.seq.raw().wrapping_sub(irs.raw());
            let len = saturated(segment.payload.len() as u64);
            let [_, flags] = segment.flags.bits().to_be_bytes();
            self.trace.note(now, Entry::Received { flags, seq, len });
        }
    }

    fn arrives_synchronized(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        segments: u32,
        codepoint: Codepoint,
        block: Option<&Bytes>,
    ) {
        let start = self.rcv.nxt().near(segment.seq);
        // RFC 9293 §3.4: a SYN takes the first sequence number, text follows it.
        let text_start = start + u64::from(segment.flags.contains(Flags::SYN));
        let mut arrival = Arrival {
            now,
            segment,
            segments,
            codepoint,
            start,
            acceptable: false,
            text: segment.payload,
            text_start,
            block,
            cut: 0,
            fin: false,
        };
        // The order is the RFC's; any other is a bug. The third step, security, is empty here.
        for step in [
            Self::step1_sequence,
            Self::step2_reset,
            Self::step4_syn,
            Self::step5_ack,
            Self::step6_urgent,
            Self::step7_text,
            Self::step8_fin,
        ] {
            if step(self, &mut arrival) == StepOutcome::Drop {
                return;
            }
        }
    }

    /// The segment has passed the check of its ACK field, so it is the peer's, and its headers count.
    // Deviation from RFC 7323 §5.3 R3, which takes the timestamp before the check of the ACK field: a blind
    // segment at RCV.NXT could set TS.Recent so far ahead that PAWS drops everything from the peer.
    // RFC 5961 §5.2 discards such a segment, and a discarded segment changes nothing.
    fn note_valid(&mut self, arrival: &Arrival<'_>) {
        if arrival.acceptable {
            self.note_timestamps(arrival.now, arrival.segment.options.timestamps, arrival.start);
            let waits = self.rcv.unacknowledged_segments() > 0;
            let Arrival { segment, segments, codepoint, .. } = *arrival;
            if self.ecn.on_segment(segment, segments, codepoint, waits) {
                self.rcv.owe_ack_now();
            }
        }
        self.note_data();
        self.note_heard(arrival.now);
    }

    /// An acceptable segment that begins at `start` had this option.
    #[inline]
    fn note_timestamps(&mut self, now: Instant, option: Option<(u32, u32)>, start: Position) {
        if let (Some(timestamps), Some((value, _))) = (&mut self.timestamps, option) {
            timestamps.update(now, value, start);
        }
    }

    // First, the sequence number (RFC 9293 §3.10.7.4, §3.4), and PAWS with it (RFC 7323 §5.3).
    fn step1_sequence(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
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

    /// Whether PAWS takes a segment with this timestamp option for an old duplicate.
    #[inline]
    fn is_old(&self, now: Instant, option: Option<(u32, u32)>) -> bool {
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
            let may_probe = self.life.state().takes_text();
            let counts = len == 0 && arrival.segment.flags.intersects(Flags::ACK | Flags::RST);
            return arrival.start == self.rcv.nxt()
                || may_probe && counts && arrival.start == self.rcv.nxt() + 1;
        }
        if len == 0 {
            // Deviation from RFC 9293 §3.4, Table 6: an acknowledgement without text is accepted one number
            // beyond the window. A peer that has filled the window sends it from there, and the data that it
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
            if self.life.state() == State::SynReceived && arrival.start == self.rcv.irs() {
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
        if repeated && self.life.state() == State::TimeWait {
            self.answer_in_time_wait(arrival, end);
        }
        if repeated {
            self.rcv.count_duplicate(arrival.segment.payload.len() as u64);
            if self.life.state().is_synchronized() && !arrival.segment.payload.is_empty() {
                self.rcv.report(arrival.start, Some((arrival.start, end)), self.sack);
            }
        }
        if repeated || self.cold.allow(arrival.now, Provocation::Unacceptable) {
            self.pending.reply(Reply::Ack);
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
            self.life.linger(arrival.now, &self.tcp);
        }
    }

    /// Trims what lies before RCV.NXT and beyond the window.
    fn trim_to_window(&mut self, arrival: &mut Arrival<'_>) {
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

    // Second, the RST bit (RFC 9293 §3.10.7.4, with RFC 5961 §3). RFC 9293 SHLD-2: data in a reset is
    // ignored.
    fn step2_reset(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if !arrival.segment.flags.contains(Flags::RST) {
            return StepOutcome::Continue;
        }
        if arrival.start < self.rcv.nxt() {
            // RFC 5961 §3.2 (1): judged by where it begins, not by text that reaches into the window.
            return StepOutcome::Drop;
        }
        if arrival.start != self.rcv.nxt() {
            // RFC 5961 §3.2 (3): in the window but not at its edge. A genuine peer answers the challenge with
            // an exact one.
            if self.cold.allow(arrival.now, Provocation::Reset) {
                self.pending.reply(Reply::Ack);
            }
            return StepOutcome::Drop;
        }
        match self.life.state() {
            // RFC 1337 §3 (F1): a reset does not end TIME-WAIT.
            State::TimeWait => {}
            // RFC 9293 MUST-11: from an active open, so the user learns of it.
            State::SynReceived => self.close_with(arrival.now, Some(ConnectionError::Refused)),
            // Both FINs are exchanged, and only our last acknowledgement is missing: nothing is lost
            // (§3.10.7.4).
            State::Closing | State::LastAck if self.snd.queued() == 0 => {
                self.close_with(arrival.now, None);
            }
            // RFC 9293 MUST-12: distinct from a normal close.
            _ => self.close_with(arrival.now, Some(ConnectionError::Reset)),
        }
        StepOutcome::Drop
    }

    // Fourth, the SYN bit (RFC 9293 §3.10.7.4, with RFC 5961 §4). The endpoint takes a SYN that may reopen a
    // connection in TIME-WAIT (RFC 6191) before it gets here.
    fn step4_syn(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        let flags = arrival.segment.flags;
        let crossing = self.life.state() == State::SynReceived && arrival.start == self.rcv.irs();
        if !flags.intersects(Flags::SYN | Flags::RARE) {
            return StepOutcome::Continue;
        }
        if flags.contains(Flags::RARE) && self.has_believable_ack(arrival) {
            self.hear_user_timeout(arrival.now, arrival.segment.options.user_timeout);
        }
        if !flags.contains(Flags::SYN) || crossing && flags.contains(Flags::ACK) {
            return StepOutcome::Continue;
        }
        // RFC 5961 §4.2: whatever the sequence number, a challenge; a peer that lost its state answers with a
        // reset.
        if self.cold.allow(arrival.now, Provocation::Syn) {
            // Another SYN than the one that crossed ours comes from a peer that opened again.
            let same = arrival.start == self.rcv.irs();
            self.pending.reply(if same { Reply::Ack } else { Reply::BareAck });
            let nothing_else = self.snd.una() == self.snd.iss() + 1;
            if nothing_else && arrival.start == self.rcv.irs() && self.has_believable_ack(arrival) {
                self.ecn.on_syn_again(arrival.codepoint);
            }
        }
        StepOutcome::Drop
    }

    // Fifth, the ACK field (RFC 9293 §3.10.7.4, with RFC 5961 §5): the data that the peer has, and its
    // window.
    fn step5_ack(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if !arrival.segment.flags.contains(Flags::ACK) {
            return StepOutcome::Drop;
        }
        let ack = self.snd.una().near(arrival.segment.ack);
        if self.life.state() == State::SynReceived {
            if ack <= self.snd.una() || ack > self.snd.nxt() {
                self.pending.reply(Reply::Reset(arrival.segment.ack));
                return StepOutcome::Drop;
            }
            self.complete_crossing_open(arrival, ack);
        } else if !self.snd.is_believable(ack) {
            if self.cold.allow(arrival.now, Provocation::Unacceptable) {
                self.pending.reply(Reply::Ack);
            }
            return StepOutcome::Drop;
        }
        self.note_valid(arrival);
        if self.life.state() == State::TimeWait {
            return StepOutcome::Continue;
        }
        let segment = arrival.segment;
        // RFC 7323 §2.2: the window of a SYN, also of one that crossed ours, is never shifted.
        let scale = if segment.flags.contains(Flags::SYN) { 0 } else { self.snd.scale() };
        self.process_ack(
            arrival.now,
            AckField {
                // A probe's byte that has not been taken is before this segment and will come again: its
                // window must not count as old then.
                start: arrival.start.min(self.rcv.edge()),
                ack,
                window: u32::from(segment.window) << scale,
                timestamps: segment.options.timestamps,
                bare: segment.seq_len() == 0,
                segment: Some(segment),
            },
        );
        self.advance_closing(arrival);
        if self.life.state() == State::Closed { StepOutcome::Drop } else { StepOutcome::Continue }
    }

    /// Passes a believable ACK field to the sending half.
    #[inline(always)]
    fn process_ack(&mut self, now: Instant, said: AckField<'_>) {
        let Some(before) = self.snd.on_window(now, said) else { return };
        let clock = self.timestamps.as_ref();
        if self.snd.on_ack(&mut lend!(self, now), said, before, clock, &mut self.ecn) {
            // RFC 4861 §7.3.1: a new acknowledgement shows that what was sent reaches the peer.
            self.progressed = true;
            if self.snd.queued() == 0 {
                self.idle_buffers.begin(now);
            }
        }
    }

    /// Whether the ACK field is believable; a blind segment's is so only by luck.
    fn has_believable_ack(&self, arrival: &Arrival<'_>) -> bool {
        let ack = self.snd.una().near(arrival.segment.ack);
        arrival.segment.flags.contains(Flags::ACK) && self.snd.is_believable(ack)
    }

    fn complete_crossing_open(&mut self, arrival: &Arrival<'_>, ack: Position) {
        let measure = self.cold.serves_fast_open() && !self.snd.has_data();
        let clean = self.snd.on_syn_acked(arrival.now, ack.min(self.snd.iss() + 1), measure);
        self.pending.take_syn();
        self.establish(arrival.now, clean);
        if self.snd.is_closed() {
            self.enter(arrival.now, State::FinWait1);
        }
    }

    /// Our FIN may have been acknowledged (RFC 9293 §3.10.7.4, the states after ESTABLISHED).
    fn advance_closing(&mut self, arrival: &Arrival<'_>) {
        if self.snd.fin_acked() {
            self.enter(arrival.now, self.life.state().after_fin_acked());
        }
    }

    // Sixth, the URG bit (RFC 9293 §3.10.7.4, §3.8.5). RFC 9293 MUST-30: urgent data stays in the stream.
    fn step6_urgent(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if !arrival.segment.flags.contains(Flags::URG) || !self.life.state().takes_text() {
            return StepOutcome::Continue;
        }
        // RFC 9293 MUST-62: the pointer names the octet after the urgent data. Urgent data may be longer than
        // a segment or a window (RFC 9293 MUST-31): the pointer only marks its end.
        let up = arrival.start + u64::from(arrival.segment.urgent);
        if self.rcv.note_urgent(up) {
            // RFC 9293 MUST-32: the application is notified each time the pointer advances.
            self.readiness.add(ReadinessBits::URGENT);
        }
        StepOutcome::Continue
    }

    // Seventh, the segment text (RFC 9293 §3.10.7.4): into the buffer, and an acknowledgement owed.
    fn step7_text(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if arrival.fin && self.life.state().takes_text() {
            // Known before the text is taken, which may join what is held beyond it.
            let end = arrival.start + u64::from(arrival.segment.seq_len());
            self.rcv.note_fin(end.back(1));
        }
        if arrival.segment.payload.is_empty() || !self.life.state().takes_text() {
            return StepOutcome::Continue;
        }
        self.rcv.count_duplicate(arrival.cut);
        let cut = (arrival.cut > 0).then(|| (arrival.text_start.back(arrival.cut), arrival.text_start));
        if arrival.text.is_empty() {
            // A probe of our closed window, or repeated data: both expect an answer.
            self.rcv.answer_repeated(arrival.text_start, cut, self.sack);
            return StepOutcome::Continue;
        }
        if self.life.is_orphaned() {
            // RFC 9293 SHLD-3, RFC 2525 §2.16: this data will not be read, and the peer must learn that it is
            // lost.
            self.abort(arrival.now);
            return StepOutcome::Drop;
        }
        // Bytes beyond the peer's FIN cannot exist.
        arrival.text = self.rcv.before_fin(arrival.text_start, arrival.text);
        self.process_text(&Text {
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
    fn process_text(&mut self, text: &Text<'_>) -> StepOutcome {
        let taken = self.rcv.on_text(text, self.sack, &self.tcp.choices);
        // RFC 4861 §7.3.1: the arrival of new data shows that earlier acknowledgements are delivered.
        self.progressed |= taken.advanced > 0;
        self.readiness.add_if(ReadinessBits::READABLE, taken.readable);
        if taken.advanced > 0 || !taken.dropped {
            self.idle_buffers.end();
        }
        if !taken.dropped {
            return StepOutcome::Continue;
        }
        if self.rcv.narrow_if_refused() {
            self.snd.report_refusal(text.now, self.rcv.holds_since());
        }
        StepOutcome::Drop
    }

    // Eighth, the FIN bit (RFC 9293 §3.10.7.4).
    fn step8_fin(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        // A FIN beyond a gap waits until the gap is filled.
        if self.rcv.process_fin() {
            // RFC 2525 §2.15: the reader sees the end in the same poll as the last data.
            self.readiness.add(ReadinessBits::READABLE);
            self.enter(arrival.now, self.life.state().after_fin(self.snd.fin_acked()));
        } else if arrival.fin {
            self.rcv.owe_ack_now();
        }
        StepOutcome::Continue
    }
}

// SYN-SENT (RFC 9293 §3.10.7.3).
impl Connection {
    fn arrives_in_syn_sent(&mut self, now: Instant, segment: &Segment<'_>, codepoint: Codepoint) {
        // First, the ACK bit.
        let ack = segment.flags.contains(Flags::ACK).then(|| self.snd.una().near(segment.ack));
        if let Some(ack) = ack
            && (ack <= self.snd.iss() || ack > self.snd.nxt() + self.cold.sent_with_syn())
        {
            if !segment.flags.contains(Flags::RST) {
                self.pending.reply(Reply::Reset(segment.ack));
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
            self.process_syn(now, segment, codepoint, ack);
        }
    }

    fn process_syn(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        codepoint: Codepoint,
        ack: Option<Position>,
    ) {
        let irs = Position::initial(segment.seq);
        self.rcv.restart(irs);
        self.adopt_syn_options(now, &segment.options);
        self.note_heard(now);
        if let Some(ack) = ack {
            // RFC 7413 §4.2.2: it acknowledges the SYN, and the part of its data that was accepted.
            let clean = self.snd.on_syn_acked(now, ack, true);
            self.process_ack_of_syn(now, ack);
            self.snd.set_window_of_syn(segment.window, irs);
            self.rcv.offer_unscaled();
            self.pending.take_syn();
            let retries = self.snd.timeouts_in_a_row();
            self.ecn = Marking::active(self.tcp.choices.ecn, retries, segment.flags, codepoint);
            self.establish(now, clean);
            self.rcv.owe_ack_now();
            self.process_rest_of_syn(now, segment, codepoint, irs);
        } else {
            // RFC 9293 MUST-10: simultaneous open.
            self.snd.set_window_of_syn(segment.window, irs);
            self.rcv.offer_unscaled();
            self.enter(now, State::SynReceived);
            self.pending.owe_syn();
        }
    }

    /// Text and FIN of a SYN,ACK (RFC 9293 §3.10.7.3: "continue processing at the sixth step").
    fn process_rest_of_syn(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        codepoint: Codepoint,
        irs: Position,
    ) {
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
            if step(self, &mut arrival) == StepOutcome::Drop {
                return;
            }
        }
    }
}

// A predicted segment: the next text, an acknowledgement of outstanding data, or both, and nothing else. For
// a segment of the form of [`Predicted`] the steps would say:
//
// | step | question | answer here |
// |---|---|---|
// | 1, sequence number | PAWS; within the window; to be trimmed | `predicted_advance` |
// | 2 and 4, RST and SYN | the flags | neither, by its form |
// | 5, ACK field | believable; the state | `predicted_advance` |
// | 6, URG | the flags | not set, by its form |
// | 7, text | to be taken | `process_text` |
// | 8, FIN | the flags; one that waits behind a gap | not set; none waits |
//
// A test gives the same segments to two endpoints, one without prediction, and compares all that they send.
// It pays in the rows of what is received of `scripts/instructions.py`: 1,438 and 2,156 without it, 874 and
// 1,251 with it (ffb68938).
impl Connection {
    /// Takes the packet if it is this connection's, has the predicted form, and says what was expected.
    /// Returns whether it did; if not, nothing has changed.
    #[inline]
    pub(crate) fn take_predicted(&mut self, now: Instant, packet: &RxPacket<'_>) -> bool {
        let RxPacket { bytes, meta, ref block } = *packet;
        let timestamps = self.timestamps.is_some();
        let Some(predicted) = Predicted::parse(bytes, &self.template, timestamps, meta.checksum) else {
            return false;
        };
        let Some(advanced) = self.predicted_advance(now, &predicted) else { return false };
        let (start, payload) = (self.rcv.nxt(), predicted.payload);
        let segments = coalesced(payload, meta);
        self.segments_received = self.segments_received.wrapping_add(u64::from(segments));
        self.note_timestamps(now, predicted.timestamps, start);
        self.note_heard(now);
        self.process_ack(
            now,
            AckField {
                start,
                ack: self.snd.una() + advanced,
                window: u32::from(predicted.window) << self.snd.scale(),
                timestamps: predicted.timestamps,
                bare: payload.is_empty(),
                segment: None,
            },
        );
        if !payload.is_empty() {
            let _: StepOutcome = self.process_text(&Text {
                now,
                bytes: payload,
                start,
                segments,
                cut: None,
                block: block.as_ref(),
            });
        }
        self.snd.keep_time(|| lend!(self, now));
        self.check_invariants();
        true
    }

    /// By how much SND.UNA advances, if the steps would pass this segment unchanged, and only its ACK field
    /// and its text matter.
    #[inline]
    fn predicted_advance(&self, now: Instant, predicted: &Predicted<'_>) -> Option<u64> {
        let advanced = u64::from(predicted.ack.offset_from(self.snd.una().seq()));
        let is_as_predicted = self.life.state() == State::Established
            && predicted.seq == self.rcv.nxt().seq()
            && predicted.payload.len() as u64 <= self.rcv.wnd()
            && self.rcv.wnd() > 0
            && self.rcv.fin().is_none()
            && advanced <= self.snd.flight_size()
            && !self.life.is_orphaned()
            && self.ecn.is_off()
            && !self.trace.is_on()
            && !self.is_old(now, predicted.timestamps);
        is_as_predicted.then_some(advanced)
    }
}

// ICMP errors about the connection (RFC 9293 §3.9.2.2), believed as far as RFC 5927 allows.
impl Connection {
    /// An ICMP error quoted a segment of this connection with this sequence number. Returns whether it took a
    /// backoff of the retransmission timer back.
    pub(crate) fn handle_icmp(&mut self, now: Instant, kind: IcmpKind, seq: SeqNum) -> bool {
        // RFC 5927 §4.1: only an error that quotes data in flight can be about it.
        let quoted = self.snd.una().near(seq);
        if quoted < self.snd.una() || quoted >= self.snd.nxt() {
            return false;
        }
        match kind {
            IcmpKind::PacketTooBig { mtu } => self.on_packet_too_big(now, mtu),
            _ => self.on_unreachable(now, kind),
        }
        let is_disruption = matches!(kind, IcmpKind::NetworkUnreachable | IcmpKind::HostUnreachable);
        is_disruption && self.on_disruption(now, quoted)
    }

    /// A router on the path had no way to the peer for a segment: the path, not congestion, has lost it
    /// (A. Zimmermann and A. Hannemann, "Making TCP More Robust to Long Connectivity Disruptions", RFC 6069,
    /// 2010). Each such error about a retransmission takes one backoff back, so that the connection goes on
    /// soon after the path does.
    // Deviation from RFC 6069 §3: codes 6 to 8, 11 and 12, and codes 2 and 3 of ICMPv6, count like 0 and 1;
    // routers report a neighbour over IPv6 that does not answer by code 3.
    // Deviation from RFC 6069 §6: the quoted timestamp is not compared. Many routers quote 8 bytes of the
    // segment, which do not have it. At most as many backoffs are taken back as were made.
    // RFC 6069 §7.2 speaks of retransmissions with Congestion Experienced; here they are never ECN-capable.
    fn on_disruption(&mut self, now: Instant, quoted: Position) -> bool {
        // RFC 6069 §4.2: it SHOULD NOT be used in SYN-SENT or SYN-RECEIVED. (6): SEG.SEQ == SND.UNA.
        let counts = self.life.state().is_synchronized() && quoted == self.snd.una();
        let undone = counts && self.snd.on_disruption(now, &self.tcp);
        if undone {
            self.trace.extension(now, Extension::BackoffUndone, u64::from(self.snd.rtt().backoff()));
        }
        undone
    }

    fn on_unreachable(&mut self, now: Instant, kind: IcmpKind) {
        let Some(error) = soft_error(kind) else { return };
        // RFC 9293 MUST-54, RFC 9293 MUST-47, RFC 9293 SHLD-25: noted, and available to the application.
        self.errors.note_soft(error);
        self.readiness.add(ReadinessBits::SOFT_ERROR);
        // Deviation from RFC 9293 SHLD-26: hard errors end a connection only while it is being opened,
        // because they can be forged (RFC 5927 §5.2). Later they are soft like the others (RFC 9293 MUST-56).
        let hard = matches!(kind, IcmpKind::ProtocolUnreachable | IcmpKind::PortUnreachable);
        if hard && matches!(self.life.state(), State::SynSent | State::SynReceived) {
            let error = match kind {
                IcmpKind::PortUnreachable => ConnectionError::Refused,
                _ => ConnectionError::Unreachable(error),
            };
            self.close_with(now, Some(error));
        }
    }

    /// Path-MTU discovery (RFC 1191, RFC 8201).
    fn on_packet_too_big(&mut self, now: Instant, mtu: u32) {
        let (known, is_ipv4) = (self.snd.pmtu(), self.template.is_ipv4());
        if let Some(told) = believed_mtu(mtu, known, is_ipv4).filter(|&told| told < known) {
            self.snd.on_told_mtu(&mut lend!(self, now), told);
        }
    }

    /// The device's MTU changed: the path's is at most that.
    pub(crate) fn set_mtu(&mut self, now: Instant, mtu: usize) {
        let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
        self.snd.on_device_mtu(&mut lend!(self, now), mtu);
    }

    /// The connection has come to another endpoint: the path takes no more than this device.
    pub(crate) fn fit_mtu(&mut self, now: Instant, mtu: usize) {
        if self.snd.may_exceed(u32::try_from(mtu).unwrap_or(u32::MAX)) {
            self.set_mtu(now, mtu);
        }
    }
}

fn soft_error(kind: IcmpKind) -> Option<IcmpError> {
    Some(match kind {
        IcmpKind::NetworkUnreachable => IcmpError::Network,
        IcmpKind::HostUnreachable => IcmpError::Host,
        IcmpKind::ProtocolUnreachable => IcmpError::Protocol,
        IcmpKind::PortUnreachable => IcmpError::Port,
        IcmpKind::Prohibited => IcmpError::Prohibited,
        IcmpKind::SourceRouteFailed => IcmpError::SourceRoute,
        IcmpKind::TimeExceeded => IcmpError::TimeExceeded,
        IcmpKind::ParameterProblem => IcmpError::ParameterProblem,
        // RFC 9293 MUST-55: source quench is silently discarded.
        _ => return None,
    })
}

/// How many segments on the wire a received one with this payload represents. Acknowledgements are owed by
/// those.
#[inline]
fn coalesced(payload: &[u8], meta: RxMeta) -> u32 {
    match meta.segment_size {
        Some(size) => {
            let segments = payload.len().div_ceil(usize::from(size.get()));
            u32::try_from(segments).unwrap_or(u32::MAX).max(1)
        }
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_is_noted_is_noted_as_what_it_is() {
        for (kind, error) in [
            (IcmpKind::NetworkUnreachable, Some(IcmpError::Network)),
            (IcmpKind::HostUnreachable, Some(IcmpError::Host)),
            (IcmpKind::ProtocolUnreachable, Some(IcmpError::Protocol)),
            (IcmpKind::PortUnreachable, Some(IcmpError::Port)),
            (IcmpKind::Prohibited, Some(IcmpError::Prohibited)),
            (IcmpKind::SourceRouteFailed, Some(IcmpError::SourceRoute)),
            (IcmpKind::TimeExceeded, Some(IcmpError::TimeExceeded)),
            (IcmpKind::ParameterProblem, Some(IcmpError::ParameterProblem)),
            (IcmpKind::SourceQuench, None),
            (IcmpKind::Other, None),
        ] {
            assert_eq!(soft_error(kind), error);
        }
    }
}
