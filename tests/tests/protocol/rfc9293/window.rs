//! The peer's window: it shrinks, closes, stays closed, opens (RFC 9293 §3.8.6).

use std::time::Duration;

use ackclock_core::State;
use ackclock_tests::script::{Script, Setup};
use ackclock_tests::segment::{ACK, FIN, seg};

use super::nodelay;

/// The peer's window has closed with data left to send.
fn closed_window() -> Script {
    let mut s = Script::accepted(&Setup { peer_window: 1_000, ..nodelay() });
    s.write(1, 5_000);
    s.expect_data(1, 1_000);
    s.peer(seg(ACK).seq(1).ack(1_001).window(0));
    s.nothing();
    s
}

// Tests: RFC 9293 MUST-34
// Tests: RFC 9293 SHLD-15
// Tests: RFC 9293 SHLD-16
// Tests: RFC 9293 SHLD-17
// Tests: RFC 9293 MAY-7
#[test]
fn shrunken_window_stops_new_data_and_keeps_old_data_inside() {
    for shrunk in [0_u16, 1, 999, 1_000, 1_459, 4_000] {
        let mut s = Script::accepted(&Setup { peer_window: 5_000, ..nodelay() });
        s.write(1, 20_000);
        let sent: usize = s.take_sent().iter().map(|segment| segment.payload.len()).sum();
        assert!((4_000..=5_000).contains(&sent), "{sent}");
        s.peer(seg(ACK).seq(1).ack(1).window(shrunk));
        s.nothing();
        let mut repeated = 0;
        while let Some((_, segment)) = s.wait(Duration::from_secs(8)) {
            repeated += 1;
            // One byte beyond is a probe.
            let beyond = segment.end().saturating_sub(1 + u32::from(shrunk));
            assert!(beyond <= 1, "window {shrunk}: {segment:?}");
        }
        assert!(repeated > 0, "neither retransmission nor probe in 8 s");
        assert_eq!(s.state(), State::Established);
        // It opens again, and all goes on.
        s.peer(seg(ACK).seq(1).ack(1).window(30_000));
        let mut acked = 1;
        for _ in 0..200 {
            let highest = s.take_sent().iter().map(|segment| segment.end()).max();
            acked = highest.unwrap_or(acked).max(acked);
            s.peer(seg(ACK).seq(1).ack(acked).window(30_000));
            if acked == 20_001 {
                break;
            }
            s.advance(Duration::from_millis(300));
        }
        assert_eq!(acked, 20_001, "window {shrunk}: the transfer did not go on");
    }
}

// Tests: RFC 9293 MUST-35
#[test]
fn window_shrunk_to_nothing_is_probed() {
    let mut s = Script::accepted(&Setup { peer_window: 5_000, ..nodelay() });
    s.write(1, 20_000);
    let sent = s.take_sent().last().expect("data").end();
    s.peer(seg(ACK).seq(1).ack(sent).window(0));
    // The update that opens it again is lost: only a probe finds out.
    let (_, probe) = s.wait(Duration::from_secs(5)).expect("a probe");
    assert!(probe.payload.len() <= 1, "{probe:?}");
    s.peer(seg(ACK).seq(1).ack(sent).window(10_000));
    let sent: usize = s.take_sent().iter().map(|segment| segment.payload.len()).sum();
    assert!(sent > 1_000, "{sent} bytes into an open window");
}

// Tests: RFC 9293 MUST-36
// Tests: RFC 9293 SHLD-29
// Tests: RFC 9293 SHLD-30
#[test]
fn zero_window_is_probed_after_one_rto_and_then_ever_more_rarely() {
    let mut s = closed_window();
    let rto = s.info().rto;
    let mut gaps = Vec::new();
    for _ in 0..12 {
        let (gap, probe) = s.wait(Duration::from_secs(200)).expect("a probe");
        assert!(probe.payload.len() <= 1, "{probe:?}");
        assert!(probe.seq == 1_001 || (probe.payload.is_empty() && probe.seq == 1_000), "{probe:?}");
        s.peer(seg(ACK).seq(1).ack(1_001).window(0));
        gaps.push(gap);
    }
    assert!(
        gaps[0] >= rto * 9 / 10 && gaps[0] <= rto * 11 / 10 + Duration::from_millis(50),
        "{rto:?} {gaps:?}"
    );
    for pair in gaps.windows(2) {
        assert!(pair[1] >= pair[0] * 19 / 10 || pair[1] >= Duration::from_secs(60), "no backoff: {gaps:?}");
    }
    assert!(gaps.iter().all(|gap| *gap <= Duration::from_secs(121)), "{gaps:?}");
}

// Tests: RFC 9293 MUST-37
// Tests: RFC 9293 MAY-8
#[test]
fn connection_stays_open_at_a_zero_window_for_a_day() {
    let mut s = closed_window();
    let end = s.now() + Duration::from_secs(24 * 3_600);
    while s.now() < end {
        let (_, probe) = s.wait(Duration::from_secs(300)).expect("probes go on");
        assert!(probe.payload.len() <= 1, "{probe:?}");
        s.peer(seg(ACK).seq(1).ack(1_001).window(0));
    }
    assert_eq!((s.state(), s.error()), (State::Established, None));
    s.peer(seg(ACK).seq(1).ack(1_001).window(10_000));
    let sent: usize = s.take_sent().iter().map(|segment| segment.payload.len()).sum();
    assert!(sent > 1_000, "{sent} bytes into an open window");
}

#[test]
fn probe_that_is_accepted_moves_the_connection_on() {
    let mut s = closed_window();
    let (_, probe) = s.wait(Duration::from_secs(5)).expect("a probe");
    s.peer(seg(ACK).seq(1).ack(1_001 + probe.payload.len() as u32).window(5_000));
    let next = s.sent();
    assert_eq!(next.seq, 1_001 + probe.payload.len() as u32);
}

// The last byte is the probe: a FIN at once would take the second number beyond the closed window.
#[test]
fn fin_behind_a_window_probe_waits_for_the_answer() {
    let mut s = Script::accepted(&Setup { peer_window: 1_000, ..nodelay() });
    s.write(1, 1_001);
    s.expect_data(1, 1_000);
    s.peer(seg(ACK).seq(1).ack(1_001).window(0));
    s.take_sent();
    s.shutdown();
    let (_, probe) = s.wait(Duration::from_secs(5)).expect("a probe");
    assert_eq!((probe.seq, probe.payload.len(), probe.has(FIN)), (1_001, 1, false), "{probe:?}");
    assert!(s.take_sent().iter().all(|segment| !segment.has(FIN)), "the window is closed");
    s.peer(seg(ACK).seq(1).ack(1_002).window(5_000));
    let fin = s.sent();
    assert_eq!((fin.seq, fin.payload.len(), fin.has(FIN)), (1_002, 0, true), "{fin:?}");
}

// RFC 9293 Appendix A.2: both ends probe each other's closed window at once.
#[test]
fn simultaneous_zero_window_probes_end_when_a_window_opens() {
    let mut setup = nodelay();
    setup.peer_window = 1_000;
    setup.tcp.receive_buffer_max = 4_096;
    setup.tcp.choices.window_scaling = false;
    let mut s = Script::accepted(&setup);
    s.write(1, 5_000);
    s.expect_data(1, 1_000);
    let mut seq = 1;
    while s.edge > seq {
        let len = (s.edge - seq).min(1_000);
        s.peer(seg(ACK).seq(seq).ack(1).window(1_000).data(&vec![1; len as usize]));
        seq += len;
        s.advance(Duration::from_millis(50));
        s.take_sent();
    }
    s.peer(seg(ACK).seq(seq).ack(1_001).window(0));
    s.take_sent();
    // The peer's probe, one byte beyond our window, carries news in its ACK field and window.
    s.peer(seg(ACK).seq(seq).ack(1_001).window(2_000).data(b"p"));
    let sent = s.take_sent();
    assert!(sent.len() <= 3, "a packet war: {sent:?}");
    assert!(sent.iter().any(|segment| !segment.payload.is_empty()), "the open window was not seen: {sent:?}");
}

#[test]
fn segment_older_than_the_last_window_update_does_not_change_the_window() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(ACK).seq(1).ack(1).window(5_000).data(b"new"));
    assert_eq!(s.info().snd_wnd, 5_000);
    // RFC 9293 §3.10.7.4: SND.WL1 < SEG.SEQ, or equal and SND.WL2 =< SEG.ACK.
    s.peer(seg(ACK).seq(1).ack(1).window(9));
    assert_eq!(s.info().snd_wnd, 5_000);
}

/// RFC 9293 MUST-35, MUST-38: a cork neither keeps a closed window from being probed nor a small one from
/// being used.
#[test]
fn data_that_a_cork_held_back_is_not_stuck_behind_a_small_window() {
    for window in [0, 100] {
        for close in [false, true] {
            let mut s = Script::accepted(&Setup::default());
            s.peer(seg(ACK).seq(1).ack(1).window(window));
            s.update(|c, now| c.set_cork(now, true));
            s.write(1, 5_000);
            if close {
                s.shutdown();
            }
            let sent = s.wait(Duration::from_secs(5));
            let len = sent.map(|(_, segment)| segment.payload.len());
            assert_eq!(len, Some(usize::from(window.max(1))), "window {window}, closed {close}");
        }
    }
}
