//! Tahoe: the third duplicate acknowledgement is treated as a timeout.
//!
//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, §1 (vii); 4.3BSD-Tahoe. K.
//! Fall and S. Floyd, "Simulation-based Comparisons of Tahoe, Reno and SACK TCP", CCR 26(3), 1996, §2,
//! describe it: the first hole is sent at once, and slow start continues from there, retransmitting what was
//! outstanding until acknowledgements pass over it. The controller reduces the window to one segment.
//!
//! Deviations: 4.3BSD moved SND.NXT forward again after the one segment, so a second hole waited for the
//! timer; here, as with Fall and Floyd, sending continues at the hole. Duplicates of data sent before the
//! last retransmission begin nothing (RFC 6582 §1 names the defect).

use ackclock_control::congestion::LossCause;

use super::{DUP_THRESH, Evidence, LossAnswer, LossFound, Policy};
use crate::trace::LossRule;

#[derive(Debug)]
pub(in crate::sending) struct Tahoe;

impl Policy for Tahoe {
    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        let episode = &evidence.episode;
        let old = evidence.una <= episode.recover();
        if !episode.is_open() || episode.dup_acks() < DUP_THRESH || old {
            return None;
        }
        let marked = evidence.scoreboard.mark_all_lost(false);
        let bytes_lost = evidence.smss.min(marked.bytes);
        let answer = LossAnswer::SlowStart { cause: LossCause::DuplicateAcks, bytes_lost };
        Some(LossFound { rule: LossRule::DuplicateAcks, marked, answer, left_network: None })
    }
}

ackclock_form::form! {
    struct Tahoe {}
}
