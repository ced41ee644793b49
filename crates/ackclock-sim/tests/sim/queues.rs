//! Queues under TCP: the rates and the delays that their RFCs promise.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use ackclock_sim::dumbbell::{BOTTLENECK, shared};
use ackclock_sim::observe::{Observer, PacketEvent, QueueLength, What};
use ackclock_sim::queue::DropRule;
use ackclock_sim::scenario::{Isolation, Loss};
use ackclock_sim::units::{Limit, Rate, Share, Span};
use ackclock_sim::{Direction, QueueConfig, Report, Simulation, TcpSettings, TrafficConfig};

/// One link's traffic after some time, L4S traffic (ECT(1) or CE) apart.
#[derive(Debug, Default)]
struct Kinds {
    link: u32,
    from_ns: u64,
    arrived: HashMap<u64, (u64, bool)>,
    l4s: Sent,
    classic: Sent,
}

#[derive(Debug, Default)]
struct Sent {
    packets: u64,
    bytes: u64,
    waited_ns: u64,
}

impl Sent {
    fn wait_ms(&self) -> f64 {
        self.waited_ns as f64 / self.packets as f64 / 1e6
    }
}

impl Observer for Kinds {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.link != Some(self.link) {
            return;
        }
        let (at, packet) = (event.at.as_nanos(), event.packet);
        match event.what {
            What::Queued => {
                let l4s = packet.header()[1] & 1 == 1;
                self.arrived.insert(packet.serial(), (at, l4s));
            }
            What::Departed if at >= self.from_ns => {
                let (since, l4s) = self.arrived[&packet.serial()];
                let sent = if l4s { &mut self.l4s } else { &mut self.classic };
                sent.packets += 1;
                sent.bytes += u64::from(packet.len());
                sent.waited_ns += at - since;
            }
            _ => {}
        }
    }
}

/// Flows with these settings through one bottleneck for a minute, and what it sent in the second half.
fn run(bottleneck: &Direction, flows: &[TcpSettings]) -> (Report, Kinds) {
    let mut scenario = shared(bottleneck.clone(), flows.len(), Span::seconds(60));
    for (n, tcp) in flows.iter().enumerate() {
        let (name, from, to) = (format!("flow {n}"), format!("a{}", n + 1), format!("b{}", n + 1));
        let traffic = TrafficConfig::bulk(&name, &from, &to, None).tcp(tcp.clone());
        scenario = scenario.traffic(TrafficConfig { peer_tcp: tcp.clone(), ..traffic });
    }
    let mut simulation = Simulation::new(&scenario).unwrap();
    let link = simulation.link("left", "right").unwrap();
    let kinds = Kinds { link, from_ns: Span::seconds(30).0, ..Kinds::default() };
    let kinds = Rc::new(RefCell::new(kinds));
    simulation.observe(kinds.clone());
    let report = simulation.run();
    (report, kinds.take())
}

fn cubic(ecn: &str) -> TcpSettings {
    TcpSettings::profile("modern").choose("ecn", ecn)
}

/// RFC 9332 §2.1: flows of both kinds with the same round trip get about the same rate, and L4S traffic waits
/// for less than a millisecond on average. Prague on a round trip above 25 ms is DCTCP with ECT(1), which
/// DCTCP itself does not send.
#[test]
fn dualpi2_gives_prague_and_cubic_about_the_same_rate_and_prague_no_delay() {
    for (mbit, rtt_ms, ecn) in
        [(10, 30, "off"), (40, 30, "off"), (40, 30, "classic"), (40, 60, "classic"), (100, 30, "off")]
    {
        let queue = QueueConfig::dual_pi2(Limit::Packets(10_000));
        let bottleneck = Direction::new(Rate::mbit(mbit), Span::millis(rtt_ms / 2)).queue(queue);
        let (report, kinds) = run(&bottleneck, &[TcpSettings::profile("prague"), cubic(ecn)]);
        let ratio = kinds.l4s.bytes as f64 / kinds.classic.bytes as f64;
        let (l4s, classic) = (kinds.l4s.wait_ms(), kinds.classic.wait_ms());
        let used = report.link(BOTTLENECK).unwrap().utilisation;
        let case = format!("{mbit} Mbit/s, {rtt_ms} ms, ecn {ecn}: {ratio} {l4s} {classic} {used}");
        assert!((0.5..2.0).contains(&ratio), "{case}");
        // At 10 Mbit/s a packet takes 1.2 ms, and one that is being sent is waited for.
        assert!(kinds.l4s.packets > 1000 && l4s < f64::max(1.0, 12.0 / mbit as f64), "{case}");
        // The target is 15 ms; sawteeth of one flow reach below it.
        assert!((8.0..20.0).contains(&classic), "{case}");
        assert!((0.95..=1.0).contains(&used), "{case}");
        // The report has the two apart, and all of both.
        let link = report.link(BOTTLENECK).unwrap();
        let [l, c] = &link.lanes[..] else { panic!("{:?}", link.lanes) };
        assert_eq!((&*l.name, &*c.name), ("L", "C"));
        assert_eq!([l.sent + c.sent, l.marked + c.marked], [link.sent, link.marked], "{case}");
        assert_eq!(l.dropped + c.dropped, link.dropped(), "{case}");
        assert_eq!([l.queue_delay.count, c.queue_delay.count], [l.sent, c.sent], "{case}");
        assert!(l.marked > 0 && l.dropped == 0 && (c.marked > 0) == (ecn == "classic"), "{link:?}");
        let [l4s, classic] = [l, c].map(|lane| lane.queue_delay.mean * 1e3);
        // The whole run, slow starts and all.
        assert!(l4s < f64::max(1.5, 20.0 / mbit as f64) && (8.0..25.0).contains(&classic), "{link:?}");
    }
}

/// Prague answers marks of a classic queue as if they were L4S marks, and losses as Reno does: there is no
/// fall-back. With the marking probability p, its window is 2/p where CUBIC's is Reno's, 1.22/√p.
#[test]
fn prague_takes_more_than_its_share_where_a_classic_queue_marks_and_not_where_it_drops() {
    let limit = Limit::Packets(10_000);
    for (queue, ratios) in [
        (QueueConfig::pie(limit, true), 4.0..16.0),
        (QueueConfig::codel(limit, true), 4.0..16.0),
        (QueueConfig::pie(limit, false), 0.5..2.0),
        (QueueConfig::codel(limit, false), 0.5..2.0),
    ] {
        let bottleneck = Direction::new(Rate::mbit(20), Span::millis(15)).queue(queue);
        let (report, _) = run(&bottleneck, &[TcpSettings::profile("prague"), cubic("classic")]);
        let [prague, cubic] = [0, 1].map(|flow: usize| report.flows[flow].there.bytes as f64);
        let ratio = prague / cubic;
        assert!(ratios.contains(&ratio), "{:?}: {ratio}, not in {ratios:?}", bottleneck.queue);
    }
}

/// CAKE without the keys that a test is not about.
fn cake(bandwidth: Rate, isolation: Isolation, ack_filter: bool) -> QueueConfig {
    let (target, interval) = (Span::millis(5), Span::millis(100));
    let limit = Limit::Packets(10_000);
    QueueConfig::Cake { limit, bandwidth, isolation, ack_filter, target, interval, mark: false }
}

/// A host with ten flows to ten hosts beside one with one flow. Høiland-Jørgensen et al. 2018: queueing is
/// fair between hosts first, and between the flows of each then.
#[test]
fn cake_gives_a_host_with_one_flow_as_much_as_one_with_ten() {
    let share = |isolation| {
        let queue = cake(Rate::UNLIMITED, isolation, false);
        let bottleneck = Direction::new(Rate::mbit(20), Span::millis(10)).queue(queue);
        let mut scenario = shared(bottleneck, 11, Span::seconds(40));
        for n in 1..=11 {
            let from = if n == 1 { "a1" } else { "a2" };
            let (name, to) = (format!("flow {n}"), format!("b{n}"));
            scenario = scenario.traffic(TrafficConfig::bulk(&name, from, &to, None));
        }
        let report = Simulation::new(&scenario).unwrap().run();
        let bytes: Vec<f64> = report.flows.iter().map(|flow| flow.there.bytes as f64).collect();
        assert!(report.link(BOTTLENECK).unwrap().utilisation > 0.95);
        bytes[0] / bytes.iter().sum::<f64>()
    };
    let (half, eleventh): (Range<f64>, Range<f64>) = (0.47..0.53, 0.08..0.105);
    for (isolation, range) in [
        (Isolation::Flows, &eleventh),
        (Isolation::DualSrchost, &half),
        (Isolation::DualDsthost, &eleventh),
        (Isolation::TripleIsolate, &half),
    ] {
        let share = share(isolation);
        assert!(range.contains(&share), "{isolation:?}: {share}, not in {range:?}");
    }
}

/// The rate is right within 1 % from well below the link's to just below it, so packets wait here, and none
/// in a queue behind.
#[test]
fn cakes_shaper_keeps_its_bandwidth() {
    for kbit in [500, 3000, 9000, 9900] {
        let queue = cake(Rate::bits_per_second(kbit * 1000), Isolation::TripleIsolate, false);
        let bottleneck = Direction::new(Rate::mbit(10), Span::millis(10)).queue(queue);
        let (_, kinds) = run(&bottleneck, &[cubic("off"), cubic("off")]);
        // Over the second half minute.
        let rate = kinds.classic.bytes as f64 * 8.0 / 30.0 / 1000.0;
        assert!((0.99..=1.0001).contains(&(rate / kbit as f64)), "{rate} of {kbit} kbit/s");
    }
}

fn precedes(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The pure ACKs that came to one link, and those that its filter dropped.
#[derive(Debug, Default)]
struct Filtered {
    link: u32,
    /// The acknowledgement number of each ACK by its serial, and the one before it.
    arrived: HashMap<u64, (u32, Option<u32>)>,
    newest: Option<u32>,
    duplicates: u64,
    with_sack: u64,
    dropped: u64,
}

impl Observer for Filtered {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.link != Some(self.link) {
            return;
        }
        let packet = event.packet;
        let ack = packet.segment().unwrap().ack;
        // 20 bytes of IPv4 and 20 of TCP, and 12 of timestamps where there is nothing else.
        let has_sack = packet.len() > 52;
        match event.what {
            What::Queued => {
                self.duplicates += u64::from(self.newest == Some(ack));
                self.with_sack += u64::from(has_sack);
                self.arrived.insert(packet.serial(), (ack, self.newest.replace(ack)));
            }
            What::Dropped(DropRule::AckThinned) => {
                let (_, before) = self.arrived[&packet.serial()];
                assert!(packet.payload_len() == 0 && !has_sack, "it says more");
                assert!(before.is_some_and(|before| precedes(before, ack)), "a duplicate");
                assert!(self.newest.is_some_and(|newest| precedes(ack, newest)), "not covered");
                self.dropped += 1;
            }
            _ => {}
        }
    }
}

/// A path whose way back carries half of the ACKs. Some data is lost, so SACKs and duplicates come, too.
#[test]
fn cakes_filter_drops_only_covered_acks_and_frees_a_narrow_way_back() {
    let run = |ack_filter| {
        let there = Direction::new(Rate::mbit(50), Span::millis(10)).buffers(200);
        let there = there.loss(Loss::Independent(Share::per_million(100)));
        let mut scenario = shared(there, 1, Span::seconds(20));
        let queue = cake(Rate::UNLIMITED, Isolation::TripleIsolate, ack_filter);
        let back = Direction::new(Rate::bits_per_second(400_000), Span::millis(10)).queue(queue);
        scenario.links[0].back = Some(Box::new(back));
        let scenario = scenario.traffic(TrafficConfig::bulk("download", "a1", "b1", None));
        let mut simulation = Simulation::new(&scenario).unwrap();
        let link = simulation.link("right", "left").unwrap();
        let filtered = Rc::new(RefCell::new(Filtered { link, ..Filtered::default() }));
        simulation.observe(filtered.clone());
        let report = simulation.run();
        (report.flows[0].goodput_bytes_per_second * 8.0 / 1e6, filtered.take())
    };
    let ((plain, none), (free, filtered)) = (run(false), run(true));
    assert_eq!(none.dropped, 0);
    let Filtered { duplicates, with_sack, dropped, .. } = filtered;
    assert!(dropped > 1000 && duplicates > 100 && with_sack > 100, "{dropped} {duplicates} {with_sack}");
    assert!(free > 1.1 * plain, "{free} Mbit/s, without the filter {plain}");
}

/// The largest length of a link's queue.
#[derive(Debug, Default)]
struct Longest {
    link: u32,
    bytes: u64,
}

impl Observer for Longest {
    fn packet(&mut self, _: &PacketEvent<'_>) {}

    fn queue(&mut self, queue: &QueueLength) {
        if queue.link == self.link {
            self.bytes = self.bytes.max(queue.bytes);
        }
    }
}

#[test]
fn a_drop_tail_queue_with_a_limit_in_bytes_fills_to_it_and_not_beyond() {
    for bytes in [16 << 10, 40_000] {
        let queue = QueueConfig::drop_tail(Limit::Bytes(bytes));
        let bottleneck = Direction::new(Rate::mbit(10), Span::millis(10)).queue(queue);
        let scenario = shared(bottleneck, 1, Span::seconds(10));
        let scenario = scenario.traffic(TrafficConfig::bulk("bulk", "a1", "b1", None));
        let mut simulation = Simulation::new(&scenario).unwrap();
        let link = simulation.link("left", "right").unwrap();
        let longest = Rc::new(RefCell::new(Longest { link, ..Longest::default() }));
        simulation.observe(longest.clone());
        let report = simulation.run();
        let most = longest.take().bytes;
        assert!(most <= bytes && most > bytes - 1500, "{most} of {bytes}");
        assert!(report.link(BOTTLENECK).unwrap().dropped_by(DropRule::QueueFull) > 0);
    }
}
