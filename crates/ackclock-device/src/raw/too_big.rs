//! The ICMP message that a router would send about a packet that the kernel finds too long for its path.
//!
//! A raw socket refuses such a packet and tells only its caller. The stack lowers its path MTU on an ICMP
//! message that quotes the packet (RFC 1191 §4, RFC 4443 §3.2), so it gets one. The message's source is the
//! peer's address: a stack believes nothing from its own address, and the kernel's message, which has that
//! source, does not reach it.

use ackclock_wire::checksum::{pseudo_header, sum};

/// The ICMP message about `packet`, which must not exceed `mtu` bytes; `None` if it is not IP.
pub(super) fn message(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    match packet.first()? >> 4 {
        4 => v4(packet, mtu),
        6 => v6(packet, mtu),
        _ => None,
    }
}

fn v4(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let (own, peer) = (packet.get(12..16)?, packet.get(16..20)?);
    let header_len = usize::from(packet.first()? & 0xf) * 4;
    let quote = packet.get(..header_len + QUOTED)?;
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend(u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
    icmp.extend_from_slice(quote);
    let checksum = sum(&icmp).checksum();
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    let len = u16::try_from(20 + icmp.len()).ok()?;
    let mut message = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, ICMP4, 0, 0];
    message[2..4].copy_from_slice(&len.to_be_bytes());
    message.extend_from_slice(peer);
    message.extend_from_slice(own);
    let checksum = sum(&message).checksum();
    message[10..12].copy_from_slice(&checksum.to_be_bytes());
    message.extend(icmp);
    Some(message)
}

fn v6(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let own: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
    let peer: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
    let quote = packet.get(..packet.len().min(QUOTED_V6))?;
    let mut icmp = vec![2, 0, 0, 0];
    icmp.extend(u32::try_from(mtu).unwrap_or(u32::MAX).to_be_bytes());
    icmp.extend_from_slice(quote);
    let checksum = pseudo_header(peer.into(), own.into(), ICMP6, icmp.len()).plus_bytes(&icmp).checksum();
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut message = vec![0x60, 0, 0, 0];
    message.extend(u16::try_from(icmp.len()).ok()?.to_be_bytes());
    message.extend([ICMP6, 64]);
    message.extend(peer);
    message.extend(own);
    message.extend(icmp);
    Some(message)
}

/// RFC 792: the IP header and this many bytes of its payload.
const QUOTED: usize = 8;
/// The IPv6 header and the TCP header without options, much less than the message may hold.
const QUOTED_V6: usize = 60;
const ICMP4: u8 = 1;
const ICMP6: u8 = 58;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ackclock_wire::{IcmpKind, IpPacket, IpPayload, parse_icmp4, parse_icmp6};

    use super::*;

    #[test]
    fn message_quotes_the_packet_and_says_what_fits() {
        let mut v4 = vec![0; 1500];
        (v4[0], v4[2], v4[3], v4[9]) = (0x45, 5, 220, 6);
        v4[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        v4[20..28].copy_from_slice(&[0, 7, 0, 9, 1, 2, 3, 4]);
        let said = message(&v4, 1400).unwrap();
        let ip = IpPacket::parse(&said).unwrap();
        let IpPayload::Icmp4(icmp) = ip.payload else { panic!("no ICMP") };
        let report = parse_icmp4(icmp).unwrap().unwrap();
        assert_eq!(report.kind, IcmpKind::PacketTooBig { mtu: 1400 });
        assert_eq!((report.src, report.dst), ("10.0.0.1:7".parse().unwrap(), "10.0.0.2:9".parse().unwrap()));

        let mut v6 = vec![0; 1500];
        (v6[0], v6[4], v6[5], v6[6]) = (0x60, 5, 180, 6);
        (v6[8], v6[23], v6[24], v6[39]) = (0xfd, 1, 0xfd, 2);
        v6[40..48].copy_from_slice(&[0, 7, 0, 9, 1, 2, 3, 4]);
        let said = message(&v6, 1400).unwrap();
        let ip = IpPacket::parse(&said).unwrap();
        let IpPayload::Icmp6(icmp) = ip.payload else { panic!("no ICMPv6") };
        let (own, peer) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        assert_eq!((ip.src, ip.dst), (IpAddr::V6(peer), IpAddr::V6(own)));
        let report = parse_icmp6(peer, own, icmp).unwrap().unwrap();
        assert_eq!(report.kind, IcmpKind::PacketTooBig { mtu: 1400 });
        assert_eq!(report.dst, "[fd00::2]:9".parse().unwrap());
    }

    #[test]
    fn what_is_not_ip_gets_no_message() {
        assert_eq!(message(&[], 1400), None);
        assert_eq!(message(&[0x45; 10], 1400), None);
        assert_eq!(message(&[0x20; 100], 1400), None);
    }
}
