//! The MTUs of datagrams' paths, as far as known: a bounded table with one entry for each destination.
//!
//! Connections keep their own knowledge (their ICMP proves itself by a sequence number in flight). Datagrams
//! have no state to keep it in, and prove less, so this table is only for them, and always there.

use std::net::IpAddr;
use std::time::Duration;

use crate::Instant;
use crate::remembered::Remembered;

/// The learned MTUs.
#[derive(Debug)]
pub(crate) struct PathMtus {
    known: Remembered<IpAddr, Learned>,
}

#[derive(Clone, Copy, Debug)]
struct Learned {
    mtu: u32,
    until: Instant,
}

impl Default for PathMtus {
    fn default() -> Self {
        Self { known: Remembered::new(PATHS_MAX) }
    }
}

impl PathMtus {
    /// The largest IP packet to `remote`, if known and still valid.
    pub fn get(&self, now: Instant, remote: IpAddr) -> Option<u32> {
        self.known.peek(&remote).filter(|learned| learned.until > now).map(|learned| learned.mtu)
    }

    /// A datagram is sent to `remote`.
    pub fn on_sent(&mut self, remote: IpAddr) {
        self.known.touch(&remote);
    }

    /// Records it. In a full table it replaces the entry that was not used for the longest time.
    pub fn learn(&mut self, now: Instant, remote: IpAddr, mtu: u32) {
        self.known.insert(remote, Learned { mtu, until: now + HOLDS });
    }
}

/// The most destinations remembered.
const PATHS_MAX: usize = 1024;

/// How long a learned MTU is valid. Then larger datagrams are tried again: not before five minutes have
/// passed, and ten are recommended (RFC 1191 §3, RFC 8201 §4).
const HOLDS: Duration = Duration::from_secs(600);

ackclock_form::form! {
    struct PathMtus { known }
    struct Learned { mtu, until }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    #[test]
    fn what_was_learned_holds_for_ten_minutes() {
        let mut paths = PathMtus::default();
        let start = Instant::from_millis(5000);
        paths.learn(start, host(1), 1400);
        assert_eq!(paths.get(start + Duration::from_secs(599), host(1)), Some(1400));
        assert_eq!(paths.get(start + Duration::from_secs(600), host(1)), None);
        assert_eq!(paths.get(start, host(2)), None);
    }

    #[test]
    fn a_full_table_keeps_the_path_in_use() {
        let mut paths = PathMtus::default();
        let at = |ms: u32| Instant::from_millis(ms.into());
        paths.learn(at(0), host(0), 1400);
        for number in 1..5_000 {
            paths.learn(at(number), host(number), 1400);
            paths.on_sent(host(0));
        }
        assert_eq!(paths.get(at(5_000), host(0)), Some(1400));
        assert_eq!(paths.known.len(), PATHS_MAX);
    }

    #[test]
    fn a_full_table_forgets_what_was_learned_first_of_paths_not_in_use() {
        let mut paths = PathMtus::default();
        let at = |second: u32| Instant::from_millis(1000 * u64::from(second));
        let max = u32::try_from(PATHS_MAX).unwrap();
        for number in 0..max + 10 {
            paths.learn(at(number / 100), host(number), 1400);
            assert!(paths.known.len() <= PATHS_MAX);
        }
        let now = at(max / 100);
        assert_eq!((paths.get(now, host(9)), paths.get(now, host(10))), (None, Some(1400)));
        paths.learn(now, host(10), 1300);
        assert_eq!((paths.known.len(), paths.get(now, host(10))), (PATHS_MAX, Some(1300)));
    }
}
