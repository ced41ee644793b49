//! 16 MB under every profile on real connections in virtual time: both ends of the profile's time, and either
//! end against today's. Every byte read is compared with the byte written, and the oracles of the pair run
//! after every step.
//!
//! A transfer may take twice the time that `ackclock_tests::model` says; the table of both times is printed
//! with `cargo test -p ackclock-tests --test protocol profiles -- --nocapture`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ackclock_control::profile::{Profile, Recovery};
use ackclock_control::quantity::Share;
use ackclock_core::TcpConfig;
use ackclock_core::congestion::Registry;
use ackclock_tests::host_pair::{HostPair, HostPairReport, Scenario};
use ackclock_tests::link::Faults;
use ackclock_tests::model::{self, transfer_time};

#[test]
fn both_ends_of_each_profile_move_16_mb_through_a_bottleneck() {
    every_profile(BOTTLENECK, |profile| [profile, profile]);
}

#[test]
fn both_ends_of_each_profile_move_16_mb_over_an_infinitely_fast_path() {
    every_profile(NO_BOTTLENECK, |profile| [profile, profile]);
}

#[test]
fn each_profile_sends_16_mb_to_a_modern_receiver_through_a_bottleneck() {
    every_profile(BOTTLENECK, |profile| [profile, Profile::modern()]);
}

#[test]
fn each_profile_sends_16_mb_to_a_modern_receiver_over_an_infinitely_fast_path() {
    every_profile(NO_BOTTLENECK, |profile| [profile, Profile::modern()]);
}

#[test]
fn a_modern_sender_moves_16_mb_to_each_profile_through_a_bottleneck() {
    every_profile(BOTTLENECK, |profile| [Profile::modern(), profile]);
}

#[test]
fn a_modern_sender_moves_16_mb_to_each_profile_over_an_infinitely_fast_path() {
    every_profile(NO_BOTTLENECK, |profile| [Profile::modern(), profile]);
}

/// 64 KB packets between stack and device, on the way out and on the way in.
#[test]
fn both_ends_of_each_profile_move_16_mb_in_packets_that_devices_cut_and_merge() {
    for profile in Profile::all() {
        let path = SymmetricPath { moderation: Duration::from_millis(1), ..NO_BOTTLENECK };
        let report = transfer([profile, profile], Share::percent(1), path, true);
        assert!(report.merged > 100, "{}: {} packets were merged", profile.name, report.merged);
    }
}

/// Runs each profile at each loss; `ends` chooses the sender and the receiver.
fn every_profile(path: SymmetricPath, ends: impl Fn(Profile) -> [Profile; 2]) {
    let mut failed = Vec::new();
    for profile in Profile::all() {
        for loss in LOSSES {
            let ends = ends(profile);
            if catch_unwind(AssertUnwindSafe(|| transfer(ends, loss, path, false))).is_err() {
                failed.push((ends.map(|end| end.name), loss));
            }
        }
    }
    assert!(failed.is_empty(), "sender, receiver, loss: {failed:?}");
}

fn transfer(ends: [Profile; 2], loss: Share, path: SymmetricPath, offload: bool) -> HostPairReport {
    let tcp = ends.map(|end| {
        let mut tcp = TcpConfig::default();
        tcp.apply(&end, &Registry::with_experiments()).expect("its controller is registered");
        tcp
    });
    let modelled = model::ModelPath {
        rtt: 2 * (path.delay + path.moderation),
        rate_bps: path.rate_bps,
        segment_bytes: 1_448,
        loss,
    };
    let mut modelled_sender = ends[0];
    if offload && modelled_sender.choices.recovery != Recovery::RackTlp {
        // Merged packets are answered once, so there are no three duplicates: each loss is a timeout.
        modelled_sender.choices.recovery = Recovery::GoBackN;
    }
    let model = transfer_time(BYTES, &modelled_sender, &ends[1], modelled);
    let faults = Faults {
        rate_bps: path.rate_bps,
        queue_packets: path.queue_packets,
        moderation: path.moderation,
        loss,
        ..Faults::none(path.delay)
    };
    let limit = Some(model.mul_f64(2.0));
    let scenario = Scenario { offload, limit, ..Scenario::transfer(SEED, BYTES, tcp, &faults) };
    let report = HostPair::new(scenario).run();
    let [sender, receiver] = ends.map(|end| end.name);
    println!(
        "{sender:>15} to {receiver:15} {:>2} loss, {:>4} Mbit/s: {:7.2} s, modelled {:7.2} s; {} segments \
         sent again, {} timeouts",
        loss.to_string(),
        path.rate_bps.map_or("∞".to_owned(), |rate| (rate / 1_000_000).to_string()),
        report.finished.as_secs_f64(),
        model.as_secs_f64(),
        report.retransmits.iter().sum::<u64>(),
        report.timeouts.iter().sum::<u64>()
    );
    assert_eq!(report.bytes, BYTES + 1, "{sender} to {receiver}");
    // A receiver may hold an acknowledgement for as long as today's shortest timeout.
    let patient = ends[0].choices.rto.rto_min > ends[1].choices.acks.delay_max();
    if patient && report.links.iter().all(|link| link.lost + link.queue_drops == 0) {
        let again = (report.retransmits, report.timeouts);
        assert_eq!(again, ([0; 2], [0; 2]), "{sender} to {receiver}: nothing was lost");
    }
    report
}

/// A path, the same both ways.
#[derive(Clone, Copy)]
struct SymmetricPath {
    delay: Duration,
    moderation: Duration,
    rate_bps: Option<u64>,
    queue_packets: usize,
}

/// 20 ms and a queue as long as what is in flight.
const BOTTLENECK: SymmetricPath = SymmetricPath {
    delay: Duration::from_millis(10),
    moderation: Duration::ZERO,
    rate_bps: Some(100_000_000),
    queue_packets: 170,
};
const NO_BOTTLENECK: SymmetricPath = SymmetricPath { rate_bps: None, ..BOTTLENECK };

const BYTES: u64 = 16 << 20;
const SEED: u64 = 1988;
/// Both ways.
const LOSSES: [Share; 3] = [Share::ZERO, Share::percent(1), Share::percent(5)];
