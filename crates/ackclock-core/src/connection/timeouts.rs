//! USER TIMEOUT, RETRANSMISSION TIMEOUT, TIME-WAIT TIMEOUT (RFC 9293 §3.10.8) and the other deadlines.

use std::time::Duration;

use super::timers::{
    BUFFERS_KEPT, OVERRIDE, PERSIST_MAX, R1, R2_DATA, R2_SYN, RecoveryTimer, SendTimer, Timers,
};
use super::{Connection, State};
use crate::trace::{BatchCause, Timer};
use crate::{ConnectionError, Instant};

impl Connection {
    /// Time has come for some deadline; a spurious call does nothing.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let RecoveryTimer::TailProbe(at) = self.timers.recovery
            && at <= now
        {
            self.trace_fired(now, Timer::TailProbe, at);
            // RFC 8985 §7.3: the probe goes in place of a timeout that is due as well, whose timer starts anew.
            self.timers.recovery = RecoveryTimer::Idle;
            self.pending.tail_probe = true;
            self.restart_send_timer(now);
        }
        match self.timers.send {
            SendTimer::Retransmit(at) if at <= now => {
                self.trace_fired(now, Timer::Retransmission, at);
                self.on_retransmission_timeout(now);
            }
            SendTimer::Persist(at) if at <= now => {
                self.trace_fired(now, Timer::Persist, at);
                self.on_persist_timeout(now);
            }
            _ => {}
        }
        if let RecoveryTimer::Reordering(at) = self.timers.recovery
            && at <= now
        {
            self.trace_fired(now, Timer::Reordering, at);
            self.on_reordering_timeout(now);
        }
        if self.timers.pacing <= now {
            self.trace_fired(now, Timer::Pacing, self.timers.pacing);
            if let Some(pacer) = &mut self.pacer {
                pacer.on_timer(now.saturating_since(self.timers.pacing));
            }
            self.timers.pacing = Timers::UNSET;
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
            // The window may be too small for what was held back: it was not asked for until now.
            self.update_send_timer(now);
        }
        if self.timers.keepalive <= now {
            self.trace_fired(now, Timer::Keepalive, self.timers.keepalive);
            self.on_keepalive_timeout(now);
        }
        if self.timers.buffers <= now {
            self.release_buffers(now);
        }
        if self.timers.close <= now {
            self.trace_fired(now, Timer::Close, self.timers.close);
            // TIME-WAIT is over, or FIN-WAIT-2 of an orphan, whose peer will not close.
            self.close_with(now, None);
        }
        self.check_invariants();
    }

    fn on_retransmission_timeout(&mut self, now: Instant) {
        if self.give_up_if_due(now) {
            return;
        }
        if self.timers.pacing != Timers::UNSET && self.in_flight() == 0 {
            // What is lost waits for the pacing rate: nothing is out that an acknowledgement could be overdue for.
            self.timers.send = SendTimer::Retransmit(self.timers.pacing + self.rtt.rto());
            return;
        }
        self.give_up.expiries = self.give_up.expiries.saturating_add(1);
        self.counts.timeouts += 1;
        self.change_flow_label();
        if self.give_up.expiries == R1 {
            self.trace.call(BatchCause::Stalled);
        }
        if self.give_up.expiries >= R1 {
            // RFC 9293 SHLD-9: the application is told between R1 and R2.
            self.readiness.soft_error = true;
        }
        // RFC 9293 MUST-19: slow start, congestion avoidance and this, the exponential back-off (RFC 6298 §5.5).
        self.rtt.on_expiry();
        self.timers.send = SendTimer::Retransmit(self.retransmit_deadline(now));
        if !self.established {
            // RFC 9293 MUST-22: a SYN like any other segment.
            self.pending.syn = true;
            return;
        }
        self.lose_all_by_timer(now);
    }

    /// RFC 9293 MUST-20: at R2, or the user timeout, the connection is given up.
    fn give_up_if_due(&mut self, now: Instant) -> bool {
        let since = self.give_up.waiting_since.unwrap_or(now);
        // RFC 9293 SHLD-11: R2 of data is at least 100 s.
        let r2 = if self.established { R2_DATA } else { R2_SYN };
        let limit = self.tcp.user_timeout.unwrap_or(r2);
        let due = now.saturating_since(since) >= limit;
        if due {
            self.close_with(now, Some(ConnectionError::TimedOut));
        }
        due
    }

    fn on_persist_timeout(&mut self, now: Instant) {
        // RFC 9293 MUST-37: open for as long as the peer answers; only silence, or the user's own limit, ends it.
        let stalled = now.saturating_since(self.give_up.waiting_since.unwrap_or(now));
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
        }
        self.give_up.waiting_since.get_or_insert(now);
        self.give_up.probes = self.give_up.probes.saturating_add(1);
        self.timers.send = SendTimer::Persist(self.persist_deadline(now));
    }

    // RFC 9293 MAY-5: keep-alives, off unless asked for.
    fn on_keepalive_timeout(&mut self, now: Instant) {
        let Some(keepalive) = self.tcp.keepalive.filter(|_| self.keeps_alive()) else {
            self.timers.keepalive = Timers::UNSET;
            return;
        };
        // RFC 9293 MUST-26: only while nothing is outstanding; then the retransmission timer does the work.
        if self.snd.una < self.snd.nxt || self.snd.unsent() > 0 {
            self.timers.keepalive = now + keepalive.idle;
            return;
        }
        let quiet = now.saturating_since(self.give_up.heard_at);
        if self.give_up.keepalives == 0 && quiet < keepalive.idle {
            self.timers.keepalive = self.give_up.heard_at + keepalive.idle;
            return;
        }
        // RFC 9293 MUST-29: one unanswered probe is not death.
        if self.give_up.keepalives >= keepalive.probes {
            self.reset(now, ConnectionError::KeepaliveTimedOut);
            return;
        }
        self.give_up.keepalives += 1;
        self.pending.keepalive = true;
        self.timers.keepalive = now + keepalive.interval;
    }

    /// Sets the keep-alive deadline if it is not running; it is checked, not moved, when segments arrive.
    pub(super) fn arm_keepalive(&mut self, now: Instant) {
        if self.timers.keepalive == Timers::UNSET
            && let Some(keepalive) = self.tcp.keepalive
        {
            self.timers.keepalive = now + keepalive.idle;
        }
    }

    fn release_buffers(&mut self, now: Instant) {
        self.timers.buffers = Timers::UNSET;
        // A writer that the memory budget refused tries again.
        self.readiness.writable |= std::mem::take(&mut self.awaiting_room);
        let used = [self.counts.sent_at, self.counts.received_at].into_iter().flatten().max();
        if let Some(at) = used.filter(|&at| now.saturating_since(at) < BUFFERS_KEPT) {
            self.timers.buffers = at + BUFFERS_KEPT;
            return;
        }
        self.snd.release_if_empty();
        self.rcv.buffer.release_if_empty();
        self.scoreboard.shrink();
        if self.pacer.as_ref().is_some_and(|pacer| pacer.is_even(now)) {
            self.pacer = None;
        }
    }

    /// Sees to it that the right timer of the sending side runs.
    #[inline]
    pub(super) fn update_send_timer(&mut self, now: Instant) {
        // These two come by with each segment: a connection that only receives, and one that has data in flight.
        let settled = match self.timers.send {
            SendTimer::Idle => self.snd.una == self.snd.nxt && self.snd.unsent() == 0,
            SendTimer::Retransmit(_) => self.snd.una < self.snd.nxt && self.snd.wnd > 0,
            SendTimer::Persist(_) => false,
        };
        if !settled {
            self.choose_send_timer(now);
        }
    }

    fn choose_send_timer(&mut self, now: Instant) {
        let wanted = self.wanted_send_timer();
        self.timers.send = match (self.timers.send, wanted) {
            (_, Wanted::Idle) => SendTimer::Idle,
            (SendTimer::Retransmit(at), Wanted::Retransmit) => SendTimer::Retransmit(at),
            (SendTimer::Persist(at), Wanted::Persist) => SendTimer::Persist(at),
            (_, Wanted::Retransmit) => SendTimer::Retransmit(self.retransmit_deadline(now)),
            (_, Wanted::Persist) => SendTimer::Persist(self.persist_deadline(now)),
        };
    }

    /// Starts the running timer of the sending side anew.
    pub(super) fn restart_send_timer(&mut self, now: Instant) {
        self.timers.send = SendTimer::Idle;
        self.update_send_timer(now);
    }

    fn wanted_send_timer(&self) -> Wanted {
        match self.state {
            State::Closed | State::Listen | State::TimeWait => Wanted::Idle,
            State::SynSent | State::SynReceived => {
                if self.snd.una < self.snd.nxt {
                    Wanted::Retransmit
                } else {
                    Wanted::Idle
                }
            }
            _ if self.snd.una < self.snd.nxt => {
                // RFC 9293 SHLD-17: no timeout for data beyond the window's right edge; it is probed instead (RFC 9293 MUST-35).
                if self.snd.wnd == 0 { Wanted::Persist } else { Wanted::Retransmit }
            }
            _ => {
                let unsent = self.snd.unsent();
                let small = unsent.min(u64::from(self.smss()));
                let corked = self.corked && !self.pending.cork_expired && !self.snd.closed;
                if unsent > 0 && u64::from(self.snd.wnd) < small && !corked {
                    Wanted::Persist
                } else {
                    Wanted::Idle
                }
            }
        }
    }

    /// RFC 6298 §5: the retransmission timeout from now, the user timeout if that comes first.
    fn retransmit_deadline(&self, now: Instant) -> Instant {
        let at = self.rtt.expires_at(now);
        match (self.tcp.user_timeout, self.give_up.waiting_since) {
            (Some(limit), Some(since)) => at.min((since + limit).max(now)),
            _ => at,
        }
    }

    /// RFC 9293 SHLD-29: the first probe after one retransmission timeout. RFC 9293 SHLD-30: then at exponentially growing intervals.
    fn persist_deadline(&self, now: Instant) -> Instant {
        if self.snd.wnd > 0 {
            return now + OVERRIDE;
        }
        let factor = 1u32.checked_shl(self.give_up.probes.min(16)).unwrap_or(u32::MAX);
        let delay = self.rtt.rto_unbacked().saturating_mul(factor).min(PERSIST_MAX);
        let at = self.rtt.deadline(now, delay);
        match (self.tcp.user_timeout, self.give_up.waiting_since) {
            (Some(limit), Some(since)) => at.min((since + limit).max(now + Duration::from_millis(1))),
            _ => at,
        }
    }
}

/// Which timer of the sending side is to run.
enum Wanted {
    Idle,
    Retransmit,
    Persist,
}
