//! The virtio-net header in front of each packet of a TUN device with offload.
//!
//! Source: OASIS Virtual I/O Device Version 1.2 §5.1.6 (`struct virtio_net_hdr`), in the byte order of the host as
//! `Documentation/networking/tuntap.rst` has it for TUN; `num_buffers` is left out.

use std::num::NonZeroU16;

use ackclock_wire::{ChecksumState, RxMeta, TxPacket};

/// The header's length on the device.
pub(crate) const LEN: usize = 10;

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct VnetHeader {
    pub(crate) flags: u8,
    pub(crate) gso_type: u8,
    /// Length of all headers of a packet to be cut: a hint.
    pub(crate) hdr_len: u16,
    /// Payload bytes of each segment.
    pub(crate) gso_size: u16,
    /// Where the checksum starts, from the packet's first byte.
    pub(crate) csum_start: u16,
    /// Where it is stored, from there.
    pub(crate) csum_offset: u16,
}

impl VnetHeader {
    /// The header that describes `packet`; `None` for one that cannot be described.
    pub(crate) fn describe(packet: &TxPacket<'_>) -> Option<Self> {
        if packet.checksum != ChecksumState::Partial {
            return packet.segment_size.is_none().then(Self::default);
        }
        let mut header = Self {
            flags: FLAG_NEEDS_CSUM,
            hdr_len: u16::try_from(packet.header.len()).ok()?,
            csum_start: packet.transport_offset,
            csum_offset: TCP_CHECKSUM_OFFSET,
            ..Self::default()
        };
        if let Some(size) = packet.segment_size
            && packet.payload_len() > usize::from(size.get())
        {
            header.gso_size = size.get();
            header.gso_type = match version(packet.header)? {
                4 => GSO_TCPV4,
                6 => GSO_TCPV6,
                _ => return None,
            };
            // The kernel repeats CWR in no segment but the first either way; the bit tells it that there is one.
            if packet.header.get(usize::from(packet.transport_offset) + 13)? & TCP_CWR != 0 {
                header.gso_type |= GSO_ECN;
            }
        }
        Some(header)
    }

    /// What the header says of the packet behind it; `Err` with what can still be believed when it contradicts
    /// the packet.
    pub(crate) fn meta(&self, packet: &[u8]) -> Result<RxMeta, RxMeta> {
        let checksum = if self.flags & FLAG_NEEDS_CSUM != 0 {
            // An unfinished checksum that cannot be a transport checksum of this packet is taken for a whole one:
            // verification then throws the packet away.
            if !self.is_checksum_of(packet) {
                return Err(RxMeta::default());
            }
            ChecksumState::Partial
        } else if self.flags & FLAG_DATA_VALID != 0 {
            ChecksumState::Verified
        } else {
            ChecksumState::Complete
        };
        let whole = RxMeta { checksum, segment_size: None };
        let version_wanted = match self.gso_type & !GSO_ECN {
            GSO_NONE => return Ok(whole),
            GSO_TCPV4 => 4,
            GSO_TCPV6 => 6,
            _ => return Err(whole),
        };
        match NonZeroU16::new(self.gso_size) {
            Some(size) if version(packet) == Some(version_wanted) => {
                Ok(RxMeta { checksum, segment_size: Some(size) })
            }
            _ => Err(whole),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let fields = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (to, field) in bytes[2..].chunks_exact_mut(2).zip(fields) {
            to.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; LEN]) -> Self {
        let field = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: field(2),
            gso_size: field(4),
            csum_start: field(6),
            csum_offset: field(8),
        }
    }

    /// Whether the checksum described is a transport checksum inside `packet` that starts behind its IP header.
    fn is_checksum_of(&self, packet: &[u8]) -> bool {
        let start = usize::from(self.csum_start);
        let transport_possible = match version(packet) {
            Some(4) => packet.first().is_some_and(|first| start == usize::from(first & 0xf) * 4),
            Some(6) => start >= IPV6_HEADER_LEN,
            _ => false,
        };
        transport_possible
            && matches!(self.csum_offset, TCP_CHECKSUM_OFFSET | UDP_CHECKSUM_OFFSET)
            && start + usize::from(self.csum_offset) + 2 <= packet.len()
    }
}

/// The IP version that the first byte names.
fn version(packet: &[u8]) -> Option<u8> {
    packet.first().map(|first| first >> 4)
}

const FLAG_NEEDS_CSUM: u8 = 1;
const FLAG_DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;
const TCP_CHECKSUM_OFFSET: u16 = 16;
const UDP_CHECKSUM_OFFSET: u16 = 6;
const TCP_CWR: u8 = 0x80;
const IPV6_HEADER_LEN: usize = 40;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACKET_V4: [u8; 60] = {
        let mut packet = [0; 60];
        packet[0] = 0x45;
        packet[9] = 6;
        packet
    };

    fn received(flags: u8, gso_type: u8) -> VnetHeader {
        VnetHeader { flags, gso_type, hdr_len: 40, gso_size: 1448, csum_start: 20, csum_offset: 16 }
    }

    #[test]
    fn flags_become_the_checksum_state() {
        let state = |flags| received(flags, GSO_NONE).meta(&PACKET_V4).unwrap().checksum;
        assert_eq!(state(0), ChecksumState::Complete);
        assert_eq!(state(FLAG_DATA_VALID), ChecksumState::Verified);
        assert_eq!(state(FLAG_NEEDS_CSUM), ChecksumState::Partial);
    }

    #[test]
    fn a_coalesced_packet_keeps_its_segment_size() {
        for gso_type in [GSO_TCPV4, GSO_TCPV4 | GSO_ECN] {
            let meta = received(FLAG_NEEDS_CSUM, gso_type).meta(&PACKET_V4).unwrap();
            assert_eq!(meta.segment_size.map(NonZeroU16::get), Some(1448));
        }
    }

    #[test]
    fn sec_d7_a_header_that_contradicts_the_packet_is_not_believed() {
        let complete = Err(RxMeta::default());
        let beyond_the_end = VnetHeader { csum_offset: 6, csum_start: 56, ..received(FLAG_NEEDS_CSUM, 0) };
        assert_eq!(beyond_the_end.meta(&PACKET_V4), complete);
        let inside_the_ip_header = VnetHeader { csum_start: 4, ..received(FLAG_NEEDS_CSUM, 0) };
        assert_eq!(inside_the_ip_header.meta(&PACKET_V4), complete);
        let no_checksum_there = VnetHeader { csum_offset: 2, ..received(FLAG_NEEDS_CSUM, 0) };
        assert_eq!(no_checksum_there.meta(&PACKET_V4), complete);

        let whole = Err(RxMeta { checksum: ChecksumState::Partial, segment_size: None });
        assert_eq!(received(FLAG_NEEDS_CSUM, GSO_TCPV6).meta(&PACKET_V4), whole);
        assert_eq!(received(FLAG_NEEDS_CSUM, 3).meta(&PACKET_V4), whole);
        assert_eq!(
            VnetHeader { gso_size: 0, ..received(FLAG_NEEDS_CSUM, GSO_TCPV4) }.meta(&PACKET_V4),
            whole
        );
    }

    #[test]
    fn a_packet_that_fits_one_segment_is_not_to_be_cut() {
        let packet = TxPacket {
            header: &PACKET_V4[..40],
            transport_offset: 20,
            payload: [&[0; 1000], &[]],
            segment_size: NonZeroU16::new(1000),
            checksum: ChecksumState::Partial,
        };
        let header = VnetHeader::describe(&packet).unwrap();
        assert_eq!((header.gso_type, header.gso_size, header.csum_start), (GSO_NONE, 0, 20));
        let longer = TxPacket { payload: [&[0; 1000], &[0; 1]], ..packet };
        let header = VnetHeader::describe(&longer).unwrap();
        assert_eq!((header.gso_type, header.gso_size, header.hdr_len), (GSO_TCPV4, 1000, 40));
    }

    proptest! {
        #[test]
        fn a_header_survives_its_bytes(bytes: [u8; LEN]) {
            prop_assert_eq!(VnetHeader::from_bytes(&bytes).to_bytes(), bytes);
        }

        #[test]
        fn sec_d7_no_header_makes_a_promise_about_bytes_that_are_not_there(
            bytes: [u8; LEN],
            packet in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let header = VnetHeader::from_bytes(&bytes);
            let (Ok(meta) | Err(meta)) = header.meta(&packet);
            if meta.checksum == ChecksumState::Partial {
                prop_assert!(usize::from(header.csum_start) + usize::from(header.csum_offset) + 2 <= packet.len());
            }
            if meta.segment_size.is_some() {
                prop_assert!(matches!(packet[0] >> 4, 4 | 6));
            }
        }
    }
}
