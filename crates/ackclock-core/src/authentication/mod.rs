//! The TCP Authentication Option (RFC 5925) with the algorithms of RFC 5926: master keys, traffic keys, MACs.
//!
//! It is compiled only with the feature `tcp-ao`. It does not keep a connection's state: see
//! `endpoint/authentication.rs`. The vectors of RFC 9235 test this code.

pub(crate) mod derived;
pub(crate) mod mac;
pub(crate) mod sequence;

use std::fmt;

use thiserror::Error;

/// How keys are derived and segments authenticated (RFC 5926 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// KDF_HMAC_SHA1 and HMAC-SHA-1-96.
    HmacSha1,
    /// KDF_AES_128_CMAC and AES-128-CMAC-96.
    Aes128Cmac,
}

/// A master key tuple (RFC 5925 §3.1) without its addresses.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    /// KeyID of segments that this end sends with it.
    pub send_id: u8,
    /// KeyID of segments that the peer sends with it.
    pub receive_id: u8,
    /// How it is used.
    pub algorithm: Algorithm,
    /// Whether the MAC covers the other TCP options. If a middlebox changes them, set `false`.
    pub covers_options: bool,
    /// The key, of any length.
    pub secret: Vec<u8>,
}

/// The master keys shared with a peer. The first is used until either end requests another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChain {
    keys: Vec<MasterKey>,
}

/// Why keys do not form a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyChainError {
    /// No key, or too many.
    #[error("a chain has 1 to {KEYS_MAX} keys")]
    Count,
    /// Two keys with one id.
    #[error("two keys have the id {0} in one direction; ids must tell keys apart")]
    DuplicateId(u8),
}

impl KeyChain {
    /// A chain of these keys.
    ///
    /// # Errors
    /// There are no keys or more than 16, or two have the same id in one direction.
    pub fn new(keys: Vec<MasterKey>) -> Result<Self, KeyChainError> {
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(KeyChainError::Count);
        }
        let mut rest = keys.as_slice();
        while let [key, others @ ..] = rest {
            rest = others;
            for other in others {
                if key.send_id == other.send_id {
                    return Err(KeyChainError::DuplicateId(key.send_id));
                }
                if key.receive_id == other.receive_id {
                    return Err(KeyChainError::DuplicateId(key.receive_id));
                }
            }
        }
        Ok(Self { keys })
    }

    pub(crate) fn get(&self, index: usize) -> Option<&MasterKey> {
        self.keys.get(index)
    }

    pub(crate) fn by_send_id(&self, id: u8) -> Option<usize> {
        self.keys.iter().position(|key| key.send_id == id)
    }

    pub(crate) fn by_receive_id(&self, id: u8) -> Option<usize> {
        self.keys.iter().position(|key| key.receive_id == id)
    }
}

impl fmt::Debug for MasterKey {
    // Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey")
            .field("send_id", &self.send_id)
            .field("receive_id", &self.receive_id)
            .field("algorithm", &self.algorithm)
            .field("covers_options", &self.covers_options)
            .finish_non_exhaustive()
    }
}

/// The most keys of a chain.
const KEYS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(send_id: u8, receive_id: u8) -> MasterKey {
        let secret = b"do not show".to_vec();
        MasterKey { send_id, receive_id, algorithm: Algorithm::HmacSha1, covers_options: true, secret }
    }

    #[test]
    fn a_chain_tells_its_keys_apart_in_both_directions() {
        assert_eq!(KeyChain::new(vec![]), Err(KeyChainError::Count));
        assert_eq!(KeyChain::new((0..17).map(|id| key(id, id)).collect()), Err(KeyChainError::Count));
        assert_eq!(KeyChain::new(vec![key(1, 2), key(1, 3)]), Err(KeyChainError::DuplicateId(1)));
        assert_eq!(KeyChain::new(vec![key(1, 2), key(3, 2)]), Err(KeyChainError::DuplicateId(2)));
        let chain = KeyChain::new(vec![key(1, 2), key(2, 1)]).unwrap();
        assert_eq!(
            (chain.by_send_id(2), chain.by_receive_id(2), chain.by_send_id(3)),
            (Some(1), Some(0), None)
        );
    }

    #[test]
    fn a_secret_is_not_printed() {
        let other = MasterKey { secret: b"another".to_vec(), ..key(1, 2) };
        assert_eq!(format!("{other:?}"), format!("{:?}", key(1, 2)));
    }
}
