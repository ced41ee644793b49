//! A path of the trace set: two sites, a bottleneck between them, what else uses it, and the two TCPs.

use ackclock_sim::rng::Rng;
use ackclock_sim::scenario::{Arrivals, Jitter, SizeOf, TimeOf, Variation};
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, HostConfig, Scenario, TcpSettings, TrafficConfig, TrafficKind};

use super::sites::{SITES, delay_ms};

/// What of a path is drawn at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Path {
    pub(super) seed: u64,
    /// One way, without the bottleneck's queue.
    delay_ms: u64,
    rate_bps: u64,
    buffers: u64,
    /// Other traffic, in hundredths of the rate: with the data, and against it.
    load: u64,
    load_back: u64,
    tcp: Tcp,
}

/// What the two ends run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tcp {
    profile: &'static str,
    mss: u16,
    window: u64,
}

/// The rates and how many of a hundred paths have them.
const RATES: [(u64, u64); 8] = [
    (64_000, 10),
    (128_000, 10),
    (256_000, 10),
    (512_000, 15),
    (1_544_000, 25),
    (2_048_000, 10),
    (4_000_000, 10),
    (10_000_000, 10),
];
const PROFILES: [(&str, u64); 2] = [("reno-1990", 75), ("tahoe-1988", 25)];
const SEGMENTS: [(u16, u64); 3] = [(512, 50), (536, 25), (1460, 25)];
const WINDOWS: [(u64, u64); 4] = [(8 << 10, 25), (16 << 10, 35), (32 << 10, 25), (60 << 10, 15)];
/// What each transfers.
const TRANSFER_BYTES: u64 = 100 << 10;
/// Before the transfer begins, others do.
const WARM_UP: Span = Span::seconds(10);
/// The longest that a transfer may take.
pub(super) const GIVE_UP: Span = Span::seconds(900);
/// Other transfers: Pareto with α = 1.2, whose mean is six times its least.
const OTHER_LEAST_BYTES: u64 = 2000;
const OTHER_SHAPE_THOUSANDTHS: u32 = 1200;
const OTHER_MEAN_BYTES: u64 = 6 * OTHER_LEAST_BYTES;

impl Path {
    /// The path of this number.
    pub(super) fn draw(seed: u64) -> Self {
        let mut rng = Rng::derive(seed, "path");
        let from = rng.below(SITES.len() as u64) as usize;
        // Another one.
        let to = (from + 1 + rng.below(SITES.len() as u64 - 1) as usize) % SITES.len();
        Self {
            seed,
            delay_ms: delay_ms(&SITES[from], &SITES[to]),
            rate_bps: one_of(&mut rng, &RATES),
            buffers: 6 + rng.below(45),
            load: rng.below(121),
            load_back: rng.below(81),
            tcp: Tcp {
                profile: one_of(&mut rng, &PROFILES),
                mss: one_of(&mut rng, &SEGMENTS),
                window: one_of(&mut rng, &WINDOWS),
            },
        }
    }

    /// The network with its traffic: hosts `a` and `b` with the transfer, `c` and `d` with what else there is.
    pub(super) fn scenario(&self) -> Scenario {
        let access = Direction::new(Rate::mbit(10), Span::millis(0));
        let mut middle = Direction::new(Rate::bits_per_second(self.rate_bps), Span::millis(self.delay_ms));
        // Routers on the way have other things to do.
        middle.jitter = Some(Jitter { by: Variation::Exponential(Span::millis(1)), may_reorder: false });
        let middle = middle.buffers(self.buffers);
        let Tcp { profile, mss, window } = self.tcp;
        let tcp = TcpSettings {
            mss: Some(mss),
            receive_buffer: Some(Bytes(window)),
            receive_buffer_initial: Some(Bytes(window)),
            ..TcpSettings::profile(profile)
        };
        let host = |name: &str| HostConfig { tcp: tcp.clone(), ..HostConfig::new(name) };
        let mut scenario = Scenario::new(Span(WARM_UP.0 + GIVE_UP.0))
            .seed(self.seed)
            .router("left")
            .router("right")
            .host(host("a"))
            .host(host("b"))
            .host("c")
            .host("d")
            .tcp(TcpSettings { mss: Some(OTHER_MSS), ..TcpSettings::profile("reno-1990") })
            .link("a", "left", access.clone())
            .link("c", "left", access.clone())
            .link("left", "right", middle)
            .link("right", "b", access.clone())
            .link("right", "d", access)
            .traffic(TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(TRANSFER_BYTES))).start(WARM_UP));
        for (name, from, to, load) in [("with", "c", "d", self.load), ("against", "d", "c", self.load_back)] {
            if let Some(every) = self.every(load) {
                scenario = scenario.traffic(TrafficConfig::new(name, from, to, others(every)));
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

/// One of these, each with its weight in hundredths.
fn one_of<T: Copy>(rng: &mut Rng, choices: &[(T, u64)]) -> T {
    let mut draw = rng.below(100);
    let found = choices.iter().find(|(_, weight)| {
        let chosen = draw < *weight;
        draw = draw.saturating_sub(*weight);
        chosen
    });
    found.map_or(choices[0].0, |(choice, _)| *choice)
}

const OTHER_MSS: u16 = 536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_hundredths() {
        let sum = |weights: &[u64]| weights.iter().sum::<u64>();
        assert_eq!(sum(&RATES.map(|(_, weight)| weight)), 100);
        assert_eq!(sum(&PROFILES.map(|(_, weight)| weight)), 100);
        assert_eq!(sum(&SEGMENTS.map(|(_, weight)| weight)), 100);
        assert_eq!(sum(&WINDOWS.map(|(_, weight)| weight)), 100);
    }

    #[test]
    fn paths_spread_over_all_choices_and_can_be_run() {
        let paths: Vec<Path> = (0..400).map(Path::draw).collect();
        for (rate, weight) in RATES {
            let count = paths.iter().filter(|path| path.rate_bps == rate).count() as u64;
            // Four standard deviations of a binomial count around its mean.
            let (mean, deviation) = (4 * weight, 4.0 * (4.0 * weight as f64).sqrt());
            assert!((count as f64 - mean as f64).abs() < deviation, "{rate}: {count} of 400");
        }
        assert!(paths.iter().all(|path| path.scenario().check().is_ok()));
        assert_eq!(Path::draw(7), Path::draw(7));
        let quiet = Path { load: 0, ..paths[0] };
        assert_eq!(quiet.every(0), None);
        // 96,000 bits at 1 Mbit/s and half of it: every 192 ms.
        let half = Path { rate_bps: 1_000_000, ..quiet };
        assert_eq!(half.every(50), Some(Span::millis(192)));
    }
}
