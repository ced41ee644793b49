//! A running `tcplab between`, and programs on both sides of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// The program, which is killed if the test ends before it, or does not end it.
pub(super) struct Between {
    child: Child,
    pub(super) listen: SocketAddr,
    pub(super) control: SocketAddr,
    stderr: BufReader<ChildStderr>,
    folder: TempDir,
}

impl Between {
    /// Starts it with this scenario, to `to`. It listens on free ports.
    pub(super) fn start(scenario: &str, to: SocketAddr, more: &[&str]) -> Self {
        let folder = written(scenario);
        let path = |name| folder.path().join(name);
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(TCPLAB)
            .args(["between", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"])
            .arg("--scenario")
            .arg(path("network.toml"))
            .arg("--report")
            .arg(path("report.json"))
            .args(["--to", &to.to_string()])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            stderr.read_line(&mut line).unwrap();
            line
        };
        let (leads, control) = (line(), line());
        let listen = leads.split(' ').next().unwrap().parse();
        let listen = listen.unwrap_or_else(|_| panic!("{leads}{control}"));
        let control = control.trim().trim_start_matches("control: http://").trim_end_matches("/links");
        Self { child, listen, control: control.parse().unwrap(), stderr, folder }
    }

    /// Where `--live`, which it was started with, serves its page.
    pub(super) fn live(&mut self) -> SocketAddr {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        let addr = line.strip_prefix("live: http://").and_then(|rest| rest.trim().strip_suffix('/'));
        addr.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.listen).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Bytes of memory that it has taken.
    pub(super) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Asks the control. Returns the status and the body.
    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.ask_with(method, path, "", body)
    }

    pub(super) fn ask_with(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.control).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let len = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len}\r\n\
             Connection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Makes a change that is possible.
    pub(super) fn change(&self, path: &str, body: &str) {
        let (status, answer) = self.ask("POST", path, body);
        assert_eq!(status, 200, "{answer}");
    }

    /// Ends it as Ctrl-C does. Returns the report, and what it wrote to stderr since it began.
    pub(super) fn stop(mut self) -> (Value, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let code = self.child.wait().unwrap().code();
        let report = std::fs::read(self.folder.path().join("report.json"));
        let report: Value = serde_json::from_slice(&report.unwrap_or_else(|_| panic!("{said}"))).unwrap();
        // A busy machine makes a run invalid, and nothing else does.
        let valid = report["valid"].as_bool().unwrap();
        assert_eq!(code, Some(i32::from(!valid)), "{said}");
        assert_eq!(valid, !said.contains("not valid"), "{said}");
        (report, said)
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The message with which it refuses to start.
pub(super) fn refused(scenario: &str, more: &[&str]) -> String {
    let folder = written(scenario);
    let words = ["between", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--scenario"];
    let mut command = Command::new(TCPLAB);
    let output = command.args(words).arg(folder.path().join("network.toml")).args(more).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

/// A folder with this scenario.
fn written(scenario: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("network.toml"), scenario).unwrap();
    folder
}

/// Two hosts and a link called `link`, alike both ways.
pub(super) fn two(direction: &str) -> String {
    format!(
        "duration = \"1s\"\nseed = 1\nhost = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\n\
         name = \"link\"\nbetween = [\"a\", \"b\"]\nthere = {{ {direction} }}\n"
    )
}

/// A program that serves each connection by `serve`, on a thread.
pub(super) fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    addr
}

/// One that returns what it gets, after all of it.
pub(super) fn echo_at_end() -> SocketAddr {
    server(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).and_then(|_| stream.write_all(&all)).ok();
    })
}

/// One that returns what it gets, at once.
pub(super) fn echo() -> SocketAddr {
    server(|mut stream| {
        let mut buf = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut buf) {
            if stream.write_all(&buf[..len]).is_err() {
                return;
            }
        }
    })
}

/// Sends these bytes, ends, and returns the answer.
pub(super) fn exchange(mut stream: TcpStream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(bytes)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Bytes that repeat late.
pub(super) fn bytes(len: usize) -> Vec<u8> {
    (0u32..).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).take(len).collect()
}

/// A socket for datagrams.
pub(super) fn datagrams() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// How long a test waits for what must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const TCPLAB: &str = env!("CARGO_BIN_EXE_tcplab");
