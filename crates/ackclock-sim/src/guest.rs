//! Guests: other stacks in place of the built-in hosts.
//!
//! A guest has the methods of an endpoint and no others, so any IP stack can take part: the socket API of
//! `ackclock` (see the feature `tokio`), a stack under test, a peer that misbehaves on purpose. Its timer is
//! an event of the simulation like any other.

use std::fmt;

use ackclock_core::{Instant, Limits};
use ackclock_wire::{RxMeta, TxPacket};

use crate::alarm::Alarm;
use crate::host::destination_node;
use crate::observe::What;
use crate::packet::PacketId;
use crate::world::{Wake, World};

/// A stack that the simulation drives. The methods are those of [`Endpoint`](ackclock_core::Endpoint).
pub trait Guest: fmt::Debug {
    /// An IP packet arrived.
    fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta);

    /// The time from [`Self::poll_timeout`] has come. A spurious call must do nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// When to call `handle_timeout` next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Hands the next packet to `send`, with real checksums and within `limits`. Returns `false` if there is
    /// no packet.
    fn poll_transmit(&mut self, now: Instant, limits: Limits, send: &mut dyn FnMut(&TxPacket<'_>)) -> bool;
}

/// Why a guest cannot take a host's place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// No host has this name.
    #[error("the scenario has no host `{name}`; it has {}", list(hosts))]
    NoSuchHost {
        /// The name given.
        name: String,
        /// The hosts of the scenario.
        hosts: Vec<String>,
    },
    /// Routers have no transport layer.
    #[error("`{0}` is a router, which has no stack: link a host to it")]
    Router(String),
    /// The host's built-in endpoint is in use.
    #[error(
        "host `{host}` runs the traffic `{traffic}` and has an endpoint already: give the stack a host of \
         its own"
    )]
    Busy {
        /// The host.
        host: String,
        /// Its first traffic or application.
        traffic: String,
    },
    /// Another guest has taken the host.
    #[error("host `{0}` has a stack already: a host takes one, whose handles can be cloned")]
    Taken(String),
    /// The scenario does not carry payloads.
    #[error("a stack of your own needs real bytes on the wire: set the scenario's `full_packets`")]
    NoPayloads,
}

/// The guests, by node.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    seats: Vec<Option<Box<Seat>>>,
    /// Whether a guest has been called, or has gone or is to come, since this was last cleared.
    pub(crate) called: bool,
    /// The hosts whose guests have gone (`false`) or are to come again (`true`), for the owner of the guests.
    news: Vec<(u32, bool)>,
}

/// A guest and its node.
#[derive(Debug)]
pub(crate) struct Seat {
    pub node: u32,
    guest: Box<dyn Guest>,
    /// The guest is gone: its host has crashed.
    pub vacant: bool,
    pub limits: Limits,
    pub alarm: Alarm,
    pub sent: Count,
    pub received: Count,
}

/// The traffic over the edge of the network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub packets: u64,
    /// Headers included.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, packet_bytes: usize) {
        self.packets += 1;
        self.bytes += packet_bytes as u64;
    }
}

impl Guests {
    /// Whether a guest is at this node, now.
    pub fn has(&self, node: u32) -> bool {
        self.seat(node).is_some_and(|seat| !seat.vacant)
    }

    /// The seat at this node, vacant or not.
    pub fn seat(&self, node: u32) -> Option<&Seat> {
        self.seats.get(node as usize)?.as_deref()
    }

    pub fn add(&mut self, seat: Seat) {
        let index = seat.node as usize;
        if self.seats.len() <= index {
            self.seats.resize_with(index + 1, || None);
        }
        self.seats[index] = Some(Box::new(seat));
    }

    /// The host of a guest crashes.
    pub fn lose(&mut self, node: u32) {
        if let Some(seat) = self.call(node) {
            seat.vacate();
            self.news.push((node, false));
        }
    }

    /// The host of a guest that is gone starts again, and its owner brings a new one.
    pub fn await_again(&mut self, node: u32) {
        self.called = true;
        self.news.push((node, true));
    }

    /// The hosts whose guests have gone (`false`) or are to come again (`true`) since the last call, in
    /// order.
    #[cfg(feature = "tokio")]
    pub fn take_news(&mut self) -> Vec<(u32, bool)> {
        std::mem::take(&mut self.news)
    }

    /// All of them, in the order of their nodes.
    pub fn all(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().flatten().map(Box::as_ref)
    }

    /// The guest at this node, for a call to it.
    #[inline]
    pub fn call(&mut self, node: u32) -> Option<&mut Seat> {
        let seat = self.seats.get_mut(node as usize)?.as_deref_mut()?;
        self.called = true;
        Some(seat)
    }
}

impl Seat {
    pub fn new(node: u32, guest: Box<dyn Guest>, limits: Limits, alarm: Alarm) -> Self {
        let (sent, received) = (Count::default(), Count::default());
        Self { node, guest, vacant: false, limits, alarm, sent, received }
    }

    /// The host crashes, and the guest is gone without a word.
    fn vacate(&mut self) {
        self.guest = Box::new(Silence);
        self.vacant = true;
    }

    /// A guest takes the seat of one that is gone.
    pub fn occupy(&mut self, guest: Box<dyn Guest>) {
        self.guest = guest;
        self.vacant = false;
    }

    /// A packet has arrived.
    pub fn receive(&mut self, id: PacketId, world: &mut World) {
        let packet = world.net.packets.get(id);
        world.net.observers.tell(world.now, What::Delivered, self.node, None, packet);
        let (bytes, meta) = packet.assemble(&mut world.scratch);
        self.received.add(bytes.len());
        self.guest.handle_packet(world.now, bytes, meta);
        world.net.packets.remove(id);
        self.pump(world);
    }

    /// The guest's timer fires.
    pub fn timer(&mut self, world: &mut World) {
        if self.alarm.rings(Wake::Host(self.node), world) {
            self.guest.handle_timeout(world.now);
            self.pump(world);
        }
    }

    /// Sends everything there is to send, then sets the timer.
    pub fn pump(&mut self, world: &mut World) {
        let now = world.now;
        let net = &mut world.net;
        let mut send = |packet: &TxPacket<'_>| {
            self.sent.add(packet.len());
            let dst = net.leading_to(destination_node(packet.header), packet.header);
            let id = net.admit(now, self.node, packet, true, dst);
            net.forward(now, self.node, id);
        };
        while self.guest.poll_transmit(now, self.limits, &mut send) {}
        if let Some(deadline) = self.guest.poll_timeout() {
            self.alarm.set(deadline, Wake::Host(self.node), world);
        }
    }
}

/// A host that is down.
#[derive(Debug)]
struct Silence;

impl Guest for Silence {
    fn handle_packet(&mut self, _: Instant, _: &[u8], _: RxMeta) {}

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _: Instant, _: Limits, _: &mut dyn FnMut(&TxPacket<'_>)) -> bool {
        false
    }
}

fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}
