//! Captured connections as traces, so that the tools for traces can draw and explain any TCP.
//!
//! A capture shows what left and what arrived. The reasons for retransmissions are those that [`Replay`]
//! infers. Round trips are those of segments sent once (Karn), the timeout is that of RFC 6298. Packets do
//! not show everything: the congestion window, above all, is missing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ackclock_control::assess::timeouts::{Event, Why};
use ackclock_control::rtt::{RtoConfig, RttEstimator};
use ackclock_core::trace::{Entry, Limit, LossRule, SendReason, Timer};
use ackclock_core::{Instant, State};
use ackclock_trace::file::{Origin, Source, Trace, TracedSource};
use ackclock_wire::{Flags, SeqNum};

use crate::capture::{Segment, Vantage};
use crate::retransmissions::{Replay, TimedClass};
use crate::transfer::{Side, connections, ends, response};
use crate::view::{self, View};

/// The connections of a capture, as a trace that `program` made. Each direction with data becomes a trace of
/// its sender.
#[must_use]
pub fn traced(vantages: &[Vantage], program: &str) -> Trace {
    let begin =
        vantages.iter().filter_map(|vantage| vantage.segments.first()).map(|segment| segment.at).min();
    let begin = begin.unwrap_or(0);
    // Captures of simulated time begin at zero.
    let epoch_unix_nanos = Some(begin).filter(|&begin| begin > DAY_NS);
    let mut trace =
        Trace { origin: Origin { program: program.to_owned(), epoch_unix_nanos }, ..Trace::default() };
    for group in connections(vantages) {
        for from_client in [true, false] {
            // If neither end is known to be the sender's, the first view is used.
            let seen = ends(&group, Side::Guess, from_client).map_or(group[0], |(sender, _)| sender);
            let view = View::new(seen, from_client);
            if view.bytes() > 0 {
                let number = trace.sources.len();
                trace.sources.push(TracedDirection::new(seen, &view, from_client, begin).source(number));
            }
        }
    }
    trace
}

/// One direction of a connection, under construction.
struct TracedDirection<'a> {
    seen: &'a Vantage,
    view: &'a View,
    from_client: bool,
    begin: u64,
    /// The inferred reason for each retransmission, by its time and its first byte.
    why: BTreeMap<(u64, u64), Why>,
    /// The tail loss probes among them.
    probes: BTreeSet<(u64, u64)>,
    /// The sequence number before the peer's first byte.
    peer_isn: SeqNum,
    scale: u8,
    una: u64,
    max: u64,
    /// The peer's window, once it has offered one.
    window: Option<u64>,
    /// Ends of data sent once, with its time.
    timed: VecDeque<(u64, u64)>,
    estimator: RttEstimator,
    /// Consecutive timeouts.
    expiries: u32,
    /// Whether the last acknowledgement reported data beyond a gap.
    selective: bool,
    limit: Option<Limit>,
    entries: Vec<(Instant, Entry)>,
}

impl<'a> TracedDirection<'a> {
    fn new(seen: &'a Vantage, view: &'a View, from_client: bool, begin: u64) -> Self {
        let replay = Replay::new(view, None, response(seen, from_client));
        let why = replay.events.iter().filter_map(|event| match *event {
            Event::Sent { at, from, why, .. } if why != Why::New => Some(((at.as_nanos(), from), why)),
            _ => None,
        });
        let probes = replay.timed.iter().filter(|one| one.class == TimedClass::TailLossProbe);
        let peers = seen.segments.iter().find(|segment| segment.from_client != from_client);
        let (isn, scale) = if from_client {
            (seen.server_isn, seen.server_scale)
        } else {
            (seen.client_isn, seen.client_scale)
        };
        // Windows are scaled if both ends offered it (RFC 7323 §2.2).
        let both = seen.client_scale.is_some() && seen.server_scale.is_some();
        Self {
            seen,
            view,
            from_client,
            begin,
            why: why.collect(),
            probes: probes.map(|one| (one.at, one.from)).collect(),
            peer_isn: isn.or(peers.map(|first| first.seq - 1)).unwrap_or_default(),
            scale: scale.filter(|_| both).unwrap_or(0).min(14),
            una: 0,
            max: 0,
            window: None,
            timed: VecDeque::new(),
            estimator: RttEstimator::new(&RtoConfig::default()),
            expiries: 0,
            selective: false,
            limit: None,
            entries: Vec::new(),
        }
    }

    fn source(mut self, number: usize) -> TracedSource {
        self.opening();
        for entry in &self.view.entries {
            match *entry {
                view::Entry::Data { at, from, to, index, .. } => self.data(at, from, to, index),
                view::Entry::Ack { at, to, sack, bare, index, .. } => self.ack(at, to, sack, bare, index),
            }
        }
        let (local, remote) = if self.from_client {
            (self.seen.client, self.seen.server)
        } else {
            (self.seen.server, self.seen.client)
        };
        let source = Source::Connection {
            host: String::new(),
            number: number as u64,
            local,
            remote,
            profile: String::new(),
            congestion: String::new(),
            names: Vec::new(),
            captured: true,
        };
        TracedSource { number, source, entries: self.entries, missed: 0, unknown: 0, cause: None }
    }

    fn push(&mut self, at: u64, entry: Entry) {
        self.entries.push((Instant::from_nanos(at.saturating_sub(self.begin)), entry));
    }

    /// Records the SYNs, and that the connection is open from the first segment after them.
    fn opening(&mut self) {
        for segment in self.seen.segments.iter().filter(|segment| segment.flags.contains(Flags::SYN)) {
            let flags = bits(segment);
            if segment.from_client != self.from_client {
                // The window of a SYN is never scaled (RFC 7323 §2.2).
                self.window = Some(segment.window.into());
            }
            self.push(
                segment.at,
                if segment.from_client == self.from_client {
                    Entry::Sent { reason: SendReason::Handshake, flags, seq: 0, len: 0 }
                } else {
                    Entry::Received { flags, seq: 0, len: 0 }
                },
            );
        }
        let open = self.seen.segments.iter().find(|segment| !segment.flags.contains(Flags::SYN));
        if let Some(open) = open {
            self.push(open.at, Entry::State(State::SynSent, State::Established));
        }
    }

    fn data(&mut self, at: u64, from: u64, to: u64, index: usize) {
        let flags = bits(&self.seen.segments[index]);
        let len = u32::try_from(to - from).unwrap_or(u32::MAX);
        let reason = if from >= self.max {
            self.timed.push_back((to, at));
            SendReason::NewData
        } else if to <= self.una {
            SendReason::Keepalive
        } else if self.window == Some(0) && len == 1 {
            SendReason::WindowProbe
        } else if self.probes.contains(&(at, from)) {
            self.timed.retain(|(end, _)| *end <= from || *end > to);
            self.push(at, Entry::TimerFired { timer: Timer::TailProbe, late_us: 0, count: 1 });
            SendReason::TailProbe
        } else {
            self.again(at, from, to);
            SendReason::Retransmission
        };
        self.push(at, Entry::Sent { reason, flags, seq: sequence(from), len });
        self.max = self.max.max(to);
        self.limited(at);
    }

    /// Records why a segment was retransmitted, as far as it can be inferred.
    fn again(&mut self, at: u64, from: u64, to: u64) {
        self.timed.retain(|(end, _)| *end <= from || *end > to);
        let rule = match self.why.get(&(at, from)) {
            Some(Why::Timeout { .. }) => {
                self.expiries += 1;
                let count = self.expiries;
                self.push(at, Entry::TimerFired { timer: Timer::Retransmission, late_us: 0, count });
                LossRule::Timeout
            }
            _ if self.selective => LossRule::SackEvidence,
            _ => LossRule::DuplicateAcks,
        };
        self.push(at, Entry::Lost { rule, start: sequence(from), end: sequence(to.min(self.max)) });
    }

    fn ack(&mut self, at: u64, to: u64, sack: Option<(u64, u64)>, bare: bool, index: usize) {
        let segment = &self.seen.segments[index];
        let len = segment.len;
        let seq = segment.seq.offset_from(self.peer_isn);
        self.push(at, Entry::Received { flags: bits(segment), seq, len });
        let offered = u64::from(segment.window) << self.scale;
        self.window = Some(offered);
        let duplicate = to == self.una && bare && self.max > self.una;
        let window = u32::try_from(offered).unwrap_or(u32::MAX);
        self.push(at, Entry::Acked { duplicate, ack: sequence(to), window });
        self.selective = sack.is_some_and(|(left, _)| left >= to);
        if let Some((left, right)) = sack.filter(|_| self.selective) {
            self.push(at, Entry::Sacked { left: sequence(left), right: sequence(right) });
        }
        if to > self.una {
            self.una = to;
            self.expiries = 0;
            self.sample(at);
        }
        self.limited(at);
    }

    /// Records the round trip of the last acknowledged segment that was sent once.
    fn sample(&mut self, at: u64) {
        let mut sent_at = None;
        while let Some(&(_, sent)) = self.timed.front().filter(|(end, _)| *end <= self.una) {
            sent_at = Some(sent);
            self.timed.pop_front();
        }
        let Some(sent_at) = sent_at else { return };
        let sample = std::time::Duration::from_nanos(at - sent_at);
        self.estimator.on_sample(sample);
        let micros = |time: std::time::Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let (sample_us, rto_us) = (micros(sample), micros(self.estimator.rto()));
        self.push(at, Entry::RoundTrip { sample_us, rto_us });
    }

    /// A window with no room for a segment is the only thing that packets show of a sender's waits.
    fn limited(&mut self, at: u64) {
        let in_flight = self.max.saturating_sub(self.una);
        let room = |window: u64| in_flight + u64::from(self.view.mss) <= window;
        let full = in_flight > 0 && !self.window.is_none_or(room);
        let by = if full { Limit::PeerWindow } else { Limit::Application };
        if self.limit.replace(by) != Some(by) {
            let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
            self.push(at, Entry::Limited { by, in_flight, unsent: 0 });
        }
    }
}

const DAY_NS: u64 = 86_400_000_000_000;

/// The trace's sequence number for a stream position; the first byte is 1.
fn sequence(position: u64) -> u32 {
    ((position + 1) & u64::from(u32::MAX)) as u32
}

/// The control bits that an entry has room for.
fn bits(segment: &Segment) -> u8 {
    (segment.flags.bits() & 0xff) as u8
}
