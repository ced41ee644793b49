//! That no task sleeps which could go on.
//!
//! Whatever ends a wait has to wake those who wait, and a wake-up that is forgotten shows in nothing but
//! silence. So a debug build asks the opposite after each turn: would what a task waits for succeed if it
//! tried now? The lists say who waits, and [`Queue`] for what.

use ackclock_core::{Connection, ConnectionId, UdpId};

use super::{Queue, Side, StackState};
use crate::readiness::{Interest, is_priority};

impl StackState {
    /// Checks that no task sleeps that could go on. All events have been dispatched.
    pub(crate) fn check_sleepers(&self) {
        let streams = self.streams.iter().flat_map(|slot| {
            let rare = slot.rare.as_deref().into_iter();
            let rare = rare.flat_map(|rare| {
                let delivered = Queue::Delivered(slot.id, u64::MAX);
                [(Queue::Notice(slot.id), &rare.notice), (delivered, &rare.delivered)]
            });
            [(Queue::Read(slot.id), &slot.read), (Queue::Write(slot.id), &slot.write)].into_iter().chain(rare)
        });
        let listeners = self.listeners.iter().map(|(id, slot)| (Queue::Accept(*id), &slot.accept));
        let sockets = self
            .udp
            .iter()
            .flat_map(|(id, slot)| [(Queue::UdpRead(*id), &slot.read), (Queue::UdpWrite(*id), &slot.write)]);
        let others = [
            (Queue::Traces, &self.traces),
            (Queue::OtherReceive, &self.others.receive),
            (Queue::OtherSend, &self.others.send),
            (Queue::Down, &self.shutdown),
        ];
        for (of_list, list) in streams.chain(listeners).chain(sockets).chain(others) {
            for queue in list.sleepers(of_list) {
                assert!(!self.would_go_on(queue), "a task sleeps that could go on: {queue:?}");
            }
        }
        for slot in self.listeners.values() {
            assert!(!slot.forgets_handshake(), "a task sleeps whose handshake is over");
        }
    }

    /// Whether a task that waits there would go on if it tried.
    fn would_go_on(&self, queue: Queue) -> bool {
        match queue {
            Queue::Read(id) => self.poll_readable(id).is_ready(),
            Queue::Write(id) => self.is_forgotten_writer(id),
            Queue::Ready(id, side, interest) => self.is_ready(id, side, interest),
            Queue::Notice(id) => self.has_notice(id),
            Queue::Delivered(id, offset) => self.is_delivery_decided(id, offset),
            Queue::Changed(id, seen) => self.has_changed(id, seen),
            Queue::Accept(id) => self.listeners.get(&id).is_none_or(|slot| match slot.arrived() {
                Some(mut arrived) => arrived.any(|incoming| self.endpoint.incoming(incoming).is_some()),
                None => self.endpoint.has_acceptable(id),
            }),
            Queue::Traces => self.endpoint.has_traces(),
            Queue::OtherReceive => self.endpoint.has_other() || self.poll_down().is_ready(),
            Queue::OtherSend => !self.endpoint.awaits_other_room() || self.poll_down().is_ready(),
            Queue::UdpRead(id) => self.is_udp_ready(id, Side::Read, Interest::READABLE),
            Queue::UdpWrite(id) => self.is_udp_ready(id, Side::Write, Interest::WRITABLE),
            Queue::UdpReady(id, side, interest) => self.is_udp_ready(id, side, interest),
            Queue::Closing => self.poll_closing().is_ready(),
            Queue::Down => self.poll_down().is_ready(),
        }
    }

    /// What `f` says of a connection; true without one, since a call then fails.
    fn of(&self, id: ConnectionId, f: impl FnOnce(&Connection) -> bool) -> bool {
        self.connection(id).map_or(true, f)
    }

    /// Whether nothing will tell a writer to go on. It is not told of each byte of room, so room alone does
    /// not count.
    fn is_forgotten_writer(&self, id: ConnectionId) -> bool {
        !self.writers.holds(id) && self.of(id, |connection| !connection.awaits_room())
    }

    /// Whether something of the interest is ready that wakes this list, or none in which the task waits. In
    /// another list it may have been woken, and not have run yet.
    fn is_ready(&self, id: ConnectionId, side: Side, interest: Interest) -> bool {
        let Ok(ready) = self.readiness(id, interest) else { return true };
        let is_urgent = is_priority(interest) && self.of(id, |connection| connection.urgent_remaining() > 0);
        let events = [
            (Side::Read, ready.is_readable()),
            (Side::Write, interest.is_writable() && self.is_forgotten_writer(id)),
            (Side::Notice, is_urgent),
            (side, ready.is_error()),
        ];
        let wakes = |list: Side| list == side || !Side::of(interest).contains(&Some(list));
        events.into_iter().any(|(list, is_ready)| is_ready && wakes(list))
    }

    fn has_notice(&self, id: ConnectionId) -> bool {
        let rare = self.streams.get(id).and_then(|slot| slot.rare.as_deref());
        let told = rare.is_some_and(|rare| rare.urgent || rare.soft_error);
        told || self.of(id, |connection| connection.error().is_some())
    }

    fn is_udp_ready(&self, id: UdpId, side: Side, interest: Interest) -> bool {
        let endpoint = &self.endpoint;
        let is_ready = match side {
            Side::Write => interest.is_writable() && endpoint.udp_awaits_room(id) != Ok(true),
            Side::Read | Side::Notice => {
                interest.is_readable() && endpoint.udp_is_readable(id) != Ok(false)
                    || interest.is_error() && endpoint.udp_has_error(id) != Ok(false)
            }
        };
        is_ready || self.check_alive().is_err()
    }
}
