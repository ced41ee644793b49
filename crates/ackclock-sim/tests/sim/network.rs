//! Links and routers as hosts see them: times to the nanosecond, routes, MTUs, damage.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_core::Instant;
use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::queue::DropRule;
use ackclock_sim::scenario::{Blackout, Change, Corruption, Jitter, Reordering, Scripted, Variation, Way};
use ackclock_sim::units::{Bytes, Rate, Share, Span};
use ackclock_sim::{Direction, Scenario, Simulation, TcpSettings, TrafficConfig};

use super::{bottleneck, dumbbell};

const MEGABYTE: Option<Bytes> = Some(Bytes(1_000_000));

/// Packet events: time, kind, node, packet, length.
#[derive(Debug, Default)]
struct Events(Vec<(u64, What, u32, u64, u32)>);

impl Observer for Events {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let packet = &event.packet;
        self.0.push((event.at.as_nanos(), event.what, event.node, packet.serial(), packet.len()));
    }
}

fn transfer(scenario: Scenario) -> Scenario {
    scenario.traffic(TrafficConfig::bulk("transfer", "a", "b", MEGABYTE))
}

fn delivered(scenario: &Scenario) -> ackclock_sim::Report {
    let report = Simulation::new(scenario).unwrap().run();
    assert_eq!(report.flows[0].there.bytes, 1_000_000, "{report:#?}");
    report
}

#[test]
fn a_packet_arrives_after_its_bits_and_its_delays() {
    // 7 Mbit/s, then 3 kbit/s: nothing divides evenly.
    let first = Direction::new(Rate::bits_per_second(7_000_000), Span(1_234_567));
    let second = Direction::new(Rate::bits_per_second(3_000), Span(7_654_321));
    let scenario = Scenario::new(Span::seconds(3)).host("a").host("b").router("r");
    let scenario = transfer(scenario.link("a", "r", first).link("r", "b", second));
    let events = Rc::new(RefCell::new(Events::default()));
    let mut simulation = Simulation::new(&scenario).unwrap();
    simulation.observe(events.clone());
    simulation.run_until(Instant::from_millis(2_500));
    let events = &events.borrow().0;
    let (sent, _, _, serial, len) = events[0];
    let arrived = events.iter().find(|event| event.1 == What::Delivered && event.3 == serial).unwrap().0;
    let bits = u64::from(len) * 8;
    let expected = bits * 1_000_000_000 / 7_000_000 + 1_234_567 + bits * 1_000_000_000 / 3_000 + 7_654_321;
    assert_eq!(arrived - sent, expected);
}

#[test]
fn every_packet_is_delivered_dropped_or_under_way() {
    let lossy = Direction { duplicate: Share::percent(1), ..bottleneck().buffers(8) }
        .loss(ackclock_sim::scenario::Loss::Independent(Share::percent(1)));
    let scenario = transfer(dumbbell(Span::millis(700), lossy));
    let events = Rc::new(RefCell::new(Events::default()));
    let mut simulation = Simulation::new(&scenario).unwrap();
    simulation.observe(events.clone());
    let report = simulation.run();
    let count =
        |what: fn(What) -> bool| events.borrow().0.iter().filter(|event| what(event.1)).count() as u64;
    let duplicated: u64 = report.links.iter().map(|link| link.duplicated).sum();
    let sent = count(|what| what == What::Sent) + duplicated;
    let gone = count(|what| what == What::Delivered) + count(|what| matches!(what, What::Dropped(_)));
    assert!(duplicated > 0 && report.packets_under_way > 0);
    assert_eq!(sent, gone + report.packets_under_way);
}

#[test]
fn an_asymmetric_link_has_a_rate_each_way() {
    let (fast, slow) = (Rate::mbit(10), Rate::bits_per_second(200_000));
    let scenario = Scenario::new(Span::seconds(20)).host("a").host("b").asymmetric(
        "a",
        "b",
        Direction::new(fast, Span::millis(10)),
        Direction::new(slow, Span::millis(30)),
    );
    let there = delivered(&transfer(scenario.clone())).flows[0].last_byte.unwrap();
    let back = scenario.traffic(TrafficConfig::bulk("transfer", "b", "a", Some(Bytes(100_000))));
    let report = Simulation::new(&back).unwrap().run();
    let back = report.flows[0].last_byte.unwrap();
    // 100 KB with headers at 25 KB/s take more than 4 s, 1 MB at 1.25 MB/s less than 1.5.
    assert!(there < 1.5 && (4.0..6.0).contains(&back), "{there} s there, {back} s back");
}

#[test]
fn a_larger_packet_than_a_link_takes_is_answered_and_the_path_mtu_found() {
    for ipv6 in [false, true] {
        let narrow = bottleneck().mtu(1280);
        let mut scenario = transfer(dumbbell(Span::seconds(20), narrow));
        scenario.ipv6 = ipv6;
        let events = Rc::new(RefCell::new(Events::default()));
        let mut simulation = Simulation::new(&scenario).unwrap();
        simulation.observe(events.clone());
        let report = simulation.run();
        assert_eq!(report.flows[0].there.bytes, 1_000_000);
        let too_big = report.link("left-right:there").unwrap().dropped_by(DropRule::TooBig);
        assert!((1..=20).contains(&too_big), "{too_big}");
        let b = simulation.node("b").unwrap().number;
        let events = events.borrow();
        let largest = events.0.iter().filter(|event| event.1 == What::Delivered && event.2 == b);
        assert_eq!(largest.map(|event| event.4).max(), Some(1280), "ipv6: {ipv6}");
        assert_eq!(report.flows[0].there.timeouts, 0);
    }
}

#[test]
fn a_transfer_survives_a_blackout() {
    let dark = Blackout { from: Span::millis(400), to: Span::millis(2400) };
    let report =
        delivered(&transfer(dumbbell(Span::seconds(30), Direction { blackout: vec![dark], ..bottleneck() })));
    let flow = &report.flows[0];
    assert!(flow.there.timeouts >= 1 && flow.last_byte.unwrap() > 2.4, "{flow:?}");
    assert!(flow.last_byte.unwrap() < 10.0, "{flow:?}");
    assert!(report.link("left-right:there").unwrap().dropped_by(DropRule::Blackout) > 0);
}

#[test]
fn when_a_link_goes_down_the_other_way_is_taken() {
    let slow = Direction::new(Rate::mbit(4), Span::millis(20));
    let scenario = dumbbell(Span::seconds(20), bottleneck())
        .router("around")
        .link("left", "around", slow.clone())
        .link("around", "right", slow)
        .change(Change { up: Some(false), ..Change::new(Span::millis(500), "left-right") })
        .change(Change { up: Some(true), ..Change::new(Span::millis(1000), "left-right") });
    let report = delivered(&transfer(scenario));
    let around = report.link("left-around:there").unwrap();
    assert!(around.sent > 50, "{around:?}");
    assert!(report.link("left-right:there").unwrap().sent > 200);
}

#[test]
fn rate_and_delay_change_on_time() {
    let (slower, later) = (Rate::mbit(1), Span::millis(200));
    let scenario = dumbbell(Span::seconds(20), bottleneck())
        .change(Change {
            rate: Some(slower),
            way: Way::There,
            ..Change::new(Span::millis(500), "left-right")
        })
        .change(Change { delay: Some(later), ..Change::new(Span::millis(500), "left-right") });
    let report = delivered(&transfer(scenario));
    // 0.5 s at 1 MB/s at most, the rest at 125 KB/s.
    assert!((4.5..12.0).contains(&report.flows[0].last_byte.unwrap()), "{:?}", report.flows[0]);
    assert!(report.flows[0].there.rtt.max > 0.4);
}

#[test]
fn scripted_losses_are_repaired_one_by_one() {
    let script = Scripted { packets: vec![100, 300], data: true, of: Some("transfer".into()) };
    let report = delivered(&transfer(dumbbell(
        Span::seconds(20),
        Direction { drop: vec![script], ..bottleneck().buffers(1000) },
    )));
    let link = report.link("left-right:there").unwrap();
    assert_eq!((link.dropped(), link.dropped_by(DropRule::Scripted)), (2, 2));
    assert_eq!((report.flows[0].there.retransmits, report.flows[0].there.timeouts), (2, 0));
}

#[test]
fn reordering_and_jitter_deliver_everything() {
    let reorder = Reordering { share: Share::percent(2), by: Span::millis(5) };
    let jitter = Jitter { by: Variation::Uniform(Span::millis(2)), may_reorder: true };
    for direction in [
        Direction { reorder: Some(reorder), ..bottleneck() },
        Direction { jitter: Some(jitter), ..bottleneck() },
        Direction { jitter: Some(Jitter { may_reorder: false, ..jitter }), ..bottleneck() },
    ] {
        let report = delivered(&transfer(dumbbell(Span::seconds(30), direction.clone())));
        let link = report.link("left-right:there").unwrap();
        assert_eq!(link.reordered > 0, direction.jitter.is_none_or(|jitter| jitter.may_reorder));
    }
}

#[test]
fn damage_is_found_by_checksums_and_repaired() {
    let corrupt = Corruption { found: Share::percent(1), unseen: Share::ZERO };
    let report = delivered(&transfer(dumbbell(
        Span::seconds(30),
        Direction { corrupt: Some(corrupt), ..bottleneck() },
    )));
    let link = report.link("left-right:there").unwrap();
    assert!(link.damaged > 0 && report.flows[0].there.retransmits >= link.damaged / 2, "{link:?}");
}

#[test]
fn a_hosts_timer_fires_at_its_ticks() {
    let dark = Blackout { from: Span::millis(300), to: Span::millis(600) };
    let run = |granularity| {
        let mut scenario =
            transfer(dumbbell(Span::seconds(30), Direction { blackout: vec![dark], ..bottleneck() }));
        scenario.hosts[0].timer_granularity = granularity;
        let events = Rc::new(RefCell::new(Events::default()));
        let mut simulation = Simulation::new(&scenario.tcp(TcpSettings::profile("reno-1990"))).unwrap();
        simulation.observe(events.clone());
        simulation.run();
        // The first packet that `a` sends after the blackout began and the wire ran dry.
        let events = events.borrow();
        let first =
            events.0.iter().find(|event| event.1 == What::Sent && event.2 == 0 && event.0 > 420_000_000);
        first.unwrap().0
    };
    let fires = run(Some(Span::millis(700)));
    assert_eq!(fires % 700_000_000, 0, "{fires}");
    assert_ne!(run(None) % 700_000_000, 0);
}
