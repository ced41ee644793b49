//! The listeners' side of a stack's state: accepted connections, and SYNs that wait for a decision.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use ackclock_core::{
    BoundId, ConnectionId, Decision, FourTuple, Incoming, IncomingId, Instant, ListenAddr, ListenOptions,
    ListenerId,
};

use super::StackState;
use crate::error;
use crate::waiters::WaitList;

/// The state of a listener beside the endpoint's.
#[derive(Debug)]
pub(crate) struct ListenerSlot {
    pub(crate) accept: WaitList,
    addr: ListenAddr,
    /// SO_LINGER of the streams that it accepts.
    linger: Option<Duration>,
    deferred: Option<Box<Deferred>>,
}

/// SYNs that wait for a decision, and handshakes that followed one.
#[derive(Debug)]
struct Deferred {
    arrived: VecDeque<IncomingId>,
    arrived_max: usize,
    /// Each entry belongs to the future that accepted the SYN, and goes with it. The endpoint never reuses a
    /// name, so a client that returns does not take over another's entry.
    handshakes: BTreeMap<IncomingId, Handshake>,
}

#[derive(Debug)]
struct Handshake {
    waker: Option<Waker>,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Pending,
    Established(ConnectionId),
    Gone,
}

impl ListenerSlot {
    /// The SYNs that wait for a decision, if its accept is deferred; some may be gone by now.
    pub fn arrived(&self) -> Option<impl Iterator<Item = IncomingId> + '_> {
        self.deferred.as_ref().map(|deferred| deferred.arrived.iter().copied())
    }

    /// Whether a task waits for a handshake that is over.
    pub fn forgets_handshake(&self) -> bool {
        let mut handshakes = self.deferred.iter().flat_map(|deferred| deferred.handshakes.values());
        handshakes
            .any(|handshake| handshake.waker.is_some() && !matches!(handshake.outcome, Outcome::Pending))
    }

    pub fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.accept.wake(woken);
        for handshake in self.deferred.iter_mut().flat_map(|deferred| deferred.handshakes.values_mut()) {
            woken.extend(handshake.waker.take());
        }
    }
}

impl StackState {
    /// Starts to listen, on the socket's `bound` address if there is one.
    pub(crate) fn listen(
        &mut self,
        now: Instant,
        bound: Option<BoundId>,
        options: ListenOptions,
        linger: Option<Duration>,
    ) -> io::Result<ListenerId> {
        self.check_up()?;
        self.check_tcp(options.tcp.as_ref())?;
        let deferred =
            options.deferred.then(|| Box::new(Deferred::new(options.decisions_max.saturating_mul(2))));
        let asked = options.addr;
        let id = match bound {
            Some(bound) => self.endpoint.listen_bound(now, bound, options),
            None => self.endpoint.listen(now, options),
        };
        let id = id.map_err(error::listen)?;
        let addr = self.endpoint.listener_addr(id).unwrap_or(asked);
        self.listeners.insert(id, ListenerSlot { accept: WaitList::default(), addr, linger, deferred });
        Ok(id)
    }

    /// Stops listening, and fails the calls that wait for it.
    pub(crate) fn close_listener(&mut self, now: Instant, id: ListenerId) {
        if let Some(mut slot) = self.listeners.remove(&id) {
            slot.wake_all(&mut self.woken);
            self.endpoint.close_listener(now, id);
            self.discard_if_down(now);
        }
    }

    /// The address and port listened on.
    pub(crate) fn listener_addr(&self, id: ListenerId) -> io::Result<ListenAddr> {
        self.check_alive()?;
        self.listeners.get(&id).map(|slot| slot.addr).ok_or_else(|| self.closed().into())
    }

    /// The next connection of a listener, and both its addresses.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        id: ListenerId,
    ) -> Poll<io::Result<(ConnectionId, FourTuple)>> {
        let (accepted, _) = ready!(self.accept_decided(now, id))?;
        let tuple = self.connection(accepted)?.tuple();
        Poll::Ready(Ok((accepted, tuple)))
    }

    /// The same with the SYN that opened it, for a listener with deferred accept.
    fn accept_decided(
        &mut self,
        now: Instant,
        id: ListenerId,
    ) -> Poll<io::Result<(ConnectionId, Option<IncomingId>)>> {
        self.check_alive()?;
        let linger = self.listeners.get(&id).ok_or_else(|| self.closed())?.linger;
        let Some(accepted) = self.endpoint.accept_decided(now, id) else { return Poll::Pending };
        if linger.is_some() {
            self.streams.get_or_insert(accepted.0, &mut self.woken).rare_mut().linger = linger;
        }
        Poll::Ready(Ok(accepted))
    }

    /// The next SYN that waits for a decision.
    pub(crate) fn next_incoming(&mut self, id: ListenerId) -> Poll<io::Result<(IncomingId, Incoming)>> {
        self.check_alive()?;
        let closed = self.closed();
        let slot = self.listeners.get_mut(&id).ok_or(closed)?;
        let arrived = slot.deferred.as_mut().map(|deferred| &mut deferred.arrived);
        for waiting in arrived.into_iter().flat_map(|arrived| std::iter::from_fn(|| arrived.pop_front())) {
            // It may be gone by now: reset by the client, or held for too long.
            if let Some(incoming) = self.endpoint.incoming(waiting) {
                return Poll::Ready(Ok((waiting, incoming)));
            }
        }
        Poll::Pending
    }

    /// Answers a SYN, and notes that a future waits for the connection to be established.
    pub(crate) fn accept_incoming(
        &mut self,
        now: Instant,
        listener: ListenerId,
        id: IncomingId,
    ) -> io::Result<()> {
        self.check_up()?;
        let slot = self.listeners.get_mut(&listener).ok_or_else(listener_dropped)?;
        let deferred = slot.deferred.as_mut().ok_or_else(listener_dropped)?;
        if !self.endpoint.decide(now, id, Decision::Accept) {
            return Err(client_gone());
        }
        deferred.handshakes.insert(id, Handshake { waker: None, outcome: Outcome::Pending });
        Ok(())
    }

    /// The connection that an accepted SYN led to. If the waker replaces another, that one goes to
    /// `replaced`, to be dropped outside the lock.
    pub(crate) fn poll_handshake(
        &mut self,
        cx: &Context<'_>,
        listener: ListenerId,
        id: IncomingId,
        replaced: &mut Option<Waker>,
    ) -> Poll<io::Result<ConnectionId>> {
        self.check_alive()?;
        let handshakes = self.handshakes(listener).ok_or_else(listener_dropped)?;
        let handshake = handshakes.get_mut(&id).ok_or_else(client_gone)?;
        match handshake.outcome {
            Outcome::Pending => {
                *replaced = handshake.waker.replace(cx.waker().clone());
                Poll::Pending
            }
            Outcome::Established(connection) => {
                handshakes.remove(&id);
                Poll::Ready(Ok(connection))
            }
            Outcome::Gone => {
                handshakes.remove(&id);
                Poll::Ready(Err(client_gone()))
            }
        }
    }

    /// The future that waited for this handshake is gone; a connection that came of it is given up. Returns
    /// the waker, to be dropped outside the lock.
    pub(crate) fn forget_handshake(
        &mut self,
        now: Instant,
        listener: ListenerId,
        id: IncomingId,
    ) -> Option<Waker> {
        let Handshake { waker, outcome } = self.handshakes(listener)?.remove(&id)?;
        if let Outcome::Established(connection) = outcome {
            self.release(now, connection);
        }
        waker
    }

    pub(crate) fn on_acceptable(&mut self, now: Instant, id: ListenerId) {
        let Some(slot) = self.listeners.get_mut(&id) else { return };
        if slot.deferred.is_none() {
            return slot.accept.wake(&mut self.woken);
        }
        while let Poll::Ready(Ok((connection, incoming))) = self.accept_decided(now, id) {
            let outcome = Outcome::Established(connection);
            if !incoming.is_some_and(|incoming| self.conclude(id, incoming, outcome)) {
                self.release(now, connection);
            }
        }
    }

    /// A SYN led to no connection. If it is still in `arrived`, it is skipped there.
    pub(crate) fn on_incoming_gone(&mut self, listener: ListenerId, id: IncomingId) {
        self.conclude(listener, id, Outcome::Gone);
    }

    /// Reports the outcome to the future that accepted a SYN. Returns whether it still waits.
    fn conclude(&mut self, listener: ListenerId, id: IncomingId, outcome: Outcome) -> bool {
        let handshake = self.handshakes(listener).and_then(|handshakes| handshakes.get_mut(&id));
        let Some(handshake) = handshake else { return false };
        handshake.outcome = outcome;
        let waker = handshake.waker.take();
        self.woken.extend(waker);
        true
    }

    pub(crate) fn on_incoming(&mut self, id: ListenerId, incoming: IncomingId) {
        let Some(slot) = self.listeners.get_mut(&id) else { return };
        let Some(deferred) = &mut slot.deferred else { return };
        if deferred.arrived.len() >= deferred.arrived_max {
            // The endpoint bounds the waiting SYNs to half of this; the rest of the queue is stale.
            deferred.arrived.retain(|&waiting| self.endpoint.incoming(waiting).is_some());
        }
        deferred.arrived.push_back(incoming);
        slot.accept.wake(&mut self.woken);
    }

    fn handshakes(&mut self, id: ListenerId) -> Option<&mut BTreeMap<IncomingId, Handshake>> {
        let slot = self.listeners.get_mut(&id)?;
        slot.deferred.as_mut().map(|deferred| &mut deferred.handshakes)
    }
}

impl Deferred {
    fn new(arrived_max: usize) -> Self {
        Self { arrived: VecDeque::new(), arrived_max, handshakes: BTreeMap::new() }
    }
}

/// The listener of a SYN was dropped, or the stack is shutting down.
fn listener_dropped() -> io::Error {
    io::Error::new(
        ErrorKind::ConnectionAborted,
        "the listener was dropped before the connection was established",
    )
}

fn client_gone() -> io::Error {
    io::Error::new(ErrorKind::ConnectionAborted, "the client gave up before its connection was established")
}
