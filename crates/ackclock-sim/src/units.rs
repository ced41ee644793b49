//! Quantities with their units, as scenario files write them: `1.5Mbit/s`, `50ms`, `16KiB`, `10packets`,
//! `1%`.
//!
//! Each is an integer in its smallest unit, so conversion from text and back loses nothing. Other values are
//! refused.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ackclock_control::quantity::exact;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::{Serialize, Serializer};

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

/// The text is not a quantity of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found `{found}`; allowed is {allowed}")]
pub struct UnitError {
    /// The text.
    pub found: String,
    /// What is allowed.
    pub allowed: &'static str,
}

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
}

impl Span {
    /// This many milliseconds.
    #[must_use]
    pub const fn millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// This many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    /// The same as a [`Duration`].
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Share {
    /// Always.
    pub const ONE: Self = Self(Self::SCALE as u32);
    /// Never.
    pub const ZERO: Self = Self(0);
    const SCALE: u64 = 1_000_000_000;

    /// This many millionths, at most all of them.
    #[must_use]
    pub const fn per_million(parts: u32) -> Self {
        if parts > 1_000_000 { Self::ONE } else { Self(parts * 1000) }
    }

    /// This many hundredths, at most all of them.
    #[must_use]
    pub const fn percent(parts: u32) -> Self {
        if parts > 100 { Self::ONE } else { Self(parts * 10_000_000) }
    }

    /// Parts of 10⁹.
    #[must_use]
    pub const fn parts_per_billion(self) -> u32 {
        self.0
    }

    /// Whether a uniform draw of 64 bits falls into this share.
    #[must_use]
    #[inline]
    pub fn holds(self, draw: u64) -> bool {
        (u128::from(draw) * u128::from(Self::SCALE)) >> 64 < u128::from(self.0)
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "unlimited" {
            return Ok(Self::UNLIMITED);
        }
        let bits = parse(text, &RATES, RATE_ALLOWED)?;
        if (1..=Self::MAX.0).contains(&bits) { Ok(Self(bits)) } else { Err(refuse(text, RATE_ALLOWED)) }
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &SIZES, SIZE_ALLOWED).map(Self)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &TIMES, TIME_ALLOWED).map(Self)
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let refused = || refuse(text, LIMIT_ALLOWED);
        let limit = match parse(text, &PACKETS, LIMIT_ALLOWED) {
            Ok(packets) => Self::Packets(packets),
            Err(_) => Self::Bytes(parse(text, &SIZES, LIMIT_ALLOWED)?),
        };
        match limit {
            Self::Packets(0) | Self::Bytes(0) => Err(refused()),
            limit => Ok(limit),
        }
    }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parts = parse(text, &SHARES, SHARE_ALLOWED)?;
        u32::try_from(parts)
            .ok()
            .filter(|parts| *parts <= Self::ONE.0)
            .map(Self)
            .ok_or_else(|| refuse(text, SHARE_ALLOWED))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() { f.write_str("unlimited") } else { write(f, self.0, &RATES[..4]) }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &SIZES)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &TIMES[..4])
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Packets(packets) => write(f, packets, &PACKETS[..1]),
            Self::Bytes(bytes) => write(f, bytes, &SIZES),
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

/// A number and its unit, exactly: `1.5KiB` is 1536.
fn parse(text: &str, units: &[(&str, u64)], allowed: &'static str) -> Result<u64, UnitError> {
    let refused = || refuse(text, allowed);
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let unit = unit.trim_start();
    let (_, scale) = units.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
    exact(number, *scale).filter(|value| *value < u64::MAX).ok_or_else(refused)
}

fn refuse(found: &str, allowed: &'static str) -> UnitError {
    UnitError { found: found.to_owned(), allowed }
}

/// Writes `value` in the largest unit that divides it; `units` go from small to large.
fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = |(_, scale): &&(&str, u64)| value != 0 && value.is_multiple_of(*scale);
    let (unit, scale) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    write!(f, "{}{unit}", value / scale)
}

/// Reading and writing as text.
macro_rules! as_text {
    ($($kind:ty: $allowed:expr;)*) => {$(
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Text($allowed))?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

as_text! {
    Rate: RATE_ALLOWED;
    Bytes: SIZE_ALLOWED;
    Span: TIME_ALLOWED;
    Limit: LIMIT_ALLOWED;
    Share: SHARE_ALLOWED;
}

/// Reads a text. A bare number is kept as text, to be refused for its missing unit.
struct Text(&'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

const RATES: [(&str, u64); 9] = [
    ("bit/s", 1),
    ("kbit/s", 1000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
    ("B/s", 8),
    ("kB/s", 8000),
    ("KB/s", 8000),
    ("MB/s", 8_000_000),
];
const RATE_ALLOWED: &str = "a rate from 1bit/s to 1Tbit/s in bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, B/s, \
                            kB/s, KB/s or MB/s (1 KB/s is 1000 bytes a second), as in `1.5Mbit/s`, or \
                            `unlimited`";
const SIZES: [(&str, u64); 8] = [
    ("B", 1),
    ("KB", 1000),
    ("kB", 1000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];
const SIZE_ALLOWED: &str = "a whole number of bytes in B, kB, KB, KiB, MB, MiB, GB or GiB, as in `16KiB`";
const TIMES: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const TIME_ALLOWED: &str = "a time of whole nanoseconds in ns, us, ms, s, min or h, as in `50ms`";
const PACKETS: [(&str, u64); 2] = [("packets", 1), ("packet", 1)];
const LIMIT_ALLOWED: &str = "a number of packets or bytes above 0, as in `10packets` or `16KiB`";
const SHARES: [(&str, u64); 2] = [("%", 10_000_000), ("", 1_000_000_000)];
const SHARE_ALLOWED: &str =
    "a share from 0 to 1, or in percent, with at most nine places, as in `0.01` or `1%`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_exact_numbers() {
        assert_eq!("1.5Mbit/s".parse(), Ok(Rate::bits_per_second(1_500_000)));
        assert_eq!("200KB/s".parse(), Ok(Rate::bits_per_second(1_600_000)));
        assert_eq!("unlimited".parse(), Ok(Rate::UNLIMITED));
        assert_eq!("230.4 kbit/s".parse(), Ok(Rate::bits_per_second(230_400)));
        assert_eq!("16KiB".parse(), Ok(Bytes(16_384)));
        assert_eq!("50ms".parse(), Ok(Span::millis(50)));
        assert_eq!("0.5us".parse(), Ok(Span(500)));
        assert_eq!("10packets".parse(), Ok(Limit::Packets(10)));
        assert_eq!("1.4KB".parse(), Ok(Limit::Bytes(1400)));
        assert_eq!("1%".parse(), Ok(Share::percent(1)));
        assert_eq!("0.01".parse(), Ok(Share::percent(1)));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_would_be() {
        for text in [
            "",
            "5",
            "fast",
            "-1bit/s",
            "0bit/s",
            "1.2bit/s",
            "2Tbit/s",
            "1..5Mbit/s",
            "1e3bit/s",
            ".5Mbit/s",
        ] {
            let error = text.parse::<Rate>().expect_err(text);
            assert!(error.to_string().contains("as in `1.5Mbit/s`"), "{error}");
        }
        assert!("0.5ns".parse::<Span>().is_err());
        assert!("0packets".parse::<Limit>().is_err() && "101%".parse::<Share>().is_err());
    }

    #[test]
    fn written_quantities_read_back_the_same() {
        for bits in [1, 999, 230_400, 1_600_000, 1_000_000_000, 1_000_000_000_000] {
            let rate = Rate::bits_per_second(bits);
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        for number in [0, 1, 1000, 1024, 1536, 1_000_000, 3 << 30, 90_000_000_000] {
            assert_eq!(Bytes(number).to_string().parse(), Ok(Bytes(number)));
            assert_eq!(Span(number).to_string().parse(), Ok(Span(number)));
        }
        for parts in [0, 1, 123_456, 1_000_000] {
            let share = Share::per_million(parts);
            assert_eq!(share.to_string().parse(), Ok(share));
        }
    }

    #[test]
    fn a_share_holds_for_as_many_draws() {
        assert!(Share::ONE.holds(u64::MAX) && !Share::ZERO.holds(0));
        assert!(
            Share::percent(50).holds(u64::MAX / 2 - 1000) && !Share::percent(50).holds(u64::MAX / 2 + 1000)
        );
    }
}
