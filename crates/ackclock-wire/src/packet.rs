//! How packets travel between a stack and a device: borrowed, possibly 64 KB long, with their offload state.

use std::num::NonZeroU16;

/// What is known of a packet's TCP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumState {
    /// The checksum field holds the whole checksum. Received: it is to be verified.
    #[default]
    Complete,
    /// The checksum field holds the sum of the pseudo-header only. Sent: the device finishes it, one checksum
    /// per segment where the packet is cut. Received: the packet never crossed a wire and nothing is to be verified.
    Partial,
    /// Received only: the device has verified the checksum.
    Verified,
}

/// A packet to send: its IP and TCP header in one slice, then its payload where it lies in the send buffer.
#[derive(Clone, Copy, Debug)]
pub struct TxPacket<'a> {
    /// The IP header and all that follows it up to the payload.
    pub header: &'a [u8],
    /// Where in `header` the TCP (or other transport) header starts, in bytes.
    pub transport_offset: u16,
    /// The payload, in order; either slice may be empty.
    pub payload: [&'a [u8]; 2],
    /// `Some(size)`: the payload is to be cut into segments of `size` bytes (the last may be shorter), each
    /// with the header repeated and adjusted. `None`: one packet as it stands.
    pub segment_size: Option<NonZeroU16>,
    /// State of the TCP checksum field in `header`. Always [`ChecksumState::Partial`] when `segment_size` is set.
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
    /// State of the TCP checksum.
    pub checksum: ChecksumState,
    /// `Some(size)`: the packet was put together from segments of `size` payload bytes (the last may be shorter).
    pub segment_size: Option<NonZeroU16>,
}
