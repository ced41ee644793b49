//! A receiver's answers, and when they leave: RFC 9293 §3.8.6.2.2, §3.8.6.3, §3.10.7.4.

use ackclock_core::profile::Choices;
use ackclock_core::{State, TcpConfig};
use ackclock_tests::script::{Script, Setup, pattern};
use ackclock_tests::segment::{ACK, PSH, RST, Seg, URG, seg};
use std::time::Duration;

/// A connection with a receive buffer of 8 KiB.
fn small_buffer() -> Script {
    let tcp = TcpConfig {
        receive_buffer_max: 8_192,
        choices: Choices { window_scaling: false, ..Choices::default() },
        ..TcpConfig::default()
    };
    Script::accepted(&Setup { tcp, ..Setup::default() })
}

/// The peer fills the receive window to its edge; returns its next sequence number.
fn fill(s: &mut Script) -> u32 {
    let mut seq = 1;
    while s.edge > seq {
        let len = (s.edge - seq).min(1_460);
        s.peer(seg(ACK).seq(seq).ack(1).data(&pattern(seq, len as usize)));
        seq += len;
        s.advance(Duration::from_millis(100));
    }
    s.take_sent();
    seq
}

fn full(number: u32) -> Seg {
    let seq = 1 + number * 1_460;
    seg(ACK).seq(seq).ack(1).data(&pattern(seq, 1_460))
}

// Tests: RFC 9293 MUST-39
#[test]
fn reading_byte_by_byte_does_not_open_the_window_byte_by_byte() {
    let mut s = small_buffer();
    let seq = fill(&mut s);
    let (mut edge, mut updates) = (s.edge, 0);
    for _ in 1..seq {
        assert_eq!(s.read(1).len(), 1);
        for update in s.take_sent() {
            let step = update.ack + u32::from(update.window) - edge;
            // The smaller of half the buffer and one segment.
            assert!(step >= 1_460, "an update by {step}");
            edge += step;
            updates += 1;
        }
    }
    assert!((1..=6).contains(&updates), "{updates} updates for an empty buffer");
}

// Tests: RFC 9293 MUST-40
// Tests: RFC 9293 SHLD-18
#[test]
fn lone_segments_are_acknowledged_late_but_within_40_ms() {
    let mut s = Script::accepted(&Setup::default());
    let mut delayed = 0;
    for i in 0..40 {
        let seq = 1 + 10 * i;
        s.peer(seg(ACK).seq(seq).ack(1).data(&pattern(seq, 10)));
        let sent = s.take_sent();
        let ack = if sent.is_empty() {
            delayed += 1;
            let (after, ack) = s.wait(Duration::from_millis(500)).expect("an ACK within half a second");
            assert!(after <= Duration::from_millis(41), "{after:?}");
            ack
        } else {
            assert_eq!(sent.len(), 1);
            sent[0].clone()
        };
        assert_eq!(ack.ack, seq + 10);
        s.read(10);
        s.take_sent();
        s.advance(Duration::from_millis(300));
    }
    assert!(delayed > 0, "no ACK was ever delayed");
}

// Tests: RFC 9293 SHLD-19
#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let mut s = Script::accepted(&Setup::default());
    let mut acked = 1;
    for i in 0..20 {
        s.peer(full(i));
        acked = s.take_sent().last().map_or(acked, |ack| ack.ack);
        assert!(1 + (i + 1) * 1_460 - acked < 2 * 1_460, "two segments unacknowledged after {i}");
    }
}

// Tests: RFC 9293 MUST-58
// Tests: RFC 9293 MUST-59
#[test]
fn segments_that_arrive_together_are_acknowledged_together() {
    let mut s = Script::accepted(&Setup::default());
    s.peer_batch((0..10).map(full));
    let acks = s.take_sent();
    assert!((1..=5).contains(&acks.len()), "{} ACKs for ten segments", acks.len());
    assert_eq!(acks.last().unwrap().ack, 14_601, "all were processed before the last ACK");
    assert_eq!(acks[0].ack, 14_601, "all were processed before the first ACK");
}

// Tests: RFC 9293 SHLD-31
// Tests: RFC 9293 MAY-13
#[test]
fn segments_out_of_order_are_held_and_acknowledged_at_once() {
    let mut s = Script::accepted(&Setup::default());
    for i in [1, 2, 4] {
        s.peer(full(i));
        s.expect_ack(1);
    }
    s.peer(full(0));
    s.expect_ack(1 + 3 * 1_460);
    s.peer(full(3));
    s.expect_ack(1 + 5 * 1_460);
    assert_eq!(s.read(10_000), pattern(1, 5 * 1_460));
}

// Tests: RFC 9293 SHLD-14
#[test]
fn smaller_receive_buffer_does_not_take_the_window_back() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(full(0));
    s.advance(Duration::from_millis(100));
    s.take_sent();
    let edge = s.edge;
    s.update(|c, _| c.set_receive_buffer_max(4_096));
    let mut seq = 1_461;
    while seq + 1_460 < edge {
        s.peer(seg(ACK).seq(seq).ack(1).data(&[0; 1_460]));
        seq += 1_460;
        s.advance(Duration::from_millis(50));
        for ack in s.take_sent() {
            assert!(ack.ack + u32::from(ack.window) >= edge, "the edge went back: {ack:?}");
        }
    }
    let mut read = 0;
    while !s.read(65_536).is_empty() {
        read += 1;
    }
    assert!(read > 0);
    assert_eq!(s.info().bytes_received, u64::from(seq - 1), "what was allowed is taken");
}

// Tests: RFC 9293 MUST-66
#[test]
fn reset_and_urgent_count_at_a_zero_window() {
    let mut s = small_buffer();
    let seq = fill(&mut s);
    s.readiness();
    s.peer(seg(ACK | URG).seq(seq).ack(1).urgent(10));
    assert!(s.readiness().urgent, "the urgent pointer at a closed window");
    s.peer(seg(RST).seq(seq));
    assert_eq!(s.state(), State::Closed);
}

// Tests: RFC 9293 MAY-8
#[test]
fn probes_of_our_closed_window_are_answered() {
    let mut s = small_buffer();
    let seq = fill(&mut s);
    for _ in 0..10 {
        s.advance(Duration::from_secs(60));
        s.peer(seg(ACK | PSH).seq(seq).ack(1).data(b"p"));
        let answer = s.expect_ack(seq);
        assert_eq!(answer.window, 0);
    }
    assert_eq!(s.read(100_000).len() as u32, seq - 1);
}

#[test]
fn data_of_a_duplicate_is_not_delivered_twice() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(ACK).seq(1).ack(1).data(b"abcdef"));
    s.peer(seg(ACK).seq(1).ack(1).data(b"abcdef"));
    s.peer(seg(ACK).seq(4).ack(1).data(b"defghi"));
    assert_eq!(s.read(100), b"abcdefghi");
    assert!(s.take_sent().iter().any(|ack| ack.ack == 7), "the duplicate is acknowledged");
}
