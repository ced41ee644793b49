//! The tail loss probe (RFC 8985 §7): one segment that draws an acknowledgement where a lost tail would draw none.
//!
//! The probe's timer and RACK's reordering timer exclude each other (RFC 8985 §8).

use std::time::Duration;

use ackclock_control::congestion::LossCause;

use super::policy::{LossAnswer, LossFound, Policy, Seen};
use super::scoreboard::{AckOutcome, Marked};
use super::{Call, Flight};
use crate::Instant;
use crate::position::Position;
use crate::trace::LossRule;

/// TLP.max_ack_delay (RFC 8985 §7.2).
const PEER_ACK_DELAY_MAX: Duration = Duration::from_millis(200);
/// What timers and schedulers of both ends may add to two round trips.
const PROBE_SLACK: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct TailProbe {
    /// When a probe is to leave; the far future if none is.
    deadline: ProbeTime,
    /// TLP.end_seq: a probe is out, which repeated what lies before this.
    end_seq: Option<Position>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeTime {
    At(Instant),
    /// The deadline has passed, and the probe has not left yet.
    Due,
}

impl ProbeTime {
    const NEVER: Self = Self::At(Instant::FAR_FUTURE);
}

impl Default for TailProbe {
    fn default() -> Self {
        Self { deadline: ProbeTime::NEVER, end_seq: None }
    }
}

impl TailProbe {
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        match self.deadline {
            ProbeTime::At(deadline) => deadline,
            ProbeTime::Due => Instant::FAR_FUTURE,
        }
    }

    /// Whether a probe is to leave.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.deadline == ProbeTime::Due
    }

    /// The deadline has passed.
    pub(super) fn fire(&mut self) {
        self.deadline = ProbeTime::Due;
    }

    /// No probe is wanted for now.
    #[inline]
    pub(super) fn stop(&mut self) {
        self.deadline = ProbeTime::NEVER;
    }

    /// A probe that is out has had its answer.
    pub(super) fn settle(&mut self) {
        self.end_seq = None;
    }

    /// The retransmission timer expired: it asks more than a probe would.
    pub(super) fn on_timeout(&mut self) {
        *self = Self::default();
    }

    /// The probe leaves, if one is due.
    #[inline]
    pub(super) fn take_due(&mut self) -> bool {
        let due = self.is_due();
        if due {
            self.deadline = ProbeTime::NEVER;
        }
        due
    }

    /// Case 1 of RFC 8985 §7.4.2: the copy that the probe was is reported as a duplicate.
    fn is_settled_by(&self, end: Position, reported: Option<(Position, Position)>) -> bool {
        reported.is_some_and(|(start, until)| start < end && end <= until)
    }

    /// A duplicate acknowledgement of `ack` while nothing is outstanding. Cases 1 and 2 of RFC 8985 §7.4.2: with a report of
    /// the probe's copy, or without any SACK option, both the original and the copy arrived.
    pub(super) fn on_duplicate(
        &mut self,
        ack: Position,
        reported: Option<(Position, Position)>,
        has_sack: bool,
    ) {
        if let Some(end) = self.end_seq.filter(|&end| ack >= end)
            && (!has_sack || self.is_settled_by(end, reported))
        {
            self.settle();
        }
    }

    pub(super) fn on_sent(&mut self, end: Position) {
        self.end_seq = Some(end);
    }
}

impl Flight {
    /// RFC 8985 §7.2: a probe goes out if no acknowledgement comes for two round trips.
    // Deviation from RFC 8985 §7.2: during recovery as well. Where one acknowledgement stands for a whole flight, as with
    // coalesced segments, its loss would else cost a retransmission timeout.
    #[inline]
    pub(crate) fn arm_tail_probe(&mut self, now: Instant) {
        let wanted = self.policy.probes_tail()
            && self.policy.deadline() == Instant::FAR_FUTURE
            && !self.episode.in_slow_start()
            && self.probe.end_seq.is_none()
            && self.is_outstanding()
            && self.scoreboard.lost() == 0
            && self.rto.is_running();
        if self.probe.is_due() {
            return;
        }
        self.probe.deadline = if wanted { ProbeTime::At(self.tail_probe_at(now)) } else { ProbeTime::NEVER };
    }

    #[inline]
    fn tail_probe_at(&self, now: Instant) -> Instant {
        let srtt = self.rto.estimator().srtt();
        if srtt.is_zero() {
            // Without a sample the timeout of both is the initial one.
            return self.rto.deadline();
        }
        // A single segment may wait for the peer's delayed acknowledgement.
        let single = self.flight_size() <= u64::from(self.smss);
        let slack = if single { PEER_ACK_DELAY_MAX } else { PROBE_SLACK };
        (now + (srtt + srtt + slack)).min(self.rto.deadline())
    }

    /// RFC 8985 §7.4.2, TLP_process_ack: what an acknowledgement says of the probe that is out. One of just what the probe
    /// repeated leaves it undecided whether that had been lost.
    #[inline]
    pub(super) fn end_tail_probe(&mut self, call: &mut Call<'_>, seen: &Seen<'_>, flight_size: u64) {
        let Some(end) = self.probe.end_seq.filter(|&end| self.una >= end) else { return };
        if self.probe.is_settled_by(end, seen.reported) {
            self.probe.settle();
        } else if self.una > end {
            self.probe.settle();
            self.take_repaired_loss(call, seen.outcome, end, flight_size);
        }
    }

    /// What lies before `end` was lost, and the probe repaired it: congestion control hears of it as of any loss.
    fn take_repaired_loss(
        &mut self,
        call: &mut Call<'_>,
        outcome: &AckOutcome,
        end: Position,
        flight_size: u64,
    ) {
        if !self.episode.is_open() {
            return;
        }
        let bytes = u64::from(self.smss);
        let newest = outcome.newest_any.map(|(moment, _)| moment);
        let marked = Marked { bytes, newest, span: Some((end.back(bytes), end)) };
        let answer = LossAnswer::Episode { cause: LossCause::Reordering, bytes_lost: bytes };
        let found = LossFound { rule: LossRule::TailProbe, marked, answer, left_network: None };
        self.take_loss(call, found, flight_size);
        self.end_episode_if_done(call);
    }

    /// Whether a probe is out whose answer is awaited.
    #[inline]
    pub(crate) fn awaits_probe_answer(&self) -> bool {
        self.probe.end_seq.is_some()
    }
}
