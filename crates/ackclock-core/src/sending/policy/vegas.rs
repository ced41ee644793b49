//! Vegas: Reno that checks its clock when an acknowledgement hints at a loss.
//!
//! L. Brakmo and L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC
//! 13(8), 1995, §III-A. Each segment's sending time is kept. On a duplicate acknowledgement, and on the first
//! and second new one after a retransmission, the sender compares the age of the first unacknowledged segment
//! with a timeout from a fine-grained estimate, and retransmits an older segment at once. The window is
//! decreased only if the segment was sent after the last decrease.
//!
//! Deviations: the paper does not say how the fine timeout is computed; here it is SRTT + 4 * RTTVAR with the
//! gains of RFC 6298, over every segment sent once, without lower bound or ticks. After a timeout, when
//! everything is retransmitted anyway, nothing is checked until all of it is acknowledged.

use std::time::Duration;

use ackclock_control::congestion::LossCause;
use ackclock_control::rtt::{RtoConfig, RttEstimator};

use super::{DUP_THRESH, Evidence, LossAnswer, LossFound, Policy, Scoreboard};
use crate::Instant;
use crate::position::Position;
use crate::trace::LossRule;

/// The fine-grained clock of one connection, created at its first acknowledgement.
#[derive(Debug, Default)]
pub(in crate::sending) struct Vegas(Option<Box<FineClock>>);

#[derive(Debug)]
struct FineClock {
    rtt: RttEstimator,
    /// When the window was last decreased for a loss.
    decreased_at: Option<Instant>,
    /// New acknowledgements left to check after a retransmission.
    checks_left: u8,
    /// These two before the last decrease.
    prior: (Option<Instant>, u8),
}

/// The estimator of the fine timeout.
const FINE: RtoConfig = RtoConfig { rto_min: Duration::ZERO, ..RtoConfig::RFC_6298 };

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
        let clock = self.0.get_or_insert_with(|| Box::new(FineClock::new()));
        if let Some(sent_at) = seen.outcome.newest_once.filter(|_| !seen.outcome.retransmission_acked) {
            clock.rtt.on_sample(evidence.now.saturating_since(sent_at));
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
        }
        None
    }

    fn on_undo(&mut self, _: Position, _: Position, by_timer: bool) {
        if let Some(clock) = self.0.as_deref_mut().filter(|_| !by_timer) {
            (clock.decreased_at, clock.checks_left) = clock.prior;
        }
    }
}

impl FineClock {
    fn new() -> Self {
        Self { rtt: RttEstimator::new(&FINE), decreased_at: None, checks_left: 0, prior: (None, 0) }
    }

    fn first_is_overdue(&self, evidence: &Evidence<'_>) -> bool {
        let overdue = |at| evidence.now.saturating_since(at) > self.rtt.rto_unbacked();
        self.rtt.has_sample() && evidence.scoreboard.first_sent_at().is_some_and(overdue)
    }

    /// The first unacknowledged segment is retransmitted. The window is decreased if that segment was sent
    /// after the last decrease.
    fn retransmit(&mut self, evidence: &mut Evidence<'_>, rule: LossRule) -> Option<LossFound> {
        let sent_at = evidence.scoreboard.first_sent_at()?;
        let duplicates = evidence.episode.dup_acks();
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
