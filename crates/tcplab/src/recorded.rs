//! Files, remarks and output, which the assessments of captures share.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;

use ackclock_cli::output::Described;
use ackclock_cli::{Exit, Failure, output, table};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use ackclock_assess::capture::{self, FileReport, Vantage};
use ackclock_assess::{Doubt, LeftOut, Side, Transfer, Unfit};

/// The captures, and the form of the results.
#[derive(Debug, clap::Args)]
pub(crate) struct Inputs {
    /// Captures, pcap or pcapng; two that show both ends of a connection, or two interfaces of one that do,
    /// are paired
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The end of the transfers at which the captures were taken
    #[arg(long, value_parser = side(), default_value = Side::default().name())]
    pub(crate) side: Side,
    /// Show each connection (rto: also each timeout of its sender)
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print tables as comma-separated values
    #[arg(long)]
    pub(crate) csv: bool,
    /// Write everything to this file as JSON; - is stdout, in place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The contents of the captures.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    /// The files, in order.
    files: Vec<FileReport>,
    /// Their connections, once for each place where they were seen.
    pub(crate) vantages: Vec<Vantage>,
}

/// An assessed connection.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Connection {
    from: SocketAddr,
    to: SocketAddr,
    bytes: u64,
    mss: u32,
    rtt_min_seconds: Option<f64>,
    both_sides: bool,
    retransmissions: u32,
    unavoidable_timeouts: u32,
    avoidable_timeouts: u32,
    /// Tail loss probes that retransmitted, which the timeouts leave out.
    tail_loss_probes: u32,
    doubts: Vec<Doubt>,
}

/// The captures that were read, and the parts of them that are not assessed.
#[derive(Debug, Serialize)]
pub(crate) struct Remarks {
    files: Vec<FileReport>,
    /// Assessed connections, and those of them with captures of both ends.
    assessed: usize,
    both_sides: usize,
    left_out: BTreeMap<LeftOut, usize>,
    unfit: BTreeMap<Unfit, usize>,
    doubts: BTreeMap<Doubt, usize>,
}

impl Inputs {
    /// Reads the captures.
    ///
    /// # Errors
    /// A file cannot be opened or is not a capture, or `--side both` has other than two files.
    pub fn open(&self) -> anyhow::Result<Captures> {
        if self.side == Side::Both && self.files.len() != 2 {
            let message = format!("--side both takes two files; {} were given", self.files.len());
            let remedy = "name the sender's capture first, then the receiver's";
            return Err(Failure::usage(message).remedy(remedy).into());
        }
        let read = self.files.iter().map(|file| ("", Some(file.as_path())));
        output::distinct(&read.chain([("--json", self.json.as_deref())]).collect::<Vec<_>>())?;
        Ok(Captures::read(&self.files)?)
    }

    /// Prints the results for people, unless stdout is for programs.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        output::print_beside(self.json.as_ref(), text)
    }

    /// Writes the results where requested.
    pub fn write_json(&self, report: &impl Serialize) -> Result<(), Failure> {
        self.json.as_ref().map_or(Ok(()), |file| Described::new(report).write(file))
    }
}

impl Captures {
    /// Reads these files.
    ///
    /// # Errors
    /// A file cannot be opened or is not a capture. Later damage is in its report.
    fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut captures = Self::default();
        for (number, path) in paths.iter().enumerate() {
            let input = File::open(path).map_err(|error| Failure::file("open", path, &error))?;
            let (report, vantages) = capture::read_one(number, path, input)
                .map_err(|why| Failure::usage(format!("{} {why}", path.display())))?;
            captures.files.push(report);
            captures.vantages.extend(vantages);
        }
        Ok(captures)
    }
}

impl Connection {
    pub(crate) fn new(transfer: &Transfer) -> Self {
        let replay = &transfer.replay;
        Self {
            from: transfer.from,
            to: transfer.to,
            bytes: transfer.bytes(),
            mss: transfer.mss(),
            rtt_min_seconds: replay.rtt_min.map(|rtt| rtt.as_secs_f64()),
            both_sides: transfer.both_ends(),
            retransmissions: replay.retransmissions,
            unavoidable_timeouts: replay.timeouts,
            avoidable_timeouts: replay.avoidable,
            tail_loss_probes: replay.probes,
            doubts: transfer.doubts.clone(),
        }
    }

    /// A one-line description.
    pub(crate) fn in_words(&self) -> String {
        let rtt =
            self.rtt_min_seconds.map_or_else(|| "?".to_owned(), |rtt| format!("{:.3} ms", rtt * 1000.0));
        let ends = if self.both_sides { "both ends" } else { "the sender's end" };
        let Self { from, to, bytes, mss, retransmissions, unavoidable_timeouts, avoidable_timeouts, .. } =
            self;
        format!(
            "{from} -> {to}: {bytes} bytes in segments of {mss}, smallest round trip {rtt}, \
             {retransmissions} sent again, {unavoidable_timeouts} timeouts, {avoidable_timeouts} avoidable \
             ones, {} tail loss probes; seen at {ends}",
            self.tail_loss_probes
        )
    }
}

impl Remarks {
    pub fn new(
        captures: &Captures,
        assessed: &[&Transfer],
        left_out: &[(SocketAddr, SocketAddr, LeftOut)],
        unfit: &[Unfit],
    ) -> Self {
        let doubts = assessed.iter().flat_map(|transfer| transfer.doubts.iter().copied());
        Self {
            files: captures.files.clone(),
            assessed: assessed.len(),
            both_sides: assessed.iter().filter(|transfer| transfer.both_ends()).count(),
            left_out: counted(left_out.iter().map(|(.., why)| *why)),
            unfit: counted(unfit.iter().copied()),
            doubts: counted(doubts),
        }
    }

    /// Prints all remarks, and the number of connections.
    pub fn say(&self) {
        self.files
            .iter()
            .flat_map(FileReport::remarks)
            .for_each(|line| output::say(format_args!("tcplab: {line}")));
        let left_out = self.left_out.iter().map(|(why, count)| (count, why.in_words()));
        let unfit = self.unfit.iter().map(|(why, count)| (count, why.in_words()));
        for (count, why) in left_out.chain(unfit) {
            output::say(format_args!("tcplab: connections left out: {count} (they {why})"));
        }
        for (doubt, count) in &self.doubts {
            output::say(format_args!(
                "tcplab: connections assessed in doubt: {count} ({})",
                doubt.in_words()
            ));
        }
        let segments: u64 = self.files.iter().map(|file| file.segments).sum();
        output::say(format_args!(
            "tcplab: connections assessed: {}, from both ends: {}; files: {}, segments: {segments}",
            self.assessed,
            self.both_sides,
            self.files.len()
        ));
    }

    /// An assessment of nothing is a failure.
    pub fn exit(&self) -> anyhow::Result<Exit> {
        if self.assessed > 0 {
            return Ok(Exit::Done);
        }
        Err(anyhow::anyhow!(
            "no connection can be assessed; the lines above say why, or the captures hold none"
        ))
    }
}

/// A side by its name.
fn side() -> impl TypedValueParser<Value = Side> {
    let all = Side::ALL.map(|side| PossibleValue::new(side.name()).help(side.in_words()));
    PossibleValuesParser::new(all)
        .map(|name| Side::ALL.into_iter().find(|side| side.name() == name).unwrap_or_default())
}

/// A table for people, or for programs.
pub(crate) fn table_of(head: &[&str], rows: &[Vec<String>], csv: bool) -> String {
    if csv { self::csv(head, rows) } else { table::columns(head, rows) }
}

/// Comma-separated values (RFC 4180), with a line of names.
fn csv(head: &[&str], rows: &[Vec<String>]) -> String {
    let quoted = |cell: &str| {
        if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
    };
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let head = line(head.iter().map(|cell| quoted(cell)).collect());
    let rows = rows.iter().map(|row| line(row.iter().map(|cell| quoted(cell)).collect()));
    head + &rows.collect::<String>()
}

fn counted<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}
