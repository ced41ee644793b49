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
    /// Looks at a packet; `None` if it is no TCP over IPv4.
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
