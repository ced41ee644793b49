//! One sender over a link that is never full and loses the packets that an experiment names or draws.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_core::Instant;
use ackclock_sim::observe::{Observer, PacketEvent, What};
use ackclock_sim::scenario::{Loss, Scripted};
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Scenario, TcpSettings, TrafficConfig};

use crate::changes;

/// The losses among the sender's packets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Losses {
    /// The packets of data with the numbers `first`, `first + every`, `first + 2 * every` and so on.
    Periodic { first: u64, every: u64 },
    /// Each packet with the same probability.
    Random(Loss),
}

/// A path and a sender.
#[derive(Clone, Debug)]
pub(super) struct Lossy {
    pub(super) tcp: TcpSettings,
    /// The time to the receiver and back.
    pub(super) rtt: Span,
    /// The largest packet.
    pub(super) mtu: u64,
    pub(super) losses: Losses,
    /// How many losses are awaited before any is counted.
    pub(super) settling: usize,
    /// How many are counted.
    pub(super) counted: usize,
    pub(super) seed: u64,
}

/// Measurements between two losses, some losses apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    /// Packets of data that the link carried or lost in a round trip, on average.
    pub(super) window: f64,
    /// The share of them that it lost.
    pub(super) loss: f64,
}

/// Counts packets of data, and remembers the count and the time of each loss.
#[derive(Debug, Default)]
struct Counter {
    data: u64,
    losses: Vec<(Instant, u64)>,
}

impl Lossy {
    /// Runs until enough losses are counted.
    pub(super) fn run(&self) -> anyhow::Result<Between> {
        let counter = Rc::new(RefCell::new(Counter::default()));
        let mut simulation = changes::simulation(&self.scenario())?;
        simulation.observe(Rc::clone(&counter));
        let (first, last) = (self.settling, self.settling + self.counted);
        while counter.borrow().losses.len() <= last && simulation.now() < at(LONGEST) {
            let until = simulation.now() + self.rtt.duration() * 10;
            simulation.run_until(until);
        }
        let counter = counter.borrow();
        let of = |number: usize| counter.losses.get(number).copied();
        let (Some(begin), Some(end)) = (of(first), of(last)) else {
            anyhow::bail!("only {} losses in {}", counter.losses.len(), LONGEST);
        };
        let packets = (end.1 - begin.1) as f64;
        let seconds = end.0.saturating_since(begin.0).as_secs_f64();
        let window = packets / seconds * self.rtt.duration().as_secs_f64();
        Ok(Between { window, loss: self.counted as f64 / packets })
    }

    fn scenario(&self) -> Scenario {
        let wire = Direction::new(FAST, Span(self.rtt.0 / 2)).mtu(self.mtu).buffers(ROOM);
        let mut there = wire.clone();
        match self.losses {
            Losses::Random(loss) => there = there.loss(loss),
            Losses::Periodic { first, every } => {
                let count = (self.settling + self.counted + 2) as u64;
                let packets = (0..count).map(|number| first + number * every).collect();
                there.drop = vec![Scripted { packets, data: true, of: None }];
            }
        }
        let tcp = TcpSettings { send_buffer: Some(WINDOW), ..self.tcp.clone().fixed_window(WINDOW.0) };
        Scenario::new(LONGEST)
            .seed(self.seed)
            .tcp(tcp)
            .host("a")
            .host("b")
            .asymmetric("a", "b", there, wire)
            .traffic(TrafficConfig::bulk("transfer", "a", "b", None))
    }
}

impl Observer for Counter {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.packet.payload_len() == 0 {
            return;
        }
        match event.what {
            What::Sent => self.data += 1,
            What::Dropped(_) => self.losses.push((event.at, self.data)),
            _ => {}
        }
    }
}

fn at(time: Span) -> Instant {
    Instant::ZERO + time.duration()
}

/// Bounds a run.
const LONGEST: Span = Span::seconds(3600);
/// Never the bottleneck: the largest packet takes five microseconds.
const FAST: Rate = Rate::mbit(100_000);
/// Never full.
const ROOM: u64 = 1_000_000;
/// Never the limit.
const WINDOW: Bytes = Bytes(1 << 30);
