//! `tcplab convert`: a trace as something that other programs read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ackclock_cli::{Exit, Failure};
use ackclock_trace::explain::account;
use ackclock_trace::file::Trace;
use ackclock_trace::{export, graphs};

use crate::{explain, output, picture};

/// Options of `tcplab convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    /// A trace, written by --trace of tcpcat or `tcplab run`, or a capture (pcap, pcapng) of any TCP
    trace: PathBuf,
    /// The form to convert it to
    #[arg(long, value_enum)]
    to: Form,
    /// Only the connections with these numbers in the list of `tcplab explain`, and the queues
    #[arg(long, value_name = "N", value_delimiter = ',')]
    connection: Vec<usize>,
    /// Draw all connections, not only the ten that lost most time, then sent most
    #[arg(long, conflicts_with = "connection")]
    all: bool,
    /// Output file [default: stdout]; for svg, the folder of the pictures
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The number of connections whose graphs are made by default.
const UNASKED: usize = 10;

/// The forms that a trace can take.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// One row an entry
    Csv,
    /// One object a line
    Jsonl,
    /// A packet capture whose comments say why each segment was sent; Wireshark opens it
    Pcapng,
    /// One self-contained page with graphs that zoom and show their values
    Html,
    /// A picture of each graph
    Svg,
}

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<Exit> {
    let mut trace = explain::open(&args.trace)?;
    if let Some(&number) = args.connection.iter().find(|&&number| trace.connections().nth(number).is_none()) {
        return Err(explain::no_such(number, &trace).into());
    }
    if args.to.is_list() && !args.connection.is_empty() {
        trace.keep_connections(|number| args.connection.contains(&number));
    }
    let shown = if args.to.is_list() { BTreeSet::new() } else { shown(&trace, args) };
    let mut bytes = Vec::new();
    match args.to {
        Form::Csv => export::csv(&trace, &mut bytes)?,
        Form::Jsonl => export::json_lines(&trace, &mut bytes)?,
        Form::Pcapng => {
            export::pcapng(&trace, &mut bytes)?;
        }
        Form::Html => bytes = graphs::report(&trace, &title(&args.trace), &shown).into_bytes(),
        Form::Svg => return pictures(&trace, args, &shown),
    }
    match &args.output {
        Some(path) => output::write_file(path, &bytes)?,
        None => output::print_bytes(&bytes)?,
    }
    Ok(Exit::Done)
}

impl Form {
    /// Whether it is a list of entries instead of graphs.
    fn is_list(self) -> bool {
        matches!(self, Self::Csv | Self::Jsonl | Self::Pcapng)
    }
}

/// The connections whose graphs are made: the ones named, or those that lost the most time.
fn shown(trace: &Trace, args: &ConvertArgs) -> BTreeSet<usize> {
    if !args.connection.is_empty() {
        return args.connection.iter().copied().collect();
    }
    let mut worst = graphs::worst(trace);
    if !args.all && worst.len() > UNASKED {
        let all = worst.len();
        worst.truncate(UNASKED);
        let drawn = trace.connections().filter(|source| worst.contains(&source.number));
        let lost = drawn.filter(|source| !graphs::lost_time(&account(source)).is_zero()).count();
        output::say(format_args!(
            "tcplab: graphs of {} of {all} connections; --all makes those of all, --connection N,.. of those \
             you name",
            chosen(lost)
        ));
    }
    worst.into_iter().collect()
}

/// The connections with graphs in words, of which this many lost time.
fn chosen(lost: usize) -> String {
    match UNASKED - lost.min(UNASKED) {
        0 => format!("the {UNASKED} that lost most time"),
        UNASKED => format!("the {UNASKED} that sent most (none lost time)"),
        others => format!("the {lost} that lost time and the {others} others that sent most"),
    }
}

/// Writes each graph to a separate file in the named folder.
fn pictures(trace: &Trace, args: &ConvertArgs, shown: &BTreeSet<usize>) -> anyhow::Result<Exit> {
    let Some(folder) = &args.output else {
        let failure = Failure::usage("graphs as svg are several files");
        return Err(failure.remedy("name a folder: --output FOLDER").into());
    };
    output::make_folder(folder)?;
    let graphs = graphs::all(trace, shown);
    for (stem, graph) in &graphs {
        picture::write(folder, stem, graph)?;
    }
    output::say(format_args!("{} pictures in {}", graphs.len(), folder.display()));
    Ok(Exit::Done)
}

fn title(trace: &Path) -> String {
    let name = trace.file_name().unwrap_or(trace.as_os_str());
    format!("Trace {}", name.to_string_lossy())
}
