//! The cost of the simulator: packets carried over the bottleneck in either direction per second of CPU time,
//! and memory per flow for scenario, network and report, with the overhead of the allocator.

use std::fmt;
use std::str::FromStr;

use ackclock_benches::scenarios::{carried, gigabit, hundred, pairs, shared};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Scenario, Simulation, TcpSettings};
use clap::Parser;

/// Measures what the simulator costs.
#[derive(Parser)]
struct Options {
    /// Scenarios: `gigabit` (1 Gbit/s, 20 ms, 4 flows, 10 s), `hundred` (100 Mbit/s, 100 flows on their own
    /// host pairs, 10 s), `pairs-N` and `shared-N` (N flows over 1 Gbit/s for 5 s, on their own host pairs or
    /// all between the same two hosts).
    #[arg(default_values_t = ALL)]
    scenarios: Vec<Shape>,
    /// Profile of the connections.
    #[arg(long, default_value = "modern")]
    profile: String,
}

fn main() -> anyhow::Result<()> {
    let Options { scenarios, profile } = Options::parse();
    println!(
        "{:<14} {:>12} {:>10} {:>12} {:>12} {:>12}",
        "scenario", "packets", "CPU s", "packets/s", "ns/packet", "bytes/flow"
    );
    scenarios.into_iter().try_for_each(|shape| run(shape, &profile))
}

fn run(shape: Shape, profile: &str) -> anyhow::Result<()> {
    let before = handed_out();
    let scenario = shape.scenario().tcp(TcpSettings::profile(profile));
    let mut simulation = Simulation::new(&scenario)?;
    let began = cpu_seconds();
    let report = simulation.run();
    let seconds = cpu_seconds() - began;
    let bytes = handed_out().saturating_sub(before) / scenario.traffic.len();
    let packets = carried(&report);
    let rate = packets as f64 / seconds;
    println!(
        "{:<14} {packets:>12} {seconds:>10.3} {rate:>12.0} {:>12.0} {bytes:>12} {:>8.3} {} events",
        shape.to_string(),
        1e9 / rate,
        report.links[0].utilisation,
        simulation.events()
    );
    Ok(())
}

/// A scenario by its name. It is built when its turn comes, so that its memory is counted.
#[derive(Clone, Copy)]
enum Shape {
    Gigabit,
    Hundred,
    Pairs(usize),
    Shared(usize),
}

impl Shape {
    fn scenario(self) -> Scenario {
        match self {
            Self::Gigabit => gigabit(),
            Self::Hundred => hundred(),
            Self::Pairs(flows) => pairs(flows, Rate::mbit(1000), Span::seconds(5)),
            Self::Shared(flows) => shared(flows, Rate::mbit(1000), Span::seconds(5)),
        }
    }
}

impl FromStr for Shape {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let flows = |flows: &str| flows.parse().ok().filter(|&flows| flows > 0);
        match name.split_once('-') {
            None if name == "gigabit" => Some(Self::Gigabit),
            None if name == "hundred" => Some(Self::Hundred),
            Some(("pairs", count)) => flows(count).map(Self::Pairs),
            Some(("shared", count)) => flows(count).map(Self::Shared),
            _ => None,
        }
        .ok_or("not a scenario; choose gigabit, hundred, pairs-N or shared-N")
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gigabit => f.write_str("gigabit"),
            Self::Hundred => f.write_str("hundred"),
            Self::Pairs(flows) => write!(f, "pairs-{flows}"),
            Self::Shared(flows) => write!(f, "shared-{flows}"),
        }
    }
}

/// Bytes that the allocator has handed out, its own overhead included.
#[expect(unsafe_code, reason = "the allocator is asked")]
fn handed_out() -> usize {
    // SAFETY: mallinfo2(3) takes nothing and returns a structure of numbers.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}

/// CPU time of this process so far.
#[expect(unsafe_code, reason = "clock_gettime")]
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) writes into the structure given, which lives.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const ALL: [Shape; 9] = [
    Shape::Gigabit,
    Shape::Hundred,
    Shape::Pairs(10),
    Shape::Pairs(100),
    Shape::Pairs(1_000),
    Shape::Pairs(10_000),
    Shape::Shared(10),
    Shape::Shared(1_000),
    Shape::Shared(10_000),
];
