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
