//! Estimates of the bandwidth at the start of live connections, over a path of a known rate: Allman and
//! Paxson, SIGCOMM 1999, §3, at the sender, where they set ssthresh, and at the receiver.

use std::time::Duration;

use ackclock_core::bandwidth::SenderEstimatorKind;
use ackclock_core::congestion::{Registry, StartUpEstimate};
use ackclock_core::profile::Choices;
use ackclock_core::{ConnectionInfo, TcpConfig};
use ackclock_tests::host_pair::{HostPair, Scenario};
use ackclock_tests::link::Faults;

const RATE_BPS: u64 = 8_000_000;
const DELAY: Duration = Duration::from_millis(25);
/// Packets that wait before the bottleneck: a little less than the 33 of a round trip.
const QUEUE: usize = 30;
/// Payload in bytes a second, without IP and TCP headers.
const GOODPUT: u64 = RATE_BPS / 8 * 1448 / 1500;

/// A sender without a pacer, whose bursts show the bottleneck's spacing.
fn sender(start_up: Option<&str>) -> TcpConfig {
    TcpConfig {
        congestion: Registry::builtin().find("reno").expect("it is built in"),
        choices: Choices {
            start_up: start_up.map(|words| SenderEstimatorKind::find(words).expect("it is one of the names")),
            pacing: false,
            ..Choices::default()
        },
        ..TcpConfig::default()
    }
}

/// The estimates of both ends at the end of a transfer from client to server, with room for this many packets
/// before the bottleneck.
fn transfer(tcp: [TcpConfig; 2], queue_packets: usize, total: u64) -> ([ConnectionInfo; 2], u64) {
    let path = Faults { rate_bps: Some(RATE_BPS), queue_packets, ..Faults::none(DELAY) };
    let scenario = Scenario::transfer(3, total, tcp, &path);
    let (report, infos) = HostPair::new(scenario).run_and_look();
    (infos.map(|info| info.expect("both connected")), report.links[0].queue_drops)
}

// A4: live at the sender, setting ssthresh.
#[test]
fn senders_estimate_is_the_paths_rate_and_sets_ssthresh() {
    // Tests: A4
    for words in ["tssf", "csa", "csa:5,0.2", "tcsa", "tcsa-prime"] {
        let ([client, _], dropped) = transfer([sender(Some(words)), TcpConfig::default()], QUEUE, 2_000_000);
        let StartUpEstimate { bandwidth, window, set_ssthresh, .. } = client.start_up.expect(words);
        assert!(bandwidth.abs_diff(GOODPUT) < GOODPUT / 10, "{words}: {bandwidth} is not {GOODPUT}");
        assert!(set_ssthresh, "{words}");
        assert_eq!(client.ssthresh, Some(window), "{words}");
        let product = GOODPUT * client.rtt_min.as_millis() as u64 / 1000;
        assert!(window.abs_diff(product) < product / 8, "{words}: {window} is not {product}");
        assert_eq!((client.retransmits, dropped), (0, 0), "{words}: slow start ended in time");
    }
}

#[test]
fn without_an_estimate_slow_start_ends_in_losses() {
    let ([client, _], dropped) = transfer([sender(None), TcpConfig::default()], QUEUE, 2_000_000);
    assert_eq!(client.start_up, None);
    assert!(dropped > 0 && client.retransmits > 0, "{dropped} dropped");
}

// A4: Recv min, avg, med, max with K samples at the receiver.
#[test]
fn receivers_estimates_are_the_paths_rate() {
    // Tests: A4
    let receiver = TcpConfig {
        choices: Choices { receiver_bandwidth: Some(50), ..Choices::default() },
        ..TcpConfig::default()
    };
    let ([client, server], _) = transfer([sender(None), receiver], 1000, 1_000_000);
    let estimates = server.bandwidth.expect("data arrived in bursts");
    assert_eq!(estimates.samples, 50);
    assert!(estimates.min <= estimates.median && estimates.median <= estimates.max, "{estimates:?}");
    assert!(estimates.min <= estimates.mean && estimates.mean <= estimates.max, "{estimates:?}");
    for (name, estimate) in [("mean", estimates.mean), ("median", estimates.median), ("max", estimates.max)] {
        assert!(estimate.abs_diff(GOODPUT) < GOODPUT / 10, "{name}: {estimate} is not {GOODPUT}");
    }
    assert_eq!(client.bandwidth, None, "off unless asked for");
}
