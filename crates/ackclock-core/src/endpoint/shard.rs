//! One host on several endpoints, each a *shard* with a queue of the device, and a lock outside of this
//! crate.
//!
//! A connection, half-open record or TIME-WAIT record is at the endpoint where its first segment arrived, or
//! that opened it. Its packets may still arrive on another queue: a device spreads flows by a hash until it
//! has learned which queue answers them. A packet that is not the endpoint's own is a [`Stray`], which the
//! driver takes to the endpoint that has the name ([`directory`](super::directory)). Everything other than
//! TCP is at the first endpoint, which therefore has every datagram, fragment and echo request in one place,
//! with one limit; its answers teach the device.
//!
//! A stray is handed over once. If the name has moved meanwhile, the packet is lost and its sender repeats
//! it.
//!
//! The names, the memory budget, and the time until which a SYN cookie may come back are shared. A cookie's
//! connection is where it comes back. The other bounds are divided. A segment at its connection's endpoint
//! touches nothing shared except, when a buffer grows, the budget.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use ackclock_control::tally::Tally;
use ackclock_wire::{Flags, IpError, IpPacket, IpPayload, RxMeta};

use super::Endpoint;
use super::demux::Target;
use super::directory::Directory;
use super::input::{Arrival, Frame};
use super::taken::Use;
use crate::budget::{Budget, Lease};
use crate::{EndpointConfig, FourTuple, Instant};

/// Which of several endpoints one is, and what it shares with the others: made by
/// [`EndpointConfig::split`](crate::EndpointConfig::split).
#[derive(Clone)]
pub struct Shard {
    pub(super) index: usize,
    pub(super) count: usize,
    pub(super) directory: Arc<Directory>,
    pub(super) budget: Budget,
}

/// A packet that belongs to another endpoint of the same host.
#[derive(Debug)]
pub struct Stray {
    bytes: Vec<u8>,
    meta: RxMeta,
    to: usize,
    _lease: Lease,
}

/// The state of an endpoint that is one of several.
pub(super) struct Sharded {
    shard: Shard,
    strays: VecDeque<Stray>,
}

impl Shard {
    /// The shards of one host.
    pub(crate) fn all(config: &EndpointConfig, count: usize) -> impl Iterator<Item = Self> {
        let directory = Arc::new(Directory::new(&config.secret, config.ephemeral_ports));
        let budget = Budget::with(config.memory_budget, config.keep_bytes);
        (0..count).map(move |index| Self {
            index,
            count,
            directory: Arc::clone(&directory),
            budget: budget.clone(),
        })
    }
}

impl Stray {
    /// The endpoint that it belongs to, by its index among the configurations that
    /// [`split`](crate::EndpointConfig::split) returned.
    #[must_use]
    pub fn to(&self) -> usize {
        self.to
    }
}

impl Sharded {
    pub(super) fn new(shard: Shard) -> Self {
        Self { shard, strays: VecDeque::new() }
    }

    /// Keeps a copy of a packet for another endpoint. Returns whether there was room.
    fn push(&mut self, frame: &Frame<'_>, to: usize) -> bool {
        let lease = self.shard.budget.try_lease(frame.packet.len());
        let Some(lease) = lease.filter(|_| self.strays.len() < STRAYS_MAX) else { return false };
        self.strays.push_back(Stray { bytes: frame.packet.to_vec(), meta: frame.meta, to, _lease: lease });
        true
    }
}

impl Endpoint {
    /// The next packet that arrived here for another endpoint; pass it to that one's
    /// [`handle_stray`](Self::handle_stray). A driver of several endpoints calls this after each batch. At
    /// most 1,024 wait; later ones are dropped and counted.
    pub fn poll_stray(&mut self) -> Option<Stray> {
        self.sharded.as_mut()?.strays.pop_front()
    }

    /// A packet for this endpoint arrived at another one.
    pub fn handle_stray(&mut self, now: Instant, stray: &Stray) {
        let now = self.advance(now);
        self.rare_counters().strays_taken.count();
        self.receive(now, Frame { stray: true, ..Frame::arrived(&stray.bytes, stray.meta) });
        self.check_invariants();
    }

    /// A segment at one endpoint of several. A connection's segment goes its usual way. Before any other may
    /// create a connection, the name is held, or the packet goes to the endpoint that has it.
    pub(super) fn for_shard(&mut self, now: Instant, arrival: &Arrival<'_>, bytes: &[u8]) {
        let tuple = &arrival.tuple;
        // A SYN may replace a connection in TIME-WAIT, and the name must not be free in between.
        let opens = arrival.segment.flags.contains(Flags::SYN);
        if !opens && matches!(self.find(tuple), Some(Target::Connection(_))) {
            return self.for_name(now, arrival, bytes);
        }
        match self.hold(tuple) {
            Ok(()) => {
                self.for_name(now, arrival, bytes);
                self.let_go(tuple);
            }
            Err(owner) => self.hand_over(&arrival.frame, owner),
        }
    }

    /// Whether a packet was handed to another endpoint because it is not TCP.
    #[inline]
    pub(super) fn is_elsewhere(&mut self, parsed: &Result<IpPacket<'_>, IpError>, frame: &Frame<'_>) -> bool {
        let not_tcp = match parsed {
            Ok(ip) => matches!(ip.payload, IpPayload::Udp(_) | IpPayload::Other(_)),
            Err(error) => *error == IpError::Fragment,
        };
        not_tcp && self.goes_to_first(frame)
    }

    /// Whether an ICMP error about a segment that this endpoint did not send was handed to the one that did,
    /// or to the first.
    pub(super) fn is_error_elsewhere(&mut self, about: &FourTuple, frame: &Frame<'_>) -> bool {
        let Some(sharded) = self.sharded.as_ref().filter(|_| !frame.looped && !frame.stray) else {
            return false;
        };
        match sharded.shard.directory.holder(about).filter(|&owner| owner != sharded.shard.index) {
            Some(owner) => {
                self.hand_over(frame, owner);
                true
            }
            None => self.goes_to_first(frame),
        }
    }

    /// Whether a packet was handed to the first endpoint, because this is another one.
    pub(super) fn goes_to_first(&mut self, frame: &Frame<'_>) -> bool {
        let is_first = self.sharded.as_ref().is_none_or(|sharded| sharded.shard.index == 0);
        if is_first || frame.looped {
            return false;
        }
        self.hand_over(frame, 0);
        true
    }

    #[cold]
    fn hand_over(&mut self, frame: &Frame<'_>, to: usize) {
        let once = !frame.stray && !frame.looped;
        let taken = once && self.sharded.as_mut().is_some_and(|sharded| sharded.push(frame, to));
        let counters = self.rare_counters();
        let counter = if taken { &mut counters.strays_handed_over } else { &mut counters.dropped_strays };
        counter.count();
    }

    /// Holds a name. The error is the endpoint that has it.
    #[inline]
    pub(super) fn hold(&self, name: &FourTuple) -> Result<(), usize> {
        match &self.sharded {
            Some(sharded) => sharded.shard.directory.hold(name, sharded.shard.index),
            None => Ok(()),
        }
    }

    /// Releases a name.
    #[inline]
    pub(super) fn let_go(&self, name: &FourTuple) {
        if let Some(sharded) = &self.sharded {
            sharded.shard.directory.let_go(name, sharded.shard.index);
        }
    }

    /// Puts a name into the demultiplexer. At one endpoint of several the caller holds it already.
    pub(super) fn enter(&mut self, name: &FourTuple, target: Target) {
        let held = self.hold(name);
        debug_assert_eq!(held, Ok(()), "who enters a name holds it");
        self.demux.insert(self.demux.tag(name), target);
        let taken = &mut self.ports.taken;
        if !taken.is_empty() {
            taken.entered(name);
            if !matches!(target, Target::HalfOpen(_)) {
                taken.connected(name);
            }
        }
    }

    /// Removes a name from the demultiplexer.
    pub(super) fn strike(&mut self, name: &FourTuple, target: Target) {
        self.demux.remove(self.demux.tag(name), target);
        self.let_go(name);
        let taken = &mut self.ports.taken;
        if !taken.is_empty() {
            taken.gone(name);
            if !matches!(target, Target::HalfOpen(_)) {
                taken.disconnected(name);
            }
        }
    }

    /// The directory of all names, if there are several endpoints.
    pub(super) fn directory(&self) -> Option<&Directory> {
        self.sharded.as_ref().map(|sharded| &*sharded.shard.directory)
    }

    /// Whether a connection or record of any endpoint has this name. If so, its port is known to be taken
    /// then.
    pub(super) fn is_name_taken(&mut self, name: &FourTuple) -> bool {
        if let Some(directory) = self.directory() {
            return directory.is_taken(name);
        }
        let is_taken = self.find(name).is_some();
        if is_taken {
            self.ports.taken.learn(Use::of(name), name.local_port);
        }
        is_taken
    }

    /// The number of the next connection. No two endpoints use the same one.
    pub(super) fn next_number(&mut self) -> u64 {
        let number = self.traces.number();
        let shard = self.sharded.as_ref().map(|sharded| &sharded.shard);
        shard.map_or(number, |shard| {
            number.saturating_mul(shard.count as u64).saturating_add(shard.index as u64)
        })
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shard({} of {})", self.index, self.count)
    }
}

/// The most strays that wait for the driver.
const STRAYS_MAX: usize = 1024;
