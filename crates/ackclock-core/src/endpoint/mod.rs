//! The endpoint: it demultiplexes packets to connections and listeners.

use std::net::{IpAddr, SocketAddr};

use ackclock_wire::{RxMeta, TxPacket};

use crate::{
    ConnectError, Connection, ConnectionId, EndpointConfig, Event, FourTuple, Instant, ListenAddr,
    ListenError, ListenOptions, TcpConfig,
};

/// A listener of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A SYN that waits for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IncomingId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// What may be looked at before a SYN is answered.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// The sockets: `local` is the destination that the client dialled.
    pub tuple: FourTuple,
    /// The client's MSS, if it gave one.
    pub mss: Option<u16>,
    /// When the SYN arrived.
    pub arrived: Instant,
}

/// What the device in front of the endpoint can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest IP packet with a segment size (see [`TxPacket::segment_size`]) that may be made for IPv4; at most
    /// the MTU: none are made.
    pub gso_max_v4: usize,
    /// The same for IPv6.
    pub gso_max_v6: usize,
    /// Whether the device finishes TCP checksums.
    pub tx_checksum: bool,
}

/// Counts of what an endpoint did and refused, since it was made.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Packets received.
    pub packets_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
}

/// A host's TCP.
#[derive(Debug)]
pub struct Endpoint {}

#[expect(unused_variables, reason = "signatures first")]
impl Endpoint {
    /// An endpoint without connections.
    pub fn new(config: EndpointConfig, now: Instant) -> Self {
        unimplemented!()
    }
    /// An IP packet arrived. Replies are not made here but by `poll_transmit`, so that a batch of packets is
    /// processed before the first acknowledgement leaves (RFC 9293 MUST-58, MUST-59).
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta) {
        unimplemented!()
    }
    /// Time has come for some timer; a spurious call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        unimplemented!()
    }
    /// When `handle_timeout` is to be called next, at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        unimplemented!()
    }
    /// The next packet to send. Once taken it counts as sent.
    pub fn poll_transmit(&mut self, now: Instant, limits: Limits) -> Option<TxPacket<'_>> {
        unimplemented!()
    }
    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        unimplemented!()
    }
    /// Opens a connection (RFC 9293 §3.10.1, active). `local`: address and port to use; either may be left open
    /// by `None`, port 0.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: (Option<IpAddr>, u16),
        tcp: Option<TcpConfig>,
    ) -> Result<ConnectionId, ConnectError> {
        unimplemented!()
    }
    /// Starts to listen (RFC 9293 §3.10.1, passive).
    pub fn listen(&mut self, now: Instant, options: ListenOptions) -> Result<ListenerId, ListenError> {
        unimplemented!()
    }
    /// What a listener listens on (an ephemeral port where port 0 was asked for is told here).
    pub fn listener_addr(&self, id: ListenerId) -> Option<ListenAddr> {
        unimplemented!()
    }
    /// Stops listening: half-open connections are dropped, those that wait to be accepted are reset.
    pub fn close_listener(&mut self, now: Instant, id: ListenerId) {
        unimplemented!()
    }
    /// The next established connection of a listener. The caller owns it until `release`.
    pub fn accept(&mut self, now: Instant, id: ListenerId) -> Option<ConnectionId> {
        unimplemented!()
    }
    /// The SYN that waits under this id; `None` when it has been decided or has gone.
    pub fn incoming(&self, id: IncomingId) -> Option<Incoming> {
        unimplemented!()
    }
    /// Decides on a SYN that waited: `Accept` answers it, `Reset` refuses it, `Drop` forgets it silently. Not deciding
    /// holds it, for 60 s at most. Returns whether it was still there.
    pub fn decide(&mut self, now: Instant, id: IncomingId, decision: Decision) -> bool {
        unimplemented!()
    }
    /// A connection that the caller owns, or `None` after `release`.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        unimplemented!()
    }
    /// Does something with a connection and sees to the segments and timers that follow from it.
    pub fn update<R>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        f: impl FnOnce(&mut Connection, Instant) -> R,
    ) -> Option<R> {
        unimplemented!()
    }
    /// Gives a connection up: the application will not look at it again. Unread data resets it (RFC 9293
    /// SHLD-3), otherwise it is closed, and goes on by itself until both ends have finished.
    pub fn release(&mut self, now: Instant, id: ConnectionId) {
        unimplemented!()
    }
    /// Replaces the local addresses; existing connections keep theirs (RFC 9293 MUST-45).
    pub fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        unimplemented!()
    }
    /// The device's MTU changed.
    pub fn set_mtu(&mut self, now: Instant, mtu: usize) {
        unimplemented!()
    }
    /// Counts of what happened.
    pub fn counters(&self) -> Counters {
        unimplemented!()
    }
    /// The ids of all connections that exist, orphans included.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> + '_ {
        std::iter::empty()
    }
    /// Bytes that all buffers take, and their limit.
    pub fn memory(&self) -> (usize, usize) {
        unimplemented!()
    }
}

/// A decision on a SYN that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Answer it.
    Accept,
    /// Refuse it with a reset.
    Reset,
    /// Forget it silently.
    Drop,
}
