//! Guests: stacks other than the simulation's.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_core::{
    ConnectionId, Endpoint, EndpointConfig, Event, Instant, Limits, ListenAddr, ListenOptions,
};
use ackclock_sim::report::LinkReport;
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Guest, GuestError, Scenario, Simulation, TrafficConfig};
use ackclock_wire::{RxMeta, TxPacket};

use super::{bottleneck, dumbbell};

const BYTES: usize = 300_000;

/// A bare endpoint that writes what it can on the connection that it opened, and counts what it reads on the
/// one that it accepted.
#[derive(Debug)]
struct Bare {
    endpoint: Endpoint,
    written: usize,
    read: Rc<RefCell<usize>>,
}

impl Bare {
    fn new(simulation: &Simulation, host: &str) -> Self {
        let addr = simulation.node(host).unwrap().addr;
        let endpoint = Endpoint::new(EndpointConfig::new(vec![addr], [7; 32]), Instant::ZERO);
        Self { endpoint, written: 0, read: Rc::default() }
    }

    fn go_on(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connection(id, _) => self.serve(now, id),
                Event::Acceptable(listener) => {
                    let id = self.endpoint.accept(now, listener).unwrap();
                    self.serve(now, id);
                }
                _ => {}
            }
        }
    }

    fn serve(&mut self, now: Instant, id: ConnectionId) {
        let Self { endpoint, written, read } = self;
        endpoint.update(now, id, |connection, now| {
            let mut into = [0; 4096];
            while let Ok(bytes @ 1..) = connection.read(now, &mut into) {
                *read.borrow_mut() += bytes;
            }
            while *written < BYTES {
                let Ok(bytes) = connection.write(now, &into[..(BYTES - *written).min(4096)]) else { break };
                *written += bytes;
            }
        });
    }
}

impl Guest for Bare {
    fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta) {
        self.endpoint.handle_packet(now, packet, meta);
        self.go_on(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.go_on(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Instant, limits: Limits, send: &mut dyn FnMut(&TxPacket<'_>)) -> bool {
        self.endpoint.poll_transmit(now, limits).as_ref().map(send).is_some()
    }
}

fn scenario() -> Scenario {
    Scenario { full_packets: true, ..dumbbell(Span::seconds(10), bottleneck()) }
}

#[test]
fn two_guests_talk_over_the_network() {
    let mut simulation = Simulation::new(&scenario()).unwrap();
    let [mut caller, mut answerer] = ["a", "b"].map(|host| Bare::new(&simulation, host));
    answerer.written = BYTES;
    let options = ListenOptions::new(ListenAddr { addr: None, port: Some(80) });
    answerer.endpoint.listen(Instant::ZERO, options).unwrap();
    let server = (simulation.node("b").unwrap().addr, 80).into();
    caller.endpoint.connect(Instant::ZERO, server, (None, 0), None).unwrap();
    let read = Rc::clone(&answerer.read);
    simulation.add_guest("b", Box::new(answerer)).unwrap();
    simulation.add_guest("a", Box::new(caller)).unwrap();
    let report = simulation.run();
    assert_eq!(*read.borrow(), BYTES);
    assert!(report.link("left-right:there").unwrap().sent > 200, "{report:?}");
    assert!(report.packets_delivered > 300);
    let [a, b] = ["a", "b"].map(|host| report.guest(host).unwrap());
    let dropped: u64 = report.links.iter().map(LinkReport::dropped).sum();
    assert_eq!(a.packets_received + b.packets_received, report.packets_delivered);
    assert_eq!(a.packets_sent + b.packets_sent, report.packets_delivered + dropped);
    // Headers of 52 bytes, except in the handshake.
    let headers = b.packets_received * 52;
    assert!((BYTES as u64 + headers - 60..BYTES as u64 + headers + 60).contains(&b.bytes_received), "{b:?}");
}

#[test]
fn a_guest_is_refused_where_somebody_is_and_where_nobody_can_be() {
    let access = Direction::new(Rate::mbit(100), Span::millis(1));
    let scenario = scenario().host("c").link("right", "c", access).traffic(TrafficConfig::bulk(
        "load",
        "b",
        "c",
        Some(Bytes(1)),
    ));
    let mut simulation = Simulation::new(&scenario).unwrap();
    let mut refused = |host: &str| {
        let guest = Box::new(Bare::new(&simulation, "a"));
        simulation.add_guest(host, guest).err().map(|error| error.to_string())
    };
    assert_eq!(refused("a"), None);
    let taken = "host `a` has a stack already: a host takes one, whose handles can be cloned";
    assert_eq!(refused("a").unwrap(), taken);
    let busy = "runs the traffic `load` and has an endpoint already: give the stack a host of its own";
    assert_eq!(refused("b").unwrap(), format!("host `b` {busy}"));
    assert_eq!(refused("c").unwrap(), format!("host `c` {busy}"));
    assert_eq!(refused("left").unwrap(), "`left` is a router, which has no stack: link a host to it");
    assert_eq!(refused("d").unwrap(), "the scenario has no host `d`; it has `a`, `b`, `c`");
}

#[test]
fn a_guest_needs_real_bytes() {
    let mut simulation = Simulation::new(&dumbbell(Span::seconds(1), bottleneck())).unwrap();
    let guest = Box::new(Bare::new(&simulation, "a"));
    assert_eq!(simulation.add_guest("a", guest), Err(GuestError::NoPayloads));
    assert!(!simulation.poke("a"));
}
