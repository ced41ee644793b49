//! FNV-1a: a cheap hash, the same on every machine and in every build. An attacker who chooses the input can
//! make collisions.

/// FNV-1a with 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Fnv1a {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        let mut hash = Self::default();
        hash.write(bytes);
        hash.finish()
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    }

    /// Adds a word in one step instead of eight. The rotation lets its upper half count in later steps, so
    /// this is another hash than [`write`](Self::write) gives for the word's bytes.
    #[inline]
    pub fn write_word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(PRIME).rotate_left(23);
    }

    /// The hash of what was added so far.
    #[must_use]
    pub const fn finish(self) -> u64 {
        self.0
    }
}

impl Default for Fnv1a {
    fn default() -> Self {
        Self(OFFSET)
    }
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_draft() {
        // The test values that the authors published.
        for (text, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(Fnv1a::of(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn words_and_their_order_count() {
        let of = |words: &[u64]| {
            let mut hash = Fnv1a::default();
            words.iter().for_each(|word| hash.write_word(*word));
            hash.finish()
        };
        let mut hashes = [of(&[]), of(&[0]), of(&[0, 0]), of(&[0, 1 << 63]), of(&[1 << 63, 0]), of(&[1])];
        hashes.sort_unstable();
        assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
