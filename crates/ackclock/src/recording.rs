//! A stack's recording: the file that takes every call of its endpoint.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ackclock_core::{Endpoint, EndpointConfig, Instant};
use ackclock_device::outlet::{Backlog, Outlet};
use ackclock_journal::{Journal, JournalEnd, JournalHeader, RecordedEndpoint};

use crate::state::StackState;

/// A recording to be made: where, and within which bound.
#[derive(Clone, Debug)]
pub struct Recording {
    path: PathBuf,
    limit: u64,
    program: String,
}

/// The state of a stack's recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordingInfo {
    /// Bytes in the file.
    pub bytes: u64,
    /// Bytes that the reader of a pipe has not taken yet. If it leaves no room for more, the recording ends;
    /// the stack never waits for it.
    pub waiting: u64,
    /// Calls of the endpoint in it, or about to be.
    pub calls: u64,
    /// Why nothing more is recorded; `None` while it is.
    pub ended: Option<JournalEnd>,
}

/// Why a stack cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A file of this name exists.
    #[error("{} exists already; a recording never replaces a file: name another, or remove it", .0.display())]
    Exists(PathBuf),
    /// The file could not be made, or its beginning not written.
    #[error("the recording cannot be written to {}: {source}", path.display())]
    Io {
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The limit leaves no room.
    #[error("a recording of at most {0} bytes has no room; allow {min} or more", min = Journal::LIMIT_LEAST)]
    Limit(u64),
    /// The stack has several queues.
    #[error("a stack on several queues cannot be recorded: their order is not repeatable; use one queue")]
    Queues,
}

impl Recording {
    /// Records to this file, which must not exist, up to a gibibyte.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), limit: LIMIT, program: String::new() }
    }

    /// The file's greatest size in bytes (default 1 GiB), at least 64 KiB. The recording ends there; the
    /// stack goes on.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// The program's name and version, for readers of the file.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = name.into();
        self
    }

    fn begin(
        self,
        config: &EndpointConfig,
        start: Instant,
        simulated: bool,
    ) -> Result<(Journal, Backlog), RecordingError> {
        let Self { path, limit, program } = self;
        if limit < Journal::LIMIT_LEAST {
            return Err(RecordingError::Limit(limit));
        }
        let file = create(&path)?;
        let epoch = if simulated { None } else { epoch(start) };
        let header = JournalHeader { program, epoch_unix_nanos: epoch, start, config: config.clone() };
        let begun = Outlet::new(file).and_then(|outlet| {
            let backlog = outlet.backlog();
            let journal = Journal::begin(Box::new(outlet), &header, limit)?;
            match backlog.settle(BEGIN_WAIT) {
                // A reader that does not read yet may do so later.
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                _ => Ok((journal, backlog)),
            }
        });
        begun.map_err(|source| RecordingError::Io { path, source })
    }
}

impl<P: AsRef<Path>> From<P> for Recording {
    fn from(path: P) -> Self {
        Self::new(path.as_ref())
    }
}

/// The state of a stack's recording, if there is one.
pub(crate) fn info(state: &StackState) -> Option<RecordingInfo> {
    let (journal, backlog) = (state.endpoint.journal()?, state.recording.as_ref()?);
    let waiting = backlog.waiting() as u64;
    Some(RecordingInfo {
        bytes: journal.bytes().saturating_sub(waiting),
        waiting,
        calls: journal.calls(),
        ended: backlog.failed().map(JournalEnd::Failed).or(journal.ended()),
    })
}

/// A new endpoint, recorded if that was asked for, and what waits for the recording's reader.
pub(crate) fn endpoint(
    config: EndpointConfig,
    now: Instant,
    recording: Option<Recording>,
    simulated: bool,
) -> Result<(RecordedEndpoint, Option<Backlog>), RecordingError> {
    let begun = recording.map(|recording| recording.begin(&config, now, simulated)).transpose()?;
    let (journal, backlog) = begun.unzip();
    Ok((RecordedEndpoint::new(Endpoint::new(config, now), journal), backlog))
}

/// Makes the file, which only its owner may read. A device or a pipe is written to.
fn create(path: &Path) -> Result<File, RecordingError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
                let opened = OpenOptions::new().write(true).open(path);
                return opened.map_err(|source| RecordingError::Io { path: path.to_owned(), source });
            }
            Err(RecordingError::Exists(path.to_owned()))
        }
        opened => opened.map_err(|source| RecordingError::Io { path: path.to_owned(), source }),
    }
}

/// Nanoseconds since 1970 at time zero of a clock that shows `now`.
fn epoch(now: Instant) -> Option<u64> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_nanos()).ok()?.checked_sub(now.as_nanos())
}

/// How long the start waits for the reader of a pipe, to report one that has left.
const BEGIN_WAIT: Duration = Duration::from_millis(100);
/// The default limit.
const LIMIT: u64 = 1 << 30;
