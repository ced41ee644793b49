//! Paths: loss, a blackout, competing traffic, and two flows that share one.

use std::time::Duration;

use ackclock_sim::scenario::{Blackout, Loss};
use ackclock_sim::units::{Share, Span};
use ackclock_sim::{Scenario, TrafficConfig, VirtualNetwork};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep};

use super::support::{dumbbell, ends, give, path, payload, take, two};

const BYTES: usize = 1_000_000;

/// How long `a` takes to fetch `BYTES` from `x`.
fn fetch(scenario: &Scenario) -> Duration {
    let mut net = VirtualNetwork::new(scenario).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "x");
    let took = net.run(async {
        tokio::spawn(give(listener, payload(BYTES)));
        let begun = Instant::now();
        assert!(take(client.connect(addr).await.unwrap()).await.unwrap() == payload(BYTES));
        begun.elapsed()
    });
    took.unwrap()
}

#[test]
fn every_byte_arrives_over_a_path_that_loses_one_packet_in_a_hundred() {
    let lossy = path().loss(Loss::Independent(Share::percent(1)));
    let (clean, lossy) = (fetch(&dumbbell(path())), fetch(&dumbbell(lossy)));
    // 1 MB at 10 Mbit/s, with 40 bytes of headers on 1460.
    assert!(clean > Duration::from_millis(800) && clean < Duration::from_millis(1200), "{clean:?}");
    assert!(lossy > clean, "{lossy:?}, without loss {clean:?}");
}

#[test]
fn a_transfer_outlives_a_blackout() {
    let mut dark = path();
    dark.blackout.push(Blackout { from: Span::millis(300), to: Span::seconds(20) });
    let took = fetch(&dumbbell(dark));
    assert!(took > Duration::from_secs(20) && took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn the_scenarios_own_traffic_takes_its_share() {
    let alone = fetch(&dumbbell(path()));
    let beside = dumbbell(path()).traffic(TrafficConfig::bulk("load", "y", "b", None));
    let took = fetch(&beside);
    assert!(took > alone * 3 / 2, "{took:?}, alone {alone:?}");
}

#[test]
fn two_clients_share_a_bottleneck_evenly() {
    let mut net = VirtualNetwork::new(&dumbbell(path())).unwrap();
    let (first, listener, addr) = ends(&mut net, "a", "x");
    let second = net.stack("b").unwrap();
    let download = |client: ackclock::Stack| async move {
        let mut stream = client.connect(addr).await.unwrap();
        let (mut into, mut bytes) = (vec![0; 65_536], 0.0);
        let until = sleep(Duration::from_secs(40));
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                () = &mut until => return bytes,
                read = stream.read(&mut into) => bytes += read.unwrap() as f64,
            }
        }
    };
    let [a, b] = net
        .run(async {
            tokio::spawn(give(listener, payload(60_000_000)));
            let (a, b) = tokio::join!(download(first), download(second));
            [a, b]
        })
        .unwrap();
    let jain = (a + b).powi(2) / (2.0 * (a * a + b * b));
    assert!(jain > 0.95, "{a} and {b} bytes");
    assert!(a + b > 0.9 * 40.0 * 1.25e6 * 1460.0 / 1500.0, "{a} and {b} bytes");
    let report = net.report();
    assert!(report.link("l-r:back").unwrap().utilisation > 0.9);
    let received: f64 = report.guests.iter().map(|guest| guest.bytes_received as f64).sum();
    assert!(report.guests.len() >= 3 && received > a + b, "{:?}", report.guests);
}

#[test]
fn stacks_speak_version_6_where_the_scenario_does() {
    let scenario = Scenario { ipv6: true, ..dumbbell(path()) };
    let took = fetch(&scenario);
    assert!(took > Duration::from_millis(800) && took < Duration::from_millis(1200), "{took:?}");
}

#[test]
fn tasks_and_time_go_on_from_run_to_run() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    let stream = net.run(async {
        tokio::spawn(give(listener, payload(BYTES)));
        client.connect(addr).await.unwrap()
    });
    let between = net.now();
    assert!(net.run(take(stream.unwrap())).unwrap().unwrap() == payload(BYTES));
    assert!(net.now().saturating_since(between) > Duration::from_millis(800));
}
