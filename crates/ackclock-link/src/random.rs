//! Seeded random delays: repeatable, unsuitable for secrets.

use std::time::Duration;

/// SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 17.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A delay from `min` up to `max`.
    pub(crate) fn between(&mut self, min: Duration, max: Duration) -> Duration {
        let span = max.saturating_sub(min);
        // Sixteen bits are enough for delays that spread hosts apart.
        let [high, low, ..] = self.next().to_be_bytes();
        let share = u32::from(u16::from_be_bytes([high, low]));
        min.saturating_add(span.saturating_mul(share).checked_div(1 << 16).unwrap_or_default())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_lie_within_their_bounds_and_spread() {
        let mut random = Random::new(1);
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(2));
        let delays: Vec<_> = (0..100).map(|_| random.between(min, max)).collect();
        assert!(delays.iter().all(|delay| (min..max).contains(delay)));
        assert!(
            delays.iter().max().unwrap().saturating_sub(*delays.iter().min().unwrap())
                > Duration::from_millis(500)
        );
        assert_eq!(random.between(min, min), min);
    }
}
