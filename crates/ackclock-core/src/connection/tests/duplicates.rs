//! Duplicate acknowledgements without SACK (RFC 5681 §2, §3.2, §4.2; RFC 3042; RFC 6582): each shows that a
//! segment has left the network. None is lost behind data, at either end.

use std::num::NonZeroU16;

use ackclock_wire::{ChecksumAt, Codepoint, Fields};

use super::lone::{Lone, SMSS, handshake};
use super::*;
use crate::congestion::Registry;
use crate::connection::Handshake;
use crate::walks::Walk;

/// A segment that left.
#[derive(Debug)]
struct Left {
    ack: SeqNum,
    window: u16,
    payload_len: usize,
}

fn leaving(lone: &mut Lone) -> Vec<Left> {
    let mut header = [0; HEADER_MAX];
    let next = || {
        let out = lone.end.poll_transmit(lone.now, lone.limits, true, &mut header)?;
        let at = usize::from(out.transport_offset);
        let ack = u32::from_be_bytes(header[at + 8..at + 12].try_into().unwrap());
        let window = u16::from_be_bytes(header[at + 14..at + 16].try_into().unwrap());
        Some(Left { ack: SeqNum::new(ack), window, payload_len: out.payload_len })
    };
    std::iter::from_fn(next).collect()
}

fn without_sack() -> Lone {
    let mut tcp = TcpConfig { nodelay: true, ..TcpConfig::default() };
    tcp.choices.pacing = false;
    let mut lone = Lone::agreed(tcp, Handshake { sack: false, ..handshake() });
    // An acknowledgement for each segment, so that none waits for the next.
    lone.end.set_quickack(true);
    lone
}

/// A peer: the numbers that it has heard, and the duplicates that it has counted at the newest
/// acknowledgement number.
struct Peer {
    greatest: SeqNum,
    window: u16,
    counted: u32,
}

impl Peer {
    fn of(lone: &Lone) -> Self {
        Self { greatest: lone.end.rcv.nxt().seq(), window: 0, counted: 0 }
    }

    /// RFC 5681 §2: no text, the greatest acknowledgement number so far, and the same window.
    fn hear(&mut self, left: &[Left]) {
        for left in left {
            if left.ack != self.greatest {
                (self.greatest, self.counted) = (left.ack, 0);
            } else if left.payload_len == 0 && left.window == self.window {
                self.counted += 1;
            }
            self.window = left.window;
        }
    }
}

/// RFC 5681 §4.2: each segment beyond a gap draws a duplicate. §2: a segment with text is none.
#[test]
fn data_that_waits_follows_the_duplicates() {
    let mut lone = without_sack();
    let next = lone.end.rcv.nxt().seq();
    for batch in 1..=5 {
        lone.sent();
        lone.end.write(lone.now, &[1; 5 * SMSS]).unwrap();
        let fields = lone.ack(lone.end.snd.flight().nxt().seq(), 65_535);
        for k in 1..=3 {
            let seq = next + (batch * 10 + k) * 100;
            lone.give(&Fields { seq, ..fields }, Codepoint::NotEct, &[2; 100]);
        }
        let left = leaving(&mut lone);
        let bare = left.iter().take_while(|left| left.payload_len == 0).count();
        assert_eq!(bare, 3, "{left:?}");
        assert!(
            left.len() > 3 && left[3..].iter().all(|left| left.payload_len > 0),
            "data follows: {left:?}"
        );
        assert!(left.iter().all(|left| left.ack == next));
    }
}

/// A packet that the device put together counts as its segments, as for every other acknowledgement.
#[test]
fn each_segment_of_a_packet_beyond_the_gap_draws_a_duplicate() {
    let mut lone = without_sack();
    let fields = lone.ack(lone.end.snd.flight().una().seq(), 65_535);
    let beyond = Fields { seq: fields.seq + 100, ..fields };
    let checksum = ChecksumState::Partial(ChecksumAt::tcp(20));
    let meta = RxMeta { checksum, segment_size: NonZeroU16::new(100) };
    lone.give_as(&beyond, Codepoint::NotEct, &[2; 450], meta);
    assert_eq!(lone.sizes(), [0; 5]);
}

/// A batch draws the duplicates that its segments would draw one by one, whatever there is to send.
#[test]
fn batch_beside_data_draws_as_many_duplicates_as_segments_that_come_alone() {
    let mut compared = 0;
    for seed in 0..400 {
        let mut walk = Walk::new(seed);
        let [mut alone, mut busy] = [without_sack(), without_sack()];
        let first = alone.end.rcv.nxt().seq();
        let mut peers = [Peer::of(&alone), Peer::of(&busy)];
        for _ in 0..12 {
            let mut closed = false;
            for _ in 0..1 + walk.below(8) {
                let next = alone.end.rcv.nxt().seq().offset_from(first);
                let seq = first + next + 100 * walk.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 20]);
                let had_gap = alone.end.rcv.has_gap();
                for lone in [&mut alone, &mut busy] {
                    let fields = lone.ack(lone.end.snd.flight().nxt().seq(), 65_535);
                    lone.give(&Fields { seq, ..fields }, Codepoint::NotEct, &[3; 100]);
                }
                closed |= had_gap && !alone.end.rcv.has_gap();
                let left = leaving(&mut alone);
                peers[0].hear(&left);
            }
            // As much as there is room for.
            let _ = busy.end.write(busy.now, &vec![1; 30 * SMSS]);
            let left = leaving(&mut busy);
            peers[1].hear(&left);
            assert_eq!(peers[0].greatest, peers[1].greatest, "seed {seed}");
            // Behind the last gap one acknowledgement says all.
            if closed {
                peers[1].counted = peers[0].counted;
            }
            assert_eq!(peers[0].counted, peers[1].counted, "seed {seed}: {left:?}");
            compared += u32::from(!closed && peers[0].counted > 0);
        }
    }
    assert!(compared > 1000, "{compared} batches drew duplicates");
}

/// RFC 5681 §3.2 with RFC 3042 and RFC 6582, for the first of ten segments lost, whatever text comes between
/// the duplicates. The first two let a new segment out each. The third repeats the lost one; cwnd is then 5
/// segments and 3 for those that have left, and FlightSize is 12: from the eighth on each lets one out.
#[test]
fn text_and_new_data_between_duplicates_use_none_of_them_up() {
    for texts in 0..3 {
        let mut lone = without_sack();
        lone.end.set_congestion(lone.now, Registry::builtin().find("reno").unwrap());
        lone.end.write(lone.now, &[1; 40 * SMSS]).unwrap();
        assert_eq!(lone.sizes(), [SMSS; 10]);
        lone.now += Duration::from_millis(20);
        let una = lone.end.snd.flight().una().seq();
        let data = |lone: &mut Lone| {
            let sizes = lone.sizes();
            sizes.into_iter().filter(|&size| size > 0).collect::<Vec<_>>()
        };
        for duplicate in 1..=11 {
            lone.give(&lone.ack(una, 65_535), Codepoint::NotEct, &[]);
            let expected: &[usize] = if (4..8).contains(&duplicate) { &[] } else { &[SMSS] };
            assert_eq!(data(&mut lone), expected, "duplicate {duplicate}, {texts} texts between");
            let retransmits = u64::from(duplicate >= 3);
            assert_eq!(lone.end.info(lone.now).retransmits, retransmits, "duplicate {duplicate}");
            for _ in 0..texts {
                lone.give(&lone.ack(una, 65_535), Codepoint::NotEct, &[4; 100]);
                assert_eq!(data(&mut lone), [], "text does not count");
                let _ = lone.end.read(lone.now, &mut [0; 200]);
            }
        }
        assert_eq!(lone.end.snd.flight().nxt().seq().offset_from(una), 16 * SMSS as u32);
    }
}
