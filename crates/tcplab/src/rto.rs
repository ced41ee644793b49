//! `tcplab rto`: how the estimators of the retransmission timeout would have done on captured connections.

use ackclock_cli::{Exit, Failure, table};
use ackclock_control::assess::timeouts::Timeouts;
use ackclock_control::rtt::presets::{self, Preset};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::Serialize;

use crate::recorded::{self, Inputs, Remarks};
use ackclock_assess::{TimedClass, TimedRetransmission, TimeoutRow as Row, Transfer, timeouts, transfers};

/// Options of `tcplab rto`.
#[derive(Debug, clap::Args)]
pub(crate) struct RtoArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Estimators by name, separated by commas; `tcpcat profiles` lists them [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    preset: Vec<String>,
    /// Do not count a bad timeout if an acknowledgement follows it within this many quarters of the smallest
    /// round trip (Allman and Paxson, section 2.8: 2 or 3)
    #[arg(long, value_name = "QUARTERS", value_parser = clap::value_parser!(u8).range(1..=4))]
    undo: Option<u8>,
}

/// A connection, and each estimator's results on it.
#[derive(Debug, Serialize)]
struct Connection {
    #[serde(flatten)]
    about: recorded::Connection,
    /// The segments that the sender's timers retransmitted.
    timed_retransmissions: Vec<Timed>,
    presets: Vec<Row>,
}

/// A timeout or tail loss probe of the sender.
#[derive(Debug, Serialize)]
struct Timed {
    /// Since the connection's first packet.
    seconds: f64,
    /// Of its first byte; the first byte of the connection is 1.
    sequence: u64,
    class: TimedClass,
}

/// All results, for programs.
#[derive(Debug, Serialize)]
struct RtoReport {
    #[serde(flatten)]
    remarks: Remarks,
    undo_quarters: Option<u8>,
    presets: Vec<Row>,
    connections: Vec<Connection>,
}

pub(crate) fn run(args: &RtoArgs) -> anyhow::Result<Exit> {
    let chosen = chosen(&args.preset)?;
    let captures = args.inputs.open()?;
    let (transfers, left_out) = transfers(&captures.vantages, args.inputs.side);
    let remarks = Remarks::new(&captures, &transfers.iter().collect::<Vec<_>>(), &left_out, &[]);
    let on_each: Vec<Vec<Timeouts>> =
        chosen.par_iter().map(|preset| timeouts(&transfers, preset, args.undo)).collect();
    let rows: Vec<Row> = chosen.iter().zip(&on_each).map(|(preset, each)| Row::new(preset, each)).collect();
    let connections = transfers.iter().enumerate().map(|(number, transfer)| Connection {
        about: recorded::Connection::new(transfer),
        timed_retransmissions: transfer.replay.timed.iter().map(|one| Timed::new(transfer, one)).collect(),
        presets: chosen
            .iter()
            .zip(&on_each)
            .map(|(preset, each)| Row::new(preset, &each[number..=number]))
            .collect(),
    });
    let report =
        RtoReport { remarks, undo_quarters: args.undo, presets: rows, connections: connections.collect() };

    report.remarks.say();
    if args.inputs.verbose {
        args.inputs.print(&report.detail())?;
    }
    args.inputs.print(&table_text(&report.presets, args.inputs.csv, args.undo.is_some()))?;
    args.inputs.write_json(&report)?;
    report.remarks.exit()
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Preset>> {
    if names.is_empty() {
        return Ok(presets::all().collect());
    }
    let found = names
        .iter()
        .map(|name| presets::find(name.trim()).map_err(|error| Failure::usage(error.to_string())));
    Ok(found.collect::<Result<_, _>>()?)
}

impl Timed {
    fn new(transfer: &Transfer, one: &TimedRetransmission) -> Self {
        let seconds = one.at.saturating_sub(transfer.began) as f64 / 1e9;
        Self { seconds, sequence: one.from + 1, class: one.class }
    }

    fn cells(&self) -> Vec<String> {
        vec![format!("{:.6}", self.seconds), self.sequence.to_string(), self.class.in_words().to_owned()]
    }
}

fn table_text(rows: &[Row], csv: bool, undo: bool) -> String {
    let head = Row::head(csv, undo);
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.cells(undo)).collect();
    let table = recorded::table_of(&head, &rows, csv);
    if csv { table } else { format!("{table}\n{}", Row::LEGEND) }
}

impl RtoReport {
    /// Each connection, with its sender's timeouts and the estimators that had one there.
    fn detail(&self) -> String {
        let mut text = String::new();
        for connection in &self.connections {
            text += &format!("{}\n", connection.about.in_words());
            let timed: Vec<Vec<String>> = connection.timed_retransmissions.iter().map(Timed::cells).collect();
            if !timed.is_empty() {
                text += &table::columns(&["time (s)", "sequence", "of the sender"], &timed);
            }
            let any = connection.presets.iter().filter(|row| row.timeouts + row.undone > 0);
            let rows: Vec<Vec<String>> = any.map(|row| row.cells(false)).collect();
            if !rows.is_empty() {
                text += &table::columns(&Row::head(false, false), &rows);
            }
            text.push('\n');
        }
        text
    }
}
