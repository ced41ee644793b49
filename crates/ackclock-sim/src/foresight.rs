//! Foresight: prefetches what the events of the next microseconds will need, all of it together.
//!
//! With thousands of hosts, each event would miss the nearer caches on its link, packet, host, connection and
//! application, one cache line after the other. The calendar knows the next events: when it moves to another
//! slot, it knows those of 8 µs. Their data is prefetched step by step, each step for all events, because a
//! step follows the pointers that the last one fetched.
//!
//! Prefetching changes no result, nor does the choice of events. A simulation that fits into the caches does
//! without it.

use ackclock_core::WarmStep;

use crate::host::Host;
use crate::world::{NetEvent, Wake, World};

/// Prefetches for the events of the slot that the calendars have just moved to.
pub(crate) fn warm(world: &World, hosts: &[Option<Box<Host>>]) {
    let net = &world.net;
    let mut links = [NONE; AHEAD];
    for (place, event) in links.iter_mut().zip(net.calendar.soon()) {
        let (NetEvent::Arrival(link)
        | NetEvent::Free(link)
        | NetEvent::Turn(link)
        | NetEvent::Stray { link, .. }) = event;
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
        // A router also needs the packet's next link.
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

/// From this many hosts on they no longer fit into the nearer caches: packets touch about 4 KB of each.
pub(crate) const HOSTS_MIN: usize = 300;
/// The most events of a slot to prefetch for: their data must still be in the nearest cache when their turn
/// comes.
const AHEAD: usize = 8;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use crate::scenario::Loss;
    use crate::units::{Bytes, Rate, Share, Span};
    use crate::{Direction, Scenario, Simulation, TrafficConfig};

    /// Six hosts on two routers, with loss, which produces all kinds of events.
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
