//! The turn: the one future that the runtime blocks on. It runs the program and, when no task can run, the
//! network.
//!
//! Only three things move time:
//!
//! - An event of the network: the turn moves tokio's clock to the event's nanosecond.
//! - A tokio timer: the runtime jumps to it, by whole milliseconds, when it parks. The turn limits the jump
//!   to the millisecond of the next event by a timer of its own.
//! - A clock between two milliseconds: the turn moves it to the next whole one first, so that jumps begin and
//!   end at whole milliseconds and timers fire when they are due.
//!
//! Whenever a task runs, the clocks of tokio, the stacks and the network therefore agree to the nanosecond.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use ackclock::Clock;
use ackclock_core::Instant;
use tokio::time::Sleep;

use super::RunError;
use super::pulse::{ProgramWaker, Pulse};
use super::stage::Stage;
use crate::simulation::Simulation;

/// A run.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    simulation: &'a mut Simulation,
    stage: &'a mut Stage,
    pulse: &'a Arc<Pulse>,
    rung: Vec<u32>,
}

impl<'a> Turn<'a> {
    pub fn new(simulation: &'a mut Simulation, stage: &'a mut Stage, pulse: &'a Arc<Pulse>) -> Self {
        Self { simulation, stage, pulse, rung: Vec::new() }
    }

    pub async fn run<F: Future>(mut self, program: F) -> Result<F::Output, RunError> {
        let mut program = pin!(program);
        let waking = self.program_waker();
        let waker = Waker::from(Arc::clone(&waking));
        let mut sleep = pin!(tokio::time::sleep_until(self.pulse.tokio_instant(Instant::ZERO)));
        // Clears what a previous run left.
        self.pulse.take_idle();
        poll_fn(|cx| {
            self.pulse.set_turn(cx.waker());
            let idle = self.pulse.take_idle();
            if waking.woken.swap(false, Relaxed) {
                self.pulse.note_activity();
                if let Poll::Ready(done) = program.as_mut().poll(&mut Context::from_waker(&waker)) {
                    self.collect();
                    return Poll::Ready(Ok(done));
                }
            } else if idle {
                return self.happen(cx, sleep.as_mut());
            }
            self.pulse.ask();
            Poll::Pending
        })
        .await
    }

    /// The waker of a program, which has to be polled first.
    pub fn program_waker(&self) -> Arc<ProgramWaker> {
        Arc::new(ProgramWaker { woken: AtomicBool::new(true), pulse: Arc::clone(self.pulse) })
    }

    /// No task can run, so the next thing happens. Ready only with an error.
    fn happen<T>(&mut self, cx: &mut Context<'_>, mut sleep: Pin<&mut Sleep>) -> Poll<Result<T, RunError>> {
        if self.collect() {
            self.pulse.ask();
            return Poll::Pending;
        }
        let (now, end) = (self.pulse.now(), self.simulation.end);
        let mut next = self.next_event();
        if let Some(event) = next.filter(|event| *event < now) {
            return Poll::Ready(Err(RunError::ClockMoved { clock: now, event }));
        }
        if next.is_some_and(|at| millis(at) == millis(now)) {
            if self.simulation.run_to_guest(last_of_milli(now).min(end)) {
                self.pulse.move_clock(self.simulation.now());
                // The programs of hosts that have crashed end before they can see it.
                self.stage.follow(self.simulation);
                self.pulse.ask();
                return Poll::Pending;
            }
            next = self.next_event();
        }
        let at = next.unwrap_or(end);
        if millis(at) <= millis(now) {
            return Poll::Ready(Err(self.over()));
        }
        // The program's timers come first, so the clock goes to the event's millisecond only.
        let whole = now.as_nanos() % MILLI == 0;
        let target = Instant::from_nanos(if whole { millis(at) } else { millis(now) + 1 } * MILLI);
        if !whole {
            self.pulse.move_clock(target);
        }
        sleep.as_mut().reset(self.pulse.tokio_instant(target));
        if sleep.poll(cx).is_ready() {
            self.pulse.ask();
        }
        Poll::Pending
    }

    /// The time of the network's next event, unless the scenario ends before it.
    fn next_event(&mut self) -> Option<Instant> {
        let end = self.simulation.end;
        self.simulation.next_event().filter(|at| *at <= end)
    }

    fn collect(&mut self) -> bool {
        self.collect_at(self.pulse.now())
    }

    /// Does what the program has asked for, and takes the packets that it has sent, at this instant, before
    /// which nothing is due. Returns whether tasks may run because of it.
    fn collect_at(&mut self, now: Instant) -> bool {
        self.simulation.set_now(now);
        let moved = self.stage.follow(self.simulation);
        self.pulse.take_rung(&mut self.rung);
        for node in self.rung.drain(..) {
            self.simulation.pump_guest(node);
        }
        moved
    }

    /// The scenario has ended before the program.
    fn over(&mut self) -> RunError {
        self.pulse.move_clock(self.simulation.end);
        match self.simulation.next_event() {
            None => RunError::Stalled { since: self.pulse.active(), end: self.simulation.end },
            Some(_) => self.out_of_time(),
        }
    }

    /// The scenario has ended before the program, which may have waited for something.
    pub fn out_of_time(&self) -> RunError {
        RunError::OutOfTime { since: self.pulse.active(), end: self.simulation.end }
    }
}

/// For the wall clock.
#[cfg(feature = "real-time")]
impl Turn<'_> {
    /// The end of the scenario.
    pub fn end(&self) -> Instant {
        self.simulation.end
    }

    /// When to catch up again: at the next event, or at the end.
    pub fn next_stop(&mut self) -> Instant {
        self.next_event().unwrap_or(self.simulation.end)
    }

    /// Lets everything happen that is due at `now`, and then what the program has asked for and sent.
    /// `happened` is called after each event.
    pub fn catch_up(&mut self, now: Instant, mut happened: impl FnMut(&Simulation)) {
        while self.simulation.step(now) {
            happened(self.simulation);
        }
        self.collect_at(now);
    }
}

fn millis(at: Instant) -> u64 {
    at.as_nanos() / MILLI
}

/// The last nanosecond of the millisecond of `at`.
fn last_of_milli(at: Instant) -> Instant {
    Instant::from_nanos((millis(at) + 1) * MILLI - 1)
}

/// Tokio's timers count in milliseconds.
const MILLI: u64 = 1_000_000;
