//! Hosts that are too slow: an application that runs late, and a device that takes few packets.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;

use ackclock_control::congestion::Registry;
use ackclock_core::{ConnectionId, Endpoint, EndpointConfig, Limits};
use ackclock_sim::{Guest, Simulation};
use ackclock_wire::{RxMeta, TxPacket};

use super::stage::{Reader, outcome};
use super::*;

#[test]
fn application_that_is_told_of_room_and_runs_late() {
    let tcp = TcpSettings { send_buffer: Some(Bytes(20_000)), ..Stage::default().tcp };
    let near = Direction { delay: Span(100_000), ..Stage::default().there };
    let writes = |asleep| Writes { asleep, ..Writes::default() };
    let stage = Stage { tcp, there: near, writes: writes(100 * MS), ..Stage::default() };
    let lifted = Stage { writes: writes(Duration::ZERO), ..stage.clone() }.run();
    check(&stage.run(), &lifted, &[Waiting::Host], 0.6, 0.1);
}

/// A host whose device takes this many packets at a time, at most one batch in each millisecond.
struct SlowDevice {
    endpoint: Rc<RefCell<Endpoint>>,
    id: ConnectionId,
    left: usize,
    per_turn: u32,
    /// When the present turn ends, and how many packets it may still take.
    turn: (Instant, u32),
}

impl std::fmt::Debug for SlowDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlowDevice").field("left", &self.left).finish_non_exhaustive()
    }
}

impl SlowDevice {
    fn write(&mut self, now: Instant) {
        let mut endpoint = self.endpoint.borrow_mut();
        while endpoint.poll_event().is_some() {}
        let left = self.left;
        let written = endpoint.update(now, self.id, |connection, now| {
            let written = if left > 0 { connection.write(now, &vec![0; left]).unwrap_or(0) } else { 0 };
            if left > 0 && written == left {
                connection.shutdown(now).unwrap();
            }
            written
        });
        self.left -= written.unwrap_or(0);
    }
}

impl Guest for SlowDevice {
    fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta) {
        self.endpoint.borrow_mut().handle_packet(now, packet, meta);
        self.write(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.borrow_mut().handle_timeout(now);
        self.write(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let full = (self.turn.1 == 0).then_some(self.turn.0);
        full.into_iter().chain(self.endpoint.borrow().poll_timeout()).min()
    }

    fn poll_transmit(&mut self, now: Instant, limits: Limits, send: &mut dyn FnMut(&TxPacket<'_>)) -> bool {
        if now >= self.turn.0 {
            self.turn = (now + MS, self.per_turn);
        }
        if self.turn.1 == 0 {
            return false;
        }
        let sent =
            self.endpoint.borrow_mut().poll_transmit(now, limits).map(|packet| send(&packet)).is_some();
        self.turn.1 -= u32::from(sent);
        sent
    }
}

/// A megabyte through a device that takes this many packets in a millisecond.
fn through_device(per_turn: u32) -> StageResult {
    let stage = Stage::default();
    let mut scenario = Scenario::new(Span::seconds(60)).host("a").host("b").link("a", "b", stage.there);
    scenario.full_packets = true;
    let mut simulation = Simulation::new(&scenario).unwrap();
    let [here, there]: [IpAddr; 2] = ["a", "b"].map(|name| simulation.node(name).unwrap().addr);
    let registry = Registry::with_experiments();
    let done = Rc::new(Cell::new(None));
    let reader = Reader::new(stage.reads, stage.peer.config(&registry).unwrap(), 1_000_000, &done);
    assert!(simulation.add_app("b", "reader", Instant::ZERO, Box::new(reader)));
    let config = EndpointConfig::new(vec![here], [7; 32]);
    let mut endpoint = Endpoint::new(config, Instant::ZERO);
    let tcp = stage.tcp.traced().config(&registry).unwrap();
    let remote = SocketAddr::new(there, stage::PORT);
    let id = endpoint.connect(Instant::ZERO, remote, (None, 0), Some(tcp)).unwrap();
    let endpoint = Rc::new(RefCell::new(endpoint));
    let turn = (Instant::ZERO, per_turn);
    let device = SlowDevice { endpoint: Rc::clone(&endpoint), id, left: 1_000_000, per_turn, turn };
    simulation.add_guest("a", Box::new(device)).unwrap();
    simulation.run();
    let mut endpoint = endpoint.borrow_mut();
    endpoint.update(simulation.now(), id, |connection, _| connection.request_trace());
    let batches: Vec<Batch> = std::iter::from_fn(|| endpoint.poll_trace()).collect();
    outcome(&batches, done.get().expect("all arrives in a minute"))
}

#[test]
fn device_that_takes_few_packets() {
    // 691 segments at one in a millisecond, or at once; then the first window of 64 KB costs a round trip.
    let (limited, lifted) = (through_device(1), through_device(1000));
    check(&limited, &lifted, &[Waiting::Host], 0.75, 0.08);
}
