//! Real time: the same network, moved by the wall clock.
//!
//! An event happens when the wall clock has passed its time, and the network's clock shows the event's own
//! time, to the nanosecond. So one late event makes no other event late, and what happens within the network
//! is what happens in virtual time. Only where the network meets the outside does lateness show: bytes reach
//! their program late by as much as the event that brought them. [`Lateness`] counts that.
//!
//! Tokio's timers end at whole milliseconds, which is too coarse. A thread sleeps until shortly before the
//! next event, and the turn polls the clock for the rest.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ackclock::Clock;
use ackclock_core::Instant;
use serde::Serialize;

use super::RunError;
use super::pulse::Pulse;
use super::turn::Turn;
use crate::meter::Histogram;
use crate::simulation::Simulation;

/// How far a network in real time has fallen behind: [`VirtualNetwork::lateness`].
///
/// A run in which an event was too late is not valid: delays and rates were not those of the scenario.
///
/// [`VirtualNetwork::lateness`]: super::VirtualNetwork::lateness
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Lateness {
    /// Events that have happened.
    pub events: u64,
    /// Those that were too late.
    pub too_late: u64,
    /// How late an event may be, in seconds; the least bound of the run.
    pub allowed: f64,
    /// How late 99.9 % of the events were at most, in seconds; right to 3 %.
    pub p999: f64,
    /// How late the latest was, in seconds.
    pub worst: f64,
    /// When that was, in seconds from the beginning.
    pub worst_at: f64,
}

impl Lateness {
    /// Whether every event came in time.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.too_late == 0
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |seconds: f64| format!("{:.3} ms", seconds * 1e3);
        let (worst, allowed) = (millis(self.worst), millis(self.allowed));
        let (late, events) = (self.too_late, self.events);
        if self.is_valid() {
            write!(f, "valid: the latest of {events} events came {worst} late; allowed is {allowed}")
        } else {
            write!(
                f,
                "not valid: {late} of {events} events came more than {allowed} late, the latest by {worst} \
                 at {:.3} s",
                self.worst_at
            )
        }
    }
}

/// Keeps a network in step with the wall clock.
#[derive(Debug)]
pub(super) struct Pacer {
    alarm: Alarm,
    bound: Bound,
}

/// How late an event may be.
#[derive(Debug)]
enum Bound {
    Fixed(u64),
    /// By the delay of the path, after this number of changes of the network.
    OfPath(u64, Option<u64>),
}

/// How late events have been. Those who ask for it are on other tasks.
#[derive(Debug, Default)]
pub(super) struct Record {
    late: Histogram,
    /// The latest event: how late, and when.
    worst: (u64, Instant),
    too_late: u64,
    allowed: Option<u64>,
}

impl Pacer {
    pub fn new() -> io::Result<Self> {
        Ok(Self { alarm: Alarm::new()?, bound: Bound::OfPath(LATE_MAX, None) })
    }

    /// Sets how late an event may be, in place of what the path's delay says.
    pub fn allow(&mut self, late: Duration) {
        self.bound = Bound::Fixed(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Sets for how long before an event the turn polls.
    pub fn poll_ahead(&mut self, lead: Duration) {
        self.alarm.lead = u64::try_from(lead.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Runs a program while the wall clock moves the network.
    pub async fn run<F: Future>(
        &mut self,
        mut turn: Turn<'_>,
        pulse: &Arc<Pulse>,
        program: F,
    ) -> Result<F::Output, RunError> {
        let mut program = pin!(program);
        let waking = turn.program_waker();
        let waker = Waker::from(Arc::clone(&waking));
        poll_fn(|cx| {
            pulse.set_turn(cx.waker());
            self.catch_up(&mut turn, pulse);
            if waking.woken.swap(false, Relaxed) {
                pulse.note_activity();
                if let Poll::Ready(done) = program.as_mut().poll(&mut Context::from_waker(&waker)) {
                    self.catch_up(&mut turn, pulse);
                    return Poll::Ready(Ok(done));
                }
                self.catch_up(&mut turn, pulse);
            }
            let now = pulse.now();
            if now >= turn.end() {
                return Poll::Ready(Err(turn.out_of_time()));
            }
            self.alarm.wait(pulse, turn.next_stop(), now, cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Lets happen what is due, and notes how late it is.
    fn catch_up(&mut self, turn: &mut Turn<'_>, pulse: &Pulse) {
        turn.catch_up(pulse.now().min(turn.end()), |simulation| {
            let allowed = self.allowed(simulation);
            pulse.record().note(simulation.now(), pulse.now(), allowed);
        });
    }

    fn allowed(&mut self, simulation: &Simulation) -> u64 {
        match &mut self.bound {
            Bound::Fixed(allowed) => *allowed,
            Bound::OfPath(allowed, changes) => {
                if changes.replace(simulation.made) != Some(simulation.made) {
                    *allowed = late_max(simulation.least_delay());
                }
                *allowed
            }
        }
    }
}

impl Record {
    /// An event of the time `at` happens at `now`.
    fn note(&mut self, at: Instant, now: Instant, allowed: u64) {
        let late = now.nanos_since(at);
        self.late.record(late);
        if late > self.worst.0 {
            self.worst = (late, at);
        }
        self.too_late += u64::from(late > allowed);
        self.allowed = Some(self.allowed.map_or(allowed, |least| least.min(allowed)));
    }

    pub fn lateness(&self) -> Lateness {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        Lateness {
            events: self.late.count(),
            too_late: self.too_late,
            allowed: seconds(self.allowed.unwrap_or(LATE_MAX)),
            p999: seconds(self.late.quantile(999)),
            worst: seconds(self.worst.0),
            worst_at: seconds(self.worst.1.as_nanos()),
        }
    }
}

/// How late an event may be on a path of this one-way delay: 5 % of it, but no more than a millisecond. No
/// bound is below what a timer of an operating system can keep.
fn late_max(delay: Option<u64>) -> u64 {
    delay.map_or(LATE_MAX, |delay| (delay / 20).clamp(LATE_MIN, LATE_MAX))
}

/// A thread that wakes the turn at a time, to far less than a millisecond.
#[derive(Debug)]
struct Alarm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    lead: u64,
}

#[derive(Debug, Default)]
struct Shared {
    next: Mutex<Next>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Next {
    at: Option<tokio::time::Instant>,
    /// When the thread looks again.
    looks_at: Option<tokio::time::Instant>,
    waker: Option<Waker>,
    over: bool,
}

impl Alarm {
    fn new() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let for_thread = Arc::clone(&shared);
        let thread = Builder::new().name("network-alarm".into()).spawn(move || for_thread.keep())?;
        Ok(Self { shared, thread: Some(thread), lead: LEAD })
    }

    /// Has `waker` woken at `at`, or at once if that is near.
    fn wait(&self, pulse: &Pulse, at: Instant, now: Instant, waker: &Waker) {
        let Some(sleep_until) = at.nanos_since(now).checked_sub(self.lead).filter(|left| *left > 0) else {
            return waker.wake_by_ref();
        };
        let at = pulse.tokio_instant(now.plus_nanos(sleep_until));
        let mut next = self.shared.lock();
        next.at = Some(at);
        if !next.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            next.waker = Some(waker.clone());
        }
        // A thread that looks too early finds out and waits again.
        if next.looks_at.is_none_or(|looks_at| looks_at > at) {
            drop(next);
            self.shared.moved.notify_one();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.moved.notify_one();
        if let Some(thread) = self.thread.take() {
            // It never panics.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self) {
        let mut next = self.lock();
        while !next.over {
            let now = tokio::time::Instant::now();
            if next.at.is_some_and(|at| at <= now) {
                (next.at, next.looks_at) = (None, None);
                if let Some(waker) = next.waker.clone() {
                    drop(next);
                    waker.wake();
                    next = self.lock();
                }
                continue;
            }
            next.looks_at = next.at;
            next = match next.at {
                Some(at) => {
                    let waited = self.moved.wait_timeout(next, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.moved.wait(next).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The most that an event may be late.
const LATE_MAX: u64 = 1_000_000;
/// The least lateness, which an idle machine keeps.
const LATE_MIN: u64 = 100_000;
/// How long before an event the turn polls instead of sleeping. Two threads wake one after the other in some
/// 0.1 ms; a virtual machine whose processor was halted takes milliseconds at times.
const LEAD: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_valid_until_an_event_comes_later_than_allowed() {
        let at = |micros: u64| Instant::from_nanos(micros * 1000);
        let mut record = Record::default();
        assert!(record.lateness().is_valid(), "nothing was late");
        record.note(at(5_000), at(5_400), 500_000);
        record.note(at(6_000), at(6_500), 500_000);
        let lateness = record.lateness();
        assert!(lateness.is_valid() && lateness.events == 2, "{lateness:?}");
        assert_eq!(
            lateness.to_string(),
            "valid: the latest of 2 events came 0.500 ms late; allowed is 0.500 ms"
        );
        // The path has become shorter.
        record.note(at(7_000), at(7_300), 250_000);
        record.note(at(9_000), at(9_100), 250_000);
        let lateness = record.lateness();
        assert_eq!((lateness.too_late, lateness.worst, lateness.worst_at), (1, 0.0005, 0.006));
        assert_eq!(
            lateness.to_string(),
            "not valid: 1 of 4 events came more than 0.250 ms late, the latest by 0.500 ms at 0.006 s"
        );
    }

    #[test]
    fn an_event_may_be_late_by_a_twentieth_of_the_delay_within_bounds() {
        let millis = 1_000_000;
        for (delay, allowed) in [
            (None, LATE_MAX),
            (Some(0), LATE_MIN),
            (Some(millis), LATE_MIN),
            (Some(10 * millis), millis / 2),
            (Some(20 * millis), millis),
            (Some(300 * millis), millis),
        ] {
            assert_eq!(late_max(delay), allowed, "{delay:?}");
        }
    }
}
