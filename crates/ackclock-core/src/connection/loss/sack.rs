//! Loss recovery by selective acknowledgements.
//!
//! E. Blanton, M. Allman, L. Wang, I. Jarvinen, M. Kojo and Y. Nishida, "A Conservative Loss Recovery Algorithm
//! Based on Selective Acknowledgment (SACK) for TCP", RFC 6675, 2012. Lost segments go first (NextSeg (1)), then
//! new data (2), then what may be lost (3), then once an episode the last segment (4). Before the threshold is
//! reached SACKed segments leave the pipe, so that new data goes out: limited transmit (§5 (3)).
//!
//! PRR is not used: this policy sends what cwnd - pipe leaves, as the RFC does, which is silent for half a
//! window and then sends one segment for each that arrives; [`rack`](super::rack) has PRR.

use ackclock_control::congestion::LossCause;
use ackclock_control::profile::Recovery;

use super::{Connection, DUP_THRESH, Phase};
use crate::Instant;
use crate::position::Position;
use crate::recovery::AckOutcome;
use crate::trace::LossRule;

/// What NextSeg (3) and (4) have done in an episode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rescue {
    /// The episode, by its recovery point.
    episode: Option<Position>,
    /// HighRxt: the end of what was sent again.
    high_rxt: Option<Position>,
    /// Whether the rescue retransmission of (4) was made (RescueRxt is the recovery point).
    used: bool,
    /// Whether (3) had its segment since the last acknowledgement.
    spent: bool,
}

impl Rescue {
    pub(super) fn on_retransmitted(&mut self, end: Position) {
        self.high_rxt = self.high_rxt.max(Some(end));
    }
}

impl Connection {
    pub(super) fn judge_by_sack(&mut self, now: Instant, outcome: &AckOutcome) {
        let evidence = outcome.newly_sacked > 0 || self.recovery.in_recovery();
        if self.scoreboard.sacked() == 0 || !evidence {
            return;
        }
        let mut lost = match self.scoreboard.lost_boundary(DUP_THRESH, self.smss()) {
            Some(boundary) => self.scoreboard.mark_lost_before(boundary),
            None => Default::default(),
        };
        let mut rule = LossRule::SackEvidence;
        // RFC 6675 §5 (2): DupAcks >= DupThresh suffices for the first segment.
        // Deviation from RFC 6675 §5 (2): not if the last episode sent it again less than a round trip ago; what is
        // acknowledged now left before that.
        let answered = |at: Instant| now.saturating_since(at) >= self.rtt.rtt_min();
        if lost.bytes == 0
            && self.recovery.phase == Phase::Open
            && self.recovery.dup_acks >= DUP_THRESH
            && self.scoreboard.first_sent_at().is_some_and(answered)
        {
            lost = self.scoreboard.mark_first_lost();
            rule = LossRule::DuplicateAcks;
        }
        if lost.bytes > 0 {
            self.declare_lost(now, rule, lost);
            self.begin_episode_if_open(now, lost.bytes, LossCause::DuplicateAcks);
        }
        if let Some(details) = &mut self.recovery.details {
            details.rescue.spent = false;
        }
    }

    /// RFC 6675 §4 NextSeg (3) and (4): what to send when nothing is known to be lost and no new data may go.
    // Deviation from RFC 6675 §4 SetPipe: the pipe counts a segment sent by (3) once, not twice; instead each acknowledgement
    // brings out at most one.
    pub(in crate::connection) fn next_rescue(&mut self) -> Option<(Position, Position)> {
        let Phase::Recovery(point) = self.recovery.phase else { return None };
        if self.policy() != Recovery::Sack {
            return None;
        }
        let una = self.snd.una;
        let rescue = &mut self.recovery.details().rescue;
        if rescue.episode != Some(point) {
            *rescue = Rescue { episode: Some(point), high_rxt: rescue.high_rxt, ..Rescue::default() };
        }
        if rescue.spent {
            return None;
        }
        let from = rescue.high_rxt.map_or(una, |high_rxt| high_rxt.max(una));
        if let Some(below) = self.scoreboard.first_below_held(from) {
            rescue.spent = true;
            rescue.on_retransmitted(below.1);
            return Some(below);
        }
        if std::mem::replace(&mut rescue.used, true) {
            return None;
        }
        self.scoreboard.last_segment()
    }
}
