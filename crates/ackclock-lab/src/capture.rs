//! A capture, explained.

mod example;

use std::net::SocketAddr;
use std::path::Path;

use ackclock_assess::capture::{Reading, Vantage};
use ackclock_assess::{
    EstimateRow, Estimator, Side, StartUp, TimeoutRow, Transfer, timeouts, traced, transfers,
};
use ackclock_chart::{Figure, data};
use ackclock_control::rtt::presets;
use ackclock_trace::file::{MAGIC, Source, Trace, TracedSource};
use ackclock_trace::{explain, graphs};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use self::example::lossy_upload;

/// The file that comes, and the one that came last.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    coming: Option<Coming>,
    last: Option<Explained>,
}

/// A file that is coming.
#[derive(Debug)]
struct Coming {
    name: String,
    length: u64,
    read: u64,
    /// The first bytes, until they show what the file is; those of a trace until its end.
    held: Vec<u8>,
    capture: Option<Reading>,
}

/// A file that was read.
#[derive(Debug)]
struct Explained {
    trace: Trace,
    /// The numbers of its connections, in the order of the table.
    order: Vec<usize>,
    /// Of a capture, what can be assessed.
    transfers: Vec<Transfer>,
}

/// A connection, as a page shows it.
#[derive(Debug, Serialize)]
struct Shown {
    index: usize,
    title: String,
    captured: bool,
    lost_seconds: f64,
    sentences: Vec<String>,
    figures: Vec<Drawn>,
    assessed: Value,
}

/// A figure, which may be some megabytes: it is not read again.
#[derive(Debug, Serialize)]
struct Drawn {
    over_time: bool,
    data: Box<RawValue>,
}

impl Drawn {
    fn new((over_time, figure): (bool, Figure)) -> Option<Self> {
        // This cannot fail: it was made as JSON.
        Some(Self { over_time, data: RawValue::from_string(data(&figure)).ok()? })
    }
}

impl Captures {
    /// A file of this name and length in bytes follows: a capture, or a trace.
    pub fn begin(&mut self, name: String, length: u64) -> Result<Value, String> {
        self.last = None;
        let about = json!({ "name": name, "length": length });
        self.coming = Some(Coming { name, length, read: 0, held: Vec::new(), capture: None });
        Ok(about)
    }

    /// The next bytes of it.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Value, String> {
        let coming = self.coming.as_mut().ok_or(NOT_BEGUN)?;
        if let Err(error) = coming.push(chunk) {
            self.coming = None;
            return Err(error);
        }
        let (frames, segments) = coming.capture.as_ref().map_or((0, 0), Reading::counted);
        Ok(json!({ "read": coming.read, "length": coming.length, "frames": frames, "segments": segments }))
    }

    /// The table of its connections.
    pub fn end(&mut self) -> Result<Value, String> {
        let coming = self.coming.take().ok_or(NOT_BEGUN)?;
        let (name, bytes) = (coming.name.clone(), coming.read);
        let (explained, remarks, segments) = coming.end()?;
        let rows: Vec<Vec<String>> = explained.sources().map(graphs::row).collect();
        if rows.is_empty() {
            let why = if remarks.is_empty() { String::new() } else { format!(": {}", remarks.join("; ")) };
            return Err(format!(
                "{name} shows no TCP connection that carried data{why}. Capture with `tcpdump -s 128 -w FILE \
                 tcp` while data flows."
            ));
        }
        let answer = json!({
            "name": name, "bytes": bytes, "segments": segments, "remarks": remarks,
            "head": graphs::HEAD, "rows": rows,
        });
        self.last = Some(explained);
        Ok(answer)
    }

    /// The answer for a capture that is made here, for a reader without one.
    pub fn example(&mut self) -> Result<Value, String> {
        let bytes = example::capture()?;
        self.begin("example.pcapng".to_owned(), bytes.len() as u64)?;
        self.push(&bytes)?;
        self.end()
    }

    /// The connection in this row of the table, as JSON.
    pub fn connection(&self, index: usize) -> Result<String, String> {
        let (explained, source) = self.row(index)?;
        let account = explain::account(source);
        let shown = Shown {
            index,
            title: source.source.to_string(),
            captured: source.source.is_captured(),
            lost_seconds: graphs::lost_time(&account).as_secs_f64(),
            sentences: explain::sentences(source),
            figures: graphs::of_source(&explained.trace, source).into_iter().filter_map(Drawn::new).collect(),
            assessed: explained.assessed(source),
        };
        serde_json::to_string(&shown).map_err(|error| error.to_string())
    }

    /// The sentences on the data with this byte; the first is 1.
    pub fn byte(&self, index: usize, byte: u64) -> Result<Value, String> {
        let (_, source) = self.row(index)?;
        // A trace has 32 bits of the number.
        let said = explain::byte_sentences(source, (byte & u64::from(u32::MAX)) as u32);
        if said.is_empty() {
            return Err(format!("byte {byte} was not sent; the first byte of a connection is 1"));
        }
        Ok(json!({ "sentences": said }))
    }

    fn row(&self, index: usize) -> Result<(&Explained, &TracedSource), String> {
        let explained = self.last.as_ref().ok_or("no capture was read; choose a file first")?;
        let count = explained.order.len();
        let source = explained.sources().nth(index);
        let source = source.ok_or_else(|| format!("there is no row {index}; the table has {count} rows"))?;
        Ok((explained, source))
    }
}

impl Coming {
    fn push(&mut self, chunk: &[u8]) -> Result<(), String> {
        self.read += chunk.len() as u64;
        if let Some(reading) = &mut self.capture {
            return reading.push(chunk).map_err(|why| format!("{} {why}", self.name));
        }
        self.held.extend_from_slice(chunk);
        if self.held.len() >= MAGIC.len() && !self.held.starts_with(MAGIC) {
            self.open()?;
        }
        Ok(())
    }

    /// Takes the file for a capture.
    fn open(&mut self) -> Result<(), String> {
        let mut reading = Reading::new(0, Path::new(&self.name));
        reading.push(&std::mem::take(&mut self.held)).map_err(|why| format!("{} {why}", self.name))?;
        self.capture = Some(reading);
        Ok(())
    }

    /// The contents of the file, the parts left out, and, of a capture, its number of segments.
    fn end(mut self) -> Result<(Explained, Vec<String>, Option<u64>), String> {
        if self.capture.is_none() && self.held.starts_with(MAGIC) {
            let trace = Trace::read(&self.held[..]).map_err(|why| format!("{}: {why}", self.name))?;
            let damage = trace.damage.iter().map(|damage| format!("{} is {damage}", self.name)).collect();
            return Ok((Explained::new(trace, &[]), damage, None));
        }
        if self.capture.is_none() {
            self.open()?;
        }
        let Some(reading) = self.capture else { return Err(NOT_BEGUN.to_owned()) };
        let (report, vantages) = reading.finish().map_err(|why| format!("{} {why}", self.name))?;
        let trace = traced(&vantages, PROGRAM);
        Ok((Explained::new(trace, &vantages), report.remarks(), Some(report.segments)))
    }
}

impl Explained {
    fn new(trace: Trace, vantages: &[Vantage]) -> Self {
        let order = graphs::worst(&trace);
        let (transfers, _) = transfers(vantages, Side::Guess);
        Self { trace, order, transfers }
    }

    fn sources(&self) -> impl Iterator<Item = &TracedSource> {
        self.order.iter().filter_map(|number| self.trace.sources.iter().find(|one| one.number == *number))
    }

    /// Allman and Paxson's assessments of a captured connection, or why there are none.
    fn assessed(&self, source: &TracedSource) -> Value {
        let Source::Connection { local, remote, captured: true, .. } = &source.source else {
            return json!({ "why_not": "A trace of a stack needs no estimate of what its timer did." });
        };
        let Some(transfer) = self.transfer(*local, *remote, source) else {
            let why = "The capture does not show enough of this direction: it was taken at the receiver, \
                       lacks packets, or the other direction carried more data.";
            return json!({ "why_not": why });
        };
        let one = std::slice::from_ref(transfer);
        let mut rto: Vec<Vec<String>> = presets::all()
            .map(|preset| TimeoutRow::new(&preset, &timeouts(one, &preset, None)))
            .map(|row| row.cells(false))
            .collect();
        // Those that would have waited in vain come last, as they are most.
        rto.sort_by_key(|cells| cells.get(1).is_some_and(|count| count == "0"));
        let start = match StartUp::new(transfer) {
            Ok(start_up) => {
                let row = |estimator: Estimator| {
                    EstimateRow::new(estimator, &estimator.regions(std::slice::from_ref(&start_up)))
                };
                let rows: Vec<EstimateRow> = Estimator::of_the_paper().into_iter().map(row).collect();
                let loss = start_up.loss_point.is_some();
                let (head, cells): (Vec<&str>, Vec<Vec<String>>) = if loss {
                    (EstimateRow::LOSS_HEAD.into(), rows.iter().map(|row| row.loss_cells(true)).collect())
                } else {
                    let cells = rows.iter().map(|row| row.lossless_cells(true));
                    (EstimateRow::LOSSLESS_HEAD.into(), cells.collect())
                };
                json!({ "head": head, "rows": cells })
            }
            Err(unfit) => {
                json!({ "why_not": format!("Its start is not assessed, like that of connections that {}.", unfit.in_words()) })
            }
        };
        json!({ "rto": { "head": TimeoutRow::head(false, false), "rows": rto }, "ssthresh": start })
    }

    /// The transfer that a source is a trace of. Of several between the same ends, the one that began last
    /// before it ended.
    fn transfer(&self, local: SocketAddr, remote: SocketAddr, source: &TracedSource) -> Option<&Transfer> {
        let same = |other: &&TracedSource| matches!(&other.source, Source::Connection { local: from, remote: to, .. } if (*from, *to) == (local, remote));
        let nth = self.trace.connections().filter(same).position(|other| other.number == source.number)?;
        let mut between: Vec<&Transfer> =
            self.transfers.iter().filter(|one| (one.from, one.to) == (local, remote)).collect();
        between.sort_by_key(|one| one.began);
        // One that is left out would shift the others: then none is shown rather than a wrong one.
        let count = self.trace.connections().filter(same).count();
        if between.len() == count { between.get(nth).copied() } else { None }
    }
}

const NOT_BEGUN: &str = "no capture has begun; ask `capture-begin` first";
const PROGRAM: &str = concat!("ackclock-lab ", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
