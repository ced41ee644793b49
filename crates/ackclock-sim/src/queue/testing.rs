//! A bench for one discipline: packets by number, times in milliseconds.

use ackclock_core::Instant;

use super::{Context, DropRule, Queue, Queued};
use crate::packet::{PacketId, Packets};
use crate::rng::Rng;

pub(super) struct Bench<Q> {
    pub(super) queue: Q,
    pub(super) rng: Rng,
    pub(super) dropped: Vec<(PacketId, DropRule)>,
    pub(super) marked: Vec<PacketId>,
    pub(super) packets: Packets,
    next: u32,
}

impl<Q: Queue> Bench<Q> {
    pub fn new(queue: Q) -> Self {
        Self {
            queue,
            rng: Rng::derive(1, "bench"),
            dropped: Vec::new(),
            marked: Vec::new(),
            packets: Packets::default(),
            next: 0,
        }
    }

    /// Enqueues the next packet. Returns its number.
    pub fn put(&mut self, at_ns: u64, bytes: u32, flow: u32, ecn_capable: bool) -> u32 {
        let packet = PacketId(self.next);
        self.next += 1;
        let since = Instant::from_nanos(at_ns);
        self.enqueue(Queued { packet, bytes, since, flow, ecn_capable });
        packet.0
    }

    /// Enqueues this packet.
    pub fn enqueue(&mut self, packet: Queued) {
        let mut cx = Context {
            now: packet.since,
            rng: &mut self.rng,
            dropped: &mut self.dropped,
            marked: &mut self.marked,
            packets: &mut self.packets,
        };
        self.queue.enqueue(packet, &mut cx);
    }

    /// Dequeues. Returns the packet's number.
    pub fn take(&mut self, at_ns: u64) -> Option<u32> {
        let mut cx = Context {
            now: Instant::from_nanos(at_ns),
            rng: &mut self.rng,
            dropped: &mut self.dropped,
            marked: &mut self.marked,
            packets: &mut self.packets,
        };
        self.queue.dequeue(&mut cx).map(|packet| packet.packet.0)
    }

    pub fn dropped(&self) -> Vec<u32> {
        self.dropped.iter().map(|(packet, _)| packet.0).collect()
    }
}

pub(super) const MS: u64 = 1_000_000;
