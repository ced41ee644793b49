//! `tcplab papers`: the experiments of the four papers, the papers' values beside the measured ones.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ackclock_cli::output::Described;
use ackclock_cli::{Exit, Failure, output};
use ackclock_papers::{
    Change, Changes, Counts, Experiment, ExperimentResult, PICTURES, Unknown, combinations, files, json,
    select, sweep, sweeps, unknowns,
};

/// Options of `tcplab papers`.
#[derive(Debug, clap::Args)]
pub(crate) struct PapersArgs {
    /// Experiments by id: VE5/7, VE7, or VE for all that begin so [default: all]
    ids: Vec<String>,
    /// List the experiments and run none
    #[arg(long)]
    list: bool,
    /// Change a setting of all scenarios, by its key in a scenario's file: link.bottleneck.there.delay=30ms,
    /// host.*.tcp.acks=every-second:0s, profile.reno-1990=tahoe-1988 for each place where the first stands
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "out")]
    set: Vec<Change>,
    /// Try values of a setting, separated by spaces, in all combinations with those of other --sweep: says
    /// how much of each measured value's variance the setting explains
    #[arg(long, value_name = "KEY=VALUES", conflicts_with_all = ["out", "json", "set"])]
    sweep: Vec<Change>,
    /// Try what the experiments' papers leave open, each in all combinations, and write SWEEPS.md and a CSV
    /// file for each experiment into the folder of --out; all of them take some four minutes
    #[arg(long, requires = "out", conflicts_with_all = ["sweep", "json", "set"])]
    sweeps: bool,
    /// Folder for RESULTS.md and the pictures; created if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the values to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// An experiment in a list: its name, what it shows, and where it is from.
fn listed(one: &Experiment) -> String {
    let lines = [one.title, one.source].map(|text| wrapped(text, LIST_WIDTH - LIST_INDENT));
    let mut text = String::new();
    for (number, line) in lines.into_iter().flatten().enumerate() {
        let name = if number == 0 { one.id } else { "" };
        text += &format!("{name:<LIST_INDENT$}{line}\n");
    }
    text
}

/// Cuts a text between words, into lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                *line += &format!(" {word}")
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The columns of a terminal, and the longest name with some room.
const LIST_WIDTH: usize = 100;
const LIST_INDENT: usize = 12;

pub(crate) fn run(args: &PapersArgs) -> anyhow::Result<Exit> {
    let chosen = select(&args.ids).map_err(|unknown| {
        Failure::usage(unknown.to_string()).remedy("`tcplab papers --list` says what each of them is")
    })?;
    if args.list {
        let listed: Vec<String> = chosen.iter().map(|one| listed(one)).collect();
        output::print(listed.join(""))?;
        return Ok(Exit::Done);
    }
    if !args.sweep.is_empty() {
        let unknowns: Vec<Unknown> = args.sweep.iter().map(unknown).collect();
        return try_all(&chosen, &unknowns);
    }
    // Find out before the work whether the output can be written.
    if let Some(folder) = &args.out {
        output::make_folder(folder)?;
    }
    if let (true, Some(folder)) = (args.sweeps, &args.out) {
        return try_open(&chosen, folder);
    }
    let began = Instant::now();
    let bar = output::progress(chosen.len() as u64, "experiments");
    let changes: Changes = args.set.iter().cloned().collect();
    let outcomes = ackclock_papers::run(&chosen, &changes, || bar.inc(1));
    bar.finish_and_clear();
    let outcomes = outcomes?;
    let counts = Counts::of(&outcomes);
    let seconds = began.elapsed().as_secs_f64();
    let mut summary = format!("{} experiments, {}; {seconds:.1} s", outcomes.len(), counts.words());
    if !changes.is_empty() {
        summary += &format!("; with {changes}");
    }
    let table = ackclock_papers::table(&outcomes);
    output::print_beside(args.json.as_ref(), &format!("{table}\n{summary}\n"))?;
    if let Some(folder) = &args.out {
        write(folder, &outcomes)?;
    }
    if let Some(file) = &args.json {
        Described::new(json(&outcomes)?).write(file)?;
    }
    // With other settings no reason has been looked for.
    let passed = if changes.is_empty() { counts.passed() } else { counts.failed == 0 };
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

fn unknown(change: &Change) -> Unknown {
    let values = change.value().split_whitespace().map(str::to_owned).collect();
    Unknown { key: change.key().to_owned(), values }
}

/// Runs the experiments with all combinations of the unknowns.
fn try_all(chosen: &[&Experiment], unknowns: &[Unknown]) -> anyhow::Result<Exit> {
    let bar = output::progress((chosen.len() * combinations(unknowns)) as u64, "runs");
    for experiment in chosen {
        let swept = sweep(experiment, unknowns.to_vec(), || bar.inc(1))?;
        output::print(swept.page())?;
    }
    bar.finish_and_clear();
    Ok(Exit::Done)
}

/// Runs the experiments over what their papers leave open, and writes what it decides.
fn try_open(chosen: &[&Experiment], folder: &Path) -> anyhow::Result<Exit> {
    let open: Vec<(&Experiment, Vec<Unknown>)> =
        chosen.iter().map(|one| (*one, unknowns(one))).filter(|(_, open)| !open.is_empty()).collect();
    if open.is_empty() {
        let ids: Vec<&str> = chosen.iter().map(|one| one.id).collect();
        return Err(Failure::usage(format!(
            "nothing is left open that could be tried for {}",
            ids.join(", ")
        ))
        .remedy("--sweep KEY=VALUES tries any setting")
        .into());
    }
    output::make_folder(&folder.join("sweeps"))?;
    let bar = output::progress(open.iter().map(|(_, open)| combinations(open) as u64).sum(), "runs");
    let swept = open.into_iter().map(|(experiment, open)| sweep(experiment, open, || bar.inc(1)));
    let swept = swept.collect::<anyhow::Result<Vec<_>>>()?;
    bar.finish_and_clear();
    for (path, text) in sweeps(&swept) {
        output::write_file(&folder.join(path), text.as_bytes())?;
    }
    output::print(format!("{} experiments\n", swept.len()))?;
    Ok(Exit::Done)
}

fn write(folder: &Path, outcomes: &[ExperimentResult<'_>]) -> Result<(), Failure> {
    output::make_folder(&folder.join(PICTURES))?;
    files(outcomes).try_for_each(|(path, text)| output::write_file(&folder.join(path), text.as_bytes()))
}
