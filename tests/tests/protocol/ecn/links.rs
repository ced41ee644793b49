//! Both ends over links that mark, by chance or by the length of their queue.

use std::time::Duration;

use ackclock_control::quantity::Share;
use ackclock_core::TcpConfig;
use ackclock_core::congestion::Registry;
use ackclock_core::profile::{Choices, Ecn};
use ackclock_tests::host_pair::{HostPair, HostPairReport, Scenario};
use ackclock_tests::link::Faults;

/// A transfer of this many bytes from client to server with this controller, over this link and one back that
/// only delays.
fn transfer(congestion: &str, ecn: Ecn, bytes: u64, link: Faults) -> HostPairReport {
    let congestion = Registry::builtin().find(congestion).expect("it is built in");
    let tcp =
        TcpConfig { congestion, choices: Choices { ecn, ..Choices::default() }, ..TcpConfig::default() };
    let back = Faults::none(link.delay);
    let scenario = Scenario::transfer(3, bytes, [tcp.clone(), tcp], &link);
    HostPair::new(Scenario { faults: [link, back], ..scenario }).run()
}

/// 10 Mbit/s, a round trip of 10 ms (8 packets), and a queue of 28 packets that marks from `threshold`
/// packets on. Slow start learns of a mark a round trip later and reaches twice 8 + `threshold` packets.
fn marking(threshold: usize) -> Faults {
    Faults {
        rate_bps: Some(10_000_000),
        queue_packets: 28,
        mark_above: Some(threshold),
        ..Faults::none(Duration::from_millis(5))
    }
}

/// RFC 3168: congestion is signalled without a loss.
#[test]
fn marks_take_the_place_of_losses() {
    for congestion in ["cubic", "reno"] {
        for ecn in [Ecn::Classic, Ecn::Accurate] {
            let report = transfer(congestion, ecn, 2_000_000, marking(8));
            let link = report.links[0];
            let name = format!("{congestion}, {ecn:?}: {report:?}");
            assert!(link.marked > 0, "{name}");
            assert_eq!((link.queue_drops, report.retransmits), (0, [0, 0]), "{name}");
            let sender = report.ecn[0].expect("ECN was agreed on");
            assert!(sender.capable && sender.reductions >= 2, "{name}");
            let receiver = report.ecn[1].expect("ECN was agreed on");
            assert_eq!(receiver.packets_marked, link.marked, "{name}");
        }
    }
    // Without ECN the transfer fills the queue until it overflows.
    let report = transfer("reno", Ecn::Off, 2_000_000, marking(8));
    assert!(report.links[0].queue_drops > 0 && report.links[0].marked == 0, "{report:?}");
    assert_eq!(report.ecn, [None, None]);
}

/// RFC 9768: the sender knows exactly how many packets were marked.
#[test]
fn accurate_feedback_counts_every_mark() {
    for mark in [1, 10, 40].map(Share::percent) {
        let link = Faults { mark, ..Faults::none(Duration::from_millis(5)) };
        let report = transfer("dctcp", Ecn::Accurate, 1_000_000, link);
        let (sender, receiver) = (report.ecn[0].unwrap(), report.ecn[1].unwrap());
        assert_eq!(receiver.packets_marked, report.links[0].marked);
        assert_eq!(sender.marks_reported, receiver.packets_marked, "{report:?}");
    }
}

/// RFC 8257 §3.3: alpha is the fraction of bytes that are marked.
#[test]
fn alpha_follows_the_marked_fraction() {
    for mark in [50_000, 200_000, 500_000_u32] {
        let link = Faults {
            mark: Share::per_million(mark),
            rate_bps: Some(100_000_000),
            ..Faults::none(Duration::from_millis(2))
        };
        let report = transfer("dctcp", Ecn::Accurate, 2_000_000, link);
        let alpha =
            report.controllers[0].iter().find(|(name, _)| *name == "alpha_ppm").expect("it tells alpha").1;
        let mark = i64::from(mark);
        assert!((mark / 2..mark * 3 / 2).contains(&alpha), "{mark} in a million are marked, alpha {alpha}");
    }
}

/// RFC 8257: the queue stays about where marks begin, and the link is used.
#[test]
fn dctcp_keeps_the_queue_near_the_threshold() {
    // Prague grows so slowly on a short round trip that it hardly comes back to the threshold in this time.
    for (congestion, least) in [("dctcp", 3), ("prague", 0)] {
        let report = transfer(congestion, Ecn::Accurate, 4_000_000, marking(9));
        let link = report.links[0];
        assert_eq!((link.queue_drops, report.retransmits), (0, [0, 0]), "{congestion}: {report:?}");
        let average = link.queue_mean();
        assert!((least..14).contains(&average), "{congestion}: {average} packets wait on average");
    }
}
