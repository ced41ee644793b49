//! RFC 9768 §3.2.

use std::time::Duration;

use ackclock_core::profile::{Choices, Ecn};
use ackclock_core::{Limits, TcpConfig};
use ackclock_tests::rng::Rng;
use ackclock_tests::script::{Script, Setup, pattern, peer_syn};
use ackclock_tests::segment::{ACK, Opt, PSH, Seg, seg};

use super::{CE, ECT_0, ECT_1, NOT_ECT, accepted, agreed, codepoint_of_data, connected, setup};

/// Data of the peer arrives with this codepoint; its ACE field says that nothing of ours was marked.
fn arrives(s: &mut Script, seq: u32, codepoint: u8) {
    s.peer_traffic_class = codepoint;
    s.peer(seg(PSH | ACK).seq(seq).ack(1).ace(5).data(&pattern(seq, 100)));
    s.peer_traffic_class = NOT_ECT;
}

/// An option with these counters in the order of the wire.
fn option(kind: u8, counters: [u32; 3]) -> Opt {
    Opt::Other(kind, counters.iter().flat_map(|counter| counter.to_be_bytes()[1..].to_vec()).collect())
}

/// §3.2.2.1, Table 3.
#[test]
fn acknowledgement_of_the_syn_ack_says_how_it_arrived() {
    for (codepoint, ace) in [(NOT_ECT, 0b010), (ECT_1, 0b011), (ECT_0, 0b100), (CE, 0b110)] {
        let setup = setup(Ecn::Accurate);
        let mut s = Script::connecting(&setup);
        s.sent();
        s.peer_traffic_class = codepoint;
        s.peer(peer_syn(&setup).ack(1).ace(0b010));
        let third = s.sent();
        assert_eq!((third.ace_value(), third.payload.len()), (ace, 0));
        assert!(third.accecn().is_some());
        s.write(1, 100);
        let counted = if codepoint == CE { 6 } else { 5 };
        assert_eq!(s.sent().ace_value(), counted, "from then on the counter");
        // The SYN,ACK is retransmitted, with the same encoding.
        s.peer(peer_syn(&setup).ack(1).ace(0b010));
        assert_eq!(s.sent().ace_value(), ace);
    }
}

/// §3.2.2.1: data that is there before the SYN,ACK does not take the place of the pure acknowledgement.
#[test]
fn pure_acknowledgement_leaves_before_data() {
    let setup = setup(Ecn::Accurate);
    let mut s = Script::connecting(&setup);
    s.sent();
    let answer = s.packet(peer_syn(&setup).ack(1).ace(0b010));
    s.host.receive(&answer);
    s.write(1, 100);
    let sent = s.take_sent();
    let seen: Vec<_> = sent.iter().map(|segment| (segment.payload.len(), segment.ace_value())).collect();
    assert_eq!(seen, [(0, 0b010), (100, 5)]);
}

/// §3.2.2.1, Table 4; §3.2.2.3; §3.2.2.4.
#[test]
fn path_that_damages_the_handshake_gets_nothing_ecn_capable() {
    for (third, capable) in [
        (0b000, false),
        (0b001, true),
        (0b010, true),
        (0b011, false),
        (0b100, false),
        (0b101, true),
        (0b110, false),
        (0b111, true),
    ] {
        let mut s = accepted(Ecn::Accurate, 0b111, third);
        assert_eq!(s.info().ecn.map(|ecn| ecn.capable), Some(capable), "{third:03b}");
        assert_eq!(codepoint_of_data(&mut s, 1, 100) != NOT_ECT, capable);
    }
    // The first segment after the handshake has an ACE field of zero, at either end.
    for mut s in [agreed(Ecn::Accurate), connected(Ecn::Accurate, 0b010)] {
        s.take_sent();
        s.peer(seg(PSH | ACK).seq(1).ack(1).ace(0).data(b"x"));
        s.take_sent();
        assert_eq!(codepoint_of_data(&mut s, 1, 100), NOT_ECT);
        s.peer(seg(ACK).seq(2).ack(101).ace(3));
        assert_eq!(s.info().ecn.map(|ecn| ecn.reductions), Some(0), "nor is anything believed");
        // As a receiver it continues.
        arrives(&mut s, 2, CE);
        assert_eq!(s.sent().ace_value(), 6);
    }
}

/// §3.2.2.5.1 and §3.2.3.3.
#[test]
fn marks_are_counted_and_told_at_once() {
    for (codepoint, kind) in [(ECT_0, 172), (ECT_1, 174)] {
        let mut s = agreed(Ecn::Accurate);
        arrives(&mut s, 1, codepoint);
        s.nothing();
        arrives(&mut s, 101, CE);
        let ack = s.sent();
        assert_eq!((ack.ack, ack.ace_value()), (201, 6), "a mark after none");
        assert_eq!(ack.accecn(), Some((kind, vec![101, 100, 1])));
        arrives(&mut s, 201, CE);
        s.nothing();
        arrives(&mut s, 301, CE);
        let ack = s.sent();
        assert_eq!((ack.ace_value(), ack.accecn()), (0, Some((kind, vec![101, 300, 1]))), "the second since");
        let ecn = s.info().ecn.unwrap();
        assert_eq!((ecn.packets_marked, ecn.bytes_marked), (3, 300));
    }
}

/// §3.2.3.3: the two relevant counters are sent, however many blocks there are.
#[test]
fn option_makes_room_for_sack_blocks() {
    let mut options = vec![Opt::Mss(1460), Opt::SackPermitted, Opt::Timestamps(1000, 0)];
    for with_timestamps in [true, false] {
        let setup = Setup { peer_options: options.clone(), ..setup(Ecn::Accurate) };
        let mut s = Script::listening(&setup);
        s.peer(peer_syn(&setup).ace(0b111));
        s.sent();
        s.ts_val = with_timestamps.then_some(1001);
        s.peer(seg(ACK).seq(1).ack(1).ace(0b010));
        s.accept();
        for seq in [201, 601, 401] {
            arrives(&mut s, seq, ECT_0);
        }
        let ack = s.take_sent().pop().unwrap();
        assert_eq!(ack.sack().len(), if with_timestamps { 2 } else { 3 }, "{ack:?}");
        assert_eq!(ack.accecn().map(|(_, counters)| counters), Some(vec![301, 0]));
        options.pop();
    }
}

/// §3.2.2.2: the field is on every segment, retransmissions included.
#[test]
fn every_segment_has_the_field() {
    let mut s = agreed(Ecn::Accurate);
    arrives(&mut s, 1, CE);
    assert_eq!(s.sent().ace_value(), 6);
    s.write(1, 1000);
    s.advance(Duration::from_secs(2));
    s.shutdown();
    s.advance(Duration::from_secs(2));
    let sent = s.take_sent();
    assert!(sent.len() >= 3 && sent.iter().all(|segment| segment.ace_value() == 6), "{sent:?}");
}

/// A bit of ACE takes the place of CWR, and a device that cuts packets would keep it on the first segment
/// alone.
#[test]
fn field_never_rides_on_a_packet_whose_cutting_would_change_it() {
    for marks in 0..8u32 {
        let mut s = agreed(Ecn::Accurate);
        (0..marks).for_each(|index| arrives(&mut s, 1 + 100 * index, CE));
        s.take_sent();
        let (now, conn) = (s.host.now, s.conn.unwrap());
        s.host.endpoint.update(now, conn, |c, now| c.write(now, &pattern(1, 8000))).unwrap().unwrap();
        let limits = Limits { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true };
        let (ace, is_cut) = loop {
            let packet = s.host.endpoint.poll_transmit(now, limits).unwrap();
            let ace = (packet.header[32] & 1) << 2 | packet.header[33] >> 6;
            let is_cut = packet.segment_size.is_some();
            // IPv4 and TCP without an option.
            if packet.header.len() == 40 {
                break (ace, is_cut);
            }
            assert!(!is_cut, "each piece would repeat the option");
        };
        assert_eq!(u32::from(ace), (5 + marks) % 8);
        assert_eq!(is_cut, ace & 0b010 == 0, "{ace:03b}");
    }
}

/// An acknowledgement of the peer that has counted this many marks.
fn feedback(acked: u32, marks: u32) -> Seg {
    seg(ACK).seq(1).ack(1 + acked).ace(((5 + marks) % 8) as u8)
}

/// RFC 9768 §3.3: answered as RFC 3168 §6.1.2 says, once a window.
#[test]
fn marks_reduce_the_window_once_a_window_and_resend_nothing() {
    let mut s = agreed(Ecn::Accurate);
    s.stream(1, 300_000);
    let edge = s.take_sent().last().unwrap().end();
    let before = s.info().cwnd;
    for number in 1..=(edge - 1) / 1460 {
        s.peer(feedback(1460 * number, number));
    }
    let info = s.info();
    let ecn = info.ecn.unwrap();
    assert!(info.cwnd < before, "{} after {before}", info.cwnd);
    assert_eq!((ecn.reductions, info.retransmits, info.loss_episodes), (1, 0, 0));
    assert_eq!(u64::from((edge - 1) / 1460), ecn.marks_reported);
    let next = s.take_sent();
    assert!(next.iter().all(|segment| segment.seq >= edge));
    let number = (edge - 1) / 1460 + 1;
    s.peer(feedback(1460 * number, number));
    assert_eq!(s.info().ecn.map(|ecn| ecn.reductions), Some(2), "of the next window");
}

/// §3.2.2.5.2: acknowledgements are lost and the field comes round; an option tells how often.
#[test]
fn field_that_came_round_is_taken_at_its_worst_unless_an_option_tells() {
    // The number of marked segments out of 20; with an option or not; the number counted.
    for (marked, with_option, counted) in
        [(1, false, 17), (17, false, 17), (1, true, 1), (17, true, 17), (9, true, 9)]
    {
        let mut s = agreed(Ecn::Accurate);
        s.stream(1, 400_000);
        // A window of more than 20 segments, of which one has been marked.
        s.peer(feedback(2 * 1460, 0));
        for number in 2..8 {
            s.peer(feedback(2 * 1460 * number, 0));
        }
        s.peer(feedback(16 * 1460, 1));
        s.advance(Duration::from_millis(1));
        let mut ack = feedback(36 * 1460, 1 + marked);
        if with_option {
            ack = ack.opt(option(172, [1 + 15 * 1460, (1 + marked) * 1460, 1]));
        }
        assert!(s.take_sent().iter().any(|segment| segment.end() > 36 * 1460), "20 more are out");
        s.peer(ack);
        assert_eq!(s.info().ecn.map(|ecn| ecn.marks_reported), Some(1 + counted), "{marked}, {with_option}");
    }
}

/// A peer that lies about marks, or sends noise as options, at worst slows its own reception.
#[test]
fn lying_peer_never_makes_us_send_faster() {
    let honest = bytes_sent(Ecn::Off, None);
    for seed in 0..16 {
        let lied = bytes_sent(Ecn::Accurate, Some(Rng::new(seed)));
        assert!(lied <= honest, "seed {seed}: {lied} of {honest}");
        let lied = bytes_sent(Ecn::Classic, Some(Rng::new(seed)));
        assert!(lied <= honest, "seed {seed}, classic: {lied} of {honest}");
    }
}

/// The bytes sent in 20 round trips to a peer that acknowledges everything, segment by segment, and reports
/// marks by these numbers.
fn bytes_sent(ecn: Ecn, mut lies: Option<Rng>) -> u32 {
    let congestion = ackclock_core::congestion::Registry::builtin().find("reno").unwrap();
    let tcp = TcpConfig {
        congestion,
        nodelay: true,
        choices: Choices { ecn, pacing: false, ..Choices::default() },
        ..TcpConfig::default()
    };
    let setup = Setup { tcp, ..setup(ecn) };
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup).ace(if ecn == Ecn::Classic { 0b011 } else { 0b111 }));
    s.sent();
    s.peer(seg(ACK).seq(1).ack(1).ace(if ecn == Ecn::Accurate { 0b010 } else { 0 }));
    s.accept();
    s.stream(1, 10_000_000);
    let mut edge = 1;
    for _ in 0..20 {
        let ends: Vec<u32> = s.take_sent().iter().map(Seg::end).filter(|end| *end > edge).collect();
        s.advance(Duration::from_millis(10));
        for end in ends {
            let mut ack = seg(ACK).seq(1).ack(end);
            if let Some(rng) = &mut lies {
                ack = ack.ace(rng.below(8) as u8);
                if rng.chance(500_000) {
                    let counters = [0; 3].map(|_| rng.below(1 << 24) as u32);
                    ack = ack.opt(option(if rng.chance(500_000) { 172 } else { 174 }, counters));
                }
            }
            s.peer(ack);
            edge = edge.max(end);
        }
    }
    edge
}
