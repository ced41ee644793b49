//! `tcplab convert`: a trace as something that other programs read.

use std::path::PathBuf;

use ackclock_trace::export;

use crate::exit::Exit;
use crate::{explain, output};

/// Options of `tcplab convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Trace, as --trace of tcpcat and of `tcplab run` writes it
    trace: PathBuf,
    /// What it is to become
    #[arg(long, value_enum)]
    to: Form,
    /// File to write; stdout if none is named
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What a trace can become.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// One row an entry
    Csv,
    /// One object a line
    Jsonl,
    /// A packet capture whose comments say why each segment was sent; Wireshark opens it
    Pcapng,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let trace = explain::open(&args.trace)?;
    let mut bytes = Vec::new();
    match args.to {
        Form::Csv => export::csv(&trace, &mut bytes)?,
        Form::Jsonl => export::json_lines(&trace, &mut bytes)?,
        Form::Pcapng => {
            export::pcapng(&trace, &mut bytes)?;
        }
    }
    match &args.output {
        Some(path) => output::write_file(path, &bytes)?,
        None => output::print_bytes(&bytes)?,
    }
    Ok(Exit::Done)
}
