//! Reassembly: bytes in order to read, bytes ahead of a gap to keep (RFC 9293 SHLD-31).
//!
//! The list of ranges beyond gaps is memory too: a peer that sends every second byte makes it forty times as
//! large as the bytes sent. The budget covers it together with the queue. Up to an eighth of the queue's size
//! is free, so a transfer with some losses never touches the budget. The rest is leased in steps. A segment
//! that would begin a range without a lease is dropped as if lost.

use ackclock_wire::SackBlocks;
use bytes::Bytes;

use super::block_order::BlockOrder;
use super::{Queue, RangeSet};
use crate::budget::{BLOCK, Budget};
use crate::position::Position;
use ackclock_form::{Form, FormError, Reader, Writer};

/// Received bytes of one connection.
///
/// Out-of-order bytes lie in the queue at the position from which they will be read. Where segments overlap
/// and disagree, the byte received first stands, on every path.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    queue: Queue,
    next: Position,
    ahead: RangeSet,
    /// Allocated at the first gap.
    order: Option<Box<BlockOrder>>,
}

/// The shortest text whose packet is kept instead of copied: half of a block.
const KEPT_MIN: usize = BLOCK / 2;

/// The outcome of a segment's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes that became readable, including those that had waited beyond a gap.
    pub advanced: u64,
    /// Bytes received before.
    pub duplicate: u64,
    /// The first stretch of duplicate bytes.
    pub repeated: Option<(Position, Position)>,
    /// Whether the text lies beyond a gap.
    pub out_of_order: bool,
    /// Whether text was dropped for lack of memory or of room in the list of ranges: all of it, or all behind
    /// what advanced.
    pub dropped: bool,
}

impl ReceiveBuffer {
    /// The most ranges beyond gaps. Segments that would begin another are dropped, as if lost.
    pub const RANGES_MAX: usize = 1024;

    /// A buffer whose first byte will be at `next`.
    pub fn new(next: Position, budget: &Budget) -> Self {
        Self { queue: Queue::new(budget), next, ahead: RangeSet::default(), order: None }
    }

    /// Restarts before any data: the first byte will be at `next`.
    pub fn restart(&mut self, next: Position) {
        debug_assert!(self.queue.len() == 0 && self.ahead.is_empty());
        self.next = next;
    }

    /// Bytes that can be read.
    #[inline]
    pub fn readable(&self) -> usize {
        self.queue.len()
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.queue.capacity()
    }

    /// Whether bytes wait beyond a gap.
    #[inline]
    pub fn has_gap(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Takes text at `start`, trimmed to the window by the caller. If it lies in a `block` that others do not
    /// write to, the block is kept instead of a copy, provided that the text is at least half of it.
    #[inline]
    pub fn insert(&mut self, start: Position, data: &[u8], block: Option<&Bytes>) -> Received {
        let reaches_ahead =
            || self.ahead.first().is_some_and(|(first, _)| start + data.len() as u64 >= first);
        if start == self.next && !reaches_ahead() {
            // The common case: the next in order. What waits beyond a gap, if anything, keeps waiting.
            let taken = match block {
                Some(block) if data.len() >= KEPT_MIN && self.ahead.is_empty() => {
                    self.queue.append_bytes(block.slice_ref(data), block.len().max(BLOCK))
                }
                _ => self.queue.append(data),
            };
            if !taken {
                return self.insert_part(data);
            }
            self.next += data.len() as u64;
            return Received { advanced: data.len() as u64, ..Received::default() };
        }
        self.insert_around_gaps(start, data)
    }

    /// Takes as much of the next text as the budget allows.
    #[cold]
    fn insert_part(&mut self, data: &[u8]) -> Received {
        let taken = self.queue.append_part(data);
        self.next += taken as u64;
        Received { advanced: taken as u64, dropped: taken < data.len(), ..Received::default() }
    }

    fn insert_around_gaps(&mut self, start: Position, data: &[u8]) -> Received {
        let end = start + data.len() as u64;
        let from = start.max(self.next);
        if from >= end {
            return Received {
                duplicate: data.len() as u64,
                repeated: (start < end).then_some((start, end)),
                ..Received::default()
            };
        }
        let repeated = self.ahead.first_overlap(from, end);
        let touches = |at| self.ahead.containing(at).is_some();
        let begins_range = || from > self.next && !touches(from.back(1)) && !touches(from) && !touches(end);
        let fits = self.ahead.len() < Self::RANGES_MAX
            && self.queue.keep_beside(Self::bytes_beside(self.ahead.len().saturating_add(1)));
        if !fits && begins_range() {
            return Received { out_of_order: true, dropped: true, ..Received::default() };
        }
        let mut fresh = 0_usize;
        let mut fits = true;
        let (queue, next) = (&mut self.queue, self.next);
        self.ahead.for_each_gap(from, end, |gap, until| {
            let offset = queue.len().saturating_add(gap.index_from(next));
            let part = data.get(gap.index_from(start)..until.index_from(start)).unwrap_or_default();
            fits = fits && queue.write_at(offset, part);
            fresh = part.len().saturating_add(fresh);
        });
        if !fits {
            return Received { out_of_order: from > self.next, dropped: true, ..Received::default() };
        }
        self.ahead.insert(from, end);
        let advanced = self.take_in_order();
        let order = self.order.get_or_insert_default();
        match self.ahead.containing(from) {
            Some(range) => order.touch(range),
            None => order.remove_before(self.next),
        }
        Received {
            advanced,
            duplicate: data.len().saturating_sub(fresh) as u64,
            repeated,
            out_of_order: from > next,
            dropped: false,
        }
    }

    /// Makes bytes readable that no gap precedes any more.
    fn take_in_order(&mut self) -> u64 {
        let Some((_, end)) = self.ahead.first().filter(|&(start, _)| start <= self.next) else { return 0 };
        let advanced = end.since(self.next);
        self.queue.extend(end.index_from(self.next));
        self.next = end;
        self.ahead.remove_before(end);
        if self.queue.beside() > 0 {
            self.queue.keep_beside(Self::bytes_beside(self.ahead.len()));
        }
        advanced
    }

    /// The most bytes that `ranges` ranges beyond a gap take, with their order.
    fn bytes_beside(ranges: usize) -> usize {
        if ranges == 0 { 0 } else { RangeSet::bytes_of(ranges).saturating_add(BlockOrder::bytes_of(ranges)) }
    }

    /// At most `max` SACK blocks: the one that contains `first`, if any, then the most recently touched
    /// (RFC 2018 §4).
    pub fn sack_blocks(&self, first: Option<Position>, max: usize) -> SackBlocks {
        self.order.as_ref().map(|order| order.blocks(&self.ahead, first, max)).unwrap_or_default()
    }

    /// Whether the byte at `place` was received and lies beyond a gap.
    pub fn holds_ahead(&self, place: Position) -> bool {
        self.ahead.containing(place).is_some()
    }

    /// Copies readable bytes out without taking them.
    pub fn peek(&self, into: &mut [u8]) -> usize {
        self.queue.copy_to(into)
    }

    /// The readable bytes in place, slice by slice.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.queue.chunks()
    }

    /// Takes at most `max` readable bytes out in one slice.
    pub fn take(&mut self, max: usize) -> Bytes {
        let taken = self.queue.take(max, self.ahead.is_empty());
        self.rewind_if_empty();
        taken
    }

    /// Takes readable bytes out.
    pub fn consume(&mut self, bytes: usize) {
        self.queue.advance(bytes);
        self.rewind_if_empty();
    }

    #[inline]
    fn rewind_if_empty(&mut self) {
        if self.queue.len() == 0 && self.ahead.is_empty() {
            // A reader that keeps up finds its bytes in the same few cache lines.
            self.queue.rewind();
        }
    }

    /// Whether another byte could be stored for each byte of a window.
    pub fn can_grow(&self) -> bool {
        !self.queue.budget().under_pressure()
    }

    /// Frees the memory if the buffer is empty.
    pub fn release_if_empty(&mut self) {
        if self.queue.len() == 0 && self.ahead.is_empty() {
            self.clear();
        }
    }

    /// The stream ends at `end`: forgets what is held from there on.
    pub fn end_at(&mut self, end: Position) {
        if self.ahead.is_empty() {
            return;
        }
        self.ahead.remove(end, end + u64::MAX);
        if self.ahead.is_empty() {
            return self.finish();
        }
        if let Some(order) = &mut self.order {
            order.remove_from(end);
        }
        self.queue.keep_beside(Self::bytes_beside(self.ahead.len()));
    }

    /// Nothing more will arrive. Bytes in order can still be read; those beyond a gap never will be, and
    /// their memory is freed.
    pub fn finish(&mut self) {
        self.ahead.clear();
        self.order = None;
        self.queue.keep_beside(0);
        self.queue.shrink();
    }

    /// Drops what waits beyond gaps and what could be read.
    pub fn clear(&mut self) {
        self.ahead.clear();
        self.order = None;
        self.queue.release();
    }
}

/// The bytes beyond gaps lie in the queue beyond its length, so that only this buffer knows them.
impl Form for ReceiveBuffer {
    fn write(&self, out: &mut Writer) {
        let Self { queue, next, ahead, order } = self;
        queue.write(out);
        next.write(out);
        ahead.write(out);
        order.write(out);
        for (start, end) in ahead.descending() {
            queue.write_bytes(queue.len().saturating_add(offset(*next, start)), offset(start, end), out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let (queue, next) = (Queue::read(input)?, Form::read(input)?);
        let (ahead, order) = (RangeSet::read(input)?, Form::read(input)?);
        let mut read = Self { queue, next, ahead, order };
        let last = read.ahead.descending().last();
        if read.ahead.len() > Self::RANGES_MAX || last.is_some_and(|(start, _)| start <= next) {
            return Err(FormError::Invariant("ReceiveBuffer"));
        }
        for (start, end) in read.ahead.descending() {
            let at = read.queue.len().saturating_add(offset(next, start));
            read.queue.read_bytes(at, offset(start, end), input)?;
        }
        Ok(read)
    }
}

fn offset(from: Position, to: Position) -> usize {
    usize::try_from(to.since(from)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use ackclock_wire::SeqNum;
    use proptest::prelude::*;

    use super::*;

    fn at(offset: u64) -> Position {
        Position::initial(SeqNum::new(u32::MAX - 100)) + offset
    }

    fn buffer() -> ReceiveBuffer {
        ReceiveBuffer::new(at(0), &Budget::new(1 << 20))
    }

    fn read_all(buffer: &mut ReceiveBuffer) -> Vec<u8> {
        let mut out = vec![0; buffer.readable()];
        let len = buffer.peek(&mut out);
        buffer.consume(len);
        out
    }

    #[test]
    fn first_received_byte_stands_where_segments_disagree() {
        let mut buffer = buffer();
        buffer.insert(at(4), b"EFGH", None);
        let received = buffer.insert(at(0), b"abcdefghij", None);
        let repeated = Some((at(4), at(8)));
        assert_eq!(received, Received { advanced: 10, duplicate: 4, repeated, ..Received::default() });
        assert_eq!(read_all(&mut buffer), b"abcdEFGHij");
    }

    #[test]
    fn sack_blocks_report_the_newest_range_first() {
        let mut buffer = buffer();
        for start in [10, 30, 20] {
            buffer.insert(at(start), b"xx", None);
        }
        let blocks = buffer.sack_blocks(None, 3);
        let starts: Vec<_> = blocks.as_slice().iter().map(|&(left, _)| left).collect();
        assert_eq!(starts, [at(20).seq(), at(30).seq(), at(10).seq()]);
        buffer.insert(at(12), &[0; 8], None);
        let blocks = buffer.sack_blocks(None, 3);
        assert_eq!(blocks.as_slice(), [(at(10).seq(), at(22).seq()), (at(30).seq(), at(32).seq())]);
    }

    #[test]
    fn ranges_ahead_are_bounded() {
        let mut buffer = buffer();
        for k in 0..2 * ReceiveBuffer::RANGES_MAX as u64 {
            buffer.insert(at(2 + 2 * k), b"x", None);
        }
        assert_eq!(buffer.ahead.len(), ReceiveBuffer::RANGES_MAX);
        assert!(
            buffer.insert(at(1), b"y", None).advanced == 0 && buffer.insert(at(0), b"z", None).advanced == 3
        );
    }

    #[test]
    fn when_all_ranges_are_in_use_only_segments_that_touch_one_are_taken() {
        // Old and new in order, an end continued, a beginning preceded, bytes held, a new range before and
        // one after all others.
        for (start, data, taken) in [
            (1, &b"bc"[..], true),
            (12, b"x", true),
            (13, b"x", true),
            (10, b"x", true),
            (5, b"x", false),
            (9000, b"x", false),
        ] {
            let mut buffer = buffer();
            buffer.insert(at(0), b"ab", None);
            for k in 0..ReceiveBuffer::RANGES_MAX as u64 {
                buffer.insert(at(10 + 4 * k), b"xx", None);
            }
            assert_eq!(buffer.ahead.len(), ReceiveBuffer::RANGES_MAX);
            let received = buffer.insert(at(start), data, None);
            assert_eq!((received.dropped, received.advanced), (!taken, u64::from(start == 1)), "{start}");
            assert_eq!(received.out_of_order, start > 2, "{start}");
            assert_eq!(buffer.ahead.len(), ReceiveBuffer::RANGES_MAX);
        }
    }

    proptest! {
        /// Any order, overlap and repetition of segments delivers each byte once, in order, and as first
        /// received.
        #[test]
        fn any_arrival_order_delivers_the_stream(
            segments in prop::collection::vec((0u64..400, 1usize..60), 1..80), reads in any::<bool>(),
        ) {
            let stream: Vec<u8> = (0..500u32).map(|i| (i * 7 + 3) as u8).collect();
            let mut buffer = buffer();
            let mut have = vec![false; 500];
            let mut out = Vec::new();
            for (start, len) in segments {
                let text = &stream[start as usize..start as usize + len];
                let received = buffer.insert(at(start), text, None);
                prop_assert!(!received.dropped);
                let fresh = have[start as usize..start as usize + len].iter().filter(|h| !**h).count();
                prop_assert_eq!(received.duplicate, (len - fresh) as u64);
                have[start as usize..start as usize + len].fill(true);
                if reads { out.extend(read_all(&mut buffer)); }
            }
            out.extend(read_all(&mut buffer));
            let in_order = have.iter().take_while(|h| **h).count();
            prop_assert_eq!(&out[..], &stream[..in_order]);
        }
    }
}
