//! The negotiation of ECN in SYN and SYN,ACK (RFC 3168 §6.1.1; RFC 9768 §3.1), as functions of flags.
//! Connections use them for active opens, the endpoint for passive ones.

use ackclock_control::profile::Ecn;
use ackclock_wire::{Codepoint, Flags};

/// The accepted offer of a SYN. A half-open record keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Offer {
    /// None, or none that is wanted here.
    #[default]
    None,
    /// RFC 3168.
    Classic,
    /// RFC 9768; the SYN arrived with this codepoint.
    Accurate(Codepoint),
}

/// The result of a passive handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub form: Ecn,
    /// Whether data may be sent as ECN-capable.
    pub capable: bool,
}

impl Offer {
    /// A listener's answer, with this setting, to a SYN.
    pub fn of_syn(wanted: Ecn, flags: Flags, codepoint: Codepoint) -> Self {
        const CLASSIC: u8 = 0b011;
        match (wanted, flags.ace()) {
            (Ecn::Off, _) | (_, 0) => Self::None,
            // RFC 3168 §6.1.1: an ECN-setup SYN has ECE and CWR; AE was not a flag then, and says nothing
            // here.
            (Ecn::Classic, ace) if ace & CLASSIC == CLASSIC => Self::Classic,
            (Ecn::Classic, _) => Self::None,
            (Ecn::Accurate, CLASSIC) => Self::Classic,
            // RFC 9768 §3.1.3: any other combination counts as an offer of Accurate ECN, for future
            // extensions.
            (Ecn::Accurate, _) => Self::Accurate(codepoint),
        }
    }

    /// The ECN flags of a SYN,ACK after this many transmissions.
    // RFC 9768 §3.1.4.2: after the first repetition without them, for paths that drop such segments.
    pub fn answer(self, repetitions: u8) -> Flags {
        match self {
            _ if repetitions > REPETITIONS_WITH_FLAGS => Flags::NONE,
            Self::None => Flags::NONE,
            // RFC 3168 §6.1.1: an ECN-setup SYN-ACK has ECE and not CWR.
            Self::Classic => Flags::ECE,
            Self::Accurate(codepoint) => Flags::from_ace(handshake_ace(codepoint)),
        }
    }

    /// The agreement, once a SYN,ACK repeated this many times is acknowledged.
    pub fn agreement(self, repetitions: u8) -> Option<Agreement> {
        // RFC 9768 §3.1.5, RFC 3168 §6.1.1: a host that has answered without the flags even once sends
        // nothing ECN-capable.
        let capable = repetitions <= REPETITIONS_WITH_FLAGS;
        match self {
            Self::None => None,
            Self::Classic => Some(Agreement { form: Ecn::Classic, capable }),
            Self::Accurate(_) => Some(Agreement { form: Ecn::Accurate, capable }),
        }
    }
}

/// The ECN flags of a SYN after this many transmissions.
pub(crate) fn syn_flags(wanted: Ecn, repetitions: u32) -> Flags {
    match wanted {
        // RFC 3168 §6.1.1.1: a SYN without an answer is repeated without the flags.
        Ecn::Classic if repetitions == 0 => Flags::ECE | Flags::CWR,
        // RFC 9768 §3.1.4.1: once more with the flags, then without.
        Ecn::Accurate if repetitions <= 1 => Flags::ACE,
        _ => Flags::NONE,
    }
}

/// The answer of a SYN,ACK to a SYN with the flags: the form, and the codepoint with which the SYN arrived,
/// if reported. `None`: no ECN.
// RFC 9768 §3.1.2, Table 2; for classic RFC 3168 §6.1.1.
pub(crate) fn answer_of(wanted: Ecn, flags: Flags) -> Option<(Ecn, Codepoint)> {
    match (wanted, flags.ace()) {
        (Ecn::Off, _) => None,
        // A peer that reflects the flags of the SYN does not know ECN.
        (Ecn::Classic, ace) => (ace & 0b011 == 0b001).then_some((Ecn::Classic, Codepoint::NotEct)),
        (Ecn::Accurate, 0b000 | 0b111) => None,
        (Ecn::Accurate, 0b001) => Some((Ecn::Classic, Codepoint::NotEct)),
        // RFC 9768 §3.1.3: the reserved combination counts as an agreement whose SYN arrived unchanged.
        (Ecn::Accurate, ace) => Some((Ecn::Accurate, handshake_codepoint(ace).unwrap_or(Codepoint::NotEct))),
    }
}

/// How a SYN,ACK, or the acknowledgement of one, encodes the codepoint with which its cause arrived.
// RFC 9768 §3.2.2.1, Table 3.
pub(super) fn handshake_ace(codepoint: Codepoint) -> u8 {
    match codepoint {
        Codepoint::NotEct => 0b010,
        Codepoint::Ect1 => 0b011,
        Codepoint::Ect0 => 0b100,
        Codepoint::Ce => 0b110,
    }
}

/// The inverse of [`handshake_ace`]; `None` for other values.
pub(super) fn handshake_codepoint(ace: u8) -> Option<Codepoint> {
    match ace {
        0b010 => Some(Codepoint::NotEct),
        0b011 => Some(Codepoint::Ect1),
        0b100 => Some(Codepoint::Ect0),
        0b110 => Some(Codepoint::Ce),
        _ => None,
    }
}

/// How often a SYN,ACK is repeated with its ECN flags.
const REPETITIONS_WITH_FLAGS: u8 = 1;

ackclock_form::form! {
    enum Offer { 0 None, 1 Classic, 2 Accurate(value) }
    struct Agreement { form, capable }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODEPOINTS: [Codepoint; 4] = [Codepoint::NotEct, Codepoint::Ect1, Codepoint::Ect0, Codepoint::Ce];

    /// RFC 9768 §3.1.2, Table 2, row by row, where both ends are this stack's.
    #[test]
    fn both_ends_agree_on_the_best_that_both_know() {
        use Ecn::{Accurate, Classic, Off};
        for (client, server, agreed) in [
            (Off, Off, Off),
            (Off, Classic, Off),
            (Off, Accurate, Off),
            (Classic, Off, Off),
            (Classic, Classic, Classic),
            (Classic, Accurate, Classic),
            (Accurate, Off, Off),
            (Accurate, Classic, Classic),
            (Accurate, Accurate, Accurate),
        ] {
            for codepoint in CODEPOINTS {
                let offer = Offer::of_syn(server, syn_flags(client, 0), codepoint);
                let passive = offer.agreement(0).map_or(Off, |agreement| agreement.form);
                let active = answer_of(client, offer.answer(0));
                assert_eq!(passive, agreed, "{client:?} asks {server:?}");
                assert_eq!(active.map_or(Off, |(form, _)| form), agreed, "{client:?} asks {server:?}");
                if agreed == Accurate {
                    assert_eq!(
                        active,
                        Some((Accurate, codepoint)),
                        "the SYN-ACK reports the codepoint of the SYN"
                    );
                }
            }
        }
    }

    /// RFC 9768 §3.1.2, Table 2: what an offer of Accurate ECN may be answered.
    #[test]
    fn every_answer_to_an_accurate_offer_has_its_meaning() {
        let expected = [
            None,
            Some((Ecn::Classic, Codepoint::NotEct)),
            Some((Ecn::Accurate, Codepoint::NotEct)),
            Some((Ecn::Accurate, Codepoint::Ect1)),
            Some((Ecn::Accurate, Codepoint::Ect0)),
            Some((Ecn::Accurate, Codepoint::NotEct)),
            Some((Ecn::Accurate, Codepoint::Ce)),
            None,
        ];
        for (ace, expected) in (0..).zip(expected) {
            assert_eq!(answer_of(Ecn::Accurate, Flags::from_ace(ace)), expected, "{ace:03b}");
        }
    }

    #[test]
    fn classic_takes_only_ece_without_cwr() {
        let taken: Vec<u8> =
            (0..8).filter(|&ace| answer_of(Ecn::Classic, Flags::from_ace(ace)).is_some()).collect();
        assert_eq!(taken, [0b001, 0b101]);
    }

    /// RFC 3168 §6.1.1.
    #[test]
    fn a_classic_offer_has_both_ece_and_cwr() {
        let taken = (0..8).filter(|&ace| {
            Offer::of_syn(Ecn::Classic, Flags::from_ace(ace), Codepoint::NotEct) == Offer::Classic
        });
        assert_eq!(taken.collect::<Vec<u8>>(), [0b011, 0b111]);
    }

    /// RFC 9768 §3.1.3.
    #[test]
    fn offers_of_the_future_are_taken_for_accurate_ones() {
        for ace in [0b001, 0b010, 0b100, 0b101, 0b110, 0b111] {
            let offer = Offer::of_syn(Ecn::Accurate, Flags::from_ace(ace), Codepoint::NotEct);
            assert_eq!(offer, Offer::Accurate(Codepoint::NotEct), "{ace:03b}");
        }
    }

    #[test]
    fn repeated_segments_give_the_flags_up() {
        let syns = |wanted| [0, 1, 2].map(|repetitions| syn_flags(wanted, repetitions).ace());
        assert_eq!(syns(Ecn::Classic), [0b011, 0, 0]);
        assert_eq!(syns(Ecn::Accurate), [0b111, 0b111, 0]);
        let offer = Offer::Accurate(Codepoint::NotEct);
        assert_eq!([0, 1, 2].map(|repetitions| offer.answer(repetitions).ace()), [0b010, 0b010, 0]);
        assert_eq!(offer.agreement(2), Some(Agreement { form: Ecn::Accurate, capable: false }));
    }
}
