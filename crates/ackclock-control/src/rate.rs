//! A sending rate for datagrams: congestion avoidance without a window.
//!
//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, footnote 13: on success the
//! interval I between packets becomes αI/(α+I), on loss 2I. The rate 1/I grows by the same amount, 1/α, with
//! each success, and a loss halves it: the window's increase and decrease in terms of rate. Subtracting a
//! constant from the interval instead would let the rate grow without bound.
//!
//! It serves requests and answers over UDP, which have no window.
//!
//! ```
//! use std::time::Duration;
//! use ackclock_control::rate::DatagramRate;
//!
//! let mut rate = DatagramRate::new(Duration::from_millis(100), Duration::from_secs(10));
//! rate.on_loss();
//! assert_eq!(rate.interval(), Duration::from_millis(200));
//! rate.on_success();
//! assert!(rate.interval() < Duration::from_millis(200));
//! ```

use std::num::NonZeroU128;
use std::time::Duration;

use crate::divide::at_least_one;
use crate::time::nanos;

/// The interval between datagrams of one sender.
#[derive(Clone, Debug)]
pub struct DatagramRate {
    /// I, in 2^-16 ns.
    interval: u64,
    /// α, in 2^-16 ns.
    alpha: u64,
}

impl DatagramRate {
    /// A sender that starts with one datagram per `interval` and gains one datagram per `alpha` with each
    /// success. Both are clamped to between a microsecond and 40 hours.
    #[must_use]
    pub fn new(interval: Duration, alpha: Duration) -> Self {
        Self { interval: fixed(interval), alpha: fixed(alpha) }
    }

    /// A datagram was answered.
    pub fn on_success(&mut self) {
        // Footnote 13: I <- αI / (α + I).
        let (alpha, interval) = (u128::from(self.alpha), u128::from(self.interval));
        let shorter = alpha.saturating_mul(interval).checked_div(alpha.saturating_add(interval));
        let shorter = shorter.and_then(|interval| u64::try_from(interval).ok()).unwrap_or(INTERVAL_MAX);
        self.interval = shorter.clamp(INTERVAL_MIN, INTERVAL_MAX);
    }

    /// A datagram was lost.
    pub fn on_loss(&mut self) {
        // Footnote 13: the decrease stays multiplicative: the interval doubles.
        self.interval = self.interval.saturating_mul(2).min(INTERVAL_MAX);
    }

    /// The time to leave between two datagrams.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval >> FRACTION_BITS)
    }

    /// Datagrams an hour, for reports.
    #[must_use]
    pub fn per_hour(&self) -> u64 {
        let hour = 3_600_000_000_000_u128 << FRACTION_BITS;
        u64::try_from(hour / NonZeroU128::from(at_least_one(self.interval))).unwrap_or(u64::MAX)
    }
}

fn fixed(duration: Duration) -> u64 {
    nanos(duration).min(INTERVAL_MAX >> FRACTION_BITS).saturating_mul(1 << FRACTION_BITS).max(INTERVAL_MIN)
}

/// Bits below the nanosecond, because a success at a million datagrams a second changes the interval only a
/// little.
const FRACTION_BITS: u32 = 16;
/// A microsecond.
const INTERVAL_MIN: u64 = 1000 << FRACTION_BITS;
/// 40 hours.
const INTERVAL_MAX: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::DatagramRate;

    fn rate_per_second(rate: &DatagramRate) -> f64 {
        65_536e9 / rate.interval as f64
    }

    #[test]
    fn loss_halves_the_rate() {
        // Tests: J11
        let mut rate = DatagramRate::new(Duration::from_millis(10), Duration::from_secs(1));
        rate.on_loss();
        assert!((rate_per_second(&rate) - 50.0).abs() < 1e-6);
    }

    #[test]
    fn interval_stays_within_its_bounds() {
        let mut rate = DatagramRate::new(Duration::ZERO, Duration::ZERO);
        (0..100).for_each(|_| rate.on_success());
        assert_eq!(rate.interval(), Duration::from_micros(1));
        (0..100).for_each(|_| rate.on_loss());
        assert!(rate.interval() > Duration::from_secs(30 * 3600));
        assert_eq!(DatagramRate::new(Duration::MAX, Duration::MAX).interval(), rate.interval());
    }

    proptest! {
        // The rate grows linearly, by 1/α with each success.
        #[test]
        fn rate_grows_linearly(interval_us in 100_u64..10_000_000, alpha_ms in 10_u64..100_000, successes in 1_u32..500) {
            // Tests: J11
            let (interval, alpha) = (Duration::from_micros(interval_us), Duration::from_millis(alpha_ms));
            let mut rate = DatagramRate::new(interval, alpha);
            let start = rate_per_second(&rate);
            (0..successes).for_each(|_| rate.on_success());
            let expected = start + f64::from(successes) / alpha.as_secs_f64();
            prop_assert!((rate_per_second(&rate) / expected - 1.0).abs() < 1e-6, "{} is not \
                {expected}", rate_per_second(&rate));
        }
    }
}
