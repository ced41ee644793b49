//! 16 MB under every profile on real connections in virtual time: both ends of the profile's time, and either end against
//! today's. Every byte read is compared with the byte written, and the oracles of the pair are asked after every step.
//!
//! The time that a transfer may take is twice what a model says of it. The model is that of Padhye, Firoiu, Towsley and
//! Kurose ("Modeling TCP Throughput: A Simple Model and its Empirical Validation", SIGCOMM 1998): a sender that halves its
//! window for a loss takes, for a segment,
//!
//! ```text
//! RTT·√(2bp/3) + T0·min(1, 3·√(3bp/8))·p·(1 + 32p²)
//! ```
//!
//! where p is the share of segments lost, b the segments that an acknowledgement stands for and T0 the first timeout. Two
//! kinds of recovery differ. Time-based detection with tail loss probes needs no timeouts, so the second term goes. Without
//! fast retransmit every loss is a timeout, so the second term is p·T0, with T0 longer where the retransmission is lost, too.
//! `cargo test -p ackclock-tests --test profiles -- --nocapture` prints the table of both times.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ackclock_control::profile::{Options, Profile, Recovery};
use ackclock_core::TcpConfig;
use ackclock_core::congestion::Registry;
use ackclock_core::rtt::{DeviationFloor, Formula};
use ackclock_tests::link::Faults;
use ackclock_tests::pair::{Pair, Report, Scenario};

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
        let path = Path { moderation: Duration::from_millis(1), ..NO_BOTTLENECK };
        let report = transfer([profile, profile], 10_000, path, true);
        assert!(report.merged > 100, "{}: {} packets were merged", profile.name, report.merged);
    }
}

/// Runs each profile at each loss; `ends` says who sends and who receives.
fn every_profile(path: Path, ends: impl Fn(Profile) -> [Profile; 2]) {
    let mut failed = Vec::new();
    for profile in Profile::all() {
        for loss in LOSSES {
            let ends = ends(profile);
            if catch_unwind(AssertUnwindSafe(|| transfer(ends, loss, path, false))).is_err() {
                failed.push((ends.map(|end| end.name), loss));
            }
        }
    }
    assert!(failed.is_empty(), "sender, receiver, loss in a million: {failed:?}");
}

fn transfer(ends: [Profile; 2], loss: u32, path: Path, offload: bool) -> Report {
    let tcp = ends.map(|end| {
        let mut tcp = TcpConfig::default();
        tcp.apply(&end, &Registry::with_experiments()).expect("its controller is registered");
        tcp
    });
    let model = model(&ends, loss, path);
    let faults = Faults {
        rate_bps: path.rate_bps,
        queue_packets: path.queue_packets,
        moderation: path.moderation,
        loss,
        ..Faults::none(path.delay)
    };
    let limit = Some(model.mul_f64(2.0));
    let scenario = Scenario { offload, limit, ..Scenario::transfer(SEED, BYTES, tcp, &faults) };
    let report = Pair::new(scenario).run();
    let [sender, receiver] = ends.map(|end| end.name);
    println!(
        "{sender:>15} to {receiver:15} {:2} % loss, {:>4} Mbit/s: {:7.2} s, modelled {:7.2} s; {} segments sent again, \
         {} timeouts",
        loss / 10_000,
        path.rate_bps.map_or("∞".to_owned(), |rate| (rate / 1_000_000).to_string()),
        report.finished.as_secs_f64(),
        model.as_secs_f64(),
        report.retransmits,
        report.timeouts
    );
    assert_eq!(report.bytes, BYTES + 1, "{sender} to {receiver}");
    if report.links.iter().all(|link| link.lost + link.queue_drops == 0) {
        let again = (report.retransmits, report.timeouts);
        assert_eq!(again, (0, 0), "{sender} to {receiver}: nothing was lost");
    }
    report
}

/// How long the model says that 16 MB take.
fn model([sender, receiver]: &[Profile; 2], loss: u32, path: Path) -> Duration {
    let segments = BYTES as f64 / SEGMENT;
    let rtt = (2 * (path.delay + path.moderation)).as_secs_f64();
    let p = f64::from(loss) / 1e6;
    let first_timeout = first_timeout(sender) + receiver.acks.delay_max().as_secs_f64();

    // What the path and the peer's window take, and slow start from one segment.
    let both = |choice: fn(&Options) -> bool| choice(&sender.options) && choice(&receiver.options);
    let window = if both(|options| options.window_scaling) { WINDOW_SCALED } else { WINDOW_UNSCALED };
    let floor = if sender.congestion == "card" { CARD_WINDOW } else { f64::INFINITY };
    let on_the_wire = path.rate_bps.map_or(0.0, |rate| segments * 1_500.0 * 8.0 / rate as f64);
    let in_windows = segments / (window / SEGMENT).min(floor) * rtt;
    let opening = 2.0 * segments.log2() * rtt + 2.0 * sender.rto.initial.as_secs_f64();

    let halving = rtt * (2.0 * B * p / 3.0).sqrt();
    let repair = match sender.recovery {
        Recovery::RackTlp if both(|options| options.sack) => 0.0,
        Recovery::GoBackN => p * first_timeout / (1.0 - 2.0 * p),
        _ => (3.0 * (3.0 * B * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p) * first_timeout,
    };
    Duration::from_secs_f64(on_the_wire + in_windows + opening + segments * (halving + repair))
}

/// The retransmission timeout, in seconds, where round trips are short: its lower bounds alone, and a tick for the clock.
fn first_timeout(sender: &Profile) -> f64 {
    let rto = &sender.rto;
    let tick = rto.granularity.as_secs_f64();
    let k = match rto.formula {
        Formula::MeanDeviation { k, .. } | Formula::SignedDeviation { k, .. } => f64::from(k),
        _ => 0.0,
    };
    let deviations = if rto.deviation_floor == DeviationFloor::Deviation { k * tick } else { tick };
    rto.rto_min.as_secs_f64().max(deviations) + tick
}

/// A path, the same both ways.
#[derive(Clone, Copy)]
struct Path {
    delay: Duration,
    moderation: Duration,
    rate_bps: Option<u64>,
    queue_packets: usize,
}

/// 20 ms and a queue as long as what is in flight.
const BOTTLENECK: Path = Path {
    delay: Duration::from_millis(10),
    moderation: Duration::ZERO,
    rate_bps: Some(100_000_000),
    queue_packets: 170,
};
const NO_BOTTLENECK: Path = Path { rate_bps: None, ..BOTTLENECK };

const BYTES: u64 = 16 << 20;
const SEED: u64 = 1988;
/// In a million, both ways.
const LOSSES: [u32; 3] = [0, 10_000, 50_000];
const SEGMENT: f64 = 1_448.0;
const B: f64 = 2.0;
const WINDOW_UNSCALED: f64 = 65_535.0;
/// The receive buffer at its most.
const WINDOW_SCALED: f64 = (6 << 20) as f64;
/// CARD sits where delay begins to rise with the window; a segment more is enough for that behind a bottleneck, so it stays
/// near the smallest windows.
const CARD_WINDOW: f64 = 4.0;
