//! Real programs as peers.

use std::future::Future;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::netns::skip;

/// A program that runs in the namespace of the thread that started it. It is killed when this is dropped, or
/// when that thread ends: a test that is killed leaves no program behind.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// A program may write before it has read everything, or the other way round, without waiting for us:
    /// threads feed it and collect its output.
    input: Option<JoinHandle<io::Result<()>>>,
    output: Option<JoinHandle<io::Result<Vec<u8>>>>,
    errors: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

/// Whether `program` is installed; reports the test as skipped if not.
#[must_use]
pub fn have(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|directory| directory.join(program).is_file());
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

impl Program {
    /// Starts `program` and feeds it `input`, after which its standard input ends.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(program: &str, arguments: &[&str], input: Vec<u8>) -> Self {
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
        let mut stdin = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        Self {
            child,
            input: Some(thread::spawn(move || stdin.write_all(&input))),
            output: Some(thread::spawn(move || read_all(stdout))),
            errors: Some(thread::spawn(move || read_all(stderr))),
        }
    }

    /// Its process identifier.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it at once, as a crash would.
    ///
    /// # Panics
    /// It has ended already.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
    }

    /// Sends it a signal, as in `signal("TERM")`.
    ///
    /// # Panics
    /// `kill` cannot be run, or it has ended already.
    pub fn signal(&self, name: &str) {
        let arguments = [format!("-{name}"), self.child.id().to_string()];
        let status = Command::new("kill").args(arguments).status().expect("kill can be run");
        assert!(status.success(), "kill -{name}: {status}");
    }

    /// Waits until it ends and returns what it wrote. Blocks: call it from `spawn_blocking`.
    ///
    /// # Panics
    /// It fails.
    pub fn finish(mut self) -> Vec<u8> {
        let status = self.child.wait().expect("it can be waited for");
        let errors = joined(self.errors.take());
        assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&errors));
        joined(self.input.take());
        joined(self.output.take())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail for a program that has ended, which is fine.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn read_all(mut source: impl Read) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    source.read_to_end(&mut all)?;
    Ok(all)
}

fn joined<T>(thread: Option<JoinHandle<io::Result<T>>>) -> T {
    thread.expect("asked for once").join().expect("no panic").expect("the pipe works")
}

/// Retries until `attempt` succeeds, for a program that needs time to start.
///
/// # Panics
/// It still fails after ten seconds.
pub async fn eventually<T, F: Future<Output = io::Result<T>>>(mut attempt: impl FnMut() -> F) -> T {
    let began = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) if began.elapsed() > Duration::from_secs(10) => panic!("still: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
