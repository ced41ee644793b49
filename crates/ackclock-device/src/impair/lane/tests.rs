use super::*;
use crate::impair::Share;

fn settings() -> Settings {
    Settings::default()
}

fn number(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// Everything released up to `now`, as the numbers put in.
fn drain(lane: &mut Lane, now: Instant) -> Vec<u32> {
    std::iter::from_fn(|| lane.pop_due(now)).map(|b| u32::from_be_bytes(b.try_into().unwrap())).collect()
}

/// Passes the numbers 0 to `count` through a lane with these settings, all at one instant.
fn pass(settings: Settings, seed: u64, count: u32) -> (Vec<u32>, Statistics) {
    let now = Instant::now();
    let mut lane = Lane::new(settings, seed);
    let mut out = Vec::new();
    for n in 0..count {
        lane.offer(now, number(n));
        out.extend(drain(&mut lane, now));
    }
    out.extend(drain(&mut lane, now + REORDER_HOLD_MAX));
    (out, lane.statistics())
}

#[test]
fn without_impairment_every_packet_passes_at_once_and_in_order() {
    let (out, statistics) = pass(settings(), 1, 1000);
    assert_eq!(out, (0..1000).collect::<Vec<_>>());
    assert_eq!(statistics, Statistics { offered: 1000, delivered: 1000, ..Statistics::default() });
}

#[test]
fn the_seed_decides_and_nothing_else_does() {
    let impaired = Settings {
        loss: Share::percent(10),
        duplicate: Share::percent(10),
        reorder: Share::percent(10),
        ..settings()
    };
    assert_eq!(pass(impaired, 7, 2000), pass(impaired, 7, 2000));
    assert_ne!(pass(impaired, 7, 2000).0, pass(impaired, 8, 2000).0);
}

#[test]
fn the_same_packets_are_lost_whatever_else_is_impaired() {
    let survivors = |settings| {
        let mut out = pass(settings, 3, 1000).0;
        out.sort_unstable();
        out.dedup();
        out
    };
    let loss = Settings { loss: Share::percent(30), ..settings() };
    assert_eq!(
        survivors(loss),
        survivors(Settings { duplicate: Share::percent(50), reorder: Share::percent(50), ..loss })
    );
}

#[test]
fn seeded_statistics_are_exact() {
    let impaired = Settings {
        loss: Share::percent(1),
        duplicate: Share::percent(2),
        corrupt: Share::percent(3),
        reorder: Share::percent(4),
        ..settings()
    };
    let (_, statistics) = pass(impaired, 42, 10_000);
    let Statistics { offered, lost, duplicated, corrupted, reordered, delivered, .. } = statistics;
    assert_eq!(offered - lost + duplicated, delivered);
    assert_eq!([offered, lost, duplicated, corrupted, reordered], SEED_42);
}

/// Near the expected 100, 198, 297 and 396.
const SEED_42: [u64; 5] = [10_000, 119, 189, 288, 409];

#[test]
fn a_reordered_packet_is_overtaken_by_as_many_as_asked() {
    let now = Instant::now();
    let mut lane = Lane::new(Settings { reorder: Share::ONE, reorder_depth: 2, ..settings() }, 1);
    lane.offer(now, number(0));
    assert!(drain(&mut lane, now).is_empty());
    lane.set(settings());
    for n in 1..4 {
        lane.offer(now, number(n));
    }
    assert_eq!(drain(&mut lane, now), [1, 2, 0, 3]);
    assert_eq!(lane.statistics().reordered, 1);
}

#[test]
fn a_held_packet_that_nothing_overtakes_comes_out_after_the_hold() {
    let now = Instant::now();
    let mut lane = Lane::new(Settings { reorder: Share::ONE, ..settings() }, 1);
    lane.offer(now, number(0));
    assert_eq!(lane.next_release(), Some(now + REORDER_HOLD_MAX));
    assert_eq!(drain(&mut lane, now + REORDER_HOLD_MAX), [0]);
    assert_eq!(lane.statistics().reordered, 0);
}

#[test]
fn delay_holds_each_packet_for_its_length() {
    let now = Instant::now();
    let mut lane = Lane::new(Settings { delay: Duration::from_millis(30), ..settings() }, 1);
    lane.offer(now, number(0));
    lane.offer(now + Duration::from_millis(1), number(1));
    assert!(drain(&mut lane, now + Duration::from_millis(29)).is_empty());
    assert_eq!(drain(&mut lane, now + Duration::from_millis(30)), [0]);
    assert_eq!(lane.next_release(), Some(now + Duration::from_millis(31)));
}

#[test]
fn jitter_stays_in_its_bounds_and_keeps_the_order() {
    let now = Instant::now();
    let (delay, jitter) = (Duration::from_millis(10), Duration::from_millis(5));
    let mut lane = Lane::new(Settings { delay, jitter, ..settings() }, 1);
    for n in 0..100 {
        lane.offer(now, number(n));
    }
    assert!(drain(&mut lane, now + delay - Duration::from_nanos(1)).is_empty());
    let early = drain(&mut lane, now + delay + jitter / 2);
    let late = drain(&mut lane, now + delay + jitter);
    assert!(!late.is_empty(), "jitter above the half must occur");
    assert_eq!([early, late].concat(), (0..100).collect::<Vec<_>>());
}

#[test]
fn the_bottleneck_spaces_packets_by_its_rate() {
    let now = Instant::now();
    // 4 bytes at 32 kbit/s: one millisecond each.
    let mut lane = Lane::new(Settings { rate_bps: Some(32_000), ..settings() }, 1);
    for n in 0..3 {
        lane.offer(now, number(n));
    }
    for n in 0..3 {
        let due = now + Duration::from_millis(u64::from(n) + 1);
        assert!(drain(&mut lane, due - Duration::from_nanos(1)).is_empty());
        assert_eq!(drain(&mut lane, due), [n]);
    }
}

#[test]
fn a_full_queue_drops_its_tail() {
    let now = Instant::now();
    let mut lane = Lane::new(Settings { rate_bps: Some(32_000), queue_packets: 2, ..settings() }, 1);
    for n in 0..5 {
        lane.offer(now, number(n));
    }
    // One on the wire, two waiting.
    assert_eq!(lane.statistics().queue_full, 2);
    let later = now + Duration::from_millis(1);
    lane.offer(later, number(5));
    assert_eq!(drain(&mut lane, now + Duration::from_millis(10)), [0, 1, 2, 5]);
}

#[test]
fn a_queue_of_bytes_holds_what_fits_and_no_more() {
    let now = Instant::now();
    // 100 bytes take a millisecond.
    let settings = Settings { rate_bps: Some(800_000), queue_bytes: Some(250), ..settings() };
    let mut lane = Lane::new(settings, 1);
    let mut queue_full = |at: Instant, lens: &[usize]| {
        lens.iter().for_each(|len| lane.offer(at, vec![0; *len]));
        lane.statistics().queue_full
    };
    // The first is sent at once. Two wait, which leaves room for 50 bytes.
    assert_eq!(queue_full(now, &[100, 100, 100]), 0);
    assert_eq!(queue_full(now, &[51, 50, 1]), 2);
    // Once the second is being sent, 150 bytes wait.
    assert_eq!(queue_full(now + Duration::from_millis(1), &[101, 100, 1]), 4);
    // An empty queue takes any packet, because it is sent at once.
    assert_eq!(queue_full(now + Duration::from_secs(1), &[1000]), 4);
}

#[test]
fn corruption_flips_exactly_one_bit() {
    let now = Instant::now();
    let mut lane = Lane::new(Settings { corrupt: Share::ONE, ..settings() }, 1);
    for _ in 0..100 {
        lane.offer(now, vec![0; 50]);
        let bytes = lane.pop_due(now).unwrap();
        assert_eq!(bytes.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
    }
    assert_eq!(lane.statistics().corrupted, 100);
}

#[test]
fn a_copy_follows_its_original() {
    assert_eq!(pass(Settings { duplicate: Share::ONE, ..settings() }, 1, 3).0, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn nothing_enters_during_a_blackout() {
    let now = Instant::now();
    let mut lane = Lane::new(Settings { delay: Duration::from_millis(1), ..settings() }, 1);
    lane.offer(now, number(0));
    lane.set_blackout(true);
    lane.offer(now, number(1));
    lane.set_blackout(false);
    lane.offer(now, number(2));
    assert_eq!(drain(&mut lane, now + Duration::from_millis(1)), [0, 2]);
    assert_eq!(lane.statistics().blacked_out, 1);
}

#[test]
fn the_delay_line_is_bounded() {
    let now = Instant::now();
    let mut lane = Lane::new(Settings { delay: Duration::from_secs(1), ..settings() }, 1);
    for _ in 0..LINE_PACKETS_MAX + 10 {
        lane.offer(now, Vec::new());
    }
    assert_eq!(lane.statistics().queue_full, 10);
}

/// An IPv4 header with this ECN field, and a payload that pads it.
fn ipv4(ecn: u8) -> Vec<u8> {
    let mut packet = vec![0; 100];
    packet[..2].copy_from_slice(&[0x45, ecn]);
    packet
}

#[test]
fn a_packet_that_finds_a_queue_is_marked_if_it_takes_marks() {
    let now = Instant::now();
    // 100 bytes take a millisecond.
    let settings = Settings { rate_bps: Some(800_000), mark_above: Some(2), ..settings() };
    for (ecn, marked) in [(0, 0), (1, 6), (2, 6)] {
        let mut lane = Lane::new(settings, 1);
        // One is sent at once and two wait. The others find at least these two.
        (0..9).for_each(|_| lane.offer(now, ipv4(ecn)));
        let later = now + Duration::from_secs(1);
        let ends: Vec<u8> = std::iter::from_fn(|| lane.pop_due(later)).map(|packet| packet[1]).collect();
        assert_eq!(ends.iter().filter(|byte| **byte == 3).count(), marked, "ECN {ecn}");
        assert_eq!(lane.statistics().marked, marked as u64);
        assert_eq!(ends[..3], [ecn; 3]);
    }
}

#[test]
fn marks_by_chance_leave_the_fates_of_a_seed_alone() {
    let now = Instant::now();
    let mut lane = Lane::new(Settings { mark: Share::percent(25), ..settings() }, 42);
    (0..10_000).for_each(|_| lane.offer(now, ipv4(2)));
    let marked = lane.statistics().marked;
    assert!((2_300..2_700).contains(&marked), "{marked}");
    let survivors = |mark| {
        pass(Settings { loss: Share::percent(30), reorder: Share::percent(20), mark, ..settings() }, 7, 1000)
            .0
    };
    assert_eq!(survivors(Share::ZERO), survivors(Share::percent(50)));
}
