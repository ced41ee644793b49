//! A listener's parts: one on each shard of its stack, each with its share of the bounds.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use ackclock_core::{BindOptions, BoundId, Instant, ListenAddr, ListenOptions, ListenerId, Sharing};

use super::calls::{self, addr};
use crate::error;
use crate::shards::{Handle, Ordered};
use crate::state::{Queue, StackState};
use crate::sync::{AtomicUsize, Ordering};

/// The parts of a listener, which close together.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) shared: Handle,
    /// By shard.
    ids: Box<[ListenerId]>,
    /// The part to ask first next time: they take turns.
    turn: AtomicUsize,
}

impl Parts {
    /// Starts to listen, on the socket's `bound` address if there is one.
    pub fn new(
        shared: Handle,
        bound: Option<BoundId>,
        options: &ListenOptions,
        linger: Option<Duration>,
    ) -> io::Result<Self> {
        let options = share_of(options, shared.all().len());
        let ids = shared.ordered(|shards| listen(shards, bound, &options, linger))?;
        Ok(Self { shared, ids: ids.into(), turn: AtomicUsize::new(0) })
    }

    /// Those of a listener that came from another process.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub fn taken(shared: Handle, id: ListenerId) -> Self {
        Self { shared, ids: [id].into(), turn: AtomicUsize::new(0) }
    }

    /// The address and port listened on.
    pub fn addr(&self) -> io::Result<ListenAddr> {
        self.shared.all()[0].look(|state| addr(state, self.first()))
    }

    /// The part on the first shard, which answers for all where they do not differ.
    pub fn first(&self) -> ListenerId {
        self.ids[0]
    }

    /// Runs an operation on each part. Returns the first one's result.
    pub fn each<R>(&self, mut f: impl FnMut(&mut StackState, Instant, ListenerId) -> R) -> R {
        self.shared.ordered(|shards| {
            let result = shards.on(0, |state, now| f(state, now, self.ids[0]));
            for index in 1..shards.len() {
                shards.on(index, |state, now| f(state, now, self.ids[index]));
            }
            result
        })
    }

    /// Waits until `attempt` succeeds on one of the parts. Returns its result, the part and its shard.
    pub async fn wait<T>(
        &self,
        mut attempt: impl FnMut(&mut StackState, Instant, ListenerId) -> Poll<io::Result<T>>,
    ) -> io::Result<(Handle, ListenerId, T)> {
        let attempt = |index: usize, state: &mut StackState, now| attempt(state, now, self.ids[index]);
        let (index, found) = self.shared.wait_any(self.turn(), |index| self.queue(index), attempt).await;
        Ok((self.shared.at(index), self.ids[index], found?))
    }

    /// Waits until `attempt` succeeds on the part at queue `index`. Returns as [`wait`](Self::wait) does.
    pub async fn wait_at<T>(
        &self,
        index: usize,
        mut attempt: impl FnMut(&mut StackState, Instant, ListenerId) -> Poll<io::Result<T>>,
    ) -> io::Result<(Handle, ListenerId, T)> {
        let Some(&id) = self.ids.get(index) else {
            let last = self.ids.len() - 1;
            let message = format!("there is no queue {index}: the stack's are 0 to {last}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let shard = self.shared.at(index);
        let found = shard.wait(self.queue(index), |state, now| attempt(state, now, id)).await;
        Ok((shard, id, found?))
    }

    /// Polls as [`wait`](Self::wait) waits, for the `poll_*` methods.
    pub fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&mut StackState, Instant, ListenerId) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<(Handle, ListenerId, T)>> {
        let attempt = |index: usize, state: &mut StackState, now| attempt(state, now, self.ids[index]);
        let found = self.shared.poll_any(cx, self.turn(), |index| self.queue(index), attempt);
        found.map(|(index, found)| Ok((self.shared.at(index), self.ids[index], found?)))
    }

    fn queue(&self, index: usize) -> Queue {
        Queue::Accept(self.ids[index])
    }

    fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.ids.len()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.each(|state, now, id| state.close_listener(now, id));
    }
}

/// A shard's share of the bounds: at least one of each.
fn share_of(options: &ListenOptions, shards: usize) -> ListenOptions {
    let part = |max: usize| max.div_ceil(shards);
    ListenOptions {
        backlog: part(options.backlog),
        syn_backlog: part(options.syn_backlog),
        decisions_max: part(options.decisions_max),
        fast_open_max: part(options.fast_open_max),
        ..options.clone()
    }
}

/// Listens on each shard, or on none.
fn listen(
    shards: &mut Ordered<'_>,
    bound: Option<BoundId>,
    options: &ListenOptions,
    linger: Option<Duration>,
) -> io::Result<Vec<ListenerId>> {
    let bound = match (bound, options.addr.port) {
        (None, Some(port)) if shards.len() > 1 => {
            let sharing = Sharing { reuse_address: options.reuse_address, reuse_port: options.reuse_port };
            Some(bind(shards, BindOptions { addr: options.addr.addr, port, sharing })?.0)
        }
        (bound, _) => bound,
    };
    let mut ids = Vec::with_capacity(shards.len());
    for index in 0..shards.len() {
        match shards.on(index, |state, now| calls::listen(state, now, bound, options.clone(), linger)) {
            Ok(id) => ids.push(id),
            Err(error) => {
                for (index, id) in ids.into_iter().enumerate() {
                    shards.on(index, |state, now| state.close_listener(now, id));
                }
                if let Some(bound) = bound {
                    release(shards, bound);
                }
                return Err(error);
            }
        }
    }
    Ok(ids)
}

/// Binds a socket on each shard: the first one decides, and the others take note. Returns the port.
pub(crate) fn bind(shards: &mut Ordered<'_>, options: BindOptions) -> io::Result<(BoundId, u16)> {
    let (id, port) = shards.on(0, |state, now| {
        state.check_up()?;
        let id = state.endpoint.bind(now, options).map_err(error::listen)?;
        let port = state.endpoint.bound_addr(id).and_then(|bound| bound.port);
        Ok::<_, io::Error>((id, port.unwrap_or(options.port)))
    })?;
    for index in 1..shards.len() {
        let noted = shards.on(index, |state, _| state.endpoint.bind_as(id, options));
        if let Err(error) = noted {
            release(shards, id);
            return Err(error::listen(error));
        }
    }
    Ok((id, port))
}

/// Releases a bound port on each shard.
pub(crate) fn release(shards: &mut Ordered<'_>, id: BoundId) {
    for index in 0..shards.len() {
        shards.on(index, |state, _| state.endpoint.release_bound(id));
    }
}
