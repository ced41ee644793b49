//! One memory budget for all buffers of an endpoint, or of several endpoints that form one host.
//!
//! Several endpoints share it through one atomic count. Dividing it would leave one queue short while another
//! has room, or need more code to borrow. The count changes only when a buffer grows or frees memory, not
//! with each segment.
//!
//! The budget covers what peers can make a connection keep: both queues, the ranges beyond a gap, the
//! scoreboard, and the queues of traffic other than TCP. It does not cover the tables that grow only with the
//! number of connections (slots, timers, queues of indices), which `connections_max` bounds, or traces, which
//! have their own bound.
//!
//! The last quarter is reserved for buffers that have little. While it is in use, a lease grows only up to a
//! share, at least [`SHARE_MIN`]. The share begins as the limit divided among the buffers of all connections,
//! and shrinks as the quarter fills, so that crowds of buffers never take all of it: a new connection finds
//! room (A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
//! Switches", IEEE/ACM Transactions on Networking 6(2), 1998). When a connection that makes progress
//! is still refused, the endpoint resets connections that hold memory and have not made progress for long.
//!
//! The budget also keeps the list of free blocks. At most [`FREE_MAX`] of them (4 MiB) wait for reuse, the
//! most recently freed first. They do not count in the budget; any more go back to the allocator.

use ackclock_form::{Form, FormError, Reader, Writer, shared};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A budget in bytes, shared by all buffers that hold a clone of it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
    /// Connections that share it.
    sharers: AtomicU32,
    /// How often a connection that makes progress was refused.
    refusals: AtomicU32,
    keeps_bytes: bool,
    free: Mutex<Vec<Box<[u8]>>>,
}

/// The size of a reusable block.
pub(crate) const BLOCK: usize = 1 << 16;

/// The most free blocks kept.
const FREE_MAX: usize = 64;

/// The minimum share of a buffer, however many connections there are: the smallest block.
const SHARE_MIN: usize = 4096;

impl Budget {
    #[cfg(test)]
    pub fn new(limit: usize) -> Self {
        Self::with(limit, true)
    }

    /// A budget of buffers that keep the bytes written to them, or only count them.
    pub fn with(limit: usize, keeps_bytes: bool) -> Self {
        Self(Arc::new(Inner {
            limit,
            used: AtomicUsize::new(0),
            sharers: AtomicU32::new(0),
            refusals: AtomicU32::new(0),
            keeps_bytes,
            free: Mutex::default(),
        }))
    }

    /// Whether buffers keep what is written to them.
    pub fn keeps_bytes(&self) -> bool {
        self.0.keeps_bytes
    }

    /// A block of `size` bytes with arbitrary content. The caller holds a lease for it.
    pub fn take_block(&self, size: usize) -> Box<[u8]> {
        let free = if size == BLOCK { self.free_blocks().pop() } else { None };
        free.unwrap_or_else(|| vec![0; size].into_boxed_slice())
    }

    /// Takes back memory that is no longer used.
    pub fn put_block(&self, block: Box<[u8]>) {
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

    /// Bytes now in use.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Whether less than a quarter is left: windows stop growing.
    pub fn under_pressure(&self) -> bool {
        self.used() > self.unpressed()
    }

    /// Bytes that any lease may take.
    fn unpressed(&self) -> usize {
        self.0.limit.saturating_sub(self.0.limit / 4)
    }

    /// The most that one buffer may hold once the last quarter is in use. Each connection counts as two
    /// buffers, which share what is left of the quarter; a single connection may have everything.
    fn share(&self, used: usize) -> usize {
        let sharers = usize::try_from(self.0.sharers.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let buffers = sharers.saturating_mul(2).saturating_sub(1);
        if buffers <= 1 {
            return self.0.limit;
        }
        let free = self.0.limit.saturating_sub(used).min(self.0.limit / 4);
        free.saturating_mul(4).checked_div(buffers).unwrap_or(free).max(SHARE_MIN)
    }

    /// Returns the bytes in use once a lease of `total` has taken `more` of them; `None` if it may not take
    /// them.
    fn used_with(&self, used: usize, more: usize, total: usize) -> Option<usize> {
        let after = used.checked_add(more)?;
        let allowed = after <= self.unpressed() || after <= self.0.limit && total <= self.share(used);
        allowed.then_some(after)
    }

    /// Whether a lease that then has `total` may take `more`.
    pub fn allows(&self, more: usize, total: usize) -> bool {
        self.used_with(self.used(), more, total).is_some()
    }

    /// How many more bytes a lease that has `held` may take.
    pub fn room_for(&self, held: usize) -> usize {
        let used = self.used();
        let of_reserve = self.0.limit.saturating_sub(used).min(self.share(used).saturating_sub(held));
        self.unpressed().saturating_sub(used).max(of_reserve)
    }

    /// One more connection shares the budget.
    pub fn add_sharer(&self) {
        self.0.sharers.fetch_add(1, Ordering::Relaxed);
    }

    /// One connection fewer shares it.
    pub fn remove_sharer(&self) {
        self.0.sharers.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection that makes progress was refused.
    pub fn note_refusal(&self) {
        self.0.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a connection that makes progress was refused. Every endpoint that shares the budget counts
    /// what it has heard, because the memory may be held by any endpoint's connections.
    #[inline]
    pub fn refusals(&self) -> u32 {
        self.0.refusals.load(Ordering::Relaxed)
    }

    /// Leaves the budget out of the form: the reader [puts its own](Self::stand_in) in the place. No other
    /// shared value may come before it.
    pub fn leave_out(&self, out: &mut Writer) {
        let (number, _) = out.share(Arc::as_ptr(&self.0).addr());
        debug_assert_eq!(number, 0, "it comes before all other shared values");
    }

    /// Takes the place of the budget that was left out.
    pub fn stand_in(&self, input: &mut Reader<'_>) {
        input.keep(Arc::<Inner>::clone(&self.0));
    }

    /// A lease of `bytes`, if the budget allows it.
    pub fn try_lease(&self, bytes: usize) -> Option<Lease> {
        let mut lease = self.lease();
        lease.resize(bytes).then_some(lease)
    }

    /// An empty lease.
    pub fn lease(&self) -> Lease {
        Lease { budget: self.clone(), bytes: 0 }
    }

    /// Takes `bytes` more for a lease, which then has `total`.
    fn take(&self, bytes: usize, total: usize) -> bool {
        let used = &self.0.used;
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| self.used_with(used, bytes, total))
            .is_ok()
    }
}

/// Bytes taken from a budget, returned on drop.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Budget,
    bytes: usize,
}

impl Lease {
    /// Makes the lease hold `bytes`. Returns `false`, and changes nothing, if the budget does not allow it.
    pub fn resize(&mut self, bytes: usize) -> bool {
        if let Some(more @ 1..) = bytes.checked_sub(self.bytes) {
            if !self.budget.take(more, bytes) {
                return false;
            }
        } else if let Some(less @ 1..) = self.bytes.checked_sub(bytes) {
            self.budget.0.used.fetch_sub(less, Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
    }

    /// Bytes that it holds.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

ackclock_form::form! {
    struct Budget(inner as shared)
}

impl Form for Inner {
    fn write(&self, out: &mut Writer) {
        // The bytes in use follow from the leases, and free blocks only save time.
        let Self { limit, used: _, sharers, refusals, keeps_bytes, free: _ } = self;
        limit.write(out);
        sharers.load(Ordering::Relaxed).write(out);
        refusals.load(Ordering::Relaxed).write(out);
        keeps_bytes.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let limit = usize::read(input)?;
        if input.lent::<MemoryMax>().is_some_and(|max| limit > max.0) {
            return Err(FormError::Unsupported("its memory budget is larger than the reader allows"));
        }
        Ok(Self {
            limit,
            used: AtomicUsize::new(0),
            sharers: AtomicU32::new(Form::read(input)?),
            refusals: AtomicU32::new(Form::read(input)?),
            keeps_bytes: Form::read(input)?,
            free: Mutex::default(),
        })
    }
}

/// The largest budget that a reader of forms accepts, lent to what is read.
pub(crate) struct MemoryMax(pub usize);

impl Form for Lease {
    fn write(&self, out: &mut Writer) {
        self.budget.write(out);
        self.bytes.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let mut lease = Budget::read(input)?.lease();
        let bytes = usize::read(input)?;
        let used = &lease.budget.0.used;
        // It was allowed when it was taken; together the leases never exceed the limit.
        let sum = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= lease.budget.0.limit);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum)
            .map_err(|_| FormError::Invariant("Budget"))?;
        lease.bytes = bytes;
        Ok(lease)
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
    fn pressure_begins_when_less_than_a_quarter_is_left() {
        let budget = Budget::new(400);
        let mut lease = budget.lease();
        for (used, pressed) in [(300, false), (301, true)] {
            assert!(lease.resize(0) && lease.resize(used));
            assert_eq!(budget.under_pressure(), pressed, "{used} of 400");
        }
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

    /// A thousand buffers that take all they are given leave room for those that come later.
    #[test]
    fn the_share_shrinks_with_what_is_left_of_the_last_quarter() {
        let budget = Budget::new(64 << 20);
        (0..2001).for_each(|_| budget.add_sharer());
        let mut held = Vec::new();
        for _ in 0..2000 {
            let mut lease = budget.lease();
            for size in (12..=16).map(|power| 1 << power) {
                lease.resize(size);
            }
            held.push(lease);
        }
        assert!(budget.under_pressure(), "{} of {} in use", budget.used(), budget.limit());
        let left = budget.limit() - budget.used();
        assert!(left >= 1 << 20, "{left} bytes are left");
        let mut late = budget.lease();
        assert!(budget.allows(4096, 4096) && late.resize(4096));
        assert!(
            !budget.allows(61_440, 65_536) && !late.resize(65_536),
            "it may not have what the others have"
        );
        let room = budget.room_for(late.bytes());
        assert!(late.resize(4096 + room) && budget.room_for(late.bytes()) == 0, "{room} more");
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
