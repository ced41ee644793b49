//! Acknowledgements report the truth, held against a receiver that remembers every arrival (RFC 2018 §4, RFC
//! 2883 §4).

use std::collections::BTreeSet;

use ackclock_wire::{Codepoint, Fields, TcpOptions};

use super::lone::{Lone, handshake};
use super::*;
use crate::connection::Handshake;
use crate::walks::Walk;

/// Counts bytes from the first.
#[derive(Default)]
struct Model {
    next: u32,
    /// The bytes beyond the gap.
    held: BTreeSet<u32>,
    /// A byte of each arrival, the newest last.
    arrivals: Vec<u32>,
}

impl Model {
    /// Takes `start..end`. Returns the first stretch of it that had been received before.
    fn take(&mut self, start: u32, end: u32) -> Option<(u32, u32)> {
        let old = (start < self.next).then(|| (start, end.min(self.next)));
        let had = |at: &u32| self.held.contains(at);
        let held = || {
            let from = (start..end).find(had)?;
            Some((from, (from..end).find(|at| !had(at)).unwrap_or(end)))
        };
        let repeated = old.or_else(held);
        let fresh = start.max(self.next);
        self.held.extend(fresh..end);
        while self.held.remove(&self.next) {
            self.next += 1;
        }
        self.arrivals.push(fresh);
        repeated
    }

    /// The block that holds `at`.
    fn block(&self, at: u32) -> Option<(u32, u32)> {
        let held = |at: &u32| self.held.contains(at);
        held(&at).then(|| {
            let start = (0..=at).rev().take_while(held).last().unwrap_or(at);
            (start, (at..).find(|at| !held(at)).unwrap_or(at))
        })
    }

    /// RFC 2883 §4: the duplicate, then the block that holds it. RFC 2018 §4: the block that the arrival is
    /// in, then those most recently reported; as many as there is room for.
    fn report(&self, duplicate: Option<(u32, u32)>, room: usize) -> Vec<(u32, u32)> {
        let mut blocks: Vec<_> = Vec::new();
        let holder = duplicate.and_then(|(start, _)| self.block(start));
        for block in holder.into_iter().chain(self.arrivals.iter().rev().filter_map(|&at| self.block(at))) {
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        duplicate.into_iter().chain(blocks).take(room).collect()
    }
}

/// The blocks of the only segment that leaves, counted from `first`, and its acknowledgement number.
fn reported(lone: &mut Lone, first: SeqNum) -> (u32, Vec<(u32, u32)>) {
    let mut header = [0; HEADER_MAX];
    let out = lone.end.poll_transmit(lone.now, lone.limits, true, &mut header).expect("an acknowledgement");
    let tcp = &header[usize::from(out.transport_offset)..out.header_len];
    let options = TcpOptions::parse(&tcp[20..]).unwrap_or_default();
    let ack = SeqNum::new(u32::from_be_bytes(tcp[8..12].try_into().unwrap()));
    assert!(lone.sent().is_empty(), "one acknowledgement");
    let blocks = options.sack.as_slice().iter();
    (
        ack.offset_from(first),
        blocks.map(|&(left, right)| (left.offset_from(first), right.offset_from(first))).collect(),
    )
}

/// RFC 2018 §4: "the data receiver SHOULD include as many distinct SACK blocks as possible". What is held is
/// reported while there is room for it, however many blocks there have been.
#[test]
fn every_acknowledgement_reports_the_most_recent_blocks_and_all_that_fit() {
    let (mut full, mut duplicates) = (0, 0);
    for seed in 0..300 {
        let mut walk = Walk::new(seed);
        let timestamps = walk.one_in(2).then_some(1);
        let room = if timestamps.is_some() { 3 } else { 4 };
        let mut lone = Lone::agreed(TcpConfig::default(), Handshake { timestamps, ..handshake() });
        lone.end.set_quickack(true);
        let first = lone.end.rcv.nxt().seq();
        let mut model = Model::default();
        let spread = walk.pick(&[6, 12, 30]);
        for step in 0..60 {
            let start =
                (model.next + walk.below(spread) as u32 * 10).saturating_sub(walk.pick(&[0, 0, 10, 15]));
            let end = start + walk.pick(&[10, 10, 10, 5, 20, 45]);
            let old = end <= model.next;
            let duplicate = model.take(start, end);
            let options = TcpOptions { timestamps: timestamps.map(|_| (1, 0)), ..TcpOptions::default() };
            let fields = lone.ack(lone.end.snd.flight().una().seq(), 65_535);
            lone.give(
                &Fields { seq: first + start, options, ..fields },
                Codepoint::NotEct,
                &vec![5; (end - start) as usize],
            );
            let expected = (model.next, model.report(duplicate, room));
            assert_eq!(
                reported(&mut lone, first),
                expected,
                "seed {seed}, step {step}, {start}..{end}, old: {old}"
            );
            full += u32::from(expected.1.len() == room);
            duplicates += u32::from(duplicate.is_some());
        }
    }
    assert!(full > 3000 && duplicates > 3000, "{full} full options, {duplicates} duplicates");
}
