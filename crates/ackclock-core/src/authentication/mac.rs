//! Traffic keys (RFC 5925 §5.2, RFC 5926 §3.1) and the MACs of segments (RFC 5925 §5.1, RFC 5926 §3.2).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use aes::Aes128;
use cmac::Cmac;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::{Algorithm, MasterKey};

/// The key of one direction of a connection.
#[derive(Clone)]
pub(crate) struct TrafficKey {
    algorithm: Algorithm,
    /// HMAC-SHA-1 uses all of it, AES the first 16 bytes.
    bytes: [u8; 20],
}

/// A segment to authenticate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered<'a> {
    pub src: IpAddr,
    pub dst: IpAddr,
    /// The extension of its sequence number.
    pub sne: u32,
    /// The TCP header with its options.
    pub header: &'a [u8],
    /// The offset of the option in it.
    pub option_at: usize,
    pub payload: [&'a [u8]; 2],
}

impl TrafficKey {
    /// The key for what `src` sends to `dst`. The ISN of a peer that is not known yet, in a SYN, is 0.
    pub fn derive(master: &MasterKey, src: SocketAddr, dst: SocketAddr, isns: (u32, u32)) -> Self {
        let mut context = [0; CONTEXT_MAX];
        let mut len = 0_usize;
        let mut push = |part: &[u8]| {
            for (to, from) in context.iter_mut().skip(len).zip(part) {
                *to = *from;
            }
            len = len.saturating_add(part.len());
        };
        // RFC 5926 §3.1.1: a counter, the label, the context of RFC 5925 §5.2, and the length of the key in
        // bits.
        push(&[1]);
        push(b"TCP-AO");
        push(octets(&src.ip()).as_slice());
        push(octets(&dst.ip()).as_slice());
        push(&src.port().to_be_bytes());
        push(&dst.port().to_be_bytes());
        push(&isns.0.to_be_bytes());
        push(&isns.1.to_be_bytes());
        push(&match master.algorithm {
            Algorithm::HmacSha1 => 160_u16.to_be_bytes(),
            Algorithm::Aes128Cmac => 128_u16.to_be_bytes(),
        });
        let input = context.get(..len).unwrap_or(&context);
        let bytes = match master.algorithm {
            Algorithm::HmacSha1 => hmac_sha1(&master.secret, [input].into_iter()),
            Algorithm::Aes128Cmac => widened(aes_cmac(&aes_key(&master.secret), [input].into_iter())),
        };
        Self { algorithm: master.algorithm, bytes }
    }

    /// The MAC of a segment. With `covers_options` it covers the whole header, otherwise the fixed part and
    /// this option.
    pub fn mac(&self, segment: &Covered<'_>, covers_options: bool) -> [u8; MAC_LEN] {
        let mut header = [0; TCP_HEADER_MAX];
        for (to, from) in header.iter_mut().zip(segment.header) {
            *to = *from;
        }
        // Checksum and MAC count as zero.
        let option_end = segment.option_at.saturating_add(OPTION_LEN);
        for zeroed in [16..18, segment.option_at.saturating_add(4)..option_end] {
            header.get_mut(zeroed).unwrap_or_default().fill(0);
        }
        let whole = header.get(..segment.header.len()).unwrap_or(&header);
        let fixed = header.get(..20).unwrap_or_default();
        let option = header.get(segment.option_at..option_end).unwrap_or_default();
        let (first, second) = if covers_options { (whole, &[][..]) } else { (fixed, option) };
        let pseudo = pseudo_header(segment);
        let sne = segment.sne.to_be_bytes();
        let [text, rest] = segment.payload;
        let parts = [&sne[..], pseudo.as_slice(), first, second, text, rest].into_iter();
        let full = match self.algorithm {
            Algorithm::HmacSha1 => hmac_sha1(&self.bytes, parts),
            Algorithm::Aes128Cmac => {
                let mut key = [0; 16];
                key.iter_mut().zip(self.bytes).for_each(|(to, from)| *to = from);
                widened(aes_cmac(&key, parts))
            }
        };
        full.first_chunk().copied().unwrap_or_default()
    }
}

impl fmt::Debug for TrafficKey {
    // Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Compares two MACs in constant time.
pub(crate) fn same(one: &[u8; MAC_LEN], other: &[u8; MAC_LEN]) -> bool {
    one.iter().zip(other).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

fn hmac_sha1<'a>(key: &[u8], parts: impl Iterator<Item = &'a [u8]>) -> [u8; 20] {
    // Keys may have any length.
    let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(key) else { return [0; 20] };
    parts.for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn aes_cmac<'a>(key: &[u8; 16], parts: impl Iterator<Item = &'a [u8]>) -> [u8; 16] {
    let Ok(mut mac) = Cmac::<Aes128>::new_from_slice(key) else { return [0; 16] };
    parts.for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// RFC 5926 §3.1.2 (RFC 4615): a key of other than 128 bits is converted to one of 128.
fn aes_key(secret: &[u8]) -> [u8; 16] {
    secret.try_into().unwrap_or_else(|_| aes_cmac(&[0; 16], [secret].into_iter()))
}

fn widened(short: [u8; 16]) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes.iter_mut().zip(short).for_each(|(to, from)| *to = from);
    bytes
}

/// Up to 40 bytes.
#[derive(Clone, Copy)]
struct Short {
    bytes: [u8; 40],
    len: usize,
}

impl Short {
    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes.iter_mut().skip(self.len).zip(part).for_each(|(to, from)| *to = *from);
        self.len = self.len.saturating_add(part.len());
    }
}

fn octets(addr: &IpAddr) -> Short {
    let mut short = Short { bytes: [0; 40], len: 0 };
    match addr {
        IpAddr::V4(addr) => short.push(&addr.octets()),
        IpAddr::V6(addr) => short.push(&addr.octets()),
    }
    short
}

/// RFC 9293 §3.1, RFC 8200 §8.1.
fn pseudo_header(segment: &Covered<'_>) -> Short {
    let payload: usize = segment.payload.iter().map(|part| part.len()).sum();
    let len = u32::try_from(segment.header.len().saturating_add(payload)).unwrap_or(u32::MAX).to_be_bytes();
    let mut pseudo = octets(&segment.src);
    pseudo.push(octets(&segment.dst).as_slice());
    let [_, _, high, low] = len;
    match segment.src {
        IpAddr::V4(_) => pseudo.push(&[0, 6, high, low]),
        IpAddr::V6(_) => {
            pseudo.push(&len);
            pseudo.push(&[0, 0, 0, 6]);
        }
    }
    pseudo
}

/// Both algorithms send 96 bits.
pub(crate) const MAC_LEN: usize = 12;
/// Kind, length, KeyID, RNextKeyID and MAC.
pub(crate) const OPTION_LEN: usize = 16;
pub(crate) const KIND: u8 = 29;
const TCP_HEADER_MAX: usize = 60;
/// 1 + 6 + 2 * 16 + 2 * 2 + 2 * 4 + 2.
const CONTEXT_MAX: usize = 53;

#[cfg(test)]
mod tests;
