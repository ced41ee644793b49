//! Goal: links that follow traces, send in bursts, or leave acknowledgements out do what their keys say.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ackclock_sim::link_trace::models;
use ackclock_sim::observe::{LogHash, Observer, PacketEvent, What};
use ackclock_sim::queue::DropRule;
use ackclock_sim::report::Report;
use ackclock_sim::scenario::{Aggregation, FollowedTrace, ThinAcks, TimeOf};
use ackclock_sim::units::{Bytes, Rate, Share, Span};
use ackclock_sim::{Change, Direction, LinkTrace, Scenario, Simulation, TcpSettings, TrafficConfig};

/// A sends to b over this direction; the way back is fast.
fn one_way(duration: Span, there: Direction, bytes: Option<u64>) -> Scenario {
    let back = Direction::new(Rate::mbit(100), Span::millis(10));
    Scenario::new(duration)
        .seed(1)
        .host("a")
        .host("b")
        .asymmetric("a", "b", there, back)
        .traffic(TrafficConfig::bulk("transfer", "a", "b", bytes.map(Bytes)))
}

fn follow(text: &str) -> FollowedTrace {
    FollowedTrace::given("test", LinkTrace::parse(text).expect("a trace"))
}

fn run(scenario: &Scenario) -> Report {
    Simulation::new(scenario).expect("it can be run").run()
}

/// When packets arrived at the host b, and their bytes.
#[derive(Default)]
struct Arrivals(Vec<(u64, u64)>);

impl Observer for Arrivals {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.what == What::Delivered && event.node == 1 {
            self.0.push((event.at.as_nanos(), u64::from(event.packet.len())));
        }
    }
}

fn arrivals(scenario: &Scenario) -> Vec<(u64, u64)> {
    let arrivals = Rc::new(RefCell::new(Arrivals::default()));
    let mut simulation = Simulation::new(scenario).expect("it can be run");
    simulation.observe(Rc::clone(&arrivals));
    simulation.run();
    arrivals.take().0
}

/// Bits a second that arrive from one second to another.
fn rate(arrivals: &[(u64, u64)], from: u64, to: u64) -> f64 {
    let within = |at: &u64| (from * SECOND..to * SECOND).contains(at);
    let bytes: u64 = arrivals.iter().filter(|(at, _)| within(at)).map(|(_, bytes)| bytes).sum();
    bytes as f64 * 8.0 / (to - from) as f64
}

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Mahimahi's manual page: a trace of one opportunity a millisecond is a link of 12 Mbit/s.
#[test]
fn an_opportunity_each_millisecond_is_twelve_megabits() {
    let there = Direction::following(follow("1"), Span::millis(10)).buffers(100);
    let scenario = one_way(Span::seconds(20), there, None);
    let rate = rate(&arrivals(&scenario), 2, 20);
    assert!((rate / 12e6 - 1.0).abs() < 0.005, "{rate}");
    // A packet of 1,500 bytes leaves four bytes of 1,504 to the next, so all are used.
    let report = run(&scenario);
    let utilisation = report.link("a-b:there").expect("the link").utilisation;
    assert!((0.97..=1.0).contains(&utilisation), "{utilisation}");
}

#[test]
fn packets_arrive_at_opportunities_and_at_no_other_time() {
    // 7, 8 and 8 of every 20 ms.
    let there = Direction::following(follow("7\n8\n8\n20\n"), Span::millis(10)).buffers(100);
    let arrivals = arrivals(&one_way(Span::seconds(10), there, None));
    assert!(arrivals.len() > 1000, "{}", arrivals.len());
    let mut at_once: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, bytes) in &arrivals {
        assert_eq!(at % MS, 0);
        let offset = (at / MS - 10) % 20;
        assert!([0, 7, 8].contains(&offset), "{offset}");
        *at_once.entry(*at).or_default() += bytes;
    }
    // A packet may have begun with earlier opportunities.
    for (at, bytes) in at_once {
        let opportunities = if (at / MS - 10) % 20 == 8 { 2 } else { 1 };
        assert!(bytes <= opportunities * 1504 + 1500, "{bytes} at {at}");
    }
}

#[test]
fn a_step_of_the_rate_is_seen_in_what_arrives() {
    let text = "time (s),rate (Mbit/s),delay (ms)\n0,8,10\n10,2,10\n20,16,20\n30,,\n";
    let there = Direction::following(follow(text), Span(0)).buffers(60);
    let scenario = one_way(Span::seconds(30), there, None);
    let arrivals = arrivals(&scenario);
    for (from, to, mbit) in [(4, 10, 8.0), (12, 20, 2.0), (24, 30, 16.0)] {
        let rate = rate(&arrivals, from, to) / 1e6;
        assert!((rate / mbit - 1.0).abs() < 0.02, "{rate} Mbit/s from {from} s on, not {mbit}");
    }
    // The gap between the last packet of one delay and the first of the next is the step of the delay.
    let gap = arrivals
        .windows(2)
        .filter(|pair| pair[0].0 > SECOND)
        .map(|pair| (pair[1].0 - pair[0].0, pair[1].0))
        .max();
    let (gap, at) = gap.expect("packets arrive");
    assert!((10 * MS..18 * MS).contains(&gap) && at.abs_diff(20 * SECOND) < 40 * MS, "{gap} at {at}");
}

#[test]
fn loss_follows_its_column() {
    let text = "time (s),loss (%)\n0,0\n10,10\n";
    let direction = Direction::new(Rate::mbit(8), Span::millis(10)).buffers(1000);
    let there = Direction { trace: Some(follow(text)), ..direction };
    let scenario = one_way(Span::seconds(20), there, None);
    let lost = |until| {
        let mut simulation = Simulation::new(&scenario).expect("it can be run");
        simulation.run_until(ackclock_core::Instant::from_nanos(until * SECOND));
        let link = simulation.report().link("a-b:there").expect("the link").clone();
        (link.dropped_by(DropRule::RandomLoss) as f64, link.sent as f64)
    };
    let (before, all) = (lost(10), lost(20));
    assert_eq!(before.0, 0.0);
    let (lost, sent) = (all.0, all.1 - before.1);
    // Four deviations of a binomial count.
    assert!((lost - sent / 10.0).abs() < 4.0 * (sent * 0.09).sqrt(), "{lost} of {sent}");
}

#[test]
fn an_outage_ends_and_what_waited_arrives() {
    let text = "time (s),rate (Mbit/s)\n0,8\n3,0\n5,8\n30,\n";
    let scenario =
        one_way(Span::seconds(10), Direction::following(follow(text), Span::millis(10)), Some(5_000_000));
    let arrivals = arrivals(&scenario);
    // The packet under way when the outage began goes on after it.
    let quiet = |at: &u64| (3 * SECOND + 11 * MS..5 * SECOND).contains(at);
    assert!(!arrivals.iter().any(|(at, _)| quiet(at)));
    assert!(arrivals.iter().any(|(at, _)| *at > 5 * SECOND));
    assert_eq!(run(&scenario).flows[0].there.bytes, 5_000_000);
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let hash = |scenario: &Scenario| {
        let log = Rc::new(RefCell::new(LogHash::default()));
        let mut simulation = Simulation::new(scenario).expect("it can be run");
        simulation.observe(Rc::clone(&log));
        simulation.run();
        let log = log.borrow();
        assert!(log.records() > 10_000, "{}", log.records());
        log.value()
    };
    let bursts = Aggregation::new(TimeOf::Exponential(Span::millis(1)));
    for there in [
        Direction::following(FollowedTrace::from("model:lte".to_owned()), Span::millis(20)),
        Direction::following(FollowedTrace::from("model:starlink".to_owned()), Span(0)),
        Direction::new(Rate::mbit(50), Span::millis(5)).aggregation(bursts).thin_acks(ThinAcks::OneIn(2)),
    ] {
        let scenario = one_way(Span::seconds(10), there, None);
        assert_eq!(hash(&scenario), hash(&scenario));
    }
}

/// A transfer of half of what the model allows in its length, by both of the usual controllers.
#[test]
fn transfers_complete_over_each_model() {
    for (model, delay, seconds, cubic, bbr) in [
        ("lte", Span::millis(25), 60, 0.95..=1.0, 0.85..=1.0),
        ("wifi", Span::millis(5), 20, 0.95..=1.0, 0.9..=1.0),
        // 0.1 % of the packets are lost at all times, and more after each handover. CUBIC takes that for
        // congestion: 1.2 sqrt(1/p) / RTT, RFC 5681's response, is 9 Mbit/s of some 100.
        ("starlink", Span(0), 30, 0.03..=0.25, 0.8..=1.0),
        ("docsis", Span::millis(8), 20, 0.95..=1.0, 0.9..=1.0),
    ] {
        let trace = LinkTrace::model(model).expect("a model");
        let mean = trace.mean_rate().expect("it sets a rate").bits();
        let there = Direction::following(FollowedTrace::given(model, trace), delay).buffers(500);
        for congestion in ["cubic", "bbr"] {
            let tcp = TcpSettings { congestion: Some(congestion.into()), ..TcpSettings::default() };
            let endless = one_way(Span::seconds(seconds), there.clone(), None).tcp(tcp.clone());
            let utilisation = run(&endless).link("a-b:there").expect("the link").utilisation;
            let bounds = if congestion == "bbr" { &bbr } else { &cubic };
            assert!(bounds.contains(&utilisation), "{congestion} over {model}: {utilisation}");
            // An eighth of what it carries in this time on average.
            let bytes = mean * seconds / 64;
            let report = run(&one_way(Span::seconds(2 * seconds), there.clone(), Some(bytes)).tcp(tcp));
            assert_eq!(report.flows[0].there.bytes, bytes, "{congestion} over {model}");
            assert_eq!(report.flows[0].failed, 0);
        }
    }
    assert_eq!(models::all().len(), 4);
}

#[test]
fn bursts_arrive_at_once_and_share_one_preamble() {
    let mut bursts = Aggregation::new(TimeOf::Fixed(Span(200_000)));
    bursts.preamble = Span(100_000);
    bursts.packets = 32;
    let there = Direction::new(Rate::mbit(100), Span::millis(5)).buffers(500).aggregation(bursts);
    let arrivals = arrivals(&one_way(Span::seconds(10), there.clone(), None));
    let mut sizes: BTreeMap<u64, u32> = BTreeMap::new();
    for (at, _) in &arrivals {
        *sizes.entry(*at).or_default() += 1;
    }
    assert!(sizes.values().all(|size| *size <= 32));
    // 32 packets of 120 us, 300 us besides: 92.8 % of the rate, less a start.
    let full = sizes.values().filter(|size| **size == 32).count() as f64 / sizes.len() as f64;
    assert!(full > 0.9, "{full} of the bursts are full");
    let mbit = rate(&arrivals, 2, 10) / 1e6;
    assert!((90.0..92.8).contains(&mbit), "{mbit}");
    // One packet at a time, each waits for access: 120 of 420 us.
    let alone = Aggregation { packets: 1, ..bursts };
    let arrivals = self::arrivals(&one_way(Span::seconds(10), there.aggregation(alone), None));
    let mbit = rate(&arrivals, 2, 10) / 1e6;
    assert!((28.0..28.6).contains(&mbit), "{mbit}");
}

/// A download of 50 Mbit/s, whose acknowledgements leave through 200 kbit/s.
fn asymmetric(thin: Option<ThinAcks>) -> Report {
    let there = Direction::new(Rate::mbit(50), Span::millis(10)).buffers(200);
    let back =
        Direction { thin_acks: thin, ..Direction::new(Rate::bits_per_second(200_000), Span::millis(10)) };
    let scenario = Scenario::new(Span::seconds(20))
        .seed(1)
        .host("a")
        .host("b")
        .asymmetric("a", "b", there, back.buffers(50))
        .traffic(TrafficConfig::bulk("download", "a", "b", None));
    run(&scenario)
}

#[test]
fn thinned_acknowledgements_let_a_download_use_its_link() {
    let link = |report: &Report, name| report.link(name).expect("the link").clone();
    let (all, covered) = (asymmetric(None), asymmetric(Some(ThinAcks::Covered)));
    // 200 kbit/s are 480 acknowledgements of 52 bytes a second. Each is for two segments: 11.5 Mbit/s.
    let utilisation = |report| link(report, "a-b:there").utilisation;
    assert!((0.15..0.24).contains(&utilisation(&all)), "{}", utilisation(&all));
    assert!((0.9..=1.0).contains(&utilisation(&covered)), "{}", utilisation(&covered));
    // They queue up; where the last replaces the one that waits, it waits for one transmission at most.
    let [all, covered] = [&all, &covered].map(|report| link(report, "a-b:back"));
    assert!(all.queue_delay.mean > 0.03, "{}", all.queue_delay.mean);
    assert!(covered.queue_delay.mean < 0.0022, "{}", covered.queue_delay.mean);
    assert!(covered.dropped_by(DropRule::AckThinned) > 10_000, "{:?}", covered.drops);
    assert_eq!(covered.dropped_by(DropRule::QueueFull), 0);
}

#[test]
fn one_in_four_acknowledgements_is_enough() {
    let there = Direction::new(Rate::mbit(20), Span::millis(10)).buffers(100);
    let back = Direction::new(Rate::mbit(20), Span::millis(10));
    let transfer = |thin_acks| {
        let scenario = Scenario::new(Span::seconds(20))
            .host("a")
            .host("b")
            .asymmetric("a", "b", there.clone(), Direction { thin_acks, ..back.clone() })
            .traffic(TrafficConfig::bulk("download", "a", "b", Some(Bytes(20_000_000))));
        run(&scenario)
    };
    let (all, few) = (transfer(None), transfer(Some(ThinAcks::OneIn(4))));
    let sent = |report: &Report| report.link("a-b:back").expect("the link").sent as f64;
    let share = sent(&few) / sent(&all);
    // Packets that are not plain pass: a handshake, duplicates after a loss.
    assert!((0.24..0.40).contains(&share), "{share}");
    for report in [&all, &few] {
        assert_eq!(report.flows[0].there.bytes, 20_000_000);
        assert!(report.flows[0].completed.is_some_and(|time| time < 10.0), "{:?}", report.flows[0].completed);
    }
}

const PHONE: &str = r#"
duration = "2s"
host = [{ name = "a" }, { name = "b" }]
[[link]]
name = "radio"
between = ["a", "b"]
there = { trace = "up.trace", delay = "20ms" }
back = { trace = "down.csv" }
[[traffic]]
name = "upload"
from = "a"
to = "b"
what = { bulk = {} }
"#;

/// The scenario of this text with its traces.
fn loaded(text: &str) -> Result<Scenario, String> {
    let read = |name: &str| match name {
        "up.trace" => Ok("1\n".to_owned()),
        "down.csv" => Ok("time,rate,delay\n0,1Mbit/s,20ms\n".to_owned()),
        "broken.csv" => Ok("time,rate\n0,1Mbit/s\n1s,1Gigabit\n".to_owned()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let scenario = Scenario::from_toml_with_traces("phone.toml", text, read);
    let scenario = scenario.map_err(|error| error.to_string())?;
    Simulation::new(&scenario).map_err(|error| error.to_string())?;
    Ok(scenario)
}

#[test]
fn a_trace_of_a_file_is_loaded_in_a_step_of_its_own() {
    let scenario = Scenario::from_toml("phone.toml", PHONE).expect("the text is right");
    assert_eq!(
        Simulation::new(&scenario).unwrap_err().to_string(),
        "link[0].there.trace: `up.trace` is not loaded; call `Scenario::load_traces` first"
    );
    let scenario = loaded(PHONE).expect("with its traces");
    assert!(run(&scenario).flows[0].there.bytes > 1_000_000);
    // A trace's delay holds from the start.
    let simulation = Simulation::new(&scenario).expect("it can be run");
    assert_eq!(simulation.one_way_delay("b", "a"), Some(20 * MS));
    // Writing it down names the files again.
    let text = scenario.to_toml().expect("a scenario is TOML");
    assert_eq!(loaded(&text), Ok(scenario));
}

#[test]
fn what_contradicts_a_trace_is_refused() {
    let change = |keys| format!("{PHONE}[[change]]\nat = \"1s\"\nlink = \"radio\"\n{keys}\n");
    let there = |keys: &str| PHONE.replace("\"up.trace\", delay = \"20ms\"", keys);
    for (text, error) in [
        (
            there("\"up.trace\", rate = \"1Mbit/s\""),
            "phone.toml:7: link[0].there.rate: found `1Mbit/s` beside a trace",
        ),
        (
            there("\"down.csv\", delay = \"1ms\""),
            "phone.toml:7: link[0].there.delay: found `1ms` beside a trace",
        ),
        (there("\"up.trace\", trace-end = \"hold\""), "phone.toml:7: link[0].there.trace-end: found `hold`"),
        (
            there("\"up.trace\", aggregation = { access = { fixed = \"1ms\" } }"),
            "phone.toml:7: link[0].there.aggregation: found it beside a trace",
        ),
        (
            there("\"lost.trace\""),
            "phone.toml:7: link[0].there.trace: `lost.trace` cannot be read: entity not found",
        ),
        (
            there("\"broken.csv\""),
            "phone.toml:7: link[0].there.trace: `broken.csv`, line 3: found `1Gigabit`; allowed is",
        ),
        (
            there("\"model:lt\""),
            "phone.toml:7: link[0].there.trace: found `lt`; allowed are `lte`, `wifi`, `starlink`, `docsis`; \
             the nearest is `lte`",
        ),
        (PHONE.replace("trace = \"up.trace\", ", ""), "phone.toml:7: link[0].there: lacks the key `rate`"),
        (
            PHONE.replace("{ trace = \"down.csv\" }", "{ rate = \"1Mbit/s\" }"),
            "phone.toml:8: link[0].back: lacks the key `delay`",
        ),
        (
            PHONE.replace("trace = \"down.csv\"", "rate = \"1Mbit/s\", delay = 0, trace-end = \"hold\""),
            "phone.toml:8: link[0].back.trace-end: found an end without a `trace`",
        ),
        (
            change("rate = \"1Mbit/s\""),
            "phone.toml:17: change[0].rate: found a change of what the trace `up.trace` sets",
        ),
        (
            change("delay = \"1ms\""),
            "phone.toml:17: change[0].delay: found a change of what the trace `down.csv` sets",
        ),
    ] {
        let found = loaded(&text).expect_err(error);
        assert!(found.starts_with(error), "{found}\nnot {error}");
    }
    // Settings that the trace leaves open can be changed.
    loaded(&change("way = \"there\"\ndelay = \"1ms\"\nloss = \"1%\"")).expect("no contradiction");
    let scenario = loaded(PHONE).expect("with its traces");
    let mut simulation = Simulation::new(&scenario).expect("it can be run");
    let faster = Change { rate: Some(Rate::mbit(1)), ..Change::new(Span(0), "radio") };
    assert!(simulation.apply(&faster).is_err());
    let lossy = Change { loss: Some(Share::percent(1)), ..Change::new(Span(0), "radio") };
    assert!(simulation.apply(&lossy).is_ok());
}
