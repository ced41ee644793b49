use etherparse::{Ipv4Header, Ipv6Header};
use proptest::prelude::*;

use super::*;
use crate::testing::{data_packet, fix_v4_checksum};

/// A data segment behind IPv4 options, which must be a multiple of 4 bytes.
fn v4_with_options(options: &[u8]) -> Vec<u8> {
    let plain = data_packet(false, b"data");
    let mut packet = [&plain[..20], options, &plain[20..]].concat();
    packet[0] = 0x45 + u8::try_from(options.len() / 4).unwrap();
    let len = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    fix_v4_checksum(&mut packet);
    packet
}

/// A data segment behind IPv6 extension headers. `first` is the number of the first; the last must name TCP
/// (6).
fn v6_with_extensions(first: u8, extensions: &[u8]) -> Vec<u8> {
    let plain = data_packet(true, b"data");
    let mut packet = [&plain[..40], extensions, &plain[40..]].concat();
    packet[6] = first;
    let len = u16::try_from(packet.len() - 40).unwrap();
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet
}

fn is_tcp(packet: &[u8]) -> bool {
    matches!(IpPacket::parse(packet), Ok(IpPacket { payload: IpPayload::Tcp(bytes), .. }) if bytes.ends_with(b"data"))
}

#[test]
fn v4_and_v6_headers_are_read() {
    for (v6, src, dst) in [(false, "10.0.0.1", "10.0.0.2"), (true, "fd00::1", "fd00::2")] {
        let packet = data_packet(v6, b"data");
        let parsed = IpPacket::parse(&packet).unwrap();
        assert_eq!((parsed.src, parsed.dst), (src.parse().unwrap(), dst.parse().unwrap()));
        assert_eq!((parsed.ttl, parsed.traffic_class), (64, 0));
        assert!(is_tcp(&packet));
    }
}

proptest! {
    #[test]
    fn etherparse_headers_are_read(src: [u8; 4], dst: [u8; 4], ttl: u8, tos: u8, protocol: u8, src6: [u8; 16]) {
        let mut header = Ipv4Header::new(4, ttl, IpNumber(protocol), src, dst).unwrap();
        header.dscp = etherparse::IpDscp::try_new(tos >> 2).unwrap();
        header.ecn = etherparse::IpEcn::try_new(tos & 3).unwrap();
        header.header_checksum = header.calc_header_checksum();
        let packet = [&header.to_bytes()[..], b"load"].concat();
        // etherparse parses authentication headers, but these four bytes are not one.
        if protocol != ip_number::AUTH.0 {
            let payload = match protocol {
                6 => IpPayload::Tcp(b"load"),
                1 => IpPayload::Icmp4(b"load"),
                17 => IpPayload::Udp(b"load"),
                other => IpPayload::Other(other),
            };
            let expected = IpPacket { src: src.into(), dst: dst.into(), ttl, traffic_class: tos, payload };
            prop_assert_eq!(IpPacket::parse(&packet), Ok(expected));
        }
        let header = Ipv6Header {
            traffic_class: tos, payload_length: 4, next_header: ip_number::IPV6_ICMP, hop_limit: ttl, source: src6,
            ..Default::default()
        };
        let packet = [&header.to_bytes()[..], b"load"].concat();
        let parsed = IpPacket::parse(&packet).unwrap();
        prop_assert_eq!(parsed.src, IpAddr::from(src6));
        prop_assert_eq!((parsed.ttl, parsed.traffic_class), (ttl, tos));
        prop_assert_eq!(parsed.payload, IpPayload::Icmp6(b"load"));
    }
}

/// docs/security.md D1: header length, total length and the number of bytes, in all their contradictions.
#[test]
fn v4_length_lies_are_refused() {
    for (ihl, len) in (0..16u8).flat_map(|ihl| (1..=80usize).map(move |len| (ihl, len))) {
        for total in [0, 19, 20, 40, len - 1, len, len + 1, 0xffff] {
            let mut packet = vec![0; len];
            packet[0] = 0x40 | ihl;
            if len >= 20 {
                packet[2..4].copy_from_slice(&u16::try_from(total).unwrap().to_be_bytes());
                packet[9] = 6;
                fix_v4_checksum(&mut packet);
            }
            let header = usize::from(ihl) * 4;
            let consistent = header >= 20 && header <= total && total <= len;
            match IpPacket::parse(&packet) {
                Ok(IpPacket { payload: IpPayload::Tcp(bytes), .. }) => {
                    assert!(consistent, "IHL {ihl}, total length {total}, {len} bytes");
                    assert_eq!(bytes.len(), total - header, "trailing bytes are cut off");
                }
                parsed => assert!(!consistent && parsed == Err(IpError::Length), "{parsed:?}: {packet:?}"),
            }
        }
    }
}

#[test]
fn v6_length_lies_are_refused() {
    let packet = data_packet(true, b"data");
    let stated = packet.len() - 40;
    for claim in 0..=stated + 40 {
        let mut packet = packet.clone();
        packet[4..6].copy_from_slice(&u16::try_from(claim).unwrap().to_be_bytes());
        match IpPacket::parse(&packet) {
            Ok(IpPacket { payload: IpPayload::Tcp(bytes), .. }) => assert_eq!(bytes.len(), claim),
            parsed => assert!(claim > stated && parsed == Err(IpError::Length), "{claim}: {parsed:?}"),
        }
    }
    for len in 1..40 {
        assert_eq!(IpPacket::parse(&packet[..len]), Err(IpError::Length));
    }
}

#[test]
fn other_versions_are_refused() {
    assert_eq!(IpPacket::parse(&[]), Err(IpError::Length));
    for version in (0..16).filter(|version| ![4, 6].contains(version)) {
        assert_eq!(IpPacket::parse(&[version << 4; 60]), Err(IpError::Version));
    }
}

/// docs/security.md D6. Flipping the bit that makes the version a 6 gives a different, valid kind of packet.
#[test]
fn every_flipped_bit_of_a_v4_header_is_refused() {
    let packet = data_packet(false, b"data");
    for bit in (0..160).filter(|bit| *bit != 5) {
        let mut packet = packet.clone();
        packet[bit / 8] ^= 1 << (bit % 8);
        assert!(IpPacket::parse(&packet).is_err(), "bit {bit}");
    }
}

/// docs/security.md D3: every kind and length. Only the two source routes and impossible lengths are refused.
// Tests: RFC 9293 MUST-50
#[test]
fn v4_options_are_skipped_but_source_routes_refused() {
    for (kind, len) in (0..=255u8).flat_map(|kind| (0..=255u8).map(move |len| (kind, len))) {
        let mut options = [V4_NOP; 12];
        options[4..6].copy_from_slice(&[kind, len]);
        let packet = v4_with_options(&options);
        let parsed = IpPacket::parse(&packet).map(|_| ());
        let expected = match (kind, len) {
            (V4_LOOSE_SOURCE_ROUTE | V4_STRICT_SOURCE_ROUTE, _) => Err(IpError::SourceRoute),
            (V4_NOP, V4_LOOSE_SOURCE_ROUTE | V4_STRICT_SOURCE_ROUTE) => Err(IpError::SourceRoute),
            (V4_END, _) | (V4_NOP, 0 | 1) | (2.., 2..=8) => Ok(()),
            _ => Err(IpError::Options),
        };
        assert_eq!(parsed, expected, "kind {kind} length {len}");
        assert_eq!(is_tcp(&packet), expected.is_ok());
    }
}

/// docs/security.md D5.
#[test]
fn fragments_are_refused() {
    for (flags, expected) in [
        (0x4000, None),
        (0x0000, None),
        (0x2000, Some(IpError::Fragment)),
        (0x0001, Some(IpError::Fragment)),
        (0x3fff, Some(IpError::Fragment)),
    ] {
        let mut packet = data_packet(false, b"data");
        packet[6..8].copy_from_slice(&u16::to_be_bytes(flags));
        fix_v4_checksum(&mut packet);
        assert_eq!(IpPacket::parse(&packet).err(), expected, "{flags:#x}");
    }
    for (field, expected) in
        [([0, 0], None), ([0, 1], Some(IpError::Fragment)), ([0, 8], Some(IpError::Fragment))]
    {
        let packet = v6_with_extensions(44, &[6, 0, field[0], field[1], 1, 2, 3, 4]);
        assert_eq!(IpPacket::parse(&packet).err(), expected, "{field:?}");
    }
}

/// docs/security.md D4: eight headers are skipped, a ninth is too many.
#[test]
fn extension_headers_are_walked_up_to_their_bound() {
    for count in 1..=12 {
        // Destination options, each with one PadN option over its six bytes.
        let mut extensions = [60, 0, 1, 4, 0, 0, 0, 0].repeat(count);
        extensions[8 * (count - 1)] = 6;
        let packet = v6_with_extensions(60, &extensions);
        assert_eq!(is_tcp(&packet), count <= EXTENSIONS_MAX, "{count} headers");
        let error = IpPacket::parse(&packet).err();
        assert_eq!(error, (count > EXTENSIONS_MAX).then_some(IpError::ExtensionHeaders));
    }
}

#[test]
fn extension_header_lengths_beyond_the_packet_are_refused() {
    for (first, len) in [0u8, 43, 60].into_iter().flat_map(|first| (0..=255u8).map(move |len| (first, len))) {
        let packet = v6_with_extensions(first, &[6, len, 1, 0, 1, 0, 0, 0]);
        let behind = packet.len() - 40;
        let fits = (usize::from(len) + 1) * 8 <= behind;
        match IpPacket::parse(&packet) {
            Ok(parsed) => assert!(fits, "{parsed:?}"),
            Err(error) => assert!(!fits || error == IpError::Options, "{first} {len}: {error}"),
        }
    }
}

#[test]
fn hop_by_hop_options_come_first_or_not_at_all() {
    let hop_by_hop = [6, 0, 1, 4, 0, 0, 0, 0];
    assert!(is_tcp(&v6_with_extensions(0, &hop_by_hop)));
    let second = [&[0, 0, 1, 4, 0, 0, 0, 0][..], &hop_by_hop].concat();
    assert_eq!(IpPacket::parse(&v6_with_extensions(60, &second)), Err(IpError::ExtensionHeaders));
}

#[test]
fn v6_options_that_must_not_be_skipped_are_refused() {
    for kind in 2..=255u8 {
        let packet = v6_with_extensions(60, &[6, 0, 0, kind, 3, 0, 0, 0]);
        assert_eq!(is_tcp(&packet), kind < 64, "option type {kind}");
        assert_eq!(IpPacket::parse(&packet).is_err(), kind >= 64);
    }
}

#[test]
fn routing_header_with_segments_left_is_a_source_route() {
    assert!(is_tcp(&v6_with_extensions(43, &[6, 0, 0, 0, 0, 0, 0, 0])));
    let routed = v6_with_extensions(43, &[6, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(IpPacket::parse(&routed), Err(IpError::SourceRoute));
}

#[test]
fn unverifiable_authentication_header_is_not_skipped() {
    let packet = v6_with_extensions(51, &[6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    assert_eq!(IpPacket::parse(&packet).unwrap().payload, IpPayload::Other(51));
}
