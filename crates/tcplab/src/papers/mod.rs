//! `tcplab papers`: the experiments of the four papers, the papers' values beside the measured ones.

mod experiment;

use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use experiment::{Band, Experiment, Findings, Table, Value};

/// Options of `tcplab papers`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Experiments by their ids, as VE5/7; all of them if none is named
    ids: Vec<String>,
    /// Folder for RESULTS.md and the pictures
    #[arg(long)]
    out: Option<PathBuf>,
    /// File for the values, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// All experiments, in the order of the papers.
const EXPERIMENTS: &[&[Experiment]] = &[];

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let _ = (args, EXPERIMENTS);
    anyhow::bail!("no experiment is there yet")
}
