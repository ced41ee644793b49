//! A host's timer. It fires on time, or as late as the host's settings say.

use ackclock_core::Instant;

use crate::near::Key;
use crate::rng::Rng;
use crate::scenario::HostConfig;
use crate::world::{Wake, World};

/// The only timer of a host. Fields are in order of use.
///
/// A paced sender alternates between the next segment's time and the end of its retransmission timeout. That
/// end is far away. The event for an earlier end stays in the calendar and moves on to the later one when its
/// turn comes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Alarm {
    /// The deadline for which it was set.
    deadline: u64,
    /// When it fires, and in which order.
    fires: Key,
    /// When the event for it comes: then, or earlier.
    comes: u64,
    /// When another, later event of this timer comes.
    spare: u64,
    granularity: u64,
    lateness: u64,
    rng: Rng,
}

impl Alarm {
    pub fn new(host: &HostConfig, rng: Rng) -> Self {
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

    /// An event of this timer, `wake`, has come. Returns whether the timer is still set to that time.
    pub fn rings(&mut self, wake: Wake, world: &mut World) -> bool {
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

    /// Schedules `wake` at `deadline`, or as late as the host's settings say, unless it will happen earlier
    /// anyway.
    #[inline]
    pub fn set(&mut self, deadline: Instant, wake: Wake, world: &mut World) {
        let deadline = deadline.as_nanos();
        if deadline >= self.deadline {
            return;
        }
        self.deadline = deadline;
        // A deadline that is already due waits for the next instant, so that time advances.
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

    /// Runs to the next time at which the alarm rings. Returns that time, and how many of its events it took.
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
        // The last event is for the end of the timeout. It rings there unless the timer is set again.
        alarm.set(Instant::from_nanos(5_000_000_000), Wake::Host(0), &mut world);
        assert_eq!(next(&mut alarm, &mut world).0, 5_000_000_000);
    }
}
