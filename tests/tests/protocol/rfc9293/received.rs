//! Data received in order stays readable, however the connection ended; the reason is reported after it,
//! never before.

use std::time::Duration;

use ackclock_core::{ConnectionError, Keepalive, ReadError, State, TcpConfig, WriteError};
use ackclock_tests::script::{Script, Setup, peer_syn};
use ackclock_tests::segment::{ACK, FIN, PSH, RST, seg};

fn reset() -> Result<usize, ReadError> {
    Err(ReadError::Connection(ConnectionError::Reset))
}

/// An accepted connection with ten unread bytes.
fn with_ten_bytes(tcp: TcpConfig) -> Script {
    let mut s = Script::accepted(&Setup { tcp, ..Setup::default() });
    s.peer(seg(PSH).seq(1).ack(1).data(b"0123456789"));
    s.advance(Duration::from_millis(100));
    s.take_sent();
    s.readiness();
    s
}

#[test]
fn what_came_before_a_reset_is_read_to_its_last_byte_and_then_the_reset() {
    let mut s = with_ten_bytes(TcpConfig::default());
    s.peer(seg(RST).seq(11));
    assert_eq!((s.state(), s.error()), (State::Closed, Some(ConnectionError::Reset)));
    let told = s.readiness();
    assert!(told.readable && told.writable && told.closed);
    assert!(s.connection().is_readable() && !s.connection().is_read_closed());
    assert_eq!((s.connection().readable(), s.info().receive_queue), (10, 10));
    assert_eq!(s.connection().peek(&mut [0; 64]), Ok(10));
    assert_eq!(s.read(4), b"0123");
    assert_eq!(s.read(64), b"456789");
    assert!(s.connection().is_readable() && s.connection().is_read_closed());
    assert_eq!(s.connection().peek(&mut [0]), reset());
    // The reason stays.
    assert_eq!([s.try_read(), s.try_read()], [reset(), reset()]);
    s.nothing();
}

#[test]
fn data_and_reset_of_one_batch_are_told_apart() {
    let mut s = Script::accepted(&Setup::default());
    s.peer_batch([seg(PSH).seq(1).ack(1).data(b"last words"), seg(RST).seq(11)]);
    assert_eq!(s.read(64), b"last words");
    assert_eq!(s.try_read(), reset());
    // The acknowledgement that was due would have no receiver.
    s.nothing();
}

#[test]
fn after_its_own_close_an_end_still_reads_what_came_before_the_reset() {
    for acknowledged in [false, true] {
        let mut s = Script::accepted(&Setup::default());
        s.shutdown();
        s.take_sent();
        if acknowledged {
            s.peer_ack(1, 2);
        }
        s.peer(seg(PSH).seq(1).ack(1).data(b"late"));
        let state = if acknowledged { State::FinWait2 } else { State::FinWait1 };
        assert_eq!(s.state(), state);
        s.peer(seg(RST).seq(5));
        assert_eq!(s.read(64), b"late");
        assert_eq!(s.try_read(), reset());
    }
}

// RFC 9293 MUST-12: the peer's FIN arrived before its reset, so the stream is complete, and read as such.
#[test]
fn a_stream_that_had_ended_before_the_reset_is_read_to_its_end() {
    let mut s = with_ten_bytes(TcpConfig::default());
    s.peer(seg(FIN).seq(11).ack(1));
    s.expect_ack(12);
    s.peer(seg(RST).seq(12));
    assert_eq!(s.error(), Some(ConnectionError::Reset));
    assert_eq!(s.read(64), b"0123456789");
    assert_eq!([s.try_read(), s.try_read()], [Ok(0), Ok(0)]);
    // As with the kernel's sockets: what the peer resets after it has closed is a broken pipe.
    assert_eq!(write(&mut s), Err(WriteError::Shutdown));
}

#[test]
fn data_and_end_beyond_a_gap_go_with_the_reset_and_their_memory_with_them() {
    let mut s = with_ten_bytes(TcpConfig::default());
    let far = 40_000;
    s.peer(seg(PSH).seq(far).ack(1).data(&[b'x'; 1000]));
    s.peer(seg(FIN).seq(far + 1000).ack(1));
    s.take_sent();
    assert!(memory(&s) >= 40_000, "the ring reaches beyond the gap: {}", memory(&s));
    s.peer(seg(RST).seq(11));
    assert_eq!(memory(&s), 4096, "a ring of the smallest size");
    assert_eq!(s.read(64), b"0123456789");
    assert_eq!(s.try_read(), reset());
    assert_eq!(memory(&s), 0, "the last byte read gives the rest back");
}

#[test]
fn what_lay_across_the_end_of_the_ring_is_read_in_its_order() {
    let mut s = Script::accepted(&Setup::default());
    let text: Vec<u8> = (0..7000_u32).map(|at| at as u8).collect();
    for (at, part) in text.chunks(1000).enumerate() {
        s.peer(seg(PSH).seq(1 + 1000 * at as u32).ack(1).data(part));
        if at == 3 {
            assert_eq!(s.read(2500), text[..2500]);
        }
    }
    s.peer(seg(PSH).seq(50_001).ack(1).data(b"beyond a gap"));
    s.take_sent();
    s.peer(seg(RST).seq(7001));
    assert_eq!(memory(&s), 8192, "4500 bytes wait");
    assert_eq!(s.read(8000), text[2500..]);
    assert_eq!(s.try_read(), reset());
}

#[test]
fn text_of_the_reset_itself_is_not_delivered_behind_what_was_received() {
    let mut s = with_ten_bytes(TcpConfig::default());
    s.peer(seg(RST).seq(11).data(b"no such service"));
    assert_eq!(s.read(64), b"0123456789");
    assert_eq!(s.try_read(), reset());
}

#[test]
fn a_reset_that_is_challenged_throws_nothing_away() {
    let mut s = with_ten_bytes(TcpConfig::default());
    s.peer(seg(RST).seq(12));
    s.expect_ack(11);
    assert_eq!((s.state(), s.error()), (State::Established, None));
    s.peer(seg(PSH).seq(11).ack(1).data(b"ab"));
    assert_eq!(s.read(64), b"0123456789ab");
}

// RFC 9293 §3.10.8 flushes after a timeout, too.
#[test]
fn what_came_before_a_user_timeout_is_read_and_then_the_timeout() {
    let tcp = TcpConfig { user_timeout: Some(Duration::from_secs(5)), ..TcpConfig::default() };
    let mut s = with_ten_bytes(tcp);
    s.write(1, 10);
    s.expect_data(1, 10);
    s.advance(Duration::from_millis(4_900));
    assert_eq!(s.error(), None);
    s.advance(Duration::from_secs(1));
    assert_eq!(s.error(), Some(ConnectionError::TimedOut));
    assert_eq!(s.read(64), b"0123456789");
    assert_eq!(s.try_read(), Err(ReadError::Connection(ConnectionError::TimedOut)));
}

#[test]
fn what_came_before_unanswered_keepalives_is_read_and_then_the_timeout() {
    let second = Duration::from_secs(1);
    let keepalive = Some(Keepalive { idle: second, interval: second, probes: 2 });
    let mut s = with_ten_bytes(TcpConfig { keepalive, ..TcpConfig::default() });
    s.advance(second * 5);
    assert!(s.take_sent().last().unwrap().has(RST));
    assert_eq!(s.read(64), b"0123456789");
    assert_eq!(s.try_read(), Err(ReadError::Connection(ConnectionError::KeepaliveTimedOut)));
}

#[test]
fn ones_own_abort_throws_away_what_was_received_and_never_reads_as_an_end() {
    for ended in [false, true] {
        let mut s = with_ten_bytes(TcpConfig::default());
        if ended {
            s.peer(seg(FIN).seq(11).ack(1));
            s.take_sent();
        }
        s.abort();
        assert!(s.sent().has(RST));
        assert_eq!(s.try_read(), Err(ReadError::Connection(ConnectionError::Aborted)), "ended: {ended}");
        assert_eq!(memory(&s), 0);
    }
}

#[test]
fn an_abort_after_the_peers_reset_throws_the_rest_away() {
    let mut s = with_ten_bytes(TcpConfig::default());
    s.peer(seg(RST).seq(11));
    s.abort();
    s.nothing();
    assert_eq!(s.try_read(), reset());
    assert_eq!(memory(&s), 0);
}

#[test]
fn what_is_written_after_the_reset_fails_at_once_and_disturbs_no_reader() {
    let mut s = with_ten_bytes(TcpConfig::default());
    s.peer(seg(RST).seq(11));
    let failed = Err(WriteError::Connection(ConnectionError::Reset));
    assert_eq!(write(&mut s), failed);
    assert_eq!(s.update(|connection, now| connection.shutdown(now)), failed.map(|_| ()));
    assert_eq!(
        write(&mut s),
        Err(WriteError::Shutdown),
        "the error is reported once, and then the pipe is broken"
    );
    assert_eq!(s.update(|connection, _| connection.take_error()), None, "a call has reported it");
    assert_eq!(s.read(64), b"0123456789");
    assert_eq!(s.try_read(), reset(), "the writer has not taken the error from the reader");
}

#[test]
fn a_connection_that_was_reset_before_it_was_accepted_is_accepted_and_read() {
    let setup = Setup::default();
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    s.sent();
    s.peer_ack(1, 1);
    s.peer_batch([seg(PSH).seq(1).ack(1).data(b"hello"), seg(RST).seq(6)]);
    s.accept();
    assert_eq!(s.read(64), b"hello");
    assert_eq!(s.try_read(), reset());
}

#[test]
fn the_name_is_free_at_the_reset_and_the_slot_at_the_release() {
    let setup = Setup::default();
    let mut s = with_ten_bytes(TcpConfig::default());
    let old = s.conn.unwrap();
    s.peer(seg(RST).seq(11));
    // The peer connects again from its old port while the old data is unread.
    s.peer(peer_syn(&setup));
    assert!(s.sent().has(ACK));
    s.advance(Duration::from_secs(300));
    s.take_sent();
    assert_eq!(s.read(64), b"0123456789");
    s.release();
    assert!(s.host.endpoint.connection(old).is_none());
    assert_eq!((s.host.endpoint.connections().count(), memory(&s)), (0, 0));
}

#[test]
fn a_release_with_unread_data_after_the_reset_sends_nothing_and_leaves_nothing() {
    let mut s = with_ten_bytes(TcpConfig::default());
    s.peer(seg(RST).seq(11));
    s.release();
    s.advance(Duration::from_secs(300));
    s.nothing();
    assert_eq!((s.host.endpoint.connections().count(), memory(&s)), (0, 0));
}

#[test]
fn an_abort_that_is_repeated_before_its_reset_has_left_takes_nothing_back() {
    let mut s = with_ten_bytes(TcpConfig::default());
    s.update(|connection, now| {
        connection.abort(now);
        connection.abort(now);
    });
    assert!(s.sent().has(RST));
    s.nothing();
}

fn write(s: &mut Script) -> Result<usize, WriteError> {
    s.update(|connection, now| connection.write(now, b"x"))
}

fn memory(s: &Script) -> usize {
    s.host.endpoint.memory().0
}
