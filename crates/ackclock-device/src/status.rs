//! A packet socket's metadata about a packet (`PACKET_AUXDATA`, packet(7)).

use ackclock_wire::{ChecksumAt, ChecksumState};

/// The checksum state of an IP packet received with `status`.
pub(crate) fn checksum(packet: &[u8], status: u32) -> ChecksumState {
    if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        // The packet comes from this machine and was never finished. The checksum's position in other
        // transports is unknown, so it must be right as it is.
        transport(packet).map_or(ChecksumState::Complete, |(at, _)| ChecksumState::Partial(at))
    } else if status & TP_STATUS_CSUM_VALID != 0 {
        ChecksumState::Verified
    } else {
        ChecksumState::Complete
    }
}

/// The position of the checksum in a TCP or UDP packet, and the length of its headers.
pub(crate) fn transport(packet: &[u8]) -> Option<(ChecksumAt, usize)> {
    let first = *packet.first()?;
    let (protocol, start) = match first >> 4 {
        4 => (*packet.get(9)?, usize::from(first & 0xf) * 4),
        6 => (*packet.get(6)?, 40),
        _ => return None,
    };
    let start_u16 = u16::try_from(start).ok()?;
    match protocol {
        TCP => {
            let header_len = usize::from(packet.get(start + 12)? >> 4) * 4;
            Some((ChecksumAt::tcp(start_u16), start + header_len))
        }
        UDP => Some((ChecksumAt::udp(start_u16), start + 8)),
        _ => None,
    }
}

/// `include/uapi/linux/if_packet.h`.
const TP_STATUS_CSUM_VALID: u32 = 1 << 7;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
pub(crate) mod testing {
    /// The headers of a packet with a total length of `len` bytes.
    pub(crate) fn packet(v6: bool, protocol: u8, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        let start = if v6 { 40 } else { 20 };
        (packet[0], packet[if v6 { 6 } else { 9 }]) = (if v6 { 0x60 } else { 0x45 }, protocol);
        packet[start + 12] = 8 << 4;
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::testing::packet;
    use super::*;

    #[test]
    fn status_becomes_the_checksum_state() {
        for (v6, start) in [(false, 20), (true, 40)] {
            let state = |protocol, status| checksum(&packet(v6, protocol, 100), status);
            let not_ready = libc::TP_STATUS_CSUMNOTREADY;
            assert_eq!(state(TCP, 1), ChecksumState::Complete);
            assert_eq!(state(TCP, 1 | TP_STATUS_CSUM_VALID), ChecksumState::Verified);
            assert_eq!(state(TCP, 1 | not_ready), ChecksumState::Partial(ChecksumAt::tcp(start)));
            assert_eq!(state(UDP, 1 | not_ready), ChecksumState::Partial(ChecksumAt::udp(start)));
            assert_eq!(state(47, 1 | not_ready), ChecksumState::Complete);
        }
    }
}
