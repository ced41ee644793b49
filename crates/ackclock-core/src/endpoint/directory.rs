//! Which of several endpoints has which name. An endpoint looks here if a segment is not for one of its
//! connections.
//!
//! An entry is counted: a record or connection holds its name, and so does a segment that may create one
//! while it is handled. Two endpoints therefore never make a connection of one name each, and a name is never
//! free while it passes from a half-open record to its connection. Names are spread over [`STRIPES`] tables,
//! each with a lock that is held for one lookup. A connection's segments come here only at its beginning and
//! end.
//!
//! A handshake by cookie has no entry, because the peer keeps its name. Its last ACK may arrive on another
//! queue than its SYN, at an endpoint that has sent no cookie. One shared number, [`CookieWatch`], says
//! whether any endpoint has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ackclock_control::tally::Tally;

use super::cookies::COOKIE_LIFETIME;
use super::keys::{Key, KeyedState, Purpose};
use crate::{FourTuple, Instant};

/// The names of all endpoints of one host. A table never shrinks: it keeps the size of its busiest time.
pub(super) struct Directory {
    state: KeyedState,
    stripes: Box<[Mutex<Names>]>,
    pub(super) cookies: CookieWatch,
}

/// Until when a cookie of any endpoint may come back, in seconds of their common clock, rounded up; 0 if none
/// is out.
///
/// It takes no lock, and a flood of SYNs writes it once a second, so the endpoints do not compete for its
/// cache line.
#[derive(Debug, Default)]
pub(super) struct CookieWatch(AtomicU64);

type Names = HashMap<FourTuple, Holder, KeyedState>;

/// The holder of a name, and its count.
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

    /// Holds a name for an endpoint. The error is the other endpoint that has it.
    pub(super) fn hold(&self, name: &FourTuple, shard: usize) -> Result<(), usize> {
        let Some(mut names) = self.stripe(name) else { return Ok(()) };
        let holder = names.entry(*name).or_insert(Holder { shard, holds: 0 });
        if holder.shard != shard {
            return Err(holder.shard);
        }
        holder.holds.count();
        Ok(())
    }

    /// Releases one hold.
    pub(super) fn let_go(&self, name: &FourTuple, shard: usize) {
        let Some(mut names) = self.stripe(name) else { return };
        let Entry::Occupied(mut entry) = names.entry(*name) else { return };
        debug_assert_eq!(entry.get().shard, shard, "a hold is given back by the one who took it");
        entry.get_mut().holds.shrink(1);
        if entry.get().holds == 0 {
            entry.remove();
        }
    }

    /// The endpoint that has a name.
    pub(super) fn holder(&self, name: &FourTuple) -> Option<usize> {
        Some(self.stripe(name)?.get(name)?.shard)
    }

    /// Visits every name once, stripe by stripe.
    pub(super) fn for_each(&self, mut f: impl FnMut(&FourTuple)) {
        for stripe in &self.stripes {
            stripe.lock().unwrap_or_else(PoisonError::into_inner).keys().for_each(&mut f);
        }
    }

    /// The table of a name. A table is consistent between any two statements that can panic.
    fn stripe(&self, name: &FourTuple) -> Option<MutexGuard<'_, Names>> {
        // The tables themselves use other bits of the hash.
        let stripe = usize::from(self.state.hash_one(name).to_le_bytes()[3]) % STRIPES;
        let names = self.stripes.get(stripe)?;
        Some(names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CookieWatch {
    /// A cookie was sent.
    pub(super) fn sent(&self, now: Instant) {
        let until = seconds(now).saturating_add(COOKIE_LIFETIME.as_secs()).saturating_add(1);
        // If the endpoints' clocks differ, the later time stands. Nothing else depends on the order: a round
        // trip lies between this and the ACK that asks.
        if self.0.load(Ordering::Relaxed) < until {
            self.0.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Whether an ACK may carry a cookie.
    pub(super) fn is_out(&self, now: Instant) -> bool {
        seconds(now) < self.0.load(Ordering::Relaxed)
    }
}

fn seconds(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000_000
}

/// Enough that lookups seldom collide with the queues of one interface.
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
