//! SEGMENT ARRIVES (RFC 9293 §3.10.7): the steps of §3.10.7.4, in the RFC's order.
//!
//! The endpoint handles CLOSED and LISTEN; SYN-SENT is in [`syn_sent`]. In all other states a segment goes
//! through the steps below, and each may end the processing. A [`predicted`] segment needs few of them.

mod predicted;
mod syn_sent;

use ackclock_control::bandwidth;
use ackclock_wire::{Codepoint, Flags, RxMeta, Segment, SeqNum};
use bytes::Bytes;

use super::limiter::Provocation;
use super::receive::{Taken, Text};
use super::{Connection, Reply, State, lend};
use crate::position::Position;
use crate::sending::{AckNews, Acknowledgement};
use crate::{ConnectionError, Instant};

/// A segment on its way through the steps.
pub(super) struct Arrival<'a> {
    now: Instant,
    pub(super) segment: &'a Segment<'a>,
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

/// A segment's ACK field and what goes with it.
pub(super) struct AckField<'a> {
    now: Instant,
    /// SEG.SEQ.
    pub(super) start: Position,
    /// SEG.ACK.
    pub(super) ack: Position,
    /// SEG.WND in bytes, scaled.
    pub(super) window: u32,
    /// TSval and TSecr.
    pub(super) timestamps: Option<(u32, u32)>,
    /// Whether the segment has neither text nor FIN.
    pub(super) bare: bool,
    /// The source of the other options; `None` for a predicted segment, which has none.
    pub(super) segment: Option<&'a Segment<'a>>,
}

/// The state before the segment arrived.
#[derive(Clone, Copy)]
pub(super) struct Before {
    /// SND.UNA.
    pub(super) una: Position,
    /// SND.WND.
    wnd: u32,
    /// The segment opened a closed window that had been probed.
    pub(super) reopened: bool,
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
        self.counts.segments_received = self.counts.segments_received.wrapping_add(u64::from(segments));
        match self.state {
            State::Closed | State::Listen => {}
            State::SynSent => self.arrives_in_syn_sent(now, segment, codepoint),
            _ => self.arrives_synchronized(now, segment, segments, codepoint, block),
        }
        self.update_send_timer(now);
        self.trace_freed(now);
        self.check_invariants();
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
            self.note_codepoint(arrival.segment, arrival.segments, arrival.codepoint);
        }
        self.note_heard(arrival.now);
    }

    /// An acceptable segment that begins at `start` had this option.
    #[inline]
    fn note_timestamps(&mut self, now: Instant, option: Option<(u32, u32)>, start: Position) {
        if let (Some(timestamps), Some((value, _))) = (&mut self.timestamps, option) {
            timestamps.update(now, value, start);
        }
    }

    /// The peer was heard: restarts its silence.
    #[inline]
    pub(super) fn note_heard(&mut self, now: Instant) {
        self.silence.end(now);
        self.counts.received_at = Some(now);
        self.arm_keepalive(now);
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

    /// The same for a segment with this option.
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
                self.reply = Some(Reply::Ack);
            }
            return StepOutcome::Drop;
        }
        match self.state {
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
        let crossing = self.state == State::SynReceived && arrival.start == self.rcv.irs();
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
            self.reply = Some(Reply::Ack);
            let again = arrival.start == self.rcv.irs() && self.has_believable_ack(arrival);
            if again {
                self.note_syn_again(arrival.codepoint);
            }
        }
        StepOutcome::Drop
    }

    // Fifth, the ACK field (RFC 9293 §3.10.7.4, with RFC 5961 §5): what the peer has, and what it will take.
    fn step5_ack(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if !arrival.segment.flags.contains(Flags::ACK) {
            return StepOutcome::Drop;
        }
        let ack = self.flight.una().near(arrival.segment.ack);
        if self.state == State::SynReceived {
            if ack <= self.flight.una() || ack > self.flight.nxt() {
                self.reply = Some(Reply::Reset(arrival.segment.ack));
                return StepOutcome::Drop;
            }
            self.complete_crossing_open(arrival, ack);
        } else if !self.is_believable(ack) {
            if self.cold.allow(arrival.now, Provocation::Unacceptable) {
                self.reply = Some(Reply::Ack);
            }
            return StepOutcome::Drop;
        }
        self.note_valid(arrival);
        if self.state == State::TimeWait {
            return StepOutcome::Continue;
        }
        let segment = arrival.segment;
        // RFC 7323 §2.2: the window of a SYN, also of one that crossed ours, is never shifted.
        let scale = if segment.flags.contains(Flags::SYN) { 0 } else { self.snd.scale };
        self.take_ack(&AckField {
            now: arrival.now,
            // A probe's byte that has not been taken is before this segment and will come again: its window
            // must not count as old then.
            start: arrival.start.min(self.rcv.edge()),
            ack,
            window: u32::from(segment.window) << scale,
            timestamps: segment.options.timestamps,
            bare: segment.seq_len() == 0,
            segment: Some(segment),
        });
        self.advance_closing(arrival);
        if self.state == State::Closed { StepOutcome::Drop } else { StepOutcome::Continue }
    }

    /// RFC 9293 MAY-12 (RFC 5961 §5.2): SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT. Nothing below the first
    /// byte can be acknowledged, however large the window.
    #[inline]
    fn is_believable(&self, ack: Position) -> bool {
        let oldest = self.flight.una().back(u64::from(self.snd.max_wnd)).max(self.snd.iss + 1);
        oldest <= ack && ack <= self.flight.nxt()
    }

    /// Whether the ACK field is believable; a blind segment's is so only by luck.
    fn has_believable_ack(&self, arrival: &Arrival<'_>) -> bool {
        let ack = self.flight.una().near(arrival.segment.ack);
        arrival.segment.flags.contains(Flags::ACK) && self.is_believable(ack)
    }

    fn complete_crossing_open(&mut self, arrival: &Arrival<'_>, ack: Position) {
        let clean = self.flight.timeouts_in_a_row() == 0;
        if let Some(sent_at) = self
            .flight
            .syn_sent_once_at()
            .filter(|&at| clean && !self.flight.left_before_pause(at) && self.serves_fast_open())
            && !self.flight.has_data()
        {
            self.flight.on_handshake_sample(arrival.now.saturating_since(sent_at));
        }
        self.flight.on_syn_acked(ack.min(self.snd.iss + 1));
        self.pending.syn = false;
        self.end_fast_open(clean);
        self.establish(arrival.now, clean);
        if self.snd.closed {
            self.enter(arrival.now, State::FinWait1);
        }
    }

    fn take_ack(&mut self, said: &AckField<'_>) {
        let before = self.take_window(said.now, said.start, said.ack, said.window);
        let sack = said.segment.map_or_else(Default::default, |segment| segment.options.sack.as_slice());
        if sack.is_empty() && self.says_no_more_than_window(said.ack) {
            return;
        }
        if said.ack > before.una {
            self.let_go_of_acknowledged(said.ack);
        }
        self.judge_ack(said, sack, before);
    }

    /// Sets the window from the segment, unless it is too old for that.
    #[inline]
    fn take_window(&mut self, now: Instant, start: Position, ack: Position, window: u32) -> Before {
        let (una, wnd) = (self.flight.una(), self.snd.wnd);
        let reopened = ack >= una && self.update_window(now, start, ack, window);
        Before { una, wnd, reopened }
    }

    /// Whether an acknowledgement of `ack` without SACK blocks has no news except the window, because nothing
    /// is outstanding.
    #[inline]
    fn says_no_more_than_window(&self, ack: Position) -> bool {
        ack == self.flight.una() && !self.flight.has_data() && !self.flight.awaits_probe_answer()
    }

    /// SND.UNA is about to advance to `ack`: what lies before it leaves the buffer.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    fn let_go_of_acknowledged(&mut self, ack: Position) {
        let acked = ack.min(self.snd.data_end()).since(self.flight.una());
        self.counts.bytes_acked = self.counts.bytes_acked.wrapping_add(acked);
        self.snd.acknowledge(ack);
        self.settle_window_probe();
    }

    /// Passes an acknowledgement that has news, or may have, to the flight.
    #[inline(never)]
    fn judge_ack(&mut self, said: &AckField<'_>, sack: &[(SeqNum, SeqNum)], before: Before) {
        let (now, ack) = (said.now, said.ack);
        let Before { una: prior_una, wnd: prior_wnd, reopened } = before;
        let echo = self.timestamps.zip(said.timestamps);
        let acknowledgement = Acknowledgement {
            ack,
            sack: self.affordable_sack(sack),
            echo: echo.map(|(timestamps, (_, echoed))| timestamps.echoed(echoed)),
            bare: said.bare,
            window: self.snd.wnd,
            same_window: self.snd.wnd == prior_wnd,
            reopened,
            sendable: self
                .unsent()
                .min((ack.max(prior_una) + u64::from(self.snd.wnd)).since(self.flight.nxt())),
        };
        let mut news = AckNews::default();
        if self.flight.on_ack(lend!(self, now), &acknowledgement, &mut news) {
            self.take_news(said, &news);
        }
    }

    /// The SACK blocks, if the budget has room for what the flight may have to keep for them. Otherwise they
    /// are ignored: they are advisory (RFC 2018 §8), and the cumulative acknowledgement works without them.
    #[inline]
    fn affordable_sack<'a>(&mut self, blocks: &'a [(SeqNum, SeqNum)]) -> &'a [(SeqNum, SeqNum)] {
        if blocks.is_empty() || self.snd.keep_records(self.flight.bytes_kept().saturating_add(SACK_BYTES_MAX))
        {
            blocks
        } else {
            &[]
        }
    }

    fn take_news(&mut self, said: &AckField<'_>, news: &AckNews) {
        let now = said.now;
        if news.advanced > 0 {
            self.note_progress();
        }
        let ecn_marked = said.segment.map_or(0, |segment| self.take_marks(now, segment, news));
        self.flight.tell_ack(lend!(self, now), news, ecn_marked);
        if news.advanced > 0 {
            self.note_acknowledged();
        } else {
            self.note_feedback(false);
        }
    }

    /// SND.UNA advanced.
    #[inline]
    fn note_progress(&mut self) {
        self.persist.stop();
        // RFC 4861 §7.3.1: the receipt of a new acknowledgement shows that what was sent reaches the peer.
        self.progressed = true;
    }

    /// RFC 9293 §3.10.7.4: SND.WL1 and SND.WL2 keep an old segment from setting the window. Returns whether a
    /// window that had been probed has opened.
    #[inline]
    fn update_window(&mut self, now: Instant, start: Position, ack: Position, window: u32) -> bool {
        if self.snd.wl1 < start || self.snd.wl1 == start && self.snd.wl2 <= ack {
            let was_closed = self.snd.wnd == 0;
            self.snd.wnd = window;
            self.snd.max_wnd = self.snd.max_wnd.max(window);
            self.snd.wl1 = start;
            self.snd.wl2 = ack;
            let is_closed = window == 0;
            if was_closed != is_closed {
                // A closed window and a small one wait for different times: this one begins now.
                self.persist.stop();
            }
            was_closed && !is_closed && self.on_window_opened(now)
        } else {
            // Deviation from RFC 9293 §3.10.7.4: an old segment may acknowledge, but the right edge stays
            // where a newer one put it; otherwise SND.UNA + SND.WND would exceed what the peer ever offered.
            let advanced = u32::try_from(ack.since(self.flight.una())).unwrap_or(u32::MAX);
            self.snd.wnd = self.snd.wnd.saturating_sub(advanced);
            false
        }
    }

    /// The peer opened its window. Returns whether it had been probed; then data sent into it was not
    /// accepted.
    fn on_window_opened(&mut self, now: Instant) -> bool {
        let probed = self.persist.end_probing();
        self.flight.note_answer(now);
        self.settle_window_probe();
        probed
    }

    /// Our FIN may have been acknowledged (RFC 9293 §3.10.7.4, the states after ESTABLISHED).
    fn advance_closing(&mut self, arrival: &Arrival<'_>) {
        if self.fin_acked() {
            self.enter(arrival.now, self.state.after_fin_acked());
        }
    }

    // Sixth, the URG bit (RFC 9293 §3.10.7.4, §3.8.5). RFC 9293 MUST-30: urgent data stays in the stream.
    fn step6_urgent(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if !arrival.segment.flags.contains(Flags::URG) || !self.state.takes_text() {
            return StepOutcome::Continue;
        }
        // RFC 9293 MUST-62: the pointer names the octet after the urgent data. Urgent data may be longer than
        // a segment or a window (RFC 9293 MUST-31): the pointer only marks its end.
        let up = arrival.start + u64::from(arrival.segment.urgent);
        if self.rcv.note_urgent(up) {
            // RFC 9293 MUST-32: the application is notified each time the pointer advances.
            self.readiness.urgent = true;
        }
        StepOutcome::Continue
    }

    // Seventh, the segment text (RFC 9293 §3.10.7.4): into the buffer, and an acknowledgement owed.
    fn step7_text(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
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
    fn take_text(&mut self, text: &Text<'_>) -> StepOutcome {
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

    // Eighth, the FIN bit (RFC 9293 §3.10.7.4).
    fn step8_fin(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        // A FIN beyond a gap waits until the gap is filled.
        if self.rcv.take_fin() {
            // RFC 2525 §2.15: the reader sees the end in the same poll as the last data.
            self.readiness.readable = true;
            self.enter(arrival.now, self.state.after_fin(self.fin_acked()));
        } else if arrival.fin {
            self.rcv.owe_ack_now();
        }
        StepOutcome::Continue
    }
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

/// Bytes that one acknowledgement's blocks may add to the scoreboard: 4 blocks that begin 8 ranges each, and
/// leave as many gaps that count as lost.
const SACK_BYTES_MAX: usize = 2 * 4 * 8 * 40;
