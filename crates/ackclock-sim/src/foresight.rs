//! Foresight: what the events of the next microseconds will need is fetched ahead, all of it together.
//!
//! With thousands of hosts each event finds its link, its packet, its host, the connection and the application in none of the
//! nearer caches, and would wait for one cache line after the other. The calendar knows what comes: when it goes on to
//! another slot, it knows the events of 8 µs. What they will touch is asked for by steps, each of all events, because a step
//! follows the pointers that the last one fetched.
//!
//! Nothing changes by it, and which events are looked at has no influence on any. A simulation that fits into the caches does
//! without.

use ackclock_core::WarmStep;

use crate::host::Host;
use crate::world::{NetEvent, Wake, World};

/// The time has gone on to another slot of the calendars: asks for what the events there will need.
pub(crate) fn warm(world: &World, hosts: &[Option<Box<Host>>]) {
    let net = &world.net;
    let mut links = [NONE; AHEAD];
    for (place, event) in links.iter_mut().zip(net.calendar.soon()) {
        let (NetEvent::Arrival(link) | NetEvent::Free(link) | NetEvent::Stray { link, .. }) = event;
        net.links[link as usize].warm();
        *place = link;
    }
    let mut nodes = [NONE; 2 * AHEAD];
    let (arrivals, timers) = nodes.split_at_mut(AHEAD);
    for (node, link) in arrivals.iter_mut().zip(links) {
        let Some(link) = net.links.get(link as usize) else { break };
        *node = link.to;
        if let Some(packet) = net.flights.first(link.flying) {
            net.packets.get(packet).warm();
        }
    }
    for (node, event) in timers.iter_mut().zip(world.timers.soon()) {
        if let Wake::Host(host) = event {
            *node = host;
        }
    }
    for (node, link) in arrivals.iter().zip(links) {
        // A router has the packet's next link, too.
        if let Some(None) = hosts.get(*node as usize)
            && let Some(packet) = net.flights.first(net.links[link as usize].flying)
            && let Some(next) = net.routes.next(*node, net.packets.get(packet).dst)
        {
            net.links[next as usize].warm();
        }
    }
    for step in WarmStep::ALL {
        for host in nodes.iter().filter_map(|node| hosts.get(*node as usize)?.as_deref()) {
            host.warm(step, world);
        }
    }
}

/// From this many hosts on they no longer fit into the nearer caches: each has some 4 KB that its packets touch.
pub(crate) const HOSTS_MIN: usize = 300;
/// No more events of a slot are looked at: what they need is to be in the nearest cache still when their turn comes.
const AHEAD: usize = 8;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use crate::scenario::Loss;
    use crate::units::{Bytes, Rate, Share, Span};
    use crate::{Direction, Scenario, Simulation, TrafficConfig};

    /// Six hosts on two routers, with loss, so that all kinds of events happen.
    fn scenario() -> Scenario {
        let access = Direction::new(Rate::mbit(100), Span::millis(1));
        let middle = Direction::new(Rate::mbit(20), Span::millis(8)).buffers(20);
        let middle = middle.loss(Loss::Independent(Share::percent(1)));
        let mut scenario = Scenario::new(Span::seconds(5)).router("left").router("right");
        scenario = scenario.link("left", "right", middle);
        for n in 0..3 {
            let (a, b) = (format!("a{n}"), format!("b{n}"));
            scenario = scenario.host(a.clone()).host(b.clone());
            scenario = scenario.link(&a, "left", access.clone()).link("right", &b, access.clone());
            scenario =
                scenario.traffic(TrafficConfig::bulk(&format!("flow{n}"), &a, &b, Some(Bytes(1 << 20))));
        }
        scenario
    }

    #[test]
    fn a_run_is_the_same_with_and_without_it() {
        let run = |foresees| {
            let mut simulation = Simulation::new(&scenario()).expect("the scenario can be run");
            simulation.foresees = foresees;
            let report = simulation.run();
            assert!(report.flows.iter().all(|flow| flow.there.bytes == 1 << 20));
            (serde_json::to_string(&report).expect("a report is plain data"), simulation.events())
        };
        assert_eq!(run(true), run(false));
    }
}
