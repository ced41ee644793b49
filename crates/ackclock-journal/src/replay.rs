//! [`Replay`]: the calls of a recording, made again on a new endpoint.

use std::fmt;
use std::io::Read;

use ackclock_control::tally::Tally;
use ackclock_wire::TxPacket;

use super::calls::{Call, ConnectionCall};
use super::record::{Record, Records};
use super::sent::SentPacket;
use crate::{Damage, DamageKind, JournalEnd, JournalHeader};
use ackclock_core::congestion::{Registry, UnknownController};
use ackclock_core::profile::Profile;
use ackclock_core::trace::TraceConfig;
use ackclock_core::{ConnectionId, Endpoint, FormError, FourTuple, FreezeError, Instant, Limits, TcpConfig};

/// Changes that a replay makes to the recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Every connection's profile.
    pub profile: Option<Profile>,
    /// The tracing of every connection, instead of the recorded one.
    pub trace: Option<TraceConfig>,
}

/// Makes the calls of a recording again, each at its time, and compares what comes of it.
///
/// Once it has departed from the recording, what arrives is still what was recorded: the peers answer what
/// they were sent then. Timers then expire by the endpoint's own deadlines, and every packet leaves at once,
/// up to a number that grows with the recorded calls ([`Self::has_stopped_timers`]).
#[derive(Debug)]
pub struct Replay<R> {
    records: Records<R>,
    header: JournalHeader,
    endpoint: Endpoint,
    changes: Changes,
    registry: Registry,
    now: Instant,
    calls: u64,
    departures: u64,
    /// Deadlines met and packets sent beyond those of the recorded calls.
    unrecorded: u64,
    timers_stopped: bool,
    limits: Option<Limits>,
    end: Option<JournalEnd>,
}

/// A packet that a replay saw.
#[derive(Debug)]
pub enum Seen<'a> {
    /// It arrived, with zeros for its payload.
    Arrived(&'a [u8]),
    /// It left.
    Left(&'a TxPacket<'a>),
}

/// Where a replay departs from its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The number of the call, from 0.
    pub call: u64,
    /// The driver's time at the call.
    pub at: Instant,
    /// The connection that the call is about, or that the packet belongs to.
    pub connection: Option<FourTuple>,
    /// The difference.
    pub difference: Difference,
}

/// A difference between a recording and its replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The packet that left; `None`: none did.
    Packet {
        /// Then.
        recorded: Option<SentPacket>,
        /// Now.
        replayed: Option<SentPacket>,
    },
    /// The result of a call, as a number (a length, an id, or 0 for nothing).
    Outcome {
        /// The call.
        call: String,
        /// Then.
        recorded: Option<u64>,
        /// Now.
        replayed: Option<u64>,
    },
}

impl<R: Read> Replay<R> {
    /// Reads the header, and makes the endpoint. Controllers are found in `registry`.
    ///
    /// # Errors
    /// The input is not a recording, its beginning is damaged, or `registry` lacks the profile's controller.
    pub fn open(input: R, registry: &Registry, changes: Changes) -> Result<Self, ReplayError> {
        let mut records = Records::open(input, registry.clone())?;
        let header = match records.next() {
            Some(Record::Header(header)) => *header,
            Some(_) => return Err(misplaced(0).into()),
            None => return Err(records.damage().unwrap_or_else(|| DamageKind::Torn.at(0)).into()),
        };
        let mut replay = Self {
            records,
            endpoint: Endpoint::new(header.config.clone(), header.start),
            now: header.start,
            header,
            changes,
            registry: registry.clone(),
            calls: 0,
            departures: 0,
            unrecorded: 0,
            timers_stopped: false,
            limits: None,
            end: None,
        };
        let mut config = replay.header.config.clone();
        let mut tcp = TcpConfig::clone(&config.tcp);
        replay.change(&mut tcp)?;
        config.tcp = tcp.into();
        replay.endpoint = Endpoint::new(config, replay.now);
        Ok(replay)
    }

    /// The head of the recording.
    #[must_use]
    pub fn header(&self) -> &JournalHeader {
        &self.header
    }

    /// The endpoint, for traces, counters and connections.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Freezes the endpoint, and goes on with the one that is thawed from the bytes: what follows must be the
    /// same. Returns the bytes.
    ///
    /// # Errors
    /// The endpoint cannot be frozen, or the bytes cannot be read.
    pub fn thaw_in_place(&mut self) -> Result<Vec<u8>, ThawError> {
        let form = self.endpoint.freeze()?;
        // The recording's own budget is allowed, whatever it is.
        self.endpoint = Endpoint::thaw(&form, &self.registry, usize::MAX)?.endpoint;
        Ok(form)
    }

    /// The driver's time of the last call.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The calls made so far, without those of connections.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// How often what came of a call differed.
    #[must_use]
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Whether timers expire only where a recorded call says so, because since the first departure there have
    /// been more deadlines and packets than a recording of this length accounts for: 10,000 and 100 for each
    /// call. A recording that someone has made for it cannot keep a replay busy for longer.
    #[must_use]
    pub fn has_stopped_timers(&self) -> bool {
        self.timers_stopped
    }

    /// Why the recording ended; `None` before its end, or if its program was killed.
    #[must_use]
    pub fn end(&self) -> Option<JournalEnd> {
        self.end
    }

    /// Makes the next call. Returns what differed, if anything did; `None`: there are no more calls.
    /// `see` gets the packets that arrive and leave.
    ///
    /// # Errors
    /// Where the file cannot be read any further. Everything before has been replayed.
    pub fn step(&mut self, mut see: impl FnMut(Instant, Seen<'_>)) -> Result<Option<Step>, Damage> {
        loop {
            let number = self.records.number;
            let Some(record) = self.records.next() else {
                return self.records.damage().map_or(Ok(None), Err);
            };
            match record {
                Record::Time(step) => {
                    self.now = step.from(self.now);
                    if self.departures > 0 {
                        self.expire(&mut see);
                    }
                }
                Record::End(why) => {
                    self.end = Some(why);
                    return Ok(None);
                }
                Record::Call(call) => {
                    self.calls.count();
                    let departure = self.make(*call, &mut see)?;
                    self.departures.grow(u64::from(departure.is_some()));
                    if self.departures > 0 {
                        self.drain(&mut see);
                    }
                    return Ok(Some(Step { at: self.now, departure }));
                }
                _ => return Err(misplaced(number)),
            }
        }
    }

    fn make(
        &mut self,
        call: Call,
        see: &mut impl FnMut(Instant, Seen<'_>),
    ) -> Result<Option<Departure>, Damage> {
        match call {
            Call::Transmit { limits } => Ok(self.transmit(limits, see)),
            Call::Update { id } => self.update(id),
            mut call => {
                self.change_call(&mut call);
                if let Call::Packet { packet } = &call {
                    see(self.now, Seen::Arrived(&packet.packet().0));
                }
                // A call of every kind but a packet's is short.
                let name = if matches!(call, Call::Packet { .. }) { None } else { Some(format!("{call:?}")) };
                let replayed = call.apply(&mut self.endpoint, self.now);
                let difference = self.compare(replayed, || name.unwrap_or_default());
                Ok(self.departure(None, difference))
            }
        }
    }

    fn transmit(&mut self, limits: Limits, see: &mut impl FnMut(Instant, Seen<'_>)) -> Option<Departure> {
        self.limits = Some(limits);
        let replayed = self.endpoint.poll_transmit(self.now, limits).map(|packet| {
            see(self.now, Seen::Left(&packet));
            SentPacket::new(&packet)
        });
        let (recorded, is_last) = match self.records.peek() {
            Some(Record::Sent(_)) => (self.records.next(), false),
            next => (None, is_cut(next)),
        };
        let recorded = match recorded {
            Some(Record::Sent(sent)) => Some(sent),
            // If the recording was cut between the two, nothing tells what left.
            _ if is_last => return None,
            _ => None,
        };
        let differs = recorded != replayed;
        let ends = recorded.as_ref().or(replayed.as_ref()).and_then(SentPacket::ends);
        let connection = ends.map(|(local, remote)| FourTuple::new(local, remote));
        let difference = differs.then_some(Difference::Packet { recorded, replayed });
        self.departure(connection, difference)
    }

    /// Makes the calls of an update. They are read as they are made, because a file may hold any number.
    fn update(&mut self, id: ConnectionId) -> Result<Option<Departure>, Damage> {
        let traces = self.changes.trace.is_some();
        let (records, connection) = (&mut self.records, self.endpoint.connection(id));
        let tuple = connection.map(|connection| connection.tuple());
        let mut difference = None;
        let made = self.endpoint.update(self.now, id, |connection, now| {
            while let Some(call) = next_connection_call(records) {
                if traces && matches!(call, ConnectionCall::SetTrace { .. }) {
                    continue;
                }
                let name = format!("{call:?}");
                let replayed = call.apply(connection, now);
                let found = compare(records, replayed, || name);
                difference = difference.take().or(found);
            }
        });
        if made.is_none() {
            while next_connection_call(records).is_some() {
                compare(records, None, String::new);
            }
        }
        let number = self.records.number;
        match self.records.peek() {
            Some(Record::UpdateEnds) => {
                self.records.next();
            }
            next if is_cut(next) => {}
            _ => return Err(misplaced(number)),
        }
        Ok(self.departure(tuple, difference))
    }

    fn compare(&mut self, replayed: Option<u64>, call: impl FnOnce() -> String) -> Option<Difference> {
        compare(&mut self.records, replayed, call)
    }

    fn departure(&self, connection: Option<FourTuple>, difference: Option<Difference>) -> Option<Departure> {
        let call = self.calls.saturating_sub(1);
        difference.map(|difference| Departure { call, at: self.now, connection, difference })
    }

    /// Does what is due before the present time, at its time.
    fn expire(&mut self, see: &mut impl FnMut(Instant, Seen<'_>)) {
        let until = self.now;
        while self.goes_on() {
            let Some(due) = self.endpoint.poll_timeout().filter(|&due| due < until) else { break };
            self.now = due;
            self.unrecorded.count();
            self.endpoint.handle_timeout(due);
            self.drain(see);
        }
        self.now = until;
    }

    /// Has everything leave that would.
    fn drain(&mut self, see: &mut impl FnMut(Instant, Seen<'_>)) {
        let Some(limits) = self.limits else { return };
        while self.goes_on() {
            let Some(packet) = self.endpoint.poll_transmit(self.now, limits) else { break };
            see(self.now, Seen::Left(&packet));
            self.unrecorded.count();
        }
    }

    /// Whether one more deadline or packet is allowed that no recorded call accounts for.
    fn goes_on(&mut self) -> bool {
        let most = UNRECORDED_MAX.saturating_add(self.calls.saturating_mul(UNRECORDED_PER_CALL));
        self.timers_stopped |= self.unrecorded >= most;
        !self.timers_stopped
    }

    /// Makes the changes to the settings that come with a call.
    fn change_call(&self, call: &mut Call) {
        let tcp = match call {
            Call::Connect { tcp, .. } | Call::ConnectWithData { tcp, .. } => tcp.as_mut(),
            Call::Listen { options } | Call::ListenBound { options, .. } => options.tcp.as_mut(),
            Call::SetListenerTcp { tcp, .. } => Some(&mut **tcp),
            _ => None,
        };
        if let Some(tcp) = tcp {
            // This profile was found when the replay was opened.
            let _found = self.change(tcp);
        }
    }

    fn change(&self, tcp: &mut TcpConfig) -> Result<(), UnknownController> {
        if let Some(profile) = &self.changes.profile {
            tcp.apply(profile, &self.registry)?;
        }
        if self.changes.trace.is_some() {
            tcp.trace = self.changes.trace;
        }
        Ok(())
    }
}

/// One call, and whether its result differed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The driver's time.
    pub at: Instant,
    /// The difference, if there was one.
    pub departure: Option<Departure>,
}

/// Why a replay cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// The profile's controller is not available.
    #[error(transparent)]
    Controller(#[from] UnknownController),
}

/// Why an endpoint cannot go on from its frozen state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThawError {
    /// It cannot be frozen.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    /// Its form cannot be read.
    #[error("the frozen endpoint cannot be thawed: {0}")]
    Form(#[from] FormError),
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}, {:.6} s", self.call, self.at.as_nanos() as f64 / 1e9)?;
        if let Some(tuple) = self.connection {
            write!(f, ", {} > {}", tuple.local(), tuple.remote())?;
        }
        match &self.difference {
            Difference::Packet { recorded, replayed } => {
                let packet = |packet: &Option<SentPacket>| match packet {
                    Some(packet) => packet.to_string(),
                    None => "no packet".to_owned(),
                };
                write!(f, "\n  recorded: {}\n  replayed: {}", packet(recorded), packet(replayed))
            }
            Difference::Outcome { call, recorded, replayed } => {
                let told =
                    |code: &Option<u64>| code.map_or_else(|| "nothing".to_owned(), |code| code.to_string());
                write!(f, "\n  {call} returned {}\n  and now returns {}", told(recorded), told(replayed))
            }
        }
    }
}

/// The next call of the update that is being read.
fn next_connection_call(records: &mut Records<impl Read>) -> Option<ConnectionCall> {
    if !matches!(records.peek(), Some(Record::ConnectionCall(_))) {
        return None;
    }
    match records.next() {
        Some(Record::ConnectionCall(call)) => Some(*call),
        _ => None,
    }
}

/// Compares what a call told with what was recorded of it, if anything.
fn compare(
    records: &mut Records<impl Read>,
    replayed: Option<u64>,
    call: impl FnOnce() -> String,
) -> Option<Difference> {
    let recorded = match records.peek() {
        Some(&Record::Outcome(code)) => {
            records.next();
            Some(code)
        }
        // The call may have panicked.
        next if is_cut(next) => return None,
        _ => None,
    };
    (recorded != replayed).then(|| Difference::Outcome { call: call(), recorded, replayed })
}

/// Whether the recording ends here, perhaps within a call: its program was killed, or it could not take more.
fn is_cut(next: Option<&Record>) -> bool {
    next.is_none_or(|record| matches!(record, Record::End(why) if *why != JournalEnd::Closed))
}

fn misplaced(record: u64) -> Damage {
    DamageKind::Malformed { record, malformed: FormError::Misplaced }.at(0)
}

/// Of the deadlines and packets that no recorded call accounts for, a replay allows this many, and
const UNRECORDED_MAX: u64 = 10_000;
/// this many more for each recorded call.
const UNRECORDED_PER_CALL: u64 = 100;
