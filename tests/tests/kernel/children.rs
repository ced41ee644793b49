//! Programs that a test started die with it, even when it is killed.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use ackclock_tests::kernel::program::Program;

/// Set in the process that is to be killed.
const VICTIM: &str = "ACKCLOCK_TEST_VICTIM";

#[test]
fn killed_test_leaves_no_program_behind() {
    if env::var_os(VICTIM).is_some() {
        let sleeper = Program::start("sleep", &["600"], Vec::new());
        writeln!(io::stdout(), "sleeper {}", sleeper.id()).unwrap();
        thread::sleep(Duration::from_secs(600));
        return;
    }
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", "children::killed_test_leaves_no_program_behind", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let pid = lines.map_while(Result::ok).find_map(|line| line.split("sleeper ").nth(1).map(str::to_owned));
    let sleeper = pid.expect("the sleeper has started");
    // Before that it is still `setpriv`, which has yet to say what it wants.
    eventually(|| name(&sleeper) == "sleep", "it does not start");
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually(|| !runs(&sleeper), "it outlives its test");
}

/// Whether a process runs: one that has ended may wait as a zombie for its new parent.
fn runs(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

fn name(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[track_caller]
fn eventually(holds: impl Fn() -> bool, otherwise: &str) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(10), "{otherwise}");
        thread::sleep(Duration::from_millis(10));
    }
}
