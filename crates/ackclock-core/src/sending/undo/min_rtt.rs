//! Undo by time: the acknowledgement comes sooner after the retransmission than the path allows.
//!
//! M. Allman and V. Paxson, "On Estimating End-to-End Network Path Properties", SIGCOMM 1999, §2.8: an
//! acknowledgement within f times the smallest round-trip time of the retransmission answers the original,
//! with f 1/2 or 3/4. It needs no option from the peer.
//!
//! It is a heuristic: if every round trip so far was measured with a full queue, one through an empty queue
//! may be shorter than f times the smallest. A peer cannot answer a retransmission before it has it. It can
//! acknowledge early what it never received, but it could do that at any time.
//!
//! Deviations: none known.

use std::time::Duration;

/// Whether an acknowledgement that comes `after` a retransmission is sooner than `quarters` of the smallest
/// round trip.
pub(super) fn answers_original(after: Duration, rtt_min: Duration, quarters: u8) -> bool {
    after < super::super::quarters(rtt_min, quarters.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::answers_original;

    #[test]
    fn bound_is_a_share_of_the_smallest_round_trip() {
        let ms = Duration::from_millis;
        assert!(answers_original(ms(49), ms(100), 2) && !answers_original(ms(50), ms(100), 2));
        assert!(answers_original(ms(74), ms(100), 3) && !answers_original(ms(75), ms(100), 3));
        assert!(!answers_original(ms(0), ms(0), 3), "nothing is known of the path");
    }
}
