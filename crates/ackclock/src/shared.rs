//! The two locks of a stack, and how a call passes through them.
//!
//! [`Shared::state`] guards the endpoint and its waiters; [`Shared::device`] guards the device. Whoever wants both
//! takes the state first. The driver holds the device alone while it receives, so calls go on meanwhile.
//!
//! A call runs under the state's lock, once. If it left something to send and the driver sleeps, the caller sends it
//! itself, on its own task: for a request and its answer that saves a task switch, in a multi-threaded runtime a
//! wake-up of another thread. The driver is woken only when the caller could not finish, or when a timer has become
//! due earlier than the driver sleeps.

use std::future::poll_fn;
use std::io;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use ackclock_core::Instant;
use ackclock_device::Device;
use tokio::task::coop;

use crate::clock::Clock;
use crate::state::{Queue, State};
use crate::waiters::WaitKey;
use crate::{StackError, driver};

/// What a stack's handles and its driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Box<dyn Clock>,
    state: Mutex<Locked>,
    device: Mutex<Option<Box<dyn Device>>>,
    handles: AtomicUsize,
}

// As tokio's sockets are: a call that panics under a lock leaves the endpoint's bounds and checks in force ([`Shared::lock`]).
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

/// The state and what the caller needs to know of the driver.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) stack: State,
    pub(crate) driver: Parking,
}

/// Whether the driver sleeps, until when, and how it is woken.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    waker: Option<Waker>,
    parked: bool,
    until: Option<Instant>,
}

/// A counted reference of a stack, listener or stream: the stack closes when the last one is dropped.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Shared>);

/// How a task that must wait is found again.
pub(crate) enum Place<'a> {
    /// By the one place of a direction's `poll_*` methods.
    Poller,
    /// By a place of its own in the queue.
    Queued(&'a mut Option<WaitKey>),
}

impl Shared {
    pub(crate) fn new(clock: Box<dyn Clock>, state: State, device: Option<Box<dyn Device>>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            state: Mutex::new(Locked { stack: state, driver: Parking::default() }),
            device: Mutex::new(device),
            handles: AtomicUsize::new(0),
        })
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The state. If a call panicked under the lock, the endpoint's own bounds and checks still hold, so others may
    /// go on with their connections.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn device(&self) -> MutexGuard<'_, Option<Box<dyn Device>>> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the state.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        f(&self.lock().stack)
    }

    /// A call that reads or writes data: at most something to send and a timer come of it.
    pub(crate) fn call<R>(&self, f: impl FnOnce(&mut State, Instant) -> R) -> R {
        let now = self.now();
        let mut locked = self.lock();
        let result = f(&mut locked.stack, now);
        let driver = self.flush(&mut locked, now);
        let woken = woken_by_traces(&mut locked.stack);
        drop(locked);
        wake(driver);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// A call that changes what others may wait for: they are told.
    pub(crate) fn control<R>(&self, f: impl FnOnce(&mut State, Instant) -> R) -> R {
        let now = self.now();
        let mut locked = self.lock();
        let result = f(&mut locked.stack, now);
        locked.stack.dispatch(now);
        let woken = locked.stack.take_woken();
        let driver = self.flush(&mut locked, now);
        drop(locked);
        wake(driver);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Tries `attempt`; while it is pending, the task waits in `queue`. One lock, no allocation once the list
    /// exists; no wake-up is lost, since the attempt and the registration happen under the same lock.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        queue: Queue,
        place: Place<'_>,
        attempt: impl FnOnce(&mut State, Instant) -> Poll<T>,
    ) -> Poll<T> {
        let coop = ready!(coop::poll_proceed(cx));
        let now = self.now();
        let mut locked = self.lock();
        let outcome = attempt(&mut locked.stack, now);
        if outcome.is_pending() {
            let replaced = match (locked.stack.list(queue), place) {
                (Some(list), Place::Poller) => list.register_poller(cx.waker()),
                (Some(list), Place::Queued(key)) => list.register(key, cx.waker()),
                (None, _) => None,
            };
            drop(locked);
            drop(replaced);
            return Poll::Pending;
        }
        let left = match place {
            Place::Queued(key) => key.take().and_then(|key| locked.stack.leave(queue, key)),
            Place::Poller => None,
        };
        let driver = self.flush(&mut locked, now);
        let woken = woken_by_traces(&mut locked.stack);
        drop(locked);
        drop(left);
        wake(driver);
        woken.into_iter().for_each(Waker::wake);
        coop.made_progress();
        outcome
    }

    /// Waits in `queue` until `attempt` is ready. Cancel-safe if the attempt does nothing before it is ready.
    pub(crate) async fn wait<T>(
        &self,
        queue: Queue,
        mut attempt: impl FnMut(&mut State, Instant) -> Poll<T>,
    ) -> T {
        let mut seat = Seat { shared: self, queue, key: None };
        poll_fn(|cx| self.poll(cx, queue, Place::Queued(&mut seat.key), &mut attempt)).await
    }

    /// Sends what there is if the driver sleeps; returns the driver's waker if it must go on itself.
    fn flush(&self, locked: &mut Locked, now: Instant) -> Option<Waker> {
        if !locked.driver.parked {
            // It looks at everything again before it sleeps.
            return None;
        }
        let done = match (&locked.driver.waker, self.device.try_lock().as_deref_mut()) {
            (Some(waker), Ok(Some(device))) => {
                let sent = driver::transmit(&mut locked.stack, device, &mut Context::from_waker(waker), now);
                match sent {
                    Ok(sent) => sent.is_complete(),
                    Err(error) => {
                        locked.stack.go_down(now, StackError::Device(Arc::new(error)));
                        false
                    }
                }
            }
            // A foreign driver takes the packets itself.
            _ => false,
        };
        let due = locked.stack.poll_timeout();
        let early = due.is_some_and(|due| locked.driver.until.is_none_or(|until| due < until));
        if done && !early { None } else { locked.driver.unpark() }
    }

    /// Has the driver look at the state again.
    pub(crate) fn wake_driver(&self) {
        let waker = self.lock().driver.unpark();
        wake(waker);
    }
}

impl Parking {
    /// The driver sleeps until `until`, or until it is woken.
    pub(crate) fn park(&mut self, waker: &Waker, until: Option<Instant>) {
        match &mut self.waker {
            Some(old) => old.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
        self.parked = true;
        self.until = until;
    }

    /// The driver is awake, or about to be; `Some` if it slept.
    pub(crate) fn unpark(&mut self) -> Option<Waker> {
        std::mem::take(&mut self.parked).then(|| self.waker.clone()).flatten()
    }
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }

    /// A reference that does not keep the stack up.
    pub(crate) fn uncounted(&self) -> Arc<Shared> {
        Arc::clone(&self.0)
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.control(State::begin_close);
            self.0.wake_driver();
        }
    }
}

impl Deref for Handle {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// A place in a queue that is given up when the waiting future is dropped.
struct Seat<'a> {
    shared: &'a Shared,
    queue: Queue,
    key: Option<WaitKey>,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut locked = self.shared.lock();
        let waker = locked.stack.leave(self.queue, key);
        drop(locked);
        drop(waker);
    }
}

/// Who waits for records, if a call has left some.
fn woken_by_traces(stack: &mut State) -> Vec<Waker> {
    let mut woken = Vec::new();
    if stack.endpoint.has_traces() {
        stack.traces.wake(&mut woken);
    }
    woken
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Turns what is pending into an error, for the `try_*` methods.
pub(crate) fn now_or_would_block<T>(outcome: Poll<io::Result<T>>) -> io::Result<T> {
    match outcome {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
