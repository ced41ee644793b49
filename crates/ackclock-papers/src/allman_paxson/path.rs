//! A path of the trace set: two sites with a line each, the long haul between them, the other traffic, and
//! the two TCPs.
//!
//! [`Model`] holds what the paper leaves open; it was fitted by trial to numbers that the paper states of its
//! traces. Everything else is taken from the paper's words or is a choice: what estimators do on the set is
//! held out, but it was in view.
//!
//! V. Paxson, "End-to-End Internet Packet Dynamics", SIGCOMM 1997, describes the same traces: losses are not
//! independent, the duration of loss events has infinite variance, and congestion lasts over a wide range of
//! time scales. So a busy haul loses in bursts and keeps its wait for a while.

use ackclock_sim::rng::{Rng, Variates};
use ackclock_sim::scenario::{Arrivals, Jitter, Loss, SizeOf, TimeOf, Variation};
use ackclock_sim::units::{Bytes, Rate, Share, Span};
use ackclock_sim::{Direction, HostConfig, Scenario, TcpSettings, TrafficConfig, TrafficKind};

use super::sites::{SITES, delay_ms};
use crate::changes::open;

/// The randomly drawn properties of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DrawnPath {
    pub(super) seed: u64,
    /// One way, without queues.
    pub(super) delay_ms: u64,
    /// The lines of the sender's and the receiver's site.
    pub(super) lines: [Line; 2],
    haul: Haul,
    pub(super) tcp: Tcp,
    /// When the transfer begins.
    begins: Span,
}

/// The line that joins a site to the others, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) rate_bps: u64,
    /// Packets that fit into its queue.
    pub(super) buffers: u64,
    /// Other traffic, in hundredths of the rate: with the data, and against it.
    load: u64,
    load_back: u64,
}

/// The long haul between the lines, alike in both directions. Too many connections share it to simulate them,
/// so what they do to a packet is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Haul {
    /// Which packets it loses, if any.
    loss: Option<Loss>,
    /// Their delay. Packets do not overtake each other.
    wait: Variation,
}

/// The TCP of the two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tcp {
    profile: &'static str,
    mss: u16,
    window: u64,
    /// The receiver's policy.
    acks: &'static str,
}

/// The points that the paper leaves open of its paths: `open.NAME` changes each. Beside each, the number of
/// the paper that it was fitted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Model {
    /// How many paths: as many as the time allows.
    pub paths: u64,
    /// Cables over the straight line: a choice.
    pub detour_percent: u64,
    /// The delay that routers add to that, one way: W~ of the static second, 8.2, the round trip at a
    /// timeout.
    pub routers_ms: u64,
    /// How many of a hundred lines have 64 or 512 kbit/s, half of them each, and 10 Mbit/s: the row of PBM'
    /// in table 5, no impact 46 %, optimal 11 %.
    pub slow_percent: u64,
    pub ethernet_percent: u64,
    /// The most other traffic on a line that is not an Ethernet, with the data and against it, in hundredths
    /// of its rate: a choice in view of §2.8, whose smallest round trips are seldom far above the path's.
    pub loads_percent: [u64; 2],
    /// Room for packets at a line, at least: the row of PBM', too.
    pub buffers: u64,
    /// How many of a hundred long hauls are busy: 2,786 connections of 11,043 without loss.
    pub busy_percent: u64,
    /// The share that a busy haul loses, averaged over time: Pareto, at least this share, with this α in
    /// thousandths. The first timeouts, 53,110 in 14,433 traces; and α by the time that a static second waits
    /// for each, 136,514 s / 53,110 (table 1: the more a few hauls lose, the more it is backed off).
    pub loss_ppm: u64,
    pub loss_shape: u64,
    /// The mean of a time in which a busy haul loses packets, and the share that it then loses; with 0 ms
    /// each packet is lost for itself. The first timeouts beside the traces without loss: the longer a
    /// burst, the fewer timeouts for as many traces with loss. The share is a choice.
    pub burst_ms: u64,
    pub burst_percent: u64,
    /// The mean of the wait in the queues of a busy haul, for how long it stays the same, and α of its Pareto
    /// distribution in thousandths. With 0 ms each packet waits for itself; with α = 0 waits are exponential.
    /// Choices in view of §2.8, by which a quarter of the late acknowledgements are late by a round trip.
    pub wait_ms: u64,
    pub wait_lasts_ms: u64,
    pub wait_shape: u64,
}

impl Model {
    pub fn in_force() -> anyhow::Result<Self> {
        Ok(Self {
            paths: open("paths", 2400)?,
            detour_percent: open("detour-percent", 150)?,
            routers_ms: open("routers-ms", 30)?,
            slow_percent: open("slow-percent", 14)?,
            ethernet_percent: open("ethernet-percent", 30)?,
            loads_percent: [open("load-percent", 30)?, open("load-back-percent", 20)?],
            buffers: open("buffers", 12)?,
            busy_percent: open("busy-percent", 73)?,
            loss_ppm: open("loss-ppm", 43_000)?,
            loss_shape: open("loss-shape", 2300)?,
            burst_ms: open("burst-ms", 45)?,
            burst_percent: open("burst-percent", 50)?,
            wait_ms: open("wait-ms", 15)?,
            wait_lasts_ms: open("wait-lasts-ms", 300)?,
            wait_shape: open("wait-shape", 1500)?,
        })
    }

    /// How a busy haul loses this share.
    fn loss(&self, ppm: u64) -> Loss {
        let share = |ppm: u64| Share::per_million(u32::try_from(ppm).unwrap_or(u32::MAX));
        if self.burst_ms == 0 {
            return Loss::Independent(share(ppm));
        }
        let of_burst_ppm = 10_000 * self.burst_percent.clamp(1, 100);
        // There is always some time without loss.
        let ppm = ppm.min(of_burst_ppm * 9 / 10);
        let mean_ns = Span::millis(self.burst_ms).0;
        let between_ns = u128::from(mean_ns) * u128::from(of_burst_ppm - ppm) / u128::from(ppm);
        Loss::Episodes {
            every: TimeOf::Exponential(Span(u64::try_from(between_ns).unwrap_or(u64::MAX))),
            lasting: TimeOf::Pareto { least: Span(mean_ns / 3), shape_thousandths: BURST_SHAPE_THOUSANDTHS },
            share: share(of_burst_ppm),
        }
    }

    /// How a packet waits in the queues of a busy haul.
    fn wait(&self) -> Variation {
        let mean = Span::millis(self.wait_ms);
        if self.wait_lasts_ms == 0 {
            return Variation::Exponential(mean);
        }
        let wait = match u32::try_from(self.wait_shape) {
            // The mean is α / (α - 1) times the least.
            Ok(shape) if shape > 1000 => TimeOf::Pareto {
                least: Span(mean.0 * u64::from(shape - 1000) / u64::from(shape)),
                shape_thousandths: shape,
            },
            _ => TimeOf::Exponential(mean),
        };
        Variation::Held { wait, lasting: TimeOf::Exponential(Span::millis(self.wait_lasts_ms)) }
    }

    /// The rates, and how many of a hundred lines have each: "paths ranging from 64 kbps up to Ethernet
    /// speeds" (§1). Four in five of those between have 1.544 Mbit/s, the others 2.048.
    fn rates(&self) -> [(u64, u64); 5] {
        let between = 100_u64.saturating_sub(self.slow_percent + self.ethernet_percent);
        [
            (64_000, self.slow_percent / 2),
            (512_000, self.slow_percent.div_ceil(2)),
            (2_048_000, between / 5),
            (1_544_000, between - between / 5),
            (ETHERNET_BPS, self.ethernet_percent),
        ]
    }
}

// Not calibrated.

/// Routers on a quiet haul have other work, too.
const QUIET_WAIT: Span = Span::millis(1);
/// No haul loses more.
const LOSS_MOST_PPM: u64 = 400_000;
/// An Ethernet has little other traffic.
const ETHERNET_LOAD: u64 = 10;
const ETHERNET_BPS: u64 = 10_000_000;
const PROFILES: [(&str, u64); 2] = [("reno-1990", 75), ("tahoe-1988", 25)];
const SEGMENTS: [(u16, u64); 3] = [(512, 50), (536, 25), (1460, 25)];
/// The paper's receivers offered 32 to 64 KB (its footnote 5).
const WINDOWS: [(u64, u64); 2] = [(32 << 10, 50), (60 << 10, 50)];
/// "Many TCP implementations use a 200 msec heartbeat timer" for delayed acknowledgements (§3.3.1). How many
/// is not stated, nor what the others do; the table of variants has both.
pub(super) const ACKS: [(&str, u64); 2] = [("every-second-tick:200ms", 50), ("every-second:50ms", 50)];
/// The size of each transfer.
const TRANSFER_BYTES: u64 = 100 << 10;
/// Room at a line: this many numbers of packets from the least on.
const BUFFERS: u64 = 81;
/// How long a busy haul loses: Pareto with α = 1.5, whose mean is three times its least. "The distribution of
/// the duration of loss events exhibits infinite variance" (Paxson 1997, abstract): α is below 2.
const BURST_SHAPE_THOUSANDTHS: u32 = 1500;
/// Other traffic begins first. The transfer begins up to this long after it, anywhere between the ticks of
/// both ends.
const WARM_UP: Span = Span::seconds(10);
const BEGINS_WITHIN: Span = Span::seconds(1);
/// The longest that a transfer may take.
pub(super) const GIVE_UP: Span = Span::seconds(900);
/// Other transfers: Pareto with α = 1.2, whose mean is six times its least.
const OTHER_LEAST_BYTES: u64 = 2000;
const OTHER_SHAPE_THOUSANDTHS: u32 = 1200;
const OTHER_MEAN_BYTES: u64 = 6 * OTHER_LEAST_BYTES;

impl DrawnPath {
    /// The path with this number.
    pub fn draw(model: &Model, seed: u64) -> Self {
        let mut rng = Rng::derive(seed, "path");
        let from = rng.below(SITES.len() as u64) as usize;
        // Another one.
        let to = (from + 1 + rng.below(SITES.len() as u64 - 1) as usize) % SITES.len();
        Self {
            seed,
            delay_ms: delay_ms(&SITES[from], &SITES[to], model.detour_percent, model.routers_ms),
            lines: [(); 2].map(|()| Line::draw(model, &mut rng)),
            haul: Haul::draw(model, &mut rng),
            tcp: Tcp {
                profile: one_of(&mut rng, &PROFILES),
                mss: one_of(&mut rng, &SEGMENTS),
                window: one_of(&mut rng, &WINDOWS),
                acks: one_of(&mut rng, &ACKS),
            },
            begins: Span(WARM_UP.0 + rng.below(BEGINS_WITHIN.0)),
        }
    }

    /// Whether its long haul is busy.
    pub fn is_busy(&self) -> bool {
        self.haul.is_busy()
    }

    /// The most that other traffic asks for of a line and a direction, in hundredths.
    pub fn most_load(&self) -> u64 {
        self.lines.iter().map(|line| line.load.max(line.load_back)).max().unwrap_or(0)
    }

    /// Without other traffic on its lines.
    pub fn without_others(mut self) -> Self {
        for line in &mut self.lines {
            (line.load, line.load_back) = (0, 0);
        }
        self
    }

    /// With another policy of the receiver.
    pub fn acknowledged(mut self, acks: &'static str) -> Self {
        self.tcp.acks = acks;
        self
    }

    /// The rate of the slower line.
    pub fn slowest_bps(&self) -> u64 {
        self.lines[0].rate_bps.min(self.lines[1].rate_bps)
    }

    /// The network with its traffic. The transfer goes from `a` over the first line, the long haul and the
    /// second line to `b`. A pair of hosts at each line makes the other traffic.
    pub fn scenario(&self) -> Scenario {
        let lan = Direction::new(Rate::mbit(10), Span(0));
        let far = self.haul.direction(self.delay_ms);
        let Tcp { profile, mss, window, acks } = self.tcp;
        let tcp = TcpSettings {
            mss: Some(mss),
            receive_buffer: Some(Bytes(window)),
            receive_buffer_initial: Some(Bytes(window)),
            ..TcpSettings::profile(profile)
        };
        let tcp = tcp.choose("acks", acks);
        let host = |name: &str| HostConfig { tcp: tcp.clone(), ..HostConfig::new(name) };
        let [first, second] = self.lines;
        let mut scenario = Scenario::new(Span(self.begins.0 + GIVE_UP.0))
            .seed(self.seed)
            .tcp(TcpSettings::profile("reno-1990"))
            .host(host("a"))
            .host(host("b"))
            .router("site-a")
            .router("east")
            .router("west")
            .router("site-b")
            .link("a", "site-a", lan.clone())
            .link("site-a", "east", first.direction())
            .link("east", "west", far)
            .link("west", "site-b", second.direction())
            .link("site-b", "b", lan)
            .traffic(
                TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(TRANSFER_BYTES))).start(self.begins),
            );
        for (line, near, ends) in
            [(first, ["site-a", "east"], ["c", "d"]), (second, ["west", "site-b"], ["e", "f"])]
        {
            scenario = line.with_others(scenario, near, ends);
        }
        scenario
    }
}

/// The scenario with a sender that has this timeout, these proofs of wrong timeouts, and a trace, with or
/// without timestamps.
pub(super) fn with_timeout(mut scenario: Scenario, rto: &str, undo: &str, timestamps: bool) -> Scenario {
    for host in scenario.hosts.iter_mut().filter(|host| ["a", "b"].contains(&host.name.as_str())) {
        if timestamps {
            // Reno's options and timestamps.
            let reno = (Some("bfa-1998".to_owned()), Some("reno".to_owned()));
            (host.tcp.profile, host.tcp.congestion) = reno;
        }
        if host.name == "a" {
            host.tcp = host.tcp.clone().choose("rto", rto).choose("undo", undo).traced();
        }
    }
    scenario
}

impl Haul {
    fn draw(model: &Model, rng: &mut Rng) -> Self {
        if rng.below(100) >= model.busy_percent {
            return Self { loss: None, wait: Variation::Exponential(QUIET_WAIT) };
        }
        let shape = u32::try_from(model.loss_shape).unwrap_or(u32::MAX);
        let loss_ppm = rng.pareto(model.loss_ppm, shape).min(LOSS_MOST_PPM);
        Self { loss: Some(model.loss(loss_ppm)), wait: model.wait() }
    }

    fn is_busy(&self) -> bool {
        self.loss.is_some()
    }

    fn direction(&self, delay_ms: u64) -> Direction {
        let mut far = Direction::new(Rate::mbit(45), Span::millis(delay_ms));
        far.jitter = Some(Jitter { by: self.wait, may_reorder: false });
        far.loss = self.loss;
        far
    }
}

impl Line {
    fn draw(model: &Model, rng: &mut Rng) -> Self {
        let rate_bps = one_of(rng, &model.rates());
        let most = if rate_bps == ETHERNET_BPS { [ETHERNET_LOAD; 2] } else { model.loads_percent };
        let buffers = model.buffers + rng.below(BUFFERS);
        let [load, load_back] = most.map(|most| rng.below(most + 1));
        Self { rate_bps, buffers, load, load_back }
    }

    fn direction(&self) -> Direction {
        Direction::new(Rate::bits_per_second(self.rate_bps), Span::millis(1)).buffers(self.buffers)
    }

    /// Adds hosts at both of its ends, 20 ms away, with their traffic.
    fn with_others(&self, scenario: Scenario, near: [&str; 2], ends: [&str; 2]) -> Scenario {
        let way = Direction::new(Rate::mbit(10), Span::millis(20));
        // Fast lines join Ethernets.
        let mss = if self.rate_bps < FAST_BPS { 536 } else { 1460 };
        let host = |name: &str| HostConfig {
            tcp: TcpSettings { mss: Some(mss), ..TcpSettings::default() },
            ..HostConfig::new(name)
        };
        let mut scenario = scenario.host(host(ends[0])).host(host(ends[1]));
        for (end, router) in ends.into_iter().zip(near) {
            scenario = scenario.link(end, router, way.clone());
        }
        for (from, to, load) in [(ends[0], ends[1], self.load), (ends[1], ends[0], self.load_back)] {
            if let Some(every) = self.every(load) {
                scenario =
                    scenario.traffic(TrafficConfig::new(&format!("{from}-{to}"), from, to, others(every)));
            }
        }
        scenario
    }

    /// The mean time between other transfers that make this load.
    fn every(&self, load: u64) -> Option<Span> {
        let bits = OTHER_MEAN_BYTES * 8 * 100;
        (bits * 1_000_000_000).checked_div(self.rate_bps * load).map(Span)
    }
}

fn others(every: Span) -> TrafficKind {
    TrafficKind::Arrivals(Arrivals {
        every: TimeOf::Exponential(every),
        size: SizeOf::Pareto { least: Bytes(OTHER_LEAST_BYTES), shape_thousandths: OTHER_SHAPE_THOUSANDTHS },
    })
}

/// Draws one of these, each with its weight in hundredths.
fn one_of<T: Copy>(rng: &mut Rng, choices: &[(T, u64)]) -> T {
    let mut draw = rng.below(100);
    let found = choices.iter().find(|(_, weight)| {
        let chosen = draw < *weight;
        draw = draw.saturating_sub(*weight);
        chosen
    });
    found.map_or(choices[0].0, |(choice, _)| *choice)
}

const FAST_BPS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_hundredths() {
        let sum = |weights: &[u64]| weights.iter().sum::<u64>();
        assert_eq!(sum(&Model::in_force().unwrap().rates().map(|(_, weight)| weight)), 100);
        assert_eq!(sum(&PROFILES.map(|(_, weight)| weight)), 100);
        assert_eq!(sum(&SEGMENTS.map(|(_, weight)| weight)), 100);
        assert_eq!(sum(&WINDOWS.map(|(_, weight)| weight)), 100);
        assert_eq!(sum(&ACKS.map(|(_, weight)| weight)), 100);
    }

    #[test]
    fn paths_spread_over_all_choices_and_can_be_run() {
        let model = Model::in_force().unwrap();
        let paths: Vec<DrawnPath> = (0..200).map(|seed| DrawnPath::draw(&model, seed)).collect();
        for (rate, weight) in model.rates() {
            let lines = paths.iter().flat_map(|path| path.lines);
            let count = lines.filter(|line| line.rate_bps == rate).count() as u64;
            // Four standard deviations of a binomial count around its mean.
            let (mean, deviation) = (4 * weight, 4.0 * (4.0 * weight as f64).sqrt());
            assert!((count as f64 - mean as f64).abs() < deviation, "{rate}: {count} of 400");
        }
        // Four standard deviations around 146.
        let busy = paths.iter().filter(|path| path.is_busy()).count();
        assert!((121..=171).contains(&busy), "{busy} busy of 200");
        assert!(paths.iter().all(|path| path.scenario().check().is_ok()));
        assert_eq!(DrawnPath::draw(&model, 7), DrawnPath::draw(&model, 7));
        let line = Line { rate_bps: 1_000_000, ..paths[0].lines[0] };
        // A tenth is lost if half is in a fifth of the time: 45 ms in 225.
        let lost = Model { burst_ms: 45, burst_percent: 50, ..model }.loss(100_000);
        let Loss::Episodes { every, lasting, share } = lost else { panic!("{lost:?}") };
        assert_eq!((every, share), (TimeOf::Exponential(Span::millis(180)), Share::percent(50)));
        // Three times the least is the mean.
        assert_eq!(lasting, TimeOf::Pareto { least: Span::millis(15), shape_thousandths: 1500 });
        let wait = Model { wait_ms: 30, wait_shape: 1500, ..model }.wait();
        let Variation::Held { wait, .. } = wait else { panic!("{wait:?}") };
        assert_eq!(wait, TimeOf::Pareto { least: Span::millis(10), shape_thousandths: 1500 });
        // 96,000 bits at 1 Mbit/s and half of it: every 192 ms.
        assert_eq!((line.every(0), line.every(50)), (None, Some(Span::millis(192))));
    }
}
