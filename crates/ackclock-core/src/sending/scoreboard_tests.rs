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
        (0u64..6).prop_map(Step::Ack),
        (0u64..20, 1u64..6).prop_map(|(from, len)| Step::Sack(from, len)),
        Just(Step::LoseFirst),
        Just(Step::LoseAll),
        (1u64..4).prop_map(Step::Retransmit),
        Just(Step::Forget),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_model_of_single_bytes(steps in prop::collection::vec(step(), 1..80)) {
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
                Step::Ack(segments) => {
                    let una = (model.una + segments * SEGMENT).min(nxt);
                    let mut outcome = AckOutcome::default();
                    board.on_cumulative_ack(at(una), &mut outcome);
                    let gone: Vec<Byte> = model.bytes.drain(..(una - model.una) as usize).collect();
                    model.una = una;
                    let fresh = gone.iter().filter(|&&byte| byte != Byte::Sacked).count() as u64;
                    prop_assert_eq!(outcome.newly_acked, fresh);
                }
                Step::Sack(from, len) => {
                    let start = (model.una + SEGMENT + from * SEGMENT).min(nxt);
                    let end = (start + len * SEGMENT).min(nxt);
                    if start < end {
                        let mut outcome = AckOutcome::default();
                        board.on_sack(at(start), at(end), &mut outcome);
                        let fresh = model.set(start, end, &[Byte::Outstanding, Byte::Lost], Byte::Sacked);
                        prop_assert_eq!(outcome.newly_sacked, fresh);
                    }
                }
                Step::LoseFirst => {
                    let end = (model.una + SEGMENT).min(nxt);
                    let expected = if model.bytes.first() == Some(&Byte::Outstanding) {
                        model.set(model.una, end, &[Byte::Outstanding], Byte::Lost)
                    } else { 0 };
                    prop_assert_eq!(board.mark_first_lost().bytes, expected);
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
                        board.on_retransmitted(start, end, now);
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
    board.on_retransmitted(start, end, moment(9));
    assert_eq!(board.mark_lost_before(at(10)).bytes, 0);
    assert_eq!((board.pipe(), board.lost()), (10, 0));
}

#[test]
fn karn_a_retransmitted_record_gives_no_sample() {
    let mut board = sent(2);
    board.mark_first_lost();
    board.on_retransmitted(at(0), at(10), moment(50));
    let mut outcome = AckOutcome::default();
    board.on_cumulative_ack(at(10), &mut outcome);
    assert!(outcome.newest_once.is_none() && outcome.retransmission_acked);
    let mut outcome = AckOutcome::default();
    board.on_cumulative_ack(at(20), &mut outcome);
    assert_eq!(outcome.newest_once, Some(moment(1).at));
}

#[test]
fn a_segment_held_in_part_is_not_held() {
    let mut board = sent(3);
    let mut outcome = AckOutcome::default();
    board.on_sack(at(12), at(28), &mut outcome);
    assert_eq!(outcome.newly_sacked, 0);
    board.on_sack(at(10), at(28), &mut outcome);
    assert_eq!(outcome.newly_sacked, 10);
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
            board.on_retransmitted(start, end, moment(late + k));
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
        board.on_retransmitted(at(0), at(SEGMENT), moment(200_000 + k));
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
    board.on_retransmitted(at(0), at(10), moment(5));
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
