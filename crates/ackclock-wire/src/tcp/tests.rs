use proptest::prelude::*;

use super::*;
use crate::testing::{bytes, data_packet, data_sockets, fields, packet, sockets};
use crate::{Fields, IpPacket, IpPayload, TxChecksum, options_len};

/// The segment in a packet.
fn tcp(packet: &[u8]) -> (IpAddr, IpAddr, &[u8]) {
    let ip = IpPacket::parse(packet).unwrap();
    let IpPayload::Tcp(bytes) = ip.payload else { panic!("not TCP: {ip:?}") };
    (ip.src, ip.dst, bytes)
}

fn parse(packet: &[u8]) -> Result<Segment<'_>, TcpError> {
    let (src, dst, bytes) = tcp(packet);
    Segment::parse(src, dst, bytes, ChecksumState::Complete)
}

proptest! {
    // Tests: RFC 9293 MUST-2
    // Tests: RFC 9293 MUST-5
    #[test]
    fn segment_comes_back_as_it_was_written(
        (src, dst) in sockets(), fields in fields(), payload in bytes(200),
    ) {
        let packet = packet((src, dst), &fields, &payload, TxChecksum::Full);
        let segment = parse(&packet).unwrap();
        let Fields { seq, ack, flags, window, urgent, ecn: _, options } = fields;
        prop_assert_eq!((segment.src_port, segment.dst_port), (src.port(), dst.port()));
        prop_assert_eq!((segment.seq, segment.ack, segment.flags), (seq, ack, flags));
        prop_assert_eq!((segment.window, segment.urgent, segment.payload), (window, urgent, &payload[..]));
        prop_assert_eq!(segment.options.timestamps, options.timestamps);
        let syn = flags.contains(Flags::SYN);
        prop_assert_eq!(segment.options.mss, options.mss.filter(|_| syn));
        prop_assert_eq!(segment.options.window_scale, options.window_scale.filter(|_| syn));
        prop_assert_eq!(segment.options.sack_permitted, options.sack_permitted && syn);
        let sent = options.sack.as_slice();
        prop_assert!(sent.starts_with(segment.options.sack.as_slice()));
        prop_assert_eq!(segment.options.accecn, options.accecn);
        // Options that belong only on SYNs, together with these counters, leave no room for a block.
        let others = options_len(&TcpOptions { sack: Default::default(), ..options });
        prop_assert_eq!(segment.options.sack.is_empty(), sent.is_empty() || others + 12 > 40);
    }

    #[test]
    fn checksum_agrees_with_etherparse((src, dst) in sockets(), fields in fields(), payload in bytes(200)) {
        let packet = packet((src, dst), &fields, &payload, TxChecksum::Full);
        let (src, dst, bytes) = tcp(&packet);
        let theirs = TcpSlice::from_slice(bytes).unwrap();
        let checksum = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => theirs.calc_checksum_ipv4(src.octets(), dst.octets()).unwrap(),
            (IpAddr::V6(src), IpAddr::V6(dst)) => theirs.calc_checksum_ipv6(src.octets(), dst.octets()).unwrap(),
            _ => unreachable!("one family"),
        };
        prop_assert_eq!(theirs.checksum(), checksum);
    }
}

/// docs/security.md D6: a flipped bit never goes unnoticed, at odd lengths either.
// Tests: RFC 9293 MUST-3
#[test]
fn every_flipped_bit_is_refused() {
    for (v6, payload) in [(false, &b"odd"[..]), (false, b"even"), (true, b"odd"), (true, b"even")] {
        let packet = data_packet(v6, payload);
        let (src, dst, bytes) = tcp(&packet);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let parsed = Segment::parse(src, dst, &flipped, ChecksumState::Complete);
            assert!(parsed.is_err(), "bit {bit} of {bytes:?}");
        }
    }
}

// Tests: RFC 9293 MUST-3
#[test]
fn checksum_covers_the_addresses() {
    let packet = data_packet(false, b"data");
    let (src, _, bytes) = tcp(&packet);
    let parsed = Segment::parse(src, "10.0.0.3".parse().unwrap(), bytes, ChecksumState::Complete);
    assert_eq!(parsed.err(), Some(TcpError::Checksum));
}

#[test]
fn zero_in_the_checksum_field_is_no_excuse() {
    let mut packet = data_packet(false, b"data");
    packet[36..38].fill(0);
    assert_eq!(parse(&packet).err(), Some(TcpError::Checksum));
}

#[test]
fn checksum_is_not_looked_at_where_the_device_vouches_for_it() {
    for checksum in [ChecksumState::Partial(crate::ChecksumAt::tcp(20)), ChecksumState::Verified] {
        let mut packet = data_packet(false, b"data");
        packet[36] ^= 0xff;
        let (src, dst, bytes) = tcp(&packet);
        assert!(Segment::parse(src, dst, bytes, checksum).is_ok());
    }
}

/// docs/security.md D1: every data offset over every segment length.
#[test]
fn data_offset_lies_are_refused() {
    let (src, dst) = data_sockets(false);
    for (offset, len) in (0..16u8).flat_map(|offset| (0..=80usize).map(move |len| (offset, len))) {
        let mut bytes = vec![1; len];
        if let Some(byte) = bytes.get_mut(12) {
            *byte = offset << 4;
        }
        let header = usize::from(offset) * 4;
        let expected = match (len, header) {
            (0..20, _) => Err(TcpError::Length),
            (_, 0..20) => Err(TcpError::DataOffset),
            (len, header) if len < header => Err(TcpError::Length),
            (len, header) => Ok(len - header),
        };
        let parsed = Segment::parse(src.ip(), dst.ip(), &bytes, ChecksumState::Verified);
        assert_eq!(parsed.map(|segment| segment.payload.len()), expected, "offset {offset}, {len} bytes");
    }
}

/// docs/security.md C15: the nine control bits do not disturb one another.
#[test]
fn every_flag_set_is_read() {
    for bits in 0..0x200 {
        let fields = Fields { flags: Flags::from_bits(bits), ..Default::default() };
        let packet = packet(data_sockets(true), &fields, &[], TxChecksum::Full);
        assert_eq!(parse(&packet).unwrap().flags.bits(), bits);
    }
}

#[test]
fn syn_and_fin_each_count_in_the_length() {
    let fields = Fields { flags: Flags::SYN | Flags::FIN, ..Default::default() };
    let packet = packet(data_sockets(false), &fields, b"abc", TxChecksum::Full);
    assert_eq!(parse(&packet).unwrap().seq_len(), 5);
}

#[test]
fn flags_print_their_names() {
    assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "SYN,ACK");
    assert_eq!(format!("{:?}", Flags::NONE), "NONE");
}

#[test]
fn ace_is_the_three_flags_as_a_number() {
    assert_eq!(Flags::from_ace(5), Flags::AE | Flags::ECE);
    assert!((0..8).all(|ace| (Flags::from_ace(ace) | Flags::ACK).ace() == ace));
    assert_eq!(Flags::from_ace(7), Flags::ACE);
}
