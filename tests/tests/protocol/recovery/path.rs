//! A sender of 1460-byte segments, a path of 100 ms with a bottleneck of a segment each millisecond, and a
//! receiver that acknowledges every segment. Losses are named: the nth transmission of a segment.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ackclock_core::congestion::Registry;
use ackclock_core::profile::{Choices, Recovery, UndoChoice};
use ackclock_core::{ConnectionInfo, Instant, TcpConfig};
use ackclock_tests::script::{Script, Setup, peer_syn};
use ackclock_tests::segment::{ACK, Opt, seg};
use ackclock_wire::pipe::Pipe;

pub(crate) const MSS: u32 = 1460;
pub(crate) const RTT: Duration = Duration::from_millis(100);

/// One transmission: milliseconds since the transfer began, and the segment's number, the first being 1.
pub(crate) type Transmission = (u64, u32);

pub(crate) struct ScriptedPath {
    pub(crate) script: Script,
    /// Everything that was sent, in order.
    pub(crate) sent: Vec<Transmission>,
    start: Instant,
    lost: Vec<(u32, u32)>,
    transmissions: HashMap<u32, u32>,
    wire: Pipe<Instant, u32>,
    last_arrival: Instant,
    held: BTreeSet<u32>,
    last_held: Option<u32>,
    next: u32,
    /// Segments whose second copy the receiver reports (RFC 2883).
    duplicate: Option<u32>,
    delays: HashMap<(u32, u32), Duration>,
}

pub(crate) fn tcp(recovery: Recovery, controller: &str, window: u32) -> TcpConfig {
    let congestion = Registry::builtin().find(controller).expect("a built-in controller");
    TcpConfig {
        congestion,
        nodelay: true,
        choices: Choices {
            recovery,
            initial_window_segments: window,
            pacing: false, // What the undoing of timeouts adds is tested by itself.
            undo: UndoChoice::default(),
            ..Choices::default()
        },
        ..TcpConfig::default()
    }
}

/// A connection that knows from the handshake that its round trip is `rtt`, and on which nothing was sent
/// yet.
pub(crate) fn connected(tcp: TcpConfig, rtt: Duration) -> Script {
    let peer_options = vec![Opt::Mss(1460), Opt::SackPermitted, Opt::WindowScale(7)];
    let setup = Setup { tcp, peer_options, ..Setup::default() };
    let mut script = Script::connecting(&setup);
    script.take_sent();
    script.advance(rtt);
    script.peer(peer_syn(&setup).ack(1));
    script.expect_ack(1);
    script
}

impl ScriptedPath {
    /// A connection on which nothing was sent yet; `lost` names transmissions as (segment, nth).
    pub(crate) fn new(tcp: TcpConfig, lost: &[(u32, u32)]) -> Self {
        let script = connected(tcp, RTT);
        let start = script.now();
        Self {
            script,
            sent: Vec::new(),
            start,
            lost: lost.to_vec(),
            transmissions: HashMap::new(),
            wire: Pipe::new(),
            last_arrival: start,
            held: BTreeSet::new(),
            last_held: None,
            next: 1,
            duplicate: None,
            delays: HashMap::new(),
        }
    }

    /// The nth transmission of this segment takes this much longer, and is overtaken.
    pub(crate) fn delay(mut self, segment: u32, nth: u32, by: Duration) -> Self {
        self.delays.insert((segment, nth), by);
        self
    }

    /// Transfers this many segments and returns the connection's information when all are acknowledged.
    pub(crate) fn transfer(&mut self, segments: u32) -> ConnectionInfo {
        self.script.stream(1, segments * MSS);
        self.run_until(|path| path.next > segments && path.script.info().unacked == 0);
        self.script.info()
    }

    /// Runs until the condition holds, for a minute at most.
    pub(crate) fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        let limit = self.script.now() + Duration::from_secs(60);
        self.collect();
        while !done(self) {
            let timer = self.script.host.next_timeout();
            let next =
                [timer, self.wire.next_due()].into_iter().flatten().min().expect("something will happen");
            assert!(next <= limit, "stuck: {:?}", self.script.info());
            let now = self.script.now();
            self.script.advance(next.saturating_since(now));
            self.collect();
            if let Some((_, segment)) = self.wire.take_due(next) {
                self.arrive(segment);
            }
        }
    }

    /// Milliseconds since the start.
    pub(crate) fn millis(&self) -> u64 {
        self.script.now().saturating_since(self.start).as_millis() as u64
    }

    /// The retransmissions, with their times.
    pub(crate) fn again(&self) -> Vec<Transmission> {
        let mut seen = BTreeSet::new();
        self.sent.iter().copied().filter(|&(_, segment)| !seen.insert(segment)).collect()
    }

    fn collect(&mut self) {
        let now = self.script.now();
        for segment in self.script.take_sent() {
            if segment.payload.is_empty() {
                continue;
            }
            let number = (segment.seq - 1) / MSS + 1;
            let nth = self.transmissions.entry(number).or_default();
            *nth += 1;
            self.sent.push((now.saturating_since(self.start).as_millis() as u64, number));
            if self.lost.contains(&(number, *nth)) {
                continue;
            }
            let mut arrives = (now + RTT).max(self.last_arrival + Duration::from_millis(1));
            match self.delays.get(&(number, *nth)) {
                Some(&delay) => arrives += delay,
                None => self.last_arrival = arrives,
            }
            self.wire.carry(arrives, number);
        }
    }

    fn arrive(&mut self, segment: u32) {
        if !self.held.insert(segment) || segment < self.next {
            self.duplicate = Some(segment);
        }
        self.last_held = Some(segment);
        while self.held.contains(&self.next) {
            self.next += 1;
        }
        let mut ack = seg(ACK).seq(1).ack(Self::edge(self.next)).window(65_535);
        let blocks = self.blocks();
        if !blocks.is_empty() {
            ack = ack.opt(Opt::Sack(blocks));
        }
        self.script.peer(ack);
        self.collect();
    }

    fn edge(segment: u32) -> u32 {
        1 + (segment - 1) * MSS
    }

    /// The blocks of RFC 2018, the newest first, a duplicate (RFC 2883) before it.
    fn blocks(&mut self) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &segment in self.held.range(self.next..) {
            match ranges.last_mut() {
                Some(last) if last.1 == segment => last.1 += 1,
                _ => ranges.push((segment, segment + 1)),
            }
        }
        ranges.sort_by_key(|&(from, to)| !self.last_held.is_some_and(|last| (from..to).contains(&last)));
        let duplicate = self.duplicate.take().map(|segment| (segment, segment + 1));
        let blocks = duplicate.into_iter().chain(ranges).take(3);
        blocks.map(|(from, to)| (Self::edge(from), Self::edge(to))).collect()
    }
}
