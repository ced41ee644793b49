//! The loopback: packets that an endpoint sends to its own addresses return without crossing a device.
//!
//! Such a packet is copied into a queue when it would leave, and handled as a received one before the sending
//! call returns. The queue keeps calls from nesting. One call handles a bounded number; the rest is due at
//! once ([`Endpoint::poll_timeout`]), so that the driver gets its turn.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;
use ackclock_wire::{RxMeta, TxPacket};

use super::Endpoint;
use super::input::Frame;
use super::output::{Leaving, Limits};
use crate::Instant;
use crate::budget::{Budget, Lease};

/// Packets from the endpoint to itself.
#[derive(Debug, Default)]
pub(super) struct LoopQueue {
    queue: VecDeque<Looped>,
}

#[derive(Debug)]
struct Looped {
    bytes: Vec<u8>,
    meta: RxMeta,
    _lease: Lease,
}

impl LoopQueue {
    fn push(&mut self, budget: &Budget, packet: &TxPacket<'_>) -> bool {
        let Some(lease) = budget.try_lease(packet.len()).filter(|_| self.queue.len() < LOOPED_MAX) else {
            return false;
        };
        let bytes = [packet.header, packet.payload[0], packet.payload[1]].concat();
        let meta = RxMeta { checksum: packet.checksum, segment_size: packet.segment_size };
        self.queue.push_back(Looped { bytes, meta, _lease: lease });
        true
    }
}

impl Endpoint {
    /// Whether packets to the endpoint's own addresses wait: there is work to do at once.
    #[must_use]
    #[inline]
    pub fn has_looped(&self) -> bool {
        self.looped_len() > 0
    }

    /// How many packets have gone from the endpoint to itself.
    #[must_use]
    #[inline]
    pub fn packets_looped(&self) -> u64 {
        self.beside.as_ref().map_or(0, |beside| beside.counters.packets_looped)
    }

    #[inline]
    pub(super) fn looped_len(&self) -> usize {
        self.beside.as_ref().map_or(0, |beside| beside.looped.queue.len())
    }

    /// A packet about to leave is for this endpoint.
    #[cold]
    pub(super) fn loop_back(&mut self, leaving: &Leaving) {
        // Allocated before the packet is borrowed.
        let mut looped = std::mem::take(&mut self.beside().looped);
        let room = self.tx_packet(leaving).is_some_and(|packet| looped.push(&self.budget, &packet));
        let beside = self.beside();
        beside.looped = looped;
        let counters = &mut beside.counters;
        (if room { &mut counters.packets_looped } else { &mut counters.dropped_looped }).count();
    }

    /// Handles up to `left` waiting packets, and deducts them. Returns whether there were any.
    pub(super) fn deliver_looped(&mut self, now: Instant, left: &mut usize) -> bool {
        let before = *left;
        while *left > 0
            && let Some(packet) = self.beside.as_mut().and_then(|beside| beside.looped.queue.pop_front())
        {
            left.shrink(1);
            self.receive(now, Frame { looped: true, ..Frame::arrived(&packet.bytes, packet.meta) });
        }
        *left < before
    }
}

/// The limits of a loopback: packets of 64 KB, with unfinished checksums.
pub(super) const LOOP_LIMITS: Limits = Limits { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true };

/// The most packets that wait.
const LOOPED_MAX: usize = 256;

/// How many wait before they are handled while there is more to send: a batch, as from a device.
pub(super) const LOOPED_BATCH: usize = 16;

/// The most that one call handles.
pub(super) const LOOPED_PER_CALL: usize = 256;
