//! Explores small worlds, or replays a script.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use ackclock_explore::{Bounds, Report, SETUPS, Script, Setup, Variation, explore};
use clap::Parser;

/// Visit every state of small TCP worlds, breadth first, and print the shortest counterexample.
#[derive(Parser)]
struct Options {
    /// The worlds; all without one
    worlds: Vec<String>,
    /// The most states of each world
    #[arg(long, default_value_t = 100_000)]
    states: usize,
    /// The most moves
    #[arg(long, default_value_t = u32::MAX)]
    depth: u32,
    /// Let a healthy network run out from one state in this many
    #[arg(long, default_value_t = 1)]
    run_out_every: u32,
    /// Worlds explored at once
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Stop at the first world in which something is found
    #[arg(long)]
    first: bool,
    /// Replay a script instead
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// List the worlds
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing was found.
fn run(options: &Options) -> Result<bool, String> {
    if options.list {
        SETUPS.iter().for_each(|setup| println!("{:<15} {}", setup.name, setup.what));
        return Ok(true);
    }
    if let Some(file) = &options.replay {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let script: Script = text.parse().map_err(|error| format!("{}: {error}", file.display()))?;
        let result = script.replay();
        match &result {
            Ok(()) => println!("{script}nothing is wrong"),
            Err(breach) => println!("{script}{breach}\n\n{}", as_test(&script)),
        }
        return Ok(result.is_ok());
    }
    let unknown = |name: &String| format!("no world is called {name}; --list shows them");
    let named: Result<Vec<_>, _> =
        options.worlds.iter().map(|name| Setup::find(name).ok_or_else(|| unknown(name))).collect();
    let setups = if options.worlds.is_empty() { SETUPS.iter().collect() } else { named? };
    let bounds =
        Bounds { states: options.states, depth: options.depth, run_out_every: options.run_out_every };
    // A panic is a finding, and shown as one.
    std::panic::set_hook(Box::new(|_| {}));
    let (next, sound, states) = (AtomicUsize::new(0), AtomicBool::new(true), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                while let Some(setup) = setups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if options.first && !sound.load(Ordering::Relaxed) {
                        break;
                    }
                    let report = show(setup, &bounds);
                    states.fetch_add(report.states, Ordering::Relaxed);
                    sound.fetch_and(report.counterexample.is_none(), Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} states in all", states.into_inner());
    Ok(sound.into_inner())
}

/// Explores a world, and prints what was seen.
fn show(setup: &'static Setup, bounds: &Bounds) -> Report {
    let began = Instant::now();
    let report = explore(setup, bounds);
    let seconds = began.elapsed().as_secs_f64();
    let all = if report.complete { ", which are all" } else { "" };
    let mut text =
        format!("{}: {} states to depth {}{all}, {seconds:.1} s", setup.name, report.states, report.depth);
    let met =
        Variation::entries().filter_map(|entry| Some((entry.name, report.varied.get(&entry.variation)?)));
    let met: Vec<_> = met.map(|(name, times)| format!("{name} {times}")).collect();
    if !met.is_empty() {
        text = format!("{text}; as a Linux: {}", met.join(", "));
    }
    if let Some(found) = &report.counterexample {
        let test = as_test(&found.script);
        text = format!("{text}\n{}: {}\n{}\n{test}", setup.name, found.breach, found.script);
    }
    println!("{text}");
    report
}

/// The counterexample as a file of protocol tests, or why there is none.
fn as_test(script: &Script) -> String {
    script.protocol_test().map_or_else(|why| format!("{why}\n"), |test| test.to_string())
}
