//! Which connection or record has a four-tuple, and which ports are in use: here, and at the other endpoints
//! of the host.
//!
//! One host may run on several endpoints, each a *shard* with a queue of the device, and a lock outside of
//! this crate. A connection, half-open record or TIME-WAIT record is at the endpoint where its first segment
//! arrived, or that opened it. Its packets may still arrive on another queue: a device spreads flows by a
//! hash until it has learned which queue answers them. A packet that is not the endpoint's own is a
//! [`Stray`], which the driver takes to the endpoint that has the four-tuple
//! ([`Directory`]). Everything other than TCP is at the first endpoint, which therefore has
//! every datagram, fragment and echo request in one place, with one limit; its answers teach the device.
//!
//! A stray is handed over once. If the four-tuple has moved meanwhile, the packet is lost and its sender
//! repeats it.
//!
//! The four-tuples, the memory budget, and the time until which a SYN cookie may come back are shared. A
//! cookie's connection is where it comes back. The other bounds are divided. A segment at its connection's
//! endpoint touches nothing shared except, when a buffer grows, the budget.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackclock_control::tally::Tally;
use ackclock_wire::RxMeta;

use super::claims::Sharing;
use super::demux::{Demux, Target};
use super::keys::{Key, KeyedState, Purpose};
use super::listening::COOKIE_LIFETIME;
use crate::budget::{Budget, Lease};
use crate::{EndpointConfig, FourTuple, Instant};
use ackclock_form::{Form, FormError, Reader, Writer};

/// The four-tuples and ports of an endpoint.
#[derive(Debug)]
pub(super) struct Tuples {
    demux: Demux,
    /// How many connections it leads to.
    connections: usize,
    ports: Ports,
    /// Present if there are several endpoints.
    sharded: Option<Box<Sharded>>,
}

/// Which of several endpoints one is, and what it shares with the others: made by
/// [`EndpointConfig::split`](crate::EndpointConfig::split).
#[derive(Clone)]
pub struct Shard {
    index: usize,
    count: usize,
    directory: Arc<Directory>,
    budget: Budget,
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
#[derive(Debug)]
struct Sharded {
    shard: Shard,
    strays: VecDeque<Stray>,
}

impl Tuples {
    pub fn new(secret: &[u8; 32], ephemeral_ports: (u16, u16), shard: Option<Shard>) -> Self {
        let first = shard.as_ref().map_or(0, |shard| shard.index);
        Self {
            demux: Demux::new(Key::derive(secret, Purpose::Demux)),
            connections: 0,
            ports: Ports::new(secret, ephemeral_ports, first),
            sharded: shard.map(|shard| Box::new(Sharded { shard, strays: VecDeque::new() })),
        }
    }

    /// The target of this four-tuple. `is_it`: whether a target has it.
    #[inline]
    pub fn find(&self, tuple: &FourTuple, is_it: impl FnMut(Target) -> bool) -> Option<Target> {
        self.demux.find(self.demux.tag(tuple), is_it)
    }

    /// How many four-tuples there are.
    pub fn len(&self) -> usize {
        self.demux.len()
    }

    /// How many of them are those of connections.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Adds a four-tuple. At one endpoint of several the caller holds it already.
    pub fn enter(&mut self, tuple: &FourTuple, target: Target) {
        let held = self.hold(tuple);
        debug_assert_eq!(held, Ok(()), "who enters a four-tuple holds it");
        self.demux.insert(self.demux.tag(tuple), target);
        self.connections.grow(usize::from(matches!(target, Target::Connection(_))));
        if !self.ports.taken.is_empty() {
            self.ports.taken.came(tuple, !matches!(target, Target::HalfOpen(_)));
        }
    }

    /// Adds the four-tuple of something that was read, with the ports that are known to be taken.
    pub fn restore(&mut self, tuple: &FourTuple, target: Target) {
        self.demux.insert(self.demux.tag(tuple), target);
        self.connections.grow(usize::from(matches!(target, Target::Connection(_))));
    }

    /// Removes a four-tuple.
    pub fn strike(&mut self, tuple: &FourTuple, target: Target) {
        self.demux.remove(self.demux.tag(tuple), target);
        self.connections.shrink(usize::from(matches!(target, Target::Connection(_))));
        self.release(tuple);
        if !self.ports.taken.is_empty() {
            self.ports.taken.went(tuple, !matches!(target, Target::HalfOpen(_)));
        }
    }

    /// A connection becomes a TIME-WAIT record.
    pub fn leave_record(&mut self, tuple: &FourTuple, connection: u32, record: u32) {
        let tag = self.demux.tag(tuple);
        self.demux.replace(tag, Target::Connection(connection), Target::TimeWait(record));
        self.connections.shrink(1);
    }

    /// Holds a four-tuple. The error is the endpoint that has it.
    #[inline]
    pub fn hold(&self, tuple: &FourTuple) -> Result<(), usize> {
        match &self.sharded {
            Some(sharded) => sharded.shard.directory.hold(tuple, sharded.shard.index),
            None => Ok(()),
        }
    }

    /// Takes back one hold.
    #[inline]
    pub fn release(&self, tuple: &FourTuple) {
        if let Some(sharded) = &self.sharded {
            sharded.shard.directory.release(tuple, sharded.shard.index);
        }
    }

    /// Whether any of several endpoints has this four-tuple, in which case its port is known to be taken
    /// then. `None`: there is one endpoint.
    pub fn is_taken_anywhere(&self, tuple: &FourTuple) -> Option<bool> {
        self.directory().map(|directory| directory.is_taken(tuple))
    }

    /// The other endpoint that has this four-tuple.
    pub fn elsewhere(&self, tuple: &FourTuple) -> Option<usize> {
        let shard = &self.sharded.as_ref()?.shard;
        shard.directory.holder(tuple).filter(|&owner| owner != shard.index)
    }

    /// Any port that is not known to be taken. `None` if all are.
    pub fn draw_port(&mut self, wanted: Use) -> Option<u16> {
        let random = self.ports.draw(wanted);
        self.taken(|taken| taken.pick(wanted, random))
    }

    /// Draws a port for a connection from a port that the application chose: always the same one for that
    /// port.
    pub fn sample_port(&mut self, chosen: &FourTuple) -> Option<u16> {
        let wanted = Use::of(chosen);
        let random = self.ports.hash(wanted, chosen.local_port, 0);
        self.taken(|taken| taken.pick(wanted, random))
    }

    /// A port was found to be taken.
    pub fn learn_port(&mut self, wanted: Use, port: u16) {
        self.taken(|taken| taken.learn(wanted, port));
    }

    /// A socket took a port.
    pub fn note_port(&mut self, wanted: Use, port: u16) {
        self.taken(|taken| taken.note(wanted, port));
    }

    /// A bound or UDP socket has gone.
    pub fn release_port(&mut self, port: u16) {
        self.taken(|taken| taken.released(port));
    }

    /// Whether a socket cannot be bound to this port, which another has `claimed` or connections have. If so,
    /// it is known then.
    pub fn is_port_taken(
        &mut self,
        addr: Option<IpAddr>,
        sharing: Sharing,
        port: u16,
        claimed: bool,
    ) -> bool {
        // In one step: another endpoint may end the connection meanwhile.
        self.taken(|taken| {
            let is_taken = claimed || !sharing.reuse_address && taken.is_connected(addr, port);
            if is_taken {
                taken.learn(Use::Bound(addr, sharing), port);
            }
            is_taken
        })
    }

    /// Counts the connections on each port, if they are not counted already. It visits all four-tuples; that
    /// is once, unless they are few. `own`: those of this endpoint.
    pub fn count_connections<I: Iterator<Item = FourTuple>>(&mut self, own: impl FnOnce() -> I) {
        match self.directory() {
            // Including those of the other endpoints.
            Some(directory) => directory.count_connections(),
            None if self.ports.taken.counts_connections() => {}
            None => self.ports.taken.count_connections(own()),
        }
    }

    /// Stops counting if there are few.
    pub fn forget_few_connections(&mut self) {
        self.taken(Taken::forget_few_connections);
    }

    /// A cookie was sent, by the driver's time.
    pub fn cookie_sent(&self, now: Instant) {
        if let Some(directory) = self.directory() {
            directory.cookies.sent(now);
        }
    }

    /// Whether a cookie of one of several endpoints may come back, by the driver's time.
    pub fn has_cookies_out(&self, now: Instant) -> bool {
        self.directory().is_some_and(|directory| directory.cookies.is_out(now))
    }

    /// Whether there are several endpoints.
    #[inline]
    pub fn is_sharded(&self) -> bool {
        self.sharded.is_some()
    }

    /// Whether there are several endpoints, and this is not the first.
    pub fn is_behind_first(&self) -> bool {
        self.sharded.as_ref().is_some_and(|sharded| sharded.shard.index > 0)
    }

    /// Keeps a copy of a packet for another endpoint. Returns whether there was room.
    pub fn hand_over(&mut self, packet: &[u8], meta: RxMeta, to: usize) -> bool {
        let Some(Sharded { shard, strays }) = self.sharded.as_deref_mut() else { return false };
        let lease = shard.budget.try_lease(packet.len());
        let Some(lease) = lease.filter(|_| strays.len() < STRAYS_MAX) else { return false };
        strays.push_back(Stray { bytes: packet.to_vec(), meta, to, _lease: lease });
        true
    }

    /// The next packet for another endpoint.
    pub fn next_stray(&mut self) -> Option<Stray> {
        self.sharded.as_mut()?.strays.pop_front()
    }

    /// The host's number for this endpoint's connection `number`. No two endpoints use the same one.
    pub fn number(&self, number: u64) -> u64 {
        let shard = self.sharded.as_ref().map(|sharded| &sharded.shard);
        shard.map_or(number, |shard| {
            number.saturating_mul(shard.count as u64).saturating_add(shard.index as u64)
        })
    }

    #[inline]
    pub fn check_invariants(&self, half_open: usize, time_wait: usize) {
        debug_assert_eq!(
            self.len(),
            [self.connections, half_open, time_wait].into_iter().sum(),
            "every four-tuple belongs to exactly one connection or record"
        );
    }

    /// The directory of all four-tuples, if there are several endpoints.
    fn directory(&self) -> Option<&Directory> {
        self.sharded.as_ref().map(|sharded| &*sharded.shard.directory)
    }

    /// Calls `f` on what is known to be taken.
    fn taken<R>(&mut self, f: impl FnOnce(&mut Taken) -> R) -> R {
        match &self.sharded {
            Some(sharded) => sharded.shard.directory.with_taken(f),
            None => f(&mut self.ports.taken),
        }
    }
}

#[cfg(test)]
impl Tuples {
    /// How many ports were drawn.
    pub fn drawn(&self) -> u64 {
        self.ports.drawn
    }

    /// Whether connections are counted on each port.
    pub fn counts_connections(&mut self) -> bool {
        self.ports.taken.counts_connections()
    }

    /// How many four-tuples all endpoints have.
    pub fn of_host(&self) -> usize {
        self.directory().map_or(0, Directory::len)
    }
}

/// Which of several endpoints has which four-tuple. An endpoint looks here if a segment is not for one of its
/// connections.
///
/// An entry is counted: a record or connection holds its four-tuple, and so does a segment that may create
/// one while it is handled. Two endpoints therefore never make a connection of one four-tuple each, and a
/// four-tuple is never free while it passes from a half-open record to its connection. Stripe are spread over
/// [`STRIPES`] tables, each with a lock that is held for one lookup. A connection's segments come here only
/// at its beginning and end.
///
/// A handshake by cookie has no entry, because the peer keeps its four-tuple. Its last ACK may arrive on
/// another queue than its SYN, at an endpoint that has sent no cookie. One shared number, [`CookieWatch`],
/// says whether any endpoint has.
///
/// The four-tuples of all endpoints of one host. A table never shrinks: it keeps the size of its busiest
/// time.
struct Directory {
    state: KeyedState,
    stripes: Box<[Mutex<Stripe>]>,
    /// Which ports all endpoints know to be taken. Locked last, inside the lock of a stripe or alone.
    taken: Mutex<Taken>,
    /// Whether that is anything. What sets it holds the stripe of the four-tuple that makes it so, or all, so
    /// who holds a four-tuple's stripe and reads `false` need not tell of the four-tuple.
    watches: AtomicBool,
    cookies: CookieWatch,
}

/// Until when a cookie of any endpoint may come back, in seconds of their common clock, rounded up; 0 if none
/// is out.
///
/// It takes no lock, and a flood of SYNs writes it once a second, so the endpoints do not compete for its
/// cache line.
#[derive(Debug, Default)]
struct CookieWatch(AtomicU64);

type Stripe = HashMap<FourTuple, Holder, KeyedState>;

/// The holder of a four-tuple, and its count.
#[derive(Debug)]
struct Holder {
    shard: usize,
    holds: u32,
}

impl Directory {
    fn new(secret: &[u8; 32], ephemeral_ports: (u16, u16)) -> Self {
        let state = KeyedState(Key::derive(secret, Purpose::Directory));
        let stripes = (0..STRIPES).map(|_| Mutex::new(HashMap::with_hasher(state.clone()))).collect();
        let taken = Mutex::new(Taken::new(ephemeral_ports));
        Self { state, stripes, taken, watches: AtomicBool::new(false), cookies: CookieWatch::default() }
    }

    /// Holds a four-tuple for an endpoint. The error is the other endpoint that has it.
    fn hold(&self, tuple: &FourTuple, shard: usize) -> Result<(), usize> {
        let Some(mut held) = self.stripe(tuple) else { return Ok(()) };
        let holder = held.entry(*tuple).or_insert(Holder { shard, holds: 0 });
        if holder.shard != shard {
            return Err(holder.shard);
        }
        holder.holds.count();
        if holder.holds == 1 && self.watches.load(Ordering::Relaxed) {
            self.with_taken(|taken| taken.came(tuple, true));
        }
        Ok(())
    }

    /// Releases one hold.
    fn release(&self, tuple: &FourTuple, shard: usize) {
        let Some(mut held) = self.stripe(tuple) else { return };
        let Entry::Occupied(mut entry) = held.entry(*tuple) else { return };
        debug_assert_eq!(entry.get().shard, shard, "a hold is given back by the one who took it");
        entry.get_mut().holds.shrink(1);
        if entry.get().holds == 0 {
            entry.remove();
            if self.watches.load(Ordering::Relaxed) {
                self.with_taken(|taken| taken.went(tuple, true));
            }
        }
    }

    /// Whether any endpoint has a four-tuple. If so, its port is known to be taken then.
    fn is_taken(&self, tuple: &FourTuple) -> bool {
        let Some(held) = self.stripe(tuple) else { return false };
        let is_taken = held.contains_key(tuple);
        if is_taken {
            // Within the stripe's lock: otherwise the four-tuple could go before its port is learnt, and the
            // port would stay taken.
            self.with_taken(|taken| taken.learn(Use::of(tuple), tuple.local_port));
        }
        is_taken
    }

    /// Calls `f` on what is known to be taken.
    fn with_taken<R>(&self, f: impl FnOnce(&mut Taken) -> R) -> R {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut taken);
        self.watches.store(!taken.is_empty(), Ordering::Relaxed);
        result
    }

    /// Counts the four-tuples on each port, if they are not counted already.
    fn count_connections(&self) {
        if self.with_taken(|taken| taken.counts_connections()) {
            return;
        }
        // All stripes are locked, always in this order: no four-tuple comes or goes meanwhile.
        let locked = self.stripes.iter().map(|held| held.lock().unwrap_or_else(PoisonError::into_inner));
        let locked: Vec<_> = locked.collect();
        let tuples = locked.iter().flat_map(|held| held.keys().copied());
        self.with_taken(|taken| taken.count_connections(tuples));
    }

    /// The endpoint that has a four-tuple.
    fn holder(&self, tuple: &FourTuple) -> Option<usize> {
        Some(self.stripe(tuple)?.get(tuple)?.shard)
    }

    /// How many four-tuples there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.stripes.iter().map(|held| held.lock().map_or(0, |held| held.len())).sum()
    }

    /// The table of a four-tuple. A table is consistent between any two statements that can panic.
    fn stripe(&self, tuple: &FourTuple) -> Option<MutexGuard<'_, Stripe>> {
        // The tables themselves use other bits of the hash.
        let stripe = usize::from(self.state.hash_one(tuple).to_le_bytes()[3]) % STRIPES;
        let held = self.stripes.get(stripe)?;
        Some(held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CookieWatch {
    /// A cookie was sent.
    fn sent(&self, now: Instant) {
        let until = seconds(now).saturating_add(COOKIE_LIFETIME.as_secs()).saturating_add(1);
        // If the endpoints' clocks differ, the later time stands. Nothing else depends on the order: a round
        // trip lies between this and the ACK that asks.
        if self.0.load(Ordering::Relaxed) < until {
            self.0.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Whether an ACK may carry a cookie.
    fn is_out(&self, now: Instant) -> bool {
        seconds(now) < self.0.load(Ordering::Relaxed)
    }
}

fn seconds(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000_000
}

/// Chooses ephemeral ports (RFC 6056).
///
/// RFC 6056 §3.3.2 (random draws until a port is free), with a keyed hash instead of a random number
/// generator: the hash of the peer's socket and of a number never used twice. A port seen by one peer
/// therefore reveals nothing about the ports used with another, or about the next one. Among the ports not
/// known to be taken ([`Taken`]) each is as likely as any other, also behind a run of taken ones.
#[derive(Debug)]
struct Ports {
    key: Key,
    drawn: u64,
    /// The ports that are known to be taken. Of several endpoints, the directory knows that.
    taken: Taken,
}

impl Ports {
    /// Ports from the first to the last inclusive, in either order. `shard`: which of several endpoints it
    /// is. Each starts the never-repeated numbers elsewhere, so that no two with one secret draw alike.
    fn new(secret: &[u8; 32], range: (u16, u16), shard: usize) -> Self {
        let key = Key::derive(secret, Purpose::Ports);
        let taken = Taken::new(range);
        Self { key, drawn: (shard as u64) << 48, taken }
    }

    /// A random number that only the holder of the key can guess.
    fn draw(&mut self, wanted: Use) -> u32 {
        self.drawn = self.drawn.wrapping_add(1);
        self.hash(wanted, 0, self.drawn)
    }

    fn hash(&self, wanted: Use, port: u16, number: u64) -> u32 {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let (local, remote) = match wanted {
            Use::Connection(local, remote) => (local, remote),
            Use::Bound(local, _) | Use::Datagrams(local) => (local.unwrap_or(any), SocketAddr::new(any, 0)),
        };
        let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
        let words = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])];
        let tuple = FourTuple::new(SocketAddr::new(local, port), remote);
        (self.key.hash24_tuple(&tuple, words) >> 32) as u32
    }
}

/// The purpose of a port. Each use has its own free ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// A connection from an address to a peer.
    Connection(IpAddr, SocketAddr),
    /// A socket bound to an address, which shares its port in this way.
    Bound(Option<IpAddr>, Sharing),
    /// A UDP socket.
    Datagrams(Option<IpAddr>),
}

/// The ports known to be taken, for each use that has met one.
///
/// To choose a port is to draw one and to look whether it is taken. That is one look as long as few are, and
/// thousands when few are free. So the first draw that hits a taken port starts a [`PortSet`], and what is
/// found to be taken is not drawn again until it is free. A set only remembers: the tables of four-tuples,
/// claims and sockets decide. A port in the set is taken; one that is not in it may be.
///
/// Ports are learnt while few are taken (the square root of the range, at a mean, before the first draw
/// hits), so hardly any port is unknown when the range is full: a choice, and a refusal, then take a look or
/// two. Only ports taken otherwise, by the peer or by number, are learnt one by one, each once.
///
/// A port's users are found in the same way: a bind that must not meet a connection counts the connections on
/// each port once there are [`NAMES_INDEXED`], and keeps that until few are left.
#[derive(Debug)]
struct Taken {
    range: Range,
    peers: BTreeMap<Use, PortSet>,
    sockets: BTreeMap<Use, PortSet>,
    connections: Option<Box<Counted>>,
}

/// The ports to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
}

/// How many connections there are on each port of each address.
#[derive(Debug, Default)]
struct Counted {
    on_port: BTreeMap<(u16, IpAddr), usize>,
    total: usize,
}

/// A set of ports of a range. It finds the n-th port that is not in it by two short walks: over the counts of
/// at most 16 groups, and over the 64 words of one.
#[derive(Debug)]
struct PortSet {
    words: Box<[u64]>,
    /// How many are missing in each group of words.
    missing: Box<[u32]>,
    len: u32,
}

impl Taken {
    fn new(range: (u16, u16)) -> Self {
        Self { range: Range::new(range), peers: BTreeMap::new(), sockets: BTreeMap::new(), connections: None }
    }

    /// Whether nothing is remembered: then four-tuples may come and go unseen.
    fn is_empty(&self) -> bool {
        self.peers.is_empty() && self.sockets.is_empty() && self.connections.is_none()
    }

    /// Any of the ports not known to be taken, by a random number. `None` if all are taken.
    fn pick(&self, wanted: Use, random: u32) -> Option<u16> {
        let set = self.of_use(wanted).get(&wanted);
        let free = set.map_or(self.range.len(), |set| self.range.len().saturating_sub(set.len));
        // At most 2^16 ports out of 2^32 values: the bias of the remainder is below 2^-16.
        let n = random.checked_rem(free)?;
        self.range.port(set.map_or(Some(n), |set| set.nth_missing(n))?)
    }

    /// A port was found to be taken.
    fn learn(&mut self, wanted: Use, port: u16) {
        let Some(place) = self.range.place(port) else { return };
        let len = self.range.len();
        self.of_use_mut(wanted).entry(wanted).or_insert_with(|| PortSet::new(len)).insert(place);
    }

    /// A port was taken. Only a use that remembers its ports notes it.
    fn note(&mut self, wanted: Use, port: u16) {
        let place = self.range.place(port);
        if let (Some(set), Some(place)) = (self.of_use_mut(wanted).get_mut(&wanted), place) {
            set.insert(place);
        }
    }

    /// A four-tuple has come: a connection's, or a record's that does not count as one yet.
    fn came(&mut self, tuple: &FourTuple, counts: bool) {
        self.note(Use::of(tuple), tuple.local_port);
        if let Some(connections) = self.connections.as_mut().filter(|_| counts) {
            connections.enter(tuple);
        }
    }

    /// A four-tuple has gone.
    fn went(&mut self, tuple: &FourTuple, counts: bool) {
        if let Some(connections) = self.connections.as_mut().filter(|_| counts) {
            connections.leave(tuple);
            if connections.total < COUNTED / 2 {
                self.connections = None;
            }
        }
        let Some(place) = self.range.place(tuple.local_port) else { return };
        let (wanted, len_min) = (Use::of(tuple), self.range.len_min());
        if self.peers.get_mut(&wanted).is_some_and(|set| !set.keeps_without(place, len_min)) {
            self.peers.remove(&wanted);
        }
        self.sockets.retain(|_, set| set.keeps_without(place, len_min));
    }

    /// A bound or UDP socket has gone.
    fn released(&mut self, port: u16) {
        let Some(place) = self.range.place(port) else { return };
        let len_min = self.range.len_min();
        self.peers.retain(|_, set| set.keeps_without(place, len_min));
        self.sockets.retain(|_, set| set.keeps_without(place, len_min));
    }

    fn of_use(&self, wanted: Use) -> &BTreeMap<Use, PortSet> {
        if matches!(wanted, Use::Connection(..)) { &self.peers } else { &self.sockets }
    }

    fn of_use_mut(&mut self, wanted: Use) -> &mut BTreeMap<Use, PortSet> {
        if matches!(wanted, Use::Connection(..)) { &mut self.peers } else { &mut self.sockets }
    }

    /// Whether connections are counted.
    fn counts_connections(&self) -> bool {
        self.connections.is_some()
    }

    /// Counts the connections on each port from now on, beginning with these.
    fn count_connections(&mut self, tuples: impl Iterator<Item = FourTuple>) {
        let mut counted = Box::<Counted>::default();
        tuples.for_each(|tuple| counted.enter(&tuple));
        self.connections = Some(counted);
    }

    /// Whether there is a connection on this port of an address that `addr` covers.
    fn is_connected(&self, addr: Option<IpAddr>, port: u16) -> bool {
        let Some(Counted { on_port, .. }) = self.connections.as_deref() else { return false };
        let any = |least: IpAddr, most: IpAddr| on_port.range((port, least)..=(port, most)).next();
        let found = match addr {
            Some(addr) if !addr.is_unspecified() => return on_port.contains_key(&(port, addr)),
            Some(IpAddr::V4(_)) => any(V4_FIRST, V4_LAST),
            Some(IpAddr::V6(_)) => any(V6_FIRST, V6_LAST),
            None => any(V4_FIRST, V6_LAST),
        };
        found.is_some()
    }

    /// Stops counting if there are so few connections that counting them again costs little.
    fn forget_few_connections(&mut self) {
        self.connections.take_if(|connections| connections.total < COUNTED);
    }
}

impl Counted {
    fn enter(&mut self, tuple: &FourTuple) {
        self.on_port.entry((tuple.local_port, tuple.local_addr)).or_default().count();
        self.total.count();
    }

    fn leave(&mut self, tuple: &FourTuple) {
        let key = (tuple.local_port, tuple.local_addr);
        let Some(count) = self.on_port.get_mut(&key) else { return };
        count.shrink(1);
        if *count == 0 {
            self.on_port.remove(&key);
        }
        self.total.shrink(1);
    }
}

impl Use {
    pub fn of(tuple: &FourTuple) -> Self {
        Self::Connection(tuple.local_addr, SocketAddr::new(tuple.remote_addr, tuple.remote_port))
    }
}

impl Range {
    /// Ports from the first to the last, in either order, without port 0.
    fn new((first, last): (u16, u16)) -> Self {
        Self { first: first.min(last).max(1), last: first.max(last).max(1) }
    }

    fn len(self) -> u32 {
        u32::from(self.last.saturating_sub(self.first)).saturating_add(1)
    }

    /// A set that remembers no more than this is not worth its memory: a draw hits one of so few ports once
    /// in four thousand times.
    fn len_min(self) -> u32 {
        self.len() / 4096
    }

    fn place(self, port: u16) -> Option<u32> {
        (self.first..=self.last).contains(&port).then(|| u32::from(port.saturating_sub(self.first)))
    }

    fn port(self, place: u32) -> Option<u16> {
        self.first.checked_add(u16::try_from(place).ok()?)
    }
}

impl PortSet {
    /// An empty set of `len` ports at most.
    fn new(len: u32) -> Self {
        let bits = len as usize;
        let mut words = vec![0_u64; bits.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !bits.is_multiple_of(64)) {
            // No port has these bits.
            *last = u64::MAX << (bits % 64);
        }
        let missing = words.chunks(GROUP).map(|words| words.iter().map(|word| word.count_zeros()).sum());
        Self { missing: missing.collect(), words: words.into(), len: 0 }
    }

    fn insert(&mut self, place: u32) {
        let (word, bit) = at(place);
        if let (Some(bits), Some(missing)) = (self.words.get_mut(word), self.missing.get_mut(word / GROUP))
            && *bits & bit == 0
        {
            *bits |= bit;
            missing.shrink(1);
            self.len.count();
        }
    }

    /// Removes a place. Returns whether it was there.
    fn remove(&mut self, place: u32) -> bool {
        let (word, bit) = at(place);
        if let (Some(bits), Some(missing)) = (self.words.get_mut(word), self.missing.get_mut(word / GROUP))
            && *bits & bit != 0
        {
            *bits &= !bit;
            missing.count();
            self.len.shrink(1);
            return true;
        }
        false
    }

    /// Removes a place. Returns whether the set is still worth keeping.
    fn keeps_without(&mut self, place: u32, len_min: u32) -> bool {
        !self.remove(place) || self.len > len_min
    }

    /// The `n`-th of the places that are not in the set, from 0.
    fn nth_missing(&self, mut n: u32) -> Option<u32> {
        let group = self.missing.iter().position(|&missing| falls_into(&mut n, missing))?;
        let start = group.saturating_mul(GROUP);
        let mut words = self.words.get(start..)?.iter();
        let word = start.saturating_add(words.position(|word| falls_into(&mut n, word.count_zeros()))?);
        let missing = !*self.words.get(word)?;
        // Clears the lowest bit n times.
        let rest = (0..n).fold(missing, |bits, _| bits & bits.wrapping_sub(1));
        u32::try_from(word).ok()?.checked_mul(64)?.checked_add(rest.trailing_zeros())
    }
}

/// Whether the n-th is among these `count`. If not, `n` goes on counting behind them.
fn falls_into(n: &mut u32, count: u32) -> bool {
    match n.checked_sub(count) {
        Some(behind) => {
            *n = behind;
            false
        }
        None => true,
    }
}

/// The word and the bit of a place.
fn at(place: u32) -> (usize, u64) {
    (place as usize / 64, 1_u64.wrapping_shl(place))
}

/// Words of a set that are counted together.
const GROUP: usize = 64;
/// Fewer connections than this are counted again by each bind.
const COUNTED: usize = 256;
const V4_FIRST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const V4_LAST: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);
const V6_FIRST: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const V6_LAST: IpAddr = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));

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

    /// The budget of the host.
    pub(super) fn budget(&self) -> Budget {
        self.budget.clone()
    }
}

impl Stray {
    /// The endpoint that it belongs to, by its index among the configurations that
    /// [`split`](crate::EndpointConfig::split) returned.
    #[must_use]
    pub fn to(&self) -> usize {
        self.to
    }

    /// The packet.
    pub(super) fn packet(&self) -> (&[u8], RxMeta) {
        (&self.bytes, self.meta)
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shard({} of {})", self.index, self.count)
    }
}

/// The most strays that wait for the driver.
const STRAYS_MAX: usize = 1024;
/// Enough that lookups seldom collide with the queues of one interface.
const STRIPES: usize = 64;

ackclock_form::form! {
    struct Tuples { demux, connections = 0, ports, sharded = None }
    struct Ports { key, drawn, taken }
    enum Use { 0 Connection(value, second), 1 Bound(value, second), 2 Datagrams(value) }
    struct Taken { range, peers, sockets, connections }
    struct Range { first, last }
    struct Counted { on_port, total } => |counted| counted.total == counted.on_port.values().fold(0, |sum: usize, &one| sum.saturating_add(one));
}

/// The ports of the set, as its words: the counts follow from them.
impl Form for PortSet {
    fn write(&self, out: &mut Writer) {
        let Self { words, missing: _, len } = self;
        len.write(out);
        words.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let (len, words) = (u32::read(input)?, Box::<[u64]>::read(input)?);
        let missing = words.chunks(GROUP).map(|words| words.iter().map(|word| word.count_zeros()).sum());
        Ok(Self { missing: missing.collect(), words, len })
    }
}

#[cfg(test)]
mod tests;
