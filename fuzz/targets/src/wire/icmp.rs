//! ICMP: errors that come in, and what is sent.

use std::net::{IpAddr, SocketAddr};

use ackclock_wire::icmp_out::{is_echo_request, is_icmp_error, write_echo_reply};
use ackclock_wire::{
    IcmpParseError, IcmpReport, IpPacket, IpPayload, parse_icmp4, parse_icmp6, parse_udp_error4,
    parse_udp_error6,
};
use etherparse::{Ipv4Header, Ipv6Header, ip_number};

use super::Count;

/// Parses a message, which `packet` carried as `ip`, and holds what it quotes against etherparse.
pub(super) fn judge(ip: &IpPacket<'_>, packet: &[u8], message: &[u8], count: &mut Count) {
    count.one();
    count.one();
    let (report, udp) = match (ip.src, ip.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => (parse_icmp6(src, dst, message), parse_udp_error6(message)),
        _ => (parse_icmp4(message), parse_udp_error4(message)),
    };
    if let Ok(Some(report)) = report {
        assert!(is_icmp_error(ip), "a report of a message that is not an error: {report:?}");
        quotes(&report, message);
    }
    if let Some(udp) = udp
        && report.is_ok()
    {
        assert!(report == Ok(None), "a quote of TCP and of UDP");
        assert!(is_icmp_error(ip), "{udp:?}");
    }
    echo(ip, packet, message, report, count);
}

/// The report is about the segment whose header the message quotes.
fn quotes(report: &IcmpReport, message: &[u8]) {
    let quote = &message[8..];
    let (src, dst, rest): (IpAddr, IpAddr, &[u8]) = if report.src.is_ipv4() {
        let (header, rest) = Ipv4Header::from_slice(quote).expect("a report quotes a header");
        assert_eq!(header.protocol, ip_number::TCP);
        assert_eq!(header.fragment_offset.value(), 0, "a fragment behind the ports");
        (header.source.into(), header.destination.into(), rest)
    } else {
        let (header, rest) = Ipv6Header::from_slice(quote).expect("a report quotes a header");
        if header.next_header != ip_number::TCP {
            return; // extension headers
        }
        (header.source.into(), header.destination.into(), rest)
    };
    let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
    assert_eq!((report.src, report.dst), (SocketAddr::new(src, port(0)), SocketAddr::new(dst, port(2))));
    assert_eq!(report.seq.raw().to_be_bytes(), rest[4..8]);
}

/// A request is answered by as much as fits, and the answer is not a request.
fn echo(
    ip: &IpPacket<'_>,
    packet: &[u8],
    message: &[u8],
    report: Result<Option<IcmpReport>, IcmpParseError>,
    count: &mut Count,
) {
    for packet_max in [0, 64, 1500] {
        let Some(reply) = write_echo_reply(packet, ip, 64, packet_max) else {
            assert!(!is_echo_request(ip) || packet_max < 1500 || message.len() > 1400, "no answer");
            continue;
        };
        assert!(is_echo_request(ip) && reply.len() <= packet_max, "{} bytes", reply.len());
        let again = super::ip::parse(&reply, count).expect("what is printed is a packet");
        assert_eq!((again.src, again.dst), (ip.dst, ip.src));
        assert!(!is_echo_request(&again), "an answer that asks");
        let (IpPayload::Icmp4(answer) | IpPayload::Icmp6(answer)) = again.payload else {
            panic!("{again:?}")
        };
        count.one();
        let right = match (again.src, again.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => parse_icmp6(src, dst, answer),
            _ => parse_icmp4(answer),
        };
        assert_eq!(right, Ok(None), "the checksum of the answer");
        assert!(report.is_err() || message[4..].starts_with(&answer[4..]), "other data");
    }
}
