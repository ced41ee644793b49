//! Exact reading of quantities written as decimal numbers.

use std::time::Duration;

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
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = fraction.trim_end_matches('0');
    let places = u32::try_from(fraction.len()).ok().filter(|&places| places <= PLACES_MAX)?;
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(u128::from(unit))?;
    // Do not drop a fraction of the smallest unit silently.
    let divisor = 10_u128.pow(places);
    if scaled % divisor == 0 { u64::try_from(scaled / divisor).ok() } else { None }
}

/// A time in the largest unit that divides it: `40ms`, `1500us`.
#[must_use]
pub fn written_time(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let fits = units.into_iter().find(|(_, unit)| nanos > 0 && nanos.is_multiple_of(*unit));
    let (unit, scale) = fits.unwrap_or(("ns", 1));
    format!("{}{unit}", nanos / scale)
}

/// 10 to the power of this fits in 64 bits.
const PLACES_MAX: u32 = 18;

#[cfg(test)]
mod tests {
    use super::exact;

    #[test]
    fn numbers_are_read_exactly() {
        assert_eq!(exact("0.2", 10_000), Some(2000));
        assert_eq!(exact("0.0125", 10_000), Some(125));
        assert_eq!(exact("1.50", 2), Some(3));
        assert_eq!(exact("0.00001", 10_000), None);
        for wrong in ["", ".5", "1..5", "1.5.", "-1", "+1", "1e3", "1 0", "99999999999999999999"] {
            assert_eq!(exact(wrong, 1_000_000), None, "{wrong}");
        }
    }
}
