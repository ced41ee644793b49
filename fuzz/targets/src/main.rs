//! `fuzz`: runs a target without a fuzzer, for a time or a number of inputs, and says how fast that was.
//!
//! An input that fails is made shorter and written to the folder that is named; the command that repeats it
//! is printed.

#![forbid(unsafe_code)]

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, process};

use ackclock_fuzz::{TARGETS, Target, answers, find, mutate};
use ackclock_tests::fuzz::Answers;
use anyhow::{Context, bail};
use clap::Parser;

/// Run fuzz targets on seeded random inputs, or replay files.
#[derive(Debug, Parser)]
struct FuzzArgs {
    /// Target; all of them, one after the other, if none is named
    target: Option<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many units (steps, parser executions or inputs, as the target counts) are enough
    #[arg(long, default_value_t = u64::MAX)]
    units: u64,
    /// The first seed; each input has the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for inputs that fail
    #[arg(long, default_value = "target/fuzz-failures")]
    failures: PathBuf,
    /// Run this input alone, as often as it takes to fail
    #[arg(long)]
    file: Option<PathBuf>,
    /// Print what the endpoints answer to the input, line by line
    #[arg(long, requires = "file")]
    answers: bool,
    /// Say the longest input of each target, and write it to the folder
    #[arg(long)]
    keep_slowest: bool,
}

fn main() -> anyhow::Result<()> {
    let args = FuzzArgs::parse();
    let targets: Vec<&Target> = match &args.target {
        Some(name) => vec![find(name).with_context(|| {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            format!("there is no target {name}; there are {}", names.join(", "))
        })?],
        None => TARGETS.iter().collect(),
    };
    if let Some(file) = &args.file {
        let input = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        for target in targets {
            let began = Instant::now();
            if !args.answers {
                (target.run)(&input);
            } else if !answers(target, &input, &mut Answers::kept(true)) {
                bail!("{} has no endpoints that answer; connection and endpoint have", target.name);
            }
            println!("{}: {} bytes in {:?}", target.name, input.len(), began.elapsed());
        }
        return Ok(());
    }
    let mut failed = false;
    for target in targets {
        failed |= run(&args, target)?;
    }
    if failed {
        process::exit(1);
    }
    Ok(())
}

/// Runs a target; `true` if an input failed.
fn run(args: &FuzzArgs, target: &Target) -> anyhow::Result<bool> {
    let corpus = mutate::corpus(target).with_context(|| format!("no corpus of {}", target.name))?;
    let (began, until) = (Instant::now(), Duration::from_secs(args.seconds));
    let (mut inputs, mut units, mut slowest) = (0u64, 0u64, (Duration::ZERO, 0));
    while began.elapsed() < until && units < args.units {
        let seed = args.seed + inputs;
        let input = mutate::draw(target, &corpus, seed);
        let started = Instant::now();
        let Ok(done) = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) else {
            report_failure(args, target, seed, &input)?;
            return Ok(true);
        };
        let took = started.elapsed();
        slowest = slowest.max((took, seed));
        if took > target.time_max(done) {
            let path = write(&args.failures, &format!("{}-slow", target.name), &input)?;
            bail!(
                "an input of {} took {took:?} for {done} {}, more than {:?}: {}",
                target.name,
                target.unit,
                target.time_max(done),
                path.display()
            );
        }
        (inputs, units) = (inputs + 1, units + done);
    }
    let elapsed = began.elapsed().as_secs_f64();
    println!(
        "{}: {inputs} inputs, {units} {} in {elapsed:.1} s: {:.0} inputs/s, {:.0} {}/s; the slowest took \
         {:.1} ms (seed {})",
        target.name,
        target.unit,
        inputs as f64 / elapsed,
        units as f64 / elapsed,
        target.unit,
        slowest.0.as_secs_f64() * 1000.0,
        slowest.1
    );
    if args.keep_slowest {
        write(
            &args.failures,
            &format!("{}-slowest", target.name),
            &mutate::draw(target, &corpus, slowest.1),
        )?;
    }
    Ok(false)
}

fn report_failure(args: &FuzzArgs, target: &Target, seed: u64, input: &[u8]) -> anyhow::Result<()> {
    let whole = write(&args.failures, &format!("{}-{seed}", target.name), input)?;
    eprintln!("{}: seed {seed} failed; its input is {}. Making it shorter.", target.name, whole.display());
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let fails = |input: &[u8]| panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err();
    let least = mutate::shrink(input, fails);
    panic::set_hook(hook);
    let path = write(&args.failures, &format!("{}-{seed}-short", target.name), &least)?;
    eprintln!("repeat it: scripts/fuzz.py {} --file {}", target.name, path.display());
    Ok(())
}

fn write(folder: &Path, name: &str, input: &[u8]) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(name);
    fs::write(&path, input).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
