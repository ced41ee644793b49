//! Pauses: the endpoint's own time stands still while nothing drives it.
//!
//! A process is stopped, a virtual machine is frozen, a clock is set forwards: then the driver's clock has moved on by an hour,
//! and the endpoint has seen nothing of it. Taken at its word, that clock would make round trips of an hour of the
//! acknowledgements that lie in the device's queue, and would end connections at once whose peers had no chance to answer.
//! Linux's TCP lives by a clock that stops while the machine is suspended (`CLOCK_MONOTONIC`, clock_gettime(2)). So does an
//! endpoint, by [`Pauses`], which alone knows the difference between the two clocks.
//!
//! A pause is seen by a deadline: a driver calls at the latest when [`Endpoint::poll_timeout`] says so, and one that comes
//! [`LEAST`] later than that has paused. Time then goes on from that deadline, so the timer that was due fires, and those
//! behind it in their turn. An endpoint without a deadline cannot tell a pause from rest; nothing in it counts time either.
//!
//! What was in flight gives no round trip: part of its way may lie in the pause, and the rest shows too little (RFC 6298 §3
//! leaves out what was sent again for the same reason, that nothing shows how long it took).
//!
//! Several endpoints of one host each leave out their own pauses. What they share is in the driver's time.

use super::Endpoint;
use crate::Instant;

/// What the endpoint's clock has left out.
#[derive(Debug)]
pub(super) struct Pauses {
    /// All of it together, as the instant at which the endpoint's clock would have shown zero.
    origin: Instant,
    /// When the endpoint went on the last time, by its own clock.
    resumed: Instant,
    /// The driver's time at its last call.
    seen: Instant,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self { origin: Instant::ZERO, resumed: Instant::ZERO, seen: Instant::ZERO }
    }

    /// What the endpoint's clock shows when the driver's shows `driver`.
    #[inline]
    fn own(&self, driver: Instant) -> Instant {
        Instant::ZERO.plus_nanos(driver.nanos_since(self.origin))
    }

    /// What the driver's clock shows when the endpoint's shows `own`.
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
    /// What the endpoint's own clock shows when the driver's shows `now`: the same, without the times when nothing drove
    /// the endpoint. [`Connection::info`](crate::Connection::info) reckons by it.
    #[must_use]
    pub fn own_time(&self, now: Instant) -> Instant {
        self.pauses.own(now)
    }

    /// The driver's time for one of the endpoint's.
    #[inline]
    pub(super) fn driver_time(&self, own: Instant) -> Instant {
        self.pauses.driver(own)
    }

    /// Records the driver's time and returns the endpoint's. A clock that runs backwards stands still.
    #[inline]
    pub(super) fn advance(&mut self, driver: Instant) -> Instant {
        // A driver reads its clock once a turn, so most calls bring the time of the one before.
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

    /// There was no call for long: if a deadline passed meanwhile, time goes on from there.
    #[cold]
    #[inline(never)]
    fn leave_pause_out(&mut self, now: Instant) -> Instant {
        let Some(due) = self.next_due() else { return now };
        // What left before lies before this, if by a nanosecond.
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

/// How late a call has to be. A busy host may be late by tenths of a second, which a round trip and a timer may show.
const LEAST_NS: u64 = 1_000_000_000;
