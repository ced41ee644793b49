//! RFC 2525, Known TCP Implementation Problems: the eighteen, one test each, in its order.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use ackclock_core::congestion::{ControllerFactory, Registry};
use ackclock_core::{Keepalive, TcpConfig};
use ackclock_tests::host::host_addr;
use ackclock_tests::icmp::packet_too_big;
use ackclock_tests::script::{Script, Setup, modern_options, pattern, peer_syn};
use ackclock_tests::segment::{ACK, FIN, Opt, RST, Seg, seg};
use ackclock_wire::{ChecksumState, RxMeta};

const RTT: Duration = Duration::from_millis(100);
const SMSS: u64 = 1460;

fn reno() -> Arc<dyn ControllerFactory> {
    Registry::builtin().find("reno").expect("Reno is built in")
}

/// A connection that the endpoint opened over a path of 100 ms, to a peer with a wide window.
fn bulk(tcp: TcpConfig) -> Script {
    let peer_options = vec![Opt::Mss(1460), Opt::WindowScale(8)];
    let setup = Setup { tcp, peer_options, peer_window: 65_535, ..Setup::default() };
    let mut s = Script::connecting(&setup);
    s.take_sent();
    s.advance(RTT);
    s.peer(peer_syn(&setup).ack(1));
    s.expect_ack(1);
    s.stream(1, 4_000_000);
    s
}

/// The segments that the endpoint sends within one round trip.
fn round(s: &mut Script) -> Vec<Seg> {
    s.advance(RTT);
    s.take_sent()
}

/// The peer acknowledges every second segment of a flight, as RFC 5681 §4.2 tells it to.
fn acknowledge(s: &mut Script, flight: &[Seg]) {
    for pair in flight.chunks(2) {
        s.peer_ack(1, pair.last().expect("chunks are not empty").end());
    }
}

// Tests: RFC 9293 MUST-19
#[test]
fn p01_first_flight_is_an_initial_window_and_doubles_at_most() {
    let mut s = bulk(TcpConfig::default());
    let mut flight = round(&mut s);
    assert!((1..=10).contains(&flight.len()), "RFC 6928: {} segments", flight.len());
    for _ in 0..5 {
        acknowledge(&mut s, &flight);
        let next = round(&mut s);
        assert!(!next.is_empty() && next.len() <= 2 * flight.len(), "{} after {}", next.len(), flight.len());
        flight = next;
    }
    assert!(flight.len() > 40, "slow start does not grow: {}", flight.len());
}

// Tests: RFC 9293 MUST-19
#[test]
fn p02_timeout_returns_to_slow_start() {
    let mut s = bulk(TcpConfig { congestion: reno(), ..TcpConfig::default() });
    let first = round(&mut s);
    acknowledge(&mut s, &first);
    let flight = round(&mut s);
    let flight_size: u64 = flight.iter().map(|segment| u64::from(segment.len())).sum();
    while s.info().timeouts == 0 {
        s.advance(Duration::from_millis(20));
    }
    let info = s.info();
    assert_eq!(info.cwnd, SMSS, "RFC 5681 §3.1: the loss window is one segment");
    let half = (flight_size / 2).max(2 * SMSS);
    let ssthresh = info.ssthresh.expect("known after a loss");
    assert!(ssthresh.abs_diff(half) <= 2 * SMSS, "{ssthresh}, half the flight is {half}");
}

#[test]
fn p03_congestion_window_is_initialised_without_an_mss_option() {
    let setup = Setup { peer_options: Vec::new(), ..Setup::default() };
    let mut s = Script::connected(&setup);
    s.stream(1, 1_000_000);
    let flight = s.take_sent();
    assert!((1..=10).contains(&flight.len()), "{} segments", flight.len());
    assert!(s.info().cwnd <= 10 * 536, "{}", s.info().cwnd);
}

#[test]
fn p04_a_sequence_number_always_stands_for_the_same_byte() {
    let mut s = Script::accepted(&Setup::default());
    s.write(1, 20_000);
    let mut bytes = BTreeMap::new();
    let mut check = |segments: Vec<Seg>| {
        for segment in segments {
            for (i, byte) in segment.payload.iter().enumerate() {
                let at = segment.seq + i as u32;
                assert_eq!(*bytes.entry(at).or_insert(*byte), *byte, "byte {at}");
                assert_eq!(*byte, pattern(at, 1)[0], "byte {at}");
            }
        }
    };
    let mut about = s.frame(Seg::default());
    let flight = s.take_sent();
    // Sent again in pieces of another size: the path got narrower.
    (about.src, about.dst) = (s.local, s.remote);
    about.seg = Seg { seq: s.iss.unwrap() + 1, ..flight[0].clone() };
    check(flight);
    s.raw(&packet_too_big(host_addr(false, 254), 600, &about.to_bytes()));
    check(s.take_sent());
    for _ in 0..6 {
        s.advance(Duration::from_secs(2));
        check(s.take_sent());
    }
    assert!(s.info().retransmits > 3);
}

#[test]
fn p05_data_above_a_hole_is_kept() {
    for missing in [0_u32, 1, 15, 30] {
        let mut s = Script::accepted(&Setup::default());
        let piece = |i: u32| seg(ACK).seq(1 + 1_000 * i).ack(1).data(&pattern(1 + 1_000 * i, 1_000));
        for i in (0..32).filter(|i| *i != missing) {
            s.peer(piece(i));
        }
        s.take_sent();
        s.peer(piece(missing));
        s.expect_ack(32_001);
        assert_eq!(s.read(40_000), pattern(1, 32_000));
    }
}

// Tests: RFC 9293 MUST-19
#[test]
fn p06_congestion_avoidance_adds_one_segment_a_round_trip() {
    let mut s = bulk(TcpConfig { congestion: reno(), ..TcpConfig::default() });
    let mut flight = round(&mut s);
    for _ in 0..2 {
        acknowledge(&mut s, &flight);
        flight = round(&mut s);
    }
    // One loss sets ssthresh; then come rounds above it.
    let lost = flight.remove(0);
    let first_missing = lost.seq;
    for _ in 0..flight.len() {
        s.peer_ack(1, first_missing);
    }
    let mut rest = round(&mut s);
    for _ in 0..8 {
        let end = rest.iter().chain(&flight).map(Seg::end).max().expect("segments");
        s.peer_ack(1, end);
        rest = round(&mut s);
    }
    let ssthresh = s.info().ssthresh.expect("known after a loss");
    for _ in 0..6 {
        let before = s.info().cwnd;
        assert!(before >= ssthresh, "in congestion avoidance: {before} of {ssthresh}");
        acknowledge(&mut s, &rest);
        rest = round(&mut s);
        let growth = s.info().cwnd - before;
        assert!(growth <= SMSS + SMSS / 100 + 16, "{growth} bytes in one round trip");
    }
}

// Tests: RFC 9293 MUST-18
#[test]
fn p07_first_timeout_is_a_second() {
    let mut s = Script::connecting(&Setup::default());
    assert!(s.info().rto >= Duration::from_secs(1), "{:?}", s.info().rto);
    s.take_sent();
    let (after, _) = s.wait(Duration::from_secs(5)).expect("the SYN again");
    assert!(after >= Duration::from_secs(1), "{after:?}");
}

#[test]
fn p08_window_is_deflated_after_recovery() {
    let mut s = bulk(TcpConfig { congestion: reno(), ..TcpConfig::default() });
    let mut flight = round(&mut s);
    for _ in 0..2 {
        acknowledge(&mut s, &flight);
        flight = round(&mut s);
    }
    let end = flight.last().expect("segments").end();
    for _ in 1..flight.len() {
        s.peer_ack(1, flight[0].seq);
    }
    let sent = s.take_sent();
    assert!(sent.iter().any(|segment| segment.seq == flight[0].seq), "a fast retransmission: {sent:?}");
    let end = sent.iter().map(Seg::end).max().expect("segments").max(end);
    s.peer_ack(1, end);
    let info = s.info();
    let ssthresh = info.ssthresh.expect("known after a loss");
    assert!(info.cwnd <= ssthresh + SMSS, "cwnd {} above ssthresh {ssthresh}", info.cwnd);
    let burst: u64 = s.take_sent().iter().map(|segment| u64::from(segment.len())).sum();
    assert!(burst <= ssthresh + SMSS, "a burst of {burst} bytes");
}

fn probe_times() -> (Vec<Duration>, Duration) {
    let mut s = Script::accepted(&Setup::default());
    s.update(|c, now| c.set_keepalive(now, Some(Keepalive::default()))).expect("in range");
    let start = s.now();
    let mut times = Vec::new();
    while s.error().is_none() {
        s.advance(Duration::from_secs(1));
        times.extend(s.take_sent().iter().map(|_| s.now().saturating_since(start)));
        assert!(s.now().saturating_since(start) < Duration::from_secs(20_000), "never given up");
    }
    (times, s.now().saturating_since(start))
}

#[test]
fn p09_keepalive_takes_eleven_minutes_to_give_up() {
    let (times, end) = probe_times();
    // Nine probes, 75 s after each.
    let took = end - times[0];
    assert!((9 * 75..=9 * 75 + 9).contains(&took.as_secs()), "{times:?} {end:?}");
}

// Tests: RFC 9293 MUST-19
#[test]
fn p10_timeout_is_backed_off_until_new_data_is_acknowledged() {
    let mut s = bulk(TcpConfig { congestion: reno(), ..TcpConfig::default() });
    let flight = round(&mut s);
    while s.info().timeouts < 4 {
        s.advance(Duration::from_millis(20));
    }
    let backed_off = s.info().rto;
    assert!(backed_off >= Duration::from_secs(2), "{backed_off:?}");
    s.take_sent();
    // A duplicate ACK says nothing new.
    s.peer_ack(1, 1);
    assert_eq!(s.info().rto, backed_off);
    // Karn: an ACK of retransmitted data gives no sample, and the backoff stays until one is possible.
    s.peer_ack(1, flight[0].end());
    assert!(s.info().srtt <= RTT * 2);
}

#[test]
fn p11_keepalive_probes_are_75_seconds_apart() {
    let (times, _) = probe_times();
    assert_eq!(times.len(), 10, "nine probes and the reset: {times:?}");
    for pair in times.windows(2) {
        assert!((75..=76).contains(&(pair[1] - pair[0]).as_secs()), "{times:?}");
    }
}

// Tests: RFC 9293 MUST-36
#[test]
fn p12_lost_window_update_does_not_deadlock() {
    let mut s = Script::accepted(&Setup { peer_window: 1_000, ..Setup::default() });
    s.write(1, 5_000);
    s.take_sent();
    s.peer(seg(ACK).seq(1).ack(1_001).window(0));
    // Data goes on in the other direction meanwhile.
    s.peer(seg(ACK).seq(1).ack(1_001).window(0).data(b"other way"));
    assert_eq!(s.read(20), b"other way");
    s.advance(Duration::from_millis(100));
    s.take_sent();
    for _ in 0..5 {
        let (_, probe) = s.wait(Duration::from_secs(100)).expect("probes go on");
        assert!(probe.payload.len() <= 1);
    }
    s.peer(seg(ACK).seq(10).ack(1_001).window(5_000));
    let sent: usize = s.take_sent().iter().map(|segment| segment.payload.len()).sum();
    assert!(sent > 1_000, "{sent}");
}

// Tests: RFC 9293 SHLD-19
#[test]
fn p13_acks_are_not_stretched_over_more_than_two_segments() {
    let mut s = Script::accepted(&Setup::default());
    let (mut acked, mut acks) = (1, 0);
    for i in 0..40 {
        let seq = 1 + 1_460 * i;
        s.peer(seg(ACK).seq(seq).ack(1).data(&pattern(seq, 1_460)));
        for ack in s.take_sent() {
            assert!(ack.ack - acked <= 2 * 1_460, "{} bytes in one ACK", ack.ack - acked);
            acked = ack.ack;
            acks += 1;
        }
        s.read(2_000);
    }
    assert!(acks >= 20, "{acks} ACKs for 40 segments");
}

// Tests: RFC 9293 SHLD-19
#[test]
fn p13_coalesced_packet_counts_as_the_segments_it_stands_for() {
    let mut s = Script::accepted(&Setup::default());
    let coalesced = |s: &mut Script, seq: u32, len: usize| {
        let packet = s.packet(seg(ACK).seq(seq).ack(1).data(&pattern(seq, len)));
        let segment_size = NonZeroU16::new(1_460);
        s.host.receive_as(&packet, RxMeta { checksum: ChecksumState::Complete, segment_size });
        s.peer_batch([]);
    };
    // One segment waits for a second, however it arrives.
    coalesced(&mut s, 1, 1_460);
    s.nothing();
    s.advance(Duration::from_millis(500));
    s.expect_ack(1_461);
    // Two in one packet do not, nor one and a half.
    coalesced(&mut s, 1_461, 2 * 1_460);
    s.expect_ack(1 + 3 * 1_460);
    coalesced(&mut s, 1 + 3 * 1_460, 2_000);
    s.expect_ack(1 + 3 * 1_460 + 2_000);
    s.nothing();
}

#[test]
fn p14_timeout_sends_one_segment() {
    let mut s = bulk(TcpConfig { congestion: reno(), ..TcpConfig::default() });
    let first = round(&mut s);
    acknowledge(&mut s, &first);
    let flight = round(&mut s);
    assert!(flight.len() > 10);
    while s.info().timeouts == 0 {
        s.take_sent();
        let timer = s.host.next_timeout().expect("a timer runs");
        s.advance(timer.saturating_since(s.now()));
    }
    let sent = s.take_sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].seq, flight[0].seq);
}

// Tests: RFC 9293 MUST-12
#[test]
fn p15_fin_is_told_together_with_the_data_before_it() {
    let mut s = Script::accepted(&Setup::default());
    s.readiness();
    s.peer(seg(FIN).seq(1).ack(1).data(b"bye"));
    assert!(s.readiness().readable);
    assert_eq!(s.read(10), b"bye");
    assert_eq!(s.try_read(), Ok(0));
    assert!(s.connection().is_read_closed());
}

// Tests: RFC 9293 SHLD-3
#[test]
fn p16_data_after_a_half_duplex_close_is_reset() {
    let mut s = Script::accepted(&Setup::default());
    s.release();
    s.take_sent();
    s.peer(seg(ACK).seq(1).ack(2).data(b"more"));
    assert!(s.sent().has(RST));
}

// Tests: RFC 9293 SHLD-3
#[test]
fn p17_close_with_unread_data_resets() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(ACK).seq(1).ack(1).data(b"unread"));
    s.take_sent();
    s.release();
    let reset = s.sent();
    assert!(reset.has(RST) && !reset.has(FIN), "{reset:?}");
}

// Tests: RFC 9293 MUST-16
#[test]
fn p18_options_are_part_of_the_segment_size() {
    let mut s = Script::accepted(&Setup { peer_options: modern_options(7), ..Setup::default() });
    for hole in 0..4 {
        s.peer(seg(ACK).seq(2_000 * (hole + 1)).ack(1).data(&[0; 100]));
    }
    s.take_sent();
    // The host refuses every packet over the MTU.
    s.stream(1, 100_000);
    let sent = s.take_sent();
    assert!(sent.len() > 5 && sent.iter().all(|segment| segment.timestamps().is_some()), "{sent:?}");
}
