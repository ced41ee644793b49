//! The scoreboard against a naive model with one entry per byte.

use std::collections::VecDeque;
use std::time::Duration;

use ackclock_control::Instant;
use ackclock_wire::SeqNum;
use proptest::prelude::*;

use super::records::give_back;
use super::scoreboard::{AckOutcome, Record, Scoreboard, SendMoment};
use crate::position::Position;

const SEGMENT: u64 = 10;

fn at(offset: u64) -> Position {
    Position::initial(SeqNum::new(u32::MAX - 300)) + offset
}

fn moment(millis: u64) -> SendMoment {
    let at = Instant::from_millis(millis);
    SendMoment {
        at,
        delivered: 0,
        delivered_at: at,
        sending_us: 0,
        in_flight: 0,
        lost: 0,
        app_limited: false,
    }
}

fn sent(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    for k in 0..segments {
        board.on_sent(at(k * SEGMENT), at((k + 1) * SEGMENT), SEGMENT as u32, moment(k));
    }
    board
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Byte {
    Outstanding,
    Lost,
    Sacked,
}

/// The model: the state of each unacknowledged byte, from `una` on.
#[derive(Debug, Default)]
struct Model {
    una: u64,
    bytes: Vec<Byte>,
}

impl Model {
    fn count(&self, which: Byte) -> u64 {
        self.bytes.iter().filter(|&&byte| byte == which).count() as u64
    }

    /// Runs of bytes within `start..end` that the peer does not hold.
    fn gaps(&self, start: u64, end: u64) -> usize {
        let held = |at: u64| self.bytes[(at - self.una) as usize] == Byte::Sacked;
        (start..end).filter(|&at| !held(at) && (at == start || held(at - 1))).count()
    }

    fn set(&mut self, start: u64, end: u64, from: &[Byte], to: Byte) -> u64 {
        let range = (start - self.una) as usize..(end - self.una) as usize;
        let mut changed = 0;
        for byte in &mut self.bytes[range] {
            if from.contains(byte) {
                *byte = to;
                changed += 1;
            }
        }
        changed
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(u64),
    Ack(u64),
    Sack(u64, u64),
    LoseFirst,
    LoseAll,
    Retransmit(u64),
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1u64..5).prop_map(Step::Send),
        (0u64..6).prop_map(|segments| Step::Ack(segments * SEGMENT)),
        (0u64..60).prop_map(Step::Ack),
        (0u64..20, 1u64..6).prop_map(|(from, len)| Step::Sack(from * SEGMENT + SEGMENT - 1, len * SEGMENT)),
        (0u64..200, 1u64..60).prop_map(|(from, len)| Step::Sack(from, len)),
        Just(Step::LoseFirst),
        Just(Step::LoseAll),
        (1u64..4).prop_map(Step::Retransmit),
        Just(Step::Forget),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_model_of_single_bytes(steps in prop::collection::vec(step(), 1..Scoreboard::EXACT_RANGES_MAX)) {
        let mut board = Scoreboard::default();
        let mut model = Model::default();
        let mut nxt = 0;
        for (clock, step) in steps.into_iter().enumerate() {
            let now = moment(clock as u64);
            match step {
                Step::Send(segments) => {
                    let end = nxt + segments * SEGMENT;
                    board.on_sent(at(nxt), at(end), SEGMENT as u32, now);
                    model.bytes.resize((end - model.una) as usize, Byte::Outstanding);
                    nxt = end;
                }
                Step::Ack(bytes) => {
                    let una = (model.una + bytes).min(nxt);
                    let mut outcome = AckOutcome::default();
                    board.on_cumulative_ack(at(una), &mut outcome);
                    let gone: Vec<Byte> = model.bytes.drain(..(una - model.una) as usize).collect();
                    model.una = una;
                    let fresh = gone.iter().filter(|&&byte| byte != Byte::Sacked).count() as u64;
                    prop_assert_eq!(outcome.newly_acked, fresh);
                }
                Step::Sack(from, len) => {
                    let start = (model.una + 1 + from).min(nxt);
                    let end = (start + len).min(nxt);
                    // One block closes at most eight gaps.
                    if start < end && model.gaps(start, end) <= 8 {
                        let mut outcome = AckOutcome::default();
                        board.on_sack(at(start), at(end), &mut outcome);
                        let fresh = model.set(start, end, &[Byte::Outstanding, Byte::Lost], Byte::Sacked);
                        prop_assert_eq!(outcome.newly_sacked, fresh);
                    }
                }
                Step::LoseFirst => {
                    let marked = board.mark_first_lost().bytes;
                    // What is left of the first segment, or as much as is in the same condition.
                    prop_assert!(marked <= SEGMENT);
                    prop_assert_eq!(marked > 0, model.bytes.first() == Some(&Byte::Outstanding));
                    let end = model.una + marked;
                    prop_assert_eq!(model.set(model.una, end, &[Byte::Outstanding], Byte::Lost), marked);
                }
                Step::LoseAll => {
                    let expected = model.set(model.una, nxt, &[Byte::Outstanding], Byte::Lost);
                    prop_assert_eq!(board.mark_all_lost(false).bytes, expected);
                }
                Step::Forget => {
                    model.set(model.una, nxt, &[Byte::Sacked], Byte::Outstanding);
                    board.forget_held();
                }
                Step::Retransmit(segments) => {
                    let first = model.bytes.iter().position(|&byte| byte == Byte::Lost);
                    let next = board.next_lost(segments * SEGMENT);
                    prop_assert_eq!(next.map(|(start, _)| start), first.map(|i| at(model.una + i as u64)));
                    if let Some((start, end)) = next {
                        board.on_retransmitted(start, end, SEGMENT as u32, now);
                        let (start, end) = (start.since(at(0)), end.since(at(0)));
                        prop_assert!(end - start <= segments * SEGMENT);
                        let changed = model.set(start, end, &[Byte::Lost], Byte::Outstanding);
                        prop_assert_eq!(changed, end - start, "only lost bytes go out again");
                    }
                }
            }
            board.check_invariants();
            prop_assert_eq!(board.pipe(), model.count(Byte::Outstanding));
            prop_assert_eq!(board.lost(), model.count(Byte::Lost));
            prop_assert_eq!(board.sacked(), model.count(Byte::Sacked));
        }
    }
}

#[test]
fn three_ranges_or_two_segments_above_make_a_loss() {
    let mut board = sent(12);
    let mut outcome = AckOutcome::default();
    board.on_sack(at(20), at(30), &mut outcome);
    board.on_sack(at(40), at(50), &mut outcome);
    assert_eq!(board.lost_boundary(3, 10), None, "two segments above are not enough");
    board.on_sack(at(60), at(70), &mut outcome);
    assert_eq!(board.lost_boundary(3, 10), Some(at(20)));
    assert_eq!(board.mark_lost_before(at(20)).bytes, 20);
    assert_eq!(board.mark_lost_before(at(20)).bytes, 0, "each byte is judged once");
    board.on_sack(at(70), at(90), &mut outcome);
    assert_eq!(board.lost_boundary(3, 10), Some(at(60)), "30 bytes are more than two segments");
    assert_eq!(board.mark_lost_before(at(60)).bytes, 20);
}

#[test]
fn a_retransmission_is_not_judged_again_by_the_same_evidence() {
    let mut board = sent(6);
    let mut outcome = AckOutcome::default();
    board.on_sack(at(10), at(60), &mut outcome);
    assert_eq!(board.mark_lost_before(at(10)).bytes, 10);
    let (start, end) = board.next_lost(10).unwrap();
    board.on_retransmitted(start, end, SEGMENT as u32, moment(9));
    assert_eq!(board.mark_lost_before(at(10)).bytes, 0);
    assert_eq!((board.pipe(), board.lost()), (10, 0));
}

#[test]
fn karn_a_retransmitted_record_gives_no_sample() {
    let mut board = sent(2);
    board.mark_first_lost();
    board.on_retransmitted(at(0), at(10), SEGMENT as u32, moment(50));
    let mut outcome = AckOutcome::default();
    board.on_cumulative_ack(at(10), &mut outcome);
    assert!(outcome.newest_once.is_none() && outcome.retransmission_acked);
    let mut outcome = AckOutcome::default();
    board.on_cumulative_ack(at(20), &mut outcome);
    assert_eq!(outcome.newest_once, Some(moment(1).at));
}

/// RFC 6675 §4: "each octet that is cumulatively ACKed or SACKed should be marked accordingly".
#[test]
fn each_octet_that_the_peer_holds_is_marked() {
    let mut board = sent(3);
    let mut outcome = AckOutcome::default();
    board.on_sack(at(12), at(28), &mut outcome);
    assert_eq!((outcome.newly_sacked, board.pipe()), (16, 14));
    board.on_sack(at(10), at(28), &mut outcome);
    assert_eq!((outcome.newly_sacked, board.pipe()), (18, 12));
    board.check_invariants();
}

/// A peer that reports every other byte is believed up to a number of ranges; then only for whole segments.
/// The records stay within the flight's own figures.
#[test]
fn reports_of_single_bytes_cut_few_records() {
    const SIZE: u64 = 1000;
    let mut board = Scoreboard::default();
    board.on_sent(at(0), at(50 * SIZE), SIZE as u32, moment(0));
    let mut outcome = AckOutcome::default();
    for k in 0..20_000 {
        board.on_sack(at(SIZE + 2 * k), at(SIZE + 2 * k + 1), &mut outcome);
    }
    let most = Scoreboard::EXACT_RANGES_MAX as u64;
    assert_eq!(outcome.newly_sacked, most);
    board.on_sack(at(44 * SIZE + 1), at(48 * SIZE - 1), &mut outcome);
    let whole = outcome.newly_sacked - most;
    assert!((2 * SIZE..4 * SIZE).contains(&whole), "{whole}: the segments between, as far as they are known");
    // What lay between the bytes is held now, so they are one range, and one record. A block closes eight
    // gaps.
    for _ in 0..most {
        board.on_sack(at(SIZE), at(3 * SIZE), &mut outcome);
    }
    assert_eq!(board.sacked(), 2 * SIZE + whole);
    board.on_sack(at(4 * SIZE + 1), at(4 * SIZE + 2), &mut outcome);
    assert_eq!(board.sacked(), 2 * SIZE + whole + 1);
    assert_eq!(board.pieces(), 7, "three ranges, and what lies around them");
    board.check_invariants();
}

/// Data of several records leaves again in one packet, in other segments. With very many ranges only whole
/// segments are held, and these are the segments in which it left last.
#[test]
fn segments_of_a_retransmission_begin_where_it_began() {
    let mut board = sent(400);
    board.mark_first_lost();
    board.on_retransmitted(at(0), at(10), SEGMENT as u32, moment(1000));
    let mut outcome = AckOutcome::default();
    for k in 0..Scoreboard::EXACT_RANGES_MAX as u64 {
        board.on_sack(at((200 + 2 * k) * SEGMENT), at((201 + 2 * k) * SEGMENT), &mut outcome);
    }
    board.mark_lost_before(at(100 * SEGMENT));
    assert_eq!(board.next_lost(45), Some((at(10), at(55))));
    board.on_retransmitted(at(10), at(55), 7, moment(1001));
    let held = outcome.newly_sacked;
    board.on_sack(at(17), at(24), &mut outcome);
    board.on_sack(at(31), at(45), &mut outcome);
    assert_eq!(outcome.newly_sacked - held, 21, "three of 7 bytes, from 10 on");
    board.on_sack(at(25), at(30), &mut outcome);
    assert_eq!(outcome.newly_sacked - held, 21, "part of one");
    board.check_invariants();
}

#[test]
fn records_made_by_one_call_split_anywhere_and_stay_in_order() {
    let mut board = Scoreboard::default();
    board.on_sent(at(0), at(400), SEGMENT as u32, moment(0));
    board.on_sent(at(400), at(500), SEGMENT as u32, moment(1));
    let mut outcome = AckOutcome::default();
    for start in [390, 10, 200, 420, 30] {
        board.on_sack(at(start), at(start + 10), &mut outcome);
        board.check_invariants();
    }
    assert_eq!(board.mark_lost_before(at(390)).bytes, 360);
    board.on_cumulative_ack(at(205), &mut outcome);
    board.check_invariants();
    assert_eq!(board.next_lost(1000), Some((at(210), at(390))));
    assert_eq!(board.last_segment(), Some((at(490), at(500))));
}

/// How much one acknowledgement may examine, apart from what it changes.
const LOOKS: u64 = 16;

const SACKS: u64 = 4000;

/// SACKs for one segment each, in this order; after each, both loss rules run and one segment is
/// retransmitted. Returns how many records were examined in all.
fn looks_of_sacks(flight: u64, per_call: u64, order: impl Fn(u64) -> u64) -> u64 {
    let mut board = Scoreboard::default();
    for call in 0..flight / per_call {
        let (start, end) = (call * per_call * SEGMENT, (call + 1) * per_call * SEGMENT);
        board.on_sent(at(start), at(end), SEGMENT as u32, moment(call));
    }
    let late = flight * 3;
    for k in 0..SACKS {
        let first = order(k) * SEGMENT;
        let mut outcome = AckOutcome::default();
        board.on_sack(at(first), at(first + SEGMENT), &mut outcome);
        assert_eq!(outcome.newly_sacked, SEGMENT);
        let (newest, end) = outcome.newest_any.unwrap();
        board.mark_lost_by_time(Instant::from_millis(late), (newest.at, end), Duration::from_millis(late));
        if let Some(boundary) = board.lost_boundary(3, SEGMENT as u32) {
            board.mark_lost_before(boundary);
        }
        if let Some((start, end)) = board.next_lost(SEGMENT) {
            board.on_retransmitted(start, end, SEGMENT as u32, moment(late + k));
        }
    }
    let looks = board.visits();
    board.check_invariants();
    looks
}

#[test]
fn cost_of_an_acknowledgement_does_not_grow_with_what_is_in_flight() {
    for flight in [10_000, 100_000] {
        let middle = flight / 2;
        for per_call in [1, 40] {
            // Each segment may be examined a few times in its life; a split moves the pieces of its own call.
            let once = 4 * flight;
            let most = once + SACKS * (LOOKS + 4 * per_call);
            let looks = [
                looks_of_sacks(flight, per_call, |k| flight - 1 - 2 * k),
                looks_of_sacks(flight, per_call, |k| if k % 2 == 0 { middle + k } else { middle - k }),
                looks_of_sacks(flight, per_call, |k| 1 + 2 * k),
                looks_of_sacks(flight, per_call, |k| if k % 2 == 0 { 1 + k } else { flight - k }),
            ];
            println!("{flight} in flight, {per_call} a call: {looks:?} of {most}");
            assert!(looks.iter().all(|&looks| (SACKS..=most).contains(&looks)));
        }
    }
}

#[test]
fn cost_of_a_lost_retransmission_does_not_grow_with_what_is_in_flight() {
    let mut board = sent(100_000);
    let mut outcome = AckOutcome::default();
    board.on_sack(at(SEGMENT), at(99_990 * SEGMENT), &mut outcome);
    for k in 0..1000 {
        let before = board.visits();
        assert_eq!(board.mark_first_lost().bytes, SEGMENT);
        assert_eq!(board.next_lost(SEGMENT), Some((at(0), at(SEGMENT))));
        board.on_retransmitted(at(0), at(SEGMENT), SEGMENT as u32, moment(200_000 + k));
        assert_eq!(board.last_segment(), Some((at(99_999 * SEGMENT), at(100_000 * SEGMENT))));
        assert!(board.visits() - before <= LOOKS);
    }
}

#[test]
fn capacity_is_freed_beyond_four_times_what_is_needed() {
    for (capacity, len, left) in [(16, 0, 16), (17, 0, 0), (16, 4, 16), (17, 4, 8), (20, 5, 20), (21, 5, 10)]
    {
        let mut deque = VecDeque::with_capacity(capacity);
        deque.extend(0..len);
        give_back(&mut deque);
        assert_eq!(deque.capacity(), left, "{len} of {capacity}");
    }
}

#[test]
fn memory_of_a_flight_grows_with_its_pieces_and_goes_when_it_is_short() {
    let mut board = sent(1000);
    let whole = board.bytes(SEGMENT as u32);
    let mut outcome = AckOutcome::default();
    board.on_sack(at(500 * SEGMENT), at(501 * SEGMENT), &mut outcome);
    // Each of a thousand may then be in pieces of its own.
    let least = whole + 2 * 1000 * size_of::<Record>();
    assert!((least..least + 4096).contains(&board.bytes(SEGMENT as u32)), "{least}");
    board.on_cumulative_ack(at(995 * SEGMENT), &mut outcome);
    assert!(board.bytes(SEGMENT as u32) >= whole, "the window may soon be as large again");
    board.on_recovery_end();
    assert!(board.bytes(SEGMENT as u32) < whole / 8);
}

#[test]
fn what_left_with_the_newest_delivered_and_lies_behind_it_does_not_wait() {
    let mut board = Scoreboard::default();
    board.on_sent(at(0), at(40), SEGMENT as u32, moment(0));
    board.mark_first_lost();
    board.on_retransmitted(at(0), at(10), SEGMENT as u32, moment(5));
    board.on_sack(at(10), at(20), &mut AckOutcome::default());
    let (now, patience) = (Instant::from_millis(10), Duration::from_millis(100));
    let (marked, due) = board.mark_lost_by_time(now, (moment(0).at, at(20)), patience);
    assert_eq!((marked.bytes, due), (0, None));
}

// RFC 6675 §4 NextSeg (3): above HighRxt, below the highest data that is SACKed, and not SACKed.
#[test]
fn first_below_held_is_a_segment_with_something_held_above_it() {
    let mut board = sent(8);
    assert_eq!(board.first_below_held(at(0)), None, "nothing is held");
    let mut outcome = AckOutcome::default();
    board.on_sack(at(20), at(30), &mut outcome);
    board.on_sack(at(50), at(60), &mut outcome);
    for (from, expected) in
        [(0, Some((0, 10))), (10, Some((10, 20))), (20, Some((30, 40))), (40, Some((40, 50)))]
    {
        assert_eq!(board.first_below_held(at(from)), expected.map(|(start, end)| (at(start), at(end))));
    }
    for from in [50, 55, 60, 70] {
        assert_eq!(board.first_below_held(at(from)), None, "{from}");
    }
}

// RFC 8985 §7.3: the probe is the last segment that the peer is not known to hold.
#[test]
fn last_segment_lies_below_a_tail_that_is_held() {
    let mut board = sent(4);
    assert_eq!(board.last_segment(), Some((at(30), at(40))));
    let mut outcome = AckOutcome::default();
    board.on_sack(at(10), at(20), &mut outcome);
    assert_eq!(board.last_segment(), Some((at(30), at(40))));
    board.on_sack(at(30), at(40), &mut outcome);
    assert_eq!(board.last_segment(), Some((at(20), at(30))));
}

#[test]
fn what_is_reported_again_after_it_was_forgotten_is_no_reordering() {
    let mut board = sent(4);
    let mut outcome = AckOutcome::default();
    board.on_sack(at(20), at(30), &mut outcome);
    board.forget_held();
    assert_eq!(board.on_plain_ack(at(0), at(10)), None, "it arrives behind what was held");
    board.on_sack(at(20), at(30), &mut outcome);
    assert!(!outcome.reordered);
    board.on_sack(at(10), at(20), &mut outcome);
    assert!(outcome.reordered);
}
