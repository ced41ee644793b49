//! The virtio-net header in front of each packet of a TUN device with offload, or of a packet socket.
//!
//! Source: OASIS Virtual I/O Device Version 1.2 §5.1.6 (`struct virtio_net_hdr`), in host byte order as
//! `Documentation/networking/tuntap.rst` specifies for TUN; `num_buffers` is left out.

use std::num::NonZeroU16;

use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta, TxPacket};

/// The header's length on the device.
pub(crate) const LEN: usize = 10;

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct VnetHeader {
    pub flags: u8,
    pub gso_type: u8,
    /// The length of all headers of a packet to cut: a hint.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// The start of the checksummed part, from the packet's first byte.
    pub csum_start: u16,
    /// The position of the checksum, from there.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// The header that describes `packet`; `None` if it cannot be described.
    pub fn describe(packet: &TxPacket<'_>) -> Option<Self> {
        let ChecksumState::Partial(at) = packet.checksum else {
            return packet.segment_size.is_none().then(Self::default);
        };
        let mut header = Self {
            flags: FLAG_NEEDS_CSUM,
            hdr_len: u16::try_from(packet.header.len()).ok()?,
            csum_start: at.start,
            csum_offset: at.offset,
            ..Self::default()
        };
        if let Some(size) = packet.segment_size
            && packet.payload_len() > usize::from(size.get())
        {
            if at != ChecksumAt::tcp(packet.transport_offset) {
                return None;
            }
            header.gso_size = size.get();
            header.gso_type = match version(packet.header)? {
                4 => GSO_TCPV4,
                6 => GSO_TCPV6,
                _ => return None,
            };
            // The kernel sets CWR only in the first segment in any case; the bit says that it has to.
            if packet.header.get(usize::from(packet.transport_offset) + 13)? & TCP_CWR != 0 {
                header.gso_type |= GSO_ECN;
            }
        }
        Some(header)
    }

    /// Reads the header of this packet. If it contradicts the packet, returns `Err` with the part that can
    /// still be believed.
    pub fn meta(&self, packet: &[u8]) -> Result<RxMeta, RxMeta> {
        let checksum = if self.flags & FLAG_NEEDS_CSUM != 0 {
            // An unfinished checksum that cannot be a transport checksum of this packet counts as complete:
            // verification then discards the packet.
            let at = ChecksumAt { start: self.csum_start, offset: self.csum_offset };
            if !is_checksum_of(at, packet) {
                return Err(RxMeta::default());
            }
            ChecksumState::Partial(at)
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

    /// The header for a frame that contains the packet described here, `link_len` bytes further on.
    pub fn behind_link_header(self, link_len: u16) -> Self {
        if self.flags & FLAG_NEEDS_CSUM == 0 {
            return self;
        }
        let (hdr_len, csum_start) = (self.hdr_len + link_len, self.csum_start + link_len);
        Self { hdr_len, csum_start, ..self }
    }

    /// The reverse: reads from a frame's header the metadata of the packet inside, which begins after
    /// `link_len` bytes.
    pub fn inside_frame(self, link_len: u16) -> Self {
        // A start inside the link header cannot be this packet's checksum.
        Self { csum_start: self.csum_start.checked_sub(link_len).unwrap_or(u16::MAX), ..self }
    }

    pub fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let fields = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (to, field) in bytes[2..].chunks_exact_mut(2).zip(fields) {
            to.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8; LEN]) -> Self {
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
}

/// Whether `at` can be a checksum inside `packet`, after its IP header; if the packet is TCP, TCP's.
fn is_checksum_of(at: ChecksumAt, packet: &[u8]) -> bool {
    let start = usize::from(at.start);
    let byte = |at: usize| packet.get(at).copied();
    let (header_len, protocol) = match version(packet) {
        Some(4) => (usize::from(byte(0).unwrap_or(0) & 0xf) * 4, byte(9)),
        Some(6) => (IPV6_HEADER_LEN, byte(6)),
        _ => return false,
    };
    let is_possible =
        if protocol == Some(PROTOCOL_TCP) { at.is_tcp() && start == header_len } else { start >= header_len };
    is_possible && at.field() + 2 <= packet.len()
}

/// The IP version in the first byte.
fn version(packet: &[u8]) -> Option<u8> {
    packet.first().map(|first| first >> 4)
}

const FLAG_NEEDS_CSUM: u8 = 1;
const FLAG_DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;
const TCP_CWR: u8 = 0x80;
const PROTOCOL_TCP: u8 = 6;
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
        assert_eq!(state(FLAG_NEEDS_CSUM), ChecksumState::Partial(ChecksumAt::tcp(20)));
    }

    #[test]
    fn an_unfinished_checksum_of_udp_is_unfinished() {
        let mut packet = PACKET_V4;
        packet[9] = 17;
        let header = VnetHeader { csum_offset: 6, ..received(FLAG_NEEDS_CSUM, GSO_NONE) };
        assert_eq!(header.meta(&packet).unwrap().checksum, ChecksumState::Partial(ChecksumAt::udp(20)));
        // The checksum of a tunnelled packet.
        let inner = VnetHeader { csum_start: 48, ..header };
        assert_eq!(inner.meta(&packet).unwrap().checksum, ChecksumState::Partial(ChecksumAt::udp(48)));
    }

    #[test]
    fn an_unfinished_checksum_of_udp_is_described_and_left_to_the_device() {
        let packet = TxPacket {
            header: &PACKET_V4[..28],
            transport_offset: 20,
            payload: [&[0; 1000], &[]],
            segment_size: None,
            checksum: ChecksumState::Partial(ChecksumAt::udp(20)),
        };
        let header = VnetHeader::describe(&packet).unwrap();
        assert_eq!((header.flags, header.csum_start, header.csum_offset), (FLAG_NEEDS_CSUM, 20, 6));
        assert_eq!(header.gso_type, GSO_NONE);
        let cut = TxPacket { segment_size: NonZeroU16::new(500), ..packet };
        assert_eq!(VnetHeader::describe(&cut), None, "datagrams are cut in software");
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

        let whole = Err(RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None });
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
            checksum: ChecksumState::Partial(ChecksumAt::tcp(20)),
        };
        let header = VnetHeader::describe(&packet).unwrap();
        assert_eq!((header.gso_type, header.gso_size, header.csum_start), (GSO_NONE, 0, 20));
        let longer = TxPacket { payload: [&[0; 1000], &[0; 1]], ..packet };
        let header = VnetHeader::describe(&longer).unwrap();
        assert_eq!((header.gso_type, header.gso_size, header.hdr_len), (GSO_TCPV4, 1000, 40));
    }

    #[test]
    fn a_frame_has_its_checksum_further_on() {
        let packet = received(FLAG_NEEDS_CSUM, GSO_TCPV4);
        let frame = packet.behind_link_header(14);
        assert_eq!((frame.csum_start, frame.hdr_len, frame.gso_size), (34, 54, 1448));
        assert_eq!(frame.inside_frame(14).meta(&PACKET_V4), packet.meta(&PACKET_V4));
        let inside_the_link_header = VnetHeader { csum_start: 13, ..frame }.inside_frame(14);
        assert_eq!(inside_the_link_header.meta(&PACKET_V4), Err(RxMeta::default()));
        assert_eq!(VnetHeader::default().behind_link_header(14), VnetHeader::default());
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
            if meta.checksum.is_partial() {
                prop_assert!(usize::from(header.csum_start) + usize::from(header.csum_offset) + 2 <= packet.len());
            }
            if meta.segment_size.is_some() {
                prop_assert!(matches!(packet[0] >> 4, 4 | 6));
            }
        }
    }
}
