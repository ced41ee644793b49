//! `--trace` and `--flight-recorder`: what the stack's connections write down goes to a file, on a thread of its own.
//!
//! A file that cannot be written any more (a full disk) ends the trace, never the transfer.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use ackclock::Stack;
use ackclock::trace::{Batch, TraceConfig, TraceKeep};
use ackclock_trace::file::{Origin, Writer};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::args::ObserveArgs;
use crate::exit::{Exit, Failure};

/// Where the newest records go, and how many are kept of each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlightRecorder {
    path: PathBuf,
    records: usize,
}

/// A trace that is to be written.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) config: TraceConfig,
    path: PathBuf,
    file: File,
}

/// A trace that is being written.
#[derive(Debug)]
pub(crate) struct Recorder {
    stack: Stack,
    path: PathBuf,
    flight: bool,
    writing: JoinHandle<Written>,
    requests: JoinHandle<()>,
    /// Has the writer end with what is there now.
    end: oneshot::Sender<()>,
}

/// What has been written.
#[derive(Debug, Default)]
struct Written {
    batches: u64,
    records: u64,
    /// Records that there were and that are not in the file.
    missing: u64,
    /// Why nothing more was written.
    stopped: Option<io::Error>,
}

impl Wanted {
    /// What the flags ask for; the file is made anew.
    pub(crate) fn create(args: &ObserveArgs) -> Result<Option<Self>, Failure> {
        let (path, config) = match (&args.trace, &args.flight_recorder) {
            (Some(path), _) => (path, TraceConfig::FULL),
            (None, Some(flight)) => {
                (&flight.path, TraceConfig { records: flight.records, keep: TraceKeep::Newest })
            }
            (None, None) => return Ok(None),
        };
        let file = File::create(path).map_err(|error| Failure::file("write the trace to", path, &error))?;
        Ok(Some(Self { config, path: path.clone(), file }))
    }

    /// Writes the file's beginning, then all that `stack` gives out until it is down. Must be called within a tokio
    /// runtime.
    pub(crate) fn start(self, stack: &Stack) -> Result<Recorder, Failure> {
        let Self { config, path, file } = self;
        let origin = Origin {
            program: concat!("tcpcat ", env!("CARGO_PKG_VERSION")).to_owned(),
            epoch_unix_nanos: epoch(stack),
        };
        let begun = Writer::new(BufWriter::with_capacity(BUFFER, file), &origin).and_then(|mut writer| {
            writer.flush()?;
            Ok(writer)
        });
        let writer = begun.map_err(|error| Failure::file("write the trace to", &path, &error))?;
        let requests = signal(SignalKind::user_defined1())
            .map_err(|error| Failure::new(Exit::Failed, format!("SIGUSR1 cannot be taken: {error}")))?;
        let (source, asked) = (stack.clone(), stack.clone());
        let runtime = Handle::current();
        let (end, ended) = oneshot::channel();
        let writing = tokio::task::spawn_blocking(move || runtime.block_on(write_all(writer, source, ended)));
        let requests = tokio::spawn(async move {
            let mut requests = requests;
            while requests.recv().await.is_some() {
                asked.request_traces();
            }
        });
        let flight = config.keep == TraceKeep::Newest;
        Ok(Recorder { stack: stack.clone(), path, flight, writing, requests, end })
    }
}

impl Recorder {
    /// Waits until all is written that there is by now, and says what is in the file and what is not.
    pub(crate) async fn finish(self, verbose: bool) {
        self.requests.abort();
        if !self.flight {
            // Of connections that have not finished in time.
            self.stack.request_traces();
        }
        // It has ended by itself if the stack is down.
        let _ = self.end.send(());
        let path = self.path.display();
        let Ok(written) = self.writing.await else {
            return say!("tcpcat: the trace in {path} is incomplete: what wrote it has failed");
        };
        let Written { batches, records, stopped, .. } = written;
        let missing = written.missing + self.stack.counters().trace_records_dropped;
        match stopped {
            Some(why) => say!(
                "tcpcat: the trace in {path} ends after {records} records, {missing} are missing: {why}\n  \
                 to mend it: make room (df -h {path}) and start anew"
            ),
            None if missing > 0 && !self.flight => {
                say!("tcpcat: the trace in {path} lacks {missing} records: writing it was too slow")
            }
            None if self.flight && batches > 0 => {
                say!("tcpcat: what connections did last is in {path}: {records} records")
            }
            None if verbose => say!("tcpcat: {records} records are in {path}"),
            None => {}
        }
    }
}

/// Writes until the stack is down, or there is no more and `ended`. What cannot be written is fetched none the less, and
/// counted.
async fn write_all(
    mut writer: Writer<BufWriter<File>>,
    stack: Stack,
    mut ended: oneshot::Receiver<()>,
) -> Written {
    let mut written = Written::default();
    let mut next = async || {
        tokio::select! {
            biased;
            batch = stack.next_trace() => batch,
            _ = &mut ended => None,
        }
    };
    while let Some(batch) = next().await {
        let records = batch.records.len() as u64;
        if written.stopped.is_none() {
            written.stopped = write(&mut writer, &batch).err();
        }
        if written.stopped.is_some() {
            written.missing += records;
        } else {
            written.batches += 1;
            written.records += records;
        }
    }
    written
}

/// Writes a batch, to the file itself: who kills the program finds all there was.
fn write(writer: &mut Writer<BufWriter<File>>, batch: &Batch) -> io::Result<()> {
    writer.batch("", batch)?;
    writer.flush()
}

/// Nanoseconds from 1970 to time zero of the stack's clock.
fn epoch(stack: &Stack) -> Option<u64> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_nanos()).ok()?.checked_sub(stack.now().as_nanos())
}

impl FromStr for FlightRecorder {
    type Err = String;

    /// `FILE` or `FILE,RECORDS`.
    fn from_str(word: &str) -> Result<Self, String> {
        let newest = TraceConfig::FLIGHT_RECORDER.records;
        let (path, records) = match word.rsplit_once(',') {
            None => (word, newest),
            Some((path, number)) => {
                let records = number.parse().ok().filter(|records| RECORDS.contains(records));
                (
                    path,
                    records
                        .ok_or_else(|| format!("{number:?} records cannot be kept: from 64 to 1048576"))?,
                )
            }
        };
        if path.is_empty() {
            return Err("the file is missing: write FILE or FILE,RECORDS".to_owned());
        }
        Ok(Self { path: path.into(), records })
    }
}

/// Room for a batch of a whole trace.
const BUFFER: usize = 72 << 10;

/// What [`TraceConfig`] takes.
const RECORDS: std::ops::RangeInclusive<usize> = 64..=1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_recorder_is_a_file_and_perhaps_a_number() {
        let parsed = |word: &str| word.parse::<FlightRecorder>();
        let recorder = |path: &str, records| FlightRecorder { path: path.into(), records };
        assert_eq!(parsed("out.trace"), Ok(recorder("out.trace", 1024)));
        assert_eq!(parsed("out,5.trace,64"), Ok(recorder("out,5.trace", 64)));
        for wrong in ["out,63", "out,1048577", "out,many", ",100", ""] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
