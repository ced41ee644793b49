//! NewReno (RFC 6582): three duplicate acknowledgements, then partial ones.

use ackclock_control::congestion::LossCause;

use super::{Connection, DUP_THRESH, Phase};
use crate::Instant;
use crate::trace::LossRule;

impl Connection {
    pub(super) fn judge_by_duplicates(&mut self, now: Instant, advanced: u64, duplicate: bool) {
        let smss = u64::from(self.smss());
        if duplicate {
            // Each duplicate tells that one segment has left the network (RFC 5681 §3.2), of those that were out when
            // the first loss was found: forged duplicates inflate nothing beyond that.
            let most = match self.recovery.phase {
                Phase::Recovery(point) => point.since(self.snd.una).min(self.scoreboard.pipe()),
                _ => self.scoreboard.pipe().min(u64::from(DUP_THRESH) * smss),
            };
            self.recovery.left_network = (self.recovery.left_network + smss).min(most);
        } else if advanced > 0 {
            self.recovery.left_network = self
                .recovery
                .left_network
                .saturating_sub(advanced.saturating_sub(smss))
                .min(self.scoreboard.pipe());
        }
        match self.recovery.phase {
            Phase::Open if self.recovery.dup_acks >= DUP_THRESH => {
                // RFC 6582 §3.2 (2): only when more than "recover" is acknowledged.
                if self.recovery.recover.is_some_and(|recover| self.snd.una < recover) {
                    return;
                }
                let lost = self.scoreboard.mark_first_lost();
                if lost > 0 {
                    self.note_loss(now, LossRule::DuplicateAcks, lost);
                    self.begin_episode_if_open(now, lost, LossCause::DuplicateAcks);
                }
            }
            Phase::Recovery(_) if advanced > 0 => {
                // RFC 6582 §3.2 (3): a partial acknowledgement points at the next hole.
                let lost = self.scoreboard.mark_first_lost();
                self.note_loss(now, LossRule::PartialAck, lost);
                self.recovery.first_retransmission |= lost > 0;
            }
            _ => {}
        }
    }
}
