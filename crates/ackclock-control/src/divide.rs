//! Division in integers: by divisors that are never zero, and of products that fit.

use std::num::{NonZeroU64, NonZeroU128};

/// `number` as a divisor: 1 instead of 0.
#[inline]
pub(crate) const fn at_least_one(number: u64) -> NonZeroU64 {
    match NonZeroU64::new(number) {
        Some(number) => number,
        None => NonZeroU64::MIN,
    }
}

/// `number` times `numerator / denominator`, rounded down, with a product of 128 bits. `None` if the result
/// has more than 64.
#[inline]
pub(crate) fn times(number: u64, numerator: u64, denominator: NonZeroU64) -> Option<u64> {
    let product = u128::from(number).saturating_mul(numerator.into());
    u64::try_from(product / NonZeroU128::from(denominator)).ok()
}

/// The multiple of `step` nearest to `number`; the larger of two.
#[inline]
pub(crate) fn nearest_multiple(number: u64, step: NonZeroU64) -> u64 {
    let above = number.saturating_add(step.get() / 2);
    above.saturating_sub(above % step)
}

/// Nanoseconds of a second.
pub(crate) const SECOND: NonZeroU64 = at_least_one(1_000_000_000);

#[cfg(test)]
mod tests {
    use super::{at_least_one, nearest_multiple, times};

    #[test]
    fn nothing_is_divided_by_zero() {
        assert_eq!(7 / at_least_one(0), 7);
        assert_eq!(7 / at_least_one(2), 3);
    }

    #[test]
    fn products_wider_than_their_factors_are_divided_whole() {
        assert_eq!(times(7, 3, at_least_one(2)), Some(10));
        assert_eq!(times(u64::MAX, u64::MAX - 1, at_least_one(u64::MAX)), Some(u64::MAX - 1));
        assert_eq!(times(u64::MAX, 2, at_least_one(1)), None);
    }

    #[test]
    fn halves_go_up_to_the_next_multiple() {
        assert_eq!([4, 5, 14, 15].map(|number| nearest_multiple(number, at_least_one(10))), [0, 10, 10, 20]);
        assert_eq!([4, 5].map(|number| nearest_multiple(number, at_least_one(1))), [4, 5]);
    }
}
