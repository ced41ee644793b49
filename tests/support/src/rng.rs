//! Seeded numbers, and the bytes of streams made from them: the same seed gives the same run everywhere.

use ackclock_wire::random::GOLDEN_GAMMA;

pub use ackclock_wire::random::{Rng, mix};

/// The byte at `offset` of the stream named `stream`: sent data is never stored, only recomputed.
#[must_use]
pub fn stream_byte(stream: u64, offset: u64) -> u8 {
    (mix(stream.wrapping_add((offset / 8).wrapping_mul(GOLDEN_GAMMA))) >> (offset % 8 * 8)) as u8
}

/// The bytes of `stream` from `offset` on, as in [`stream_byte`].
pub fn fill_stream(stream: u64, offset: u64, bytes: &mut [u8]) {
    let head = (offset.wrapping_neg() % 8).min(bytes.len() as u64) as usize;
    let (first, rest) = bytes.split_at_mut(head);
    (offset..).zip(first).for_each(|(at, byte)| *byte = stream_byte(stream, at));
    for (word, chunk) in ((offset + head as u64) / 8..).zip(rest.chunks_mut(8)) {
        let all = mix(stream.wrapping_add(word.wrapping_mul(GOLDEN_GAMMA))).to_le_bytes();
        chunk.copy_from_slice(&all[..chunk.len()]);
    }
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
