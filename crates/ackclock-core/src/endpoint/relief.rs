//! Relief: when the memory budget is spent and a connection that makes progress was refused, those that hold
//! memory without progress are reset, the longest-pinned first.
//!
//! One walk over all connections finds the candidates, sorted, and resets them until half of the budget is
//! free. The next plea is then far away, and walks that find nothing are at least [`WALK_INTERVAL`] apart.

use std::time::Duration;

use ackclock_control::tally::Tally;

use super::Endpoint;
use crate::Instant;

/// The shortest time between two walks over all connections.
const WALK_INTERVAL: Duration = Duration::from_millis(100);

impl Endpoint {
    /// How often a connection that makes progress was refused memory, at any endpoint that shares the budget.
    /// When this changes, the others have a new deadline ([`poll_timeout`](Self::poll_timeout)): what holds
    /// the memory may be theirs.
    #[must_use]
    pub fn memory_pleas(&self) -> u32 {
        self.budget.pleas()
    }

    /// Finds memory for a connection that pleaded.
    #[inline]
    pub(super) fn relieve(&mut self, now: Instant) {
        if self.budget.pleas() != self.pleas_heard {
            self.relieve_now(now);
        }
    }

    /// When a plea that was not heard yet will be, by the endpoint's own clock.
    #[inline]
    pub(super) fn relief_due(&self) -> Option<Instant> {
        if self.budget.pleas() == self.pleas_heard {
            return None;
        }
        let walk_after = self.beside.as_ref().map_or(self.now, |beside| beside.walk_after);
        Some(walk_after.max(self.now))
    }

    #[cold]
    fn relieve_now(&mut self, now: Instant) {
        let pleas = self.budget.pleas();
        let beside = self.beside();
        if now < beside.walk_after {
            return;
        }
        beside.walk_after = now + WALK_INTERVAL;
        self.pleas_heard = pleas;
        let pinned_since = |live: &super::live::Live| live.connection.stalled_since(now);
        let mut pinned: Vec<_> = self
            .connections
            .iter()
            .filter_map(|(index, _, live)| pinned_since(live).map(|since| (since, index)))
            .collect();
        pinned.sort_unstable();
        for (_, index) in pinned {
            if self.budget.used() <= self.budget.limit() / 2 {
                break;
            }
            let Some(live) = self.connections.at_mut(index) else { continue };
            live.connection.give_up_memory(now);
            self.beside().counters.memory_resets.count();
            self.touch(index);
        }
    }
}
