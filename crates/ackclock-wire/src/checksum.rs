//! The Internet checksum (RFC 1071): ones-complement sums of 16-bit words.
//!
//! A [`Sum`] is kept in the machine's byte order and is wider than its words. Bytes are added as they lie in
//! memory, 32 bits at a time, and carries are folded once at the end (RFC 1071 §2 (B) and (C)).

use std::net::IpAddr;

/// A ones-complement sum that has not been folded to 16 bits yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// The sum of two parts that both start at an even offset.
    #[must_use]
    #[inline]
    pub const fn plus(self, other: Self) -> Self {
        // It would take 2^32 words to wrap; a packet has 2^15.
        Self(self.0.wrapping_add(other.0))
    }

    /// Adds a 16-bit word.
    #[must_use]
    #[inline]
    pub const fn plus_u16(self, word: u16) -> Self {
        Self(self.0.wrapping_add(word.to_be() as u64))
    }

    /// Adds two 16-bit words.
    #[must_use]
    #[inline]
    pub const fn plus_u32(self, words: u32) -> Self {
        Self(self.0.wrapping_add(words.to_be() as u64))
    }

    /// Adds `bytes`, which start at an even offset.
    #[must_use]
    #[inline]
    pub fn plus_bytes(self, bytes: &[u8]) -> Self {
        self.plus(sum(bytes))
    }

    /// Adds two slices, one after the other, the first at an even offset.
    #[must_use]
    #[inline]
    pub fn plus_parts(self, [first, second]: [&[u8]; 2]) -> Self {
        let both = self.plus_bytes(first);
        match (second.is_empty(), first.len() % 2) {
            (true, _) => both,
            (false, 0) => both.plus_bytes(second),
            // At an odd offset every byte is in the other half of its word: RFC 1071 §2 (B), byte order
            // independence, read backwards.
            (false, _) => both.plus(Self(u64::from(sum(second).folded().swap_bytes()))),
        }
    }

    /// Adds an address.
    #[must_use]
    #[inline]
    pub fn plus_addr(self, addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(addr) => self.plus_bytes(&addr.octets()),
            IpAddr::V6(addr) => self.plus_bytes(&addr.octets()),
        }
    }

    /// The sum folded to 16 bits, as the number on the wire. A device that finishes checksums expects a
    /// pseudo-header sum in this form.
    #[must_use]
    #[inline]
    pub const fn fold(self) -> u16 {
        u16::from_be(self.folded())
    }

    /// The checksum: the complement of the folded sum. Over data that includes a right checksum it is 0.
    #[must_use]
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The sum folded to 16 bits in the machine's byte order. Adding the two halves in both orders leaves
    /// their sum in the upper half, with the carry of the lower one (end-around carry).
    #[inline]
    const fn folded(self) -> u16 {
        let sum = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
    }
}

/// The sum of `bytes`. An odd last byte counts as the first half of a word.
#[must_use]
#[inline]
pub fn sum(bytes: &[u8]) -> Sum {
    if bytes.len() < LONG { sum_short(bytes) } else { sum_long(bytes) }
}

/// The sum of a payload. Two accumulators that never carry into each other give a loop that the compiler
/// turns into vector instructions.
fn sum_long(bytes: &[u8]) -> Sum {
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut low, mut high) = (0u64, 0u64);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        low = low.wrapping_add(word & 0xffff_ffff);
        high = high.wrapping_add(word >> 32);
    }
    Sum(low).plus(Sum(high)).plus(sum_short(rest))
}

/// The sum of a header, or of the rest of a payload: too few bytes for vectors.
#[inline]
fn sum_short(bytes: &[u8]) -> Sum {
    let (words, rest) = bytes.as_chunks::<4>();
    let total = words.iter().fold(0u64, |total, word| total.wrapping_add(u32::from_ne_bytes(*word).into()));
    let last = match *rest {
        [a] => u64::from(u16::from_ne_bytes([a, 0])),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c] => u64::from(u32::from_ne_bytes([a, b, c, 0])),
        _ => 0,
    };
    Sum(total.wrapping_add(last))
}

/// The sum of the pseudo-header: addresses, protocol and length of the upper-layer packet (RFC 9293 §3.1 for
/// IPv4, RFC 8200 §8.1 for IPv6). The two differ only in the width of their fields, which does not affect a
/// sum.
#[must_use]
#[inline]
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, length: usize) -> Sum {
    // No IP packet is longer than 2^32.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    Sum::ZERO.plus_addr(src).plus_addr(dst).plus_u16(protocol.into()).plus_u32(length)
}

/// From this many bytes on vectors pay.
const LONG: usize = 64;

#[cfg(test)]
mod tests {
    use etherparse::checksum::Sum16BitWords;
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 §1, word by word.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    #[test]
    fn rfc1071_example_sums_to_ddf2() {
        // RFC 1071 §3: the example's words 0001 f203 f4f5 f6f7.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).fold(), 0xddf2);
    }

    #[test]
    fn longest_packet_of_ones_does_not_overflow() {
        let bytes = vec![0xff; 65_535];
        assert_eq!(sum(&bytes).fold(), naive(&bytes));
        assert_eq!(Sum(u64::MAX).folded(), 0xffff, "folding takes every carry along");
    }

    #[test]
    fn every_length_agrees_with_words() {
        let bytes: Vec<u8> =
            (0..=255).cycle().skip(7).map(|byte: u8| byte.wrapping_mul(37)).take(200).collect();
        for end in 0..=bytes.len() {
            assert_eq!(sum(&bytes[..end]).fold(), naive(&bytes[..end]), "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn sum_agrees_with_words_and_with_etherparse(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(sum(&bytes).fold(), naive(&bytes));
            let theirs = Sum16BitWords::new().add_slice(&bytes).ones_complement();
            prop_assert_eq!(sum(&bytes).checksum(), u16::from_be(theirs));
        }

        #[test]
        fn split_anywhere_sums_the_same(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(Sum::ZERO.plus_parts([first, second]).fold(), naive(&bytes));
        }

        #[test]
        fn words_sum_as_their_bytes(a: u32, b: u16) {
            let bytes = [&a.to_be_bytes()[..], &b.to_be_bytes()[..]].concat();
            prop_assert_eq!(Sum::ZERO.plus_u32(a).plus_u16(b).fold(), naive(&bytes));
        }

        #[test]
        fn pseudo_header_is_the_rfcs_layout(src: [u8; 4], dst: [u8; 4], length: u16, src6: [u8; 16], dst6: [u8; 16]) {
            let v4 = [&src[..], &dst[..], &[0, 6], &length.to_be_bytes()].concat();
            prop_assert_eq!(pseudo_header(src.into(), dst.into(), 6, length.into()).fold(), naive(&v4));
            let v6 = [&src6[..], &dst6[..], &[0, 0], &length.to_be_bytes(), &[0, 0, 0, 6]].concat();
            prop_assert_eq!(pseudo_header(src6.into(), dst6.into(), 6, length.into()).fold(), naive(&v6));
        }
    }
}
