//! Runs everything at once over TUN for a long time, and measures what is left afterwards:
//! `soak --minutes 12`. Prints one JSON object, and fails if something has leaked, hung or gone wrong.
//! `scripts/soak.py` builds and starts it.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use ackclock_benches::soak::Soak;
use clap::Parser;

/// A mixed soak with a look at what is left.
#[derive(Debug, Parser)]
struct SoakArgs {
    /// Length of the long stretch; four minutes more pass before and after it.
    #[arg(long, default_value_t = 12.0)]
    minutes: f64,
    /// Of what chance decides.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = SoakArgs::parse();
    let soak = Soak { length: Duration::from_secs_f64(args.minutes * 60.0), seed: args.seed };
    let report = soak.run()?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    for failure in &report.failures {
        eprintln!("failed: {failure}");
    }
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
