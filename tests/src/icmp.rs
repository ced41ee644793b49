//! ICMP error messages, as routers on the path and attackers off it send them (RFC 792, RFC 4443, RFC 1191,
//! RFC 8201).

use std::net::IpAddr;

use etherparse::{IpNumber, Ipv4Header, Ipv6Header};

/// An ICMP error about the packet `about`, from the router `from` to the sender of that packet.
///
/// `word`: the four bytes after the checksum, as the next-hop MTU of "fragmentation needed" and "packet too
/// big".
///
/// # Panics
/// If `from` and `about` are of different families, or `about` is shorter than its own headers.
#[must_use]
pub fn icmp_error(from: IpAddr, (kind, code): (u8, u8), word: u32, about: &[u8]) -> Vec<u8> {
    let quoted_max = if from.is_ipv4() { 28 } else { 1232 };
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&word.to_be_bytes());
    message.extend_from_slice(&about[..about.len().min(quoted_max)]);
    match from {
        IpAddr::V4(from) => {
            let sum = checksum(&[&message]);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            let to: [u8; 4] = about[12..16].try_into().expect("four bytes");
            let mut ip =
                Ipv4Header::new(message.len() as u16, 64, IpNumber::ICMP, from.octets(), to).expect("fits");
            ip.header_checksum = ip.calc_header_checksum();
            [ip.to_bytes().as_slice(), &message].concat()
        }
        IpAddr::V6(from) => {
            let to: [u8; 16] = about[8..24].try_into().expect("sixteen bytes");
            let len = message.len() as u32;
            let sum = checksum(&[&from.octets(), &to, &len.to_be_bytes(), &[0, 0, 0, 58], &message]);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            let ip = Ipv6Header {
                payload_length: len as u16,
                next_header: IpNumber::IPV6_ICMP,
                hop_limit: 64,
                source: from.octets(),
                destination: to,
                ..Ipv6Header::default()
            };
            [ip.to_bytes().as_slice(), &message].concat()
        }
    }
}

/// "Fragmentation needed" or "packet too big": the next hop carries `mtu` bytes.
#[must_use]
pub fn packet_too_big(from: IpAddr, mtu: u32, about: &[u8]) -> Vec<u8> {
    icmp_error(from, if from.is_ipv4() { (3, 4) } else { (2, 0) }, mtu, about)
}

/// The Internet checksum (RFC 1071) over parts of even length, the last may be odd.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w.get(1).copied().unwrap_or(0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
