//! USER TIMEOUT, RETRANSMISSION TIMEOUT, TIME-WAIT TIMEOUT (RFC 9293 §3.10.8) and the other deadlines.

use std::time::Duration;

use super::persist::OVERRIDE;
use super::silence::Verdict;
use super::{Connection, State, lend};
use crate::deadline::Deadline;
use crate::trace::{BatchCause, Timer};
use crate::{ConnectionError, Instant};

impl Connection {
    /// The next deadline, when [`Self::handle_timeout`] is due.
    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let next = self
            .flight
            .next_timeout()
            .min(self.persist.deadline().at())
            .min(self.rcv.deadline().at())
            .min(self.silence.deadline().at())
            .min(self.closing.at())
            .min(self.mtu_search_due().at())
            .min(self.cork.deadline().at())
            .min(self.keeps_buffers.at())
            .min(self.cold.memory_retry().at());
        (next != Instant::FAR_FUTURE).then_some(next)
    }

    /// Stops every timer except that of a delayed acknowledgement and the flight's.
    pub(super) fn stop_timers(&mut self) {
        self.persist.stop();
        self.silence.stop();
        self.cork.stop();
        self.closing.clear();
        self.stop_mtu_search();
        self.keeps_buffers.clear();
        self.cold.stop_retrying_memory();
    }

    /// A deadline may have come. A spurious call does nothing.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.flight.next_timeout() <= now {
            self.on_flight_timeout(now);
        }
        let persist = self.persist.deadline();
        if persist.has_come(now) {
            self.trace_fired(now, Timer::Persist, persist);
            self.on_persist_timeout(now);
        }
        let delayed_ack = self.rcv.deadline();
        if delayed_ack.has_come(now) {
            self.trace_fired(now, Timer::DelayedAck, delayed_ack);
            self.rcv.on_deadline();
        }
        let cork = self.cork.deadline();
        if cork.has_come(now) {
            self.trace_fired(now, Timer::Cork, cork);
            self.cork.expire();
        }
        let keepalive = self.silence.deadline();
        if keepalive.has_come(now) {
            self.trace_fired(now, Timer::Keepalive, keepalive);
            self.on_keepalive_timeout(now);
        }
        if self.keeps_buffers.has_come(now) {
            self.release_buffers(now);
        }
        if self.cold.memory_retry().has_come(now) {
            self.on_memory_timeout(now);
        }
        if self.mtu_search_due().has_come(now) {
            self.on_search_timer(now);
        }
        let closing = self.closing;
        if closing.has_come(now) {
            self.trace_fired(now, Timer::Close, closing);
            // TIME-WAIT is over, or the FIN-WAIT-2 of an orphan whose peer does not close.
            self.close_with(now, None);
        }
        self.trace_freed(now);
        self.check_invariants();
    }

    /// Nothing drove the stack until `now`, by a clock that has left that out. What the peer answered
    /// meanwhile may be lost, so it is asked once more before it is given up.
    pub(crate) fn on_pause(&mut self, now: Instant) {
        self.flight.on_pause(now, self.give_up_after());
        if let Some(keepalive) = self.tcp.keepalive {
            self.silence.allow_another_probe(&keepalive);
        }
    }

    fn on_flight_timeout(&mut self, now: Instant) {
        if self.flight.is_overdue(now) && self.is_to_be_given_up(now) {
            let mut expired = Deadline::UNSET;
            expired.set(self.flight.expiries().retransmission);
            self.trace_fired(now, Timer::Retransmission, expired);
            self.close_with(now, Some(ConnectionError::TimedOut));
            return;
        }
        let window_open = self.is_window_open();
        if self.flight.on_timer(lend!(self, now), window_open) {
            self.on_retransmission_timeout();
            self.suspect_black_hole(now);
        }
    }

    fn on_retransmission_timeout(&mut self) {
        self.template.change_label();
        let expiries = self.flight.timeouts_in_a_row();
        if expiries == R1 {
            self.trace.call(BatchCause::Stalled);
        }
        if expiries >= R1 {
            // RFC 9293 SHLD-9: the application is notified between R1 and R2.
            self.readiness.soft_error = true;
        }
        if !self.established {
            // RFC 9293 MUST-22: a SYN is treated like any other segment.
            self.pending.syn = true;
        }
        self.note_reduction();
    }

    /// RFC 9293 MUST-20: at R2, or the user timeout, the connection is given up.
    fn is_to_be_given_up(&self, now: Instant) -> bool {
        let since = self.flight.waiting_since().unwrap_or(now);
        now.saturating_since(since) >= self.give_up_after()
    }

    /// R2, or the user timeout.
    fn give_up_after(&self) -> Duration {
        // RFC 9293 SHLD-11: R2 of data is at least 100 s.
        let r2 = if self.established { R2_DATA } else { R2_SYN };
        self.tcp.user_timeout.unwrap_or(r2)
    }

    fn on_persist_timeout(&mut self, now: Instant) {
        // RFC 9293 MUST-37: open for as long as the peer answers; only silence, or the user's own limit, ends
        // it.
        let stalled = now.saturating_since(self.flight.waiting_since().unwrap_or(now));
        let silent = now.saturating_since(self.silence.heard_at()).min(stalled);
        if silent >= R2_DATA || self.tcp.user_timeout.is_some_and(|limit| stalled >= limit) {
            self.close_with(now, Some(ConnectionError::TimedOut));
            return;
        }
        if self.snd.wnd > 0 {
            self.persist.allow_override();
        } else {
            // RFC 9293 MUST-36, RFC 9293 MUST-35.
            self.pending.probe = true;
            self.persist.count_probe();
        }
        self.flight.note_waiting(now);
        self.persist.start(self.persist_deadline(now));
    }

    // RFC 9293 MAY-5: keep-alives, off unless asked for.
    fn on_keepalive_timeout(&mut self, now: Instant) {
        // RFC 9293 MUST-26: only while nothing is outstanding; otherwise the retransmission timer serves.
        // Whatever ends that comes from the peer, which sets this timer again.
        let serves = self.keeps_alive() && !self.flight.is_outstanding() && self.unsent() == 0;
        let Some(keepalive) = self.tcp.keepalive.filter(|_| serves) else {
            return self.silence.stop();
        };
        match self.silence.judge(now, &keepalive) {
            Verdict::Wait => {}
            Verdict::Probe => self.pending.keepalive = true,
            Verdict::GiveUp => self.reset(now, ConnectionError::KeepaliveTimedOut),
        }
    }

    /// Sets the keep-alive deadline if it is not running.
    #[inline]
    pub(super) fn arm_keepalive(&mut self, now: Instant) {
        if !self.silence.deadline().is_set()
            && let Some(keepalive) = &self.tcp.keepalive
        {
            self.silence.watch(now, keepalive);
        }
    }

    fn release_buffers(&mut self, now: Instant) {
        self.keeps_buffers.clear();
        let used = [self.flight.sent_at(), self.counts.received_at].into_iter().flatten().max();
        if let Some(at) = used.filter(|&at| now.saturating_since(at) < BUFFERS_KEPT) {
            self.keeps_buffers.set(at + BUFFERS_KEPT);
            return;
        }
        self.snd.release_if_empty();
        self.rcv.release_if_empty();
        self.flight.release(now);
        self.snd.keep_records(self.flight.bytes_kept());
    }

    /// Ensures that the right timer of the sending side runs: the flight's while something is outstanding,
    /// the persist timer if the peer's window is too small for it or for what waits.
    #[inline]
    pub(super) fn update_send_timer(&mut self, now: Instant) {
        // The cases that occur with each segment: a connection that only receives, one with data in flight,
        // and one whose data is acknowledged, with room for more.
        let outstanding = self.flight.is_outstanding();
        let unsent = self.unsent();
        let nothing_to_probe = if outstanding {
            self.snd.wnd > 0
        } else {
            u64::from(self.snd.wnd) >= unsent.min(u64::from(self.smss()))
        };
        let settled = !self.persist.deadline().is_set() && self.flight.is_timed() == outstanding;
        if !(settled && nothing_to_probe) {
            self.choose_send_timer(now);
        }
    }

    #[inline(never)]
    fn choose_send_timer(&mut self, now: Instant) {
        let window_open = self.is_window_open();
        self.flight.run_timer(lend!(self, now), window_open);
        if !self.wants_persist_timer() {
            self.persist.stop();
        } else if !self.persist.deadline().is_set() {
            if self.snd.wnd == 0 {
                // Also behind a byte that the peer took of a probe: that opens nothing.
                self.flight.note_waiting(now);
            }
            self.persist.start(self.persist_deadline(now));
        }
    }

    /// Starts the running timer of the sending side again.
    pub(super) fn restart_send_timer(&mut self, now: Instant) {
        let window_open = self.is_window_open();
        self.flight.restart_timer(lend!(self, now), window_open);
        self.persist.stop();
        self.update_send_timer(now);
    }

    /// Whether outstanding data may be retransmitted. RFC 9293 SHLD-17: no timeout for data beyond the
    /// window's right edge; it is probed instead (RFC 9293 MUST-35).
    #[inline]
    fn is_window_open(&self) -> bool {
        match self.state {
            State::Closed | State::Listen | State::TimeWait => false,
            State::SynSent | State::SynReceived => true,
            _ => self.snd.wnd > 0,
        }
    }

    fn wants_persist_timer(&self) -> bool {
        match self.state {
            State::Closed | State::Listen | State::TimeWait | State::SynSent | State::SynReceived => false,
            _ if self.flight.is_outstanding() => self.snd.wnd == 0,
            // Whether or not a cork holds it back: what may leave when the cork is pulled has its timer then.
            _ => u64::from(self.snd.wnd) < self.unsent().min(u64::from(self.smss())),
        }
    }

    fn persist_deadline(&self, now: Instant) -> Instant {
        if self.snd.wnd > 0 {
            return now + OVERRIDE;
        }
        let rtt = self.flight.rtt();
        let at = rtt.deadline(now, self.persist.interval(rtt.rto_unbacked()));
        match (self.tcp.user_timeout, self.flight.waiting_since()) {
            (Some(limit), Some(since)) => at.min((since + limit).max(now + Duration::from_millis(1))),
            _ => at,
        }
    }

    fn trace_fired(&mut self, now: Instant, timer: Timer, deadline: Deadline) {
        let count = if timer == Timer::Retransmission {
            self.flight.timeouts_in_a_row().saturating_add(1)
        } else {
            1
        };
        self.trace.fired(now, timer, deadline.at(), count);
    }
}

/// R1 in retransmissions: from here on the application is notified (RFC 9293 §3.8.3).
// RFC 9293 SHLD-10: at least 3.
const R1: u32 = 3;
/// R2 for data: the time in which a 200 ms timer expires 16 times.
// RFC 9293 SHLD-11: at least 100 s.
pub(super) const R2_DATA: Duration = Duration::from_millis(924_600);
/// R2 for a SYN.
// RFC 9293 MUST-23: at least 3 minutes.
pub(crate) const R2_SYN: Duration = Duration::from_secs(180);
/// How long empty buffers keep their memory.
pub(super) const BUFFERS_KEPT: Duration = Duration::from_millis(500);
