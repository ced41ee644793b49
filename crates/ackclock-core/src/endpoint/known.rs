//! Which sources have shown that they receive at their address, by completing a handshake.
//!
//! Answers to them leave before answers to strangers, whose addresses may be false. A fixed table: a source
//! has one place, chosen by a keyed hash, and the one that came last has it. To push a certain source out, an
//! attacker needs handshakes from thousands of addresses of its own. Who was pushed out is a stranger until
//! its next handshake, no more.

use std::net::IpAddr;

use super::keys::Key;

/// The sources of an endpoint that has been flooded.
#[derive(Debug)]
pub(super) struct KnownSources {
    key: Key,
    /// Parts of their hashes; 0 for none.
    places: Box<[u32]>,
}

impl KnownSources {
    pub(super) fn new(key: Key) -> Self {
        Self { key, places: vec![0; PLACES].into() }
    }

    /// A source has completed a handshake.
    pub(super) fn remember(&mut self, source: IpAddr) {
        let (place, tag) = self.place(source);
        if let Some(kept) = self.places.get_mut(place) {
            *kept = tag;
        }
    }

    pub(super) fn knows(&self, source: IpAddr) -> bool {
        let (place, tag) = self.place(source);
        self.places.get(place) == Some(&tag)
    }

    /// The place and tag of a source: an IPv4 address or an IPv6 /64, as for half-open records.
    fn place(&self, source: IpAddr) -> (usize, u32) {
        let hash = match source {
            IpAddr::V4(addr) => self.key.hash13(&addr.octets()),
            IpAddr::V6(addr) => self.key.hash13(&((addr.to_bits() >> 64) as u64).to_le_bytes()),
        };
        let [a, b, c, d, e, f, ..] = hash.to_le_bytes();
        let place = usize::from(u16::from_le_bytes([e, f]) & PLACE_MASK);
        (place, u32::from_le_bytes([a, b, c, d]).max(1))
    }
}

/// 16 KiB, allocated by the first SYN that finds a SYN queue full.
const PLACES: usize = 4096;
/// The bits of a hash that choose one of them.
const PLACE_MASK: u16 = 4095;

#[cfg(test)]
mod tests {
    use super::super::keys::Purpose;
    use super::*;

    #[test]
    fn a_source_is_known_until_another_takes_its_place() {
        let mut known = KnownSources::new(Key::derive(&[1; 32], Purpose::Known));
        let source = |n: u32| IpAddr::V4((0x0a00_0000 + n).into());
        assert!(!known.knows(source(0)));
        (0..1000).for_each(|n| known.remember(source(n)));
        // Each place is empty with a chance of e^(-1000/4096), so of 1,000 about 887 have one for themselves
        // or came last.
        let kept = (0..1000).filter(|&n| known.knows(source(n))).count();
        assert!((850..=920).contains(&kept), "{kept}");
        assert_eq!((1000..100_000).filter(|&n| known.knows(source(n))).count(), 0);
    }

    #[test]
    fn an_ipv6_source_is_its_64_bit_prefix() {
        let mut known = KnownSources::new(Key::derive(&[1; 32], Purpose::Known));
        known.remember("2001:db8::1".parse().unwrap());
        assert!(known.knows("2001:db8::ffff".parse().unwrap()));
        assert!(!known.knows("2001:db8:0:1::1".parse().unwrap()));
    }
}
