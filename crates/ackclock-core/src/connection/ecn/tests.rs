use super::*;
use crate::position::Position;

/// Of these segments only new data may be ECN-capable: RFC 3168 §6.1.4, §6.1.5, §6.1.6.
#[test]
fn only_new_data_is_ecn_capable() {
    let segment = |payload_len, reason| Segment {
        payload_len,
        ..Segment::bare(Position::default(), Flags::ACK, reason)
    };
    for (payload_len, reason, expected) in [
        (1, SendReason::NewData, Codepoint::Ect0),
        // A FIN without data.
        (0, SendReason::NewData, Codepoint::NotEct),
        (0, SendReason::Ack, Codepoint::NotEct),
        (1000, SendReason::Retransmission, Codepoint::NotEct),
        (1, SendReason::WindowProbe, Codepoint::NotEct),
    ] {
        for form in [Ecn::Classic, Ecn::Accurate] {
            let segment = segment(payload_len, reason);
            let stamped = |capable| EcnState::new(form, capable, Opening::Over).stamp(&segment, Ect::Ect0).1;
            assert_eq!(stamped(true), expected, "{form:?}: {payload_len} bytes, {reason:?}");
            assert_eq!(stamped(false), Codepoint::NotEct, "{form:?}: a path that is not capable");
        }
    }
    let data = segment(1, SendReason::NewData);
    assert_eq!(EcnState::new(Ecn::Classic, true, Opening::Over).stamp(&data, Ect::Ect1).1, Codepoint::Ect1);
}

fn accurate(opening: Opening) -> Accurate {
    let (receiver, sender) = (accurate::Receiver::new(), accurate::Sender::new());
    Accurate { receiver, sender, opening, tested: false }
}

/// RFC 9768 §3.2.2.1: only a pure acknowledgement of the SYN,ACK tells how that arrived; others have the
/// counter.
#[test]
fn codepoint_of_the_syn_ack_is_told_by_a_pure_acknowledgement_alone() {
    for (payload_len, flags, told) in [
        (0, Flags::ACK, true),
        (1, Flags::ACK, false),
        (0, Flags::ACK | Flags::FIN, false),
        (1, Flags::ACK | Flags::FIN, false),
    ] {
        let mut accurate = accurate(Opening::Tells(Codepoint::Ce));
        let bare = Segment::bare(Position::default(), flags, SendReason::Ack);
        let ace = accurate.ace_of(&Segment { payload_len, ..bare }).ace();
        assert_eq!(ace, if told { 0b110 } else { 5 }, "{payload_len} bytes, {flags:?}");
        assert_eq!(accurate.opening == Opening::Over, told);
    }
}

/// RFC 9768 §3.2.2.4: a first field of zero was zeroed on the way, unless the option has marks too.
/// §3.2.2.3: a SYN,ACK cannot have become ECN-capable.
#[test]
fn first_field_of_the_peer_shows_whether_the_path_lets_it_through() {
    let ce = |bytes| Some(AccEcn::new(ackclock_wire::AccEcnOrder::Ect0First, 1, bytes, 1));
    let short = |bytes| ce(bytes).map(|option| option.truncated(1));
    for (opening, payload, ace, accecn, passes) in [
        (Opening::Over, 1, 5, None, true),
        (Opening::Over, 1, 0, None, false),
        (Opening::Over, 1, 0, ce(0), false),
        (Opening::Over, 1, 0, short(9), false),
        (Opening::Over, 1, 0, ce(1), true),
        (Opening::Hears, 0, 0b010, None, true),
        (Opening::Hears, 0, 0b100, None, false),
        (Opening::Hears, 0, 0b101, None, true),
        (Opening::Hears, 0, 0, ce(1), false),
        (Opening::Hears, 1, 0b100, None, true),
    ] {
        let mut accurate = accurate(opening);
        let options = ackclock_wire::TcpOptions { accecn, ..Default::default() };
        let segment = ackclock_wire::Segment {
            src_port: 1,
            dst_port: 2,
            seq: ackclock_wire::SeqNum::new(0),
            ack: ackclock_wire::SeqNum::new(0),
            flags: Flags::ACK | Flags::from_ace(ace),
            window: 0,
            urgent: 0,
            options,
            payload: &[0; 1][..payload],
        };
        assert_eq!(accurate.passes(&segment), passes, "{opening:?}, {payload} bytes, {ace}, {accecn:?}");
        assert_eq!(accurate.opening, Opening::Over);
    }
}

/// RFC 9768 §3.2.3.2.1: the option of the SYN,ACK has the initial counters.
#[test]
fn syn_ack_has_the_option_of_accurate_ecn_alone() {
    let of = |form| option_of_syn_ack(Agreement { form, capable: true });
    let option = of(Ecn::Accurate).map(|option| (option.ect0(), option.ce(), option.ect1()));
    assert_eq!((option, of(Ecn::Classic)), (Some((Some(1), Some(0), Some(1))), None));
}
