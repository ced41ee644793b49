//! Loss recovery by selective acknowledgements (RFC 6675).

use ackclock_control::congestion::LossCause;

use super::{Connection, DUP_THRESH, Phase};
use crate::Instant;
use crate::recovery::AckOutcome;
use crate::trace::LossRule;

impl Connection {
    pub(super) fn judge_by_sack(&mut self, now: Instant, outcome: &AckOutcome) {
        let evidence = outcome.newly_sacked > 0 || self.recovery.in_recovery();
        if self.scoreboard.sacked() == 0 || !evidence {
            return;
        }
        let mut lost = 0;
        if let Some(boundary) = self.scoreboard.lost_boundary(DUP_THRESH, self.smss()) {
            lost += self.scoreboard.mark_lost_before(boundary);
        }
        // RFC 6675 §5 (2): DupAcks >= DupThresh suffices for the first segment.
        if lost == 0 && self.recovery.phase == Phase::Open && self.recovery.dup_acks >= DUP_THRESH {
            lost += self.scoreboard.mark_first_lost();
        }
        if lost > 0 {
            self.note_loss(now, LossRule::SackEvidence, lost);
            self.begin_episode_if_open(now, lost, LossCause::DuplicateAcks);
        }
    }
}
