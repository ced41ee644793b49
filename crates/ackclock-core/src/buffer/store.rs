//! The blocks of a queue, and finding a byte in them.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;

use super::block::{Block, Given, Storage};
use crate::budget::BLOCK;
use ackclock_form::{Form, FormError, Reader, Writer};

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

    /// The index of the block at a stream position, sought from the block last found.
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

    /// The slices shown for bytes that are not kept.
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

/// How many bytes the blocks of a queue that is read may pin: what its lease holds.
pub(super) struct Pinnable(pub usize);

/// The blocks without their bytes.
impl Form for Store {
    fn write(&self, out: &mut Writer) {
        // Which block was sought last only saves a search.
        let Self { blocks, head, capacity, at: _ } = self;
        head.write(out);
        capacity.write(out);
        blocks.len().write(out);
        for block in blocks {
            let Block { storage, start, len } = block;
            out.push(match storage {
                Storage::Owned(_) => OWNED,
                Storage::Shared(..) => SHARED,
                Storage::Given(_) => GIVEN,
            });
            start.write(out);
            len.write(out);
            block.bytes().len().write(out);
            block.pinned().write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let (head, capacity) = (usize::read(input)?, usize::read(input)?);
        let pinnable = input.lent::<Pinnable>().map_or(0, |pinnable| pinnable.0);
        let mut store = Self { blocks: VecDeque::new(), head, capacity, at: 0 };
        let (mut pinned, mut end) = (0_usize, None);
        for _ in 0..usize::read(input)? {
            let (kind, start, len) = (input.byte()?, usize::read(input)?, usize::read(input)?);
            let (size, pins) = (usize::read(input)?, usize::read(input)?);
            pinned = pinned.saturating_add(pins);
            let adjoins = end.is_none_or(|end: usize| end == start);
            if !adjoins || len == 0 || len > size || size > pins || pinned > pinnable.min(capacity) {
                return Err(FormError::Invariant("Block"));
            }
            let bytes = vec![0; size];
            let storage = match kind {
                OWNED if pins == size && size <= BLOCK => Storage::Owned(bytes.into_boxed_slice()),
                SHARED => Storage::Shared(bytes.into(), pins),
                GIVEN if pins == size => Storage::Given(Given(bytes.into())),
                _ => return Err(FormError::Invariant("Block")),
            };
            let block = Block { storage, start, len };
            end = Some(block.end());
            store.blocks.push_back(block);
        }
        let last = store.blocks.back();
        let whole = last.is_none_or(|last| !last.is_owned() || last.len == last.bytes().len());
        let counted = store.blocks.is_empty() || pinned == capacity;
        if whole && counted { Ok(store) } else { Err(FormError::Invariant("Store")) }
    }
}

impl Store {
    /// Whether the blocks have room for `queued` bytes, if they keep any, and only as many as they should.
    pub fn holds(&self, queued: usize, keeps_bytes: bool) -> bool {
        let (Some(first), Some(last)) = (self.blocks.front(), self.blocks.back()) else {
            return queued <= self.capacity && (!keeps_bytes || self.capacity == 0);
        };
        let (from, room) = (first.index(self.head), last.end().wrapping_sub(first.start));
        keeps_bytes && from <= first.len && from.saturating_add(queued) <= room
    }

    /// Puts bytes into blocks that are there, of whatever kind.
    pub fn fill(&mut self, offset: usize, bytes: &[u8]) -> Result<(), FormError> {
        let (mut place, mut rest) = (self.head.wrapping_add(offset), bytes);
        let first = self.index_of(place);
        for block in self.blocks.range_mut(first..) {
            let (at, len) = (block.index(place), block.len);
            let taken = rest.len().min(len.saturating_sub(at));
            let (part, others) = rest.split_at(taken);
            let copy = |into: &mut [u8]| {
                let room = at.checked_add(taken).and_then(|end| into.get_mut(at..end));
                room.map(|room| room.copy_from_slice(part)).ok_or(FormError::Invariant("Block"))
            };
            match &mut block.storage {
                Storage::Owned(bytes) => copy(bytes)?,
                Storage::Shared(bytes, _) | Storage::Given(Given(bytes)) => {
                    let mut whole = Vec::from(std::mem::take(bytes));
                    copy(&mut whole)?;
                    *bytes = whole.into();
                }
            }
            (place, rest) = (place.wrapping_add(taken), others);
            if rest.is_empty() {
                break;
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(FormError::Invariant("Store")) }
    }
}

const OWNED: u8 = 0;
const SHARED: u8 = 1;
const GIVEN: u8 = 2;
