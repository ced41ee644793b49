//! B: a peer that wants memory, time or packets.

use std::time::{Duration, Instant as WallClock};

use ackclock_core::{State, TcpConfig};
use ackclock_tests::rng::Rng;
use ackclock_tests::script::{Script, Setup, modern_options, pattern};
use ackclock_tests::segment::{ACK, FIN, Opt, PSH, SYN, Seg, seg};

#[test]
fn sec_b4_out_of_order_crumbs_are_bounded_and_cheap() {
    let setup = Setup { peer_options: modern_options(7), ..Setup::default() };
    let orders: [fn(u32) -> u32; 3] = [|i| i, |i| 24_999 - i, |i| i.wrapping_mul(7_919) % 25_000];
    for order in orders {
        let mut s = Script::accepted(&setup);
        for i in 0..25_000 {
            let seq = 2 + 2 * order(i);
            s.peer(seg(ACK).seq(seq).ack(1).data(&pattern(seq, 1)));
            s.take_sent();
        }
        let (used, limit) = s.host.endpoint.memory();
        assert!(used <= limit && used <= 16 << 20, "{used} bytes for 25,000");
        // The connection still works, whatever was thrown away.
        s.peer(seg(ACK).seq(1).ack(1).data(&pattern(1, 1_460)));
        let data = s.read(10_000);
        assert!(data.len() >= 1_460);
        assert_eq!(data, pattern(1, data.len()));
    }
}

#[test]
fn sec_b4_one_segment_costs_the_same_with_many_ranges_held() {
    // A quadratic reassembly would take minutes for this; a linear one in the number of ranges, too.
    let started = WallClock::now();
    let setup = Setup { peer_options: modern_options(7), ..Setup::default() };
    let mut s = Script::accepted(&setup);
    let mut rng = Rng::new(0xb4);
    for _ in 0..100_000 {
        let seq = 2 + 2 * rng.below(30_000) as u32;
        s.peer(seg(ACK).seq(seq).ack(1).data(&pattern(seq, 1)));
        s.take_sent();
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn sec_b5_sack_blocks_of_all_shapes_are_survived() {
    let setup = Setup { peer_options: vec![Opt::Mss(48), Opt::SackPermitted], ..Setup::default() };
    let mut s = Script::accepted(&setup);
    s.stream(1, 100_000);
    s.take_sent();
    let mut rng = Rng::new(0xb5);
    let points = [0_u32, 1, 2, 48, 49, 1_000, 5_000, 100_001, 100_002, 1 << 31, u32::MAX, 0x7fff_ffff];
    for _ in 0..5_000 {
        let blocks = (0..rng.between(1, 4)).map(|_| (rng.pick(&points), rng.pick(&points))).collect();
        s.peer(seg(ACK).seq(1).ack(1).opt(Opt::Sack(blocks)));
        if rng.chance(10_000) {
            s.advance(Duration::from_millis(200));
        }
        s.take_sent();
        let info = s.info();
        assert!(info.sacked <= info.unacked && info.in_flight <= info.unacked, "{info:?}");
    }
    assert_eq!(s.state(), State::Established);
}

#[test]
fn sec_b6_alternate_bytes_sacked_stay_bounded() {
    let setup = Setup { peer_options: vec![Opt::Mss(1460), Opt::SackPermitted], ..Setup::default() };
    let mut s = Script::accepted(&setup);
    s.write(1, 14_600);
    let end = s.take_sent().last().expect("a flight").end();
    let before = s.host.endpoint.memory().0;
    for at in (2..end - 1).step_by(2) {
        s.peer(seg(ACK).seq(1).ack(1).opt(Opt::Sack(vec![(at, at + 1)])));
        s.take_sent();
    }
    let after = s.host.endpoint.memory().0;
    assert!(after <= before + before / 2 + 65_536, "{before} grew to {after}");
    s.peer_ack(1, end);
    assert_eq!(s.info().sacked, 0);
}

#[test]
fn sec_b7_tiny_mss_is_raised_to_a_floor() {
    for mss in [0, 1, 47, 48, 87, 215] {
        let mut s = Script::accepted(&Setup { peer_options: vec![Opt::Mss(mss)], ..Setup::default() });
        s.write(1, 2_000);
        let first = s.sent();
        assert!(first.payload.len() >= 48, "an MSS of {mss}: {} bytes", first.payload.len());
    }
}

#[test]
fn sec_b10_peer_that_vanishes_while_closing_leaves_nothing_behind() {
    let closings: [fn(&mut Script); 5] = [
        // FIN-WAIT-1
        |s| s.shutdown(),
        // FIN-WAIT-2
        |s| {
            s.shutdown();
            s.peer_ack(1, 2);
        },
        // CLOSING
        |s| {
            s.shutdown();
            s.peer(seg(FIN).seq(1).ack(1));
        },
        // LAST-ACK
        |s| {
            s.peer(seg(FIN).seq(1).ack(1));
            s.shutdown();
        },
        // CLOSE-WAIT: the application lets go
        |s| s.peer(seg(FIN).seq(1).ack(1)),
    ];
    for (i, close) in closings.into_iter().enumerate() {
        let mut s = Script::accepted(&Setup::default());
        close(&mut s);
        s.release();
        s.advance(Duration::from_secs(2_000));
        s.take_sent();
        assert_eq!(s.host.endpoint.connections().count(), 0, "case {i}");
        assert_eq!(s.host.endpoint.memory().0, 0, "case {i}");
        assert_eq!(s.host.next_timeout(), None, "case {i}");
    }
}

#[test]
fn sec_b10_orphan_in_fin_wait_2_is_forgotten_after_a_minute() {
    let mut s = Script::accepted(&Setup::default());
    s.release();
    s.take_sent();
    s.peer_ack(1, 2);
    s.advance(Duration::from_secs(61));
    s.take_sent();
    assert_eq!(s.host.endpoint.connections().count(), 0);
}

#[test]
fn sec_b12_many_connections_stay_within_the_budget() {
    let setup = Setup {
        config: |c| {
            c.memory_budget = 4 << 20;
            c.tcp = TcpConfig::default();
        },
        ..Setup::default()
    };
    let mut s = Script::listening(&setup);
    for port in 0..300_u16 {
        s.remote.set_port(2_000 + port);
        s.iss = None;
        s.peer(seg(SYN).seq(0).opt(Opt::Mss(1460)));
        if s.take_sent().is_empty() {
            continue;
        }
        s.peer(seg(ACK).seq(1).ack(1));
        if s.try_accept().is_none() {
            continue;
        }
        for i in 0..40 {
            let seq = 1 + 1_460 * i;
            s.peer(seg(ACK | PSH).seq(seq).ack(1).data(&[7; 1_460]));
            s.take_sent();
        }
        let (used, limit) = s.host.endpoint.memory();
        assert!(used <= limit, "O6: {used} of {limit} after {port} connections");
    }
}

#[test]
fn sec_b14_desynchronised_ends_do_not_storm() {
    // Both ends believe in numbers that the other does not; each answers the other's every ACK, if it may.
    let mut a = Script::accepted(&Setup::default());
    let mut b = Script::accepted(&Setup { v6: false, irs: 777, ..Setup::default() });
    let mut packets = 0;
    let mut to_b = vec![seg(ACK).seq(5_000_000).ack(5_000_000)];
    for _ in 0..60_000 {
        for segment in std::mem::take(&mut to_b) {
            b.peer(segment);
        }
        for answer in b.take_sent() {
            packets += 1;
            a.peer(Seg {
                seq: answer.seq.wrapping_add(9_000_000),
                ack: answer.ack.wrapping_add(1 << 30),
                ..answer
            });
        }
        to_b = a.take_sent();
        packets += to_b.len();
        for answer in &mut to_b {
            answer.seq = answer.seq.wrapping_add(9_000_000);
            answer.ack = answer.ack.wrapping_add(1 << 30);
        }
        a.advance(Duration::from_millis(1));
        b.advance(Duration::from_millis(1));
    }
    // Two a second, side and class, for a minute.
    assert!(packets <= 480, "{packets} packets in a minute");
}
