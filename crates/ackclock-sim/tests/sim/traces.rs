//! Goal: the traces of connections and queues in a simulation are complete, agree with the report, and are
//! the same in every run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ackclock_core::trace::{BatchCause, Entry, SendReason};
use ackclock_sim::observe::Traces;
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Report, Scenario, Simulation, TcpSettings, TrafficConfig};

fn scenario() -> Scenario {
    let access = Direction::new(Rate::mbit(10), Span::millis(1));
    let bottleneck = Direction::new(Rate::bytes_per_second(200_000), Span::millis(20)).buffers(10);
    let mut scenario = Scenario::new(Span::seconds(30))
        .host("a")
        .host("b")
        .router("r")
        .link("a", "r", access)
        .link("r", "b", bottleneck)
        .traffic(TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(1_000_000))));
    scenario.tcp = TcpSettings::profile("reno-1990").traced();
    scenario
}

fn run(scenario: &Scenario) -> (Report, Rc<RefCell<Traces>>) {
    let mut simulation = Simulation::new(scenario).expect("a scenario");
    let link = simulation.link("r", "b").expect("a link");
    let traces = Rc::new(RefCell::new(Traces::new([link])));
    simulation.observe(Rc::clone(&traces));
    (simulation.run(), traces)
}

#[test]
fn what_was_sent_again_and_dropped_is_what_the_report_counts() {
    let (report, traces) = run(&scenario());
    let traces = traces.borrow();
    let mut sent_again = 0;
    let mut last = BTreeMap::new();
    for (node, batch) in traces.batches() {
        assert_eq!(batch.missed, 0);
        last.insert((*node, batch.connection), batch.cause);
        for entry in batch.records.iter().filter_map(|&record| Entry::decode(record)) {
            if let Entry::Sent { reason: SendReason::Retransmission, len, .. } = entry {
                sent_again += u64::from(len);
            }
        }
    }
    let flow = report.flow("transfer").expect("the transfer");
    assert!(flow.there.bytes_retransmitted > 0, "ten buffers are too few for a window of Reno");
    assert_eq!(sent_again, flow.there.bytes_retransmitted);
    // Both ends, each up to its end.
    assert_eq!(last.len(), 2);
    assert!(last.values().all(|&cause| cause == BatchCause::Ended), "{last:?}");

    let (_, queue) = traces.queues().next().expect("a queue");
    let entries = || queue.iter().filter_map(|&record| Entry::decode(record));
    let drops = entries().filter(|entry| matches!(entry, Entry::Dropped { .. })).count() as u64;
    let link = report.link("r-b:there").expect("the bottleneck");
    assert_eq!(drops, link.dropped());
    let packets = |entry| if let Entry::Queue { packets, .. } = entry { Some(packets) } else { None };
    assert_eq!(entries().filter_map(packets).max(), Some(link.queue_peak));
}

#[test]
fn the_same_scenario_writes_the_same_records() {
    let records = || {
        let (_, traces) = run(&scenario());
        let traces = traces.take();
        let batches: Vec<_> = traces.batches().iter().flat_map(|(_, batch)| batch.records.clone()).collect();
        (batches, traces.queues().flat_map(|(_, records)| records.to_vec()).collect::<Vec<_>>())
    };
    let (batches, queues) = records();
    assert!(batches.len() > 1000 && queues.len() > 500);
    assert_eq!((batches, queues), records());
}

#[test]
fn tracing_changes_no_packet() {
    let mut silent = scenario();
    silent.tcp.trace = None;
    let ((traced, _), (untraced, traces)) = (run(&scenario()), run(&silent));
    assert!(traces.borrow().batches().is_empty());
    assert_eq!(format!("{traced:?}"), format!("{untraced:?}"));
}
