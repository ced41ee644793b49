use etherparse::{Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type};

use super::*;
use crate::testing::data_packet;

/// An ICMPv4 message of any type and code that quotes `quote`.
fn icmp4(kind: u8, code: u8, rest: [u8; 4], quote: &[u8]) -> Vec<u8> {
    let icmp_type = Icmpv4Type::Unknown { type_u8: kind, code_u8: code, bytes5to8: rest };
    [&Icmpv4Header::with_checksum(icmp_type, quote).to_bytes()[..], quote].concat()
}

fn addresses() -> (Ipv6Addr, Ipv6Addr) {
    ("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap())
}

/// Builds an ICMPv6 message.
fn icmp6(kind: u8, code: u8, rest: [u8; 4], quote: &[u8]) -> Vec<u8> {
    let (src, dst) = addresses();
    let icmp_type = Icmpv6Type::Unknown { type_u8: kind, code_u8: code, bytes5to8: rest };
    let header = Icmpv6Header::with_checksum(icmp_type, src.octets(), dst.octets(), quote).unwrap();
    [&header.to_bytes()[..], quote].concat()
}

fn parse6(bytes: &[u8]) -> Result<Option<IcmpReport>, IcmpParseError> {
    let (src, dst) = addresses();
    parse_icmp6(src, dst, bytes)
}

fn kind4(kind: u8, code: u8, rest: [u8; 4]) -> Option<IcmpKind> {
    let quote = data_packet(false, b"data");
    parse_icmp4(&icmp4(kind, code, rest, &quote[..28])).unwrap().map(|report| report.kind)
}

fn kind6(kind: u8, code: u8, rest: [u8; 4]) -> Option<IcmpKind> {
    let quote = data_packet(true, b"data");
    parse6(&icmp6(kind, code, rest, &quote)).unwrap().map(|report| report.kind)
}

#[test]
fn quoted_segment_is_named() {
    let report = parse_icmp4(&icmp4(3, 3, [0; 4], &data_packet(false, b"data")[..28])).unwrap().unwrap();
    assert_eq!((report.src, report.dst), crate::testing::data_sockets(false));
    assert_eq!(report.seq, SeqNum::new(0xffff_ff00));
    let report = parse6(&icmp6(1, 4, [0; 4], &data_packet(true, b"data")[..48])).unwrap().unwrap();
    assert_eq!((report.src, report.dst), crate::testing::data_sockets(true));
    assert_eq!(report.seq, SeqNum::new(0xffff_ff00));
}

#[test]
fn every_v4_code_has_its_kind() {
    use IcmpKind::*;
    let unreachable = [
        NetworkUnreachable,
        HostUnreachable,
        ProtocolUnreachable,
        PortUnreachable,
        PacketTooBig { mtu: 0x0304 },
        SourceRouteFailed,
        NetworkUnreachable,
        HostUnreachable,
        HostUnreachable,
        Prohibited,
        Prohibited,
        NetworkUnreachable,
        HostUnreachable,
        Prohibited,
        Prohibited,
        Prohibited,
        Other,
    ];
    for (code, kind) in (0..).zip(unreachable) {
        assert_eq!(kind4(3, code, [1, 2, 3, 4]), Some(kind), "code {code}");
    }
    assert_eq!(kind4(4, 0, [0; 4]), Some(SourceQuench));
    assert_eq!(
        [kind4(11, 0, [0; 4]), kind4(11, 1, [0; 4]), kind4(11, 2, [0; 4])].map(Option::unwrap),
        [TimeExceeded, TimeExceeded, Other]
    );
    assert_eq!(
        [0, 1, 2, 3].map(|code| kind4(12, code, [0; 4]).unwrap()),
        [ParameterProblem, ParameterProblem, ParameterProblem, Other]
    );
    for kind in (0..=255).filter(|kind| ![3, 4, 11, 12, 13, 14].contains(kind)) {
        assert_eq!(kind4(kind, 0, [0; 4]), None, "type {kind} is not an error");
    }
}

#[test]
fn every_v6_code_has_its_kind() {
    use IcmpKind::*;
    let unreachable = [
        NetworkUnreachable,
        Prohibited,
        NetworkUnreachable,
        HostUnreachable,
        PortUnreachable,
        Prohibited,
        Prohibited,
        Other,
    ];
    for (code, kind) in (0..).zip(unreachable) {
        assert_eq!(kind6(1, code, [0; 4]), Some(kind), "code {code}");
    }
    for code in [0, 9] {
        assert_eq!(
            kind6(2, code, [0, 1, 0, 5]),
            Some(PacketTooBig { mtu: 65_541 }),
            "code {code} is ignored"
        );
    }
    assert_eq!(kind6(3, 1, [0; 4]), Some(TimeExceeded));
    assert_eq!(kind6(4, 0, [0; 4]), Some(ParameterProblem));
    assert_eq!(kind6(4, 1, [0; 4]), Some(ProtocolUnreachable));
    assert_eq!(kind6(100, 0, [0; 4]), Some(Other));
    for kind in 128..=255 {
        assert_eq!(kind6(kind, 0, [0; 4]), None, "type {kind} is not an error");
    }
}

#[test]
fn quote_cut_before_the_sequence_number_is_refused() {
    let (v4, v6) = (data_packet(false, b""), data_packet(true, b""));
    for len in 0..28 {
        assert_eq!(parse_icmp4(&icmp4(3, 3, [0; 4], &v4[..len])), Err(IcmpParseError::Quote), "{len}");
    }
    for len in 0..48 {
        assert_eq!(parse6(&icmp6(1, 4, [0; 4], &v6[..len])), Err(IcmpParseError::Quote), "{len}");
    }
    for len in 0..8 {
        assert_eq!(parse_icmp4(&v4[..len]), Err(IcmpParseError::Length));
        assert_eq!(parse6(&v6[..len]), Err(IcmpParseError::Length));
    }
}

#[test]
fn quotes_of_other_protocols_and_later_fragments_are_passed_over() {
    let mut udp = data_packet(false, b"data");
    udp[9] = 17;
    assert_eq!(parse_icmp4(&icmp4(3, 3, [0; 4], &udp)), Ok(None));
    let mut fragment = data_packet(false, b"data");
    fragment[6..8].copy_from_slice(&[0, 1]);
    assert_eq!(parse_icmp4(&icmp4(3, 3, [0; 4], &fragment)), Ok(None));
    let mut udp = data_packet(true, b"data");
    udp[6] = 17;
    assert_eq!(parse6(&icmp6(1, 4, [0; 4], &udp)), Ok(None));
}

#[test]
fn every_flipped_bit_of_a_message_is_refused() {
    let message = icmp4(3, 3, [0; 4], &data_packet(false, b"data")[..28]);
    let message6 = icmp6(1, 4, [0; 4], &data_packet(true, b"data"));
    let flip = |message: &[u8], bit: usize| {
        let mut flipped = message.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    };
    for bit in 0..message.len() * 8 {
        assert!(parse_icmp4(&flip(&message, bit)).is_err(), "bit {bit}");
    }
    for bit in 0..message6.len() * 8 {
        assert_eq!(parse6(&flip(&message6, bit)), Err(IcmpParseError::Checksum), "bit {bit}");
    }
    let (src, dst) = addresses();
    assert_eq!(parse_icmp6(src, src, &message6), Err(IcmpParseError::Checksum), "{dst} is covered too");
}
