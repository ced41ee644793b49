use proptest::prelude::*;

use super::*;

/// An operation on a queue.
#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    AppendBytes(usize),
    /// Written ahead behind a gap, which is then filled.
    Ahead(usize, usize),
    Read(usize),
    Take(usize),
    /// Read at an offset, as for a segment.
    Look(usize, usize),
    Shrink,
    Rewind,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1usize..300, 300usize..6000, 30_000usize..140_000];
    prop_oneof![
        size.clone().prop_map(Step::Append),
        size.clone().prop_map(Step::AppendBytes),
        (size.clone(), size.clone()).prop_map(|(gap, len)| Step::Ahead(gap, len)),
        size.clone().prop_map(Step::Read),
        size.clone().prop_map(Step::Take),
        (size.clone(), size).prop_map(|(from, len)| Step::Look(from, len)),
        Just(Step::Shrink),
        Just(Step::Rewind),
    ]
}

/// Bytes that identify their position.
#[derive(Default)]
struct Source(u64);

impl Source {
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len)
            .map(|_| {
                self.0 += 1;
                (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
            })
            .collect()
    }
}

fn blocks(queue: &Queue) -> Vec<&Block> {
    queue.store.iter().flat_map(|store| &store.blocks).collect()
}

/// The memory that a queue's blocks pin, counted one by one, equals the queue's own count and the budget's.
fn check_account(queue: &Queue) {
    let blocks = blocks(queue);
    let pinned: usize = blocks.iter().map(|block| block.pinned()).sum();
    assert_eq!(queue.capacity(), pinned);
    assert_eq!(queue.budget().used(), pinned + queue.beside());
    let mut place = None;
    for block in &blocks {
        assert!(place.is_none_or(|place| place == block.start), "blocks lie side by side");
        place = Some(block.end());
    }
    if let Some(Block { storage: Storage::Owned(bytes), len, .. }) = blocks.last() {
        assert_eq!(bytes.len(), *len, "the last block is open");
    }
}

proptest! {
    /// Compared with a `Vec` under any order of operations; slices that were given away never change.
    #[test]
    fn behaves_as_a_queue_of_bytes(steps in prop::collection::vec(step(), 1..60)) {
        let mut queue = Queue::new(&Budget::new(1 << 26));
        let (mut model, mut source) = (Vec::new(), Source::default());
        let mut given: Vec<(Bytes, Vec<u8>)> = Vec::new();
        for step in steps {
            match step {
                Step::Append(len) => {
                    let data = source.bytes(len);
                    prop_assert!(queue.append(&data));
                    model.extend(data);
                }
                Step::AppendBytes(len) => {
                    let data = source.bytes(len);
                    prop_assert!(queue.append_bytes(Bytes::from(data.clone()), len));
                    model.extend(data);
                }
                Step::Ahead(gap, len) => {
                    let data = source.bytes(gap + len);
                    prop_assert!(queue.write_at(model.len() + gap, &data[gap..]));
                    prop_assert_eq!(queue.len(), model.len());
                    // Meanwhile a reader takes what is in front of the gap.
                    let taken = queue.take(gap, false);
                    prop_assert_eq!(&taken[..], &model[..taken.len()]);
                    model.drain(..taken.len());
                    prop_assert!(queue.append(&data[..gap]));
                    queue.extend(len);
                    model.extend(data);
                }
                Step::Read(len) => {
                    let mut out = vec![0; len];
                    let n = queue.copy_to(&mut out);
                    queue.advance(n);
                    let expected: Vec<u8> = model.drain(..len.min(model.len())).collect();
                    prop_assert_eq!(&out[..n], &expected[..]);
                }
                Step::Take(max) => {
                    let taken = queue.take(max, true);
                    prop_assert!(taken.len() <= max && taken.is_empty() == model.is_empty());
                    let expected: Vec<u8> = model.drain(..taken.len()).collect();
                    prop_assert_eq!(&taken[..], &expected[..]);
                    given.push((taken, expected));
                }
                Step::Look(from, len) => {
                    let from = from.min(model.len());
                    let len = len.min(model.len() - from);
                    let in_one = queue.seek(from, len as u64);
                    let [first, second] = queue.slices(from, len);
                    prop_assert!(!in_one || first.len() == len);
                    prop_assert_eq!(queue.reach(from) >= len, first.len() + second.len() == len);
                    let seen = [first, second].concat();
                    prop_assert_eq!(&seen[..], &model[from..from + seen.len()]);
                }
                Step::Shrink => {
                    queue.shrink();
                    let least = blocks(&queue).len() * BLOCK_MIN;
                    prop_assert!(queue.capacity() < 2 * model.len().max(1) + least || blocks(&queue).iter().any(|block| !block.is_owned()));
                }
                Step::Rewind => if model.is_empty() { queue.rewind() },
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.chunks().map(<[u8]>::len).sum::<usize>(), model.len());
            check_account(&queue);
        }
        let budget = queue.budget().clone();
        queue.release();
        prop_assert_eq!(budget.used(), 0);
        for (bytes, expected) in given {
            prop_assert_eq!(&bytes[..], &expected[..]);
        }
    }

    /// A queue that keeps no bytes has the same length as one that does.
    #[test]
    fn one_that_only_counts_does_all_but_keep(steps in prop::collection::vec((0u8..6, 1usize..90_000), 1..60)) {
        let budgets = [true, false].map(|keeps| Budget::with(1 << 26, keeps));
        let [mut keeping, mut counting] = [&budgets[0], &budgets[1]].map(Queue::new);
        for (what, len) in steps {
            let data = vec![0; len];
            let did = [&mut keeping, &mut counting].map(|queue| match what {
                0 | 1 => usize::from(queue.append(&data)),
                2 => usize::from(queue.append_bytes(Bytes::from(data.clone()), len)),
                3 => { queue.shrink(); 0 }
                4 => { queue.advance(len); 0 }
                _ => {
                    let before = queue.len();
                    while queue.len() > before.saturating_sub(len) {
                        queue.take(len, true);
                    }
                    0
                }
            });
            prop_assert_eq!(did[0], did[1]);
            if what != 5 {
                prop_assert_eq!(keeping.len(), counting.len());
            } else {
                let both = keeping.len().max(counting.len());
                keeping.advance(both);
                counting.advance(both);
            }
            let seen = |queue: &Queue| {
                let mut out = vec![7; len];
                let copied = queue.copy_to(&mut out);
                (copied, out, queue.chunks().map(<[u8]>::len).sum::<usize>())
            };
            prop_assert_eq!(seen(&keeping), seen(&counting));
            prop_assert!(counting.capacity() >= counting.len());
        }
    }

    #[test]
    fn bytes_written_ahead_survive_growth(gap in 1usize..5000, len in 1usize..90_000, lead in 0usize..4000) {
        let mut queue = Queue::new(&Budget::new(1 << 20));
        queue.append(&vec![1; lead]);
        queue.advance(lead);
        let ahead: Vec<u8> = (0..len).map(|i| i as u8).collect();
        prop_assert!(queue.write_at(gap, &ahead));
        prop_assert!(queue.write_at(gap + len + 20_000, &[7]));
        prop_assert!(queue.append(&vec![9; gap]));
        queue.extend(len);
        let mut out = vec![0; gap + len];
        prop_assert_eq!(queue.copy_to(&mut out), gap + len);
        prop_assert_eq!(&out[gap..], &ahead[..]);
    }
}

proptest! {
    /// The queue knows beforehand whether another byte fits, whatever it holds. If data does not fit whole,
    /// the queue takes a part of it, unless not even one byte fits.
    #[test]
    fn takes_more_exactly_if_another_byte_can_be_appended(
        steps in prop::collection::vec((0..4u8, 1..70_000usize), 1..40), limit in 4096..300_000usize,
        keeps in any::<bool>(), beside in 0..20_000usize,
    ) {
        let budget = Budget::with(limit, keeps);
        let (mut queue, mut model, mut source) = (Queue::new(&budget), Vec::new(), Source::default());
        for (kind, len) in steps {
            let data = source.bytes(len);
            match kind {
                0 | 1 => {
                    let room = queue.takes_more(0);
                    let taken = if queue.append(&data) { len } else { queue.append_part(&data) };
                    prop_assert_eq!(room, taken > 0);
                    prop_assert!(taken <= len && (taken == len || !queue.takes_more(0) || taken >= 4096));
                    model.extend(&data[..taken]);
                }
                2 if queue.append_bytes(Bytes::from(data.clone()), len) => model.extend(data),
                2 => prop_assert!(!keeps || queue.affordable() < len),
                _ => {
                    let len = len.min(queue.len());
                    queue.advance(len);
                    model.drain(..len);
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert!(budget.used() <= limit);
            if keeps {
                let bytes: Vec<u8> = queue.chunks().flatten().copied().collect();
                prop_assert_eq!(&bytes, &model);
            }
        }
        let room = queue.takes_more(beside);
        let fits = queue.keep_beside(beside) && (queue.append(&[7]) || queue.append_part(&[7]) == 1);
        prop_assert_eq!(room, fits);
    }
}

#[test]
fn refuses_to_grow_beyond_the_budget_and_loses_nothing() {
    let budget = Budget::new(8192);
    let mut queue = Queue::new(&budget);
    assert!(queue.append(&[1; 8192]));
    assert!(!queue.append(&[2]));
    assert!(!queue.append_bytes(Bytes::from_static(&[2]), 1));
    assert!(!queue.write_at(1 << 20, &[2]), "nor in part");
    assert_eq!((queue.len(), queue.capacity(), budget.used()), (8192, 8192, 8192));
    queue.release();
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_slice_counts_as_what_it_pins_until_its_last_byte_is_taken() {
    let budget = Budget::new(1 << 20);
    let mut queue = Queue::new(&budget);
    assert!(queue.append_bytes(Bytes::from(vec![1; 40_000]), BLOCK));
    assert_eq!(budget.used(), BLOCK);
    queue.advance(39_999);
    assert_eq!(budget.used(), BLOCK);
    queue.advance(1);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_block_that_is_half_used_is_given_away_and_a_small_packet_copied() {
    let budget = Budget::new(1 << 20);
    let mut queue = Queue::new(&budget);
    assert!(queue.append(&vec![1; BLOCK / 2 - 1]) && queue.append(&[2; 2]));
    let lies_at = queue.slices(0, 1)[0].as_ptr();
    let taken = queue.take(usize::MAX, true);
    assert_eq!((taken.as_ptr(), taken.len(), budget.used()), (lies_at, BLOCK / 2 + 1, 0));
    assert!(queue.append(&[3; 100]));
    let lies_at = queue.slices(0, 1)[0].as_ptr();
    let small = queue.take(usize::MAX, true);
    assert!(small.as_ptr() != lies_at && small == [3; 100][..]);
    assert_eq!(budget.used(), BLOCK_MIN, "the queue keeps its block");
}

#[test]
fn blocks_are_used_again_the_one_freed_last_first() {
    let budget = Budget::new(1 << 20);
    let mut queue = Queue::new(&budget);
    assert!(queue.append(&vec![1; BLOCK]));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        assert!(queue.append(&vec![2; BLOCK]));
        queue.advance(BLOCK);
        seen.insert(queue.slices(0, 1)[0].as_ptr());
    }
    assert_eq!(seen.len(), 2, "what passes through lies in two blocks, and not in a megabyte");
    // A block that was given away returns, too, when its last slice is dropped.
    let given = queue.take(10, true);
    let (at, rest) = (given.as_ptr(), queue.take(usize::MAX, true));
    drop((given, rest));
    assert!(queue.append(&vec![3; BLOCK]));
    assert_eq!(queue.slices(0, 1)[0].as_ptr(), at);
}

#[test]
fn a_request_and_its_answer_use_one_small_block() {
    let budget = Budget::new(1 << 20);
    let mut queue = Queue::new(&budget);
    for _ in 0..1000 {
        assert!(queue.append(&[1; 100]));
        queue.advance(100);
        queue.rewind();
        assert_eq!((blocks(&queue).len(), budget.used()), (1, BLOCK_MIN));
    }
}

#[test]
fn a_block_of_the_right_size_stays_where_it_is() {
    let budget = Budget::new(1 << 20);
    let mut queue = Queue::new(&budget);
    assert!(queue.append(&[1; 3000]));
    queue.advance(10);
    let lies_at = queue.slices(0, 1)[0].as_ptr();
    queue.shrink();
    assert_eq!((queue.slices(0, 1)[0].as_ptr(), queue.len(), budget.used()), (lies_at, 2990, BLOCK_MIN));
}
