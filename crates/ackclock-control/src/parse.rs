//! Choices written as words: what the parsers of names with parameters share.

use std::time::Duration;

use crate::InvalidParameter;

/// Makes types that have `find(&str)` parse from strings, so that setters take a name or a value alike.
macro_rules! found_by_name {
    ($($type:ty, $error:ty;)*) => {$(
        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(name: &str) -> Result<Self, $error> {
                Self::find(name)
            }
        }

        impl TryFrom<&str> for $type {
            type Error = $error;

            fn try_from(name: &str) -> Result<Self, $error> {
                Self::find(name)
            }
        }

        impl TryFrom<&String> for $type {
            type Error = $error;

            fn try_from(name: &String) -> Result<Self, $error> {
                Self::find(name)
            }
        }
    )*};
}

found_by_name! {
    crate::profile::Profile, crate::profile::UnknownProfile;
    crate::profile::Recovery, crate::profile::UnknownRecovery;
    crate::profile::UndoChoice, InvalidParameter;
    crate::profile::AckPolicy, InvalidParameter;
    crate::profile::Ecn, InvalidParameter;
    crate::rtt::RtoConfig, crate::rtt::InvalidRto;
    crate::bandwidth::SenderEstimatorKind, crate::bandwidth::InvalidEstimator;
}

/// A time with its unit: `200ms`, `1.5s`, `10us`, `0`.
pub(crate) fn duration(word: &str) -> Option<Duration> {
    let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at_checked(digits)?;
    let scale = match unit {
        "s" => 9,
        "ms" => 6,
        "us" => 3,
        "ns" => 0,
        "" if number == "0" => 0,
        _ => return None,
    };
    decimal(number, scale).map(Duration::from_nanos)
}

/// A decimal number times 10^`scale`, if that is a whole number: `decimal("0.25", 2)` is 25.
pub(crate) fn decimal(word: &str, scale: u32) -> Option<u64> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let places = u32::try_from(fraction.len()).ok().filter(|&places| places <= scale)?;
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    digits.checked_mul(10_u64.checked_pow(scale - places)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{decimal, duration};

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Some(Duration::ZERO));
        for word in ["", "s", "200", "1.s.", "-1s", "1e3s", "1 s", "99999999999999999999s", "ünix"] {
            assert_eq!(duration(word), None, "{word}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("0.2", 4), Some(2000));
        assert_eq!(decimal("0.0125", 4), Some(125));
        assert_eq!(decimal("0.00001", 4), None);
        assert_eq!(decimal(".5", 4), None);
    }
}
