//! The few fields of a packet that the emulator looks at.

use std::net::{Ipv4Addr, SocketAddrV4};

/// A TCP segment over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glance {
    pub(super) from: SocketAddrV4,
    pub(super) seq: u32,
    pub(super) payload: u32,
    pub(super) is_handshake_or_end: bool,
}

impl Glance {
    /// Parses a packet; `None` unless it is TCP over IPv4.
    pub(super) fn at(packet: &[u8]) -> Option<Self> {
        let ip_len = usize::from(packet.first()? & 0xf) * 4;
        if packet[0] >> 4 != 4 || *packet.get(9)? != 6 {
            return None;
        }
        let total = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
        let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
        let tcp = packet.get(ip_len..)?;
        let port = u16::from_be_bytes(tcp.get(..2)?.try_into().ok()?);
        let tcp_len = usize::from(*tcp.get(12)? >> 4) * 4;
        Some(Self {
            from: SocketAddrV4::new(Ipv4Addr::from(source), port),
            seq: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
            payload: u32::try_from(total.checked_sub(ip_len + tcp_len)?).ok()?,
            is_handshake_or_end: tcp.get(13)? & (SYN | FIN | RST) != 0,
        })
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment with 12 bytes of options and 8 of payload.
    fn segment(flags: u8) -> Vec<u8> {
        let mut packet = vec![0; 60];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&60_u16.to_be_bytes());
        packet[9] = 6;
        packet[12..16].copy_from_slice(&[10, 10, 1, 1]);
        packet[20..22].copy_from_slice(&4000_u16.to_be_bytes());
        packet[24..28].copy_from_slice(&77_u32.to_be_bytes());
        packet[32] = 8 << 4;
        packet[33] = flags;
        packet
    }

    #[test]
    fn a_segment_is_read() {
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 10, 1, 1), 4000);
        let glance = |flags| Glance::at(&segment(flags)).unwrap();
        assert_eq!(glance(0x10), Glance { from, seq: 77, payload: 8, is_handshake_or_end: false });
        for flags in [FIN, SYN, RST] {
            assert!(glance(flags | 0x10).is_handshake_or_end);
        }
    }

    #[test]
    fn what_is_no_segment_is_not_looked_at() {
        let mut udp = segment(0);
        udp[9] = 17;
        assert_eq!(Glance::at(&udp), None);
        for len in 0..34 {
            assert_eq!(Glance::at(&segment(0)[..len]), None, "{len}");
        }
    }
}
