//! `tcplab` as its users see it: arguments in; text, files and exit codes out.

mod between;
mod between_programs;
mod captures;
mod cluster;
mod compare;
mod kit;
mod live;
mod manual;
mod papers;
mod recipes;
mod recorded;
mod refusals;
mod replays;
mod scenarios;
mod serve;
#[cfg(target_os = "linux")]
mod shell;
mod through;
mod traces;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ackclock_tests::kernel::program::have;
use tempfile::TempDir;

/// The program with these arguments.
fn tcplab(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcplab"));
    command.args(words);
    command
}

/// Its output and exit code.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(words: &[&str]) -> Ended {
    ended(tcplab(words).output().unwrap())
}

fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ended {
    /// Asserts success, and returns its stdout.
    fn done(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }

    /// Asserts that it ended with this code, and returns its stderr.
    fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self.err
    }
}

/// tcpdump's listing of a capture, a line for each packet that the filter passes; `None`, with a message, if
/// tcpdump is not installed.
fn tcpdump(file: &str, filter: &str) -> Option<String> {
    if !have("tcpdump") {
        return None;
    }
    let listed = Command::new("tcpdump").args(["-nr", file, filter]).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    Some(String::from_utf8(listed.stdout).unwrap())
}

/// A folder that is removed at the end.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The names of all that is in it.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}
