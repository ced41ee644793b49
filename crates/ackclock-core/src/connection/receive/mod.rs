//! The receiving half: the receive sequence space (RFC 9293 §3.3.1), the bytes that wait for the application,
//! the window that it offers, and the acknowledgements that it owes.

mod acks;
mod tuning;

use std::time::Duration;

use ackclock_control::bandwidth;
use ackclock_control::profile::{AckPolicy, Choices};
use ackclock_control::tally::Tally;
use ackclock_form::lifetime;
use ackclock_wire::SackBlocks;
use bytes::Bytes;

use self::acks::{AckReport, Acks, holds};
use self::tuning::{Place, Tuning};
use crate::Instant;
use crate::budget::Budget;
use crate::buffer::ReceiveBuffer;
use crate::deadline::Deadline;
use crate::position::Position;

/// RCV.NXT, RCV.WND and related state.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    /// IRS.
    irs: Position,
    /// RCV.NXT: next expected; beyond the FIN once that has been taken.
    nxt: Position,
    /// Right edge of the offered window: RCV.NXT + RCV.WND. It never retreats.
    edge: Position,
    /// How far before `edge` the last window, rounded down to its unit, seemed to end.
    hidden: u16,
    /// Shift count of our windows.
    scale: u8,
    /// The position of the peer's FIN, once seen.
    fin: Option<Position>,
    /// RCV.UP: the end of the peer's urgent data, while it lies ahead of the data read.
    up: Option<Position>,
    /// The largest payload that the peer may send.
    mss: u32,
    buffer: ReceiveBuffer,
    acks: Acks,
    /// Since when bytes wait for the application, or for those before them. If none wait, the last such time.
    waits_since: Instant,
    /// Bytes that may wait unread now. It grows with what the application takes. No window is wider than
    /// 2^30.
    limit: u32,
    limit_max: u32,
    tuning: Tuning,
    /// By how much the right edge may still advance; [`u32::MAX`] means as far as the buffer has room.
    opening: u32,
    rare: Option<Box<Rare>>,
}

/// State that most connections never need, for the benchmark row "bytes of an idle connection".
#[derive(Debug, Default)]
struct Rare {
    /// Bytes that arrived although they had been received before.
    bytes_duplicate: u64,
    /// Segments that arrived beyond a gap.
    out_of_order: u64,
    /// Estimates the path's bandwidth from the arrivals of the peer's slow start.
    arrivals: Option<bandwidth::Receiver>,
}

/// Text within the window, with at least one new byte.
pub(super) struct Text<'a> {
    pub now: Instant,
    pub bytes: &'a [u8],
    /// Where it begins.
    pub start: Position,
    /// The number of segments on the wire that it came in.
    pub segments: u32,
    /// The range that was trimmed at its front.
    pub cut: Option<(Position, Position)>,
    /// The block that contains the bytes, if they may stay there.
    pub block: Option<&'a Bytes>,
}

/// The effect of taking text.
pub(super) struct Taken {
    /// By how many bytes RCV.NXT advanced.
    pub advanced: u64,
    /// There was nothing to read before, and there is now.
    pub readable: bool,
    /// Some was dropped, for lack of memory or of room in the list of ranges.
    pub dropped: bool,
}

impl ReceiveHalf {
    /// `limit_initial`: bytes offered before the application has shown how fast it reads.
    pub fn new(irs: Position, budget: &Budget, limit_initial: usize, limit_max: usize) -> Self {
        let limit_max = u32::try_from(limit_max).unwrap_or(u32::MAX);
        Self {
            irs,
            nxt: irs + 1,
            edge: irs + 1,
            hidden: 0,
            scale: 0,
            fin: None,
            up: None,
            mss: 536,
            buffer: ReceiveBuffer::new(irs + 1, budget),
            acks: Acks::default(),
            waits_since: Instant::ZERO,
            limit: u32::try_from(limit_initial).unwrap_or(u32::MAX).min(limit_max),
            limit_max,
            tuning: Tuning::new(),
            opening: u32::MAX,
            rare: None,
        }
    }

    /// IRS is known: the sequence space begins there.
    pub fn restart(&mut self, irs: Position) {
        self.irs = irs;
        self.nxt = irs + 1;
        self.edge = irs + 1;
        self.buffer.restart(irs + 1);
    }

    /// IRS.
    pub fn irs(&self) -> Position {
        self.irs
    }

    /// RCV.NXT.
    #[inline]
    pub fn nxt(&self) -> Position {
        self.nxt
    }

    /// The right edge of what has been offered.
    #[inline]
    pub fn edge(&self) -> Position {
        self.edge
    }

    /// RCV.WND: what the peer may send beyond RCV.NXT.
    #[inline]
    pub fn wnd(&self) -> u64 {
        self.edge.since(self.nxt)
    }

    /// The right edge as the peer was shown it last.
    fn shown(&self) -> Position {
        self.edge.back(u64::from(self.hidden)).max(self.nxt)
    }

    /// Bytes beyond RCV.NXT that the window last shown to the peer lets it send.
    pub fn shown_wnd(&self) -> u64 {
        self.shown().since(self.nxt)
    }

    /// Whether the peer's FIN has been taken, so that nothing follows.
    #[inline]
    pub fn fin_taken(&self) -> bool {
        self.fin.is_some_and(|fin| fin < self.nxt)
    }

    /// The position of the peer's FIN, once seen.
    #[inline]
    pub fn fin(&self) -> Option<Position> {
        self.fin
    }

    /// Text that arrived in an earlier life and was not read, behind which the peer was offered `shown`
    /// bytes. Returns whether there is room for it.
    pub fn resume(&mut self, now: Instant, unread: &[u8], shown: u32) -> bool {
        let received = self.buffer.insert(self.nxt, unread, None);
        self.nxt += received.advanced;
        self.edge = self.nxt + u64::from(shown);
        self.waits_since = now;
        received.advanced == unread.len() as u64
    }

    /// The peer's FIN is at `fin`, if no other has come before. Bytes beyond it cannot exist.
    pub fn note_fin(&mut self, fin: Position) {
        if self.fin.is_none() {
            self.fin = Some(fin);
            self.buffer.end_at(fin);
        }
    }

    /// Takes the peer's FIN if all text before it has been received. Returns whether it did.
    pub fn process_fin(&mut self) -> bool {
        if self.fin != Some(self.nxt) {
            return false;
        }
        self.nxt += 1;
        self.edge = self.edge.max(self.nxt);
        self.acks.owe_now();
        self.acks.process_fin(self.nxt);
        true
    }

    /// As much of `text` as may come before the peer's FIN.
    pub fn before_fin<'a>(&self, start: Position, text: &'a [u8]) -> &'a [u8] {
        self.fin.and_then(|fin| text.get(..fin.index_from(start))).unwrap_or(text)
    }

    /// The peer's urgent data ends at `up`. Returns whether that is news.
    pub fn note_urgent(&mut self, up: Position) -> bool {
        let advances = up > self.nxt && self.up.is_none_or(|known| up > known);
        if advances {
            self.up = Some(up);
        }
        advances
    }

    /// Bytes until the end of the peer's urgent data; 0 if none is known to remain.
    pub fn urgent_remaining(&self) -> u64 {
        self.up.map_or(0, |up| up.since(self.read_position()))
    }

    /// The position of the next byte to be read.
    fn read_position(&self) -> Position {
        let end_of_text = self.fin.filter(|&fin| fin < self.nxt).unwrap_or(self.nxt);
        end_of_text.back(self.buffer.readable() as u64)
    }

    /// Text of a SYN: takes what fits. Returns how much.
    pub fn on_text_of_syn(&mut self, text: &[u8]) -> u64 {
        let most = (self.mss as usize).min(usize::try_from(self.wnd()).unwrap_or(usize::MAX));
        let received = self.buffer.insert(self.nxt, text.get(..most).unwrap_or(text), None);
        self.nxt += received.advanced;
        received.advanced
    }

    /// Takes text into the buffer and owes its acknowledgement. `sack`: the peer understands blocks.
    // Always inlined, for the row "data segment received" of the counted instructions: most text is the next,
    // and untrimmed.
    #[inline(always)]
    pub fn on_text(&mut self, text: &Text<'_>, sack: bool, choices: &Choices) -> Taken {
        let gap_before = self.buffer.has_gap();
        let was_readable = self.buffer.readable() > 0;
        let received = self.buffer.insert(text.start, text.bytes, text.block);
        self.nxt += received.advanced;
        let readable = received.advanced > 0 && !was_readable;
        let at_gap = gap_before || received.out_of_order;
        if received.dropped {
            // Text that was not taken is not acknowledged, so it comes again, as if it had been lost on the
            // way.
            self.answer_repeated(text.start, text.cut, sack);
        } else {
            // RFC 2883 §4.2: of several duplicate stretches the first is reported.
            let duplicate = text.cut.or(received.repeated);
            if at_gap || duplicate.is_some() {
                self.report(text.start, duplicate, sack);
            }
            self.owe_ack(text, at_gap, received.advanced > 0, sack, &choices.acks);
        }
        let waits = readable || received.out_of_order && !received.dropped && !gap_before && !was_readable;
        if waits {
            self.waits_since = text.now;
        }
        self.count_duplicate(received.duplicate);
        if received.out_of_order {
            self.rare().out_of_order.count();
        }
        if let Some(samples_max) = choices.receiver_bandwidth.filter(|_| !received.dropped) {
            let initial_segments = choices.initial_window_segments;
            self.measure(text, samples_max, initial_segments, received.advanced, at_gap);
        }
        Taken { advanced: received.advanced, readable, dropped: received.dropped }
    }

    /// Counts bytes that arrived twice.
    #[inline]
    pub fn count_duplicate(&mut self, bytes: u64) {
        if bytes > 0 {
            self.rare().bytes_duplicate.grow(bytes);
        }
    }

    /// Bytes that arrived twice, and segments that arrived beyond a gap.
    pub fn rare_counts(&self) -> (u64, u64) {
        self.rare.as_ref().map_or((0, 0), |rare| (rare.bytes_duplicate, rare.out_of_order))
    }

    /// Bytes of the stream that arrived in order.
    pub fn received(&self) -> u64 {
        self.fin.filter(|&fin| fin < self.nxt).unwrap_or(self.nxt).since(self.irs + 1)
    }

    /// Passes an arrival to the bandwidth estimator, which the first arrival creates.
    fn measure(
        &mut self,
        text: &Text<'_>,
        samples_max: usize,
        initial_segments: u32,
        advanced: u64,
        at_gap: bool,
    ) {
        // The peer's segment size is unknown; that on the wire is used.
        let smss = (text.bytes.len() as u64).div_ceil(u64::from(text.segments.max(1)));
        // The peer's initial window is unknown. The paper assumes that it equals ours.
        let initial_window = u64::from(initial_segments.max(1)).saturating_mul(smss);
        let estimator = || bandwidth::Receiver::new(samples_max, initial_window, smss);
        let arrivals = self.rare().arrivals.get_or_insert_with(estimator);
        if at_gap {
            arrivals.on_loss();
        } else {
            arrivals.on_data(text.now, advanced);
        }
    }

    /// The path's bandwidth, as the arrivals show it.
    pub fn bandwidth(&self) -> Option<bandwidth::ReceiverEstimates> {
        self.rare.as_ref()?.arrivals.as_ref()?.estimates()
    }

    #[cold]
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Text came that is not taken, of which `repeated` was received before: it is answered at once.
    pub fn answer_repeated(&mut self, start: Position, repeated: Option<(Position, Position)>, sack: bool) {
        if repeated.is_some() {
            self.report(start, repeated, sack);
        }
        self.acks.owe_now();
    }

    /// When received data is acknowledged, as [`AckPolicy`] says.
    // Always inlined, for the row "data segment received" of the counted instructions.
    #[inline(always)]
    fn owe_ack(&mut self, text: &Text<'_>, at_gap: bool, advanced: bool, sack: bool, policy: &AckPolicy) {
        // RFC 9293 SHLD-19: at least one for every 2*RMSS bytes.
        self.acks.count(text.segments);
        let due = match *policy {
            AckPolicy::EverySecondSegment { .. } | AckPolicy::EverySecondByTick { .. } => {
                if at_gap && !advanced && !sack {
                    // RFC 9293 MAY-13 (RFC 5681 §4.2): a duplicate for each, though the batch is processed
                    // before the first leaves.
                    self.acks.owe_duplicates(self.nxt, text.segments);
                }
                // RFC 5681 §4.2: out-of-order segments, and those that fill a gap, are acknowledged at once.
                // Otherwise every second full-sized one is, and any within the delay.
                at_gap || self.acks.owes_report() || self.acks.waiting() >= 2
            }
            // Deviation from RFC 5681 §4.2 and RFC 9293 SHLD-19: neither gaps nor second segments count, as
            // in 4.3BSD, whose "lazy" receivers the paper of 1988 measures.
            AckPolicy::WindowShare { percent, .. } => self.may_move_by(percent),
        };
        // RFC 9293 SHLD-18, RFC 9293 MUST-40: delayed, by less than 0.5 s. The phase of a free-running
        // clock is arbitrary. That of the peer's first number keeps the clocks of several receivers
        // apart.
        let phase = self.irs.seq().raw();
        self.acks.owe(due, || policy.deadline(text.now, phase).min(text.now + ACK_DELAY_MAX));
    }

    /// Text arrived at `place`, around a gap or twice: queues a report.
    pub fn report(&mut self, place: Position, duplicate: Option<(Position, Position)>, sack: bool) {
        if duplicate.is_none() && !self.buffer.has_gap() {
            return self.acks.forget_blocks();
        }
        if !sack {
            return;
        }
        // RFC 2883 §4 (4): the block that contains the duplicate.
        let place = duplicate.map_or(place, |(start, _)| start);
        let beyond_gap = self.buffer.holds_ahead(place);
        if duplicate.is_none() && !beyond_gap && !self.acks.owes_report() {
            // In order, with the gap unchanged: the next acknowledgement says everything.
            return;
        }
        let blocks = self.buffer.sack_blocks(Some(place), SackBlocks::MAX);
        let report = AckReport { next: self.nxt, duplicate, blocks };
        let first = blocks.as_slice().first().copied();
        self.acks.add_report(report, |last| {
            let of_last = last.blocks.as_slice().first();
            duplicate.is_none()
                && (!beyond_gap || first.zip(of_last).is_some_and(|(now, then)| holds(now, then.0)))
        });
    }

    /// An acknowledgement must leave at once.
    #[inline]
    pub fn owe_ack_now(&mut self) {
        self.acks.owe_now();
    }

    /// Whether an acknowledgement must leave at once.
    #[inline]
    pub fn owes_ack_now(&self) -> bool {
        self.acks.owes_now()
    }

    /// Whether a pure acknowledgement must leave before any data. A first report does not ride on data: a
    /// device that cuts a large segment would repeat it on each piece, and it takes room from the payload.
    #[inline]
    pub fn owes_pure_ack(&self) -> bool {
        self.acks.owes_now() && self.acks.owes_report()
    }

    /// Segments that have arrived since the last acknowledgement was sent.
    #[inline]
    pub fn unacknowledged_segments(&self) -> u32 {
        self.acks.waiting()
    }

    /// Whether acknowledgements only have RCV.NXT and the window to say.
    #[inline]
    pub fn is_in_order(&self) -> bool {
        !self.buffer.has_gap() && !self.acks.owes_report()
    }

    /// Whether bytes wait behind a gap.
    #[inline]
    pub fn has_gap(&self) -> bool {
        self.buffer.has_gap()
    }

    /// When a delayed acknowledgement must leave.
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.acks.deadline()
    }

    /// It must leave.
    pub fn on_deadline(&mut self) {
        self.acks.on_deadline();
    }

    /// Whether everything that arrives is acknowledged at once.
    pub fn is_quick(&self) -> bool {
        self.acks.is_quick()
    }

    /// Acknowledges everything that arrives at once, including what already waits; or follows the policy.
    pub fn set_quick(&mut self, quick: bool) {
        self.acks.set_quick(quick);
    }

    /// The acknowledgement number of the next segment: RCV.NXT, or its value when the next report was made.
    #[inline]
    pub fn ack_position(&self, pure_ack: bool) -> Position {
        self.acks.first_report().filter(|_| pure_ack).map_or(self.nxt, |report| report.next)
    }

    /// Whether the next segment has blocks to say.
    #[inline]
    pub fn has_blocks(&self, pure_ack: bool) -> bool {
        self.buffer.has_gap() || pure_ack && self.acks.owes_report()
    }

    /// As many blocks as have room, for the next segment. RFC 2883 §4: the duplicate first.
    pub fn blocks(&self, pure_ack: bool, room: usize) -> SackBlocks {
        let report = self.acks.first_report().filter(|_| pure_ack);
        let mut blocks = SackBlocks::default();
        if let Some((start, end)) = report.and_then(|report| report.duplicate) {
            blocks.push(start.seq(), end.seq());
        }
        let room = room.saturating_sub(blocks.as_slice().len());
        let held = report.map_or_else(|| self.buffer.sack_blocks(None, room), |report| report.blocks);
        // A FIN beyond the gap takes a number, and is held with the text before it.
        let fin = self.fin.map(Position::seq);
        for &(left, right) in held.as_slice().iter().take(room) {
            blocks.push(left, if Some(right) == fin { right + 1 } else { right });
        }
        blocks
    }

    /// A segment that acknowledged all before `ack` has left. No acknowledgement is owed any more
    /// (RFC 9293 MUST-58), except those with reports that this one did not carry.
    #[inline]
    pub fn on_ack_sent(&mut self, ack: Position, pure_ack: bool) {
        self.acks.on_sent(ack, self.nxt, pure_ack);
        if let Some(arrivals) = self.rare.as_mut().and_then(|rare| rare.arrivals.as_mut()) {
            arrivals.on_ack_sent();
        }
    }

    /// How many bytes wait to be read.
    #[inline]
    pub fn readable(&self) -> usize {
        self.buffer.readable()
    }

    /// Since when bytes wait for the application, or for those before them.
    pub fn holds_since(&self) -> Option<Instant> {
        (self.buffer.readable() > 0 || self.buffer.has_gap()).then_some(self.waits_since)
    }

    /// Copies bytes that wait to be read.
    pub fn peek(&self, into: &mut [u8]) -> usize {
        self.buffer.peek(into)
    }

    /// The bytes that wait to be read, in place.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.buffer.slices()
    }

    /// Takes at most `max` bytes in one slice; [`on_read`](Self::on_read) follows.
    pub fn take(&mut self, max: usize) -> Bytes {
        self.buffer.take(max)
    }

    /// Takes `len` bytes; [`on_read`](Self::on_read) follows.
    pub fn consume(&mut self, len: usize) {
        self.buffer.consume(len);
    }

    /// Bytes allocated for the buffer.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Frees the memory if nothing waits.
    pub fn release_if_empty(&mut self) {
        self.buffer.release_if_empty();
    }

    /// The connection is over: nothing more will come, and what came in order can still be read.
    pub fn finish(&mut self) {
        self.acks = Acks::default();
        self.buffer.finish();
    }

    /// Forgets what waits to be read.
    pub fn clear(&mut self) {
        self.buffer.clear();
    }

    /// Shift count of our windows.
    #[inline]
    pub fn scale(&self) -> u8 {
        self.scale
    }

    pub fn set_scale(&mut self, scale: u8) {
        self.scale = scale;
    }

    /// The largest payload that the peer may send.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    pub fn limit_max(&self) -> usize {
        usize::try_from(self.limit_max).unwrap_or(usize::MAX)
    }

    pub fn set_limit_max(&mut self, bytes: usize) {
        let representable = u32::from(u16::MAX) << self.scale;
        self.limit_max = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, representable);
        self.limit = self.limit.min(self.limit_max);
    }

    /// The unshifted window for a segment that acknowledges all before `ack`. The right edge advances only in
    /// steps worth a segment, and never retreats.
    #[inline]
    pub fn offer(&mut self, ack: Position) -> u16 {
        let wanted = self.wanted_edge();
        // RFC 9293 SHLD-14: the window does not shrink.
        let edge = if wanted.since(self.edge) >= self.step().max(1) { wanted } else { self.edge };
        let unit = 1_u64 << self.scale;
        let width = edge.since(ack);
        // Rounded up, or a full buffer could never be offered; but not again from an edge that was rounded up
        // before, or small segments would push it ahead of themselves while the application reads nothing.
        // Where the window is rounded down its edge seems to retreat by less than a unit. Data before the old
        // edge is still taken (RFC 7323 §2.4).
        let up = width.saturating_add(unit.saturating_sub(1)) >> self.scale;
        let rounds_up = ack + (up << self.scale) < wanted + unit;
        let units = if rounds_up { up } else { width >> self.scale }.min(u64::from(u16::MAX));
        let shown = ack + (units << self.scale);
        if self.opening != u32::MAX {
            let advanced = u32::try_from(shown.since(self.edge)).unwrap_or(u32::MAX);
            self.opening = self.opening.saturating_sub(advanced);
        }
        self.edge = self.edge.max(shown);
        self.hidden = u16::try_from(self.edge.since(shown)).unwrap_or(u16::MAX);
        u16::try_from(units).unwrap_or(u16::MAX)
    }

    /// RFC 9293 MUST-39 (§3.8.6.2.2): min(Fr * RCV.BUFF, Eff.snd.MSS) with Fr = 1/2.
    #[inline]
    fn step(&self) -> u64 {
        u64::from(self.limit / 2).min(u64::from(self.mss))
    }

    /// The window of a SYN, which is never shifted (RFC 7323 §2.2).
    pub fn offer_unscaled(&mut self) -> u16 {
        let window = u16::try_from(self.limit).unwrap_or(u16::MAX);
        self.edge = self.edge.max(self.nxt + u64::from(window));
        window
    }

    // RFC 9293 MAY-8: while the application does not read, the window stays closed, however long.
    /// Whether the window has opened far enough for an update without waiting for data.
    fn update_is_due(&self) -> bool {
        let gain = self.wanted_edge().since(self.shown());
        gain >= self.step() && gain >= self.shown_wnd()
    }

    /// After a read: whether the window has opened by the share that the policy waits for.
    fn share_is_due(&self, policy: &AckPolicy) -> bool {
        match *policy {
            AckPolicy::EverySecondSegment { .. } | AckPolicy::EverySecondByTick { .. } => false,
            AckPolicy::WindowShare { percent, .. } => self.acks.waiting() > 0 && self.may_move_by(percent),
        }
    }

    /// Whether the window can move on by this many hundredths of it.
    fn may_move_by(&self, percent: u8) -> bool {
        let gain = self.wanted_edge().since(self.edge);
        gain.saturating_mul(100) >= u64::from(self.limit).saturating_mul(u64::from(percent)).max(1)
    }

    /// By how much the buffer would let the window open beyond what is permitted; 0 for less than a segment.
    #[inline]
    pub fn window_gain(&self) -> u64 {
        let gain = self.edge_of_buffer().since(self.edge + self.permitted());
        if gain >= self.step().max(1) { gain } else { 0 }
    }

    /// By how much the window may still open; 0 if that was never limited.
    fn permitted(&self) -> u64 {
        if self.opening == u32::MAX { 0 } else { self.opening.into() }
    }

    /// Permits the window to open by `bytes` more, and limits it to that.
    pub fn permit_opening(&mut self, bytes: u64) {
        self.opening = u32::try_from(self.permitted().saturating_add(bytes)).unwrap_or(u32::MAX);
    }

    /// The right edge of a window that only the buffer limits.
    fn edge_of_buffer(&self) -> Position {
        let room = u64::from(self.limit).saturating_sub(self.buffer.readable() as u64);
        self.nxt + room
    }

    fn wanted_edge(&self) -> Position {
        let edge = self.edge_of_buffer();
        if self.opening == u32::MAX { edge } else { edge.min(self.edge + u64::from(self.opening)) }
    }

    /// Text was dropped. If the budget had no room for the offered window, offers half as much from now on,
    /// but at least two segments. The window grows again as the application reads. Returns whether the budget
    /// was the reason.
    pub fn narrow_if_refused(&mut self) -> bool {
        let refused = !self.buffer.can_grow();
        if refused {
            let least = self.mss.saturating_mul(2).min(self.limit);
            self.limit = (self.limit / 2).max(least);
        }
        refused
    }

    /// The application took `bytes`. `rtt_min_ns`: the sending side's smallest round trip, or 0. `policy`:
    /// when the peer may still send, that of its acknowledgements.
    pub fn on_read(&mut self, now: Instant, bytes: usize, rtt_min_ns: u64, policy: Option<&AckPolicy>) {
        self.tune(now, bytes, rtt_min_ns);
        self.tell_opening(policy);
        if self.up.is_some_and(|up| up <= self.read_position()) {
            self.up = None;
        }
    }

    /// The window may have opened: owes an acknowledgement if the peer should learn of it now.
    pub fn tell_opening(&mut self, policy: Option<&AckPolicy>) {
        if policy.is_some_and(|policy| self.update_is_due() || self.share_is_due(policy)) {
            self.acks.owe_now();
        }
    }

    fn tune(&mut self, now: Instant, bytes: usize, rtt_min_ns: u64) {
        self.waits_since = now;
        let edge = self.edge.max(self.edge_of_buffer());
        let place = Place { next: self.nxt, edge, rtt_min_ns, limit: self.limit };
        let wanted = self.tuning.on_read(now, bytes, &place).min(self.limit_max);
        if wanted < self.limit || wanted > self.limit && self.buffer.can_grow() {
            self.limit = wanted;
        }
    }
}

/// How long an acknowledgement may be delayed.
// RFC 9293 MUST-40: less than 0.5 seconds.
const ACK_DELAY_MAX: Duration = Duration::from_millis(499);

ackclock_form::form! {
    struct ReceiveHalf {
        irs, nxt, edge, hidden, scale, fin, up, mss, buffer, acks, waits_since, limit, limit_max, tuning,
        opening, rare
    } => |half| half.scale <= crate::connection::WINDOW_SCALE_MAX;
    struct Rare { bytes_duplicate as lifetime, out_of_order as lifetime, arrivals }
}
