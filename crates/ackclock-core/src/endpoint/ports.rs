//! Ephemeral ports (RFC 6056).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::Endpoint;
use super::keys::{Key, Purpose};
use super::taken::{Range, Taken, Use};
use crate::FourTuple;

/// Chooses local ports.
///
/// RFC 6056 §3.3.2 (random draws until a port is free), with a keyed hash instead of a random number
/// generator: the hash of the peer's socket and of a number never used twice. A port seen by one peer
/// therefore reveals nothing about the ports used with another, or about the next one. Among the ports not
/// known to be taken ([`Taken`]) each is as likely as any other, also behind a run of taken ones.
#[derive(Debug)]
pub(super) struct Ports {
    key: Key,
    pub(super) drawn: u64,
    /// What is known to be taken. Of several endpoints, the directory knows that.
    pub(super) taken: Taken,
}

impl Ports {
    /// Starts the never-repeated numbers elsewhere, so that no two endpoints with one secret draw alike.
    pub(super) fn of_shard(self, index: usize) -> Self {
        Self { drawn: (index as u64) << 48, ..self }
    }

    /// Ports from the first to the last inclusive, in either order.
    pub(super) fn new(secret: &[u8; 32], range: (u16, u16)) -> Self {
        let key = Key::derive(secret, Purpose::Ports);
        let taken = Taken::new(Range::new(range));
        Self { key, drawn: 0, taken }
    }

    /// A random number that only the holder of the key can guess.
    fn draw(&mut self, wanted: Use) -> u32 {
        self.drawn = self.drawn.wrapping_add(1);
        self.hash(wanted, 0, self.drawn)
    }

    fn hash(&self, wanted: Use, port: u16, number: u64) -> u32 {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let (local, remote) = match wanted {
            Use::Connection(local, remote) => (local, remote),
            Use::Bound(local, _) | Use::Datagrams(local) => (local.unwrap_or(any), SocketAddr::new(any, 0)),
        };
        let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
        let words = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])];
        let tuple = FourTuple::new(SocketAddr::new(local, port), remote);
        (self.key.hash24_tuple(&tuple, words) >> 32) as u32
    }
}

impl Endpoint {
    /// A random port that `take` takes. If it does not, it has made that port known as taken, so that the
    /// search ends.
    pub(super) fn find_port(
        &mut self,
        wanted: Use,
        mut take: impl FnMut(&mut Self, u16) -> bool,
    ) -> Option<u16> {
        loop {
            let random = self.ports.draw(wanted);
            let port = self.taken(|taken| taken.pick(wanted, random))?;
            if take(self, port) {
                return Some(port);
            }
        }
    }

    /// A connection is opened from a port that the application chose. Ports taken in this way are noticed as
    /// drawn ones are: one random port to the same peer is looked at.
    pub(super) fn sample_ports(&mut self, chosen: &FourTuple) {
        let wanted = Use::of(chosen);
        let random = self.ports.hash(wanted, chosen.local_port, 0);
        if let Some(port) = self.taken(|taken| taken.pick(wanted, random)) {
            self.is_name_taken(&FourTuple { local_port: port, ..*chosen });
        }
    }

    /// Calls `f` on what is known to be taken.
    pub(super) fn taken<R>(&mut self, f: impl FnOnce(&mut Taken) -> R) -> R {
        match self.directory() {
            Some(directory) => directory.with_taken(f),
            None => f(&mut self.ports.taken),
        }
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
        let to_peer = Use::Connection(LOCAL, remote(peer));
        let random = ports.draw(to_peer);
        ports.taken.pick(to_peer, random).unwrap()
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
        let to_peer = Use::Connection(LOCAL, remote(1));
        let mut tried = Vec::new();
        loop {
            let random = ports.draw(to_peer);
            let Some(port) = ports.taken.pick(to_peer, random) else { break };
            tried.push(port);
            ports.taken.learn(to_peer, port);
        }
        assert_eq!(tried.len(), 100);
        assert_eq!(tried.into_iter().collect::<HashSet<_>>(), (2000..=2099).collect());
    }

    #[test]
    fn sec_a7_behind_a_run_of_taken_ports_no_port_is_likelier_than_another() {
        // RFC 6056 §3.3.1: the next free port after a random one "is biased towards the first available port
        // after a sequence of unavailable port numbers"; a draw among the free ones is not.
        const DRAWS: u32 = 10_000;
        let mut ports = Ports::new(&[1; 32], (2000, 2999));
        let to_peer = Use::Connection(LOCAL, remote(1));
        (2000..2990).for_each(|port| ports.taken.learn(to_peer, port));
        let mut drawn = [0_u32; 10];
        for _ in 0..DRAWS {
            drawn[usize::from(first(&mut ports, 1) - 2990)] += 1;
        }
        // 1,000 each; five standard deviations of a binomial with p = 0.1 are 150.
        assert!(drawn.iter().all(|drawn| (850..=1_150).contains(drawn)), "{drawn:?}");
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
