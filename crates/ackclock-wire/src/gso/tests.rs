use std::net::SocketAddr;
use std::num::NonZeroU16;

use proptest::prelude::*;

use super::*;
use crate::testing::{
    bytes, data_fields, data_packet, data_sockets, fields, fix_v4_checksum, packet, sockets,
};
use crate::{Fields, HeaderTemplate, TxChecksum};

/// What `cut` emits, each segment in one piece.
fn cut_all(packet: &TxPacket<'_>) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    cut(packet, |segment| {
        assert_eq!((segment.checksum, segment.segment_size), (ChecksumState::Complete, None));
        segments.push([segment.header, segment.payload[0], segment.payload[1]].concat());
    });
    segments
}

fn cut_received(packet: &[u8], checksum: ChecksumState, size: Option<u16>) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    let meta = RxMeta { checksum, segment_size: size.and_then(NonZeroU16::new) };
    cut_contiguous(packet, meta, |segment| segments.push(segment.to_vec()));
    segments
}

/// Whether the segments, each verified, are `payload` in its order with the flags where they belong.
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
            checksum: ChecksumState::Partial,
        };
        let segments = cut_all(&whole);
        check(&segments, &fields, &payload, size.into())?;
        // The same packet in one piece, as a device hands it over.
        let received = packet(sockets, &fields, &payload, TxChecksum::Partial);
        prop_assert_eq!(cut_received(&received, ChecksumState::Partial, Some(size)), segments);
    }

    #[test]
    fn packet_that_is_not_cut_gets_its_checksum(sockets in sockets(), fields in fields(), payload in bytes(300)) {
        let partial = packet(sockets, &fields, &payload, TxChecksum::Partial);
        let full = packet(sockets, &fields, &payload, TxChecksum::Full);
        prop_assert_eq!(cut_received(&partial, ChecksumState::Partial, None), vec![full.clone()]);
        prop_assert_eq!(cut_received(&partial, ChecksumState::Verified, None), vec![full.clone()]);
        prop_assert_eq!(cut_received(&full, ChecksumState::Complete, None), vec![full]);
    }

    /// Catalogue D7: whatever the metadata claims.
    #[test]
    fn arbitrary_bytes_and_metadata_never_panic(
        bytes in bytes(200), valid: bool, size: u16, checksum in 0..3, offset: u16, at in 0usize..200,
    ) {
        let bytes = if valid { data_packet(bytes.len() % 2 == 0, &bytes) } else { bytes };
        let checksum = [ChecksumState::Complete, ChecksumState::Partial, ChecksumState::Verified][checksum as usize];
        cut_received(&bytes, checksum, Some(size));
        let (header, payload) = bytes.split_at(at.min(bytes.len()));
        for transport_offset in [offset, offset % 64] {
            let segment_size = NonZeroU16::new(size);
            cut(&TxPacket { header, transport_offset, payload: [payload, &[]], segment_size, checksum }, |_| {});
            finish_checksum(&mut bytes.clone(), transport_offset.into());
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
fn what_is_not_tcp_goes_through_unchanged() {
    let mut udp = data_packet(false, &[7; 100]);
    udp[9] = 17;
    fix_v4_checksum(&mut udp);
    assert_eq!(cut_received(&udp, ChecksumState::Partial, Some(10)), [udp]);
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
    let segments = cut_received(&whole, ChecksumState::Partial, Some(2));
    let urgent: Vec<_> = segments.iter().map(|segment| (segment[33] & 0x20 != 0, segment[39])).collect();
    assert_eq!(urgent, [(true, 4), (true, 2), (false, 0)]);
}
