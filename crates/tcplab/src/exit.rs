//! How a command ends: exit codes, and failures that name their cause and a remedy.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

/// The exit codes. They mean the same as tcpcat's and are part of the interface: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done = 0,
    /// Something failed, or a value is outside its band.
    Failed = 1,
    /// The command line, or a file that it names, is wrong.
    Usage = 2,
    /// A file cannot be read or written.
    File = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    remedy: Option<String>,
}

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), remedy: None }
    }

    /// The command line asks for the impossible.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A file could not be used.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        let failure = Self::new(Exit::File, format!("cannot {doing} {path}: {error}"));
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                failure.remedy(format!("free space (df -h {path}) and run it again"))
            }
            ErrorKind::PermissionDenied => failure.remedy(format!("check its permissions: ls -ld {path}")),
            ErrorKind::NotFound => failure.remedy("check the name"),
            _ => failure,
        }
    }

    /// The user interrupted the command before it was done.
    pub(crate) fn interrupted(what: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, format!("interrupted: {what}"))
    }

    /// Something that is needed is not there yet.
    pub(crate) fn incomplete(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Adds the remedy.
    pub(crate) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// The exit code of an error of any kind.
    pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
        error.downcast_ref::<Self>().map_or(Exit::Failed, |failure| failure.exit)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n  to fix it: {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
