//! Sockets whose local address is another host's.

use super::*;
use crate::{BindOptions, ConnectError, ListenError, Sharing, UdpOptions, UdpSocketError};

const ELSEWHERE: &str = "198.51.100.7";

fn host(transparent: bool) -> Host {
    let mut config = config(SERVER);
    config.addresses.push(ip("2001:db8::1"));
    config.transparent = transparent;
    Host::with(config)
}

fn connect(host: &mut Host, remote: SocketAddr, addr: &str) -> Result<ConnectionId, ConnectError> {
    host.endpoint.connect(host.now, remote, (Some(ip(addr)), 5000), None)
}

// RFC 9293 MUST-43 asks for an optional local address; Linux's IP_TRANSPARENT for one that is not the host's.
#[test]
fn a_connection_lives_at_the_address_of_another_host() {
    for (from, to) in [(ELSEWHERE, client(80)), ("2001:db8:7::7", "[2001:db8::2]:80".parse().unwrap())] {
        let mut host = host(true);
        let id = connect(&mut host, to, from).unwrap();
        let local = SocketAddr::new(ip(from), 5000);
        let [syn] = &host.sent()[..] else { panic!("one SYN") };
        assert_eq!((syn.src, syn.dst, syn.flags), (local, to, Flags::SYN));
        let iss = syn.seq;
        let options = TcpOptions { mss: Some(1000), ..TcpOptions::default() };
        let answer = Fields { options, ..fields(Flags::SYN | Flags::ACK, 7000, iss + 1) };
        host.give(to, local, answer, &[]);
        assert_eq!(host.state(id), State::Established);
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"hello").unwrap());
        let [data] = &host.sent()[..] else { panic!("one segment") };
        assert_eq!((data.src, &data.payload[..]), (local, &b"hello"[..]));
        host.give(to, local, ack(7001, iss + 6), b"world");
        let connection = host.endpoint.connection(id).unwrap();
        assert_eq!((connection.acked(), connection.readable()), (5, 5));
        // Nothing else at that address is this endpoint's.
        host.give(to, SocketAddr::new(ip(from), 5001), ack(1, SeqNum::new(1)), &[]);
        assert_eq!(host.endpoint.counters().dropped_not_local, 1);
    }
}

#[test]
fn an_error_about_its_segment_reaches_it() {
    let mut host = host(true);
    let id = connect(&mut host, client(80), ELSEWHERE).unwrap();
    let iss = host.sent()[0].seq;
    let names = (SocketAddr::new(ip(ELSEWHERE), 5000), client(80));
    let refused = super::icmp::error((3, 3), 0, names, iss);
    host.endpoint.handle_packet(host.now, &refused, RxMeta::default());
    let error = host.endpoint.update(host.now, id, |connection, _| connection.take_error()).unwrap();
    assert_eq!(error, Some(crate::ConnectionError::Refused));
}

#[test]
fn without_the_setting_it_is_refused_and_nothing_is_sent() {
    let mut host = host(false);
    assert_eq!(connect(&mut host, client(80), ELSEWHERE), Err(ConnectError::NotLocal(ip(ELSEWHERE))));
    let sharing = Sharing::default();
    let options = BindOptions { addr: Some(ip(ELSEWHERE)), port: 80, sharing };
    assert_eq!(host.endpoint.bind(host.now, options), Err(ListenError::NotLocal(ip(ELSEWHERE))));
    let addr = ListenAddr { addr: Some(ip(ELSEWHERE)), port: Some(53) };
    let refused = host.endpoint.udp_bind(host.now, UdpOptions::new(addr));
    assert_eq!(refused, Err(UdpSocketError::NotLocal(ip(ELSEWHERE))));
    assert_eq!(host.sent(), []);
}

#[test]
fn what_is_no_hosts_address_is_refused_even_so() {
    let mut host = host(true);
    for addr in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "10.0.0.255", "127.0.0.1"] {
        assert_eq!(connect(&mut host, client(80), addr), Err(ConnectError::NotLocal(ip(addr))), "{addr}");
    }
    let other_family = connect(&mut host, client(80), "2001:db8:7::7");
    assert_eq!(other_family, Err(ConnectError::NoLocalAddress(ip(CLIENT))));
    // The answers of its own listener would leave for the other host.
    assert_eq!(connect(&mut host, server(), ELSEWHERE), Err(ConnectError::NotLocal(ip(ELSEWHERE))));
    // A SYN to its own sender is dropped by every host (a LAND packet).
    let same = SocketAddr::new(ip(ELSEWHERE), 5000);
    assert_eq!(connect(&mut host, same, ELSEWHERE), Err(ConnectError::AddressInUse(same)));
    assert_eq!(host.sent(), []);
}

#[test]
fn listeners_and_datagrams_may_be_at_another_hosts_address_too() {
    let mut host = host(true);
    let addr = ListenAddr { addr: Some(ip(ELSEWHERE)), port: Some(PORT) };
    host.endpoint.listen(host.now, ListenOptions::new(addr)).unwrap();
    let there = SocketAddr::new(ip(ELSEWHERE), PORT);
    let answer = host.give(client(4000), there, syn(1), &[]);
    assert_eq!((answer[0].src, answer[0].flags), (there, Flags::SYN | Flags::ACK));
    let options = UdpOptions::new(ListenAddr { port: Some(53), ..addr });
    assert!(host.endpoint.udp_bind(host.now, options).is_ok());
}
