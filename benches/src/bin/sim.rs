//! What the simulator costs: packets carried over the bottleneck in either direction for each second of CPU time, and
//! memory for each flow.
//!
//! `sim` runs all scenarios; `sim NAME..` those named: `gigabit` (1 Gbit/s, 20 ms, 4 flows, 10 s), `hundred` (100 Mbit/s,
//! 100 flows on their own host pairs), `pairs-N` and `shared-N` (N flows over 1 Gbit/s on their own host pairs, or all
//! between the same two hosts). `sim NAME --profile PROFILE` takes another profile than `modern`.

use std::io;
use std::process::ExitCode;

use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Scenario, Simulation, TcpSettings, TrafficConfig};

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
        let Some(scenario) = scenario(&name) else {
            eprintln!("no scenario is called `{name}`; choose of {}", ALL.join(", "));
            return Ok(ExitCode::from(2));
        };
        run(
            &name,
            &scenario.tcp(TcpSettings { send_buffer: send_buffer(&name), ..TcpSettings::profile(&profile) }),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn scenario(name: &str) -> Option<Scenario> {
    Some(match name.split_once('-') {
        None if name == "gigabit" => pairs(4, Rate::mbit(1000), Span::seconds(10)),
        None if name == "hundred" => pairs(100, Rate::mbit(100), Span::seconds(10)),
        Some(("pairs", flows)) => pairs(flows.parse().ok()?, Rate::mbit(1000), Span::seconds(5)),
        Some(("shared", flows)) => shared(flows.parse().ok()?, Rate::mbit(1000), Span::seconds(5)),
        _ => return None,
    })
}

/// Flows on their own host pairs, over one bottleneck with a round trip of 20 ms and a buffer of that.
fn pairs(flows: usize, rate: Rate, duration: Span) -> Scenario {
    let mut scenario = backbone(rate, duration);
    let access = Direction::new(Rate::mbit(1000), Span::millis(1));
    for n in 0..flows {
        let (a, b) = (format!("a{n}"), format!("b{n}"));
        scenario = scenario.host(a.clone()).host(b.clone());
        scenario = scenario.link(&a, "left", access.clone()).link("right", &b, access.clone());
        scenario = scenario.traffic(bulk(n, &a, &b));
    }
    scenario
}

/// All flows between the same two hosts.
fn shared(flows: usize, rate: Rate, duration: Span) -> Scenario {
    let access = Direction::new(Rate::mbit(10_000), Span::millis(1));
    let mut scenario = backbone(rate, duration).host("a").host("b");
    scenario = scenario.link("a", "left", access.clone()).link("right", "b", access);
    (0..flows).fold(scenario, |scenario, n| scenario.traffic(bulk(n, "a", "b")))
}

fn backbone(rate: Rate, duration: Span) -> Scenario {
    let packets = rate.bits() / 8 / 1500 / 50;
    let bottleneck = Direction::new(rate, Span::millis(8)).buffers(packets);
    Scenario::new(duration).router("left").router("right").link("left", "right", bottleneck)
}

/// Flows begin one after the other within the first half second.
fn bulk(n: usize, from: &str, to: &str) -> TrafficConfig {
    TrafficConfig::bulk(&format!("flow{n}"), from, to, None).start(Span((n as u64 * 7_919_000) % 500_000_000))
}

/// Thousands of flows have small windows, and need no more buffer than that.
fn send_buffer(name: &str) -> Option<Bytes> {
    let flows = name.split_once('-').and_then(|(_, flows)| flows.parse::<u64>().ok());
    flows.filter(|flows| *flows >= 1000).map(|_| Bytes(8 << 10))
}

fn run(name: &str, scenario: &Scenario) -> io::Result<()> {
    let before = handed_out();
    let mut simulation = Simulation::new(scenario).expect("the scenario can be run");
    let began = cpu_seconds();
    let report = simulation.run();
    let seconds = cpu_seconds() - began;
    let bytes = handed_out().saturating_sub(before) / scenario.traffic.len();
    let packets: u64 =
        report.links.iter().filter(|link| link.name.starts_with("left-right:")).map(|link| link.sent).sum();
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
