//! Keeps the figures of their paths that ended connections have learned, for those that come after them
//! (temporal sharing): J. Touch, M. Welzl, S. Islam, "TCP Control Block Interdependence", RFC 9040, 2021, §6.
//!
//! | what | kept | from | used |
//! |---|---|---|---|
//! | path MTU | the latest | a connection below the device's MTU, at its end | from the first segment after the handshake; the search of RFC 4821, if it is on, begins with a rest |
//! | SRTT, RTTVAR | the mean of the old and the new | an established connection with a sample | for the timeout of the SYN, until there is a sample |
//! | ssthresh | the mean of the old and the new | a controller with a threshold: that, or half of a window that has grown well beyond it | slow start ends there, instead of at the first loss |
//!
//! RFC 9040 §6.2 leaves it open how old and new are merged. A connection that timed out takes the entry with
//! it: what was known of the path is no longer true.
//!
//! Deviation from RFC 9040 §6: a connection's own first sample replaces the remembered round trip, instead of
//! being averaged with it; what is measured now says more than what was true some minutes ago. The timeout of
//! a SYN counts the deviation as half of the round trip at least, as after a first sample (RFC 6298 §2): one
//! that is too short would cost the initial window (RFC 5681 §3.1). Windows are not remembered.
//!
//! Deviation from RFC 9040 §6.3: the latest path MTU is that of the connection that ended last, not of the
//! last discovery; and one that ends at the device's MTU changes nothing, because most of those never tried.
//!
//! # Who learns from whom
//!
//! The first packets of a connection that starts from an entry show that another connection went there
//! before, and how the path treated it: a user may measure what the host's other users did. So the cache is
//! off unless the program asks for it, which knows whether its connections belong to one user. An entry
//! belongs to a pair of addresses, and connections of a transparent proxy, which leave from their clients'
//! addresses, never share one. Nothing here is believed that the connections themselves did not believe: a
//! forged ICMP message must have matched data in flight (RFC 5927 §4).

use std::net::IpAddr;
use std::time::Duration;

use ackclock_control::time::nanos;

use crate::connection::{AtEnd, Known};
use crate::remembered::Remembered;
use crate::{FourTuple, Instant};

/// The bounds of the cache of paths; see [`KnownPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCacheConfig {
    /// The most pairs of addresses remembered, at least one; beyond it the least recently used is forgotten.
    /// 1,024 by default, some 250 KB.
    pub paths_max: usize,
    /// How long after a measurement it is used. 10 minutes by default: after that a larger MTU should be
    /// tried again (RFC 1191 §3, RFC 8201 §4).
    pub age_max: Duration,
}

/// Figures of a path that the connections between two addresses have learned, and the next one begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KnownPath {
    /// This end's address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// The largest IP packet in bytes, if it is less than the device's MTU.
    pub pmtu: Option<u32>,
    /// Smoothed round-trip time.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "srtt_us", serialize_with = "ackclock_control::micros::optional")
    )]
    pub srtt: Option<Duration>,
    /// Its mean deviation.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "rttvar_us", serialize_with = "ackclock_control::micros::optional")
    )]
    pub rttvar: Option<Duration>,
    /// Where slow start ends, in bytes.
    pub ssthresh: Option<u64>,
    /// How long ago the last connection that told something ended.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "age_us", serialize_with = "ackclock_control::micros::one")
    )]
    pub age: Duration,
}

/// The cache.
#[derive(Debug)]
pub(super) struct PathCache {
    paths: Remembered<(IpAddr, IpAddr), Path>,
    age_max: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Path {
    known: Known,
    /// When the path MTU was learned, which nothing that uses it makes younger.
    pmtu_at: Instant,
    /// When the rest was.
    at: Instant,
}

impl Default for PathCacheConfig {
    fn default() -> Self {
        Self { paths_max: 1024, age_max: Duration::from_secs(600) }
    }
}

impl PathCache {
    pub fn new(config: &PathCacheConfig) -> Self {
        Self { paths: Remembered::new(config.paths_max), age_max: config.age_max }
    }

    /// The figures with which a new connection begins.
    pub fn known(&mut self, now: Instant, tuple: &FourTuple) -> Option<Known> {
        let age_max = self.age_max;
        let known = self.paths.touch(&pair(tuple))?.valid(now, age_max);
        if known.is_none() {
            self.paths.remove(&pair(tuple));
        }
        known
    }

    /// A connection is over. `mtu` is the device's.
    pub fn learn(&mut self, now: Instant, tuple: &FourTuple, end: &AtEnd, mtu: usize) {
        let pair = pair(tuple);
        if end.timed_out {
            return self.paths.remove(&pair);
        }
        let last = self.paths.peek(&pair).copied().unwrap_or_default();
        let old = last.valid(now, self.age_max).unwrap_or_default();
        let below_device = usize::try_from(end.pmtu).is_ok_and(|pmtu| pmtu < mtu);
        let (pmtu, pmtu_at) = match old.pmtu {
            Some(old) if !below_device || old == end.pmtu => (Some(old), last.pmtu_at),
            _ if below_device => (Some(end.pmtu), now),
            _ => (None, last.pmtu_at),
        };
        let rtt = end.srtt.map(|srtt| match old.rtt {
            Some((old_srtt, old_rttvar)) => (mean(old_srtt, srtt), mean(old_rttvar, end.rttvar)),
            None => (srtt, end.rttvar),
        });
        // A window that has doubled since the last loss shows that the path takes half of it at least.
        let ssthresh = end.ssthresh.map(|own| own.max(end.cwnd / 2));
        let ssthresh = match (old.ssthresh, ssthresh) {
            (Some(old), Some(new)) => Some(old.midpoint(new)),
            (old, new) => new.or(old),
        };
        let known = Known { pmtu, rtt: rtt.or(old.rtt), ssthresh };
        if known != Known::default() {
            self.paths.insert(pair, Path { known, pmtu_at, at: now });
        }
    }

    /// The entries that are still valid.
    pub fn list(&self, now: Instant) -> impl Iterator<Item = KnownPath> {
        self.paths.iter().filter_map(move |(&(local, remote), path)| {
            let Known { pmtu, rtt, ssthresh } = path.valid(now, self.age_max)?;
            let (srtt, rttvar) = rtt.unzip();
            let age = now.saturating_since(path.at);
            Some(KnownPath { local, remote, pmtu, srtt, rttvar, ssthresh, age })
        })
    }
}

impl Path {
    /// The figures that are still valid, if any are.
    fn valid(&self, now: Instant, age_max: Duration) -> Option<Known> {
        let is_young = |at| now.saturating_since(at) < age_max;
        let pmtu = self.known.pmtu.filter(|_| is_young(self.pmtu_at));
        let rest = if is_young(self.at) { self.known } else { Known::default() };
        Some(Known { pmtu, ..rest }).filter(|known| *known != Known::default())
    }
}

fn pair(tuple: &FourTuple) -> (IpAddr, IpAddr) {
    (tuple.local_addr, tuple.remote_addr)
}

fn mean(one: Duration, other: Duration) -> Duration {
    Duration::from_nanos(nanos(one).midpoint(nanos(other)))
}

ackclock_form::form! {
    struct PathCacheConfig { paths_max, age_max }
    struct PathCache { paths, age_max }
    struct Path { known, pmtu_at, at }
}
