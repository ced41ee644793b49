//! B: a peer that tries to consume memory, time or packets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use ackclock_core::{
    ConnectionError, ConnectionId, EndpointConfig, Instant, ListenAddr, ListenOptions, State,
};
use ackclock_tests::host::{Host, host_addr};
use ackclock_tests::rng::Rng;
use ackclock_tests::script::{Script, Setup, modern_options, pattern};
use ackclock_tests::segment::{ACK, FIN, Frame, Opt, PSH, RST, SYN, Seg, seg};

use super::malformed::sum_ipv4;

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
            c.tcp = Arc::default();
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
        assert!(used <= limit, "{used} of {limit} bytes after {port} connections");
    }
}

#[test]
fn sec_b14_desynchronised_ends_do_not_storm() {
    // Each end has numbers that the other does not accept; each answers the other's every ACK, if it may.
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

/// Endpoint and peers that open connections and then never open their windows.
struct Crowd {
    host: Host,
    pinned: Vec<(SocketAddr, ConnectionId, u32)>,
}

impl Crowd {
    const LOCAL: &str = "10.0.0.1:80";

    fn new(peers: u16, configure: impl FnOnce(&mut EndpointConfig)) -> Self {
        let local: SocketAddr = Self::LOCAL.parse().unwrap();
        let mut config = EndpointConfig::new(vec![local.ip()], [8; 32]);
        configure(&mut config);
        let mut host = Host::new(config, Instant::from_millis(1));
        let addr = ListenAddr { addr: None, port: Some(80) };
        let listener = host.endpoint.listen(host.now, ListenOptions::new(addr)).unwrap();
        let mut crowd = Self { host, pinned: Vec::new() };
        for port in 2_000..2_000 + peers {
            let peer = SocketAddr::new(host_addr(false, 2), port);
            crowd.say(peer, seg(SYN).seq(0).opt(Opt::Mss(1460)));
            let iss = crowd.host.transmit().pop().expect("a SYN-ACK").seg.seq;
            crowd.say(peer, seg(ACK).seq(1).ack(iss.wrapping_add(1)).window(0));
            let id = crowd.host.endpoint.accept(crowd.host.now, listener).expect("a connection");
            crowd.pinned.push((peer, id, iss.wrapping_add(1)));
        }
        crowd
    }

    fn say(&mut self, peer: SocketAddr, segment: Seg) {
        self.host.receive(&Frame::new(peer, Self::LOCAL.parse().unwrap(), segment).to_bytes());
    }

    /// Time passes; every peer answers whatever it gets, and accepts no data. Returns how many packets they
    /// got.
    fn pass(&mut self, time: Duration) -> usize {
        let until = self.host.now + time;
        let mut packets = self.host.transmit().len();
        while let Some(at) = self.host.next_timeout().filter(|at| *at <= until) {
            self.host.wake(at);
            for frame in self.host.transmit() {
                packets += 1;
                let (_, _, una) = self.pinned.iter().find(|(peer, ..)| *peer == frame.dst).expect("a peer");
                if !frame.seg.has(RST) {
                    self.say(frame.dst, seg(ACK).seq(1).ack(*una).window(0));
                }
            }
        }
        self.host.now = until;
        packets
    }
}

#[test]
fn sec_b8_pinned_windows_hold_bounded_memory_and_orphans() {
    let mut crowd = Crowd::new(300, |config| {
        config.memory_budget = 4 << 20;
        config.orphans_max = 50;
    });
    let (now, ids) = (crowd.host.now, crowd.pinned.iter().map(|pinned| pinned.1).collect::<Vec<_>>());
    for id in &ids {
        while let Some(Ok(_)) = crowd.host.endpoint.update(now, *id, |c, now| c.write(now, &[1; 65_536])) {}
    }
    let packets = crowd.pass(Duration::from_secs(3_600));
    let (used, limit) = crowd.host.endpoint.memory();
    assert!(used <= limit, "{used} of {limit} bytes");
    // RFC 9293 MUST-37: they stay as long as they answer, at a probe a minute.
    assert_eq!(crowd.host.endpoint.connections().count(), 300);
    assert!(packets <= 300 * 80, "{packets} packets in an hour");
    // Their applications have released them: only a bounded number stays.
    for id in ids {
        crowd.host.endpoint.release(crowd.host.now, id);
    }
    crowd.pass(Duration::from_secs(1));
    let left = crowd.host.endpoint.connections().count();
    assert!(left <= 50, "{left} orphans");
    assert_eq!(crowd.host.endpoint.counters().orphans_reset, 250);
}

#[test]
fn sec_b8_user_timeout_ends_a_pinned_connection() {
    let minute = Duration::from_secs(60);
    let mut crowd = Crowd::new(1, |config| Arc::make_mut(&mut config.tcp).user_timeout = Some(minute));
    let id = crowd.pinned[0].1;
    crowd.host.endpoint.update(crowd.host.now, id, |c, now| c.write(now, &[1; 1_000]).unwrap()).unwrap();
    crowd.pass(minute / 2);
    assert_eq!(crowd.host.endpoint.connection(id).unwrap().state(), State::Established);
    crowd.pass(minute);
    let error = crowd.host.endpoint.connection(id).unwrap().error();
    assert_eq!(error, Some(ConnectionError::TimedOut), "it answers every probe, and takes nothing");
}

#[test]
fn sec_b9_slow_reader_costs_few_packets() {
    // The peer opens its window by one byte after each segment, as often as it gets one.
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(ACK).seq(1).ack(1).window(0));
    s.write(1, 60_000);
    let mut packets = 0;
    for _ in 0..600 {
        s.advance(Duration::from_millis(100));
        let sent = s.take_sent();
        packets += sent.len();
        assert!(sent.iter().all(|segment| segment.payload.len() <= 1), "{sent:?}");
        if let Some(last) = sent.last() {
            s.peer(seg(ACK).seq(1).ack(last.end()).window(1));
        }
    }
    // RFC 9293 §3.8.6.2.1: such a window is used after the override timeout only.
    assert!((10..=300).contains(&packets), "{packets} packets in a minute");
}

#[test]
fn sec_b15_floods_of_fragments_leave_nothing_behind() {
    for v6 in [false, true] {
        let mut s = Script::accepted(&Setup { v6, ..Setup::default() });
        let good = s.packet(seg(PSH).seq(1).ack(1).data(&[9; 1_000]));
        let before = s.host.endpoint.memory().0;
        for number in 0..100_000_u32 {
            let mut packet = good.clone();
            // First, middle and last ones, overlapping, of ever new datagrams.
            let field = [0x2000_u16, 0x2001, 0x0002, 0x3fff][number as usize % 4];
            if v6 {
                let offset = (field & 0x1fff) << 3 | field >> 13 & 1;
                packet[6] = 44;
                let payload = (packet.len() - 40 + 8) as u16;
                packet[4..6].copy_from_slice(&payload.to_be_bytes());
                let mut header = vec![6, 0];
                header.extend(offset.to_be_bytes());
                header.extend(number.to_be_bytes());
                packet.splice(40..40, header);
            } else {
                packet[4..6].copy_from_slice(&(number as u16).to_be_bytes());
                packet[6..8].copy_from_slice(&field.to_be_bytes());
                sum_ipv4(&mut packet);
            }
            s.raw(&packet);
        }
        s.nothing();
        assert_eq!(s.host.endpoint.memory().0, before);
        assert_eq!(s.host.next_timeout(), None, "nothing waits to be put together");
        let counters = s.host.endpoint.counters();
        assert_eq!(counters.dropped_fragment, 100_000, "{counters:?}");
        assert!(s.read(10).is_empty());
    }
}

#[test]
fn sec_b16_worst_headers_cost_what_their_bytes_cost() {
    let mut s = Script::accepted(&Setup { v6: true, ..Setup::default() });
    let options = [vec![1; 40], [200, 2].repeat(20), [5, 10, 0, 0, 0, 1, 0, 0, 0, 2].repeat(4), vec![2; 40]];
    let mut packets: Vec<_> =
        options.map(|raw| s.packet(seg(ACK).seq(1).ack(1).opt(Opt::Raw(raw)))).into_iter().collect();
    // As many extension headers as a packet can have.
    let mut chain = s.packet(seg(ACK).seq(1).ack(1))[..40].to_vec();
    chain[6] = 60;
    chain[4..6].copy_from_slice(&65_480_u16.to_be_bytes());
    chain.extend([60, 0, 1, 4, 0, 0, 0, 0].repeat(8_185));
    packets.push(chain);
    let started = WallClock::now();
    for _ in 0..10_000 {
        for packet in &packets {
            s.host.receive(packet);
        }
        s.take_sent();
    }
    // A quadratic walk over the chain would take minutes.
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert_eq!(s.state(), State::Established);
}
