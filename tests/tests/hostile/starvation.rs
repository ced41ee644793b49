//! Honest transfers beside peers that hold memory and make no progress (docs/security.md, B8, B9, B12;
//! CVE-2008-4609).

use std::net::SocketAddr;
use std::time::Duration;

use ackclock_core::{ConnectionError, ConnectionId, EndpointConfig, Event, Instant};
use ackclock_tests::host::{Host, host_addr};
use ackclock_tests::segment::{ACK, Frame, Opt, RST, Seg, seg};
use ackclock_wire::pipe::Pipe;

use super::crowd::{Crowd, FIRST_PORT, local};

/// How a peer holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pin {
    /// It offers no window for what the application writes.
    ZeroWindow,
    /// It sends what the application does not read.
    Unread,
    /// It sends every second byte.
    Crumbs,
    /// It reports every second segment as held, and acknowledges none.
    SackStorm,
}

const PINS: usize = 2_000;
const FETCHES: usize = 4;
const FETCH_BYTES: usize = 4 << 20;
const DELAY: Duration = Duration::from_millis(10);

/// A server, its hostile peers and an honest client, 10 ms apart.
struct StarvedServer {
    crowd: Crowd,
    pin: Pin,
    client: Host,
    /// Packets in transit, and whether they go to the server.
    wire: Pipe<Instant, (bool, Vec<u8>)>,
    /// The bytes that the server still has to write, by connection.
    serving: Vec<(ConnectionId, usize)>,
    /// The bytes that the client has read, by connection, and when it had all.
    fetched: Vec<(ConnectionId, usize, Option<Instant>)>,
    /// Pinned connections whose end was reported to the server's application.
    told: Vec<ConnectionId>,
}

impl StarvedServer {
    fn new(pin: Pin, pins: usize) -> Self {
        let crowd = Crowd::new(|config| config.memory_budget = 64 << 20);
        let client = Host::new(EndpointConfig::new(vec![host_addr(false, 3)], [9; 32]), crowd.host.now);
        let mut server = Self {
            crowd,
            pin,
            client,
            wire: Pipe::new(),
            serving: Vec::new(),
            fetched: Vec::new(),
            told: Vec::new(),
        };
        for _ in 0..pins {
            server.add_pin();
            server.run_until(server.crowd.host.now + Duration::from_millis(1));
        }
        server
    }

    fn add_pin(&mut self) {
        let crowd = &mut self.crowd;
        crowd.open(1_460, if self.pin == Pin::ZeroWindow { 0 } else { 500 });
        let peer = *crowd.peers.last().expect("one was opened");
        match self.pin {
            Pin::ZeroWindow | Pin::SackStorm => crowd.fill(peer.id),
            Pin::Unread => (0..44).for_each(|n| {
                crowd.say(peer.addr, seg(ACK).seq(1 + 1_460 * n).ack(peer.next).data(&[7; 1_460]));
            }),
            Pin::Crumbs => (0..1_024).for_each(|n| {
                crowd.say(peer.addr, seg(ACK).seq(3 + 2 * n).ack(peer.next).data(&[7]));
                crowd.drain();
            }),
        }
    }

    fn put(&mut self, now: Instant, to_server: bool, packet: Vec<u8>) {
        self.wire.carry(now + DELAY, (to_server, packet));
    }

    /// A hostile peer's answer to this segment.
    fn answer(&self, to: SocketAddr, got: &Seg) -> Option<Seg> {
        let peer = &self.crowd.peers[usize::from(to.port() - FIRST_PORT)];
        let ack = seg(ACK).seq(1).ack(peer.next);
        let odd = (got.seq.wrapping_sub(peer.next) / 1_460) % 2 == 1;
        match self.pin {
            _ if got.has(RST) || got.payload.is_empty() => None,
            Pin::SackStorm if odd => Some(ack.window(500).opt(Opt::Sack(vec![(got.seq, got.end())]))),
            Pin::SackStorm => None,
            _ => Some(ack.window(0)),
        }
    }

    /// Everything that happens at this time.
    fn settle(&mut self) {
        let now = self.crowd.host.now;
        loop {
            self.serve();
            self.fetch();
            let (from_server, from_client) = (self.crowd.host.transmit(), self.client.transmit());
            if from_server.is_empty() && from_client.is_empty() {
                break;
            }
            for frame in from_server {
                if frame.dst.ip() == host_addr(false, 3) {
                    self.put(now, false, frame.to_bytes());
                } else if let Some(answer) = self.answer(frame.dst, &frame.seg) {
                    self.put(now, true, Frame::new(frame.dst, local(), answer).to_bytes());
                }
            }
            for frame in from_client {
                self.put(now, true, frame.to_bytes());
            }
        }
    }

    fn serve(&mut self) {
        let host = &mut self.crowd.host;
        for event in host.events() {
            match event {
                Event::Acceptable(listener) => {
                    while let Some(id) = host.endpoint.accept(host.now, listener) {
                        self.serving.push((id, FETCH_BYTES));
                    }
                }
                Event::Connection(id, readiness) if readiness.closed => self.told.push(id),
                _ => {}
            }
        }
        let data = [5; 65_536];
        for (id, left) in &mut self.serving {
            while *left > 0 {
                let part = &data[..data.len().min(*left)];
                match host.endpoint.update(host.now, *id, |c, now| c.write(now, part)) {
                    Some(Ok(written)) => *left -= written,
                    _ => break,
                }
            }
        }
    }

    fn fetch(&mut self) {
        let (now, endpoint) = (self.client.now, &mut self.client.endpoint);
        let mut into = vec![0; 1 << 16];
        for (id, read, done) in &mut self.fetched {
            while let Some(Ok(len)) = endpoint.update(now, *id, |c, now| c.read(now, &mut into)) {
                *read += len;
            }
            if *read == FETCH_BYTES {
                done.get_or_insert(now);
            }
        }
        self.client.events();
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            self.settle();
            let next = [self.wire.next_due(), self.crowd.host.next_timeout(), self.client.next_timeout()];
            let Some(next) = next.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            for host in [&mut self.crowd.host, &mut self.client] {
                host.wake(next.max(host.now));
            }
            while let Some((_, (to_server, packet))) = self.wire.take_due(next) {
                if to_server { self.crowd.host.receive(&packet) } else { self.client.receive(&packet) }
            }
        }
        for host in [&mut self.crowd.host, &mut self.client] {
            host.wake(end.max(host.now));
        }
        self.settle();
    }

    /// How long each fetch takes, ten seconds after all peers have connected.
    fn fetches(&mut self) -> Vec<Duration> {
        let start = self.crowd.host.now + Duration::from_secs(10);
        self.run_until(start);
        for _ in 0..FETCHES {
            let id = self.client.endpoint.connect(start, local(), (None, 0), None).expect("room for it");
            self.fetched.push((id, 0, None));
        }
        self.run_until(start + Duration::from_secs(30));
        let took = |(_, read, done): &(_, usize, Option<Instant>)| {
            done.unwrap_or_else(|| panic!("{:?}: only {read} bytes", self.pin)).saturating_since(start)
        };
        self.fetched.iter().map(took).collect()
    }
}

/// Fetches beside such pins take no more than twice the time that they take alone.
fn honest_transfers_keep_half_their_rate_beside(pin: Pin) {
    let alone = *StarvedServer::new(pin, 0).fetches().iter().max().expect("four");
    let mut server = StarvedServer::new(pin, PINS);
    let beside = *server.fetches().iter().max().expect("four");
    assert!(beside <= 2 * alone, "{pin:?}: {beside:?} instead of {alone:?}");
    let (used, limit) = server.crowd.host.endpoint.memory();
    assert!(used <= limit, "{used} of {limit}");

    // Resets are reported and counted; they hit the connections that have held memory longest, and no more
    // than needed.
    let endpoint = &server.crowd.host.endpoint;
    let reset = |id| endpoint.connection(id).and_then(|c| c.error()) == Some(ConnectionError::OutOfMemory);
    let gone: Vec<bool> = server.crowd.peers.iter().map(|peer| reset(peer.id)).collect();
    let count = gone.iter().filter(|gone| **gone).count();
    assert_eq!(endpoint.counters().memory_resets, count as u64);
    assert!(count > 0 && count < PINS, "{pin:?}: {count} of {PINS} were reset");
    assert!(gone.is_sorted_by(|earlier, later| earlier >= later), "{pin:?}: the longest-pinned go first");
    let told = server.crowd.peers.iter().filter(|peer| server.told.contains(&peer.id)).count();
    assert_eq!(told, count, "each reset is reported");
}

#[test]
fn sec_b8_fetches_keep_half_their_rate_beside_2000_zero_windows() {
    honest_transfers_keep_half_their_rate_beside(Pin::ZeroWindow);
}

#[test]
fn sec_b12_fetches_keep_half_their_rate_beside_2000_unread_buffers() {
    honest_transfers_keep_half_their_rate_beside(Pin::Unread);
}

#[test]
fn sec_b4_fetches_keep_half_their_rate_beside_2000_peers_with_crumbs() {
    honest_transfers_keep_half_their_rate_beside(Pin::Crumbs);
}

#[test]
fn sec_b6_fetches_keep_half_their_rate_beside_2000_sack_storms() {
    honest_transfers_keep_half_their_rate_beside(Pin::SackStorm);
}
