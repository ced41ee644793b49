//! When data is sent: RFC 9293 §3.7.4, §3.9.1.2, §3.8.6.2.1.

use std::time::Duration;

use ackclock_tests::script::{Script, Setup};
use ackclock_tests::segment::{ACK, FIN, Opt, PSH, Seg, seg};

use super::nodelay;

// Tests: RFC 9293 SHLD-7
// Tests: RFC 9293 MAY-16
#[test]
fn nagle_holds_a_small_segment_while_data_is_in_flight() {
    let mut s = Script::accepted(&Setup::default());
    s.write(1, 10);
    s.expect_data(1, 10);
    s.write(11, 10);
    s.write(21, 10);
    s.nothing();
    s.peer_ack(1, 11);
    s.expect_data(11, 20);
}

// Tests: RFC 9293 SHLD-7
#[test]
fn nagle_lets_full_segments_pass() {
    let mut s = Script::accepted(&Setup::default());
    s.write(1, 10);
    s.expect_data(1, 10);
    s.write(11, 1460 + 5);
    s.expect_data(11, 1460);
    s.nothing();
}

// Tests: RFC 9293 MUST-17
#[test]
fn nodelay_sends_small_segments_at_once() {
    let mut s = Script::accepted(&Setup::default());
    s.write(1, 10);
    s.expect_data(1, 10);
    s.write(11, 10);
    s.nothing();
    s.update(|c, now| c.set_nodelay(now, true));
    assert!(s.connection().nodelay());
    s.expect_data(11, 10);
    s.write(21, 10);
    s.expect_data(21, 10);
}

#[test]
fn cork_holds_partial_segments_for_200_ms_at_most() {
    let mut s = Script::accepted(&nodelay());
    s.update(|c, now| c.set_cork(now, true));
    s.write(1, 1460 + 10);
    s.expect_data(1, 1460);
    s.peer_ack(1, 1461);
    s.nothing();
    let (after, rest) = s.wait(Duration::from_secs(1)).expect("the rest, in the end");
    assert!(after <= Duration::from_millis(210), "{after:?}");
    assert_eq!((rest.seq, rest.payload.len()), (1461, 10));
    s.peer_ack(1, 1471);
    s.write(1471, 10);
    s.nothing();
    s.update(|c, now| c.set_cork(now, false));
    s.expect_data(1471, 10);
}

// Tests: RFC 9293 MUST-60
// Tests: RFC 9293 MUST-61
// Tests: RFC 9293 SHLD-27
#[test]
fn last_segment_of_what_is_buffered_is_pushed() {
    let mut s = Script::accepted(&Setup::default());
    for len in [1, 1460, 2 * 1460, 3 * 1460 + 7] {
        let mut s = Script::accepted(&Setup::default());
        s.write(1, len);
        let sent = s.take_sent();
        // Nagle may keep a rest; what empties the buffer is pushed, and nothing stays there for good.
        let whole: usize = sent.iter().map(|segment| segment.payload.len()).sum();
        let mut last = sent.last().cloned().expect("something was sent");
        if whole < len {
            s.peer_ack(1, 1 + whole as u32);
            last = s.sent();
        }
        assert!(last.has(PSH), "{len} bytes: {last:?}");
        assert_eq!(last.end() as usize, 1 + len);
    }
    // Pushes of single writes are one in a segment that holds them all.
    s.write(1, 1);
    s.expect_data(1, 1);
    for i in 0..100 {
        s.write(2 + i * 14, 14);
    }
    s.peer_ack(1, 2);
    let segment = s.expect_data(2, 1400);
    assert!(segment.has(PSH));
}

#[test]
fn device_that_cuts_nothing_gets_no_large_packets() {
    for mss in [216, 500, 700, 1_000] {
        let mut s = Script::accepted(&Setup { peer_options: vec![Opt::Mss(mss)], ..Setup::default() });
        // `Limits`: at most the MTU means that none are made.
        s.host.gso_max = s.host.mtu();
        s.write(1, 5_000);
        s.expect_data(1, usize::from(mss));
    }
}

// Tests: RFC 9293 SHLD-28
#[test]
fn many_small_writes_leave_in_full_segments() {
    let mut s = Script::accepted(&Setup::default());
    for i in 0..14_600 {
        s.write(1 + i, 1);
    }
    let mut sent = s.take_sent();
    while sent.last().expect("something is under way").end() < 14_601 {
        s.peer_ack(1, sent.last().unwrap().end());
        sent.extend(s.take_sent());
    }
    let payload: usize = sent.iter().map(|segment| segment.payload.len()).sum();
    assert_eq!(payload, 14_600);
    assert!(sent.len() <= 13, "{} segments for ten full ones", sent.len());
}

// Tests: RFC 9293 MUST-38
#[test]
fn window_that_opens_by_bytes_gets_no_small_segments() {
    let mut s = Script::accepted(&Setup { peer_window: 2_000, ..nodelay() });
    s.write(1, 10_000);
    s.expect_data(1, 1460);
    // RFC 9293 §3.8.6.2.1: 540 bytes of usable window are neither a full segment nor half the largest window.
    s.nothing();
    // Each ACK moves the right edge by one byte only: one byte of window for each acknowledged one would be
    // the syndrome.
    s.peer(seg(ACK).seq(1).ack(1461).window(540));
    let mut small = s.take_sent();
    for opened in 1..300 {
        s.peer(seg(ACK).seq(1).ack(1461).window(540 + opened));
        small.extend(s.take_sent());
    }
    assert_eq!(small, [], "silly segments");
    // Half of the largest window that the peer ever offered is enough.
    s.peer(seg(ACK).seq(1).ack(1461).window(1_100));
    let sent = s.sent();
    assert_eq!((sent.seq, sent.payload.len()), (1461, 1_100));
}

// Tests: RFC 9293 MUST-38
// Tests: RFC 9293 MUST-60
#[test]
fn small_usable_window_is_used_in_the_end() {
    let mut s = Script::accepted(&Setup { peer_window: 2_000, ..nodelay() });
    s.write(1, 5_000);
    s.expect_data(1, 1460);
    s.nothing();
    s.peer(seg(ACK).seq(1).ack(1461).window(300));
    // §3.8.6.2.1: the override timer, 0.1 to 1 s; a persist timer of one RTO does as well.
    let (after, segment) = s.wait(Duration::from_secs(5)).expect("no deadlock");
    assert!(after <= Duration::from_millis(1_500), "{after:?}");
    assert_eq!(segment.seq, 1461);
    assert!(!segment.payload.is_empty() && segment.payload.len() <= 300, "{segment:?}");
}

#[test]
fn fin_rides_on_the_last_data_or_follows_it() {
    let mut s = Script::accepted(&Setup::default());
    s.write(1, 100);
    s.shutdown();
    let sent = s.take_sent();
    assert!(sent.last().is_some_and(|segment| segment.has(FIN) && segment.end() == 102), "{sent:?}");
}

// Tests: RFC 9293 MAY-18
#[test]
fn default_controller_is_cubic() {
    assert_eq!(Script::accepted(&Setup::default()).info().congestion, "cubic");
}

// Tests: RFC 9293 MUST-16
#[test]
fn sack_blocks_on_data_segments_leave_room_for_themselves() {
    let peer_options = vec![Opt::Mss(1460), Opt::SackPermitted, Opt::Timestamps(1, 0)];
    let mut s = Script::accepted(&Setup { peer_options, ..Setup::default() });
    for hole in 0..3 {
        let segment: Seg = seg(ACK).seq(1_001 + 2_000 * hole).ack(1).data(&[0; 500]);
        s.peer(segment);
    }
    s.take_sent();
    // The host refuses any packet over the MTU.
    s.write(1, 10_000);
    let sent = s.take_sent();
    assert!(sent.iter().map(|segment| segment.payload.len()).sum::<usize>() >= 8_000, "{sent:?}");
}
