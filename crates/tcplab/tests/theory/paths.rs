//! A path that loses packets, and what a flow achieves on it.

use ackclock_control::congestion::Registry;
use ackclock_control::profile::Ecn;
use ackclock_core::Instant;
use ackclock_sim::Simulation;
use ackclock_sim::dumbbell::BOTTLENECK;
use ackclock_sim::scenario::{Loss, Scripted};
use ackclock_sim::units::{Rate, Share, Span};
use tcplab::grid::{Buffer, Cell, QueueKind};

/// A bottleneck with a queue of one bandwidth-delay product and independent loss behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossyPath {
    pub(crate) mbit: u64,
    pub(crate) rtt_ms: u64,
    /// In hundredths of a percent.
    pub(crate) loss: u32,
    pub(crate) pattern: Pattern,
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern {
    /// Each packet independently.
    Chance,
    /// One at equal intervals.
    Even,
}

impl LossyPath {
    /// The share of the link's payload capacity that `cc` delivers between `from` and `to` seconds.
    pub(crate) fn share(self, cc: &str, seed: u64, from: u64, to: u64) -> f64 {
        let delivered = self.delivered(cc, seed, &[from, to]);
        let capacity = self.mbit as f64 * 1e6 / 8.0 * (to - from) as f64 * SMSS / PACKET;
        (delivered[1] - delivered[0]) as f64 / capacity
    }

    /// Bytes delivered at each of these seconds.
    pub(crate) fn delivered(self, cc: &str, seed: u64, seconds: &[u64]) -> Vec<u64> {
        let mut simulation = self.simulation(cc, seed, *seconds.last().unwrap());
        let at = |&second| {
            simulation.run_until(Instant::from_millis(second * 1000));
            simulation.report().flows[0].there.bytes
        };
        seconds.iter().map(at).collect()
    }

    /// Packets dropped by the full queue within these seconds.
    pub(crate) fn dropped(self, cc: &str, seed: u64, seconds: u64) -> u64 {
        let report = self.simulation(cc, seed, seconds).run();
        report.link(BOTTLENECK).unwrap().dropped()
    }

    fn simulation(self, cc: &str, seed: u64, seconds: u64) -> Simulation {
        let cell = Cell {
            cc: cc.to_owned(),
            rate: Rate::mbit(self.mbit),
            delay: Span::millis(self.rtt_ms / 2),
            buffer: Buffer::Bdp(1000),
            loss: Share::ZERO,
            profile: "modern".to_owned(),
            queue: QueueKind::DropTail,
            ecn: Ecn::Off,
            flows: 1,
            duration: Span::seconds(seconds),
            seed,
        };
        let mut scenario = cell.scenario();
        let there = &mut scenario.links[0].there;
        match self.pattern {
            Pattern::Chance if self.loss > 0 => {
                there.loss = Some(Loss::Independent(Share::per_million(self.loss * 100)));
            }
            Pattern::Even if self.loss > 0 => {
                let (every, bits) = (10_000 / u64::from(self.loss), self.mbit * 1_000_000);
                let packets_max = bits * seconds / 8 / PACKET as u64;
                let packets = (1..=packets_max / every).map(|loss| loss * every).collect();
                there.drop.push(Scripted { packets, data: true, of: None });
            }
            _ => {}
        }
        Simulation::with_registry(&scenario, &Registry::builtin()).unwrap()
    }
}

/// Payload of a full segment with timestamps, and the length of its packet.
pub(crate) const SMSS: f64 = 1448.0;
const PACKET: f64 = 1500.0;
