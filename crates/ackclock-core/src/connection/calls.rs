//! The user's calls: SEND, RECEIVE, CLOSE, ABORT (RFC 9293 §3.10.2 to §3.10.5), and the options that an
//! application sets.

use std::sync::Arc;
use std::time::Duration;

use ackclock_control::congestion::ControllerFactory;
use ackclock_control::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_control::rtt::RtoConfig;
use bytes::Bytes;

use super::send::SendHalf;
use super::{Connection, State, lend};
use crate::later::{self, Kept};
use crate::trace::{Entry, saturated};
use crate::{
    ConnectionError, DeliveryInfo, Instant, Keepalive, OptionError, ReadError, TcpConfig, WriteError,
};

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
        append: impl FnOnce(&mut SendHalf, usize) -> usize,
    ) -> Result<usize, WriteError> {
        if let Err(error) = self.check_writable() {
            self.errors.tell();
            return Err(error);
        }
        if len == 0 {
            return Ok(0);
        }
        let written = self.snd.write(now, len, self.rcv.holds_since(), append);
        if written == 0 {
            return Err(WriteError::WouldBlock);
        }
        self.idle_buffers.end();
        self.trace_written(now, written);
        self.snd.on_written(&mut lend!(self, now));
        Ok(written)
    }

    #[inline]
    fn trace_written(&mut self, now: Instant, len: usize) {
        if self.trace.is_on() {
            self.trace.host_ran(now);
            let queued = saturated(self.snd.queued() as u64);
            self.trace.note(now, Entry::Written { len: saturated(len as u64), queued });
            self.trace_freed(now);
        }
    }

    /// Bytes that `write` would take now; fewer if the memory budget is nearly spent.
    #[must_use]
    pub fn write_room(&self) -> usize {
        if self.check_writable().is_ok() { self.snd.write_room() } else { 0 }
    }

    /// Requests [`Readiness::writable`](crate::Readiness::writable) once there is room again, for a caller
    /// that found [`is_writable`](Self::is_writable) false and did not try to write.
    pub fn await_room(&mut self, now: Instant) {
        let open = self.check_writable().is_ok();
        self.snd.await_room(now, open, self.rcv.holds_since());
    }

    /// Whether [`Readiness::writable`](crate::Readiness::writable) will be reported to a caller that waits
    /// for room, because it has asked and no room has come.
    #[must_use]
    pub fn awaits_room(&self) -> bool {
        match self.check_writable() {
            Ok(()) => self.snd.will_announce_room(),
            // The handshake reports its end.
            Err(WriteError::NotConnected) => true,
            Err(_) => false,
        }
    }

    fn check_writable(&self) -> Result<(), WriteError> {
        if let Some(error) = self.errors.for_writer(self.rcv.fin_taken()) {
            return Err(error);
        }
        match self.life.state() {
            State::SynReceived if self.cold.serves_fast_open() && !self.snd.is_closed() => Ok(()),
            State::SynSent | State::SynReceived | State::Listen => Err(WriteError::NotConnected),
            State::Established | State::CloseWait => Ok(()),
            _ => Err(WriteError::Shutdown),
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
        match self.life.state() {
            State::SynReceived if self.cold.serves_fast_open() => Err(ReadError::WouldBlock),
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
        let policy = self.life.state().takes_text().then_some(&self.tcp.choices.acks);
        self.rcv.on_read(now, len, self.snd.rtt().rtt_min_nanos(), policy);
        self.trace_read(now, len);
        if self.rcv.readable() == 0 && self.life.state() == State::Closed {
            self.rcv.release_if_empty();
        } else if self.rcv.readable() == 0 {
            self.idle_buffers.begin(now);
        }
    }

    #[inline]
    fn trace_read(&mut self, now: Instant, len: usize) {
        let waiting = saturated(self.rcv.readable() as u64);
        self.trace.note(now, Entry::Read { len: saturated(len as u64), waiting });
    }

    /// Whether `read` would not return [`ReadError::WouldBlock`].
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.rcv.readable() > 0 || self.rcv.fin_taken() || self.life.state() == State::Closed
    }

    /// Whether `write` would not return [`WriteError::WouldBlock`].
    #[must_use]
    pub fn is_writable(&self) -> bool {
        match self.check_writable() {
            Ok(()) => self.snd.has_room(),
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
        self.rcv.fin_taken() || self.life.state() == State::Closed
    }

    /// Whether this end's sending side is shut down.
    #[must_use]
    pub fn is_write_closed(&self) -> bool {
        self.snd.is_closed() || self.life.state() == State::Closed
    }

    /// Whether all bytes written, and the FIN if `shutdown` was called, have been acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.snd.queued() == 0
            && (!self.snd.is_closed() || self.snd.fin_acked() || self.life.state() == State::Closed)
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
        match self.life.state() {
            State::Listen | State::SynSent => return Err(WriteError::NotConnected),
            State::Closed => return Ok(()),
            _ => {}
        }
        if !self.snd.is_closed() {
            self.snd.shut_down(&mut lend!(self, now));
            self.trace.note(now, Entry::Shutdown);
            if self.life.is_established() {
                self.enter(now, self.life.state().after_close());
            }
            self.snd.keep_time(|| lend!(self, now));
        }
        Ok(())
    }

    /// Resets the connection (RFC 9293 §3.10.5, ABORT): buffered data in both directions is lost.
    pub fn abort(&mut self, now: Instant) {
        self.rcv.clear();
        self.reset(now, ConnectionError::Aborted);
    }

    /// The application has released the connection. RFC 9293 SHLD-3 (RFC 2525 §2.17): unread data is a reason
    /// to reset; otherwise the connection closes and finishes by itself.
    pub(crate) fn set_orphaned(&mut self, now: Instant) {
        self.life.orphan(now, &self.tcp);
        match self.life.state() {
            State::Closed => {}
            State::SynSent => self.close_with(now, None),
            // Both ends have finished. A reset would be of no use to the peer, and the name must still wait.
            State::TimeWait => self.rcv.clear(),
            _ if self.rcv.holds_since().is_some() => {
                let finishing = matches!(self.life.state(), State::Closing | State::LastAck);
                self.abort(now);
                // This end's FIN may not have arrived, and will not be sent again: the peer would wait for
                // it.
                if finishing {
                    self.pending.owe_reset();
                }
            }
            State::FinWait2 => {}
            _ => {
                // Cannot fail: the error and the states that refuse are handled above.
                let _ = self.shutdown(now);
            }
        }
    }
}

// Delivery feedback.
impl Connection {
    /// Delivery so far, and the speed of the path.
    #[must_use]
    pub fn delivery(&self) -> DeliveryInfo {
        self.snd.delivery(&self.tcp)
    }

    /// Bytes of the stream that the application has written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.snd.written()
    }

    /// Bytes from the start of the stream that the peer has acknowledged.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.snd.acked()
    }

    /// Bytes that were written but never sent.
    #[must_use]
    pub fn not_sent(&self) -> u64 {
        self.snd.unsent()
    }

    /// The number of acknowledged bytes and when their acknowledgement arrived, once they are at least
    /// `upto`. Until then `None`, and [`Readiness::delivered`](crate::Readiness::delivered) reports when to
    /// ask again: then, or once [`shutdown`](Self::shutdown) has ended the stream.
    ///
    /// Before the first such call, or the first of [`await_feedback`](Self::await_feedback), the time is that
    /// of the last segment that arrived, which is no earlier than the acknowledgement.
    pub fn await_delivered(&mut self, upto: u64) -> Option<(u64, Instant)> {
        self.snd.await_delivered(upto, self.silence.heard_at())
    }

    /// The number of changes to the figures of [`delivery`](Self::delivery) since feedback was first asked
    /// for, if it differs from `seen`. Otherwise `None`, and
    /// [`Readiness::delivered`](crate::Readiness::delivered) reports the next change.
    pub fn await_feedback(&mut self, seen: u64) -> Option<u64> {
        self.snd.await_feedback(seen)
    }

    /// The number of changes so far that [`await_feedback`](Self::await_feedback) counts.
    #[must_use]
    pub fn feedback_changes(&self) -> u64 {
        self.snd.feedback_changes()
    }

    /// The most bytes that may wait to be sent for the first time; `None`: as many as the send buffer holds.
    #[must_use]
    pub fn not_sent_lowat(&self) -> Option<u32> {
        self.snd.lowat()
    }

    /// Bounds the bytes that wait to be sent for the first time. A write takes no more than that, and the
    /// connection becomes writable again once half of it has been sent. A bound below two segments counts as
    /// two, so that the writer does not wait for data that Nagle's algorithm or a cork holds back. `None`:
    /// only the send buffer limits a write.
    // Linux's TCP_NOTSENT_LOWAT (commits c9bee3b7fdec and a74f0fa082b7: fill up to it, wake below half);
    // tcp(7) lists it among the options without a description.
    pub fn set_not_sent_lowat(&mut self, lowat: Option<u32>) {
        self.snd.set_lowat(&mut self.readiness, lowat);
    }
}

// Options.
impl Connection {
    /// Whether Nagle's algorithm is off.
    #[must_use]
    pub fn nodelay(&self) -> bool {
        self.tcp.nodelay
    }

    /// Switches Nagle's algorithm off (`true`) or on. RFC 9293 MUST-17: per connection.
    pub fn set_nodelay(&mut self, now: Instant, nodelay: bool) {
        self.own_tcp().nodelay = nodelay;
        self.snd.keep_time(|| lend!(self, now));
    }

    /// Whether everything that arrives is acknowledged at once.
    #[must_use]
    pub fn quickack(&self) -> bool {
        self.rcv.is_quick()
    }

    /// Acknowledges everything that arrives at once, including what already waits; or follows the policy.
    pub fn set_quickack(&mut self, quickack: bool) {
        self.rcv.set_quick(quickack);
    }

    /// Holds partial segments back until uncorked, or for 200 ms each (RFC 9293 MUST-60: never indefinitely).
    pub fn set_cork(&mut self, now: Instant, cork: bool) {
        self.snd.set_cork(now, cork);
    }

    /// Announces that the writer is about to write more. While it is, and one of the device's largest packets
    /// is in flight, the next leaves whole or not at all. This has no effect on a device that cuts nothing,
    /// and lasts until the caller takes it back.
    pub fn set_more_follows(&mut self, more: bool) {
        self.snd.set_more_follows(more);
    }

    /// Keep-alive settings; `None`: off.
    #[must_use]
    pub fn keepalive(&self) -> Option<Keepalive> {
        self.tcp.keepalive
    }

    /// Switches keep-alive probes on or off. RFC 9293 MUST-24, RFC 9293 MUST-27: per connection, with its
    /// interval.
    ///
    /// # Errors
    /// An interval of zero, or no probe at all.
    pub fn set_keepalive(&mut self, now: Instant, keepalive: Option<Keepalive>) -> Result<(), OptionError> {
        if let Some(Keepalive { idle, interval, probes }) = keepalive
            && (idle.is_zero() || interval.is_zero() || probes == 0)
        {
            let range = "an idle time and an interval above zero and at least one probe";
            return Err(OptionError::OutOfRange { option: "keepalive", range });
        }
        self.own_tcp().keepalive = keepalive;
        self.silence.restart();
        self.arm_keepalive(now);
        Ok(())
    }

    /// RFC 5482's user timeout; `None`: R2 decides.
    #[must_use]
    pub fn user_timeout(&self) -> Option<Duration> {
        self.tcp.user_timeout
    }

    /// Sets the user timeout. RFC 9293 MUST-21: R2 of one connection; `Duration::MAX` stands for never.
    ///
    /// # Errors
    /// A timeout of zero.
    pub fn set_user_timeout(&mut self, now: Instant, timeout: Option<Duration>) -> Result<(), OptionError> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(OptionError::OutOfRange { option: "user timeout", range: "a duration above zero" });
        }
        self.own_tcp().user_timeout = timeout;
        self.fix_user_timeout(timeout);
        self.snd.restart_timer(&mut lend!(self, now));
        Ok(())
    }

    /// How long the connection may carry no data either way; `None`: as long as both ends wish.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.tcp.idle_timeout
    }

    /// Sets the idle timeout ([`TcpConfig::idle_timeout`]), which counts from now on; `None` switches it off.
    ///
    /// # Errors
    /// A timeout of zero.
    pub fn set_idle_timeout(&mut self, now: Instant, timeout: Option<Duration>) -> Result<(), OptionError> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(OptionError::OutOfRange { option: "idle timeout", range: "a duration above zero" });
        }
        self.own_tcp().idle_timeout = timeout;
        self.watch_data(now);
        Ok(())
    }

    /// Time to live, or hop limit.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.tcp.ttl
    }

    /// Sets time to live, or hop limit (RFC 9293 MUST-49): 1 to 255.
    ///
    /// # Errors
    /// Zero.
    pub fn set_ttl(&mut self, ttl: u8) -> Result<(), OptionError> {
        if ttl == 0 {
            return Err(OptionError::OutOfRange { option: "ttl", range: "1 to 255" });
        }
        self.own_tcp().ttl = ttl;
        self.template.set_ttl(ttl);
        Ok(())
    }

    /// Differentiated services code point.
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.tcp.dscp
    }

    /// Sets the differentiated services code point (RFC 9293 MUST-48, RFC 9293 SHLD-21: also while the
    /// connection is open): 0 to
    /// 63. It goes to IP unchanged (RFC 9293 SHLD-22). Applications generally should not change it in
    ///     midstream (RFC 9293 SHLD-23).
    ///
    /// # Errors
    /// More than 63.
    pub fn set_dscp(&mut self, dscp: u8) -> Result<(), OptionError> {
        if dscp > 63 {
            return Err(OptionError::OutOfRange { option: "dscp", range: "0 to 63" });
        }
        self.own_tcp().dscp = dscp;
        self.template.set_traffic_class(dscp << 2);
        Ok(())
    }

    /// Largest send and receive buffers in bytes.
    #[must_use]
    pub fn buffer_max(&self) -> (usize, usize) {
        (self.snd.buffer_max(), self.rcv.limit_max())
    }

    /// Sets the largest send buffer in bytes. Data already in it stays.
    pub fn set_send_buffer_max(&mut self, bytes: usize) {
        self.snd.set_buffer_max(bytes);
    }

    /// Sets the largest receive buffer in bytes. A window already offered is not reduced.
    pub fn set_receive_buffer_max(&mut self, bytes: usize) {
        self.own_tcp().receive_buffer_max = bytes.max(1);
        if self.life.is_established() {
            self.rcv.set_limit_max(bytes);
        }
    }

    /// The bound on the sending rate, in bytes a second; `None` without one.
    #[must_use]
    pub fn max_pacing_rate(&self) -> Option<u64> {
        self.tcp.pacing_rate_max
    }

    /// Bounds the sending rate, in bytes of payload a second, at least 1 (as Linux's `SO_MAX_PACING_RATE`),
    /// whether or not the connection paces otherwise. `None` removes the bound.
    ///
    /// # Errors
    /// A rate of zero.
    pub fn set_max_pacing_rate(&mut self, now: Instant, rate: Option<u64>) -> Result<(), OptionError> {
        if rate == Some(0) {
            return Err(OptionError::OutOfRange {
                option: "max pacing rate",
                range: "at least 1 byte a second",
            });
        }
        self.own_tcp().pacing_rate_max = rate;
        self.snd.restart_pacing(now);
        Ok(())
    }

    /// Bytes until the end of the peer's urgent data (RFC 9293 MUST-33); 0 if none is known to remain.
    #[must_use]
    pub fn urgent_remaining(&self) -> u32 {
        u32::try_from(self.rcv.urgent_remaining()).unwrap_or(u32::MAX)
    }

    /// Writes `data`, whose last byte ends urgent data. RFC 9293 SHLD-13: new applications should not.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_urgent(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        let written = self.write(now, data)?;
        self.snd.end_urgent();
        Ok(written)
    }

    /// The settings, now separate from those of other connections.
    pub(super) fn own_tcp(&mut self) -> &mut TcpConfig {
        Arc::make_mut(&mut self.tcp)
    }

    /// Replaces the congestion controller; the new one starts from the present window and slow-start
    /// threshold.
    pub fn set_congestion(&mut self, now: Instant, factory: Arc<dyn ControllerFactory>) {
        let old = std::mem::replace(&mut self.own_tcp().congestion, factory);
        later::keep(|| Kept::Factory(old));
        self.snd.replace_controller(&mut lend!(self, now));
    }

    /// The configured loss recovery. [`info`](Self::info) has the policy in force, which differs if the peer
    /// sends no SACKs.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.tcp.choices.recovery
    }

    /// Chooses another loss recovery policy, at any time. An episode under way ends by the new policy's rule.
    pub fn set_recovery(&mut self, now: Instant, policy: Recovery) {
        self.own_tcp().choices.recovery = policy;
        self.snd.set_recovery(&mut lend!(self, now));
    }

    /// Replaces the estimator of the retransmission timeout. The measurements and the backoff stay.
    ///
    /// # Errors
    /// No estimator can have these parameters.
    pub fn set_rto(&mut self, now: Instant, rto: RtoConfig) -> Result<(), OptionError> {
        rto.check()?;
        self.own_tcp().choices.rto = rto;
        self.snd.set_rto(&mut lend!(self, now), &rto);
        Ok(())
    }

    /// Chooses the proofs that take a wrong reduction back.
    pub fn set_undo(&mut self, undo: UndoChoice) {
        self.own_tcp().choices.undo = undo;
    }

    /// Chooses when received data is acknowledged.
    ///
    /// # Errors
    /// A delay of more than 500 ms (RFC 9293 MUST-40), or a share outside 1 to 100 %.
    pub fn set_acks(&mut self, acks: AckPolicy) -> Result<(), OptionError> {
        acks.check()?;
        self.own_tcp().choices.acks = acks;
        Ok(())
    }
}

// The endpoint decides when the receive window opens.
impl Connection {
    /// Opens the receive window by at most `most` bytes. Returns by how much it opens, and whether the buffer
    /// has room for more.
    pub(crate) fn open_window(&mut self, most: u64) -> (u64, bool) {
        if !self.life.state().takes_text() {
            return (0, false);
        }
        let gain = self.rcv.window_gain();
        let bytes = gain.min(most);
        self.rcv.permit_opening(bytes);
        if bytes > 0 {
            self.rcv.tell_opening(Some(&self.tcp.choices.acks));
        }
        (bytes, bytes < gain)
    }
}
