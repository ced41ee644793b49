//! Pacing for controllers that only have a window.
//!
//! A. Aggarwal, S. Savage and T. Anderson, "Understanding the Performance of TCP Pacing", INFOCOM 2000: the
//! window is spread over its round trip. The factors, 2 in slow start and 1.2 afterwards, leave room to grow;
//! they are the ones in common use.

use std::num::NonZeroU64;

use crate::divide::times;

/// The pacing rate for `cwnd` bytes over a round trip of `srtt_ns` nanoseconds, in bytes a second: twice
/// cwnd/SRTT in slow start, 1.2 times afterwards. `None` without a round trip, otherwise at least 1.
#[must_use]
#[inline]
pub fn window_rate(cwnd: u64, srtt_ns: u64, in_slow_start: bool) -> Option<u64> {
    const PERCENT_OF_SECOND_NS: u64 = 10_000_000;
    let factor = if in_slow_start { 200 * PERCENT_OF_SECOND_NS } else { 120 * PERCENT_OF_SECOND_NS };
    let rate = match cwnd.checked_mul(factor) {
        Some(scaled) => scaled.checked_div(srtt_ns)?,
        None => times(cwnd, factor, NonZeroU64::new(srtt_ns)?).unwrap_or(u64::MAX),
    };
    Some(rate.max(1))
}

#[cfg(test)]
mod tests {
    use super::window_rate;

    #[test]
    fn window_is_spread_over_its_round_trip() {
        // 100 KB in 100 ms is 1 MB/s.
        assert_eq!(window_rate(100_000, 100_000_000, true), Some(2_000_000));
        assert_eq!(window_rate(100_000, 100_000_000, false), Some(1_200_000));
        assert_eq!(window_rate(100_000, 0, false), None);
        assert_eq!(window_rate(1, u64::MAX, false), Some(1));
    }

    #[test]
    fn window_of_any_size_has_a_rate() {
        // 10 GB in 10 s is 1 GB/s. The intermediate product exceeds 64 bits.
        assert_eq!(window_rate(10_000_000_000, 10_000_000_000, true), Some(2_000_000_000));
        assert_eq!(window_rate(u64::MAX, 1_000_000_000, false), Some(u64::MAX));
    }
}
