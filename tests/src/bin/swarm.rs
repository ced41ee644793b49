//! Runs the swarm (tests/src/swarm):
//!
//!     swarm run [--from N] [--seeds N] [--gib N] [--seconds N] [--least N]
//!                                                    as many seeds as the limits allow
//!     swarm one SEED [--events 1,4] [--transfers 2] [--divide N] [--plain] [--trace FILE]
//!                                                    a seed, or what is left of it
//!     swarm minimise SEED                            what is left of a seed that fails
//!
//! `run` fails if a seed does, or if a fault struck less than `--least` times.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

use ackclock_tests::swarm::{Cut, Total, minimise, run, run_many};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["run", ref options @ ..] => many(options),
        ["one", seed, ref options @ ..] => number(seed).and_then(|seed| one(seed, options)),
        ["minimise", seed] => number(seed).map(smaller),
        _ => Err("swarm run | one SEED | minimise SEED; see tests/src/bin/swarm.rs".to_owned()),
    };
    done.map_or_else(
        |why| {
            eprintln!("{why}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn many(options: &[&str]) -> Result<(), String> {
    let (mut from, mut seeds, mut gib, mut seconds, mut least) = (0, u64::MAX, f64::INFINITY, u64::MAX, 0);
    for pair in options.chunks(2) {
        match *pair {
            ["--from", value] => from = number(value)?,
            ["--seeds", value] => seeds = number(value)?,
            ["--gib", value] => gib = number(value)?,
            ["--seconds", value] => seconds = number(value)?,
            ["--least", value] => least = number(value)?,
            _ => return Err(format!("{} is not an option with a value", pair[0])),
        }
    }
    let began = Instant::now();
    let is_bounded = (seeds, seconds) != (u64::MAX, u64::MAX) || gib.is_finite();
    if !is_bounded {
        return Err("say how much: --seeds, --gib or --seconds".to_owned());
    }
    // Until all that was asked for is done, or the time is over.
    let wants = |total: &Total| {
        let seeds_left = seeds != u64::MAX && total.seeds < seeds;
        let bytes_left = gib.is_finite() && (total.done.bytes as f64) < gib * f64::from(1 << 30);
        (seeds_left || bytes_left || (seeds == u64::MAX && gib.is_infinite()))
            && began.elapsed().as_secs() < seconds
    };
    let mut said = 0;
    let (total, failed) = run_many(from.., |total| {
        if began.elapsed().as_secs() / 60 > said {
            said = began.elapsed().as_secs() / 60;
            eprintln!(
                "{said} min: {} seeds, {:.2} GiB",
                total.seeds,
                total.done.bytes as f64 / f64::from(1 << 30)
            );
        }
        wants(total)
    });
    print!("{total}");
    println!("{} s; all packets hash to {:#018x}", began.elapsed().as_secs(), total.hash);
    if let Some((seed, why)) = failed {
        return Err(format!("failed seed: {seed}\n{why}"));
    }
    let rare = total.done.counts.rarer_than(least);
    if rare.is_empty() { Ok(()) } else { Err(format!("less than {least} times: {rare:?}")) }
}

fn one(seed: u64, options: &[&str]) -> Result<(), String> {
    let mut cut = Cut::default();
    let mut trace: Option<Box<dyn Write>> = None;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if *option == "--plain" {
            cut.plain = true;
            continue;
        }
        let value = options.next().ok_or_else(|| format!("{option} wants a value"))?;
        match *option {
            "--events" => cut.events = Some(list(value)?),
            "--transfers" => cut.transfers = Some(list(value)?),
            "--divide" => cut.divide = number(value)?,
            "--trace" => {
                let file = File::create(value).map_err(|error| format!("{value}: {error}"))?;
                trace = Some(Box::new(BufWriter::new(file)));
            }
            _ => return Err(format!("there is no option {option}")),
        }
    }
    let mut total = Total::default();
    total.add(&run(seed, &cut, trace)?);
    print!("{total}");
    Ok(())
}

fn smaller(seed: u64) {
    std::panic::set_hook(Box::new(|_| {}));
    let cut = minimise(seed, |cut| eprintln!("still fails: {}", command(seed, cut)));
    println!("{}", command(seed, &cut));
}

/// The options of `swarm` that repeat it.
fn command(seed: u64, cut: &Cut) -> String {
    let mut command = format!("one {seed}");
    let mut push = |name: &str, list: &Option<Vec<usize>>| {
        if let Some(list) = list {
            let list: Vec<String> = list.iter().map(usize::to_string).collect();
            command.push_str(&format!(
                " {name} {}",
                if list.is_empty() { "none".to_owned() } else { list.join(",") }
            ));
        }
    };
    push("--events", &cut.events);
    push("--transfers", &cut.transfers);
    if cut.divide > 1 {
        command.push_str(&format!(" --divide {}", cut.divide));
    }
    if cut.plain {
        command.push_str(" --plain");
    }
    command
}

fn list(words: &str) -> Result<Vec<usize>, String> {
    if words == "none" { Ok(Vec::new()) } else { words.split(',').map(number).collect() }
}

fn number<N: FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("{word} is not a number"))
}
