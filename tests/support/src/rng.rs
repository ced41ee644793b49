//! A small seeded generator: the same seed gives the same run on every machine.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Another generator, whose draws do not advance this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the multiplication is below bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with this probability, given in parts of a million.
    pub fn chance(&mut self, parts_per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(parts_per_million)
    }

    /// True once in `many` times.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// One of the values.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// The byte at `offset` of the stream named `stream`: sent data is never stored, only recomputed.
#[must_use]
pub fn stream_byte(stream: u64, offset: u64) -> u8 {
    (mix(stream.wrapping_add((offset / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> (offset % 8 * 8)) as u8
}

/// The bytes of `stream` from `offset` on, as in [`stream_byte`].
pub fn fill_stream(stream: u64, offset: u64, bytes: &mut [u8]) {
    let head = (offset.wrapping_neg() % 8).min(bytes.len() as u64) as usize;
    let (first, rest) = bytes.split_at_mut(head);
    (offset..).zip(first).for_each(|(at, byte)| *byte = stream_byte(stream, at));
    for (word, chunk) in ((offset + head as u64) / 8..).zip(rest.chunks_mut(8)) {
        let all = mix(stream.wrapping_add(word.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes();
        chunk.copy_from_slice(&all[..chunk.len()]);
    }
}

/// Mixes all bits: the same number gives the same number.
#[must_use]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_of_a_stream_are_the_single_ones() {
        for (offset, len) in [(0, 0), (0, 40), (3, 2), (3, 5), (5, 100), (8, 7), (16, 8)] {
            let mut bytes = vec![0; len];
            fill_stream(9, offset, &mut bytes);
            assert!((offset..).zip(&bytes).all(|(at, byte)| *byte == stream_byte(9, at)), "{offset} {len}");
        }
    }
}
