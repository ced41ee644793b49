//! The listeners' side of a stack's state: accepted connections, and SYNs that wait for a decision.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock_core::{
    ConnectionId, Decision, FourTuple, Incoming, IncomingId, Instant, ListenAddr, ListenOptions, ListenerId,
};

use crate::state::State;
use crate::waiters::WaitList;
use crate::{StackError, error};

/// What is kept of a listener beside the endpoint's own state.
#[derive(Debug)]
pub(crate) struct ListenerSlot {
    pub(crate) accept: WaitList,
    addr: ListenAddr,
    /// SO_LINGER of the streams that it accepts.
    linger: Option<Duration>,
    deferred: Option<Box<Deferred>>,
}

/// Tells handshakes of the same four-tuple apart.
pub(crate) type HandshakeToken = u64;

/// SYNs that wait for a decision, and handshakes that followed one.
#[derive(Debug)]
struct Deferred {
    arrived: VecDeque<IncomingId>,
    arrived_max: usize,
    handshakes: BTreeMap<FourTuple, Handshake>,
    tokens_made: HandshakeToken,
}

#[derive(Debug)]
struct Handshake {
    token: HandshakeToken,
    waker: Option<Waker>,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Pending,
    Established(ConnectionId),
    TimedOut,
}

impl ListenerSlot {
    pub(crate) fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.accept.wake(woken);
        for handshake in self.deferred.iter_mut().flat_map(|deferred| deferred.handshakes.values_mut()) {
            woken.extend(handshake.waker.take());
        }
    }
}

impl State {
    /// Starts to listen.
    pub(crate) fn listen(
        &mut self,
        now: Instant,
        options: ListenOptions,
        linger: Option<Duration>,
    ) -> io::Result<ListenerId> {
        self.check_up()?;
        self.check_tcp(options.tcp.as_ref())?;
        let deferred = options.deferred.then(|| Box::new(Deferred::new(options.syn_backlog)));
        let asked = options.addr;
        let id = self.endpoint.listen(now, options).map_err(error::listen)?;
        let addr = self.endpoint.listener_addr(id).unwrap_or(asked);
        self.listeners.insert(id, ListenerSlot { accept: WaitList::default(), addr, linger, deferred });
        Ok(id)
    }

    /// Stops listening, and fails those who wait for it.
    pub(crate) fn close_listener(&mut self, now: Instant, id: ListenerId) {
        if let Some(mut slot) = self.listeners.remove(&id) {
            slot.wake_all(&mut self.woken);
            self.endpoint.close_listener(now, id);
        }
    }

    /// What a listener listens on.
    pub(crate) fn listener_addr(&self, id: ListenerId) -> io::Result<ListenAddr> {
        self.check_alive()?;
        self.listeners.get(&id).map(|slot| slot.addr).ok_or_else(listener_closed)
    }

    /// The next connection of a listener.
    pub(crate) fn accept(&mut self, now: Instant, id: ListenerId) -> Poll<io::Result<ConnectionId>> {
        self.check_alive()?;
        let linger = self.listeners.get(&id).ok_or_else(listener_closed)?.linger;
        let Some(connection) = self.endpoint.accept(now, id) else { return Poll::Pending };
        if linger.is_some() {
            self.streams.get_or_insert(connection).linger = linger;
        }
        Poll::Ready(Ok(connection))
    }

    /// The next SYN that waits for a decision.
    pub(crate) fn next_incoming(&mut self, id: ListenerId) -> Poll<io::Result<(IncomingId, Incoming)>> {
        self.check_alive()?;
        let slot = self.listeners.get_mut(&id).ok_or_else(listener_closed)?;
        let arrived = slot.deferred.as_mut().map(|deferred| &mut deferred.arrived);
        for waiting in arrived.into_iter().flat_map(|arrived| std::iter::from_fn(|| arrived.pop_front())) {
            // It may have gone while it waited here: reset by the client, or held for too long.
            if let Some(incoming) = self.endpoint.incoming(waiting) {
                return Poll::Ready(Ok((waiting, incoming)));
            }
        }
        Poll::Pending
    }

    /// Answers a SYN, and notes that someone waits for the connection to be established.
    pub(crate) fn accept_incoming(
        &mut self,
        now: Instant,
        listener: ListenerId,
        id: IncomingId,
        tuple: FourTuple,
    ) -> io::Result<HandshakeToken> {
        self.check_up()?;
        let slot = self.listeners.get_mut(&listener).ok_or_else(listener_closed)?;
        let deferred = slot.deferred.as_mut().ok_or_else(listener_closed)?;
        if !self.endpoint.decide(now, id, Decision::Accept) {
            return Err(client_gone());
        }
        deferred.tokens_made += 1;
        let token = deferred.tokens_made;
        deferred.handshakes.insert(tuple, Handshake { token, waker: None, outcome: Outcome::Pending });
        self.schedule_handshake(now + HANDSHAKE_TIME_MAX, listener, tuple, token);
        Ok(token)
    }

    /// The connection that an accepted SYN led to.
    pub(crate) fn poll_handshake(
        &mut self,
        cx: &Context<'_>,
        listener: ListenerId,
        tuple: FourTuple,
        token: HandshakeToken,
    ) -> Poll<io::Result<ConnectionId>> {
        self.check_alive()?;
        let handshakes = self.handshakes(listener).ok_or_else(listener_closed)?;
        let handshake = handshakes.get_mut(&tuple).filter(|handshake| handshake.token == token);
        let handshake = handshake.ok_or_else(client_gone)?;
        match handshake.outcome {
            Outcome::Pending => {
                handshake.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Outcome::Established(id) => {
                handshakes.remove(&tuple);
                Poll::Ready(Ok(id))
            }
            Outcome::TimedOut => {
                handshakes.remove(&tuple);
                Poll::Ready(Err(client_gone()))
            }
        }
    }

    /// Nobody waits for this handshake any more; a connection that came of it is given up.
    pub(crate) fn forget_handshake(
        &mut self,
        now: Instant,
        listener: ListenerId,
        tuple: FourTuple,
        token: HandshakeToken,
    ) {
        let Some(handshakes) = self.handshakes(listener) else { return };
        if handshakes.get(&tuple).is_none_or(|handshake| handshake.token != token) {
            return;
        }
        if let Some(Handshake { outcome: Outcome::Established(id), .. }) = handshakes.remove(&tuple) {
            self.release(now, id);
        }
    }

    pub(crate) fn expire_handshake(&mut self, listener: ListenerId, tuple: FourTuple, token: HandshakeToken) {
        let handshake = self.handshakes(listener).and_then(|handshakes| handshakes.get_mut(&tuple));
        if let Some(handshake) = handshake
            && handshake.token == token
            && matches!(handshake.outcome, Outcome::Pending)
        {
            handshake.outcome = Outcome::TimedOut;
            let waker = handshake.waker.take();
            self.woken.extend(waker);
        }
    }

    pub(crate) fn on_acceptable(&mut self, now: Instant, id: ListenerId) {
        let Some(slot) = self.listeners.get_mut(&id) else { return };
        if slot.deferred.is_none() {
            return slot.accept.wake(&mut self.woken);
        }
        while let Poll::Ready(Ok(connection)) = self.accept(now, id) {
            if !self.establish(id, connection) {
                self.release(now, connection);
            }
        }
    }

    /// Hands a connection to the one who accepted its SYN, if they still wait.
    fn establish(&mut self, listener: ListenerId, id: ConnectionId) -> bool {
        let Some(tuple) = self.endpoint.connection(id).map(|connection| connection.tuple()) else {
            return false;
        };
        let handshake = self.handshakes(listener).and_then(|handshakes| handshakes.get_mut(&tuple));
        let Some(handshake) = handshake else { return false };
        if let Outcome::Established(_) = handshake.outcome {
            return false;
        }
        handshake.outcome = Outcome::Established(id);
        let waker = handshake.waker.take();
        self.woken.extend(waker);
        true
    }

    pub(crate) fn on_incoming(&mut self, id: ListenerId, incoming: IncomingId) {
        let Some(slot) = self.listeners.get_mut(&id) else { return };
        let Some(deferred) = &mut slot.deferred else { return };
        if deferred.arrived.len() >= deferred.arrived_max {
            // The endpoint bounds those that still wait; the rest of the queue has gone.
            deferred.arrived.retain(|&waiting| self.endpoint.incoming(waiting).is_some());
        }
        deferred.arrived.push_back(incoming);
        slot.accept.wake(&mut self.woken);
    }

    fn handshakes(&mut self, id: ListenerId) -> Option<&mut BTreeMap<FourTuple, Handshake>> {
        let slot = self.listeners.get_mut(&id)?;
        slot.deferred.as_mut().map(|deferred| &mut deferred.handshakes)
    }
}

impl Deferred {
    fn new(arrived_max: usize) -> Self {
        Self { arrived: VecDeque::new(), arrived_max, handshakes: BTreeMap::new(), tokens_made: 0 }
    }
}

/// A listener is closed under its handle only when the stack shuts down.
fn listener_closed() -> io::Error {
    StackError::Shutdown.into()
}

fn client_gone() -> io::Error {
    io::Error::new(ErrorKind::ConnectionAborted, "the client gave up before its connection was established")
}

/// The longest that an accepted handshake may take: the SYN-ACK and its five retransmissions, backed off from
/// one second, have all been waited for after 63 s.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(64);
