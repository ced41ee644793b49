//! The estimator of 1988 in its original arithmetic: V. Jacobson and M. Karels, "Congestion Avoidance and
//! Control", SIGCOMM 1988 (revised November 1988), Appendix A.2.
//!
//! The mean is kept in eighths of a clock tick and the mean deviation in quarters, so that gains of 1/8 and
//! 1/4 are shifts. Both are at most one tick away from the recursion with real numbers (a test proves it).
//!
//! The paper leaves the start open. Here the first sample sets the mean to itself and the deviation to
//! half of it, as in RFC 6298 (2.2); in BSD's code it counts a tick more
//! ([`Arithmetic::BsdTicks`](super::Arithmetic)).

use crate::divide::at_least_one;

/// Mean and mean deviation, scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickEstimator {
    /// Mean, in eighths of a tick (`sa`).
    sa: i64,
    /// Mean deviation, in quarters of a tick (`sv`).
    sv: i64,
}

impl TickEstimator {
    /// The estimator after its first sample.
    #[must_use]
    pub fn first(ticks: u32) -> Self {
        let m = i64::from(ticks);
        Self { sa: m << 3, sv: m << 1 }
    }

    /// An estimator with this mean and mean deviation, in nanoseconds, on a clock of `tick` nanoseconds,
    /// rounded to nearest.
    #[must_use]
    pub fn from_averages(mean: u64, deviation: u64, tick: u64) -> Self {
        let tick = at_least_one(tick);
        let scaled = |average: u64, by: u64| {
            let units = average.saturating_mul(by).saturating_add(tick.get() / 2) / tick;
            i64::try_from(units).unwrap_or(i64::MAX).min(1 << 48)
        };
        Self { sa: scaled(mean, 8), sv: scaled(deviation, 4) }
    }

    /// Takes a round trip of `ticks`.
    pub fn update(&mut self, ticks: u32) {
        // The error of the prediction moves the mean by an eighth. Since sa = 8a, all of it is added.
        let err = i64::from(ticks).saturating_sub(self.sa >> 3);
        self.sa = self.sa.saturating_add(err);
        self.sv = self.sv.saturating_add(err.saturating_abs()).saturating_sub(self.sv >> 2);
    }

    /// The timeout in ticks: a + 2v in 1988 (`k` = 2), a + 4v in the revision. The truncated quarters of
    /// 4v carry the half tick of rounding and the tick of phase (Appendix A.2). Only the sum is cut to
    /// whole ticks, so that the fractions of a and of 2v may make one, as in BSD's code.
    #[must_use]
    pub fn rto_ticks(&self, k: u8) -> u64 {
        let rto = (self.sa >> 1).saturating_add(self.sv.saturating_mul(k.into())) >> 2;
        rto.max(0).unsigned_abs()
    }

    /// The mean, in eighths of a tick.
    #[must_use]
    pub fn mean_eighths(&self) -> u64 {
        self.sa.max(0).unsigned_abs()
    }

    /// The mean deviation, in quarters of a tick.
    #[must_use]
    pub fn deviation_quarters(&self) -> u64 {
        self.sv.max(0).unsigned_abs()
    }
}

ackclock_form::form! {
    struct TickEstimator { sa, sv }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::TickEstimator;

    #[test]
    fn first_sample_gives_three_times_itself() {
        assert_eq!(TickEstimator::first(6).rto_ticks(4), 18);
    }

    #[test]
    fn fractions_of_mean_and_deviation_add_up() {
        // sys/netinet/tcp_timer.c of 4.3BSD, 30 June 1987: ((srtt >> 2) + rttvar) >> 1.
        let ticks = TickEstimator { sa: 12, sv: 3 };
        assert_eq!(ticks.rto_ticks(2), ((12 >> 2) + 3) >> 1);
        assert_eq!(ticks.rto_ticks(4), (12 >> 3) + 3);
    }

    #[test]
    fn the_factor_of_1988_is_two() {
        // Tests: J1
        assert_eq!(TickEstimator::first(6).rto_ticks(2), 12);
    }

    proptest! {
        // Within the stated rounding of the recursion with real numbers, for any samples.
        #[test]
        fn equals_the_floating_recursion_within_a_tick(samples in prop::collection::vec(0_u32..1 << 20, 1..200)) {
            // Tests: J1
            let mut ticks = TickEstimator::first(samples[0]);
            let (mut a, mut v) = (f64::from(samples[0]), f64::from(samples[0]) / 2.0);
            for &m in &samples[1..] {
                ticks.update(m);
                let err = f64::from(m) - a;
                a += err / 8.0;
                v += (err.abs() - v) / 4.0;
                let (sa, sv) = (ticks.sa as f64 / 8.0, ticks.sv as f64 / 4.0);
                // Truncating sa >> 3 biases the mean upwards by less than a tick, sv likewise.
                prop_assert!(sa - a >= -1e-6 && sa - a < 1.0, "mean {sa} is not {a}");
                prop_assert!((sv - v).abs() < 2.0, "deviation {sv} is not {v}");
            }
        }
    }
}
