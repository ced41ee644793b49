//! RFC 3168 §6.1.1 and RFC 9768 §3.1.

use std::time::Duration;

use ackclock_core::profile::Ecn;
use ackclock_tests::script::{Script, peer_syn};
use ackclock_tests::segment::{ACK, SYN, seg};

use super::{CE, ECT_0, ECT_1, NOT_ECT, accepted, agreed, codepoint_of_data, connected, setup};

const FORMS: [(Ecn, u8); 3] = [(Ecn::Off, 0), (Ecn::Classic, 0b011), (Ecn::Accurate, 0b111)];

#[test]
fn syn_offers_what_was_asked_for_and_is_never_ecn_capable() {
    for (ecn, flags) in FORMS {
        let frame = Script::connecting(&setup(ecn)).next_frame();
        assert_eq!((frame.seg.ace_value(), frame.traffic_class), (flags, NOT_ECT), "{ecn:?}");
    }
}

/// RFC 9768 §3.1.2, Table 2.
#[test]
fn syn_ack_says_what_came_of_the_offer() {
    // The listener's setting; the SYN's flags; the SYN's codepoint; the SYN-ACK's flags; the agreement.
    for (ecn, offer, codepoint, answer, form) in [
        (Ecn::Off, 0b111, NOT_ECT, 0b000, None),
        (Ecn::Off, 0b011, NOT_ECT, 0b000, None),
        (Ecn::Classic, 0b000, NOT_ECT, 0b000, None),
        (Ecn::Classic, 0b011, NOT_ECT, 0b001, Some(Ecn::Classic)),
        (Ecn::Classic, 0b111, NOT_ECT, 0b001, Some(Ecn::Classic)),
        (Ecn::Classic, 0b001, NOT_ECT, 0b000, None),
        (Ecn::Accurate, 0b000, NOT_ECT, 0b000, None),
        (Ecn::Accurate, 0b011, NOT_ECT, 0b001, Some(Ecn::Classic)),
        (Ecn::Accurate, 0b111, NOT_ECT, 0b010, Some(Ecn::Accurate)),
        (Ecn::Accurate, 0b111, ECT_1, 0b011, Some(Ecn::Accurate)),
        (Ecn::Accurate, 0b111, ECT_0, 0b100, Some(Ecn::Accurate)),
        (Ecn::Accurate, 0b111, CE, 0b110, Some(Ecn::Accurate)),
        (Ecn::Accurate, 0b101, NOT_ECT, 0b010, Some(Ecn::Accurate)),
    ] {
        let setup = setup(ecn);
        let mut s = Script::listening(&setup);
        s.peer_traffic_class = codepoint;
        s.peer(peer_syn(&setup).ace(offer));
        let frame = s.next_frame();
        let row = format!("{ecn:?} asked with {offer:03b}, {codepoint}");
        assert!(frame.seg.has(SYN | ACK));
        assert_eq!((frame.seg.ace_value(), frame.traffic_class), (answer, NOT_ECT), "{row}");
        assert_eq!(frame.seg.accecn().is_some(), form == Some(Ecn::Accurate), "{row}");
        s.peer_traffic_class = NOT_ECT;
        let third = if form == Some(Ecn::Accurate) { 0b010 } else { 0 };
        s.peer(seg(ACK).seq(1).ack(1).ace(third));
        s.accept();
        assert_eq!(s.info().ecn.map(|ecn| ecn.form), form, "{row}");
        let expected = if form.is_some() { ECT_0 } else { NOT_ECT };
        assert_eq!(codepoint_of_data(&mut s, 1, 100), expected, "{row}");
    }
}

/// RFC 9768 §3.1.2, Table 2, read by the client; §3.2.2.3 where the SYN was changed on its way.
#[test]
fn client_takes_the_best_that_the_answer_allows() {
    // Our setting; the SYN-ACK's flags; the agreement; whether data is ECN-capable.
    for (ecn, answer, form, capable) in [
        (Ecn::Off, 0b001, None, false),
        (Ecn::Classic, 0b000, None, false),
        (Ecn::Classic, 0b001, Some(Ecn::Classic), true),
        // A peer that reflects the flags.
        (Ecn::Classic, 0b011, None, false),
        (Ecn::Accurate, 0b000, None, false),
        (Ecn::Accurate, 0b001, Some(Ecn::Classic), true),
        (Ecn::Accurate, 0b010, Some(Ecn::Accurate), true),
        (Ecn::Accurate, 0b011, Some(Ecn::Accurate), false),
        (Ecn::Accurate, 0b100, Some(Ecn::Accurate), false),
        (Ecn::Accurate, 0b101, Some(Ecn::Accurate), true),
        (Ecn::Accurate, 0b110, Some(Ecn::Accurate), false),
        // A peer that reflects the flags.
        (Ecn::Accurate, 0b111, None, false),
    ] {
        let mut s = connected(ecn, answer);
        s.sent();
        s.nothing();
        let row = format!("{ecn:?} answered with {answer:03b}");
        assert_eq!(
            s.info().ecn.map(|ecn| (ecn.form, ecn.capable)),
            form.map(|form| (form, capable)),
            "{row}"
        );
        let expected = if capable { ECT_0 } else { NOT_ECT };
        assert_eq!(codepoint_of_data(&mut s, 1, 100), expected, "{row}");
    }
}

/// RFC 3168 §6.1.1.1; RFC 9768 §3.1.4.1.
#[test]
fn repeated_syn_gives_the_flags_up() {
    for (ecn, flags) in [(Ecn::Classic, [0b011, 0, 0]), (Ecn::Accurate, [0b111, 0b111, 0])] {
        let mut s = Script::connecting(&setup(ecn));
        let mut sent = vec![s.sent().ace_value()];
        while sent.len() < 3 {
            sent.push(s.wait(Duration::from_secs(20)).map_or(9, |(_, syn)| syn.ace_value()));
            s.take_sent();
        }
        assert_eq!(sent, flags, "{ecn:?}");
    }
}

/// RFC 9768 §3.1.5; RFC 3168 §6.1.1.
#[test]
fn who_sent_a_syn_without_the_flags_sends_nothing_ecn_capable() {
    for (ecn, answer, form) in [
        (Ecn::Classic, 0b001, None),
        (Ecn::Accurate, 0b001, None),
        (Ecn::Accurate, 0b010, Some(Ecn::Accurate)),
    ] {
        let setup = setup(ecn);
        let mut s = Script::connecting(&setup);
        s.advance(Duration::from_secs(8));
        assert_eq!(s.take_sent().last().map(|syn| syn.ace_value()), Some(0));
        s.peer(peer_syn(&setup).ack(1).ace(answer));
        s.sent();
        assert_eq!(s.info().ecn.map(|ecn| ecn.form), form, "{ecn:?} answered with {answer:03b}");
        assert_eq!(codepoint_of_data(&mut s, 1, 100), NOT_ECT);
    }
}

/// RFC 9768 §3.1.4.2, §3.2.3.2.2.
#[test]
fn repeated_syn_ack_drops_the_option_first_and_the_flags_then() {
    let setup = setup(Ecn::Accurate);
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup).ace(0b111));
    s.advance(Duration::from_secs(4));
    let sent: Vec<_> = s.take_sent().iter().map(|sent| (sent.ace_value(), sent.accecn().is_some())).collect();
    assert_eq!(sent, [(0b010, true), (0b010, false), (0, false)]);
    s.peer(seg(ACK).seq(1).ack(1).ace(0b010));
    s.accept();
    assert_eq!(codepoint_of_data(&mut s, 1, 100), NOT_ECT, "one SYN-ACK declined ECN");
}

/// RFC 9768 §3.1.4.1: a client that retransmits its SYN without the flags assumes that they cause the loss.
#[test]
fn syn_repeated_without_the_flags_takes_the_offer_back() {
    let setup = setup(Ecn::Accurate);
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup).ace(0b111));
    s.sent();
    s.peer(peer_syn(&setup));
    assert_eq!(s.sent().ace_value(), 0);
    s.peer(seg(ACK).seq(1).ack(1));
    s.accept();
    assert_eq!(s.info().ecn, None);
}

// Tests: RFC 9293 SHLD-8
#[test]
fn both_forms_are_to_be_had_and_neither_unless_asked_for() {
    for (ecn, form) in [(Ecn::Classic, Ecn::Classic), (Ecn::Accurate, Ecn::Accurate)] {
        let mut s = agreed(ecn);
        assert_eq!(s.info().ecn.map(|ecn| ecn.form), Some(form));
        assert_eq!(codepoint_of_data(&mut s, 1, 100), ECT_0);
    }
    let mut s = accepted(ackclock_core::TcpConfig::default().choices.ecn, 0b111, 0);
    assert_eq!(s.info().ecn, None);
    assert_eq!(codepoint_of_data(&mut s, 1, 100), NOT_ECT);
}
