//! The user's calls: SEND, RECEIVE, CLOSE, ABORT (RFC 9293 §3.10.2 to §3.10.5).

use std::num::NonZeroU64;

use bytes::Bytes;

use super::sender::{Awaited, Sender};
use super::timeouts::BUFFERS_KEPT;
use super::{Connection, State};
use crate::trace::Entry;
use crate::{ConnectionError, Instant, ReadError, WriteError};

impl Connection {
    /// Copies as much of `data` into the send buffer as fits, and as the memory budget has room for. Returns
    /// how much.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] without room; the others are final. One call reports how the connection
    /// ended; from then on writes return [`WriteError::Shutdown`].
    pub fn write(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        self.write_with(now, data.len(), |snd, limit| snd.append(data, limit))
    }

    /// Like [`write`](Self::write), but keeps slices of `data` instead of copies. They are released when the
    /// peer has acknowledged all of them; retransmissions read from them again. A short slice (less than
    /// 32 KiB) is copied.
    ///
    /// # Errors
    /// As `write`.
    pub fn write_bytes(&mut self, now: Instant, data: &Bytes) -> Result<usize, WriteError> {
        self.write_with(now, data.len(), |snd, limit| snd.append_bytes(data, limit))
    }

    /// Makes `append` append up to `len` bytes below a limit.
    fn write_with(
        &mut self,
        now: Instant,
        len: usize,
        append: impl FnOnce(&mut Sender, usize) -> usize,
    ) -> Result<usize, WriteError> {
        if let Err(error) = self.check_writable() {
            self.errors.tell();
            return Err(error);
        }
        if len == 0 {
            return Ok(0);
        }
        // The records of many small outstanding segments may exceed their bytes.
        let affordable = self.snd.keep_records(self.flight.bytes_kept());
        let limit = self.write_limit();
        let written = if affordable { append(&mut self.snd, limit) } else { 0 };
        if written < len {
            self.await_room(now);
        } else {
            self.snd.awaited.remove(Awaited::MORE);
        }
        if written == 0 {
            if self.snd.queued() < limit {
                // The budget refused it. No acknowledgement announces memory.
                self.await_memory(now);
            }
            return Err(WriteError::WouldBlock);
        }
        self.keeps_buffers.clear();
        self.trace_written(now, written);
        self.time_cork(now);
        self.update_send_timer(now);
        Ok(written)
    }

    /// Bytes that `write` would take now; fewer if the memory budget is nearly spent.
    #[must_use]
    pub fn write_room(&self) -> usize {
        if self.check_writable().is_ok() && self.has_memory_to_write() {
            self.write_limit().saturating_sub(self.snd.queued())
        } else {
            0
        }
    }

    /// Requests [`Readiness::writable`](crate::Readiness::writable) once there is room again, for a caller
    /// that found [`is_writable`](Self::is_writable) false and did not try to write.
    pub fn await_room(&mut self, now: Instant) {
        self.snd.awaited.add(Awaited::ROOM);
        self.snd.awaited.add(Awaited::MORE);
        if self.not_sent_lowat().is_some() {
            self.snd.awaited.add(Awaited::SENT);
        }
        let has_room = self.check_writable().is_ok() && self.snd.queued() < self.write_limit();
        if has_room && !self.has_memory_to_write() {
            self.await_memory(now);
        } else {
            self.stop_awaiting_memory();
        }
    }

    /// Whether [`Readiness::writable`](crate::Readiness::writable) will be reported to a caller that waits
    /// for room: it has asked, and what it waits for has not come.
    #[must_use]
    pub fn awaits_room(&self) -> bool {
        match self.check_writable() {
            // Without anything in the buffer, no acknowledgement will come.
            Ok(()) => self.snd.awaited.has(Awaited::ROOM) && (self.snd.queued() > 0 || self.awaits_memory()),
            // The handshake reports its end.
            Err(WriteError::NotConnected) => true,
            Err(_) => false,
        }
    }

    fn check_writable(&self) -> Result<(), WriteError> {
        if let Some(error) = self.errors.for_writer(self.rcv.fin_taken()) {
            return Err(error);
        }
        match self.state {
            State::SynReceived if self.serves_fast_open() && !self.snd.closed => Ok(()),
            State::SynSent | State::SynReceived | State::Listen => Err(WriteError::NotConnected),
            State::Established | State::CloseWait => Ok(()),
            _ => Err(WriteError::Shutdown),
        }
    }

    /// How many bytes may be buffered: what is outstanding, and a supply to follow it. A slow path does not
    /// hide seconds of data. While a hole holds SND.UNA, what is outstanding exceeds the window, and more
    /// must follow nevertheless.
    pub(super) fn send_limit(&self) -> usize {
        let cwnd = self.flight.cwnd();
        self.send_limit_for(cwnd, self.supply(cwnd))
    }

    #[inline]
    fn send_limit_for(&self, cwnd: u64, supply: u64) -> usize {
        const LEAST: usize = 64 << 10;
        // Outstanding data counts even if the window has just been halved: its buffer space is not free yet.
        let outstanding = cwnd.max(self.flight.flight_size());
        let limit = outstanding.saturating_add(supply);
        usize::try_from(limit).unwrap_or(usize::MAX).max(LEAST).min(self.snd.buffer_max)
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

    /// Wakes the application when a third of the buffer is free, or when at least a third of the supply fits
    /// while less than that is left to send, and not for each segment.
    #[inline]
    pub(super) fn note_write_room(&mut self) {
        if self.snd.awaited.has(Awaited::ROOM) && self.is_write_due() && self.is_below_lowat() {
            self.wake_writer();
        }
    }

    /// A writer that waits for room tries again: it has room, or another mark, or the stream has ended.
    pub(super) fn wake_writer(&mut self) {
        if self.snd.awaited.has(Awaited::ROOM) {
            self.snd.awaited.remove(Awaited::ROOM);
            self.snd.awaited.remove(Awaited::SENT);
            self.readiness.writable = true;
        }
    }

    pub(super) fn is_write_due(&self) -> bool {
        let cwnd = self.flight.cwnd();
        let supply = self.supply(cwnd);
        let limit = self.send_limit_for(cwnd, supply);
        let room = limit.saturating_sub(self.snd.queued()) as u64;
        let piece = supply / 3;
        room >= limit as u64 / 3 || room >= piece && self.unsent() <= piece
    }

    /// The peer acknowledged data, or our FIN.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    pub(super) fn note_acknowledged(&mut self) {
        if !self.snd.awaited.is_none() {
            self.note_write_room();
            self.note_feedback(true);
        }
        if self.snd.queued() == 0 {
            self.keeps_buffers.set_no_later(self.silence.heard_at() + BUFFERS_KEPT);
            self.readiness.writable |= self.snd.closed;
        }
    }

    /// Copies received bytes into `into` and returns how many; `Ok(0)` for a non-empty `into` is the end of
    /// the stream.
    ///
    /// However the connection ended, data received in order is read first. Only an [`abort`](Self::abort) at
    /// this end discards it.
    ///
    /// # Errors
    /// [`ReadError::WouldBlock`] if there is nothing yet; the others are final.
    pub fn read(&mut self, now: Instant, into: &mut [u8]) -> Result<usize, ReadError> {
        match self.peek(into) {
            Ok(len) => {
                self.consume(now, len);
                Ok(len)
            }
            Err(error) => {
                self.errors.tell();
                Err(error)
            }
        }
    }

    /// Takes at most `max` received bytes in one slice, in their block; there may be more. If `max` is not 0,
    /// an empty slice is the end of the stream.
    ///
    /// Data that fills less than half of its block is copied. A block that was given away is no longer in the
    /// memory budget; it is reused when its last slice is dropped.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_bytes(&mut self, now: Instant, max: usize) -> Result<Bytes, ReadError> {
        if self.rcv.readable() == 0 {
            return self.read(now, &mut [0]).map(|_| Bytes::new());
        }
        let taken = self.rcv.take(max);
        self.was_read(now, taken.len());
        Ok(taken)
    }

    /// Like [`read`](Self::read), leaving the bytes in the buffer.
    ///
    /// # Errors
    /// As `read`.
    pub fn peek(&self, into: &mut [u8]) -> Result<usize, ReadError> {
        if self.rcv.readable() > 0 {
            return Ok(self.rcv.peek(into));
        }
        match self.errors.hard() {
            // Data that this end discarded was not the end of the stream.
            Some(own @ (ConnectionError::Aborted | ConnectionError::OutOfMemory)) => {
                return Err(ReadError::Connection(own));
            }
            // RFC 9293 MUST-12: a normal end, never confused with an abort.
            _ if self.rcv.fin_taken() => return Ok(0),
            Some(error) => return Err(ReadError::Connection(error)),
            None => {}
        }
        match self.state {
            State::SynReceived if self.serves_fast_open() => Err(ReadError::WouldBlock),
            State::SynSent | State::SynReceived | State::Listen => Err(ReadError::NotConnected),
            State::Closed => Ok(0),
            _ => Err(ReadError::WouldBlock),
        }
    }

    /// The bytes that wait to be read, in place, slice by slice; [`consume`](Self::consume) takes them.
    pub fn read_slices(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.rcv.slices()
    }

    /// How many bytes wait to be read.
    #[must_use]
    pub fn readable(&self) -> usize {
        self.rcv.readable()
    }

    /// Takes `len` bytes out of the receive buffer, no more than are [`readable`](Self::readable).
    pub fn consume(&mut self, now: Instant, len: usize) {
        let len = len.min(self.rcv.readable());
        self.rcv.consume(len);
        self.was_read(now, len);
    }

    /// The application took `len` bytes from the receive buffer.
    fn was_read(&mut self, now: Instant, len: usize) {
        if len == 0 {
            return;
        }
        let policy = self.state.takes_text().then_some(&self.tcp.choices.acks);
        self.rcv.on_read(now, len, self.flight.rtt().rtt_min_nanos(), policy);
        self.trace_read(now, len);
        if self.rcv.readable() == 0 && self.state == State::Closed {
            self.rcv.release_if_empty();
        } else if self.rcv.readable() == 0 {
            self.keeps_buffers.set_no_later(now + BUFFERS_KEPT);
        }
    }

    /// Whether `read` would not return [`ReadError::WouldBlock`].
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.rcv.readable() > 0 || self.rcv.fin_taken() || self.state == State::Closed
    }

    /// Whether `write` would not return [`WriteError::WouldBlock`].
    #[must_use]
    pub fn is_writable(&self) -> bool {
        match self.check_writable() {
            Ok(()) => self.snd.queued() < self.write_limit() && self.has_memory_to_write(),
            Err(WriteError::NotConnected) => false,
            Err(_) => true,
        }
    }

    /// Whether the peer's FIN has been received and everything before it read.
    #[must_use]
    pub fn is_read_closed(&self) -> bool {
        self.rcv.readable() == 0 && self.has_peer_ended()
    }

    /// Whether the peer sends nothing more: its FIN has been received, or the connection is over. Data that
    /// it sent before may be left to read.
    #[must_use]
    pub fn has_peer_ended(&self) -> bool {
        self.rcv.fin_taken() || self.state == State::Closed
    }

    /// Whether this end's sending side is shut down.
    #[must_use]
    pub fn is_write_closed(&self) -> bool {
        self.snd.closed || self.state == State::Closed
    }

    /// Whether all bytes written, and the FIN if `shutdown` was called, have been acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.snd.queued() == 0 && (!self.snd.closed || self.fin_acked() || self.state == State::Closed)
    }

    /// Closes the sending side after the data in the send buffer (RFC 9293 §3.10.4, CLOSE). Reading goes on
    /// (RFC 9293 MAY-1: the half-duplex close of `release` is the endpoint's).
    ///
    /// # Errors
    /// The connection is not established, or ended in error.
    pub fn shutdown(&mut self, now: Instant) -> Result<(), WriteError> {
        if let Some(error) = self.errors.hard() {
            return Err(WriteError::Connection(error));
        }
        match self.state {
            State::Listen | State::SynSent => return Err(WriteError::NotConnected),
            State::Closed => return Ok(()),
            _ => {}
        }
        if !self.snd.closed {
            self.snd.closed = true;
            self.trace.note(now, Entry::Shutdown);
            if self.established {
                self.enter(now, self.state.after_close());
            }
            self.stop_awaiting_memory();
            self.snd.awaited.remove(Awaited::MORE);
            self.wake_writer();
            self.note_end_of_writing();
            self.update_send_timer(now);
        }
        Ok(())
    }

    /// Resets the connection (RFC 9293 §3.10.5, ABORT): buffered data in both directions is lost.
    pub fn abort(&mut self, now: Instant) {
        self.rcv.clear();
        self.reset(now, ConnectionError::Aborted);
    }

    /// Ends the connection with `error`, and sends a RST if the peer still needs one.
    pub(super) fn reset(&mut self, now: Instant, error: ConnectionError) {
        let tell = match self.state {
            State::Closed | State::Listen | State::SynSent | State::TimeWait => false,
            State::Closing | State::LastAck => self.snd.queued() > 0,
            _ => true,
        };
        self.close_with(now, Some(error));
        // A reset that has not left yet still will, whatever follows.
        self.pending.reset |= tell;
    }

    /// The application has released the connection. RFC 9293 SHLD-3 (RFC 2525 §2.17): unread data is a reason
    /// to reset; otherwise the connection closes and finishes by itself.
    pub(crate) fn set_orphaned(&mut self, now: Instant) {
        self.orphaned = true;
        match self.state {
            State::Closed => {}
            State::SynSent => self.close_with(now, None),
            // Both ends have finished. A reset would be of no use to the peer, and the name must still wait.
            State::TimeWait => self.rcv.clear(),
            _ if self.rcv.holds_since().is_some() => {
                let finishing = matches!(self.state, State::Closing | State::LastAck);
                self.abort(now);
                // This end's FIN may not have arrived, and will not be sent again: the peer would wait for
                // it.
                self.pending.reset |= finishing;
            }
            State::FinWait2 => self.closing.set(now + self.tcp.fin_wait_2_max),
            _ => {
                // Cannot fail: the error and the states that refuse are handled above.
                let _ = self.shutdown(now);
            }
        }
    }
}
