//! A block of a queue: memory of the queue's own that is written to, or a slice of somebody else's.

use bytes::Bytes;

use crate::budget::Budget;

/// What a part of a queue lies in.
#[derive(Debug)]
pub(super) enum Storage {
    /// Memory of the queue's own.
    Owned(Box<[u8]>),
    /// A slice that others may hold too, and how many bytes it keeps from being freed.
    Shared(Bytes, usize),
}

/// A stretch of a queue that lies in one piece.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) storage: Storage,
    /// The place of its first byte in the stream, which may have been taken already. It wraps.
    pub(super) start: usize,
    /// How much of the stream it covers: what it has room for, or what it holds if another one follows.
    pub(super) len: usize,
}

impl Block {
    /// All of it.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(bytes) => bytes,
            Storage::Shared(bytes, _) => bytes,
        }
    }

    /// The index of a place of the stream in it; large if the place lies before it.
    #[inline]
    pub(super) fn index(&self, place: usize) -> usize {
        place.wrapping_sub(self.start)
    }

    /// The place of the stream behind it.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.start.wrapping_add(self.len)
    }

    #[inline]
    pub(super) fn is_owned(&self) -> bool {
        matches!(self.storage, Storage::Owned(_))
    }

    /// Bytes that cannot be freed because of it.
    #[inline]
    pub(super) fn pinned(&self) -> usize {
        match &self.storage {
            Storage::Owned(bytes) => bytes.len(),
            Storage::Shared(_, pinned) => *pinned,
        }
    }

    /// At most `max` bytes from a place of the stream on; none if it lies elsewhere.
    #[inline]
    pub(super) fn slice(&self, place: usize, max: usize) -> &[u8] {
        let at = self.index(place);
        let end = at.saturating_add(max).min(self.len);
        self.bytes().get(at..end).unwrap_or_default()
    }
}

/// A block that was given away: it goes back to the free list when the last slice of it is dropped.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) bytes: Box<[u8]>,
    pub(super) budget: Budget,
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
