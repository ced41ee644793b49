//! What a traced connection writes down. Whatever is asked for here costs one branch where there is no trace.

use std::time::Duration;

use ackclock_control::congestion::Controller;
use ackclock_wire::{Fields, Flags};

use super::header::Segment;
use super::timers::{RecoveryTimer, SendTimer, Timers};
use super::{Connection, State};
use crate::Instant;
use crate::position::Position;
use crate::recovery::Marked;
use crate::trace::{BatchCause, Entry, Limit, Log, LossRule, Record, Timer, TraceConfig, WindowCause};

/// The trace of a connection, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<Traced>>);

/// A log, and what it was told last, so that it hears of changes only.
#[derive(Debug)]
struct Traced {
    log: Log,
    window: (u64, u64),
    /// SRTT and RTTVAR in microseconds.
    smoothed: (u32, u32),
    told: (u64, u64),
    limit: Limit,
    timers: [Instant; Timer::ALL.len()],
    /// The controller's numbers, and when an acknowledgement has them looked at again.
    numbers_due: Instant,
    names: Vec<&'static str>,
    values: Vec<i64>,
}

impl Trace {
    pub(super) fn new(config: Option<TraceConfig>) -> Self {
        Self(config.map(|config| {
            Box::new(Traced {
                log: Log::new(config),
                window: (0, 0),
                smoothed: (0, 0),
                told: (0, 0),
                limit: Limit::NotOpen,
                timers: [Timers::UNSET; Timer::ALL.len()],
                numbers_due: Instant::ZERO,
                names: Vec::new(),
                values: Vec::new(),
            })
        }))
    }

    /// Whether anything is written down.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(super) fn note(&mut self, now: Instant, entry: Entry) {
        if let Some(traced) = &mut self.0 {
            traced.log.push(now, entry);
        }
    }

    pub(super) fn state(&mut self, now: Instant, from: State, to: State) {
        self.note(now, Entry::State(from, to));
    }

    /// What is kept is wanted, as soon as the present call is over.
    pub(super) fn call(&mut self, cause: BatchCause) {
        if let Some(traced) = &mut self.0 {
            traced.log.call(cause);
        }
    }

    fn records(&self) -> impl Iterator<Item = Record> + '_ {
        self.0.iter().flat_map(|traced| traced.log.iter())
    }
}

impl Connection {
    /// Traces the connection from now on, or no longer. What was written down and not given out is lost.
    pub fn set_trace(&mut self, now: Instant, config: Option<TraceConfig>) {
        self.own_tcp().trace = config;
        self.trace = Trace::new(config);
        self.trace_window(now, WindowCause::Start);
        self.trace_timers(now);
    }

    /// The records that were not given out yet, oldest first.
    pub fn trace(&self) -> impl Iterator<Item = Record> + '_ {
        self.trace.records()
    }

    /// Has the records given out now; nothing happens if there is no trace.
    pub fn request_trace(&mut self) {
        self.trace.call(BatchCause::Requested);
    }

    /// Why records are to leave now.
    #[inline]
    pub(crate) fn trace_due(&self) -> Option<BatchCause> {
        self.trace.0.as_ref()?.log.due()
    }

    /// Whether records are left that are wanted when the connection is gone.
    pub(crate) fn has_trace_to_end(&self) -> bool {
        self.trace.0.as_ref().is_some_and(|traced| traced.log.has_rest())
    }

    /// The names of the controller's numbers, the records, and how many are missing before them.
    pub(crate) fn take_trace(&mut self) -> (Vec<&'static str>, Vec<Record>, u64) {
        let Some(traced) = &mut self.trace.0 else { return Default::default() };
        let (records, missed) = traced.log.take();
        (traced.names.clone(), records, missed)
    }

    /// So many records that had left did not reach anyone.
    pub(crate) fn miss_trace(&mut self, records: u64) {
        if let Some(traced) = &mut self.trace.0 {
            traced.log.miss(records);
        }
    }

    /// The profile and the controller, for those who read a trace.
    pub(crate) fn trace_choices(&self) -> (&'static str, &'static str) {
        (self.tcp.profile, self.congestion.name())
    }

    #[inline]
    pub(super) fn trace_sent(&mut self, now: Instant, segment: &Segment, fields: &Fields) {
        self.if_traced(|connection, traced| {
            let rcv = &connection.rcv;
            let told @ (ack, window) = (rcv.nxt.since(rcv.irs), rcv.wnd());
            if fields.flags.contains(Flags::ACK) && traced.told != told {
                traced.told = told;
                traced.log.push(now, Entry::Told { ack: low(ack), window: saturated(window) });
            }
            let seq = low(segment.start.since(connection.snd.iss));
            let ([_, flags], len) =
                (fields.flags.bits().to_be_bytes(), saturated(segment.payload_len as u64));
            traced.log.push(now, Entry::Sent { reason: segment.reason, flags, seq, len });
        });
    }

    #[inline]
    pub(super) fn trace_received(&mut self, now: Instant, segment: &ackclock_wire::Segment<'_>) {
        self.if_traced(|connection, traced| {
            let syn = segment.flags.contains(Flags::SYN);
            let irs = if syn { segment.seq } else { connection.rcv.irs.seq() };
            let seq = segment.seq.raw().wrapping_sub(irs.raw());
            let len = saturated(segment.payload.len() as u64);
            let [_, flags] = segment.flags.bits().to_be_bytes();
            traced.log.push(now, Entry::Received { flags, seq, len });
        });
    }

    /// What an acknowledgement said, once it was taken in.
    #[inline]
    pub(super) fn trace_ack(
        &mut self,
        now: Instant,
        ack: Position,
        duplicate: bool,
        segment: &ackclock_wire::Segment<'_>,
    ) {
        self.if_traced(|connection, traced| {
            let window = connection.snd.wnd;
            let relative = low(ack.since(connection.snd.iss));
            traced.log.push(now, Entry::Acked { duplicate, ack: relative, window });
            let iss = connection.snd.iss.seq().raw();
            for &(left, right) in segment.options.sack.as_slice() {
                let (left, right) = (left.raw().wrapping_sub(iss), right.raw().wrapping_sub(iss));
                traced.log.push(now, Entry::Sacked { left, right });
            }
        });
    }

    #[inline]
    pub(super) fn trace_written(&mut self, now: Instant, len: usize) {
        self.if_traced(|connection, traced| {
            let queued = saturated(connection.snd.queued() as u64);
            traced.log.push(now, Entry::Written { len: saturated(len as u64), queued });
        });
    }

    #[inline]
    pub(super) fn trace_read(&mut self, now: Instant, len: usize) {
        self.if_traced(|connection, traced| {
            let waiting = saturated(connection.rcv.buffer.readable() as u64);
            traced.log.push(now, Entry::Read { len: saturated(len as u64), waiting });
        });
    }

    /// A round trip was timed.
    #[inline]
    pub(super) fn trace_round_trip(&mut self, now: Instant) {
        self.if_traced(|connection, traced| {
            let rtt = &connection.rtt;
            let (sample_us, rto_us) = (micros(rtt.latest()), micros(rtt.rto()));
            traced.log.push(now, Entry::RoundTrip { sample_us, rto_us });
            let smoothed @ (srtt_us, rttvar_us) = (micros(rtt.srtt()), micros(rtt.rttvar()));
            if smoothed != traced.smoothed {
                traced.smoothed = smoothed;
                traced.log.push(now, Entry::Smoothed { srtt_us, rttvar_us });
            }
        });
    }

    pub(super) fn trace_lost(&mut self, now: Instant, rule: LossRule, marked: &Marked) {
        if let (true, Some((start, end))) = (self.trace.is_on(), marked.span) {
            let iss = self.snd.iss;
            let (start, end) = (low(start.since(iss)), low(end.since(iss)));
            self.trace.note(now, Entry::Lost { rule, start, end });
        }
    }

    /// Something was done that may have moved the windows, or the controller's own numbers.
    #[inline]
    pub(super) fn trace_window(&mut self, now: Instant, cause: WindowCause) {
        self.if_traced(|connection, traced| {
            let controller = &*connection.congestion;
            traced.see_window(now, cause, controller);
            let due = match cause {
                WindowCause::Sent => false,
                WindowCause::Acked => traced.numbers_due <= now,
                _ => true,
            };
            if due {
                let round = connection.rtt.srtt();
                traced.numbers_due = now + (round / NUMBERS_PER_ROUND).max(NUMBERS_EVERY_MIN);
                traced.see_numbers(now, controller);
            }
        });
    }

    /// Whatever was done since it was asked for last: which timers run now?
    #[inline]
    pub(super) fn trace_timers(&mut self, now: Instant) {
        if let Some(traced) = &mut self.trace.0 {
            traced.see_timers(now, &self.timers);
        }
    }

    /// Nothing more leaves now: why?
    #[inline]
    pub(super) fn trace_limit(&mut self, now: Instant) {
        self.if_traced(|connection, traced| {
            let by = connection.limit();
            if traced.limit != by {
                traced.limit = by;
                let in_flight = saturated(connection.in_flight());
                let unsent = saturated(connection.snd.unsent());
                traced.log.push(now, Entry::Limited { by, in_flight, unsent });
            }
            traced.see_timers(now, &connection.timers);
        });
    }

    /// What only a traced connection does stands apart, so that the others do not carry it along.
    #[inline]
    fn if_traced(&mut self, write: impl FnOnce(&Self, &mut Traced)) {
        #[cold]
        #[inline(never)]
        fn apart(
            connection: &mut Connection,
            mut traced: Box<Traced>,
            write: impl FnOnce(&Connection, &mut Traced),
        ) {
            write(connection, &mut traced);
            connection.trace.0 = Some(traced);
        }
        if self.trace.is_on()
            && let Some(traced) = self.trace.0.take()
        {
            apart(self, traced, write);
        }
    }

    /// A timer ran out.
    #[inline]
    pub(super) fn trace_fired(&mut self, now: Instant, timer: Timer, deadline: Instant) {
        if let Some(traced) = &mut self.trace.0 {
            let late_us = micros(now.saturating_since(deadline));
            let count = if timer == Timer::Retransmission { self.give_up.expiries + 1 } else { 1 };
            traced.log.push(now, Entry::TimerFired { timer, late_us, count });
            if let Some(seen) = traced.timers.get_mut(usize::from(timer.code())) {
                *seen = Timers::UNSET;
            }
        }
    }

    /// What keeps the connection from sending more, after it has sent what it could.
    fn limit(&self) -> Limit {
        let unsent = self.snd.unsent();
        let smss = u64::from(self.smss());
        if !self.state.may_send_data() && self.state != State::FinWait2 {
            return Limit::NotOpen;
        }
        if self.timers.pacing != Timers::UNSET {
            return Limit::Pacing;
        }
        if self.scoreboard.lost() > 0 {
            return Limit::Recovery;
        }
        if unsent == 0 {
            return if self.snd.closed { Limit::Finished } else { Limit::Application };
        }
        let window = self.snd.right_edge().since(self.snd.nxt);
        let room = self.cwnd_room();
        if window < unsent.min(smss) && window <= room {
            Limit::PeerWindow
        } else if room < unsent.min(smss) || room < smss && room < unsent {
            if self.recovery.in_recovery() { Limit::Recovery } else { Limit::Cwnd }
        } else if self.corked {
            Limit::Cork
        } else if unsent < smss {
            Limit::Nagle
        } else {
            Limit::PeerWindow
        }
    }
}

impl Traced {
    #[inline]
    fn see_window(&mut self, now: Instant, cause: WindowCause, controller: &dyn Controller) {
        let window = (controller.cwnd(), controller.ssthresh());
        if window != self.window {
            self.window = window;
            let (cwnd, ssthresh) = (saturated(window.0), saturated(window.1));
            self.log.push(now, Entry::Window { cause, cwnd, ssthresh });
        }
    }

    /// The controller's own numbers are many, and slow to ask for.
    #[inline(never)]
    fn see_numbers(&mut self, now: Instant, controller: &dyn Controller) {
        for (place, (name, value)) in controller.snapshot().iter().enumerate() {
            let place = self.place_of(name, place);
            if let Some(last) = self.values.get_mut(place)
                && *last != value
                && let Ok(name) = u8::try_from(place)
            {
                *last = value;
                self.log.push(now, Entry::Controller { name, value });
            }
        }
    }

    /// Where a number has its place: mostly where it had it before. A controller that takes over may have others.
    fn place_of(&mut self, name: &'static str, guess: usize) -> usize {
        if self.names.get(guess).is_some_and(|&known| std::ptr::eq(known, name)) {
            return guess;
        }
        if let Some(place) = self.names.iter().position(|&known| known == name) {
            return place;
        }
        self.names.push(name);
        // Not a value that a controller has, so that the first is noted.
        self.values.push(i64::MIN);
        self.names.len() - 1
    }

    fn see_timers(&mut self, now: Instant, timers: &Timers) {
        let deadlines = deadlines(timers);
        for ((seen, deadline), &timer) in self.timers.iter_mut().zip(deadlines).zip(Timer::ALL) {
            if *seen != deadline {
                *seen = deadline;
                let entry = if deadline == Timers::UNSET {
                    Entry::TimerStopped(timer)
                } else {
                    Entry::TimerSet { timer, in_us: micros(deadline.saturating_since(now)) }
                };
                self.log.push(now, entry);
            }
        }
    }
}

/// When each of [`Timer::ALL`] runs out, in that order.
fn deadlines(timers: &Timers) -> [Instant; Timer::ALL.len()] {
    let unset = Timers::UNSET;
    let (retransmission, persist) = match timers.send {
        SendTimer::Idle => (unset, unset),
        SendTimer::Retransmit(at) => (at, unset),
        SendTimer::Persist(at) => (unset, at),
    };
    let (reordering, tail_probe) = match timers.recovery {
        RecoveryTimer::Idle => (unset, unset),
        RecoveryTimer::Reordering(at) => (at, unset),
        RecoveryTimer::TailProbe(at) => (unset, at),
    };
    [
        retransmission,
        persist,
        reordering,
        tail_probe,
        timers.pacing,
        timers.delayed_ack,
        timers.keepalive,
        timers.close,
        timers.cork,
    ]
}

#[expect(clippy::cast_possible_truncation, reason = "sequence numbers are modulo 2^32")]
fn low(position: u64) -> u32 {
    position as u32
}

fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn micros(time: Duration) -> u32 {
    let micros = time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into());
    u32::try_from(micros).unwrap_or(u32::MAX)
}

/// How often in a round trip an acknowledgement has the controller's own numbers noted.
const NUMBERS_PER_ROUND: u32 = 8;
/// The least time between two of these.
const NUMBERS_EVERY_MIN: Duration = Duration::from_micros(100);
