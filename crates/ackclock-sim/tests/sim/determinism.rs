//! One scenario and one seed give the same packets at the same nanoseconds.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_sim::observe::{LogHash, PacketLog};
use ackclock_sim::scenario::{Jitter, Loss, SizeOf, TcplibMix, TimeOf, Variation};
use ackclock_sim::units::{Bytes, Limit, Rate, Share, Span};
use ackclock_sim::{Direction, QueueConfig, Scenario, Simulation, TrafficConfig, TrafficKind};

use super::dumbbell;

/// Some of everything that draws random numbers.
fn busy(seed: u64) -> Scenario {
    let jitter = Jitter { by: Variation::Exponential(Span::millis(1)), may_reorder: true };
    let red = QueueConfig::Red {
        limit: Limit::Packets(60),
        min: 10,
        max: 40,
        max_p: Share::percent(2),
        weight_shift: 9,
        gentle: true,
        mark: false,
    };
    let middle = Direction { jitter: Some(jitter), ..Direction::new(Rate::mbit(4), Span::millis(20)) };
    let middle = middle.queue(red).loss(Loss::Independent(Share::per_million(2000)));
    let every = Span::millis(700);
    let tcplib = TrafficKind::Tcplib { every, until: None, mix: TcplibMix::default() };
    let pages = TrafficKind::RequestResponse {
        request: SizeOf::Fixed(Bytes(300)),
        response: SizeOf::Pareto { least: Bytes(2000), shape_thousandths: 1200 },
        think: TimeOf::Exponential(Span::millis(300)),
        serve: TimeOf::Fixed(Span::millis(3)),
        requests: None,
        per_connection: Some(4),
    };
    dumbbell(Span::seconds(10), middle)
        .seed(seed)
        .traffic(TrafficConfig::bulk("bulk", "a", "b", None))
        .traffic(TrafficConfig::new("tcplib", "b", "a", tcplib))
        .traffic(TrafficConfig::new("pages", "a", "b", pages))
}

fn hash(scenario: &Scenario) -> u64 {
    let log = Rc::new(RefCell::new(LogHash::default()));
    let mut simulation = Simulation::new(scenario).unwrap();
    simulation.observe(log.clone());
    simulation.run();
    let log = log.borrow();
    assert!(log.records() > 10_000, "{}", log.records());
    log.value()
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let log = || {
        let log = Rc::new(RefCell::new(PacketLog::default()));
        let mut simulation = Simulation::new(&busy(1)).unwrap();
        simulation.observe(log.clone());
        simulation.run();
        drop(simulation);
        Rc::into_inner(log).unwrap().into_inner().bytes().to_vec()
    };
    let (first, second) = (log(), log());
    assert!(first.len() > 10_000 * PacketLog::RECORD && first == second);
}

#[test]
fn another_seed_gives_other_packets() {
    assert_eq!(hash(&busy(1)), hash(&busy(1)));
    assert_ne!(hash(&busy(1)), hash(&busy(2)));
}

#[test]
fn who_looks_on_changes_nothing() {
    let unseen = Simulation::new(&busy(3)).unwrap().run();
    let mut simulation = Simulation::new(&busy(3)).unwrap();
    simulation.observe(PacketLog::default());
    let seen = simulation.run();
    assert_eq!(serde_json::to_string(&unseen).unwrap(), serde_json::to_string(&seen).unwrap());
}

#[test]
fn payloads_that_are_not_carried_change_nothing() {
    let report = |full_packets| {
        let scenario = Scenario { full_packets, ..busy(6) };
        serde_json::to_string(&Simulation::new(&scenario).unwrap().run()).unwrap()
    };
    assert_eq!(report(false), report(true));
}

#[test]
fn a_link_more_does_not_shift_the_others_draws() {
    let with = busy(4).host("c").link("c", "left", Direction::new(Rate::mbit(1), Span::millis(1)));
    // The numbers of nodes and links move, so the logs differ, but the events are the same.
    let report = |scenario: &Scenario| {
        let report = Simulation::new(scenario).unwrap().run();
        serde_json::to_string(&(&report.flows, report.link("left-right:there"))).unwrap()
    };
    assert_eq!(report(&busy(4)), report(&with));
}
