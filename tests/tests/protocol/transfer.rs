//! Two endpoints under seeded faults: every byte that is written is read, in order, once.
//!
//! `SIM_SEED=n cargo test -p ackclock-tests --test protocol transfer` replays one seed; `SIM_SEEDS=n` runs
//! the first n.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ackclock_tests::host_pair::{HostPair, HostPairReport, Scenario};

const SEEDS: u64 = 240;

/// Seeds that once failed, each with its cause.
const REGRESSIONS: [u64; 1] = [
    // A late acknowledgement moved SND.UNA, and SND.UNA + SND.WND beyond the window offered.
    760,
];

#[test]
fn every_byte_arrives_once_and_in_order_whatever_the_path_does() {
    if let Ok(seed) = std::env::var("SIM_SEED") {
        let seed = seed.parse().expect("SIM_SEED is a number");
        println!("{:?}\ncut and merged: {:?}", run(seed, false), run(seed, true));
        return;
    }
    let total = run_seeds(false);
    assert_eq!(total.merged, 0, "packets were merged by devices that cannot");
}

/// As above, between devices that take 64 KB packets and cut them, and merge what arrives together.
#[test]
fn every_byte_arrives_once_and_in_order_in_packets_that_devices_cut_and_merge() {
    let total = run_seeds(true);
    assert!(total.merged > 1_000, "only {} packets were merged", total.merged);
}

/// Runs all seeds and returns their sums.
fn run_seeds(offload: bool) -> HostPairReport {
    let seeds = std::env::var("SIM_SEEDS").map_or(SEEDS, |n| n.parse().expect("SIM_SEEDS is a number"));
    let mut total = HostPairReport::default();
    let (mut faults, mut wrapped, mut failed) = ([0; 7], 0, Vec::new());
    for seed in (1..=seeds).chain(REGRESSIONS) {
        let Ok(report) = catch_unwind(AssertUnwindSafe(|| run(seed, offload))) else {
            eprintln!(
                "seed {seed} failed; SIM_SEED={seed} cargo test -p ackclock-tests --test protocol transfer"
            );
            failed.push(seed);
            continue;
        };
        total.bytes += report.bytes;
        total.time += report.time;
        total.merged += report.merged;
        wrapped += u64::from(report.wraps > 0);
        for link in report.links {
            let kinds = [
                link.lost,
                link.queue_drops,
                link.too_big,
                link.duplicated,
                link.reordered,
                link.corrupted,
                link.truncated,
            ];
            faults.iter_mut().zip(kinds).for_each(|(sum, n)| *sum += n);
        }
    }
    println!(
        "{} bytes in {seeds} seeds, {:?} simulated, {wrapped} wrapped, {} merged; lost, queue, too big, \
         duplicated, reordered, corrupted, truncated: {faults:?}",
        total.bytes, total.time, total.merged
    );
    assert!(failed.is_empty(), "{} seeds failed: {failed:?}", failed.len());
    // A gate that injects nothing proves nothing.
    assert!(faults.iter().all(|count| *count > 0), "a kind of fault never happened: {faults:?}");
    assert!(wrapped * 3 >= seeds, "sequence numbers wrapped in {wrapped} of {seeds} seeds");
    total
}

#[test]
fn equal_seeds_send_equal_packets_at_equal_times() {
    for seed in [3, 14, 15, 92, 65] {
        for offload in [false, true] {
            assert_eq!(run(seed, offload).trace, run(seed, offload).trace, "seed {seed}");
        }
    }
}

fn run(seed: u64, offload: bool) -> HostPairReport {
    let mut scenario = Scenario::draw(seed);
    scenario.offload = offload;
    if offload {
        for faults in &mut scenario.faults {
            faults.moderation = Duration::from_micros(100);
        }
    }
    let report = HostPair::new(scenario).run();
    assert!(report.time > Duration::ZERO);
    report
}
