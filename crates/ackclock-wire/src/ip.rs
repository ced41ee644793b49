//! IP packets: IPv4 (RFC 791) and IPv6 with its extension headers (RFC 8200 §4).
//!
//! etherparse validates the headers; this module decides which valid packets to take. It refuses fragments,
//! because this stack sends with DF set and its peers learn the MSS, and source routes (RFC 7126 §4.3 and
//! §4.4, RFC 5095). It skips other IPv4 options. IPv6 options themselves say whether they may be skipped.

use std::net::IpAddr;

use etherparse::err::{ipv4, ipv6};
use etherparse::{
    IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv4Slice, Ipv6FlowLabel, Ipv6FragmentHeaderSlice, Ipv6Header,
    Ipv6HeaderSlice, Ipv6RawExtHeaderSlice, ip_number,
};

use crate::checksum::sum;
use crate::{Codepoint, FlowLabel};

/// A validated IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPacket<'a> {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service, or traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// The payload.
    pub payload: IpPayload<'a>,
}

/// The payload of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpPayload<'a> {
    /// A TCP segment.
    Tcp(&'a [u8]),
    /// An ICMP message, in IPv4.
    Icmp4(&'a [u8]),
    /// An ICMPv6 message, in IPv6.
    Icmp6(&'a [u8]),
    /// A UDP datagram.
    Udp(&'a [u8]),
    /// Anything else, with its protocol number.
    Other(u8),
}

/// Why this stack refuses a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum IpError {
    /// The version is neither 4 nor 6.
    #[error("the IP version is neither 4 nor 6")]
    Version,
    /// Lengths that contradict one another or the number of bytes.
    #[error("the packet is shorter than its IP header or its length fields say")]
    Length,
    /// The IPv4 header checksum is wrong.
    #[error("the IPv4 header checksum is wrong")]
    HeaderChecksum,
    /// A fragment.
    #[error(
        "the packet is a fragment, and fragments are not reassembled; lower the MSS or fix path MTU discovery"
    )]
    Fragment,
    /// A source-routed packet.
    #[error("the packet carries a source route")]
    SourceRoute,
    /// IPv4 options with an impossible length, or IPv6 options that must not be skipped.
    #[error("the packet carries IP options that are malformed or must not be skipped")]
    Options,
    /// More IPv6 extension headers than [`EXTENSIONS_MAX`], or in a forbidden order.
    #[error(
        "the packet carries too many IPv6 extension headers, or hop-by-hop options that are not the first"
    )]
    ExtensionHeaders,
}

impl<'a> IpPacket<'a> {
    /// Parses one IP packet. Bytes beyond the length in its header (link-layer padding) are cut off.
    ///
    /// # Errors
    /// Why the packet is refused. Drop it without an answer.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, IpError> {
        match bytes.first().map(|byte| byte >> 4) {
            Some(4) => parse_v4(bytes),
            Some(6) => parse_v6(bytes),
            Some(_) => Err(IpError::Version),
            None => Err(IpError::Length),
        }
    }

    /// The ECN field.
    #[must_use]
    #[inline]
    pub fn ecn(&self) -> Codepoint {
        Codepoint::of(self.traffic_class)
    }
}

fn parse_v4(bytes: &[u8]) -> Result<IpPacket<'_>, IpError> {
    let packet = Ipv4Slice::from_slice(bytes).map_err(refusal_v4)?;
    let header = packet.header();
    if sum(header.slice()).checksum() != 0 {
        return Err(IpError::HeaderChecksum);
    }
    if header.is_fragmenting_payload() {
        return Err(IpError::Fragment);
    }
    check_v4_options(header.options())?;
    let payload = packet.payload().payload;
    Ok(IpPacket {
        src: header.source_addr().into(),
        dst: header.destination_addr().into(),
        ttl: header.ttl(),
        traffic_class: header.dcp().value() << 2 | header.ecn().value(),
        payload: match header.protocol() {
            ip_number::TCP => IpPayload::Tcp(payload),
            ip_number::ICMP => IpPayload::Icmp4(payload),
            ip_number::UDP => IpPayload::Udp(payload),
            // Also an authentication header, which this stack cannot verify (RFC 4302 §3.4).
            other => IpPayload::Other(other.0),
        },
    })
}

fn parse_v6(bytes: &[u8]) -> Result<IpPacket<'_>, IpError> {
    let header = Ipv6HeaderSlice::from_slice(bytes).map_err(refusal_v6)?;
    // A payload length of 0 is taken literally, so a jumbogram lacks its first extension header.
    let payload = bytes
        .get(Ipv6Header::LEN..)
        .and_then(|rest| rest.get(..usize::from(header.payload_length())))
        .ok_or(IpError::Length)?;
    let (protocol, payload) = skip_extensions(header.next_header(), payload)?;
    Ok(IpPacket {
        src: header.source_addr().into(),
        dst: header.destination_addr().into(),
        ttl: header.hop_limit(),
        traffic_class: header.traffic_class(),
        payload: match protocol {
            ip_number::TCP => IpPayload::Tcp(payload),
            ip_number::IPV6_ICMP => IpPayload::Icmp6(payload),
            ip_number::UDP => IpPayload::Udp(payload),
            other => IpPayload::Other(other.0),
        },
    })
}

// RFC 9293 MUST-50: IP options that are not understood are ignored.
fn check_v4_options(mut options: &[u8]) -> Result<(), IpError> {
    while let Some((&kind, rest)) = options.split_first() {
        match kind {
            V4_END => break,
            V4_NOP => options = rest,
            // RFC 7126 §4.3, §4.4: packets with a loose or strict source route are dropped.
            V4_LOOSE_SOURCE_ROUTE | V4_STRICT_SOURCE_ROUTE => return Err(IpError::SourceRoute),
            _ => {
                let len = rest.first().map_or(0, |len| usize::from(*len));
                let behind = options.get(len.max(2)..).filter(|_| len >= 2);
                options = behind.ok_or(IpError::Options)?;
            }
        }
    }
    Ok(())
}

/// Skips the extension headers. Returns the upper-layer header with its protocol number.
pub(crate) fn skip_extensions(first: IpNumber, bytes: &[u8]) -> Result<(IpNumber, &[u8]), IpError> {
    let (mut next, mut rest) = (first, bytes);
    for position in 0..=EXTENSIONS_MAX {
        let len = match next {
            ip_number::IPV6_HOP_BY_HOP if position > 0 => return Err(IpError::ExtensionHeaders),
            ip_number::IPV6_HOP_BY_HOP | ip_number::IPV6_DEST_OPTIONS => {
                let header = Ipv6RawExtHeaderSlice::from_slice(rest).map_err(|_| IpError::Length)?;
                check_v6_options(header.payload())?;
                next = header.next_header();
                header.slice().len()
            }
            ip_number::IPV6_ROUTE => {
                let header = Ipv6RawExtHeaderSlice::from_slice(rest).map_err(|_| IpError::Length)?;
                // RFC 8200 §4.4, RFC 5095 §3: an unknown or deprecated type is skipped if no segments are
                // left.
                if header.payload().get(1) != Some(&0) {
                    return Err(IpError::SourceRoute);
                }
                next = header.next_header();
                header.slice().len()
            }
            ip_number::IPV6_FRAG => {
                let header = Ipv6FragmentHeaderSlice::from_slice(rest).map_err(|_| IpError::Length)?;
                // RFC 6946 §4: a fragment that contains the whole packet is not a fragment.
                if header.is_fragmenting_payload() {
                    return Err(IpError::Fragment);
                }
                next = header.next_header();
                header.slice().len()
            }
            _ => return Ok((next, rest)),
        };
        rest = rest.get(len..).ok_or(IpError::Length)?;
    }
    Err(IpError::ExtensionHeaders)
}

/// RFC 8200 §4.2: an unknown option is skipped if the two highest bits of its type are 0, else the packet is
/// discarded.
fn check_v6_options(mut options: &[u8]) -> Result<(), IpError> {
    while let Some((&kind, rest)) = options.split_first() {
        if kind == V6_PAD1 {
            options = rest;
            continue;
        }
        if kind >> 6 != 0 {
            return Err(IpError::Options);
        }
        let len = rest.first().ok_or(IpError::Options)?;
        options = options.get(2 + usize::from(*len)..).ok_or(IpError::Options)?;
    }
    Ok(())
}

/// The fields for the IP header of a complete packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpHeader {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub ttl: u8,
    pub traffic_class: u8,
    pub flow_label: FlowLabel,
    /// `Some`: an IPv4 packet that may be fragmented, with this identification.
    pub identification: Option<u16>,
}

/// Appends an IP header without options for `payload_len` bytes. Returns its length. Returns `None`, and
/// writes nothing, if the address families differ or the packet would be too long.
pub(crate) fn write_ip(packet: &mut Vec<u8>, header: &IpHeader, payload_len: usize) -> Option<usize> {
    match (header.src, header.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let ip = Ipv4Header {
                dscp: IpDscp::try_new(header.traffic_class >> 2).ok()?,
                ecn: IpEcn::try_new(header.traffic_class & 3).ok()?,
                total_len: u16::try_from(payload_len.checked_add(Ipv4Header::MIN_LEN)?).ok()?,
                identification: header.identification.unwrap_or(0),
                dont_fragment: header.identification.is_none(),
                time_to_live: header.ttl,
                protocol: IpNumber(header.protocol),
                source: src.octets(),
                destination: dst.octets(),
                ..Ipv4Header::default()
            };
            let checksum = ip.calc_header_checksum();
            packet.extend_from_slice(&Ipv4Header { header_checksum: checksum, ..ip }.to_bytes());
            Some(Ipv4Header::MIN_LEN)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = Ipv6Header {
                traffic_class: header.traffic_class,
                flow_label: Ipv6FlowLabel::try_new(header.flow_label.bits()).ok()?,
                payload_length: u16::try_from(payload_len).ok()?,
                next_header: IpNumber(header.protocol),
                hop_limit: header.ttl,
                source: src.octets(),
                destination: dst.octets(),
            };
            packet.extend_from_slice(&ip.to_bytes());
            Some(Ipv6Header::LEN)
        }
        _ => None,
    }
}

// Functions instead of `From`, which would expose etherparse's types to users.
fn refusal_v4(error: ipv4::SliceError) -> IpError {
    match error {
        ipv4::SliceError::Header(ipv4::HeaderError::UnexpectedVersion { .. }) => IpError::Version,
        _ => IpError::Length,
    }
}

fn refusal_v6(error: ipv6::HeaderSliceError) -> IpError {
    match error {
        ipv6::HeaderSliceError::Len(_) => IpError::Length,
        ipv6::HeaderSliceError::Content(_) => IpError::Version,
    }
}

/// The most IPv6 extension headers that a packet may have.
pub const EXTENSIONS_MAX: usize = 8;

const V4_END: u8 = 0;
const V4_NOP: u8 = 1;
const V4_LOOSE_SOURCE_ROUTE: u8 = 131;
const V4_STRICT_SOURCE_ROUTE: u8 = 137;
const V6_PAD1: u8 = 0;

#[cfg(test)]
mod tests;
