//! Keys derived from the endpoint's secret, one for each purpose, and keyed hashes of four-tuples.

use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;

use siphasher::sip::{SipHasher13, SipHasher24};
use siphasher::sip128;

use crate::FourTuple;

/// A 128-bit key of SipHash. Its value never appears in output, not even of `Debug`.
#[derive(Clone)]
pub(super) struct Key([u8; 16]);

/// The purpose of a key. Keys of different purposes reveal nothing about each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Purpose {
    Demux = 1,
    Tables = 2,
    Isn = 3,
    TimestampOffset = 4,
    Ports = 5,
    Cookies = 6,
    CookieMask = 7,
    FlowLabels = 8,
    NonTcp = 9,
    Reuse = 10,
    FastOpen = 11,
    Later = 13,
    Directory = 14,
    Known = 15,
    Fragments = 16,
}

impl Key {
    /// The key for `purpose`.
    // RFC 9293 MUST-9: the function that hides ISNs must not be computable from outside: it is keyed with 128
    // bits that come from the operating system's random source and never leave this module.
    pub fn derive(secret: &[u8; 32], purpose: Purpose) -> Self {
        let (mut key, mut message) = ([0; 16], [0; 17]);
        for (to, from) in key.iter_mut().chain(message.iter_mut()).zip(secret) {
            *to = *from;
        }
        message[16] = purpose as u8;
        Self(sip128::SipHasher24::new_with_key(&key).hash(&message).as_bytes())
    }

    /// The key for `purpose` of something created at first use, derived from the key for [`Purpose::Later`]:
    /// an endpoint keeps neither its secret nor keys that it may never need.
    pub fn subkey(&self, purpose: Purpose) -> Self {
        Self(sip128::SipHasher24::new_with_key(&self.0).hash(&[purpose as u8]).as_bytes())
    }

    /// SipHash-1-3: for tables, whose hash values an outsider never sees.
    #[inline]
    pub fn hash13(&self, bytes: &[u8]) -> u64 {
        SipHasher13::new_with_key(&self.0).hash(bytes)
    }

    /// SipHash-2-4: for numbers sent to the network.
    pub fn hash24(&self, bytes: &[u8]) -> u64 {
        SipHasher24::new_with_key(&self.0).hash(bytes)
    }

    /// SipHash-2-4 of a four-tuple and two words.
    pub fn hash24_tuple(&self, tuple: &FourTuple, words: [u32; 2]) -> u64 {
        let TupleBytes { mut bytes, len } = TupleBytes::new(tuple);
        let tail = u64::from(words[1]) << 32 | u64::from(words[0]);
        let end = len.saturating_add(size_of::<u64>());
        if let Some(room) = bytes.get_mut(len..end) {
            room.copy_from_slice(&tail.to_le_bytes());
        }
        self.hash24(bytes.get(..end).unwrap_or(&bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Builds the hashers of the standard library's maps.
#[derive(Clone, Debug)]
pub(super) struct KeyedState(pub(super) Key);

impl BuildHasher for KeyedState {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0.0)
    }
}

/// A four-tuple as the bytes to hash: 12 for IPv4, 36 for IPv6, with room for two words after them.
pub(super) struct TupleBytes {
    bytes: [u8; Self::MAX + size_of::<u64>()],
    len: usize,
}

impl TupleBytes {
    const MAX: usize = 36;

    #[inline]
    pub fn new(tuple: &FourTuple) -> Self {
        let mut bytes = [0; Self::MAX + size_of::<u64>()];
        bytes[0..2].copy_from_slice(&tuple.local_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&tuple.remote_port.to_be_bytes());
        let len = if let (IpAddr::V4(local), IpAddr::V4(remote)) = (tuple.local_addr, tuple.remote_addr) {
            bytes[4..8].copy_from_slice(&local.octets());
            bytes[8..12].copy_from_slice(&remote.octets());
            12
        } else {
            bytes[4..20].copy_from_slice(&octets16(tuple.local_addr));
            bytes[20..36].copy_from_slice(&octets16(tuple.remote_addr));
            Self::MAX
        };
        Self { bytes, len }
    }

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

fn octets16(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

ackclock_form::form! {
    struct Key(key)
    struct KeyedState(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_two_purposes_differ_and_so_do_those_of_two_secrets() {
        let (a, b) = ([1; 32], [2; 32]);
        let hash = |secret, purpose| Key::derive(secret, purpose).hash24(b"x");
        assert_ne!(hash(&a, Purpose::Isn), hash(&a, Purpose::Ports));
        assert_ne!(hash(&a, Purpose::Isn), hash(&b, Purpose::Isn));
        assert_eq!(hash(&a, Purpose::Isn), hash(&a, Purpose::Isn));
    }

    #[test]
    fn tables_of_two_secrets_hash_differently() {
        let hash = |secret| KeyedState(Key::derive(&[secret; 32], Purpose::Isn)).hash_one(7);
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }

    #[test]
    fn every_byte_of_the_secret_counts() {
        for at in 0..32 {
            let mut secret = [7; 32];
            secret[at] ^= 1;
            let plain = Key::derive(&[7; 32], Purpose::Demux).hash13(b"x");
            assert_ne!(Key::derive(&secret, Purpose::Demux).hash13(b"x"), plain, "byte {at}");
        }
    }

    #[test]
    fn keys_derived_later_differ_by_purpose_and_by_secret() {
        let hash = |secret, purpose| Key::derive(secret, Purpose::Later).subkey(purpose).hash24(b"x");
        assert_ne!(hash(&[1; 32], Purpose::NonTcp), hash(&[1; 32], Purpose::Reuse));
        assert_ne!(hash(&[1; 32], Purpose::NonTcp), hash(&[2; 32], Purpose::NonTcp));
        assert_eq!(hash(&[1; 32], Purpose::NonTcp), hash(&[1; 32], Purpose::NonTcp));
    }

    #[test]
    fn a_name_and_two_words_are_hashed_as_their_bytes_in_that_order() {
        let key = Key::derive(&[3; 32], Purpose::Isn);
        for (local, remote) in [("10.0.0.1:258", "10.0.0.2:2"), ("[::1]:258", "[fd00::2]:2")] {
            let tuple = FourTuple::new(local.parse().unwrap(), remote.parse().unwrap());
            let mut bytes = TupleBytes::new(&tuple).as_slice().to_vec();
            bytes.extend(0x0403_0201_u32.to_le_bytes());
            bytes.extend(0x0807_0605_u32.to_le_bytes());
            assert_eq!(bytes[bytes.len() - 8..], [1, 2, 3, 4, 5, 6, 7, 8]);
            assert_eq!(key.hash24_tuple(&tuple, [0x0403_0201, 0x0807_0605]), key.hash24(&bytes));
        }
    }

    // Tests: RFC 9293 MUST-9
    #[test]
    fn debug_output_shows_no_key() {
        assert_eq!(format!("{:?}", Key::derive(&[9; 32], Purpose::Isn)), "Key(..)");
    }

    #[test]
    fn every_part_of_the_name_is_hashed() {
        let key = Key::derive(&[3; 32], Purpose::Demux);
        let names = [
            ("10.0.0.1:1", "10.0.0.2:2"),
            ("10.0.0.1:2", "10.0.0.2:1"),
            ("10.0.0.2:1", "10.0.0.1:2"),
            ("10.0.0.1:1", "10.0.0.3:2"),
            ("[::1]:1", "[::2]:2"),
            ("[::2]:1", "[::1]:2"),
            ("[::1]:1", "[::2]:3"),
        ];
        let mut hashes: Vec<u64> = names
            .iter()
            .map(|(local, remote)| FourTuple::new(local.parse().unwrap(), remote.parse().unwrap()))
            .map(|tuple| key.hash24_tuple(&tuple, [0, 0]))
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), names.len());
    }
}
