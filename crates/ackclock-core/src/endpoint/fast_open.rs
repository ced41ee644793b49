//! Fast Open (RFC 7413): the server's cookies and its bound, the client's cache.
//!
//! A cookie is a keyed hash of both addresses: it proves that a client has received at its address, and
//! nothing else. The secret rotates each day ([`COOKIE_PERIOD`]): the number of the day is hashed with the
//! endpoint's key for cookies, which is equivalent to a separate key for each day. A cookie of the day before
//! is still valid, and its SYN,ACK brings the new one, so a client that comes once a day never waits. No
//! cookie is valid for more than two days. RFC 7413 §4.1.2 has cookies expire and names no period; a day is
//! this stack's choice. A stolen cookie is useful for at most that long.
//!
//! A listener bounds its connections whose handshake is not over. A SYN beyond the bound is an ordinary one,
//! and its data is not accepted. One that is reset counts until it would have been given up (§5.1).
//!
//! A client remembers [`CACHE_MAX`] servers and forgets the least recently used. If a SYN was answered only
//! without the option, the server is not tried again for an hour, then two, up to 32: a middlebox drops such
//! SYNs (§4.1.3.1, §7.1).

use std::net::IpAddr;
use std::time::Duration;

use ackclock_wire::FastOpenCookie;

use super::keys::{Key, Purpose};
use crate::connection::{FastOpenOffer, FastOpenOutcome};
use crate::remembered::Remembered;
use crate::{ConnectionId, FourTuple, Instant};

/// The connections that a listener has opened by Fast Open and whose handshake is not over: RFC 7413's
/// PendingFastOpenRequests, and their limit.
#[derive(Debug)]
pub(super) struct PendingFastOpens {
    max: usize,
    /// These, and some whose handshake is over.
    places: Vec<Place>,
}

/// One of them.
#[derive(Debug)]
struct Place {
    connection: ConnectionId,
    /// When the handshake is given up without an answer.
    until: Instant,
    /// It was reset, and keeps its place until then.
    is_reset: bool,
}

/// The servers that this end knows as a client.
#[derive(Debug)]
pub(super) struct ServerCache {
    servers: Remembered<IpAddr, Server>,
}

/// The source of a server's cookies: one secret for each period, derived when needed.
pub(super) struct Secrets(Key);

/// A known server.
#[derive(Clone, Copy, Debug)]
struct Server {
    cookie: Option<FastOpenCookie>,
    mss: u16,
    /// Consecutive attempts that a middlebox seems to have dropped.
    failures: u8,
    /// The earliest time for the next attempt.
    retry_at: Instant,
}

/// The validity of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    Good,
    /// Valid, but of the day before.
    Old,
    None,
}

impl Secrets {
    pub fn new(later: &Key) -> Self {
        Self(later.subkey(Purpose::FastOpen))
    }

    /// The cookie for this client.
    pub fn cookie(&self, now: Instant, tuple: &FourTuple) -> FastOpenCookie {
        self.cookie_of(period(now), tuple)
    }

    fn cookie_of(&self, period: u32, tuple: &FourTuple) -> FastOpenCookie {
        // For any port of the client and the server.
        let addresses = FourTuple { local_port: 0, remote_port: 0, ..*tuple };
        let hash = self.0.hash24_tuple(&addresses, [period, 0]);
        FastOpenCookie::new(&hash.to_be_bytes()).unwrap_or(FastOpenCookie::REQUEST)
    }

    pub fn worth(&self, now: Instant, tuple: &FourTuple, cookie: &FastOpenCookie) -> Worth {
        let period = period(now);
        if cookie.is_request() {
            Worth::None
        } else if *cookie == self.cookie_of(period, tuple) {
            Worth::Good
        } else if period.checked_sub(1).is_some_and(|before| *cookie == self.cookie_of(before, tuple)) {
            Worth::Old
        } else {
            Worth::None
        }
    }
}

impl ServerCache {
    pub fn new() -> Self {
        Self { servers: Remembered::new(CACHE_MAX) }
    }

    /// The cookie and the limit of data for a SYN to this server; `None`: neither, for some time.
    pub fn offer(&mut self, now: Instant, remote: IpAddr, mss: u16) -> Option<FastOpenOffer> {
        let Some(server) = self.servers.touch(&remote) else {
            return Some(FastOpenOffer { cookie: FastOpenCookie::REQUEST, mss });
        };
        let cookie = server.cookie.unwrap_or(FastOpenCookie::REQUEST);
        (server.retry_at <= now).then_some(FastOpenOffer { cookie, mss: server.mss })
    }

    /// Records the outcome of an attempt.
    pub fn learn(
        &mut self,
        now: Instant,
        remote: IpAddr,
        outcome: FastOpenOutcome,
        given: Option<FastOpenCookie>,
        mss: u16,
    ) {
        let unknown = Server { cookie: None, mss: u16::MAX, failures: 0, retry_at: Instant::ZERO };
        let mut server = self.servers.peek(&remote).copied().unwrap_or(unknown);
        match outcome {
            FastOpenOutcome::FellBack => {
                server.retry_at = now + RETRY_MIN.saturating_mul(1 << server.failures.min(5));
                server.failures = server.failures.saturating_add(1);
            }
            FastOpenOutcome::Answered { sent, acked } => {
                let refused = sent > 0 && acked == 0;
                let kept = server.cookie.filter(|_| !refused);
                server = Server { cookie: given.or(kept), mss, failures: 0, ..server };
            }
        }
        self.servers.insert(remote, server);
    }
}

impl PendingFastOpens {
    pub fn new(max: usize) -> Self {
        Self { max, places: Vec::new() }
    }

    /// Whether another handshake may be open. `is_open`: whether this one still is. Finished ones are removed
    /// from the list when it is full.
    pub fn has_room(&mut self, now: Instant, is_open: impl Fn(ConnectionId) -> bool) -> bool {
        if self.places.len() >= self.max {
            self.places.retain(
                |place| {
                    if place.is_reset { now < place.until } else { is_open(place.connection) }
                },
            );
        }
        self.places.len() < self.max
    }

    /// Another handshake is open, until it is given up.
    pub fn add(&mut self, connection: ConnectionId, until: Instant) {
        self.places.push(Place { connection, until, is_reset: false });
    }

    /// The connection in this slot ended before its handshake did.
    // RFC 7413 §5.1: what was reset counts until a timeout period has passed, or the resets of a host whose
    // address is forged would make room for the next SYNs.
    pub fn keep_place(&mut self, index: u32) {
        if let Some(place) = self.places.iter_mut().rev().find(|place| place.connection.index == index) {
            place.is_reset = true;
        }
    }
}

/// The cookie period of a time.
fn period(now: Instant) -> u32 {
    const SECONDS: u64 = COOKIE_PERIOD.as_secs();
    u32::try_from(now.saturating_since(Instant::ZERO).as_secs() / SECONDS).unwrap_or(u32::MAX)
}

/// How long the server issues the same cookie, which stays valid for that long again. The period is this
/// stack's choice: RFC 7413 names none.
const COOKIE_PERIOD: Duration = Duration::from_secs(86_400);
/// The most servers that a client remembers.
pub(super) const CACHE_MAX: usize = 1024;
/// How long a server is not tried after a first failure.
const RETRY_MIN: Duration = Duration::from_secs(3600);

ackclock_form::form! {
    struct PendingFastOpens { max, places }
    struct Place { connection, until, is_reset }
    struct ServerCache { servers }
    struct Server { cookie, mss, failures, retry_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 7413 §4.1.3: the cache; this stack forgets the cookie of a server that took none of the data.
    #[test]
    fn a_cookie_with_which_all_data_was_refused_is_forgotten() {
        let (now, remote) = (Instant::from_millis(1000), "192.0.2.1".parse().unwrap());
        let cookie = FastOpenCookie::new(&[7; 8]).unwrap();
        for (sent, acked, kept) in
            [(0, 0, true), (10, 0, false), (1, 0, false), (10, 1, true), (10, 10, true)]
        {
            let mut cache = ServerCache::new();
            let first = FastOpenOutcome::Answered { sent: 0, acked: 0 };
            cache.learn(now, remote, first, Some(cookie), 1460);
            cache.learn(now, remote, FastOpenOutcome::Answered { sent, acked }, None, 1460);
            let offered = cache.offer(now, remote, 536).map(|offer| offer.cookie);
            let expected = if kept { cookie } else { FastOpenCookie::REQUEST };
            assert_eq!(offered, Some(expected), "{acked} of {sent}");
        }
    }

    #[test]
    fn each_failure_doubles_the_wait_until_an_answer() {
        let remote = "192.0.2.1".parse().unwrap();
        let mut cache = ServerCache::new();
        let mut now = Instant::from_millis(1000);
        let answered = FastOpenOutcome::Answered { sent: 0, acked: 0 };
        let lives = [(false, 1), (false, 2), (true, 1), (false, 2), (false, 4)];
        for (after_an_answer, hours) in lives {
            if after_an_answer {
                cache.learn(now, remote, answered, None, 1460);
            }
            cache.learn(now, remote, FastOpenOutcome::FellBack, None, 1460);
            now = now + hours * RETRY_MIN - Duration::from_millis(1);
            assert!(cache.offer(now, remote, 536).is_none(), "{hours} hours");
            now += Duration::from_millis(1);
            assert!(cache.offer(now, remote, 536).is_some(), "{hours} hours");
        }
    }
}
