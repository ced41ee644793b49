use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::*;
use crate::testing::{
    bytes, data_fields, data_packet, data_sockets, fields, fix_v4_checksum, packet, sockets,
};
use crate::{Fields, HeaderTemplate, TxChecksum};

/// The output of `cut`, each segment in one piece.
fn cut_all(packet: &TxPacket<'_>) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    cut(packet, |segment| {
        assert_eq!((segment.checksum, segment.segment_size), (ChecksumState::Complete, None));
        segments.push(segment.to_vec());
    });
    segments
}

fn cut_received(packet: &[u8], checksum: ChecksumState, size: Option<u16>) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    let meta = RxMeta { checksum, segment_size: size.and_then(NonZeroU16::new) };
    cut_contiguous(packet, meta, |segment| segments.push(segment.to_vec()));
    segments
}

/// Checks that the segments, each verified, carry `payload` in order, with the flags where they belong.
fn check(segments: &[Vec<u8>], fields: &Fields, payload: &[u8], size: usize) -> Result<(), TestCaseError> {
    prop_assert_eq!(segments.len(), payload.len().div_ceil(size).max(1));
    let (mut at, last) = (0, segments.len() - 1);
    for (index, bytes) in segments.iter().enumerate() {
        let ip = IpPacket::parse(bytes).unwrap();
        let IpPayload::Tcp(tcp) = ip.payload else { panic!("not TCP") };
        let segment = Segment::parse(ip.src, ip.dst, tcp, ChecksumState::Complete).unwrap();
        prop_assert_eq!(bytes.as_ptr_range().end, tcp.as_ptr_range().end, "the IP length is right");
        prop_assert_eq!(segment.payload, &payload[at..(at + size).min(payload.len())]);
        prop_assert_eq!(segment.seq, fields.seq + u32::try_from(at).unwrap());
        let mut flags = fields.flags.without(Flags::URG);
        if index < last {
            flags = flags.without(Flags::FIN | Flags::PSH);
        }
        if index > 0 {
            flags = flags.without(Flags::CWR);
        }
        prop_assert_eq!(segment.flags.without(Flags::URG), flags);
        prop_assert_eq!((segment.ack, segment.window), (fields.ack, fields.window));
        prop_assert_eq!(segment.options.timestamps, fields.options.timestamps);
        at += segment.payload.len();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn cut_segments_are_the_whole_in_order(
        sockets in sockets(), fields in fields(), payload in bytes(5000), at in 0usize..5000, size in 1u16..3000,
    ) {
        let (src, dst): (SocketAddr, SocketAddr) = sockets;
        let template = HeaderTemplate::new(src, dst, 64, 0);
        let (first, second) = payload.split_at(at.min(payload.len()));
        let mut header = [0; crate::HEADER_MAX];
        let len = template.write(&mut header, &fields, [first, second], TxChecksum::Partial);
        let whole = TxPacket {
            header: &header[..len],
            transport_offset: template.transport_offset(),
            payload: [first, second],
            segment_size: NonZeroU16::new(size),
            checksum: ChecksumState::Partial(ChecksumAt::tcp(template.transport_offset())),
        };
        let segments = cut_all(&whole);
        check(&segments, &fields, &payload, size.into())?;
        // This packet in one piece, as a device hands it over.
        let received = packet(sockets, &fields, &payload, TxChecksum::Partial);
        prop_assert_eq!(cut_received(&received, partial_tcp(&received), Some(size)), segments);
    }

    #[test]
    fn packet_that_is_not_cut_gets_its_checksum(sockets in sockets(), fields in fields(), payload in bytes(300)) {
        let partial = packet(sockets, &fields, &payload, TxChecksum::Partial);
        let full = packet(sockets, &fields, &payload, TxChecksum::Full);
        prop_assert_eq!(cut_received(&partial, partial_tcp(&partial), None), vec![full.clone()]);
        prop_assert_eq!(cut_received(&partial, ChecksumState::Verified, None), vec![full.clone()]);
        prop_assert_eq!(cut_received(&full, ChecksumState::Complete, None), vec![full]);
    }

    /// docs/security.md D7: whatever the metadata claims.
    #[test]
    fn arbitrary_bytes_and_metadata_never_panic(
        bytes in bytes(200), valid: bool, size: u16, checksum in 0..5, offset: u16, field: u16, at in 0usize..200,
    ) {
        let bytes = if valid { data_packet(bytes.len() % 2 == 0, &bytes) } else { bytes };
        let at_field = ChecksumAt { start: offset % 64, offset: field };
        let checksum = [
            ChecksumState::Complete,
            ChecksumState::Verified,
            ChecksumState::Partial(ChecksumAt::tcp(offset % 64)),
            ChecksumState::Partial(ChecksumAt::udp(offset % 64)),
            ChecksumState::Partial(at_field),
        ][checksum as usize];
        cut_received(&bytes, checksum, Some(size));
        let (header, payload) = bytes.split_at(at.min(bytes.len()));
        for transport_offset in [offset, offset % 64] {
            let segment_size = NonZeroU16::new(size);
            cut(&TxPacket { header, transport_offset, payload: [payload, &[]], segment_size, checksum }, |_| {});
            finish_checksum(&mut bytes.clone(), at_field);
        }
    }
}

#[test]
fn wrong_checksum_is_not_replaced_by_right_ones() {
    let mut packet = data_packet(false, &[7; 3000]);
    packet[100] ^= 1;
    assert_eq!(cut_received(&packet, ChecksumState::Complete, Some(1000)), [packet.clone()]);
    packet[100] ^= 1;
    assert_eq!(cut_received(&packet, ChecksumState::Complete, Some(1000)).len(), 3);
}

#[test]
fn unfinished_checksum_of_udp_is_finished_where_it_stands() {
    for v6 in [false, true] {
        let right = udp_packet(v6, &payload_of(101));
        let mut partial = right.clone();
        let at = unfinish_udp(&mut partial);
        assert_eq!(cut_received(&partial, ChecksumState::Partial(at), None), std::slice::from_ref(&right));
        // As a stack sends it: header and payload separate, also at odd lengths.
        let (header, payload) = partial.split_at(usize::from(at.start) + 8);
        for len in 0..=payload.len() {
            let (first, second) = payload.split_at(len);
            let packet = TxPacket {
                header,
                transport_offset: at.start,
                payload: [first, second],
                segment_size: None,
                checksum: ChecksumState::Partial(at),
            };
            assert_eq!(cut_all(&packet), std::slice::from_ref(&right), "{len} bytes in the first part");
        }
    }
}

#[test]
fn datagrams_are_cut_each_with_its_own_length_and_checksum() {
    for v6 in [false, true] {
        let mut whole = udp_packet(v6, &payload_of(250));
        let at = unfinish_udp(&mut whole);
        let segments = cut_received(&whole, ChecksumState::Partial(at), Some(100));
        let wanted = [&payload_of(250)[..100], &payload_of(250)[100..200], &payload_of(250)[200..]];
        assert_eq!(segments, wanted.map(|payload| udp_packet(v6, payload)));
        let (header, payload) = whole.split_at(usize::from(at.start) + 8);
        let packet = TxPacket {
            header,
            transport_offset: at.start,
            payload: [payload, &[]],
            segment_size: NonZeroU16::new(100),
            checksum: ChecksumState::Partial(at),
        };
        assert_eq!(cut_all(&packet), segments);
    }
}

#[test]
fn coalesced_datagrams_with_a_wrong_checksum_stay_wrong() {
    let mut packet = udp_packet(false, &[7; 250]);
    packet[100] ^= 1;
    assert_eq!(cut_received(&packet, ChecksumState::Complete, Some(100)), [packet.clone()]);
    packet[100] ^= 1;
    assert_eq!(cut_received(&packet, ChecksumState::Complete, Some(100)).len(), 3);
}

/// RFC 768: zero stands for no checksum.
#[test]
fn udp_checksum_that_comes_out_as_zero_is_sent_as_all_ones() {
    let mut packet = udp_packet(false, &[0, 0]);
    // The payload replaces the checksum, so that the checksum of the whole is zero.
    let checksum = [packet[26], packet[27]];
    packet[28..].copy_from_slice(&checksum);
    packet[26..28].fill(0);
    let at = unfinish_udp(&mut packet);
    finish_checksum(&mut packet, at);
    assert_eq!(packet[26..28], [0xff, 0xff]);
}

/// A tunnel's packet: the outer checksum is complete, the inner one unfinished.
#[test]
fn unfinished_checksum_of_an_inner_packet_is_found() {
    let mut inner = udp_packet(false, b"inner");
    let right = udp_packet(false, &inner);
    let at = unfinish_udp(&mut inner);
    let outer = ChecksumAt { start: 28 + at.start, ..at };
    let mut packet = right.clone();
    packet[28..].copy_from_slice(&inner);
    assert_eq!(cut_received(&packet, ChecksumState::Partial(outer), None), [right]);
}

#[test]
fn trailing_bytes_are_left_behind() {
    let packet = data_packet(true, b"12345");
    let padded = [&packet[..], &[0xee; 9]].concat();
    let segments = cut_received(&padded, ChecksumState::Complete, Some(3));
    assert_eq!(segments.iter().map(|segment| &segment[72..]).collect::<Vec<_>>(), [&b"123"[..], b"45"]);
}

#[test]
fn identification_counts_up_only_where_fragmentation_is_allowed() {
    for (flags, ids) in [(0x40, [9, 9, 9]), (0, [9, 10, 11])] {
        let mut packet = data_packet(false, b"abc");
        packet[4..7].copy_from_slice(&[0, 9, flags]);
        fix_v4_checksum(&mut packet);
        let segments = cut_received(&packet, ChecksumState::Complete, Some(1));
        assert_eq!(segments.iter().map(|segment| segment[5]).collect::<Vec<_>>(), ids);
    }
}

#[test]
fn urgent_pointer_keeps_pointing_at_the_same_byte() {
    let fields = Fields { flags: Flags::ACK | Flags::URG, urgent: 4, ..data_fields() };
    let whole = packet(data_sockets(false), &fields, b"abcdef", TxChecksum::Partial);
    let segments = cut_received(&whole, partial_tcp(&whole), Some(2));
    let urgent: Vec<_> = segments.iter().map(|segment| (segment[33] & 0x20 != 0, segment[39])).collect();
    assert_eq!(urgent, [(true, 4), (true, 2), (false, 0)]);
    let fields = Fields { urgent: 0, ..fields };
    let whole = packet(data_sockets(false), &fields, b"abcd", TxChecksum::Partial);
    let segments = cut_received(&whole, partial_tcp(&whole), Some(2));
    assert_eq!([segments[0][33] & 0x20, segments[1][33] & 0x20], [0x20, 0], "a pointer at the first byte");
}

fn partial_tcp(packet: &[u8]) -> ChecksumState {
    ChecksumState::Partial(ChecksumAt::tcp(if packet[0] >> 4 == 4 { 20 } else { 40 }))
}

fn payload_of(len: u8) -> Vec<u8> {
    (0..len).collect()
}

/// A finished datagram between the hosts of [`data_sockets`], built by etherparse.
fn udp_packet(v6: bool, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = data_sockets(v6);
    let builder = match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => PacketBuilder::ipv4(src.octets(), dst.octets(), 64),
        (IpAddr::V6(src), IpAddr::V6(dst)) => PacketBuilder::ipv6(src.octets(), dst.octets(), 64),
        _ => panic!("two families"),
    };
    let mut packet = Vec::new();
    builder.udp(src.port(), dst.port()).write(&mut packet, payload).unwrap();
    packet
}

/// Leaves the pseudo-header sum in the checksum field, as a stack does for a device that finishes it.
fn unfinish_udp(packet: &mut [u8]) -> ChecksumAt {
    let ip = IpPacket::parse(packet).unwrap();
    let at = ChecksumAt::udp(if packet[0] >> 4 == 4 { 20 } else { 40 });
    let sum = pseudo_header(ip.src, ip.dst, UDP, packet.len() - usize::from(at.start)).fold();
    packet[at.field()..at.field() + 2].copy_from_slice(&sum.to_be_bytes());
    at
}
