//! Loss recovery by selective acknowledgements.
//!
//! E. Blanton, M. Allman, L. Wang, I. Jarvinen, M. Kojo and Y. Nishida, "A Conservative Loss Recovery
//! Algorithm Based on Selective Acknowledgment (SACK) for TCP", RFC 6675, 2012. Lost segments go first
//! (NextSeg (1)), then new data (2), then what may be lost (3), then once an episode the last segment (4).
//! Before the threshold is reached, SACKed segments leave the pipe, so that new data is sent: limited
//! transmit (§5 (3)).
//!
//! PRR is not used. This policy sends what cwnd - pipe leaves, as the RFC does: nothing for half a window,
//! and then one segment for each that arrives. [`rack_tlp`](super::rack_tlp) has PRR.

use ackclock_control::congestion::LossCause;

use super::{DUP_THRESH, Episode, Evidence, LossAnswer, LossFound, Policy, Scoreboard};
use crate::Instant;
use crate::position::Position;
use crate::trace::LossRule;

/// The state of NextSeg (3) and (4) in an episode.
#[derive(Debug, Default)]
pub(in crate::sending) struct Sack {
    /// The episode, by its recovery point.
    episode: Option<Position>,
    /// HighRxt: the end of retransmitted data.
    high_rxt: Option<Position>,
    /// Whether the rescue retransmission of (4) was made (RescueRxt is the recovery point).
    used: bool,
    /// Whether (3) has sent its segment since the last acknowledgement.
    spent: bool,
}

impl Policy for Sack {
    fn heeds_sack(&self) -> bool {
        true
    }

    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        let fresh = evidence.seen.outcome.newly_sacked > 0 || evidence.episode.in_recovery();
        if evidence.scoreboard.sacked() == 0 || !fresh {
            return None;
        }
        self.spent = false;
        let smss = u32::try_from(evidence.smss).unwrap_or(u32::MAX);
        let mut marked = match evidence.scoreboard.lost_boundary(DUP_THRESH, smss) {
            Some(boundary) => evidence.scoreboard.mark_lost_before(boundary),
            None => Default::default(),
        };
        let mut rule = LossRule::SackEvidence;
        // RFC 6675 §5 (2): DupAcks >= DupThresh suffices for the first segment.
        // Deviation from RFC 6675 §5 (2): not if the last episode retransmitted it less than a round trip
        // ago; data acknowledged now left before that.
        let answered = |at: Instant| evidence.now.saturating_since(at) >= evidence.rtt.rtt_min();
        if marked.bytes == 0
            && evidence.episode.is_open()
            && !evidence.excused
            && evidence.episode.dup_acks() >= DUP_THRESH
            && evidence.scoreboard.first_sent_at().is_some_and(answered)
        {
            marked = evidence.scoreboard.mark_first_lost();
            rule = LossRule::DuplicateAcks;
        }
        let answer = LossAnswer::Episode { cause: LossCause::DuplicateAcks, bytes_lost: marked.bytes };
        (marked.bytes > 0).then_some(LossFound { rule, marked, answer, left_network: None })
    }

    fn on_sent(&mut self, end: Position, _: u64, retransmission: bool) {
        if retransmission {
            self.high_rxt = self.high_rxt.max(Some(end));
        }
    }

    /// RFC 6675 §4 NextSeg (3) and (4).
    // Deviation from RFC 6675 §4 SetPipe: the pipe counts a segment sent by (3) once, not twice; instead each
    // acknowledgement releases at most one.
    fn next_rescue(
        &mut self,
        una: Position,
        episode: &Episode,
        scoreboard: &Scoreboard,
    ) -> Option<(Position, Position)> {
        let point = episode.recovery_point()?;
        if self.episode != Some(point) {
            *self = Self { episode: Some(point), high_rxt: self.high_rxt, ..Self::default() };
        }
        if self.spent {
            return None;
        }
        let from = self.high_rxt.map_or(una, |high_rxt| high_rxt.max(una));
        if let Some(below) = scoreboard.first_below_held(from) {
            self.spent = true;
            self.high_rxt = self.high_rxt.max(Some(below.1));
            return Some(below);
        }
        if std::mem::replace(&mut self.used, true) {
            return None;
        }
        scoreboard.last_segment()
    }
}

ackclock_form::form! {
    struct Sack { episode, high_rxt, used, spent }
}
