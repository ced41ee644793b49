//! Relief: when the memory budget is spent and a connection that gets on was refused, those that hold memory without
//! getting on give way, the longest-pinned first.
//!
//! One walk over all connections finds those to reset, sorted, and resets of them until half of the budget is free. So the
//! next plea is far away; and walks that find nothing are no more frequent than [`WALK_INTERVAL`].

use std::time::Duration;

use super::Endpoint;
use crate::Instant;

/// The least time between two walks over all connections.
const WALK_INTERVAL: Duration = Duration::from_millis(100);

impl Endpoint {
    /// Sees to it that a connection which pleaded for memory finds some.
    #[inline]
    pub(super) fn relieve(&mut self, now: Instant) {
        if self.budget.has_pleaded(&mut self.pleas_heard) {
            self.relieve_now(now);
        }
    }

    #[cold]
    fn relieve_now(&mut self, now: Instant) {
        let beside = self.beside();
        if now < beside.walk_after {
            return;
        }
        beside.walk_after = now + WALK_INTERVAL;
        let pinned_since = |live: &super::live::Live| live.connection.pinned_since(now);
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
            live.connection.give_way(now);
            self.beside().counters.memory_resets += 1;
            self.touch(index);
        }
    }
}
