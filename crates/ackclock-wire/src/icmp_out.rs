//! The ICMP messages that this stack sends: echo replies, and errors that quote the offending packet
//! (RFC 792, RFC 1122 §3.2.2, RFC 4443).

use std::net::IpAddr;

use etherparse::ip_number;

use crate::bytes::put;
use crate::checksum::{Sum, pseudo_header, sum};
use crate::ip::{IpHeader, write_ip};
use crate::{FlowLabel, IpPacket, IpPayload};

/// An error that a host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutgoingIcmpError {
    /// Nothing is bound to the port (IPv4 type 3 code 3, IPv6 type 1 code 4).
    PortUnreachable,
    /// The rest of a fragmented packet did not arrive in time (IPv4 type 11, IPv6 type 3, code 1).
    ReassemblyTime,
    /// A first fragment lacks a part of its header chain (IPv6 type 4 code 3, RFC 7112 §5).
    IncompleteHeaders,
    /// A field of a header is wrong (IPv6 type 4 code 0).
    WrongField {
        /// Its position in the packet in bytes.
        at: u32,
    },
    /// No route to the destination's network (IPv4 type 3 code 0, IPv6 type 1 code 0).
    NetworkUnreachable,
    /// The destination does not answer (IPv4 type 3 code 1, IPv6 type 1 code 3).
    HostUnreachable,
    /// A rule forbids it (IPv4 type 3 code 13, RFC 1812 §5.2.7.1; IPv6 type 1 code 1).
    Prohibited,
}

/// Whether this is an ICMP echo request. Does not check the checksum.
#[must_use]
pub fn is_echo_request(ip: &IpPacket<'_>) -> bool {
    match ip.payload {
        IpPayload::Icmp4(message) => message.len() >= ICMP_LEN && message.starts_with(&[V4_ECHO, 0]),
        IpPayload::Icmp6(message) => message.len() >= ICMP_LEN && message.starts_with(&[V6_ECHO, 0]),
        _ => false,
    }
}

/// The reply to `request`, a packet that parsed as `ip`, of at most `packet_max` bytes. `None` if it is not
/// an echo request.
// RFC 1122 §3.2.2.6: the data of a request is returned whole, and the reply's source is the request's
// destination. A reply that would need fragmentation is cut. RFC 4443 §4.2: the data is returned entire, or
// not at all; identifier and sequence number are part of it.
#[must_use]
pub fn write_echo_reply(request: &[u8], ip: &IpPacket<'_>, ttl: u8, packet_max: usize) -> Option<Vec<u8>> {
    let (IpPayload::Icmp4(message) | IpPayload::Icmp6(message)) = ip.payload else { return None };
    if !is_echo_request(ip) {
        return None;
    }
    let kind = if ip.dst.is_ipv4() { V4_ECHO_REPLY } else { V6_ECHO_REPLY };
    // If the request may be fragmented on its way, so may the reply. The identification is the request's,
    // which its sender does not use twice (RFC 6864 §4.3).
    let may_fragment = ip.dst.is_ipv4() && request.get(6)? & DONT_FRAGMENT == 0;
    let identification = if may_fragment { crate::bytes::read_u16(request, 4) } else { None };
    let (rest, body) = (message.get(2..ICMP_LEN)?, message.get(ICMP_LEN..)?);
    let ip_len = if ip.dst.is_ipv4() { V4_LEN } else { V6_LEN };
    let room = packet_max.checked_sub(ip_len)?.checked_sub(ICMP_LEN)?;
    let body = body.get(..body.len().min(room)).filter(|cut| cut.len() == body.len() || ip.dst.is_ipv4())?;
    write_message(ip.dst, ip.src, ttl, identification, [kind, 0], rest, body)
}

/// The whole packet of an error about `about`, sent to its source `to`. `None` if IPv4 has no such error.
///
/// It quotes what fits the smallest MTU: 576 bytes for IPv4 (RFC 1812 §4.3.2.3), 1280 for IPv6 (RFC 4443 §2.4
/// (c)). The caller must check whether an error may be sent at all (RFC 1122 §3.2.2, RFC 4443 §2.4 (e)).
#[must_use]
pub fn write_error(
    error: OutgoingIcmpError,
    about: &[u8],
    from: IpAddr,
    to: IpAddr,
    ttl: u8,
) -> Option<Vec<u8>> {
    let quote_max =
        if from.is_ipv4() { V4_ERROR_MAX - V4_LEN - ICMP_LEN } else { V6_ERROR_MAX - V6_LEN - ICMP_LEN };
    let kind = match (from.is_ipv4(), error) {
        (true, OutgoingIcmpError::NetworkUnreachable) => [3, 0],
        (true, OutgoingIcmpError::HostUnreachable) => [3, 1],
        (true, OutgoingIcmpError::PortUnreachable) => [3, 3],
        (true, OutgoingIcmpError::Prohibited) => [3, 13],
        (true, OutgoingIcmpError::ReassemblyTime) => [11, 1],
        (true, OutgoingIcmpError::IncompleteHeaders | OutgoingIcmpError::WrongField { .. }) => return None,
        (false, OutgoingIcmpError::NetworkUnreachable) => [1, 0],
        (false, OutgoingIcmpError::Prohibited) => [1, 1],
        (false, OutgoingIcmpError::HostUnreachable) => [1, 3],
        (false, OutgoingIcmpError::PortUnreachable) => [1, 4],
        (false, OutgoingIcmpError::ReassemblyTime) => [3, 1],
        (false, OutgoingIcmpError::IncompleteHeaders) => [4, 3],
        (false, OutgoingIcmpError::WrongField { .. }) => [4, 0],
    };
    let mut rest = [0; 6];
    if let OutgoingIcmpError::WrongField { at } = error {
        put(&mut rest, 2, at.to_be_bytes());
    }
    let quote = about.get(..about.len().min(quote_max))?;
    write_message(from, to, ttl, None, kind, &rest, quote)
}

/// Whether no error may be sent about this packet: it is an ICMP error, or not from one host to one host.
// RFC 1122 §3.2.2, RFC 4443 §2.4 (e): no error is sent about an ICMP error or a redirect, nor about a packet
// from or to other than one host.
#[must_use]
pub fn is_icmp_error(ip: &IpPacket<'_>) -> bool {
    match ip.payload {
        IpPayload::Icmp4(message) => !matches!(message.first(), Some(0 | 8 | 13..=18)),
        IpPayload::Icmp6(message) => message.first().is_none_or(|kind| *kind < 128 || *kind == V6_REDIRECT),
        _ => false,
    }
}

fn write_message(
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    identification: Option<u16>,
    kind: [u8; 2],
    rest: &[u8],
    body: &[u8],
) -> Option<Vec<u8>> {
    let len = body.len().saturating_add(ICMP_LEN);
    let protocol = if src.is_ipv4() { ip_number::ICMP.0 } else { ip_number::IPV6_ICMP.0 };
    let header =
        IpHeader { src, dst, protocol, ttl, traffic_class: 0, flow_label: FlowLabel::NONE, identification };
    let mut packet = Vec::with_capacity(len.saturating_add(V6_LEN));
    let start = write_ip(&mut packet, &header, len)?;
    packet.extend_from_slice(&kind);
    packet.extend_from_slice(rest);
    packet.extend_from_slice(body);
    let message = packet.get_mut(start..)?;
    put(message, CHECKSUM, [0, 0]);
    // RFC 4443 §2.3: the ICMPv6 checksum covers a pseudo-header, the ICMP checksum does not.
    let pseudo = if src.is_ipv4() { Sum::ZERO } else { pseudo_header(src, dst, protocol, len) };
    let checksum = pseudo.plus(sum(message)).checksum();
    put(message, CHECKSUM, checksum.to_be_bytes());
    Some(packet)
}

const V4_ECHO_REPLY: u8 = 0;
const V4_ECHO: u8 = 8;
const V6_ECHO: u8 = 128;
const V6_ECHO_REPLY: u8 = 129;
const V6_REDIRECT: u8 = 137;
/// Type, code, checksum and the four bytes whose meaning depends on the type.
const ICMP_LEN: usize = 8;
const CHECKSUM: usize = 2;
const DONT_FRAGMENT: u8 = 0x40;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const V4_ERROR_MAX: usize = 576;
const V6_ERROR_MAX: usize = 1280;

#[cfg(test)]
mod tests;
