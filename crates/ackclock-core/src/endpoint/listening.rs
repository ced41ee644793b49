//! The state of LISTEN and SYN-RECEIVED: listeners, half-open records, and connections that wait to be
//! accepted.
//!
//! Half-open records are small: only such a record is kept for a peer that has not completed a handshake.
//! Their number is bounded for each listener and, within it, for each source network. SYNs beyond that are
//! answered by cookies.
//!
//! Several listeners may have one address and port, each with its own queue: what `SO_REUSEPORT` is to a
//! kernel. A keyed hash of a SYN's four-tuple assigns it to one of them, so that an outsider cannot aim at
//! one. Each member is weighted against the four-tuple, and the heaviest wins (D. G. Thaler, C. V.
//! Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on Networking 6(1),
//! 1998; not read, cited by its title). A member that comes or goes then only moves its own four-tuples: a
//! half-open handshake, or a cookie on its way back, still finds the listener that answered its SYN. A
//! remainder of the hash would move nearly all of them. A group costs one hash for each member and SYN, and
//! has at most [`MEMBERS_MAX`] of them. A listener that is alone on its address is found without a hash.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use ackclock_control::profile::Ecn;
use ackclock_control::tally::Tally;
use ackclock_wire::{
    Codepoint, Experiment, FastOpenCookie, Fields, Flags, IcmpKind, Segment, SeqNum, TcpOptions,
};

use super::Answer;
use super::claims::BoundId;
use super::clock::Clock;
use super::compact::{Limiter, is_acceptable, is_old_timestamp};
use super::deferred::Incoming;
use super::fast_open::PendingFastOpens;
use super::keys::{Key, KeyedState, Purpose, TupleBytes};
use super::replies::bare;
use super::slots::Slots;
use super::timers::{TIMER_BYTES, TimerWheel};
use crate::connection::{
    EXPERIMENT_SYNS, Handshake, Offer, WINDOW_SCALE_MAX, advertised_mss, believed_mtu, default_mss,
    initial_receive_window, option_of_syn_ack, told_user_timeout, window_scale_for,
};
use crate::{
    ConnectionId, Event, FourTuple, IncomingId, Instant, ListenAddr, ListenError, ListenOptions, ListenerId,
    ListenerInfo, TcpConfig,
};
use ackclock_form::shared;

/// All listeners of an endpoint, and all half-open connections. Each turn of a driver queries the timers,
/// which come first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Listening {
    timers: TimerWheel,
    records: Slots<HalfOpen>,
    /// How many of them are gone.
    gone: usize,
    /// The experimental options of SYNs, at listeners that take part; at most one for each record.
    experiments: HashMap<u32, Experiment, KeyedState>,
    by_source: HashMap<Source, usize, KeyedState>,
    listeners: Slots<Listener>,
    by_addr: HashMap<ListenAddr, ListenersAt, KeyedState>,
    max: usize,
    cookies: Cookies,
}

/// The listeners on an address.
#[derive(Debug)]
enum ListenersAt {
    One(u32),
    Several(Box<Group>),
}

/// The listeners that share an address, by slot.
#[derive(Debug)]
struct Group {
    key: Key,
    members: Vec<u32>,
}

/// One listener.
#[derive(Debug)]
struct Listener {
    addr: ListenAddr,
    /// The port that it has; `None`: it is for every unclaimed port.
    claim: Option<BoundId>,
    /// Settings of the connections it accepts.
    tcp: Arc<TcpConfig>,
    backlog: usize,
    syn_backlog: usize,
    decisions_max: usize,
    deferred: bool,
    /// Whether others that also set this may listen on the same address.
    reuse_port: bool,
    /// Present if Fast Open is served.
    fast_open: Option<Box<PendingFastOpens>>,
    /// Established connections that wait, the oldest first; with deferred accept, with their SYNs.
    accept_queue: VecDeque<(ConnectionId, Option<IncomingId>)>,
    /// Half-open records, including those that wait for a decision and those whose end the application has
    /// not learned.
    half_open: usize,
    /// Those that wait for a decision.
    undecided: usize,
    /// When a SYN last found the queue full.
    overflowed: Option<Instant>,
}

/// A connection in SYN-RECEIVED that came from LISTEN.
// RFC 9293 MUST-11: being in this table means that it came from a passive OPEN; an active one that crossed
// with its peer's SYN is a `Connection`.
#[derive(Clone, Copy, Debug)]
struct HalfOpen {
    tuple: FourTuple,
    listener: ListenerId,
    peer: PeerSyn,
    iss: SeqNum,
    phase: Phase,
    /// Whether it was reported to the application, which must then learn how it ends.
    told: bool,
    /// Whether the peer's SYN came again, and drew the SYN-ACK again.
    repeated: bool,
    /// When the SYN arrived or, later, when the first SYN-ACK was sent.
    since: Instant,
    limiter: Limiter,
}

/// The fields of a SYN that are needed later, without options that the listener does not want.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSyn {
    irs: SeqNum,
    /// TS.Recent.
    timestamps: Option<u32>,
    window: u16,
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack: bool,
    ecn: Offer,
    /// Whether the SYN-ACK gives a Fast Open cookie.
    wants_cookie: bool,
}

/// The event that a half-open record waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For [`crate::Endpoint::decide`]: nothing has been sent.
    Undecided,
    /// For the acknowledgement of the SYN-ACK.
    Answered { retransmits: u8, window: u16 },
    /// For the application to learn that it is over: it has neither a four-tuple nor a timer any more.
    Gone,
}

/// Whether there is room for another SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// For a half-open record.
    Record,
    /// None, but a cookie can answer it.
    Cookie,
    None,
}

/// The action on a segment for a half-open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HalfOpenAction {
    /// Nothing.
    Drop,
    /// Remove the record: the connection returns to LISTEN.
    Forget,
    /// Send the SYN-ACK again.
    Repeat,
    /// Send <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>.
    Acknowledge,
    /// Send <SEQ=SEG.ACK><CTL=RST>.
    Reset,
    /// The handshake is complete.
    Establish,
}

/// The action when a half-open connection's timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Send the SYN-ACK again.
    Repeat(u32),
    /// Forget the record, which waited for a decision or not.
    GiveUp { index: u32, undecided: bool },
}

/// The remains of a closed listener.
#[derive(Debug)]
pub(super) struct Closed {
    pub tcp: Arc<TcpConfig>,
    pub claim: Option<BoundId>,
    pub half_open: Vec<u32>,
    pub unaccepted: VecDeque<(ConnectionId, Option<IncomingId>)>,
}

/// A listener's source network: an IPv4 address or an IPv6 /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Source {
    listener: u32,
    is_v6: bool,
    prefix: u64,
}

impl Listening {
    pub fn new(now: Instant, state: &KeyedState, listeners_max: usize, secret: &[u8; 32]) -> Self {
        Self {
            timers: TimerWheel::new(now),
            records: Slots::default(),
            gone: 0,
            experiments: HashMap::with_hasher(state.clone()),
            by_source: HashMap::with_hasher(state.clone()),
            listeners: Slots::default(),
            by_addr: HashMap::with_hasher(state.clone()),
            max: listeners_max,
            cookies: Cookies::new(secret),
        }
    }

    /// Begins to listen with the port of a bound socket; `None`: on every unclaimed port. `tcp`: settings if
    /// the options have none. `later`: the source of the key for a shared address.
    // RFC 9293 MUST-41, RFC 9293 MUST-42: a passive OPEN adds an entry here and touches no connection,
    // whichever port it is for.
    pub fn open(
        &mut self,
        options: ListenOptions,
        claim: Option<BoundId>,
        tcp: &Arc<TcpConfig>,
        later: &Key,
    ) -> Result<ListenerId, ListenError> {
        let fast_open = options.fast_open_max > 0;
        let listener = Listener {
            addr: options.addr,
            claim,
            tcp: options.tcp.map_or_else(|| Arc::clone(tcp), Arc::new),
            backlog: options.backlog,
            syn_backlog: options.syn_backlog,
            decisions_max: options.decisions_max,
            deferred: options.deferred,
            reuse_port: options.reuse_port,
            fast_open: fast_open.then(|| Box::new(PendingFastOpens::new(options.fast_open_max))),
            accept_queue: VecDeque::new(),
            half_open: 0,
            undecided: 0,
            overflowed: None,
        };
        if let Some(place) = self.by_addr.get(&listener.addr) {
            self.check_shared(place, &listener)?;
        }
        if self.listeners.len() >= self.max {
            return Err(ListenError::TooManyListeners(self.max));
        }
        let addr = listener.addr;
        let (index, generation) = self.listeners.insert(listener);
        match self.by_addr.get_mut(&addr) {
            None => drop(self.by_addr.insert(addr, ListenersAt::One(index))),
            Some(ListenersAt::Several(group)) => group.members.push(index),
            Some(place) => {
                if let ListenersAt::One(first) = *place {
                    let group = Group { key: later.subkey(Purpose::Reuse), members: vec![first, index] };
                    *place = ListenersAt::Several(Box::new(group));
                }
            }
        }
        Ok(ListenerId { index, generation })
    }

    /// Whether the listeners of an address, and this one, all agreed to share it.
    fn check_shared(&self, place: &ListenersAt, listener: &Listener) -> Result<(), ListenError> {
        let members: &[u32] = match place {
            ListenersAt::One(index) => std::slice::from_ref(index),
            ListenersAt::Several(group) => &group.members,
        };
        // Any of them: they agreed to share when they joined.
        let first = members.first().and_then(|&index| self.listeners.at(index));
        let shares = listener.reuse_port && first.is_some_and(|first| first.reuse_port);
        match members.len() {
            _ if !shares => Err(ListenError::AddressInUse),
            MEMBERS_MAX.. => Err(ListenError::TooManyOnAddress(MEMBERS_MAX)),
            _ => Ok(()),
        }
    }

    /// Removes a listener. The caller ends what it leaves.
    pub fn close(&mut self, id: ListenerId) -> Option<Closed> {
        self.get(id)?;
        let listener = self.listeners.remove(id.index)?;
        match self.by_addr.get_mut(&listener.addr) {
            Some(ListenersAt::Several(group)) => {
                if let Some(last) = group.leave(id.index) {
                    self.by_addr.insert(listener.addr, ListenersAt::One(last));
                }
            }
            _ => drop(self.by_addr.remove(&listener.addr)),
        }
        let half_open = self.records.iter().filter(|(_, _, record)| record.listener == id);
        let half_open = half_open.map(|(index, ..)| index).collect();
        let Listener { tcp, claim, accept_queue, .. } = listener;
        Some(Closed { tcp, claim, half_open, unaccepted: accept_queue })
    }

    /// The listener for a SYN with this four-tuple: the most specific one; an address outranks a port.
    pub fn find(&self, tuple: &FourTuple) -> Option<ListenerId> {
        let (addr, port) = (Some(tuple.local_addr), Some(tuple.local_port));
        let family = Some(unspecified(tuple.local_addr));
        let candidates =
            [(addr, port), (addr, None), (family, port), (None, port), (family, None), (None, None)];
        let found =
            candidates.into_iter().find_map(|(addr, port)| self.by_addr.get(&ListenAddr { addr, port }));
        self.id_at(match found? {
            ListenersAt::One(index) => *index,
            ListenersAt::Several(group) => group.choose(tuple)?,
        })
    }

    /// All listeners.
    pub fn infos(&self) -> impl Iterator<Item = ListenerInfo> + '_ {
        self.listeners.iter().map(|(_, _, listener)| ListenerInfo {
            addr: listener.addr,
            waiting: listener.accept_queue.len(),
            backlog: listener.backlog,
            half_open: listener.half_open,
            deferred: listener.deferred,
        })
    }

    /// A listener's address.
    pub fn addr(&self, id: ListenerId) -> Option<ListenAddr> {
        self.get(id).map(|listener| listener.addr)
    }

    /// The settings of the connections that a listener accepts.
    pub fn tcp(&self, id: ListenerId) -> Option<&Arc<TcpConfig>> {
        self.get(id).map(|listener| &listener.tcp)
    }

    /// The settings of the connections that a listener accepts, to change.
    pub fn tcp_mut(&mut self, id: ListenerId) -> Option<&mut TcpConfig> {
        self.get_mut(id).map(|listener| Arc::make_mut(&mut listener.tcp))
    }

    /// The listener in this slot, if it has a connection to accept.
    pub fn acceptable(&self, index: u32) -> Option<ListenerId> {
        self.id_at(index).filter(|&id| self.has_acceptable(id))
    }

    /// Whether a listener has a connection to accept.
    pub fn has_acceptable(&self, id: ListenerId) -> bool {
        self.get(id).is_some_and(|listener| !listener.accept_queue.is_empty())
    }

    /// The next connection to accept, and the SYN that was reported.
    pub fn accept(&mut self, id: ListenerId) -> Option<(ConnectionId, Option<IncomingId>)> {
        self.get_mut(id)?.accept_queue.pop_front()
    }

    /// Whether another connection may wait to be accepted.
    pub fn has_room_to_wait(&self, id: ListenerId) -> bool {
        self.get(id).is_some_and(|listener| listener.accept_queue.len() < listener.backlog.max(1))
    }

    /// A connection waits to be accepted.
    pub fn wait(&mut self, id: ListenerId, connection: ConnectionId, incoming: Option<IncomingId>) {
        if let Some(listener) = self.get_mut(id) {
            listener.accept_queue.push_back((connection, incoming));
        }
    }

    /// The open handshakes of a listener that serves Fast Open.
    pub fn fast_opens(&mut self, id: ListenerId) -> Option<&mut PendingFastOpens> {
        self.get_mut(id)?.fast_open.as_deref_mut()
    }

    /// Whether there is room for another SYN from this source.
    pub fn room(&mut self, now: Instant, id: ListenerId, remote: IpAddr) -> Room {
        let Some(listener) = self.listeners.get_mut(id.index, id.generation) else { return Room::None };
        let of_source = self.by_source.get(&Source::new(id, remote)).copied().unwrap_or(0);
        let room = listener.has_room_for_syn()
            && of_source < listener.per_source_max()
            && self.records.len() < HALF_OPEN_MAX;
        if room {
            Room::Record
        } else if listener.deferred {
            Room::None
        } else {
            listener.overflowed = Some(now);
            Room::Cookie
        }
    }

    /// Whether the SYNs of a listener wait for a decision.
    pub fn is_deferred(&self, id: ListenerId) -> bool {
        self.get(id).is_some_and(|listener| listener.deferred)
    }

    /// Reads a SYN by a listener's settings.
    pub fn peer(&self, id: ListenerId, segment: &Segment<'_>, codepoint: Codepoint) -> Option<PeerSyn> {
        Some(PeerSyn::new(segment, codepoint, &self.get(id)?.tcp))
    }

    /// Adds a record for a SYN, for which there is [room](Self::room), and sets its timer. Returns its index.
    pub fn add(
        &mut self,
        now: Instant,
        id: ListenerId,
        tuple: FourTuple,
        peer: PeerSyn,
        iss: SeqNum,
        options: &TcpOptions,
    ) -> Option<u32> {
        let listener = self.listeners.get_mut(id.index, id.generation)?;
        listener.half_open.count();
        listener.undecided.grow(usize::from(listener.deferred));
        let window = initial_receive_window(&listener.tcp);
        let phase =
            if listener.deferred { Phase::Undecided } else { Phase::Answered { retransmits: 0, window } };
        let experiment = listener.tcp.shared_experiment(options);
        let (told, repeated, limiter) = (false, false, Limiter::default());
        let record = HalfOpen { tuple, listener: id, peer, iss, phase, told, repeated, since: now, limiter };
        let index = self.insert(record);
        if let Some(experiment) = experiment {
            self.experiments.insert(index, experiment);
        }
        Some(index)
    }

    fn insert(&mut self, record: HalfOpen) -> u32 {
        self.by_source.entry(record.source()).or_default().count();
        let patience = if record.phase == Phase::Undecided { DECISION_MAX } else { SYN_ACK_TIMEOUT };
        let deadline = record.since + patience;
        let (index, _) = self.records.insert(record);
        self.timers.arm(index, deadline);
        index
    }

    /// Frees the slot of a record without a report. Returns the four-tuple that it had.
    pub fn remove(&mut self, index: u32) -> Option<FourTuple> {
        let record = self.records.remove(index)?;
        self.timers.disarm(index);
        self.gone.shrink(usize::from(record.phase == Phase::Gone));
        if !self.experiments.is_empty() {
            self.experiments.remove(&index);
        }
        if let Entry::Occupied(mut count) = self.by_source.entry(record.source()) {
            count.get_mut().shrink(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
        self.note_decided(&record);
        if let Some(listener) = self.get_mut(record.listener) {
            listener.half_open = listener.half_open.saturating_sub(1);
        }
        (record.phase != Phase::Gone).then_some(record.tuple)
    }

    /// A record returns to LISTEN. If its SYN was reported, the application must learn of that. Until then it
    /// keeps its slot, without a four-tuple, so that short-lived ones are bounded like others. Returns the
    /// four-tuple that it had, and whether there is something to report.
    pub fn forget(&mut self, index: u32) -> (Option<FourTuple>, bool) {
        let Some(record) = self.records.at_mut(index).filter(|record| record.told) else {
            return (self.remove(index), false);
        };
        let before = *record;
        record.phase = Phase::Gone;
        self.gone.count();
        self.timers.disarm(index);
        self.note_decided(&before);
        (Some(before.tuple), true)
    }

    /// A record no longer waits for a decision, if it did.
    fn note_decided(&mut self, record: &HalfOpen) {
        if record.phase == Phase::Undecided
            && let Some(listener) = self.get_mut(record.listener)
        {
            listener.undecided = listener.undecided.saturating_sub(1);
        }
    }

    /// The event to report to the application about a record.
    pub fn event(&mut self, index: u32) -> Option<Event> {
        let generation = self.records.generation(index)?;
        let record = self.records.at_mut(index)?;
        let (listener, id) = (record.listener, IncomingId { index, generation });
        match record.phase {
            Phase::Undecided => {
                record.told = true;
                Some(Event::Incoming(listener, id))
            }
            Phase::Gone => {
                self.remove(index);
                Some(Event::IncomingGone(listener, id))
            }
            Phase::Answered { .. } => None,
        }
    }

    /// The SYNs that the application has learned of and not decided on.
    pub fn awaited(&self) -> impl Iterator<Item = (ListenerId, IncomingId)> + '_ {
        let awaited =
            self.records.iter().filter(|(_, _, record)| record.phase == Phase::Undecided && record.told);
        awaited.map(|(index, generation, record)| (record.listener, IncomingId { index, generation }))
    }

    /// The SYN that waits for a decision under this id, and its sequence number.
    pub fn undecided(&self, id: IncomingId) -> Option<(Incoming, SeqNum)> {
        let record = self.records.get(id.index, id.generation)?;
        let incoming = Incoming { tuple: record.tuple, mss: record.peer.mss, arrived: record.since };
        (record.phase == Phase::Undecided).then_some((incoming, record.peer.irs))
    }

    /// The SYN-ACK of an undecided record is going to be sent. Returns whether its listener still exists.
    pub fn decide(&mut self, now: Instant, index: u32) -> bool {
        let Some(record) = self.records.at(index).copied() else { return false };
        let Some(listener) = self.get(record.listener) else { return false };
        let window = initial_receive_window(&listener.tcp);
        self.note_decided(&record);
        if let Some(record) = self.records.at_mut(index) {
            record.phase = Phase::Answered { retransmits: 0, window };
            record.since = now;
        }
        self.timers.arm(index, now + SYN_ACK_TIMEOUT);
        true
    }

    /// The four-tuple of a half-open record.
    #[inline]
    pub fn tuple(&self, index: u32) -> Option<&FourTuple> {
        self.records.at(index).map(|record| &record.tuple)
    }

    /// Judges a segment for a half-open record.
    pub fn judge(&mut self, now: Instant, index: u32, segment: &Segment<'_>) -> Option<HalfOpenAction> {
        let record = self.records.at_mut(index)?;
        let action = record.judge(now, segment);
        if action == HalfOpenAction::Repeat && segment.flags.ace() == 0 {
            // RFC 9768 §3.1.4.1: the peer gave the flags up because it suspects them to be the obstacle.
            record.peer.ecn = Offer::None;
        }
        Some(action)
    }

    /// Judges an ICMP error by the record's SYN-ACK, the only segment in flight. Returns whether the error
    /// ends the record; `None` if it quotes something else.
    pub fn judge_icmp(&mut self, index: u32, kind: IcmpKind, seq: SeqNum) -> Option<bool> {
        let record = self.records.at_mut(index).filter(|record| record.is_outstanding(seq))?;
        match kind {
            IcmpKind::PacketTooBig { mtu } => record.limit_mss(mtu),
            // RFC 9293 SHLD-26: hard errors abort; here that loses nothing.
            IcmpKind::ProtocolUnreachable | IcmpKind::PortUnreachable => return Some(true),
            // RFC 9293 MUST-56: soft errors do not.
            _ => {}
        }
        Some(false)
    }

    /// The SYN-ACK of a record. `cookie`: the Fast Open cookie for its client.
    pub fn syn_ack(&self, index: u32, mtu: usize, cookie: impl FnOnce() -> FastOpenCookie) -> Option<Answer> {
        let record = self.records.at(index)?;
        let tcp = self.tcp(record.listener)?;
        let mut fields = record.peer.syn_ack(&record.tuple, record.iss, tcp, mtu);
        let repetitions = record.repetitions();
        if u32::from(repetitions) >= EXPERIMENT_SYNS {
            (fields.options.experiment, fields.options.user_timeout) = (None, None);
        }
        fields.flags = fields.flags | record.peer.ecn.answer(repetitions);
        // RFC 9768 §3.2.3.2.2: a repeated SYN,ACK does without the option.
        fields.options.accecn =
            record.peer.ecn.agreement(0).filter(|_| repetitions == 0).and_then(option_of_syn_ack);
        if record.peer.wants_cookie && u32::from(repetitions) < EXPERIMENT_SYNS {
            // There is no room for both; the counters of a SYN,ACK say little.
            (fields.options.accecn, fields.options.fast_open) = (None, Some(cookie()));
        }
        Some(Answer {
            tuple: record.tuple,
            ttl: tcp.ttl,
            label_changes: repetitions,
            recent: record.peer.timestamps,
            fields,
        })
    }

    /// The acknowledgement that a record sends.
    pub fn acknowledgement(&self, index: u32) -> Option<Answer> {
        let record = self.records.at(index)?;
        let Phase::Answered { window, retransmits: label_changes } = record.phase else { return None };
        let fields = Fields { window, ..bare(record.iss + 1, record.peer.irs + 1, Flags::ACK) };
        let (ttl, recent) = (self.tcp(record.listener)?.ttl, record.peer.timestamps);
        Some(Answer { tuple: record.tuple, ttl, label_changes, recent, fields })
    }

    /// The values settled by a record's exchange of SYNs, and its listener, ISS and reported SYN.
    pub fn handshake(
        &self,
        now: Instant,
        index: u32,
        clock: &Clock,
    ) -> Option<(Handshake, ListenerId, SeqNum, Option<IncomingId>)> {
        let record = self.records.at(index)?;
        let told = self.records.generation(index).filter(|_| record.told);
        let settled = record.peer.handshake(&record.tuple, self.tcp(record.listener)?);
        let repetitions = record.repetitions();
        let handshake = Handshake {
            // RFC 6298 §3 (Karn): no sample from a SYN-ACK that was sent more than once, or before a pause.
            rtt: (repetitions == 0 && !record.repeated && !clock.has_paused_since(record.since))
                .then(|| now.saturating_since(record.since)),
            repetitions,
            ecn: record.peer.ecn.agreement(repetitions),
            experiment: self.experiments.get(&index).copied(),
            ..settled
        };
        let told = told.map(|generation| IncomingId { index, generation });
        Some((handshake, record.listener, record.iss, told))
    }

    /// The SYN-ACK with a cookie that answers a SYN. `driver`: the driver's time; `clock`: the connection's
    /// timestamp clock.
    pub fn cookie(
        &self,
        driver: Instant,
        id: ListenerId,
        tuple: &FourTuple,
        peer: &PeerSyn,
        mtu: usize,
        clock: u32,
    ) -> Option<Answer> {
        let tcp = self.tcp(id)?;
        let options = CookieOptions {
            mss: peer.mss.unwrap_or_else(|| default_mss(tuple)),
            with_timestamps: peer.timestamps.map(|_| CookieExtras {
                window_scale: peer.window_scale,
                sack: peer.sack,
                ecn: peer.ecn != Offer::None,
            }),
        };
        let iss = self.cookies.issue(driver, tuple, peer.irs, options);
        // The SYN-ACK must not agree on options that the cookie cannot carry.
        let without = PeerSyn { window_scale: None, sack: false, ecn: Offer::None, ..*peer };
        let answered = if peer.timestamps.is_some() { peer } else { &without };
        let mut fields = answered.syn_ack(tuple, iss, tcp, mtu);
        fields.flags = fields.flags | answered.ecn.answer(0);
        fields.options.timestamps = peer
            .timestamps
            .zip(options.with_timestamps)
            .map(|(recent, extras)| (cookie_timestamp(clock, extras), recent));
        Some(Answer { tuple: *tuple, ttl: tcp.ttl, label_changes: 0, recent: None, fields })
    }

    /// Whether an ACK may carry a cookie. `elsewhere`: whether the SYN may have come to another endpoint of
    /// this host, whose queue was full.
    pub fn may_return_cookie(&self, now: Instant, id: ListenerId, elsewhere: bool) -> bool {
        let recently = |at| now.saturating_since(at) <= COOKIE_LIFETIME;
        self.get(id).is_some_and(|listener| elsewhere || listener.overflowed.is_some_and(recently))
    }

    /// The values settled by the exchange of SYNs, if this ACK returns a cookie. `driver`: the driver's time.
    pub fn check_cookie(
        &self,
        driver: Instant,
        id: ListenerId,
        tuple: &FourTuple,
        segment: &Segment<'_>,
    ) -> Option<Handshake> {
        let tcp = self.tcp(id)?;
        let echo = segment.options.timestamps.map(|(_, echo)| echo).filter(|_| tcp.choices.timestamps);
        let (irs, iss) = (segment.seq - 1, segment.ack - 1);
        let CookieOptions { mss, with_timestamps: extras } =
            self.cookies.check(driver, tuple, irs, iss, echo)?;
        let had_ecn = extras.is_some_and(|extras| extras.ecn);
        let peer = PeerSyn {
            irs,
            timestamps: extras.and(segment.options.timestamps).map(|(value, _)| value),
            window: segment.window,
            mss: Some(mss),
            window_scale: extras.and_then(|extras| extras.window_scale),
            sack: extras.is_some_and(|extras| extras.sack),
            ecn: if had_ecn { ecn_of_cookie(tcp.choices.ecn, segment.flags) } else { Offer::None },
            wants_cookie: false,
        };
        // A cookie does not record repetitions. The client gets the first window of a clean handshake, as
        // without cookies.
        Some(peer.handshake(tuple, tcp))
    }

    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next timer that is due. The next timer of a SYN-ACK to repeat is set already.
    pub fn pop_expired(&mut self, now: Instant) -> Option<Expiry> {
        let index = self.timers.pop_expired(now)?;
        let record = self.records.at_mut(index);
        match record.map(|record| &mut record.phase) {
            Some(Phase::Answered { retransmits, .. }) if *retransmits < SYN_ACK_RETRIES => {
                *retransmits = retransmits.saturating_add(1);
                // RFC 6298 §5.5: back off the timer.
                let doubled = 1_u32.checked_shl((*retransmits).into()).unwrap_or(u32::MAX);
                self.timers.arm(index, now + SYN_ACK_TIMEOUT.saturating_mul(doubled));
                Some(Expiry::Repeat(index))
            }
            phase => Some(Expiry::GiveUp { index, undecided: phase == Some(&mut Phase::Undecided) }),
        }
    }

    /// How many half-open records there are.
    pub fn half_open(&self) -> usize {
        self.records.len()
    }

    /// Whether the records of each source are counted.
    fn counts_sources(&self) -> bool {
        let mut counts = BTreeMap::<Source, usize>::new();
        for (_, _, record) in self.records.iter() {
            counts.entry(record.source()).or_default().count();
        }
        counts.len() == self.by_source.len()
            && counts.iter().all(|(source, count)| self.by_source.get(source) == Some(count))
    }

    /// The half-open records that have a four-tuple in the demultiplexer.
    pub fn bound_records(&self) -> impl Iterator<Item = (u32, FourTuple)> + '_ {
        let bound = self.records.iter().filter(|(_, _, record)| record.phase != Phase::Gone);
        bound.map(|(index, _, record)| (index, record.tuple))
    }

    /// How many of them have a four-tuple in the demultiplexer.
    pub fn bound(&self) -> usize {
        self.records.len().saturating_sub(self.gone)
    }

    fn id_at(&self, index: u32) -> Option<ListenerId> {
        self.listeners.generation(index).map(|generation| ListenerId { index, generation })
    }

    fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(id.index, id.generation)
    }

    fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.listeners.get_mut(id.index, id.generation)
    }
}

impl Group {
    /// Removes a listener. Returns the remaining one if it is alone.
    fn leave(&mut self, index: u32) -> Option<u32> {
        self.members.retain(|&member| member != index);
        match *self.members {
            [last] => Some(last),
            _ => None,
        }
    }

    /// The listener for this four-tuple. A reused slot counts as the same member.
    fn choose(&self, tuple: &FourTuple) -> Option<u32> {
        let hash = self.key.hash13(TupleBytes::new(tuple).as_slice());
        self.members.iter().copied().max_by_key(|&member| weight(&self.key, hash, member))
    }
}

impl Listener {
    /// Whether this listener has room for another SYN.
    fn has_room_for_syn(&self) -> bool {
        let undecided = self.deferred && self.undecided >= self.decisions_max.max(1);
        self.half_open < self.syn_backlog.max(1) && !undecided
    }

    /// The most half-open records of one source. All clients of a proxy may have one address, and no cookie
    /// answers a SYN that waits for a decision: there a source may have as many as it leaves free, after A.
    /// K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches",
    /// IEEE/ACM Transactions on Networking 6(2), 1998, with α = 1.
    fn per_source_max(&self) -> usize {
        let quarter = (self.syn_backlog / 4).max(1);
        let free = self.syn_backlog.saturating_sub(self.half_open);
        let undecided = self.decisions_max.saturating_sub(self.undecided);
        if self.deferred { quarter.max(free.min(undecided)) } else { quarter }
    }
}

impl HalfOpen {
    /// How often the SYN-ACK was repeated.
    fn repetitions(&self) -> u8 {
        match self.phase {
            Phase::Undecided | Phase::Gone => 0,
            Phase::Answered { retransmits, .. } => retransmits,
        }
    }

    /// RFC 9293 §3.10.7.4 in SYN-RECEIVED after a passive OPEN, in the order of its steps.
    fn judge(&mut self, now: Instant, segment: &Segment<'_>) -> HalfOpenAction {
        let Phase::Answered { window, .. } = self.phase else { return self.judge_undecided(segment) };
        let flags = segment.flags;
        let rcv_nxt = self.peer.irs + 1;
        if self.is_same_syn(segment) {
            if let (Some(recent), Some((value, _))) = (&mut self.peer.timestamps, segment.options.timestamps)
                && !is_old_timestamp(value, *recent)
            {
                *recent = value;
            }
            self.repeated = true;
            return HalfOpenAction::Repeat;
        }

        // First, the sequence number; RFC 7323 §5.3 R1 puts the timestamp before it, of all but a reset
        // (§5.2).
        let old = self.has_old_timestamp(segment) && !flags.contains(Flags::RST);
        if old || !is_acceptable(segment, rcv_nxt, u32::from(window)) {
            return if flags.contains(Flags::RST) { HalfOpenAction::Drop } else { self.acknowledge(now) };
        }
        // Second, RST. RFC 5961 §3.2: only the exact number resets; RFC 9293: a passive open returns to
        // LISTEN.
        if flags.contains(Flags::RST) && segment.seq.before(self.peer.irs + 1) {
            // RFC 5961 §3.2 (1): judged by where it begins, not by text that reaches into the window.
            return HalfOpenAction::Drop;
        }
        if flags.contains(Flags::RST) {
            return if segment.seq == rcv_nxt { HalfOpenAction::Forget } else { self.acknowledge(now) };
        }
        // RFC 7323 §3.2: once timestamps are agreed on, a segment without them is dropped.
        if self.peer.timestamps.is_some() && segment.options.timestamps.is_none() {
            return HalfOpenAction::Drop;
        }
        // Fourth, SYN: a passive open returns to LISTEN.
        if flags.contains(Flags::SYN) {
            return HalfOpenAction::Forget;
        }
        // Fifth, ACK.
        if !flags.contains(Flags::ACK) {
            return HalfOpenAction::Drop;
        }
        if segment.ack == self.iss + 1 { HalfOpenAction::Establish } else { HalfOpenAction::Reset }
    }

    /// Judges a segment before a SYN-ACK has been sent: the peer can only repeat its SYN, or take it back.
    fn judge_undecided(&self, segment: &Segment<'_>) -> HalfOpenAction {
        let took_back = segment.flags.contains(Flags::RST) && segment.seq == self.peer.irs + 1;
        if took_back { HalfOpenAction::Forget } else { HalfOpenAction::Drop }
    }

    /// Whether a segment with this sequence number, the SYN-ACK's, may have been lost.
    fn is_outstanding(&self, seq: SeqNum) -> bool {
        matches!(self.phase, Phase::Answered { .. }) && seq == self.iss
    }

    /// Records the path's MTU. Values below what every path carries are raised to that (RFC 5927 §7.2).
    fn limit_mss(&mut self, mtu: u32) {
        let is_ipv4 = self.tuple.remote_addr.is_ipv4();
        let Some(mtu) = believed_mtu(mtu, 0, is_ipv4) else { return };
        let headers = if is_ipv4 { 40 } else { 60 };
        let fits = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
        let told = self.peer.mss.unwrap_or_else(|| default_mss(&self.tuple));
        self.peer.mss = Some(told.min(fits));
    }

    fn acknowledge(&mut self, now: Instant) -> HalfOpenAction {
        if self.limiter.allow(now) { HalfOpenAction::Acknowledge } else { HalfOpenAction::Drop }
    }

    fn is_same_syn(&self, segment: &Segment<'_>) -> bool {
        let control = Flags::SYN | Flags::ACK | Flags::RST | Flags::FIN;
        segment.seq == self.peer.irs && segment.flags.bits() & control.bits() == Flags::SYN.bits()
    }

    fn has_old_timestamp(&self, segment: &Segment<'_>) -> bool {
        match (self.peer.timestamps, segment.options.timestamps) {
            (Some(recent), Some((value, _))) => is_old_timestamp(value, recent),
            _ => false,
        }
    }

    fn source(&self) -> Source {
        Source::new(self.listener, self.tuple.remote_addr)
    }
}

impl PeerSyn {
    /// The fields of this SYN, without what `tcp` does not want.
    fn new(segment: &Segment<'_>, codepoint: Codepoint, tcp: &TcpConfig) -> Self {
        let options = &segment.options;
        Self {
            irs: segment.seq,
            timestamps: options.timestamps.filter(|_| tcp.choices.timestamps).map(|(value, _)| value),
            window: segment.window,
            mss: options.mss,
            // RFC 7323 §2.3: a larger count is taken as 14.
            window_scale: options
                .window_scale
                .filter(|_| tcp.choices.window_scaling)
                .map(|shift| shift.min(WINDOW_SCALE_MAX)),
            sack: options.sack_permitted && tcp.choices.sack,
            ecn: Offer::of_syn(tcp.choices.ecn, segment.flags, codepoint),
            wants_cookie: false,
        }
    }

    /// The SYN asked for a Fast Open cookie, or had one that is not the current one.
    pub fn want_cookie(&mut self) {
        self.wants_cookie = true;
    }

    /// Whether it did.
    pub fn wants_cookie(&self) -> bool {
        self.wants_cookie
    }

    pub fn ecn(&self) -> Offer {
        self.ecn
    }

    /// The values settled by the exchange of SYNs, if the SYN-ACK goes out once.
    pub fn handshake(&self, tuple: &FourTuple, tcp: &TcpConfig) -> Handshake {
        let ours = window_scale_for(tcp.receive_buffer_max);
        Handshake {
            irs: self.irs,
            peer_mss: self.mss.unwrap_or_else(|| default_mss(tuple)),
            window_scale: self.window_scale.map(|peers| (peers, ours)),
            sack: self.sack,
            timestamps: self.timestamps,
            rtt: None,
            repetitions: 0,
            peer_window: self.window,
            ecn: self.ecn.agreement(0),
            experiment: None,
        }
    }

    /// The SYN-ACK, without timestamps. It mirrors what the SYN offered.
    fn syn_ack(&self, tuple: &FourTuple, iss: SeqNum, tcp: &TcpConfig, mtu: usize) -> Fields {
        let ip_header = if tuple.local_addr.is_ipv4() { 20 } else { 40 };
        let options = TcpOptions {
            // RFC 9293 MUST-14, RFC 9293 SHLD-5, RFC 9293 MAY-3: the MSS goes out in every SYN-ACK.
            mss: Some(advertised_mss(tcp, mtu, ip_header)),
            window_scale: self.window_scale.map(|_| window_scale_for(tcp.receive_buffer_max)),
            sack_permitted: self.sack,
            experiment: tcp.experiment,
            user_timeout: told_user_timeout(tcp, tcp.user_timeout),
            ..TcpOptions::default()
        };
        // RFC 7323 §2.2: the window of a SYN-ACK is never shifted.
        let window = initial_receive_window(tcp);
        Fields { window, options, ..bare(iss, self.irs + 1, Flags::SYN | Flags::ACK) }
    }
}

impl Source {
    fn new(listener: ListenerId, remote: IpAddr) -> Self {
        let (is_v6, prefix) = match remote {
            IpAddr::V4(addr) => (false, u64::from(addr.to_bits())),
            IpAddr::V6(addr) => (true, (addr.to_bits() >> 64) as u64),
        };
        Self { listener: listener.index, is_v6, prefix }
    }
}

/// SYN cookies: a half-open connection kept by the peer instead of here (RFC 4987 §3.6; D. J. Bernstein,
/// 1996).
///
/// The initial sequence number is the record:
///
/// ```text
///   31 30 29 | 28 27 | 26 ........ 0
///   MSS code | tick  | MAC of tuple, IRS, tick, options
/// ```
///
/// plus a keyed hash of four-tuple and IRS, so that the fields do not show. The tick lasts 64 s; a cookie is
/// valid during its tick and the next one. The low six bits of the timestamp, if the peer offers timestamps,
/// carry the rest: window scale, SACK and whether ECN was agreed on. The MAC covers them too. Without
/// timestamps a cookie cannot carry them. The ACK's ECN flags show which form of ECN it was (RFC 9768
/// §3.2.2.1).
///
/// A guess succeeds with probability 2 ticks × 8 codes / 2^32 = 2^-28, and is checked only if a listener's
/// queue has recently overflowed. Several endpoints that form one host share the secret, and an ACK that
/// arrives at another endpoint than its SYN is checked there
/// ([`CookieWatch`](super::directory::CookieWatch)).
#[derive(Debug)]
struct Cookies {
    mac: Key,
    mask: Key,
}

/// The options that a cookie carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CookieOptions {
    /// The peer's MSS, rounded down to one of [`MSS_CODES`].
    mss: u16,
    /// The rest, only with timestamps.
    with_timestamps: Option<CookieExtras>,
}

/// The options that a cookie carries in the timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CookieExtras {
    /// The peer's shift count, if it offered one.
    window_scale: Option<u8>,
    /// Whether the peer permits SACK.
    sack: bool,
    /// Whether ECN was agreed on.
    ecn: bool,
}

impl Cookies {
    fn new(secret: &[u8; 32]) -> Self {
        Self { mac: Key::derive(secret, Purpose::Cookies), mask: Key::derive(secret, Purpose::CookieMask) }
    }

    /// The initial sequence number that encodes a SYN with these options.
    fn issue(&self, now: Instant, tuple: &FourTuple, irs: SeqNum, options: CookieOptions) -> SeqNum {
        let code = mss_code(options.mss);
        let tick = tick(now);
        let mac = self.mac(tuple, irs, tick, code, extras_bits(options.with_timestamps));
        let fields = code << CODE_SHIFT | (tick & TICK_MASK) << TICK_SHIFT | mac;
        SeqNum::new(fields.wrapping_add(self.mask(tuple, irs)))
    }

    /// Decodes the cookie in an ACK; `None` if it is not ours or too old. `timestamp_echo` is the ACK's
    /// TSecr.
    fn check(
        &self,
        now: Instant,
        tuple: &FourTuple,
        irs: SeqNum,
        cookie: SeqNum,
        timestamp_echo: Option<u32>,
    ) -> Option<CookieOptions> {
        let fields = cookie.raw().wrapping_sub(self.mask(tuple, irs));
        let age = tick(now).wrapping_sub(fields >> TICK_SHIFT) & TICK_MASK;
        if age >= TICKS_LIVE {
            return None;
        }
        let code = fields >> CODE_SHIFT;
        let with_timestamps = timestamp_echo.map(extras_from);
        let mac = self.mac(tuple, irs, tick(now).wrapping_sub(age), code, extras_bits(with_timestamps));
        if mac != fields & MAC_MASK {
            return None;
        }
        let mss = *MSS_CODES.get(code as usize)?;
        Some(CookieOptions { mss, with_timestamps })
    }

    fn mac(&self, tuple: &FourTuple, irs: SeqNum, tick: u32, code: u32, extras: u32) -> u32 {
        // The tick takes 64 s × 2^22 = 8 years to repeat the same MAC.
        let hash = self.mac.hash24_tuple(tuple, [irs.raw(), tick << 10 | code << 7 | extras]);
        (hash >> 32) as u32 & MAC_MASK
    }

    fn mask(&self, tuple: &FourTuple, irs: SeqNum) -> u32 {
        (self.mask.hash24_tuple(tuple, [irs.raw(), 0]) >> 32) as u32
    }
}

/// The timestamp of a SYN-ACK with a cookie: `clock`, set back by less than 64 ticks so that its low bits
/// carry the extras. Later timestamps of the connection are therefore never before it.
fn cookie_timestamp(clock: u32, extras: CookieExtras) -> u32 {
    let bits = extras_bits(Some(extras)) & EXTRAS_MASK;
    let timestamp = clock & !EXTRAS_MASK | bits;
    if bits > clock & EXTRAS_MASK { timestamp.wrapping_sub(EXTRAS_MASK + 1) } else { timestamp }
}

/// The longest time after its issue that a cookie is valid.
pub(super) const COOKIE_LIFETIME: Duration = Duration::from_secs(TICK_SECONDS * TICKS_LIVE as u64);

/// Six bits of extras, and a seventh that says whether there are any.
fn extras_bits(extras: Option<CookieExtras>) -> u32 {
    let Some(extras) = extras else { return 0 };
    let scale = extras.window_scale.map_or(SCALE_NONE, |scale| u32::from(scale.min(SCALE_MAX)));
    1 << 6 | u32::from(extras.ecn) << 5 | u32::from(extras.sack) << 4 | scale
}

fn extras_from(timestamp: u32) -> CookieExtras {
    let scale = timestamp & SCALE_NONE;
    let window_scale = (scale != SCALE_NONE).then_some(scale as u8);
    CookieExtras { window_scale, sack: timestamp & 1 << 4 != 0, ecn: timestamp & 1 << 5 != 0 }
}

/// The code of the largest MSS that is not above the peer's.
fn mss_code(mss: u16) -> u32 {
    let above = MSS_CODES.iter().position(|&coded| coded > mss).unwrap_or(MSS_CODES.len());
    u32::try_from(above.saturating_sub(1)).unwrap_or(0)
}

fn tick(now: Instant) -> u32 {
    (now.as_nanos() / (TICK_SECONDS * 1_000_000_000)) as u32
}

/// The form of ECN that a cookie recalls, if one was agreed on.
// RFC 9768 §3.2.2.1: the acknowledgement of a SYN-ACK that agreed on Accurate ECN never has an ACE field of
// zero, and one that agreed on classic ECN always.
fn ecn_of_cookie(wanted: Ecn, flags: Flags) -> Offer {
    match (wanted, flags.ace()) {
        (Ecn::Off, _) => Offer::None,
        (Ecn::Accurate, ace) if ace != 0 => Offer::Accurate(Codepoint::NotEct),
        _ => Offer::Classic,
    }
}

/// A member's weight for a four-tuple. Both are hashed, so that members rank differently for each.
fn weight(key: &Key, hash: u64, member: u32) -> u64 {
    let mut bytes = [0; 12];
    let parts = hash.to_le_bytes().into_iter().chain(member.to_le_bytes());
    for (to, from) in bytes.iter_mut().zip(parts) {
        *to = from;
    }
    key.hash13(&bytes)
}

/// The wildcard of the same family.
fn unspecified(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The most listeners that share an address.
const MEMBERS_MAX: usize = 64;
/// The most half-open records of an endpoint. Beyond it every listener answers with cookies.
const HALF_OPEN_MAX: usize = 1 << 17;
/// How often a SYN-ACK is repeated: at 1, 3, 7, 15 and 31 s; given up at 63 s.
const SYN_ACK_RETRIES: u8 = 5;
/// RFC 6298 §2.1: the retransmission timeout before the first sample.
const SYN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a SYN waits for a decision.
const DECISION_MAX: Duration = Duration::from_secs(60);

const _: () = assert!(Slots::<HalfOpen>::BYTES + TIMER_BYTES <= 128, "a half-open connection in 128 bytes");

/// The MSS values that a cookie can encode: those common on Ethernet, tunnels, PPPoE and jumbo frames, and
/// the defaults of IPv4 and IPv6. The first also represents all smaller ones.
const MSS_CODES: [u16; 8] = [216, 536, 1220, 1300, 1400, 1440, 1460, 8960];

const TICK_SECONDS: u64 = 64;
const TICKS_LIVE: u32 = 2;
const CODE_SHIFT: u32 = 29;
const TICK_SHIFT: u32 = 27;
const TICK_MASK: u32 = 0b11;
const MAC_MASK: u32 = (1 << TICK_SHIFT) - 1;
const EXTRAS_MASK: u32 = (1 << 6) - 1;
const SCALE_NONE: u32 = 15;
const SCALE_MAX: u8 = 14;

ackclock_form::form! {
    struct Listening { timers, records, gone, experiments, by_source, listeners, by_addr, max, cookies } => |listening| listening.bound_records().count() == listening.bound() && listening.counts_sources();
    enum ListenersAt { 0 One(value), 1 Several(value) }
    struct Group { key, members }
    struct Listener {
        addr, claim, tcp as shared, backlog, syn_backlog, decisions_max, deferred, reuse_port, fast_open,
        accept_queue, half_open, undecided, overflowed
    }
    struct HalfOpen { tuple, listener, peer, iss, phase, told, repeated, since, limiter }
    struct PeerSyn { irs, timestamps, window, mss, window_scale, sack, ecn, wants_cookie }
    enum Phase { 0 Undecided, 1 Answered { retransmits, window }, 2 Gone }
    struct Source { listener, is_v6, prefix }
    struct Cookies { mac, mask }
}

#[cfg(test)]
mod tests;
