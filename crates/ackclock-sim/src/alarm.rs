//! A host's timer: it fires on time, or as late as the host's settings have it.

use ackclock_core::Instant;

use crate::rng::Rng;
use crate::scenario::HostConfig;
use crate::world::{Wake, World};

/// The one timer of a host. The order is that of use.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Alarm {
    /// The deadline for which it was set, and when it will fire.
    deadline: u64,
    fires: u64,
    /// When it would also fire: an event that an earlier deadline left behind in the calendar.
    spare: u64,
    granularity: u64,
    lateness: u64,
    rng: Rng,
}

impl Alarm {
    pub(crate) fn new(host: &HostConfig, rng: Rng) -> Self {
        Self {
            granularity: host.timer_granularity.map_or(0, |span| span.0),
            lateness: host.timer_lateness.map_or(0, |span| span.0),
            rng,
            deadline: u64::MAX,
            fires: u64::MAX,
            spare: u64::MAX,
        }
    }

    /// Whether a timer that was set for `now` counts: it has not been set to an earlier time since.
    pub(crate) fn rings(&mut self, now: Instant) -> bool {
        let now = now.as_nanos();
        if self.spare == now {
            self.spare = u64::MAX;
        }
        if self.fires != now {
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
        if self.fires == u64::MAX && self.spare <= deadline {
            // Too early does no harm: it is set again then. A sender that is paced would else leave an event at the end
            // of each retransmission timeout that it never comes to.
            self.fires = std::mem::replace(&mut self.spare, u64::MAX);
            return;
        }
        // What is due already waits for the next instant, so that time goes on.
        let mut fires = deadline.max(world.now.as_nanos() + 1);
        if self.granularity > 0 {
            fires = fires.next_multiple_of(self.granularity);
        }
        if self.lateness > 0 {
            fires += self.rng.below(self.lateness + 1);
        }
        if fires < self.fires {
            self.spare = self.spare.min(self.fires);
            self.fires = fires;
            world.wake(fires, wake);
        }
    }
}
