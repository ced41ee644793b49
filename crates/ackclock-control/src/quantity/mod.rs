//! Quantities with their units, as people write and read them: `1.5Mbit/s`, `50ms`, `16KiB`, `10packets`,
//! `1%`.
//!
//! Each is an integer in its smallest unit, so conversion from text and back loses nothing; what is not a
//! whole number of that unit is refused. A number needs a unit, except 0: `20` could be `20ms` or `20s`.
//!
//! | quantity | units | short |
//! |---|---|---|
//! | [`Rate`] | `bit/s` to `Tbit/s`, `B/s` to `GB/s`, in powers of 1000 | `Mbit`, `Mbps`, `M`; `MB`, `MBps` |
//! | [`Bytes`] | `B`, `kB` to `TB` (powers of 1000), `KiB` to `TiB` (powers of 1024) | `K`, `M`, `G`, `T` (1024) |
//! | [`Span`] | `ns`, `us`, `ms`, `s`, `min`, `h` | `µs`, `m` for `min` |
//! | [`Limit`] | `packets`, or a size | `packet` |
//! | [`Share`] | `%`, or nothing for a number from 0 to 1 | |
//!
//! Letter case matters only for the `b` of a bit and the `B` of a byte in a rate. Space between number and
//! unit is allowed.
//!
//! ```
//! use ackclock_control::quantity::{Bytes, Rate, Span};
//!
//! assert_eq!("1.5Mbit/s".parse(), Ok(Rate::bits_per_second(1_500_000)));
//! assert_eq!("1.5M".parse(), Ok(Bytes(1_572_864)));
//! let error = "20".parse::<Span>().unwrap_err();
//! assert_eq!(error.to_string(), "`20` has no unit; write `20ms` or `20s`");
//! ```

mod kinds;
#[cfg(feature = "serde")]
mod text;
mod units;

pub use self::kinds::{Bytes, Limit, Rate, Share, Span};

/// The text is not a quantity of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// Not a number with a unit of this kind.
    #[error("found `{found}`; allowed is {allowed}")]
    Unknown {
        /// The text.
        found: String,
        /// The values that are allowed.
        allowed: &'static str,
    },
    /// A number that could mean several things.
    #[error("`{number}` has no unit; write `{number}{}` or `{number}{}`", units[0], units[1])]
    NoUnit {
        /// The number.
        number: String,
        /// Two units that it could have.
        units: [&'static str; 2],
    },
    /// Too large or too small.
    #[error("found `{found}`; allowed is {allowed}")]
    OutOfRange {
        /// The text.
        found: String,
        /// The values that are allowed.
        allowed: &'static str,
    },
    /// A fraction of the smallest unit.
    #[error("found `{found}`, which is not a whole number of {smallest}; allowed is {allowed}")]
    NotWhole {
        /// The text.
        found: String,
        /// The smallest unit.
        smallest: &'static str,
        /// The values that are allowed.
        allowed: &'static str,
    },
}

/// `number` times `unit`, if the product is an integer that fits: 1.5 and 1024 give 1536. A number is digits,
/// optionally followed by a point and more digits.
///
/// ```
/// use ackclock_control::quantity::exact;
///
/// assert_eq!(exact("0.25", 1000), Some(250));
/// assert_eq!(exact("0.25", 10), None);
/// ```
#[must_use]
pub fn exact(number: &str, unit: u64) -> Option<u64> {
    units::scaled(number, unit).ok()
}

#[cfg(test)]
mod tests;
