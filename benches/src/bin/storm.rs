//! The cost of hostile packets to the core, the service of honest users during a flood, and the cost of many
//! connections.
//!
//! `storm cost` needs no privilege. `storm load` and `storm many` make network namespaces; `storm many`
//! starts `tun-peer` from its own folder.

use std::time::Duration;

use ackclock_benches::storm::cost::{Cost, measure};
use ackclock_benches::storm::flood::Flood;
use ackclock_benches::storm::kind::Kind;
use ackclock_benches::storm::load::{Load, Victim};
use ackclock_benches::storm::many::{Clients, Many};
use anyhow::Context as _;
use clap::{Args, Parser};

/// Hostile packets: their cost, and what honest users get beside them.
#[derive(Parser)]
enum Command {
    /// Nanoseconds that each kind of packet costs the core.
    Cost(CostOptions),
    /// A transfer and connections beside a flood of spoofed packets; prints one JSON object.
    Load(LoadOptions),
    /// Many connections over TUN, few of them with traffic; prints one JSON object.
    Many(ManyOptions),
    /// A process of clients of `many`, which starts it.
    #[command(hide = true)]
    Clients(Clients),
}

#[derive(Args)]
struct CostOptions {
    /// Packets of each kind.
    #[arg(long, default_value_t = 50_000)]
    packets: usize,
    /// Times that each storm is repeated.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// One JSON object for each kind.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct LoadOptions {
    /// Who is flooded.
    #[arg(long, value_enum, default_value_t = Victim::Ackclock)]
    victim: Victim,
    /// With what.
    #[arg(long, value_enum, default_value_t = Flood::Syn)]
    flood: Flood,
    /// Packets a second.
    #[arg(long, default_value_t = 50_000)]
    rate: u32,
    /// Length in seconds.
    #[arg(long, default_value_t = 10.0)]
    secs: f64,
    /// Honest connections in that time.
    #[arg(long, default_value_t = 500)]
    connects: u32,
    /// Send the flood to a device without a reader.
    #[arg(long)]
    aside: bool,
}

#[derive(Args)]
struct ManyOptions {
    /// Connections at once.
    #[arg(long, default_value_t = 100_000)]
    connections: usize,
    /// Of a hundred, those with traffic.
    #[arg(long, default_value_t = 1.0)]
    busy_percent: f64,
    /// Requests a second, of all of these together.
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    /// Length of the traffic in seconds.
    #[arg(long, default_value_t = 20.0)]
    secs: f64,
    /// Connections that are being opened at one time.
    #[arg(long, default_value_t = 200)]
    at_once: usize,
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Cost(options) => cost(&options),
        Command::Load(options) => load(&options),
        Command::Many(options) => many(&options),
        Command::Clients(clients) => clients.serve(),
    }
}

fn cost(options: &CostOptions) -> anyhow::Result<()> {
    for kind in Kind::ALL {
        let cost = measure(kind, options.packets, options.rounds);
        if options.json {
            println!("{}", serde_json::to_string(&cost)?);
        } else {
            print(&cost);
        }
    }
    Ok(())
}

fn print(cost: &Cost) {
    let Cost { kind, packets, mean, p999, worst, answers, memory } = cost;
    println!(
        "{kind}: mean {mean:.0} ns, 1 in 1,000 over {p999} ns, worst {worst} ns; \
         {answers} answers to {packets}, {memory} bytes held"
    );
}

fn load(options: &LoadOptions) -> anyhow::Result<()> {
    let &LoadOptions { victim, flood, rate, secs, connects, aside } = options;
    let outcome =
        Load { victim, flood, rate, length: Duration::from_secs_f64(secs), connects, aside }.run()?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

fn many(options: &ManyOptions) -> anyhow::Result<()> {
    let &ManyOptions { connections, busy_percent, rate, secs, at_once } = options;
    let busy = (connections as f64 * busy_percent / 100.0).round() as usize;
    let programs = std::env::current_exe()?.parent().context("this program lies in a folder")?.to_owned();
    let run = Many { connections, busy, rate, length: Duration::from_secs_f64(secs), at_once };
    println!("{}", serde_json::to_string(&run.run(programs)?)?);
    Ok(())
}
