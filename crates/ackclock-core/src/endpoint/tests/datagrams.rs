//! UDP sockets of an endpoint: names, sources, sizes, errors, and what is counted.

use ackclock_wire::{Codepoint, UdpDatagram, UdpHeader, write_udp};

use super::*;
use crate::connection::{PMTU_MIN_V4, plateau_below};
use crate::{UdpId, UdpOptions, UdpReadiness, UdpSocketError, UdpTransmit};

const PEER: &str = "10.0.0.2:53";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A host with two IPv4 addresses and one of IPv6.
fn host() -> Host {
    let mut config = config(SERVER);
    config.addresses = ["10.0.0.1", "10.0.0.3", "fd00::1"].map(ip).to_vec();
    Host::with(config)
}

fn bind(host: &mut Host, addr: Option<&str>, port: u16) -> Result<UdpId, UdpSocketError> {
    let addr = ListenAddr { addr: addr.map(ip), port: Some(port) };
    host.endpoint.udp_bind(host.now, UdpOptions::new(addr))
}

fn send(host: &mut Host, id: UdpId, transmit: &UdpTransmit<'_>) -> Result<usize, UdpSocketError> {
    host.endpoint.udp_send(host.now, id, transmit)
}

fn send_to(host: &mut Host, id: UdpId, to: &str) -> Result<usize, UdpSocketError> {
    send(host, id, &UdpTransmit::new(b"x", Some(at(to))))
}

/// Whole packets that leave.
fn leaving(host: &mut Host) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| {
        let packet = host.endpoint.poll_transmit(host.now, LIMITS)?;
        Some(packet.to_vec())
    })
    .collect()
}

fn names(packet: &[u8]) -> (SocketAddr, SocketAddr) {
    let ip = IpPacket::parse(packet).unwrap();
    let IpPayload::Udp(bytes) = ip.payload else { panic!("not UDP: {:?}", ip.payload) };
    let datagram = UdpDatagram::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).unwrap();
    (SocketAddr::new(ip.src, datagram.src_port), SocketAddr::new(ip.dst, datagram.dst_port))
}

fn source(host: &mut Host) -> SocketAddr {
    let packets = leaving(host);
    assert_eq!(packets.len(), 1);
    names(&packets[0]).0
}

fn arrives(host: &mut Host, from: &str, to: &str, payload: &[u8]) {
    let flow_label = FlowLabel::NONE;
    let header = UdpHeader { src: at(from), dst: at(to), ttl: 64, traffic_class: 0, flow_label };
    let packet = write_udp(&header, payload).unwrap();
    host.endpoint.handle_packet(host.now, &packet, RxMeta::default());
}

/// An ICMPv4 error to the sender of a packet.
fn error_about(packet: &[u8], kind: (u8, u8), mtu: u16) -> Vec<u8> {
    let mut icmp = vec![kind.0, kind.1, 0, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    icmp.extend(&packet[..28]);
    let checksum = internet_checksum(&icmp);
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut error = packet[..20].to_vec();
    error[2..4].copy_from_slice(&u16::try_from(20 + icmp.len()).unwrap().to_be_bytes());
    error[9] = 1;
    error.copy_within(12..16, 16);
    error[12..16].copy_from_slice(&[192, 0, 2, 254]);
    error[10..12].fill(0);
    let checksum = internet_checksum(&error);
    error[10..12].copy_from_slice(&checksum.to_be_bytes());
    error.extend(icmp);
    error
}

#[test]
fn port_0_asks_for_a_free_port_and_any_other_is_that_port() {
    let mut host = host();
    assert_eq!(host.endpoint.udp_sockets(), 0);
    let ids =
        [bind(&mut host, None, 53), bind(&mut host, None, 0), bind(&mut host, None, 0)].map(Result::unwrap);
    let [named, one, other] = ids.map(|id| host.endpoint.udp_names(id).unwrap().bound.port.unwrap());
    assert_eq!(named, 53);
    let (first, last) = config(SERVER).ephemeral_ports;
    assert!((first..=last).contains(&one) && (first..=last).contains(&other) && one != other);
    assert_eq!(bind(&mut host, None, 53), Err(UdpSocketError::AddressInUse));
    assert_eq!(bind(&mut host, Some("10.0.0.2"), 54), Err(UdpSocketError::NotLocal(ip("10.0.0.2"))));
    assert!(bind(&mut host, Some("10.0.0.3"), 53).is_ok(), "another name");
    assert_eq!(host.endpoint.udp_sockets(), 4);
    host.endpoint.udp_close(ids[0]);
    assert_eq!(host.endpoint.udp_sockets(), 3);
    assert_eq!(host.endpoint.udp_names(ids[0]), Err(UdpSocketError::Closed));
    assert!(bind(&mut host, None, 53).is_ok(), "its name is free again");
}

#[test]
fn the_source_is_the_bound_address_or_the_wanted_one_or_one_that_leads_there() {
    let mut host = host();
    let bound = bind(&mut host, Some("10.0.0.3"), 53).unwrap();
    send_to(&mut host, bound, PEER).unwrap();
    assert_eq!(source(&mut host), at("10.0.0.3:53"));
    let wanting = |from: &str| UdpTransmit { from: Some(at(from)), ..UdpTransmit::new(b"x", Some(at(PEER))) };
    for from in ["10.0.0.3:53", "10.0.0.3:0", "0.0.0.0:53"] {
        send(&mut host, bound, &wanting(from)).unwrap();
        assert_eq!(source(&mut host), at("10.0.0.3:53"), "{from}");
    }
    for from in ["10.0.0.1:53", "10.0.0.3:54", "255.255.255.255:53"] {
        assert_eq!(send(&mut host, bound, &wanting(from)), Err(UdpSocketError::WrongSource(at(from))));
    }
    let any = bind(&mut host, None, 54).unwrap();
    send(&mut host, any, &wanting("10.0.0.3:54")).unwrap();
    assert_eq!(source(&mut host), at("10.0.0.3:54"));
    assert_eq!(
        send(&mut host, any, &wanting("224.0.0.1:54")),
        Err(UdpSocketError::WrongSource(at("224.0.0.1:54")))
    );
    send_to(&mut host, any, "[fd00::2]:9").unwrap();
    assert_eq!(source(&mut host), at("[fd00::1]:54"));
    assert_eq!(send_to(&mut host, bound, "[fd00::2]:9"), Err(UdpSocketError::NoLocalAddress(ip("fd00::2"))));
    for to in ["10.0.0.2:0", "224.0.0.1:9", "127.0.0.1:9"] {
        assert_eq!(send_to(&mut host, bound, to), Err(UdpSocketError::InvalidRemote(at(to))));
    }
    assert!(leaving(&mut host).is_empty(), "what is refused does not leave");
}

#[test]
fn a_connected_socket_sends_to_its_peer_and_may_send_elsewhere() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    assert_eq!(send(&mut host, id, &UdpTransmit::new(b"x", None)), Err(UdpSocketError::NotConnected));
    host.endpoint.udp_connect(id, Some(at(PEER))).unwrap();
    send(&mut host, id, &UdpTransmit::new(b"x", None)).unwrap();
    assert_eq!(names(&leaving(&mut host)[0]), (at("10.0.0.3:53"), at(PEER)));
    send_to(&mut host, id, "[fd00::2]:9").unwrap();
    assert_eq!(source(&mut host), at("[fd00::1]:53"), "not the address that leads to the peer");
    // The source stays what it was when the socket was connected.
    host.endpoint.set_addresses(vec![ip("10.0.0.4")]);
    send(&mut host, id, &UdpTransmit::new(b"x", None)).unwrap();
    assert_eq!(source(&mut host), at("10.0.0.3:53"));
}

#[test]
fn the_ecn_field_comes_from_the_call_and_the_rest_from_the_socket() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    for (class, ecn, sent) in [
        (0, Codepoint::NotEct, 0),
        (0, Codepoint::Ect0, 2),
        (0xb8, Codepoint::Ect1, 0xb9),
        (0xb9, Codepoint::NotEct, 0xb9),
        (0xbb, Codepoint::Ect0, 0xba),
    ] {
        host.endpoint.udp_set_traffic_class(id, class).unwrap();
        let transmit = UdpTransmit { ecn, ..UdpTransmit::new(b"x", Some(at(PEER))) };
        send(&mut host, id, &transmit).unwrap();
        let packet = leaving(&mut host).concat();
        assert_eq!(IpPacket::parse(&packet).unwrap().traffic_class, sent, "{class:x} {ecn:?}");
    }
    assert_eq!(host.endpoint.udp_names(id).unwrap().traffic_class, 0xbb);
}

#[test]
fn a_call_sends_datagrams_of_one_size_as_long_as_the_link_carries_them() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    let (v4, v6) = (ip("10.0.0.2"), ip("fd00::2"));
    assert_eq!((host.endpoint.udp_payload_max(v4), host.endpoint.udp_payload_max(v6)), (1472, 1452));
    let bytes = vec![7; 1473];
    let one = |len: usize| UdpTransmit::new(&bytes[..len], Some(at(PEER)));
    assert_eq!(send(&mut host, id, &one(0)), Ok(0));
    assert_eq!(send(&mut host, id, &one(1472)), Ok(1472));
    assert_eq!(leaving(&mut host).iter().map(Vec::len).collect::<Vec<_>>(), [28, 1500]);
    assert_eq!(send(&mut host, id, &one(1473)), Err(UdpSocketError::TooLong { max: 1472 }));
    let many = |size: usize, len: usize| UdpTransmit { segment_size: Some(size), ..one(len) };
    assert_eq!(send(&mut host, id, &many(10, 25)), Ok(25));
    assert_eq!(leaving(&mut host).iter().map(Vec::len).collect::<Vec<_>>(), [38, 38, 33]);
    assert_eq!(send(&mut host, id, &many(2000, 25)), Ok(25), "one that is shorter");
    assert_eq!(send(&mut host, id, &many(10, 640)), Ok(640));
    let max = UdpTransmit::SEGMENTS_MAX;
    assert_eq!(send(&mut host, id, &many(10, 641)), Err(UdpSocketError::Segments { max }));
    assert_eq!(send(&mut host, id, &many(0, 10)), Err(UdpSocketError::Segments { max }));
    assert_eq!(leaving(&mut host).len(), 1 + 64);
    assert_eq!(host.endpoint.counters().udp_sent, 2 + 3 + 1 + 64);
}

#[test]
fn a_full_send_buffer_refuses_and_tells_of_room() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    let bytes = vec![7; 1000];
    let sent =
        (0..1000).take_while(|_| send(&mut host, id, &UdpTransmit::new(&bytes, Some(at(PEER)))).is_ok());
    let sent = sent.count();
    let each = 1028 + UdpOptions::DATAGRAM_OVERHEAD;
    assert_eq!(sent, (256_usize << 10).div_ceil(each));
    assert_eq!(send_to(&mut host, id, PEER), Err(UdpSocketError::WouldBlock));
    assert_eq!(host.endpoint.udp_is_writable(id), Ok(false));
    assert_eq!(host.events(), []);
    assert_eq!(leaving(&mut host).len(), sent);
    assert_eq!(host.events(), [Event::Udp(id, UdpReadiness { readable: false, writable: true })]);
    assert_eq!(host.endpoint.udp_is_writable(id), Ok(true));
}

#[test]
fn what_the_memory_budget_has_no_room_for_is_refused_or_counted() {
    let mut config = config(SERVER);
    config.memory_budget = 64 << 10;
    let mut host = Host::with(config);
    let id = bind(&mut host, None, 53).unwrap();
    let bytes = vec![7; 1400 * 64];
    let many = UdpTransmit { segment_size: Some(1400), ..UdpTransmit::new(&bytes, Some(at(PEER))) };
    assert_eq!(send(&mut host, id, &many), Ok(bytes.len()));
    assert_eq!(send(&mut host, id, &many), Err(UdpSocketError::NoMemory));
    arrives(&mut host, PEER, "10.0.0.1:53", &bytes[..1400]);
    let lost = host.endpoint.counters().dropped_udp_full;
    let left = leaving(&mut host).len() as u64;
    assert_eq!(lost, 64 - left + 1);
    assert!((20..=46).contains(&left), "{left}");
}

#[test]
fn a_datagram_goes_to_its_socket_and_readiness_is_told() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    assert_eq!(host.endpoint.udp_is_readable(id), Ok(false));
    assert_eq!(host.endpoint.udp_receive(id, &mut [0; 9], false), Err(UdpSocketError::WouldBlock));
    arrives(&mut host, PEER, "10.0.0.3:53", b"question");
    assert_eq!(host.events(), [Event::Udp(id, UdpReadiness { readable: true, writable: false })]);
    assert_eq!(host.endpoint.udp_is_readable(id), Ok(true));
    let mut buf = [0; 9];
    for peeked in [true, false] {
        let endpoint = &mut host.endpoint;
        let read =
            if peeked { endpoint.udp_peek(id, &mut buf) } else { endpoint.udp_receive(id, &mut buf, false) };
        let meta = read.unwrap();
        assert_eq!((meta.len, meta.from, meta.to), (8, at(PEER), at("10.0.0.3:53")));
        assert_eq!(&buf[..8], b"question");
    }
    assert_eq!(host.endpoint.udp_is_readable(id), Ok(false));
    // A socket of an address that is no longer ours hears nothing; one of any address hears all.
    let named = bind(&mut host, Some("10.0.0.3"), 54).unwrap();
    host.endpoint.set_addresses(vec![ip(SERVER)]);
    arrives(&mut host, PEER, "10.0.0.3:54", b"x");
    arrives(&mut host, PEER, "10.0.0.3:53", b"x");
    arrives(&mut host, PEER, "10.0.0.255:53", b"x");
    let readable = [named, id].map(|id| host.endpoint.udp_is_readable(id));
    assert_eq!(readable, [Ok(false), Ok(true)]);
    let counters = host.endpoint.counters();
    assert_eq!((counters.udp_received, counters.dropped_not_local, counters.dropped_udp_unbound), (2, 2, 0));
}

#[test]
fn a_datagram_without_a_socket_is_answered_only_at_our_address() {
    let mut host = host();
    arrives(&mut host, PEER, "10.0.0.1:53", b"x");
    let answers = leaving(&mut host);
    assert_eq!(answers.len(), 1);
    let IpPayload::Icmp4(icmp) = IpPacket::parse(&answers[0]).unwrap().payload else { panic!("not ICMP") };
    assert_eq!(icmp[..2], [3, 3], "port unreachable");
    arrives(&mut host, PEER, "10.0.0.77:53", b"x");
    arrives(&mut host, "10.0.0.255:1", "10.0.0.1:53", b"x");
    let mut cut = write_udp(
        &UdpHeader {
            src: at(PEER),
            dst: at("10.0.0.1:53"),
            ttl: 64,
            traffic_class: 0,
            flow_label: FlowLabel::NONE,
        },
        b"abc",
    )
    .unwrap();
    *cut.last_mut().unwrap() ^= 1;
    host.endpoint.handle_packet(host.now, &cut, RxMeta::default());
    assert!(leaving(&mut host).is_empty());
    let counters = host.endpoint.counters();
    assert_eq!((counters.dropped_udp_unbound, counters.dropped_not_local), (1, 1));
    assert_eq!((counters.dropped_martian_source, counters.dropped_udp_checksum), (1, 1));
}

#[test]
fn an_error_is_told_to_the_connected_socket_that_it_is_about() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    let refuse = |host: &mut Host| {
        send_to(host, id, PEER).unwrap();
        let error = error_about(&leaving(host).concat(), (3, 3), 0);
        host.endpoint.handle_packet(host.now, &error, RxMeta::default());
    };
    refuse(&mut host);
    assert_eq!(host.endpoint.udp_has_error(id), Ok(false), "it could be about any peer");
    host.endpoint.udp_connect(id, Some(at(PEER))).unwrap();
    refuse(&mut host);
    assert_eq!(host.endpoint.udp_has_error(id), Ok(true));
    assert_eq!(send_to(&mut host, id, PEER), Err(UdpSocketError::Refused));
    assert_eq!((host.endpoint.udp_has_error(id), send_to(&mut host, id, PEER)), (Ok(false), Ok(1)));
    // An error about another port finds no socket.
    let mut packet = leaving(&mut host).concat();
    packet[21] += 1;
    host.endpoint.handle_packet(host.now, &error_about(&packet, (3, 3), 0), RxMeta::default());
    assert_eq!(host.endpoint.udp_has_error(id), Ok(false));
    assert_eq!(
        (host.endpoint.counters().icmp_delivered, host.endpoint.counters().dropped_icmp_other),
        (2, 1)
    );
}

// RFC 5927 §7: neither more than was known, nor more than was sent; less than 552 bytes count as these.
#[test]
fn a_smaller_path_mtu_is_believed_within_bounds_and_told_once() {
    let least = u16::try_from(PMTU_MIN_V4).unwrap();
    for (sent, told, known) in [
        (1500, 1499, Some(1499)),
        (1500, 1500, None),
        (1000, 1000, None),
        (1000, 999, Some(999)),
        (1500, least, Some(least)),
        (1500, least - 1, Some(least)),
        (1500, 68, Some(least)),
        (1500, 0, Some(u16::try_from(plateau_below(1500)).unwrap())),
    ] {
        let mut host = host();
        let id = bind(&mut host, None, 53).unwrap();
        host.endpoint.udp_connect(id, Some(at(PEER))).unwrap();
        let bytes = vec![0; sent - 28];
        send(&mut host, id, &UdpTransmit::new(&bytes, None)).unwrap();
        let error = error_about(&leaving(&mut host).concat(), (3, 4), told);
        host.endpoint.handle_packet(host.now, &error, RxMeta::default());
        let max = usize::from(known.unwrap_or(1500)) - 28;
        assert_eq!(host.endpoint.udp_payload_max(ip("10.0.0.2")), max, "{sent} {told}");
        assert_eq!(host.endpoint.udp_payload_max(ip("10.0.0.9")), 1472, "of another host");
        let error = known.map_or(Ok(()), |_| Err(UdpSocketError::PathTooSmall { max }));
        assert_eq!((host.endpoint.udp_take_error(id), host.endpoint.udp_take_error(id)), (error, Ok(())));
    }
}

// Two sockets of one host can talk without end: the driver must get its turn.
#[test]
fn one_call_handles_256_datagrams_to_oneself_and_the_rest_is_due_at_once() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    for _ in 0..300 {
        assert_eq!(send_to(&mut host, id, "10.0.0.1:53"), Ok(1));
    }
    assert_eq!(leaving(&mut host), Vec::<Vec<u8>>::new());
    let received = |host: &mut Host| {
        std::iter::from_fn(|| host.endpoint.udp_receive(id, &mut [0; 9], false).ok()).count()
    };
    assert_eq!((received(&mut host), host.endpoint.has_looped()), (256, true));
    assert_eq!(host.endpoint.poll_timeout(), Some(host.now));
    host.endpoint.handle_timeout(host.now);
    assert_eq!(leaving(&mut host), Vec::<Vec<u8>>::new());
    assert_eq!((received(&mut host), host.endpoint.has_looped()), (44, false));
    assert_eq!((host.endpoint.poll_timeout(), host.endpoint.packets_looped()), (None, 300));
}

// RFC 4443 §2.4 (f), RFC 1812 §4.3.2.8: errors are limited, and those that do not leave are counted.
#[test]
fn each_datagram_without_a_socket_is_answered_or_counted_as_beyond_the_limit() {
    let mut host = host();
    for _ in 0..300 {
        arrives(&mut host, PEER, "10.0.0.1:9", b"x");
    }
    let left = leaving(&mut host).len() as u64;
    let counters = host.endpoint.counters();
    assert!((1..200).contains(&left), "{left}");
    assert_eq!((counters.icmp_errors_sent, counters.dropped_icmp_limited), (left, 300 - left));
}

#[test]
fn an_unconnected_socket_believes_no_path_mtu() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    let bytes = [7; 1472];
    for connected in [false, true] {
        if connected {
            host.endpoint.udp_connect(id, Some(at(PEER))).unwrap();
        }
        send(&mut host, id, &UdpTransmit::new(&bytes, Some(at(PEER)))).unwrap();
        let error = error_about(&leaving(&mut host).concat(), (3, 4), 1400);
        host.endpoint.handle_packet(host.now, &error, RxMeta::default());
        let expected = if connected { 1372 } else { 1472 };
        assert_eq!(host.endpoint.udp_payload_max(ip(CLIENT)), expected);
    }
}

#[test]
fn the_headers_of_a_datagram_leave_apart_from_its_payload() {
    for (to, ip_header) in [(PEER, 20), ("[fd00::2]:53", 40)] {
        let mut host = host();
        let id = bind(&mut host, None, 53).unwrap();
        send(&mut host, id, &UdpTransmit::new(&[7; 100], Some(at(to)))).unwrap();
        let packet = host.endpoint.poll_transmit(host.now, LIMITS).unwrap();
        assert_eq!((usize::from(packet.transport_offset), packet.header.len()), (ip_header, ip_header + 8));
        assert_eq!(packet.payload, [&[7; 100][..], &[]]);
    }
}

#[test]
fn the_time_to_live_is_the_sockets_or_the_endpoints() {
    let mut host = host();
    let id = bind(&mut host, None, 53).unwrap();
    let default = tcp_config().ttl;
    for (set, expected) in [(None, default), (Some(7), 7), (Some(255), 255), (None, default)] {
        host.endpoint.udp_set_ttl(id, set).unwrap();
        assert_eq!(host.endpoint.udp_names(id).unwrap().ttl, expected);
        send_to(&mut host, id, PEER).unwrap();
        assert_eq!(leaving(&mut host)[0][8], expected);
    }
}
