//! A listener's calls, under the lock.

use std::io;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use ackclock_core::{
    BoundId, ConnectionId, Decision, FourTuple, Incoming, IncomingId, Instant, ListenAddr, ListenOptions,
    ListenerId,
};

use crate::error;
use crate::state::StackState;

/// Starts to listen, on the socket's `bound` address if there is one.
pub(super) fn listen(
    state: &mut StackState,
    now: Instant,
    bound: Option<BoundId>,
    options: ListenOptions,
    linger: Option<Duration>,
) -> io::Result<ListenerId> {
    state.check_up()?;
    state.check_tcp(options.tcp.as_ref())?;
    let decisions_max = options.deferred.then_some(options.decisions_max);
    let asked = options.addr;
    let id = match bound {
        Some(bound) => state.endpoint.listen_bound(now, bound, options),
        None => state.endpoint.listen(now, options),
    };
    let id = id.map_err(error::listen)?;
    let addr = state.endpoint.listener_addr(id).unwrap_or(asked);
    state.listeners.add(id, addr, linger, decisions_max);
    Ok(id)
}

/// The address and port listened on.
pub(super) fn addr(state: &StackState, id: ListenerId) -> io::Result<ListenAddr> {
    state.check_alive()?;
    state.listeners.addr(id).ok_or_else(|| state.closed().into())
}

/// The next connection of a listener, and both its addresses.
pub(super) fn accept(
    state: &mut StackState,
    now: Instant,
    id: ListenerId,
) -> Poll<io::Result<(ConnectionId, FourTuple)>> {
    let (accepted, _) = ready!(state.accept_decided(now, id))?;
    let tuple = state.connection(accepted)?.tuple();
    Poll::Ready(Ok((accepted, tuple)))
}

/// The next SYN that waits for a decision.
pub(super) fn next_incoming(
    state: &mut StackState,
    id: ListenerId,
) -> Poll<io::Result<(IncomingId, Incoming)>> {
    addr(state, id)?;
    state.listeners.next_incoming(&state.endpoint, id).map_or(Poll::Pending, |next| Poll::Ready(Ok(next)))
}

/// Answers a SYN, and notes that a future waits for the connection to be established.
pub(super) fn accept_incoming(
    state: &mut StackState,
    now: Instant,
    listener: ListenerId,
    id: IncomingId,
) -> io::Result<()> {
    state.check_up()?;
    let StackState { listeners, endpoint, .. } = state;
    listeners.await_handshake(listener, id, || endpoint.decide(now, id, Decision::Accept))
}

/// The connection that an accepted SYN led to. If the waker replaces another, that one goes to `replaced`, to
/// be dropped outside the lock.
pub(super) fn poll_handshake(
    state: &mut StackState,
    cx: &Context<'_>,
    listener: ListenerId,
    id: IncomingId,
    replaced: &mut Option<Waker>,
) -> Poll<io::Result<ConnectionId>> {
    state.check_alive()?;
    state.listeners.poll_handshake(cx, listener, id, replaced)
}

/// The future that waited for this handshake is gone; a connection that came of it is given up. Returns the
/// waker, to be dropped outside the lock.
pub(super) fn forget_handshake(
    state: &mut StackState,
    now: Instant,
    listener: ListenerId,
    id: IncomingId,
) -> Option<Waker> {
    let (waker, connection) = state.listeners.forget_handshake(listener, id);
    if let Some(connection) = connection {
        state.release(now, connection);
    }
    waker
}
