//! A grid of situations: each controller at each rate, delay, buffer and loss, with several seeds.

use std::fmt;
use std::str::FromStr;

use ackclock_control::congestion::Registry;
use ackclock_control::profile::Ecn;
use ackclock_control::quantity::exact;
use ackclock_sim::dumbbell::shared;
use ackclock_sim::rng::Rng;
use ackclock_sim::scenario::Loss;
pub use ackclock_sim::scenario::QueueKind;
use ackclock_sim::units::{Bytes, Limit, Rate, Share, Span, UnitError};
use ackclock_sim::{Direction, Problem, Scenario, Simulation, TcpSettings, TrafficConfig};
use serde::{Deserialize, Serialize};

use crate::measure::Measures;

/// The varied parameters, and those that all cells share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Controllers by name, with any parameters after a colon.
    pub cc: Vec<String>,
    /// Rates of the bottleneck.
    pub rates: Vec<Rate>,
    /// Delays of the bottleneck, one way.
    pub delays: Vec<Span>,
    /// Sizes of its queue.
    pub buffers: Vec<Buffer>,
    /// Its independent loss, towards the receivers.
    pub losses: Vec<Share>,
    /// Everything except the controller; `modern` by default.
    pub profile: String,
    /// Its queue discipline.
    pub queue: QueueKind,
    /// Explicit congestion notification. Unless it is off, the queue marks instead of dropping.
    #[serde(with = "form")]
    pub ecn: Ecn,
    /// The number of flows, all with the same controller.
    pub flows: usize,
    /// How long each run lasts.
    pub duration: Span,
    /// The number of runs of each cell. Their seeds count from 1.
    pub seeds: u64,
}

/// One run of a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// As in [`Grid`].
    pub cc: String,
    /// As in [`Grid`].
    pub rate: Rate,
    /// As in [`Grid`].
    pub delay: Span,
    /// As in [`Grid`].
    pub buffer: Buffer,
    /// As in [`Grid`].
    pub loss: Share,
    /// As in [`Grid`].
    pub profile: String,
    /// As in [`Grid`].
    pub queue: QueueKind,
    /// As in [`Grid`].
    #[serde(with = "form")]
    pub ecn: Ecn,
    /// As in [`Grid`].
    pub flows: usize,
    /// As in [`Grid`].
    pub duration: Span,
    /// The seed of its random numbers.
    pub seed: u64,
}

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Buffer {
    /// This many thousandths of the bandwidth-delay product: the rate times the empty path's round trip.
    Bdp(u64),
    /// This many packets.
    Packets(u64),
}

impl Default for Grid {
    /// CUBIC at 10 Mbit/s and a round trip of 40 ms, with one bandwidth-delay product of buffer, for 30 s.
    fn default() -> Self {
        Self {
            cc: vec!["cubic".to_owned()],
            rates: vec![Rate::mbit(10)],
            delays: vec![Span::millis(20)],
            buffers: vec![Buffer::Bdp(1000)],
            losses: vec![Share::ZERO],
            profile: "modern".to_owned(),
            queue: QueueKind::DropTail,
            ecn: Ecn::Off,
            flows: 1,
            duration: Span::seconds(30),
            seeds: 1,
        }
    }
}

/// Explicit congestion notification, by name.
mod form {
    use ackclock_control::profile::Ecn;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(ecn: &Ecn, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(ecn.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ecn, D::Error> {
        Ecn::find(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Grid {
    /// All runs, in order of rate, delay, buffer, loss, controller and seed; the last changes fastest.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &rate in &self.rates {
            for &delay in &self.delays {
                for &buffer in &self.buffers {
                    for &loss in &self.losses {
                        for cc in &self.cc {
                            let cell = |seed| self.cell(cc, rate, delay, buffer, loss, seed);
                            cells.extend((1..=self.seeds).map(cell));
                        }
                    }
                }
            }
        }
        cells
    }

    fn cell(&self, cc: &str, rate: Rate, delay: Span, buffer: Buffer, loss: Share, seed: u64) -> Cell {
        let Self { profile, queue, ecn, flows, duration, .. } = self.clone();
        Cell { cc: cc.to_owned(), rate, delay, buffer, loss, profile, queue, ecn, flows, duration, seed }
    }
}

impl Cell {
    /// The network and its flows. Sender and receiver have buffers for everything that the path and the queue
    /// hold, and offer it from the start: a window tuned to what arrives would keep a deep queue from
    /// filling.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let packets = self.buffer.packets(self.rate, self.delay);
        let direction = Direction::new(self.rate, self.delay)
            .queue(self.queue.config(Limit::Packets(packets), self.ecn != Ecn::Off));
        let direction = match self.loss {
            Share::ZERO => direction,
            loss => direction.loss(Loss::Independent(loss)),
        };
        let held = bdp_bytes(self.rate, self.delay) + packets * PACKET_BYTES;
        let room = Bytes((4 * held).clamp(ROOM_MIN, ROOM_MAX));
        let tcp = TcpSettings {
            congestion: Some(self.cc.clone()),
            send_buffer: Some(room),
            ..TcpSettings::profile(&self.profile).fixed_window(room.0)
        };
        let tcp = if self.ecn == Ecn::Off { tcp } else { tcp.choose("ecn", self.ecn.name()) };
        let mut scenario = shared(direction, self.flows, self.duration).seed(self.seed).tcp(tcp);
        let mut rng = Rng::derive(self.seed, "starts");
        for flow in 1..=self.flows {
            let (from, to) = (format!("a{flow}"), format!("b{flow}"));
            let start = Span(rng.below(START_WITHIN.0));
            scenario =
                scenario.traffic(TrafficConfig::bulk(&format!("flow {flow}"), &from, &to, None).start(start));
        }
        scenario
    }

    /// The round trip of the empty path.
    #[must_use]
    pub fn base_rtt(&self) -> Span {
        Span(self.delay.0.saturating_mul(2))
    }

    /// Runs it with the controllers of `registry`.
    ///
    /// # Errors
    /// It cannot be run: an unknown name, or a time that is too long.
    pub fn run(&self, registry: &Registry) -> Result<Measures, Problem> {
        let report = Simulation::with_registry(&self.scenario(), registry)?.run();
        Ok(Measures::of(&report, self.base_rtt()))
    }
}

impl Buffer {
    /// The size in packets of 1500 bytes, at least one.
    #[must_use]
    pub fn packets(self, rate: Rate, delay: Span) -> u64 {
        match self {
            Self::Packets(packets) => packets.max(1),
            Self::Bdp(thousandths) => {
                (bdp_bytes(rate, delay).saturating_mul(thousandths) / 1000).div_ceil(PACKET_BYTES).max(1)
            }
        }
    }
}

impl FromStr for Buffer {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let allowed = "a number with `bdp` or `packets`, as 0.5bdp or 20packets";
        let wrong = || UnitError::Unknown { found: text.to_owned(), allowed };
        let text = text.trim();
        if text != "0" && exact(text, 1000).is_some() {
            return Err(UnitError::NoUnit { number: text.to_owned(), units: ["bdp", "packets"] });
        }
        let within = |number: &str, scale: u64, most: u64| {
            exact(number.trim(), scale).filter(|value| (1..=most).contains(value)).ok_or_else(wrong)
        };
        match (text.strip_suffix("packets"), text.strip_suffix("bdp")) {
            (Some(packets), _) => within(packets, 1, PACKETS_MAX).map(Self::Packets),
            (None, Some(products)) => within(products, 1000, 1_000_000).map(Self::Bdp),
            (None, None) => Err(wrong()),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}packets"),
            Self::Bdp(thousandths) => write!(f, "{}bdp", *thousandths as f64 / 1000.0),
        }
    }
}

impl From<Buffer> for String {
    fn from(buffer: Buffer) -> Self {
        buffer.to_string()
    }
}

impl TryFrom<String> for Buffer {
    type Error = UnitError;

    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

/// The rate times the empty path's round trip, in bytes.
fn bdp_bytes(rate: Rate, delay: Span) -> u64 {
    let bits = u128::from(rate.bits()) * u128::from(delay.0) * 2 / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}

/// A full packet.
const PACKET_BYTES: u64 = 1500;
/// The largest queue in packets.
const PACKETS_MAX: u64 = 10_000_000;
/// The smallest buffer of sender and receiver.
const ROOM_MIN: u64 = 256 << 10;
/// The largest; a host's budget has room for two of these.
const ROOM_MAX: u64 = 256 << 20;
/// Flows start at random within this.
const START_WITHIN: Span = Span::millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_read_and_written() {
        for (text, buffer) in [
            ("0.5bdp", Buffer::Bdp(500)),
            ("8bdp", Buffer::Bdp(8000)),
            ("1.25bdp", Buffer::Bdp(1250)),
            ("20packets", Buffer::Packets(20)),
        ] {
            assert_eq!(text.parse(), Ok(buffer));
            assert_eq!(buffer.to_string(), text);
        }
        let bare = "20".parse::<Buffer>().unwrap_err().to_string();
        assert_eq!(bare, "`20` has no unit; write `20bdp` or `20packets`");
        for wrong in ["", "bdp", "0", "-1bdp", "0bdp", "1.0001bdp", "0packets", "x packets", ".bdp", "1e3bdp"]
        {
            let error = wrong.parse::<Buffer>().unwrap_err().to_string();
            assert!(error.contains("0.5bdp or 20packets"), "{error}");
        }
        // 10 Mbit/s for 40 ms are 50,000 bytes: 33.3 packets.
        assert_eq!(Buffer::Bdp(1000).packets(Rate::mbit(10), Span::millis(20)), 34);
        assert_eq!(Buffer::Bdp(500).packets(Rate::mbit(10), Span::millis(0)), 1);
    }

    #[test]
    fn every_combination_is_a_cell_that_can_be_run() {
        let grid = Grid {
            cc: vec!["cubic".into(), "vegas:alpha=2,beta=4".into()],
            rates: vec![Rate::mbit(1), Rate::mbit(10)],
            buffers: vec![Buffer::Packets(1), Buffer::Bdp(8000)],
            losses: vec![Share::ZERO, Share::percent(1)],
            seeds: 2,
            ..Grid::default()
        };
        let cells = grid.cells();
        assert_eq!(cells.len(), 32);
        for queue in QueueKind::ALL.map(|(_, queue)| queue) {
            for ecn in [Ecn::Off, Ecn::Accurate] {
                for cell in &cells {
                    Cell { queue, ecn, ..cell.clone() }.scenario().check().unwrap();
                }
            }
        }
        let text = serde_json::to_string(&cells[5]).unwrap();
        assert_eq!(serde_json::from_str::<Cell>(&text).unwrap(), cells[5]);
    }

    #[test]
    fn a_deep_queue_fills_and_loss_costs_throughput() {
        let run = |buffer, loss| {
            let grid = Grid {
                buffers: vec![buffer],
                losses: vec![loss],
                cc: vec!["reno".into()],
                ..Grid::default()
            };
            grid.cells()[0].run(&Registry::builtin()).unwrap()
        };
        let (shallow, deep) = (run(Buffer::Bdp(500), Share::ZERO), run(Buffer::Bdp(8000), Share::ZERO));
        // Eight products are 320 ms of queue.
        assert!(deep.queue_p99 > 0.25 && shallow.queue_p99 < 0.03, "{deep:?} {shallow:?}");
        assert!(deep.power < shallow.power);
        let lossy = run(Buffer::Bdp(500), Share::percent(1));
        assert!(lossy.throughput < 0.7 * shallow.throughput, "{lossy:?}");
        assert!((0.005..0.03).contains(&lossy.retransmitted), "{lossy:?}");
    }
}
