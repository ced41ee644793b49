//! A: an attacker who sees nothing and guesses (RFC 5961, RFC 5927).

use std::time::Duration;

use ackclock_core::State;
use ackclock_tests::host::host_addr;
use ackclock_tests::icmp::{icmp_error, packet_too_big};
use ackclock_tests::rng::Rng;
use ackclock_tests::script::{Script, Setup, modern_options, peer_syn};
use ackclock_tests::segment::{ACK, Opt, PSH, RST, SYN, Seg, seg};

fn wide() -> Setup {
    let mut setup = Setup { peer_options: modern_options(14), ..Setup::default() };
    setup.tcp.receive_buffer_max = 1 << 30;
    setup
}

#[test]
fn sec_a1_random_resets_do_not_end_a_connection() {
    let mut s = Script::accepted(&wide());
    let mut rng = Rng::new(0xa1);
    let mut answers = 0;
    for i in 0..200_000_u32 {
        let seq = rng.next_u64() as u32;
        if seq == 1 {
            continue;
        }
        s.peer(seg(RST).seq(seq));
        answers += s.take_sent().len();
        if i % 1_000 == 0 {
            s.advance(Duration::from_millis(10));
            answers += s.take_sent().len();
        }
    }
    assert_eq!(s.state(), State::Established);
    // Two seconds of attack; RFC 5961 §7 limits the challenges.
    assert!(answers <= 20, "{answers} challenge ACKs");
    s.peer(seg(RST).seq(1));
    assert_eq!(s.state(), State::Closed);
}

#[test]
fn sec_a2_syn_in_a_synchronized_state_is_challenged() {
    for seq in [0_u32, 1, 2, 1_000_000, 1 << 31, u32::MAX] {
        for flags in [SYN, SYN | ACK] {
            let mut s = Script::accepted(&Setup::default());
            s.peer(Seg { ack: 1, ..seg(flags).seq(seq) });
            s.expect_ack(1);
            assert_eq!(s.state(), State::Established, "SYN at {seq}");
            s.nothing();
        }
    }
}

// Tests: RFC 9293 MAY-12
#[test]
fn sec_a3_data_with_an_impossible_ack_is_not_taken() {
    // Only the SYN was sent, so no number below it (ghost ACKs) or above it can be acknowledged. Zero is our
    // SYN's number, exactly one below the first byte.
    for ack in [0_u32, 2, 100, 1 << 31, u32::MAX, 0_u32.wrapping_sub(1_000), 0_u32.wrapping_sub(65_535)] {
        let mut s = Script::accepted(&Setup::default());
        s.peer(seg(PSH).seq(1).ack(ack).data(b"evil"));
        assert!(s.read(10).is_empty(), "ACK {}", ack as i32);
        s.expect_ack(1);
        s.nothing();
    }
    // Once bytes have been acknowledged, an old ACK may carry data that counts.
    let mut s = Script::accepted(&Setup::default());
    s.write(1, 1_000);
    s.take_sent();
    s.peer_ack(1, 1_001);
    s.peer(seg(PSH).seq(1).ack(500).data(b"good"));
    assert_eq!(s.read(10), b"good");
    for ack in [u32::MAX, 0] {
        s.peer(seg(PSH).seq(5).ack(ack).data(b"evil"));
        assert!(s.read(10).is_empty(), "ACK {}", ack as i32);
    }
    s.peer(seg(PSH).seq(5).ack(1).data(b"fine"));
    assert_eq!(s.read(10), b"fine", "the first byte's number");
}

#[test]
fn sec_a5_challenges_are_limited_and_still_answer_the_honest() {
    let mut s = Script::accepted(&Setup::default());
    let mut answers = 0;
    for _ in 0..1_000 {
        for _ in 0..10 {
            s.peer(seg(PSH).seq(1_u32.wrapping_sub(1_000_000)).ack(1).data(b"old"));
        }
        s.advance(Duration::from_millis(10));
        answers += s.take_sent().len();
    }
    // Ten seconds; one per half second and class.
    assert!((1..=21).contains(&answers), "{answers} answers to 10,000 segments");
    // The other class has its own budget.
    s.peer(seg(SYN).seq(77));
    s.expect_ack(1);
}

#[test]
fn sec_a8_timestamps_of_tuples_are_unrelated_and_grow() {
    let value = |irs: u32, secret: fn(&mut ackclock_core::EndpointConfig), v6: bool| {
        let setup = Setup { irs, v6, config: secret, peer_options: modern_options(7), ..Setup::default() };
        Script::connecting(&setup).sent().timestamps().expect("offered").0
    };
    let first = value(1, |c| c.secret = [1; 32], false);
    assert!(first.abs_diff(value(1, |c| c.secret = [2; 32], false)) > 1 << 12, "one clock for all secrets");
    assert!(first.abs_diff(value(1, |c| c.secret = [1; 32], true)) > 1 << 12, "one clock for all tuples");
}

#[test]
fn sec_a10_icmp_about_data_that_is_not_in_flight_is_ignored() {
    for (offset, counts) in [(0_u32, true), (999, true), (1_000, false), (u32::MAX, false), (1 << 31, false)]
    {
        for kind in [(3, 1), (3, 3), (11, 0)] {
            let mut s = Script::accepted(&Setup::default());
            s.write(1, 1_000);
            let mut frame = s.next_frame();
            frame.seg.seq = s.iss.unwrap().wrapping_add(1).wrapping_add(offset);
            s.readiness();
            s.raw(&icmp_error(host_addr(false, 254), kind, 0, &frame.to_bytes()));
            assert_eq!(s.state(), State::Established);
            assert_eq!(s.readiness().soft_error, counts, "quoted SND.UNA{:+}", offset as i32);
            s.nothing();
        }
    }
}

#[test]
fn sec_a11_forged_path_mtu_is_bounded() {
    // RFC 5927 §7: less than 552 bytes count as 552. RFC 1191 §5: 0 is the next plateau.
    for (told, expected) in
        [(1_400, 1_400), (68, 552), (0, 1_492), (551, 552), (1_501, 1_500), (65_535, 1_500)]
    {
        let mut s = Script::accepted(&Setup::default());
        s.write(1, 1_000);
        let mut frame = s.next_frame();
        frame.seg.seq = s.iss.unwrap().wrapping_add(1);
        let about = frame.to_bytes();
        let (cwnd, before) = (s.info().cwnd, s.info().pmtu);
        s.raw(&packet_too_big(host_addr(false, 254), told, &about));
        let pmtu = s.info().pmtu;
        assert_eq!((before, pmtu), (1_500, expected), "told {told}");
        assert!(s.info().cwnd + 1_460 >= cwnd.min(10 * u64::from(pmtu)), "the window was harmed");

        // Quoting what is not in flight.
        let mut s = Script::accepted(&Setup::default());
        s.write(1, 1_000);
        s.take_sent();
        frame.seg.seq = frame.seg.seq.wrapping_add(1_000_000);
        s.raw(&packet_too_big(host_addr(false, 254), told, &frame.to_bytes()));
        assert_eq!(s.info().pmtu, 1_500, "told {told}");
    }
}

#[test]
fn sec_a11_forged_path_mtu_is_bounded_for_ipv6() {
    // RFC 8201 §4: what tells less than 1280 bytes is discarded.
    for (told, expected) in [(0, 1_500), (68, 1_500), (1_279, 1_500), (1_280, 1_280), (1_400, 1_400)] {
        let mut s = Script::accepted(&Setup { v6: true, ..Setup::default() });
        s.write(1, 1_000);
        let mut frame = s.next_frame();
        frame.seg.seq = s.iss.unwrap().wrapping_add(1);
        s.raw(&packet_too_big(host_addr(true, 254), told, &frame.to_bytes()));
        assert_eq!(s.info().pmtu, expected, "told {told}");
    }
}

#[test]
fn sec_a14_a_stimulus_gets_no_more_bytes_than_it_brought() {
    let setup = Setup::default();
    let stimuli: [Seg; 6] = [
        peer_syn(&setup),
        seg(ACK).seq(1).ack(1),
        seg(PSH).seq(1).ack(1).data(&[0; 1_000]),
        seg(SYN | ACK).seq(0).ack(1),
        seg(SYN).seq(0).opt(Opt::Mss(1460)).data(&[0; 1_000]),
        seg(RST).seq(0),
    ];
    for listening in [false, true] {
        for stimulus in &stimuli {
            let mut s = if listening { Script::listening(&setup) } else { Script::closed(&setup) };
            let brought = s.packet(stimulus.clone()).len();
            s.peer(stimulus.clone());
            let sent: Vec<usize> =
                s.take_sent().iter().map(|answer| s.packet(answer.clone()).len()).collect();
            assert!(sent.len() <= 1, "{stimulus:?}: {sent:?}");
            assert!(sent.iter().sum::<usize>() <= brought, "{stimulus:?}: {sent:?} bytes for {brought}");
            assert!(!stimulus.has(RST) || sent.is_empty(), "an answer to a reset");
            // SYN-ACKs may be repeated, five times at most.
            s.advance(Duration::from_secs(300));
            let repeated = s.take_sent();
            assert!(repeated.len() <= if stimulus.has(SYN) && listening { 5 } else { 0 }, "{repeated:?}");
        }
    }
}

#[test]
fn sec_a14_data_on_a_syn_is_not_acknowledged_before_the_handshake() {
    let setup = Setup::default();
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup).data(b"fast open?"));
    let answer = s.sent();
    assert_eq!((answer.flags, answer.ack), (SYN | ACK, 1));
}
