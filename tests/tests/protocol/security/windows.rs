//! C5 to C7 and C20: windows that shrink, open in crumbs or are never announced, and sequence numbers that
//! wrap.

use ackclock_core::profile::Choices;
use ackclock_core::{Instant, TcpConfig};
use ackclock_tests::script::{Script, Setup, modern_options, pattern};
use ackclock_tests::segment::{ACK, PSH, Seg, seg};
use std::time::Duration;

/// Acknowledges in order what arrives until `end`, with a window of 60,000, and checks each byte.
fn take_all(s: &mut Script, mut next: u32, end: u32) {
    for _ in 0..2_000 {
        if next == end {
            return;
        }
        for segment in s.take_sent() {
            assert_eq!(segment.payload, pattern(segment.seq, segment.payload.len()));
            if (segment.seq..=segment.end()).contains(&next) {
                next = segment.end();
            }
        }
        s.peer(seg(ACK).seq(1).ack(next).window(60_000));
        s.advance(Duration::from_millis(20));
    }
    panic!("{} bytes did not arrive", end - next);
}

#[test]
fn sec_c5_right_edge_that_moves_back_loses_nothing() {
    // RFC 9293 §3.8.6, MUST-34: a sender is robust against a window that shrinks.
    for shrunk_to in [0_u16, 1, 1_460, 5_000, 59_999] {
        let mut s = Script::accepted(&Setup { peer_window: 60_000, ..Setup::default() });
        s.stream(1, 400_000);
        let flight = s.take_sent();
        let acked = flight[0].end();
        s.peer(seg(ACK).seq(1).ack(acked).window(shrunk_to));
        let edge = acked + u32::from(shrunk_to);
        let highest = flight.last().unwrap().end();
        for segment in s.take_sent() {
            let new = segment.end() > highest;
            assert!(!new || segment.end() <= edge, "{shrunk_to}: new data {segment:?} beyond {edge}");
        }
        take_all(&mut s, acked, 400_001);
        assert_eq!(s.info().bytes_acked, 400_000, "{shrunk_to}");
    }
}

#[test]
fn sec_c6_window_that_is_read_byte_by_byte_opens_by_segments() {
    // RFC 9293 §3.8.6.2.2: the edge moves by at least min(MSS, half the buffer) at a time.
    let tcp = TcpConfig {
        receive_buffer_max: 8_192,
        choices: Choices { window_scaling: false, ..Choices::default() },
        ..TcpConfig::default()
    };
    let mut s = Script::accepted(&Setup { tcp, ..Setup::default() });
    let mut seq = 1;
    while seq < s.edge {
        let len = (s.edge - seq).min(1_460);
        s.peer(seg(ACK | PSH).seq(seq).ack(1).data(&pattern(seq, len as usize)));
        seq += len;
        s.advance(Duration::from_millis(300));
    }
    s.take_sent();
    let (full, mut edge, mut updates) = (s.edge, s.edge, 0);
    for at in 1..seq {
        assert_eq!(s.read(1), pattern(at, 1));
        updates += s.take_sent().len() as u32;
        assert!(s.edge == edge || s.edge - edge >= 1_460, "the edge moved by {}", s.edge - edge);
        edge = s.edge;
    }
    let opened = edge - full;
    // An unprompted update is due when it doubles the window; the rest goes with the next acknowledgement.
    assert!((full / 2..full).contains(&opened), "{opened} bytes of {} opened", full - 1);
    assert!((1..=opened / 1_460).contains(&updates), "{updates} updates for {opened} bytes");
}

#[test]
fn sec_c7_lost_window_update_is_found_by_a_probe() {
    // RFC 9293 §3.8.6.1: the first probe is due one retransmission timeout after the window closed.
    let mut s = Script::accepted(&Setup { peer_options: modern_options(0), ..Setup::default() });
    s.peer(seg(ACK).seq(1).ack(1).window(0));
    s.write(1, 10_000);
    s.nothing();
    let rto = s.info().rto;
    // The peer's window is open from here on, and the segment that said so is lost.
    let (waited, probe) = s.wait(Duration::from_secs(60)).expect("a probe");
    assert!(waited >= rto && waited <= rto * 2, "{waited:?} with an RTO of {rto:?}");
    s.peer(seg(ACK).seq(1).ack(probe.end()).window(60_000));
    // All full segments at once; Nagle's algorithm holds the short one back until they are acknowledged.
    let full: Vec<Seg> = s.take_sent();
    assert_eq!(full.iter().map(|segment| segment.payload.len()).collect::<Vec<_>>(), [1_448; 6]);
    s.peer(seg(ACK).seq(1).ack(full[5].end()).window(60_000));
    assert_eq!(s.sent().end(), 10_001);
}

/// A start at which the endpoint's initial sequence number is `wanted`: it moves by one in 4 µs
/// (RFC 9293 §3.4.1).
fn start_with_iss(wanted: u32) -> Instant {
    let setup = Setup::default();
    let iss = Script::accepted(&setup).iss.expect("a SYN-ACK was sent");
    setup.start + Duration::from_micros(4) * wanted.wrapping_sub(iss)
}

#[test]
fn sec_c20_streams_pass_the_wrap_and_the_middle_of_the_sequence_space() {
    for middle in [0_u32, 1 << 31] {
        for before in [1, 2, 1_000, 70_000] {
            let (iss, irs) = (middle.wrapping_sub(before), middle.wrapping_sub(before));
            let start = start_with_iss(iss);
            let mut s = Script::accepted(&Setup {
                irs,
                start,
                peer_window: 60_000,
                peer_options: modern_options(0),
                ..Setup::default()
            });
            let distance = s.iss.expect("a SYN-ACK was sent").wrapping_sub(iss);
            assert!(distance <= 1, "the sequence number starts {distance} off");
            s.stream(1, 150_000);
            take_all(&mut s, 1, 150_001);
            let mut seq = 1;
            while seq < 150_001 {
                // Each pair arrives in the wrong order, so reassembly passes the boundary too.
                let (first, second) = (pattern(seq, 1_000), pattern(seq + 1_000, 1_000));
                s.peer(seg(ACK).seq(seq + 1_000).ack(150_001).data(&second));
                s.peer(seg(ACK).seq(seq).ack(150_001).data(&first));
                assert_eq!(s.read(4_000), [first, second].concat(), "{middle:#x} {before} {seq}");
                seq += 2_000;
            }
        }
    }
}
