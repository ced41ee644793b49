//! A small seeded random number generator: repeatable on every machine, not for secrets.

/// SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 17.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Whether a draw falls into `probability`. It always does for 1, never for 0.
pub(super) fn happens(draw: u64, probability: f64) -> bool {
    // The upper 53 bits, as many as a float holds exactly.
    let unit = (draw >> 11) as f64 / (1u64 << 53) as f64;
    unit < probability
}

/// A draw scaled to `0..end`; 0 when `end` is 0.
pub(super) fn below(draw: u64, end: u64) -> u64 {
    u64::try_from((u128::from(draw) * u128::from(end)) >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first values of the reference implementation for seed 1234567.
        let mut rng = SplitMix64::new(1_234_567);
        let values = [rng.next(), rng.next(), rng.next()];
        assert_eq!(values, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn certain_and_impossible_events_are_so_for_every_draw() {
        for draw in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(happens(draw, 1.0) && !happens(draw, 0.0));
            assert!(below(draw, 10) < 10);
        }
        assert_eq!(below(u64::MAX, 0), 0);
    }
}
