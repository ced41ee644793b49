//! A host's timer: it fires on time, or as late as the host's settings have it.

use ackclock_core::Instant;

use crate::rng::Rng;
use crate::scenario::HostConfig;
use crate::world::{Wake, World};

/// The one timer of a host.
#[derive(Debug)]
pub(crate) struct Alarm {
    granularity: u64,
    lateness: u64,
    rng: Rng,
    /// The deadline for which it was set, and when it will fire.
    deadline: u64,
    fires: u64,
}

impl Alarm {
    pub(crate) fn new(host: &HostConfig, rng: Rng) -> Self {
        Self {
            granularity: host.timer_granularity.map_or(0, |span| span.0),
            lateness: host.timer_lateness.map_or(0, |span| span.0),
            rng,
            deadline: u64::MAX,
            fires: u64::MAX,
        }
    }

    /// Whether a timer that was set for `now` counts: it has not been set to an earlier time since.
    pub(crate) fn rings(&mut self, now: Instant) -> bool {
        if self.fires != now.as_nanos() {
            return false;
        }
        self.deadline = u64::MAX;
        self.fires = u64::MAX;
        true
    }

    /// Has `wake` happen at `deadline`, or as late as the host's settings have it, unless it will happen before anyway.
    #[inline]
    pub(crate) fn set(&mut self, deadline: Instant, wake: Wake, world: &mut World) {
        let deadline = deadline.as_nanos();
        if deadline >= self.deadline {
            return;
        }
        self.deadline = deadline;
        // What is due already waits for the next instant, so that time goes on.
        let mut fires = deadline.max(world.now.as_nanos() + 1);
        if self.granularity > 0 {
            fires = fires.next_multiple_of(self.granularity);
        }
        if self.lateness > 0 {
            fires += self.rng.below(self.lateness + 1);
        }
        if fires < self.fires {
            self.fires = fires;
            world.wake(fires, wake);
        }
    }
}
