//! Time as an argument: nanoseconds since an epoch that the driver chooses.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time: nanoseconds since the driver's epoch.
///
/// Arithmetic saturates at both ends (584 years), so a clock that jumps cannot make it panic.
///
/// The stored value is one nanosecond more, so that `Option<Instant>` takes no extra room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self(NonZeroU64::MIN);
    /// The last representable instant. As a deadline it means never.
    pub const FAR_FUTURE: Self = Self(NonZeroU64::MAX);

    /// The instant `nanos` nanoseconds after the epoch.
    #[must_use]
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// The instant `micros` microseconds after the epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros.saturating_mul(1_000))
    }

    /// The instant `millis` milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Whole milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.as_nanos() / 1_000_000
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// Nanoseconds from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }

    /// The instant `nanos` nanoseconds after this one.
    #[must_use]
    #[inline]
    pub const fn plus_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({})", self.as_nanos())
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, by: Duration) -> Self {
        self.plus_nanos(nanos(by))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn sub(self, by: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos(by)))
    }
}

/// `duration` in nanoseconds, saturating at `u64::MAX` (584 years).
#[must_use]
#[inline]
pub fn nanos(duration: Duration) -> u64 {
    // In 64 bits: `as_nanos` has 128, and each deadline would pay for them.
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(u64::from(duration.subsec_nanos()))
}

impl ackclock_form::Form for Instant {
    fn write(&self, out: &mut ackclock_form::Writer) {
        out.instant(self.as_nanos(), Self::FAR_FUTURE.as_nanos());
    }

    fn read(input: &mut ackclock_form::Reader<'_>) -> Result<Self, ackclock_form::FormError> {
        u64::read(input).map(Self::from_nanos)
    }
}
