//! The listeners of a stack beside the endpoint's: the tasks that wait at each, SYNs that wait for a
//! decision, and handshakes that followed one.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock_core::{ConnectionId, Incoming, IncomingId, ListenAddr, ListenerId};
use ackclock_journal::RecordedEndpoint;

use crate::waiters::{Queue, WaitList};

/// The listeners.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    slots: BTreeMap<ListenerId, ListenerSlot>,
}

/// The state of a listener beside the endpoint's.
#[derive(Debug)]
struct ListenerSlot {
    accept: WaitList,
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
    result: Accepted,
}

/// The fate of a SYN that was accepted.
#[derive(Debug)]
pub(crate) enum Accepted {
    Pending,
    Established(ConnectionId),
    Gone,
}

ackclock_form::form! {
    struct Listeners { slots }
    struct ListenerSlot { accept = WaitList::default(), addr, linger, deferred }
    struct Deferred { arrived, arrived_max, handshakes }
    struct Handshake { waker = None, result }
    enum Accepted { 0 Pending, 1 Established(connection), 2 Gone }
}

impl Listeners {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Their ids.
    pub fn ids(&self) -> Vec<ListenerId> {
        self.slots.keys().copied().collect()
    }

    /// A listener was made. With deferred accept, at most `decisions_max` SYNs wait for a decision.
    pub fn add(
        &mut self,
        id: ListenerId,
        addr: ListenAddr,
        linger: Option<Duration>,
        decisions_max: Option<usize>,
    ) {
        let deferred = decisions_max.map(|max| Box::new(Deferred::new(max.saturating_mul(2))));
        self.slots.insert(id, ListenerSlot { accept: WaitList::default(), addr, linger, deferred });
    }

    /// A listener is closed: all its tasks go on. Returns whether it was there.
    pub fn remove(&mut self, id: ListenerId, woken: &mut Vec<Waker>) -> bool {
        let Some(mut slot) = self.slots.remove(&id) else { return false };
        slot.wake_all(woken);
        true
    }

    /// Whether a listener's SYNs wait for a decision.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub fn is_deferred(&self, id: ListenerId) -> bool {
        self.slots.get(&id).is_some_and(|slot| slot.deferred.is_some())
    }

    /// The handshakes that followed a decision, by listener.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub fn accepting(&self) -> Vec<(ListenerId, IncomingId)> {
        let of_slot = |(&id, slot): (&ListenerId, &ListenerSlot)| {
            let handshakes = slot.deferred.iter().flat_map(|deferred| deferred.handshakes.keys());
            handshakes.map(|&incoming| (id, incoming)).collect::<Vec<_>>()
        };
        self.slots.iter().flat_map(of_slot).collect()
    }

    /// The address and port listened on.
    pub fn addr(&self, id: ListenerId) -> Option<ListenAddr> {
        self.slots.get(&id).map(|slot| slot.addr)
    }

    /// Whether there is this listener, and SO_LINGER of the streams that it accepts.
    pub fn linger(&self, id: ListenerId) -> Option<Option<Duration>> {
        self.slots.get(&id).map(|slot| slot.linger)
    }

    /// The tasks that wait to accept.
    pub fn list(&mut self, id: ListenerId) -> Option<&mut WaitList> {
        self.slots.get_mut(&id).map(|slot| &mut slot.accept)
    }

    /// All lists, with what their tasks wait for.
    pub fn lists(&self) -> impl Iterator<Item = (Queue, &WaitList)> {
        self.slots.iter().map(|(id, slot)| (Queue::Accept(*id), &slot.accept))
    }

    /// Every task goes on.
    pub fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.slots.values_mut().for_each(|slot| slot.wake_all(woken));
    }

    /// A connection may be accepted. Returns true if the listener defers accepting and has already decided;
    /// otherwise wakes a task.
    pub fn on_acceptable(&mut self, id: ListenerId, woken: &mut Vec<Waker>) -> bool {
        let Some(slot) = self.slots.get_mut(&id) else { return false };
        if slot.deferred.is_none() {
            slot.accept.wake(woken);
        }
        slot.deferred.is_some()
    }

    /// A SYN waits for a decision.
    pub fn on_incoming(
        &mut self,
        endpoint: &RecordedEndpoint,
        id: ListenerId,
        incoming: IncomingId,
        woken: &mut Vec<Waker>,
    ) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let Some(deferred) = &mut slot.deferred else { return };
        if deferred.arrived.len() >= deferred.arrived_max {
            // The endpoint bounds the waiting SYNs to half of this; the rest of the queue is stale.
            deferred.arrived.retain(|&waiting| endpoint.incoming(waiting).is_some());
        }
        deferred.arrived.push_back(incoming);
        slot.accept.wake(woken);
    }

    /// A SYN waits for a decision again, if it does not yet.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub fn await_again(&mut self, id: ListenerId, incoming: IncomingId) {
        let Some(deferred) = self.slots.get_mut(&id).and_then(|slot| slot.deferred.as_mut()) else { return };
        if !deferred.arrived.contains(&incoming) {
            deferred.arrived.push_back(incoming);
        }
    }

    /// Tells the future that accepted a SYN how it ended. If the SYN is still in `arrived`, `next` skips it.
    /// Returns whether the future still waits.
    pub fn conclude(
        &mut self,
        listener: ListenerId,
        id: IncomingId,
        result: Accepted,
        woken: &mut Vec<Waker>,
    ) -> bool {
        let handshake = self.handshakes(listener).and_then(|handshakes| handshakes.get_mut(&id));
        let Some(handshake) = handshake else { return false };
        handshake.result = result;
        woken.extend(handshake.waker.take());
        true
    }

    /// The next SYN that waits for a decision. It may be gone by now: reset by the client, or held for too
    /// long; then it is skipped.
    pub fn next_incoming(
        &mut self,
        endpoint: &RecordedEndpoint,
        id: ListenerId,
    ) -> Option<(IncomingId, Incoming)> {
        let arrived = &mut self.slots.get_mut(&id)?.deferred.as_mut()?.arrived;
        let waiting = std::iter::from_fn(|| arrived.pop_front());
        waiting.into_iter().find_map(|waiting| endpoint.incoming(waiting).map(|incoming| (waiting, incoming)))
    }

    /// Notes that a future waits for the connection of a SYN, if `accept` says that it was accepted.
    ///
    /// # Errors
    /// The listener has been dropped; the client is gone.
    pub fn await_handshake(
        &mut self,
        listener: ListenerId,
        id: IncomingId,
        accept: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        let handshakes = self.handshakes(listener).ok_or_else(listener_dropped)?;
        if !accept() {
            return Err(client_gone());
        }
        handshakes.insert(id, Handshake { waker: None, result: Accepted::Pending });
        Ok(())
    }

    /// The connection that an accepted SYN led to. If the waker replaces another, that one goes to
    /// `replaced`, to be dropped outside the lock.
    pub fn poll_handshake(
        &mut self,
        cx: &Context<'_>,
        listener: ListenerId,
        id: IncomingId,
        replaced: &mut Option<Waker>,
    ) -> Poll<io::Result<ConnectionId>> {
        let handshakes = self.handshakes(listener).ok_or_else(listener_dropped)?;
        let handshake = handshakes.get_mut(&id).ok_or_else(client_gone)?;
        match handshake.result {
            Accepted::Pending => {
                *replaced = handshake.waker.replace(cx.waker().clone());
                Poll::Pending
            }
            Accepted::Established(connection) => {
                handshakes.remove(&id);
                Poll::Ready(Ok(connection))
            }
            Accepted::Gone => {
                handshakes.remove(&id);
                Poll::Ready(Err(client_gone()))
            }
        }
    }

    /// The future that waited for this handshake is gone. Returns its waker, to be dropped outside the lock,
    /// and the connection that came of it, to be given up.
    pub fn forget_handshake(
        &mut self,
        listener: ListenerId,
        id: IncomingId,
    ) -> (Option<Waker>, Option<ConnectionId>) {
        let handshake = self.handshakes(listener).and_then(|handshakes| handshakes.remove(&id));
        match handshake {
            Some(Handshake { waker, result: Accepted::Established(connection) }) => (waker, Some(connection)),
            Some(Handshake { waker, .. }) => (waker, None),
            None => (None, None),
        }
    }

    /// Whether a task that waits to accept would go on if it tried.
    pub fn would_accept(&self, endpoint: &RecordedEndpoint, id: ListenerId) -> bool {
        let Some(slot) = self.slots.get(&id) else { return true };
        match &slot.deferred {
            Some(deferred) => deferred.arrived.iter().any(|&waiting| endpoint.incoming(waiting).is_some()),
            None => endpoint.has_acceptable(id),
        }
    }

    /// Whether a task waits for a handshake that is over.
    pub fn forgets_handshake(&self) -> bool {
        let deferred = self.slots.values().filter_map(|slot| slot.deferred.as_ref());
        let mut handshakes = deferred.flat_map(|deferred| deferred.handshakes.values());
        handshakes
            .any(|handshake| handshake.waker.is_some() && !matches!(handshake.result, Accepted::Pending))
    }

    fn handshakes(&mut self, id: ListenerId) -> Option<&mut BTreeMap<IncomingId, Handshake>> {
        Some(&mut self.slots.get_mut(&id)?.deferred.as_mut()?.handshakes)
    }
}

impl ListenerSlot {
    fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.accept.wake(woken);
        for handshake in self.deferred.iter_mut().flat_map(|deferred| deferred.handshakes.values_mut()) {
            woken.extend(handshake.waker.take());
        }
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
