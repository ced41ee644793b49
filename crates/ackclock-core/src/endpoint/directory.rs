//! Which endpoint of several has which name: what one of them looks at when a segment is not for a connection of its own.
//!
//! An entry is counted: a record or connection holds its name, and so does a segment that may lead to one while it is
//! handled. So two endpoints never make a connection of one name each, and a name that goes from a half-open record to its
//! connection is at no time free. Names are spread over [`STRIPES`] tables with a lock each, which is held for one look; the
//! segments of a connection look here only at its ends.
//!
//! A handshake by cookie has no entry, as its name is the peer's to keep. Its last ACK may come by another queue than its SYN
//! did, to an endpoint that has sent no cookie. Whether any has is one number for all, [`CookieWatch`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cookies::COOKIE_LIFETIME;
use super::keys::{Key, KeyedState, Purpose};
use crate::{FourTuple, Instant};

/// The names of all endpoints of one host. A table never shrinks: it keeps the size of its busiest time.
pub(super) struct Directory {
    state: KeyedState,
    stripes: Box<[Mutex<Names>]>,
    pub(super) cookies: CookieWatch,
}

/// Until when a cookie of any of the endpoints may come back, in seconds of their common clock, rounded up; 0: none is out.
///
/// No lock is taken, and a flood of SYNs writes it once a second: the endpoints do not fight for its cache line.
#[derive(Debug, Default)]
pub(super) struct CookieWatch(AtomicU64);

type Names = HashMap<FourTuple, Holder, KeyedState>;

/// Who has a name, and how often.
#[derive(Debug)]
struct Holder {
    shard: usize,
    holds: u32,
}

impl Directory {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        let state = KeyedState(Key::derive(secret, Purpose::Directory));
        let stripes = (0..STRIPES).map(|_| Mutex::new(HashMap::with_hasher(state.clone()))).collect();
        Self { state, stripes, cookies: CookieWatch::default() }
    }

    /// Takes a hold of a name for an endpoint; the error is the other one that has it.
    pub(super) fn hold(&self, name: &FourTuple, shard: usize) -> Result<(), usize> {
        let Some(mut names) = self.stripe(name) else { return Ok(()) };
        let holder = names.entry(*name).or_insert(Holder { shard, holds: 0 });
        if holder.shard != shard {
            return Err(holder.shard);
        }
        holder.holds += 1;
        Ok(())
    }

    /// Gives one hold back.
    pub(super) fn let_go(&self, name: &FourTuple, shard: usize) {
        let Some(mut names) = self.stripe(name) else { return };
        let Entry::Occupied(mut entry) = names.entry(*name) else { return };
        debug_assert_eq!(entry.get().shard, shard, "a hold is given back by the one who took it");
        entry.get_mut().holds -= 1;
        if entry.get().holds == 0 {
            entry.remove();
        }
    }

    /// Who has a name.
    pub(super) fn holder(&self, name: &FourTuple) -> Option<usize> {
        Some(self.stripe(name)?.get(name)?.shard)
    }

    /// Shows every name once, those of one stripe after the other.
    pub(super) fn for_each(&self, mut f: impl FnMut(&FourTuple)) {
        for stripe in &self.stripes {
            stripe.lock().unwrap_or_else(PoisonError::into_inner).keys().for_each(&mut f);
        }
    }

    /// The table of a name. A table is whole between any two statements that can panic.
    fn stripe(&self, name: &FourTuple) -> Option<MutexGuard<'_, Names>> {
        // The tables themselves go by other bits of the hash.
        let stripe = usize::from(self.state.hash_one(name).to_le_bytes()[3]) % STRIPES;
        let names = self.stripes.get(stripe)?;
        Some(names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CookieWatch {
    /// A cookie goes out.
    pub(super) fn sent(&self, now: Instant) {
        let until = seconds(now) + COOKIE_LIFETIME.as_secs() + 1;
        // Between two endpoints whose clocks differ the later one stands. Nothing else hangs on the order: a round trip lies
        // between this and the ACK that asks.
        if self.0.load(Ordering::Relaxed) < until {
            self.0.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Whether an ACK may bring one back.
    pub(super) fn is_out(&self, now: Instant) -> bool {
        seconds(now) < self.0.load(Ordering::Relaxed)
    }
}

fn seconds(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000_000
}

/// Enough that a look seldom meets another, with the queues that one interface has.
const STRIPES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(port: u16) -> FourTuple {
        FourTuple::new("10.0.0.1:80".parse().unwrap(), format!("10.0.0.2:{port}").parse().unwrap())
    }

    #[test]
    fn a_name_belongs_to_who_held_it_first_until_every_hold_is_given_back() {
        let directory = Directory::new(&[1; 32]);
        assert_eq!(directory.hold(&name(1), 0), Ok(()));
        assert_eq!(directory.hold(&name(1), 1), Err(0));
        assert_eq!(directory.hold(&name(1), 0), Ok(()));
        directory.let_go(&name(1), 0);
        assert_eq!((directory.holder(&name(1)), directory.holder(&name(2))), (Some(0), None));
        directory.let_go(&name(1), 0);
        assert_eq!(directory.hold(&name(1), 1), Ok(()));
    }

    #[test]
    fn names_are_spread_over_the_stripes_and_each_is_shown_once() {
        let directory = Directory::new(&[1; 32]);
        (0..4096).for_each(|port| directory.hold(&name(port), 0).unwrap());
        let used: Vec<usize> = directory.stripes.iter().map(|names| names.lock().unwrap().len()).collect();
        assert!(used.iter().all(|used| (16..=256).contains(used)), "64 each, more or less: {used:?}");
        let mut shown = Vec::new();
        directory.for_each(|name| shown.push(name.remote_port));
        shown.sort_unstable();
        assert!(shown.into_iter().eq(0..4096));
    }

    #[test]
    fn a_cookie_is_out_for_its_lifetime_and_at_most_a_second_longer() {
        let watch = CookieWatch::default();
        let at = |ms| Instant::from_millis(ms);
        assert!(!watch.is_out(at(0)), "none was sent");
        watch.sent(at(1_999));
        assert!(watch.is_out(at(1_999)) && watch.is_out(at(1_999 + 128_000)));
        assert!(!watch.is_out(at(1_999 + 129_001)));
        watch.sent(at(50_000));
        watch.sent(at(49_000));
        assert!(watch.is_out(at(178_999)), "an endpoint whose clock is behind takes nothing back");
    }

    #[test]
    fn of_threads_that_ask_for_one_name_at_once_one_gets_it() {
        let directory = Directory::new(&[1; 32]);
        let held = |shard| (0..10_000).filter(|&port| directory.hold(&name(port), shard).is_ok()).count();
        let got = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|shard| scope.spawn(move || held(shard))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(got, 10_000);
    }
}
