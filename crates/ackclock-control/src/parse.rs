//! What the parsers of choices with parameters share.

use std::time::Duration;

use crate::InvalidParameter;
use crate::quantity::exact;

/// Implements `FromStr` by `find(&str)`, so that setters take a name or a value alike.
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
    crate::congestion::IdlePolicy, InvalidParameter;
    crate::rtt::RtoConfig, crate::rtt::InvalidRto;
    crate::bandwidth::SenderEstimatorKind, crate::bandwidth::InvalidEstimator;
}

/// A time with its unit: `200ms`, `1.5s`, `10us`, `0`.
pub(crate) fn duration(word: &str) -> Option<Duration> {
    let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at_checked(digits)?;
    let nanos = match unit {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1000,
        "ns" => 1,
        "" if number == "0" => 1,
        _ => return None,
    };
    exact(number, nanos).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Some(Duration::ZERO));
        for word in ["", "s", "200", "1.s.", "-1s", "1e3s", "1 s", "99999999999999999999s", "ünix"] {
            assert_eq!(duration(word), None, "{word}");
        }
    }
}
