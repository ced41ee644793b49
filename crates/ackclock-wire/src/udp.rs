//! UDP (RFC 768; over IPv6, RFC 8200 §8.1): a view of a datagram, and the writer of a whole packet.

use std::net::{IpAddr, SocketAddr};

use crate::bytes::{put, read_u16};
use crate::checksum::pseudo_header;
use crate::ip::{IpHeader, write_ip};
use crate::{ChecksumState, FlowLabel};

/// A validated UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpDatagram<'a> {
    /// Source port; 0 if the sender expects no answer (RFC 768, "Fields").
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// The data.
    pub payload: &'a [u8],
}

/// Why bytes are not a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum UdpError {
    /// Shorter than a UDP header, or than its length field says.
    #[error("the datagram is shorter than its UDP header or its length field says")]
    Length,
    /// The checksum is wrong, or absent over IPv6.
    #[error("the UDP checksum is wrong, or absent over IPv6")]
    Checksum,
}

impl<'a> UdpDatagram<'a> {
    /// Parses a datagram from `src` to `dst`.
    ///
    /// # Errors
    /// Why the datagram is refused. Drop it without an answer.
    pub fn parse(
        src: IpAddr,
        dst: IpAddr,
        bytes: &'a [u8],
        checksum: ChecksumState,
    ) -> Result<Self, UdpError> {
        let field = |at| read_u16(bytes, at).ok_or(UdpError::Length);
        let (src_port, dst_port, length, sent) = (field(0)?, field(2)?, field(4)?, field(6)?);
        let whole = bytes.get(..length.into()).ok_or(UdpError::Length)?;
        let payload = whole.get(UDP_LEN..).ok_or(UdpError::Length)?;
        if checksum == ChecksumState::Complete {
            // RFC 768: an all zero checksum means that the sender computed none. RFC 8200 §8.1: over IPv6
            // such a datagram is discarded.
            let right = match sent {
                0 => src.is_ipv4(),
                _ => pseudo_header(src, dst, PROTOCOL, whole.len()).plus_bytes(whole).checksum() == 0,
            };
            if !right {
                return Err(UdpError::Checksum);
            }
        }
        Ok(Self { src_port, dst_port, payload })
    }
}

/// The fields for the headers of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// This end.
    pub src: SocketAddr,
    /// The other end, of the same family.
    pub dst: SocketAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Flow label; unused in IPv4.
    pub flow_label: FlowLabel,
}

/// The whole packet, with all checksums finished. `None` if the payload is longer than UDP can carry, or the
/// families differ.
#[must_use]
pub fn write_udp(header: &UdpHeader, payload: &[u8]) -> Option<Vec<u8>> {
    let udp_len = payload.len().checked_add(UDP_LEN)?;
    let length = u16::try_from(udp_len).ok()?;
    let (src, dst) = (header.src.ip(), header.dst.ip());
    let mut packet = Vec::with_capacity(udp_len.saturating_add(IPV6_LEN));
    let ip = IpHeader {
        src,
        dst,
        protocol: PROTOCOL,
        ttl: header.ttl,
        traffic_class: header.traffic_class,
        flow_label: header.flow_label,
        identification: None,
    };
    let transport = write_ip(&mut packet, &ip, udp_len)?;
    for field in [header.src.port(), header.dst.port(), length, 0] {
        packet.extend_from_slice(&field.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    let datagram = packet.get_mut(transport..)?;
    // RFC 768: a computed zero checksum is sent as all ones, its equal in ones-complement arithmetic.
    let checksum = match pseudo_header(src, dst, PROTOCOL, udp_len).plus_bytes(datagram).checksum() {
        0 => u16::MAX,
        checksum => checksum,
    };
    put(datagram, CHECKSUM, checksum.to_be_bytes());
    Some(packet)
}

/// The protocol number of UDP.
pub const PROTOCOL: u8 = 17;

/// The length of a UDP header in bytes.
pub const UDP_LEN: usize = 8;

/// The position of the checksum in a UDP header.
pub(crate) const CHECKSUM: usize = 6;
const IPV6_LEN: usize = 40;

#[cfg(test)]
mod tests {
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{bytes, sockets};
    use crate::{IpPacket, IpPayload};

    fn header((src, dst): (SocketAddr, SocketAddr)) -> UdpHeader {
        UdpHeader { src, dst, ttl: 64, traffic_class: 2, flow_label: FlowLabel::NONE }
    }

    fn parsed(packet: &[u8]) -> Result<UdpDatagram<'_>, UdpError> {
        let ip = IpPacket::parse(packet).unwrap();
        let IpPayload::Udp(bytes) = ip.payload else { panic!("not UDP") };
        UdpDatagram::parse(ip.src, ip.dst, bytes, ChecksumState::Complete)
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_is_parsed(sockets in sockets(), payload in bytes(100)) {
            let packet = write_udp(&header(sockets), &payload).unwrap();
            let datagram = parsed(&packet).unwrap();
            prop_assert_eq!(datagram.payload, &payload[..]);
            prop_assert_eq!((datagram.src_port, datagram.dst_port), (sockets.0.port(), sockets.1.port()));
        }

        #[test]
        fn etherparse_agrees_about_every_field((src, dst) in sockets(), payload in bytes(100)) {
            let ours = write_udp(&header((src, dst)), &payload).unwrap();
            let sliced = SlicedPacket::from_ip(&ours).unwrap();
            let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("not UDP") };
            let builder = match (src.ip(), dst.ip()) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => PacketBuilder::ipv4(src.octets(), dst.octets(), 64),
                (IpAddr::V6(src), IpAddr::V6(dst)) => PacketBuilder::ipv6(src.octets(), dst.octets(), 64),
                _ => unreachable!("of one family"),
            };
            let mut theirs = Vec::new();
            builder.udp(src.port(), dst.port()).write(&mut theirs, &payload).unwrap();
            let theirs = &theirs[theirs.len() - UDP_LEN - payload.len()..];
            prop_assert_eq!(udp.slice(), theirs);
        }

        #[test]
        fn a_flipped_bit_is_noticed(v6: bool, payload in bytes(40), bit in 0usize..64) {
            let sockets = crate::testing::data_sockets(v6);
            let mut packet = write_udp(&header(sockets), &payload).unwrap();
            let transport = packet.len() - UDP_LEN - payload.len();
            packet[transport + bit / 8] ^= 1 << (bit % 8);
            // Turning the checksum into zero is the one change that IPv4 cannot notice, and no single flipped
            // bit does that here.
            prop_assert!(parsed(&packet).is_err() || packet[transport + 6..transport + 8] == [0, 0]);
        }
    }

    #[test]
    fn a_datagram_without_checksum_is_taken_over_ipv4_alone() {
        for v6 in [false, true] {
            let mut packet = write_udp(&header(crate::testing::data_sockets(v6)), b"data").unwrap();
            let transport = if v6 { 40 } else { 20 };
            packet[transport + 6..transport + 8].fill(0);
            assert_eq!(parsed(&packet).is_ok(), !v6);
        }
    }

    #[test]
    fn bytes_behind_the_length_are_padding_and_a_length_beyond_the_bytes_is_refused() {
        let packet = write_udp(&header(crate::testing::data_sockets(false)), b"data").unwrap();
        let (src, dst) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let padded = [&packet[20..], b"padding"].concat();
        assert_eq!(UdpDatagram::parse(src, dst, &padded, ChecksumState::Complete).unwrap().payload, b"data");
        let cut = &packet[20..packet.len() - 1];
        assert_eq!(UdpDatagram::parse(src, dst, cut, ChecksumState::Complete), Err(UdpError::Length));
        for short in 0..UDP_LEN {
            assert!(UdpDatagram::parse(src, dst, &packet[20..20 + short], ChecksumState::Verified).is_err());
        }
    }

    #[test]
    fn what_udp_cannot_carry_is_not_written() {
        let long = vec![0; 65_536];
        assert_eq!(write_udp(&header(crate::testing::data_sockets(false)), &long), None);
        let mixed = header(("10.0.0.1:1".parse().unwrap(), "[fd00::1]:1".parse().unwrap()));
        assert_eq!(write_udp(&mixed, b""), None);
    }
}
