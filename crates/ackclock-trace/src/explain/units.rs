//! Numbers for people. A number that is not zero is never shown as zero.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::Instant;

/// A share in per cent, with one digit; `None` if that would be 0.0 %.
pub(super) fn percent(part: f64, whole: f64) -> Option<String> {
    let share = part / whole.max(f64::MIN_POSITIVE) * 100.0;
    (share >= PERCENT_SHOWN_MIN).then(|| format!("{share:.1} %"))
}

/// Smaller shares round to 0.0.
const PERCENT_SHOWN_MIN: f64 = 0.05;

pub(super) fn counted(counts: &BTreeMap<&'static str, u64>) -> String {
    let words: Vec<String> =
        counts.iter().map(|(name, &count)| format!("{name} ({})", times(count))).collect();
    words.join(", ")
}

/// A list in words: `a`, `a and b`, `a, b and c`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

pub(super) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

pub(super) fn plural(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

pub(super) fn clock(at: Instant) -> String {
    format!("{:.6} s", at.as_nanos() as f64 / 1e9)
}

/// A time in a suitable unit.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds >= 1e-6 => format!("{:.0} µs", seconds * 1e6),
        _ => format!("{} ns", time.as_nanos()),
    }
}

pub(super) fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A rate given in bytes a second, as bits a second.
pub(super) fn rate(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    match bits {
        _ if bits >= 1e9 => format!("{:.2} Gbit/s", bits / 1e9),
        _ if bits >= 1e6 => format!("{:.2} Mbit/s", bits / 1e6),
        _ => format!("{:.1} kbit/s", bits / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{listed, percent, span};

    #[test]
    fn share_that_would_round_to_nothing_is_none() {
        assert_eq!(percent(0.0, 1.0), None);
        assert_eq!(percent(0.000_499, 1.0), None);
        assert_eq!(percent(0.000_5, 1.0).as_deref(), Some("0.1 %"));
        assert_eq!(percent(1.0, 1.0).as_deref(), Some("100.0 %"));
        assert_eq!(percent(0.0, 0.0), None);
    }

    #[test]
    fn time_that_passed_is_never_shown_as_none() {
        for (time, shown) in [(1, "1 ns"), (999, "999 ns"), (1000, "1 µs"), (1_000_000, "1.0 ms")] {
            assert_eq!(span(Duration::from_nanos(time)), shown);
        }
    }

    #[test]
    fn list_has_an_and_before_its_last() {
        let items = ["x", "y", "z"].map(str::to_owned);
        assert_eq!([0, 1, 2, 3].map(|count| listed(&items[..count])), ["", "x", "x and y", "x, y and z"]);
    }
}
