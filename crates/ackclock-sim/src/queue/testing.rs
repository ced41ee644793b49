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
    /// Whether the packets to come are L4S traffic.
    pub(super) l4s: bool,
    /// The hosts of the packets to come.
    pub(super) hosts: [u32; 2],
}

impl<Q: Queue> Bench<Q> {
    pub fn new(queue: Q) -> Self {
        Self {
            queue,
            rng: Rng::derive(1, "bench"),
            dropped: Vec::new(),
            marked: Vec::new(),
            packets: Packets::default(),
            l4s: false,
            hosts: [0, 0],
        }
    }

    /// Enqueues the next packet. Returns its number.
    pub fn put(&mut self, at_ns: u64, bytes: u32, flow: u32, ecn_capable: bool) -> u32 {
        let [from, to] = self.hosts;
        let mut header = [0; 20];
        header[0] = 0x45;
        header[12..16].copy_from_slice(&(from + 1).to_be_bytes());
        let packet = self.packets.insert_bytes(&header, to);
        let since = Instant::from_nanos(at_ns);
        self.enqueue(Queued { packet, bytes, since, flow, ecn_capable, l4s: self.l4s });
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

    /// The numbers of the dropped packets.
    pub fn dropped(&self) -> Vec<u32> {
        self.dropped.iter().map(|(packet, _)| packet.0).collect()
    }
}

pub(super) const MS: u64 = 1_000_000;
