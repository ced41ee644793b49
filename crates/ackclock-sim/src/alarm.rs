//! A host's timer: it fires on time, or as late as the host's settings have it.

use ackclock_core::Instant;

use crate::near::Key;
use crate::rng::Rng;
use crate::scenario::HostConfig;
use crate::world::{Wake, World};

/// The one timer of a host. The order is that of use.
///
/// A sender that is paced sets it to the next segment's time and back to the end of its retransmission timeout, again
/// and again. That end is far away, so the event that is already there, for an earlier one, is left in the calendar and goes
/// on to the later one when its turn comes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Alarm {
    /// The deadline for which it was set.
    deadline: u64,
    /// When it fires, and in which order.
    fires: Key,
    /// When the event comes that leads to that: then, or earlier.
    comes: u64,
    /// When another event of this timer comes, later.
    spare: u64,
    granularity: u64,
    lateness: u64,
    rng: Rng,
}

impl Alarm {
    pub(crate) fn new(host: &HostConfig, rng: Rng) -> Self {
        Self {
            deadline: NEVER,
            fires: Key { at: NEVER, number: 0 },
            comes: NEVER,
            spare: NEVER,
            granularity: host.timer_granularity.map_or(0, |span| span.0),
            lateness: host.timer_lateness.map_or(0, |span| span.0),
            rng,
        }
    }

    /// An event of this timer has come, and is `wake`. Whether that is the one that it was set for: it has not been set
    /// to another time since.
    pub(crate) fn rings(&mut self, wake: Wake, world: &mut World) -> bool {
        let now = world.now.as_nanos();
        if self.spare == now {
            self.spare = NEVER;
        }
        if self.comes != now {
            return false;
        }
        if self.fires.at > now {
            self.comes = self.fires.at;
            world.timers.push(self.fires, wake);
            return false;
        }
        self.comes = NEVER;
        self.fires.at = NEVER;
        self.deadline = NEVER;
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
        if fires >= self.fires.at {
            return;
        }
        self.fires = world.net.key(fires);
        if self.comes > fires {
            let (first, last) = (self.spare.min(self.comes), self.spare.max(self.comes));
            if first <= fires {
                (self.comes, self.spare) = (first, last);
            } else {
                (self.comes, self.spare) = (fires, first);
                world.timers.push(self.fires, wake);
            }
        }
    }
}

const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::Calendar;
    use crate::packet::Scratch;
    use crate::route::Routes;
    use crate::scenario::Scenario;
    use crate::units::Span;
    use crate::world::Net;

    /// Runs to the next time at which the alarm rings; how many of its events came for that.
    fn next(alarm: &mut Alarm, world: &mut World) -> (u64, u32) {
        for events in 1.. {
            let key = world.timers.peek_until(u64::MAX).expect("an event is there");
            world.timers.pop();
            world.now = Instant::from_nanos(key.at);
            if alarm.rings(Wake::Host(0), world) {
                return (key.at, events);
            }
        }
        unreachable!("events end");
    }

    #[test]
    fn a_paced_sender_leaves_no_event_for_each_segment_behind() {
        let mut world = World {
            now: Instant::ZERO,
            net: Net::new(Vec::new(), Routes::default(), false),
            timers: Calendar::new(),
            flows: Vec::new(),
            scratch: Scratch::new(),
            zeros: Box::default(),
        };
        let host = Scenario::new(Span::seconds(1)).host("a").hosts.remove(0);
        let mut alarm = Alarm::new(&host, Rng::derive(1, "alarm"));
        let mut all = 0;
        for segment in 0..1000 {
            let now = segment * 1_000_000;
            world.now = Instant::from_nanos(now);
            for (deadline, wanted) in [(now + 300_000_000, false), (now + 1_000_000, true)] {
                alarm.set(Instant::from_nanos(deadline), Wake::Host(0), &mut world);
                if wanted {
                    let (rang, events) = next(&mut alarm, &mut world);
                    assert_eq!(rang, deadline);
                    all += events;
                }
            }
        }
        assert!(all < 1010, "{all} events for 1000 segments");
        // The last is for the end of the timeout, where it rings if nothing else was asked for.
        alarm.set(Instant::from_nanos(5_000_000_000), Wake::Host(0), &mut world);
        assert_eq!(next(&mut alarm, &mut world).0, 5_000_000_000);
    }
}
