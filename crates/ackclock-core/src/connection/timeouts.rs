//! USER TIMEOUT, RETRANSMISSION TIMEOUT, TIME-WAIT TIMEOUT (RFC 9293 §3.10.8) and the other deadlines.

use std::time::Duration;

use super::timers::{BUFFERS_KEPT, OVERRIDE, PERSIST_MAX, R1, R2_DATA, R2_SYN, Timers};
use super::{Connection, State, lend};
use crate::trace::{BatchCause, Timer};
use crate::{ConnectionError, Instant};

impl Connection {
    /// A deadline may have come. A spurious call does nothing.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.flight.next_timeout() <= now {
            self.on_flight_timeout(now);
        }
        if self.timers.persist <= now {
            self.trace_fired(now, Timer::Persist, self.timers.persist);
            self.on_persist_timeout(now);
        }
        if self.timers.delayed_ack <= now {
            self.trace_fired(now, Timer::DelayedAck, self.timers.delayed_ack);
            self.timers.delayed_ack = Timers::UNSET;
            self.acks.now = true;
        }
        if self.timers.cork <= now {
            self.trace_fired(now, Timer::Cork, self.timers.cork);
            self.timers.cork = Timers::UNSET;
            self.pending.cork_expired = true;
        }
        if self.timers.keepalive <= now {
            self.trace_fired(now, Timer::Keepalive, self.timers.keepalive);
            self.on_keepalive_timeout(now);
        }
        if self.timers.buffers <= now {
            self.release_buffers(now);
        }
        if self.timers.memory <= now {
            self.on_memory_timeout(now);
        }
        if self.timers.close <= now && !self.on_search_timer(now) {
            self.trace_fired(now, Timer::Close, self.timers.close);
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
            self.give_up.keepalives = self.give_up.keepalives.min(keepalive.probes.saturating_sub(1));
        }
    }

    fn on_flight_timeout(&mut self, now: Instant) {
        if self.flight.is_overdue(now) && self.is_to_be_given_up(now) {
            self.trace_fired(now, Timer::Retransmission, self.flight.expiries().retransmission);
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
        let silent = now.saturating_since(self.give_up.heard_at).min(stalled);
        if silent >= R2_DATA || self.tcp.user_timeout.is_some_and(|limit| stalled >= limit) {
            self.close_with(now, Some(ConnectionError::TimedOut));
            return;
        }
        if self.snd.wnd > 0 {
            self.pending.override_sws = true;
        } else {
            // RFC 9293 MUST-36, RFC 9293 MUST-35.
            self.pending.probe = true;
            self.give_up.probes = self.give_up.probes.saturating_add(1);
        }
        self.flight.note_waiting(now);
        self.timers.persist = self.persist_deadline(now);
    }

    // RFC 9293 MAY-5: keep-alives, off unless asked for.
    fn on_keepalive_timeout(&mut self, now: Instant) {
        let Some(keepalive) = self.tcp.keepalive.filter(|_| self.keeps_alive()) else {
            self.timers.keepalive = Timers::UNSET;
            return;
        };
        // RFC 9293 MUST-26: only while nothing is outstanding; otherwise the retransmission timer serves.
        // Whatever ends that comes from the peer, which sets this timer again.
        if self.flight.is_outstanding() || self.unsent() > 0 {
            self.timers.keepalive = Timers::UNSET;
            return;
        }
        let quiet = now.saturating_since(self.give_up.heard_at);
        if self.give_up.keepalives == 0 && quiet < keepalive.idle {
            self.timers.keepalive = self.give_up.heard_at + keepalive.idle;
            return;
        }
        // RFC 9293 MUST-29: one unanswered probe does not mean that the peer is dead.
        if self.give_up.keepalives >= keepalive.probes {
            self.reset(now, ConnectionError::KeepaliveTimedOut);
            return;
        }
        self.give_up.keepalives = self.give_up.keepalives.saturating_add(1);
        self.pending.keepalive = true;
        self.timers.keepalive = now + keepalive.interval;
    }

    /// Sets the keep-alive deadline if it is not running. Arriving segments do not move it; it is checked
    /// when it expires.
    pub(super) fn arm_keepalive(&mut self, now: Instant) {
        if self.timers.keepalive == Timers::UNSET
            && let Some(keepalive) = self.tcp.keepalive
        {
            self.timers.keepalive = now + keepalive.idle;
        }
    }

    fn release_buffers(&mut self, now: Instant) {
        self.timers.buffers = Timers::UNSET;
        let used = [self.flight.sent_at(), self.counts.received_at].into_iter().flatten().max();
        if let Some(at) = used.filter(|&at| now.saturating_since(at) < BUFFERS_KEPT) {
            self.timers.buffers = at + BUFFERS_KEPT;
            return;
        }
        self.snd.release_if_empty();
        self.rcv.buffer.release_if_empty();
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
        let settled = self.timers.persist == Timers::UNSET && self.flight.is_timed() == outstanding;
        if !(settled && nothing_to_probe) {
            self.choose_send_timer(now);
        }
    }

    #[inline(never)]
    fn choose_send_timer(&mut self, now: Instant) {
        let window_open = self.is_window_open();
        self.flight.run_timer(lend!(self, now), window_open);
        if !self.wants_persist_timer() {
            self.timers.persist = Timers::UNSET;
        } else if self.timers.persist == Timers::UNSET {
            self.timers.persist = self.persist_deadline(now);
        }
    }

    /// Starts the running timer of the sending side again.
    pub(super) fn restart_send_timer(&mut self, now: Instant) {
        let window_open = self.is_window_open();
        self.flight.restart_timer(lend!(self, now), window_open);
        self.timers.persist = Timers::UNSET;
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

    /// RFC 9293 SHLD-29: the first probe after one retransmission timeout. RFC 9293 SHLD-30: then at
    /// exponentially growing intervals.
    fn persist_deadline(&self, now: Instant) -> Instant {
        if self.snd.wnd > 0 {
            return now + OVERRIDE;
        }
        let rtt = self.flight.rtt();
        let factor = 1u32.checked_shl(self.give_up.probes.min(16)).unwrap_or(u32::MAX);
        let at = rtt.deadline(now, rtt.rto_unbacked().saturating_mul(factor).min(PERSIST_MAX));
        match (self.tcp.user_timeout, self.flight.waiting_since()) {
            (Some(limit), Some(since)) => at.min((since + limit).max(now + Duration::from_millis(1))),
            _ => at,
        }
    }

    fn trace_fired(&mut self, now: Instant, timer: Timer, deadline: Instant) {
        let count = if timer == Timer::Retransmission {
            self.flight.timeouts_in_a_row().saturating_add(1)
        } else {
            1
        };
        self.trace.fired(now, timer, deadline, count);
    }
}
