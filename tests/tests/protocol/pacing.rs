//! The effect of pacing on the queue at a bottleneck, and on throughput, in virtual time.

use ackclock_control::quantity::Share;
use ackclock_core::TcpConfig;
use ackclock_core::congestion::Registry;
use ackclock_core::profile::Choices;
use ackclock_tests::app::Plan;
use ackclock_tests::host_pair::{HostPair, HostPairReport, Scenario};
use ackclock_tests::link::Faults;
use std::time::Duration;

/// 10 Mbit/s and 50 ms: 43 segments are in flight when the path is full.
const PATH_SEGMENTS: usize = 43;
const SEGMENT: usize = 1448;

/// The result of `plan` on the path when the receiver's window is at most `window` segments.
fn run(tcp: &TcpConfig, plan: Plan, window: usize) -> HostPairReport {
    let path = Faults {
        rate_bps: Some(10_000_000),
        queue_packets: 1_000,
        ..Faults::none(Duration::from_millis(25))
    };
    let receiver = TcpConfig { receive_buffer_max: window * SEGMENT, ..TcpConfig::default() };
    let total = plan.total;
    let scenario = Scenario::transfer(1, total, [tcp.clone(), receiver], &path);
    let scenario = Scenario { plans: [plan, Plan::plain(1)], ..scenario };
    let report = HostPair::new(scenario).run();
    assert_eq!(report.bytes, total + 1);
    report
}

fn unpaced() -> TcpConfig {
    TcpConfig { choices: Choices { pacing: false, ..Choices::default() }, ..TcpConfig::default() }
}

/// TIME-WAIT, which a run includes.
const TIME_WAIT: Duration = Duration::from_secs(60);

#[test]
fn paced_start_needs_a_short_queue() {
    // The window fits the path, so only bursts queue.
    let with = run(&TcpConfig::default(), Plan::plain(1_000_000), PATH_SEGMENTS - 3).links[0];
    let without = run(&unpaced(), Plan::plain(1_000_000), PATH_SEGMENTS - 3).links[0];
    println!("with pacing {} packets at most, without {}", with.queue_max, without.queue_max);
    assert!(with.queue_max * 3 <= without.queue_max * 2, "{with:?}, {without:?} without pacing");
}

#[test]
fn window_kept_through_pauses_needs_a_short_queue() {
    let pauses = || Plan {
        write_chunk: (50_000, 50_000),
        pause: Share::ONE,
        pause_max: Duration::from_secs(4),
        ..Plan::plain(1_000_000)
    };
    let with = run(&TcpConfig::default(), pauses(), PATH_SEGMENTS).links[0];
    let without = run(&unpaced(), pauses(), PATH_SEGMENTS).links[0];
    println!("with pacing {} packets at most, without {}", with.queue_max, without.queue_max);
    assert!(with.queue_max * 2 <= without.queue_max, "{with:?}, {without:?} without pacing");
}

#[test]
fn pacing_costs_no_goodput_at_a_bottleneck() {
    let took = |tcp: &TcpConfig| run(tcp, Plan::plain(5_000_000), 1_000).time - TIME_WAIT;
    let (with, without) = (took(&TcpConfig::default()), took(&unpaced()));
    println!("{with:?} with pacing, {without:?} without");
    assert!(with <= without + without / 50, "{with:?} with pacing, {without:?} without");
}

#[test]
fn bbr_fills_the_path_and_not_its_queue() {
    let congestion = |name| Registry::builtin().find(name).expect("it is built in");
    let bbr = TcpConfig { congestion: congestion("bbr"), ..TcpConfig::default() };
    let bytes = 10_000_000;
    let report = run(&bbr, Plan::plain(bytes), 1_000);
    let (took, queue) = (report.time - TIME_WAIT, report.links[0]);
    println!("bbr: {took:?}, queue {} at most, {} on average", queue.queue_max, queue.queue_mean());
    // 8.6 s at the rate of the path, headers included.
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(queue.queue_mean() < PATH_SEGMENTS as u64 / 2, "{queue:?}");
    assert!(queue.queue_max < 3 * PATH_SEGMENTS, "{queue:?}");
    let cubic = run(&TcpConfig::default(), Plan::plain(bytes), 1_000).links[0];
    println!("cubic: queue {} at most, {} on average", cubic.queue_max, cubic.queue_mean());
    assert!(queue.queue_mean() * 3 < cubic.queue_mean(), "{queue:?}, {cubic:?} with cubic");
}
