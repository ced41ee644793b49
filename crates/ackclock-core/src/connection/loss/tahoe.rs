//! Tahoe: the third duplicate acknowledgement stands for a timeout.
//!
//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, §1 (vii); 4.3BSD-Tahoe. K. Fall
//! and S. Floyd, "Simulation-based Comparisons of Tahoe, Reno and SACK TCP", CCR 26(3), 1996, §2, describe it:
//! the first hole is sent at once, and slow start goes on from there, sending again what was outstanding until
//! acknowledgements pass over it. The window's fall to one segment is the controller's.
//!
//! Deviations: 4.3BSD set SND.NXT forward again after the one segment, so that a second hole waited for the
//! timer; here, as with Fall and Floyd, sending continues at the hole. Duplicates of data sent before the last
//! retransmission begin nothing (V2 of the control room's table; RFC 6582 §1 names the defect).

use ackclock_control::congestion::LossCause;

use super::{Connection, DUP_THRESH, Phase};
use crate::Instant;
use crate::trace::LossRule;

impl Connection {
    pub(super) fn judge_as_tahoe(&mut self, now: Instant) {
        let old = self.recovery.recover.is_some_and(|recover| self.snd.una <= recover);
        if self.recovery.phase != Phase::Open || self.recovery.dup_acks < DUP_THRESH || old {
            return;
        }
        let lost = self.scoreboard.mark_all_lost(false);
        self.declare_lost(now, LossRule::DuplicateAcks, lost);
        self.begin_episode_if_open(now, u64::from(self.smss()).min(lost.bytes), LossCause::DuplicateAcks);
        self.recovery.phase = Phase::Loss(self.snd.nxt);
    }
}
