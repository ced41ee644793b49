//! The endpoint's clock, which stands still while no driver calls it.
//!
//! A process is stopped, a virtual machine is frozen, a clock is set forwards. The driver's clock has then
//! moved by an hour that the endpoint never saw. By that clock, the acknowledgements waiting in the device's
//! queue would measure round trips of an hour, and connections would end at once although their peers had no
//! chance to answer. Linux's TCP lives by a clock that stops while the machine is suspended
//! (`CLOCK_MONOTONIC`, clock_gettime(2)). So does an endpoint, through [`Clock`], which alone knows the
//! difference between the two clocks.
//!
//! A deadline reveals a pause: a driver must call by the time that
//! [`Endpoint::poll_timeout`](super::Endpoint::poll_timeout) returns, and one that calls [`LEAST_NS`] later
//! than that has paused. Time then continues from that deadline, so the timer that was due fires, and later
//! ones follow in turn. An endpoint without a deadline cannot tell a pause from rest, but nothing in it
//! counts time either.
//!
//! Segments in flight during a pause give no round-trip sample: part of their way may lie in the pause, and
//! the rest is too short. (RFC 6298 §3 excludes retransmitted segments for the same reason: their round trip
//! is ambiguous.)
//!
//! Each endpoint of a host leaves out its own pauses. State that they share uses the driver's time.

use ackclock_form::{lent, lifetime};

use crate::Instant;

/// An endpoint's clock.
#[derive(Debug)]
pub(super) struct Clock {
    now: Instant,
    /// The sum of the pauses, as the instant at which this clock would have shown zero.
    origin: Instant,
    /// When the endpoint last resumed, by this clock.
    resumed: Instant,
    /// The driver's time at its last call.
    seen: Instant,
}

impl Clock {
    pub fn new(now: Instant) -> Self {
        Self { now, origin: Instant::ZERO, resumed: Instant::ZERO, seen: Instant::ZERO }
    }

    /// The latest time seen.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The sum of the pauses, as the instant at which this clock would have shown zero. Two clocks of one
    /// driver's time agree if theirs are equal.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// The time here when the driver's clock shows `driver`.
    #[inline]
    pub fn own(&self, driver: Instant) -> Instant {
        Instant::ZERO.plus_nanos(driver.nanos_since(self.origin))
    }

    /// The driver's time when this clock shows `own`.
    #[inline]
    pub fn driver(&self, own: Instant) -> Instant {
        self.origin.plus_nanos(own.as_nanos())
    }

    /// Whether the endpoint has paused since `own`, a time of this clock.
    pub fn has_paused_since(&self, own: Instant) -> bool {
        own < self.resumed
    }

    /// Records the driver's time. If the driver's clock runs backwards, time stands still. If there was no
    /// call for a long time, the clock only moves with [`resume`](Self::resume), and this returns `false`.
    #[inline]
    pub fn advance(&mut self, driver: Instant) -> bool {
        // A driver reads its clock once a turn, so most calls bring the same time as the one before.
        driver == self.seen || self.advance_to(driver)
    }

    #[inline(never)]
    fn advance_to(&mut self, driver: Instant) -> bool {
        self.seen = driver;
        let now = self.own(driver);
        let in_time = now.nanos_since(self.now) < LEAST_NS;
        if in_time {
            self.now = self.now.max(now);
        }
        in_time
    }

    /// There was no call for a long time: if a deadline passed meanwhile, time continues from there. Returns
    /// when the endpoint resumed if so.
    pub fn resume(&mut self, due: Option<Instant>) -> Option<Instant> {
        let now = self.own(self.seen);
        // Everything sent before the pause is earlier than this, if only by a nanosecond.
        let resumed = due.map(|due| due.max(self.now).plus_nanos(1));
        let late = resumed.map_or(0, |resumed| now.nanos_since(resumed));
        let resumed = resumed.filter(|_| late >= LEAST_NS);
        if let Some(resumed) = resumed {
            self.origin = self.origin.plus_nanos(late);
            self.resumed = resumed;
        }
        self.now = self.now.max(resumed.unwrap_or(now));
        resumed
    }
}

/// How late a call must be. A busy host may be late by tenths of a second, and round trips and timers may
/// show that.
const LEAST_NS: u64 = 1_000_000_000;

ackclock_form::form! {
    struct Clock { now as lent, origin as lifetime, resumed, seen as lifetime }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_from_the_end_of_a_pause_is_not_from_before_it() {
        let resumed = Instant::from_millis(1000);
        let clock = Clock { resumed, ..Clock::new(Instant::ZERO) };
        assert!(clock.has_paused_since(resumed - std::time::Duration::from_nanos(1)));
        assert!(!clock.has_paused_since(resumed));
    }
}
