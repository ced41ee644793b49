//! The two locks of a shard, and how a call passes through them. A stack with one device is one shard: see
//! [`shards`](crate::shards).
//!
//! [`Shared::state`] guards the endpoint and its waiters; [`Shared::device`] guards the device. A task that
//! needs both takes the state first. The driver holds only the device while it receives, so calls proceed
//! meanwhile.
//!
//! A call ([`Shared::call`], or [`Shared::poll`] where a task may have to wait) runs under the state's lock,
//! once. If it left something to send and the driver sleeps, the caller sends it itself, on its own task: for
//! a request and its answer that saves a task switch, and in a multi-threaded runtime the wake-up of another
//! thread. The driver is woken only when the caller could not finish, or when a timer is now due before the
//! driver would wake.
//!
//! Slices, controllers and wakers of the program are dropped after the locks are released, because their
//! destructors may use the stack: see [`later`].

use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use ackclock_core::later::{self, Scope};
use ackclock_core::{Counters, Instant};
use ackclock_device::Device;
use tokio::task::coop;

use crate::StackError;
use crate::clock::ShardClock;
use crate::inbox::Inbox;
use crate::state::{Phase, Queue, StackState};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::transmit::transmit;
use crate::waiters::WaitKey;

/// The state that a shard's handles and its driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: ShardClock,
    state: Mutex<Locked>,
    device: Mutex<Option<Box<dyn Device>>>,
    pub(crate) inbox: Inbox,
    /// Whether a call has changed something since the driver asked last. Beside the lock, because the driver
    /// asks while the tasks that it woke run.
    acted: AtomicBool,
    /// Whether the driver has packets of the device that the endpoint does not have yet. It changes under the
    /// device's lock to true, and under the state's to false.
    carrying: AtomicBool,
    lock_waits: LockWaits,
}

// As for tokio's sockets: after a call that panics under a lock, the endpoint's bounds and checks still hold
// ([`Shared::lock`]).
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

/// The state, and what the caller needs to know about the driver.
#[derive(Debug)]
pub(crate) struct Locked {
    pub stack: StackState,
    pub driver: Parking,
}

/// The locked state.
#[derive(Debug)]
pub(crate) struct StateGuard<'a> {
    // Released first.
    locked: MutexGuard<'a, Locked>,
    _scope: Scope,
}

/// Whether the driver sleeps, until when, and how it is woken.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    waker: Option<Waker>,
    parked: bool,
    until: Option<Instant>,
    /// It is awake, but lets the tasks that it woke run first.
    lets_others: bool,
}

/// How often a caller found the state's lock taken, and for how long.
#[derive(Debug, Default)]
struct LockWaits {
    times: AtomicU64,
    nanos: AtomicU64,
}

/// Tasks to wake once all locks are released.
#[derive(Debug)]
#[must_use = "a task that is not woken waits for ever"]
pub(crate) struct Woken {
    driver: Option<Waker>,
    tasks: Vec<Waker>,
    /// Whether there is something to [`tell`](Shared::tell), too.
    pub(crate) has_news: bool,
}

/// Where a task waits.
pub(crate) enum WaitSlot<'a> {
    /// In the one slot of a direction's `poll_*` methods.
    Poller,
    /// In the queue, under its own key.
    Queued(&'a mut Option<WaitKey>),
}

impl Shared {
    pub fn new(clock: ShardClock, state: StackState, device: Option<Box<dyn Device>>) -> Self {
        Self {
            clock,
            state: Mutex::new(Locked { stack: state, driver: Parking::default() }),
            device: Mutex::new(device),
            inbox: Inbox::default(),
            acted: AtomicBool::new(false),
            carrying: AtomicBool::new(false),
            lock_waits: LockWaits::default(),
        }
    }

    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    pub fn clock(&self) -> &ShardClock {
        &self.clock
    }

    /// Locks the state. If a call panicked under the lock, the endpoint's own bounds and checks still hold,
    /// so other tasks may continue with their connections.
    pub fn lock(&self) -> StateGuard<'_> {
        let scope = Scope::enter();
        let locked = match self.state.try_lock() {
            Ok(locked) => locked,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait_for_lock(),
        };
        StateGuard { locked, _scope: scope }
    }

    #[cold]
    fn wait_for_lock(&self) -> MutexGuard<'_, Locked> {
        let since = std::time::Instant::now();
        let locked = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.lock_waits.times.fetch_add(1, Ordering::Relaxed);
        self.lock_waits.nanos.fetch_add(nanos, Ordering::Relaxed);
        locked
    }

    /// How often the state's lock was found taken, and the total time of those waits.
    pub fn lock_waits(&self) -> (u64, Duration) {
        let nanos = self.lock_waits.nanos.load(Ordering::Relaxed);
        (self.lock_waits.times.load(Ordering::Relaxed), Duration::from_nanos(nanos))
    }

    /// Counters of the shard's work and refusals.
    pub fn counters(&self) -> Counters {
        let mut counters = self.look(|state| state.endpoint.counters());
        counters.dropped_strays += self.inbox.dropped();
        counters
    }

    pub fn device(&self) -> MutexGuard<'_, Option<Box<dyn Device>>> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether the driver has packets that the endpoint does not have yet.
    pub fn set_carrying(&self, carrying: bool) {
        self.carrying.store(carrying, Ordering::Release);
    }

    /// Whether it has. Under both locks, the answer stays.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub fn is_carrying(&self) -> bool {
        self.carrying.load(Ordering::Acquire)
    }

    /// Whether a call has changed something since this was asked last.
    pub fn take_acted(&self) -> bool {
        self.acted.swap(false, Ordering::Relaxed)
    }

    /// Reads the state.
    pub fn look<R>(&self, f: impl FnOnce(&StackState) -> R) -> R {
        f(&self.lock().stack)
    }

    /// A call of the application: changes the state, sends the waiting packets if the driver sleeps, and
    /// wakes the tasks that waited for the change.
    pub fn call<R>(&self, f: impl FnOnce(&mut StackState, Instant) -> R) -> R {
        self.call_waking(f, |_| true)
    }

    /// As [`call`](Self::call), for a call that reads or closes. While the driver lets the woken tasks run,
    /// the packets of such a call leave in the driver's turn. If they left at once, the acknowledgements of
    /// other connections would leave with them, before the tasks of those connections have run and could
    /// reply in the same packets.
    pub fn call_unhurried<R>(&self, f: impl FnOnce(&mut StackState, Instant) -> R) -> R {
        self.call_waking(f, |driver| !driver.lets_others)
    }

    /// As [`call`](Self::call), but the caller wakes the tasks.
    pub fn call_unwoken<R>(&self, f: impl FnOnce(&mut StackState, Instant) -> R) -> (R, Woken) {
        self.call_leaving(f, |_| true)
    }

    fn call_waking<R>(
        &self,
        f: impl FnOnce(&mut StackState, Instant) -> R,
        leaves: impl FnOnce(&Parking) -> bool,
    ) -> R {
        // A destructor that panics leaves no task asleep.
        let _scope = Scope::enter();
        let (result, woken) = self.call_leaving(f, leaves);
        self.wake(woken);
        result
    }

    fn call_leaving<R>(
        &self,
        f: impl FnOnce(&mut StackState, Instant) -> R,
        leaves: impl FnOnce(&Parking) -> bool,
    ) -> (R, Woken) {
        let now = self.now();
        let mut locked = self.lock();
        self.acted.store(true, Ordering::Relaxed);
        let result = f(&mut locked.stack, now);
        let leaves = leaves(&locked.driver);
        (result, self.settle(&mut locked, now, leaves))
    }

    /// Handles the consequences of a call, even of one that failed: events, packets if the call `leaves` them
    /// to no one else, and an earlier deadline.
    fn settle(&self, locked: &mut Locked, now: Instant, leaves: bool) -> Woken {
        locked.stack.dispatch(now);
        let driver = if leaves { self.flush(locked, now) } else { None };
        let tasks = locked.stack.take_woken();
        locked.woken(driver, tasks)
    }

    fn wake(&self, woken: Woken) {
        let has_news = woken.has_news;
        woken.wake();
        if has_news {
            self.tell();
        }
    }

    /// Reports changes of connections to `tracing`, unless another thread is doing so.
    #[cfg(feature = "tracing")]
    pub fn tell(&self) {
        let Some(mut spans) = self.lock().stack.spans.take() else { return };
        loop {
            let mut locked = self.lock();
            let Some(batch) = locked.stack.endpoint.poll_changes() else {
                locked.stack.spans = Some(spans);
                return;
            };
            drop(locked);
            spans.tell(&batch);
        }
    }

    #[cfg(not(feature = "tracing"))]
    pub fn tell(&self) {}

    /// Another shard is down, and so is this one: its device is dropped before any task can know.
    pub fn fail(&self, why: StackError) {
        let now = self.now();
        let mut locked = self.lock();
        if !matches!(locked.stack.phase, Phase::Down(_)) {
            locked.stack.go_down(now, why);
        }
        drop(self.device().take());
        let tasks = std::mem::take(&mut locked.stack.woken);
        let driver = locked.driver.unpark();
        let woken = locked.woken(driver, tasks);
        drop(locked);
        self.wake(woken);
    }

    /// Tries `attempt`; while it is pending, the task waits in `queue`. It takes one lock, and allocates
    /// nothing once the list exists. No wake-up is lost, because the attempt and the registration happen
    /// under the same lock.
    pub fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        queue: Queue,
        slot: WaitSlot<'_>,
        attempt: impl FnOnce(&mut StackState, Instant) -> Poll<T>,
    ) -> Poll<T> {
        let coop = ready!(coop::poll_proceed(cx));
        let now = self.now();
        let mut locked = self.lock();
        let held = queue.writes().is_some_and(|id| locked.stack.holds_writer(now, id));
        let outcome = if held { Poll::Pending } else { attempt(&mut locked.stack, now) };
        // A reader's acknowledgement goes with the data that it will write, or with the driver's next turn.
        let leaves =
            !locked.driver.lets_others || queue.writes().is_some() || matches!(queue, Queue::UdpWrite(_));
        if outcome.is_pending() {
            // The task waits before the call's consequences are handled, because it may wait for one of them.
            let replaced = match (locked.stack.list(queue), slot) {
                (Some(list), WaitSlot::Poller) => list.register_poller(cx.waker()),
                (Some(list), WaitSlot::Queued(key)) => list.register(key, cx.waker(), queue),
                (None, _) => None,
            };
            let mut woken = self.settle(&mut locked, now, leaves);
            if held {
                woken.driver = woken.driver.or_else(|| locked.driver.unpark());
            }
            drop(locked);
            drop(replaced);
            self.wake(woken);
            return Poll::Pending;
        }
        let left = match slot {
            WaitSlot::Queued(key) => key.take().and_then(|key| locked.stack.leave(queue, key)),
            WaitSlot::Poller => None,
        };
        self.acted.store(true, Ordering::Relaxed);
        let woken = self.settle(&mut locked, now, leaves);
        drop(locked);
        drop(left);
        self.wake(woken);
        coop.made_progress();
        outcome
    }

    /// Waits in `queue` until `attempt` is ready. Cancel-safe if the attempt does nothing before it is ready.
    pub async fn wait<T>(
        &self,
        queue: Queue,
        mut attempt: impl FnMut(&mut StackState, Instant) -> Poll<T>,
    ) -> T {
        let mut seat = Seat::new(self, queue);
        poll_fn(|cx| seat.poll(cx, &mut attempt)).await
    }

    /// Sends what there is if the driver sleeps. Returns the driver's waker if the driver must continue.
    fn flush(&self, locked: &mut Locked, now: Instant) -> Option<Waker> {
        if !locked.driver.parked {
            // It looks at everything again before it sleeps.
            return None;
        }
        let done = !locked.stack.endpoint.has_outgoing() || self.sends_all(locked, now);
        locked.stack.endpoint.flush_journal();
        let due = locked.stack.poll_timeout();
        let early = due.is_some_and(|due| locked.driver.until.is_none_or(|until| due < until));
        // The driver alone ends a stack that has nothing left to do.
        let done = done && !locked.stack.has_finished();
        if done && !early && !locked.stack.following.is_empty() {
            // A writer's partly filled packet leaves with the driver's turn at the latest.
            return locked.driver.waker.clone();
        }
        if done && !early { None } else { locked.driver.unpark() }
    }

    /// Sends what there is, in the place of the driver. Returns whether nothing is left.
    fn sends_all(&self, locked: &mut Locked, now: Instant) -> bool {
        // The owner of a port takes the packets itself.
        let Some(waker) = &locked.driver.waker else { return false };
        let Ok(mut device) = self.device.try_lock() else { return false };
        let Some(device) = device.as_mut() else { return false };
        let _context = self.clock.enter();
        let cx = &mut Context::from_waker(waker);
        let sent = transmit(&mut locked.stack, device, cx, now, self.clock());
        match sent {
            Ok(sent) => {
                // The connection may have stayed only for its last packet.
                locked.stack.dispatch(now);
                sent.is_complete()
            }
            Err(error) => {
                locked.stack.go_down(now, StackError::Device(Arc::new(error)));
                false
            }
        }
    }

    /// Makes the driver look at the state again.
    pub fn wake_driver(&self) {
        let waker = self.lock().driver.unpark();
        wake(waker);
    }
}

impl Deref for StateGuard<'_> {
    type Target = Locked;
    fn deref(&self) -> &Locked {
        &self.locked
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut Locked {
        &mut self.locked
    }
}

impl Locked {
    /// Collects the tasks to wake after a call: the driver, `tasks`, and readers of the trace if there are
    /// records.
    fn woken(&mut self, driver: Option<Waker>, mut tasks: Vec<Waker>) -> Woken {
        if self.stack.endpoint.has_traces() {
            self.stack.traces.wake(&mut tasks);
        }
        Woken { driver, tasks, has_news: self.stack.has_news() }
    }
}

impl Parking {
    /// The driver sleeps until `until`, or until it is woken.
    pub fn park(&mut self, waker: &Waker, until: Option<Instant>) {
        if !self.waker.as_ref().is_some_and(|old| old.will_wake(waker))
            && let Some(old) = self.waker.replace(waker.clone())
        {
            later::drop_later(old);
        }
        self.parked = true;
        self.until = until;
        self.lets_others = false;
    }

    /// The driver has woken tasks and continues once they have run. They send what they write themselves, as
    /// if it slept, and need not wake it for what is due.
    pub fn let_others(&mut self, waker: &Waker, now: Instant) {
        self.park(waker, Some(now));
        self.lets_others = true;
    }

    /// The driver is awake, or about to be; `Some` if it slept.
    pub fn unpark(&mut self) -> Option<Waker> {
        self.lets_others = false;
        std::mem::take(&mut self.parked).then(|| self.waker.clone()).flatten()
    }
}

/// A place in a queue that is released when the waiting future is dropped.
pub(crate) struct Seat<S: Deref<Target = Shared>> {
    shared: S,
    queue: Queue,
    key: Option<WaitKey>,
}

impl<S: Deref<Target = Shared>> Seat<S> {
    pub fn new(shared: S, queue: Queue) -> Self {
        Self { shared, queue, key: None }
    }

    /// See [`Shared::poll`].
    pub fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: impl FnOnce(&mut StackState, Instant) -> Poll<T>,
    ) -> Poll<T> {
        self.shared.poll(cx, self.queue, WaitSlot::Queued(&mut self.key), attempt)
    }
}

impl<S: Deref<Target = Shared>> Drop for Seat<S> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut locked = self.shared.lock();
        let waker = locked.stack.leave(self.queue, key);
        drop(locked);
        drop(waker);
    }
}

impl Woken {
    pub fn wake(self) {
        wake(self.driver);
        self.tasks.into_iter().for_each(Waker::wake);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Turns `Pending` into an error, for the `try_*` methods.
pub(crate) fn now_or_would_block<T>(outcome: Poll<io::Result<T>>) -> io::Result<T> {
    match outcome {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
