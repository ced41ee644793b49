//! Queues and receive buffers in sizes at and beside the edges of blocks, with as much memory as they need,
//! or nearly.

use ackclock_wire::SeqNum;
use bytes::Bytes;

use crate::budget::{BLOCK, Budget};
use crate::buffer::{Queue, ReceiveBuffer};
use crate::position::Position;
use crate::walks::{Walk, check};

const STEPS: u64 = 60;

#[test]
fn buffers_go_as_before() {
    check("buffer/tests/walks.txt", 50, |walk| {
        fill_a_queue(walk);
        receive(walk);
    });
}

/// Bytes that show their place in a stream.
fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|place| (place.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
}

fn size(walk: &mut Walk) -> usize {
    let edge = walk.pick(&[0, 1, 100, 1460, 2048, 4096, 8192, BLOCK / 2, BLOCK, BLOCK, 2 * BLOCK]);
    (edge + walk.pick(&[0, 0, 1, 2])).saturating_sub(walk.pick(&[0, 0, 0, 2]))
}

fn budget(walk: &mut Walk) -> Budget {
    Budget::with(walk.pick(&[1 << 26, 1 << 26, 5 * BLOCK, BLOCK + 4096]), !walk.one_in(5))
}

fn fill_a_queue(walk: &mut Walk) {
    let budget = budget(walk);
    let mut queue = Queue::new(&budget);
    let mut written = 0;
    let mut given = Vec::new();
    for _ in 0..STEPS {
        queue_step(walk, &mut queue, &mut written, &mut given);
        walk.see(&(&queue, queue.beside(), queue.held_by_last(), budget.used()));
        let all = queue.len();
        for slice in queue.chunks() {
            walk.see_bytes(slice);
        }
        // A part that begins in one block, and one that ends in another.
        for (from, len) in [(0, all), (all / 2, all - all / 2), (all.saturating_sub(BLOCK), all.min(BLOCK))] {
            let in_one = walk.one_in(2).then(|| queue.seek(from, len as u64));
            let lens = queue.slices(from, len).map(<[u8]>::len);
            walk.see(&(in_one, queue.reach(from), lens));
        }
    }
}

fn queue_step(walk: &mut Walk, queue: &mut Queue, written: &mut usize, given: &mut Vec<Bytes>) {
    let len = size(walk);
    let data = bytes(*written, len);
    let took = match walk.below(12) {
        0..=2 => queue.append(&data),
        3 => {
            let pinned = walk.pick(&[len, len.max(BLOCK), 3 * len]);
            queue.append_bytes(Bytes::from(data), pinned)
        }
        4 => {
            // Beyond a gap, which fills while a reader takes what is before it.
            let gap = walk.pick(&[1, 100, 1460, 4096]);
            let stored = queue.write_at(queue.len() + gap, &data);
            if walk.one_in(2) {
                walk.see_bytes(&queue.take(len, false));
            }
            let filled = stored && queue.append(&bytes(*written + len, gap));
            if filled {
                queue.extend(len);
                *written += gap;
            }
            filled
        }
        what => {
            match what {
                5 | 6 => {
                    let mut into = vec![0; len];
                    let n = queue.copy_to(&mut into);
                    walk.see_bytes(&into[..n]);
                    queue.advance(n);
                }
                7 => queue.advance(queue.len()),
                8 => {
                    let taken = queue.take(len, true);
                    walk.see_bytes(&taken);
                    given.push(taken);
                }
                9 => queue.shrink(),
                10 => {
                    if queue.len() == 0 {
                        queue.rewind();
                    }
                    given.clear();
                }
                _ => {
                    let kept = queue.keep_beside(walk.pick(&[0, 511, 512, 513, 1536, 1537, 8192, 8193, len]));
                    walk.see(&kept);
                }
            }
            return;
        }
    };
    walk.see(&took);
    *written += if took { len } else { 0 };
}

fn receive(walk: &mut Walk) {
    let budget = budget(walk);
    let first = Position::initial(SeqNum::new(u32::MAX - 5000));
    let mut buffer = ReceiveBuffer::new(first, &budget);
    let mut next = first;
    for _ in 0..STEPS {
        receive_step(walk, &mut buffer, &mut next);
        walk.see(&(&buffer, budget.used(), buffer.has_gap(), buffer.readable(), buffer.can_grow()));
        let asked = next + walk.below(5) * 100;
        let reported = walk.one_in(2).then_some(asked);
        let most = walk.pick(&[1, 3, 4]);
        walk.see(&(buffer.holds_ahead(asked), buffer.sack_blocks(reported, most)));
    }
}

fn receive_step(walk: &mut Walk, buffer: &mut ReceiveBuffer, next: &mut Position) {
    match walk.below(12) {
        0..=5 => {
            let start = match walk.below(3) {
                0 => *next,
                1 => *next + walk.pick(&[1, 99, 100, 101, 200, 300, 400]),
                _ => next.back(walk.pick(&[1, 100, 101])),
            };
            let len = walk.pick(&[0, 1, 99, 100, 100, 101, 200, 1460, BLOCK / 2 - 1, BLOCK / 2, BLOCK]);
            let whole = Bytes::from(bytes(start.since(Position::default()) as usize, len + 40));
            let received = buffer.insert(start, &whole[40..], walk.one_in(2).then_some(&whole));
            *next += received.advanced;
            walk.see(&received);
        }
        6 => {
            // Every second byte of a stretch.
            for place in 0..walk.pick(&[4, 12, 13, 40]) {
                let start = *next + 1 + 2 * place;
                walk.see(&buffer.insert(start, &[7], None));
            }
        }
        7 | 8 => {
            let mut into = vec![0; size(walk)];
            let n = buffer.peek(&mut into);
            walk.see_bytes(&into[..n]);
            buffer.consume(n);
        }
        9 => {
            let most = size(walk);
            walk.see_bytes(&buffer.take(most));
        }
        10 => buffer.release_if_empty(),
        _ => match walk.below(4) {
            0 => buffer.finish(),
            1 => buffer.clear(),
            2 if buffer.readable() == 0 && !buffer.has_gap() => {
                *next += 1;
                buffer.restart(*next);
            }
            _ => {
                for slice in buffer.slices() {
                    walk.see_bytes(slice);
                }
            }
        },
    }
}
