//! `tcpcat trace`: traces one connection of a running stack to a local file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ackclock::FourTuple;
use ackclock::trace::{Batch, BatchCause, Record};
use ackclock_cli::{Exit, Failure};
use ackclock_trace::file::{Origin, Writer};
use serde::Deserialize;
use serde_json::Value;

use super::Client;
use crate::args::{TraceArgs, TraceCommand};

/// Traces, ends a trace, or fetches the contents of a flight recorder.
pub(crate) fn run(args: &TraceArgs) -> Exit {
    let done = match &args.command {
        TraceCommand::On { connection, out, control } => Client::connect(control.path())
            .and_then(|client| follow(client, connection, out.as_deref().unwrap_or(&named(connection)))),
        TraceCommand::Off { connection, control } => Client::connect(control.path())
            .and_then(|mut client| client.ask_for_any("trace-off", Some(connection)).map(drop)),
        TraceCommand::Dump { connection, out, control } => Client::connect(control.path())
            .and_then(|client| dump(client, connection, out.as_deref().unwrap_or(&named(connection)))),
    };
    match done {
        Ok(()) => Exit::Done,
        Err(failure) => {
            say!("tcpcat: {failure}");
            failure.exit()
        }
    }
}

fn named(connection: &str) -> PathBuf {
    PathBuf::from(format!("connection-{connection}.trace"))
}

/// Writes everything the connection does until it ends, its trace is switched off, or this program is
/// interrupted. All that was written by then can be read.
fn follow(mut client: Client, connection: &str, path: &Path) -> Result<(), Failure> {
    client.ask_for_any("trace-on", Some(connection))?;
    client.be_patient()?;
    let mut file = TraceFile::create(path)?;
    say!("tcpcat: connection {connection} is traced to {} until it ends, or Ctrl-C", path.display());
    loop {
        let answer = client.next()?;
        match answer["answer"].as_str() {
            Some("trace") => file.add(answer)?,
            Some("trace-end") => break,
            _ => {}
        }
    }
    say!("tcpcat: {} records are in {}", file.records, path.display());
    Ok(())
}

fn dump(mut client: Client, connection: &str, path: &Path) -> Result<(), Failure> {
    let answer = client.ask_for_any("dump", Some(connection))?;
    let mut file = TraceFile::create(path)?;
    file.add(answer)?;
    say!("tcpcat: what connection {connection} did last is in {}: {} records", path.display(), file.records);
    Ok(())
}

struct TraceFile {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
    words: BTreeSet<&'static str>,
    records: usize,
}

/// Records as a control socket sends them.
#[derive(Debug, Deserialize)]
struct Told {
    connection: String,
    local: SocketAddr,
    remote: SocketAddr,
    profile: String,
    congestion: String,
    names: Vec<String>,
    missed: u64,
    cause: String,
    records: String,
}

impl TraceFile {
    fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::file("write the trace to", path, &error);
        let origin = Origin {
            program: concat!("tcpcat ", env!("CARGO_PKG_VERSION")).to_owned(),
            // The time of the other program's clock.
            epoch_unix_nanos: None,
        };
        let file = BufWriter::new(File::create(path).map_err(failed)?);
        let writer = Writer::new(file, &origin).map_err(failed)?;
        Ok(Self { path: path.to_owned(), writer, words: BTreeSet::new(), records: 0 })
    }

    fn add(&mut self, answer: Value) -> Result<(), Failure> {
        let wrong =
            |why: String| Failure::new(Exit::Failed, format!("the stack's records cannot be read: {why}"));
        let told: Told = serde_json::from_value(answer).map_err(|error| wrong(error.to_string()))?;
        let records = decoded(&told.records).ok_or_else(|| wrong("they are cut short".to_owned()))?;
        self.records += records.len();
        let number = told.connection.rsplit('.').next().and_then(|number| number.parse().ok());
        let batch = Batch {
            connection: number.unwrap_or_default(),
            tuple: FourTuple::new(told.local, told.remote),
            profile: self.kept(told.profile),
            congestion: self.kept(told.congestion),
            names: told.names.into_iter().map(|name| self.kept(name)).collect(),
            records,
            missed: told.missed,
            cause: BatchCause::ALL
                .iter()
                .copied()
                .find(|cause| cause.name() == told.cause)
                .unwrap_or(BatchCause::Requested),
        };
        self.writer
            .batch("", &batch)
            .and_then(|()| self.writer.flush())
            .map_err(|error| Failure::file("write the trace to", &self.path, &error))
    }

    /// Names of profiles and controllers as `'static` strings: there are few, and each is leaked once.
    fn kept(&mut self, word: String) -> &'static str {
        if let Some(kept) = self.words.get(word.as_str()) {
            return kept;
        }
        let kept: &'static str = Box::leak(word.into_boxed_str());
        self.words.insert(kept);
        kept
    }
}

/// Decodes records from hexadecimal.
fn decoded(digits: &str) -> Option<Vec<Record>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> =
        digits.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect();
    let bytes = bytes?;
    let records = bytes.chunks(Record::LEN).map(|record| Some(Record::from_bytes(record.try_into().ok()?)));
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_from_their_digits_or_not_at_all() {
        let digits = "000102030405060708090a0b0c0d0e0f";
        let record = Record::from_bytes(std::array::from_fn(|at| u8::try_from(at).unwrap()));
        assert_eq!(decoded(&digits.repeat(2)), Some(vec![record; 2]));
        for wrong in [&digits[..31], &digits[..30], "0g"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
