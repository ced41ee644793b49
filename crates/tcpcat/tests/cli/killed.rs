//! A process that is killed in the middle of a transfer and started again at once, on the same device,
//! address and port; and one that runs out of descriptors.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{HOST1, Netns, Process, Scratch, TCPCAT, random_file, said};

#[test]
fn a_killed_receiver_starts_again_at_once_and_resets_the_connection_it_forgot() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 2_000_003), scratch.path("to"));
    let receive = format!("recv {} -l 7000 -v {HOST1}", to.display());

    let mut receiver = netns.listen(&receive);
    // Its segments go on for as long as nothing tells it to stop.
    let script = "
import socket
s = socket.create_connection(('10.9.1.2', 7000))
try:
    while True:
        s.sendall(b'x' * 65536)
except OSError as e:
    print(type(e).__name__)
";
    let old = Process::start(netns.command("python3").args(["-c", script]));
    let part = scratch.await_part(200_000);
    receiver.kill();
    assert!(!to.exists(), "what is not complete has not its name");
    fs::remove_file(part).expect("the part that was left");

    let again = netns.listen(&receive);
    let ended = old.finish();
    assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), "ConnectionResetError");
    netns.shell(&format!("nc -N 10.9.1.2 7000 < {} > /dev/null", from.display()));
    said(&again.finish(), 0);
    assert!(
        fs::read(&from).unwrap() == fs::read(&to).unwrap(),
        "nothing of the old connection is in the new file"
    );
    assert_eq!(scratch.names(), ["from", "to"]);
    assert!(!netns.shell("ip -o link").contains("tun1"), "the device has ended with its program");
}

#[test]
fn a_killed_sender_connects_again_at_once_and_the_server_learns_of_it() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 1_000_003), scratch.path("to"));
    // Reads a little of its first connection, all of its second, and only then says something on the first.
    let script = "
import socket, sys
l = socket.create_server(('0.0.0.0', 7001))
print('ready', file=sys.stderr, flush=True)
a, _ = l.accept()
a.recv(1000)
print('began', file=sys.stderr, flush=True)
b, _ = l.accept()
with open(sys.argv[1], 'wb') as to:
    while data := b.recv(65536):
        to.write(data)
b.close()
a.settimeout(30)
try:
    a.sendall(b'still there?')
    while a.recv(65536):
        pass
    print('an orderly end', file=sys.stderr)
except ConnectionResetError:
    print('a reset', file=sys.stderr)
";
    let server = Process::start(netns.command("python3").args(["-c", script]).arg(&to));
    server.await_line("ready");
    let mut sender = netns.start(&format!("10.9.1.1 7001 {HOST1}"));
    let mut stdin = sender.stdin();
    stdin.write_all(&[7; 100_000]).unwrap();
    server.await_line("began");
    sender.kill();

    said(&netns.tcpcat(&format!("send {} 10.9.1.1 7001 {HOST1}", from.display())), 0);
    // The one that is there now answers for the one that was: RFC 9293 §3.5.2, group 1.
    let bystander = netns.listen(&format!("-l 7002 -v {HOST1}"));
    let output = server.finish();
    assert!(said(&output, 0).contains("a reset"), "{output:?}");
    assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap());
    bystander.signal("INT");
    bystander.finish();
}

#[test]
fn ten_kills_in_a_row_leave_nothing_in_the_way() {
    let Some(netns) = Netns::new() else { return };
    for round in 0..10 {
        let mut listener = netns.listen(&format!("-l 7000 -v {HOST1}"));
        let script = "import socket; socket.create_connection(('10.9.1.2', 7000), 5).sendall(b'x')";
        said(&Process::start(netns.command("python3").args(["-c", script])).finish(), 0);
        listener.await_line("connection from");
        let began = Instant::now();
        listener.kill();
        while netns.shell("ip -o link").contains("tun1") {
            assert!(began.elapsed() < Duration::from_secs(1), "round {round}: the device stays");
        }
        assert!(!netns.shell("ip route").contains("tun1"), "round {round}: a route stays");
    }
}

#[test]
fn too_few_descriptors_to_begin_are_told_with_what_mends_it() {
    let Some(netns) = Netns::new() else { return };
    let mut codes = Vec::new();
    // From what no runtime can begin with to what is enough.
    for limit in 4..40 {
        let script = format!("ulimit -n {limit}; exec {TCPCAT} -l 7000 -w 1 -v {HOST1}");
        let output = Process::start(netns.command("sh").args(["-c", &script])).finish();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        if words.contains("listening on") {
            said(&output, 4);
            break;
        }
        assert!(words.contains("ulimit -n") && !words.contains("panicked"), "{limit}: {words}");
        codes.push(output.status.code());
    }
    assert!(codes.contains(&Some(5)), "the device: {codes:?}");
    assert!(codes.iter().all(|code| matches!(code, Some(1 | 5))), "{codes:?}");
}

#[test]
fn no_descriptor_for_the_file_is_6_and_connections_need_none() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let starved = |line: &str| {
        let listener = netns.listen(line);
        let pid = listener.id().to_string();
        let done = Command::new("prlimit").args(["--nofile=3:3", "--pid", &pid]).status();
        assert!(done.expect("prlimit runs").success());
        listener
    };
    let listener = starved(&format!("-l 7000 -v {HOST1}"));
    let words = Process::start(netns.command("sh").args(["-c", "echo words | nc -N 10.9.1.2 7000"]));
    listener.await_line("connection from");
    let output = listener.finish();
    said(&output, 0);
    assert_eq!(output.stdout, b"words\n");
    said(&words.finish(), 0);

    let target = scratch.path("file");
    fs::write(&target, "old").unwrap();
    let receiver = starved(&format!("recv {} -l 7000 -v {HOST1}", target.display()));
    netns.shell("echo words | nc -N 10.9.1.2 7000 || true");
    let words = said(&receiver.finish(), 6);
    assert!(words.contains("Too many open files") && words.contains("ulimit -n"), "{words}");
    assert_eq!(fs::read(&target).unwrap(), b"old");
}
