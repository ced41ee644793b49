//! That no task sleeps which could go on.
//!
//! Whatever ends a wait has to wake those who wait, and a wake-up that is forgotten shows in nothing but
//! silence. So a debug build asks the opposite after each turn: would what a task waits for succeed if it
//! tried now? The lists say who waits, and [`Queue`] for what.

use ackclock_core::{Connection, ConnectionId, UdpId};

use crate::readiness::{Interest, is_priority};
use crate::state::{Queue, Side, StackState};
use crate::stream::{has_changed, is_delivery_decided};

/// Checks that no task sleeps that could go on. All events have been dispatched.
pub(crate) fn check(state: &StackState) {
    let streams = state.streams.iter().flat_map(|slot| {
        let rare = slot.rare.as_deref().into_iter();
        let rare = rare.flat_map(|rare| {
            let delivered = Queue::Delivered(slot.id, u64::MAX);
            [(Queue::Notice(slot.id), &rare.notice), (delivered, &rare.delivered)]
        });
        [(Queue::Read(slot.id), &slot.read), (Queue::Write(slot.id), &slot.write)].into_iter().chain(rare)
    });
    let others = [
        (Queue::Traces, &state.traces),
        (Queue::OtherReceive, &state.others.receive),
        (Queue::OtherSend, &state.others.send),
        (Queue::Pings, &state.pings.receive),
        (Queue::Down, &state.shutdown),
    ];
    for (of_list, list) in streams.chain(state.listeners.lists()).chain(state.datagrams.lists()).chain(others)
    {
        for queue in list.sleepers(of_list) {
            assert!(!would_go_on(state, queue), "a task sleeps that could go on: {queue:?}");
        }
    }
    assert!(!state.listeners.forgets_handshake(), "a task sleeps whose handshake is over");
}

/// Whether a task that waits there would go on if it tried.
fn would_go_on(state: &StackState, queue: Queue) -> bool {
    match queue {
        Queue::Read(id) => state.poll_readable(id).is_ready(),
        Queue::Write(id) => is_forgotten_writer(state, id),
        Queue::Ready(id, side, interest) => is_ready(state, id, side, interest),
        Queue::Notice(id) => has_notice(state, id),
        Queue::Delivered(id, offset) => is_delivery_decided(state, id, offset),
        Queue::Changed(id, seen) => has_changed(state, id, seen),
        Queue::Accept(id) => state.listeners.would_accept(&state.endpoint, id),
        Queue::Traces => state.endpoint.has_traces(),
        Queue::OtherReceive => state.endpoint.has_other() || state.poll_down().is_ready(),
        Queue::OtherSend => !state.endpoint.awaits_other_room() || state.poll_down().is_ready(),
        Queue::Pings => state.endpoint.has_ping() || state.poll_down().is_ready(),
        Queue::UdpRead(id) => is_udp_ready(state, id, Side::Read, Interest::READABLE),
        Queue::UdpWrite(id) => is_udp_ready(state, id, Side::Write, Interest::WRITABLE),
        Queue::UdpReady(id, side, interest) => is_udp_ready(state, id, side, interest),
        Queue::Closing => state.poll_closing().is_ready(),
        Queue::Down => state.poll_down().is_ready(),
    }
}

/// Asks `f` about a connection. True without one, because a call then fails.
fn of(state: &StackState, id: ConnectionId, f: impl FnOnce(&Connection) -> bool) -> bool {
    state.connection(id).map_or(true, f)
}

/// Whether no event will wake a writer. Not every byte of room wakes it, so room alone does not count.
fn is_forgotten_writer(state: &StackState, id: ConnectionId) -> bool {
    !state.writers.holds(id) && of(state, id, |connection| !connection.awaits_room())
}

/// Whether something of the interest is ready that wakes this list, or none in which the task waits. In
/// another list it may have been woken, and not have run yet.
fn is_ready(state: &StackState, id: ConnectionId, side: Side, interest: Interest) -> bool {
    let Ok(ready) = state.readiness(id, interest) else { return true };
    let is_urgent = is_priority(interest) && of(state, id, |connection| connection.urgent_remaining() > 0);
    let events = [
        (Side::Read, ready.is_readable()),
        (Side::Write, interest.is_writable() && is_forgotten_writer(state, id)),
        (Side::Notice, is_urgent),
        (side, ready.is_error()),
    ];
    let wakes = |list: Side| list == side || !Side::of(interest).contains(&Some(list));
    events.into_iter().any(|(list, is_ready)| is_ready && wakes(list))
}

fn has_notice(state: &StackState, id: ConnectionId) -> bool {
    let rare = state.streams.get(id).and_then(|slot| slot.rare.as_deref());
    let told = rare.is_some_and(|rare| rare.urgent || rare.soft_error);
    told || of(state, id, |connection| connection.error().is_some())
}

fn is_udp_ready(state: &StackState, id: UdpId, side: Side, interest: Interest) -> bool {
    let endpoint = &state.endpoint;
    let is_ready = match side {
        Side::Write => interest.is_writable() && endpoint.udp_awaits_room(id) != Ok(true),
        Side::Read | Side::Notice => {
            interest.is_readable() && endpoint.udp_is_readable(id) != Ok(false)
                || interest.is_error() && endpoint.udp_has_error(id) != Ok(false)
        }
    };
    is_ready || state.check_alive().is_err()
}
