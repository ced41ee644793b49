//! IP headers and fragments.

use ackclock_wire::fragment::Fragment;
use ackclock_wire::{Codepoint, IpError, IpPacket, IpPayload};
use etherparse::{IpHeaders, IpPayloadSlice, Ipv4HeaderSlice, ip_number};

use super::Count;
use super::tcp::same_sum;

/// Parses a packet, and holds what comes of it against etherparse.
pub(super) fn judge<'a>(bytes: &'a [u8], count: &mut Count) -> Option<IpPacket<'a>> {
    let ours = parse(bytes, count);
    let theirs = IpHeaders::from_slice(bytes);
    match (&ours, &theirs) {
        (Ok(ours), Ok((headers, payload))) => agree(bytes, ours, headers, payload),
        (Ok(ours), Err(error)) => {
            // It reads authentication headers, and knows fewer orders of extension headers.
            let is_plain =
                matches!(ours.src, std::net::IpAddr::V4(_)) && ours.payload != IpPayload::Other(51);
            assert!(!is_plain, "taken, and etherparse says {error}");
        }
        (Err(IpError::Fragment), _) => fragment(bytes, count),
        (Err(why @ (IpError::Length | IpError::Version)), Ok((headers, _))) => {
            // The parser leaves one case open: a payload length of 0 (RFC 2675).
            let jumbogram = bytes.len() >= 6 && is_v6(headers) && bytes[4..6] == [0, 0];
            assert!(jumbogram || has_extensions(headers), "{why}, and etherparse reads {headers:?}");
        }
        _ => {}
    }
    ours.ok()
}

pub(super) fn parse<'a>(bytes: &'a [u8], count: &mut Count) -> Result<IpPacket<'a>, IpError> {
    count.one();
    IpPacket::parse(bytes)
}

fn has_extensions(headers: &IpHeaders) -> bool {
    matches!(headers, IpHeaders::Ipv6(header, _) if is_extension(header.next_header.0))
}

fn is_v6(headers: &IpHeaders) -> bool {
    matches!(headers, IpHeaders::Ipv6(..))
}

fn is_extension(protocol: u8) -> bool {
    matches!(protocol, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140)
}

fn agree(packet: &[u8], ours: &IpPacket<'_>, headers: &IpHeaders, payload: &IpPayloadSlice<'_>) {
    let (src, dst, ttl, class) = match headers {
        IpHeaders::Ipv4(header, _) => {
            // It keeps no reserved flag, so that a sum over what it kept is another.
            let reserved = packet[6] & 0x80 != 0;
            let right = same_sum(header.calc_header_checksum(), header.header_checksum);
            assert!(right || reserved, "the header checksum");
            assert!(!header.is_fragmenting_payload(), "a fragment");
            let class = header.dscp.value() << 2 | header.ecn.value();
            (header.source.into(), header.destination.into(), header.time_to_live, class)
        }
        IpHeaders::Ipv6(header, _) => {
            (header.source.into(), header.destination.into(), header.hop_limit, header.traffic_class)
        }
    };
    let theirs: (std::net::IpAddr, std::net::IpAddr, u8, u8) = (src, dst, ttl, class);
    assert_eq!((ours.src, ours.dst, ours.ttl, ours.traffic_class), theirs);
    let (protocol, bytes) = match ours.payload {
        IpPayload::Tcp(bytes) => (ip_number::TCP, Some(bytes)),
        IpPayload::Udp(bytes) => (ip_number::UDP, Some(bytes)),
        IpPayload::Icmp4(bytes) => (ip_number::ICMP, Some(bytes)),
        IpPayload::Icmp6(bytes) => (ip_number::IPV6_ICMP, Some(bytes)),
        IpPayload::Other(number) => (number.into(), None),
    };
    // Where etherparse stopped at an extension header, this parser may have gone on.
    if !is_extension(payload.ip_number.0) && !is_extension(protocol.0) {
        assert_eq!(protocol, payload.ip_number, "what it carries");
        let jumbogram = is_v6(headers) && payload.len_source == etherparse::LenSource::Slice;
        assert!(jumbogram || bytes.is_none_or(|bytes| bytes == payload.payload), "the payload");
    }
}

/// Checks that a packet refused as a fragment is one, and that the packet made of one alone is whole.
fn fragment(bytes: &[u8], count: &mut Count) {
    count.one();
    let Ok(fragment) = Fragment::parse(bytes) else { return };
    assert!(fragment.end() <= usize::from(u16::MAX), "an end beyond the longest packet");
    if let Ok(header) = Ipv4HeaderSlice::from_slice(bytes) {
        assert_eq!(usize::from(header.fragments_offset().value()) * 8, fragment.offset);
        assert_eq!(header.more_fragments(), fragment.more);
        assert!(fragment.more || fragment.offset > 0, "a fragment that is the whole");
        assert_eq!(u32::from(header.identification()), fragment.identification);
        assert_eq!(header.protocol().0, fragment.protocol);
    }
    if fragment.offset > 0 {
        return;
    }
    let whole =
        fragment.assemble(fragment.payload, Codepoint::Ce).expect("it is not longer than its fragment");
    assert_eq!(whole.len(), fragment.head.len() + fragment.payload.len());
    let again = parse(&whole, count);
    if fragment.src.is_ipv4() {
        assert_ne!(again, Err(IpError::Fragment), "a fragment after all");
        assert_ne!(again, Err(IpError::HeaderChecksum), "the checksum of the whole");
        assert_ne!(again, Err(IpError::Length), "the length of the whole");
    }
    if let Ok(again) = again {
        assert_eq!((again.src, again.dst, again.ecn()), (fragment.src, fragment.dst, Codepoint::Ce));
    }
}
