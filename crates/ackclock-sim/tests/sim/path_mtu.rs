//! Goal: a path that silently drops large packets is found and used as far as it goes (RFC 4821), with and
//! without SACK, and used in full again when it carries more.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ackclock_core::trace::{Entry, Extension, Record};
use ackclock_sim::observe::Traces;
use ackclock_sim::queue::DropRule;
use ackclock_sim::scenario::{Change, MtuProbingSetting, Way};
use ackclock_sim::units::{Bytes, Span};
use ackclock_sim::{Report, Scenario, Simulation, TcpSettings, TrafficConfig};

use super::{bottleneck, dumbbell};

/// When the path begins to drop packets larger than 1,280 bytes, and when it carries all again.
const SHRINKS: Duration = Duration::from_secs(2);
const HEALS: Duration = Duration::from_secs(40);
const RAISE_AFTER: Duration = Duration::from_secs(20);

fn at(time: Duration, bytes: u64) -> Change {
    let span = Span::seconds(time.as_secs());
    Change { way: Way::There, drop_above: Some(Bytes(bytes)), ..Change::new(span, "left-right") }
}

/// 36 MB by 16 KB a round trip of 45 ms, which takes 100 s. So small a window keeps the hold after a lost
/// probe below a second or so: as many round trips as it has packets (RFC 4821 §7.6.2).
fn scenario(recovery: &str) -> Scenario {
    let probing = MtuProbingSetting {
        raise_after: Some(Span::seconds(RAISE_AFTER.as_secs())),
        ..MtuProbingSetting::default()
    };
    let tcp = TcpSettings {
        mtu_probing: Some(Box::new(probing)),
        receive_buffer: Some(Bytes(16_384)),
        receive_buffer_initial: Some(Bytes(16_384)),
        ..TcpSettings::default().choose("recovery", recovery)
    };
    let mut scenario = dumbbell(Span::seconds(200), bottleneck())
        .traffic(TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(36_000_000))))
        .change(at(SHRINKS, 1280))
        .change(at(HEALS, 65_535));
    scenario.tcp = tcp.traced();
    scenario
}

/// The report of a run, and the sender's decisions on the path MTU with their times.
fn run(scenario: &Scenario) -> (Report, Vec<(Duration, Extension, u32)>) {
    let mut simulation = Simulation::new(scenario).expect("a scenario");
    let traces = Rc::new(RefCell::new(Traces::new([])));
    simulation.observe(Rc::clone(&traces));
    let report = simulation.run();
    let traces = traces.borrow();
    let records = traces.batches().iter().flat_map(|(_, batch)| &batch.records);
    let decision = |record: &Record| match Entry::decode(*record)? {
        Entry::Extension { what, value } => Some((Duration::from_nanos(record.nanos()), what, value)),
        _ => None,
    };
    (report, records.filter_map(decision).collect())
}

#[test]
fn a_path_that_shrinks_silently_is_found_and_used_in_full_once_it_heals() {
    for recovery in ["rack-tlp", "sack", "newreno", "reno", "tahoe"] {
        let (report, decisions) = run(&scenario(recovery));
        let flow = report.flow("transfer").expect("the transfer");
        assert_eq!((flow.there.bytes, flow.failed), (36_000_000, 0), "{recovery}: every byte arrives");
        let when = |what| {
            let all = decisions.iter().filter(move |decision| decision.1 == what);
            all.map(|&(at, _, value)| (at, value)).collect::<Vec<_>>()
        };

        let holes = when(Extension::MtuBlackHole);
        let &[(found, to)] = &holes[..] else { panic!("{recovery}: {holes:?}") };
        // Two timeouts in a row: at least 200 ms and 400 ms, and at most a queue of 75 ms with its variation
        // on top.
        let took = found - SHRINKS;
        assert!(
            took >= Duration::from_millis(500) && took <= Duration::from_millis(2500),
            "{recovery}: {took:?}"
        );
        assert_eq!(to, 1024);

        let raised = when(Extension::MtuRaised);
        let (_, largest) = *raised.iter().rfind(|(at, _)| *at < HEALS).expect("a search");
        assert!((1265..=1280).contains(&largest), "{recovery}: {largest}, {raised:?}");
        // The search then rests. The first probe after it finds the path whole.
        let (whole, size) = *raised.last().expect("a search");
        assert_eq!(size, 1500, "{recovery}: {raised:?}");
        let healed = whole - HEALS;
        assert!(healed <= RAISE_AFTER + Duration::from_secs(5), "{recovery}: {healed:?}");

        // A lost probe causes no timeout: only those of the black hole occur.
        let lost = when(Extension::MtuTooLarge).len() as u64;
        assert!(lost >= 2, "{recovery}");
        assert!((2..=4).contains(&flow.there.timeouts), "{recovery}: {} timeouts", flow.there.timeouts);
        let link = report.link("left-right:there").expect("the bottleneck");
        assert!(link.dropped_by(DropRule::AboveSize) >= 3 * lost, "{recovery}");
    }
}

#[test]
fn without_the_search_the_same_path_lets_nothing_through() {
    let mut scenario = scenario("rack-tlp");
    scenario.tcp.mtu_probing = None;
    scenario.changes.pop();
    let (report, decisions) = run(&scenario);
    let flow = report.flow("transfer").expect("the transfer");
    assert!(decisions.is_empty());
    // 2 s are 44 round trips, of 16 KB after slow start.
    assert!((300_000..800_000).contains(&flow.there.bytes), "{}", flow.there.bytes);
}
