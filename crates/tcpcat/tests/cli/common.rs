//! Network namespaces, scratch directories and processes for the tests of the real program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ackclock_tests::devices::Needs;
use ackclock_tests::netns::skip;
use ackclock_tests::rng::fill_stream;
use tempfile::TempDir;

/// The program under test.
pub(crate) const TCPCAT: &str = env!("CARGO_BIN_EXE_tcpcat");

/// A network namespace with forwarding on; it and all that runs in it end with this value.
pub(crate) struct Netns {
    name: String,
}

impl Netns {
    /// Makes one, or says why the test is skipped; in CI that is a failure.
    pub(crate) fn new() -> Option<Self> {
        if let Err(why) = fs::File::options().read(true).write(true).open("/dev/net/tun") {
            skip(&format!("/dev/net/tun: {why}"));
            return None;
        }
        Self::named(name())
    }

    /// Makes one for a device, unless that cannot work here.
    pub(crate) fn on(device: Needs) -> Option<Self> {
        device.met().then(|| Self::named(name())).flatten()
    }

    fn named(name: String) -> Option<Self> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(remove_stale);
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        match made {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                skip(&format!("no namespace can be made: {}", why.trim()));
                return None;
            }
            Err(error) => {
                skip(&format!("ip cannot be run: {error}"));
                return None;
            }
        }
        let netns = Self { name };
        netns.shell("ip link set lo up; echo 1 > /proc/sys/net/ipv4/ip_forward");
        Some(netns)
    }

    /// A program to be run inside.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Joins this namespace to `other` by a cable, whose ends have the given names and are up.
    pub(crate) fn cable(&self, end: &str, other: &Self, other_end: &str) {
        self.shell(&format!("ip link add {end} type veth peer name {other_end} netns {}", other.name));
        self.shell(&format!("ip link set {end} up"));
        other.shell(&format!("ip link set {other_end} up"));
    }

    /// Runs a shell script inside, which must succeed.
    pub(crate) fn shell(&self, script: &str) -> String {
        let output = self.command("timeout").args(["60", "sh", "-c", script]).output().expect("sh runs");
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs tcpcat inside to its end.
    pub(crate) fn tcpcat(&self, line: &str) -> Output {
        self.start(line).finish()
    }

    /// Starts a tcpcat that listens, and returns when it does.
    pub(crate) fn listen(&self, line: &str) -> Process {
        let listener = self.start(line);
        listener.await_line("listening on");
        listener
    }

    /// Starts a server on port 7001 of the kernel's that answers the first byte with a reset.
    pub(crate) fn resetting_server(&self) -> Process {
        let script = "
import socket, struct, sys
l = socket.create_server(('0.0.0.0', 7001))
print('ready', file=sys.stderr, flush=True)
s, _ = l.accept()
s.recv(1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
";
        let server = Process::start(self.command("python3").args(["-c", script]));
        server.await_line("ready");
        server
    }

    /// Starts tcpcat inside.
    pub(crate) fn start(&self, line: &str) -> Process {
        // A shell lets what it runs in the background ignore interrupts, and children inherit that.
        let mut command = self.command("env");
        Process::start(command.args(["--default-signal=INT", TCPCAT]).args(line.split_whitespace()))
    }
}

/// Removes the namespaces of test processes that were killed, and what runs in them.
fn remove_stale() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("tcpcat-").and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists()) {
            drop(Netns { name });
        }
    }
}

/// A name for a namespace that no other has.
fn name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("tcpcat-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

impl Drop for Netns {
    fn drop(&mut self) {
        // A shell's children outlive it; nothing of a test may.
        let pids = Command::new("ip").args(["netns", "pids", &self.name]).output();
        for pid in pids.iter().flat_map(|output| output.stdout.split(|&byte| byte == b'\n')) {
            let _ = Command::new("kill").args(["-KILL", &String::from_utf8_lossy(pid)]).output();
        }
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// Makes a command that the kernel kills when the calling thread ends: a test that is killed leaves nothing
/// behind.
fn bound_to_this_thread(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    // A script that runs the tests in the background may ignore signals that a program then ignores, too.
    bound
        .args(["--pdeathsig", "KILL", "--", "env", "--default-signal=HUP,QUIT"])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        bound.current_dir(directory);
    }
    bound
}

/// A process that is killed if the test forgets it.
pub(crate) struct Process {
    child: Child,
    stderr: Option<thread::JoinHandle<String>>,
    line: std::sync::mpsc::Receiver<String>,
}

impl Process {
    /// Starts a command with all its streams taken. It dies with the thread that starts it.
    pub(crate) fn start(command: &Command) -> Self {
        let mut command = bound_to_this_thread(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stderr = child.stderr.take().expect("stderr is taken");
        let (sender, line) = std::sync::mpsc::channel();
        let stderr = thread::spawn(move || {
            let mut all = String::new();
            for text in BufReader::new(stderr).lines().map_while(Result::ok) {
                all.push_str(&text);
                all.push('\n');
                let _ = sender.send(text);
            }
            all
        });
        Self { child, stderr: Some(stderr), line }
    }

    /// Waits until stderr has a line that contains `text`.
    pub(crate) fn await_line(&self, text: &str) -> String {
        let deadline = Instant::now() + TIME_MAX;
        while let Ok(line) = self.line.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line with {text:?}");
    }

    pub(crate) fn stdin(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("stdin is taken once")
    }

    /// The next `len` bytes of its stdout, while it runs.
    pub(crate) fn read_stdout(&mut self, len: usize) -> Vec<u8> {
        let mut stdout = self.child.stdout.take().expect("stdout is not read elsewhere");
        let (sender, read) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut bytes = vec![0; len];
            let result = std::io::Read::read_exact(&mut stdout, &mut bytes);
            let _ = sender.send(result.map(|()| (stdout, bytes)));
        });
        let read = read.recv_timeout(PROMPT_TIME_MAX).expect("stdout has the bytes in time");
        let (stdout, bytes) = read.expect("stdout has the bytes");
        self.child.stdout = Some(stdout);
        bytes
    }

    /// Sends a signal, as `INT`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{signal}"), &pid]).status().expect("kill runs");
        assert!(status.success());
    }

    /// Its process identifier.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it at once, as a crash would, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
    }

    /// The network namespace that it is in now.
    pub(crate) fn network_namespace(&self) -> PathBuf {
        fs::read_link(format!("/proc/{}/ns/net", self.child.id())).expect("the program runs")
    }

    /// Waits until the file `name` of `/proc/PID/net` holds what it should: the view from the process's own
    /// namespace.
    pub(crate) fn await_network(&self, name: &str, holds: impl Fn(&str) -> bool) {
        let path = format!("/proc/{}/net/{name}", self.child.id());
        let deadline = Instant::now() + TIME_MAX;
        while !holds(&fs::read_to_string(&path).expect("the program runs")) {
            assert!(Instant::now() < deadline, "{path} does not become what it should");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end. Its stdin is closed.
    pub(crate) fn finish(mut self) -> Output {
        drop(self.child.stdin.take());
        let stdout = self.child.stdout.take().expect("stdout is taken");
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            std::io::Read::read_to_end(&mut { stdout }, &mut all).expect("stdout is read");
            all
        });
        let status = self.wait();
        let stdout = reading.join().expect("stdout is read");
        let stderr =
            self.stderr.take().expect("it is finished once").join().expect("stderr is read").into_bytes();
        Output { status, stdout, stderr }
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIME_MAX;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("the program does not end");
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // In vain if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that is removed at the end.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        // Programs without privileges enter it, too.
        let mode = fs::Permissions::from_mode(0o755);
        Self(tempfile::Builder::new().permissions(mode).tempdir().expect("a scratch directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Waits until a part has at least that many bytes. Returns its name.
    pub(crate) fn await_part(&self, least: u64) -> PathBuf {
        let deadline = Instant::now() + TIME_MAX;
        while Instant::now() < deadline {
            let part = self.names().into_iter().find(|name| name.starts_with('.') && name.ends_with(".part"));
            if let Some(part) = part.map(|name| self.path(&name))
                && fs::metadata(&part).is_ok_and(|metadata| metadata.len() >= least)
            {
                return part;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no part of {least} bytes in {:?}", self.names());
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a scratch directory");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// A file of bytes that look random.
pub(crate) fn random_file(scratch: &Scratch, name: &str, len: usize) -> PathBuf {
    let path = scratch.path(name);
    let mut bytes = vec![0; len];
    fill_stream(1, 0, &mut bytes);
    fs::write(&path, bytes).expect("a scratch file");
    path
}

/// Asserts that two files have the same contents.
pub(crate) fn assert_same(one: &Path, other: &Path) {
    assert!(
        fs::read(one).expect("the first file") == fs::read(other).expect("the second file"),
        "they differ"
    );
}

/// Asserts the exit code and returns what was written to standard error.
pub(crate) fn said(output: &Output, code: i32) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    stderr
}

/// No step of a test takes longer, on a busy machine either.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Data that arrives appears within this time, also on a busy machine.
const PROMPT_TIME_MAX: Duration = Duration::from_secs(15);

/// A host on tun1: the kernel's end is 10.9.1.1.
pub(crate) const HOST1: &str = "--configure --tun tun1 --addr 10.9.1.2/24";

/// A second host, on tun2: the kernel's end is 10.9.2.1.
pub(crate) const HOST2: &str = "--configure --tun tun2 --addr 10.9.2.2/24";
