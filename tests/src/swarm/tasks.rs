//! Programs: async tasks, each of one host, polled by hand, and the clock by which they sleep.
//!
//! Tokio's runtime cannot hold back the tasks of one host while those of another run, and its timers have a
//! resolution of a millisecond, so the swarm polls by itself. The sockets are those of every program.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ackclock::Instant;

type Job = Pin<Box<dyn Future<Output = ()>>>;

/// The tasks of all hosts.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<Option<Task>>,
    ready: Arc<Ready>,
    spawner: Spawner,
}

struct Task {
    host: usize,
    job: Job,
    waker: Waker,
}

/// Starts tasks, also from within one.
#[derive(Clone, Default)]
pub(super) struct Spawner(Rc<RefCell<Vec<(usize, Job)>>>);

/// Which tasks were woken, in their order.
#[derive(Debug, Default)]
struct Ready(Mutex<VecDeque<usize>>);

#[derive(Debug)]
struct Bell {
    ready: Arc<Ready>,
    task: usize,
}

impl Spawner {
    pub(super) fn spawn(&self, host: usize, job: impl Future<Output = ()> + 'static) {
        self.0.borrow_mut().push((host, Box::pin(job)));
    }
}

impl Tasks {
    pub(super) fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Polls the first woken task whose host `may_run`. Returns that host.
    pub(super) fn poll_one(&mut self, may_run: impl Fn(usize) -> bool) -> Option<usize> {
        self.take_new();
        loop {
            let task = self.ready.take(|task| match self.slots.get(task) {
                Some(Some(task)) => may_run(task.host),
                _ => true,
            })?;
            // A task that has ended may still be woken.
            let Some(Some(Task { host, job, waker })) = self.slots.get_mut(task) else { continue };
            let host = *host;
            if job.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                self.slots[task] = None;
            }
            return Some(host);
        }
    }

    /// Ends all tasks of a host, as a reboot does.
    pub(super) fn kill(&mut self, host: usize) {
        self.take_new();
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|task| task.host == host) {
                *slot = None;
            }
        }
    }

    fn take_new(&mut self) {
        let new = std::mem::take(&mut *self.spawner.0.borrow_mut());
        for (host, job) in new {
            let task = self.slots.len();
            let waker = Waker::from(Arc::new(Bell { ready: Arc::clone(&self.ready), task }));
            self.slots.push(Some(Task { host, job, waker }));
            self.ready.push(task);
        }
    }
}

impl Ready {
    fn push(&self, task: usize) {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&task) {
            ready.push_back(task);
        }
    }

    fn take(&self, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = ready.iter().position(|task| eligible(*task))?;
        ready.remove(at)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.push(self.task);
    }
}

/// The time of the simulation, and the deadlines of sleepers.
#[derive(Clone, Default)]
pub(super) struct Time(Rc<Sleepers>);

#[derive(Default)]
struct Sleepers {
    now: Cell<Instant>,
    numbered: Cell<u64>,
    until: RefCell<BTreeMap<(Instant, u64), Waker>>,
}

impl Time {
    pub(super) fn now(&self) -> Instant {
        self.0.now.get()
    }

    /// When the next sleeper is to be woken.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.until.borrow().keys().next().map(|(at, _)| *at)
    }

    /// Moves time forwards, and wakes those whose time has come.
    pub(super) fn set(&self, now: Instant) {
        self.0.now.set(now);
        loop {
            let due = self
                .0
                .until
                .borrow_mut()
                .first_entry()
                .filter(|first| first.key().0 <= now)
                .map(|first| first.remove());
            match due {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    pub(super) fn sleep(&self, duration: Duration) -> Sleep {
        let number = self.0.numbered.get();
        self.0.numbered.set(number + 1);
        Sleep { time: self.clone(), key: (self.now() + duration, number) }
    }
}

pub(super) struct Sleep {
    time: Time,
    key: (Instant, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.time.now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.time.0.until.borrow_mut().insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.time.0.until.borrow_mut().remove(&self.key);
    }
}
