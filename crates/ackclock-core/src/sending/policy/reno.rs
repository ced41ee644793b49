//! Reno: fast retransmit, and fast recovery that ends at the first new acknowledgement.
//!
//! V. Jacobson, "Modified TCP Congestion Avoidance Algorithm", 1990; M. Allman, V. Paxson and E. Blanton,
//! "TCP Congestion Control", RFC 5681, 2009, §3.2. A partial acknowledgement ends recovery, so each further
//! loss in the same window needs three more duplicates and another halving, or the timer if there are too
//! few.
//!
//! [`Reno::Net2`] is the sender of `sys/netinet/tcp_input.c` in the releases of June 1990 and June 1991: the
//! third duplicate retransmits after a timeout as well, though the timer's own needless retransmissions may
//! have drawn it, and the window falls once more.
//!
//! Deviations: no limited transmit (RFC 5681 §3.2 (1)), which is ten years younger than Reno. With
//! [`Reno::Rfc5681`] duplicates after a timeout begin nothing until everything outstanding is acknowledged
//! (RFC 6582 §4).

use super::{DUP_THRESH, Evidence, LossFound, Policy};
use crate::position::Position;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sending) enum Reno {
    Rfc5681,
    Net2,
}

impl Policy for Reno {
    /// RFC 5681 §3.2 (6): the next acknowledgement of new data ends recovery, and deflates the window.
    fn recovery_point(&self, una: Position, _: Position) -> Position {
        una + 1
    }

    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        if evidence.episode.in_recovery() {
            if evidence.seen.duplicate {
                evidence.inflate(evidence.smss);
            }
            return None;
        }
        if evidence.episode.dup_acks() < DUP_THRESH {
            return None;
        }
        match self {
            // The timer's slow start is over.
            Self::Net2 => evidence.episode.end(),
            Self::Rfc5681 if !evidence.episode.is_open() => return None,
            Self::Rfc5681 => {}
        }
        // RFC 5681 §3.2 (2) and (3): the first hole is retransmitted; the window is ssthresh plus three
        // segments.
        evidence.fast_retransmit(DUP_THRESH)
    }
}

ackclock_form::form! {
    enum Reno { 0 Rfc5681, 1 Net2 }
}
