//! ICMP and ICMPv6 errors (RFC 792, RFC 4443), with the segment of ours that they quote.
//!
//! A report says what a message claims and about which segment. The connection decides whether to believe it
//! (RFC 5927: the quoted sequence number must be in flight).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use etherparse::icmpv4::DestUnreachableHeader as V4Unreachable;
use etherparse::icmpv6::{DestUnreachableCode as V6Unreachable, ParameterProblemCode};
use etherparse::{
    Icmpv4Slice, Icmpv4Type, Icmpv6Slice, Icmpv6Type, IpNumber, Ipv4HeaderSlice, Ipv6Header, Ipv6HeaderSlice,
    ip_number,
};

use crate::SeqNum;
use crate::bytes::{read, read_u16};
use crate::checksum::{pseudo_header, sum};
use crate::ip::skip_extensions;

/// An ICMP error about a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpReport {
    /// The reported event.
    pub kind: IcmpKind,
    /// Source of the quoted segment: this end.
    pub src: SocketAddr,
    /// Destination of the quoted segment: the peer.
    pub dst: SocketAddr,
    /// Sequence number of the quoted segment.
    pub seq: SeqNum,
}

/// An ICMP error about a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpReport {
    /// The reported event.
    pub kind: IcmpKind,
    /// Source of the quoted datagram: this end.
    pub src: SocketAddr,
    /// Destination of the quoted datagram: the peer.
    pub dst: SocketAddr,
    /// Length of the quoted packet from its IP header, in bytes.
    pub packet_len: u32,
}

/// The kinds of ICMP errors, common to both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpKind {
    /// No route to the network (v4 codes 0, 6, 11; v6 codes 0, 2).
    NetworkUnreachable,
    /// The host does not answer (v4 codes 1, 7, 8, 12; v6 code 3).
    HostUnreachable,
    /// The host does not speak TCP (v4 code 2; v6 parameter problem code 1).
    ProtocolUnreachable,
    /// The port is closed (v4 code 3; v6 code 4).
    PortUnreachable,
    /// Refused by policy (v4 codes 9, 10, 13-15; v6 codes 1, 5, 6).
    Prohibited,
    /// Source route failed (v4 code 5).
    SourceRouteFailed,
    /// The packet is larger than the next link's MTU and may not be fragmented.
    PacketTooBig {
        /// The largest packet that would pass, in bytes; 0 if unknown (RFC 1191 §5, old routers).
        mtu: u32,
    },
    /// The hop limit ran out, or reassembly took too long.
    TimeExceeded,
    /// A header field was not understood.
    ParameterProblem,
    /// Source quench, deprecated (RFC 6633).
    SourceQuench,
    /// An error of an unknown type or code.
    Other,
}

/// Why bytes are not an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum IcmpParseError {
    /// Fewer bytes than an ICMP header.
    #[error("the message is shorter than its ICMP header")]
    Length,
    /// The checksum is wrong.
    #[error("the ICMP checksum is wrong")]
    Checksum,
    /// The quoted packet is not an IP packet, or is cut before its sequence number.
    #[error("the packet that the ICMP error quotes is malformed or cut before its sequence number")]
    Quote,
}

/// Parses an ICMP message. `None` if it is not an error, or not about a TCP segment.
///
/// # Errors
/// The fault of the message. Drop it.
pub fn parse_icmp4(bytes: &[u8]) -> Result<Option<IcmpReport>, IcmpParseError> {
    let message = Icmpv4Slice::from_slice(bytes).map_err(|_| IcmpParseError::Length)?;
    if sum(bytes).checksum() != 0 {
        return Err(IcmpParseError::Checksum);
    }
    let Some(kind) = kind_v4(&message) else { return Ok(None) };
    let quote = Ipv4HeaderSlice::from_slice(message.payload()).map_err(|_| IcmpParseError::Quote)?;
    // Only the first fragment of a packet has ports.
    if quote.fragments_offset().value() != 0 {
        return Ok(None);
    }
    let segment = message.payload().get(quote.slice().len()..).unwrap_or_default();
    report(kind, quote.source_addr().into(), quote.destination_addr().into(), quote.protocol(), segment)
}

/// Parses an ICMPv6 message from `src` to `dst`. `None` if it is not an error, or not about a TCP segment.
///
/// # Errors
/// The fault of the message. Drop it.
pub fn parse_icmp6(src: Ipv6Addr, dst: Ipv6Addr, bytes: &[u8]) -> Result<Option<IcmpReport>, IcmpParseError> {
    let message = Icmpv6Slice::from_slice(bytes).map_err(|_| IcmpParseError::Length)?;
    let pseudo = pseudo_header(src.into(), dst.into(), ip_number::IPV6_ICMP.0, bytes.len());
    if pseudo.plus_bytes(bytes).checksum() != 0 {
        return Err(IcmpParseError::Checksum);
    }
    let Some(kind) = kind_v6(&message) else { return Ok(None) };
    let quote = Ipv6HeaderSlice::from_slice(message.payload()).map_err(|_| IcmpParseError::Quote)?;
    let behind = message.payload().get(Ipv6Header::LEN..).unwrap_or_default();
    let (protocol, segment) =
        skip_extensions(quote.next_header(), behind).map_err(|_| IcmpParseError::Quote)?;
    report(kind, quote.source_addr().into(), quote.destination_addr().into(), protocol, segment)
}

/// Parses an ICMP error about a UDP datagram; `None` for other messages. The checksum must have been
/// verified, for example by [`parse_icmp4`].
#[must_use]
pub fn parse_udp_error4(bytes: &[u8]) -> Option<UdpReport> {
    let message = Icmpv4Slice::from_slice(bytes).ok()?;
    let kind = kind_v4(&message)?;
    let quote = Ipv4HeaderSlice::from_slice(message.payload()).ok()?;
    let behind = message.payload().get(quote.slice().len()..)?;
    let is_udp = quote.protocol() == ip_number::UDP && quote.fragments_offset().value() == 0;
    let names = (quote.source_addr().into(), quote.destination_addr().into());
    udp_report(kind, names, quote.total_len().into(), behind).filter(|_| is_udp)
}

/// As [`parse_udp_error4`], for an ICMPv6 message verified by [`parse_icmp6`].
#[must_use]
pub fn parse_udp_error6(bytes: &[u8]) -> Option<UdpReport> {
    let message = Icmpv6Slice::from_slice(bytes).ok()?;
    let kind = kind_v6(&message)?;
    let quote = Ipv6HeaderSlice::from_slice(message.payload()).ok()?;
    let (protocol, behind) =
        skip_extensions(quote.next_header(), message.payload().get(Ipv6Header::LEN..)?).ok()?;
    let names = (quote.source_addr().into(), quote.destination_addr().into());
    let packet_len = u32::from(quote.payload_length()) + 40;
    let report = udp_report(kind, names, packet_len, behind);
    report.filter(|_| protocol == ip_number::UDP)
}

fn udp_report(
    kind: IcmpKind,
    (src, dst): (IpAddr, IpAddr),
    packet_len: u32,
    datagram: &[u8],
) -> Option<UdpReport> {
    let port = |at, addr| Some(SocketAddr::new(addr, read_u16(datagram, at)?));
    Some(UdpReport { kind, src: port(0, src)?, dst: port(2, dst)?, packet_len })
}

/// Uses the first 8 bytes of the quoted segment; RFC 792 guarantees no more.
fn report(
    kind: IcmpKind,
    src: IpAddr,
    dst: IpAddr,
    protocol: IpNumber,
    segment: &[u8],
) -> Result<Option<IcmpReport>, IcmpParseError> {
    if protocol != ip_number::TCP {
        return Ok(None);
    }
    let fields = || Some((read_u16(segment, 0)?, read_u16(segment, 2)?, read(segment, 4)?));
    let (src_port, dst_port, seq) = fields().ok_or(IcmpParseError::Quote)?;
    Ok(Some(IcmpReport {
        kind,
        src: SocketAddr::new(src, src_port),
        dst: SocketAddr::new(dst, dst_port),
        seq: SeqNum::new(u32::from_be_bytes(seq)),
    }))
}

fn kind_v4(message: &Icmpv4Slice<'_>) -> Option<IcmpKind> {
    Some(match message.icmp_type() {
        Icmpv4Type::DestinationUnreachable(code) => match code {
            V4Unreachable::Network | V4Unreachable::NetworkUnknown | V4Unreachable::TosNetwork => {
                IcmpKind::NetworkUnreachable
            }
            V4Unreachable::Host
            | V4Unreachable::HostUnknown
            | V4Unreachable::Isolated
            | V4Unreachable::TosHost => IcmpKind::HostUnreachable,
            V4Unreachable::Protocol => IcmpKind::ProtocolUnreachable,
            V4Unreachable::Port => IcmpKind::PortUnreachable,
            // RFC 1191 §4: the next-hop MTU is in the lower half of the formerly unused field.
            V4Unreachable::FragmentationNeeded { next_hop_mtu } => {
                IcmpKind::PacketTooBig { mtu: next_hop_mtu.into() }
            }
            V4Unreachable::SourceRouteFailed => IcmpKind::SourceRouteFailed,
            V4Unreachable::NetworkProhibited
            | V4Unreachable::HostProhibited
            | V4Unreachable::FilterProhibited
            | V4Unreachable::HostPrecedenceViolation
            | V4Unreachable::PrecedenceCutoff => IcmpKind::Prohibited,
        },
        Icmpv4Type::TimeExceeded(_) => IcmpKind::TimeExceeded,
        Icmpv4Type::ParameterProblem(_) => IcmpKind::ParameterProblem,
        Icmpv4Type::Unknown { type_u8: V4_SOURCE_QUENCH, .. } => IcmpKind::SourceQuench,
        // Known types with an unknown code are still errors.
        Icmpv4Type::Unknown { type_u8: V4_UNREACHABLE | V4_TIME_EXCEEDED | V4_PARAMETER_PROBLEM, .. } => {
            IcmpKind::Other
        }
        _ => return None,
    })
}

fn kind_v6(message: &Icmpv6Slice<'_>) -> Option<IcmpKind> {
    Some(match message.icmp_type() {
        Icmpv6Type::DestinationUnreachable(code) => match code {
            V6Unreachable::NoRoute | V6Unreachable::BeyondScope => IcmpKind::NetworkUnreachable,
            V6Unreachable::Address => IcmpKind::HostUnreachable,
            V6Unreachable::Port => IcmpKind::PortUnreachable,
            V6Unreachable::Prohibited
            | V6Unreachable::SourceAddressFailedPolicy
            | V6Unreachable::RejectRoute => IcmpKind::Prohibited,
        },
        Icmpv6Type::PacketTooBig { mtu } => IcmpKind::PacketTooBig { mtu },
        // RFC 4443 §3.2: a receiver ignores this type's code.
        Icmpv6Type::Unknown { type_u8: V6_PACKET_TOO_BIG, bytes5to8, .. } => {
            IcmpKind::PacketTooBig { mtu: u32::from_be_bytes(bytes5to8) }
        }
        Icmpv6Type::TimeExceeded(_) => IcmpKind::TimeExceeded,
        Icmpv6Type::ParameterProblem(problem) => match problem.code {
            ParameterProblemCode::UnrecognizedNextHeader => IcmpKind::ProtocolUnreachable,
            _ => IcmpKind::ParameterProblem,
        },
        // RFC 4443 §2.1: types below 128 are errors.
        Icmpv6Type::Unknown { type_u8: 0..=127, .. } => IcmpKind::Other,
        _ => return None,
    })
}

const V4_UNREACHABLE: u8 = 3;
const V4_SOURCE_QUENCH: u8 = 4;
const V4_TIME_EXCEEDED: u8 = 11;
const V4_PARAMETER_PROBLEM: u8 = 12;
const V6_PACKET_TOO_BIG: u8 = 2;

#[cfg(test)]
mod tests;
