//! A bench for one discipline: packets by number, times in milliseconds.

use ackclock_core::Instant;

use super::{Context, DropRule, Headers, PureAck, Queue, Queued};
use crate::packet::PacketId;
use crate::rng::Rng;

pub(super) struct Bench<Q> {
    pub(super) queue: Q,
    pub(super) rng: Rng,
    pub(super) dropped: Vec<(PacketId, DropRule)>,
    pub(super) marked: Vec<PacketId>,
    /// Whether the packets to come are L4S traffic.
    pub(super) l4s: bool,
    /// The hosts of the packets to come, and whether they are ACKs.
    pub(super) hosts: [u32; 2],
    pub(super) ack: Option<PureAck>,
    headers: Table,
    next: u32,
}

/// The headers of each packet.
#[derive(Debug, Default)]
struct Table(Vec<([u32; 2], Option<PureAck>)>);

impl Headers for Table {
    fn hosts(&self, packet: PacketId) -> [u32; 2] {
        self.0[packet.0 as usize].0
    }

    fn pure_ack(&self, packet: PacketId) -> Option<PureAck> {
        self.0[packet.0 as usize].1
    }
}

impl<Q: Queue> Bench<Q> {
    pub fn new(queue: Q) -> Self {
        let rng = Rng::derive(1, "bench");
        let (dropped, marked, headers) = (Vec::new(), Vec::new(), Table::default());
        Self { queue, rng, dropped, marked, l4s: false, hosts: [0, 0], ack: None, headers, next: 0 }
    }

    /// Enqueues the next packet. Returns its number.
    pub fn put(&mut self, at_ns: u64, bytes: u32, flow: u32, ecn_capable: bool) -> u32 {
        let now = Instant::from_nanos(at_ns);
        let packet = PacketId(self.next);
        self.next += 1;
        self.headers.0.push((self.hosts, self.ack));
        let mut cx = Context {
            now,
            rng: &mut self.rng,
            dropped: &mut self.dropped,
            marked: &mut self.marked,
            headers: &self.headers,
        };
        let l4s = self.l4s;
        self.queue.enqueue(Queued { packet, bytes, since: now, flow, ecn_capable, l4s }, &mut cx);
        packet.0
    }

    /// Dequeues. Returns the packet's number.
    pub fn take(&mut self, at_ns: u64) -> Option<u32> {
        let mut cx = Context {
            now: Instant::from_nanos(at_ns),
            rng: &mut self.rng,
            dropped: &mut self.dropped,
            marked: &mut self.marked,
            headers: &self.headers,
        };
        self.queue.dequeue(&mut cx).map(|packet| packet.packet.0)
    }

    pub fn dropped(&self) -> Vec<u32> {
        self.dropped.iter().map(|(packet, _)| packet.0).collect()
    }
}

pub(super) const MS: u64 = 1_000_000;
