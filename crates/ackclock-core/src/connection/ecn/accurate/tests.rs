use proptest::prelude::*;

use super::*;

const SMSS: u64 = 1000;

fn sender() -> Sender {
    let mut sender = Sender::new();
    sender.on_sent(Codepoint::Ect0);
    sender
}

/// An acknowledgement of this many full segments, `marked` of them marked, without an option.
fn ack(sender: &mut Sender, truth: &mut u64, packets: u64, marked: u64) -> u64 {
    *truth += marked;
    sender.on_feedback((*truth & 7) as u8, None, packets * SMSS, SMSS).packets
}

/// This many full segments arrive.
fn arrive(receiver: &mut Receiver, codepoint: Codepoint, packets: u32) {
    for _ in 0..packets {
        receiver.on_segment(codepoint, 1, 1000, false);
    }
}

#[test]
fn ace_counts_marked_packets_from_five() {
    let mut receiver = Receiver::new();
    assert_eq!(receiver.ace(), 5);
    receiver.on_segment(Codepoint::Ect0, 1, 100, false);
    assert_eq!(receiver.ace(), 5);
    receiver.on_segment(Codepoint::Ce, 4, 400, false);
    assert_eq!(receiver.ace(), 1);
}

/// RFC 9768 §3.2.2.5.1.
#[test]
fn marks_are_acknowledged_when_they_begin_and_every_second_one() {
    let mut receiver = Receiver::new();
    let mut arrives = |codepoint, payload| {
        let now = receiver.on_segment(codepoint, 1, payload, payload > 0);
        if now {
            receiver.on_ack_sent(false);
        }
        now
    };
    let told: Vec<bool> = [Codepoint::Ect0, Codepoint::Ce, Codepoint::Ce, Codepoint::Ce, Codepoint::Ect0]
        .map(|codepoint| arrives(codepoint, 100))
        .into();
    assert_eq!(told, [false, true, false, true, false]);
    // For acknowledgements alone, every third, so that two ends do not answer each other's answers for ever.
    assert_eq!([0; 6].map(|_| arrives(Codepoint::Ce, 0)), [false, false, true, false, false, true]);
}

#[test]
fn option_follows_changes_and_goes_on_with_pure_acknowledgements() {
    let mut receiver = Receiver::new();
    for _ in 0..OPTION_REPEATS {
        assert!(receiver.option(false).is_some(), "at the start");
        receiver.on_ack_sent(true);
    }
    assert_eq!((receiver.option(false), receiver.option(true)), (None, None));
    receiver.on_segment(Codepoint::Ect0, 1, 100, false);
    for _ in 0..OPTION_REPEATS {
        assert_eq!(receiver.option(false).and_then(|option| option.ect0()), Some(101));
        receiver.on_ack_sent(true);
    }
    receiver.on_segment(Codepoint::Ect0, 1, 100, false);
    assert_eq!(receiver.option(false), None, "more of the same needs no option on data");
    assert_eq!(receiver.option(true).and_then(|option| option.ect0()), Some(201));
}

/// RFC 9768 §3.2.3.3: the relevant counters come first, whichever ECT the peer uses.
#[test]
fn option_order_follows_what_arrives() {
    for (codepoint, order) in
        [(Codepoint::Ect0, AccEcnOrder::Ect0First), (Codepoint::Ect1, AccEcnOrder::Ect1First)]
    {
        let mut receiver = Receiver::new();
        receiver.on_segment(codepoint, 1, 7, false);
        receiver.on_segment(Codepoint::Ce, 1, 3, false);
        let option = receiver.option(true).unwrap();
        assert_eq!(option.order(), order);
        let first = option.truncated(1);
        assert_eq!(first.ect0().or(first.ect1()), Some(8), "truncated, it still tells what counts");
    }
}

#[test]
fn every_mark_is_seen_while_no_acknowledgement_is_lost() {
    let (mut sender, mut truth) = (sender(), PACKETS_INITIAL);
    for round in 0..100 {
        let marked = round % 3;
        assert_eq!(ack(&mut sender, &mut truth, 2, marked), marked, "round {round}");
    }
}

/// RFC 9768 §3.2.2.5.2: the field may have wrapped, so as many marks are assumed as fit.
#[test]
fn lost_acknowledgements_are_taken_at_their_worst() {
    let (mut sender, mut truth) = (sender(), PACKETS_INITIAL);
    for _ in 0..50 {
        ack(&mut sender, &mut truth, 2, 1);
    }
    // Ten acknowledgements are lost: 20 packets, 18 of them marked; 2 more than a multiple of 8.
    assert_eq!(ack(&mut sender, &mut truth, 20, 18), 18);
    // If only 2 had been marked it would look the same.
    let (mut other, mut truth) = (super::tests::sender(), PACKETS_INITIAL);
    ack(&mut other, &mut truth, 2, 1);
    assert_eq!(ack(&mut other, &mut truth, 20, 2), 18);
}

#[test]
fn an_option_says_how_often_the_field_came_round() {
    let (mut sender, mut receiver) = (sender(), Receiver::new());
    let mut send = |marked: u32, unmarked: u32| {
        arrive(&mut receiver, Codepoint::Ce, marked);
        arrive(&mut receiver, Codepoint::Ect0, unmarked);
        let marks = sender.on_feedback(
            receiver.ace(),
            receiver.option(true),
            u64::from(marked + unmarked) * SMSS,
            SMSS,
        );
        (marks.packets, marks.bytes)
    };
    assert_eq!(send(1, 1), (1, 1000));
    assert_eq!(send(2, 18), (2, 2000));
    assert_eq!(send(18, 2), (18, 18_000));
    assert_eq!(send(0, 20), (0, 0));
}

/// Where acknowledgements always cover many segments, as from a receiver that coalesces, that does not
/// indicate loss.
#[test]
fn stretched_acknowledgements_do_not_invent_marks() {
    let (mut sender, mut truth) = (sender(), PACKETS_INITIAL);
    for _ in 0..100 {
        assert_eq!(ack(&mut sender, &mut truth, 40, 0), 0);
    }
    assert_eq!(ack(&mut sender, &mut truth, 40, 1), 1);
    assert_eq!(ack(&mut sender, &mut truth, 40, 0), 0);
}

#[test]
fn bytes_are_not_counted_twice_when_an_option_follows() {
    let (mut sender, mut receiver) = (sender(), Receiver::new());
    receiver.on_segment(Codepoint::Ce, 1, 600, false);
    receiver.on_segment(Codepoint::Ect0, 1, 1000, false);
    let guessed = sender.on_feedback(receiver.ace(), None, 1600, SMSS).bytes;
    assert_eq!(guessed, 1000, "a segment's worth");
    receiver.on_segment(Codepoint::Ce, 1, 900, false);
    receiver.on_segment(Codepoint::Ect0, 1, 1000, false);
    let told = sender.on_feedback(receiver.ace(), receiver.option(true), 1900, SMSS).bytes;
    assert_eq!(guessed + told, 1500, "600 and 900");
}

/// RFC 9768 §3.2.2.3.
#[test]
fn marks_on_everything_from_the_start_are_no_marks() {
    let (mut sender, mut receiver) = (sender(), Receiver::new());
    let mut mangled = 0;
    for _ in 0..TRIAL_PACKETS {
        receiver.on_segment(Codepoint::Ce, 1, 1000, false);
        mangled += u64::from(sender.on_feedback(receiver.ace(), None, SMSS, SMSS).mangled);
    }
    assert_eq!(mangled, 1);
}

#[test]
fn codepoints_that_vanish_or_that_nobody_sent_are_noticed() {
    let verdict = |codepoint| {
        let (mut sender, mut receiver) = (sender(), Receiver::new());
        (0..TRIAL_PACKETS).any(|_| {
            receiver.on_segment(codepoint, 1, 1000, false);
            sender.on_feedback(receiver.ace(), receiver.option(true), SMSS, SMSS).mangled
        })
    };
    assert!(!verdict(Codepoint::Ect0));
    assert!(verdict(Codepoint::NotEct), "cleared");
    assert!(verdict(Codepoint::Ect1), "changed");
}

/// RFC 9768 §3.2.3.2.4.
#[test]
fn zeroed_options_are_not_believed() {
    let mut sender = sender();
    let zeroed = AccEcn::new(AccEcnOrder::Ect0First, 0, 0, 0);
    sender.on_feedback(5, Some(zeroed), SMSS, SMSS);
    let lie = AccEcn::new(AccEcnOrder::Ect0First, 0, 500_000, 0);
    assert_eq!(sender.on_feedback(5, Some(lie), SMSS, SMSS), Marks::default());
}

proptest! {
    /// Any input: no panic, and no more marks than bytes.
    #[test]
    fn marks_never_exceed_what_was_acknowledged(
        acks in prop::collection::vec((any::<u8>(), any::<Option<(bool, u32, u32, u32)>>(), 0u64..1 << 40), 0..100),
        smss in 1u64..10_000,
    ) {
        let mut sender = sender();
        for (ace, option, acked) in acks {
            let option = option.map(|(order, ect0, ce, ect1)| {
                let order = if order { AccEcnOrder::Ect0First } else { AccEcnOrder::Ect1First };
                AccEcn::new(order, ect0, ce, ect1)
            });
            prop_assert!(sender.on_feedback(ace & 7, option, acked, smss).bytes <= acked);
        }
    }

    /// With options on every acknowledgement the count is exact, whatever is lost on the way back.
    #[test]
    fn options_make_up_for_lost_acknowledgements(
        rounds in prop::collection::vec((0u32..30, 0u32..30, any::<bool>()), 1..100),
    ) {
        let (mut sender, mut receiver) = (sender(), Receiver::new());
        let (mut acked, mut marked, mut told) = (0, 0, 0);
        let rounds = rounds.into_iter().chain([(1, 1, false)]);
        for (ce, ect, lost) in rounds {
            arrive(&mut receiver, Codepoint::Ce, ce);
            arrive(&mut receiver, Codepoint::Ect0, ect);
            acked += u64::from(ce + ect) * SMSS;
            marked += u64::from(ce);
            if !lost {
                let option = AccEcn::new(AccEcnOrder::Ect0First, receiver.bytes.ect0, receiver.bytes.ce, 1);
                told += sender.on_feedback(receiver.ace(), Some(option), std::mem::take(&mut acked), SMSS).packets;
            }
        }
        prop_assert_eq!(told, marked);
    }
}

/// RFC 9768 §3.2.3.2.4: a counter of zero in the first option was zeroed on the way, whichever it is. Bytes
/// are then taken from the ACE field.
#[test]
fn option_that_begins_with_a_counter_of_zero_is_not_believed() {
    for (ect0, ect1, bytes) in [(1, 1, 300), (0, 1, SMSS), (1, 0, SMSS), (0, 0, SMSS)] {
        let option = AccEcn::new(AccEcnOrder::Ect0First, ect0, 300, ect1);
        let marks = sender().on_feedback(6, Some(option), 2 * SMSS, SMSS);
        assert_eq!((marks.packets, marks.bytes), (1, bytes), "{ect0}, {ect1}");
    }
}

/// The count of marked packets begins with the SYN,ACK.
#[test]
fn marked_syn_ack_is_counted() {
    for (codepoint, ace) in [(Codepoint::Ce, 6), (Codepoint::Ect0, 5), (Codepoint::NotEct, 5)] {
        let mut receiver = Receiver::new();
        receiver.on_syn_ack(codepoint);
        assert_eq!(receiver.ace(), ace);
    }
}
