//! A connection in its slot: its owner, its timer, its events, and its end.

use std::fmt;

use ackclock_control::tally::Tally;
use ackclock_wire::{Fields, Flags};

use super::Endpoint;
use super::demux::Target;
use super::output::Events;
use super::queue::IndexQueue;
use super::reply::bare;
use super::time_wait::LastNumbers;
use super::timers::TimerWheel;
use crate::connection::{TimeWaitParams, timestamp_clock};
use crate::{Connection, ConnectionId, FourTuple, Instant, ListenerId, Readiness};

/// A connection with the endpoint's state for it. It is boxed, so that its table can grow without moving it
/// and an unused slot is small.
pub(super) struct Live {
    pub(super) connection: Connection,
    /// The connection's number at the endpoint, for traces.
    pub(super) number: u64,
    /// Whether the demultiplexer leads here. A connection that is over releases its name before its slot.
    pub(super) bound: bool,
    /// Whether the peer is this endpoint.
    pub(super) looped: bool,
    pub(super) owner: Owner,
    /// Changes not reported to the application yet.
    pub(super) readiness: Readiness,
}

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The application, which will release it.
    Application,
    /// A listener's accept queue.
    Listener(ListenerId),
    /// None: the application has released it, and it finishes by itself.
    Orphan,
    /// None: it has been reset, and only has to send that.
    Nobody,
}

impl Endpoint {
    /// Puts a new connection into the tables.
    pub(super) fn add_connection(&mut self, connection: Connection, owner: Owner) -> ConnectionId {
        let name = *connection.name();
        let (number, readiness) = (self.next_number(), Readiness::default());
        let looped = self.addresses.is_own(name.remote_addr);
        let live = Live { connection, number, bound: true, looped, owner, readiness };
        let (index, generation) = self.connections.insert(Box::new(live));
        self.enter(&name, Target::Connection(index));
        self.bound.count();
        self.budget.add_sharer();
        ConnectionId { index, generation }
    }

    /// Call this after any change of a connection: handles its events, timer, segments and end.
    #[inline]
    pub(super) fn touch(&mut self, index: u32) {
        let Some(live) = self.connections.at_mut(index) else { return };
        self.traces.collect(live);
        if live.connection.is_gone() {
            live.note(index, &mut self.events);
            self.timers.rearm(index, live.connection.poll_timeout());
            return self.finish(index);
        }
        live.follow_up(index, &mut self.events, &mut self.timers, &mut self.transmit);
    }

    /// A connection has nothing to send now: it may be over, or small enough for a record.
    pub(super) fn settle(&mut self, now: Instant, index: u32) {
        let Some(live) = self.connections.at_mut(index) else { return };
        live.note(index, &mut self.events);
        self.traces.collect(live);
        self.timers.rearm(index, live.connection.poll_timeout());
        let is_gone = live.connection.is_gone();
        let done = live.bound && live.owner.is_gone();
        let record = live.connection.time_wait().filter(|_| done);
        if is_gone {
            self.finish(index);
        } else if let Some(params) = record {
            self.compact(now, index, &params);
        }
    }

    /// A connection is over: frees its name, and its slot if it has no owner.
    fn finish(&mut self, index: u32) {
        self.keep_fast_open_place(index);
        self.unbind(index);
        if self.connections.at(index).is_some_and(|live| live.owner.is_gone()) {
            self.remove_released(index);
        }
    }

    /// Removes an ownerless connection from its slot.
    pub(super) fn remove_released(&mut self, index: u32) -> Option<Box<Live>> {
        let mut live = self.connections.remove(index)?;
        self.budget.remove_sharer();
        self.traces.end(&mut live);
        self.timers.disarm(index);
        if live.owner == Owner::Orphan {
            self.orphans.finished();
        }
        Some(live)
    }

    /// Removes a connection's name from the demultiplexer.
    pub(super) fn unbind(&mut self, index: u32) {
        if let Some(live) = self.connections.at_mut(index)
            && live.bound
        {
            live.bound = false;
            self.bound.shrink(1);
            let name = *live.name();
            self.strike(&name, Target::Connection(index));
        }
    }

    /// Turns an ownerless connection in TIME-WAIT into a record.
    #[inline(never)]
    fn compact(&mut self, now: Instant, index: u32, params: &TimeWaitParams) {
        if let Some(oldest) = self.time_wait.surplus() {
            self.counters.time_wait_recycled.count();
            self.remove_time_wait(oldest);
        }
        let Some(live) = self.remove_released(index) else { return };
        self.bound.shrink(1);
        let (name, lasts) = (*live.name(), live.connection.time_wait_lasts());
        let record = self.time_wait.insert(now, lasts, name, LastNumbers::from(params));
        let tag = self.demux.tag(live.name());
        self.demux.replace(tag, Target::Connection(index), Target::TimeWait(record));
    }

    pub(super) fn remove_time_wait(&mut self, index: u32) {
        if let Some(record) = self.time_wait.remove(index) {
            self.strike(&record.tuple, Target::TimeWait(index));
        }
    }

    /// Answers for a connection in TIME-WAIT.
    pub(super) fn acknowledge_time_wait(&mut self, now: Instant, index: u32) {
        let Some(record) = self.time_wait.at(index) else { return };
        let (tuple, last) = (record.tuple, record.last);
        let mut ack = Fields { window: last.window, ..bare(last.snd_nxt, last.rcv_nxt, Flags::ACK) };
        ack.options.timestamps =
            last.timestamps.map(|(recent, offset)| (timestamp_clock(now).wrapping_add(offset), recent));
        self.counters.challenges_sent.count();
        let label = self.flow_labels.of(&tuple).after(last.label_changes).current();
        self.reply_labelled(&tuple, self.config.tcp.ttl, label, ack);
    }

    pub(super) fn time_wait_timeouts(&mut self, now: Instant) {
        while let Some(index) = self.time_wait.expired(now) {
            self.counters.time_wait_expired.count();
            self.remove_time_wait(index);
        }
    }
}

impl Owner {
    /// Whether the connection has no owner any more.
    fn is_gone(self) -> bool {
        matches!(self, Self::Orphan | Self::Nobody)
    }
}

impl Live {
    /// Its two sockets.
    #[inline]
    pub(super) fn name(&self) -> &FourTuple {
        self.connection.name()
    }

    /// The connection was changed and is not over: handles its events, timer and segments.
    // Always inlined, for the rows of what is received of the counted instructions.
    #[inline(always)]
    pub(super) fn follow_up(
        &mut self,
        index: u32,
        events: &mut Events,
        timers: &mut TimerWheel,
        transmit: &mut IndexQueue,
    ) {
        self.note(index, events);
        timers.rearm(index, self.connection.poll_timeout());
        if !self.connection.is_idle() {
            transmit.push(index);
        }
    }

    /// Records what to report to the application about the connection.
    #[inline]
    fn note(&mut self, index: u32, events: &mut Events) {
        if self.connection.has_changes() {
            self.readiness = self.readiness.merged(self.connection.take_readiness());
            if self.owner == Owner::Application {
                events.connections.push(index);
            }
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({:?})", self.name(), self.owner)
    }
}
