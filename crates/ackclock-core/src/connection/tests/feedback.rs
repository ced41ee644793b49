//! What a connection reports about delivery.

use super::transfer::losing;
use super::*;

const SMSS: usize = 1448;
const ROUND_TRIP: Duration = Duration::from_millis(20);

fn sender() -> TcpConfig {
    TcpConfig { pacing: false, initial_window_segments: 10, ..TcpConfig::default() }
}

fn pair(path: Path) -> Pair {
    let mut pair = Pair::established([sender(), TcpConfig::default()], path);
    pair.ends[0].take_readiness();
    pair
}

/// Writes two segments, which are acknowledged together a round trip later.
fn write_two(pair: &mut Pair) {
    assert_eq!(pair.ends[0].write(pair.now, &[7; 2 * SMSS]), Ok(2 * SMSS));
}

fn was_told(pair: &mut Pair) -> bool {
    pair.ends[0].take_readiness().delivered
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
