//! Several listeners on one port.

use super::*;
use crate::{BindOptions, ListenError, Sharing};

const CLIENTS: std::ops::Range<u16> = 2000..2064;

fn shared() -> ListenOptions {
    ListenOptions { reuse_port: true, ..on_port(PORT) }
}

/// A host with this many listeners on one port.
fn sharing(listeners: usize) -> (Host, Vec<ListenerId>) {
    let mut host = Host::new();
    let now = host.now;
    let ids = (0..listeners).map(|_| host.endpoint.listen(now, shared()).unwrap()).collect();
    (host, ids)
}

fn accept_all(host: &mut Host, listener: ListenerId) -> Vec<ConnectionId> {
    std::iter::from_fn(|| host.endpoint.accept(host.now, listener)).collect()
}

#[test]
fn connections_are_spread_over_the_listeners_and_each_is_accepted_once() {
    let (mut host, listeners) = sharing(4);
    for port in CLIENTS {
        host.handshake(port);
    }
    let accepted: Vec<usize> = listeners.iter().map(|&id| accept_all(&mut host, id).len()).collect();
    assert_eq!(accepted.iter().sum::<usize>(), CLIENTS.len());
    // 16 each on average, with a standard deviation of 3.5.
    assert!(accepted.iter().all(|count| (4..30).contains(count)), "{accepted:?}");
}

#[test]
fn closing_one_listener_leaves_the_handshakes_and_connections_of_the_others() {
    let (mut host, listeners) = sharing(3);
    let half_open: Vec<(u16, SeqNum)> =
        CLIENTS.map(|port| (port, host.from(port, syn(1000))[0].seq)).collect();
    host.endpoint.close_listener(host.now, listeners[1]);
    let lost = CLIENTS.len() - host.endpoint.listening.half_open();
    assert!((8..36).contains(&lost), "{lost}");
    for &(port, iss) in &half_open {
        host.from(port, ack(1001, iss + 1));
    }
    let accepted = accept_all(&mut host, listeners[0]).len() + accept_all(&mut host, listeners[2]).len();
    assert_eq!(accepted, CLIENTS.len() - lost);
    // When the clients of the closed one retry, the others take them.
    for port in CLIENTS {
        host.from(port + 1000, syn(7));
    }
    assert_eq!(host.endpoint.listening.half_open(), CLIENTS.len());
}

#[test]
fn a_cookie_comes_back_to_the_listener_that_sent_it_although_another_closed() {
    let (mut host, listeners) = {
        let mut host = Host::new();
        let options = ListenOptions { syn_backlog: 1, ..shared() };
        let now = host.now;
        let ids: Vec<_> = (0..3).map(|_| host.endpoint.listen(now, options.clone()).unwrap()).collect();
        (host, ids)
    };
    // One record for each listener, then cookies.
    let answered: Vec<(u16, SeqNum)> =
        CLIENTS.map(|port| (port, host.from(port, syn(1000))[0].seq)).collect();
    assert_eq!(host.endpoint.counters().cookies_sent, CLIENTS.len() as u64 - 3);
    host.endpoint.close_listener(host.now, listeners[0]);
    for &(port, iss) in &answered {
        host.from(port, ack(1001, iss + 1));
    }
    let accepted = [listeners[1], listeners[2]].map(|id| accept_all(&mut host, id).len());
    // Cookies name no listener: those of the closed one are valid at the others; its one record is lost.
    assert_eq!(accepted.iter().sum::<usize>(), CLIENTS.len() - 1);
}

#[test]
fn a_listener_without_the_option_has_its_port_alone() {
    let (mut host, _) = sharing(2);
    assert_eq!(host.endpoint.listen(host.now, on_port(PORT)), Err(crate::ListenError::AddressInUse));
}

#[test]
fn a_port_with_a_connection_is_free_only_for_a_socket_that_reuses_addresses() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    host.accepted(listener, 4000);
    host.endpoint.close_listener(host.now, listener);
    let mut bind = |addr: Option<&str>, port: u16, reuse_address: bool| {
        let sharing = Sharing { reuse_address, ..Sharing::default() };
        host.endpoint.bind(host.now, BindOptions { addr: addr.map(ip), port, sharing })
    };
    assert_eq!(bind(None, PORT, false), Err(ListenError::AddressInUse));
    assert_eq!(bind(Some(SERVER), PORT, false), Err(ListenError::AddressInUse));
    let other = ip("10.0.0.77");
    assert_eq!(bind(Some("10.0.0.77"), PORT, true), Err(ListenError::NotLocal(other)));
    for free in [PORT - 1, PORT + 1, PORT - 64, PORT + 64, 64 * PORT] {
        assert!(bind(None, free, false).is_ok(), "{free}");
    }
    let bound = bind(None, PORT, true).unwrap();
    assert_eq!(host.endpoint.bound_addr(bound), Some(ListenAddr { addr: None, port: Some(PORT) }));
    host.endpoint.release_bound(bound);
    assert_eq!(host.endpoint.bound_addr(bound), None);
}
