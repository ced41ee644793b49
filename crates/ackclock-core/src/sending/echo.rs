//! The echoed timestamp of an acknowledgement, on this end's clock.

use std::time::Duration;

use crate::Instant;

/// An echoed timestamp (TSecr of RFC 7323 §3.2), minus the connection's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    ticks: u32,
    /// A zero on the wire is not an echo for round-trip samples.
    is_zero: bool,
}

impl Echo {
    /// From TSecr and the offset of the connection's clock.
    pub(crate) fn new(echoed: u32, offset: u32) -> Self {
        Self { ticks: echoed.wrapping_sub(offset), is_zero: echoed == 0 }
    }

    /// The clock's value when the answered segment left.
    pub(super) fn ticks(self) -> u32 {
        self.ticks
    }

    /// The minimum and maximum age of that; the clock has ticked once between the two. `None` for a value
    /// that cannot have been sent within the last half hour.
    pub(super) fn age(self, now: Instant) -> Option<(Duration, Duration)> {
        let ticks = clock(now).wrapping_sub(self.ticks);
        let since_tick = Duration::from_nanos(now.as_nanos() % NANOS_PER_TICK);
        let most = Duration::from_millis(u64::from(ticks)).saturating_add(since_tick);
        let least = most.saturating_sub(Duration::from_nanos(NANOS_PER_TICK));
        (!self.is_zero && ticks < 1_800_000).then_some((least, most))
    }

    /// Whether the answered segment left in an earlier tick than `at`.
    pub(super) fn is_from_before(self, at: Instant) -> bool {
        let age = clock(at).wrapping_sub(self.ticks);
        age != 0 && age < 1 << 31
    }
}

const NANOS_PER_TICK: u64 = 1_000_000;

/// The millisecond clock behind all TSvals, before the offset (RFC 7323 §5.4: 1 ms to 1 s a tick).
#[expect(clippy::cast_possible_truncation, reason = "the clock wraps")]
pub(crate) fn clock(now: Instant) -> u32 {
    now.as_millis() as u32
}
