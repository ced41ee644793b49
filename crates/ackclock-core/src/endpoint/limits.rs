//! Limits on the ICMP that an endpoint sends (RFC 4443 §2.4 (f), RFC 1812 §4.3.2.8).
//!
//! Errors have two limits: one for each peer, and one for all, which hides how much of it is left. A
//! countable limit shared by all peers tells an attacker which ports another peer's spoofed datagrams found
//! closed (CVE-2020-25705). Each error therefore takes one to three of its tokens, which an outsider cannot
//! predict, as Linux has done since. Echo replies reveal nothing about others and have one plain limit.

use std::net::IpAddr;

use super::keys::Key;
use crate::Instant;

/// A token bucket: `rate` tokens a second, at most `burst` at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Spent tokens, in nanoseconds: the bucket is full once time has passed this.
    until: u64,
}

impl Bucket {
    /// Takes `tokens`, if available.
    fn take(&mut self, now: Instant, tokens: u64, rate: u64, burst: u64) -> bool {
        let token = NANOS.checked_div(rate).unwrap_or(NANOS);
        let now = now.as_nanos();
        let spent = self.until.max(now).saturating_add(tokens.saturating_mul(token));
        let room = spent.saturating_sub(now) <= burst.saturating_mul(token);
        if room {
            self.until = spent;
        }
        room
    }
}

/// The limit of echo replies.
#[derive(Debug, Default)]
pub(super) struct EchoLimiter {
    bucket: Bucket,
}

impl EchoLimiter {
    /// Whether another reply may be sent, of `per_second`. A tenth of a second's worth may leave at once.
    pub fn allows(&mut self, now: Instant, per_second: u32) -> bool {
        let rate = u64::from(per_second);
        self.bucket.take(now, 1, rate, (rate / 10).max(1))
    }
}

/// The limits of ICMP errors.
#[derive(Debug)]
pub(super) struct ErrorLimiter {
    key: Key,
    all: Bucket,
    peers: Vec<(u64, Bucket)>,
    /// The cost of the next error, and how many costs have been drawn.
    cost: u64,
    drawn: u64,
}

impl ErrorLimiter {
    pub fn new(key: Key) -> Self {
        Self { key, all: Bucket::default(), peers: Vec::new(), cost: 1, drawn: 0 }
    }

    /// Whether another error may be sent to `peer`.
    pub fn allows(&mut self, now: Instant, peer: IpAddr) -> bool {
        let hash = match peer {
            IpAddr::V4(addr) => self.key.hash24(&addr.octets()),
            IpAddr::V6(addr) => self.key.hash24(&addr.octets()),
        };
        if self.peers.is_empty() {
            self.peers = (0..PEERS).map(|_| (0, Bucket::default())).collect();
        }
        let place = usize::try_from(hash % PEERS).unwrap_or(0);
        let Some((owner, bucket)) = self.peers.get_mut(place) else { return false };
        if *owner != hash {
            // The previous peer in this slot is replaced. Whatever this lets through beyond its limit, the
            // limit of all bounds.
            (*owner, *bucket) = (hash, Bucket::default());
        }
        if !bucket.take(now, 1, PER_PEER, PER_PEER_BURST) {
            return false;
        }
        let room = self.all.take(now, self.cost, ALL, ALL_BURST);
        if room {
            self.drawn = self.drawn.wrapping_add(1);
            self.cost = (self.key.hash24(&self.drawn.to_le_bytes()) % 3).saturating_add(1);
        }
        room
    }
}

const NANOS: u64 = 1_000_000_000;
/// How many peers are tracked at once.
const PEERS: u64 = 1024;
/// Errors a second to one peer, and at once.
const PER_PEER: u64 = 1;
const PER_PEER_BURST: u64 = 6;
/// Tokens a second for all, and at once; an error takes two on average.
const ALL: u64 = 2000;
const ALL_BURST: u64 = 100;

ackclock_form::form! {
    struct Bucket { until }
    struct EchoLimiter { bucket }
    struct ErrorLimiter { key, all, peers, cost, drawn }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::keys::Purpose;
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1_000_000 + millis)
    }

    fn errors() -> ErrorLimiter {
        ErrorLimiter::new(Key::derive(&[1; 32], Purpose::NonTcp))
    }

    fn peer(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut limiter = EchoLimiter::default();
        let count = |limiter: &mut EchoLimiter, now| (0..1000).filter(|_| limiter.allows(now, 100)).count();
        assert_eq!(count(&mut limiter, at(0)), 10);
        assert_eq!(count(&mut limiter, at(50)), 5);
        assert_eq!(count(&mut limiter, at(10_000)), 10);
    }

    #[test]
    fn one_peer_gets_six_errors_at_once_and_one_a_second() {
        let mut limiter = errors();
        let count =
            |limiter: &mut ErrorLimiter, now| (0..100).filter(|_| limiter.allows(now, peer(1))).count();
        assert_eq!(count(&mut limiter, at(0)), 6);
        assert_eq!(count(&mut limiter, at(999)), 0);
        assert_eq!(count(&mut limiter, at(1000)), 1);
        assert!(limiter.allows(at(1000), peer(2)), "another peer has its own");
    }

    #[test]
    fn a_flood_from_everywhere_is_bounded() {
        let mut limiter = errors();
        let mut sent = 0;
        for millis in 0..10_000 {
            for n in 0..10 {
                let source = peer(u32::try_from(millis * 10 + n).unwrap());
                sent += u64::from(limiter.allows(at(millis), source));
            }
        }
        // 2,000 tokens a second, two for an error on average.
        assert!((9_500..=10_500).contains(&sent), "{sent} in ten seconds");
    }

    #[test]
    fn how_many_pass_at_once_differs_from_time_to_time() {
        let mut limiter = errors();
        let mut counts = std::collections::BTreeSet::new();
        for round in 0..20_u32 {
            let now = at(0) + Duration::from_secs(10) * round;
            counts.insert((0..200).filter(|n| limiter.allows(now, peer(round * 1000 + n))).count());
        }
        assert!(counts.len() > 3, "{counts:?}");
    }
}
