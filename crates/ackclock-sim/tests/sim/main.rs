//! Whole networks: hosts, links and traffic together.

mod apps;
mod determinism;
mod faults;
mod guests;
mod links;
mod measures;
mod network;
mod path_mtu;
mod performance_of_tcp;
mod queues;
mod reference;
mod scenarios;
mod token_bucket;
mod traces;

use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario};

/// Two hosts, two routers, a bottleneck of 8 Mbit/s and 20 ms between them, 100 Mbit/s to the hosts.
fn dumbbell(duration: Span, bottleneck: Direction) -> Scenario {
    let access = Direction::new(Rate::mbit(100), Span::millis(1));
    Scenario::new(duration)
        .seed(1)
        .host("a")
        .host("b")
        .router("left")
        .router("right")
        .link("a", "left", access.clone())
        .link("left", "right", bottleneck)
        .link("right", "b", access)
}

fn bottleneck() -> Direction {
    Direction::new(Rate::mbit(8), Span::millis(20)).buffers(50)
}
