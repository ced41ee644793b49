//! Queues and receive buffers beside a naive model that keeps every byte, in sizes at and beside the edges of
//! blocks, with as much memory as they need, or nearly.

use std::collections::BTreeMap;

use ackclock_wire::{SackBlocks, SeqNum};
use bytes::Bytes;

use crate::budget::{BLOCK, Budget};
use crate::buffer::{Queue, ReceiveBuffer};
use crate::position::Position;
use crate::walks::{Walk, each};

const STEPS: u64 = 60;

/// Bytes that show their place in a stream.
fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|place| (place.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
}

fn size(walk: &mut Walk) -> usize {
    let edge = walk.pick(&[0, 1, 100, 1460, 2048, 4096, 8192, BLOCK / 2, BLOCK, BLOCK, 2 * BLOCK]);
    (edge + walk.pick(&[0, 0, 1, 2])).saturating_sub(walk.pick(&[0, 0, 0, 2]))
}

/// A budget, its limit, and whether it keeps bytes.
fn budget(walk: &mut Walk) -> (Budget, usize, bool) {
    let (limit, keeps) = (walk.pick(&[1 << 26, 1 << 26, 5 * BLOCK, BLOCK + 4096]), !walk.one_in(5));
    (Budget::with(limit, keeps), limit, keeps)
}

#[test]
fn a_queue_holds_what_a_vec_holds() {
    each(50, |walk| {
        let (budget, limit, keeps) = budget(walk);
        let mut model =
            Model { queue: Queue::new(&budget), held: Vec::new(), written: 0, given: Vec::new(), keeps };
        for _ in 0..STEPS {
            model.step(walk);
            model.check(walk, limit);
        }
        model.queue.release();
        assert_eq!(budget.used(), 0);
        for (given, expected) in model.given {
            assert_eq!(&given[..], expected, "a slice that was given away never changes");
        }
    });
}

/// A queue, and the bytes that should be in it.
struct Model {
    queue: Queue,
    held: Vec<u8>,
    /// The place in the stream of the next byte to write.
    written: usize,
    given: Vec<(Bytes, Vec<u8>)>,
    /// Otherwise it counts bytes, and returns zeros.
    keeps: bool,
}

impl Model {
    fn next(&mut self, len: usize) -> Vec<u8> {
        let data = bytes(self.written, len);
        self.written += len;
        data
    }

    fn put(&mut self, data: &[u8]) {
        if self.keeps {
            self.held.extend(data);
        } else {
            self.held.resize(self.held.len() + data.len(), 0);
        }
    }

    fn take(&mut self, most: usize, is_tidy: bool) {
        let taken = self.queue.take(most, is_tidy);
        assert!(taken.len() <= most.min(self.held.len()));
        assert_eq!(taken.is_empty(), most == 0 || self.held.is_empty());
        let expected: Vec<_> = self.held.drain(..taken.len()).collect();
        assert_eq!(&taken[..], expected);
        self.given.push((taken, expected));
    }

    fn step(&mut self, walk: &mut Walk) {
        let len = size(walk);
        match walk.below(12) {
            0..=2 => {
                let data = self.next(len);
                if self.queue.append(&data) {
                    self.put(&data);
                }
            }
            3 => {
                // A connection hands over no empty slice.
                let len = len.max(1);
                let data = self.next(len);
                let pinned = walk.pick(&[len, len.max(BLOCK), 3 * len]);
                if self.queue.append_bytes(Bytes::from(data.clone()), pinned) {
                    self.put(&data);
                }
            }
            4 => {
                // Beyond a gap, which fills while a reader takes what is before it.
                let data = self.next(walk.pick(&[1, 100, 1460, 4096]) + len);
                let (gap, ahead) = data.split_at(data.len() - len);
                let stored = self.queue.write_at(self.queue.len() + gap.len(), ahead);
                if walk.one_in(2) {
                    self.take(len, false);
                }
                if stored && self.queue.append(gap) {
                    self.queue.extend(len);
                    self.put(&data);
                }
            }
            5 | 6 => {
                let mut into = vec![0; len];
                let n = self.queue.copy_to(&mut into);
                assert_eq!(n, len.min(self.held.len()));
                self.queue.advance(n);
                assert!(self.held.drain(..n).eq(into[..n].iter().copied()));
            }
            7 => {
                self.queue.advance(self.queue.len());
                self.held.clear();
            }
            8 => self.take(len, true),
            9 => self.queue.shrink(),
            10 => {
                if self.held.is_empty() {
                    self.queue.rewind();
                }
            }
            _ => {
                let bytes = walk.pick(&[0, 511, 512, 513, 1536, 1537, 8192, 8193, len]);
                let before = self.queue.beside();
                // An eighth of the capacity is free, and the rest counts in steps of 1024.
                let free = self.queue.capacity().max(4096) / 8;
                let charge = bytes.saturating_sub(free).next_multiple_of(1024);
                let kept = self.queue.keep_beside(bytes);
                assert_eq!(self.queue.beside(), if kept { charge } else { before });
            }
        }
    }

    fn check(&mut self, walk: &mut Walk, limit: usize) {
        let Self { queue, held, keeps, .. } = self;
        assert_eq!(queue.len(), held.len());
        assert!(queue.chunks().flatten().eq(held.iter()));
        let used = queue.budget().used();
        assert!(used == queue.capacity() + queue.beside() && used <= limit, "{used}");
        assert!(queue.capacity() >= if *keeps { 1 } else { held.len() } || held.is_empty());
        // A part that begins in one block, and one that ends in another.
        let all = held.len();
        for (from, len) in [(0, all), (all / 2, all - all / 2), (all.saturating_sub(BLOCK), all.min(BLOCK))] {
            let in_one = walk.one_in(2) && queue.seek(from, len as u64);
            let [first, second] = queue.slices(from, len);
            let seen = [first, second].concat();
            assert_eq!(seen, held[from..from + seen.len()]);
            assert!(!in_one || first.len() == len);
            assert!(seen.len() == len || queue.reach(from) == seen.len());
            // Two blocks are more than one.
            assert!(!*keeps || len == 0 || !seen.is_empty());
        }
    }
}

#[test]
fn a_receive_buffer_reassembles_as_a_map_of_bytes_does() {
    each(50, |walk| {
        let (budget, limit, keeps) = budget(walk);
        let first = Position::initial(SeqNum::new(u32::MAX - 5000));
        let mut model = Reassembly {
            buffer: ReceiveBuffer::new(first, &budget),
            next: first,
            read: first,
            held: BTreeMap::new(),
            touched: Vec::new(),
            keeps,
            plenty: limit == 1 << 26,
        };
        for _ in 0..STEPS {
            model.step(walk);
            model.check(walk);
            assert!(budget.used() <= limit);
        }
        model.buffer.clear();
        assert_eq!(budget.used(), 0);
    });
}

/// A receive buffer, and what it should hold.
struct Reassembly {
    buffer: ReceiveBuffer,
    /// RCV.NXT.
    next: Position,
    /// The next byte to read.
    read: Position,
    /// Every byte from there on that was received.
    held: BTreeMap<Position, u8>,
    /// Where each segment beyond a gap began, the latest last.
    touched: Vec<Position>,
    keeps: bool,
    /// Whether memory never runs out.
    plenty: bool,
}

impl Reassembly {
    fn readable(&self) -> usize {
        self.next.since(self.read) as usize
    }

    /// The stretches of bytes beyond gaps.
    fn stretches(&self) -> Vec<(Position, Position)> {
        let mut found: Vec<(Position, Position)> = Vec::new();
        for (place, _) in self.held.range(self.next..) {
            match found.last_mut() {
                Some((_, end)) if *end == *place => *end += 1,
                _ => found.push((*place, *place + 1)),
            }
        }
        found
    }

    fn insert(&mut self, start: Position, data: &[u8], block: Option<&Bytes>) {
        let before = self.next;
        let end = start + data.len() as u64;
        let is_new = |place: &Position| *place >= before && !self.held.contains_key(place);
        let places = || (0..data.len() as u64).map(|offset| start + offset);
        let fresh = places().filter(is_new).count();
        // RFC 2883: all of a segment that is old, or the first stretch of what lies beyond a gap.
        let old = places().find(|place| *place >= before && !is_new(place));
        let repeated = match old {
            Some(from) => {
                let until = places().find(|place| *place > from && is_new(place));
                Some((from, until.unwrap_or(end)))
            }
            None => (start < end && end <= before).then_some((start, end)),
        };
        let received = self.buffer.insert(start, data, block);
        if received.dropped {
            assert!(!self.plenty, "there is memory for it");
            assert!(received.advanced == 0 || start == before);
            self.put(start, &data[..received.advanced as usize]);
            assert_eq!((received.duplicate, received.repeated), (0, None));
        } else {
            self.put(start, data);
            assert_eq!(received.duplicate, (data.len() - fresh) as u64);
            assert_eq!(received.repeated, repeated);
        }
        while self.held.contains_key(&self.next) {
            self.next += 1;
        }
        let from = start.max(before);
        assert_eq!(received.advanced, self.next.since(before));
        assert_eq!(received.out_of_order, from > before && from < end, "{start:?} {data:?}");
        if from >= self.next && from < end && !received.dropped {
            self.touched.push(from);
        }
    }

    fn put(&mut self, start: Position, data: &[u8]) {
        for (offset, byte) in data.iter().enumerate() {
            let place = start + offset as u64;
            if place >= self.next {
                // The byte received first stands.
                self.held.entry(place).or_insert(if self.keeps { *byte } else { 0 });
            }
        }
    }

    /// Bytes left the buffer, or were shown by it.
    fn expect(&mut self, seen: &[u8], are_taken: bool) {
        assert!(self.held.range(self.read..self.next).map(|(_, byte)| byte).take(seen.len()).eq(seen));
        if are_taken {
            self.read += seen.len() as u64;
            self.held = self.held.split_off(&self.read);
        }
    }

    fn step(&mut self, walk: &mut Walk) {
        match walk.below(12) {
            0..=5 => {
                let start = match walk.below(3) {
                    0 => self.next,
                    1 => self.next + walk.pick(&[1, 99, 100, 101, 200, 300, 400]),
                    _ => self.next.back(walk.pick(&[1, 100, 101])),
                };
                let len = walk.pick(&[0, 1, 99, 100, 100, 101, 200, 1460, BLOCK / 2 - 1, BLOCK / 2, BLOCK]);
                let whole = Bytes::from(bytes(start.since(Position::default()) as usize, len + 40));
                self.insert(start, &whole[40..], walk.one_in(2).then_some(&whole));
            }
            6 => {
                // Every second byte of a stretch.
                let next = self.next;
                for place in 0..walk.pick(&[4, 12, 13, 40]) {
                    self.insert(next + 1 + 2 * place, &[7], None);
                }
            }
            7 | 8 => {
                let mut into = vec![0; size(walk)];
                let n = self.buffer.peek(&mut into);
                assert_eq!(n, into.len().min(self.readable()));
                self.expect(&into[..n], true);
                self.buffer.consume(n);
            }
            9 => {
                let most = size(walk);
                let taken = self.buffer.take(most);
                assert!(taken.len() <= most && taken.is_empty() == (most == 0 || self.readable() == 0));
                self.expect(&taken, true);
            }
            10 => self.buffer.release_if_empty(),
            _ => match walk.below(4) {
                0 => {
                    self.buffer.finish();
                    self.held.split_off(&self.next);
                }
                1 => {
                    self.buffer.clear();
                    self.held.clear();
                    self.read = self.next;
                }
                2 if self.readable() == 0 && self.held.is_empty() => {
                    self.next += 1;
                    self.read = self.next;
                    self.buffer.restart(self.next);
                }
                _ => {
                    let all: Vec<_> = self.buffer.slices().flatten().copied().collect();
                    assert_eq!(all.len(), self.readable());
                    self.expect(&all, false);
                }
            },
        }
    }

    fn check(&self, walk: &mut Walk) {
        let buffer = &self.buffer;
        assert_eq!(buffer.readable(), self.readable());
        assert_eq!(buffer.has_gap(), self.held.len() > self.readable());
        let asked = self.next + walk.below(5) * 100;
        assert_eq!(buffer.holds_ahead(asked), asked >= self.next && self.held.contains_key(&asked));
        let reported = walk.one_in(2).then_some(asked);
        let most = walk.pick(&[1, 3, 4]);
        assert_eq!(buffer.sack_blocks(reported, most), self.blocks(reported, most));
    }

    /// RFC 2018 §4: the block that contains the segment just received, then those touched last.
    fn blocks(&self, first: Option<Position>, most: usize) -> SackBlocks {
        let stretches = self.stretches();
        let mut found = Vec::new();
        for place in first.iter().chain(self.touched.iter().rev()) {
            let around = stretches.iter().find(|(start, end)| start <= place && place < end);
            found.extend(around.filter(|stretch| !found.contains(stretch)));
        }
        let mut blocks = SackBlocks::default();
        for (start, end) in found.into_iter().take(most) {
            blocks.push(start.seq(), end.seq());
        }
        blocks
    }
}
