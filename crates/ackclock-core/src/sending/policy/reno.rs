//! Reno: fast retransmit, and fast recovery that ends at the first new acknowledgement.
//!
//! V. Jacobson, "Modified TCP Congestion Avoidance Algorithm", 1990; M. Allman, V. Paxson and E. Blanton,
//! "TCP Congestion Control", RFC 5681, 2009, §3.2. A partial acknowledgement ends recovery, so each further
//! loss in the same window needs three more duplicates and another halving, or the timer if there are too
//! few.
//!
//! Deviations: no limited transmit (RFC 5681 §3.2 (1)), which is ten years younger than Reno. Duplicates
//! after a timeout begin nothing until everything outstanding is acknowledged (RFC 6582 §4).

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
            // RFC 5681 §3.2 (2) and (3): the first hole is retransmitted; the window is ssthresh plus three
            // segments.
            return evidence.fast_retransmit(DUP_THRESH);
        }
        if evidence.episode.in_recovery() && evidence.seen.duplicate {
            evidence.inflate(evidence.smss);
        }
        None
    }
}
