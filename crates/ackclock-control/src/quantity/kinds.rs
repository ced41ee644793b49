//! The kinds of quantities.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::UnitError;
use super::units::{self, Kind};
use crate::time::nanos;

/// A rate in bits a second, at least 1, or without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub u64);

/// The capacity of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// This many packets, whatever their size.
    Packets(u64),
    /// This many bytes.
    Bytes(u64),
}

/// A probability or a share, in parts of 10⁹.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Share(u32);

impl Rate {
    /// No limit: sending takes no time.
    pub const UNLIMITED: Self = Self(u64::MAX);
    /// The fastest rate that is not unlimited: 1 Tbit/s.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// A rate in bits a second. 0 becomes 1, and rates above [`Rate::MAX`] become that.
    #[must_use]
    pub const fn bits_per_second(bits: u64) -> Self {
        Self(match bits {
            0 => 1,
            bits if bits > Self::MAX.0 => Self::MAX.0,
            bits => bits,
        })
    }

    /// A rate in bytes a second.
    #[must_use]
    pub const fn bytes_per_second(bytes: u64) -> Self {
        Self::bits_per_second(bytes.saturating_mul(8))
    }

    /// A rate in megabits (10⁶ bits) a second.
    #[must_use]
    pub const fn mbit(megabits: u64) -> Self {
        Self::bits_per_second(megabits.saturating_mul(1_000_000))
    }

    /// Bits a second; `u64::MAX` without a limit.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether there is no limit.
    #[must_use]
    pub const fn is_unlimited(self) -> bool {
        self.0 == u64::MAX
    }

    /// Reads a rate as [`FromStr`] does, but not `unlimited`.
    ///
    /// # Errors
    /// [`UnitError`]; its message says what is allowed.
    pub fn read_limited(text: &str) -> Result<Self, UnitError> {
        Self::read(&units::LIMITED_RATES, text)
    }

    fn read(kind: &Kind, text: &str) -> Result<Self, UnitError> {
        let bits = kind.read(text)?;
        if (1..=Self::MAX.0).contains(&bits) { Ok(Self(bits)) } else { Err(kind.out_of_range(text)) }
    }
}

impl Span {
    /// This many milliseconds.
    #[must_use]
    pub const fn millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// This many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The time as a [`Duration`].
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Share {
    /// Always.
    pub const ONE: Self = Self(1_000_000_000);
    /// Never.
    pub const ZERO: Self = Self(0);
    const SCALE: u64 = Self::ONE.0 as u64;

    /// This many millionths, at most all of them.
    #[must_use]
    pub const fn per_million(parts: u32) -> Self {
        if parts > 1_000_000 { Self::ONE } else { Self(parts.saturating_mul(1000)) }
    }

    /// This many hundredths, at most all of them.
    #[must_use]
    pub const fn percent(parts: u32) -> Self {
        if parts > 100 { Self::ONE } else { Self(parts.saturating_mul(10_000_000)) }
    }

    /// Parts of 10⁹.
    #[must_use]
    pub const fn parts_per_billion(self) -> u32 {
        self.0
    }

    /// The share as a number from 0 to 1, for reports.
    #[must_use]
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1e9
    }

    /// Whether a uniform draw of 64 bits falls into this share.
    #[must_use]
    #[inline]
    pub fn holds(self, draw: u64) -> bool {
        u128::from(draw).saturating_mul(Self::SCALE.into()) >> 64 < u128::from(self.0)
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "unlimited" { Ok(Self::UNLIMITED) } else { Self::read(&units::RATES, text) }
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        units::SIZES.read(text).map(Self)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        units::TIMES.read(text).map(Self)
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let limit = match units::PACKETS.read(text) {
            Err(UnitError::Unknown { .. }) => Self::Bytes(units::LIMITS.read(text)?),
            packets => Self::Packets(packets?),
        };
        match limit {
            Self::Packets(0) | Self::Bytes(0) => Err(units::LIMITS.out_of_range(text)),
            limit => Ok(limit),
        }
    }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parts = u32::try_from(units::SHARES.read(text)?).ok().filter(|parts| *parts <= Self::ONE.0);
        parts.map(Self).ok_or_else(|| units::SHARES.out_of_range(text))
    }
}

impl From<Duration> for Span {
    /// Longer times become 584 years.
    fn from(time: Duration) -> Self {
        Self(nanos(time))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() { f.write_str("unlimited") } else { units::RATES.write(f, self.0) }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        units::SIZES.write(f, self.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        units::TIMES.write(f, self.0)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Packets(packets) => units::PACKETS.write(f, packets),
            Self::Bytes(bytes) => units::LIMITS.write(f, bytes),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
        match format!("{rest:07}").trim_end_matches('0') {
            "" => write!(f, "{whole}%"),
            fraction => write!(f, "{whole}.{fraction}%"),
        }
    }
}
