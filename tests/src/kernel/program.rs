//! Real programs as peers.

use std::io::{self, Write};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::netns::skip;

/// A program that runs in the namespace of the thread that started it, and is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    child: Option<Child>,
    input: Option<thread::JoinHandle<io::Result<()>>>,
}

/// Whether `program` is installed; says that the test is skipped if not.
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
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
        let mut stdin = child.stdin.take().expect("standard input is piped");
        // A program that writes before it has read all would wait for us for ever.
        let input = thread::spawn(move || stdin.write_all(&input));
        Self { child: Some(child), input: Some(input) }
    }

    /// Its process.
    ///
    /// # Panics
    /// Never: there is one until [`finish`](Self::finish).
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Kills it at once, as a crash would.
    ///
    /// # Panics
    /// It has ended already.
    pub fn kill(&mut self) {
        let child = self.child.as_mut().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it has ended");
    }

    /// Waits until it ends and returns what it wrote. Blocks: call it from `spawn_blocking`.
    ///
    /// # Panics
    /// It fails.
    pub fn finish(mut self) -> Vec<u8> {
        let child = self.child.take().expect("it runs");
        let Output { status, stdout, stderr } = child.wait_with_output().expect("its output can be read");
        assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
        let input = self.input.take().expect("it was fed");
        input.join().expect("no panic").expect("it takes its input");
        stdout
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Asks again until `attempt` succeeds, for a program that takes its time to start.
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
