//! The parameters of the retransmission timeout.

use std::num::{NonZeroU16, NonZeroU64};
use std::time::Duration;

/// The parameters of an [`RttEstimator`](super::RttEstimator): the family that Allman and Paxson measure ("On
/// Estimating End-to-End Network Path Properties", SIGCOMM 1999, §2). RFC 6298 is one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RtoConfig {
    /// Weight of a sample in the smoothed round-trip time (α1; RFC 6298's alpha).
    pub srtt_gain: Gain,
    /// Weight of a deviation in its mean (α2; RFC 6298's beta).
    pub rttvar_gain: Gain,
    /// How the two become a timeout.
    pub formula: Formula,
    /// Whether the recursion is fine-grained or that of 1988, in whole ticks.
    pub arithmetic: Arithmetic,
    /// The timeout before the first sample.
    #[cfg_attr(feature = "serde", serde(rename = "initial_us", serialize_with = "crate::micros::one"))]
    pub initial: Duration,
    /// Lower bound of the timeout.
    #[cfg_attr(feature = "serde", serde(rename = "rto_min_us", serialize_with = "crate::micros::one"))]
    pub rto_min: Duration,
    /// Upper bound of the timeout, backoff included.
    #[cfg_attr(feature = "serde", serde(rename = "rto_max_us", serialize_with = "crate::micros::one"))]
    pub rto_max: Duration,
    /// Tick of the clock that measures round trips and runs timeouts (G); zero means a nanosecond.
    #[cfg_attr(feature = "serde", serde(rename = "granularity_us", serialize_with = "crate::micros::one"))]
    pub granularity: Duration,
    /// The quantity that the granularity bounds from below.
    pub deviation_floor: DeviationFloor,
    /// Whether timeouts happen only at the ticks of a free-running clock, as in BSD.
    pub heartbeat: bool,
    /// Which segments are timed.
    pub sampling: Sampling,
    /// The growth of the timeout with expiries in a row.
    pub backoff: Backoff,
}

impl RtoConfig {
    /// RFC 6298, with a lower bound of 200 ms.
    pub const RFC_6298: Self = Self {
        // RFC 6298 §2 (2.3): alpha = 1/8, beta = 1/4, K = 4.
        srtt_gain: Gain::one_in(8),
        rttvar_gain: Gain::one_in(4),
        formula: Formula::MeanDeviation { k: 4, adapt: false },
        arithmetic: Arithmetic::Fine,
        // RFC 6298 §2 (2.1): the RTO is one second until a round trip has been measured.
        initial: Duration::from_secs(1),
        // Deviation from RFC 6298 §2 (2.4): 200 ms, not one second; the second was chosen for clocks that
        // tick every 500 ms. 200 ms still covers a peer that delays its acknowledgements, and a wrong timeout
        // is undone.
        rto_min: Duration::from_millis(200),
        // RFC 6298 §2 (2.5): a maximum may be placed on the RTO provided it is at least 60 seconds.
        rto_max: Duration::from_secs(60),
        granularity: Duration::ZERO,
        deviation_floor: DeviationFloor::Term,
        heartbeat: false,
        sampling: Sampling::EverySegment,
        backoff: Backoff::Doubling,
    };
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self::RFC_6298
    }
}

/// The weight 1/n of a new value in a moving average. With zero, the first value stays for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Gain(Option<NonZeroU16>);

impl Gain {
    /// The first value stays.
    pub const ZERO: Self = Self(None);
    /// Each value replaces the one before.
    pub const ONE: Self = Self::one_in(1);

    /// The weight 1/n; zero for n = 0.
    #[must_use]
    pub const fn one_in(n: u16) -> Self {
        Self(NonZeroU16::new(n))
    }

    /// The n of a weight 1/n; 0 for a weight of zero.
    #[must_use]
    pub const fn divisor(self) -> u16 {
        match self.0 {
            Some(n) => n.get(),
            None => 0,
        }
    }

    /// The weight as a fraction, for reports.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0.map_or(0.0, |n| f64::from(n.get()).recip())
    }

    /// `mean` moved towards `sample` by the weight, rounded to the nearest unit.
    #[must_use]
    #[inline]
    pub(super) fn average(self, mean: u64, sample: u64) -> u64 {
        let Some(n) = self.0 else { return mean };
        let n = NonZeroU64::from(n);
        let distance = mean.abs_diff(sample);
        let step = (distance.saturating_add(n.get() / 2) / n).min(distance);
        if sample >= mean { mean.saturating_add(step) } else { mean.saturating_sub(step) }
    }
}

/// How the averages become a timeout, before backoff and bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Formula {
    /// SRTT + max(G, k·RTTVAR): Jacobson 1988 (k = 2), revised 1992 and RFC 6298 (k = 4).
    MeanDeviation {
        /// The factor k.
        k: u8,
        /// Whether k doubles with each timeout that turns out to be wrong (Allman and Paxson §2.6, `adapt`).
        adapt: bool,
    },
    /// As `MeanDeviation`, but with a smaller factor while round trips get shorter (Awadallah and Rai 1998,
    /// §6).
    SignedDeviation {
        /// The factor while the signed deviation is zero or positive.
        k: u8,
        /// The factor while it is negative.
        k_falling: u8,
    },
    /// β·SRTT: RFC 793 (β = 2).
    Multiple {
        /// The factor β.
        beta: u8,
    },
    /// Always the initial timeout.
    Static,
}

/// The arithmetic of the recursion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Arithmetic {
    /// In 1/256 of a nanosecond, each step rounded to nearest.
    Fine,
    /// In eighths and quarters of a tick, as in Jacobson 1988 (Appendix A). The gains are 1/8 and 1/4
    /// whatever the configuration says.
    Ticks,
    /// [`Self::Ticks`] as the code of 4.3BSD had it from September 1987 on: the counter of a round trip
    /// begins at one, and only later samples take that off, so that the first mean is a tick more.
    BsdTicks,
    /// As 4.3BSD had it in 1986: a mean of real numbers. Each sample counts a tick more than went by, and the
    /// timeout is cut to whole ticks.
    Bsd43,
}

/// The growth of the timeout with expiries in a row. RFC 9293 requires [`Self::Doubling`] (MUST-19); no
/// parameter turns it off, and the others are for simulated networks only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Backoff {
    /// It stays the same.
    None,
    /// Each doubles it (RFC 6298 §5 (5.5)).
    Doubling,
    /// 1, 2, 4, 6, 8, 10, 15, 20, then 30 times beta * srtt, until an acknowledgement of new data comes
    /// (4.3BSD, 1986).
    Bsd43,
}

/// The quantity that must not be smaller than one tick of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum DeviationFloor {
    /// k·RTTVAR (RFC 6298).
    Term,
    /// RTTVAR, so that the timeout exceeds SRTT by k ticks (BSD; Allman and Paxson §2.1).
    Deviation,
}

/// Which segments are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Sampling {
    /// Every segment with an unambiguous round trip.
    EverySegment,
    /// One segment at a time. The next one timed is sent after the last was acknowledged.
    OncePerFlight,
}

ackclock_form::form! {
    struct RtoConfig {
        srtt_gain, rttvar_gain, formula, arithmetic, initial, rto_min, rto_max, granularity,
        deviation_floor, heartbeat, sampling, backoff
    }
    struct Gain(divisor)
    enum Formula {
        0 MeanDeviation { k, adapt }, 1 SignedDeviation { k, k_falling }, 2 Multiple { beta }, 3 Static
    }
    enum Arithmetic { 0 Fine, 1 Ticks, 2 BsdTicks, 3 Bsd43 }
    enum Backoff { 0 None, 1 Doubling, 2 Bsd43 }
    enum DeviationFloor { 0 Term, 1 Deviation }
    enum Sampling { 0 EverySegment, 1 OncePerFlight }
}
