use std::net::SocketAddr;

use etherparse::PacketBuilder;

use super::*;
use crate::testing::{data_packet, data_sockets, fix_v4_checksum};
use crate::{IcmpKind, parse_icmp4, parse_icmp6, parse_udp_error4, parse_udp_error6};

fn request(v6: bool, data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let addrs = data_sockets(v6);
    match (addrs.0, addrs.1) {
        (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
            PacketBuilder::ipv4(src.ip().octets(), dst.ip().octets(), 9)
                .icmpv4_echo_request(77, 5)
                .write(&mut packet, data)
        }
        (SocketAddr::V6(src), SocketAddr::V6(dst)) => {
            PacketBuilder::ipv6(src.ip().octets(), dst.ip().octets(), 9)
                .icmpv6_echo_request(77, 5)
                .write(&mut packet, data)
        }
        _ => unreachable!("of one family"),
    }
    .unwrap();
    packet
}

fn reply(v6: bool, data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let addrs = data_sockets(v6);
    match (addrs.0, addrs.1) {
        (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
            PacketBuilder::ipv4(dst.ip().octets(), src.ip().octets(), 64)
                .icmpv4_echo_reply(77, 5)
                .write(&mut packet, data)
        }
        (SocketAddr::V6(src), SocketAddr::V6(dst)) => {
            PacketBuilder::ipv6(dst.ip().octets(), src.ip().octets(), 64)
                .icmpv6_echo_reply(77, 5)
                .write(&mut packet, data)
        }
        _ => unreachable!("of one family"),
    }
    .unwrap();
    packet
}

#[test]
fn a_reply_is_the_request_turned_round() {
    for v6 in [false, true] {
        for data in [&b""[..], b"x", b"some data of a ping"] {
            let request = request(v6, data);
            let ip = IpPacket::parse(&request).unwrap();
            let ours = write_echo_reply(&request, &ip, 64, 1500).unwrap();
            assert_eq!(
                IpPacket::parse(&ours).unwrap().payload,
                IpPacket::parse(&reply(v6, data)).unwrap().payload
            );
            let back = IpPacket::parse(&ours).unwrap();
            assert_eq!((back.src, back.dst, back.ttl), (ip.dst, ip.src, 64));
        }
    }
}

#[test]
fn a_reply_may_be_fragmented_if_the_request_might_have_been() {
    let mut request = request(false, b"data");
    request[4..6].copy_from_slice(&[0x12, 0x34]);
    for (flags, expected) in [(0, [0x12, 0x34, 0, 0]), (DONT_FRAGMENT, [0, 0, DONT_FRAGMENT, 0])] {
        request[6] = flags;
        fix_v4_checksum(&mut request);
        let reply = write_echo_reply(&request, &IpPacket::parse(&request).unwrap(), 64, 1500).unwrap();
        assert_eq!(reply[4..8], expected);
    }
}

#[test]
fn nothing_but_a_request_is_answered() {
    for v6 in [false, true] {
        let reply = reply(v6, b"data");
        assert_eq!(write_echo_reply(&reply, &IpPacket::parse(&reply).unwrap(), 64, 1500), None);
        let tcp = data_packet(v6, b"data");
        assert_eq!(write_echo_reply(&tcp, &IpPacket::parse(&tcp).unwrap(), 64, 1500), None);
    }
}

#[test]
fn an_error_is_what_its_receiver_understands() {
    for v6 in [false, true] {
        let about = data_packet(v6, b"data");
        let ip = IpPacket::parse(&about).unwrap();
        let error = write_error(OutgoingIcmpError::PortUnreachable, &about, ip.dst, ip.src, 64).unwrap();
        let parsed = IpPacket::parse(&error).unwrap();
        let report = match (parsed.payload, parsed.src, parsed.dst) {
            (IpPayload::Icmp4(bytes), ..) => parse_icmp4(bytes),
            (IpPayload::Icmp6(bytes), IpAddr::V6(src), IpAddr::V6(dst)) => parse_icmp6(src, dst, bytes),
            other => panic!("{other:?}"),
        };
        let report = report.unwrap().unwrap();
        assert_eq!(report.kind, IcmpKind::PortUnreachable);
        assert_eq!((report.src, report.dst), data_sockets(v6));
    }
}

#[test]
fn each_reason_why_a_destination_cannot_be_reached_is_understood() {
    for v6 in [false, true] {
        // Eight bytes of the TCP header are enough.
        let about = &data_packet(v6, b"data")[..if v6 { V6_LEN } else { V4_LEN } + 8];
        let (src, dst) = data_sockets(v6);
        for (error, kind, v4_code, v6_code) in [
            (OutgoingIcmpError::NetworkUnreachable, IcmpKind::NetworkUnreachable, 0, 0),
            (OutgoingIcmpError::HostUnreachable, IcmpKind::HostUnreachable, 1, 3),
            (OutgoingIcmpError::Prohibited, IcmpKind::Prohibited, 13, 1),
        ] {
            let packet = write_error(error, about, dst.ip(), src.ip(), 64).unwrap();
            let parsed = IpPacket::parse(&packet).unwrap();
            let (report, start) = match (parsed.payload, parsed.src, parsed.dst) {
                (IpPayload::Icmp4(bytes), ..) => (parse_icmp4(bytes), [bytes[0], bytes[1]]),
                (IpPayload::Icmp6(bytes), IpAddr::V6(src), IpAddr::V6(dst)) => {
                    (parse_icmp6(src, dst, bytes), [bytes[0], bytes[1]])
                }
                other => panic!("{other:?}"),
            };
            let report = report.unwrap().unwrap();
            assert_eq!((report.kind, report.src, report.dst), (kind, src, dst), "{error:?}");
            assert_eq!(start, if v6 { [1, v6_code] } else { [3, v4_code] });
        }
    }
}

#[test]
fn an_error_about_a_datagram_names_its_sockets() {
    for v6 in [false, true] {
        let (src, dst) = data_sockets(v6);
        let header = crate::UdpHeader { src, dst, ttl: 64, traffic_class: 0, flow_label: FlowLabel::NONE };
        let about = crate::write_udp(&header, &[1; 1400]).unwrap();
        for error in [OutgoingIcmpError::PortUnreachable, OutgoingIcmpError::ReassemblyTime] {
            let packet = write_error(error, &about, dst.ip(), src.ip(), 64).unwrap();
            assert!(packet.len() <= if v6 { V6_ERROR_MAX } else { V4_ERROR_MAX });
            let parsed = IpPacket::parse(&packet).unwrap();
            assert!(is_icmp_error(&parsed));
            let report = match parsed.payload {
                IpPayload::Icmp4(bytes) => parse_udp_error4(bytes),
                IpPayload::Icmp6(bytes) => parse_udp_error6(bytes),
                other => panic!("{other:?}"),
            };
            let report = report.unwrap();
            assert_eq!((report.src, report.dst), (src, dst));
            assert_eq!(report.kind == IcmpKind::PortUnreachable, error == OutgoingIcmpError::PortUnreachable);
        }
    }
}

/// RFC 1122 §3.2.2 and RFC 4443 §2.4 (e): errors and redirects draw no error; questions and answers do.
#[test]
fn an_error_or_a_redirect_draws_no_error() {
    let drawn = |v6: bool, kind: u8| {
        let (src, dst) = data_sockets(v6);
        let packet = write_message(src.ip(), dst.ip(), 64, None, [kind, 0], &[0; 6], &[1; 40]).unwrap();
        !is_icmp_error(&IpPacket::parse(&packet).unwrap())
    };
    assert_eq!([3, 4, 5, 11, 12].map(|kind| drawn(false, kind)), [false; 5]);
    assert_eq!([0, 8, 13, 14].map(|kind| drawn(false, kind)), [true; 4]);
    assert_eq!([1, 2, 3, 4, 127, 137].map(|kind| drawn(true, kind)), [false; 6]);
    assert_eq!([128, 129, 133, 134, 135, 136].map(|kind| drawn(true, kind)), [true; 6]);
}

#[test]
fn no_bytes_make_the_writers_panic() {
    for len in 0..60 {
        let about = &data_packet(false, b"0123456789")[..len.min(50)];
        let (from, to) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert!(write_error(OutgoingIcmpError::PortUnreachable, about, from, to, 64).is_some());
    }
}

#[test]
fn a_reply_that_does_not_fit_is_cut_in_ipv4_and_not_sent_in_ipv6() {
    for v6 in [false, true] {
        let request = request(v6, &[1; 1000]);
        let ip = IpPacket::parse(&request).unwrap();
        let reply = write_echo_reply(&request, &ip, 64, 500);
        assert_eq!(reply.map(|reply| reply.len()), (!v6).then_some(500));
    }
}
