//! The units of each kind of quantity, and how a number with one of them is read and written.

use std::fmt;

use super::UnitError;
use crate::divide::at_least_one;

/// The units of a kind of quantity, and what its errors say.
pub(super) struct Kind {
    /// The units that are written, from small to large.
    pub written: &'static [Unit],
    /// The units that are only read.
    pub read: &'static [Unit],
    /// Whether two spellings name the same unit.
    pub same: fn(&str, &str) -> bool,
    /// The smallest unit, in the plural.
    pub smallest: &'static str,
    /// Two units that a number without one could have.
    pub missing: [&'static str; 2],
    /// The values that are allowed.
    pub allowed: &'static str,
    /// The range of values that are allowed.
    pub range: &'static str,
}

/// A unit. The first of its names is written, all are read.
pub(super) struct Unit {
    pub names: &'static [&'static str],
    pub scale: u64,
}

/// Why a number is not an integer of the smallest unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unscalable {
    NotANumber,
    NotWhole,
    TooLarge,
}

impl Kind {
    /// The units, the written ones first.
    pub fn units(&self) -> impl Iterator<Item = &'static Unit> {
        self.written.iter().chain(self.read)
    }

    /// Reads a number and its unit.
    pub fn read(&self, text: &str) -> Result<u64, UnitError> {
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at_checked(end).unwrap_or((trimmed, ""));
        let unit = unit.trim_start();
        let named = self.units().find(|known| known.names.iter().any(|name| (self.same)(unit, name)));
        match (named, scaled(number, named.map_or(1, |unit| unit.scale))) {
            (Some(_), Ok(value)) => Ok(value),
            (Some(_), Err(Unscalable::NotWhole)) => Err(self.not_whole(text)),
            (Some(_), Err(Unscalable::TooLarge)) => Err(self.out_of_range(text)),
            (None, Ok(0)) if unit.is_empty() => Ok(0),
            (None, Ok(_) | Err(Unscalable::NotWhole | Unscalable::TooLarge)) if unit.is_empty() => {
                Err(UnitError::NoUnit { number: number.to_owned(), units: self.missing })
            }
            _ => Err(UnitError::Unknown { found: text.to_owned(), allowed: self.allowed }),
        }
    }

    /// Writes `value` in the largest unit that divides it.
    pub fn write(&self, f: &mut fmt::Formatter<'_>, value: u64) -> fmt::Result {
        let fits = |unit: &&Unit| value != 0 && value.is_multiple_of(unit.scale);
        let unit = self.written.iter().rev().find(fits).or(self.written.first());
        let (name, scale) = unit.map_or(("", 1), |unit| (unit.name(), unit.scale));
        write!(f, "{}{name}", value / at_least_one(scale))
    }

    pub fn out_of_range(&self, found: &str) -> UnitError {
        UnitError::OutOfRange { found: found.to_owned(), allowed: self.range }
    }

    fn not_whole(&self, found: &str) -> UnitError {
        UnitError::NotWhole { found: found.to_owned(), smallest: self.smallest, allowed: self.allowed }
    }
}

impl Unit {
    fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }
}

/// `number` times `unit`.
pub(super) fn scaled(number: &str, unit: u64) -> Result<u64, Unscalable> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return Err(Unscalable::NotANumber);
    }
    let fraction = fraction.trim_end_matches('0');
    let places = u32::try_from(fraction.len()).ok().filter(|&places| places <= PLACES_MAX);
    // Do not drop a fraction of the smallest unit silently.
    let divisor = 10_u128.pow(places.ok_or(Unscalable::NotWhole)?);
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| Unscalable::TooLarge)?;
    let scaled = digits.checked_mul(u128::from(unit)).ok_or(Unscalable::TooLarge)?;
    if !scaled.is_multiple_of(divisor) {
        return Err(Unscalable::NotWhole);
    }
    scaled.checked_div(divisor).and_then(|value| u64::try_from(value).ok()).ok_or(Unscalable::TooLarge)
}

/// `b` is a bit, `B` a byte.
fn same_but_bit_or_byte(unit: &str, name: &str) -> bool {
    unit.eq_ignore_ascii_case(name) && (name.contains("bit") || unit.contains('B') == name.contains('B'))
}

const fn unit(scale: u64, names: &'static [&'static str]) -> Unit {
    Unit { names, scale }
}

/// The rates that are allowed, in words.
macro_rules! rates_allowed {
    () => {
        "a rate from 1bit/s to 1Tbit/s in bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, B/s, kB/s, MB/s or GB/s \
         (1kB/s is 1000 bytes a second), as in `1.5Mbit/s`"
    };
}

/// Rates, `unlimited` among them.
pub(super) const RATES: Kind = Kind {
    written: &[
        unit(1, &["bit/s", "bit", "bps", "b/s", "b"]),
        unit(1000, &["kbit/s", "kbit", "kbps", "kb/s", "kb", "K"]),
        unit(1_000_000, &["Mbit/s", "Mbit", "Mbps", "Mb/s", "Mb", "M"]),
        unit(1_000_000_000, &["Gbit/s", "Gbit", "Gbps", "Gb/s", "Gb", "G"]),
        unit(1_000_000_000_000, &["Tbit/s", "Tbit", "Tbps", "Tb/s", "Tb", "T"]),
    ],
    read: &[
        unit(8, &["B/s", "Bps", "B"]),
        unit(8000, &["kB/s", "kBps", "kB"]),
        unit(8_000_000, &["MB/s", "MBps", "MB"]),
        unit(8_000_000_000, &["GB/s", "GBps", "GB"]),
    ],
    same: same_but_bit_or_byte,
    smallest: "bits a second",
    missing: ["Mbit/s", "kbit/s"],
    allowed: concat!(rates_allowed!(), ", or `unlimited`"),
    range: concat!(rates_allowed!(), ", or `unlimited`"),
};

/// Rates without `unlimited`.
pub(super) const LIMITED_RATES: Kind = Kind { allowed: rates_allowed!(), range: rates_allowed!(), ..RATES };

pub(super) const SIZES: Kind = Kind {
    written: &[
        unit(1, &["B"]),
        unit(1000, &["kB"]),
        unit(1 << 10, &["KiB", "K"]),
        unit(1_000_000, &["MB"]),
        unit(1 << 20, &["MiB", "M"]),
        unit(1_000_000_000, &["GB"]),
        unit(1 << 30, &["GiB", "G"]),
        unit(1_000_000_000_000, &["TB"]),
        unit(1 << 40, &["TiB", "T"]),
    ],
    read: &[],
    same: str::eq_ignore_ascii_case,
    smallest: "bytes",
    missing: ["B", "KiB"],
    allowed: "a whole number of bytes in B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, as in `16KiB`",
    range: "a size below 16777216TiB",
};

pub(super) const TIMES: Kind = Kind {
    written: &[
        unit(1, &["ns"]),
        // The micro sign, and the Greek letter.
        unit(1000, &["us", "\u{b5}s", "\u{3bc}s"]),
        unit(1_000_000, &["ms"]),
        unit(1_000_000_000, &["s"]),
    ],
    read: &[unit(60_000_000_000, &["min", "m"]), unit(3_600_000_000_000, &["h"])],
    same: str::eq_ignore_ascii_case,
    smallest: "nanoseconds",
    missing: ["ms", "s"],
    allowed: "a time of whole nanoseconds in ns, us, ms, s, min or h, as in `50ms`",
    range: "a time of at most 584 years",
};

/// Limits in packets.
pub(super) const PACKETS: Kind =
    Kind { written: &[unit(1, &["packets", "packet"])], read: &[], smallest: "packets", ..LIMITS };

/// Limits in bytes.
pub(super) const LIMITS: Kind =
    Kind { missing: ["packets", "KiB"], allowed: LIMIT_ALLOWED, range: LIMIT_ALLOWED, ..SIZES };

const LIMIT_ALLOWED: &str = "a number of packets or bytes above 0, as in `10packets` or `16KiB`";

pub(super) const SHARES: Kind = Kind {
    written: &[],
    read: &[unit(10_000_000, &["%"]), unit(1_000_000_000, &[""])],
    same: str::eq_ignore_ascii_case,
    smallest: "billionths",
    missing: ["%", ""],
    allowed: SHARE_ALLOWED,
    range: SHARE_ALLOWED,
};

const SHARE_ALLOWED: &str =
    "a share from 0 to 1, or in percent, with at most nine places, as in `0.01` or `1%`";

/// 10 to the power of this fits in 64 bits.
const PLACES_MAX: u32 = 18;
