//! `tcplab papers`: the experiments of the four papers, the papers' values beside the measured ones.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ackclock_cli::{Exit, Failure, output, table};
use ackclock_papers::{Counts, ExperimentResult, PICTURES, files, json, select};

/// Options of `tcplab papers`.
#[derive(Debug, clap::Args)]
pub(crate) struct PapersArgs {
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

pub(crate) fn run(args: &PapersArgs) -> anyhow::Result<Exit> {
    let chosen = select(&args.ids).map_err(|unknown| {
        Failure::usage(unknown.to_string()).remedy("`tcplab papers --list` says what each of them is")
    })?;
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
    let bar = output::progress(chosen.len() as u64, "experiments");
    let outcomes = ackclock_papers::run(&chosen, || bar.inc(1));
    bar.finish_and_clear();
    let counts = Counts::of(&outcomes);
    let seconds = began.elapsed().as_secs_f64();
    let summary = format!("{} experiments, {}; {seconds:.1} s", outcomes.len(), counts.words());
    let table = ackclock_papers::table(&outcomes);
    output::print_beside(args.json.as_ref(), &format!("{table}\n{summary}\n"))?;
    if let Some(folder) = &args.out {
        write(folder, &outcomes)?;
    }
    if let Some(file) = &args.json {
        output::write_json(file, &json(&outcomes)?)?;
    }
    Ok(if counts.passed() { Exit::Done } else { Exit::Failed })
}

fn write(folder: &Path, outcomes: &[ExperimentResult<'_>]) -> Result<(), Failure> {
    output::make_folder(&folder.join(PICTURES))?;
    files(outcomes).try_for_each(|(path, text)| output::write_file(&folder.join(path), text.as_bytes()))
}
