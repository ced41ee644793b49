//! How packets pass between a stack and a device: borrowed, up to 64 KB long, with their offload state.

use std::num::NonZeroU16;

/// The state of a packet's transport checksum; the transport need not be TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumState {
    /// The checksum field holds the whole checksum. On reception it must be verified.
    #[default]
    Complete,
    /// The given checksum field holds only the sum of the pseudo-header. On transmission the device finishes
    /// it, one checksum per segment if it cuts the packet. On reception the packet never crossed a wire and
    /// needs no verification.
    Partial(ChecksumAt),
    /// Received only: the device has verified the checksum.
    Verified,
}

/// The position of an unfinished Internet checksum in its packet, in bytes: `csum_start` and `csum_offset` of
/// a virtio-net header (OASIS Virtual I/O Device Version 1.2 §5.1.6). In a tunnelled packet it may be the
/// inner transport's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChecksumAt {
    /// The first byte of the sum, from the start of the packet. The sum extends to the packet's end.
    pub start: u16,
    /// Where the checksum is stored, relative to `start`.
    pub offset: u16,
}

impl ChecksumState {
    /// Whether the checksum is unfinished.
    #[must_use]
    #[inline]
    pub const fn is_partial(self) -> bool {
        matches!(self, Self::Partial(_))
    }
}

impl ChecksumAt {
    /// The checksum of a TCP header that starts at `start` (RFC 9293 §3.1).
    #[must_use]
    #[inline]
    pub const fn tcp(start: u16) -> Self {
        Self { start, offset: TCP_OFFSET }
    }

    /// The checksum of a UDP header that starts at `start` (RFC 768).
    #[must_use]
    #[inline]
    pub const fn udp(start: u16) -> Self {
        Self { start, offset: UDP_OFFSET }
    }

    /// Whether the field is where TCP has it.
    #[must_use]
    #[inline]
    pub const fn is_tcp(self) -> bool {
        self.offset == TCP_OFFSET
    }

    /// Whether the field is where UDP has it.
    #[must_use]
    #[inline]
    pub const fn is_udp(self) -> bool {
        self.offset == UDP_OFFSET
    }

    /// The position of the field, from the start of the packet.
    #[must_use]
    #[inline]
    pub fn field(self) -> usize {
        usize::from(self.start).saturating_add(self.offset.into())
    }
}

/// A packet to send: its IP and transport headers in one slice, then its payload where it lies in the send
/// buffer.
#[derive(Clone, Copy, Debug)]
pub struct TxPacket<'a> {
    /// The IP header and everything after it up to the payload.
    pub header: &'a [u8],
    /// The offset of the transport header in `header`, in bytes.
    pub transport_offset: u16,
    /// The payload, in order; either slice may be empty.
    pub payload: [&'a [u8]; 2],
    /// `Some(size)`: cut the payload into segments of `size` bytes (the last may be shorter), each with the
    /// header repeated and adjusted. `None`: one packet as it is.
    pub segment_size: Option<NonZeroU16>,
    /// State of the transport's checksum field, which is in `header`. Always [`ChecksumState::Partial`] when
    /// `segment_size` is set.
    pub checksum: ChecksumState,
}

impl<'a> TxPacket<'a> {
    /// A finished packet in one piece, without IPv6 extension headers.
    #[must_use]
    pub const fn complete(bytes: &'a [u8]) -> Self {
        Self {
            header: bytes,
            transport_offset: transport_offset(bytes),
            payload: [&[], &[]],
            segment_size: None,
            checksum: ChecksumState::Complete,
        }
    }

    /// The bytes, in order.
    #[must_use]
    #[inline]
    pub const fn parts(&self) -> [&'a [u8]; 3] {
        [self.header, self.payload[0], self.payload[1]]
    }

    /// The bytes in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().concat()
    }

    /// The metadata for a receiver that gets the packet straight from its sender.
    #[must_use]
    #[inline]
    pub const fn meta(&self) -> RxMeta {
        RxMeta { checksum: self.checksum, segment_size: self.segment_size }
    }

    /// The length of the whole packet in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.header.len().saturating_add(self.payload_len())
    }

    /// Whether the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of the payload in bytes.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.payload.iter().map(|p| p.len()).sum()
    }
}

/// A copy of a [`TxPacket`] that has to wait. It keeps the packet's bytes and metadata.
///
/// ```
/// use ackclock_wire::{HeldPacket, TxPacket};
///
/// let packet = TxPacket::complete(b"packet");
/// assert_eq!(HeldPacket::from(&packet).packet().to_vec(), b"packet");
/// ```
#[derive(Clone, Debug)]
pub struct HeldPacket {
    bytes: Vec<u8>,
    header_len: usize,
    transport_offset: u16,
    segment_size: Option<NonZeroU16>,
    checksum: ChecksumState,
}

impl HeldPacket {
    /// The packet, to be sent.
    #[must_use]
    pub fn packet(&self) -> TxPacket<'_> {
        let (header, payload) = self.bytes.split_at_checked(self.header_len).unwrap_or((&self.bytes, &[]));
        TxPacket {
            header,
            transport_offset: self.transport_offset,
            payload: [payload, &[]],
            segment_size: self.segment_size,
            checksum: self.checksum,
        }
    }

    /// The length of the whole packet in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl From<&TxPacket<'_>> for HeldPacket {
    fn from(packet: &TxPacket<'_>) -> Self {
        Self {
            bytes: packet.to_vec(),
            header_len: packet.header.len(),
            transport_offset: packet.transport_offset,
            segment_size: packet.segment_size,
            checksum: packet.checksum,
        }
    }
}

impl From<Vec<u8>> for HeldPacket {
    /// A finished packet in one piece.
    fn from(bytes: Vec<u8>) -> Self {
        let (header_len, transport_offset) = (bytes.len(), transport_offset(&bytes));
        Self { bytes, header_len, transport_offset, segment_size: None, checksum: ChecksumState::Complete }
    }
}

/// A device's knowledge about a received packet besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RxMeta {
    /// State of the transport's checksum.
    pub checksum: ChecksumState,
    /// `Some(size)`: the packet was coalesced from segments of `size` payload bytes (the last may be
    /// shorter).
    pub segment_size: Option<NonZeroU16>,
}

/// Where the transport's header begins; 0 for what is not an IP packet.
const fn transport_offset(bytes: &[u8]) -> u16 {
    match bytes.first() {
        // RFC 791 §3.1: the length of the header in words.
        Some(&first @ 0x40..=0x4f) => ((first & 0x0f) as u16) << 2,
        Some(0x60..=0x6f) => 40,
        _ => 0,
    }
}

const TCP_OFFSET: u16 = 16;
const UDP_OFFSET: u16 = 6;

ackclock_form::form! {
    enum ChecksumState { 0 Complete, 1 Partial(value), 2 Verified }
    struct ChecksumAt { start, offset }
    struct RxMeta { checksum, segment_size }
}
