//! State that the runtime's hooks, the stacks and the turn share: the time, the wakers, and the runtime
//! itself.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use ackclock::Clock;
use ackclock_core::Instant;
#[cfg(feature = "real-time")]
use std::sync::MutexGuard;
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "real-time")]
use super::real::{Lateness, Record};

/// The shared state of one virtual network. One thread advances it; others may read the time.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    now: AtomicU64,
    /// Whether the wall clock moves the time.
    is_real: bool,
    #[cfg(feature = "real-time")]
    record: Mutex<Record>,
    /// When tokio's clock was at zero.
    epoch: OnceLock<tokio::time::Instant>,
    /// When the program was last woken, or one of its stacks called or reached.
    active: AtomicU64,
    /// The waker of the turn's task.
    turn: Mutex<Option<Waker>>,
    /// Whether the turn wants to know when no task can run.
    asked: AtomicBool,
    /// Whether no task could run since then.
    idle: AtomicBool,
    /// Nodes whose stacks the program has called.
    rung: Mutex<Vec<u32>>,
}

/// Wakes the program within the turn.
#[derive(Debug)]
pub(super) struct ProgramWaker {
    pub woken: AtomicBool,
    pub pulse: Arc<Pulse>,
}

/// A single-threaded runtime with a paused clock that notifies the pulse when it is idle.
pub(super) fn runtime(pulse: &Arc<Pulse>, seed: u64) -> io::Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    seed_select(&mut builder, seed);
    let (parks, unparks) = (Arc::clone(pulse), Arc::clone(pulse));
    let runtime = builder
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || parks.on_park())
        .on_thread_unpark(move || unparks.look_at_clock())
        .build()?;
    let within = runtime.enter();
    pulse.epoch.get_or_init(tokio::time::Instant::now);
    drop(within);
    Ok(runtime)
}

#[cfg(tokio_unstable)]
fn seed_select(builder: &mut Builder, seed: u64) {
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
}

/// Only an unstable tokio can seed the order of `select!`.
#[cfg(not(tokio_unstable))]
fn seed_select(_: &mut Builder, _: u64) {}

/// A single-threaded runtime in real time, with sockets of the system. It looks for them often, so that a
/// crowd of tasks does not hold up the turn.
#[cfg(feature = "real-time")]
pub(super) fn real_runtime(pulse: &Pulse) -> io::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().event_interval(TASKS_IN_A_ROW).build()?;
    pulse.epoch.get_or_init(tokio::time::Instant::now);
    Ok(runtime)
}

impl Pulse {
    /// That of a network in real time.
    #[cfg(feature = "real-time")]
    pub fn real() -> Self {
        Self { is_real: true, ..Self::default() }
    }

    /// How late events have been.
    #[cfg(feature = "real-time")]
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lateness in numbers; `None` in virtual time.
    #[cfg(feature = "real-time")]
    pub fn lateness(&self) -> Option<Lateness> {
        self.is_real.then(|| self.record().lateness())
    }

    /// The instant `at` on tokio's clock.
    pub fn tokio_instant(&self, at: Instant) -> tokio::time::Instant {
        let epoch = self.epoch.get().copied().unwrap_or_else(tokio::time::Instant::now);
        epoch + at.saturating_since(Instant::ZERO)
    }

    /// Moves tokio's clock. Its timers of that time fire when the runtime next polls them.
    pub fn move_clock(&self, to: Instant) {
        let by = to.saturating_since(self.now());
        if by > Duration::ZERO {
            let mut advance = std::pin::pin!(tokio::time::advance(by));
            // The first poll moves the clock. It then yields, and nothing waits for it.
            let _ = advance.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
            self.look_at_clock();
        }
    }

    /// When the program was last woken, or one of its stacks called or reached.
    pub fn active(&self) -> Instant {
        Instant::from_nanos(self.active.load(Relaxed))
    }

    /// The program is woken, or one of its stacks called or reached.
    pub fn note_activity(&self) {
        self.active.store(self.now().as_nanos(), Relaxed);
    }

    /// Sets the turn's waker.
    pub fn set_turn(&self, waker: &Waker) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *turn {
            Some(old) => old.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
    }

    /// Asks to learn when no task can run.
    pub fn ask(&self) {
        self.asked.store(true, Relaxed);
    }

    /// Whether no task could run since the last request.
    pub fn take_idle(&self) -> bool {
        self.idle.swap(false, Relaxed)
    }

    /// Notes that a stack was called.
    pub fn ring(&self, node: u32) {
        self.note_activity();
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        if rung.last() != Some(&node) {
            rung.push(node);
        }
        drop(rung);
        self.wake_turn();
    }

    /// The stacks that were called, in the order of the calls.
    pub fn take_rung(&self, into: &mut Vec<u32>) {
        into.append(&mut self.rung.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The runtime parks: no task can run.
    fn on_park(&self) {
        if self.asked.swap(false, Relaxed) {
            self.idle.store(true, Relaxed);
            self.wake_turn();
        }
    }

    /// Reads tokio's clock, which may have moved.
    fn look_at_clock(&self) {
        let Some(epoch) = self.epoch.get() else { return };
        let now = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.now.store(now, Relaxed);
    }

    pub fn wake_turn(&self) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = &*turn {
            turn.wake_by_ref();
        }
    }
}

impl Clock for Pulse {
    fn now(&self) -> Instant {
        if self.is_real {
            self.look_at_clock();
        }
        Instant::from_nanos(self.now.load(Relaxed))
    }
}

impl Wake for ProgramWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Relaxed);
        self.pulse.wake_turn();
    }
}

/// How many tasks run before the turn, and tokio's sockets, come again.
#[cfg(feature = "real-time")]
const TASKS_IN_A_ROW: u32 = 8;
