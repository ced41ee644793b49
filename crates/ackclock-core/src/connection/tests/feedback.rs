//! A connection reports delivery, and lets a writer queue only so few unsent bytes as was asked.

use super::transfer::losing;
use super::*;
use crate::profile::Choices;

const SMSS: usize = 1448;
const ROUND_TRIP: Duration = Duration::from_millis(20);

fn sender() -> TcpConfig {
    TcpConfig {
        choices: Choices { pacing: false, initial_window_segments: 10, ..Choices::default() },
        ..TcpConfig::default()
    }
}

fn pair(path: PathRule) -> ConnectionPair {
    let mut pair = ConnectionPair::established([sender(), TcpConfig::default()], path);
    pair.ends[0].take_readiness();
    pair
}

/// Writes two segments, which are acknowledged together a round trip later.
fn write_two(pair: &mut ConnectionPair) {
    assert_eq!(pair.ends[0].write(pair.now, &[7; 2 * SMSS]), Ok(2 * SMSS));
}

fn was_told(pair: &mut ConnectionPair) -> bool {
    pair.ends[0].take_readiness().delivered
}

/// A FIN takes a sequence number (RFC 9293 §3.4), and does not count as a byte of the stream, even after the
/// end.
#[test]
fn fin_does_not_count_as_a_byte_even_after_the_end() {
    let mut pair = pair(perfect());
    write_two(&mut pair);
    pair.run_for(ROUND_TRIP);
    for end in [1, 0] {
        pair.ends[end].shutdown(pair.now).unwrap();
        pair.run_for(ROUND_TRIP);
    }
    // The end that closed first lingers; the other is over.
    pair.run_for(Duration::from_secs(300));
    let end = &pair.ends[0];
    assert_eq!(end.state(), State::Closed);
    let info = end.info(pair.now);
    assert_eq!((end.written(), end.acked(), info.bytes_acked), (2896, 2896, 2896));
}

#[test]
fn delivery_is_told_once_the_earliest_awaited_byte_is_acknowledged() {
    for awaited in [[2, 4], [4, 2]] {
        let mut pair = pair(perfect());
        assert_eq!(pair.ends[0].await_delivered(0).map(|(acked, _)| acked), Some(0));
        for segments in awaited {
            assert_eq!(pair.ends[0].await_delivered(segments * SMSS as u64), None);
        }
        write_two(&mut pair);
        let first = pair.now;
        pair.run_for(ROUND_TRIP - Duration::from_nanos(1));
        assert!(!was_told(&mut pair));
        pair.run_for(Duration::from_nanos(1));
        assert!(was_told(&mut pair), "{awaited:?}");
        assert_eq!(
            pair.ends[0].await_delivered(2 * SMSS as u64),
            Some((2 * SMSS as u64, first + ROUND_TRIP))
        );
        write_two(&mut pair);
        let second = pair.now;
        pair.run_for(ROUND_TRIP);
        assert!(!was_told(&mut pair), "told once");
        // Later segments without news do not change the time.
        pair.ends[1].write(pair.now, b"x").unwrap();
        pair.run_for(Duration::from_secs(1));
        let end = &mut pair.ends[0];
        assert_eq!(end.await_delivered(1), Some((4 * SMSS as u64, second + ROUND_TRIP)));
        assert_eq!(end.await_delivered(4 * SMSS as u64 + 1), None);
    }
}

#[test]
fn each_delivery_is_one_change_of_the_figures() {
    let mut pair = pair(losing(&[2]));
    assert_eq!(pair.ends[0].await_feedback(0), None);
    assert!(!was_told(&mut pair));
    write_two(&mut pair);
    pair.run_for(ROUND_TRIP);
    assert!(was_told(&mut pair));
    assert_eq!((pair.ends[0].await_feedback(0), pair.ends[0].await_feedback(1)), (Some(1), None));
    let (acked, at) = pair.ends[0].await_delivered(0).unwrap();
    // The first of the next two is lost: a block of SACK delivers, and SND.UNA does not advance.
    assert!(!was_told(&mut pair));
    write_two(&mut pair);
    pair.run_for(ROUND_TRIP);
    assert!(was_told(&mut pair));
    assert_eq!(pair.ends[0].await_feedback(1), Some(2));
    assert_eq!(pair.ends[0].await_delivered(0), Some((acked, at)));
    // Unless it is asked for, the next change is not told.
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.ends[0].acked(), 4 * SMSS as u64);
    assert!(!was_told(&mut pair));
    assert!(pair.ends[0].await_feedback(2).is_some());
}

#[test]
fn writer_wakes_when_half_of_the_mark_is_sent() {
    // Of as many segments as the mark, a window of ten leaves at once.
    for (mark, wakes) in [(13, true), (20, true), (21, false)] {
        let mut pair = pair(perfect());
        pair.ends[0].set_not_sent_lowat(Some(mark * SMSS as u32));
        assert!(!pair.ends[0].take_readiness().writable, "no writer waits");
        assert_eq!(pair.ends[0].write(pair.now, &[7; 40 * SMSS]), Ok(mark as usize * SMSS));
        assert!(pair.ends[0].write(pair.now, &[7]).is_err() && pair.ends[0].write_room() == 0);
        pair.flush();
        assert_eq!(pair.ends[0].not_sent(), u64::from(mark - 10) * SMSS as u64);
        assert_eq!(pair.ends[0].take_readiness().writable, wakes, "{mark}");
        // What was sent makes room for as much.
        assert_eq!(pair.ends[0].write(pair.now, &[7; 40 * SMSS]), Ok(10 * SMSS));
    }
}

#[test]
fn mark_is_two_segments_at_least_and_a_new_one_wakes_the_writer() {
    let mut pair = pair(perfect());
    pair.ends[0].set_not_sent_lowat(Some(1));
    assert_eq!(pair.ends[0].not_sent_lowat(), Some(1));
    for mark in [Some(4 * SMSS as u32), None] {
        assert_eq!(pair.ends[0].write(pair.now, &[7; 40 * SMSS]), Ok(2 * SMSS));
        assert!(!pair.ends[0].take_readiness().writable);
        pair.ends[0].set_not_sent_lowat(mark);
        assert!(pair.ends[0].take_readiness().writable, "{mark:?}");
    }
    assert_eq!(
        pair.ends[0].write(pair.now, &[7; 20 * SMSS]),
        Ok(20 * SMSS),
        "only the send buffer limits it"
    );
    pair.ends[0].await_room(pair.now);
    pair.ends[0].set_not_sent_lowat(None);
    assert!(!pair.ends[0].take_readiness().writable, "nothing has changed");
}

#[test]
fn figures_count_what_waits_what_is_out_and_what_arrived() {
    let mut pair = pair(perfect());
    let segments = |number: u64| number * SMSS as u64;
    // Of thirteen segments, a window of ten leaves at once.
    assert_eq!(pair.ends[0].write(pair.now, &[7; 13 * SMSS]), Ok(13 * SMSS));
    pair.flush();
    let out = pair.ends[0].delivery();
    assert_eq!((out.written, out.acked, out.not_sent), (segments(13), 0, segments(3)));
    pair.ends[0].shutdown(pair.now).unwrap();
    pair.run_for(3 * ROUND_TRIP);
    let arrived = pair.ends[0].delivery();
    // The FIN is acknowledged, too, and is not a byte of the stream.
    assert_eq!((arrived.written, arrived.acked, arrived.not_sent), (segments(13), segments(13), 0));
    assert_eq!((arrived.srtt, arrived.queueing_delay), (ROUND_TRIP, Duration::ZERO));
}

#[test]
fn end_of_writing_is_told_to_those_who_wait_for_more() {
    let mut pair = pair(perfect());
    write_two(&mut pair);
    // One waits for what was written, which may still be delivered; another for what never will be.
    for upto in [2, 3] {
        assert_eq!(pair.ends[0].await_delivered(upto * SMSS as u64), None);
    }
    pair.ends[0].shutdown(pair.now).unwrap();
    assert!(was_told(&mut pair), "the third segment will not be written");
    assert_eq!(pair.ends[0].await_delivered(2 * SMSS as u64), None);
    pair.run_for(ROUND_TRIP);
    assert!(was_told(&mut pair), "the first two are acknowledged");
    pair.ends[0].shutdown(pair.now).unwrap();
    assert!(!was_told(&mut pair), "both have their answers");
}
