//! What the simulator costs: packets carried over the bottleneck in either direction per second of CPU time,
//! and memory per flow for scenario, network and report, with the overhead of the allocator.
//!
//! `sim` runs all scenarios; `sim NAME..` those named: `gigabit` (1 Gbit/s, 20 ms, 4 flows, 10 s), `hundred`
//! (100 Mbit/s, 100 flows on their own host pairs), `pairs-N` and `shared-N` (N flows over 1 Gbit/s on their
//! own host pairs, or all between the same two hosts). `sim NAME --profile PROFILE` uses another profile than
//! `modern`.

use std::io;
use std::process::ExitCode;

use ackclock_benches::scenarios::{carried, gigabit, hundred, pairs, shared};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Scenario, Simulation, TcpSettings};

fn main() -> io::Result<ExitCode> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut profile = "modern".to_owned();
    if let Some(at) = args.iter().position(|arg| arg == "--profile") {
        profile = args.drain(at..).nth(1).expect("the name of a profile behind --profile");
    }
    if args.is_empty() {
        args = ALL.map(str::to_owned).to_vec();
    }
    println!(
        "{:<14} {:>12} {:>10} {:>12} {:>12} {:>12}",
        "scenario", "packets", "CPU s", "packets/s", "ns/packet", "bytes/flow"
    );
    for name in args {
        let before = handed_out();
        let Some(scenario) = scenario(&name) else {
            eprintln!("no scenario is called `{name}`; choose of {}", ALL.join(", "));
            return Ok(ExitCode::from(2));
        };
        run(&name, &scenario.tcp(TcpSettings::profile(&profile)), before)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn scenario(name: &str) -> Option<Scenario> {
    Some(match name.split_once('-') {
        None if name == "gigabit" => gigabit(),
        None if name == "hundred" => hundred(),
        Some(("pairs", flows)) => pairs(flows.parse().ok()?, Rate::mbit(1000), Span::seconds(5)),
        Some(("shared", flows)) => shared(flows.parse().ok()?, Rate::mbit(1000), Span::seconds(5)),
        _ => return None,
    })
}

fn run(name: &str, scenario: &Scenario, before: usize) -> io::Result<()> {
    let mut simulation = Simulation::new(scenario).expect("the scenario can be run");
    let began = cpu_seconds();
    let report = simulation.run();
    let seconds = cpu_seconds() - began;
    let bytes = handed_out().saturating_sub(before) / scenario.traffic.len();
    let packets = carried(&report);
    let rate = packets as f64 / seconds;
    println!(
        "{name:<14} {packets:>12} {seconds:>10.3} {rate:>12.0} {:>12.0} {bytes:>12} {:>8.3} {} events",
        1e9 / rate,
        report.links[0].utilisation,
        simulation.events()
    );
    Ok(())
}

/// Bytes that the allocator has handed out, its own overhead included.
fn handed_out() -> usize {
    // SAFETY: mallinfo2(3) takes nothing and returns a structure of numbers.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}

/// CPU time of this process so far.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) writes into the structure given, which lives.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const ALL: [&str; 9] = [
    "gigabit",
    "hundred",
    "pairs-10",
    "pairs-100",
    "pairs-1000",
    "pairs-10000",
    "shared-10",
    "shared-1000",
    "shared-10000",
];
