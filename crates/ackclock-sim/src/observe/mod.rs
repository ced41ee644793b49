//! Observers of packets and samples. Without one, they cost a branch.

mod log;
mod pcapng;
mod series;
mod trace;

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_core::Instant;
use ackclock_core::trace::Batch;

pub use log::{LogHash, PacketLog};
pub use pcapng::Pcapng;
pub use series::{FlowPoint, LinkPoint, Series};
pub use trace::Traces;

use crate::host::source_node;
use crate::packet::Packet;
use crate::queue::{DropRule, Queue};

/// Receives the events of a simulation. To keep a handle on an observer, give the simulation an
/// `Rc<RefCell<..>>` of it.
pub trait Observer {
    /// Something happened to a packet.
    fn packet(&mut self, event: &PacketEvent<'_>);

    /// A connection on `node` delivered its trace, if [`TcpSettings::trace`] asks for one.
    ///
    /// [`TcpSettings::trace`]: crate::TcpSettings::trace
    fn trace(&mut self, node: u32, batch: &Batch) {
        let _ = (node, batch);
    }

    /// The length of a link's queue has changed.
    fn queue(&mut self, queue: &QueueLength) {
        let _ = queue;
    }

    /// It is time for a sample ([`Scenario::sample_every`](crate::Scenario::sample_every)).
    fn sample(&mut self, sample: &Sample<'_>) {
        let _ = sample;
    }
}

/// The length of a link's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLength {
    /// The time.
    pub at: Instant,
    /// The number of the link's direction.
    pub link: u32,
    /// The number of packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// An event of a packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketEvent<'a> {
    /// The time.
    pub at: Instant,
    /// The event.
    pub what: What,
    /// The node.
    pub node: u32,
    /// The link, if one is involved: the number of its direction, two for each link of the scenario.
    pub link: Option<u32>,
    /// The packet.
    pub packet: PacketView<'a>,
}

/// The kinds of packet events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A host sent it, or a router that reports an error.
    Sent,
    /// It arrived at the queue of a link.
    Queued,
    /// It goes no further.
    Dropped(DropRule),
    /// It was marked with Congestion Experienced.
    Marked,
    /// It left the queue for the wire.
    Departed,
    /// A host received it.
    Delivered,
}

/// A read-only view of a packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a>(pub(crate) &'a Packet);

/// The header fields of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentView {
    /// The node that sent it, by its number.
    pub source: u32,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
}

/// A periodic sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The time.
    pub at: Instant,
    /// One point for each direction of each link.
    pub links: &'a [LinkPoint],
    /// One point for each traffic.
    pub flows: &'a [FlowPoint],
}

impl<'a> PacketView<'a> {
    /// The packet's number in the simulation, counted from the first. A copy has its original's number.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.0.serial
    }

    /// Length of the IP packet in bytes.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.len()
    }

    /// Whether its length is zero, which is never true of an IP packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fields of its TCP header, if it has one.
    #[must_use]
    pub fn segment(&self) -> Option<SegmentView> {
        let tcp = self.0.tcp()?;
        let ports = (tcp.src_port, tcp.dst_port);
        Some(SegmentView { source: source_node(self.header()), ports, seq: tcp.seq, ack: tcp.ack })
    }

    /// Its headers.
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        self.0.header()
    }

    /// Its payload, where payloads are carried.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.0.payload()
    }

    /// Bytes of payload, carried or not.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.0.payload_len()
    }
}

impl<T: Observer> Observer for Rc<RefCell<T>> {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        self.borrow_mut().packet(event);
    }

    fn trace(&mut self, node: u32, batch: &Batch) {
        self.borrow_mut().trace(node, batch);
    }

    fn queue(&mut self, queue: &QueueLength) {
        self.borrow_mut().queue(queue);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.borrow_mut().sample(sample);
    }
}

/// All observers.
#[derive(Default)]
pub(crate) struct Observers(Vec<Box<dyn Observer>>);

impl Observers {
    pub fn add(&mut self, observer: Box<dyn Observer>) {
        self.0.push(observer);
    }

    #[inline]
    pub fn tell(&mut self, at: Instant, what: What, node: u32, link: Option<u32>, packet: &Packet) {
        if !self.0.is_empty() {
            self.tell_all(&PacketEvent { at, what, node, link, packet: PacketView(packet) });
        }
    }

    #[cold]
    fn tell_all(&mut self, event: &PacketEvent<'_>) {
        self.0.iter_mut().for_each(|observer| observer.packet(event));
    }

    #[cold]
    pub fn trace(&mut self, node: u32, batch: &Batch) {
        self.0.iter_mut().for_each(|observer| observer.trace(node, batch));
    }

    #[inline]
    pub fn queue(&mut self, at: Instant, link: u32, queue: &dyn Queue) {
        if !self.0.is_empty() {
            let length = QueueLength { at, link, packets: queue.len() as u32, bytes: queue.bytes() };
            self.0.iter_mut().for_each(|observer| observer.queue(&length));
        }
    }

    pub fn sample(&mut self, sample: &Sample<'_>) {
        self.0.iter_mut().for_each(|observer| observer.sample(sample));
    }
}

impl std::fmt::Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} observers", self.0.len())
    }
}
