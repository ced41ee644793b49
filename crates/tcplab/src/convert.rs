//! `tcplab convert`: a trace as something that other programs read.

use std::path::{Path, PathBuf};

use ackclock_trace::chart::{self, Figure};
use ackclock_trace::file::Trace;
use ackclock_trace::{export, graphs};

use crate::exit::{Exit, Failure};
use crate::{explain, output};

/// Options of `tcplab convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Trace, as --trace of tcpcat and of `tcplab run` writes it
    trace: PathBuf,
    /// What it is to become
    #[arg(long, value_enum)]
    to: Form,
    /// Only the connection of this number in the list of `tcplab explain`, and the queues
    #[arg(long, value_name = "N")]
    connection: Option<usize>,
    /// File to write, stdout if none is named; for svg and png, the folder of the pictures
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
    /// One page with graphs that can be zoomed and tell their values; it needs nothing else
    Html,
    /// A picture of each graph
    Svg,
    /// The same, as pixels
    Png,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut trace = explain::open(&args.trace)?;
    if let Some(number) = args.connection
        && !trace.keep_connection(number)
    {
        return Err(explain::no_such(number, &trace).into());
    }
    let mut bytes = Vec::new();
    match args.to {
        Form::Csv => export::csv(&trace, &mut bytes)?,
        Form::Jsonl => export::json_lines(&trace, &mut bytes)?,
        Form::Pcapng => {
            export::pcapng(&trace, &mut bytes)?;
        }
        Form::Html => bytes = graphs::report(&trace, &title(&args.trace)).into_bytes(),
        Form::Svg => return pictures(&trace, args, "svg", |graph| Ok(chart::svg(graph).into_bytes())),
        Form::Png => return pictures(&trace, args, "png", |graph| Ok(chart::png(graph)?)),
    }
    match &args.output {
        Some(path) => output::write_file(path, &bytes)?,
        None => output::print_bytes(&bytes)?,
    }
    Ok(Exit::Done)
}

/// Each graph as a file of its own, in the folder that is named.
fn pictures(
    trace: &Trace,
    args: &Args,
    ending: &str,
    draw: impl Fn(&Figure) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Exit> {
    let Some(folder) = &args.output else {
        let failure = Failure::usage(format!("graphs as {ending} are several files"));
        return Err(failure.remedy("name a folder for them: --output FOLDER").into());
    };
    output::make_folder(folder)?;
    let graphs = graphs::all(trace);
    for (stem, graph) in &graphs {
        output::write_file(&folder.join(format!("{stem}.{ending}")), &draw(graph)?)?;
    }
    output::say(&format!("{} pictures in {}", graphs.len(), folder.display()));
    Ok(Exit::Done)
}

fn title(trace: &Path) -> String {
    let name = trace.file_name().unwrap_or(trace.as_os_str());
    format!("Trace {}", name.to_string_lossy())
}
