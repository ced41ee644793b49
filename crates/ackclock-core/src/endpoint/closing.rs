//! The end of a connection: it is released, finishes as an orphan, becomes a TIME-WAIT record, or is reset
//! because it holds memory without progress.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;

use super::demux::Target;
use super::slot::{Owner, Slot};
use super::time_wait::{TimeWaitAction, is_plain_syn};
use super::{Endpoint, Received};
use crate::connection::{AtEnd, TimeWaitParams};
use crate::{ConnectionId, FourTuple, Instant};

/// Orphans: connections that the application has released and that still finish, in order of their release.
///
/// A peer that acknowledges but never takes the rest can keep one for ever (RFC 9293 MUST-37; CVE-2008-4609),
/// so there is a bound, beyond which the oldest is reset. Linux also has one (`tcp_max_orphans`) and resets
/// the newest. But honest peers' orphans are gone after some round trips, so those that fill the table are
/// the ones that hang, and the newest is the most likely to have something to deliver.
#[derive(Debug)]
pub(super) struct Orphans {
    /// The oldest first. Finished ones stay until they are met or too many.
    queue: VecDeque<ConnectionId>,
    count: usize,
    max: usize,
}

impl Orphans {
    pub fn new(max: usize) -> Self {
        Self { queue: VecDeque::new(), count: 0, max: max.max(1) }
    }

    /// Adds one. [`surplus`](Self::surplus) and [`sweep`](Self::sweep) must follow.
    fn adopt(&mut self, id: ConnectionId) {
        self.count.count();
        self.queue.push_back(id);
    }

    /// The oldest one, if there are too many. It may have finished.
    fn surplus(&mut self) -> Option<ConnectionId> {
        if self.count > self.max { self.queue.pop_front() } else { None }
    }

    /// Drops finished ones from the queue if there are many.
    fn sweep(&mut self, is_orphan: impl Fn(&ConnectionId) -> bool) {
        if self.queue.len() / 2 > self.max {
            self.queue.retain(is_orphan);
        }
    }

    /// Takes all out of the queue. Some may have finished.
    fn take_all(&mut self) -> VecDeque<ConnectionId> {
        std::mem::take(&mut self.queue)
    }

    /// One has finished.
    fn finished(&mut self) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.queue.clear();
            self.queue.shrink_to(SPARE);
        }
    }

    /// How many connections the queue names.
    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    pub fn check_invariants(&self) {
        debug_assert_eq!(self.violated(), None);
    }

    /// Returns an invariant that does not hold between two calls, if any.
    fn violated(&self) -> Option<&'static str> {
        let checks = [
            (self.count <= self.max, "orphans are bounded"),
            (self.count <= self.queue.len(), "each orphan is in the queue"),
            (self.queue.len() / 2 <= self.max, "the queue is not full of the dead"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}

impl Endpoint {
    /// Releases a connection: the application will not use it again. Unread data resets it (RFC 9293 SHLD-3);
    /// otherwise it is closed, and finishes by itself.
    pub fn release(&mut self, now: Instant, id: ConnectionId) {
        let now = self.advance(now);
        let Some(slot) = self.connections.get_mut(id.index, id.generation) else { return };
        if slot.owner() != Owner::Application {
            return;
        }
        if slot.is_bound() {
            slot.pass_to(Owner::Orphan);
            slot.connection.set_orphaned(now);
            self.adopt_orphan(now, id);
            self.change(id.index, |_| ());
        } else {
            // It was over, or was replaced by a connection with the same four-tuple.
            self.remove_released(id.index);
        }
        self.check_invariants();
    }

    /// Resets all connections that were released and still finish.
    pub fn reset_orphans(&mut self, now: Instant) {
        let now = self.advance(now);
        for id in self.orphans.take_all() {
            self.reset_orphan(now, id);
        }
    }

    /// The application has released a connection that still finishes. Beyond the bound the oldest orphan is
    /// reset.
    fn adopt_orphan(&mut self, now: Instant, id: ConnectionId) {
        self.orphans.adopt(id);
        while let Some(oldest) = self.orphans.surplus() {
            self.reset_orphan(now, oldest);
        }
        let connections = &self.connections;
        self.orphans.sweep(|id| {
            connections.get(id.index, id.generation).is_some_and(|slot| slot.owner() == Owner::Orphan)
        });
    }

    fn reset_orphan(&mut self, now: Instant, id: ConnectionId) {
        let slot = self.connections.get(id.index, id.generation);
        if slot.is_some_and(|slot| slot.owner() == Owner::Orphan) {
            self.orphans.finished();
            self.counters.orphans_reset.count();
            self.abort_unowned(now, id);
        }
    }

    /// Resets a connection that has no owner any more.
    pub(super) fn abort_unowned(&mut self, now: Instant, id: ConnectionId) {
        if let Some(slot) = self.connections.get_mut(id.index, id.generation) {
            slot.pass_to(Owner::Nobody);
            self.change(id.index, |connection| connection.abort(now));
        }
    }

    /// A connection has nothing to send now: it may be over, or small enough for a record.
    pub(super) fn settle(&mut self, now: Instant, index: u32) {
        let Some(slot) = self.connections.at_mut(index) else { return };
        self.traces.collect(slot);
        self.schedule.follow(index, slot.settled());
        let done = slot.is_bound() && slot.owner().is_gone();
        if slot.connection.is_gone() {
            self.finish(index);
        } else if let Some(params) = slot.connection.time_wait().filter(|_| done) {
            self.compact(now, index, params);
        }
    }

    /// A connection is over: frees its four-tuple, and its slot if it has no owner.
    pub(super) fn finish(&mut self, index: u32) {
        self.keep_fast_open_place(index);
        self.unbind(index);
        if self.connections.at(index).is_some_and(|slot| slot.owner().is_gone()) {
            self.remove_released(index);
        }
    }

    /// Takes a connection that lives out of the endpoint, which sends nothing more for it.
    pub(super) fn take_out(&mut self, index: u32) {
        if let Some(slot) = self.connections.at_mut(index)
            && slot.unbind()
        {
            slot.pass_to(Owner::Nobody);
            let tuple = slot.tuple();
            self.tuples.strike(&tuple, Target::Connection(index));
            self.remove_released(index);
        }
        self.check_invariants();
    }

    /// Removes an ownerless connection from its slot.
    fn remove_released(&mut self, index: u32) -> Option<Box<Slot>> {
        let mut slot = self.connections.remove(index)?;
        self.memory.budget().remove_sharer();
        self.traces.end(&mut slot);
        self.schedule.forget(index);
        if slot.owner() == Owner::Orphan {
            self.orphans.finished();
        }
        Some(slot)
    }

    /// Removes a connection's four-tuple from the demultiplexer.
    fn unbind(&mut self, index: u32) {
        if let Some(slot) = self.connections.at_mut(index)
            && slot.unbind()
        {
            let (tuple, end) = (slot.tuple(), slot.connection.at_end());
            self.tuples.strike(&tuple, Target::Connection(index));
            self.learn_from(&tuple, end);
        }
    }

    /// A connection is over, or as good as over in TIME-WAIT.
    fn learn_from(&mut self, tuple: &FourTuple, end: Option<AtEnd>) {
        let Some(end) = end else { return };
        self.tally(|histograms| histograms.record_end(&end));
        if let Some(paths) = &mut self.paths
            && !self.addresses.is_own(tuple.remote_addr)
        {
            paths.learn(self.clock.now(), tuple, &end, self.addresses.mtu_to(tuple.remote_addr));
        }
    }

    /// Turns an ownerless connection in TIME-WAIT into a record.
    #[inline(never)]
    fn compact(&mut self, now: Instant, index: u32, params: TimeWaitParams) {
        if let Some(oldest) = self.time_wait.surplus() {
            self.counters.time_wait_recycled.count();
            self.remove_time_wait(oldest);
        }
        let Some(slot) = self.remove_released(index) else { return };
        self.learn_from(&slot.tuple(), slot.connection.at_end());
        let (tuple, lasts) = (slot.tuple(), slot.connection.time_wait_lasts());
        let record = self.time_wait.insert(now, lasts, tuple, params);
        self.tuples.leave_record(&tuple, index, record);
    }

    /// A segment for a connection in TIME-WAIT that has become a record.
    pub(super) fn for_time_wait(&mut self, now: Instant, index: u32, arrival: &Received<'_>) {
        match self.time_wait.judge(now, index, arrival.segment) {
            TimeWaitAction::Drop => self.counters.dropped_in_time_wait.count(),
            TimeWaitAction::Acknowledge => {
                self.counters.challenges_sent.count();
                let ack = self.time_wait.acknowledgement(now, index, self.config.tcp.ttl);
                self.answer(now, ack);
            }
            // TIME-WAIT is reused by a new connection only (RFC 9293 MAY-2).
            TimeWaitAction::Reopen { .. } if self.listening.find(&arrival.tuple).is_none() => {
                self.refuse(arrival);
            }
            TimeWaitAction::Reopen { snd_nxt } => {
                self.remove_time_wait(index);
                self.counters.time_wait_reopened.count();
                self.reopen(now, arrival, snd_nxt);
            }
        }
    }

    /// Whether a SYN made a new connection in place of one in TIME-WAIT that the application still holds.
    pub(super) fn reuses_time_wait(&mut self, now: Instant, index: u32, arrival: &Received<'_>) -> bool {
        let last = self.connections.at(index).and_then(|slot| slot.connection.time_wait());
        let reuses =
            |last: &TimeWaitParams| is_plain_syn(arrival.segment) && last.may_reopen(arrival.segment);
        let Some(last) = last.filter(reuses) else { return false };
        if self.listening.find(&arrival.tuple).is_none() {
            self.refuse(arrival);
            return true;
        }
        self.unbind(index);
        self.counters.time_wait_reopened.count();
        self.reopen(now, arrival, last.snd_nxt);
        true
    }

    fn remove_time_wait(&mut self, index: u32) {
        if let Some(tuple) = self.time_wait.remove(index) {
            self.tuples.strike(&tuple, Target::TimeWait(index));
        }
    }

    /// Ends the TIME-WAITs that are over.
    pub(super) fn time_wait_timeouts(&mut self, now: Instant) {
        while let Some(index) = self.time_wait.expired(now) {
            self.counters.time_wait_expired.count();
            self.remove_time_wait(index);
        }
    }

    /// Finds memory for a connection that makes progress and was refused some: those that hold memory
    /// without progress are reset, the longest-stalled first, until half of the budget is free.
    #[inline]
    pub(super) fn relieve(&mut self, now: Instant) {
        if self.memory.is_pressed() {
            self.relieve_now(now);
        }
    }

    #[cold]
    fn relieve_now(&mut self, now: Instant) {
        if !self.memory.may_walk(now) {
            return;
        }
        let stalled = self
            .connections
            .iter()
            .filter_map(|(index, _, slot)| slot.connection.stalled_since(now).map(|since| (since, index)));
        let mut stalled: Vec<_> = stalled.collect();
        stalled.sort_unstable();
        let mut resets = 0_u64;
        for (_, index) in stalled {
            if self.memory.is_half_free() {
                break;
            }
            resets.grow(u64::from(self.change(index, |connection| connection.give_up_memory(now)).is_some()));
        }
        self.rare_counters().memory_resets.grow(resets);
    }
}

/// Capacity that the queue keeps while there are no orphans, so that connections that come and go allocate
/// nothing.
const SPARE: usize = 64;

ackclock_form::form! {
    struct Orphans { queue, count, max } => |orphans| orphans.violated().is_none();
}
