//! Checksums that are not finished, of whatever transport: where they stand, and how they become whole.
//!
//! A packet from an offloading device may carry the sum of its pseudo-header where its checksum belongs
//! ([`ChecksumState::Partial`]). Whoever hands such a packet on to a device or a program that does not know that, finishes
//! it here.

use etherparse::ip_number;

use crate::bytes::{put, read_u16};
use crate::checksum::sum;
use crate::gso::cut_contiguous;
use crate::ip::skip_extensions;
use crate::{ChecksumState, RxMeta, udp};

/// Finishes the transport checksum of a whole IP packet whose checksum field holds the sum of the pseudo-header. `false`
/// for a packet without a checksum that is known here; it is left as it is.
pub fn finish_checksum_of(packet: &mut [u8]) -> bool {
    let Some((protocol, start, end)) = transport_of(packet) else { return false };
    let field = match protocol {
        TCP => 16,
        udp::PROTOCOL => udp::CHECKSUM,
        _ => return false,
    };
    let Some(segment) = packet.get_mut(start..end).filter(|segment| segment.len() >= field + 2) else {
        return false;
    };
    // The field takes part in the sum and so adds the pseudo-header's.
    let checksum = match sum(segment).checksum() {
        // RFC 768: zero would say that there is none.
        0 if protocol == udp::PROTOCOL => u16::MAX,
        checksum => checksum,
    };
    put(segment, field, checksum.to_be_bytes());
    true
}

/// Makes of a received packet the packets that belong on the wire: those that it was put together from, each with its
/// checksum finished. What cannot be cut or finished goes to `emit` as it is.
pub fn whole_packets(packet: &[u8], meta: RxMeta, mut emit: impl FnMut(&[u8])) {
    let unfinished = meta.checksum == ChecksumState::Partial;
    match (transport_of(packet), meta.segment_size) {
        (Some((TCP, ..)), Some(_)) => cut_contiguous(packet, meta, emit),
        _ if unfinished => {
            let mut own = packet.to_vec();
            finish_checksum_of(&mut own);
            emit(&own);
        }
        _ => emit(packet),
    }
}

/// The protocol of a packet's payload, and where that begins and ends.
fn transport_of(packet: &[u8]) -> Option<(u8, usize, usize)> {
    let (protocol, start, end) = match packet.first()? >> 4 {
        4 => {
            let start = usize::from(packet.first()? & 15) * 4;
            (*packet.get(9)?, start, usize::from(read_u16(packet, 2)?))
        }
        6 => {
            let end = IPV6_LEN + usize::from(read_u16(packet, 4)?);
            let (protocol, rest) =
                skip_extensions((*packet.get(6)?).into(), packet.get(IPV6_LEN..end)?).ok()?;
            (protocol.0, end - rest.len(), end)
        }
        _ => return None,
    };
    (start <= end && end <= packet.len()).then_some((protocol, start, end))
}

const TCP: u8 = ip_number::TCP.0;
const IPV6_LEN: usize = 40;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;
    use crate::checksum::pseudo_header;
    use crate::testing::{bytes, data_packet, data_sockets};
    use crate::udp::{UdpHeader, write_udp};
    use crate::{FlowLabel, IpPacket, IpPayload, Segment, UdpDatagram};

    fn udp_packet(v6: bool, payload: &[u8]) -> Vec<u8> {
        let (src, dst) = data_sockets(v6);
        let header = UdpHeader { src, dst, ttl: 64, traffic_class: 0, flow_label: FlowLabel::NONE };
        write_udp(&header, payload).unwrap()
    }

    /// Puts the sum of the pseudo-header where the checksum stands.
    fn unfinish(packet: &mut [u8]) {
        let (protocol, start, end) = transport_of(packet).unwrap();
        let ip = IpPacket::parse(packet).unwrap();
        let partial = pseudo_header(ip.src, ip.dst, protocol, end - start).fold();
        let field = start + if protocol == TCP { 16 } else { 6 };
        packet[field..field + 2].copy_from_slice(&partial.to_be_bytes());
    }

    proptest! {
        #[test]
        fn a_finished_checksum_is_right(v6: bool, payload in bytes(64)) {
            let mut udp = udp_packet(v6, &payload);
            let whole = udp.clone();
            unfinish(&mut udp);
            prop_assert!(finish_checksum_of(&mut udp));
            prop_assert_eq!(udp, whole);
            let mut tcp = data_packet(v6, &payload);
            let whole = tcp.clone();
            unfinish(&mut tcp);
            prop_assert!(finish_checksum_of(&mut tcp));
            prop_assert_eq!(tcp, whole);
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in bytes(100), first in prop::sample::select(vec![0x45_u8, 0x4f, 0x60, 0])) {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            finish_checksum_of(&mut bytes);
            let meta = RxMeta { checksum: ChecksumState::Partial, segment_size: NonZeroU16::new(7) };
            whole_packets(&bytes, meta, |_| {});
        }
    }

    #[test]
    fn a_coalesced_packet_becomes_what_was_on_the_wire() {
        let mut packet = data_packet(false, &[7; 250]);
        unfinish(&mut packet);
        let meta = RxMeta { checksum: ChecksumState::Partial, segment_size: NonZeroU16::new(100) };
        let mut lens = Vec::new();
        whole_packets(&packet, meta, |packet| {
            let ip = IpPacket::parse(packet).unwrap();
            let IpPayload::Tcp(bytes) = ip.payload else { panic!("not TCP") };
            lens.push(Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).unwrap().payload.len());
        });
        assert_eq!(lens, [100, 100, 50]);
    }

    #[test]
    fn an_unfinished_datagram_is_finished_and_a_whole_packet_untouched() {
        let whole = udp_packet(true, b"data");
        let mut packet = whole.clone();
        unfinish(&mut packet);
        let partial = RxMeta { checksum: ChecksumState::Partial, segment_size: None };
        whole_packets(&packet, partial, |packet| {
            let ip = IpPacket::parse(packet).unwrap();
            let IpPayload::Udp(bytes) = ip.payload else { panic!("not UDP") };
            assert!(UdpDatagram::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).is_ok());
        });
        whole_packets(&whole, RxMeta::default(), |packet| assert_eq!(packet, whole));
    }
}
