//! Traffic, added applications, and observers.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ackclock_core::{ConnectionError, ConnectionId, Instant, ReadError};
use ackclock_sim::observe::{Pcapng, Series};
use ackclock_sim::scenario::{Arrivals, Corruption, SizeOf, TcplibMix, TimeOf};
use ackclock_sim::units::{Bytes, Rate, Share, Span};
use ackclock_sim::{
    App, AppContext, AppEvent, Direction, Report, Scenario, Simulation, TrafficConfig, TrafficKind,
};

use super::{bottleneck, dumbbell};

#[test]
fn answers_to_requests_take_a_round_trip_and_the_serving() {
    let what = TrafficKind::RequestResponse {
        request: SizeOf::Fixed(Bytes(100)),
        response: SizeOf::Fixed(Bytes(500)),
        think: TimeOf::Fixed(Span::millis(50)),
        serve: TimeOf::Fixed(Span::millis(10)),
        requests: Some(20),
        per_connection: None,
    };
    let scenario =
        dumbbell(Span::seconds(10), bottleneck()).traffic(TrafficConfig::new("pages", "a", "b", what));
    let report = Simulation::new(&scenario).unwrap().run();
    let flow = &report.flows[0];
    assert_eq!((flow.connections, flow.closed, flow.failed), (1, 1, 0));
    assert_eq!((flow.there.bytes, flow.back.bytes, flow.latency.count), (2000, 10_000, 20));
    // 44 ms there and back, 10 ms to serve, below 1.5 ms to send. The first one waits for the handshake.
    assert!(flow.latency.median > 0.054 && flow.latency.median < 0.057, "{:?}", flow.latency);
    assert!(flow.completed.is_some());
}

#[test]
fn each_connection_carries_as_many_requests_as_told() {
    let what = TrafficKind::RequestResponse {
        request: SizeOf::Fixed(Bytes(100)),
        response: SizeOf::Fixed(Bytes(500)),
        think: TimeOf::Fixed(Span(0)),
        serve: TimeOf::Fixed(Span(0)),
        requests: Some(10),
        per_connection: Some(4),
    };
    let scenario =
        dumbbell(Span::seconds(10), bottleneck()).traffic(TrafficConfig::new("pages", "a", "b", what));
    let report = Simulation::new(&scenario).unwrap().run();
    let flow = &report.flows[0];
    assert_eq!((flow.connections, flow.closed, flow.latency.count), (3, 3, 10), "{flow:?}");
}

#[test]
fn means_cover_the_time_in_which_flows_ran() {
    let report = |seconds: u64| {
        let mut scenario = dumbbell(Span::seconds(seconds), bottleneck());
        for (name, start) in [("first", 20), ("second", 21)] {
            let bulk = TrafficConfig::bulk(name, "a", "b", Some(Bytes(2_000_000)));
            scenario = scenario.traffic(bulk.start(Span::seconds(start)));
        }
        Simulation::new(&scenario).unwrap().run()
    };
    let [short, long] = [60, 600].map(report);
    assert!(short.flows.iter().all(|flow| flow.closed == 1 && flow.failed == 0), "{:?}", short.flows);
    let last = short.flows.iter().filter_map(|flow| flow.completed).fold(0.0, f64::max);
    assert_eq!((short.ran_from, short.ran_until), (20.0, last));
    assert!((23.0..30.0).contains(&last), "{last}");
    let queue = |report: &Report| report.link("left-right:there").unwrap().queue_mean;
    // Little's law: packets that wait are the rate of packets times how long they wait, over the same time.
    let link = short.link("left-right:there").unwrap();
    let by_little = link.sent as f64 * link.queue_delay.mean / (short.ran_until - short.ran_from);
    assert!(by_little > 1.0 && (queue(&short) / by_little - 1.0).abs() < 0.002, "{link:?}: {by_little}");
    // Idle time changes neither queues nor round trips.
    assert_eq!(queue(&short), queue(&long));
    let rtts = |report: &Report| report.flows.iter().map(|flow| flow.there.rtt.mean).collect::<Vec<_>>();
    assert_eq!(rtts(&short), rtts(&long));
    assert_eq!((long.time, long.ran_until), (600.0, last));
}

#[test]
fn on_off_traffic_has_its_mean_rate() {
    let (on, off) = (TimeOf::Exponential(Span::millis(200)), TimeOf::Exponential(Span::millis(300)));
    let what = TrafficKind::OnOff { rate: Rate::mbit(2), write: Bytes(500), on, off };
    let scenario =
        dumbbell(Span::seconds(100), bottleneck()).traffic(TrafficConfig::new("calls", "a", "b", what));
    let report = Simulation::new(&scenario).unwrap().run();
    // 40 % of 250 KB/s. The mean share of 200 cycles has a deviation of 0.034.
    let rate = report.flows[0].goodput_bytes_per_second;
    assert!((75_000.0..125_000.0).contains(&rate), "{rate}");
}

#[test]
fn conversations_of_tcplib_run_and_end() {
    let mix = TcplibMix { telnet: Share::ZERO, ..TcplibMix::default() };
    let what = TrafficKind::Tcplib { every: Span::millis(500), until: Some(Span::seconds(60)), mix };
    let telnet = TcplibMix { telnet: Share::ONE, ftp: Share::ZERO, nntp: Share::ZERO, smtp: Share::ZERO };
    let terminals = TrafficKind::Tcplib { every: Span::seconds(4), until: None, mix: telnet };
    let scenario = dumbbell(Span::seconds(150), bottleneck())
        .traffic(TrafficConfig::new("mail and files", "a", "b", what))
        .traffic(TrafficConfig::new("terminals", "b", "a", terminals));
    let report = Simulation::new(&scenario).unwrap().run();
    let [files, terminals] = &report.flows[..] else { panic!("two") };
    // 120 conversations, a third of them with four connections more on average.
    assert!((140..440).contains(&files.connections), "{files:?}");
    assert_eq!((files.connections, files.failed), (files.closed, 0));
    assert!(files.there.bytes > 500_000, "{files:?}");
    assert!(terminals.latency.count > 300 && terminals.latency.median < 0.1, "{terminals:?}");
    assert!(terminals.back.bytes > 5 * terminals.there.bytes, "{terminals:?}");
}

#[test]
fn a_thousand_short_connections_come_and_go() {
    let every = TimeOf::Exponential(Span::millis(10));
    let what = TrafficKind::Arrivals(Arrivals { every, size: SizeOf::Exponential(Bytes(2000)) });
    let scenario = dumbbell(Span::seconds(12), Direction::new(Rate::mbit(8), Span::millis(5)))
        .traffic(TrafficConfig::new("short", "a", "b", what));
    let report = Simulation::new(&scenario).unwrap().run();
    let flow = &report.flows[0];
    assert!((1000..1400).contains(&flow.connections) && flow.failed == 0, "{flow:?}");
    assert!(flow.connections - flow.closed < 50, "{flow:?}");
}

/// Sends the numbers from 0 and learns whether they arrived.
#[derive(Debug)]
struct Speaker {
    to: SocketAddr,
    sent: usize,
}

#[derive(Debug, Default)]
struct Listener {
    read: Rc<RefCell<Vec<u8>>>,
}

const PORT: u16 = 7;
const SAID: usize = 200_000;

fn byte(n: usize) -> u8 {
    (n * 31 % 251) as u8
}

impl App for Speaker {
    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>) {
        let id: ConnectionId = match event {
            AppEvent::Start => {
                cx.connect(self.to, None).unwrap();
                return;
            }
            AppEvent::Ready(id, _) => id,
            _ => return,
        };
        let data: Vec<u8> = (self.sent..SAID).map(byte).collect();
        if let Some(Ok(written)) = cx.update(id, |connection, now| connection.write(now, &data)) {
            self.sent += written;
        }
        cx.update(id, |connection, now| connection.await_room(now));
        if self.sent == SAID {
            cx.shutdown(id);
        }
    }
}

impl App for Listener {
    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>) {
        match event {
            AppEvent::Start => _ = cx.listen(PORT, None).unwrap(),
            AppEvent::Ready(id, _) => {
                let mut into = [0; 4096];
                while let Ok(len @ 1..) = cx.read(id, &mut into) {
                    self.read.borrow_mut().extend_from_slice(&into[..len]);
                }
            }
            _ => {}
        }
    }
}

fn spoken(scenario: &Scenario) -> (Vec<u8>, ackclock_sim::Report) {
    let mut simulation = Simulation::new(scenario).unwrap();
    let to = SocketAddr::new(simulation.node("b").unwrap().addr, PORT);
    let read = Rc::new(RefCell::new(Vec::new()));
    assert!(simulation.add_app("b", "listener", Instant::ZERO, Box::new(Listener { read: read.clone() })));
    let speaker = Box::new(Speaker { to, sent: 0 });
    assert!(simulation.add_app("a", "speaker", Instant::from_millis(1), speaker));
    assert!(!simulation.add_app("no-such-host", "speaker", Instant::ZERO, Box::new(Listener::default())));
    let report = simulation.run();
    let read = read.take();
    (read, report)
}

#[test]
fn applications_of_ones_own_exchange_real_bytes() {
    let mut scenario = dumbbell(Span::seconds(10), bottleneck());
    scenario.full_packets = true;
    let (read, report) = spoken(&scenario);
    assert_eq!(read.len(), SAID);
    assert!(read.iter().enumerate().all(|(n, said)| *said == byte(n)));
    assert_eq!(report.flow("listener").unwrap().back.bytes, SAID as u64);
}

/// Writes, and a tenth of a second later resets what it opened.
#[derive(Debug)]
struct Breaker(SocketAddr, Option<ConnectionId>);

/// Looks at a connection only when it is over, and records what it reads.
#[derive(Debug)]
struct Taker(Rc<RefCell<Vec<Taken>>>);

type Taken = Result<(u64, bool), ReadError>;

impl App for Breaker {
    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>) {
        match event {
            AppEvent::Start => self.1 = cx.connect(self.0, None).ok(),
            AppEvent::Ready(id, readiness) if readiness.connected => {
                assert_eq!(cx.write_any(id, 3000), Ok(3000));
                cx.set_timer(Duration::from_millis(100), 0);
            }
            AppEvent::Timer(_) => _ = cx.update(self.1.unwrap(), |connection, now| connection.abort(now)),
            _ => {}
        }
    }
}

impl App for Taker {
    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>) {
        match event {
            AppEvent::Start => _ = cx.listen(PORT, None).unwrap(),
            AppEvent::Ready(id, readiness) if readiness.closed => {
                let taken = [cx.read_any(id), cx.read_any(id)];
                self.0.borrow_mut().extend(taken);
            }
            _ => {}
        }
    }
}

#[test]
fn what_came_before_a_reset_is_counted_and_then_the_reset() {
    let mut simulation = Simulation::new(&dumbbell(Span::seconds(2), bottleneck())).unwrap();
    let to = SocketAddr::new(simulation.node("b").unwrap().addr, PORT);
    let taken = Rc::new(RefCell::new(Vec::new()));
    assert!(simulation.add_app("b", "taker", Instant::ZERO, Box::new(Taker(taken.clone()))));
    assert!(simulation.add_app("a", "breaker", Instant::from_millis(1), Box::new(Breaker(to, None))));
    let report = simulation.run();
    let reset = Err(ReadError::Connection(ConnectionError::Reset));
    assert_eq!(taken.take(), [Ok((3000, false)), reset]);
    assert_eq!(report.flow("taker").unwrap().back.bytes, 3000);
}

#[test]
fn damage_that_no_checksum_sees_reaches_the_application() {
    let corrupt = Corruption { found: Share::percent(1), unseen: Share::percent(5) };
    let (read, report) =
        spoken(&dumbbell(Span::seconds(10), Direction { corrupt: Some(corrupt), ..bottleneck() }));
    assert_eq!(read.len(), SAID);
    let wrong = read.iter().enumerate().filter(|(n, said)| **said != byte(*n)).count();
    assert!((1..200).contains(&wrong), "{wrong} of {:?}", report.link("left-right:there"));
}

#[test]
fn a_capture_has_each_packet_of_a_node_once() {
    let scenario = dumbbell(Span::seconds(2), bottleneck()).traffic(TrafficConfig::bulk(
        "transfer",
        "a",
        "b",
        Some(Bytes(50_000)),
    ));
    let mut simulation = Simulation::new(&scenario).unwrap();
    let (a, left) = (simulation.node("a").unwrap().number, simulation.node("left").unwrap().number);
    let capture = Rc::new(RefCell::new(Pcapng::new(Vec::new(), [(a, "a"), (left, "left")])));
    simulation.observe(capture.clone());
    let report = simulation.run();
    capture.borrow_mut().finish().unwrap();
    drop(simulation);
    let file = Rc::into_inner(capture).unwrap().into_inner().into_inner();
    let mut counts = [0u64; 2];
    let mut at = 0;
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    while at < file.len() {
        let (kind, len) = (word(at), word(at + 4));
        if kind == 6 {
            counts[word(at + 8) as usize] += 1;
            assert!(word(at + 24) <= 1500 && word(at + 20) <= word(at + 24));
        }
        at += len as usize;
    }
    let sent = |name: &str| report.link(name).unwrap().sent;
    assert_eq!(counts[0], sent("a-left:there") + sent("a-left:back"));
    assert_eq!(counts[1], sent("left-right:there") + sent("a-left:back"));
}

#[test]
fn series_follow_queues_and_flows() {
    let mut scenario = dumbbell(Span::seconds(5), bottleneck());
    scenario.sample_every = Some(Span::millis(100));
    let scenario = scenario.traffic(TrafficConfig::bulk("bulk", "a", "b", None));
    let series = Rc::new(RefCell::new(Series::default()));
    let mut simulation = Simulation::new(&scenario).unwrap();
    simulation.observe(series.clone());
    let report = simulation.run();
    let series = series.borrow();
    assert_eq!(series.at_ns.len(), 50);
    assert_eq!(series.flows.last().unwrap()[0].bytes, report.flows[0].there.bytes);
    let bottleneck = simulation.link("left", "right").unwrap() as usize;
    assert!(series.links.iter().any(|links| links[bottleneck].queue_packets > 10));
    assert!(series.flows[25][0].cwnd > 20_000 && series.flows[25][0].in_flight > 0);
}
