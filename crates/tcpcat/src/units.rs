//! Quantities of the command line, and numbers for people.
//!
//! [`ackclock_control::quantity`] reads them, as it does for scenario files. Only tcpcat has the words of a
//! bottleneck, and the letters of nc, iperf3 and top, which count seconds.

use std::time::Duration;

use ackclock::Shaping;
use ackclock_control::quantity::{Bytes, Limit, Rate, Span, UnitError};

/// A bottleneck and the queue in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bottleneck {
    pub rate_bps: u64,
    pub queue: Option<Limit>,
}

/// The words do not describe a bottleneck.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidBottleneck {
    /// Its rate or the size of its queue.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The text behind the rate.
    #[error(
        "{text:?} is not a property of a bottleneck: write RATE,queue=SIZE, for example 10Mbit/s,queue=64KiB \
         or 10Mbit/s,queue=100packets"
    )]
    Property { text: String },
}

/// The words do not describe one rate for all that a stack sends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidShape {
    /// Its rate or its burst.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The text behind the rate.
    #[error("{text:?} is not a property of a rate: write RATE,burst=SIZE, for example 20Mbit/s,burst=64KiB")]
    Property { text: String },
}

/// Parses a rate and, perhaps, its burst.
pub(crate) fn shape(text: &str) -> Result<Shaping, InvalidShape> {
    let Some((rate_text, rest)) = text.split_once(',') else {
        return Ok(Shaping::new(rate(text)? / 8));
    };
    let burst = rest.trim().strip_prefix("burst=");
    let burst = burst.ok_or_else(|| InvalidShape::Property { text: rest.to_owned() })?;
    Ok(Shaping::new(rate(rate_text)? / 8).burst(size(burst)?))
}

/// Parses a number of bytes.
pub(crate) fn size(text: &str) -> Result<u64, UnitError> {
    text.parse().map(|Bytes(bytes)| bytes)
}

/// Parses a rate into bits a second.
pub(crate) fn rate(text: &str) -> Result<u64, UnitError> {
    Rate::read_limited(text).map(Rate::bits)
}

/// Parses a rate into bits a second; as for iperf3, 0 lifts the limit.
pub(crate) fn rate_or_none(text: &str) -> Result<u64, UnitError> {
    if text.trim() == "0" { Ok(0) } else { rate(text) }
}

/// Parses a rate and, perhaps, the queue in front of it.
pub(crate) fn bottleneck(text: &str) -> Result<Bottleneck, InvalidBottleneck> {
    let Some((rate_text, rest)) = text.split_once(',') else {
        return Ok(Bottleneck { rate_bps: rate(text)?, queue: None });
    };
    let holds = rest.trim().strip_prefix("queue=");
    let holds = holds.ok_or_else(|| InvalidBottleneck::Property { text: rest.to_owned() })?;
    Ok(Bottleneck { rate_bps: rate(rate_text)?, queue: Some(holds.parse()?) })
}

/// Parses a time.
pub(crate) fn duration(text: &str) -> Result<Duration, UnitError> {
    text.parse().map(Span::duration)
}

/// Parses a time whose bare number counts seconds, as it does after the letters of nc, iperf3 and top.
pub(crate) fn seconds(text: &str) -> Result<Duration, UnitError> {
    match duration(text) {
        Err(UnitError::NoUnit { number, .. }) => duration(&format!("{number}s")),
        read => read,
    }
}

/// Bytes for people, as in `1.25 GiB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let (value, prefix) = reduced(bytes as f64, 1024.0);
    if prefix.is_empty() { format!("{bytes} B") } else { format!("{value:.2} {prefix}iB") }
}

/// A rate for people, as in `3.21 Gbit/s`.
pub(crate) fn show_rate(bits_per_second: f64) -> String {
    let (value, prefix) = reduced(bits_per_second, 1000.0);
    // The prefix for thousands of bits is a small k.
    let prefix = if prefix == "K" { "k" } else { prefix };
    format!("{value:.2} {prefix}bit/s")
}

/// The rate of a transfer in bits a second.
pub(crate) fn bits_per_second(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9)
}

fn reduced(mut value: f64, base: f64) -> (f64, &'static str) {
    for prefix in ["", "K", "M", "G"] {
        if value < base {
            return (value, prefix);
        }
        value /= base;
    }
    (value, "T")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_programs_count_in_seconds_needs_no_unit() {
        assert_eq!(seconds("5"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds("0.2"), Ok(Duration::from_millis(200)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(seconds("20ms"), Ok(Duration::from_millis(20)));
        assert!(matches!(seconds("0.0000000001"), Err(UnitError::NotWhole { .. })));
        assert!(matches!(seconds("soon"), Err(UnitError::Unknown { .. })));
    }

    #[test]
    fn a_rate_of_zero_is_no_limit_where_iperf3_has_it_so() {
        assert_eq!(rate_or_none("0"), Ok(0));
        assert_eq!(rate_or_none("10M"), Ok(10_000_000));
        assert_eq!(rate_or_none("10"), rate("10"));
        assert!(rate("0").is_err());
    }

    #[test]
    fn a_bottleneck_is_a_rate_and_perhaps_a_queue() {
        let with = |queue| Ok(Bottleneck { rate_bps: 10_000_000, queue });
        assert_eq!(bottleneck("10M"), with(None));
        assert_eq!(bottleneck("10Mbit/s,queue=64KiB"), with(Some(Limit::Bytes(65_536))));
        assert_eq!(bottleneck("10Mbit/s, queue=100packets"), with(Some(Limit::Packets(100))));
        let refused = |text| bottleneck(text).unwrap_err().to_string();
        assert_eq!(refused("10M,queue=100"), "`100` has no unit; write `100packets` or `100KiB`");
        assert!(refused("10M,queue=").contains("as in `10packets`"));
        assert!(refused("10M,64KiB").contains("queue=64KiB"));
        assert!(refused("fast,queue=64KiB").contains("as in `1.5Mbit/s`"));
        assert!(!refused("unlimited").contains("or `unlimited`"));
    }

    #[test]
    fn a_shape_is_a_rate_and_perhaps_a_burst() {
        assert_eq!(shape("20Mbit/s"), Ok(Shaping::new(2_500_000)));
        assert_eq!(shape("20Mbit/s, burst=64KiB"), Ok(Shaping::new(2_500_000).burst(65_536)));
        let refused = |text| shape(text).unwrap_err().to_string();
        assert!(refused("20M,64KiB").contains("burst=64KiB"));
        assert!(refused("fast").contains("as in `1.5Mbit/s`"));
    }

    #[test]
    fn numbers_are_shown_with_two_digits_and_a_unit() {
        assert_eq!(show_bytes(1000), "1000 B");
        assert_eq!(show_bytes(256 << 20), "256.00 MiB");
        assert_eq!(show_rate(3.214e9), "3.21 Gbit/s");
        assert_eq!(show_rate(12_000.0), "12.00 kbit/s");
        assert_eq!(bits_per_second(1_000_000, Duration::from_secs(2)), 4e6);
    }
}
