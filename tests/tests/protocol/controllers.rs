//! Every congestion controller on real connections in virtual time: every byte is compared, and the oracles
//! of the pair run after every step. Profiles, with all their choices, are in `profiles.rs`.

use std::sync::Arc;
use std::time::Duration;

use ackclock_control::quantity::Share;
use ackclock_core::TcpConfig;
use ackclock_core::congestion::{ControllerFactory, Registry};
use ackclock_tests::host_pair::{HostPair, HostPairReport, Scenario};
use ackclock_tests::link::Faults;

const BYTES: u64 = 1_000_000;

/// A transfer from client to server over 20 Mbit/s, 20 ms and a queue of 50 packets, with this loss both
/// ways.
fn transfer(congestion: Arc<dyn ControllerFactory>, loss: Share) -> HostPairReport {
    let tcp = TcpConfig { congestion, ..TcpConfig::default() };
    let path = Faults {
        rate_bps: Some(20_000_000),
        queue_packets: 50,
        loss,
        ..Faults::none(Duration::from_millis(10))
    };
    let scenario = Scenario::transfer(1, BYTES, [tcp.clone(), tcp], &path);
    HostPair::new(scenario).run()
}

#[test]
fn every_controller_completes_a_transfer_whatever_is_lost() {
    let registry = Registry::builtin();
    for name in registry.names() {
        for loss in [0, 1, 5].map(Share::percent) {
            let factory = registry.find(name).expect("it is one of the names");
            let report = transfer(factory, loss);
            assert_eq!(report.bytes, BYTES + 1, "{name} with a loss of {loss}");
            // Most of it is TIME-WAIT.
            assert!(report.time < Duration::from_secs(75), "{name} with {loss}: {:?}", report.time);
        }
    }
}

/// Loss must slow a controller that responds to it: a window that grows through losses would fill the queue
/// again and again. Reno's slow start ends with the first loss. It may drop the excess of one flight, at most
/// what path and queue hold: 35 packets and 50. The others end theirs sooner.
#[test]
fn losses_do_not_fill_the_queue() {
    let dropped = |factory| transfer(factory, Share::percent(1)).links[0].queue_drops;
    for (name, most) in [("cubic", 19), ("reno", 85), ("newreno", 19), ("vegas", 19)] {
        let dropped = dropped(Registry::builtin().find(name).expect("it is built in"));
        assert!(dropped <= most, "{name}: {dropped} packets dropped by the queue");
    }
    let blind = dropped(Registry::with_experiments().find("none-1987").expect("it is an experiment"));
    assert!(blind > 85, "a sender that no loss slows has {blind} packets dropped");
}
