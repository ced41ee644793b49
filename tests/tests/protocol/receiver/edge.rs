//! A bare acknowledgement at RCV.NXT + RCV.WND: the peer has filled the window, and its data has not arrived
//! yet. By RFC 9293 §3.4 the window ends before that number; Linux processes the acknowledgement.

use ackclock_core::profile::Choices;
use ackclock_core::{State, TcpConfig};
use ackclock_tests::script::{Script, Setup, peer_syn};
use ackclock_tests::segment::{ACK, FIN, RST, SYN, seg};
use std::time::Duration;

/// A connection with a window of 8 KiB and data in flight, and the window's edge.
fn sending() -> (Script, u32) {
    let tcp = TcpConfig {
        receive_buffer_max: 8_192,
        choices: Choices { window_scaling: false, ..Choices::default() },
        ..TcpConfig::default()
    };
    let mut s = Script::accepted(&Setup { tcp, ..Setup::default() });
    s.write(1, 1_000);
    s.take_sent();
    let edge = s.edge;
    (s, edge)
}

#[test]
fn both_ends_fill_the_windows_and_neither_waits_for_a_timer() {
    let (mut s, edge) = sending();
    s.peer(seg(ACK).seq(edge).ack(1_001).window(500));
    s.nothing();
    assert_eq!((s.info().unacked, s.info().snd_wnd), (0, 500));
    // The data arrives after all.
    s.peer(seg(ACK).seq(1).ack(1_001).data(&vec![7; edge as usize - 1]));
    assert_eq!(s.read(10_000).len(), edge as usize - 1);
}

#[test]
fn nothing_else_is_taken_at_the_edge_and_nothing_beyond_it() {
    let (_, edge) = sending();
    for segment in [
        seg(ACK).seq(edge + 1).ack(1_001),
        seg(ACK).seq(edge).ack(1_001).data(b"x"),
        seg(ACK | FIN).seq(edge).ack(1_001),
        seg(RST | ACK).seq(edge).ack(1_001),
        seg(SYN | ACK).seq(edge).ack(1_001),
        seg(0).seq(edge),
    ] {
        let (mut s, _) = sending();
        s.peer(segment.clone());
        assert_eq!((s.info().unacked, s.state()), (1_000, State::Established), "{segment:?}");
        let answers = if segment.has(RST) { 0 } else { 1 };
        assert_eq!(s.take_sent().len(), answers, "{segment:?}");
    }
}

#[test]
fn handshake_is_completed_and_time_wait_kept_quiet_by_it() {
    let setup = Setup::default();
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    let window = u32::from(s.sent().window);
    s.peer(seg(ACK).seq(1 + window).ack(1));
    s.accept();
    s.nothing();
    s.shutdown();
    s.take_sent();
    s.peer(seg(FIN).seq(1).ack(2));
    let window = u32::from(s.sent().window);
    assert_eq!(s.state(), State::TimeWait);
    s.release();
    s.advance(Duration::from_secs(1));
    s.peer(seg(ACK).seq(2 + window).ack(2));
    s.nothing();
    s.peer(seg(ACK).seq(3 + window).ack(2));
    s.expect_ack(2);
}
