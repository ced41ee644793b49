//! The blocks of a queue, and finding a byte in them.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;

use super::block::{Block, Storage};
use crate::budget::BLOCK;

/// The blocks of a queue in use.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// Adjacent, without gaps. If the last one is owned, its extent is its whole length.
    pub blocks: VecDeque<Block>,
    /// The stream position of the first byte. It wraps.
    pub head: usize,
    /// The bytes that the blocks pin.
    pub capacity: usize,
    /// The index of the block last sought.
    pub at: usize,
}

/// The smallest block.
pub(super) const BLOCK_MIN: usize = 4096;
/// The content of a queue that keeps no bytes.
pub(super) static ZEROS: [u8; BLOCK] = [0; BLOCK];

impl Store {
    /// The index of the block at a stream position; the last one for positions beyond.
    pub fn index_of(&self, place: usize) -> usize {
        let Some(first) = self.blocks.front() else { return 0 };
        let (base, offset) = (first.start, first.index(place));
        self.blocks.partition_point(|block| block.start.wrapping_sub(base) <= offset).saturating_sub(1)
    }

    /// The same, starting at the block last sought.
    #[inline]
    pub fn find(&self, place: usize) -> usize {
        let sought = self.blocks.get(self.at).is_some_and(|block| block.index(place) < block.len);
        if sought { self.at } else { self.index_of(place) }
    }

    /// Writes to existing blocks.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let (mut place, mut rest) = (self.head.wrapping_add(offset), data);
        let first = self.index_of(place);
        for block in self.blocks.range_mut(first..) {
            let at = block.index(place);
            let Storage::Owned(bytes) = &mut block.storage else { break };
            let Some(room) = bytes.get_mut(at..) else { break };
            let (part, others) = rest.split_at(rest.len().min(room.len()));
            if let Some(room) = room.get_mut(..part.len()) {
                room.copy_from_slice(part);
            }
            (place, rest) = (place.wrapping_add(part.len()), others);
            if rest.is_empty() {
                break;
            }
        }
        debug_assert!(rest.is_empty() || self.blocks.is_empty(), "what was reserved can be written");
    }

    pub fn push(&mut self, block: Block) {
        if self.blocks.capacity() == 0 {
            // Most connections never need a second block.
            self.blocks.reserve_exact(1);
        }
        self.blocks.push_back(block);
    }

    /// Whether all of the first block was taken. The queue's last owned block is kept for what comes next.
    #[inline]
    pub fn is_done_with_first(&self) -> bool {
        self.blocks.front().is_some_and(|first| {
            first.index(self.head) >= first.len && (self.blocks.len() > 1 || !first.is_owned())
        })
    }

    /// Moves the content of an oversized block to a smaller one. Returns how much less that pins.
    pub fn shrink(&mut self, queued: usize) -> usize {
        let (head, end) = (self.head, self.head.wrapping_add(queued));
        let mut freed = 0_usize;
        for block in &mut self.blocks {
            let from = if block.index(head) < block.len { head } else { block.start };
            let held = block.slice(from, end.wrapping_sub(from));
            let (size, old) = (block_size(held.len()), block.pinned());
            if held.len() <= size && size < old {
                let mut smaller = vec![0; size].into_boxed_slice();
                if let Some(room) = smaller.get_mut(..held.len()) {
                    room.copy_from_slice(held);
                }
                *block = Block { start: from, len: held.len(), storage: Storage::Owned(smaller) };
                freed.grow(old.saturating_sub(size));
            }
        }
        if let Some(Block { storage: Storage::Owned(bytes), len, .. }) = self.blocks.back_mut() {
            *len = bytes.len();
        }
        freed
    }

    /// What is shown for bytes that are not kept.
    #[cold]
    pub fn zeros(&self, offset: usize, len: usize) -> [&[u8]; 2] {
        let len = len.min(self.capacity.saturating_sub(offset));
        let zeros = |len| ZEROS.get(..len).unwrap_or(&ZEROS);
        [zeros(len), zeros(len.saturating_sub(ZEROS.len()))]
    }
}

/// The size of a block for `bytes`, or for as many of them as one block holds.
pub(super) fn block_size(bytes: usize) -> usize {
    bytes.clamp(BLOCK_MIN, BLOCK).next_power_of_two()
}
