//! Writing a connection's trace. Without a trace, every call here costs one branch.

use std::time::Duration;

use ackclock_control::congestion::Controller;
use ackclock_control::rtt::RttEstimator;
use ackclock_control::time::nanos;
use ackclock_wire::SeqNum;

use super::names::known_names;
use super::{BatchCause, Entry, Extension, Limit, Log, LossRule, Record, Timer, TraceConfig, WindowCause};
use crate::position::Position;
use crate::{Instant, State};

/// The trace of a connection, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<Traced>>);

/// The readers of a connection's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The reader of this connection's trace.
    Trace,
    /// The reader of the changes of all the endpoint's connections.
    Changes,
}

/// When each of [`Timer::ALL`] expires, in that order; the far future if it does not run.
pub(crate) type Deadlines = [Instant; Timer::ALL.len()];

/// The destinations of entries.
#[derive(Debug)]
struct Logs {
    /// For the reader of this connection's trace.
    trace: Option<Log>,
    /// For the reader of changes.
    changes: Option<Log>,
}

/// The logs, and what they last recorded, so that they only record news.
#[derive(Debug)]
struct Traced {
    log: Logs,
    /// Positions are written relative to it.
    iss: Position,
    window: (u64, u64),
    /// SRTT and RTTVAR in microseconds.
    smoothed: (u32, u32),
    /// The last acknowledgement and window sent to the peer.
    told: (u64, u64),
    limit: Limit,
    /// Since when only the host keeps the connection from going on, if it does.
    host_since: Option<Instant>,
    timers: Deadlines,
    /// The controller's numbers, and when an acknowledgement samples them again.
    numbers_due: Instant,
    names: Vec<&'static str>,
    values: Vec<i64>,
}

/// How often in a round trip acknowledgements sample the controller's own numbers.
const NUMBERS_PER_ROUND: u64 = 8;
/// The shortest time between two samples.
const NUMBERS_EVERY_NS_MIN: u64 = 100_000;
const UNSET: Instant = Instant::FAR_FUTURE;

impl Trace {
    /// The trace of a connection whose first sequence number is `iss`. `changes`: whether the endpoint
    /// reports them.
    pub fn new(config: Option<TraceConfig>, changes: bool, iss: Position) -> Self {
        let changes = changes.then(|| Log::new(TraceConfig::CHANGES));
        Self::with(Logs { trace: config.map(Log::new), changes }, iss)
    }

    /// Starts the trace over; changes continue to be reported as before.
    pub fn renew(&mut self, config: Option<TraceConfig>, iss: Position) {
        let changes = self.0.take().and_then(|traced| traced.log.changes);
        *self = Self::with(Logs { trace: config.map(Log::new), changes }, iss);
    }

    fn with(log: Logs, iss: Position) -> Self {
        if log.trace.is_none() && log.changes.is_none() {
            return Self(None);
        }
        Self(Some(Box::new(Traced {
            log,
            iss,
            window: (0, 0),
            smoothed: (0, 0),
            told: (0, 0),
            limit: Limit::NotOpen,
            host_since: None,
            timers: [UNSET; Timer::ALL.len()],
            numbers_due: Instant::ZERO,
            names: Vec::new(),
            values: Vec::new(),
        })))
    }

    /// Whether anything is recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub fn note(&mut self, now: Instant, entry: Entry) {
        if let Some(traced) = &mut self.0 {
            traced.log.push(now, entry);
        }
    }

    /// Records what an extension did, with a number that belongs to it.
    pub fn extension(&mut self, now: Instant, what: Extension, value: u64) {
        self.note(now, Entry::Extension { what, value: saturated(value) });
    }

    /// Delivers what is kept, after the present call.
    pub fn call(&mut self, cause: BatchCause) {
        if let Some(log) = self.0.as_mut().and_then(|traced| traced.log.trace.as_mut()) {
            log.call(cause);
        }
    }

    /// An active OPEN: the reader of changes sees the connection from its SYN on. Whole traces begin with the
    /// SYN itself.
    pub fn opened(&mut self, now: Instant) {
        let Some(Logs { trace, changes }) = self.0.as_mut().map(|traced| &mut traced.log) else { return };
        let of_changes = trace.iter_mut().chain(changes).filter(|log| log.is_of_changes());
        of_changes.for_each(|log| log.push(now, Entry::State(State::Closed, State::SynSent)));
    }

    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        self.0.iter().flat_map(|traced| &traced.log.trace).flat_map(Log::iter)
    }

    /// The names of the controller's numbers, and how many records are missing before those that are kept;
    /// `None` where none are.
    pub fn kept(&self) -> Option<(Vec<&'static str>, u64)> {
        let traced = self.0.as_ref()?;
        let log = traced.log.trace.as_ref().filter(|log| !log.is_of_changes())?;
        Some((traced.names.clone(), log.missed()))
    }

    /// The reader to deliver to now, and the cause.
    #[inline]
    pub fn due(&self) -> Option<(Reader, BatchCause)> {
        let Logs { trace, changes } = &self.0.as_ref()?.log;
        let changes = changes.as_ref().and_then(Log::due).map(|cause| (Reader::Changes, cause));
        changes.or_else(|| trace.as_ref().and_then(Log::due).map(|cause| (Reader::Trace, cause)))
    }

    /// Whether records are left that are wanted when the connection is gone.
    pub fn has_rest(&self) -> bool {
        self.0.as_ref().and_then(|traced| traced.log.trace.as_ref()).is_some_and(Log::has_rest)
    }

    /// The names of the controller's numbers, the records, and how many are missing before them.
    pub fn take(&mut self, reader: Reader) -> (Vec<&'static str>, Vec<Record>, u64) {
        let Some(traced) = &mut self.0 else { return Default::default() };
        // Changes do not involve the controller's numbers.
        let names = if reader == Reader::Trace { traced.names.clone() } else { Vec::new() };
        let (records, missed) = traced.log.of(reader).map_or_else(Default::default, Log::take);
        (names, records, missed)
    }

    /// This many delivered records did not reach their reader.
    pub fn miss(&mut self, reader: Reader, records: u64) {
        if let Some(log) = self.0.as_mut().and_then(|traced| traced.log.of(reader)) {
            log.miss(records);
        }
    }

    /// The peer receives `ack`, relative to its first sequence number, and `window`; recorded if they are
    /// new.
    pub fn told(&mut self, now: Instant, ack: u64, window: u64) {
        if let Some(traced) = &mut self.0
            && traced.told != (ack, window)
        {
            traced.told = (ack, window);
            traced.log.push(now, Entry::Told { ack: low(ack), window: saturated(window) });
        }
    }

    /// The content of an acknowledgement, after processing.
    #[inline]
    pub fn acked(
        &mut self,
        now: Instant,
        ack: Position,
        duplicate: bool,
        window: u32,
        sack: &[(SeqNum, SeqNum)],
    ) {
        if let Some(traced) = &mut self.0 {
            traced.acked(now, ack, duplicate, window, sack);
        }
    }

    /// A round trip was timed.
    #[inline]
    pub fn round_trip(&mut self, now: Instant, rtt: &RttEstimator) {
        if let Some(traced) = &mut self.0 {
            traced.round_trip(now, rtt);
        }
    }

    /// `span` was found to be lost.
    pub fn lost(&mut self, now: Instant, rule: LossRule, (start, end): (Position, Position)) {
        if let Some(traced) = &mut self.0 {
            let (start, end) = (low(start.since(traced.iss)), low(end.since(traced.iss)));
            traced.log.push(now, Entry::Lost { rule, start, end });
        }
    }

    /// An event that may have moved the windows, or the controller's own numbers.
    #[inline]
    pub fn window(&mut self, now: Instant, cause: WindowCause, controller: &dyn Controller, round: Duration) {
        if let Some(traced) = &mut self.0 {
            traced.see_controller(now, cause, controller, round);
        }
    }

    /// A timer expired, for the `count`th consecutive time.
    #[inline]
    pub fn fired(&mut self, now: Instant, timer: Timer, deadline: Instant, count: u32) {
        if let Some(traced) = &mut self.0 {
            let late_us = micros(now.saturating_since(deadline));
            traced.log.push(now, Entry::TimerFired { timer, late_us, count });
            if let Some(seen) = traced.timers.get_mut(usize::from(timer.code())) {
                *seen = UNSET;
            }
        }
    }

    /// Records which timers run now.
    pub fn timers(&mut self, now: Instant, deadlines: Deadlines) {
        if let Some(traced) = &mut self.0 {
            traced.see_timers(now, deadlines);
        }
    }

    /// Something happened; `free`: from now on only the host keeps the connection from going on.
    pub fn freed(&mut self, now: Instant, free: bool) {
        if let Some(traced) = &mut self.0 {
            traced.host_since = if free { traced.host_since.or(Some(now)) } else { None };
        }
    }

    /// The host goes on now. Records the time for which it has kept data waiting, if any.
    pub fn host_ran(&mut self, now: Instant) {
        if let Some(traced) = &mut self.0
            && let Some(since) = traced.host_since.take()
        {
            let for_us = micros(now.saturating_since(since));
            if for_us > 0 {
                traced.log.push(now, Entry::HeldByHost { for_us });
            }
        }
    }

    /// Nothing more leaves now, because of `by`.
    pub fn limited(&mut self, now: Instant, by: Limit, in_flight: u64, unsent: u64) {
        if let Some(traced) = &mut self.0
            && traced.limit != by
        {
            traced.limit = by;
            let (in_flight, unsent) = (saturated(in_flight), saturated(unsent));
            traced.log.push(now, Entry::Limited { by, in_flight, unsent });
        }
    }
}

impl Logs {
    fn push(&mut self, now: Instant, entry: Entry) {
        if let Some(trace) = &mut self.trace {
            trace.push(now, entry);
        }
        if let Some(changes) = &mut self.changes {
            changes.push(now, entry);
        }
    }

    fn of(&mut self, reader: Reader) -> Option<&mut Log> {
        match reader {
            Reader::Trace => self.trace.as_mut(),
            Reader::Changes => self.changes.as_mut(),
        }
    }
}

// Separate code for traced connections, so that the others do not carry it along.
impl Traced {
    #[cold]
    #[inline(never)]
    fn acked(
        &mut self,
        now: Instant,
        ack: Position,
        duplicate: bool,
        window: u32,
        sack: &[(SeqNum, SeqNum)],
    ) {
        let relative = low(ack.since(self.iss));
        self.log.push(now, Entry::Acked { duplicate, ack: relative, window });
        let iss = self.iss.seq().raw();
        for &(left, right) in sack {
            let (left, right) = (left.raw().wrapping_sub(iss), right.raw().wrapping_sub(iss));
            self.log.push(now, Entry::Sacked { left, right });
        }
    }

    #[cold]
    #[inline(never)]
    fn round_trip(&mut self, now: Instant, rtt: &RttEstimator) {
        let (sample_us, rto_us) = (micros(rtt.latest()), micros(rtt.rto()));
        self.log.push(now, Entry::RoundTrip { sample_us, rto_us });
        let smoothed @ (srtt_us, rttvar_us) = (micros(rtt.srtt()), micros(rtt.rttvar()));
        if smoothed != self.smoothed {
            self.smoothed = smoothed;
            self.log.push(now, Entry::Smoothed { srtt_us, rttvar_us });
        }
    }

    #[cold]
    #[inline(never)]
    fn see_controller(
        &mut self,
        now: Instant,
        cause: WindowCause,
        controller: &dyn Controller,
        round: Duration,
    ) {
        let window = (controller.cwnd(), controller.ssthresh());
        if window != self.window {
            self.window = window;
            let (cwnd, ssthresh) = (saturated(window.0), saturated(window.1));
            self.log.push(now, Entry::Window { cause, cwnd, ssthresh });
        }
        let due = match cause {
            WindowCause::Sent => false,
            WindowCause::Acked => self.numbers_due <= now,
            _ => true,
        };
        if due {
            self.numbers_due = now.plus_nanos((nanos(round) / NUMBERS_PER_ROUND).max(NUMBERS_EVERY_NS_MIN));
            self.see_numbers(now, controller);
        }
    }

    /// The controller's own numbers are many, and slow to query.
    fn see_numbers(&mut self, now: Instant, controller: &dyn Controller) {
        for (index, (name, value)) in controller.snapshot().iter().enumerate() {
            let index = self.index_of(name, index);
            if let Some(last) = self.values.get_mut(index)
                && *last != value
                && let Ok(name) = u8::try_from(index)
            {
                *last = value;
                self.log.push(now, Entry::Controller { name, value });
            }
        }
    }

    /// The index of a number, usually the same as before. A new controller may have others.
    fn index_of(&mut self, name: &'static str, guess: usize) -> usize {
        if self.names.get(guess).is_some_and(|&known| std::ptr::eq(known, name)) {
            return guess;
        }
        if let Some(index) = self.names.iter().position(|&known| known == name) {
            return index;
        }
        let index = self.names.len();
        self.names.push(name);
        // A value that controllers never have, so that the first is recorded.
        self.values.push(i64::MIN);
        index
    }

    #[cold]
    #[inline(never)]
    fn see_timers(&mut self, now: Instant, deadlines: Deadlines) {
        for ((seen, deadline), &timer) in self.timers.iter_mut().zip(deadlines).zip(Timer::ALL) {
            if *seen != deadline {
                *seen = deadline;
                let entry = if deadline == UNSET {
                    Entry::TimerStopped(timer)
                } else {
                    Entry::TimerSet { timer, in_us: micros(deadline.saturating_since(now)) }
                };
                self.log.push(now, entry);
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "sequence numbers are modulo 2^32")]
pub(crate) fn low(position: u64) -> u32 {
    position as u32
}

pub(crate) fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn micros(time: Duration) -> u32 {
    let micros = time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into());
    u32::try_from(micros).unwrap_or(u32::MAX)
}

ackclock_form::form! {
    struct Trace(traced)
    struct Logs { trace, changes }
    struct Traced {
        log, iss, window, smoothed, told, limit, host_since, timers, numbers_due, names as known_names,
        values
    }
}
