//! Orphans: connections that the application has released and that still finish, in order of their release.
//!
//! A peer that acknowledges but never takes the rest can keep one for ever (RFC 9293 MUST-37; CVE-2008-4609),
//! so there is a bound, beyond which the oldest is reset. Linux also has one (`tcp_max_orphans`) and resets
//! the newest. But honest peers' orphans are gone after some round trips, so those that fill the table are
//! the ones that hang, and the newest is the most likely to have something to deliver.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;

use super::Endpoint;
use super::live::Owner;
use crate::{ConnectionId, Instant};

/// All orphans.
#[derive(Debug)]
pub(super) struct Orphans {
    /// The oldest first. Finished ones stay until they are met or too many.
    queue: VecDeque<ConnectionId>,
    count: usize,
    max: usize,
}

/// Capacity that the queue keeps while there are no orphans, so that connections that come and go allocate
/// nothing.
const SPARE: usize = 64;

impl Orphans {
    pub(super) fn new(max: usize) -> Self {
        Self { queue: VecDeque::new(), count: 0, max: max.max(1) }
    }

    /// One has finished.
    pub(super) fn finished(&mut self) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.queue.clear();
            self.queue.shrink_to(SPARE);
        }
    }

    /// How many connections the queue names.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    pub(super) fn check_invariants(&self) {
        debug_assert!(self.count <= self.max, "{} orphans, {} allowed", self.count, self.max);
        debug_assert!(self.count <= self.queue.len(), "an orphan that is not in the queue");
        debug_assert!(self.queue.len() / 2 <= self.max, "a queue full of the dead");
    }
}

impl Endpoint {
    /// The application has released a connection that still finishes. Beyond the bound the oldest orphan is
    /// reset.
    pub(super) fn adopt_orphan(&mut self, now: Instant, id: ConnectionId) {
        self.orphans.count.count();
        self.orphans.queue.push_back(id);
        while self.orphans.count > self.orphans.max {
            let Some(oldest) = self.orphans.queue.pop_front() else { break };
            self.reset_orphan(now, oldest);
        }
        if self.orphans.queue.len() / 2 > self.orphans.max {
            let connections = &self.connections;
            let is_orphan = |id: &ConnectionId| {
                connections.get(id.index, id.generation).is_some_and(|live| live.owner == Owner::Orphan)
            };
            self.orphans.queue.retain(is_orphan);
        }
    }

    /// Resets all connections that were released and still finish.
    pub fn reset_orphans(&mut self, now: Instant) {
        let now = self.advance(now);
        for id in std::mem::take(&mut self.orphans.queue) {
            self.reset_orphan(now, id);
        }
    }

    fn reset_orphan(&mut self, now: Instant, id: ConnectionId) {
        let Some(live) = self.connections.get_mut(id.index, id.generation) else { return };
        if live.owner == Owner::Orphan {
            live.owner = Owner::Nobody;
            live.connection.abort(now);
            self.orphans.finished();
            self.counters.orphans_reset.count();
            self.touch(id.index);
        }
    }
}
