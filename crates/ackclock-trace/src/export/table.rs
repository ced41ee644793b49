//! Tables: CSV and JSON lines.

use std::io::{self, Write};

use ackclock_core::Instant;
use ackclock_core::trace::Entry;
use serde_json::{Map, json};

use super::fields::{Value, fields};
use crate::file::Trace;

/// The columns of [`csv`], after time, source and entry.
pub const COLUMNS: [&str; 25] = [
    "what",
    "flags",
    "seq",
    "end",
    "len",
    "ack",
    "window",
    "cwnd",
    "ssthresh",
    "in_flight",
    "unsent",
    "queued",
    "waiting",
    "rtt_us",
    "srtt_us",
    "rttvar_us",
    "rto_us",
    "in_us",
    "late_us",
    "for_us",
    "count",
    "value",
    "packets",
    "bytes",
    "from_to",
];

/// Writes all entries in order of time as CSV (RFC 4180): time in seconds, the source, the kind, and the
/// columns of [`COLUMNS`]. Columns that an entry lacks are empty.
///
/// # Errors
/// Those of the writer.
pub fn csv(trace: &Trace, into: &mut impl Write) -> io::Result<()> {
    writeln!(into, "time,source,entry,{}", COLUMNS.join(","))?;
    for (place, at, entry) in in_order(trace) {
        let source = &trace.sources[place].source;
        let (kind, values) = fields(source, entry);
        write!(into, "{},{},{kind}", seconds(at), quoted(&source.to_string()))?;
        let mut cells: [String; COLUMNS.len()] = Default::default();
        for (name, value) in values {
            let text = match value {
                Value::Number(number) => number.to_string(),
                Value::Text(text) => text,
            };
            match COLUMNS.iter().position(|column| *column == name) {
                Some(column) => cells[column] = quoted(&text),
                // Both states share the last column.
                None if name == "to" => cells[COLUMNS.len() - 1] += &format!(" > {text}"),
                None => cells[COLUMNS.len() - 1] = text,
            }
        }
        writeln!(into, ",{}", cells.join(","))?;
    }
    Ok(())
}

/// Writes all entries in order of time as JSON, one object a line: `time` in seconds, `source`, `entry`, and
/// the entry's values. The first lines give the file's origin and its sources.
///
/// # Errors
/// Those of the writer.
pub fn json_lines(trace: &Trace, into: &mut impl Write) -> io::Result<()> {
    writeln!(into, "{}", json!({ "origin": trace.origin }))?;
    for (place, source) in trace.sources.iter().enumerate() {
        let told = json!({
            "source": place, "is": source.source, "missed": source.missed, "unknown": source.unknown,
            "left": source.cause.map(|cause| cause.name()),
        });
        writeln!(into, "{told}")?;
    }
    if let Some(damage) = &trace.damage {
        writeln!(into, "{}", json!({ "damage": damage.to_string() }))?;
    }
    for (place, at, entry) in in_order(trace) {
        let (kind, values) = fields(&trace.sources[place].source, entry);
        let mut object = Map::new();
        object.insert("time".into(), json!(at.as_nanos() as f64 / 1e9));
        object.insert("source".into(), json!(place));
        object.insert("entry".into(), json!(kind));
        for (name, value) in values {
            let value = match value {
                Value::Number(number) => json!(number),
                Value::Text(text) => json!(text),
            };
            object.insert(name.into(), value);
        }
        serde_json::to_writer(&mut *into, &object)?;
        into.write_all(b"\n")?;
    }
    Ok(())
}

/// Every entry with the index of its source, by time. Entries of one source keep their order.
pub(crate) fn in_order(trace: &Trace) -> Vec<(usize, Instant, &Entry)> {
    let sources = trace.sources.iter().enumerate();
    let mut all: Vec<_> = sources
        .flat_map(|(place, source)| source.entries.iter().map(move |(at, entry)| (place, *at, entry)))
        .collect();
    all.sort_by_key(|&(_, at, _)| at);
    all
}

fn seconds(at: Instant) -> String {
    let nanos = at.as_nanos();
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
