//! `--trace` and `--flight-recorder`: writes the records of the stack's connections to files, on a separate
//! thread.
//!
//! A file that can no longer be written (a full disk) ends the trace, never the transfer.

mod newest;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ackclock::device::outlet::{Backlog, Outlet};
use ackclock::trace::{Batch, TraceConfig, TraceKeep};
use ackclock::{Instant, Stack};
use ackclock_cli::{Exit, Failure};
use ackclock_trace::file::{Origin, Writer};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::newest::Newest;
use crate::args::ObserveArgs;

/// The file for the latest records, and how many are kept of each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlightRecorder {
    path: PathBuf,
    records: usize,
}

/// A trace to be written.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) config: TraceConfig,
    path: PathBuf,
    file: Outlet,
    /// Beside a whole trace, the flight recorder's file and its number of records.
    newest: Option<(PathBuf, Outlet, usize)>,
}

/// Files being written, by one stack or by several whose clocks share one time zero.
#[derive(Clone, Debug)]
pub(crate) struct TraceFile {
    config: TraceConfig,
    files: Arc<Mutex<Files>>,
}

/// A stack's trace being written.
#[derive(Debug)]
pub(crate) struct Recorder {
    stack: Stack,
    file: TraceFile,
    writing: JoinHandle<()>,
    requests: JoinHandle<()>,
    /// Ends the writing with the records that exist now.
    end: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Files {
    trace: Written,
    /// Beside a whole trace, each connection's newest records.
    newest: Option<Newest>,
}

/// A file, and the counts of what was written.
#[derive(Debug)]
struct Written {
    path: PathBuf,
    /// Whether the file has only the newest records.
    is_flight: bool,
    writer: Writer<BufWriter<Outlet>>,
    backlog: Backlog,
    batches: u64,
    records: u64,
    /// Records that are missing in the file.
    missing: u64,
    /// Why nothing more was written.
    stopped: Option<io::Error>,
    /// The writer has failed.
    incomplete: bool,
}

impl FlightRecorder {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Wanted {
    /// Opens the files that the flags ask for; they are created or truncated.
    pub fn create(args: &ObserveArgs) -> Result<Option<Self>, Failure> {
        let flight = args.flight_recorder.as_ref();
        match (&args.trace, flight) {
            (Some(path), None) => Self::whole(path).map(Some),
            (Some(path), Some(FlightRecorder { path: newest, records })) => {
                let newest = Some((newest.clone(), create(newest)?, *records));
                Ok(Some(Self { newest, ..Self::whole(path)? }))
            }
            (None, Some(FlightRecorder { path, records })) => {
                Self::new(path, TraceConfig { records: *records, keep: TraceKeep::Newest }).map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    /// All records, to this file.
    pub fn whole(path: &Path) -> Result<Self, Failure> {
        Self::new(path, TraceConfig::FULL)
    }

    fn new(path: &Path, config: TraceConfig) -> Result<Self, Failure> {
        Ok(Self { config, path: path.to_owned(), file: create(path)?, newest: None })
    }

    /// Writes the beginnings of the files, and then all records of `stack` until it is down. Must be called
    /// within a tokio runtime.
    pub fn start(self, stack: &Stack) -> Result<Recorder, Failure> {
        self.begin(stack.now())?.record("", stack)
    }

    /// Writes the beginnings of the files; the clocks of their stacks show `now`.
    pub fn begin(self, now: Instant) -> Result<TraceFile, Failure> {
        let Self { config, path, file, newest } = self;
        let trace = Written::begin(path, file, now, config.keep == TraceKeep::Newest)?;
        let newest = newest.map(|(path, file, records)| {
            Ok::<_, Failure>(Newest::new(Written::begin(path, file, now, true)?, records))
        });
        let files = Files { trace, newest: newest.transpose()? };
        Ok(TraceFile { config, files: Arc::new(Mutex::new(files)) })
    }
}

impl TraceFile {
    /// The tracing that its stacks need.
    pub(crate) fn config(&self) -> TraceConfig {
        self.config
    }

    /// Writes all records of `stack`, which the file calls `host`, until it is down. Must be called within a
    /// tokio runtime.
    pub(crate) fn record(&self, host: &str, stack: &Stack) -> Result<Recorder, Failure> {
        let mut requests = signal(SignalKind::user_defined1())
            .map_err(|error| Failure::new(Exit::Failed, format!("SIGUSR1 cannot be taken: {error}")))?;
        let (source, asked) = (stack.clone(), stack.clone());
        let (runtime, host, files) = (Handle::current(), host.to_owned(), Arc::clone(&self.files));
        let (end, ended) = oneshot::channel();
        let writing = tokio::task::spawn_blocking(move || {
            runtime.block_on(write_all(&host, &files, source, ended));
        });
        let requests = tokio::spawn(async move {
            while requests.recv().await.is_some() {
                asked.request_traces();
            }
        });
        Ok(Recorder { stack: stack.clone(), file: self.clone(), writing, requests, end })
    }

    /// Reports what is in the files and what is missing.
    pub(crate) fn tell(&self, verbose: bool) {
        let files = lock(&self.files);
        files.trace.tell(verbose);
        if let Some(newest) = &files.newest {
            newest.written().tell(verbose);
        }
    }
}

impl Recorder {
    /// Waits until all present records are written, and reports what is in the files and what is missing.
    pub async fn finish(self, verbose: bool) {
        let file = self.file.clone();
        self.end().await;
        file.tell(verbose);
    }

    /// Waits until all present records are written.
    pub async fn end(self) {
        self.requests.abort();
        if self.file.config.keep == TraceKeep::All {
            if let Some(newest) = &mut lock(&self.file.files).newest {
                newest.ignore_requests();
            }
            // The records of connections that have not finished in time.
            self.stack.request_traces();
        }
        // The writer has ended by itself if the stack is down.
        let _ = self.end.send(());
        let failed = self.writing.await.is_err();
        let Files { trace, newest } = &mut *lock(&self.file.files);
        trace.incomplete |= failed;
        trace.missing += self.stack.counters().trace_records_dropped;
        trace.settle();
        if let Some(newest) = newest {
            newest.written_mut().incomplete |= failed;
            newest.written_mut().settle();
        }
    }
}

impl Written {
    /// Writes the beginning of a file for records of stacks whose clocks show `now`.
    fn begin(path: PathBuf, file: Outlet, now: Instant, is_flight: bool) -> Result<Self, Failure> {
        let origin = Origin {
            program: concat!("tcpcat ", env!("CARGO_PKG_VERSION")).to_owned(),
            epoch_unix_nanos: epoch(now),
        };
        let backlog = file.backlog();
        let begun = Writer::new(BufWriter::with_capacity(BUFFER, file), &origin).and_then(|mut writer| {
            writer.flush()?;
            Ok(writer)
        });
        let writer = begun.map_err(|error| Failure::file("write the trace to", &path, &error))?;
        Ok(Self {
            path,
            is_flight,
            writer,
            backlog,
            batches: 0,
            records: 0,
            missing: 0,
            stopped: None,
            incomplete: false,
        })
    }

    /// Writes a batch through to the file, so that a killed program leaves everything. Counts what cannot be
    /// written.
    fn add(&mut self, host: &str, batch: &Batch) {
        let records = batch.records.len() as u64;
        if self.stopped.is_none() {
            self.stopped = self.writer.batch(host, batch).and_then(|()| self.writer.flush()).err();
        }
        if self.stopped.is_some() {
            self.missing += records;
        } else {
            self.batches += 1;
            self.records += records;
        }
    }

    /// Waits for the reader of a pipe, for a second at most.
    fn settle(&mut self) {
        if let (None, Err(error)) = (&self.stopped, self.backlog.settle(SETTLE_WAIT)) {
            self.stopped = Some(error);
        }
    }

    /// Reports what is in the file and what is missing.
    fn tell(&self, verbose: bool) {
        let Self { batches, records, missing, stopped, .. } = self;
        let path = self.path.display();
        match stopped {
            _ if self.incomplete => say!("tcpcat: the trace in {path} is incomplete: its writer failed"),
            Some(why) if why.kind() == io::ErrorKind::WouldBlock => say!(
                "tcpcat: the trace in {path} lacks {missing} records or more: {why}\n  \
                 to fix it: read it faster, or write to a file"
            ),
            Some(why) => say!(
                "tcpcat: the trace in {path} ends after {records} records, {missing} are missing: {why}\n  \
                 to fix it: free space (df -h {path}) and run it again"
            ),
            None if *missing > 0 && !self.is_flight => {
                say!("tcpcat: the trace in {path} lacks {missing} records: writing it was too slow")
            }
            None if self.is_flight && *batches > 0 => {
                say!("tcpcat: the newest {records} records of the connections are in {path}")
            }
            None if verbose => say!("tcpcat: {records} records are in {path}"),
            None => {}
        }
    }
}

impl Files {
    /// Whether a pipe's reader has so much to read that further records wait in the stack.
    fn are_behind(&self) -> bool {
        let newest = self.newest.iter().map(|newest| newest.written());
        let mut all = newest.chain([&self.trace]).filter(|written| written.stopped.is_none());
        all.any(|written| written.backlog.waiting() > Outlet::WAITING_MAX / 2)
    }

    fn add(&mut self, host: &str, batch: &Batch) {
        self.trace.add(host, batch);
        if let Some(newest) = &mut self.newest {
            newest.add(host, batch);
        }
    }
}

/// Creates or truncates a file for a trace.
fn create(path: &Path) -> Result<Outlet, Failure> {
    File::create(path)
        .and_then(Outlet::new)
        .map_err(|error| Failure::file("write the trace to", path, &error))
}

/// Writes until the stack is down, or until `ended` and no records are left.
async fn write_all(host: &str, files: &Mutex<Files>, stack: Stack, mut ended: oneshot::Receiver<()>) {
    let mut over = false;
    loop {
        if !over && lock(files).are_behind() {
            tokio::select! {
                () = tokio::time::sleep(BEHIND_POLL) => {}
                _ = &mut ended => over = true,
            }
            continue;
        }
        let batch = tokio::select! {
            biased;
            batch = stack.next_trace() => batch,
            () = std::future::ready(()), if over => None,
            _ = &mut ended => None,
        };
        let Some(batch) = batch else { return };
        lock(files).add(host, &batch);
    }
}

fn lock(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds from 1970 to time zero of a clock that shows `now`.
fn epoch(now: Instant) -> Option<u64> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_nanos()).ok()?.checked_sub(now.as_nanos())
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
                        .ok_or_else(|| format!("{number:?} is not a number of records from 64 to 1048576"))?,
                )
            }
        };
        if path.is_empty() {
            return Err("FILE is missing: write FILE or FILE,RECORDS".to_owned());
        }
        Ok(Self { path: path.into(), records })
    }
}

/// Room for one batch of a whole trace.
const BUFFER: usize = 72 << 10;

/// How often the writer looks whether a pipe's reader has caught up.
const BEHIND_POLL: Duration = Duration::from_millis(10);

/// How long the end waits for a pipe's reader.
const SETTLE_WAIT: Duration = Duration::from_secs(1);

/// The numbers of records that [`TraceConfig`] takes.
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
