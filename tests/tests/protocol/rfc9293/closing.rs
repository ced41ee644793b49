//! Closing and resetting: RFC 9293 §3.5.3, §3.6, Appendix A.2.

use std::time::Duration;

use ackclock_core::{ConnectError, ConnectionError, ReadError, State, WriteError};
use ackclock_tests::script::{Script, Setup, modern_options, peer_syn};
use ackclock_tests::segment::{ACK, FIN, Opt, PSH, RST, SYN, seg};

/// The endpoint closes first, the peer answers; returns with the connection in TIME-WAIT.
fn in_time_wait(setup: &Setup) -> Script {
    let mut s = Script::accepted(setup);
    s.shutdown();
    assert!(s.sent().has(FIN));
    s.peer_ack(1, 2);
    assert_eq!(s.state(), State::FinWait2);
    s.peer(seg(FIN).seq(1).ack(2));
    s.expect_ack(2);
    assert_eq!(s.state(), State::TimeWait);
    s
}

// Tests: RFC 9293 MUST-12
#[test]
fn fin_is_the_end_of_the_stream_and_a_reset_is_an_error() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(FIN | PSH).seq(1).ack(1).data(b"last"));
    s.expect_ack(6);
    assert_eq!(s.read(10), b"last");
    assert_eq!(s.try_read(), Ok(0));
    assert_eq!(s.try_read(), Ok(0));
    assert_eq!((s.state(), s.error()), (State::CloseWait, None));

    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(RST).seq(1));
    let reset = ConnectionError::Reset;
    assert_eq!(s.try_read(), Err(ReadError::Connection(reset)));
    assert_eq!(
        s.update(|c, now| c.write(now, b"x")),
        Err(WriteError::Shutdown),
        "the reader has taken the error"
    );
    assert!(s.readiness().closed);
    s.nothing();
}

#[test]
fn passive_close_goes_through_close_wait_and_last_ack() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(FIN).seq(1).ack(1));
    s.expect_ack(2);
    assert_eq!(s.state(), State::CloseWait);
    // Half close: this side still sends.
    s.write(1, 100);
    s.expect_data(1, 100);
    s.peer_ack(2, 101);
    s.shutdown();
    let fin = s.sent();
    assert_eq!((fin.flags & (FIN | ACK), fin.seq, fin.ack), (FIN | ACK, 101, 2));
    assert_eq!(s.state(), State::LastAck);
    s.peer_ack(2, 102);
    assert_eq!(s.state(), State::Closed);
    assert!(s.connection().is_flushed());
    assert_eq!(s.error(), None);
}

// Tests: RFC 9293 MUST-13
#[test]
fn active_closer_lingers_for_two_segment_lifetimes() {
    let mut s = in_time_wait(&Setup::default());
    s.advance(Duration::from_secs(59));
    assert_eq!(s.state(), State::TimeWait);
    let (local, remote) = (s.local, s.remote);
    let again = s.host.endpoint.connect(s.host.now, remote, (Some(local.ip()), local.port()), None);
    assert_eq!(again, Err(ConnectError::AddressInUse(remote)));
    s.advance(Duration::from_secs(2));
    assert_eq!(s.state(), State::Closed);
    s.nothing();
    s.release();
    s.host.endpoint.connect(s.host.now, remote, (Some(local.ip()), local.port()), None).expect("free again");
}

// Tests: RFC 9293 MUST-13
#[test]
fn repeated_fin_restarts_the_wait() {
    let mut s = in_time_wait(&Setup::default());
    s.advance(Duration::from_secs(50));
    s.peer(seg(FIN).seq(1).ack(2));
    s.expect_ack(2);
    s.advance(Duration::from_secs(50));
    assert_eq!(s.state(), State::TimeWait);
    s.advance(Duration::from_secs(11));
    assert_eq!(s.state(), State::Closed);
}

// Tests: RFC 9293 MUST-13
#[test]
fn time_wait_goes_on_when_the_application_has_let_go() {
    let mut s = in_time_wait(&Setup::default());
    s.release();
    s.nothing();
    s.advance(Duration::from_secs(10));
    s.peer(seg(FIN).seq(1).ack(2));
    s.expect_ack(2);
    s.advance(Duration::from_secs(61));
    // The connection is gone: what arrives now belongs to none.
    s.peer(seg(FIN).seq(1).ack(2));
    s.expect_rst(2);
}

// Tests: RFC 9293 SHLD-4
// Tests: RFC 9293 MAY-2
#[test]
fn newer_timestamp_opens_a_connection_out_of_time_wait() {
    let setup = Setup { peer_options: modern_options(0), ..Setup::default() };
    let with_ts = |seq, val| seg(SYN).seq(seq).opt(Opt::Mss(1460)).opt(Opt::Timestamps(val, 0));
    // An older sequence number and an older timestamp: a duplicate.
    let mut s = in_time_wait(&setup);
    s.release();
    s.peer(with_ts(0_u32.wrapping_sub(500), 900));
    assert!(!s.take_sent().iter().any(|answer| answer.has(SYN)), "an old SYN opened a connection");
    // RFC 6191 §2: a newer timestamp is enough, whatever the sequence number.
    s.peer(with_ts(0_u32.wrapping_sub(500), 5_000));
    let answer = s.sent();
    assert!(answer.has(SYN | ACK), "{answer:?}");
    assert_eq!(answer.ack, 0_u32.wrapping_sub(499));
}

// Tests: RFC 9293 SHLD-3
// Tests: RFC 9293 MAY-1
#[test]
fn letting_go_of_unread_data_resets() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(PSH).seq(1).ack(1).data(b"never read"));
    s.take_sent();
    s.release();
    s.expect_rst(1);
    s.advance(Duration::from_secs(200));
    s.nothing();
}

// Tests: RFC 9293 SHLD-3
#[test]
fn data_for_an_application_that_has_gone_is_reset() {
    let mut s = Script::accepted(&Setup::default());
    s.release();
    assert!(s.sent().has(FIN));
    s.peer_ack(1, 2);
    s.peer(seg(PSH).seq(1).ack(2).data(b"anyone?"));
    assert!(s.sent().has(RST));
}

// Tests: RFC 9293 SHLD-2
#[test]
fn reset_may_carry_data_which_is_not_delivered() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(RST).seq(1).data(b"no such service"));
    assert_eq!(s.error(), Some(ConnectionError::Reset));
    assert_eq!(s.try_read(), Err(ReadError::Connection(ConnectionError::Reset)));
    s.nothing();
}

#[test]
fn abort_sends_a_reset_that_the_peer_will_accept() {
    let mut s = Script::accepted(&Setup::default());
    s.write(1, 10);
    s.expect_data(1, 10);
    s.peer_ack(1, 11);
    s.abort();
    s.expect_rst(11);
    assert_eq!((s.state(), s.error()), (State::Closed, Some(ConnectionError::Aborted)));
    s.advance(Duration::from_secs(100));
    s.nothing();
}

// RFC 9293 Appendix A.2; draft-gont-tcpm-tcp-seq-validation.
#[test]
fn simultaneous_close_does_not_become_a_packet_war() {
    let mut s = Script::accepted(&Setup::default());
    s.shutdown();
    assert!(s.sent().has(FIN));
    s.peer(seg(FIN).seq(1).ack(1));
    s.expect_ack(2);
    assert_eq!(s.state(), State::Closing);
    // The peer has seen our FIN, too; its sequence number is that of its own FIN still.
    s.peer(seg(FIN).seq(1).ack(2));
    assert!(s.take_sent().len() <= 1, "one answer at most");
    s.peer_ack(2, 2);
    assert_eq!(s.state(), State::TimeWait);
    assert!(s.take_sent().len() <= 1, "one answer at most");
}

// RFC 9293 Appendix A.2: an endpoint that meets itself.
#[test]
fn connection_to_itself_opens_or_fails_but_ends() {
    let mut s = Script::closed(&Setup::default());
    let local = s.local;
    let now = s.host.now;
    let Ok(conn) = s.host.endpoint.connect(now, local, (Some(local.ip()), local.port()), None) else {
        return;
    };
    let mut packets = 0;
    for _ in 0..100 {
        let frames = s.host.transmit();
        packets += frames.len();
        frames.iter().for_each(|frame| s.host.receive(&frame.to_bytes()));
    }
    assert!(packets <= 10, "{packets} packets without time passing");
    assert!(s.host.endpoint.connection(conn).is_some());
}

// RFC 9293 §3.5.1, Figure 9: one end has crashed and forgotten.
#[test]
fn half_open_connection_is_found_out_by_the_answer_to_a_syn() {
    let setup = Setup::default();
    let mut s = Script::accepted(&setup);
    s.peer(peer_syn(&setup).seq(3_000_000));
    // The challenge ACK shows the peer, which knows nothing, what to reset.
    let challenge = s.expect_ack(1);
    s.peer(seg(RST).seq(challenge.ack));
    assert_eq!(s.error(), Some(ConnectionError::Reset));
}
