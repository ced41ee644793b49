//! A report's measures, computed again from the packets that an observer saw: by sets of bytes, lists of
//! times and the textbook's formulas, none of which the simulator uses.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::report::{FlowReport, TimeReport, WayReport};
use ackclock_sim::{Report, Scenario, Simulation};

/// Three transfers between hosts of their own meet at a bottleneck that drops; one asks and is answered.
const SCENARIO: &str = r#"
seed = 3
duration = "60s"
routers = ["left", "right"]
host = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "x" }, { name = "y" }, { name = "z" }]

[[link]]
between = ["a", "left"]
there = { rate = "100Mbit/s", delay = "1ms" }
[[link]]
between = ["b", "left"]
there = { rate = "100Mbit/s", delay = "9ms" }
[[link]]
between = ["c", "left"]
there = { rate = "100Mbit/s", delay = "3ms" }
[[link]]
between = ["left", "right"]
there = { rate = "4Mbit/s", delay = "10ms", queue = { drop-tail = { limit = "15packets" } } }
[[link]]
between = ["right", "x"]
there = { rate = "100Mbit/s", delay = "1ms" }
[[link]]
between = ["right", "y"]
there = { rate = "100Mbit/s", delay = "1ms" }
[[link]]
between = ["right", "z"]
there = { rate = "100Mbit/s", delay = "1ms" }

[[traffic]]
name = "first"
from = "a"
to = "x"
what = { bulk = { bytes = "1200kB" } }
[[traffic]]
name = "second"
from = "b"
to = "y"
start = "500ms"
what = { bulk = { bytes = "800kB" } }
[[traffic]]
name = "asks"
from = "c"
to = "z"
[traffic.what.request-response]
request = { fixed = "300B" }
response = { fixed = "9kB" }
think = { fixed = "150ms" }
requests = 20
"#;

/// The simulator's nodes, by number: hosts come first, in the scenario's order.
const FLOWS: [(&str, u32, u32, u64); 3] =
    [("first", 0, 3, 0), ("second", 1, 4, 500_000_000), ("asks", 2, 5, 0)];
/// The bottleneck's direction from left to right: two for each link, and it is the fourth link.
const BOTTLENECK: u32 = 6;
const RATE_BPS: u64 = 4_000_000;

struct Event {
    at: u64,
    what: What,
    node: u32,
    link: Option<u32>,
    serial: u64,
    bytes: u32,
    payload: u32,
    /// Source node, source and destination port, sequence and acknowledgement number.
    segment: Option<(u32, (u16, u16), u32, u32)>,
}

#[derive(Default)]
struct Log(Vec<Event>);

impl Observer for Log {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let segment = event.packet.segment();
        self.0.push(Event {
            at: event.at.as_nanos(),
            what: event.what,
            node: event.node,
            link: event.link,
            serial: event.packet.serial(),
            bytes: event.packet.len(),
            payload: event.packet.payload_len(),
            segment: segment.map(|segment| (segment.source, segment.ports, segment.seq, segment.ack)),
        });
    }
}

fn run() -> (Report, Vec<Event>) {
    let scenario = Scenario::from_toml("measures.toml", SCENARIO).expect("it is valid");
    let log = Rc::new(RefCell::new(Log::default()));
    let mut simulation = Simulation::new(&scenario).expect("it can be run");
    simulation.observe(log.clone());
    let report = simulation.run();
    drop(simulation);
    let events = Rc::into_inner(log).expect("the simulation is over").into_inner().0;
    (report, events)
}

/// One side's traffic, as its packets show it.
#[derive(Default)]
struct Seen {
    /// The bytes that came, by connection and position.
    delivered: BTreeMap<(u16, u16), BTreeSet<u32>>,
    bytes_sent: u64,
    bytes_again: u64,
    segments_again: u64,
    last_new: u64,
    round_trips: Vec<u64>,
}

/// Positions count from the first sequence number that a connection sent, its SYN's; none here wraps twice.
fn seen(events: &[Event], from: u32, to: u32) -> Seen {
    let mut seen = Seen::default();
    let mut first: BTreeMap<(u16, u16), u32> = BTreeMap::new();
    let mut sent: BTreeMap<(u16, u16), BTreeSet<u32>> = BTreeMap::new();
    // Karn's rule with one segment timed at once: the end of it and when it went.
    let mut timed: BTreeMap<(u16, u16), Option<(u32, u64)>> = BTreeMap::new();
    for event in events {
        let Some((source, ports, seq, ack)) = event.segment else { continue };
        if source == from && event.what == What::Sent && event.node == from {
            let position = seq.wrapping_sub(*first.entry(ports).or_insert(seq));
            let range = position..position + event.payload;
            let before = sent.entry(ports).or_default();
            let again = range.clone().filter(|byte| before.contains(byte)).count() as u64;
            seen.bytes_sent += u64::from(event.payload);
            seen.bytes_again += again;
            seen.segments_again += u64::from(again > 0);
            let watch = timed.entry(ports).or_default();
            if again > 0 && watch.is_some_and(|(end, _)| range.start < end) {
                *watch = None;
            } else if again < u64::from(event.payload) && watch.is_none() {
                *watch = Some((range.end, event.at));
            }
            before.extend(range);
        } else if source == from && event.what == What::Delivered && event.node == to && event.payload > 0 {
            let position = seq.wrapping_sub(first[&ports]);
            let bytes = seen.delivered.entry(ports).or_default();
            let before = bytes.len();
            bytes.extend(position..position + event.payload);
            if bytes.len() > before {
                seen.last_new = event.at;
            }
        } else if source == to && event.what == What::Delivered && event.node == from {
            let ports = (ports.1, ports.0);
            let Some(watch) = timed.get_mut(&ports) else { continue };
            if let Some((end, at)) = *watch
                && ack.wrapping_sub(first[&ports]) >= end
                && ack.wrapping_sub(first[&ports]) < 1 << 31
            {
                seen.round_trips.push(event.at - at);
                *watch = None;
            }
        }
    }
    seen
}

/// Count, mean and maximum to the nanosecond, quantiles to a bucket: 1/32 of the value, or 1.024 µs.
fn same_times(report: &TimeReport, mut times: Vec<u64>, what: &str) {
    times.sort_unstable();
    let count = times.len() as u64;
    assert_eq!(report.count, count, "{what}");
    assert!(count > 0, "{what}");
    let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
    assert_eq!(
        nanos(report.mean),
        (times.iter().map(|&time| u128::from(time)).sum::<u128>() / u128::from(count)) as u64,
        "{what}"
    );
    assert_eq!(nanos(report.max), *times.last().unwrap(), "{what}");
    for (reported, thousandths) in [(report.median, 500), (report.p99, 990)] {
        let exact = times[((count * thousandths).div_ceil(1000).max(1) - 1) as usize];
        let most = exact + (exact / 32).max(1024);
        assert!((exact..=most).contains(&nanos(reported)), "{what}: {} of {exact}..={most}", nanos(reported));
    }
}

fn same_way(report: &WayReport, seen: Seen, what: &str) {
    assert_eq!(report.bytes, seen.delivered.values().map(|bytes| bytes.len() as u64).sum::<u64>(), "{what}");
    assert_eq!(report.bytes_sent, seen.bytes_sent, "{what}");
    assert_eq!(report.bytes_retransmitted, seen.bytes_again, "{what}");
    assert_eq!(report.retransmits, seen.segments_again, "{what}");
    same_times(&report.rtt, seen.round_trips, what);
}

#[test]
fn flows_are_measured_as_their_packets_show() {
    let (report, events) = run();
    let mut goodputs = Vec::new();
    let mut again = 0;
    for (name, from, to, start) in FLOWS {
        let flow: &FlowReport = report.flow(name).expect("it ran");
        assert_eq!((flow.failed, flow.closed), (0, flow.connections), "{name}");
        let (there, back) = (seen(&events, from, to), seen(&events, to, from));
        let last = there.last_new.max(back.last_new);
        let bytes = flow.there.bytes + flow.back.bytes;
        let goodput = bytes as f64 * 1e9 / (last - start) as f64;
        let off = (flow.goodput_bytes_per_second - goodput).abs() / goodput;
        assert!(off < 1e-9, "{name}: {} of {goodput}", flow.goodput_bytes_per_second);
        goodputs.push(goodput);
        again += there.segments_again;
        same_way(&flow.there, there, &format!("{name}, there"));
        if flow.back.bytes > 0 {
            same_way(&flow.back, back, &format!("{name}, back"));
        }
    }
    assert!(again > 10, "{again} segments went again: too few to show that they are counted");
    // Jain, Chiu and Hawe 1984: (sum of x)^2 / (n times the sum of x^2).
    let sum: f64 = goodputs.iter().sum();
    let jain = sum * sum / (3.0 * goodputs.iter().map(|x| x * x).sum::<f64>());
    assert!((report.jain_index - jain).abs() < 1e-9, "{} of {jain}", report.jain_index);
    assert!(jain < 0.99, "equal shares would hide the formula");
}

#[test]
fn a_link_is_measured_as_its_packets_show() {
    let (report, events) = run();
    let link = report.link("left-right:there").expect("it is there");
    let (mut queued, mut waits, mut departed, mut bytes, mut dropped) =
        (BTreeMap::new(), Vec::new(), 0, 0, 0);
    for event in events.iter().filter(|event| event.link == Some(BOTTLENECK)) {
        match event.what {
            What::Queued => _ = queued.insert(event.serial, event.at),
            What::Departed => {
                waits.push(event.at - queued.remove(&event.serial).expect("it was queued"));
                departed += 1;
                bytes += u64::from(event.bytes);
            }
            What::Dropped(_) => {
                dropped += 1;
                queued.remove(&event.serial).expect("it was queued");
            }
            _ => {}
        }
    }
    assert!(queued.is_empty(), "all have left");
    assert_eq!(
        (link.sent, link.sent_bytes, link.dropped(), link.offered),
        (departed, bytes, dropped, departed + dropped)
    );
    assert!(dropped > 10, "{dropped}");
    let busy = bytes as f64 * 8.0 / RATE_BPS as f64 / report.time;
    assert!((link.utilisation - busy).abs() < 1e-6, "{} of {busy}", link.utilisation);
    same_times(&link.queue_delay, waits, "waits");
}
