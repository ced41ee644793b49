//! Failures that name their cause and a remedy.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::exit::Exit;

/// Why a command failed.
///
/// Shown as the cause and, on a line of its own, the remedy.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    remedy: Option<String>,
}

impl Failure {
    /// A failure without a remedy. The message says what happened, to what.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), remedy: None }
    }

    /// The command line asks for something impossible.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A local file could not be used.
    #[must_use]
    pub fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe && [Path::new("-"), Path::new("stdout")].contains(&path) {
            return Self::new(Exit::ReaderGone, "the reader of stdout left");
        }
        let shown = path.display();
        let failure = Self::new(Exit::File, format!("cannot {doing} {shown}: {error}"));
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                failure.remedy(format!("free space (df -h {shown}) and run it again"))
            }
            ErrorKind::PermissionDenied => failure.remedy(format!("check its permissions: ls -ld {shown}")),
            ErrorKind::NotFound if lacks_directory(path) => {
                failure.remedy("check the name; directories are not created")
            }
            ErrorKind::NotFound => failure.remedy("check the name"),
            ErrorKind::IsADirectory => failure.remedy("name a file in that directory"),
            _ if is_out_of_descriptors(error) => failure.remedy(MORE_DESCRIPTORS),
            _ => failure,
        }
    }

    /// The user interrupted the command before everything was done.
    pub fn interrupted(what: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, format!("interrupted: {what}"))
    }

    /// The program cannot begin.
    #[must_use]
    pub fn start(error: &io::Error) -> Self {
        let failure = Self::new(Exit::Failed, format!("cannot start threads: {error}"));
        if is_out_of_descriptors(error) { failure.remedy(MORE_DESCRIPTORS) } else { failure }
    }

    /// Adds the remedy: a command, or a sentence that names one.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// Puts what was done by then in front of the cause.
    #[must_use]
    pub fn after(self, done: &str) -> Self {
        Self { message: format!("{done}: {}", self.message), ..self }
    }

    /// Gives the failure another code.
    #[must_use]
    pub fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// The code that the command ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The message without the remedy.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The remedy alone.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// Whether nothing is printed: the user closed the pipe.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.exit == Exit::ReaderGone
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

/// Whether the directory that a file would be in does not exist.
fn lacks_directory(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent != Path::new("") && !parent.exists())
}

/// Whether the process, or the system, may open no more files.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    cfg!(unix) && matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// The remedy for a lack of descriptors.
const MORE_DESCRIPTORS: &str = "raise the limit first: ulimit -n 4096";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_file_error_that_says_what_to_do() {
        let error = io::Error::from_raw_os_error(libc::ENOSPC);
        let failure = Failure::file("write", Path::new("/mnt/out"), &error);
        assert_eq!(failure.exit(), Exit::File);
        assert!(failure.to_string().contains("df -h /mnt/out"), "{failure}");
    }

    #[test]
    fn a_missing_file_is_told_from_a_missing_directory() {
        let help = |path: &str| {
            let failure = Failure::file("write", Path::new(path), &ErrorKind::NotFound.into());
            failure.help().unwrap().to_owned()
        };
        assert_eq!(help("none"), "check the name");
        assert_eq!(help("/none"), "check the name");
        assert_eq!(help("/none/none"), "check the name; directories are not created");
    }

    #[test]
    fn a_reader_that_left_is_quiet_only_at_stdout() {
        let of = |path: &str| Failure::file("write", Path::new(path), &ErrorKind::BrokenPipe.into());
        assert!(of("-").is_quiet() && of("stdout").is_quiet());
        assert_eq!((of("fifo").is_quiet(), of("fifo").exit()), (false, Exit::File));
    }
}
