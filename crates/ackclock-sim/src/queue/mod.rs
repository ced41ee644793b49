//! Queues: what waits in front of a link, and which packets are dropped or marked there.
//!
//! A discipline sees lengths, times and whether a packet may be marked; only CAKE and ACK thinning read its
//! headers. The packet being sent has left the queue: a limit of ten packets means ten that wait.

mod ack_thinning;
mod cake;
mod codel;
mod drop_tail;
mod dual_pi2;
mod fq_codel;
mod hosts;
mod pie;
mod policer;
mod red;

use std::fmt;

use ackclock_core::Instant;
use serde::Serialize;

pub(crate) use ack_thinning::AckThinning;
pub use cake::{Cake, Parameters as CakeParameters};
pub use codel::{CoDel, Parameters as CoDelParameters};
pub use drop_tail::DropTail;
pub use dual_pi2::{DualPi2, Parameters as DualPi2Parameters};
pub use fq_codel::{FqCoDel, Parameters as FqCoDelParameters};
pub use pie::{Parameters as PieParameters, Pie};
pub use policer::Policer;
pub use red::{Parameters as RedParameters, Red};

use crate::meter::Histogram;
use crate::packet::{PacketId, Packets};
use crate::rng::Rng;

/// A queue discipline.
pub trait Queue: fmt::Debug {
    /// A packet arrives. It is kept, or it or others go into `cx.dropped`.
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>);

    /// The next packet to send. Others may be added to `cx.dropped` first.
    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued>;

    /// The number of packets that wait.
    fn len(&self) -> usize;

    /// The number of bytes that wait.
    fn bytes(&self) -> u64;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a packet that finds the queue empty and the link free passes as if there were no queue.
    fn is_transparent(&self) -> bool {
        false
    }

    /// When the next packet may leave, where packets wait although the link is free: the discipline holds
    /// them back. The link asks after [`dequeue`](Self::dequeue) has returned nothing.
    fn opens_at(&self) -> Option<Instant> {
        None
    }

    /// Whether to fill in [`Queued::flow`].
    fn needs_flows(&self) -> bool {
        false
    }

    /// The discipline's own queues by name, if it has several and they are for different traffic.
    fn lanes(&self) -> Vec<(&'static str, &LaneStats)> {
        Vec::new()
    }
}

/// The traffic through one of the queues of a discipline.
#[derive(Clone, Debug, Default)]
pub struct LaneStats {
    /// Packets that left it for the link.
    pub sent: u64,
    /// Packets that arrived for it or waited in it, and were dropped.
    pub dropped: u64,
    /// Packets of it that were marked.
    pub marked: u64,
    /// How long those that left had waited.
    pub waits: Histogram,
}

/// A packet in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The packet.
    pub packet: PacketId,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// When it arrived.
    pub since: Instant,
    /// A hash of its flow, if the discipline needs it.
    pub flow: u32,
    /// Whether it may be marked instead of dropped (RFC 3168: ECT or CE).
    pub ecn_capable: bool,
    /// Whether it belongs to L4S traffic (RFC 9331 §5.1: ECT(1) or CE).
    pub l4s: bool,
}

impl Queued {
    /// How long it has waited, in nanoseconds.
    fn waited_ns(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_sub(self.since.as_nanos())
    }
}

/// The means of a discipline, and the place where it reports its decisions.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time.
    pub now: Instant,
    /// The link's random number generator.
    pub rng: &'a mut Rng,
    /// Dropped packets, each with its rule.
    pub dropped: &'a mut Vec<(PacketId, DropRule)>,
    /// Packets to mark with Congestion Experienced.
    pub marked: &'a mut Vec<PacketId>,
    /// The packets themselves, for the few disciplines that read headers.
    pub(crate) packets: &'a mut Packets,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DropRule {
    /// The queue was full.
    QueueFull,
    /// RED, at random below its upper threshold.
    RedEarly,
    /// RED, above its upper threshold.
    RedForced,
    /// CoDel, at the head of the queue.
    CoDel,
    /// FQ-CoDel was full and dropped from its longest queue.
    FqOverflow,
    /// Above the policer's rate.
    Policer,
    /// Independent loss on the wire.
    RandomLoss,
    /// Gilbert's and Elliott's bursty loss on the wire.
    BurstLoss,
    /// The scenario names this packet.
    Scripted,
    /// A blackout of the wire.
    Blackout,
    /// The link is down.
    LinkDown,
    /// Larger than the next link's MTU.
    TooBig,
    /// The hop limit ran out.
    HopLimit,
    /// No route to its destination.
    NoRoute,
    /// Larger than the link's silent size limit.
    AboveSize,
    /// A partition lies between its hosts.
    Partition,
    /// Its host is down.
    HostDown,
    // New ones come last: packet logs and traces hold the numbers of the others.
    /// A later acknowledgement took its place, or its link passes one in a number of them.
    AckThinned,
    /// PIE, at random.
    Pie,
    /// DualPI2, from either of its queues.
    #[serde(rename = "dualpi2")]
    DualPi2,
}

impl DropRule {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::QueueFull,
        Self::RedEarly,
        Self::RedForced,
        Self::CoDel,
        Self::FqOverflow,
        Self::Policer,
        Self::RandomLoss,
        Self::BurstLoss,
        Self::Scripted,
        Self::Blackout,
        Self::LinkDown,
        Self::TooBig,
        Self::HopLimit,
        Self::NoRoute,
        Self::AboveSize,
        Self::Partition,
        Self::HostDown,
        Self::AckThinned,
        Self::Pie,
        Self::DualPi2,
    ];

    /// The name in tables and traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::RedEarly => "red-early",
            Self::RedForced => "red-forced",
            Self::CoDel => "codel",
            Self::FqOverflow => "fq-overflow",
            Self::Policer => "policer",
            Self::RandomLoss => "random-loss",
            Self::BurstLoss => "burst-loss",
            Self::Scripted => "scripted",
            Self::Blackout => "blackout",
            Self::LinkDown => "link-down",
            Self::TooBig => "too-big",
            Self::HopLimit => "hop-limit",
            Self::NoRoute => "no-route",
            Self::AboveSize => "above-size",
            Self::Partition => "partition",
            Self::HostDown => "host-down",
            Self::AckThinned => "ack-thinned",
            Self::Pie => "pie",
            Self::DualPi2 => "dualpi2",
        }
    }

    /// Whether a queue, not the wire, dropped it.
    #[must_use]
    pub const fn is_queue(self) -> bool {
        matches!(
            self,
            Self::QueueFull
                | Self::RedEarly
                | Self::RedForced
                | Self::CoDel
                | Self::FqOverflow
                | Self::Policer
                | Self::AckThinned
                | Self::Pie
                | Self::DualPi2
        )
    }
}

/// A probability of 1, in parts of 2³².
const ONE: i64 = 1 << 32;

/// A first-in, first-out store with its length in bytes, shared by the disciplines.
#[derive(Debug, Default)]
struct Fifo {
    packets: std::collections::VecDeque<Queued>,
    bytes: u64,
}

impl Fifo {
    #[inline]
    fn push(&mut self, packet: Queued) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back(packet);
    }

    #[inline]
    fn pop(&mut self) -> Option<Queued> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    fn remove_last_but_one(&mut self) -> Option<Queued> {
        let packet = self.packets.remove(self.packets.len().checked_sub(2)?)?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    #[inline]
    fn len(&self) -> usize {
        self.packets.len()
    }
}

/// Whether one more packet fits under `limit`.
#[inline]
fn fits(limit: crate::units::Limit, packets: usize, bytes: u64, more: u32) -> bool {
    match limit {
        crate::units::Limit::Packets(limit) => (packets as u64) < limit,
        crate::units::Limit::Bytes(limit) => bytes + u64::from(more) <= limit,
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod testing;
