//! The endpoint: it demultiplexes packets to connections and listeners.
//!
//! The code map:
//!
//! - [`input`]: an arriving packet. A [`predicted`] one takes the fast path; others are looked up in
//!   [`demux`].
//! - [`passive`], [`syn_queue`]: listeners and half-open records; by cookie [`stateless`] and [`cookies`], by
//!   decision [`deferred`]; Fast Open in [`fast_open`].
//! - [`time_wait`]: records in TIME-WAIT. [`reply`]: segments without a connection, such as resets;
//!   [`known`]: who is answered before strangers. [`icmp`]: ICMP errors.
//! - [`bound`]: binding and listening; [`claims`]: which ports are bound; [`reuse`]: which of several
//!   listeners on one port takes a SYN.
//! - [`ports`]: ephemeral ports; [`taken`]: which are known to be taken.
//! - [`slots`], [`live`]: connections. [`output`]: what leaves.
//! - [`beside`]: other protocols: UDP sockets ([`udp`]), fragments ([`fragments`]), packets for others
//!   ([`others`]), ICMP that is sent ([`icmp_out`], within [`limits`]), all through [`outbox`].
//! - [`looped`]: packets from the endpoint to itself.
//! - [`pauses`]: the endpoint's clock, which stands still while nothing drives it.
//! - [`shard`]: one of several endpoints of a host; [`directory`]: which endpoint has which name.
//! - `authentication`, with the feature `tcp-ao`: signs and verifies.
//!
//! This file has the application's calls. Every table and queue has a bound:
//!
//! | what | bound | at the bound |
//! |---|---|---|
//! | bytes that connections and queues keep | `memory_budget` | windows shrink; text is dropped as if lost; connections that hold memory for long without progress are reset ([`relief`]) |
//! | free blocks that are reused | 64, 4 MiB, outside the budget | they go back to the allocator |
//! | connections | `connections_max` | `connect` fails; a last ACK is dropped, its peer repeats it |
//! | half-open records of a listener | `syn_backlog`, a quarter of it for one source | SYN cookies |
//! | the same with deferred accept, until the application has learned of their end | `syn_backlog`; for one source a quarter of it, or as many as are free | the SYN is dropped, its client repeats it |
//! | SYNs that wait for a decision | `decisions_max`, and 60 s | the SYN is dropped, its client repeats it |
//! | half-open records of all | 131,072 | SYN cookies |
//! | experiments that SYNs brought | one for each half-open record, where the listener takes part | none: they go with the record |
//! | orphans: released, not yet finished | `orphans_max` | the oldest is reset |
//! | accept queue | `backlog` | a last ACK is dropped, its peer repeats it |
//! | TIME-WAIT records | `time_wait_max` | the first to expire is recycled |
//! | replies without a connection | 1,024 to known sources, 1,024 to strangers | the reply is dropped |
//! | sources known from a handshake, after a flood of SYNs | 4,096 | the last that shares a place has it |
//! | connections by Fast Open whose handshake is not over | `fast_open_max` of the listener | the SYN is an ordinary one |
//! | servers that a client of Fast Open remembers | 1,024 | the least recently used is forgotten |
//! | listeners | `listeners_max`, and 64 that share an address | `listen` fails |
//! | ports of listeners and bound sockets | twice `listeners_max` | `bind` and `listen` fail |
//! | packets to addresses of its own | 256 | they are dropped and counted |
//! | packets for another endpoint of the host | 1,024 | they are dropped and counted |
//! | echo replies and ICMP errors that wait | 64, and a rate | they are dropped and counted |
//! | UDP sockets | 65,536 | `udp_bind` fails |
//! | datagrams of a socket, each way | its options, 256 KiB | dropped and counted; refused |
//! | paths whose MTU datagrams have learned | 1,024, and 10 minutes | the one not used for the longest time is forgotten |
//! | fragments that wait for others | `reassembly`: bytes, packets, packets of a source, fragments, time | the oldest packet gives way |
//! | other packets that wait to be fetched; to be sent | `other_packets` | dropped and counted; refused |
//! | trace records that are not fetched | 4 Mi, 64 MiB | they are dropped and counted |

#[cfg(feature = "tcp-ao")]
mod authentication;
mod beside;
mod bound;
mod claims;
mod compact;
mod cookies;
mod counters;
mod deferred;
mod demux;
mod destination;
mod directory;
mod fast_open;
mod flow_labels;
mod fragments;
mod icmp;
mod icmp_out;
mod input;
mod isn;
mod keys;
mod known;
mod limits;
mod links;
mod listener;
mod live;
mod looped;
mod martians;
mod orphans;
mod others;
mod outbox;
mod output;
mod passive;
mod pauses;
mod ports;
mod predicted;
mod queue;
mod relief;
mod reply;
mod reuse;
mod shard;
mod slots;
mod source;
mod stateless;
mod syn_queue;
mod taken;
mod time_wait;
mod timers;
mod traces;
mod udp;
#[cfg(feature = "prefetch")]
mod warm;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ackclock_control::tally::Tally;
use ackclock_wire::{HEADER_MAX, Route, SeqNum};

use self::beside::Beside;
use self::cookies::Cookies;
use self::counters::PlainCounters;
use self::demux::{Demux, Target};
use self::flow_labels::FlowLabeller;
use self::isn::IsnGenerator;
use self::keys::{Key, KeyedState, Purpose};
use self::known::KnownSources;
use self::listener::Listeners;
use self::live::{Live, Owner};
use self::martians::Addresses;
use self::orphans::Orphans;
use self::output::Events;
use self::pauses::Pauses;
use self::ports::Ports;
use self::queue::IndexQueue;
use self::reply::Replies;
use self::shard::Sharded;
use self::slots::Slots;
use self::syn_queue::SynQueue;
use self::taken::Use;
use self::time_wait::TimeWaitTable;
use self::timers::TimerWheel;
use self::traces::Traces;
use crate::budget::{Budget, DeviceQueue};
use crate::connection::Environment;
use crate::later::{self, Kept};
use crate::reassembly::ReassemblyConfig;
use crate::{
    ConnectError, Connection, ConnectionId, EndpointConfig, FourTuple, Instant, ListenAddr, TcpConfig,
};

pub use self::bound::BindOptions;
pub use self::claims::{BoundId, Sharing};
pub use self::counters::Counters;
pub use self::deferred::{Decision, Incoming, IncomingId, Unreachable};
pub use self::others::{OtherError, OtherPacket};
pub use self::output::Limits;
pub use self::shard::{Shard, Stray};
pub use self::source::LocalAddress;
#[cfg(feature = "prefetch")]
pub use self::warm::{WarmStep, fetch};

/// A listener of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A host's TCP: all its connections and listeners.
///
/// A driver hands in packets and the time, then takes out packets, events and the next deadline until none
/// are left. It should empty [`poll_transmit`](Self::poll_transmit) before the rest. Times must not run
/// backwards; an earlier time counts as the latest seen. If a driver calls a second or more after a deadline,
/// time stood still since that deadline: a process that was stopped for an hour has not waited an hour for
/// its peers.
///
/// Fields are in order of use: what each segment needs lies together, and the rest behind it.
#[repr(C)]
pub struct Endpoint {
    /// By its own clock, which leaves out pauses.
    now: Instant,
    pauses: Pauses,
    /// The connection of the last segment, and most likely of the next.
    last_connection: u32,
    /// Whether predicted segments, and full ones that leave, take the fast path.
    predicts: bool,
    /// The connection of the segment that left last, if its peer was shown to be reached.
    reached: Option<u32>,
    connections: Slots<Box<Live>>,
    transmit: IndexQueue,
    events: Events,
    timers: TimerWheel,
    replies: Replies,
    /// Present once a SYN queue was full.
    known: Option<Box<KnownSources>>,
    traces: Traces,
    header: [u8; HEADER_MAX],
    counters: PlainCounters,
    half_open: SynQueue,
    time_wait: TimeWaitTable,

    demux: Demux,
    /// How many connections the demultiplexer knows.
    bound: usize,
    budget: Budget,
    device_queue: DeviceQueue,
    /// Pleas for memory that this endpoint has noticed.
    pleas_heard: u32,
    orphans: Orphans,
    addresses: Addresses,
    listeners: Listeners,
    cookies: Cookies,
    isn: IsnGenerator,
    flow_labels: FlowLabeller,
    ports: Ports,
    /// The state besides plain TCP; `None` before its first use.
    beside: Option<Box<Beside>>,
    /// The source of keys for what is created at first use.
    later: Key,
    /// Present once a peer has keys.
    #[cfg(feature = "tcp-ao")]
    authentication: Option<Box<authentication::Authentication>>,
    #[cfg(feature = "tcp-ao")]
    tables: KeyedState,
    /// Present if there are several endpoints.
    sharded: Option<Box<Sharded>>,
    config: Settings,
}

/// What an endpoint keeps of its configuration. The rest went to its tables, and the secret into their keys.
#[derive(Debug)]
struct Settings {
    mtu: usize,
    connections_max: usize,
    other_packets: usize,
    echo_replies_per_second: u32,
    port_unreachable: bool,
    timer_granularity: Duration,
    tell_changes: bool,
    reassembly: Option<Box<ReassemblyConfig>>,
    tcp: Arc<TcpConfig>,
}

impl Endpoint {
    /// An endpoint without connections.
    #[must_use]
    pub fn new(config: EndpointConfig, now: Instant) -> Self {
        let secret = config.secret;
        let tables = KeyedState(Key::derive(&secret, Purpose::Tables));
        let addresses = Addresses::new(config.addresses, config.broadcast);
        let ports = Ports::new(&secret, config.ephemeral_ports);
        let (budget, ports) = match &config.shard {
            Some(shard) => (shard.budget.clone(), ports.of_shard(shard.index)),
            None => (Budget::with(config.memory_budget, config.keep_bytes), ports),
        };
        Self {
            now,
            pauses: Pauses::new(),
            addresses,
            device_queue: budget.device_queue(),
            budget,
            pleas_heard: 0,
            demux: Demux::new(Key::derive(&secret, Purpose::Demux)),
            connections: Slots::default(),
            bound: 0,
            last_connection: 0,
            reached: None,
            predicts: config.header_prediction,
            timers: TimerWheel::new(now),
            orphans: Orphans::new(config.orphans_max),
            listeners: Listeners::new(tables.clone(), config.listeners_max),
            #[cfg(feature = "tcp-ao")]
            authentication: None,
            #[cfg(feature = "tcp-ao")]
            tables: tables.clone(),
            half_open: SynQueue::new(now, tables),
            time_wait: TimeWaitTable::new(config.time_wait_max.min(Target::INDEX_MAX as usize)),
            cookies: Cookies::new(&secret),
            isn: IsnGenerator::new(&secret),
            flow_labels: FlowLabeller::new(&secret, config.flow_labels),
            ports,
            beside: None,
            sharded: config.shard.map(|shard| Box::new(Sharded::new(shard))),
            later: Key::derive(&secret, Purpose::Later),
            replies: Replies::default(),
            known: None,
            transmit: IndexQueue::default(),
            events: Events::default(),
            traces: Traces::default(),
            header: [0; HEADER_MAX],
            counters: PlainCounters::default(),
            config: Settings {
                mtu: config.mtu,
                connections_max: config.connections_max.min(Target::INDEX_MAX as usize),
                other_packets: config.other_packets,
                echo_replies_per_second: config.echo_replies_per_second,
                port_unreachable: config.port_unreachable,
                timer_granularity: config.timer_granularity,
                tell_changes: config.tell_changes,
                reassembly: config.reassembly,
                tcp: config.tcp,
            },
        }
    }

    /// Opens a connection (RFC 9293 §3.10.1, active). `local` is the address and port to use; `None` or port
    /// 0 leaves either open.
    ///
    /// # Errors
    /// The remote address cannot be a peer, there is no local address for it, the name is in use, or there
    /// are too many connections. Nothing has been sent then.
    // RFC 9293 MUST-43: OPEN takes an optional local address.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: (Option<IpAddr>, u16),
        tcp: Option<TcpConfig>,
    ) -> Result<ConnectionId, ConnectError> {
        let now = self.advance(now);
        let tuple = self.name_for(remote, local)?;
        Ok(self
            .open(now, tuple, tcp, |now, tcp, environment| Connection::active(now, tuple, tcp, environment)))
    }

    /// The name of a new connection, held.
    fn name_for(
        &mut self,
        remote: SocketAddr,
        local: (Option<IpAddr>, u16),
    ) -> Result<FourTuple, ConnectError> {
        if !self.addresses.valid_peer(remote) {
            return Err(ConnectError::InvalidRemote(remote));
        }
        let addr = self.local_addr_for(remote.ip(), local.0)?;
        if self.connections.len() >= self.config.connections_max {
            return Err(ConnectError::TooManyConnections(self.config.connections_max));
        }
        let tuple_from = |port| FourTuple::new(SocketAddr::new(addr, port), remote);
        let port = match local.1 {
            0 => self.find_port(Use::Connection(addr, remote), |endpoint, port| {
                endpoint.take_ephemeral_name(&tuple_from(port))
            }),
            port => {
                self.sample_ports(&tuple_from(port));
                Some(port)
                    .filter(|&port| self.find(&tuple_from(port)).is_none())
                    .filter(|&port| self.hold(&tuple_from(port)).is_ok())
            }
        };
        port.map(tuple_from).ok_or(ConnectError::AddressInUse(remote))
    }

    /// Holds a name with a port that was drawn, unless that is taken, which is known then.
    fn take_ephemeral_name(&mut self, name: &FourTuple) -> bool {
        let (local, remote) = (SocketAddr::new(name.local_addr, name.local_port), name.remote());
        // A connection from a socket to itself must be requested by that port.
        if self.listeners.claims.has(name.local_addr, name.local_port) || local == remote {
            self.taken(|taken| taken.learn(Use::of(name), name.local_port));
            return false;
        }
        !self.is_name_taken(name) && self.hold(name).is_ok()
    }

    fn open(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        tcp: Option<TcpConfig>,
        make: impl FnOnce(Instant, Arc<TcpConfig>, &Environment) -> Connection,
    ) -> ConnectionId {
        let tcp = tcp.map_or_else(|| Arc::clone(&self.config.tcp), Arc::new);
        let connection = make(now, tcp, &self.environment(&tuple, self.isn.iss(now, &tuple)));
        let id = self.add_connection(connection, Owner::Application);
        self.let_go(&tuple);
        self.counters.opened_actively.count();
        self.touch(id.index);
        self.check_invariants();
        id
    }

    /// A listener's address, with the ephemeral port if port 0 was requested.
    #[must_use]
    pub fn listener_addr(&self, id: ListenerId) -> Option<ListenAddr> {
        self.listeners.get(id).map(|listener| listener.addr)
    }

    /// Stops listening. Half-open connections are dropped, those that wait to be accepted are reset.
    pub fn close_listener(&mut self, now: Instant, id: ListenerId) {
        let now = self.advance(now);
        let Some(listener) = self.listeners.remove(id) else { return };
        later::keep(|| Kept::Settings(listener.tcp));
        if let Some(claim) = listener.claim {
            self.release_bound(claim);
        }
        for index in self.half_open.of_listener(id) {
            self.remove_half_open(index);
        }
        for (id, _) in listener.accept_queue {
            if let Some(live) = self.connections.get_mut(id.index, id.generation) {
                live.owner = Owner::Nobody;
                live.connection.abort(now);
                self.touch(id.index);
            }
        }
        self.check_invariants();
    }

    /// Whether [`accept`](Self::accept) would return a connection.
    #[must_use]
    pub fn has_acceptable(&self, id: ListenerId) -> bool {
        self.listeners.get(id).is_some_and(|listener| !listener.accept_queue.is_empty())
    }

    /// The next established connection of a listener. The caller owns it until `release`.
    pub fn accept(&mut self, now: Instant, id: ListenerId) -> Option<ConnectionId> {
        self.accept_decided(now, id).map(|(connection, _)| connection)
    }

    /// The same, with the SYN that a listener with deferred accept had reported.
    pub fn accept_decided(
        &mut self,
        now: Instant,
        id: ListenerId,
    ) -> Option<(ConnectionId, Option<IncomingId>)> {
        self.advance(now);
        let (connection, incoming) = self.listeners.get_mut(id)?.accept_queue.pop_front()?;
        let live = self.connections.get_mut(connection.index, connection.generation)?;
        live.owner = Owner::Application;
        if !live.readiness.is_empty() {
            self.events.connections.push(connection.index);
        }
        Some((connection, incoming))
    }

    /// A connection that the caller owns, or `None` after `release`.
    #[must_use]
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        let live = self.connections.get(id.index, id.generation)?;
        (live.owner == Owner::Application).then_some(&live.connection)
    }

    /// Calls `f` on a connection, and handles the segments and timers that follow from it.
    pub fn update<R>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        f: impl FnOnce(&mut Connection, Instant) -> R,
    ) -> Option<R> {
        let now = self.advance(now);
        let live = self.connections.get_mut(id.index, id.generation)?;
        if live.owner != Owner::Application {
            return None;
        }
        let result = f(&mut live.connection, now);
        self.touch(id.index);
        self.relieve(now);
        Some(result)
    }

    /// Releases a connection: the application will not use it again. Unread data resets it (RFC 9293 SHLD-3);
    /// otherwise it is closed, and finishes by itself.
    pub fn release(&mut self, now: Instant, id: ConnectionId) {
        let now = self.advance(now);
        let Some(live) = self.connections.get_mut(id.index, id.generation) else { return };
        if live.owner != Owner::Application {
            return;
        }
        if live.bound {
            live.owner = Owner::Orphan;
            live.connection.set_orphaned(now);
            self.adopt_orphan(now, id);
            self.touch(id.index);
        } else {
            // It was over, or was replaced by a connection with the same name.
            self.remove_released(id.index);
        }
        self.check_invariants();
    }

    /// Replaces the local addresses, each in a separate network.
    // RFC 9293 MUST-45: existing connections keep theirs.
    pub fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        self.addresses.set_own(addresses.into_iter().map(LocalAddress::from).collect());
    }

    /// Replaces the local addresses, and the directed broadcast addresses of their networks.
    pub fn set_local_addresses(&mut self, addresses: Vec<LocalAddress>, broadcast: Vec<IpAddr>) {
        self.addresses.set_own(addresses);
        self.addresses.set_broadcast(broadcast);
    }

    /// Replaces the networks that are reached from a chosen address.
    pub fn set_source_routes(&mut self, routes: Vec<Route<IpAddr>>) {
        self.addresses.set_routes(routes);
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let rare = self.beside.as_ref().map(|beside| beside.counters).unwrap_or_default();
        let counters = Counters::of(self.counters, rare);
        #[cfg(feature = "tcp-ao")]
        let counters = self.with_authentication(counters);
        Counters { trace_records_dropped: self.trace_records_dropped(), ..counters }
    }

    /// The ids of all connections, including those in accept queues and those released, but not TIME-WAIT
    /// records.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> + '_ {
        let all = self.connections.iter();
        all.map(|(index, generation, live)| (ConnectionId { index, generation }, &live.connection))
    }

    /// The number of those connections.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Those with an [index](ConnectionId::index) in this range, to look at a large table in parts.
    pub fn connections_in(
        &self,
        indices: std::ops::Range<u32>,
    ) -> impl Iterator<Item = (ConnectionId, &Connection)> + '_ {
        let some = self.connections.iter_in(indices);
        some.map(|(index, generation, live)| (ConnectionId { index, generation }, &live.connection))
    }

    /// The indices that connections have or had.
    #[must_use]
    pub fn connection_indices(&self) -> std::ops::Range<u32> {
        self.connections.indices()
    }

    /// Bytes in all buffers, and their limit.
    #[must_use]
    pub fn memory(&self) -> (usize, usize) {
        (self.budget.used(), self.budget.limit())
    }

    /// The owner of this name.
    #[inline]
    fn find(&self, tuple: &FourTuple) -> Option<Target> {
        if let Some(last) = self.connections.at(self.last_connection)
            && last.bound
            && last.name() == tuple
        {
            return Some(Target::Connection(self.last_connection));
        }
        self.demux.find(self.demux.tag(tuple), |target| {
            let name = match target {
                Target::Connection(index) => self.connections.at(index).map(|live| live.name()),
                Target::HalfOpen(index) => self.half_open.at(index).map(|record| &record.tuple),
                Target::TimeWait(index) => self.time_wait.at(index).map(|record| &record.tuple),
            };
            name == Some(tuple)
        })
    }

    fn local_addr_for(&self, remote: IpAddr, wanted: Option<IpAddr>) -> Result<IpAddr, ConnectError> {
        match wanted {
            Some(addr) if !self.addresses.is_own(addr) => Err(ConnectError::NotLocal(addr)),
            Some(addr) if addr.is_ipv4() != remote.is_ipv4() => Err(ConnectError::NoLocalAddress(remote)),
            Some(addr) => Ok(addr),
            None => self.addresses.source_for(remote).ok_or(ConnectError::NoLocalAddress(remote)),
        }
    }

    fn environment(&self, tuple: &FourTuple, iss: SeqNum) -> Environment {
        Environment {
            iss,
            timestamp_offset: self.isn.timestamp_offset(tuple),
            flow_labels: self.flow_labels.of(tuple),
            mtu: self.mtu_to(tuple.remote_addr),
            budget: self.budget.clone(),
            timer_granularity: self.config.timer_granularity,
            tell_changes: self.config.tell_changes,
            #[cfg(feature = "tcp-ao")]
            authenticated: self.has_keys(tuple.remote_addr),
        }
    }

    /// Checks what must hold between any two calls.
    #[inline]
    fn check_invariants(&self) {
        debug_assert_eq!(
            self.demux.len(),
            [self.bound, self.half_open.named(), self.time_wait.len()].into_iter().sum(),
            "every name belongs to exactly one connection or record"
        );
        debug_assert!(self.bound <= self.connections.len(), "a bound connection has a slot");
        self.orphans.check_invariants();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("now", &self.now)
            .field("connections", &self.connections.len())
            .field("half_open", &self.half_open.len())
            .field("time_wait", &self.time_wait.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
