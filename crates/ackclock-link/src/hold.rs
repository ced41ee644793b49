//! Packets of the stack's that are kept until they can be sent.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;
use ackclock_wire::HeldPacket;

/// Packets that wait for one neighbour, in order.
#[derive(Debug, Default)]
pub(crate) struct HoldQueue {
    packets: VecDeque<HeldPacket>,
    bytes: usize,
}

impl HoldQueue {
    pub fn push(&mut self, packet: HeldPacket) {
        self.bytes.grow(packet.len());
        self.packets.push_back(packet);
    }

    pub fn pop(&mut self) -> Option<HeldPacket> {
        let packet = self.packets.pop_front()?;
        self.bytes.shrink(packet.len());
        Some(packet)
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
