//! `tcplab papers`: the experiments of the four papers, the papers' values beside the measured ones.

mod allman_paxson;
mod bfa;
pub(crate) mod draw;
mod experiment;
mod jacobson;
pub(crate) mod many;
pub(crate) mod net;
mod results;
pub(crate) mod segments;
mod select;
pub(crate) mod traced;
mod vegas;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use ackclock_cli::{Exit, output, table};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

pub(crate) use self::experiment::{Band, BandVerdict, Experiment, Findings, Table, Value};
use self::results::{Counts, Outcome};

/// Options of `tcplab papers`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Experiments by id: VE5/7, VE7, or VE for all that begin so [default: all]
    ids: Vec<String>,
    /// List the experiments and run none
    #[arg(long)]
    list: bool,
    /// Folder for RESULTS.md and the pictures; created if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the values to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// All experiments, in the order of the papers.
const EXPERIMENTS: &[&[Experiment]] =
    &[jacobson::EXPERIMENTS, vegas::EXPERIMENTS, bfa::EXPERIMENTS, allman_paxson::EXPERIMENTS];

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let all: Vec<&Experiment> = EXPERIMENTS.iter().copied().flatten().collect();
    let chosen = select::select(&all, &args.ids)?;
    if args.list {
        let rows: Vec<Vec<String>> =
            chosen.iter().map(|one| [one.id, one.source, one.title].map(str::to_owned).to_vec()).collect();
        output::print(table::columns(&["id", "source", "what it shows"], &rows))?;
        return Ok(Exit::Done);
    }
    // Find out before the work whether the output can be written.
    if let Some(folder) = &args.out {
        output::make_folder(folder)?;
    }
    let began = Instant::now();
    let outcomes = run_all(&chosen);
    let counts = Counts::of(&outcomes);
    let seconds = began.elapsed().as_secs_f64();
    let summary = format!("{} experiments, {}; {seconds:.1} s", outcomes.len(), counts.words());
    output::print_beside(args.json.as_ref(), &format!("{}\n{summary}\n", results::table(&outcomes)))?;
    if let Some(folder) = &args.out {
        results::write(folder, &outcomes, all.len())?;
    }
    if let Some(file) = &args.json {
        output::write_json(file, &results::json(&outcomes)?)?;
    }
    Ok(if counts.passed() { Exit::Done } else { Exit::Failed })
}

/// Runs them on all cores. The outcomes are in the experiments' order.
fn run_all<'a>(chosen: &[&'a Experiment]) -> Vec<Outcome<'a>> {
    let bar = output::progress(chosen.len() as u64, "experiments");
    let outcomes = chosen
        .par_iter()
        .map(|&experiment| {
            let findings = catch_unwind(AssertUnwindSafe(experiment.run))
                .unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked; the message is on stderr")))
                .map_err(|error| format!("{error:#}"));
            bar.inc(1);
            Outcome { experiment, findings }
        })
        .collect();
    bar.finish_and_clear();
    outcomes
}
