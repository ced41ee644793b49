//! The receive sequence space (RFC 9293 §3.3.1), the window that it offers, and its growth.

use super::tuning::{Place, Tuning};
use crate::Instant;
use crate::budget::Budget;
use crate::buffer::ReceiveBuffer;
use crate::position::Position;

/// RCV.NXT, RCV.WND and related state.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// IRS.
    pub(crate) irs: Position,
    /// RCV.NXT: next expected; beyond the FIN once that has been taken.
    pub(crate) nxt: Position,
    /// Right edge of the offered window: RCV.NXT + RCV.WND. It never retreats.
    pub(crate) edge: Position,
    /// How far before it the last window seemed to end, which was rounded down to its unit.
    hidden: u16,
    /// Shift count of our windows.
    pub(crate) scale: u8,
    /// The position of the peer's FIN, once seen.
    pub(crate) fin: Option<Position>,
    /// RCV.UP: the end of the peer's urgent data, while it lies ahead of what was read.
    pub(crate) up: Option<Position>,
    /// The largest payload that the peer may send.
    pub(crate) mss: u32,
    pub(crate) buffer: ReceiveBuffer,
    /// Since when bytes wait for the application, or for those before them. If none wait, the last such time.
    pub(crate) waits_since: Instant,
    /// Bytes that may wait unread now. It grows with what the application takes. No window is wider than
    /// 2^30.
    limit: u32,
    limit_max: u32,
    tuning: Tuning,
}

impl Receiver {
    /// `limit_initial`: bytes offered before the application has shown how fast it reads.
    pub(crate) fn new(irs: Position, budget: &Budget, limit_initial: usize, limit_max: usize) -> Self {
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
            waits_since: Instant::ZERO,
            limit: u32::try_from(limit_initial).unwrap_or(u32::MAX).min(limit_max),
            limit_max,
            tuning: Tuning::new(),
        }
    }

    /// IRS is known: the sequence space begins there.
    pub(crate) fn restart(&mut self, irs: Position) {
        self.irs = irs;
        self.nxt = irs + 1;
        self.edge = irs + 1;
        self.buffer.restart(irs + 1);
    }

    /// RCV.WND: what the peer may send beyond RCV.NXT.
    #[inline]
    pub(crate) fn wnd(&self) -> u64 {
        self.edge.since(self.nxt)
    }

    /// Whether the peer's FIN has been taken, so that nothing follows.
    #[inline]
    pub(crate) fn fin_taken(&self) -> bool {
        self.fin.is_some_and(|fin| fin < self.nxt)
    }

    /// The peer's FIN is at `fin`, if no other has come before. Bytes beyond it cannot exist.
    pub(crate) fn note_fin(&mut self, fin: Position) {
        if self.fin.is_none() {
            self.fin = Some(fin);
            self.buffer.end_at(fin);
        }
    }

    pub(crate) fn limit_max(&self) -> usize {
        usize::try_from(self.limit_max).unwrap_or(usize::MAX)
    }

    pub(crate) fn set_limit_max(&mut self, bytes: usize) {
        let representable = u32::from(u16::MAX) << self.scale;
        self.limit_max = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, representable);
        self.limit = self.limit.min(self.limit_max);
    }

    /// The unshifted window for a segment that acknowledges all before `ack`. The right edge advances only in
    /// steps worth a segment, and never retreats.
    #[inline]
    pub(crate) fn offer(&mut self, ack: Position) -> u16 {
        let wanted = self.wanted_edge();
        // RFC 9293 SHLD-14: the window does not shrink.
        let edge = if wanted.since(self.edge) >= self.step().max(1) { wanted } else { self.edge };
        let unit = 1_u64 << self.scale;
        let width = edge.since(ack);
        // Rounded up, or a full buffer could never be offered; but not again from an edge that was rounded up
        // before, or small segments would push it ahead of themselves while the application reads nothing.
        // Where the window is rounded down its edge seems to retreat by less than a unit. What lay before it
        // is still taken (RFC 7323 §2.4).
        let up = width.div_ceil(unit);
        let rounds_up = ack + (up << self.scale) < wanted + unit;
        let units = if rounds_up { up } else { width >> self.scale }.min(u64::from(u16::MAX));
        let shown = ack + (units << self.scale);
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
    pub(crate) fn offer_unscaled(&mut self) -> u16 {
        let window = u16::try_from(self.limit).unwrap_or(u16::MAX);
        self.edge = self.edge.max(self.nxt + u64::from(window));
        window
    }

    // RFC 9293 MAY-8: while the application does not read, the window stays closed, however long.
    /// Whether the window has opened far enough for an update without waiting for data.
    pub(crate) fn update_is_due(&self) -> bool {
        let shown = self.edge.back(u64::from(self.hidden)).max(self.nxt);
        let gain = self.wanted_edge().since(shown);
        gain >= self.step() && gain >= shown.since(self.nxt)
    }

    /// Whether the window can move on by this many hundredths of it.
    pub(crate) fn may_move_by(&self, percent: u8) -> bool {
        let gain = self.wanted_edge().since(self.edge);
        gain.saturating_mul(100) >= u64::from(self.limit).saturating_mul(u64::from(percent)).max(1)
    }

    fn wanted_edge(&self) -> Position {
        let room = u64::from(self.limit).saturating_sub(self.buffer.readable() as u64);
        self.nxt + room
    }

    /// The budget had no room for what was offered: offers half as much from now on, but at least two
    /// segments. It grows again with what the application takes.
    pub(crate) fn narrow(&mut self) {
        let least = self.mss.saturating_mul(2).min(self.limit);
        self.limit = (self.limit / 2).max(least);
    }

    /// The application took `bytes`. `rtt_min_ns`: the sending side's smallest round trip, or 0.
    pub(crate) fn on_read(&mut self, now: Instant, bytes: usize, rtt_min_ns: u64) {
        self.waits_since = now;
        let edge = self.edge.max(self.wanted_edge());
        let queue_stands = self.buffer.queue_stands();
        let place = Place { next: self.nxt, edge, rtt_min_ns, limit: self.limit, queue_stands };
        let wanted = self.tuning.on_read(now, bytes, &place).min(self.limit_max);
        if wanted < self.limit || wanted > self.limit && self.buffer.can_grow() {
            self.limit = wanted;
        }
    }
}
