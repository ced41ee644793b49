//! Vegas: Reno that checks its clock when an acknowledgement hints at a loss.
//!
//! L. Brakmo and L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC
//! 13(8), 1995, §III-A. Each segment's sending time is kept. On a duplicate acknowledgement, and on the first
//! and second new one after a retransmission, the sender compares the age of the first unacknowledged segment
//! with a timeout from a fine-grained estimate, and retransmits an older segment at once. The window is
//! decreased only if the segment was sent after the last decrease.
//!
//! The paper does not say how the fine timeout is computed. Here it is SRTT + 4 * RTTVAR with the gains of
//! RFC 6298, over every segment sent once, without lower bound or ticks. USC's code ([`Clock::Usc`], after
//! ns' `tcp/tcp-vegas.cc`) takes 17/16 of SRTT + 2 * RTTVAR, an eighth more after each use, twice as much if
//! the segment had been sent again before; the next sample takes that back. Its second check follows the
//! first only if that found something.
//!
//! Deviation: after a timeout, when everything is retransmitted anyway, nothing is checked until all of it is
//! acknowledged.

use std::time::Duration;

use ackclock_control::congestion::LossCause;
use ackclock_control::profile::Recovery;
use ackclock_control::rtt::{Formula, RtoConfig, RttEstimator};

use super::{DUP_THRESH, Evidence, LossAnswer, LossFound, Policy, Scoreboard};
use crate::Instant;
use crate::position::Position;
use crate::trace::LossRule;

/// The policy of one connection. Its clock is created at the first acknowledgement.
#[derive(Debug)]
pub(in crate::sending) struct Vegas {
    kind: Clock,
    clock: Option<Box<FineClock>>,
}

/// How the fine timeout is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sending) enum Clock {
    /// The paper's, as far as it says.
    Paper,
    /// USC's.
    Usc,
}

#[derive(Debug)]
struct FineClock {
    kind: Clock,
    rtt: RttEstimator,
    /// The fine timeout; zero before the first sample.
    timeout: Duration,
    /// When the window was last decreased for a loss.
    decreased_at: Option<Instant>,
    /// New acknowledgements left to check after a retransmission.
    checks_left: u8,
    /// These two before the last decrease.
    prior: (Option<Instant>, u8),
}

impl Vegas {
    pub fn new(kind: Clock) -> Self {
        Self { kind, clock: None }
    }

    pub fn name(&self) -> Recovery {
        match self.kind {
            Clock::Paper => Recovery::Vegas,
            Clock::Usc => Recovery::VegasUsc,
        }
    }
}

impl Policy for Vegas {
    /// As Reno: RFC 5681 §3.2 (6).
    fn recovery_point(&self, una: Position, _: Position) -> Position {
        una + 1
    }

    /// Its clock must see each acknowledgement.
    fn trusts_advances(&self, _: &Scoreboard) -> bool {
        false
    }

    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        let seen = *evidence.seen;
        let clock = self.clock.get_or_insert_with(|| Box::new(FineClock::new(self.kind)));
        if let Some(sent_at) = seen.outcome.newest_once.filter(|_| !seen.outcome.retransmission_acked) {
            clock.on_sample(evidence.now.saturating_since(sent_at));
        }
        if evidence.episode.in_recovery() && seen.duplicate {
            evidence.inflate(evidence.smss);
        }
        if !evidence.episode.is_open() {
            return None;
        }
        if seen.duplicate {
            return if evidence.episode.dup_acks() >= DUP_THRESH {
                clock.retransmit(evidence, LossRule::DuplicateAcks)
            } else if clock.first_is_overdue(evidence) {
                clock.retransmit(evidence, LossRule::OverdueAtDuplicate)
            } else {
                None
            };
        }
        // Without SACK, what is not a duplicate advances SND.UNA.
        if clock.checks_left > 0 {
            clock.checks_left = clock.checks_left.saturating_sub(1);
            if clock.first_is_overdue(evidence) {
                return clock.retransmit(evidence, LossRule::OverdueAfterRetransmission);
            }
            if clock.kind == Clock::Usc {
                clock.checks_left = 0;
            }
        }
        None
    }

    fn on_undo(&mut self, _: Position, _: Position, by_timer: bool) {
        if let Some(clock) = self.clock.as_deref_mut().filter(|_| !by_timer) {
            (clock.decreased_at, clock.checks_left) = clock.prior;
        }
    }
}

impl FineClock {
    fn new(kind: Clock) -> Self {
        let k = match kind {
            Clock::Paper => 4,
            Clock::Usc => 2,
        };
        let formula = Formula::MeanDeviation { k, adapt: false };
        Self {
            kind,
            rtt: RttEstimator::new(&RtoConfig { rto_min: Duration::ZERO, formula, ..RtoConfig::RFC_6298 }),
            timeout: Duration::ZERO,
            decreased_at: None,
            checks_left: 0,
            prior: (None, 0),
        }
    }

    fn on_sample(&mut self, rtt: Duration) {
        self.rtt.on_sample(rtt);
        self.timeout = self.rtt.rto_unbacked();
        if self.kind == Clock::Usc {
            self.lengthen(16);
        }
    }

    /// Makes the timeout longer by this part of it.
    fn lengthen(&mut self, part: u32) {
        self.timeout = self.timeout.saturating_add(self.timeout.checked_div(part).unwrap_or_default());
    }

    fn first_is_overdue(&self, evidence: &Evidence<'_>) -> bool {
        let overdue = |at| evidence.now.saturating_since(at) > self.timeout;
        self.rtt.has_sample() && evidence.scoreboard.first_sent_at().is_some_and(overdue)
    }

    /// The first unacknowledged segment is retransmitted. The window is decreased if that segment was sent
    /// after the last decrease.
    fn retransmit(&mut self, evidence: &mut Evidence<'_>, rule: LossRule) -> Option<LossFound> {
        let sent_at = evidence.scoreboard.first_sent_at()?;
        let duplicates = evidence.episode.dup_acks();
        if self.kind == Clock::Usc {
            self.lengthen(if evidence.scoreboard.first_is_repeated() { 1 } else { 8 });
        }
        let found = evidence.fast_retransmit(duplicates)?;
        let before = (self.decreased_at, std::mem::replace(&mut self.checks_left, 2));
        let mut answer = LossAnswer::Retransmission;
        if self.decreased_at.is_none_or(|decreased_at| sent_at >= decreased_at) {
            self.prior = before;
            self.decreased_at = Some(evidence.now);
            let bytes_lost = found.marked.bytes;
            answer = LossAnswer::Episode { cause: LossCause::DuplicateAcks, bytes_lost };
        }
        Some(LossFound { rule, answer, ..found })
    }
}

ackclock_form::form! {
    struct Vegas { kind, clock }
    enum Clock { 0 Paper, 1 Usc }
    struct FineClock { kind, rtt, timeout, decreased_at, checks_left, prior }
}
