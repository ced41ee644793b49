//! A block of a queue: writable memory of the queue, or a shared slice.

use bytes::Bytes;

use crate::budget::Budget;
use crate::later::{self, Kept};

/// The storage of a block.
#[derive(Debug)]
pub(super) enum Storage {
    /// The queue's memory.
    Owned(Box<[u8]>),
    /// A slice that others may also hold, and how many bytes it keeps from being freed.
    Shared(Bytes, usize),
    /// A slice of the program's memory.
    Given(Given),
}

/// A slice whose destructor may be the program's.
#[derive(Debug)]
pub(super) struct Given(pub(super) Bytes);

impl Drop for Given {
    fn drop(&mut self) {
        later::keep(|| Kept::Slice(std::mem::take(&mut self.0)));
    }
}

/// A contiguous part of a queue.
#[derive(Debug)]
pub(super) struct Block {
    pub storage: Storage,
    /// The stream position of its first byte, which may have been taken already. It wraps.
    pub start: usize,
    /// Its extent in the stream: its capacity, or its content if another block follows.
    pub len: usize,
}

impl Block {
    /// All of it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(bytes) => bytes,
            Storage::Shared(bytes, _) | Storage::Given(Given(bytes)) => bytes,
        }
    }

    /// The index of a stream position in it; large if the position is before it.
    #[inline]
    pub fn index(&self, place: usize) -> usize {
        place.wrapping_sub(self.start)
    }

    /// The stream position after it.
    #[inline]
    pub fn end(&self) -> usize {
        self.start.wrapping_add(self.len)
    }

    #[inline]
    pub fn is_owned(&self) -> bool {
        matches!(self.storage, Storage::Owned(_))
    }

    /// Bytes that it keeps from being freed.
    #[inline]
    pub fn pinned(&self) -> usize {
        match &self.storage {
            Storage::Owned(bytes) => bytes.len(),
            Storage::Shared(_, pinned) => *pinned,
            Storage::Given(Given(bytes)) => bytes.len(),
        }
    }

    /// At most `max` bytes from a stream position on; none if the position is elsewhere.
    #[inline]
    pub fn slice(&self, place: usize, max: usize) -> &[u8] {
        let at = self.index(place);
        let end = at.saturating_add(max).min(self.len);
        self.bytes().get(at..end).unwrap_or_default()
    }
}

/// A lent block. It goes back to the free list when its last slice is dropped.
#[derive(Debug)]
pub(super) struct Lent {
    pub bytes: Box<[u8]>,
    pub budget: Budget,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.budget.put_block(std::mem::take(&mut self.bytes));
    }
}
