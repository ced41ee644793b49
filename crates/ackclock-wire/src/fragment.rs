//! Fragments of IPv4 (RFC 791 §3.2) and IPv6 (RFC 8200 §4.5): a view of one fragment, the packet that all of
//! them make, and the fragments of a packet.

use std::net::IpAddr;

use etherparse::{
    IpNumber, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6Header, Ipv6HeaderSlice, ip_number,
};

use crate::bytes::put;
use crate::checksum::sum;
use crate::icmp_out::OutgoingIcmpError;
use crate::ip::{EXTENSIONS_MAX, skip_extensions};
use crate::{Codepoint, IpError, IpPacket, IpPayload};

/// A fragment of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// The identification, which all fragments of a packet share, like their addresses and, in IPv4,
    /// `protocol`.
    pub identification: u32,
    /// IPv4: the protocol. IPv6: the header that follows the fragment header; only the first fragment's
    /// counts.
    pub protocol: u8,
    /// The position of the payload, in bytes.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
    /// The ECN field.
    pub ecn: Codepoint,
    /// The headers in front of the payload in the reassembled packet, without the fragment header.
    pub head: &'a [u8],
    /// The position in `head` of the field with the number of the next header.
    next_at: usize,
    /// This fragment's part of the payload.
    pub payload: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Parses a packet that [`IpPacket::parse`](crate::IpPacket::parse) refused as a fragment.
    ///
    /// # Errors
    /// The fragment cannot be part of any packet: [`IpError::Length`] if it ends beyond the longest packet,
    /// is empty, or has a length that is not a multiple of 8 although more follow;
    /// [`IpError::ExtensionHeaders`] for a first IPv6 fragment without all headers (RFC 7112 §5); others as
    /// for a whole packet.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, IpError> {
        let fragment = match bytes.first().map(|byte| byte >> 4) {
            Some(4) => parse_v4(bytes)?,
            Some(6) => parse_v6(bytes)?,
            _ => return Err(IpError::Version),
        };
        let len = fragment.payload.len();
        let fits = fragment.head.len().saturating_add(fragment.end()) <= usize::from(u16::MAX);
        if len == 0 || !fits || (fragment.more && !len.is_multiple_of(8)) {
            return Err(IpError::Length);
        }
        Ok(fragment)
    }

    /// The end of the payload, in bytes.
    #[must_use]
    pub fn end(&self) -> usize {
        self.offset.saturating_add(self.payload.len())
    }

    /// The whole packet: this fragment's headers, if it is the first, and `payload`. `None` if it is too
    /// long.
    #[must_use]
    pub fn assemble(&self, payload: &[u8], ecn: Codepoint) -> Option<Vec<u8>> {
        let mut packet = Vec::with_capacity(self.head.len().saturating_add(payload.len()));
        packet.extend_from_slice(self.head);
        packet.extend_from_slice(payload);
        *packet.get_mut(self.next_at)? = self.protocol;
        if self.src.is_ipv4() {
            let length = u16::try_from(packet.len()).ok()?;
            put(&mut packet, 2, length.to_be_bytes());
            let class = packet.get(1)? & !3 | ecn.bits();
            put(&mut packet, 1, [class]);
            // RFC 791 §3.2: the whole packet has neither the more-fragments flag nor an offset.
            let flags = packet.get(6)? & DONT_FRAGMENT;
            put(&mut packet, 6, [flags, 0]);
            put(&mut packet, 10, [0, 0]);
            let checksum = sum(packet.get(..self.head.len())?).checksum();
            put(&mut packet, 10, checksum.to_be_bytes());
        } else {
            let length = u16::try_from(packet.len().checked_sub(Ipv6Header::LEN)?).ok()?;
            put(&mut packet, 4, length.to_be_bytes());
            let class = packet.get(1)? & !0x30 | ecn.bits() << 4;
            put(&mut packet, 1, [class]);
        }
        Some(packet)
    }
}

/// The fragments of a whole packet without IPv4 options or IPv6 extension headers, each of at most `mtu`
/// bytes. IPv4 has the lower half of the identification, and routers may cut the fragments again. `None` if
/// `mtu` leaves no room for eight bytes of payload, or the packet is none.
// RFC 791 §3.2 and RFC 8200 §4.5: all but the last have a multiple of eight bytes.
#[must_use]
pub fn fragments(packet: &[u8], mtu: usize, identification: u32) -> Option<Vec<Vec<u8>>> {
    let is_ipv4 = packet.first()? >> 4 == 4;
    let (head_len, own_len) = if is_ipv4 { (V4_LEN, 0) } else { (Ipv6Header::LEN, FRAGMENT_LEN) };
    let (head, payload) = packet.split_at_checked(head_len)?;
    let room = mtu.checked_sub(head_len)?.checked_sub(own_len)? & !7;
    if room == 0 {
        return None;
    }
    let piece = |(index, part): (usize, &[u8])| {
        let offset = index.checked_mul(room)?;
        let more = offset.saturating_add(part.len()) < payload.len();
        let units = u16::try_from(offset / 8).ok()?;
        let mut piece = Vec::with_capacity(mtu);
        piece.extend_from_slice(head);
        if is_ipv4 {
            let total = u16::try_from(head_len.saturating_add(part.len())).ok()?;
            let [_, _, high, low] = identification.to_be_bytes();
            put(&mut piece, 2, total.to_be_bytes());
            put(&mut piece, 4, [high, low]);
            put(&mut piece, 6, (u16::from(more) << 13 | units).to_be_bytes());
            put(&mut piece, 10, [0, 0]);
            let checksum = sum(&piece).checksum();
            put(&mut piece, 10, checksum.to_be_bytes());
        } else {
            let len = u16::try_from(own_len.saturating_add(part.len())).ok()?;
            let next = *head.get(6)?;
            put(&mut piece, 4, len.to_be_bytes());
            put(&mut piece, 6, [ip_number::IPV6_FRAG.0]);
            piece.extend_from_slice(&[next, 0]);
            piece.extend_from_slice(&(units << 3 | u16::from(more)).to_be_bytes());
            piece.extend_from_slice(&identification.to_be_bytes());
        }
        piece.extend_from_slice(part);
        Some(piece)
    };
    payload.chunks(room).enumerate().map(piece).collect()
}

fn parse_v4(bytes: &[u8]) -> Result<Fragment<'_>, IpError> {
    let header = Ipv4HeaderSlice::from_slice(bytes).map_err(|_| IpError::Length)?;
    let head = header.slice();
    if sum(head).checksum() != 0 {
        return Err(IpError::HeaderChecksum);
    }
    let payload = bytes.get(head.len()..usize::from(header.total_len())).ok_or(IpError::Length)?;
    let offset = usize::from(header.fragments_offset().value()) * 8;
    // RFC 1858 §3.2.2, RFC 3128: a TCP header split across two fragments is an attempt to evade a filter.
    let is_tcp = header.protocol() == ip_number::TCP;
    if is_tcp && (offset == 8 || (offset == 0 && payload.len() < TCP_LEN)) {
        return Err(IpError::Length);
    }
    Ok(Fragment {
        src: header.source_addr().into(),
        dst: header.destination_addr().into(),
        identification: header.identification().into(),
        protocol: header.protocol().0,
        offset,
        more: header.more_fragments(),
        ecn: Codepoint::of(header.ecn().value()),
        head,
        next_at: 9,
        payload,
    })
}

fn parse_v6(bytes: &[u8]) -> Result<Fragment<'_>, IpError> {
    let Ipv6Cut { header, packet, next_at, at, fragment } = Ipv6Cut::find(bytes)?;
    let payload = packet.get(at.saturating_add(FRAGMENT_LEN)..).ok_or(IpError::Length)?;
    let offset = usize::from(fragment.fragment_offset().value()) * 8;
    if offset == 0 {
        // RFC 7112 §5: a first fragment contains all headers, including the upper layer's.
        let (protocol, upper) = skip_extensions(fragment.next_header(), payload)?;
        if upper.len() < upper_len(protocol) {
            return Err(IpError::ExtensionHeaders);
        }
    }
    Ok(Fragment {
        src: header.source_addr().into(),
        dst: header.destination_addr().into(),
        identification: fragment.identification(),
        protocol: fragment.next_header().0,
        offset,
        more: fragment.more_fragments(),
        ecn: Codepoint::of(header.traffic_class()),
        head: packet.get(..at).ok_or(IpError::Length)?,
        next_at,
        payload,
    })
}

/// An IPv6 packet with a fragment header.
struct Ipv6Cut<'a> {
    header: Ipv6HeaderSlice<'a>,
    /// The packet without what follows its length.
    packet: &'a [u8],
    /// The position of the field with the number of the fragment header.
    next_at: usize,
    /// The position of the fragment header.
    at: usize,
    fragment: Ipv6FragmentHeaderSlice<'a>,
}

impl<'a> Ipv6Cut<'a> {
    /// Finds the fragment header.
    fn find(bytes: &'a [u8]) -> Result<Self, IpError> {
        let header = Ipv6HeaderSlice::from_slice(bytes).map_err(|_| IpError::Length)?;
        let end = Ipv6Header::LEN + usize::from(header.payload_length());
        let packet = bytes.get(..end).ok_or(IpError::Length)?;
        let (mut next, mut next_at, mut at) = (header.next_header(), 6, Ipv6Header::LEN);
        for _ in 0..EXTENSIONS_MAX {
            let rest = packet.get(at..).ok_or(IpError::Length)?;
            if next == ip_number::IPV6_FRAG {
                let fragment = Ipv6FragmentHeaderSlice::from_slice(rest).map_err(|_| IpError::Length)?;
                return Ok(Self { header, packet, next_at, at, fragment });
            }
            if !matches!(
                next,
                ip_number::IPV6_HOP_BY_HOP | ip_number::IPV6_DEST_OPTIONS | ip_number::IPV6_ROUTE
            ) {
                return Err(IpError::ExtensionHeaders);
            }
            let &[following, len, ..] = rest else { return Err(IpError::Length) };
            (next, next_at, at) = (
                following.into(),
                at,
                at.saturating_add(usize::from(len).saturating_add(1).saturating_mul(8)),
            );
        }
        Err(IpError::ExtensionHeaders)
    }
}

/// The error that ICMPv6 has for the source of a fragment that [`Fragment::parse`] refused, with as much of
/// the packet as can be read. `None` if it has none. The caller must check whether an error may be sent.
#[must_use]
pub fn problem(bytes: &[u8]) -> Option<(OutgoingIcmpError, IpPacket<'_>)> {
    if bytes.first()? >> 4 != 6 {
        return None;
    }
    let Ipv6Cut { header, packet, at, fragment, .. } = Ipv6Cut::find(bytes).ok()?;
    let payload = packet.get(at.saturating_add(FRAGMENT_LEN)..)?;
    let offset = usize::from(fragment.fragment_offset().value()) * 8;
    let chain = match offset {
        0 => skip_extensions(fragment.next_header(), payload),
        _ => Ok((fragment.next_header(), &[][..])),
    };
    let (is_cut, (protocol, upper)) = match chain {
        Ok((protocol, upper)) => (offset == 0 && upper.len() < upper_len(protocol), (protocol, upper)),
        Err(IpError::Length) => (true, (fragment.next_header(), &[][..])),
        Err(_) => return None,
    };
    let whole_len = at.saturating_add(offset).saturating_add(payload.len());
    let error = if is_cut {
        // RFC 7112 §5: Type 4, Code 3, and the pointer is zero.
        OutgoingIcmpError::IncompleteHeaders
    } else if fragment.more_fragments() && !payload.len().is_multiple_of(8) {
        // RFC 8200 §4.5: Code 0, pointing to the Payload Length field.
        OutgoingIcmpError::WrongField { at: PAYLOAD_LENGTH_AT }
    } else if whole_len > usize::from(u16::MAX) {
        // RFC 8200 §4.5: Code 0, pointing to the Fragment Offset field.
        OutgoingIcmpError::WrongField { at: u32::try_from(at.saturating_add(2)).ok()? }
    } else {
        return None;
    };
    let payload = match protocol {
        ip_number::IPV6_ICMP => IpPayload::Icmp6(upper),
        other => IpPayload::Other(other.0),
    };
    let (src, dst) = (header.source_addr().into(), header.destination_addr().into());
    Some((error, IpPacket { src, dst, ttl: header.hop_limit(), traffic_class: 0, payload }))
}

/// The least that a first fragment must have of this header: TCP's without options, the first eight bytes of
/// others.
fn upper_len(protocol: IpNumber) -> usize {
    if protocol == ip_number::TCP { TCP_LEN } else { 8 }
}

/// The position of the Payload Length field in an IPv6 header.
const PAYLOAD_LENGTH_AT: u32 = 4;
const V4_LEN: usize = 20;
const FRAGMENT_LEN: usize = 8;
const DONT_FRAGMENT: u8 = 0x40;
const TCP_LEN: usize = 20;

#[cfg(test)]
mod tests {
    use etherparse::IpSlice;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{bytes, sockets};
    use crate::{ChecksumState, FlowLabel, IpPacket, IpPayload, UdpDatagram, UdpHeader, write_udp};

    proptest! {
        // Against etherparse, and against the reader of fragments above.
        #[test]
        fn fragments_make_the_packet_again(
            (src, dst) in sockets(), payload in bytes(6000), mtu in 60..2000_usize, number in any::<u32>(),
        ) {
            let header =
                UdpHeader { src, dst, ttl: 64, traffic_class: 0x28, flow_label: FlowLabel::NONE };
            let packet = write_udp(&header, &payload).unwrap();
            let pieces = fragments(&packet, mtu, number).unwrap();
            let mut together = Vec::new();
            for (index, piece) in pieces.iter().enumerate() {
                prop_assert!(piece.len() <= mtu);
                let last = index + 1 == pieces.len();
                let sliced = IpSlice::from_slice(piece).unwrap();
                prop_assert!(pieces.len() == 1 || sliced.is_fragmenting_payload());
                let Ok(fragment) = Fragment::parse(piece) else {
                    prop_assert!(pieces.len() == 1, "IPv4 does not call one piece a fragment");
                    continue;
                };
                let expected = if src.is_ipv4() { number & 0xffff } else { number };
                prop_assert_eq!((fragment.identification, fragment.more), (expected, !last));
                prop_assert_eq!(fragment.offset, together.len());
                together.extend_from_slice(fragment.payload);
            }
            if let Ok(first) = Fragment::parse(&pieces[0]) {
                let whole = first.assemble(&together, first.ecn).unwrap();
                let ip = IpPacket::parse(&whole).unwrap();
                let IpPayload::Udp(datagram) = ip.payload else { panic!("not UDP") };
                let udp = UdpDatagram::parse(ip.src, ip.dst, datagram, ChecksumState::Complete).unwrap();
                prop_assert_eq!(udp.payload, &payload[..]);
                prop_assert_eq!((ip.ttl, ip.traffic_class), (64, 0x28));
            }
        }
    }

    #[test]
    fn what_leaves_no_room_has_no_fragments() {
        let packet = piece(17, 0, 100, false);
        assert_eq!(fragments(&packet, 27, 1), None);
        assert_eq!(fragments(&packet, 28, 1).map(|pieces| pieces.len()), Some(13));
        assert_eq!(fragments(&packet[..10], 1500, 1), None);
        assert_eq!(fragments(&[], 1500, 1), None);
    }

    /// A fragment of IPv4 at `offset`, with `len` bytes.
    fn piece(protocol: u8, offset: u16, len: u8, more: bool) -> Vec<u8> {
        let [high, low] = ((offset / 8) | (u16::from(more) << 13)).to_be_bytes();
        let mut packet =
            vec![0x45, 0, 0, 20 + len, 0, 7, high, low, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let checksum = sum(&packet).checksum().to_be_bytes();
        packet[10..12].copy_from_slice(&checksum);
        packet.resize(20 + usize::from(len), 0);
        packet
    }

    #[test]
    fn header_of_tcp_is_not_cut_in_two() {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        for (protocol, offset, len, more, expected) in [
            (TCP, 0, 16, true, Err(IpError::Length)),
            (TCP, 0, 24, true, Ok((0, 24))),
            (TCP, 0, 19, false, Err(IpError::Length)),
            (TCP, 0, 20, false, Ok((0, 20))),
            (TCP, 8, 24, true, Err(IpError::Length)),
            (TCP, 16, 8, true, Ok((16, 8))),
            (UDP, 0, 16, true, Ok((0, 16))),
            (UDP, 8, 24, true, Ok((8, 24))),
        ] {
            let packet = piece(protocol, offset, len, more);
            let parsed = Fragment::parse(&packet).map(|fragment| (fragment.offset, fragment.payload.len()));
            assert_eq!(parsed, expected, "protocol {protocol}, {len} bytes at {offset}, more: {more}");
        }
    }
}
