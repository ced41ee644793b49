//! Faults of whole hosts: partitions, packets that are held back, crashes.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_core::Instant;
use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::queue::DropRule;
use ackclock_sim::scenario::{SizeOf, TimeOf, TrafficKind};
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Change, Direction, Report, Scenario, Simulation, TrafficConfig};

use super::{bottleneck, dumbbell};

const MEGABYTE: Option<Bytes> = Some(Bytes(1_000_000));

/// A megabyte from `a` to `b`, which takes a second without faults.
fn transfer(change: impl IntoIterator<Item = Change>) -> Scenario {
    let scenario = dumbbell(Span::seconds(60), bottleneck());
    let scenario = scenario.traffic(TrafficConfig::bulk("transfer", "a", "b", MEGABYTE));
    change.into_iter().fold(scenario, Scenario::change)
}

fn run(scenario: &Scenario) -> Report {
    Simulation::new(scenario).unwrap().run()
}

/// When packets were delivered to each node, and those lost, with their rule.
#[derive(Debug, Default)]
struct Seen {
    delivered: Vec<(u64, u32)>,
    lost: Vec<(u64, DropRule)>,
}

impl Observer for Seen {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let at = event.at.as_millis();
        match event.what {
            What::Delivered => self.delivered.push((at, event.node)),
            What::Dropped(rule) => self.lost.push((at, rule)),
            _ => {}
        }
    }
}

fn seen(scenario: &Scenario) -> (Report, Rc<RefCell<Seen>>) {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut simulation = Simulation::new(scenario).unwrap();
    simulation.observe(seen.clone());
    (simulation.run(), seen)
}

#[test]
fn a_partition_loses_everything_from_its_instant_on_and_healing_ends_it() {
    let scenario = transfer([
        Change::partition(Span::millis(500), "a", "b"),
        Change::heal(Span::millis(2500), "*", "*"),
    ]);
    let (report, seen) = seen(&scenario);
    assert_eq!(report.flows[0].there.bytes, 1_000_000, "TCP survives it");
    let seen = seen.borrow();
    assert!(!seen.delivered.iter().any(|(at, _)| (500..2500).contains(at)));
    let cut: Vec<u64> =
        seen.lost.iter().filter(|(_, rule)| *rule == DropRule::Partition).map(|(at, _)| *at).collect();
    // The packets under way, and the retransmissions of two seconds.
    assert!(cut.iter().all(|at| (500..2500).contains(at)));
    assert!(cut.iter().filter(|at| **at < 600).count() > 20 && cut.iter().any(|at| *at > 700), "{cut:?}");
    assert_eq!(report.packets_partitioned, cut.len() as u64);
}

#[test]
fn a_partition_is_between_its_groups_alone() {
    let link = || Direction::new(Rate::mbit(10), Span::millis(1));
    let mut scenario = Scenario::new(Span::seconds(20)).router("r").host("client");
    for name in ["node-1", "node-2", "node-3"] {
        let traffic = TrafficConfig::bulk(name, "client", name, MEGABYTE);
        scenario = scenario.host(name).link(name, "r", link()).traffic(traffic);
    }
    let scenario = scenario
        .link("client", "r", link())
        .change(Change::partition(Span(1), "client", "node-*"))
        .change(Change::heal(Span(2), "node-2", "client"));
    let report = run(&scenario);
    let bytes: Vec<u64> = report.flows.iter().map(|flow| flow.there.bytes).collect();
    assert_eq!(bytes, [0, 1_000_000, 0]);
}

#[test]
fn packets_that_are_held_arrive_in_their_order_when_they_are_released() {
    let scenario =
        transfer([Change::hold(Span::millis(500), "b", "a"), Change::release(Span::millis(900), "a", "b")]);
    let (report, seen) = seen(&scenario);
    let flow = &report.flows[0];
    assert_eq!((flow.there.bytes, flow.failed), (1_000_000, 0));
    let seen = seen.borrow();
    assert!(!seen.delivered.iter().any(|(at, _)| (500..900).contains(at)));
    assert!(seen.delivered.iter().filter(|(at, _)| *at == 900).count() > 20);
    assert!(!seen.lost.iter().any(|(_, rule)| *rule == DropRule::Partition));
}

#[test]
fn a_host_that_crashes_is_silent_and_answers_with_resets_once_it_is_back() {
    let silent = transfer([Change::crash(Span::millis(500), "b")]);
    let (report, events) = seen(&silent);
    assert!(report.packets_to_hosts_down > 20);
    let server = 1;
    assert!(!events.borrow().delivered.iter().any(|(at, node)| *node == server && *at >= 500));
    let flow = &report.flows[0];
    assert!(flow.there.bytes < 500_000 && flow.closed == 0, "the sender has not given up: {flow:?}");

    let back = transfer([Change::crash(Span::millis(500), "b"), Change::restart(Span::seconds(5), "b")]);
    let report = run(&back);
    let flow = &report.flows[0];
    assert_eq!((flow.closed, flow.failed), (1, 1), "reset by the new life of the host");
}

#[test]
fn the_traffic_of_a_host_begins_again_when_it_restarts() {
    // A client that crashes sends its megabyte again; its server forgets the first connection's rest.
    let scenario = transfer([Change::crash(Span::millis(300), "a"), Change::restart(Span::seconds(3), "a")]);
    let report = run(&scenario);
    let flow = &report.flows[0];
    assert_eq!((flow.connections, flow.failed), (2, 1));
    assert!((1_000_001..1_500_000).contains(&flow.there.bytes), "{}", flow.there.bytes);

    // Timers of the first life mean nothing in the second: no request is made twice as often.
    let requests = |change: Vec<Change>| {
        let what = TrafficKind::RequestResponse {
            request: SizeOf::Fixed(Bytes(100)),
            response: SizeOf::Fixed(Bytes(1000)),
            think: TimeOf::Fixed(Span::millis(100)),
            serve: TimeOf::Fixed(Span(0)),
            requests: None,
            per_connection: None,
        };
        let scenario = dumbbell(Span::seconds(20), bottleneck());
        let scenario = scenario.traffic(TrafficConfig { what, ..TrafficConfig::bulk("web", "a", "b", None) });
        run(&change.into_iter().fold(scenario, Scenario::change)).flows[0].back.bytes / 1000
    };
    let undisturbed = requests(vec![]);
    let crashed =
        requests(vec![Change::crash(Span::millis(4050), "a"), Change::restart(Span::millis(4100), "a")]);
    assert!((undisturbed - 4..=undisturbed).contains(&crashed), "{crashed} of {undisturbed}");
}

#[test]
fn what_begins_while_its_host_is_down_begins_when_it_is_up() {
    let scenario = dumbbell(Span::seconds(20), bottleneck())
        .traffic(TrafficConfig { start: Span::seconds(2), ..TrafficConfig::bulk("late", "a", "b", MEGABYTE) })
        .change(Change::crash(Span::seconds(1), "a"))
        .change(Change::restart(Span::seconds(4), "a"));
    let (report, seen) = seen(&scenario);
    assert_eq!(report.flows[0].there.bytes, 1_000_000);
    let first = seen.borrow().delivered.first().unwrap().0;
    assert!((4000..4100).contains(&first), "{first}");
}

#[test]
fn the_same_from_a_file_at_once_and_at_a_time() {
    let text = r#"
        duration = "60s"
        seed = 1
        routers = ["left", "right"]
        host = [{ name = "a" }, { name = "b" }]
        link = [
            { between = ["a", "left"], there = { rate = "100Mbit/s", delay = "1ms" } },
            { between = ["left", "right"], there = { rate = "8Mbit/s", delay = "20ms", queue = { drop-tail = { limit = "50packets" } } } },
            { between = ["right", "b"], there = { rate = "100Mbit/s", delay = "1ms" } },
        ]
        traffic = [{ name = "transfer", from = "a", to = "b", what = { bulk = { bytes = "1MB" } } }]
        change = [
            { at = "500ms", partition = ["a", "*"] },
            { at = "2500ms", heal = ["a", "*"] },
            { at = "3s", hold = ["a", "b"] },
            { at = "4s", release = ["a", "b"] },
            { at = "50s", crash = "b" },
            { at = "51s", restart = "b" },
        ]
    "#;
    let scenario = Scenario::from_toml("faults.toml", text).unwrap();
    assert_eq!(Scenario::from_toml("again.toml", &scenario.to_toml().unwrap()).unwrap(), scenario);
    let by_file = run(&scenario);

    let mut simulation = Simulation::new(&Scenario { changes: Vec::new(), ..scenario.clone() }).unwrap();
    for change in &scenario.changes {
        simulation.schedule(change).unwrap();
    }
    assert_eq!(simulation.run().flows[0].there.segments, by_file.flows[0].there.segments);

    let mut simulation = Simulation::new(&Scenario { changes: Vec::new(), ..scenario.clone() }).unwrap();
    for change in &scenario.changes {
        simulation.run_until(Instant::from_nanos(change.at.0));
        simulation.apply(change).unwrap();
    }
    assert_eq!(simulation.run().flows[0].there.segments, by_file.flows[0].there.segments);
}

#[test]
fn a_change_says_one_thing_of_names_that_exist() {
    let wrong = |change: Change| Simulation::new(&transfer([change])).unwrap_err().to_string();
    let at = Span::seconds(1);
    let two = Change { crash: Some("a".into()), ..Change::partition(at, "a", "b") };
    assert_eq!(
        wrong(two),
        "change[0]: found 2 of link, partition, heal, hold, release, crash and restart; allowed is one"
    );
    assert!(wrong(Change::default()).contains("found 0 of link"));
    let said = wrong(Change::partition(at, "a", "bb"));
    assert_eq!(said, "change[0].partition[1]: found `bb`; allowed are `a`, `b`; the nearest is `b`");
    assert!(
        wrong(Change::crash(at, "left")).starts_with("change[0].crash: found `left`; allowed are `a`, `b`")
    );
    assert!(wrong(Change::crash(at, "a, x*")).contains("found `x*`"));
    assert!(
        wrong(Change { up: Some(false), ..Change::new(at, "no") }).contains("change[0].link: found `no`")
    );
}

#[test]
fn a_simulation_says_which_changes_it_knows_who_is_down_and_what_its_flows_do() {
    let crash = Change { crash: Some("b".to_owned()), at: Span::millis(300), ..Change::default() };
    let mut simulation = Simulation::new(&transfer([crash.clone()])).unwrap();
    simulation.run_until(Instant::from_millis(200));
    assert_eq!(simulation.changes().collect::<Vec<_>>(), [&crash]);
    assert_eq!(simulation.hosts_down(), [] as [u32; 0]);
    // One that is made at once has the present time, whatever its own is; so has one whose time is over.
    let partition = Change::partition(Span::seconds(9), "a", "b");
    simulation.apply(&partition).unwrap();
    simulation.schedule(&Change::heal(Span(0), "*", "*")).unwrap();
    let times: Vec<u64> = simulation.changes().map(|change| change.at.0 / 1_000_000).collect();
    assert_eq!(times, [300, 200, 200]);
    simulation.run_until(Instant::from_millis(400));
    assert_eq!(simulation.hosts_down(), [simulation.node("b").unwrap().number]);
    let flows = simulation.flows();
    let [(name, flow)] = &*flows else { panic!("{flows:?}") };
    assert_eq!(*name, "transfer");
    // Less than 300 ms of the second that all of it takes; round trips are those of the dumbbell's path.
    assert!((1..400_000).contains(&flow.bytes) && flow.cwnd > 1000, "{flow:?}");
    let path = 2 * simulation.one_way_delay("a", "b").unwrap();
    assert!((path..path + 500_000_000).contains(&flow.srtt_ns), "{flow:?} {path}");
}
