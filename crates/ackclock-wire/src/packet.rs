//! How packets travel between a stack and a device: borrowed, possibly 64 KB long, with their offload state.

use std::num::NonZeroU16;

/// What is known of the checksum of a packet's transport, which need not be TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumState {
    /// The checksum field holds the whole checksum. Received: it is to be verified.
    #[default]
    Complete,
    /// The checksum field named holds the sum of the pseudo-header only. Sent: the device finishes it, one checksum
    /// per segment where the packet is cut. Received: the packet never crossed a wire and nothing is to be verified.
    Partial(ChecksumAt),
    /// Received only: the device has verified the checksum.
    Verified,
}

/// Where an unfinished Internet checksum stands in its packet, in bytes: `csum_start` and `csum_offset` of a
/// virtio-net header (OASIS Virtual I/O Device Version 1.2 §5.1.6). In a packet that a tunnel carries it may be the inner
/// transport's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChecksumAt {
    /// The first byte that is summed, from the start of the packet; all to the packet's end are.
    pub start: u16,
    /// Where the checksum is stored, from `start`.
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
    /// Of a TCP header that starts at `start` (RFC 9293 §3.1).
    #[must_use]
    #[inline]
    pub const fn tcp(start: u16) -> Self {
        Self { start, offset: TCP_OFFSET }
    }

    /// Of a UDP header that starts at `start` (RFC 768).
    #[must_use]
    #[inline]
    pub const fn udp(start: u16) -> Self {
        Self { start, offset: UDP_OFFSET }
    }

    /// Whether the field stands where TCP has it.
    #[must_use]
    #[inline]
    pub const fn is_tcp(self) -> bool {
        self.offset == TCP_OFFSET
    }

    /// Whether the field stands where UDP has it.
    #[must_use]
    #[inline]
    pub const fn is_udp(self) -> bool {
        self.offset == UDP_OFFSET
    }

    /// Where the field stands, from the start of the packet.
    #[must_use]
    #[inline]
    pub fn field(self) -> usize {
        usize::from(self.start) + usize::from(self.offset)
    }
}

/// A packet to send: its IP and transport header in one slice, then its payload where it lies in the send buffer.
#[derive(Clone, Copy, Debug)]
pub struct TxPacket<'a> {
    /// The IP header and all that follows it up to the payload.
    pub header: &'a [u8],
    /// Where in `header` the transport header starts, in bytes.
    pub transport_offset: u16,
    /// The payload, in order; either slice may be empty.
    pub payload: [&'a [u8]; 2],
    /// `Some(size)`: the payload is to be cut into segments of `size` bytes (the last may be shorter), each
    /// with the header repeated and adjusted. `None`: one packet as it stands.
    pub segment_size: Option<NonZeroU16>,
    /// State of the transport's checksum field, which is in `header`. Always [`ChecksumState::Partial`] when
    /// `segment_size` is set.
    pub checksum: ChecksumState,
}

impl TxPacket<'_> {
    /// The length of the whole packet in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.header.len() + self.payload_len()
    }

    /// Whether the packet has no bytes at all.
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

/// What a device knows of a received packet besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RxMeta {
    /// State of the transport's checksum.
    pub checksum: ChecksumState,
    /// `Some(size)`: the packet was put together from segments of `size` payload bytes (the last may be shorter).
    pub segment_size: Option<NonZeroU16>,
}

const TCP_OFFSET: u16 = 16;
const UDP_OFFSET: u16 = 6;
