//! A queue of bytes that lies in blocks, and takes and gives slices without copying them.
//!
//! Both directions of a connection are one: what was written and waits to be acknowledged, and what was received and waits
//! to be read. Bytes are copied in and out ([`append`](Queue::append), [`copy_to`](Queue::copy_to)), or slices change hands
//! ([`append_bytes`](Queue::append_bytes), [`take`](Queue::take)).
//!
//! # Blocks
//!
//! A block of the queue's own has 64 KiB. It comes from a free list that the endpoint's connections share, and goes back as
//! soon as its last byte is taken; the one freed last is used first. So what passes through a reader that keeps up stays in
//! the few blocks that are in the processor's cache, whatever the queue may grow to. Only the first block begins small, at
//! 4 KiB, and grows by being moved to a larger one; a queue that has run empty keeps its last block and begins at its
//! front.
//!
//! # Who pays for what is pinned
//!
//! The lease counts blocks, not bytes: a slice of somebody else's memory counts as much as it keeps from being freed. What was
//! given away is its holder's. [`take`](Queue::take) gives a block away only if at least half of it is in use, and copies
//! otherwise: a small packet in the hands of an application pins no 64 KiB.
//!
//! Where the budget says that no bytes are kept, the queue only counts: it has a capacity, and nothing behind it.

use std::fmt;

use bytes::Bytes;

use super::block::{Block, Lent, Storage};
use super::store::{BLOCK_MIN, Store, ZEROS, block_size};
use crate::budget::{BLOCK, Budget, Lease};

/// Bytes in order. Offsets count from the first.
///
/// Bytes beyond `len` may be written ahead of time with [`write_at`](Self::write_at), which is how out-of-order data
/// lies in place.
pub(crate) struct Queue {
    /// Where they lie; an idle connection has none.
    store: Option<Box<Store>>,
    len: usize,
    lease: Lease,
}

/// The steps in which the lease follows what is kept beside the queue.
const BESIDE_STEP: usize = 1024;

impl Queue {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { store: None, len: 0, lease: budget.lease() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the queue keeps from being freed.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.capacity)
    }

    pub(crate) fn budget(&self) -> &Budget {
        self.lease.budget()
    }

    /// Bytes that the lease holds for what is kept beside the queue.
    #[inline]
    pub(crate) fn beside(&self) -> usize {
        self.lease.bytes().saturating_sub(self.capacity())
    }

    /// Has the lease cover `bytes` that are kept beside the queue, as far as they exceed an eighth of its size; `false`, and
    /// nothing changed, when the budget does not allow it.
    pub(crate) fn keep_beside(&mut self, bytes: usize) -> bool {
        let free = self.capacity().max(BLOCK_MIN) / 8;
        let charge = bytes.saturating_sub(free).next_multiple_of(BESIDE_STEP);
        charge == self.beside() || self.lease.resize(self.capacity() + charge)
    }

    // ----- writing -----

    /// Appends `data`; `false`, and nothing appended, when there is no memory for it.
    // Always inlined, for the row "data segment received" of the counted instructions.
    #[inline(always)]
    pub(crate) fn append(&mut self, data: &[u8]) -> bool {
        if let Some(store) = &mut self.store
            && let end = store.head.wrapping_add(self.len)
            && let Some(Block { storage: Storage::Owned(bytes), start, .. }) = store.blocks.back_mut()
            && let Some(room) = bytes.get_mut(end.wrapping_sub(*start)..)
            && let Some(room) = room.get_mut(..data.len())
        {
            room.copy_from_slice(data);
            self.len += data.len();
            return true;
        }
        self.append_across(data)
    }

    #[inline(never)]
    fn append_across(&mut self, data: &[u8]) -> bool {
        let written = self.write_at(self.len, data);
        if written {
            self.len += data.len();
        }
        written
    }

    /// Writes `data` at `offset` from the first byte without counting it; `false` when there is no memory for it.
    pub(crate) fn write_at(&mut self, offset: usize, data: &[u8]) -> bool {
        let Some(end) = offset.checked_add(data.len()) else { return false };
        if !self.reserve(end) {
            return false;
        }
        if let Some(store) = &mut self.store {
            store.write(offset, data);
        }
        true
    }

    /// Counts `bytes` more, which were written ahead with `write_at`.
    #[inline]
    pub(crate) fn extend(&mut self, bytes: usize) {
        self.len += bytes;
    }

    /// Appends a slice without copying it, which keeps `pinned` bytes from being freed; `false`, and nothing appended, when
    /// the budget does not allow that. Nothing may have been written ahead.
    pub(crate) fn append_bytes(&mut self, bytes: Bytes, pinned: usize) -> bool {
        if !self.lease.budget().keeps_bytes() {
            return self.append(&bytes);
        }
        if !self.resize(self.capacity().saturating_add(pinned)) {
            return false;
        }
        self.seal();
        let (queued, len) = (self.len, bytes.len());
        let store = self.store();
        let start = store.head.wrapping_add(queued);
        store.push(Block { storage: Storage::Shared(bytes, pinned), start, len });
        self.len += len;
        true
    }

    /// How many bytes the last block holds, if it is the queue's own and not the first.
    pub(crate) fn held_by_last(&self) -> Option<usize> {
        let store = self.store.as_ref()?;
        let last = store.blocks.back().filter(|last| store.blocks.len() > 1 && last.is_owned())?;
        Some(last.index(store.head.wrapping_add(self.len)))
    }

    /// Ends the last block where the bytes end, so that another can follow.
    fn seal(&mut self) {
        let queued = self.len;
        loop {
            let store = self.store();
            let end = store.head.wrapping_add(queued);
            let Some(last) = store.blocks.back_mut() else { return };
            // More than there is if the block lies beyond the end.
            let used = last.index(end);
            if queued > 0 && used > 0 && used <= last.len {
                last.len = used;
                return;
            }
            self.pop_last();
        }
    }

    /// Makes room for `total` bytes from the first; `false` when the budget does not allow it.
    #[inline]
    fn reserve(&mut self, total: usize) -> bool {
        total <= self.room() || self.grow(total)
    }

    /// Bytes that there is room for, from the first.
    #[inline]
    fn room(&self) -> usize {
        self.store.as_ref().map_or(0, |store| match store.blocks.back() {
            Some(last) => last.end().wrapping_sub(store.head),
            None => store.capacity,
        })
    }

    #[cold]
    fn grow(&mut self, total: usize) -> bool {
        if !self.lease.budget().keeps_bytes() {
            return self.resize(counted_capacity(total));
        }
        let before = self.store().blocks.len();
        while self.room() < total {
            let missing = total - self.room();
            let grown = match self.store().blocks.back() {
                Some(last) if last.is_owned() && last.pinned() < BLOCK => self.grow_last(total),
                Some(last) if last.is_owned() => self.push_owned(BLOCK),
                _ => self.push_owned(block_size(missing)),
            };
            if !grown {
                // What was got in vain is given back.
                while self.store().blocks.len() > before {
                    self.pop_last();
                }
                return false;
            }
        }
        true
    }

    /// Moves what is in the last block to the front of it, or of a larger one.
    fn grow_last(&mut self, total: usize) -> bool {
        let budget = self.lease.budget().clone();
        let store = self.store();
        let (head, capacity, is_first) = (store.head, store.capacity, store.blocks.len() == 1);
        let Some(last) = store.blocks.back() else { return false };
        let taken = if is_first { last.index(head) } else { 0 };
        let (start, old) = (last.start.wrapping_add(taken), last.pinned());
        let needed = total.saturating_sub(start.wrapping_sub(head));
        // A block is moved within itself only if half of it gets free, so that a byte is moved once on average at the most.
        let size = if needed <= old / 2 { old } else { block_size(needed.max(old + 1)) };
        if !self.resize(capacity - old + size) {
            return false;
        }
        let Some(last) = self.store().blocks.back_mut() else { return false };
        let Storage::Owned(bytes) = &mut last.storage else { return false };
        let held = taken.min(bytes.len())..bytes.len();
        if size == old {
            bytes.copy_within(held, 0);
        } else {
            let mut larger = budget.take_block(size);
            if let (Some(to), Some(from)) = (larger.get_mut(..held.len()), bytes.get(held)) {
                to.copy_from_slice(from);
            }
            *bytes = larger;
        }
        (last.start, last.len) = (start, size);
        true
    }

    fn push_owned(&mut self, size: usize) -> bool {
        if !self.resize(self.capacity() + size) {
            return false;
        }
        let storage = Storage::Owned(self.lease.budget().take_block(size));
        let store = self.store();
        let start = store.blocks.back().map_or(store.head, Block::end);
        store.push(Block { storage, start, len: size });
        true
    }

    /// Has the lease cover so much capacity, and what is beside it.
    fn resize(&mut self, capacity: usize) -> bool {
        let resized = self.lease.resize(capacity + self.beside());
        if resized {
            self.store().capacity = capacity;
        }
        resized
    }

    // ----- reading -----

    /// Remembers where the byte at `offset` lies, for [`slices`](Self::slices) of it; whether `len` bytes lie there in one
    /// slice.
    #[inline]
    pub(crate) fn seek(&mut self, offset: usize, len: u64) -> bool {
        let Some(store) = &mut self.store else { return false };
        let place = store.head.wrapping_add(offset);
        store.at = store.find(place);
        let found = store.blocks.get(store.at);
        found.is_some_and(|block| len <= block.len.saturating_sub(block.index(place)) as u64)
    }

    /// How many bytes from `offset` on two slices show.
    pub(crate) fn reach(&self, offset: usize) -> usize {
        self.slices(offset, self.len.saturating_sub(offset)).iter().map(|slice| slice.len()).sum()
    }

    /// `len` bytes from `offset`, in two slices; fewer where the second one ends, and no more than 128 KiB of those
    /// that are not kept.
    #[inline]
    pub(crate) fn slices(&self, offset: usize, len: usize) -> [&[u8]; 2] {
        let Some(store) = &self.store else { return [&[], &[]] };
        let place = store.head.wrapping_add(offset);
        // Mostly all of them lie in the block that was sought last.
        if let Some(sought) = store.blocks.get(store.at)
            && let slice = sought.slice(place, len)
            && slice.len() == len
        {
            return [slice, &[]];
        }
        self.slices_across(offset, len)
    }

    #[inline(never)]
    fn slices_across(&self, offset: usize, len: usize) -> [&[u8]; 2] {
        let Some(store) = &self.store else { return [&[], &[]] };
        let place = store.head.wrapping_add(offset);
        let at = store.find(place);
        let Some(block) = store.blocks.get(at) else { return store.zeros(offset, len) };
        let first = block.slice(place, len);
        if first.len() == len {
            return [first, &[]];
        }
        let rest = store.blocks.get(at + 1);
        [first, rest.map_or(&[], |next| next.slice(next.start, len - first.len()))]
    }

    /// All bytes in order, slice by slice.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let left = self.len - at;
            let store = self.store.as_ref().filter(|_| left > 0)?;
            let place = store.head.wrapping_add(at);
            let slice = match store.blocks.get(store.index_of(place)) {
                Some(block) => block.slice(place, left),
                None => ZEROS.get(..left).unwrap_or(&ZEROS),
            };
            at += slice.len();
            Some(slice)
        })
    }

    /// Copies the first bytes into `into`, as much as is there; returns how much.
    #[inline]
    pub(crate) fn copy_to(&self, into: &mut [u8]) -> usize {
        let len = into.len().min(self.len);
        let into = into.get_mut(..len).unwrap_or_default();
        if let Some(store) = &self.store
            && let Some(first) = store.blocks.front()
            && let slice = first.slice(store.head, len)
            && slice.len() == len
        {
            into.copy_from_slice(slice);
        } else {
            self.copy_across(into);
        }
        len
    }

    /// Fills `into` with the first bytes, of which there are as many, from more than one block.
    #[inline(never)]
    fn copy_across(&self, into: &mut [u8]) {
        let mut rest = into;
        for slice in self.chunks() {
            let n = slice.len().min(rest.len());
            let (room, others) = rest.split_at_mut(n);
            if let Some(slice) = slice.get(..n) {
                room.copy_from_slice(slice);
            }
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
    }

    /// Takes at most `max` bytes off the front in one slice; call again for what is left; `is_tidy` says that
    /// nothing was written ahead.
    pub(crate) fn take(&mut self, max: usize, is_tidy: bool) -> Bytes {
        let Some(store) = &mut self.store else { return Bytes::new() };
        let (place, end) = (store.head, store.head.wrapping_add(self.len));
        let Some(first) = store.blocks.front_mut() else {
            let zeros = Bytes::from_static(ZEROS.get(..max.min(self.len)).unwrap_or(&ZEROS));
            self.advance(zeros.len());
            return zeros;
        };
        let written = first.index(end).min(first.len);
        let held = written.saturating_sub(first.index(place));
        // What was written ahead must stay where it can be written to.
        let is_settled = is_tidy || written == first.len;
        if is_settled
            && held >= first.pinned() / 2
            && let Storage::Owned(bytes) = &mut first.storage
        {
            let pinned = bytes.len();
            let lent = Lent { bytes: std::mem::take(bytes), budget: self.lease.budget().clone() };
            first.storage = Storage::Shared(Bytes::from_owner(lent), pinned);
            first.len = written;
        }
        let (at, len) = (first.index(place), held.min(max));
        let taken = match &first.storage {
            Storage::Shared(bytes, _) if at <= bytes.len() && len <= bytes.len() - at => {
                bytes.slice(at..at + len)
            }
            _ => Bytes::copy_from_slice(first.slice(place, len)),
        };
        self.advance(taken.len());
        taken
    }

    /// Takes `bytes` off the front. Blocks that are done with go back.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len);
        let Some(store) = &mut self.store else { return };
        store.head = store.head.wrapping_add(bytes);
        self.len -= bytes;
        while self.store.as_ref().is_some_and(|store| store.is_done_with_first()) {
            self.pop_first();
        }
    }

    #[inline(never)]
    fn pop_first(&mut self) {
        let store = self.store();
        store.at = store.at.saturating_sub(1);
        let first = store.blocks.pop_front();
        self.give_back(first);
    }

    fn pop_last(&mut self) {
        let last = self.store().blocks.pop_back();
        self.give_back(last);
    }

    fn give_back(&mut self, block: Option<Block>) {
        let Some(block) = block else { return };
        self.resize(self.capacity().saturating_sub(block.pinned()));
        if let Storage::Owned(bytes) = block.storage {
            self.lease.budget().put_block(bytes);
        }
    }

    /// Begins at the front of the block again. What was written ahead is lost; nothing else may be in it.
    #[inline]
    pub(crate) fn rewind(&mut self) {
        debug_assert_eq!(self.len, 0);
        let Some(store) = &mut self.store else { return };
        if let Some(first) = store.blocks.front_mut() {
            first.start = store.head;
            for _ in 1..store.blocks.len() {
                self.pop_last();
            }
        } else if store.capacity > BLOCK {
            self.resize(BLOCK);
        }
    }

    /// Gives back what the counted bytes do not need. What was written ahead is lost.
    pub(crate) fn shrink(&mut self) {
        if self.len == 0 {
            return self.release();
        }
        if !self.lease.budget().keeps_bytes() {
            self.resize(self.capacity().min(counted_capacity(self.len)));
            return;
        }
        self.seal();
        let queued = self.len;
        let freed = self.store().shrink(queued);
        self.resize(self.capacity().saturating_sub(freed));
    }

    /// Gives all memory back. The content is lost.
    pub(crate) fn release(&mut self) {
        if let Some(store) = self.store.take() {
            for block in store.blocks {
                if let Storage::Owned(bytes) = block.storage {
                    self.lease.budget().put_block(bytes);
                }
            }
        }
        self.len = 0;
        self.lease.resize(0);
    }

    #[inline]
    fn store(&mut self) -> &mut Store {
        self.store.get_or_insert_default()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for Queue {
    /// Without the bytes: they are the application's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// The capacity of a queue that only counts `total` bytes.
fn counted_capacity(total: usize) -> usize {
    if total <= BLOCK { block_size(total) } else { total.next_multiple_of(BLOCK) }
}

#[cfg(test)]
mod tests;
