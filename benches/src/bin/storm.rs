//! What hostile packets cost the core, and what honest users get while a flood falls.
//!
//! `storm cost` needs no rights; `storm load` makes network namespaces.

use std::time::Duration;

use ackclock_benches::storm::cost::{Cost, measure};
use ackclock_benches::storm::kind::Kind;
use ackclock_benches::storm::load::{Flood, Load, Victim};
use clap::{Args, Parser};

/// Hostile packets: their cost, and what honest users get beside them.
#[derive(Parser)]
enum Command {
    /// Nanoseconds that each kind of packet costs the core.
    Cost(CostOptions),
    /// A transfer and connections beside a flood of spoofed packets; prints one JSON object.
    Load(LoadOptions),
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
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Cost(options) => cost(&options),
        Command::Load(options) => load(&options),
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
    let &LoadOptions { victim, flood, rate, secs, connects } = options;
    let outcome = Load { victim, flood, rate, length: Duration::from_secs_f64(secs), connects }.run()?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
