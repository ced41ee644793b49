//! Vegas: Reno that looks at its clock when an acknowledgement hints at a loss.
//!
//! L. Brakmo and L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8),
//! 1995, §III-A. Each segment's time of sending is kept. A duplicate acknowledgement, and the first and second
//! new one after a retransmission, make the sender compare the first unacknowledged segment's age with a timeout
//! from a fine-grained estimate; one that is older goes out again at once. The window is decreased only if the
//! segment was sent after the last decrease.
//!
//! Deviations: the paper does not say how the fine timeout is computed; here it is SRTT + 4 * RTTVAR with the
//! gains of RFC 6298, over every segment sent once, without lower bound or ticks. After a timeout, when
//! everything is sent again anyway, nothing is checked until all of it is acknowledged.

use std::time::Duration;

use ackclock_control::congestion::LossCause;
use ackclock_control::rtt::{RtoConfig, RttEstimator};

use super::{Connection, DUP_THRESH, Phase};
use crate::Instant;
use crate::recovery::AckOutcome;
use crate::trace::LossRule;

/// The fine-grained clock of one connection.
#[derive(Debug)]
pub(super) struct FineClock {
    rtt: RttEstimator,
    /// When the window was last decreased for a loss.
    decreased_at: Option<Instant>,
    /// New acknowledgements that still are to be looked at after a retransmission.
    checks_left: u8,
}

/// The estimator of the fine timeout.
const FINE: RtoConfig = RtoConfig { rto_min: Duration::ZERO, ..RtoConfig::RFC_6298 };

impl FineClock {
    fn new() -> Self {
        Self { rtt: RttEstimator::new(&FINE), decreased_at: None, checks_left: 0 }
    }

    fn is_overdue(&self, now: Instant, sent_at: Instant) -> bool {
        self.rtt.has_sample() && now.saturating_since(sent_at) > self.rtt.rto_unbacked()
    }
}

impl Connection {
    pub(super) fn judge_by_clock(
        &mut self,
        now: Instant,
        advanced: u64,
        duplicate: bool,
        outcome: &AckOutcome,
    ) {
        if let Some(sent) = outcome.newest.filter(|_| !outcome.retransmission_acked) {
            self.clock_mut().rtt.on_sample(now.saturating_since(sent.at));
        }
        match self.recovery.phase {
            Phase::Open if duplicate && self.recovery.dup_acks >= DUP_THRESH => {
                self.retransmit_by_hint(now, LossRule::DuplicateAcks);
            }
            Phase::Open if duplicate && self.first_is_overdue(now) => {
                self.retransmit_by_hint(now, LossRule::OverdueAtDuplicate);
            }
            Phase::Open if advanced > 0 && self.clock().is_some_and(|clock| clock.checks_left > 0) => {
                self.clock_mut().checks_left -= 1;
                if self.first_is_overdue(now) {
                    self.retransmit_by_hint(now, LossRule::OverdueAfterRetransmission);
                }
            }
            Phase::Recovery(_) if duplicate => self.inflate(u64::from(self.smss())),
            _ => {}
        }
    }

    fn first_is_overdue(&self, now: Instant) -> bool {
        let sent_at = self.scoreboard.first_sent_at();
        sent_at.zip(self.clock()).is_some_and(|(sent_at, clock)| clock.is_overdue(now, sent_at))
    }

    /// The first unacknowledged segment goes out again; the window is decreased if that segment was sent after the last
    /// decrease.
    fn retransmit_by_hint(&mut self, now: Instant, rule: LossRule) {
        let Some(sent_at) = self.scoreboard.first_sent_at() else { return };
        let lost = self.scoreboard.mark_first_lost();
        if lost.bytes == 0 {
            return;
        }
        self.declare_lost(now, rule, lost);
        let clock = self.clock_mut();
        clock.checks_left = 2;
        if clock.decreased_at.is_none_or(|decreased_at| sent_at >= decreased_at) {
            clock.decreased_at = Some(now);
            self.begin_episode_if_open(now, lost.bytes, LossCause::DuplicateAcks);
        } else {
            self.enter_recovery();
        }
        self.recovery.left_network = 0;
        self.inflate(u64::from(self.recovery.dup_acks) * u64::from(self.smss()));
    }

    fn clock(&self) -> Option<&FineClock> {
        self.recovery.details.as_ref()?.clock.as_deref()
    }

    fn clock_mut(&mut self) -> &mut FineClock {
        self.recovery.details().clock.get_or_insert_with(|| Box::new(FineClock::new()))
    }
}
