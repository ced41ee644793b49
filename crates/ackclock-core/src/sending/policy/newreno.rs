//! NewReno: fast recovery until everything outstanding is acknowledged, with a hole for each partial
//! acknowledgement.
//!
//! T. Henderson, S. Floyd, A. Gurtov and Y. Nishida, "The NewReno Modification to TCP's Fast Recovery
//! Algorithm", RFC 6582, 2012, §3.2; with M. Allman, H. Balakrishnan and S. Floyd, "Enhancing TCP's Loss
//! Recovery Using Limited Transmit", RFC 3042, 2001, §2.

use super::{DUP_THRESH, Evidence, LossAnswer, LossFound, Policy};
use crate::trace::LossRule;

/// RFC 3042 §2: new segments beyond the window before the third duplicate.
const LIMITED_TRANSMIT: u32 = 2;

#[derive(Debug)]
pub(in crate::sending) struct NewReno;

impl Policy for NewReno {
    // Deviation from RFC 6582 §3.2 (3): every partial acknowledgement restarts the retransmission timer, not
    // only the first ("slow but steady", not "impatient"): with a timeout of 200 ms, a few holes on a long
    // path would let it expire.
    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        if evidence.episode.is_open() {
            return on_ack_without_loss(evidence);
        }
        if !evidence.episode.in_recovery() {
            return None;
        }
        if evidence.seen.duplicate {
            evidence.inflate(evidence.smss);
            return None;
        }
        // Without SACK, what is not a duplicate advances SND.UNA.
        Some(on_partial_ack(evidence))
    }
}

fn on_ack_without_loss(evidence: &mut Evidence<'_>) -> Option<LossFound> {
    let dup_acks = evidence.episode.dup_acks();
    if dup_acks >= DUP_THRESH && points_at_new_loss(evidence) {
        return evidence.fast_retransmit(DUP_THRESH);
    }
    // RFC 3042 §2: FlightSize stays within cwnd + 2*SMSS. RFC 5681 §3.2 (1): cwnd does not change.
    let bytes = evidence.smss.saturating_mul(u64::from(dup_acks.min(LIMITED_TRANSMIT)));
    evidence.episode.limit_transmit(bytes.min(evidence.scoreboard.pipe()));
    None
}

/// RFC 6582 §3.2 (3): the next hole is sent, and the window shrinks by what was acknowledged; one segment
/// is added back if at least that much was.
fn on_partial_ack(evidence: &mut Evidence<'_>) -> LossFound {
    let marked = evidence.scoreboard.mark_first_lost();
    if marked.bytes > 0 {
        evidence.episode.force();
    }
    // Deviation from RFC 6582 §3.2 (3): never below ssthresh, which is the whole of an uninflated window.
    let advanced = evidence.seen.advanced;
    evidence.episode.deflate(advanced);
    evidence.inflate(if advanced >= evidence.smss { evidence.smss } else { 0 });
    LossFound { rule: LossRule::PartialAck, marked, answer: LossAnswer::Known, left_network: None }
}

/// RFC 6582 §3.2 (2): whether more than "recover" is acknowledged. If not, the duplicates may answer needless
/// retransmissions. §4.1: a retransmission was lost if the window is larger than a segment and the last
/// advance at most four, because it passed over no data that the receiver held.
fn points_at_new_loss(evidence: &Evidence<'_>) -> bool {
    let smss = evidence.smss;
    evidence.una > evidence.episode.recover()
        || evidence.cwnd > smss && u64::from(evidence.episode.last_advance()) <= smss.saturating_mul(4)
}

ackclock_form::form! {
    struct NewReno {}
}
