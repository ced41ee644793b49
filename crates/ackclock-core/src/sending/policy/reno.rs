//! Reno: fast retransmit and fast recovery, which the first new acknowledgement ends.
//!
//! V. Jacobson, "Modified TCP Congestion Avoidance Algorithm", 1990; M. Allman, V. Paxson and E. Blanton, "TCP
//! Congestion Control", RFC 5681, 2009, §3.2. Since a partial acknowledgement ends recovery, each further loss
//! of the same window takes three more duplicates and another halving, or the timer, where there are too few.
//!
//! Deviations: no limited transmit (RFC 5681 §3.2 (1)), which is ten years younger than Reno; duplicates after a
//! timeout begin nothing until all that was outstanding is acknowledged (RFC 6582 §4).

use super::{DUP_THRESH, Evidence, LossFound, Policy};
use crate::position::Position;

#[derive(Debug)]
pub(in crate::sending) struct Reno;

impl Policy for Reno {
    /// RFC 5681 §3.2 (6): the next acknowledgement of new data ends recovery, and deflates the window.
    fn recovery_point(&self, una: Position, _: Position) -> Position {
        una + 1
    }

    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        if evidence.episode.is_open() && evidence.episode.dup_acks() >= DUP_THRESH {
            // RFC 5681 §3.2 (2) and (3): the first hole goes out again; the window is ssthresh and three segments.
            return evidence.fast_retransmit(DUP_THRESH);
        }
        if evidence.episode.in_recovery() && evidence.seen.duplicate {
            evidence.inflate(evidence.smss);
        }
        None
    }
}
