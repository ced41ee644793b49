//! Pauses: the endpoint's own time stands still while no driver calls it.
//!
//! A process is stopped, a virtual machine is frozen, a clock is set forwards. The driver's clock has then
//! moved by an hour that the endpoint never saw. By that clock, the acknowledgements waiting in the device's
//! queue would measure round trips of an hour, and connections would end at once although their peers had no
//! chance to answer. Linux's TCP lives by a clock that stops while the machine is suspended
//! (`CLOCK_MONOTONIC`, clock_gettime(2)). So does an endpoint, through [`Pauses`], which alone knows the
//! difference between the two clocks.
//!
//! A deadline reveals a pause: a driver must call by the time that [`Endpoint::poll_timeout`] returns, and
//! one that calls [`LEAST`] later than that has paused. Time then continues from that deadline, so the timer
//! that was due fires, and later ones follow in turn. An endpoint without a deadline cannot tell a pause from
//! rest, but nothing in it counts time either.
//!
//! Segments in flight during a pause give no round-trip sample: part of their way may lie in the pause, and
//! the rest is too short. (RFC 6298 §3 excludes retransmitted segments for the same reason: their round trip
//! is ambiguous.)
//!
//! Several endpoints of one host each leave out their own pauses. What they share uses the driver's time.

use super::Endpoint;
use crate::Instant;

/// The time that the endpoint's clock has left out.
#[derive(Debug)]
pub(super) struct Pauses {
    /// The sum of the pauses, as the instant at which the endpoint's clock would have shown zero.
    origin: Instant,
    /// When the endpoint last resumed, by its own clock.
    resumed: Instant,
    /// The driver's time at its last call.
    seen: Instant,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self { origin: Instant::ZERO, resumed: Instant::ZERO, seen: Instant::ZERO }
    }

    /// The endpoint's time when the driver's clock shows `driver`.
    #[inline]
    fn own(&self, driver: Instant) -> Instant {
        Instant::ZERO.plus_nanos(driver.nanos_since(self.origin))
    }

    /// The driver's time when the endpoint's clock shows `own`.
    #[inline]
    fn driver(&self, own: Instant) -> Instant {
        self.origin.plus_nanos(own.as_nanos())
    }

    /// Whether the endpoint has paused since `own`, a time of its clock.
    pub(super) fn is_since(&self, own: Instant) -> bool {
        own < self.resumed
    }
}

impl Endpoint {
    /// The endpoint's time when the driver's clock shows `now`: the driver's time without the pauses.
    /// [`Connection::info`](crate::Connection::info) uses it.
    #[must_use]
    pub fn own_time(&self, now: Instant) -> Instant {
        self.pauses.own(now)
    }

    /// The driver's time for an instant of the endpoint's.
    #[inline]
    pub(super) fn driver_time(&self, own: Instant) -> Instant {
        self.pauses.driver(own)
    }

    /// Records the driver's time and returns the endpoint's. If the driver's clock runs backwards, time
    /// stands still.
    #[inline]
    pub(super) fn advance(&mut self, driver: Instant) -> Instant {
        // A driver reads its clock once a turn, so most calls bring the same time as the one before.
        if driver != self.pauses.seen {
            self.advance_to(driver);
        }
        self.now
    }

    #[inline(never)]
    fn advance_to(&mut self, driver: Instant) {
        self.pauses.seen = driver;
        let mut now = self.pauses.own(driver);
        if now.nanos_since(self.now) >= LEAST_NS {
            now = self.leave_pause_out(now);
        }
        self.now = self.now.max(now);
    }

    /// There was no call for a long time: if a deadline passed meanwhile, time continues from there.
    #[cold]
    #[inline(never)]
    fn leave_pause_out(&mut self, now: Instant) -> Instant {
        let Some(due) = self.next_due() else { return now };
        // Everything sent before the pause is earlier than this, if only by a nanosecond.
        let resumed = due.max(self.now).plus_nanos(1);
        let late = now.nanos_since(resumed);
        if late < LEAST_NS {
            return now;
        }
        self.pauses.origin = self.pauses.origin.plus_nanos(late);
        self.pauses.resumed = resumed;
        for live in self.connections.values_mut() {
            live.connection.on_pause(resumed);
        }
        resumed
    }
}

/// How late a call must be. A busy host may be late by tenths of a second, and round trips and timers may
/// show that.
const LEAST_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_from_the_end_of_a_pause_is_not_from_before_it() {
        let resumed = Instant::from_millis(1000);
        let pauses = Pauses { resumed, ..Pauses::new() };
        assert!(pauses.is_since(resumed - std::time::Duration::from_nanos(1)));
        assert!(!pauses.is_since(resumed));
    }
}
