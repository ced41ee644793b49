//! Sizes, rates, durations and probabilities as people write and read them.
//!
//! A size counts in powers of 1024 as `ls -h`, `dd` and iperf3 do (`1G` is 1,073,741,824 bytes) unless it
//! says `B` (`1GB` is 1,000,000,000). A rate counts bits in powers of 1000, as networks do (`10M` is
//! 10,000,000 bit/s), unless it says `B` (`10MB` or `10MB/s` is 80,000,000 bit/s). A time says its unit; only
//! what nc and iperf3 count in seconds (`-w`, `-q`, `-t`) may leave it out.

use std::time::Duration;

/// A number with a unit that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnitError {
    /// No such number, or no such unit.
    #[error("{text:?} is not a {what}: write {example}")]
    Unknown { text: String, what: &'static str, example: &'static str },
    /// A number that could mean several things.
    #[error("`{text}` has no unit; write `{text}{}` or `{text}{}`", or[0], or[1])]
    Bare { text: String, or: [&'static str; 2] },
    /// What stands behind the rate of a bottleneck.
    #[error(
        "{text:?} is not a property of a bottleneck: write RATE,queue=SIZE, for example 10Mbit/s,queue=64KiB \
         or 10Mbit/s,queue=100packets"
    )]
    Bottleneck { text: String },
}

/// A bottleneck and the queue in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bottleneck {
    pub(crate) rate_bps: u64,
    pub(crate) queue: Option<Queue>,
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Packets(usize),
    Bytes(usize),
}

/// Parses a number of bytes.
pub(crate) fn size(text: &str) -> Result<u64, UnitError> {
    let wrong =
        || error(text, "size", "bytes, or a number with K, M, G or T (1024) or KB, MB, GB or TB (1000)");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let (prefix, base) = match unit.as_str() {
        "" | "b" => ("", 1000),
        other => match (other.strip_suffix("ib"), other.strip_suffix('b')) {
            (Some(prefix), _) => (prefix, 1024),
            (None, Some(prefix)) => (prefix, 1000),
            (None, None) => (other, 1024),
        },
    };
    scaled(number, prefix, base).ok_or_else(wrong)
}

/// Parses a rate into bits a second.
pub(crate) fn rate(text: &str) -> Result<u64, UnitError> {
    let wrong = || error(text, "rate", "bits a second with K, M or G as in 10M, or bytes as in 10MB/s");
    let bytes = text.trim_end_matches("/s").trim_end_matches("ps");
    let (number, unit) = split(bytes).ok_or_else(wrong)?;
    // Only here case tells: `b` is a bit, `B` a byte.
    let factor = if bytes.ends_with('B') { 8.0 } else { 1.0 };
    let prefix = unit.trim_end_matches("bit").trim_end_matches('b');
    scaled(number * factor, prefix, 1000).filter(|&bits| bits > 0).ok_or_else(wrong)
}

/// Parses a rate and, perhaps, the queue in front of it.
pub(crate) fn bottleneck(text: &str) -> Result<Bottleneck, UnitError> {
    let Some((rate_text, rest)) = text.split_once(',') else {
        return Ok(Bottleneck { rate_bps: rate(text)?, queue: None });
    };
    let holds = rest.trim().strip_prefix("queue=");
    let holds = holds.ok_or_else(|| UnitError::Bottleneck { text: rest.to_owned() })?;
    Ok(Bottleneck { rate_bps: rate(rate_text)?, queue: Some(queue(holds)?) })
}

fn queue(text: &str) -> Result<Queue, UnitError> {
    let wrong = || error(text, "queue", "packets as in 100packets, or bytes as in 64KiB or 1500B");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let queue = match unit.as_str() {
        "" => return Err(UnitError::Bare { text: text.trim().to_owned(), or: ["packets", "KiB"] }),
        "packet" | "packets" => {
            let whole = (number.fract() == 0.0).then_some(number).and_then(|number| scaled(number, "", 1000));
            Queue::Packets(whole.and_then(|packets| packets.try_into().ok()).ok_or_else(wrong)?)
        }
        _ => Queue::Bytes(size(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)?),
    };
    match queue {
        Queue::Packets(0) | Queue::Bytes(0) => Err(wrong()),
        queue => Ok(queue),
    }
}

/// Parses a time, which says its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, UnitError> {
    match split(text) {
        Some((number, unit)) if unit.is_empty() && number > 0.0 => {
            Err(UnitError::Bare { text: text.trim().to_owned(), or: ["ms", "s"] })
        }
        _ => seconds(text),
    }
}

/// Parses a time; a number without a unit counts seconds, as it does after the letters of nc and iperf3.
pub(crate) fn seconds(text: &str) -> Result<Duration, UnitError> {
    let wrong = || error(text, "time", "a number with us, ms, s, m or h, as in 20ms");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit.as_str() {
        "us" | "µs" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Parses a probability: a percentage, or a number from 0 to 1.
pub(crate) fn probability(text: &str) -> Result<f64, UnitError> {
    let wrong =
        || error(text, "probability", "a percentage such as 1%, or a number from 0 to 1 such as 0.01");
    let (number, divisor) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 100.0));
    let value = number.trim().parse::<f64>().map_err(|_| wrong())? / divisor;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(wrong()) }
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

/// The number at the beginning, and the unit after it in small letters.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text.get(..end)?.parse().ok()?;
    Some((number, text.get(end..)?.trim().to_lowercase()))
}

fn scaled(number: f64, prefix: &str, base: u32) -> Option<u64> {
    let power = ["", "k", "m", "g", "t"].iter().position(|&known| known == prefix)?;
    let value = number * f64::from(base).powi(i32::try_from(power).ok()?);
    // Above 2^53 a float no longer counts single bytes, and no transfer is that long.
    (value <= 9e15).then_some(value.round() as u64)
}

fn error(text: &str, what: &'static str, example: &'static str) -> UnitError {
    UnitError::Unknown { text: text.to_owned(), what, example }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_counts_in_1024_unless_it_says_b() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("1K", 1024),
            ("1KB", 1000),
            ("1KiB", 1024),
            ("1.5M", 1_572_864),
            ("1G", 1 << 30),
            ("2 GB", 2_000_000_000),
            ("1t", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_rate_counts_bits_unless_it_says_capital_b() {
        for (text, bits) in [
            ("10M", 10_000_000),
            ("10Mbit/s", 10_000_000),
            ("10Mbit", 10_000_000),
            ("10Mbps", 10_000_000),
            ("10MB/s", 80_000_000),
            ("10MB", 80_000_000),
            ("1.5G", 1_500_000_000),
            ("300", 300),
        ] {
            assert_eq!(rate(text), Ok(bits), "{text}");
        }
    }

    #[test]
    fn a_time_says_its_unit() {
        for (text, time) in [
            ("20ms", Duration::from_millis(20)),
            ("1.5ms", Duration::from_micros(1500)),
            ("0.25s", Duration::from_millis(250)),
            ("150us", Duration::from_micros(150)),
            ("2m", Duration::from_secs(120)),
        ] {
            assert_eq!((duration(text), seconds(text)), (Ok(time), Ok(time)), "{text}");
        }
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bare in ["20", "1.5", " 20 "] {
            let message = duration(bare).unwrap_err().to_string();
            let bare = bare.trim();
            assert_eq!(message, format!("`{bare}` has no unit; write `{bare}ms` or `{bare}s`"));
        }
    }

    #[test]
    fn what_nc_and_iperf3_count_in_seconds_needs_no_unit() {
        assert_eq!(seconds("5"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds("0.2"), Ok(Duration::from_millis(200)));
    }

    #[test]
    fn a_bottleneck_is_a_rate_and_perhaps_a_queue() {
        let with = |queue| Ok(Bottleneck { rate_bps: 10_000_000, queue });
        assert_eq!(bottleneck("10M"), with(None));
        assert_eq!(bottleneck("10Mbit/s,queue=64KiB"), with(Some(Queue::Bytes(65_536))));
        assert_eq!(bottleneck("10Mbit/s,queue=1500B"), with(Some(Queue::Bytes(1500))));
        assert_eq!(bottleneck("10Mbit/s, queue=100packets"), with(Some(Queue::Packets(100))));
        assert_eq!(bottleneck("10Mbit/s,queue=1packet"), with(Some(Queue::Packets(1))));
        let refused = |text| bottleneck(text).unwrap_err().to_string();
        assert_eq!(refused("10M,queue=100"), "`100` has no unit; write `100packets` or `100KiB`");
        assert!(refused("10M,queue=0packets").contains("as in 100packets"));
        assert!(refused("10M,queue=1.5packets").contains("as in 100packets"));
        assert!(refused("10M,queue=").contains("as in 100packets"));
        assert!(refused("10M,64KiB").contains("queue=64KiB"));
        assert!(refused("fast,queue=64KiB").contains("10MB/s"));
    }

    #[test]
    fn a_probability_is_a_percentage_or_a_fraction() {
        assert_eq!(probability("1%"), Ok(0.01));
        assert_eq!(probability("0.5"), Ok(0.5));
        assert_eq!(probability("100%"), Ok(1.0));
        assert!(probability("1.5").is_err());
        assert!(probability("-1%").is_err());
    }

    #[test]
    fn what_is_no_number_is_refused_with_an_example() {
        for text in ["", "G", "1X", "1.2.3K", "-5", "1 0", "99999T"] {
            let message = size(text).unwrap_err().to_string();
            assert!(message.contains("is not a size: write"), "{message}");
        }
        assert!(rate("0").is_err());
        assert!(rate("fast").unwrap_err().to_string().contains("10MB/s"));
        assert!(duration("1 day").unwrap_err().to_string().contains("20ms"));
        assert!(duration("1e400s").is_err());
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
