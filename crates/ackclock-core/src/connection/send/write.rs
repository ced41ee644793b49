//! The application's side of the sending half: how much it may write, what it waits for, and what it learns
//! of what became of its data.

use std::num::NonZeroU64;
use std::time::Duration;

use bytes::Bytes;

use super::feedback::Feedback;
use super::{Lent, SendHalf};
use crate::budget::BLOCK;
use crate::event::ReadinessBits;
use crate::trace::Limit;
use crate::{DeliveryInfo, Instant, State, TcpConfig};

/// The shortest slice that is kept rather than copied: a copy costs less than a packet cut at a slice's end.
pub(in crate::connection) const SLICE_MIN: usize = BLOCK / 2;
/// The shortest slice between two others: larger than segments are, except on a loopback. No segment up to
/// this size spans three slices.
pub(in crate::connection) const BETWEEN_MIN: usize = BLOCK / 4;

/// A connection that has held memory without progress for less time than this is never reset for it: longer
/// than an honest path stalls for two losses of the same segment.
const STALLED_MIN: Duration = Duration::from_secs(5);
/// How soon a writer that makes progress looks again after the budget first refused it: connections without
/// progress are expected to make room for it at once.
const RETRY_FIRST: Duration = Duration::from_millis(1);
/// How soon it looks again after that: memory comes from connections that end.
const RETRY_AGAIN: Duration = Duration::from_millis(10);
/// How often any other writer looks at the budget.
const RETRY_STALLED: Duration = Duration::from_millis(100);

/// The events in the send buffer for which the application waits. One byte, so that an acknowledgement asks
/// once whether there is anything, for the row "acknowledgement received" of the counted instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Awaited(u8);

impl Awaited {
    /// Room to write, of which it found none.
    pub const ROOM: Self = Self(1);
    /// Less that was not sent: it found as much as its low-water mark allows.
    pub const SENT: Self = Self(2);
    /// Acknowledgements: it has asked for feedback.
    pub const DELIVERY: Self = Self(4);
    /// To write the rest of what did not fit: it is known to have more. Nothing wakes it for this; it learns
    /// of the room.
    pub const MORE: Self = Self(8);

    /// Whether it waits for nothing that an acknowledgement can bring.
    #[inline]
    fn is_none(self) -> bool {
        self.0 & !Self::MORE.0 == 0
    }

    /// Whether it waits for this.
    #[inline]
    fn has(self, what: Self) -> bool {
        self.0 & what.0 != 0
    }

    fn add(&mut self, what: Self) {
        self.0 |= what.0;
    }

    /// It waits for this no longer.
    fn remove(&mut self, what: Self) {
        self.0 &= !what.0;
    }
}

impl SendHalf {
    /// Appends up to `len` bytes with `append`, below a limit. `unread_since`: since when received bytes wait
    /// for the application. Returns how much; 0 if nothing fits.
    pub(in crate::connection) fn write(
        &mut self,
        now: Instant,
        len: usize,
        unread_since: Option<Instant>,
        append: impl FnOnce(&mut Self, usize) -> usize,
    ) -> usize {
        // The records of many small outstanding segments may exceed their bytes.
        let affordable = self.buffer.keep_beside(self.flight.bytes_kept());
        let limit = self.write_limit();
        let written = if affordable { append(self, limit) } else { 0 };
        if written < len {
            self.await_room(now, true, unread_since);
        } else {
            self.awaited.remove(Awaited::MORE);
        }
        if written == 0 && self.queued() < limit {
            // The budget refused it. No acknowledgement announces memory.
            self.retry_memory(now, unread_since, RETRY_FIRST);
        }
        written
    }

    /// Something was written: the timers of what waits run.
    pub(in crate::connection) fn on_written(&mut self, lent: &mut Lent<'_>) {
        self.time_cork(lent.call.now);
        self.update_timer(lent);
    }

    /// Appends as much of `data` as fits below a total of `limit` bytes. Returns how much.
    pub(in crate::connection) fn append(&mut self, data: &[u8], limit: usize) -> usize {
        let room = limit.saturating_sub(self.buffer.len());
        let data = data.get(..room).unwrap_or(data);
        if self.buffer.append(data) { data.len() } else { self.buffer.append_part(data) }
    }

    /// Appends as much of `data` as fits below a total of `limit` bytes, as a slice if it is long enough.
    /// Returns how much.
    ///
    /// A segment is gathered from two slices, so none between two others is shorter than [`BETWEEN_MIN`]:
    /// after copied bytes, what is missing to that length is copied too.
    pub(in crate::connection) fn append_bytes(&mut self, data: &Bytes, limit: usize) -> usize {
        let len = limit.saturating_sub(self.buffer.len()).min(data.len());
        let short = self.buffer.held_by_last().map_or(0, |held| BETWEEN_MIN.saturating_sub(held));
        if len < SLICE_MIN {
            return self.append(data, limit);
        }
        if short > 0 && !self.buffer.append(&data.slice(..short)) {
            return self.buffer.append_part(&data.slice(..short));
        }
        let affordable = len.saturating_sub(short).min(self.buffer.affordable());
        let kept = data.slice(short..short.saturating_add(affordable));
        if affordable >= BETWEEN_MIN && self.buffer.append_given(kept) {
            return short.saturating_add(affordable);
        }
        short.saturating_add(self.buffer.append_part(&data.slice(short..len)))
    }

    /// Appends the first data of an active OPEN, for the SYN. Returns how much fits.
    pub(in crate::connection) fn append_before_syn(&mut self, data: &[u8], most: usize) -> usize {
        self.append(data, self.buffer_max.min(most))
    }

    /// The last byte written ends urgent data.
    pub(in crate::connection) fn end_urgent(&mut self) {
        self.up = Some(self.data_end());
    }

    /// The application closes: a FIN follows the last byte, and a writer that waits learns of the end.
    pub(in crate::connection) fn shut_down(&mut self, lent: &mut Lent<'_>) {
        self.closed = true;
        self.stop_awaiting_memory();
        self.awaited.remove(Awaited::MORE);
        self.wake_writer(lent.readiness);
        if self.awaited.has(Awaited::DELIVERY) {
            // Nothing more will be written, so an awaited byte may never be.
            lent.readiness.add_if(ReadinessBits::DELIVERED, self.feedback().end());
        }
    }

    /// Bytes that a write takes at most; fewer if the memory budget is nearly spent.
    pub(in crate::connection) fn write_room(&self) -> usize {
        if self.has_memory() { self.write_limit().saturating_sub(self.queued()) } else { 0 }
    }

    /// Whether a write would take something.
    pub(in crate::connection) fn has_room(&self) -> bool {
        self.queued() < self.write_limit() && self.has_memory()
    }

    /// The application waits for room. `open`: the connection would take data.
    pub(in crate::connection) fn await_room(
        &mut self,
        now: Instant,
        open: bool,
        unread_since: Option<Instant>,
    ) {
        self.awaited.add(Awaited::ROOM);
        self.awaited.add(Awaited::MORE);
        if self.lowat().is_some() {
            self.awaited.add(Awaited::SENT);
        }
        if open && self.queued() < self.write_limit() && !self.has_memory() {
            self.retry_memory(now, unread_since, RETRY_FIRST);
        } else {
            self.stop_awaiting_memory();
        }
    }

    /// Whether a writer that waits for room will learn of it: without anything in the buffer no
    /// acknowledgement will come.
    pub(in crate::connection) fn will_announce_room(&self) -> bool {
        self.awaited.has(Awaited::ROOM) && (self.queued() > 0 || self.awaits_memory())
    }

    /// How many bytes may be buffered: what is outstanding, and a supply to follow it. A slow path does not
    /// hide seconds of data. While a hole holds SND.UNA, what is outstanding exceeds the window, and more
    /// must follow nevertheless.
    #[inline]
    fn send_limit_for(&self, cwnd: u64, supply: u64) -> usize {
        const LEAST: usize = 64 << 10;
        // Outstanding data counts even if the window has just been halved: its buffer space is not free yet.
        let outstanding = cwnd.max(self.flight.flight_size());
        let limit = outstanding.saturating_add(supply);
        usize::try_from(limit).unwrap_or(usize::MAX).max(LEAST).min(self.buffer_max)
    }

    /// How many bytes should wait to be sent: a window, or what leaves while the application wakes and runs,
    /// but no more than stays in a processor's cache from write to send.
    #[inline]
    fn supply(&self, cwnd: u64) -> u64 {
        const TO_WAKE_NS: u64 = 1_000_000;
        const CACHED: u64 = 1 << 20;
        match NonZeroU64::new(self.flight.rtt().srtt_nanos()) {
            Some(srtt_ns) if srtt_ns.get() < TO_WAKE_NS => {
                (cwnd.saturating_mul(TO_WAKE_NS) / srtt_ns).min(cwnd.max(CACHED))
            }
            _ => cwnd,
        }
    }

    /// The most that the send buffer may hold: its own limit, or less if the low-water mark allows less
    /// beyond what was sent.
    fn write_limit(&self) -> usize {
        let cwnd = self.flight.cwnd();
        let limit = self.send_limit_for(cwnd, self.supply(cwnd));
        let Some(lowat) = self.lowat_bytes() else { return limit };
        let sent = (self.queued() as u64).saturating_sub(self.unsent());
        limit.min(usize::try_from(sent.saturating_add(lowat)).unwrap_or(usize::MAX))
    }

    /// Wakes the application when a third of the buffer is free, or when at least a third of the supply fits
    /// while less than that is left to send, and not for each segment.
    #[inline]
    pub(super) fn note_write_room(&mut self, lent: &mut Lent<'_>) {
        if self.awaited.has(Awaited::ROOM) && self.is_write_due() && self.is_below_lowat() {
            self.wake_writer(lent.readiness);
        }
    }

    /// A writer that waits for room tries again: it has room, or another mark, or the stream has ended.
    fn wake_writer(&mut self, readiness: &mut ReadinessBits) {
        if self.awaited.has(Awaited::ROOM) {
            self.awaited.remove(Awaited::ROOM);
            self.awaited.remove(Awaited::SENT);
            readiness.add(ReadinessBits::WRITABLE);
        }
    }

    fn is_write_due(&self) -> bool {
        let cwnd = self.flight.cwnd();
        let supply = self.supply(cwnd);
        let limit = self.send_limit_for(cwnd, supply);
        let room = limit.saturating_sub(self.queued()) as u64;
        let piece = supply / 3;
        room >= (limit as u64 / 3).max(1) || room >= piece && self.unsent() <= piece
    }

    /// The peer acknowledged data, or our FIN.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    pub(super) fn note_acknowledged(&mut self, lent: &mut Lent<'_>) {
        if !self.awaited.is_none() {
            self.note_write_room(lent);
            self.note_feedback(lent, true);
        }
        if self.queued() == 0 {
            lent.readiness.add_if(ReadinessBits::WRITABLE, self.closed);
        }
    }

    /// A segment was sent, and nothing more can be sent now: wakes a writer that waits for room. An
    /// acknowledgement may be a round trip away.
    #[inline]
    pub(super) fn note_sent_enough(&mut self, lent: &mut Lent<'_>) {
        if self.awaited.has(Awaited::SENT) {
            self.note_write_room(lent);
        }
    }

    /// Whether Nagle's algorithm, the cork and the silly-window rules alone hold back what is unsent.
    fn holds_tail(&self, tcp: &TcpConfig) -> bool {
        self.unsent() < u64::from(self.smss()) && !self.may_send_tail(tcp.nodelay, 0)
    }

    /// Puts the cork in or takes it out. Says whether that changed anything.
    pub(in crate::connection) fn set_cork(&mut self, now: Instant, cork: bool) {
        if cork != self.cork.is_in() {
            self.cork.set(cork);
            self.time_cork(now);
        }
    }

    /// Starts the 200 ms of data held by a cork, unless they are running already.
    fn time_cork(&mut self, now: Instant) {
        if self.unsent() > 0 {
            self.cork.hold(now);
        }
    }

    pub(in crate::connection) fn set_more_follows(&mut self, more: bool) {
        self.more_follows = more;
    }

    /// The capacity of the buffer in bytes.
    pub(in crate::connection) fn buffer_max(&self) -> usize {
        self.buffer_max
    }

    /// Data already in the buffer stays.
    pub(in crate::connection) fn set_buffer_max(&mut self, bytes: usize) {
        self.buffer_max = bytes.max(1);
    }
}

// The memory budget.
impl SendHalf {
    /// Whether the budget has room for another byte of the send buffer. No acknowledgement announces such
    /// room.
    fn has_memory(&self) -> bool {
        self.buffer.takes_more(self.flight.bytes_kept())
    }

    /// Since when the connection has held memory without progress, if that is long enough for a reset.
    /// `unread_since`: since when received bytes wait for the application.
    pub(in crate::connection) fn stalled_since(
        &self,
        now: Instant,
        unread_since: Option<Instant>,
    ) -> Option<Instant> {
        let held = self.buffer.capacity().saturating_add(self.buffer.beside());
        let untaken_since = self.flight.waiting_since().filter(|_| held > 0);
        let since = untaken_since.into_iter().chain(unread_since).min()?;
        (now.saturating_since(since) >= STALLED_MIN).then_some(since)
    }

    /// The budget refused this connection. If it makes progress, it asks for room. Returns whether it did.
    pub(in crate::connection) fn report_refusal(&self, now: Instant, unread_since: Option<Instant>) -> bool {
        let gets_on = self.stalled_since(now, unread_since).is_none();
        if gets_on {
            self.buffer.budget().note_refusal();
        }
        gets_on
    }

    /// A writer waits for the memory budget: looks at it again, `soon` if it makes progress.
    fn retry_memory(&mut self, now: Instant, unread_since: Option<Instant>, soon: Duration) {
        let wait = if self.report_refusal(now, unread_since) { soon } else { RETRY_STALLED };
        self.rare().memory_retry.set_no_later(now + wait);
    }

    /// No writer waits for the memory budget.
    #[inline]
    fn stop_awaiting_memory(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.memory_retry.clear();
        }
    }

    /// Whether a writer waits for the memory budget.
    fn awaits_memory(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.memory_retry.is_set())
    }

    /// A writer that the memory budget refused learns of room, or waits on.
    pub(super) fn on_memory_timeout(&mut self, lent: &mut Lent<'_>, unread_since: Option<Instant>) {
        self.stop_awaiting_memory();
        if !self.awaited.has(Awaited::ROOM) {
            return;
        }
        if self.has_memory() {
            self.wake_writer(lent.readiness);
        } else {
            self.retry_memory(lent.call.now, unread_since, RETRY_AGAIN);
        }
    }
}

// Delivery feedback.
impl SendHalf {
    /// Bytes of the stream that the application has written.
    pub(in crate::connection) fn written(&self) -> u64 {
        self.data_end().since(self.iss + 1)
    }

    /// Bytes from the start of the stream that the peer has acknowledged.
    pub(in crate::connection) fn acked(&self) -> u64 {
        self.base.since(self.iss + 1)
    }

    /// Delivery so far, and the speed of the path.
    pub(in crate::connection) fn delivery(&self, tcp: &TcpConfig) -> DeliveryInfo {
        let (sending, rtt) = (self.flight.info(tcp), self.flight.rtt());
        DeliveryInfo {
            written: self.written(),
            acked: self.acked(),
            not_sent: self.unsent(),
            in_flight: sending.in_flight,
            cwnd: sending.cwnd,
            delivery_rate: sending.delivery_rate,
            srtt: rtt.srtt(),
            rtt_min: rtt.rtt_min(),
            queueing_delay: rtt.srtt().saturating_sub(rtt.rtt_min()),
        }
    }

    /// As [`Connection::await_delivered`](crate::Connection::await_delivered).
    pub(in crate::connection) fn await_delivered(
        &mut self,
        upto: u64,
        heard_at: Instant,
    ) -> Option<(u64, Instant)> {
        self.awaited.add(Awaited::DELIVERY);
        let acked = self.acked();
        self.feedback().await_delivered(upto, acked, heard_at)
    }

    /// As [`Connection::await_feedback`](crate::Connection::await_feedback).
    pub(in crate::connection) fn await_feedback(&mut self, seen: u64) -> Option<u64> {
        self.awaited.add(Awaited::DELIVERY);
        self.feedback().await_change(seen)
    }

    /// The number of changes so far that `await_feedback` counts.
    pub(in crate::connection) fn feedback_changes(&self) -> u64 {
        self.asked().map_or(0, Feedback::changes)
    }

    /// The delivery feedback that the application asked for, if any.
    fn asked(&self) -> Option<&Feedback> {
        self.rare.as_ref()?.feedback.as_deref()
    }

    fn feedback(&mut self) -> &mut Feedback {
        self.rare().feedback.get_or_insert_default()
    }

    /// An acknowledgement delivered something; `advanced`: SND.UNA advanced.
    #[inline]
    pub(super) fn note_feedback(&mut self, lent: &mut Lent<'_>, advanced: bool) {
        if self.awaited.has(Awaited::DELIVERY) {
            self.tell_feedback(lent, advanced);
        }
    }

    #[cold]
    fn tell_feedback(&mut self, lent: &mut Lent<'_>, advanced: bool) {
        let acked = self.acked();
        lent.readiness
            .add_if(ReadinessBits::DELIVERED, self.feedback().on_ack(lent.call.now, acked, advanced));
    }

    /// The most bytes that may wait to be sent for the first time.
    pub(in crate::connection) fn lowat(&self) -> Option<u32> {
        self.asked()?.lowat()
    }

    pub(in crate::connection) fn set_lowat(&mut self, readiness: &mut ReadinessBits, lowat: Option<u32>) {
        if lowat.is_none() && self.lowat().is_none() {
            return;
        }
        self.feedback().set_lowat(lowat);
        self.wake_writer(readiness);
    }

    /// Whether little enough is unsent to wake a writer that waits for room.
    #[inline]
    fn is_below_lowat(&self) -> bool {
        !self.awaited.has(Awaited::SENT) || self.lowat_bytes().is_none_or(|lowat| self.unsent() <= lowat / 2)
    }

    fn lowat_bytes(&self) -> Option<u64> {
        let lowat = self.lowat()?;
        Some(u64::from(lowat).max(2 * u64::from(self.smss())))
    }
}

// For a trace.
impl SendHalf {
    /// The limit that holds the next byte back, if it alone does. RFC 4898's three states
    /// (tcpEStatsPerfSndLimTimeRwin, -Cwnd and -Snd), with the last one, "any reason which cannot be
    /// classified as Receiver Limited or Congestion Limited", told apart.
    pub(in crate::connection) fn limit(&self, state: State, tcp: &TcpConfig) -> Limit {
        let unsent = self.unsent();
        let piece = unsent.min(u64::from(self.smss()));
        if !state.may_send_data() && state != State::FinWait2 {
            return Limit::NotOpen;
        }
        if self.flight.expiries().pacing != Instant::FAR_FUTURE {
            return self.flight.pacing_limit(tcp);
        }
        if self.flight.lost() > 0 {
            return Limit::Recovery;
        }
        if unsent == 0 {
            return if self.closed { Limit::Finished } else { self.limit_of_writer(Limit::Application) };
        }
        let window = self.right_edge().since(self.flight.nxt());
        let room = self.flight.room();
        if window < piece && window <= room {
            Limit::PeerWindow
        } else if room < piece {
            if self.flight.in_recovery() { Limit::Recovery } else { Limit::Cwnd }
        } else {
            match (self.holds_tail(tcp), self.cork.is_in(), self.more_follows) {
                (true, true, _) => self.limit_of_writer(Limit::Cork),
                (_, _, true) => self.limit_of_writer(Limit::Application),
                (true, false, false) => self.limit_of_writer(Limit::Nagle),
                (false, _, false) => Limit::Host,
            }
        }
    }

    /// The limit of a connection whose data does not fill another segment. If the application has more to
    /// write, this is what kept it from writing; `otherwise` if it is not known to have more.
    fn limit_of_writer(&self, otherwise: Limit) -> Limit {
        if !self.awaited.has(Awaited::MORE) {
            otherwise
        } else if self.is_write_due() && !self.awaits_memory() {
            Limit::Host
        } else {
            Limit::SendBuffer
        }
    }

    /// Bytes in flight and bytes unsent.
    pub(in crate::connection) fn waiting(&self) -> (u64, u64) {
        (self.flight.in_flight(), self.unsent())
    }
}

ackclock_form::form! {
    struct Awaited(bits)
}
