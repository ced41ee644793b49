//! One memory budget for all buffers of an endpoint, or of several that are one host.
//!
//! Several share it whole, by one atomic count. Divided, it would leave a queue short while another has room, or borrow by
//! more code than this; and the count is touched when a buffer grows or is given back, not by each segment.
//!
//! In it is what peers can have a connection keep: both queues, the ranges beyond a gap, the scoreboard; and the queues of
//! what is not TCP. Beside it stand the tables that grow with the number of connections alone (slots, timers, queues of
//! indices), which `connections_max` bounds, and traces, which have a bound of their own.
//!
//! Its last quarter is for those that have little. While it is touched, a lease grows only up to a share: the limit
//! divided among the buffers of all connections, and no less than [`SHARE_MIN`]. A connection that gets on and is refused
//! all the same *pleads*. The endpoint then resets connections that hold memory and have not got on for long.
//!
//! It also keeps the list of free blocks. At most [`FREE_MAX`] of them (4 MiB) wait there to be used again, the one freed last
//! first; they are beside the budget, and the rest goes back to the allocator.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A budget in bytes, shared by all buffers that were given a clone of it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
    /// Connections that share it.
    sharers: AtomicU32,
    /// How often a connection that gets on was refused.
    pleas: AtomicU32,
    keeps_bytes: bool,
    free: Mutex<Vec<Box<[u8]>>>,
}

/// The size of a block that is used again.
pub(crate) const BLOCK: usize = 1 << 16;

/// The most free blocks that are kept.
const FREE_MAX: usize = 64;

/// The share that is left to a buffer, however many connections there are.
const SHARE_MIN: usize = 8192;

impl Budget {
    #[cfg(test)]
    pub(crate) fn new(limit: usize) -> Self {
        Self::with(limit, true)
    }

    /// A budget of buffers that keep what is written to them, or of such as only count it.
    pub(crate) fn with(limit: usize, keeps_bytes: bool) -> Self {
        let (used, sharers, pleas) = (AtomicUsize::new(0), AtomicU32::new(0), AtomicU32::new(0));
        Self(Arc::new(Inner { limit, used, sharers, pleas, keeps_bytes, free: Mutex::default() }))
    }

    /// Whether buffers keep what is written to them.
    pub(crate) fn keeps_bytes(&self) -> bool {
        self.0.keeps_bytes
    }

    /// Memory of `size` bytes, whatever is in them; who uses it has a lease for it.
    pub(crate) fn take_block(&self, size: usize) -> Box<[u8]> {
        let free = if size == BLOCK { self.free_blocks().pop() } else { None };
        free.unwrap_or_else(|| vec![0; size].into_boxed_slice())
    }

    /// Takes memory back that is not used any more.
    pub(crate) fn put_block(&self, block: Box<[u8]>) {
        if block.len() == BLOCK {
            let mut free = self.free_blocks();
            if free.len() < FREE_MAX {
                free.push(block);
            }
        }
    }

    fn free_blocks(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes taken at the moment.
    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most bytes that may be taken.
    pub(crate) fn limit(&self) -> usize {
        self.0.limit
    }

    /// Whether less than a quarter is left: windows stop growing.
    pub(crate) fn under_pressure(&self) -> bool {
        self.used() > self.unpressed()
    }

    /// Bytes that any lease may take.
    fn unpressed(&self) -> usize {
        self.0.limit - self.0.limit / 4
    }

    /// What a single buffer may have of the last quarter's: one of two for each connection, or all for a single one.
    fn share(&self) -> usize {
        let sharers = usize::try_from(self.0.sharers.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let buffers = sharers.saturating_mul(2).saturating_sub(1).max(1);
        (self.0.limit / buffers).max(SHARE_MIN)
    }

    /// One more connection shares the budget.
    pub(crate) fn add_sharer(&self) {
        self.0.sharers.fetch_add(1, Ordering::Relaxed);
    }

    /// One connection fewer shares it.
    pub(crate) fn remove_sharer(&self) {
        self.0.sharers.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection that gets on was refused.
    pub(crate) fn plead(&self) {
        self.0.pleas.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether one has pleaded since `heard`, which is brought up to date. Where several endpoints share the budget each hears
    /// of it, since the memory may be held by connections of any.
    #[inline]
    pub(crate) fn has_pleaded(&self, heard: &mut u32) -> bool {
        let before = std::mem::replace(heard, self.0.pleas.load(Ordering::Relaxed));
        before != *heard
    }

    /// A lease of `bytes`, if the budget allows it.
    pub(crate) fn try_lease(&self, bytes: usize) -> Option<Lease> {
        let mut lease = self.lease();
        lease.resize(bytes).then_some(lease)
    }

    /// A lease that holds nothing yet.
    pub(crate) fn lease(&self) -> Lease {
        Lease { budget: self.clone(), bytes: 0 }
    }

    /// Takes `bytes` more for a lease that then has `total`.
    fn take(&self, bytes: usize, total: usize) -> bool {
        let limit = if total > self.share() { self.unpressed() } else { self.0.limit };
        self.0
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&used| used <= limit)
            })
            .is_ok()
    }
}

/// Bytes taken from a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Budget,
    bytes: usize,
}

impl Lease {
    /// Makes the lease hold `bytes`; `false`, and nothing changed, when the budget does not allow it.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.budget.take(bytes - self.bytes, bytes) {
            return false;
        }
        if bytes < self.bytes {
            self.budget.0.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
    }

    /// Bytes that it holds.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_quarter_is_for_those_with_less_than_a_share() {
        let budget = Budget::new(1 << 20);
        (0..8).for_each(|_| budget.add_sharer());
        let share = (1 << 20) / 15;
        let (mut greedy, mut modest) = (budget.lease(), budget.lease());
        assert!(greedy.resize(3 << 18));
        assert!(!greedy.resize((3 << 18) + 1), "three quarters are taken");
        assert!(!modest.resize(share + 1));
        assert!(modest.resize(share));
        assert!(greedy.resize(0) && modest.resize(3 << 18), "an empty budget has room for any lease");
    }

    #[test]
    fn sixty_four_free_blocks_are_kept_and_none_of_another_size() {
        let budget = Budget::new(1 << 20);
        budget.put_block(vec![0; BLOCK - 1].into());
        assert_eq!(budget.free_blocks().len(), 0);
        (0..FREE_MAX + 1).for_each(|_| budget.put_block(vec![1; BLOCK].into()));
        assert_eq!(budget.free_blocks().len(), 64);
        assert_eq!(
            (budget.take_block(BLOCK)[0], budget.take_block(BLOCK - 1)[0]),
            (1, 0),
            "one used before, and a new one"
        );
        assert_eq!(budget.free_blocks().len(), 63);
    }

    #[test]
    fn a_plea_is_heard_once_by_each_who_shares_the_budget() {
        let budget = Budget::new(1 << 20);
        let mut heard = [0; 2];
        assert!(!budget.has_pleaded(&mut heard[0]));
        budget.plead();
        budget.plead();
        for heard in &mut heard {
            assert!(budget.has_pleaded(heard) && !budget.has_pleaded(heard));
        }
    }

    #[test]
    fn a_lease_never_exceeds_the_budget_and_gives_all_back() {
        let budget = Budget::new(100);
        let mut first = budget.lease();
        let mut second = budget.lease();
        assert!(first.resize(60));
        assert!(!second.resize(41), "41 more would exceed 100");
        assert!(second.resize(40));
        assert_eq!(budget.used(), 100);
        assert!(first.resize(10));
        assert_eq!(budget.used(), 50);
        drop(first);
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
