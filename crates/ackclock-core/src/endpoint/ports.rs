//! Ephemeral ports (RFC 6056).

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use super::keys::{Key, Purpose};
use crate::FourTuple;

/// Chooses local ports.
///
/// RFC 6056 §3.3.1 (simple randomisation), with a keyed hash instead of a random number generator: the hash
/// of the peer's socket and of a number never used twice. A port seen by one peer therefore reveals nothing
/// about the ports used with another, or about the next one.
#[derive(Debug)]
pub(super) struct Ports {
    key: Key,
    first: u16,
    last: u16,
    drawn: u64,
}

impl Ports {
    /// Starts the never-repeated numbers elsewhere, so that no two endpoints with one secret draw alike.
    pub(super) fn of_shard(self, index: usize) -> Self {
        Self { drawn: (index as u64) << 48, ..self }
    }

    /// Ports from `first` to `last` inclusive, in either order.
    pub(super) fn new(secret: &[u8; 32], (first, last): (u16, u16)) -> Self {
        let (first, last) = (first.min(last).max(1), first.max(last).max(1));
        Self { key: Key::derive(secret, Purpose::Ports), first, last, drawn: 0 }
    }

    /// Every port of the range once, in the order in which to try them.
    pub(super) fn candidates(
        &mut self,
        local: IpAddr,
        remote: SocketAddr,
    ) -> impl Iterator<Item = u16> + use<> {
        let (first, last) = (self.first, self.last);
        let range = NonZeroU32::MIN.saturating_add(last.saturating_sub(first).into());
        let start = first.saturating_add(u16::try_from(self.draw(local, remote) % range).unwrap_or(0));
        (start..=last).chain(first..start)
    }

    fn draw(&mut self, local: IpAddr, remote: SocketAddr) -> u32 {
        self.drawn = self.drawn.wrapping_add(1);
        let [a, b, c, d, e, f, g, h] = self.drawn.to_le_bytes();
        let words = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])];
        let tuple = FourTuple::new(SocketAddr::new(local, 0), remote);
        let hash = self.key.hash24_tuple(&tuple, words);
        // At most 2^16 ports out of 2^32 values: the bias of the remainder is below 2^-16.
        (hash >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn remote(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 443))
    }

    fn first(ports: &mut Ports, peer: u8) -> u16 {
        ports.candidates(LOCAL, remote(peer)).next().unwrap()
    }

    #[test]
    fn sec_a7_the_next_port_cannot_be_guessed_from_those_before() {
        const DRAWS: u32 = 100_000;
        let mut ports = Ports::new(&[1; 32], (1024, 65_535));
        let mut hits = [0_u32; 3];
        let mut before = 0_u16;
        let mut seen_by_x = 0_u16;
        for _ in 0..DRAWS {
            let to_x = first(&mut ports, 1);
            let to_y = first(&mut ports, 2);
            hits[0] += u32::from(to_x == before.wrapping_add(1));
            hits[1] += u32::from(to_y == to_x.wrapping_add(1) || to_y == to_x);
            // The best guess from a difference seen before.
            hits[2] += u32::from(to_x == to_y.wrapping_add(before.wrapping_sub(seen_by_x)));
            (before, seen_by_x) = (to_x, to_y);
        }
        // Expected: draws / range, about 1.5 for each guess; ten is far outside of chance.
        assert!(hits.iter().all(|&hits| hits <= 10), "{hits:?}");
    }

    #[test]
    fn sec_a7_every_port_is_tried_once_and_then_it_ends() {
        let mut ports = Ports::new(&[1; 32], (2000, 2099));
        let tried: Vec<u16> = ports.candidates(LOCAL, remote(1)).collect();
        assert_eq!(tried.len(), 100);
        assert_eq!(tried.into_iter().collect::<HashSet<_>>(), (2000..=2099).collect());
    }

    #[test]
    fn endpoints_with_one_secret_draw_different_ports() {
        let drawn = |shard| {
            let mut ports = Ports::new(&[1; 32], (1024, 65_535)).of_shard(shard);
            [(); 8].map(|()| first(&mut ports, 1))
        };
        assert_eq!(drawn(1), drawn(1));
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            assert_ne!(drawn(one), drawn(other), "{one} {other}");
        }
    }

    #[test]
    fn port_zero_is_never_chosen_and_a_reversed_range_is_put_right() {
        let mut ports = Ports::new(&[1; 32], (2, 0));
        let chosen: HashSet<u16> = (0..64).map(|_| first(&mut ports, 1)).collect();
        assert_eq!(chosen, HashSet::from([1, 2]));
    }
}
