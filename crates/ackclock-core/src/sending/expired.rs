//! The passing of time: the retransmission timer, the reordering window, the tail probe, the pacing schedule.

use ackclock_control::congestion::Timeout;
use ackclock_control::tally::Tally;

use super::policy::{Policies, Policy, Seen};
use super::scoreboard::AckOutcome;
use super::{Call, Flight};
use crate::Instant;
use crate::trace::{LossRule, Timer, WindowCause};

/// When each timer of the sending side expires; the far future if it does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiries {
    pub(crate) retransmission: Instant,
    pub(crate) reordering: Instant,
    pub(crate) tail_probe: Instant,
    pub(crate) pacing: Instant,
}

impl Flight {
    /// When [`Self::on_timer`] is due; the far future if never.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Instant {
        self.rto.deadline().min(self.policy.deadline()).min(self.probe.deadline()).min(self.pacing.due())
    }

    pub(crate) fn expiries(&self) -> Expiries {
        Expiries {
            retransmission: self.rto.deadline(),
            reordering: self.policy.deadline(),
            tail_probe: self.probe.deadline(),
            pacing: self.pacing.due(),
        }
    }

    /// Whether the retransmission timer has expired, even if a probe replaces the timeout.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.rto.deadline() <= now
    }

    /// Since when the peer has owed an answer.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.rto.waiting_since()
    }

    /// How many times in a row the retransmission timer has expired.
    pub(crate) fn timeouts_in_a_row(&self) -> u32 {
        self.rto.expiries()
    }

    /// A probe of the peer's window left, or is about to: it needs an answer.
    pub(crate) fn note_waiting(&mut self, now: Instant) {
        self.rto.note_waiting(now);
    }

    /// The peer opened its window, so it is alive.
    pub(crate) fn note_answer(&mut self, now: Instant) {
        self.rto.note_answer(now);
    }

    /// A deadline may have come. A spurious call does nothing. Returns whether the retransmission timer
    /// expired.
    pub(crate) fn on_timer(&mut self, call: &mut Call<'_>, window_open: bool) -> bool {
        let now = call.now;
        if self.probe.deadline() <= now && !self.has_probe() {
            // A probe without a segment must not delay the timeout.
            self.probe.stop();
        }
        if self.is_probe_due(now) {
            call.trace.fired(now, Timer::TailProbe, self.probe.deadline(), self.probe.number());
            self.on_probe_timer(call, window_open);
        }
        let expired = self.rto.deadline() <= now && self.on_retransmission_timer(call);
        let reordering_at = self.policy.deadline();
        if reordering_at <= now {
            call.trace.fired(now, Timer::Reordering, reordering_at, 1);
            self.on_reordering_timer(call);
        }
        let pacing_at = self.pacing.due();
        if pacing_at <= now {
            call.trace.fired(now, Timer::Pacing, pacing_at, 1);
            self.pacing.on_timer(now);
        }
        expired
    }

    fn on_retransmission_timer(&mut self, call: &mut Call<'_>) -> bool {
        call.trace.fired(
            call.now,
            Timer::Retransmission,
            self.rto.deadline(),
            self.rto.expiries().saturating_add(1),
        );
        if self.pacing.is_waiting() && self.in_flight() == 0 {
            self.rto.postpone(self.pacing.due());
            return false;
        }
        // RFC 9293 MUST-19: slow start, congestion avoidance and the exponential back-off.
        self.history.get_or_insert_default().timeouts.count();
        self.rto.on_expiry(call.now, call.tcp);
        // RFC 9293 MUST-22: a SYN is retransmitted like any other segment, and congestion control has not
        // begun.
        if self.has_data() {
            self.lose_all(call);
        }
        true
    }

    /// The retransmission timer expired: marks what the policy says is lost, usually everything that the peer
    /// is not known to hold.
    fn lose_all(&mut self, call: &mut Call<'_>) {
        self.watch_reduction(call, true);
        let lost = if self.scoreboard.first_is_sacked() {
            // RFC 2018 §8: a peer that held the first byte would have acknowledged it, so it has discarded
            // its SACKed data.
            self.scoreboard.mark_all_lost(true)
        } else {
            let (una, rtt) = (self.una, self.rto.estimator());
            self.policy.mark_at_timeout(call.now, una, rtt, &mut self.scoreboard)
        };
        self.declare_lost(call, LossRule::Timeout, lost);
        self.mark = None;
        self.reduced = true;
        self.control.on_timeout(&Timeout {
            now: call.now,
            flight_size: self.flight_size(),
            expiries: self.rto.expiries(),
            delivered: self.delivery.bytes(),
        });
        self.trace_window(call, WindowCause::Timeout);
        self.episode.on_timeout(self.nxt);
        self.policy.stop_timer();
        self.probe.on_timeout();
    }

    /// The reordering window of a segment has closed.
    fn on_reordering_timer(&mut self, call: &mut Call<'_>) {
        let outcome = &AckOutcome::default();
        let seen = Seen { advanced: 0, duplicate: false, reported: None, reports_probe: false, outcome };
        let found = self.with_evidence(call.now, &seen, Policies::on_timer);
        if let Some(found) = found {
            self.take_loss(call, found, self.flight_size());
            self.regulate(None, false);
        }
    }
}
