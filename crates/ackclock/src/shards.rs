//! The shards of a stack: one for each queue of its device, and what is done on all of them.
//!
//! A shard ([`Shared`]) is a queue, an endpoint behind a lock of its own, and a driver. A stack with one device is one shard,
//! and all here comes down to it. With several queues, a connection lives where its packets arrive: an accepted one at the
//! shard where its SYN came, one that is opened at the next in turn, whose queue it leaves by and is answered by. Its stream
//! holds a [`Handle`] of that shard, so that reading, writing and waiting touch no other.
//!
//! What is the stack's own is on each shard, or on the first:
//!
//! | what | where |
//! |---|---|
//! | addresses, routes, MTU, keys, phase | on each, told in one order ([`Handle::ordered`]) |
//! | listeners | a part on each, with its share of the bounds (`listener::parts`) |
//! | bound ports | decided by the first, noted by the others |
//! | names of connections, memory budget, whether SYN cookies are out | shared by the endpoints themselves |
//! | UDP, other packets, fragments, echo replies | the first |
//!
//! A packet that arrives at another shard is put into its [`Inbox`], and the driver there is woken. No shard's lock is taken
//! under another's.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use ackclock_core::{Counters, Instant, Stray};

use crate::StackError;
use crate::shared::{Place, Seat, Shared, Woken};
use crate::state::{Queue, State};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};

/// All shards of a stack.
#[derive(Debug)]
pub(crate) struct Shards {
    list: Box<[Shared]>,
    /// Held while something is done on one after the other.
    order: Mutex<()>,
    handles: AtomicUsize,
    /// How many have nothing left to finish.
    finished: AtomicUsize,
    /// How many connections have been opened.
    opened: AtomicUsize,
    #[cfg(feature = "dns")]
    resolver: std::sync::OnceLock<crate::dns::Resolver>,
}

// As `Shared` is; what resolves names is asked again after a panic, and has locks of its own.
impl std::panic::UnwindSafe for Shards {}
impl std::panic::RefUnwindSafe for Shards {}

/// One shard of a stack, and the way to the others.
#[derive(Clone, Debug)]
pub(crate) struct ShardRef {
    shards: Arc<Shards>,
    index: usize,
}

/// A counted reference of a stack, listener or stream: the stack closes when the last one is dropped.
#[derive(Debug)]
pub(crate) struct Handle(ShardRef);

/// Packets that arrived at other shards and are this one's.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<VecDeque<Stray>>,
    dropped: AtomicU64,
}

/// Several shards in one order: see [`Handle::ordered`].
pub(crate) struct Ordered<'a> {
    shards: &'a Shards,
    woken: Vec<Woken>,
}

impl Shards {
    pub(crate) fn new(list: Vec<Shared>) -> Arc<Self> {
        Arc::new(Self {
            list: list.into(),
            order: Mutex::new(()),
            handles: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            #[cfg(feature = "dns")]
            resolver: std::sync::OnceLock::new(),
        })
    }

    /// A reference of each.
    pub(crate) fn refs(self: &Arc<Self>) -> impl Iterator<Item = ShardRef> + '_ {
        (0..self.list.len()).map(|index| ShardRef { shards: Arc::clone(self), index })
    }
}

impl ShardRef {
    /// All shards of the stack, this one included.
    pub(crate) fn all(&self) -> &[Shared] {
        &self.shards.list
    }

    fn others(&self) -> impl Iterator<Item = &Shared> {
        let own = self.index;
        self.all().iter().enumerate().filter(move |(index, _)| *index != own).map(|(_, shard)| shard)
    }

    /// Counts of all shards.
    pub(crate) fn counters(&self) -> Counters {
        self.all().iter().map(Shared::counters).fold(Counters::default(), Counters::plus)
    }

    /// Gives packets to the shards that they are for.
    pub(crate) fn hand_over(&self, strays: &mut Vec<Stray>) {
        for stray in strays.drain(..) {
            let Some(to) = self.all().get(stray.to()) else { continue };
            if to.inbox.push(stray) {
                to.wake_driver();
            }
        }
    }

    /// This shard has nothing left to finish, which it says once; whether none has.
    pub(crate) fn finish(&self, said: &mut bool) -> bool {
        if !std::mem::replace(said, true) {
            self.shards.finished.fetch_add(1, Ordering::AcqRel);
        }
        self.have_finished()
    }

    /// Whether no shard has anything left to finish.
    pub(crate) fn have_finished(&self) -> bool {
        self.shards.finished.load(Ordering::Acquire) >= self.all().len()
    }

    /// This shard is down: so is the stack. Where all have finished, the others see so themselves.
    pub(crate) fn spread(&self, why: &StackError) {
        for other in self.others() {
            match why {
                StackError::Shutdown => other.wake_driver(),
                why => other.fail(why.clone()),
            }
        }
    }
}

impl Deref for ShardRef {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shards.list[self.index]
    }
}

impl Handle {
    pub(crate) fn new(shard: ShardRef) -> Self {
        shard.shards.handles.fetch_add(1, Ordering::Relaxed);
        Self(shard)
    }

    /// A reference that does not keep the stack up.
    pub(crate) fn uncounted(&self) -> ShardRef {
        self.0.clone()
    }

    /// What resolves names through the stack, if it has name servers; made when it is needed first.
    #[cfg(feature = "dns")]
    pub(crate) fn resolver(&self) -> std::io::Result<Option<&crate::dns::Resolver>> {
        let shards = &self.0.shards;
        if shards.resolver.get().is_none() {
            let names = shards.list[0].look(|state| Arc::clone(&state.names));
            if names.servers.is_empty() {
                return Ok(None);
            }
            // Another that was made meanwhile is as good.
            let _ = shards.resolver.set(crate::dns::Resolver::new(names, Arc::downgrade(shards))?);
        }
        Ok(shards.resolver.get())
    }

    /// Which of the stack's shards it is.
    pub(crate) fn index(&self) -> usize {
        self.0.index
    }

    /// The same stack by another of its shards.
    pub(crate) fn at(&self, index: usize) -> Self {
        Self::new(ShardRef { index, ..self.0.clone() })
    }

    /// All shards, beginning with the one whose turn it is to open a connection, or always with the same for a `server` of
    /// which something is remembered there.
    pub(crate) fn in_turn(&self, server: Option<IpAddr>) -> impl ExactSizeIterator<Item = usize> + use<> {
        let count = self.all().len();
        let first = match server {
            Some(IpAddr::V4(addr)) => addr.octets().iter().map(|&byte| usize::from(byte)).sum(),
            Some(IpAddr::V6(addr)) => addr.octets().iter().map(|&byte| usize::from(byte)).sum(),
            None => self.0.shards.opened.fetch_add(1, Ordering::Relaxed),
        };
        (0..count).map(move |step| (first % count + step) % count)
    }

    /// Does something on each shard, the first before the others; the first one's result.
    pub(crate) fn each<R>(&self, mut f: impl FnMut(&mut State, Instant) -> R) -> R {
        self.ordered(|shards| {
            let result = shards.on(0, &mut f);
            (1..shards.len()).for_each(|index| drop(shards.on(index, &mut f)));
            result
        })
    }

    /// Does something on several shards, one after the other, while no other such thing is done: all see them in one order.
    /// Who waits for it is woken at the end.
    pub(crate) fn ordered<R>(&self, f: impl FnOnce(&mut Ordered<'_>) -> R) -> R {
        let shards = &*self.0.shards;
        let several = shards.list.len() > 1;
        let order = several.then(|| shards.order.lock().unwrap_or_else(PoisonError::into_inner));
        let mut ordered = Ordered { shards, woken: Vec::new() };
        let result = f(&mut ordered);
        drop(order);
        let has_news = ordered.woken.iter().any(|woken| woken.has_news);
        ordered.woken.into_iter().for_each(Woken::wake);
        if has_news {
            shards.list.iter().for_each(Shared::tell);
        }
        result
    }

    /// Has every driver look at its state again.
    pub(crate) fn wake_drivers(&self) {
        self.all().iter().for_each(Shared::wake_driver);
    }

    /// Tries `attempt` on each shard, `first` first, until it is ready on one; while it is on none, the task waits in the queue
    /// of each. Which shard it was.
    pub(crate) async fn wait_any<T>(
        &self,
        first: usize,
        queue: impl Fn(usize) -> Queue,
        mut attempt: impl FnMut(usize, &mut State, Instant) -> Poll<T>,
    ) -> (usize, T) {
        let shards = self.all();
        if let [only] = shards {
            return (0, only.wait(queue(0), |state, now| attempt(0, state, now)).await);
        }
        let seat = |(index, shard)| Seat::new(shard, queue(index));
        let mut seats: Vec<Seat<'_>> = shards.iter().enumerate().map(seat).collect();
        poll_fn(|cx| {
            for index in (first..first + shards.len()).map(|index| index % shards.len()) {
                let ready = seats[index].poll(cx, |state, now| attempt(index, state, now));
                if let Poll::Ready(result) = ready {
                    return Poll::Ready((index, result));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The same for the `poll_*` methods.
    pub(crate) fn poll_any<T>(
        &self,
        cx: &mut Context<'_>,
        first: usize,
        queue: impl Fn(usize) -> Queue,
        mut attempt: impl FnMut(usize, &mut State, Instant) -> Poll<T>,
    ) -> Poll<(usize, T)> {
        let shards = self.all();
        for index in (first..first + shards.len()).map(|index| index % shards.len()) {
            let attempt = |state: &mut State, now| attempt(index, state, now);
            let ready = shards[index].poll(cx, queue(index), Place::Poller, attempt);
            if let Poll::Ready(result) = ready {
                return Poll::Ready((index, result));
            }
        }
        Poll::Pending
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.shards.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.each(State::begin_close);
            self.wake_drivers();
        }
    }
}

impl Deref for Handle {
    type Target = ShardRef;
    fn deref(&self) -> &ShardRef {
        &self.0
    }
}

impl Ordered<'_> {
    /// How many shards there are.
    pub(crate) fn len(&self) -> usize {
        self.shards.list.len()
    }

    /// Does something on one of them.
    pub(crate) fn on<R>(&mut self, index: usize, f: impl FnOnce(&mut State, Instant) -> R) -> R {
        let (result, woken) = self.shards.list[index].settle(f);
        self.woken.push(woken);
        result
    }
}

impl Inbox {
    /// Puts a packet in, if there is room; whether the driver is to be woken, as there was none before it.
    fn push(&self, stray: Stray) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= INBOX_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        waiting.push_back(stray);
        waiting.len() == 1
    }

    /// Takes all packets out, into `taken`, which is empty. To be called under the lock under which the driver is noted to
    /// sleep, so that who puts one in later finds it asleep.
    pub(crate) fn take(&self, taken: &mut VecDeque<Stray>) {
        std::mem::swap(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner), taken);
    }

    /// How many packets found no room.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The most packets that wait for a shard.
const INBOX_MAX: usize = 1024;
