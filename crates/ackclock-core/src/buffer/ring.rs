//! A byte ring that grows on demand within a budget.

use std::fmt;

use crate::budget::{Budget, Lease};

/// Bytes in a circular allocation whose size is a power of two, or nothing at all.
///
/// Offsets count from the first byte. Bytes beyond `len` may be written ahead of time with
/// [`write_at`](Self::write_at), which is how out-of-order data lies in place.
///
/// Where the budget says that no bytes are kept, the ring only counts: it has a capacity, and nothing behind it.
pub(crate) struct Ring {
    /// `capacity` of them, or none where they are not kept.
    bytes: Box<[u8]>,
    capacity: usize,
    start: usize,
    len: usize,
    lease: Lease,
}

/// The smallest allocation.
const CAPACITY_MIN: usize = 4096;
/// The steps in which the lease follows what is kept beside the ring.
const BESIDE_STEP: usize = 1024;
/// What a ring shows that keeps no bytes.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

impl Ring {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { bytes: Box::default(), capacity: 0, start: 0, len: 0, lease: budget.lease() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn budget(&self) -> &Budget {
        self.lease.budget()
    }

    /// Makes room for `total` bytes from the first; `false` when the budget does not allow it.
    #[inline]
    pub(crate) fn reserve(&mut self, total: usize) -> bool {
        total <= self.capacity() || self.grow(total)
    }

    #[cold]
    fn grow(&mut self, total: usize) -> bool {
        let Some(capacity) = capacity_for(total) else { return false };
        if !self.lease.resize(capacity + self.beside()) {
            return false;
        }
        self.reallocate(capacity, self.capacity);
        true
    }

    /// Bytes that the lease holds for what is kept beside the ring.
    #[inline]
    pub(crate) fn beside(&self) -> usize {
        self.lease.bytes().saturating_sub(self.capacity)
    }

    /// Has the lease cover `bytes` that are kept beside the ring, as far as they exceed an eighth of its size; `false`, and
    /// nothing changed, when the budget does not allow it.
    pub(crate) fn keep_beside(&mut self, bytes: usize) -> bool {
        let free = self.capacity.max(CAPACITY_MIN) / 8;
        let charge = bytes.saturating_sub(free).next_multiple_of(BESIDE_STEP);
        charge == self.beside() || self.lease.resize(self.capacity + charge)
    }

    /// Gives back what the counted bytes do not need. What was written ahead is lost.
    pub(crate) fn shrink(&mut self) {
        if self.len == 0 {
            return self.release();
        }
        if let Some(capacity) = capacity_for(self.len).filter(|&capacity| capacity < self.capacity) {
            let beside = self.beside();
            self.reallocate(capacity, self.len);
            self.lease.resize(capacity + beside);
        }
    }

    /// Moves the first `kept` bytes to the front of an allocation of another size.
    fn reallocate(&mut self, capacity: usize, kept: usize) {
        if !self.lease.budget().keeps_bytes() {
            self.capacity = capacity;
            self.start = 0;
            return;
        }
        let mut bytes = vec![0; capacity].into_boxed_slice();
        let [head, tail] = self.slices(0, kept);
        let (first, rest) = bytes.split_at_mut(head.len());
        first.copy_from_slice(head);
        if let Some(second) = rest.get_mut(..tail.len()) {
            second.copy_from_slice(tail);
        }
        self.bytes = bytes;
        self.capacity = capacity;
        self.start = 0;
    }

    /// Appends `data`; `false`, and nothing appended, when there is no memory for it.
    // Always inlined, for the row "data segment received" of the counted instructions.
    #[inline(always)]
    pub(crate) fn append(&mut self, data: &[u8]) -> bool {
        if !self.write_at(self.len, data) {
            return false;
        }
        self.len += data.len();
        true
    }

    /// Writes `data` at `offset` from the first byte without counting it; `false` when there is no memory for it.
    #[inline]
    pub(crate) fn write_at(&mut self, offset: usize, data: &[u8]) -> bool {
        let Some(end) = offset.checked_add(data.len()) else { return false };
        if !self.reserve(end) {
            return false;
        }
        if self.bytes.is_empty() {
            return true;
        }
        let at = self.wrap(offset);
        let until_wrap = data.len().min(self.bytes.len() - at);
        let (head, tail) = data.split_at(until_wrap);
        if let Some(room) = self.bytes.get_mut(at..at + head.len()) {
            room.copy_from_slice(head);
        }
        if let Some(room) = self.bytes.get_mut(..tail.len()) {
            room.copy_from_slice(tail);
        }
        true
    }

    /// Counts `bytes` more, which were written ahead with `write_at`.
    #[inline]
    pub(crate) fn extend(&mut self, bytes: usize) {
        self.len += bytes;
        debug_assert!(self.len <= self.capacity());
    }

    /// `len` bytes from `offset`, in two slices; fewer where the allocation ends, and no more than 128 KiB of those
    /// that are not kept.
    #[inline]
    pub(crate) fn slices(&self, offset: usize, len: usize) -> [&[u8]; 2] {
        if offset >= self.capacity() {
            return [&[], &[]];
        }
        let len = len.min(self.capacity() - offset);
        if self.bytes.is_empty() {
            let zeros = |len| ZEROS.get(..len).unwrap_or(&ZEROS);
            return [zeros(len), zeros(len.saturating_sub(ZEROS.len()))];
        }
        let at = self.wrap(offset);
        let until_wrap = len.min(self.bytes.len() - at);
        [
            self.bytes.get(at..at + until_wrap).unwrap_or_default(),
            self.bytes.get(..len - until_wrap).unwrap_or_default(),
        ]
    }

    /// Copies from `offset` into `into`, as much as is there; returns how much.
    #[inline]
    pub(crate) fn copy_to(&self, offset: usize, into: &mut [u8]) -> usize {
        let len = into.len().min(self.len.saturating_sub(offset));
        if self.bytes.is_empty() {
            into.iter_mut().take(len).for_each(|byte| *byte = 0);
            return len;
        }
        let [head, tail] = self.slices(offset, len);
        let (first, rest) = into.split_at_mut(head.len());
        first.copy_from_slice(head);
        if let Some(second) = rest.get_mut(..tail.len()) {
            second.copy_from_slice(tail);
        }
        len
    }

    /// Takes `bytes` off the front.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len);
        self.start = self.wrap(bytes);
        self.len -= bytes;
    }

    /// Begins at the front of the allocation again. What was written ahead is lost; nothing else may be in it.
    #[inline]
    pub(crate) fn rewind(&mut self) {
        debug_assert_eq!(self.len, 0);
        self.start = 0;
    }

    /// Gives the allocation back. The content is lost.
    pub(crate) fn release(&mut self) {
        self.bytes = Box::default();
        self.capacity = 0;
        self.start = 0;
        self.len = 0;
        self.lease.resize(0);
    }

    #[inline]
    fn wrap(&self, offset: usize) -> usize {
        // The capacity is a power of two; with none the result is 0.
        (self.start + offset) & self.capacity().saturating_sub(1)
    }
}

impl fmt::Debug for Ring {
    /// Without the bytes: they are the application's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes: _, capacity, start, len, lease: _ } = self;
        f.debug_struct("Ring").field("capacity", capacity).field("start", start).field("len", len).finish()
    }
}

/// The size of an allocation that holds `total` bytes.
fn capacity_for(total: usize) -> Option<usize> {
    total.max(CAPACITY_MIN).checked_next_power_of_two()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a `VecDeque`, through growth, wrap-around and shrinking.
        #[test]
        fn behaves_as_a_queue_of_bytes(steps in prop::collection::vec((0u8..5, 1usize..6000), 1..60)) {
            let mut ring = Ring::new(&Budget::new(1 << 20));
            let mut model = VecDeque::new();
            let mut next = 0u8;
            for (what, len) in steps {
                if what == 0 {
                    ring.shrink();
                    let least = if model.is_empty() { 0 } else { CAPACITY_MIN };
                    prop_assert!(ring.capacity() < 2 * model.len().max(1) || ring.capacity() == least);
                    prop_assert_eq!(ring.budget().used(), ring.capacity());
                } else if what < 3 {
                    let data: Vec<u8> = (0..len).map(|_| { next = next.wrapping_add(1); next }).collect();
                    prop_assert!(ring.append(&data));
                    model.extend(data);
                } else {
                    let mut out = vec![0; len];
                    let n = ring.copy_to(0, &mut out);
                    ring.advance(n);
                    let expected: Vec<u8> = model.drain(..len.min(model.len())).collect();
                    prop_assert_eq!(&out[..n], &expected[..]);
                }
                prop_assert_eq!(ring.len(), model.len());
            }
        }

        /// A ring that keeps no bytes has the length, the room and the lease of one that does.
        #[test]
        fn one_that_only_counts_does_all_but_keep(
            steps in prop::collection::vec((0u8..5, 1usize..6000), 1..60), limit in 1usize..40_000,
        ) {
            let budgets = [true, false].map(|keeps| Budget::with(limit, keeps));
            let [mut keeping, mut counting] = [&budgets[0], &budgets[1]].map(Ring::new);
            for (what, len) in steps {
                let data = vec![0; len];
                let did = [&mut keeping, &mut counting].map(|ring| match what {
                    0 | 1 => ring.append(&data),
                    2 => ring.write_at(ring.len(), &data),
                    3 => {
                        ring.shrink();
                        true
                    }
                    _ => {
                        ring.advance(len);
                        true
                    }
                });
                prop_assert_eq!(did[0], did[1]);
                let seen = |ring: &Ring| {
                    let mut out = vec![7; len];
                    let copied = ring.copy_to(0, &mut out);
                    let shown: usize = ring.slices(0, ring.len()).iter().map(|slice| slice.len()).sum();
                    (ring.len(), ring.capacity(), copied, out, shown)
                };
                prop_assert_eq!(seen(&keeping), seen(&counting));
                prop_assert_eq!(budgets[0].used(), budgets[1].used());
            }
        }

        #[test]
        fn bytes_written_ahead_survive_growth(gap in 1usize..5000, len in 1usize..9000, lead in 0usize..4000) {
            let mut ring = Ring::new(&Budget::new(1 << 20));
            ring.append(&vec![1; lead]);
            ring.advance(lead);
            let ahead: Vec<u8> = (0..len).map(|i| i as u8).collect();
            prop_assert!(ring.write_at(gap, &ahead));
            prop_assert!(ring.write_at(gap + len + 20_000, &[7]));
            prop_assert!(ring.append(&vec![9; gap]));
            ring.extend(len);
            let mut out = vec![0; gap + len];
            prop_assert_eq!(ring.copy_to(0, &mut out), gap + len);
            prop_assert_eq!(&out[gap..], &ahead[..]);
        }
    }

    #[test]
    fn refuses_to_grow_beyond_the_budget_and_loses_nothing() {
        let budget = Budget::new(8192);
        let mut ring = Ring::new(&budget);
        assert!(ring.append(&[1; 8192]));
        assert!(!ring.append(&[2]));
        assert_eq!(ring.len(), 8192);
        ring.release();
        assert_eq!(budget.used(), 0);
    }
}
