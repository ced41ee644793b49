//! Queues under TCP: the rates and the delays that their RFCs promise.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use ackclock_sim::dumbbell::{BOTTLENECK, shared};
use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::units::{Limit, Rate, Span};
use ackclock_sim::{Direction, QueueConfig, Report, Simulation, TcpSettings, TrafficConfig};

/// What one link sent after some time, L4S traffic (ECT(1) or CE) apart.
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
    for (mbit, rtt_ms) in [(10, 30), (40, 30), (40, 60), (100, 30)] {
        let queue = QueueConfig::dual_pi2(Limit::Packets(10_000));
        let bottleneck = Direction::new(Rate::mbit(mbit), Span::millis(rtt_ms / 2)).queue(queue);
        for ecn in ["off", "classic"] {
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
        }
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
