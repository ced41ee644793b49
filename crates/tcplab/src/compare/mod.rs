//! `tcplab compare`: controllers over a grid of situations.

mod args;
mod difference;
mod merge;
mod pictures;
mod report;
mod shard;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ackclock_cli::output::Described;
use ackclock_cli::{
    Exit, Failure,
    output::{self, say},
};
use ackclock_control::congestion::Registry;
use indicatif::ProgressBar;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use tcplab::grid::{Cell, Grid};
use tcplab::measure::Measures;

pub(crate) use self::args::CompareArgs;
pub(crate) use self::args::profiles;
use self::merge::Merged;
use self::report::Comparison;
use self::shard::Label;
use self::store::Store;

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    if let Some(folder) = args.out.as_ref().filter(|_| !args.merge.is_empty()) {
        return merge(args, folder);
    }
    let grid = args.grid()?;
    let cells = match args.shard {
        Some(shard) => shard.cells(&grid)?,
        None => grid.cells(),
    };
    if let Some(folder) = &args.out {
        output::make_folder(folder)?;
    }
    let store = args.out.as_ref().map(|folder| Store::open(folder, args.fresh)).transpose()?;
    if let (Some(shard), Some(folder), Some(store)) = (args.shard, &args.out, &store) {
        Label::put(folder, store.build(), shard, &grid, args.fresh)?;
    }
    if let Some(store) = &store {
        tell(store, &cells);
    }
    let began = Instant::now();
    let interrupted = interrupts()?;
    let bar = output::progress(cells.len() as u64, "runs");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.jobs.map_or(0, Into::into)).build()?;
    let results = pool.install(|| all(&cells, store.as_ref(), &bar, &interrupted));
    bar.finish_and_clear();
    let done: Option<Vec<Measures>> = results?.into_iter().collect();
    let Some(results) = done else { return Err(stopped(store.as_ref()).into()) };
    let spent = began.elapsed().as_secs_f64();
    if let Some(shard) = args.shard {
        say(format_args!("shard {shard}: {} of {} runs; {spent:.1} s", cells.len(), grid.cells().len()));
        return Ok(Exit::Done);
    }
    report(args, &grid, &results)?;
    say(format_args!("{} runs; {spent:.1} s", cells.len()));
    Ok(Exit::Done)
}

/// Puts the results of shards together in `folder`, and reports them like those of one run.
fn merge(args: &CompareArgs, folder: &Path) -> anyhow::Result<Exit> {
    let same = |other: &&PathBuf| std::fs::canonicalize(other).ok() == std::fs::canonicalize(folder).ok();
    if let Some(shard) = args.merge.iter().filter(|_| folder.exists()).find(same) {
        let message = format!("--out {} is one of the folders to merge", shard.display());
        return Err(Failure::usage(message).remedy("name another folder with --out").into());
    }
    let merged = Merged::read(&args.merge, &store::build()?)?;
    output::make_folder(folder)?;
    let store = Store::open(folder, args.fresh)?;
    for (cell, measures) in merged.cells.iter().zip(&merged.results) {
        if store.find(cell).is_none() {
            store.add(cell, measures)?;
        }
    }
    report(args, &merged.grid, &merged.results)?;
    say(format_args!("{} runs of {} shards", merged.cells.len(), args.merge.len()));
    Ok(Exit::Done)
}

/// Prints the table, and writes the page, its pictures and the JSON that were requested.
fn report(args: &CompareArgs, grid: &Grid, results: &[Measures]) -> anyhow::Result<()> {
    let comparison = Comparison::new(grid, results);
    output::print_beside(args.json.as_ref(), &comparison.text())?;
    if let Some(folder) = &args.out {
        comparison.write(folder)?;
    }
    if let Some(file) = &args.json {
        Described::new(&comparison).write(file)?;
    }
    Ok(())
}

/// Runs the cells without a known result. The results are in the cells' order, `None` for those after an
/// interrupt.
fn all(
    cells: &[Cell],
    store: Option<&Store>,
    bar: &ProgressBar,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Option<Measures>>> {
    let registry = Registry::with_experiments();
    let one = |cell: &Cell| {
        if let Some(known) = store.and_then(|store| store.find(cell)) {
            bar.inc(1);
            return Ok(Some(known.clone()));
        }
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let measures = cell.run(&registry)?;
        if let Some(store) = store {
            store.add(cell, &measures)?;
        }
        bar.inc(1);
        Ok(Some(measures))
    };
    cells.par_iter().map(one).collect()
}

/// Reports what was found in the folder.
fn tell(store: &Store, cells: &[Cell]) {
    let path = store.path().display();
    let known = cells.iter().filter(|cell| store.find(cell).is_some()).count();
    if known > 0 {
        say(format_args!("{known} of {} runs come from {path}", cells.len()));
    }
    if store.known().torn > 0 {
        say(format_args!("{} damaged lines of {path} are left out", store.known().torn));
    }
    if store.known().foreign > 0 {
        say(format_args!(
            "{} runs in {path} come from another build of tcplab and are not used",
            store.known().foreign
        ));
    }
}

/// Set at the first interrupt; no run begins after it. The second interrupt ends the program at once.
fn interrupts() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let code = Exit::Failed as i32;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

fn stopped(store: Option<&Store>) -> Failure {
    match store {
        Some(store) => Failure::interrupted(format!("finished runs are in {}", store.path().display()))
            .remedy("the same command continues from there"),
        None => Failure::interrupted("nothing is kept")
            .remedy("with --out DIR the same command can continue later"),
    }
}
