//! The endpoint: it demultiplexes packets to connections and listeners.
//!
//! An [`Endpoint`] conducts: it owns the tables, hands each packet, call and expired timer to the one that it
//! concerns, and does what follows ([`Followup`]) once, on the way out.
//!
//! The code map, by what happens:
//!
//! - [`calls`]: the application opens, listens, accepts. [`closing`]: a connection ends.
//! - [`arrives`]: an arriving packet. [`output`]: packets, deadlines and events that leave.
//! - [`passive`]: from LISTEN to ESTABLISHED.
//! - [`non_tcp`]: UDP, ICMP that is sent, packets for other programs.
//! - `authentication`, with the feature `tcp-ao`: signs and verifies.
//!
//! And by what is owned:
//!
//! - [`slots`], [`slot`]: connections. [`schedule`]: what waits for its turn or its time.
//! - [`tuples`], with [`demux`]: four-tuples and ports; [`claims`]: bound sockets.
//! - [`listening`]: listeners and half-open records. [`time_wait`]: records in TIME-WAIT.
//! - [`shaper`]: one rate for all.
//! - [`replies`]: segments without a connection. [`clock`], [`memory`], [`traces`].
//!
//! Every table and queue has a bound:
//!
//! | what | bound | at the bound |
//! |---|---|---|
//! | bytes that connections and queues keep | `memory_budget` | windows shrink; text is dropped as if lost; connections that hold memory for long without progress are reset ([`memory`]) |
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
//! | pings that wait for the program's answer | `pings_max` | they are dropped and counted |
//! | UDP sockets | 65,536 | `udp_bind` fails |
//! | datagrams of a socket, each way | its options, 256 KiB | dropped and counted; refused |
//! | paths that connections remember | `path_cache`, and its age; none by default | the least recently used is forgotten |
//! | paths whose MTU datagrams have learned | 1,024, and 10 minutes | the one not used for the longest time is forgotten |
//! | fragments that wait for others | `reassembly`: bytes, packets, packets of a source, fragments, time | the oldest packet gives way |
//! | other packets that wait to be fetched; to be sent | `other_packets` | dropped and counted; refused |
//! | trace records that are not fetched | 4 Mi, 64 MiB | they are dropped and counted |

mod addresses;
mod arrives;
#[cfg(feature = "tcp-ao")]
mod authentication;
mod calls;
mod claims;
mod clock;
mod closing;
mod compact;
mod counters;
mod deferred;
mod demux;
mod fast_open;
mod frozen;
mod histograms;
mod keys;
mod limits;
mod listening;
mod memory;
mod non_tcp;
mod numbers;
mod others;
mod output;
mod passive;
mod path_cache;
mod pings;
mod portable;
mod replies;
mod schedule;
mod shaper;
mod slot;
mod slots;
mod time_wait;
mod timers;
mod traces;
mod tuples;
#[cfg(feature = "prefetch")]
mod warm;
mod windows;

ackclock_form::form! {
    struct ListenerId { index, generation }
    struct Endpoint {
        clock, last_connection, predicts, reached, connections, schedule, replies, traces,
        header = [0; HEADER_MAX], counters as lifetime, time_wait, listening, tuples, memory, openings,
        orphans, addresses, claims, numbers, non_tcp, histograms, shaper, paths, later, #[cfg(feature = "tcp-ao")] authentication = None,
        #[cfg(feature = "tcp-ao")] tables = KeyedState(Key::subkey(&later, Purpose::Tables)),
        config
    }
    struct Settings {
        connections_max, other_packets, echo_replies_per_second, pings, pings_max, port_unreachable,
        timer_granularity, tell_changes, reassembly, tcp as shared
    }
}

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ackclock_control::tally::Tally;
use ackclock_form::{lifetime, shared};
use ackclock_wire::{Codepoint, Fields, FlowLabel, HEADER_MAX, RxMeta, Segment, SeqNum};
use bytes::Bytes;

use self::addresses::Addresses;
use self::claims::Claims;
use self::clock::Clock;
use self::closing::Orphans;
use self::counters::{PlainCounters, RareCounters};
use self::demux::Target;
use self::keys::{Key, KeyedState, Purpose};
use self::listening::Listening;
use self::memory::Memory;
use self::non_tcp::NonTcp;
use self::numbers::Numbers;
use self::path_cache::PathCache;
use self::replies::{Replies, control, reset_for};
use self::schedule::Schedule;
use self::shaper::Shaper;
use self::slot::{Owner, Slot};
use self::slots::Slots;
use self::time_wait::TimeWaitTable;
use self::traces::Traces;
use self::tuples::Tuples;
use self::windows::Openings;
use crate::budget::Budget;
use crate::connection::{Environment, timestamp_clock};
use crate::reassembly::ReassemblyConfig;
use crate::{Connection, ConnectionId, EndpointConfig, FourTuple, Instant, TcpConfig};

pub use self::addresses::LocalAddress;
pub use self::calls::BindOptions;
pub use self::claims::{BoundId, Sharing};
pub use self::counters::Counters;
pub use self::deferred::{Decision, Incoming, IncomingId, Unreachable};
pub use self::frozen::{FreezeError, ThawError, Thawed, ThawedConnection};
pub use self::histograms::{Histogram, Histograms, Measure};
pub use self::others::{OtherError, OtherPacket};
pub use self::output::Limits;
pub use self::path_cache::{KnownPath, PathCacheConfig};
pub use self::pings::{Ping, PingAnswer, PingPolicy};
pub use self::shaper::Shaping;
pub use self::tuples::{Shard, Stray};
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
    clock: Clock,
    /// The connection of the last segment, and most likely of the next.
    last_connection: u32,
    /// Whether predicted segments, and full ones that leave, take the fast path.
    predicts: bool,
    /// The connection of the segment that left last, if its peer was shown to be reached.
    reached: Option<u32>,
    connections: Slots<Box<Slot>>,
    schedule: Schedule,
    replies: Replies,
    traces: Traces,
    header: [u8; HEADER_MAX],
    counters: PlainCounters,
    time_wait: TimeWaitTable,
    listening: Listening,

    tuples: Tuples,
    memory: Memory,
    openings: Openings,
    orphans: Orphans,
    addresses: Addresses,
    claims: Claims,
    numbers: Numbers,
    /// The state besides plain TCP; `None` before its first use.
    non_tcp: Option<Box<NonTcp>>,
    /// `None` if none are kept.
    histograms: Option<Box<Histograms>>,
    /// Present if one rate limits the endpoint.
    shaper: Option<Box<Shaper>>,
    /// Present if connections remember their paths.
    paths: Option<Box<PathCache>>,
    /// The source of keys for what is created at first use.
    later: Key,
    /// Present once a peer has keys.
    #[cfg(feature = "tcp-ao")]
    authentication: Option<Box<authentication::Authentication>>,
    #[cfg(feature = "tcp-ao")]
    tables: KeyedState,
    config: Settings,
}

/// The settings that an endpoint keeps. The others went to its tables, and the secret into their keys.
#[derive(Debug)]
struct Settings {
    connections_max: usize,
    other_packets: usize,
    echo_replies_per_second: u32,
    pings: PingPolicy,
    pings_max: usize,
    port_unreachable: bool,
    timer_granularity: Duration,
    tell_changes: bool,
    reassembly: Option<Box<ReassemblyConfig>>,
    tcp: Arc<TcpConfig>,
}

/// A segment with the metadata of the lower layers.
#[derive(Clone, Copy, Debug)]
struct Received<'a> {
    tuple: FourTuple,
    segment: &'a Segment<'a>,
    frame: Frame<'a>,
    /// The ECN field of the IP header.
    codepoint: Codepoint,
}

/// A received packet.
#[derive(Clone, Debug)]
pub struct RxPacket<'a> {
    /// The packet.
    pub bytes: &'a [u8],
    /// The device's knowledge about it.
    pub meta: RxMeta,
    /// Its bytes in memory that a connection may keep, instead of copying them. It does so with at least 32
    /// KiB of text that is next in order. In the memory budget the packet then counts as a block of 64 KiB.
    pub block: Option<Bytes>,
}

impl<'a> RxPacket<'a> {
    /// A packet whose text is copied.
    #[must_use]
    #[inline]
    pub fn new(bytes: &'a [u8], meta: RxMeta) -> Self {
        Self { bytes, meta, block: None }
    }
}

/// A packet and the way it came.
#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    packet: &'a RxPacket<'a>,
    /// Whether the endpoint sent it to itself.
    looped: bool,
    /// Whether it arrived at another endpoint of the host and was handed over.
    stray: bool,
}

impl<'a> Frame<'a> {
    /// A packet as the device gave it.
    fn arrived(packet: &'a RxPacket<'a>) -> Self {
        Self { packet, looped: false, stray: false }
    }
}

/// An answer of a record.
#[derive(Clone, Copy, Debug)]
struct Answer {
    tuple: FourTuple,
    ttl: u8,
    /// How often the flow label has changed.
    label_changes: u8,
    /// TS.Recent, if the answer carries a timestamp that it does not have yet.
    recent: Option<u32>,
    fields: Fields,
}

/// The consequences of a change of a connection.
#[derive(Clone, Copy, Debug)]
struct Followup {
    /// Whether the application has something new to learn.
    reports: bool,
    /// When it wants its timer to expire.
    deadline: Option<Instant>,
    /// Whether it may have something to send, and when its turn comes.
    sends: Turn,
}

/// When the turn of a connection comes to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It has nothing to send.
    Never,
    /// Before those with more: it has a segment at most, so that they hardly wait for it.
    First,
    /// After those that wait.
    Last,
}

impl Endpoint {
    /// An endpoint without connections.
    #[must_use]
    pub fn new(config: EndpointConfig, now: Instant) -> Self {
        let secret = config.secret;
        let tables = KeyedState(Key::derive(&secret, Purpose::Tables));
        let budget = match &config.shard {
            Some(shard) => shard.budget(),
            None => Budget::with(config.memory_budget, config.keep_bytes),
        };
        let mut addresses = Addresses::new(config.addresses, config.broadcast, config.mtu);
        addresses.set_transparent(config.transparent);
        Self {
            clock: Clock::new(now),
            addresses,
            memory: Memory::new(budget),
            openings: Openings::default(),
            tuples: Tuples::new(&secret, config.ephemeral_ports, config.shard),
            connections: Slots::default(),
            last_connection: 0,
            reached: None,
            predicts: config.header_prediction,
            schedule: Schedule::new(now, config.shaping.map(|_| config.mtu)),
            orphans: Orphans::new(config.orphans_max),
            listening: Listening::new(now, &tables, config.listeners_max, &secret),
            // Twice as many may be bound as may listen.
            claims: Claims::new(config.listeners_max.saturating_mul(2)),
            #[cfg(feature = "tcp-ao")]
            authentication: None,
            #[cfg(feature = "tcp-ao")]
            tables,
            time_wait: TimeWaitTable::new(config.time_wait_max.min(Target::INDEX_MAX as usize)),
            numbers: Numbers::new(&secret, config.flow_labels),
            non_tcp: None,
            histograms: config.histograms.then(Box::default),
            shaper: config.shaping.map(|shaping| Box::new(Shaper::new(shaping, now))),
            paths: config.path_cache.as_deref().map(|config| Box::new(PathCache::new(config))),
            later: Key::derive(&secret, Purpose::Later),
            replies: Replies::default(),
            traces: Traces::default(),
            header: [0; HEADER_MAX],
            counters: PlainCounters::default(),
            config: Settings {
                connections_max: config.connections_max.min(Target::INDEX_MAX as usize),
                other_packets: config.other_packets,
                echo_replies_per_second: config.echo_replies_per_second,
                pings: config.pings,
                pings_max: config.pings_max,
                port_unreachable: config.port_unreachable,
                timer_granularity: config.timer_granularity,
                tell_changes: config.tell_changes,
                reassembly: config.reassembly,
                tcp: config.tcp,
            },
        }
    }

    /// The endpoint's time when the driver's clock shows `now`: the driver's time without the pauses.
    /// [`Connection::info`](crate::Connection::info) uses it.
    #[must_use]
    pub fn own_time(&self, now: Instant) -> Instant {
        self.clock.own(now)
    }

    /// Records the driver's time and returns the endpoint's.
    #[inline]
    fn advance(&mut self, driver: Instant) -> Instant {
        if !self.clock.advance(driver) {
            self.resume();
        }
        self.clock.now()
    }

    /// There was no call for a long time.
    #[cold]
    #[inline(never)]
    fn resume(&mut self) {
        if let Some(resumed) = self.clock.resume(self.next_due()) {
            for slot in self.connections.values_mut() {
                slot.connection.on_pause(resumed);
            }
        }
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let rare = self.non_tcp.as_ref().map(|non_tcp| non_tcp.counters).unwrap_or_default();
        let counters = Counters::of(self.counters, rare);
        #[cfg(feature = "tcp-ao")]
        let counters = self.with_authentication(counters);
        Counters { trace_records_dropped: self.traces.dropped(), ..counters }
    }

    /// Histograms over handshakes, and over connections at their end; empty if none are kept.
    #[must_use]
    pub fn histograms(&self) -> Histograms {
        self.histograms.as_deref().cloned().unwrap_or_default()
    }

    fn tally(&mut self, record: impl FnOnce(&mut Histograms)) {
        self.histograms.as_deref_mut().map(record);
    }

    /// The entries of the path cache ([`EndpointConfig::path_cache`]), in the order of addresses: values that
    /// connections have learned of their paths and that the next ones begin with.
    #[must_use]
    pub fn known_paths(&self, now: Instant) -> Vec<KnownPath> {
        let now = self.clock.own(now);
        self.paths.iter().flat_map(|paths| paths.list(now)).collect()
    }

    /// Bytes in all buffers, and their limit.
    #[must_use]
    pub fn memory(&self) -> (usize, usize) {
        self.memory.usage()
    }

    /// Prefetches what the next segment will probably need, if it is for the connection of the last one. It
    /// changes no state. It is for drivers of very many endpoints, which know some time ahead whose turn it
    /// is.
    #[cfg(feature = "prefetch")]
    #[inline]
    pub fn warm(&self, step: WarmStep) {
        if step == WarmStep::Endpoint {
            return fetch(self, warm::OFTEN_USED);
        }
        let Some(slot) = self.connections.at(self.last_connection) else { return };
        match step {
            WarmStep::Endpoint => {}
            WarmStep::Slot => fetch(slot, size_of_val(slot)),
            WarmStep::Connection => fetch(&**slot, size_of_val(&**slot)),
            WarmStep::Behind => slot.connection.warm_behind(),
        }
    }

    /// The owner of this four-tuple.
    #[inline]
    fn find(&self, tuple: &FourTuple) -> Option<Target> {
        if let Some(last) = self.connections.at(self.last_connection)
            && last.is_bound()
            && last.tuple() == *tuple
        {
            return Some(Target::Connection(self.last_connection));
        }
        self.tuples.find(tuple, |target| {
            let found = match target {
                Target::Connection(index) => self.connections.at(index).map(|slot| slot.tuple()),
                Target::HalfOpen(index) => self.listening.tuple(index).copied(),
                Target::TimeWait(index) => self.time_wait.tuple(index).copied(),
            };
            found == Some(*tuple)
        })
    }

    /// Puts a new connection into the tables.
    fn add_connection(&mut self, connection: Connection, owner: Owner) -> ConnectionId {
        let tuple = connection.tuple();
        let number = self.tuples.number(self.traces.number());
        let looped = self.addresses.is_own(tuple.remote_addr);
        let slot = Slot::new(connection, number, looped, owner);
        let (index, generation) = self.connections.insert(Box::new(slot));
        self.tuples.enter(&tuple, Target::Connection(index));
        self.memory.budget().add_sharer();
        ConnectionId { index, generation }
    }

    /// Calls `f` on the connection at `index`, and does what follows from it.
    #[inline]
    fn change<R>(&mut self, index: u32, f: impl FnOnce(&mut Connection) -> R) -> Option<R> {
        let slot = self.connections.at_mut(index)?;
        let result = f(&mut slot.connection);
        self.traces.collect(slot);
        if slot.connection.is_gone() {
            self.schedule.follow(index, slot.settled());
            self.finish(index);
        } else {
            self.schedule.follow(index, slot.followup(self.predicts));
        }
        Some(result)
    }

    fn environment(&mut self, tuple: &FourTuple, iss: SeqNum) -> Environment {
        let known = match &mut self.paths {
            Some(paths) => paths.known(self.clock.now(), tuple),
            None => None,
        };
        self.counters.known_paths_used.grow(u64::from(known.is_some()));
        Environment {
            iss,
            known,
            timestamp_offset: self.numbers.timestamp_offset(tuple),
            flow_labels: self.numbers.flow_labels(tuple),
            mtu: self.addresses.mtu_to(tuple.remote_addr),
            budget: self.memory.budget().clone(),
            timer_granularity: self.config.timer_granularity,
            tell_changes: self.config.tell_changes,
            #[cfg(feature = "tcp-ao")]
            authenticated: self.has_keys(tuple.remote_addr),
        }
    }

    /// Queues a reply without a connection.
    fn reply(&mut self, tuple: &FourTuple, ttl: u8, fields: Fields) {
        let label = self.numbers.flow_labels(tuple).current();
        self.reply_labelled(tuple, ttl, label, fields);
    }

    /// Queues a reply with this flow label.
    fn reply_labelled(&mut self, tuple: &FourTuple, ttl: u8, label: FlowLabel, fields: Fields) {
        if !self.replies.push(control(tuple, ttl, label, fields)) {
            self.counters.dropped_replies.count();
        }
    }

    /// RFC 9293 §3.10.7.1: in CLOSED everything but a reset is answered by a reset.
    fn refuse(&mut self, arrival: &Received<'_>) {
        match reset_for(arrival.segment) {
            Some(reset) => {
                self.counters.resets_sent.count();
                self.reply(&arrival.tuple, self.config.tcp.ttl, reset);
            }
            None => self.counters.dropped_stray_reset.count(),
        }
    }

    /// Queues an answer of a record, with a timestamp if it needs one.
    fn answer(&mut self, now: Instant, answer: Option<Answer>) {
        let Some(Answer { tuple, ttl, label_changes, recent, mut fields }) = answer else { return };
        if let Some(recent) = recent {
            let clock = timestamp_clock(now).wrapping_add(self.numbers.timestamp_offset(&tuple));
            fields.options.timestamps = Some((clock, recent));
        }
        let label = self.numbers.flow_labels(&tuple).after(label_changes).current();
        self.reply_labelled(&tuple, ttl, label, fields);
    }

    /// The state besides plain TCP, created at its first use.
    fn non_tcp(&mut self) -> &mut NonTcp {
        self.non_tcp.get_or_insert_with(|| Box::new(NonTcp::new(&self.later, &self.config)))
    }

    /// The counters besides plain TCP.
    fn rare_counters(&mut self) -> &mut RareCounters {
        &mut self.non_tcp().counters
    }

    /// Checks what must hold between any two calls.
    #[inline]
    fn check_invariants(&self) {
        self.tuples.check_invariants(self.listening.bound(), self.time_wait.len());
        debug_assert!(self.tuples.connections() <= self.connections.len(), "a bound connection has a slot");
        self.orphans.check_invariants();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("now", &self.clock.now())
            .field("connections", &self.connections.len())
            .field("half_open", &self.listening.half_open())
            .field("time_wait", &self.time_wait.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
