//! Goal: a link's rate is its rate, held against a token bucket that knows nothing of the link's own
//! arithmetic.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::units::{Limit, Rate, Span};
use ackclock_sim::{Direction, QueueConfig, Scenario, Simulation, TcpSettings, TrafficConfig};

/// Tokens are bytes times 8e9: they come at `rate_bps` each nanosecond, up to `depth`.
struct Bucket {
    rate_bps: u128,
    depth: u128,
    tokens: u128,
    at: u64,
}

impl Bucket {
    /// Takes a packet's tokens at this time. Returns whether there were enough.
    fn takes(&mut self, at: u64, bytes: u64) -> bool {
        let come = u128::from(at - self.at) * self.rate_bps;
        self.tokens = (self.tokens + come).min(self.depth);
        self.at = at;
        let wanted = u128::from(bytes) * 8_000_000_000;
        let enough = self.tokens >= wanted;
        self.tokens = self.tokens.saturating_sub(wanted);
        enough
    }
}

/// When packets arrived at a node, and their bytes.
#[derive(Default)]
struct Arrivals {
    node: u32,
    all: Vec<(u64, u64)>,
}

impl Observer for Arrivals {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.what == What::Delivered && event.node == self.node {
            self.all.push((event.at.as_nanos(), u64::from(event.packet.len())));
        }
    }
}

#[test]
fn a_busy_link_carries_its_rate_to_a_hundredth() {
    for rate_bps in [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000] {
        // For 2,000 packets of 1,500 bytes, after a start.
        let duration = Span((24_000_000 + 8_000_000) * 1_000_000_000 / rate_bps + 1_000_000_000);
        let there = Direction::new(Rate::bits_per_second(rate_bps), Span::millis(1))
            .queue(QueueConfig::drop_tail(Limit::Packets(100)));
        let mut scenario = Scenario::new(duration)
            .host("a")
            .host("b")
            .link("a", "b", there)
            .traffic(TrafficConfig::bulk("transfer", "a", "b", None));
        scenario.tcp = TcpSettings::profile("modern");
        let mut simulation = Simulation::new(&scenario).unwrap();
        let node = simulation.node("b").unwrap().number;
        let arrivals = Rc::new(RefCell::new(Arrivals { node, all: Vec::new() }));
        simulation.observe(Rc::clone(&arrivals));
        simulation.run();

        let arrivals = arrivals.borrow();
        let begun = arrivals.all.len() / 4;
        let busy = &arrivals.all[begun..];
        assert!(busy.len() > 1000, "{rate_bps}: {}", busy.len());
        // Never faster: a bucket of a hundredth more, and of one packet, always has enough.
        let depth = 1500 * 8_000_000_000;
        let rate = u128::from(rate_bps) * 101 / 100;
        let mut bucket = Bucket { rate_bps: rate, depth, tokens: depth, at: 0 };
        let late = busy.iter().filter(|(at, bytes)| !bucket.takes(*at, *bytes)).count();
        assert_eq!(late, 0, "{rate_bps}: packets that came too early");
        // And not slower.
        let time = busy.last().unwrap().0 - busy[0].0;
        let bits: u64 = busy[1..].iter().map(|(_, bytes)| bytes * 8).sum();
        let measured = bits as f64 / (time as f64 / 1e9);
        assert!((measured / rate_bps as f64 - 1.0).abs() < 0.01, "{rate_bps}: {measured}");
    }
}
