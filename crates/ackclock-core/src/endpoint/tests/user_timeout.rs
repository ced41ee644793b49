//! The user-timeout option, on the wire and in its effect (RFC 5482).

use ackclock_wire::UserTimeout;

use super::*;
use crate::UserTimeoutOption;

const SECOND: Duration = Duration::from_secs(1);

fn listening(option: Option<UserTimeoutOption>) -> (Host, ListenerId) {
    let tcp = TcpConfig {
        user_timeout_option: option.map(Box::new),
        user_timeout: Some(200 * SECOND),
        ..tcp_config()
    };
    Host::listening(ListenOptions { tcp: Some(tcp), ..on_port(PORT) })
}

fn telling(mut fields: Fields, timeout: Duration) -> Fields {
    fields.options.user_timeout = Some(UserTimeout::at_least(timeout));
    fields
}

fn told(sent: &SentSegment) -> Option<Duration> {
    sent.options.user_timeout.and_then(UserTimeout::duration)
}

/// A connection whose peer advertised `timeout` on the last segment of the handshake, and the answer to that.
fn told_by_peer(
    option: UserTimeoutOption,
    timeout: Duration,
) -> (Host, ConnectionId, SeqNum, Vec<SentSegment>) {
    let (mut host, listener) = listening(Some(option));
    let iss = host.from(2000, syn(1000))[0].seq;
    let answer = host.from(2000, telling(ack(1001, iss + 1), timeout));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    (host, id, iss, answer)
}

fn in_force(host: &Host, id: ConnectionId) -> Option<Duration> {
    host.endpoint.connection(id).unwrap().user_timeout()
}

#[test]
fn nothing_is_told_and_nothing_heard_unless_it_was_asked_for() {
    let (mut host, listener) = listening(None);
    let syn_ack = host.from(2000, telling(syn(1000), 400 * SECOND));
    assert_eq!(told(&syn_ack[0]), None);
    assert!(host.from(2000, telling(ack(1001, syn_ack[0].seq + 1), 400 * SECOND)).is_empty());
    let id = host.endpoint.accept(host.now, listener).unwrap();
    assert_eq!(in_force(&host, id), Some(200 * SECOND));
    assert_eq!(host.endpoint.connection(id).unwrap().peer_user_timeout(), None);
}

#[test]
fn syn_ack_and_the_first_segment_after_the_handshake_tell_the_timeout() {
    let (mut host, listener) = listening(Some(UserTimeoutOption::default()));
    let syn_ack = host.from(2000, syn(1000));
    assert_eq!(told(&syn_ack[0]), Some(200 * SECOND));
    let answer = host.from(2000, ack(1001, syn_ack[0].seq + 1));
    assert_eq!(answer.iter().map(told).collect::<Vec<_>>(), [Some(200 * SECOND)]);
    assert_eq!((answer[0].flags, answer[0].seq), (Flags::ACK, syn_ack[0].seq + 1));
    // And no segment after that.
    let id = host.endpoint.accept(host.now, listener).unwrap();
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"x")).unwrap().unwrap();
    assert_eq!(host.sent().iter().map(told).collect::<Vec<_>>(), [None]);
}

#[test]
fn a_syn_tells_the_timeout_twice_and_then_gives_the_option_up() {
    let mut host = Host::new();
    let tcp = TcpConfig { user_timeout_option: Some(Box::default()), ..tcp_config() };
    host.endpoint.connect(host.now, client(80), (None, 0), Some(tcp)).unwrap();
    let mut syns = host.sent();
    syns.extend(host.wait(4 * SECOND).into_iter().map(|(_, sent)| sent));
    assert_eq!(syns.iter().map(told).collect::<Vec<_>>(), [Some(925 * SECOND), Some(925 * SECOND), None]);
}

#[test]
fn the_longer_timeout_of_both_ends_holds_within_the_bounds() {
    let bounds = UserTimeoutOption { least: 250 * SECOND, most: 1000 * SECOND, changeable: true };
    for (told, expected) in [(400, 400), (100, 250), (1, 250), (5000, 1000)] {
        let (host, id, ..) = told_by_peer(bounds, told * SECOND);
        assert_eq!(in_force(&host, id), Some(expected * SECOND), "peer's {told} s");
        assert_eq!(host.endpoint.connection(id).unwrap().peer_user_timeout(), Some(told * SECOND));
    }
}

#[test]
fn a_connection_is_given_up_when_the_adopted_timeout_is_over() {
    let (mut host, id, ..) = told_by_peer(UserTimeoutOption::default(), 400 * SECOND);
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"x")).unwrap().unwrap();
    host.sent();
    host.wait(Duration::from_millis(399_900));
    assert_eq!(host.state(id), State::Established);
    host.wait(Duration::from_millis(200));
    assert_eq!(host.state(id), State::Closed);
}

#[test]
fn the_peers_word_does_not_count_where_it_may_not_change_the_timeout() {
    let fixed = UserTimeoutOption { changeable: false, ..UserTimeoutOption::default() };
    let (host, id, ..) = told_by_peer(fixed, 400 * SECOND);
    assert_eq!(in_force(&host, id), Some(200 * SECOND));
    assert_eq!(host.endpoint.connection(id).unwrap().peer_user_timeout(), Some(400 * SECOND));
}

#[test]
fn what_the_application_sets_stands_and_is_told_at_once() {
    let (mut host, id, iss, _) = told_by_peer(UserTimeoutOption::default(), 400 * SECOND);
    let set = |connection: &mut crate::Connection, now| connection.set_user_timeout(now, Some(30 * SECOND));
    host.endpoint.update(host.now, id, set).unwrap().unwrap();
    assert_eq!(host.sent().iter().map(told).collect::<Vec<_>>(), [Some(30 * SECOND)]);
    host.from(2000, telling(ack(1001, iss + 1), 500 * SECOND));
    assert_eq!(in_force(&host, id), Some(30 * SECOND));
}

#[test]
fn a_segment_with_an_impossible_acknowledgement_changes_no_timeout() {
    let (mut host, id, iss, _) = told_by_peer(UserTimeoutOption::default(), 400 * SECOND);
    host.from(2000, telling(ack(1001, iss + 70_000), 600 * SECOND));
    host.from(2000, telling(ack(90_000, iss + 1), 600 * SECOND));
    assert_eq!(in_force(&host, id), Some(400 * SECOND));
}
