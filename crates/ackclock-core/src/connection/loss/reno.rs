//! Reno: fast retransmit and fast recovery, which the first new acknowledgement ends.
//!
//! V. Jacobson, "Modified TCP Congestion Avoidance Algorithm", 1990; M. Allman, V. Paxson and E. Blanton, "TCP
//! Congestion Control", RFC 5681, 2009, §3.2. Since a partial acknowledgement ends recovery, each further loss
//! of the same window takes three more duplicates and another halving, or the timer, where there are too few.
//!
//! Deviations: no limited transmit (RFC 5681 §3.2 (1)), which is ten years younger than Reno; duplicates after a
//! timeout begin nothing until all that was outstanding is acknowledged (RFC 6582 §4).

use ackclock_control::congestion::LossCause;

use super::{Connection, DUP_THRESH, Phase};
use crate::Instant;
use crate::trace::LossRule;

impl Connection {
    pub(super) fn judge_as_reno(&mut self, now: Instant, duplicate: bool) {
        match self.recovery.phase {
            Phase::Open if self.recovery.dup_acks >= DUP_THRESH => self.fast_retransmit(now),
            Phase::Recovery(_) if duplicate => self.inflate(u64::from(self.smss())),
            // RFC 5681 §3.2 (6): deflated by the acknowledgement that ended the episode.
            _ => {}
        }
    }

    /// RFC 5681 §3.2 (2) and (3): the first hole goes out again; the window is ssthresh and three segments.
    pub(super) fn fast_retransmit(&mut self, now: Instant) {
        let lost = self.scoreboard.mark_first_lost();
        if lost.bytes == 0 {
            return;
        }
        self.declare_lost(now, LossRule::DuplicateAcks, lost);
        self.begin_episode_if_open(now, lost.bytes, LossCause::DuplicateAcks);
        self.recovery.left_network = 0;
        self.inflate(u64::from(DUP_THRESH) * u64::from(self.smss()));
    }

    /// RFC 5681 §3.2 (4): a duplicate tells that a segment has left the network, of those that were out when the loss
    /// was found: forged ones inflate nothing beyond that (its §6).
    pub(super) fn inflate(&mut self, bytes: u64) {
        let out = self.recovery.recover.map_or(0, |recover| recover.since(self.snd.una));
        let most = out.min(self.scoreboard.pipe() + self.scoreboard.lost());
        self.recovery.left_network = (self.recovery.left_network + bytes).min(most);
    }
}
