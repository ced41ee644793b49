//! The sending half: the send sequence space (RFC 9293 §3.3.1), the bytes to send or retransmit, the peer's
//! window, and the timers of both.
//!
//! [`write`] has the application's side, and [`choose`] selects the data that leaves next. The [`Flight`]
//! decides which data is outstanding or lost, and when more may leave.

mod choose;
mod cork;
mod feedback;
mod mtu_search;
mod persist;
mod write;

use std::time::Duration;

use ackclock_control::congestion::Controller;
use ackclock_control::rtt::{RtoConfig, RttEstimator};
use ackclock_form::lifetime;
use ackclock_wire::SeqNum;

use self::cork::Cork;
use self::feedback::Feedback;
use self::mtu_search::{Finding, MtuSearch};
use self::persist::{OVERRIDE, Persist};
use self::write::Awaited;
use super::State;
use super::ecn::Marking;
use super::timestamps::Timestamps;
use crate::buffer::Queue;
use crate::deadline::Deadline;
use crate::event::ReadinessBits;
use crate::info::FlightInfo;
use crate::position::Position;
use crate::sending::{AckNews, Acknowledgement, Call, Expiries, Flight, ProbeOutcome};
use crate::trace::{Extension, Timer};
use crate::{Instant, TcpConfig};

pub(super) use self::choose::SegmentLimits;
#[cfg(test)]
pub(super) use self::write::SLICE_MIN;

/// SND.UNA, SND.NXT and SND.WND, the send buffer, and what drives them.
#[derive(Debug)]
pub(super) struct SendHalf {
    /// ISS.
    iss: Position,
    /// SND.WND in bytes, scaled.
    // RFC 9293 REC-1: 32-bit window fields. RFC 9293 MUST-1: unsigned.
    wnd: u32,
    /// MAX.SND.WND: the largest window the peer ever offered (RFC 5961 §5, RFC 9293 §3.8.6.2.1).
    max_wnd: u32,
    /// SND.WL1: sequence number of the segment used for the last window update.
    wl1: Position,
    /// SND.WL2: its acknowledgement number.
    wl2: Position,
    /// Shift count of the peer's windows.
    scale: u8,
    /// Bytes of the fixed headers: IP's and TCP's.
    headers: u8,
    /// Bytes of the timestamps option, once agreed on.
    stamps: u8,
    /// Bytes of options that a signature takes.
    signature: u8,
    /// The end of urgent data that is being sent.
    up: Option<Position>,
    /// The application has closed: a FIN follows the last byte.
    closed: bool,
    /// The writer is about to write more.
    more_follows: bool,
    /// A probe must leave, of the peer's window or of the path.
    probe_due: bool,
    awaited: Awaited,
    /// The capacity of the buffer in bytes.
    buffer_max: usize,
    /// The peer's MSS option, or the default.
    peer_mss: u32,
    /// Path MTU in bytes.
    pmtu: u32,
    buffer: Queue,
    /// The position of the buffer's first byte.
    base: Position,
    flight: Flight,
    persist: Persist,
    cork: Cork,
    /// Bytes of payload that left, each time.
    bytes_sent: u64,
    rare: Option<Box<Rare>>,
}

/// State that most connections never need, for the benchmark row "bytes of an idle connection".
#[derive(Debug, Default)]
struct Rare {
    bytes_retransmitted: u64,
    retransmits: u64,
    /// When a writer that waits for the memory budget looks at it again.
    memory_retry: Deadline,
    /// The delivery feedback that the application asked for.
    feedback: Option<Box<Feedback>>,
    /// The search for the path's MTU, once it has had a reason.
    search: Option<Box<MtuSearch>>,
}

/// Parts of a connection that its sending half borrows for one call.
pub(super) struct Lent<'a> {
    pub state: State,
    /// The parts that the flight borrows in turn.
    pub call: Call<'a>,
    pub readiness: &'a mut ReadinessBits,
}

/// Where a new sending half begins.
pub(super) struct Start {
    pub now: Instant,
    pub iss: Position,
    pub mtu: u32,
    pub is_ipv4: bool,
    pub signature: u8,
    /// The peer's MSS until it is known.
    pub default_mss: u16,
    pub granularity: Duration,
}

/// The ACK field of a segment, and what goes with it. Passed by value, so that the common case, which is
/// inlined, never writes it to memory.
#[derive(Clone, Copy)]
pub(super) struct AckField<'a> {
    /// SEG.SEQ.
    pub start: Position,
    /// SEG.ACK.
    pub ack: Position,
    /// SEG.WND in bytes, scaled.
    pub window: u32,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// The segment has neither text nor FIN.
    pub bare: bool,
    /// The source of the other options; `None` for a predicted segment, which has none.
    pub segment: Option<&'a ackclock_wire::Segment<'a>>,
}

/// SND.UNA and SND.WND before an acknowledgement.
#[derive(Clone, Copy)]
pub(super) struct Before {
    una: Position,
    wnd: u32,
    /// The segment opened a closed window that had been probed.
    reopened: bool,
}

/// The action that an expired timer of the sending half asks of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    /// Nothing.
    Settled,
    /// The retransmission timer expired: what is outstanding leaves again.
    Retransmit,
    /// R2, or the user timeout: the connection is given up.
    GiveUp,
}

impl SendHalf {
    pub(super) fn new(start: &Start, buffer: Queue, tcp: &TcpConfig) -> Self {
        let iss = start.iss;
        let granularity_ns = u32::try_from(start.granularity.as_nanos()).unwrap_or(u32::MAX);
        Self {
            iss,
            wnd: 0,
            max_wnd: 0,
            wl1: iss,
            wl2: iss,
            scale: 0,
            headers: if start.is_ipv4 { 40 } else { V6_HEADERS },
            stamps: 0,
            signature: start.signature,
            up: None,
            closed: false,
            more_follows: false,
            probe_due: false,
            awaited: Awaited::default(),
            buffer_max: tcp.send_buffer_max,
            peer_mss: 0,
            pmtu: start.mtu,
            buffer,
            base: iss + 1,
            flight: Flight::new(start.now, iss, u32::from(start.default_mss), granularity_ns, tcp),
            persist: Persist::default(),
            cork: Cork::default(),
            bytes_sent: 0,
            rare: None,
        }
    }

    /// ISS.
    pub(super) fn iss(&self) -> Position {
        self.iss
    }

    /// SND.UNA.
    #[inline]
    pub(super) fn una(&self) -> Position {
        self.flight.una()
    }

    /// SND.NXT.
    #[inline]
    pub(super) fn nxt(&self) -> Position {
        self.flight.nxt()
    }

    /// SND.WND.
    pub(super) fn wnd(&self) -> u32 {
        self.wnd
    }

    /// The largest window that the peer has offered, in bytes.
    pub(super) fn max_wnd(&self) -> u32 {
        self.max_wnd
    }

    /// The peer's MSS.
    pub(super) fn peer_mss(&self) -> u32 {
        self.peer_mss
    }

    /// Shift count of the peer's windows.
    #[inline]
    pub(super) fn scale(&self) -> u8 {
        self.scale
    }

    /// SND.UP, beyond `start`.
    #[inline]
    pub(super) fn urgent_beyond(&self, start: Position) -> Option<Position> {
        self.up.filter(|&up| up > start)
    }

    /// Whether urgent data is being sent.
    #[inline]
    pub(super) fn is_urgent(&self) -> bool {
        self.up.is_some()
    }

    /// Bytes outstanding, SYN and FIN included.
    #[inline]
    pub(super) fn flight_size(&self) -> u64 {
        self.flight.flight_size()
    }

    /// The largest payload of one segment, minus all options of a data segment (RFC 5681's SMSS).
    #[inline]
    pub(super) fn smss(&self) -> u32 {
        self.flight.smss()
    }

    /// Path MTU in bytes.
    pub(super) fn pmtu(&self) -> u32 {
        self.pmtu
    }

    /// Bytes of the timestamps option on each segment: 0 if it was not agreed on.
    #[inline]
    pub(super) fn timestamps_len(&self) -> u32 {
        self.stamps.into()
    }

    /// Bytes of options that a signature takes after the others.
    #[inline]
    pub(super) fn signature(&self) -> u8 {
        self.signature
    }

    /// The right edge of the peer's window.
    #[inline]
    pub(super) fn right_edge(&self) -> Position {
        self.flight.una() + u64::from(self.wnd)
    }

    /// The position after the last byte written: where a FIN goes.
    #[inline]
    pub(super) fn data_end(&self) -> Position {
        self.base + self.buffer.len() as u64
    }

    /// Bytes in the buffer, sent or not.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes not sent yet.
    #[inline]
    pub(super) fn unsent(&self) -> u64 {
        self.data_end().since(self.flight.nxt())
    }

    /// Where a segment without text begins: at SND.NXT, unless that lies beyond the peer's window, because a
    /// probe is out or the window shrank.
    // RFC 9293 §3.4: a peer takes nothing beyond its window, so what such a segment acknowledges or resets
    // would be lost on it. A SYN is before any window.
    #[inline]
    pub(super) fn bare_start(&self) -> Position {
        self.flight.nxt().min(self.right_edge().max(self.iss + 1))
    }

    /// Whether the application has closed.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether our FIN has been sent.
    #[inline]
    fn fin_sent(&self) -> bool {
        self.closed && self.flight.nxt() > self.data_end()
    }

    /// Whether our FIN has been acknowledged.
    #[inline]
    pub(super) fn fin_acked(&self) -> bool {
        self.closed && self.flight.una() > self.data_end()
    }

    /// The bytes of a segment, in place; a FIN among them has none.
    #[inline]
    pub(super) fn slices(&self, start: Position, len: usize) -> [&[u8]; 2] {
        if len == 0 {
            return [&[], &[]];
        }
        self.buffer.slices(start.index_from(self.base), len)
    }

    /// All text from SND.UNA on that was written.
    pub(super) fn text(&self) -> Vec<u8> {
        self.buffer.chunks().flatten().copied().collect()
    }

    /// Whether nothing is outstanding or waits, so that only a probe can show whether the peer is there.
    pub(super) fn is_silent(&self) -> bool {
        !self.flight.is_outstanding() && self.unsent() == 0
    }

    /// When the last segment with data or a SYN left.
    pub(super) fn sent_at(&self) -> Option<Instant> {
        self.flight.sent_at()
    }

    /// Timeouts since the last answer.
    #[inline]
    pub(super) fn timeouts_in_a_row(&self) -> u32 {
        self.flight.timeouts_in_a_row()
    }

    /// Since when the peer has owed an answer.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.flight.waiting_since()
    }

    /// Most recent rate of delivery in bytes a second; zero before the first sample.
    pub(super) fn delivery_rate(&self) -> u64 {
        self.flight.delivery_rate()
    }

    /// Whether the peer has owed an answer for longer than this, or no backoff since then was taken back.
    pub(super) fn has_waited(&self, now: Instant, time: Duration) -> bool {
        let since = self.flight.waiting_since().unwrap_or(now);
        self.flight.backoffs_undone() == 0 || now.saturating_since(since) >= time
    }

    /// A router had no way for the segment at SND.UNA. Returns whether a backoff was taken back.
    pub(super) fn on_disruption(&mut self, now: Instant, tcp: &TcpConfig) -> bool {
        self.flight.on_disruption(now, tcp)
    }

    #[inline]
    pub(super) fn rtt(&self) -> &RttEstimator {
        self.flight.rtt()
    }

    #[inline]
    pub(super) fn controller(&self) -> &dyn Controller {
        self.flight.controller()
    }

    /// The recovery policy in force.
    pub(super) fn recovery(&self) -> ackclock_control::profile::Recovery {
        self.flight.recovery()
    }

    /// The state of what is outstanding.
    pub(super) fn info(&self, tcp: &TcpConfig) -> FlightInfo {
        self.flight.info(tcp)
    }

    /// Bytes of payload that left, each time; bytes and segments of them that had left before.
    pub(super) fn sent_counts(&self) -> (u64, u64, u64) {
        let (bytes, segments) =
            self.rare.as_ref().map_or((0, 0), |rare| (rare.bytes_retransmitted, rare.retransmits));
        (self.bytes_sent, bytes, segments)
    }

    /// Bytes allocated for the buffer.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The search for the path's MTU.
    fn search(&self) -> Option<&MtuSearch> {
        self.rare.as_ref()?.search.as_deref()
    }

    #[cold]
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Checks what must hold between any two calls.
    #[cfg(debug_assertions)]
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.violated(), None);
        self.flight.check_invariants();
    }

    /// Whether the buffer begins with the first byte that is not acknowledged: a SYN stands before it, and an
    /// acknowledged FIN behind it.
    fn begins_at_una(&self) -> bool {
        let una = self.flight.una();
        self.base <= una + 1 && una <= self.base + 1
    }

    /// Whether the flight's segments are of the path's size, as they are once the SYN is acknowledged.
    fn is_cut_for_the_path(&self) -> bool {
        self.flight.una() <= self.iss || self.smss() == self.effective_mss()
    }

    /// Returns an invariant that does not hold between two calls, if any; the flight checks its own.
    fn violated(&self) -> Option<&'static str> {
        if self.base > self.data_end() || self.wnd > self.max_wnd {
            return Some("the window is one of those offered");
        }
        None
    }

    /// Whether the buffer holds all text that is in flight. SYN and FIN take a number, but no room there.
    pub(super) fn has_what_it_sent(&self) -> bool {
        self.flight.nxt() <= (self.data_end() + u64::from(self.closed)).max(self.iss + 1)
    }
}

// The handshake.
impl SendHalf {
    /// An active OPEN: a controller with one segment answers until ESTABLISHED.
    pub(super) fn open(&mut self, now: Instant, tcp: &TcpConfig) {
        self.flight.open(now, tcp);
    }

    /// A SYN, or a SYN,ACK, leaves.
    pub(super) fn on_syn_sent(&mut self, lent: &mut Lent<'_>) {
        self.flight.on_syn_sent(&mut lent.call, self.iss);
    }

    /// The peer acknowledges our SYN and what it carried, up to `ack`. `measure`: the round trip may be
    /// measured. Returns whether the first SYN was answered.
    pub(super) fn on_syn_acked(&mut self, now: Instant, ack: Position, measure: bool) -> bool {
        let clean = self.flight.timeouts_in_a_row() == 0;
        // Karn: no sample when the SYN went out more than once, or before a pause.
        if measure
            && clean
            && let Some(sent_at) =
                self.flight.syn_sent_once_at().filter(|&at| !self.flight.left_before_pause(at))
        {
            self.flight.on_handshake_sample(sent_at, now);
        }
        self.flight.on_syn_acked(ack);
        clean
    }

    /// The endpoint has measured the round trip of a passive handshake.
    pub(super) fn on_handshake_sample(&mut self, rtt: Duration, now: Instant) {
        self.flight.on_handshake_sample(now - rtt, now);
    }

    /// The peer's MSS, shift count, and whether it sends timestamps are known.
    pub(super) fn set_peer(&mut self, mss: u32, scale: u8, timestamps: bool) {
        self.peer_mss = mss;
        self.scale = scale;
        self.stamps = if timestamps { TIMESTAMPS_LEN } else { 0 };
    }

    /// The window of a SYN at `irs` is never shifted (RFC 7323 §2.2).
    pub(super) fn set_window_of_syn(&mut self, window: u16, irs: Position) {
        self.wnd = u32::from(window);
        self.max_wnd = self.wnd;
        self.wl1 = irs;
        self.wl2 = self.flight.una();
    }

    /// The peer's window as it stood in an earlier life, and the largest that it had offered, in bytes. Its
    /// next segment, at `start` or later, may change it.
    pub(super) fn resume_offer(&mut self, start: Position, (wnd, max_wnd): (u32, u32)) {
        self.wnd = wnd;
        self.max_wnd = max_wnd.max(wnd);
        self.wl1 = start;
        self.wl2 = self.flight.una();
    }

    /// The controller begins with the window and the threshold of an earlier life.
    pub(super) fn resume_window(&mut self, lent: &mut Lent<'_>, (cwnd, ssthresh): (u64, u64)) {
        self.flight.begin_with(&mut lent.call, cwnd, ssthresh);
    }

    /// The FIN left in an earlier life, and was acknowledged.
    pub(super) fn resume_acked_fin(&mut self) {
        // As an acknowledged SYN, it gives no round trip.
        self.flight.on_syn_acked(self.data_end() + 1);
    }

    /// Bytes of the SYN's data were acknowledged with it. Returns how many.
    pub(super) fn acknowledge_text_of_syn(&mut self, lent: &mut Lent<'_>, ack: Position) -> u64 {
        let bytes = ack.since(self.iss + 1);
        self.acknowledge(ack);
        if bytes > 0 {
            self.note_feedback(lent, true);
        }
        bytes
    }

    /// Congestion control begins. `clean`: no SYN of ours was lost.
    pub(super) fn establish(&mut self, lent: &mut Lent<'_>, sack: bool, clean: bool) {
        // Data that a server sent behind its SYN,ACK is in flight already.
        if !self.flight.has_data() {
            let smss = self.effective_mss();
            self.flight.establish(&mut lent.call, sack, smss, clean);
        }
        self.persist = Persist::default();
    }

    /// Whether data or a FIN is outstanding.
    pub(super) fn has_data(&self) -> bool {
        self.flight.has_data()
    }
}

// Fifth, the ACK field (RFC 9293 §3.10.7.4).
impl SendHalf {
    /// RFC 9293 MAY-12 (RFC 5961 §5.2): SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT. Nothing below the first
    /// byte can be acknowledged, however large the window.
    #[inline]
    pub(super) fn is_believable(&self, ack: Position) -> bool {
        let oldest = self.flight.una().back(u64::from(self.max_wnd)).max(self.iss + 1);
        oldest <= ack && ack <= self.flight.nxt()
    }

    /// Sets the window from a segment with a believable ACK field, unless it is too old for that. Returns the
    /// state before, or `None` if the segment has no other news, because nothing is outstanding.
    #[inline]
    pub(super) fn on_window(&mut self, now: Instant, said: AckField<'_>) -> Option<Before> {
        let (una, wnd) = (self.flight.una(), self.wnd);
        let reopened = said.ack >= una && self.update_window(now, said);
        let has_sack = said.segment.is_some_and(|segment| !segment.options.sack.is_empty());
        (has_sack || !self.says_no_more_than_window(said.ack)).then_some(Before { una, wnd, reopened })
    }

    /// Processes the acknowledgement, after [`Self::on_window`]. Returns whether SND.UNA advanced.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    pub(super) fn on_ack(
        &mut self,
        lent: &mut Lent<'_>,
        said: AckField<'_>,
        before: Before,
        clock: Option<&Timestamps>,
        ecn: &mut Marking,
    ) -> bool {
        if said.ack > before.una {
            self.acknowledge(said.ack);
            self.settle_window_probe();
            let plain = said.segment.is_none() && !before.reopened;
            let window_open = self.wnd > 0;
            if plain && self.flight.on_advance(&mut lent.call, said.ack, window_open) {
                self.persist.stop();
                self.note_acknowledged(lent);
                return true;
            }
        }
        self.process_ack(lent, said, before, clock, ecn)
    }

    /// RFC 9293 §3.10.7.4: SND.WL1 and SND.WL2 keep an old segment from setting the window. Returns whether a
    /// window that had been probed has opened.
    #[inline]
    fn update_window(&mut self, now: Instant, said: AckField<'_>) -> bool {
        let AckField { start, ack, window, .. } = said;
        if self.wl1 < start || self.wl1 == start && self.wl2 <= ack {
            let was_closed = self.wnd == 0;
            self.wnd = window;
            self.max_wnd = self.max_wnd.max(window);
            self.wl1 = start;
            self.wl2 = ack;
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
            self.wnd = self.wnd.saturating_sub(advanced);
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

    /// Whether an acknowledgement of `ack` without SACK blocks has no news except the window, because nothing
    /// is outstanding.
    #[inline]
    fn says_no_more_than_window(&self, ack: Position) -> bool {
        ack == self.flight.una() && !self.flight.has_data() && !self.flight.awaits_probe_answer()
    }

    /// SND.UNA advances to `una`: what lies before it leaves the buffer.
    #[inline]
    fn acknowledge(&mut self, una: Position) {
        let base = una.min(self.data_end());
        if base > self.base {
            self.buffer.advance(base.index_from(self.base));
            self.base = base;
            if self.buffer.len() == 0 {
                self.buffer.rewind();
            }
        }
        if self.up.is_some_and(|up| up <= una) {
            self.up = None;
        }
    }

    /// An acknowledgement that has news besides the next data, or may have. Returns whether SND.UNA advanced.
    #[inline(never)]
    fn process_ack(
        &mut self,
        lent: &mut Lent<'_>,
        said: AckField<'_>,
        before: Before,
        clock: Option<&Timestamps>,
        ecn: &mut Marking,
    ) -> bool {
        let ack = said.ack;
        let sack = said.segment.map_or_else(Default::default, |segment| segment.options.sack.as_slice());
        let beyond = (ack.max(before.una) + u64::from(self.wnd)).since(self.flight.nxt());
        let acknowledgement = Acknowledgement {
            ack,
            sack: self.affordable_sack(sack),
            echo: clock.zip(said.timestamps).map(|(clock, (_, echoed))| clock.echoed(echoed)),
            bare: said.bare,
            window: self.wnd,
            same_window: self.wnd == before.wnd,
            reopened: before.reopened,
            sendable: self.unsent().min(beyond),
        };
        let mut news = AckNews::default();
        if !self.flight.on_ack(&mut lent.call, &acknowledgement, &mut news) {
            return false;
        }
        let advanced = news.advanced > 0;
        if advanced {
            self.persist.stop();
        }
        let marked = match said.segment {
            Some(segment) => ecn.on_ack(&mut lent.call, &mut self.flight, segment, &news),
            None => 0,
        };
        self.flight.tell_ack(&mut lent.call, &news, marked);
        if advanced {
            self.note_acknowledged(lent);
        } else {
            self.note_feedback(lent, false);
        }
        advanced
    }

    /// The SACK blocks, if the budget has room for the records that they may add to the flight. Otherwise
    /// they are ignored: they are advisory (RFC 2018 §8), and the cumulative acknowledgement works without
    /// them.
    #[inline]
    fn affordable_sack<'a>(&mut self, blocks: &'a [(SeqNum, SeqNum)]) -> &'a [(SeqNum, SeqNum)] {
        let most = || self.flight.bytes_kept().saturating_add(SACK_BYTES_MAX);
        if blocks.is_empty() || self.buffer.keep_beside(most()) { blocks } else { &[] }
    }
}

// Timers and the path.
impl SendHalf {
    /// The next deadline of the sending half.
    #[inline]
    pub(super) fn next_timeout(&self) -> Instant {
        let next =
            self.flight.next_timeout().min(self.persist.deadline().at()).min(self.cork.deadline().at());
        match &self.rare {
            Some(rare) => {
                let search = rare.search.as_ref().map_or(Deadline::UNSET, |search| search.deadline());
                next.min(rare.memory_retry.at()).min(search.at())
            }
            None => next,
        }
    }

    /// When the timers of the sending half expire, for a trace: those of the flight, the persist timer, the
    /// cork's.
    pub(super) fn expiries(&self) -> (Expiries, Instant, Instant) {
        (self.flight.expiries(), self.persist.deadline().at(), self.cork.deadline().at())
    }

    /// A deadline may have come. `r2`: how long outstanding data waits for an answer; `heard_at`: when the
    /// peer was heard last; `unread_since`: since when received bytes wait for the application.
    pub(super) fn on_timeout(
        &mut self,
        lent: &mut Lent<'_>,
        r2: Duration,
        heard_at: Instant,
        unread_since: Option<Instant>,
    ) -> Expired {
        let mut expired = Expired::Settled;
        if self.flight.next_timeout() <= lent.call.now {
            expired = self.on_flight_timeout(lent, r2);
            if expired == Expired::GiveUp {
                return expired;
            }
        }
        let persist = self.persist.deadline();
        if persist.has_come(lent.call.now) {
            lent.call.trace.fired(lent.call.now, Timer::Persist, persist.at(), 1);
            if !self.on_persist_timeout(lent, heard_at) {
                return Expired::GiveUp;
            }
        }
        let cork = self.cork.deadline();
        if cork.has_come(lent.call.now) {
            lent.call.trace.fired(lent.call.now, Timer::Cork, cork.at(), 1);
            self.cork.expire();
        }
        if self.rare.as_ref().is_some_and(|rare| rare.memory_retry.has_come(lent.call.now)) {
            self.on_memory_timeout(lent, unread_since);
        }
        if self.search().is_some_and(|search| search.deadline().has_come(lent.call.now)) {
            self.on_search_timeout(lent);
        }
        expired
    }

    fn on_flight_timeout(&mut self, lent: &mut Lent<'_>, r2: Duration) -> Expired {
        let since = self.flight.waiting_since().unwrap_or(lent.call.now);
        // RFC 9293 MUST-20: at R2, or the user timeout, the connection is given up.
        if self.flight.is_overdue(lent.call.now) && lent.call.now.saturating_since(since) >= r2 {
            let count = self.flight.timeouts_in_a_row().saturating_add(1);
            lent.call.trace.fired(
                lent.call.now,
                Timer::Retransmission,
                self.flight.expiries().retransmission,
                count,
            );
            return Expired::GiveUp;
        }
        let window_open = self.is_window_open(lent.state);
        if !self.flight.on_timer(&mut lent.call, self.wnd, window_open) {
            return Expired::Settled;
        }
        self.suspect_black_hole(lent);
        Expired::Retransmit
    }

    /// The persist timer expired. Returns `false` to give up.
    // RFC 9293 MUST-37: open for as long as the peer answers; only silence, or the user's own limit, ends it.
    fn on_persist_timeout(&mut self, lent: &mut Lent<'_>, heard_at: Instant) -> bool {
        let now = lent.call.now;
        let stalled = now.saturating_since(self.flight.waiting_since().unwrap_or(now));
        let silent = now.saturating_since(heard_at).min(stalled);
        if silent >= super::R2_DATA || lent.call.tcp.user_timeout.is_some_and(|limit| stalled >= limit) {
            return false;
        }
        if self.wnd > 0 {
            self.persist.allow_override();
        } else {
            // RFC 9293 MUST-36, RFC 9293 MUST-35.
            self.probe_due = true;
            self.persist.count_probe();
        }
        self.flight.note_waiting(now);
        self.persist.start(self.persist_deadline(now, lent.call.tcp));
        true
    }

    /// The stack was paused until `now`. ACKs may have been lost meanwhile, so probe the peer once more.
    pub(super) fn on_pause(&mut self, now: Instant, r2: Duration) {
        self.flight.on_pause(now, r2);
    }

    /// Ensures that the right timer of the sending side runs: the flight's while something is outstanding,
    /// the persist timer if the peer's window is too small for it or for what waits.
    #[inline]
    pub(super) fn keep_time<'a>(&mut self, lent: impl FnOnce() -> Lent<'a>) {
        if !self.is_timed() {
            self.choose_timer(&mut lent());
        }
    }

    #[inline]
    fn update_timer(&mut self, lent: &mut Lent<'_>) {
        if !self.is_timed() {
            self.choose_timer(lent);
        }
    }

    /// The cases that occur with each segment: a connection that only receives, one with data in flight, and
    /// one whose data is acknowledged, with room for more. `false` means: ask [`Self::choose_timer`].
    #[inline]
    fn is_timed(&self) -> bool {
        let outstanding = self.flight.is_outstanding();
        let unsent = self.unsent();
        let nothing_to_probe = if outstanding {
            self.wnd > 0
        } else {
            u64::from(self.wnd) >= unsent.min(u64::from(self.smss()))
        };
        let settled = !self.persist.deadline().is_set() && self.flight.is_timed() == outstanding;
        settled && nothing_to_probe
    }

    #[inline(never)]
    fn choose_timer(&mut self, lent: &mut Lent<'_>) {
        let window_open = self.is_window_open(lent.state);
        self.flight.run_timer(&mut lent.call, window_open);
        if !self.wants_persist_timer(lent.state) {
            self.persist.stop();
        } else if !self.persist.deadline().is_set() {
            if self.wnd == 0 {
                // Also behind a byte that the peer took of a probe: that opens nothing.
                self.flight.note_waiting(lent.call.now);
            }
            self.persist.start(self.persist_deadline(lent.call.now, lent.call.tcp));
        }
    }

    /// Starts the running timer of the sending side again.
    pub(super) fn restart_timer(&mut self, lent: &mut Lent<'_>) {
        let window_open = self.is_window_open(lent.state);
        self.flight.restart_timer(&mut lent.call, window_open);
        self.persist.stop();
        self.update_timer(lent);
    }

    /// Whether outstanding data may be retransmitted. RFC 9293 SHLD-17: no timeout for data beyond the
    /// window's right edge; it is probed instead (RFC 9293 MUST-35).
    #[inline]
    fn is_window_open(&self, state: State) -> bool {
        match state {
            State::Closed | State::Listen | State::TimeWait => false,
            State::SynSent | State::SynReceived => true,
            _ => self.wnd > 0,
        }
    }

    fn wants_persist_timer(&self, state: State) -> bool {
        match state {
            State::Closed | State::Listen | State::TimeWait | State::SynSent | State::SynReceived => false,
            _ if self.flight.is_outstanding() => self.wnd == 0,
            // Whether or not a cork holds it back: data that may leave when the cork is pulled has its timer
            // then.
            _ => u64::from(self.wnd) < self.unsent().min(u64::from(self.smss())),
        }
    }

    fn persist_deadline(&self, now: Instant, tcp: &TcpConfig) -> Instant {
        if self.wnd > 0 {
            return now + OVERRIDE;
        }
        let rtt = self.flight.rtt();
        let at = rtt.deadline(now, self.persist.interval(rtt.rto_unbacked()));
        match (tcp.user_timeout, self.flight.waiting_since()) {
            (Some(limit), Some(since)) => at.min((since + limit).max(now + Duration::from_millis(1))),
            _ => at,
        }
    }

    /// TIME-WAIT: no timer runs.
    pub(super) fn stop_timers(&mut self) {
        self.flight.stop_timers();
        self.persist.stop();
        self.cork.stop();
        if let Some(rare) = &mut self.rare {
            rare.memory_retry.clear();
        }
        self.end_search();
    }

    /// The connection is over: nothing is outstanding, nothing waits, and no timer runs.
    pub(super) fn close(&mut self) {
        self.stop_timers();
        self.persist = Persist::default();
        self.cork.release();
        (self.more_follows, self.probe_due) = (false, false);
        self.buffer.release();
        self.flight.close();
    }

    /// Frees memory that an idle connection no longer needs.
    pub(super) fn release_memory(&mut self, now: Instant) {
        if self.buffer.len() == 0 {
            self.buffer.release();
        }
        self.flight.release(now);
        self.buffer.keep_beside(self.flight.bytes_kept());
    }

    /// The largest payload of a segment with `options_len` bytes of options besides a signature.
    // RFC 9293 MUST-16: Eff.snd.MSS = min(SendMSS + 20, MMS_S) - TCPhdrsize - IPoptionsize.
    fn payload_max(&self, options_len: u32) -> u32 {
        let fits = self.pmtu.saturating_sub(self.headers.into()).min(self.peer_mss);
        fits.saturating_sub(options_len).saturating_sub(self.signature.into()).max(1)
    }

    /// SMSS, computed from the negotiated options and the path.
    fn effective_mss(&self) -> u32 {
        self.payload_max(self.stamps.into())
    }

    /// The path takes packets of this size from now on.
    fn set_pmtu(&mut self, lent: &mut Lent<'_>, pmtu: u32) {
        self.pmtu = pmtu;
        let smss = self.effective_mss();
        self.flight.set_smss(&mut lent.call, smss);
        // A window that held a segment may be too small for a longer one.
        self.update_timer(lent);
    }

    /// The device's MTU changed: the path's is at most that. Results below another MTU no longer count,
    /// including a probe in flight, and nothing larger may be tried.
    pub(super) fn on_device_mtu(&mut self, lent: &mut Lent<'_>, mtu: u32) {
        self.set_pmtu(lent, mtu);
        if let Some(search) = self.rare.as_mut().and_then(|rare| rare.search.as_mut()) {
            search.restart(mtu);
        }
    }

    /// Whether a segment or a probe may be longer than that.
    pub(super) fn may_exceed(&self, mtu: u32) -> bool {
        self.search().map_or(self.pmtu, |search| search.most().max(self.pmtu)) > mtu
    }

    /// ICMP reported that the path carries at most `told`; it used to carry more (RFC 1191, RFC 8201).
    pub(super) fn on_told_mtu(&mut self, lent: &mut Lent<'_>, told: u32) {
        if let Some(probing) = lent.call.tcp.mtu_probing.as_deref().filter(|_| lent.state.is_synchronized()) {
            // That was not a guess: the search rests first.
            let search = MtuSearch::resting(told, self.largest_mtu());
            self.begin_search(search, lent, probing.raise_after);
        }
        self.set_pmtu(lent, told);
        if lent.state.is_synchronized() {
            self.flight.on_too_big(&mut lent.call);
        }
        self.update_timer(lent);
    }

    /// Earlier connections found that the path carries at most `known`. Nothing has left yet.
    pub(super) fn on_known_mtu(&mut self, lent: &mut Lent<'_>, known: u32) {
        if lent.call.tcp.mtu_probing.is_some() {
            let search = MtuSearch::resting(known, self.largest_mtu());
            self.rare().search = Some(Box::new(search));
        }
        self.set_pmtu(lent, known);
    }

    /// The handshake is over, and that was known before: a search rests first.
    pub(super) fn rest_search(&mut self, lent: &Lent<'_>) {
        if let (Some(search), Some(probing)) = (self.search().copied(), lent.call.tcp.mtu_probing.as_deref())
        {
            self.begin_search(search, lent, probing.raise_after);
        }
    }

    /// Slow start ends at this window, if the controller has a threshold. Returns whether it does now.
    pub(super) fn limit_slow_start(&mut self, lent: &mut Lent<'_>, bytes: u64) -> bool {
        self.flight.limit_slow_start(&mut lent.call, bytes)
    }

    /// The round trip that earlier connections measured.
    pub(super) fn expect_rtt(&mut self, srtt: Duration, rttvar: Duration) {
        self.flight.expect_rtt(srtt, rttvar);
    }

    /// The retransmission timer has expired once more: the path may drop large packets silently.
    fn suspect_black_hole(&mut self, lent: &mut Lent<'_>) {
        let Some(probing) = lent.call.tcp.mtu_probing.as_deref().filter(|_| lent.state.is_synchronized())
        else {
            return;
        };
        self.flight.lose_mtu_probe();
        let expiries = self.flight.timeouts_in_a_row();
        let is_full = self.flight.flight_size() >= u64::from(self.smss());
        if !is_full || expiries < 2 || !expiries.is_multiple_of(2) {
            return;
        }
        let floor = super::pmtu::pmtu_min(self.headers < V6_HEADERS);
        let least = if expiries > 2 { floor } else { u32::from(probing.least).max(floor) };
        if self.pmtu <= least {
            return;
        }
        let most = self.largest_mtu();
        self.set_pmtu(lent, least);
        lent.call.trace.extension(lent.call.now, Extension::MtuBlackHole, u64::from(least));
        self.begin_search(MtuSearch::new(least, most), lent, mtu_search::PAUSE);
    }

    /// The search's timer expired.
    fn on_search_timeout(&mut self, lent: &mut Lent<'_>) {
        let Some(mut search) = self.search().copied() else { return };
        search.end();
        search.wake(self.pmtu);
        let mut timed_out = false;
        if search.is_out() {
            let Some(outcome) = self.flight.mtu_probe_outcome() else {
                let wait = self.flight.rtt().rto().max(mtu_search::PAUSE);
                return self.begin_search(search, lent, wait);
            };
            timed_out = outcome == ProbeOutcome::TimedOut;
            match search.judge(outcome) {
                Finding::Carried(size) => {
                    self.set_pmtu(lent, size);
                    lent.call.trace.extension(lent.call.now, Extension::MtuRaised, u64::from(size));
                    search.choose_next(size);
                }
                Finding::TooLarge(size) => {
                    lent.call.trace.extension(lent.call.now, Extension::MtuTooLarge, u64::from(size));
                    search.choose_next(self.pmtu);
                }
                Finding::Unsure => {}
            }
        }
        if search.has_ended() {
            let raise_after =
                lent.call.tcp.mtu_probing.as_ref().map_or(mtu_search::PAUSE, |probing| probing.raise_after);
            search.rest(lent.call.now + raise_after, self.pmtu);
            self.rare().search = Some(Box::new(search));
            return;
        }
        if search.is_held() {
            // RFC 4821 §7.6.3: five times as long is RECOMMENDED after a loss that the timer found.
            let interval = self.congestion_interval().saturating_mul(if timed_out { 5 } else { 1 });
            return self.begin_search(search, lent, interval);
        }
        self.probe_due = true;
        let wait = search.wait();
        self.begin_search(search, lent, wait);
    }

    /// The expected time between two events of congestion control.
    // RFC 4821 §7.6.2: the same number of round trips as the current congestion window in packets.
    fn congestion_interval(&self) -> Duration {
        let packets = self.flight.cwnd().div_ceil(u64::from(self.smss()).max(1));
        self.flight.rtt().srtt().saturating_mul(u32::try_from(packets).unwrap_or(u32::MAX))
    }

    /// Goes on with the search after `wait`, while there is data to search with.
    fn begin_search(&mut self, mut search: MtuSearch, lent: &Lent<'_>, wait: Duration) {
        if matches!(lent.state, State::Established | State::CloseWait) {
            search.go_on(lent.call.now + wait);
        }
        self.rare().search = Some(Box::new(search));
    }

    /// The search ends with the data.
    pub(super) fn end_search(&mut self) {
        if let Some(search) = self.rare.as_mut().and_then(|rare| rare.search.as_mut()) {
            search.end();
        }
    }

    /// The largest packet that the device and the peer took when the search began.
    fn largest_mtu(&self) -> u32 {
        let most = self.search().map_or(self.pmtu, |search| search.most().max(self.pmtu));
        most.min(self.peer_mss.saturating_add(self.headers.into()))
    }

    /// A probe of the peer's window has been answered; one of the path has yet to leave.
    #[inline]
    fn settle_window_probe(&mut self) {
        if self.probe_due {
            self.probe_due = self.wants_mtu_probe();
        }
    }

    /// Whether to probe the path, not the peer's window.
    fn wants_mtu_probe(&self) -> bool {
        self.wnd > 0 && self.search().is_some_and(MtuSearch::is_due)
    }

    /// Another controller takes over.
    pub(super) fn replace_controller(&mut self, lent: &mut Lent<'_>) {
        self.flight.replace_controller(&mut lent.call);
    }

    /// Another recovery policy takes over.
    pub(super) fn set_recovery(&mut self, lent: &mut Lent<'_>) {
        self.flight.set_recovery(&mut lent.call);
    }

    /// Another estimator of the retransmission timeout takes over.
    pub(super) fn set_rto(&mut self, lent: &mut Lent<'_>, rto: &RtoConfig) {
        self.flight.set_rto(rto);
        self.restart_timer(lent);
    }

    /// The bound on the rate has changed.
    pub(super) fn restart_pacing(&mut self, now: Instant) {
        self.flight.restart_pacing(now);
    }

    /// Whether congestion control has reduced the window since the last call.
    #[inline]
    pub(super) fn take_reduced(&mut self) -> bool {
        self.flight.take_reduced()
    }
}

#[cfg(test)]
impl SendHalf {
    pub(super) fn flight(&self) -> &Flight {
        &self.flight
    }

    pub(super) fn budget(&self) -> &crate::budget::Budget {
        self.buffer.budget()
    }

    /// When a timer may make something leave again.
    pub(super) fn next_transmission(&self) -> Instant {
        self.flight.next_timeout().min(self.persist.deadline().at()).min(self.cork.deadline().at())
    }

    /// When the search for the path's MTU goes on.
    pub(super) fn search_due(&self) -> Instant {
        self.search().map_or(Instant::FAR_FUTURE, |search| search.deadline().at())
    }

    /// It goes on now.
    pub(super) fn expire_search(&mut self, lent: &mut Lent<'_>) {
        self.on_search_timeout(lent);
    }
}

/// The timestamps option, aligned (RFC 7323 appendix A).
const TIMESTAMPS_LEN: u8 = 12;
/// Bytes of the fixed headers over IPv6.
const V6_HEADERS: u8 = 60;
/// Bytes that one acknowledgement's blocks may add to the scoreboard: 4 blocks that begin 8 ranges each, and
/// leave as many gaps that count as lost.
const SACK_BYTES_MAX: usize = 2 * 4 * 8 * 40;

ackclock_form::form! {
    struct SendHalf {
        iss, wnd, max_wnd, wl1, wl2, scale, headers, stamps, signature, up, closed, more_follows,
        probe_due, awaited, buffer_max, peer_mss, pmtu, buffer, base, flight, persist, cork,
        bytes_sent as lifetime,
        rare
    } => |half| half.violated().is_none() && half.scale <= crate::connection::WINDOW_SCALE_MAX && half.begins_at_una() && half.is_cut_for_the_path();
    struct Rare {
        bytes_retransmitted as lifetime, retransmits as lifetime, memory_retry, feedback, search
    }
}
