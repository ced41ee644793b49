//! `tcpcat ss`, `top` and `trace`, at the control socket of a transfer that runs.

#[path = "../../src/inspect/top/screen.rs"]
mod screen;

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ackclock::trace::Entry;
use ackclock_trace::file::{Source, Trace};

use crate::common::{HOST1, HOST2, Netns, Process, Scratch, TCPCAT, said};

/// A transfer between two user-space hosts that goes on for a minute or until this is dropped; the sender has
/// a control socket.
struct Transfer {
    _receiver: Process,
    _sender: Process,
}

impl Transfer {
    fn start(netns: &Netns, socket: &Path) -> Self {
        // The output is read, or the receive window would close.
        let script = format!("exec {TCPCAT} recv - -l 7000 -v {HOST2} > /dev/null");
        let receiver = Process::start(netns.command("sh").args(["-c", &script]));
        receiver.await_line("listening on");
        let sender = netns.start(&format!(
            "send /dev/zero 10.9.2.2 7000 --rate 8M --control {} --flight-recorder {}.trace {HOST1}",
            socket.display(),
            socket.display(),
        ));
        eventually("the transfer moves data", || {
            let answer = tcpcat(&["ss", "--json", "state", "established"], Some(socket));
            let list: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
            list["connections"][0]["info"]["bytes_acked"].as_u64().filter(|&bytes| bytes > 100_000).map(drop)
        });
        Self { _receiver: receiver, _sender: sender }
    }
}

fn tcpcat(words: &[&str], socket: Option<&Path>) -> Output {
    let mut command = Command::new(TCPCAT);
    command.args(words).env_remove("TCPCAT_CONTROL");
    if let Some(socket) = socket {
        command.env("TCPCAT_CONTROL", socket);
    }
    command.output().expect("tcpcat runs")
}

/// Asks again and again until there is an answer.
fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ss_lists_filters_and_tells_what_is_known() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let socket = scratch.path("control");
    let _transfer = Transfer::start(&netns, &socket);
    let out = |words: &[&str]| {
        let output = tcpcat(words, Some(&socket));
        said(&output, 0);
        String::from_utf8(output.stdout).unwrap()
    };
    let list = out(&["ss"]);
    let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..4], ["Id", "State", "Recv-Q", "Send-Q"], "{list}");
    assert_eq!((lines.len(), lines[1][..2].to_vec()), (2, vec!["0", "ESTAB"]), "{list}");
    assert!(lines[1][4].starts_with("10.9.1.2:") && lines[1][5] == "10.9.2.2:7000", "{list}");
    let info = out(&["ss", "-i", "dport", "=", ":7000"]);
    for word in ["\tcubic ts sack", " rtt:", " cwnd:", " bytes_acked:", " delivery_rate "] {
        assert!(info.contains(word), "{word}: {info}");
    }
    assert_eq!(out(&["ss", "dst", "10.9.2.3"]).lines().count(), 1);
    let json: serde_json::Value =
        serde_json::from_str(&out(&["ss", "--json", "src", "10.9.1.0/24"])).unwrap();
    assert_eq!((&json["schema"], json["connections"].as_array().unwrap().len()), (&1.into(), 1));
    let frame = out(&["top", "--once", "--interval", "0.2"]);
    assert!(frame.starts_with("tcpcat top: 1 connection, ") && frame.contains("10.9.2.2:7000"), "{frame}");
}

#[test]
fn what_cannot_be_listed_says_why() {
    let scratch = Scratch::new();
    let fails = |words: &[&str], socket: Option<&Path>, exit: i32, says: &str| {
        let words = said(&tcpcat(words, socket), exit);
        assert!(words.contains(says), "{words}");
    };
    fails(&["ss"], None, 2, "TCPCAT_CONTROL=PATH");
    fails(&["ss"], Some(&scratch.path("none")), 3, "there is no control socket at");
    fs::write(scratch.path("file"), "").unwrap();
    fails(&["top", "--once"], Some(&scratch.path("file")), 1, "is not a control socket: it is not a socket");
    drop(UnixListener::bind(scratch.path("stale")).unwrap());
    fails(&["ss"], Some(&scratch.path("stale")), 3, "no stack listens at");
    let other = UnixListener::bind(scratch.path("other")).unwrap();
    let answering = thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.read(&mut [0; 100]);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
    });
    fails(
        &["ss"],
        Some(&scratch.path("other")),
        1,
        "is not a control socket: it answers in another language",
    );
    answering.join().unwrap();
    fails(&["ss", "state", "open"], Some(&scratch.path("none")), 2, "\"open\" is not a state");
    fails(&["ss", "sport", "=", "http"], Some(&scratch.path("none")), 2, "is not a port");
}

#[test]
fn a_running_connection_is_traced_and_its_recorder_dumped() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let socket = scratch.path("control");
    let _transfer = Transfer::start(&netns, &socket);
    let dumped = scratch.path("dumped");
    let words = said(&tcpcat(&["trace", "dump", "0", "-o", dumped.to_str().unwrap()], Some(&socket)), 0);
    let records = entries(&dumped).len();
    assert!((64..=1024).contains(&records) && words.contains(&format!("{records} records")), "{words}");

    let traced = scratch.path("traced");
    let tracing = Process::start(Command::new(TCPCAT).args([
        "trace",
        "on",
        "0",
        "-o",
        traced.to_str().unwrap(),
        "--control",
        socket.to_str().unwrap(),
    ]));
    tracing.await_line("is traced to");
    let sent = |entries: &[Entry]| entries.iter().filter(|entry| matches!(entry, Entry::Sent { .. })).count();
    eventually("segments are traced", || (sent(&entries(&traced)) > 100).then_some(()));
    said(&tcpcat(&["trace", "off", "0"], Some(&socket)), 0);
    let words = said(&tracing.finish(), 0);
    assert!(words.contains("records are in"), "{words}");
    let words = said(&tcpcat(&["trace", "on", "7"], Some(&socket)), 1);
    assert!(
        words.contains("there is no connection \"7\"") && words.contains("tcpcat ss lists them"),
        "{words}"
    );
}

/// The entries of the one connection of a trace.
fn entries(path: &Path) -> Vec<Entry> {
    let Ok(trace) = Trace::read(&fs::read(path).unwrap()) else { return Vec::new() };
    let Some(connection) = trace.connections().next() else { return Vec::new() };
    let Source::Connection { remote, .. } = &connection.source else { panic!("{:?}", connection.source) };
    assert_eq!(remote.to_string(), "10.9.2.2:7000");
    connection.entries.iter().map(|(_, entry)| *entry).collect()
}

/// A terminal of its own, which ends with this.
struct Tmux(String);

impl Tmux {
    fn start(command: &str) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // A server that is ending still holds its name.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let tmux = Self(format!("tcpcat-test-{}-{number}", std::process::id()));
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "60", command]);
        tmux
    }

    fn run(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.0]).args(words).output().expect("tmux runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the screen holds what it should.
    fn await_screen(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        eventually(what, || Some(self.run(&["capture-pane", "-p"])).filter(|screen| holds(screen)))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
    }
}

#[test]
fn top_draws_a_running_transfer_on_a_terminal_and_leaves_it_as_it_was() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let socket = scratch.path("control");
    let _transfer = Transfer::start(&netns, &socket);
    for key in ["q", "C-c"] {
        let top = format!("{TCPCAT} top --interval 0.2 --control {}", socket.display());
        // A shell before and after, so that what is left on the terminal can be read.
        let terminal = Tmux::start(&format!("echo before; {top}; echo \"ended with $?\"; cat"));
        let rate = |screen: &str| screen.contains("10.9.2.2:7000") && screen.contains("Mbit/s");
        let screen = terminal.await_screen("a frame with a rate", rate);
        assert!(screen.starts_with("tcpcat top: 1 connection, "), "{screen}");
        assert!(
            screen.contains("WAITS FOR") && screen.contains("peer's window") && screen.contains("q quit"),
            "{screen}"
        );
        terminal.run(&["send-keys", "s"]);
        terminal.await_screen("sorted by the round trip", |screen| screen.contains("[srtt]"));
        terminal.run(&["send-keys", key]);
        let left = terminal.await_screen("the end", |screen| screen.contains("ended with"));
        assert!(left.starts_with("before\n") && left.contains("ended with 0"), "{key}: {left}");
        assert!(!left.contains("tcpcat top"), "{left}");
    }
}

#[test]
fn top_leaves_the_terminal_as_it_was_after_sigterm() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (socket, pid) = (scratch.path("control"), scratch.path("pid"));
    let _transfer = Transfer::start(&netns, &socket);
    let top = format!("{TCPCAT} top --interval 60 --control {}", socket.display());
    let terminal = Tmux::start(&after(&format!("sh -c 'echo $$ > {}; exec {top}'", pid.display())));
    terminal.await_screen("a frame", |screen| screen.contains("WAITS FOR"));
    let id = fs::read_to_string(&pid).unwrap();
    assert!(Command::new("kill").arg(id.trim()).status().unwrap().success());
    let left = terminal.await_screen("the end", |screen| screen.contains(" iexten"));
    check_restored(&left, 143);
}

/// Its own program draws a frame on a terminal and panics.
#[test]
fn screen_is_left_as_it_was_after_a_panic() {
    const DRAWS: &str = "TCPCAT_TEST_DRAWS";
    if std::env::var_os(DRAWS).is_some() {
        let mut screen = screen::Screen::take().unwrap();
        screen.0.draw(|frame| frame.render_widget("WAITS FOR", frame.area())).unwrap();
        panic!("asked to panic");
    }
    let program = std::env::current_exe().unwrap();
    let name = "control::screen_is_left_as_it_was_after_a_panic";
    let draw = format!("RUST_BACKTRACE=0 {DRAWS}=1 {} --exact {name} --nocapture", program.display());
    let terminal = Tmux::start(&after(&draw));
    let left = terminal.await_screen("the end", |screen| screen.contains(" iexten"));
    check_restored(&left, 101);
    assert!(left.contains("asked to panic"), "{left}");
}

/// `start` between two commands whose words are left on the terminal: `stty` tells whether it echoes and
/// edits lines again.
fn after(start: &str) -> String {
    format!("echo before; {start}; echo \"ended with $?\"; stty -a; cat")
}

fn check_restored(left: &str, code: u8) {
    assert!(left.starts_with("before\n") && left.contains(&format!("ended with {code}\n")), "{left}");
    assert!(!left.contains("WAITS FOR"), "the frame is still there: {left}");
    let modes: Vec<&str> = left.split([' ', ';', '\n']).collect();
    assert!(modes.contains(&"icanon") && modes.contains(&"echo"), "{left}");
}

#[test]
fn ss_takes_the_letters_that_everyone_types_and_lists_listeners() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let socket = scratch.path("control");
    let receiver = netns.listen(&format!("recv - -l 7000 -v --control {} {HOST2}", socket.display()));
    let ss = |words: &str| {
        let output = tcpcat(&words.split(' ').collect::<Vec<_>>(), Some(&socket));
        said(&output, 0);
        String::from_utf8(output.stdout).unwrap()
    };
    let cells = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let listener = cells(ss("ss -tlnpH").trim());
    assert!(listener.starts_with("- LISTEN 0 1024 *:7000 *:* - pid="), "{listener}");
    assert_eq!(ss("ss -tanH").lines().count(), 1);
    assert_eq!(ss("ss -tinH").lines().count(), 0, "connections alone");
    assert_eq!(ss("ss -H state listening").lines().count(), 1);
    assert_eq!(ss("ss -lH sport = :80").lines().count(), 0);
    let shown: serde_json::Value = serde_json::from_str(&ss("ss -a --json")).unwrap();
    assert_eq!((&shown["schema"], &shown["listeners"][0]["local"]), (&1.into(), &"*:7000".into()));
    assert_eq!(shown["connections"], serde_json::json!([]));
    drop(receiver);
}
