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

impl TxPacket<'_> {
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

/// What a device knows about a received packet besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RxMeta {
    /// State of the transport's checksum.
    pub checksum: ChecksumState,
    /// `Some(size)`: the packet was coalesced from segments of `size` payload bytes (the last may be
    /// shorter).
    pub segment_size: Option<NonZeroU16>,
}

const TCP_OFFSET: u16 = 16;
const UDP_OFFSET: u16 = 6;
