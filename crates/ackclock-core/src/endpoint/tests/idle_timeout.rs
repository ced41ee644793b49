//! The idle timeout: which connections end for the lack of data, and when.

use super::*;
use crate::{ConnectionError, Keepalive, OptionError};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(60);

/// A connection, accepted now, with an idle timeout of a minute.
fn accepted(tcp: TcpConfig) -> (Host, ConnectionId, SeqNum) {
    let tcp = TcpConfig { idle_timeout: Some(LIMIT), ..tcp };
    let (mut host, listener) = Host::listening(ListenOptions { tcp: Some(tcp), ..on_port(PORT) });
    let (id, iss) = host.accepted(listener, 4000);
    (host, id, iss)
}

fn write(host: &mut Host, id: ConnectionId) {
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"hello")).unwrap().unwrap();
    assert_eq!(host.sent().len(), 1);
}

/// The connection ends after exactly this time, with a reset.
fn ends_after(host: &mut Host, id: ConnectionId, span: Duration) {
    host.wait(span - Duration::from_millis(1));
    assert_eq!(host.endpoint.connection(id).unwrap().error(), None, "too early");
    let sent = host.wait(Duration::from_millis(1));
    assert_eq!(host.endpoint.connection(id).unwrap().error(), Some(ConnectionError::IdleTimedOut));
    assert_eq!((host.state(id), host.endpoint.counters().idle_timeouts), (State::Closed, 1));
    let flags: Vec<Flags> = sent.iter().map(|(_, sent)| sent.flags).collect();
    assert!(flags.last().is_some_and(|flags| flags.contains(Flags::RST)), "{flags:?}");
    // It has ended once.
    host.wait(10 * LIMIT);
    assert_eq!(host.endpoint.counters().idle_timeouts, 1);
}

#[test]
fn a_connection_without_data_is_reset_when_its_timeout_is_over() {
    let (mut host, id, _) = accepted(tcp_config());
    ends_after(&mut host, id, LIMIT);
}

#[test]
fn without_the_setting_it_lasts() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, _) = host.accepted(listener, 4000);
    host.wait(100_000 * SECOND);
    assert_eq!((host.state(id), host.endpoint.counters().idle_timeouts), (State::Established, 0));
    assert_eq!(host.endpoint.connection(id).unwrap().info(host.now).idle_left, None);
}

#[test]
fn data_from_the_peer_starts_the_timeout_again() {
    let (mut host, id, iss) = accepted(tcp_config());
    for n in 0..5 {
        host.wait(40 * SECOND);
        host.give(client(4000), server(), ack(1001 + n, iss + 1), b"x");
    }
    ends_after(&mut host, id, LIMIT);
}

#[test]
fn data_to_the_peer_starts_it_again_and_so_does_its_acknowledgement() {
    let (mut host, id, iss) = accepted(tcp_config());
    host.wait(40 * SECOND);
    write(&mut host, id);
    host.wait(Duration::from_millis(100));
    host.from(4000, ack(1001, iss + 6));
    ends_after(&mut host, id, LIMIT);
}

#[test]
fn keep_alive_probes_and_their_answers_are_no_data() {
    let keepalive = Keepalive { idle: 7 * SECOND, interval: SECOND, probes: 3 };
    let (mut host, id, iss) = accepted(TcpConfig { keepalive: Some(keepalive), ..tcp_config() });
    host.wait(5 * SECOND);
    host.give(client(4000), server(), ack(1001, iss + 1), b"x");
    // Each probe is answered at once.
    let mut probes = 0;
    for _ in 0..59 {
        let probed = host.wait(SECOND).iter().any(|(_, sent)| sent.seq == iss && sent.payload.is_empty());
        if probed {
            probes += 1;
            host.from(4000, ack(1002, iss + 1));
        }
    }
    assert!((7..=9).contains(&probes), "{probes} probes in 59 s");
    ends_after(&mut host, id, SECOND);
}

#[test]
fn keep_alive_probes_of_the_peer_are_no_data() {
    let (mut host, id, iss) = accepted(tcp_config());
    for _ in 0..5 {
        host.wait(10 * SECOND);
        let answers = host.from(4000, ack(1000, iss + 1));
        assert_eq!(answers.len(), 1, "RFC 9293 §3.8.4: a probe is answered");
    }
    ends_after(&mut host, id, 10 * SECOND);
}

#[test]
fn retransmissions_are_no_data() {
    let (mut host, id, _) = accepted(tcp_config());
    host.wait(5 * SECOND);
    write(&mut host, id);
    let sent = host.wait(50 * SECOND);
    assert!(sent.len() > 4, "{} retransmissions", sent.len());
    ends_after(&mut host, id, 10 * SECOND);
}

#[test]
fn what_arrived_can_still_be_read_and_then_comes_the_error() {
    let (mut host, id, iss) = accepted(tcp_config());
    host.give(client(4000), server(), ack(1001, iss + 1), b"the last");
    ends_after(&mut host, id, LIMIT);
    let mut read = |buf: &mut [u8]| {
        host.endpoint.update(host.now, id, |connection, now| connection.read(now, buf)).unwrap()
    };
    let mut buf = [0; 20];
    assert_eq!(read(&mut buf), Ok(8));
    let error = crate::ReadError::Connection(ConnectionError::IdleTimedOut);
    assert_eq!(read(&mut buf), Err(error));
}

#[test]
fn it_can_be_set_while_the_connection_is_open_and_counts_from_then() {
    let (mut host, id, _) = accepted(tcp_config());
    let set = |host: &mut Host, timeout| {
        let set = |connection: &mut crate::Connection, now| connection.set_idle_timeout(now, timeout);
        host.endpoint.update(host.now, id, set).unwrap()
    };
    host.wait(50 * SECOND);
    set(&mut host, None).unwrap();
    host.wait(1000 * SECOND);
    assert_eq!(host.state(id), State::Established);
    assert!(matches!(set(&mut host, Some(Duration::ZERO)), Err(OptionError::OutOfRange { .. })));
    set(&mut host, Some(Duration::MAX)).unwrap();
    host.wait(1000 * SECOND);
    set(&mut host, Some(20 * SECOND)).unwrap();
    let left = |host: &Host| host.endpoint.connection(id).unwrap().info(host.now).idle_left;
    assert_eq!(left(&host), Some(20 * SECOND));
    host.wait(15 * SECOND);
    assert_eq!(left(&host), Some(5 * SECOND));
    ends_after(&mut host, id, 5 * SECOND);
}

#[test]
fn a_released_connection_that_cannot_finish_ends_by_it() {
    let (mut host, id, iss) = accepted(tcp_config());
    write(&mut host, id);
    host.endpoint.release(host.now, id);
    host.sent();
    host.wait(LIMIT + SECOND);
    assert_eq!((host.endpoint.connection_count(), host.endpoint.counters().idle_timeouts), (0, 1));
    // Its number is free: what still comes is answered by a reset.
    assert_eq!(host.from(4000, ack(1001, iss + 1))[0].flags, Flags::RST);
}

#[test]
fn time_wait_and_the_wait_for_the_peers_fin_have_their_own_times() {
    let tcp = TcpConfig { fin_wait_2_max: 100 * SECOND, time_wait: 100 * SECOND, ..tcp_config() };
    let (mut host, id, iss) = accepted(tcp);
    host.endpoint.release(host.now, id);
    assert_eq!(host.sent().len(), 1);
    host.from(4000, ack(1001, iss + 2));
    host.wait(99 * SECOND);
    assert_eq!(host.endpoint.connection_count(), 1, "FIN-WAIT-2 outlasts the idle timeout");
    host.wait(2 * SECOND);
    assert_eq!((host.endpoint.connection_count(), host.endpoint.counters().idle_timeouts), (0, 0));
}
