//! The shards of a stack: one for each queue of its device, and the operations that involve all of them.
//!
//! A shard ([`Shared`]) is a queue, an endpoint behind its own lock, and a driver. A stack with one device is
//! a single shard. With several queues, a connection lives where its packets arrive: an accepted one on the
//! shard that received its SYN; an opened one on the next shard in turn, whose queue it leaves by, and which
//! receives the answers. Its stream holds a [`Handle`] of that shard, so reading, writing and waiting touch
//! no other.
//!
//! State that belongs to the whole stack is on each shard, or on the first:
//!
//! | what | where |
//! |---|---|
//! | addresses, routes, MTU, keys, phase | on each, changed in one order ([`Handle::ordered`]) |
//! | listeners | a part on each, with its share of the bounds (`listener::parts`) |
//! | bound ports | decided by the first, noted by the others |
//! | names of connections, memory budget, whether SYN cookies are out | shared by the endpoints themselves |
//! | UDP, other packets, fragments, echo replies | the first |
//!
//! A packet for another shard goes into that shard's [`Inbox`](crate::inbox::Inbox), and its driver is woken.
//! No shard's lock is taken under another's.

use std::future::poll_fn;
#[cfg(feature = "dns")]
use std::io;
use std::net::IpAddr;
use std::ops::Deref;
#[cfg(feature = "dns")]
use std::sync::Weak;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use ackclock_core::later::Scope;
use ackclock_core::{Counters, Histograms, Instant, Stray};

use crate::StackError;
use crate::hosts::Hosts;
#[cfg(feature = "dns")]
use crate::name_servers::{NameLookup, Names};
use crate::shared::{Seat, Shared, WaitSlot, Woken};
use crate::state::{Queue, StackState};
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// All shards of a stack.
#[derive(Debug)]
pub(crate) struct Shards {
    list: Box<[Shared]>,
    /// Held while an operation runs on one shard after the other.
    order: Mutex<()>,
    handles: AtomicUsize,
    /// The number of shards with nothing left to finish.
    finished: AtomicUsize,
    /// The number of connections opened so far.
    opened: AtomicUsize,
    #[cfg(feature = "dns")]
    names: NameLookupSlot,
}

/// The stack's resolver, made on first use, which sends through sockets of the stack.
#[cfg(feature = "dns")]
#[derive(Debug)]
struct NameLookupSlot {
    make: MakeNameLookup,
    made: std::sync::OnceLock<Arc<dyn NameLookup>>,
}

/// Makes a [`NameLookup`] that does not keep the stack up.
#[cfg(feature = "dns")]
pub(crate) type MakeNameLookup = fn(Arc<Names>, Weak<Shards>) -> io::Result<Arc<dyn NameLookup>>;

// As `Shared` is; the name servers are asked again after a panic, and what asks them has its own locks.
impl std::panic::UnwindSafe for Shards {}
impl std::panic::RefUnwindSafe for Shards {}

/// One shard of a stack, and the way to the others.
#[derive(Clone, Debug)]
pub(crate) struct ShardRef {
    shards: Arc<Shards>,
    // Half a word, as an open stream's memory is bounded; there are 256 queues at most.
    index: u32,
    owner: Owner,
}

/// Whose sockets are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The program's: their handles keep the stack up.
    Program,
    /// The stack's own, for instance connections to name servers. They are reset when the stack begins to
    /// close, so that they delay nothing.
    #[cfg_attr(not(feature = "dns"), expect(dead_code, reason = "no name server is asked"))]
    Stack,
}

/// A reference held by a stack, listener or stream: the stack closes when the program's last one is dropped.
#[derive(Debug)]
pub(crate) struct Handle(ShardRef);

/// Several shards in one order: see [`Handle::ordered`].
pub(crate) struct Ordered<'a> {
    shards: &'a Shards,
    woken: Vec<Woken>,
}

impl Shards {
    pub fn new(list: Vec<Shared>, #[cfg(feature = "dns")] make_name_lookup: MakeNameLookup) -> Arc<Self> {
        Arc::new(Self {
            list: list.into(),
            order: Mutex::new(()),
            handles: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            #[cfg(feature = "dns")]
            names: NameLookupSlot { make: make_name_lookup, made: std::sync::OnceLock::new() },
        })
    }

    /// A reference to each.
    pub fn refs(self: &Arc<Self>) -> impl Iterator<Item = ShardRef> + '_ {
        let of = |index| ShardRef { shards: Arc::clone(self), index, owner: Owner::Program };
        (0..).take(self.list.len()).map(of)
    }
}

impl ShardRef {
    /// The index of this shard.
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Whose sockets are used through this reference.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// This shard, for the stack's own sockets.
    #[cfg(feature = "dns")]
    pub fn for_stack(self) -> Self {
        Self { owner: Owner::Stack, ..self }
    }

    /// All shards of the stack, this one included.
    pub fn all(&self) -> &[Shared] {
        &self.shards.list
    }

    fn others(&self) -> impl Iterator<Item = &Shared> {
        let own = self.index();
        self.all().iter().enumerate().filter(move |(index, _)| *index != own).map(|(_, shard)| shard)
    }

    /// The sum of all shards' counters.
    pub fn counters(&self) -> Counters {
        self.all().iter().map(Shared::counters).fold(Counters::default(), Counters::plus)
    }

    /// The histograms of all shards together.
    pub fn histograms(&self) -> Histograms {
        let of_shard = |shard: &Shared| shard.look(|state| state.endpoint.histograms());
        self.all().iter().map(of_shard).fold(Histograms::default(), |all, one| all.plus(&one))
    }

    /// Passes packets to the shards that own their connections.
    pub fn hand_over(&self, strays: &mut Vec<Stray>) {
        for stray in strays.drain(..) {
            let Some(to) = self.all().get(stray.to()) else { continue };
            if to.inbox.push(stray) {
                to.wake_driver();
            }
        }
    }

    /// Makes the drivers of the other shards look at their states again.
    pub fn wake_others(&self) {
        self.others().for_each(Shared::wake_driver);
    }

    /// Reports, once, that this shard has nothing left to finish. Returns whether that holds for all.
    pub fn finish(&self, said: &mut bool) -> bool {
        if !std::mem::replace(said, true) {
            self.shards.finished.fetch_add(1, Ordering::AcqRel);
        }
        self.have_finished()
    }

    /// Whether no shard has anything left to finish.
    pub fn have_finished(&self) -> bool {
        self.shards.finished.load(Ordering::Acquire) >= self.all().len()
    }

    /// This shard is down, so the stack is. If all have finished, the others notice by themselves.
    pub fn spread(&self, why: &StackError) {
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
        &self.shards.list[self.index()]
    }
}

impl Handle {
    pub fn new(shard: ShardRef) -> Self {
        if shard.owner == Owner::Program {
            shard.shards.handles.fetch_add(1, Ordering::Relaxed);
        }
        Self(shard)
    }

    /// A reference that does not keep the stack up.
    pub fn uncounted(&self) -> ShardRef {
        self.0.clone()
    }

    /// The names that the stack knows itself.
    pub fn hosts(&self) -> Hosts {
        self.0.shards.list[0].look(|state| state.hosts.clone())
    }

    /// The stack's resolver and its name servers, if it has any. The first use makes them.
    #[cfg(feature = "dns")]
    pub fn name_lookup(&self) -> io::Result<Option<(Arc<Names>, &dyn NameLookup)>> {
        let shards = &self.0.shards;
        let names = shards.list[0].look(|state| Arc::clone(&state.names));
        if names.servers.is_empty() {
            return Ok(None);
        }
        let NameLookupSlot { make, made } = &shards.names;
        if made.get().is_none() {
            // If another was made meanwhile, it will do.
            let _ = made.set(make(Arc::clone(&names), Arc::downgrade(shards))?);
        }
        Ok(made.get().map(|made| (names, &**made)))
    }

    /// This stack through another of its shards.
    pub fn at(&self, index: usize) -> Self {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        Self::new(ShardRef { index, ..self.0.clone() })
    }

    /// All shards, starting with the one whose turn it is to open a connection. For a `server` about which a
    /// shard remembers something, it is always the same shard.
    pub fn in_turn(&self, server: Option<IpAddr>) -> impl ExactSizeIterator<Item = usize> + use<> {
        let count = self.all().len();
        let first = match server {
            Some(IpAddr::V4(addr)) => addr.octets().iter().map(|&byte| usize::from(byte)).sum(),
            Some(IpAddr::V6(addr)) => addr.octets().iter().map(|&byte| usize::from(byte)).sum(),
            None => self.0.shards.opened.fetch_add(1, Ordering::Relaxed),
        };
        (0..count).map(move |step| (first % count + step) % count)
    }

    /// Runs an operation on each shard, the first one before the others. Returns the first one's result.
    pub fn each<R>(&self, mut f: impl FnMut(&mut StackState, Instant) -> R) -> R {
        self.ordered(|shards| {
            let result = shards.on(0, &mut f);
            (1..shards.len()).for_each(|index| drop(shards.on(index, &mut f)));
            result
        })
    }

    /// Runs an operation on several shards, one after the other, while no other such operation runs: all see
    /// them in one order. Waiting tasks are woken at the end.
    pub fn ordered<R>(&self, f: impl FnOnce(&mut Ordered<'_>) -> R) -> R {
        // Values that end under a shard's lock are dropped after `order` is released.
        let _scope = Scope::enter();
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

    /// Makes every driver look at its state again.
    pub fn wake_drivers(&self) {
        self.all().iter().for_each(Shared::wake_driver);
    }

    /// Tries `attempt` on each shard, starting with `first`, until it is ready on one. While it is pending on
    /// all, the task waits in the queue of each. Returns the shard's index with the result.
    pub async fn wait_any<T>(
        &self,
        first: usize,
        queue: impl Fn(usize) -> Queue,
        mut attempt: impl FnMut(usize, &mut StackState, Instant) -> Poll<T>,
    ) -> (usize, T) {
        let shards = self.all();
        if let [only] = shards {
            return (0, only.wait(queue(0), |state, now| attempt(0, state, now)).await);
        }
        let seat = |(index, shard)| Seat::new(shard, queue(index));
        let mut seats: Vec<Seat<&Shared>> = shards.iter().enumerate().map(seat).collect();
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

    /// Polls as [`wait_any`](Self::wait_any) waits, for the `poll_*` methods.
    pub fn poll_any<T>(
        &self,
        cx: &mut Context<'_>,
        first: usize,
        queue: impl Fn(usize) -> Queue,
        mut attempt: impl FnMut(usize, &mut StackState, Instant) -> Poll<T>,
    ) -> Poll<(usize, T)> {
        let shards = self.all();
        for index in (first..first + shards.len()).map(|index| index % shards.len()) {
            let attempt = |state: &mut StackState, now| attempt(index, state, now);
            let ready = shards[index].poll(cx, queue(index), WaitSlot::Poller, attempt);
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
        if self.0.owner == Owner::Program && self.0.shards.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.each(StackState::begin_close);
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
    /// The number of shards.
    pub fn len(&self) -> usize {
        self.shards.list.len()
    }

    /// Runs an operation on one of them.
    pub fn on<R>(&mut self, index: usize, f: impl FnOnce(&mut StackState, Instant) -> R) -> R {
        let (result, woken) = self.shards.list[index].call_unwoken(f);
        self.woken.push(woken);
        result
    }
}
