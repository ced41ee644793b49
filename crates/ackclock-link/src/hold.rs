//! Packets of the stack's that are kept until they can be sent.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use ackclock_control::tally::Tally;

use ackclock_wire::{ChecksumState, TxPacket};

/// A copy of a packet, with all that its sender said of it.
#[derive(Clone, Debug)]
pub(crate) struct HeldPacket {
    bytes: Vec<u8>,
    header_len: usize,
    transport_offset: u16,
    segment_size: Option<NonZeroU16>,
    checksum: ChecksumState,
}

/// What waits for one neighbour, in order.
#[derive(Debug, Default)]
pub(crate) struct HoldQueue {
    packets: VecDeque<HeldPacket>,
    bytes: usize,
}

impl HoldQueue {
    pub(crate) fn push(&mut self, packet: HeldPacket) {
        self.bytes.grow(packet.len());
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<HeldPacket> {
        let packet = self.packets.pop_front()?;
        self.bytes.shrink(packet.len());
        Some(packet)
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl HeldPacket {
    pub(crate) fn copy(packet: &TxPacket<'_>) -> Self {
        let mut bytes = Vec::with_capacity(packet.len());
        bytes.extend_from_slice(packet.header);
        packet.payload.iter().for_each(|part| bytes.extend_from_slice(part));
        Self {
            header_len: packet.header.len(),
            transport_offset: packet.transport_offset,
            segment_size: packet.segment_size,
            checksum: packet.checksum,
            bytes,
        }
    }

    /// A message of the link's own, which is complete.
    pub(crate) fn message(bytes: Vec<u8>) -> Self {
        let header_len = bytes.len();
        let checksum = ChecksumState::Complete;
        Self { bytes, header_len, transport_offset: 0, segment_size: None, checksum }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.bytes.first().is_some_and(|byte| byte >> 4 == 4)
    }

    pub(crate) fn packet(&self) -> TxPacket<'_> {
        let (header, payload) = self.bytes.split_at_checked(self.header_len).unwrap_or((&self.bytes, &[]));
        TxPacket {
            header,
            transport_offset: self.transport_offset,
            payload: [payload, &[]],
            segment_size: self.segment_size,
            checksum: self.checksum,
        }
    }
}
