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
    pub fn new(echoed: u32, offset: u32) -> Self {
        Self { ticks: echoed.wrapping_sub(offset), is_zero: echoed == 0 }
    }

    /// The clock's value when the answered segment left.
    pub fn ticks(self) -> u32 {
        self.ticks
    }

    /// The minimum and maximum age of that; the clock has ticked once between the two. `None` for a value
    /// that cannot have been sent within the last half hour.
    pub fn age(self, now: Instant) -> Option<(Duration, Duration)> {
        let ticks = clock(now).wrapping_sub(self.ticks);
        let since_tick = Duration::from_nanos(now.as_nanos() % NANOS_PER_TICK);
        let most = Duration::from_millis(u64::from(ticks)).saturating_add(since_tick);
        let least = most.saturating_sub(Duration::from_nanos(NANOS_PER_TICK));
        (!self.is_zero && ticks < 1_800_000).then_some((least, most))
    }

    /// Whether the answered segment left in an earlier tick than `at`.
    pub fn is_from_before(self, at: Instant) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_as_old_as_its_tick_and_at_most_half_an_hour() {
        let (now, ms) = (Instant::from_nanos(5_000_000_300_000), Duration::from_millis);
        let age = |ticks: u32| Echo::new(clock(now).wrapping_sub(ticks), 0).age(now);
        let since_tick = Duration::from_micros(300);
        assert_eq!(age(0), Some((Duration::ZERO, since_tick)));
        assert_eq!(age(7), Some((ms(6) + since_tick, ms(7) + since_tick)));
        assert_eq!(age(1_799_999), Some((ms(1_799_998) + since_tick, ms(1_799_999) + since_tick)));
        assert_eq!(age(1_800_000), None);
        assert_eq!(age(u32::MAX), None, "from the future");
        assert_eq!(Echo::new(0, 1 + u32::MAX.wrapping_sub(clock(now))).age(now), None, "zero does not count");
    }

    #[test]
    fn an_echo_is_from_before_if_its_tick_is_earlier_on_the_circle() {
        let at = Instant::from_millis(5_000_000);
        let is_before = |ticks: u32| Echo::new(clock(at).wrapping_sub(ticks), 0).is_from_before(at);
        assert!(!is_before(0) && is_before(1) && is_before((1 << 31) - 1));
        assert!(!is_before(1 << 31) && !is_before(u32::MAX));
    }
}
