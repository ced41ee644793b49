//! Fifth, the ACK field (RFC 9293 §3.10.7.4, with RFC 5961 §5): what the peer has, and what it will take.

use ackclock_wire::{Flags, Segment, SeqNum};

use super::super::limiter::Provocation;
use super::super::timers::Timers;
use super::super::{Connection, Reply, State, lend};
use super::{Arrival, StepOutcome};
use crate::Instant;
use crate::position::Position;
use crate::sending::{AckNews, Acknowledgement};

/// Bytes that one acknowledgement's blocks may add to the scoreboard: 4 blocks that begin 8 ranges each, and
/// leave as many gaps that count as lost.
const SACK_BYTES_MAX: usize = 2 * 4 * 8 * 40;

/// A segment's ACK field and what goes with it.
pub(super) struct AckField<'a> {
    pub(super) now: Instant,
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
    pub(super) fn step5_ack(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
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
            if self.rare.allow(arrival.now, Provocation::Unacceptable) {
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
            start: arrival.start.min(self.rcv.edge),
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
    pub(super) fn has_believable_ack(&self, arrival: &Arrival<'_>) -> bool {
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
    pub(super) fn take_window(
        &mut self,
        now: Instant,
        start: Position,
        ack: Position,
        window: u32,
    ) -> Before {
        let (una, wnd) = (self.flight.una(), self.snd.wnd);
        let reopened = ack >= una && self.update_window(now, start, ack, window);
        Before { una, wnd, reopened }
    }

    /// Whether an acknowledgement of `ack` without SACK blocks has no news except the window, because nothing
    /// is outstanding.
    #[inline]
    pub(super) fn says_no_more_than_window(&self, ack: Position) -> bool {
        ack == self.flight.una() && !self.flight.has_data() && !self.flight.awaits_probe_answer()
    }

    /// SND.UNA is about to advance to `ack`: what lies before it leaves the buffer.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    pub(super) fn let_go_of_acknowledged(&mut self, ack: Position) {
        let acked = ack.min(self.snd.data_end()).since(self.flight.una());
        self.counts.bytes_acked = self.counts.bytes_acked.wrapping_add(acked);
        self.snd.acknowledge(ack);
        self.settle_window_probe();
    }

    /// Passes an acknowledgement that has news, or may have, to the flight.
    #[inline(never)]
    pub(super) fn judge_ack(&mut self, said: &AckField<'_>, sack: &[(SeqNum, SeqNum)], before: Before) {
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
    pub(super) fn note_progress(&mut self) {
        self.timers.persist = Timers::UNSET;
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
                self.timers.persist = Timers::UNSET;
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
        let probed = self.give_up.probes > 0;
        self.give_up.probes = 0;
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
}
