//! Pings to addresses that are not the endpoint's: answered, left to the program, or not answered.

use ackclock_wire::{UdpHeader, checksum, write_udp};

use super::*;
use crate::{Ping, PingAnswer, PingPolicy, Unreachable};

const ELSEWHERE: &str = "203.0.113.7";
const ELSEWHERE_V6: &str = "2001:db8:7::7";
const CLIENT_V6: &str = "2001:db8::2";
const ECHO: u8 = 8;
const ECHO_V6: u8 = 128;

fn host(pings: PingPolicy) -> Host {
    let mut config = config(SERVER);
    config.addresses.push(ip("2001:db8::1"));
    config.pings = pings;
    config.pings_max = 3;
    Host::with(config)
}

/// A whole ICMP packet of this type, from the client.
fn icmp(kind: u8, to: &str, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let dst = SocketAddr::new(ip(to), 7);
    let src = SocketAddr::new(ip(if dst.is_ipv4() { CLIENT } else { CLIENT_V6 }), 7);
    let header = UdpHeader { src, dst, ttl: 64, traffic_class: 0, flow_label: FlowLabel::NONE };
    let mut packet = write_udp(&header, data).unwrap();
    let (start, protocol_at, protocol) = if dst.is_ipv4() { (20, 9, 1) } else { (40, 6, 58) };
    packet[protocol_at] = protocol;
    packet[start..start + 4].copy_from_slice(&[kind, 0, 0, 0]);
    packet[start + 4..start + 8].copy_from_slice(&rest);
    let len = packet.len() - start;
    let pseudo = if dst.is_ipv4() {
        checksum::Sum::ZERO
    } else {
        checksum::pseudo_header(src.ip(), dst.ip(), protocol, len)
    };
    let sum = pseudo.plus_bytes(&packet[start..]).checksum();
    packet[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    if dst.is_ipv4() {
        super::icmp::fix_checksum(&mut packet);
    }
    packet
}

/// The echo request with identifier 0x1234 and this sequence number.
fn request(to: &str, sequence: u8) -> Vec<u8> {
    let kind = if ip(to).is_ipv4() { ECHO } else { ECHO_V6 };
    icmp(kind, to, [0x12, 0x34, 0, sequence], b"some data")
}

fn give(host: &mut Host, packet: &[u8]) {
    host.endpoint.handle_packet(host.now, packet, RxMeta::default());
}

/// The ICMP messages that leave: source, destination, and the message.
fn messages(host: &mut Host) -> Vec<(IpAddr, IpAddr, Vec<u8>)> {
    std::iter::from_fn(|| Some(host.endpoint.poll_transmit(host.now, LIMITS)?.to_vec()))
        .map(|packet| {
            let ip = IpPacket::parse(&packet).unwrap();
            let (IpPayload::Icmp4(message) | IpPayload::Icmp6(message)) = ip.payload else {
                panic!("not ICMP")
            };
            (ip.src, ip.dst, message.to_vec())
        })
        .collect()
}

// RFC 1122 §3.2.2.6: the reply's source is the request's destination, its data the request's. RFC 4443 §4.2.
#[test]
fn a_ping_to_any_address_is_answered_from_there_where_that_is_asked_for() {
    for (to, from, reply) in [(ELSEWHERE, CLIENT, 0), (ELSEWHERE_V6, CLIENT_V6, 129), (SERVER, CLIENT, 0)] {
        let mut host = host(PingPolicy::Any);
        let asked = request(to, 1);
        give(&mut host, &asked);
        let [(src, dst, message)] = &messages(&mut host)[..] else { panic!("one reply to {to}") };
        assert_eq!((*src, *dst, message[0]), (ip(to), ip(from), reply));
        assert_eq!(message[4..], asked[asked.len() - 13..], "identifier, sequence number, data");
        assert_eq!(host.endpoint.counters().echoes_answered, 1);
    }
}

#[test]
fn by_default_only_the_endpoints_own_addresses_answer() {
    let mut host = host(PingPolicy::Own);
    for to in [ELSEWHERE, ELSEWHERE_V6] {
        give(&mut host, &request(to, 1));
    }
    assert_eq!((messages(&mut host).len(), host.endpoint.counters().dropped_icmp_other), (0, 2));
    give(&mut host, &request(SERVER, 1));
    assert_eq!(messages(&mut host).len(), 1);
}

// RFC 1122 §3.2.2.6, RFC 4443 §4.2: a request to a broadcast or multicast address may be discarded.
#[test]
fn a_ping_to_more_than_one_host_is_never_answered() {
    for policy in [PingPolicy::Any, PingPolicy::Deferred] {
        let mut host = host(policy);
        for to in ["10.0.0.255", "255.255.255.255", "224.0.0.1", "ff02::1", "0.0.0.0"] {
            give(&mut host, &request(to, 1));
        }
        assert_eq!((messages(&mut host).len(), host.endpoint.poll_ping()), (0, None), "{policy:?}");
    }
}

#[test]
fn one_limit_bounds_all_replies() {
    let mut config = config(SERVER);
    (config.pings, config.echo_replies_per_second) = (PingPolicy::Any, 50);
    let mut host = Host::with(config);
    for n in 0..20 {
        give(&mut host, &request(if n % 2 == 0 { ELSEWHERE } else { SERVER }, n));
    }
    let counters = host.endpoint.counters();
    // A tenth of a second's worth at once.
    assert_eq!((messages(&mut host).len(), counters.dropped_icmp_limited), (5, 15));
}

#[test]
fn a_deferred_ping_waits_for_the_program_and_is_answered_as_it_decides() {
    let mut host = host(PingPolicy::Deferred);
    for to in [ELSEWHERE, ELSEWHERE_V6] {
        give(&mut host, &request(to, 9));
        assert_eq!((host.events(), messages(&mut host).len()), (vec![Event::Pings], 0));
        assert!(host.endpoint.has_ping());
        let ping = host.endpoint.poll_ping().unwrap();
        assert!(!host.endpoint.has_ping());
        assert_eq!((ping.to(), ping.identifier(), ping.sequence()), (ip(to), 0x1234, 9));
        assert_eq!((ping.data(), ping.packet()), (&b"some data"[..], &request(to, 9)[..]));
        assert!(host.endpoint.answer_ping(host.now, &ping, PingAnswer::Reply));
        let [(src, dst, _)] = messages(&mut host)[..] else { panic!("one reply") };
        assert_eq!((src, dst), (ip(to), ping.from()));
    }
    // Its own addresses are not the program's business.
    give(&mut host, &request(SERVER, 1));
    assert_eq!((host.events(), messages(&mut host).len()), (vec![], 1));
    assert_eq!(host.endpoint.memory().0, 0);
}

// RFC 1122 §3.2.2: the error quotes the IP header and at least 8 octets, so that ping finds its request.
#[test]
fn a_deferred_ping_may_be_answered_by_an_error_that_quotes_it() {
    for (why, v4, v6) in [
        (Unreachable::Network, [3, 0], [1, 0]),
        (Unreachable::Host, [3, 1], [1, 3]),
        (Unreachable::Prohibited, [3, 13], [1, 1]),
    ] {
        let mut host = host(PingPolicy::Deferred);
        for (to, router, kind) in [(ELSEWHERE, SERVER, v4), (ELSEWHERE_V6, "2001:db8::1", v6)] {
            let asked = request(to, 1);
            give(&mut host, &asked);
            let ping = host.endpoint.poll_ping().unwrap();
            assert!(host.endpoint.answer_ping(host.now, &ping, PingAnswer::Unreachable(why)));
            let [(src, dst, message)] = &messages(&mut host)[..] else { panic!("one error") };
            assert_eq!((*src, *dst, &message[..2]), (ip(router), ping.from(), &kind[..]));
            assert_eq!(message[8..], asked);
        }
    }
}

#[test]
fn waiting_pings_are_bounded_and_the_rest_is_counted() {
    let mut host = host(PingPolicy::Deferred);
    (0..5).for_each(|n| give(&mut host, &request(ELSEWHERE, n)));
    let counters = host.endpoint.counters();
    assert_eq!((counters.pings_deferred, counters.dropped_pings), (3, 2));
    let held = host.endpoint.memory().0;
    assert!(held > 0, "they count against the memory budget");
    let sequences = std::iter::from_fn(|| host.endpoint.poll_ping()).map(|ping| ping.sequence());
    assert!(sequences.eq([0, 1, 2]));
    assert_eq!(host.endpoint.memory().0, 0);
    give(&mut host, &request(ELSEWHERE, 7));
    host.endpoint.close_pings();
    assert_eq!((host.endpoint.poll_ping(), host.endpoint.memory().0), (None, 0));
    give(&mut host, &request(ELSEWHERE, 8));
    assert_eq!((host.endpoint.poll_ping(), host.endpoint.counters().dropped_icmp_other), (None, 1));
}

#[test]
fn only_an_echo_request_with_a_right_checksum_is_a_ping() {
    let mut host = host(PingPolicy::Deferred);
    let mut wrong = request(ELSEWHERE, 1);
    *wrong.last_mut().unwrap() ^= 1;
    give(&mut host, &wrong);
    give(&mut host, &icmp(13, ELSEWHERE, [0; 4], &[0; 12]));
    let mut martian = request(ELSEWHERE, 1);
    martian[12..16].copy_from_slice(&[224, 0, 0, 1]);
    super::icmp::fix_checksum(&mut martian);
    give(&mut host, &martian);
    assert_eq!((host.endpoint.poll_ping(), host.events()), (None, vec![]));
    for bytes in [
        vec![],
        vec![0x45; 30],
        icmp(0, ELSEWHERE, [0; 4], b"a reply"),
        packet(client(1), server(), syn(1), &[]),
    ] {
        assert_eq!(Ping::parse(bytes), None);
    }
}
