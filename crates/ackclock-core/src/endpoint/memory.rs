//! An endpoint's part in the memory budget: when it is spent and a connection that makes progress was
//! refused, connections that hold memory without progress are reset.
//!
//! One walk over all connections finds them, and frees half of the budget. The next refusal is then far away,
//! and walks that find nothing are at least [`WALK_INTERVAL`] apart.

use std::time::Duration;

use crate::Instant;
use crate::budget::Budget;

/// The budget, and the refusals that this endpoint has seen.
#[derive(Debug)]
pub(super) struct Memory {
    budget: Budget,
    seen: u32,
    /// The earliest time for another walk.
    walk_after: Instant,
}

/// The shortest time between two walks over all connections.
const WALK_INTERVAL: Duration = Duration::from_millis(100);

impl Memory {
    pub fn new(budget: Budget) -> Self {
        Self { budget, seen: 0, walk_after: Instant::ZERO }
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes in all buffers, and their limit.
    pub fn usage(&self) -> (usize, usize) {
        (self.budget.used(), self.budget.limit())
    }

    /// How often a connection that makes progress was refused memory, at any endpoint that shares the budget.
    pub fn refusals(&self) -> u32 {
        self.budget.refusals()
    }

    /// Whether a connection that makes progress was refused memory, and no walk has followed.
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.budget.refusals() != self.seen
    }

    /// When a walk is due.
    #[inline]
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.is_pressed().then(|| self.walk_after.max(now))
    }

    /// Whether a walk may begin now, which answers all refusals so far.
    pub fn may_walk(&mut self, now: Instant) -> bool {
        let may = now >= self.walk_after;
        if may {
            self.walk_after = now + WALK_INTERVAL;
            self.seen = self.budget.refusals();
        }
        may
    }

    /// Whether a walk has freed enough.
    pub fn is_half_free(&self) -> bool {
        self.budget.used() <= self.budget.limit() / 2
    }
}

ackclock_form::form! {
    struct Memory { budget, seen, walk_after }
}
