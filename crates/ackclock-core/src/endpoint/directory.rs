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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ackclock_control::tally::Tally;

use super::cookies::COOKIE_LIFETIME;
use super::keys::{Key, KeyedState, Purpose};
use super::taken::{Range, Taken, Use};
use crate::{FourTuple, Instant};

/// The names of all endpoints of one host. A table never shrinks: it keeps the size of its busiest time.
pub(super) struct Directory {
    state: KeyedState,
    stripes: Box<[Mutex<Names>]>,
    /// Which ports all endpoints know to be taken. Locked last, inside the lock of a stripe or alone.
    taken: Mutex<Taken>,
    /// Whether that is anything. What sets it holds the stripe of the name that makes it so, or all, so who
    /// holds a name's stripe and reads `false` need not tell of the name.
    watches: AtomicBool,
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
    pub(super) fn new(secret: &[u8; 32], ephemeral_ports: (u16, u16)) -> Self {
        let state = KeyedState(Key::derive(secret, Purpose::Directory));
        let stripes = (0..STRIPES).map(|_| Mutex::new(HashMap::with_hasher(state.clone()))).collect();
        let taken = Mutex::new(Taken::new(Range::new(ephemeral_ports)));
        Self { state, stripes, taken, watches: AtomicBool::new(false), cookies: CookieWatch::default() }
    }

    /// Holds a name for an endpoint. The error is the other endpoint that has it.
    pub(super) fn hold(&self, name: &FourTuple, shard: usize) -> Result<(), usize> {
        let Some(mut names) = self.stripe(name) else { return Ok(()) };
        let holder = names.entry(*name).or_insert(Holder { shard, holds: 0 });
        if holder.shard != shard {
            return Err(holder.shard);
        }
        holder.holds.count();
        if holder.holds == 1 && self.watches.load(Ordering::Relaxed) {
            self.with_taken(|taken| {
                taken.entered(name);
                taken.connected(name);
            });
        }
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
            if self.watches.load(Ordering::Relaxed) {
                self.with_taken(|taken| {
                    taken.gone(name);
                    taken.disconnected(name);
                });
            }
        }
    }

    /// Whether any endpoint has a name. If so, its port is known to be taken then.
    pub(super) fn is_taken(&self, name: &FourTuple) -> bool {
        let Some(names) = self.stripe(name) else { return false };
        let is_taken = names.contains_key(name);
        if is_taken {
            // Within the stripe's lock: otherwise the name could go before its port is learnt, and the port
            // would stay taken.
            self.with_taken(|taken| taken.learn(Use::of(name), name.local_port));
        }
        is_taken
    }

    /// Calls `f` on what is known to be taken.
    pub(super) fn with_taken<R>(&self, f: impl FnOnce(&mut Taken) -> R) -> R {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut taken);
        self.watches.store(!taken.is_empty(), Ordering::Relaxed);
        result
    }

    /// Counts the names on each port, if they are not counted already.
    pub(super) fn count_names(&self) {
        if self.with_taken(|taken| taken.counts_names()) {
            return;
        }
        // All stripes are locked, always in this order: no name comes or goes meanwhile.
        let locked = self.stripes.iter().map(|names| names.lock().unwrap_or_else(PoisonError::into_inner));
        let locked: Vec<_> = locked.collect();
        let names = locked.iter().flat_map(|names| names.keys().copied());
        self.with_taken(|taken| taken.count_names(names));
    }

    /// The endpoint that has a name.
    pub(super) fn holder(&self, name: &FourTuple) -> Option<usize> {
        Some(self.stripe(name)?.get(name)?.shard)
    }

    /// How many names there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.stripes.iter().map(|names| names.lock().map_or(0, |names| names.len())).sum()
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

    const PORTS: (u16, u16) = (1, 100);

    fn name(port: u16) -> FourTuple {
        FourTuple::new("10.0.0.1:80".parse().unwrap(), format!("10.0.0.2:{port}").parse().unwrap())
    }

    #[test]
    fn a_name_belongs_to_who_held_it_first_until_every_hold_is_given_back() {
        let directory = Directory::new(&[1; 32], PORTS);
        assert_eq!(directory.hold(&name(1), 0), Ok(()));
        assert_eq!(directory.hold(&name(1), 1), Err(0));
        assert_eq!(directory.hold(&name(1), 0), Ok(()));
        directory.let_go(&name(1), 0);
        assert_eq!((directory.holder(&name(1)), directory.holder(&name(2))), (Some(0), None));
        directory.let_go(&name(1), 0);
        assert_eq!(directory.hold(&name(1), 1), Ok(()));
    }

    #[test]
    fn names_are_spread_over_the_stripes() {
        let directory = Directory::new(&[1; 32], PORTS);
        (0..4096).for_each(|port| directory.hold(&name(port), 0).unwrap());
        let used: Vec<usize> = directory.stripes.iter().map(|names| names.lock().unwrap().len()).collect();
        assert!(used.iter().all(|used| (16..=256).contains(used)), "64 each, more or less: {used:?}");
    }

    #[test]
    fn a_port_that_was_found_taken_is_free_when_the_last_hold_is_given_back() {
        let directory = Directory::new(&[1; 32], (80, 80));
        let to_peer = Use::of(&name(1));
        let pick = || directory.with_taken(|taken| taken.pick(to_peer, 0));
        directory.hold(&name(1), 1).unwrap();
        assert_eq!(pick(), Some(80), "as long as no one has looked");
        assert!(directory.is_taken(&name(1)) && !directory.is_taken(&name(2)));
        assert_eq!(pick(), None);
        directory.hold(&name(1), 1).unwrap();
        directory.let_go(&name(1), 1);
        assert_eq!(pick(), None);
        directory.let_go(&name(1), 1);
        assert_eq!(pick(), Some(80));
    }

    #[test]
    fn names_on_a_port_are_counted_however_they_come_and_go_between() {
        let directory = Directory::new(&[1; 32], PORTS);
        let is_connected = |addr: Option<&str>| {
            let addr = addr.map(|addr| addr.parse().unwrap());
            directory.with_taken(|taken| taken.is_connected(addr, 80))
        };
        (0..300).for_each(|port| directory.hold(&name(port), 0).unwrap());
        directory.count_names();
        (300..310).for_each(|port| directory.hold(&name(port), 1).unwrap());
        for (addr, expected) in [
            (None, true),
            (Some("0.0.0.0"), true),
            (Some("10.0.0.1"), true),
            (Some("10.0.0.3"), false),
            (Some("::"), false),
        ] {
            assert_eq!(is_connected(addr), expected, "{addr:?}");
        }
        (0..182).for_each(|port| directory.let_go(&name(port), 0));
        assert!(is_connected(None) && directory.watches.load(Ordering::Relaxed), "128 are left");
        directory.let_go(&name(182), 0);
        assert!(!directory.watches.load(Ordering::Relaxed), "so few are counted again");
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
        let directory = Directory::new(&[1; 32], PORTS);
        let held = |shard| (0..10_000).filter(|&port| directory.hold(&name(port), shard).is_ok()).count();
        let got = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|shard| scope.spawn(move || held(shard))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(got, 10_000);
    }
}
