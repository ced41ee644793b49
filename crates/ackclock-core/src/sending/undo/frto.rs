//! Forward RTO-recovery: after a timeout, new data first, to see whether the old data arrives by itself.
//!
//! P. Sarolahti, M. Kojo, K. Yamamoto and M. Hata, "Forward RTO-Recovery (F-RTO): An Algorithm for Detecting
//! Spurious Retransmission Timeouts with TCP", RFC 5682, 2009: §2.1, and §3.1 if the peer sends SACKs. It
//! needs no option from the peer and judges only timeouts.
//!
//! Deviations: new data in step (2b) is what cwnd allows, which is two segments after an acknowledgement of
//! one or two for controllers that count by RFC 3465, and may be more for those that pace. If a whole segment
//! of new data cannot be sent, the algorithm ends, as §2.1 (2b) allows. A dup ACK in step (3a) leaves cwnd as
//! slow start made it, at most three segments after one acknowledgement.

use crate::position::Position;

/// The state of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frto {
    /// Step (2): only the first segment was retransmitted.
    First,
    /// Step (3): new data was sent.
    Second,
}

/// An acknowledgement as the algorithm sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// SND.UNA after it, and before.
    pub(super) una: Position,
    pub(super) prior_una: Position,
    /// The segment that the timer retransmitted.
    pub(super) retransmitted: (Position, Position),
    /// SND.NXT at the timeout.
    pub(super) recover: Position,
    /// Whether it is a duplicate (RFC 5681 §2).
    pub(super) duplicate: bool,
    /// With SACK: the end of the newest transmission that it acknowledges, if that was sent only once.
    pub(super) held_up_to: Option<Position>,
    pub(super) sack: bool,
    /// Whether a segment of new data can be sent.
    pub(super) new_data: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrtoOutcome {
    /// Nothing is decided yet.
    Wait(Frto),
    /// Data of the flight before the timeout arrives: the timeout was spurious.
    Spurious,
    /// Conventional recovery continues.
    Abandon,
}

impl Frto {
    pub fn on_ack(self, seen: &Seen) -> FrtoOutcome {
        let advanced = seen.una > seen.prior_una;
        match self {
            // RFC 5682 §2.1 (2a): everything is acknowledged, or the retransmission only in part.
            Self::First if advanced && (seen.una >= seen.recover || seen.una < seen.retransmitted.1) => {
                FrtoOutcome::Abandon
            }
            // RFC 5682 §2.1 (2b).
            Self::First if advanced && seen.new_data => FrtoOutcome::Wait(Self::Second),
            Self::First if advanced => FrtoOutcome::Abandon,
            // RFC 5682 §3.1 (2): with SACK, duplicates are waited out; §2.1 (2a): without it, they end it.
            Self::First if seen.duplicate && !seen.sack => FrtoOutcome::Abandon,
            // RFC 5682 §2.1 (3b): it acknowledges data that the timer did not retransmit.
            Self::Second if advanced => FrtoOutcome::Spurious,
            // RFC 5682 §3.1 (3b): likewise selectively; (3a): only what was sent after the timeout.
            Self::Second if seen.duplicate => match seen.held_up_to {
                Some(end) if seen.sack && end <= seen.recover => FrtoOutcome::Spurious,
                _ => FrtoOutcome::Abandon,
            },
            _ => FrtoOutcome::Wait(self),
        }
    }
}

ackclock_form::form! {
    enum Frto { 0 First, 1 Second }
}

#[cfg(test)]
mod tests {
    use ackclock_wire::SeqNum;

    use super::{Frto, FrtoOutcome, Seen};
    use crate::position::Position;

    fn at(offset: u64) -> Position {
        Position::initial(SeqNum::new(u32::MAX - 50)) + offset
    }

    /// A flight of ten segments of 100 bytes, the first of which was retransmitted.
    fn ack(prior_una: u64, una: u64) -> Seen {
        Seen {
            una: at(una),
            prior_una: at(prior_una),
            retransmitted: (at(0), at(100)),
            recover: at(1000),
            duplicate: una == prior_una,
            held_up_to: None,
            sack: false,
            new_data: true,
        }
    }

    #[test]
    fn two_advancing_acks_prove_a_spurious_timeout() {
        assert_eq!(Frto::First.on_ack(&ack(0, 200)), FrtoOutcome::Wait(Frto::Second));
        assert_eq!(Frto::Second.on_ack(&ack(200, 400)), FrtoOutcome::Spurious);
    }

    #[test]
    fn ack_of_everything_or_a_duplicate_proves_nothing() {
        assert_eq!(Frto::First.on_ack(&ack(0, 1000)), FrtoOutcome::Abandon);
        assert_eq!(Frto::First.on_ack(&ack(0, 0)), FrtoOutcome::Abandon);
        assert_eq!(Frto::First.on_ack(&ack(0, 50)), FrtoOutcome::Abandon);
        assert_eq!(Frto::Second.on_ack(&ack(200, 200)), FrtoOutcome::Abandon);
    }

    #[test]
    fn without_new_data_it_ends() {
        assert_eq!(Frto::First.on_ack(&Seen { new_data: false, ..ack(0, 200) }), FrtoOutcome::Abandon);
    }

    #[test]
    fn sack_tells_old_data_from_new() {
        let held = |prior, end| Seen { sack: true, held_up_to: Some(at(end)), ..ack(prior, prior) };
        assert_eq!(Frto::First.on_ack(&held(0, 500)), FrtoOutcome::Wait(Frto::First));
        assert_eq!(Frto::Second.on_ack(&held(200, 1000)), FrtoOutcome::Spurious);
        assert_eq!(Frto::Second.on_ack(&held(200, 1200)), FrtoOutcome::Abandon);
    }
}
