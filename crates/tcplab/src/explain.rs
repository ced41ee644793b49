//! `tcplab explain`: where the time of traced connections went, in plain sentences.

use std::path::{Path, PathBuf};

use ackclock_assess::{capture, traced};
use ackclock_cli::output::Described;
use ackclock_cli::{Exit, Failure};
use ackclock_trace::explain::{account, byte_sentences, sentences};
use ackclock_trace::file::{ReadError, Trace, TracedSource};
use serde_json::json;

use crate::{PROGRAM, output};

/// Options of `tcplab explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// A trace, written by --trace of tcpcat or `tcplab run`, or a capture (pcap, pcapng) of any TCP
    trace: PathBuf,
    /// Only the connection with this number in the list [default: all]
    #[arg(long, value_name = "N")]
    connection: Option<usize>,
    /// Explain this byte of the data sent (the first is 1): when it left, which rule declared it
    /// lost, and why
    #[arg(long, value_name = "SEQ")]
    byte: Option<u32>,
    /// Print numbers as JSON instead of sentences
    #[arg(long, conflicts_with = "byte")]
    json: bool,
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let trace = open(&args.trace)?;
    let all: Vec<&TracedSource> = trace.connections().collect();
    let chosen: Vec<(usize, &TracedSource)> = match args.connection {
        None => all.iter().copied().enumerate().collect(),
        Some(number) => match all.get(number) {
            Some(source) => vec![(number, *source)],
            None => return Err(no_such(number, &trace).into()),
        },
    };
    if chosen.is_empty() {
        output::say("tcplab: the trace contains no connection");
    }
    if args.json {
        let accounts: Vec<_> = chosen
            .iter()
            .map(|(number, source)| {
                json!({ "connection": number, "source": source.source, "missed": source.missed,
                        "account": account(source).to_json() })
            })
            .collect();
        let all = Described::new(json!({ "connections": accounts }));
        output::print(format_args!("{}\n", serde_json::to_string_pretty(&all)?))?;
        return Ok(Exit::Done);
    }
    let mut found = false;
    for (number, source) in chosen {
        let said = match args.byte {
            Some(seq) => byte_sentences(source, seq),
            None => sentences(source),
        };
        found |= !said.is_empty();
        if !said.is_empty() {
            output::print(paragraph(number, source, &said, args.byte))?;
        }
    }
    match args.byte {
        Some(seq) if !found => Err(Failure::usage(format!(
            "no segment with byte {seq} was sent; the first byte of a connection is 1, and the last can be \
             found with `tcplab convert --to csv`"
        ))
        .into()),
        _ => Ok(Exit::Done),
    }
}

/// Reads a trace, or a capture as a trace, and reports what is missing from it.
pub(crate) fn open(path: &Path) -> anyhow::Result<Trace> {
    let bytes = std::fs::read(path).map_err(|error| Failure::file("read", path, &error))?;
    let trace = match Trace::read(&bytes) {
        Err(ReadError::Magic) => return captured(path, &bytes),
        read => read.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?,
    };
    if let Some(damage) = &trace.damage {
        output::say(format_args!("tcplab: {} is {damage}; the part before that is used", path.display()));
    }
    Ok(trace)
}

fn captured(path: &Path, bytes: &[u8]) -> anyhow::Result<Trace> {
    let (report, vantages) = capture::read_one(0, path, bytes).map_err(|why| {
        Failure::usage(format!("{}: {}; as a capture it {why}", path.display(), ReadError::Magic))
    })?;
    report.remarks().iter().for_each(|remark| output::say(format_args!("tcplab: {remark}")));
    Ok(traced(&vantages, PROGRAM))
}

fn paragraph(number: usize, source: &TracedSource, said: &[String], byte: Option<u32>) -> String {
    let title = match byte {
        Some(seq) => format!("Connection {number}, {}, byte {seq}", source.source),
        None => format!("Connection {number}"),
    };
    let lines: Vec<String> = said.iter().map(|sentence| format!("  {sentence}\n")).collect();
    format!("{title}\n{}\n", lines.concat())
}

/// The error for an unknown connection number.
pub(crate) fn no_such(number: usize, trace: &Trace) -> Failure {
    let names: Vec<String> = trace
        .connections()
        .enumerate()
        .map(|(number, source)| format!("{number}: {}", source.source))
        .collect();
    Failure::usage(format!("there is no connection {number} in the trace; there are {}", names.join(", ")))
}
