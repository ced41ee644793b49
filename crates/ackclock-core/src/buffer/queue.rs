//! A queue of bytes in blocks, which accepts and returns slices without copying them.
//!
//! Both directions of a connection use it: for what was written and waits to be acknowledged, and for what
//! was received and waits to be read. Bytes are copied in and out ([`append`](Queue::append),
//! [`copy_to`](Queue::copy_to)), or slices change hands ([`append_bytes`](Queue::append_bytes),
//! [`take`](Queue::take)).
//!
//! # Blocks
//!
//! The queue's blocks have 64 KiB. A block comes from a free list shared by the endpoint's connections, and
//! goes back as soon as its last byte is taken; the most recently freed is used first. Data that passes
//! through a reader that keeps up therefore stays in a few cached blocks, however large the queue may grow.
//! Only the first block begins small, at 4 KiB, and grows by moving to a larger one. An empty queue keeps its
//! last block and begins at its front.
//!
//! # Accounting for pinned memory
//!
//! The lease counts blocks, not bytes: a shared slice counts as much as it keeps from being freed. What was
//! given away counts for its holder. [`take`](Queue::take) gives a block away only if at least half of it is
//! in use, and copies otherwise, so a small packet in an application's hands does not pin 64 KiB.
//!
//! If the budget keeps no bytes, the queue only counts: it has a capacity and no storage.

use std::fmt;
use std::sync::Arc;

use ackclock_control::tally::Tally;
use bytes::Bytes;

use super::block::{Block, Given, Lent, Storage};
use super::store::{BLOCK_MIN, Pinnable, Store, ZEROS, block_size};
use crate::budget::{BLOCK, Budget, Lease};
use ackclock_form::{Form, FormError, Reader, Writer};

/// Bytes in order. Offsets count from the first.
///
/// Bytes beyond `len` may be written ahead of time with [`write_at`](Self::write_at); out-of-order data is
/// stored in place this way.
pub(crate) struct Queue {
    /// The blocks; an idle connection has none.
    store: Option<Box<Store>>,
    len: usize,
    lease: Lease,
}

/// The step in which the lease follows the size of what is kept beside the queue.
const BESIDE_STEP: usize = 1024;

impl Queue {
    pub fn new(budget: &Budget) -> Self {
        Self { store: None, len: 0, lease: budget.lease() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the queue keeps from being freed.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.capacity)
    }

    pub fn budget(&self) -> &Budget {
        self.lease.budget()
    }

    /// Bytes of the lease for what is kept beside the queue.
    #[inline]
    pub fn beside(&self) -> usize {
        self.lease.bytes().saturating_sub(self.capacity())
    }

    /// Makes the lease cover `bytes` kept beside the queue, as far as they exceed an eighth of its size.
    /// Returns `false`, and changes nothing, if the budget does not allow it.
    pub fn keep_beside(&mut self, bytes: usize) -> bool {
        let charge = self.charge_for(bytes);
        charge == self.beside() || self.lease.resize(self.capacity().saturating_add(charge))
    }

    /// The part of `bytes`, kept beside the queue, that the lease covers.
    fn charge_for(&self, bytes: usize) -> usize {
        let free = self.capacity().max(BLOCK_MIN) / 8;
        bytes.saturating_sub(free).next_multiple_of(BESIDE_STEP)
    }

    /// How many more bytes the budget allows for slices.
    pub fn affordable(&self) -> usize {
        self.lease.budget().room_for(self.lease.bytes())
    }

    /// Whether another byte could be appended, with `beside` bytes kept beside the queue.
    pub fn takes_more(&self, beside: usize) -> bool {
        let growth = if self.len < self.room() { 0 } else { self.least_growth() };
        let total = self.capacity().saturating_add(growth).saturating_add(self.charge_for(beside));
        let more = total.saturating_sub(self.lease.bytes());
        more == 0 || self.lease.budget().allows(more, total)
    }

    // ----- writing -----

    /// Appends `data`. Returns `false`, and appends nothing, without memory for it.
    // Always inlined, for the row "data segment received" of the counted instructions.
    #[inline(always)]
    pub fn append(&mut self, data: &[u8]) -> bool {
        if let Some(store) = &mut self.store
            && let end = store.head.wrapping_add(self.len)
            && let Some(Block { storage: Storage::Owned(bytes), start, .. }) = store.blocks.back_mut()
            && let Some(room) = bytes.get_mut(end.wrapping_sub(*start)..)
            && let Some(room) = room.get_mut(..data.len())
        {
            room.copy_from_slice(data);
            self.len.grow(data.len());
            return true;
        }
        self.append_across(data)
    }

    #[inline(never)]
    fn append_across(&mut self, data: &[u8]) -> bool {
        let written = self.write_at(self.len, data);
        if written {
            self.len.grow(data.len());
        }
        written
    }

    /// Appends as much of `data` as the budget allows. Returns how much.
    #[cold]
    pub fn append_part(&mut self, data: &[u8]) -> usize {
        self.grow_in_part(self.len.saturating_add(data.len()));
        let part = data.get(..self.room().saturating_sub(self.len)).unwrap_or(data);
        if !part.is_empty() && self.append(part) { part.len() } else { 0 }
    }

    /// Writes `data` at `offset` from the first byte without counting it. Returns `false` without memory for
    /// it.
    pub fn write_at(&mut self, offset: usize, data: &[u8]) -> bool {
        let Some(end) = offset.checked_add(data.len()) else { return false };
        if !self.reserve(end) {
            return false;
        }
        if let Some(store) = &mut self.store {
            Store::write(store, offset, data);
        }
        true
    }

    /// Counts `bytes` more, written ahead with `write_at`.
    #[inline]
    pub fn extend(&mut self, bytes: usize) {
        self.len.grow(bytes);
    }

    /// Appends a slice without copying it; it keeps `pinned` bytes from being freed. Returns `false`, and
    /// appends nothing, if the budget does not allow that. Nothing may have been written ahead.
    pub fn append_bytes(&mut self, bytes: Bytes, pinned: usize) -> bool {
        self.append_storage(Storage::Shared(bytes, pinned))
    }

    /// Appends a slice of the program's memory without copying it.
    pub fn append_given(&mut self, bytes: Bytes) -> bool {
        self.append_storage(Storage::Given(Given(bytes)))
    }

    fn append_storage(&mut self, storage: Storage) -> bool {
        let mut block = Block { storage, start: 0, len: 0 };
        block.len = block.bytes().len();
        if !self.lease.budget().keeps_bytes() {
            return self.append(block.bytes());
        }
        if !self.resize(self.capacity().saturating_add(block.pinned())) {
            return false;
        }
        self.seal();
        let (queued, len) = (self.len, block.len);
        let store = self.store();
        block.start = store.head.wrapping_add(queued);
        store.push(block);
        self.len.grow(len);
        true
    }

    /// How many bytes the last block holds, if it is owned and not the first.
    pub fn held_by_last(&self) -> Option<usize> {
        let store = self.store.as_ref()?;
        let last = store.blocks.back().filter(|last| store.blocks.len() > 1 && last.is_owned())?;
        Some(last.index(store.head.wrapping_add(self.len)))
    }

    /// Ends the last block where its bytes end, so that another can follow.
    fn seal(&mut self) {
        let queued = self.len;
        loop {
            let store = self.store();
            let end = store.head.wrapping_add(queued);
            let Some(last) = store.blocks.back_mut() else { return };
            // More than its content if the block lies beyond the end.
            let used = last.index(end);
            if queued > 0 && used > 0 && used <= last.len {
                last.len = used;
                return;
            }
            self.pop_last();
        }
    }

    /// Makes room for `total` bytes from the first. Returns `false` if the budget does not allow it.
    #[inline]
    fn reserve(&mut self, total: usize) -> bool {
        total <= self.room() || self.grow(total)
    }

    /// The capacity from the first byte on.
    #[inline]
    fn room(&self) -> usize {
        self.store.as_ref().map_or(0, |store| match store.blocks.back() {
            Some(last) => last.end().wrapping_sub(store.head),
            None => store.capacity,
        })
    }

    #[cold]
    fn grow(&mut self, total: usize) -> bool {
        let before = self.store().blocks.len();
        while self.room() < total {
            if !self.grow_once(total, BLOCK) {
                // Return the blocks that did not suffice.
                while self.store().blocks.len() > before {
                    self.pop_last();
                }
                return false;
            }
        }
        true
    }

    /// Makes room for as many of `total` bytes from the first as the budget allows: in smaller steps where it
    /// refuses larger ones.
    fn grow_in_part(&mut self, total: usize) {
        let mut step = total.saturating_sub(self.room());
        while step > 0 {
            let reach = self.room().saturating_add(step);
            if self.grow_once(reach, block_size(step)) {
                step = step.min(total.saturating_sub(self.room()));
            } else {
                step /= 2;
            }
        }
    }

    /// Enlarges the last block, or adds one; behind a full block one of `size`.
    fn grow_once(&mut self, total: usize, size: usize) -> bool {
        if !self.lease.budget().keeps_bytes() {
            return self.resize(counted_capacity(total));
        }
        let missing = total.saturating_sub(self.room());
        match self.store().blocks.back() {
            Some(last) if last.is_owned() && last.pinned() < BLOCK => self.grow_last(total),
            Some(last) if last.is_owned() => self.push_owned(size),
            _ => self.push_owned(block_size(missing)),
        }
    }

    /// How much more capacity the next byte needs.
    fn least_growth(&self) -> usize {
        let total = self.len.saturating_add(1);
        if !self.lease.budget().keeps_bytes() {
            return counted_capacity(total).saturating_sub(self.capacity());
        }
        let Some(store) = &self.store else { return BLOCK_MIN };
        match store.blocks.back() {
            Some(last) if last.is_owned() && last.pinned() < BLOCK => {
                let from = if store.blocks.len() == 1 { store.head } else { last.start };
                let needed = total.saturating_sub(from.wrapping_sub(store.head));
                if needed <= last.pinned() / 2 { 0 } else { last.pinned() }
            }
            _ => BLOCK_MIN,
        }
    }

    /// Moves the content of the last block to its front, or to that of a larger one.
    fn grow_last(&mut self, total: usize) -> bool {
        let budget = self.lease.budget().clone();
        let store = self.store();
        let (head, capacity, is_first) = (store.head, store.capacity, store.blocks.len() == 1);
        let Some(last) = store.blocks.back() else { return false };
        let taken = if is_first { last.index(head) } else { 0 };
        let (start, old) = (last.start.wrapping_add(taken), last.pinned());
        let needed = total.saturating_sub(start.wrapping_sub(head));
        // A block is moved within itself only if that frees half of it, so each byte is moved at most once on
        // average.
        let size = if needed <= old / 2 { old } else { block_size(needed.max(old.saturating_add(1))) };
        if !self.resize(capacity.saturating_sub(old).saturating_add(size)) {
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
        if !self.resize(self.capacity().saturating_add(size)) {
            return false;
        }
        let storage = Storage::Owned(self.lease.budget().take_block(size));
        let store = self.store();
        let start = store.blocks.back().map_or(store.head, Block::end);
        store.push(Block { storage, start, len: size });
        true
    }

    /// Makes the lease cover this capacity, and what is kept beside it.
    fn resize(&mut self, capacity: usize) -> bool {
        let resized = self.lease.resize(capacity.saturating_add(self.beside()));
        if resized {
            self.store().capacity = capacity;
        }
        resized
    }

    // ----- reading -----

    /// Remembers the position of the byte at `offset` for [`slices`](Self::slices). Returns whether `len`
    /// bytes lie there in one slice.
    #[inline]
    pub fn seek(&mut self, offset: usize, len: u64) -> bool {
        let Some(store) = &mut self.store else { return false };
        let place = store.head.wrapping_add(offset);
        store.at = store.find(place);
        let found = store.blocks.get(store.at);
        found.is_some_and(|block| len <= block.len.saturating_sub(block.index(place)) as u64)
    }

    /// How many bytes two slices from `offset` on cover.
    pub fn reach(&self, offset: usize) -> usize {
        self.slices(offset, self.len.saturating_sub(offset)).iter().map(|slice| slice.len()).sum()
    }

    /// `len` bytes from `offset`, in two slices; fewer if the second one ends, and at most 128 KiB if bytes
    /// are not kept.
    #[inline]
    pub fn slices(&self, offset: usize, len: usize) -> [&[u8]; 2] {
        let Some(store) = &self.store else { return [&[], &[]] };
        let place = store.head.wrapping_add(offset);
        // Mostly all of them lie in the block that was last sought.
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
        let rest = store.blocks.get(at.saturating_add(1));
        [first, rest.map_or(&[], |next| next.slice(next.start, len.saturating_sub(first.len())))]
    }

    /// All bytes in order, slice by slice.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let left = self.len.saturating_sub(at);
            let store = self.store.as_ref().filter(|_| left > 0)?;
            let place = store.head.wrapping_add(at);
            let slice = match store.blocks.get(store.index_of(place)) {
                Some(block) => block.slice(place, left),
                None => ZEROS.get(..left).unwrap_or(&ZEROS),
            };
            at = at.saturating_add(slice.len());
            Some(slice)
        })
    }

    /// Copies the first bytes into `into`, as many as there are. Returns the number.
    #[inline]
    pub fn copy_to(&self, into: &mut [u8]) -> usize {
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

    /// Fills `into` from more than one block; there are enough bytes.
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

    /// Takes at most `max` bytes off the front in one slice; call again for the rest. `is_tidy`: nothing was
    /// written ahead.
    pub fn take(&mut self, max: usize, is_tidy: bool) -> Bytes {
        let Some(store) = &mut self.store else { return Bytes::new() };
        let (place, end) = (store.head, store.head.wrapping_add(self.len));
        let Some(first) = store.blocks.front_mut() else {
            let zeros = Bytes::from_static(ZEROS.get(..max.min(self.len)).unwrap_or(&ZEROS));
            self.advance(zeros.len());
            return zeros;
        };
        let written = first.index(end).min(first.len);
        let held = written.saturating_sub(first.index(place));
        // Bytes written ahead must stay writable.
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
        let end = at.saturating_add(len);
        let taken = match &first.storage {
            Storage::Shared(bytes, _) | Storage::Given(Given(bytes)) if end <= bytes.len() => {
                bytes.slice(at..end)
            }
            _ => Bytes::copy_from_slice(first.slice(place, len)),
        };
        self.advance(taken.len());
        taken
    }

    /// Takes `bytes` off the front and frees finished blocks.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len);
        let Some(store) = &mut self.store else { return };
        store.head = store.head.wrapping_add(bytes);
        self.len.shrink(bytes);
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

    /// Begins at the front of the block again. Bytes written ahead are lost; the queue must be empty
    /// otherwise.
    #[inline]
    pub fn rewind(&mut self) {
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

    /// Frees what the counted bytes do not need. Bytes written ahead are lost.
    pub fn shrink(&mut self) {
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

    /// Frees all memory. The content is lost.
    pub fn release(&mut self) {
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
    /// Does not show the bytes: they are the application's.
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

/// The bytes that are queued, and the sizes of the blocks around them. Whatever else a block holds is never
/// written: it may be another connection's.
impl Form for Queue {
    fn write(&self, out: &mut Writer) {
        let Self { store, len, lease } = self;
        lease.write(out);
        len.write(out);
        store.write(out);
        self.write_bytes(0, *len, out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let (lease, len) = (Lease::read(input)?, usize::read(input)?);
        input.lend(Arc::new(Pinnable(lease.bytes())));
        let store = Option::<Box<Store>>::read(input)?;
        let mut queue = Self { store, len, lease };
        let keeps = queue.budget().keeps_bytes();
        let fits = queue
            .store
            .as_ref()
            .map_or(len == 0, |store| store.capacity <= queue.lease.bytes() && store.holds(len, keeps));
        if !fits {
            return Err(FormError::Invariant("Queue"));
        }
        queue.read_bytes(0, len, input)?;
        Ok(queue)
    }
}

impl Queue {
    /// Writes `len` bytes from `offset` on, if bytes are kept.
    pub(super) fn write_bytes(&self, mut offset: usize, mut len: usize, out: &mut Writer) {
        while self.budget().keeps_bytes() && len > 0 {
            let before = len;
            for slice in self.slices(offset, len) {
                out.extend_from_slice(slice);
                offset = offset.saturating_add(slice.len());
                len = len.saturating_sub(slice.len());
            }
            debug_assert!(len < before, "bytes of the queue that no block has");
            if len == before {
                break;
            }
        }
    }

    /// Reads them into blocks that are there.
    pub(super) fn read_bytes(
        &mut self,
        offset: usize,
        len: usize,
        input: &mut Reader<'_>,
    ) -> Result<(), FormError> {
        let end = offset.checked_add(len).filter(|&end| end <= self.room());
        if end.is_none() {
            return Err(FormError::Invariant("Queue"));
        }
        match &mut self.store {
            Some(store) if len > 0 && !store.blocks.is_empty() => store.fill(offset, input.bytes(len)?),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
