//! One memory budget for all buffers of an endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A budget in bytes, shared by all buffers that were given a clone of it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
    keeps_bytes: bool,
}

impl Budget {
    #[cfg(test)]
    pub(crate) fn new(limit: usize) -> Self {
        Self::with(limit, true)
    }

    /// A budget of buffers that keep what is written to them, or of such as only count it.
    pub(crate) fn with(limit: usize, keeps_bytes: bool) -> Self {
        Self(Arc::new(Inner { limit, used: AtomicUsize::new(0), keeps_bytes }))
    }

    /// Whether buffers keep what is written to them.
    pub(crate) fn keeps_bytes(&self) -> bool {
        self.0.keeps_bytes
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
        self.used() > self.0.limit - self.0.limit / 4
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

    fn take(&self, bytes: usize) -> bool {
        let limit = self.0.limit;
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
        if bytes > self.bytes && !self.budget.take(bytes - self.bytes) {
            return false;
        }
        if bytes < self.bytes {
            self.budget.0.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
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
