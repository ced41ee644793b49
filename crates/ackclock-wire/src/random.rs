//! Seeded random numbers: the same on every machine, and not for secrets.
//!
//! Nothing on the wire needs them. They are here because every crate that draws delays, losses or test cases
//! can reach this one.

use std::time::Duration;

use crate::hash::Fnv1a;

/// SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 17.
///
/// ```
/// use ackclock_wire::random::Rng;
///
/// let mut rng = Rng::new(7);
/// assert_eq!(rng.next_u64(), Rng::new(7).next_u64());
/// assert!(rng.below(10) < 10 && [1, 4].contains(&rng.pick(&[1, 4])));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator for this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator named `name` among those of one seed. A further name changes no other's numbers.
    #[must_use]
    pub fn derive(seed: u64, name: &str) -> Self {
        Self(Self(seed).next_u64() ^ Fnv1a::of(name.as_bytes()))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// Another generator, whose draws do not advance this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }

    /// A number below `end`; 0 when `end` is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        scale(self.next_u64(), end)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    /// A time from `min` up to `max`, in steps of 1/65,536 of the difference.
    pub fn time_between(&mut self, min: Duration, max: Duration) -> Duration {
        let [high, low, ..] = self.next_u64().to_be_bytes();
        let share = u32::from(u16::from_be_bytes([high, low]));
        let span = max.saturating_sub(min);
        min.saturating_add(span.saturating_mul(share).checked_div(1 << 16).unwrap_or_default())
    }

    /// True with this probability, in parts of a million.
    pub fn chance(&mut self, parts_per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(parts_per_million)
    }

    /// True once in `many` times; never when `many` is 0.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0 && many > 0
    }

    /// One of the values.
    ///
    /// # Panics
    /// There is none.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        let at = self.below(values.len() as u64);
        usize::try_from(at)
            .ok()
            .and_then(|at| values.get(at).copied())
            .expect("there are values to pick from")
    }
}

/// Mixes all bits: the finalizer of SplitMix64, which gives the same number for the same number.
#[inline]
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A draw scaled to `0..end`; 0 when `end` is 0. The bias is below `end` / 2⁶⁴.
#[inline]
#[must_use]
pub const fn scale(draw: u64, end: u64) -> u64 {
    // The product of two 64-bit numbers fits 128 bits, and its upper half 64.
    ((draw as u128).wrapping_mul(end as u128) >> 64) as u64
}

/// 2⁶⁴ divided by the golden ratio: what SplitMix64 adds at each step.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first values of the reference implementation for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let values = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(values, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn names_and_seeds_give_different_numbers() {
        let first = |seed, name| Rng::derive(seed, name).next_u64();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
    }

    #[test]
    fn draws_are_scaled_to_below_the_end() {
        for draw in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(scale(draw, 10) < 10);
        }
        assert_eq!(scale(u64::MAX, 0), 0);
        assert_eq!((scale(0, 10), scale(u64::MAX / 2 + 1, 10), scale(u64::MAX, 10)), (0, 5, 9));
    }

    #[test]
    fn numbers_lie_within_their_bounds_and_reach_both() {
        let mut rng = Rng::new(3);
        let mut seen: Vec<u64> = (0..1000).map(|_| rng.between(5, 8)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [5, 6, 7, 8]);
        assert!((0..1000).all(|_| [1, 4].contains(&rng.pick(&[1, 4]))));
        // 1,000 draws of probability 1/4 succeed 250 times, with a deviation of 14: five of them are 70.
        for share in
            [(0..1000).filter(|_| rng.one_in(4)).count(), (0..1000).filter(|_| rng.chance(250_000)).count()]
        {
            assert!((180..=320).contains(&share), "{share}");
        }
    }

    #[test]
    fn times_lie_within_their_bounds_and_spread() {
        let mut rng = Rng::new(1);
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(2));
        let times: Vec<_> = (0..100).map(|_| rng.time_between(min, max)).collect();
        assert!(times.iter().all(|time| (min..max).contains(time)));
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!(most.saturating_sub(*least) > Duration::from_millis(500));
        assert_eq!(rng.time_between(min, min), min);
    }
}
