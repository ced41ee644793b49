//! The scenarios that measure the simulator.

use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, TrafficConfig};

/// 1 Gbit/s, a round trip of 20 ms, 4 flows on their own host pairs, 10 s.
#[must_use]
pub fn gigabit() -> Scenario {
    pairs(4, Rate::mbit(1000), Span::seconds(10))
}

/// 100 Mbit/s, 100 flows on their own host pairs, 10 s.
#[must_use]
pub fn hundred() -> Scenario {
    pairs(100, Rate::mbit(100), Span::seconds(10))
}

/// Flows on their own host pairs, over one bottleneck with a round trip of 20 ms and a buffer of the same.
#[must_use]
pub fn pairs(flows: usize, rate: Rate, duration: Span) -> Scenario {
    let mut scenario = backbone(rate, duration);
    let access = Direction::new(Rate::mbit(1000), Span::millis(1));
    for n in 0..flows {
        let (a, b) = (format!("a{n}"), format!("b{n}"));
        scenario = scenario.host(a.clone()).host(b.clone());
        scenario = scenario.link(&a, "left", access.clone()).link("right", &b, access.clone());
        scenario = scenario.traffic(bulk(n, &a, &b));
    }
    scenario
}

/// All flows between the same two hosts.
#[must_use]
pub fn shared(flows: usize, rate: Rate, duration: Span) -> Scenario {
    let access = Direction::new(Rate::mbit(10_000), Span::millis(1));
    let mut scenario = backbone(rate, duration).host("a").host("b");
    scenario = scenario.link("a", "left", access.clone()).link("right", "b", access);
    (0..flows).fold(scenario, |scenario, n| scenario.traffic(bulk(n, "a", "b")))
}

/// Packets that the bottleneck carried, in either direction.
#[must_use]
pub fn carried(report: &ackclock_sim::Report) -> u64 {
    report.links.iter().filter(|link| link.name.starts_with("left-right:")).map(|link| link.sent).sum()
}

fn backbone(rate: Rate, duration: Span) -> Scenario {
    let packets = rate.bits() / 8 / 1500 / 50;
    let bottleneck = Direction::new(rate, Span::millis(8)).buffers(packets);
    Scenario::new(duration).router("left").router("right").link("left", "right", bottleneck)
}

/// Flows start one after the other within the first half second.
fn bulk(n: usize, from: &str, to: &str) -> TrafficConfig {
    TrafficConfig::bulk(&format!("flow{n}"), from, to, None).start(Span((n as u64 * 7_919_000) % 500_000_000))
}
