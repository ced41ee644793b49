//! Late timers and acknowledgements in bursts: RACK depends on time, and must not collapse when time is
//! coarse.

use ackclock_control::quantity::Share;
use ackclock_core::TcpConfig;
use ackclock_core::profile::Choices;
use ackclock_tests::host_pair::{HostPair, Scenario};
use ackclock_tests::link::Faults;
use std::time::Duration;

const BYTES: u64 = 500_000;
const SEEDS: u64 = 16;
const LATE: Duration = Duration::from_millis(30);

/// How long a transfer takes over 50 Mbit/s with this round-trip time and loss, acknowledgements in bursts.
fn takes(pacing: bool, seed: u64, rtt: Duration, loss: Share, batch: Duration, late: Duration) -> Duration {
    let path = Faults { rate_bps: Some(50_000_000), queue_packets: 200, loss, ..Faults::none(rtt / 2) };
    let tcp = TcpConfig { choices: Choices { pacing, ..Choices::default() }, ..TcpConfig::default() };
    let scenario = Scenario::transfer(seed, BYTES, [tcp.clone(), tcp], &path);
    let scenario =
        Scenario { faults: [path.clone(), Faults { batch, loss: Share::ZERO, ..path }], ..scenario };
    HostPair::new(scenario).with_late_timers(late).run().finished
}

/// The sum over the seeds.
fn sum(pacing: bool, rtt: Duration, loss: Share, batch: Duration, late: Duration) -> Duration {
    (1..=SEEDS).map(|seed| takes(pacing, seed, rtt, loss, batch, late)).sum()
}

#[test]
fn late_timers_cost_no_goodput_though_acknowledgements_come_in_bursts() {
    compare(false);
}

#[test]
fn late_timers_cost_no_goodput_where_a_pacer_lives_by_them_too() {
    compare(true);
}

fn compare(pacing: bool) {
    for rtt in [5, 40].map(Duration::from_millis) {
        let mut totals = [Duration::ZERO; 2];
        for loss in [1_000, 10_000].map(Share::per_million) {
            for batch in [0, 30].map(Duration::from_millis) {
                let took = [Duration::ZERO, LATE].map(|late| sum(pacing, rtt, loss, batch, late));
                println!("round trip {rtt:?}, loss {loss}, bursts {batch:?}: {took:?}");
                totals.iter_mut().zip(took).for_each(|(total, took)| *total += took);
            }
        }
        let [prompt, late] = totals;
        // The mean over losses, bursts and seeds.
        assert!(late * 100 <= prompt * 105, "{rtt:?}: {prompt:?}, with late timers {late:?}");
    }
}
