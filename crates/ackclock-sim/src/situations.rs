//! A fixed list of situations that every congestion controller has to handle; `tcplab kit` and the page show
//! what one does in them.

use ackclock_control::congestion::Registry;

use crate::dumbbell::shared;
use crate::measures::Measures;
use crate::scenario::{Loss, PolicerConfig, Reordering};
use crate::units::{Bytes, Limit, Rate, Share, Span};
use crate::{Direction, Problem, QueueConfig, Scenario, Simulation, TcpSettings, TrafficConfig};

/// A situation that a controller has to handle.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Its name in tables.
    pub name: &'static str,
    /// Its description.
    pub what: &'static str,
    /// The highest rate at which packets pass.
    rate: Rate,
    /// The round trip of the empty path.
    base_rtt: Span,
    /// How the path differs from the usual one.
    change: fn(&mut SharedPath),
}

/// All situations, in the order of the pages.
pub const SITUATIONS: &[Situation] = &[
    Situation { what: "Nothing else on the usual path.", ..usual("alone", |_| ()) },
    Situation {
        what: "Each packet is lost with a probability of 0.1 %.",
        ..usual("loss of 0.1 %", |path| path.lose(Share::per_million(1_000)))
    },
    Situation {
        what: "Each packet is lost with a probability of 1 %.",
        ..usual("loss of 1 %", |path| path.lose(Share::percent(1)))
    },
    Situation {
        what: "Each packet is lost with a probability of 5 %.",
        ..usual("loss of 5 %", |path| path.lose(Share::percent(5)))
    },
    Situation {
        what: "One packet in fifty arrives 10 ms late, behind about eight others.",
        ..usual("reordering", |path| {
            path.bottleneck.reorder = Some(Reordering { share: Share::percent(2), by: Span::millis(10) });
        })
    },
    Situation {
        what: "What comes faster than 4 Mbit/s, after a burst of 30 KB, is dropped before the queue.",
        rate: Rate::mbit(4),
        ..usual("policer", |path| {
            path.bottleneck.policer =
                Some(PolicerConfig { rate: Rate::mbit(4), burst: Bytes(30_000), mark: false });
        })
    },
    Situation {
        what: "A queue of eight bandwidth-delay products: 267 packets, 320 ms.",
        ..usual("bufferbloat", |path| path.buffer(8 * BDP_PACKETS))
    },
    Situation {
        what: "Two flows of this controller; this one's round trip takes 80 ms, the other's 20 ms.",
        base_rtt: Span::millis(80),
        ..usual("RTT unfairness", |path| {
            path.bottleneck.delay = Span::millis(10);
            path.extra_delay = Span::millis(30);
            path.beside = Some(Beside::Same);
        })
    },
    Situation {
        what: "The sender's timers fire up to 30 ms late, at random.",
        ..usual("late timers", |path| path.timer_lateness = Some(Span::millis(30)))
    },
    Situation {
        what: "A flow of CUBIC on the same path, begun at the same time.",
        ..usual("beside CUBIC", |path| path.beside = Some(Beside::Other("cubic")))
    },
    Situation {
        what: "A flow of Reno on the same path, begun at the same time.",
        ..usual("beside Reno", |path| path.beside = Some(Beside::Other("reno")))
    },
    Situation {
        what: "A queue of eight bandwidth-delay products that CoDel (RFC 8289) holds at 5 ms by marks; \
            accurate ECN.",
        ..usual("marks instead of losses", |path| {
            path.bottleneck.queue = QueueConfig::codel(Limit::Packets(8 * BDP_PACKETS), true);
            path.ecn = true;
        })
    },
];

impl Situation {
    /// Runs it.
    ///
    /// # Errors
    /// It cannot be run: `registry` lacks the controller `name`.
    pub fn run(&self, name: &str, registry: &Registry, seed: u64) -> Result<Measures, Problem> {
        let report = Simulation::with_registry(&self.scenario(name, seed), registry)?.run();
        Ok(Measures::of(&report, self.base_rtt))
    }

    /// The payload of all flows as a share of what the path carries in full packets.
    #[must_use]
    pub fn used(&self, measures: &Measures) -> f64 {
        let possible = self.rate.bits() as f64 / 8.0 * PAYLOAD_SHARE;
        measures.throughput / possible
    }

    fn scenario(&self, name: &str, seed: u64) -> Scenario {
        let mut path = SharedPath::usual();
        (self.change)(&mut path);
        path.scenario(name, seed)
    }
}

/// The competing controller.
#[derive(Clone, Copy, Debug)]
enum Beside {
    /// A flow of this controller.
    Same,
    /// This one.
    Other(&'static str),
}

/// A path and its flows.
struct SharedPath {
    bottleneck: Direction,
    /// The first flow's extra delay, each way, on its access link.
    extra_delay: Span,
    timer_lateness: Option<Span>,
    ecn: bool,
    beside: Option<Beside>,
}

impl SharedPath {
    fn usual() -> Self {
        let bottleneck = Direction::new(RATE, Span::millis(20)).buffers(BDP_PACKETS);
        Self { bottleneck, extra_delay: Span(0), timer_lateness: None, ecn: false, beside: None }
    }

    fn lose(&mut self, share: Share) {
        self.bottleneck.loss = Some(Loss::Independent(share));
    }

    fn buffer(&mut self, packets: u64) {
        self.bottleneck.queue = QueueConfig::drop_tail(Limit::Packets(packets));
    }

    fn scenario(self, name: &str, seed: u64) -> Scenario {
        let controllers: Vec<&str> = match self.beside {
            None => vec![name],
            Some(Beside::Same) => vec![name, name],
            Some(Beside::Other(other)) => vec![name, other],
        };
        let mut scenario = shared(self.bottleneck, controllers.len(), Span::seconds(60)).seed(seed);
        if let Some(link) = scenario.links.iter_mut().find(|link| link.between[0] == "a1") {
            link.there.delay = self.extra_delay;
            link.back.iter_mut().for_each(|back| back.delay = self.extra_delay);
        }
        for host in &mut scenario.hosts {
            host.timer_lateness = self.timer_lateness;
        }
        for (number, controller) in (1..).zip(controllers) {
            let tcp = TcpSettings {
                congestion: Some(controller.to_owned()),
                send_buffer: Some(Bytes(WINDOW_BYTES)),
                ..TcpSettings::profile("modern").fixed_window(WINDOW_BYTES)
            };
            let tcp = if self.ecn { tcp.choose("ecn", "accurate") } else { tcp };
            let (flow, from, to) = (format!("flow {number}"), format!("a{number}"), format!("b{number}"));
            let traffic = TrafficConfig::bulk(&flow, &from, &to, None).tcp(tcp.clone());
            scenario = scenario.traffic(TrafficConfig { peer_tcp: tcp, ..traffic });
        }
        scenario
    }
}

const fn usual(name: &'static str, change: fn(&mut SharedPath)) -> Situation {
    Situation { name, what: "", rate: RATE, base_rtt: Span::millis(40), change }
}

const RATE: Rate = Rate::mbit(10);
/// 10 Mbit/s for 40 ms are 50,000 bytes.
const BDP_PACKETS: u64 = 34;
/// Ten times what the deepest path holds.
const WINDOW_BYTES: u64 = 4 << 20;
/// Of 1500 bytes 20 are IP's, 20 TCP's and 12 the timestamps'.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;
