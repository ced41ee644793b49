//! `tcplab`: TCP's experiments in virtual time, and assessments of traces.

#![forbid(unsafe_code)]

mod papers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// TCP's experiments in virtual time, and assessments of traces.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Repeats the experiments of the four papers.
    Papers(papers::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Papers(args) => papers::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("tcplab: {error:#}");
        ExitCode::FAILURE
    })
}
