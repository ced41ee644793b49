//! Connections joined to stdin and stdout: what ends them, and what each end has by then.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::common::{HOST1, Netns, Process, Scratch, TCPCAT, assert_same, random_file, said};

/// A server on port 7001 of the kernel's, which runs `script` with its connection `s`.
fn server(netns: &Netns, script: &str) -> Process {
    let script = format!(
        "
import socket, struct, sys, time
l = socket.create_server(('0.0.0.0', 7001))
print('ready', file=sys.stderr, flush=True)
s, _ = l.accept()
{script}
"
    );
    let server = Process::start(netns.command("python3").args(["-c", &script]));
    server.await_line("ready");
    server
}

/// A client that connects to `port` of `host` and runs `script` with its connection `s`.
fn client(netns: &Netns, host: &str, port: u16, script: &str) -> Process {
    let script = format!(
        "import socket, struct, sys, time\ns = socket.create_connection(('{host}', {port}), 30)\n{script}"
    );
    Process::start(netns.command("python3").args(["-c", &script]))
}

/// tcpcat with a file as its stdin.
fn with_stdin(netns: &Netns, line: &str, file: &std::path::Path) -> Process {
    Process::start(netns.command("sh").args(["-c", &format!("exec {TCPCAT} {line} < {}", file.display())]))
}

#[test]
fn a_prompt_without_a_newline_is_shown_while_the_connection_stays() {
    let Some(netns) = Netns::new() else { return };
    let prompts = "s.sendall(b'login: '); s.recv(1)";
    for line in ["127.0.0.1 7001 --kernel".to_owned(), format!("10.9.1.1 7001 {HOST1}")] {
        for command in ["", "recv - "] {
            let server = server(&netns, prompts);
            let mut shows = netns.start(&format!("{command}{line}"));
            assert_eq!(shows.read_stdout(7), b"login: ", "{command}{line}");
            drop(server);
        }
    }
    for command in ["-l", "recv - -l"] {
        let mut shows = netns.listen(&format!("{command} 7000 -v --kernel"));
        let client = client(&netns, "127.0.0.1", 7000, prompts);
        assert_eq!(shows.read_stdout(7), b"login: ", "{command}");
        drop(client);
    }
}

#[test]
fn stdin_goes_to_its_end_though_the_peer_has_ended_early() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", 1_500_000);
    let reads = format!(
        "
s.shutdown(socket.SHUT_WR)
with open('{}', 'wb') as to:
    while data := s.recv(65536): to.write(data)
",
        scratch.path("to").display()
    );
    let server = server(&netns, &reads);
    // 30 seconds, a dozen of which are left when the last byte is in the send buffer.
    let began = Instant::now();
    let line = format!("10.9.1.1 7001 --rate-limit 400kbit/s {HOST1}");
    said(&with_stdin(&netns, &line, &from).finish(), 0);
    assert!(began.elapsed() >= Duration::from_secs(28), "the link is slower than that");
    said(&server.finish(), 0);
    assert_same(&from, &scratch.path("to"));
}

#[test]
fn a_sent_file_goes_to_its_end_though_the_peer_has_ended_early() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", 1_500_000);
    let reads = format!(
        "
s.shutdown(socket.SHUT_WR)
with open('{}', 'wb') as to:
    while data := s.recv(65536): to.write(data)
",
        scratch.path("to").display()
    );
    let server = server(&netns, &reads);
    let line = format!("send {} 10.9.1.1 7001 --rate-limit 400kbit/s {HOST1}", from.display());
    said(&netns.tcpcat(&line), 0);
    said(&server.finish(), 0);
    assert_same(&from, &scratch.path("to"));
}

#[test]
fn a_peer_that_acknowledges_no_more_is_4_with_what_is_missing_and_is_reset() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", 3_000_000);
    let reads = "
s.shutdown(socket.SHUT_WR)
s.recv(1)
print('began', file=sys.stderr, flush=True)
try:
    while s.recv(65536): pass
    print('an orderly end', file=sys.stderr)
except ConnectionResetError:
    print('a reset', file=sys.stderr)
";
    let server = server(&netns, reads);
    let line = format!("-w 2 10.9.1.1 7001 --rate-limit 4Mbit/s --sndbuf 8M {HOST1}");
    let sender = with_stdin(&netns, &line, &from);
    server.await_line("began");
    // The kernel hears the stack, and its answers go nowhere.
    netns.shell("ip route add blackhole 10.9.1.2/32");
    let words = said(&sender.finish(), 4);
    assert!(words.contains("nothing moved for 2s"), "{words}");
    assert!(words.contains("has not acknowledged the last"), "{words}");
    assert!(said(&server.finish(), 0).contains("a reset"));
}

#[test]
fn the_end_of_stdin_is_passed_on_only_when_asked_for() {
    let Some(netns) = Netns::new() else { return };
    // As servers that take the end of a request's stream for a client that has left.
    let drops_who_half_closes = "
s.recv(4, socket.MSG_WAITALL)
s.settimeout(1)
try:
    ended = s.recv(1) == b''
except TimeoutError:
    ended = False
s.sendall(b'x' * 1000 if ended else b'x' * 300000)
";
    for device in ["127.0.0.1 7001 --kernel".to_owned(), format!("10.9.1.1 7001 {HOST1}")] {
        for (flags, answer) in [("", 300_000), ("-N", 1000), ("-q 20", 1000)] {
            let server = server(&netns, drops_who_half_closes);
            let mut asks = netns.start(&format!("{flags} {device}"));
            asks.stdin().write_all(b"GET\n").unwrap();
            let output = asks.finish();
            said(&output, 0);
            assert_eq!(output.stdout.len(), answer, "{flags} {device}");
            server.finish();
        }
    }
}

#[test]
fn a_reset_behind_the_answer_is_1_and_the_answer_is_shown() {
    let Some(netns) = Netns::new() else { return };
    let answers_and_resets = "
s.recv(4, socket.MSG_WAITALL)
s.sendall(b'no more, please')
time.sleep(0.5)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
";
    for device in ["127.0.0.1 7001 --kernel".to_owned(), format!("10.9.1.1 7001 {HOST1}")] {
        for flags in ["", "-N", "-q 20"] {
            let server = server(&netns, answers_and_resets);
            let mut asks = netns.start(&format!("{flags} {device}"));
            asks.stdin().write_all(b"GET\n").unwrap();
            let output = asks.finish();
            let words = said(&output, 1);
            assert!(words.contains("reset"), "{flags} {device}: {words}");
            assert_eq!(output.stdout, b"no more, please", "{flags} {device}");
            server.finish();
        }
    }
}

#[test]
fn an_open_stdin_serves_one_client_after_the_other() {
    let Some(netns) = Netns::new() else { return };
    for device in ["--kernel".to_owned(), HOST1.to_owned()] {
        let host = if device == "--kernel" { "127.0.0.1" } else { "10.9.1.2" };
        let mut listener = netns.listen(&format!("-l -k 7000 -v {device}"));
        let mut stdin = listener.stdin();
        for word in ["one", "two", "three"] {
            let began = Instant::now();
            let says = format!("s.sendall(b'{word}'); s.shutdown(socket.SHUT_WR)\nassert s.recv(1) == b''");
            said(&client(&netns, host, 7000, &says).finish(), 0);
            assert!(began.elapsed() < Duration::from_secs(10), "{word}: {:?}", began.elapsed());
            assert_eq!(listener.read_stdout(word.len()), word.as_bytes());
        }
        // The next client gets its own bytes, whole.
        let hears = "sys.stdout.buffer.write(s.recv(6, socket.MSG_WAITALL))";
        let next = client(&netns, host, 7000, hears);
        listener.await_line("connection from");
        stdin.write_all(b"words\n").unwrap();
        assert_eq!(next.finish().stdout, b"words\n", "{device}");
        listener.signal("INT");
        said(&listener.finish(), 0);
    }
}

#[test]
fn a_terminal_gives_each_client_all_its_lines() {
    let Some(netns) = Netns::new() else { return };
    let script = format!(
        "
import os, pty, socket, subprocess, sys, time
own, theirs = pty.openpty()
listener = subprocess.Popen(['{TCPCAT}', '-l', '-k', '7000', '-v', '--kernel'], stdin=theirs,
    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
while 'listening on' not in listener.stderr.readline(): pass
for client in 'abc':
    s = socket.create_connection(('127.0.0.1', 7000), 20)
    while 'connection from' not in listener.stderr.readline(): pass
    for line in '12':
        os.write(own, (client + line + '\\n').encode())
        print(s.recv(3, socket.MSG_WAITALL).decode(), end='', flush=True)
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b''
    s.close()
listener.kill()
"
    );
    let output = Process::start(netns.command("python3").args(["-c", &script])).finish();
    said(&output, 0);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a1\na2\nb1\nb2\nc1\nc2\n");
}

#[test]
fn a_file_on_stdin_goes_whole_to_the_first_client_of_a_listener_that_stays() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", 3_000_000);
    let listener = with_stdin(&netns, "-l -k 7000 -v --kernel", &from);
    listener.await_line("listening on");
    let reads = "
s.shutdown(socket.SHUT_WR)
while data := s.recv(65536): sys.stdout.buffer.write(data)
";
    let first = client(&netns, "127.0.0.1", 7000, reads).finish();
    assert!(first.stdout == std::fs::read(&from).unwrap(), "{} bytes", first.stdout.len());
    assert_eq!(client(&netns, "127.0.0.1", 7000, reads).finish().stdout, b"");
    listener.signal("INT");
    said(&listener.finish(), 0);
}

#[test]
fn a_hang_up_and_a_quit_close_in_order_and_nohup_ignores_the_first() {
    let Some(netns) = Netns::new() else { return };
    for signal in ["HUP", "QUIT"] {
        let mut listener = netns.listen(&format!("-l 7000 -v {HOST1}"));
        let _stdin = listener.stdin();
        let peer = client(&netns, "10.9.1.2", 7000, "assert s.recv(1) == b''");
        listener.await_line("connection from");
        listener.signal(signal);
        listener.await_line("interrupt again to abort");
        said(&peer.finish(), 0);
        said(&listener.finish(), 0);
    }
    let script = format!("exec nohup {TCPCAT} -l 7000 -v {HOST1}");
    let mut listener = Process::start(netns.command("sh").args(["-c", &script]));
    let _stdin = listener.stdin();
    listener.await_line("listening on");
    listener.signal("HUP");
    let peer = client(&netns, "10.9.1.2", 7000, "s.sendall(b'still there?')");
    assert_eq!(listener.read_stdout(12), b"still there?");
    said(&peer.finish(), 0);
    listener.signal("TERM");
    said(&listener.finish(), 0);
}

#[test]
fn slow_is_not_idle() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 240_000), scratch.path("to"));
    // 40 kB/s: six seconds, less than a piece of 256 KiB in all.
    let receiver = netns.listen(&format!("recv {} -l 7000 -v --rate-limit 320kbit/s {HOST1}", to.display()));
    let began = Instant::now();
    said(&netns.tcpcat(&format!("send {} 10.9.1.2 7000 --kernel -w 2", from.display())), 0);
    said(&receiver.finish(), 0);
    assert!(began.elapsed() >= Duration::from_secs(5), "the link is slower than that");
    assert_same(&from, &to);

    for flags in ["recv - -l", "-l -d"] {
        let slow = "import sys, time
while data := sys.stdin.buffer.raw.read(4000): time.sleep(0.1)";
        let script =
            format!("{TCPCAT} {flags} 7000 -v --kernel -w 2 | python3 -c '{slow}'; exit ${{PIPESTATUS[0]}}");
        let receiver = Process::start(netns.command("bash").args(["-c", &script]));
        receiver.await_line("listening on");
        said(&netns.tcpcat(&format!("send {} 127.0.0.1 7000 --kernel", from.display())), 0);
        said(&receiver.finish(), 0);
    }
}

#[test]
fn silence_is_idle_for_the_kernels_connections() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", 20_000_000);
    let server = server(&netns, "s.recv(1)\nsys.stdin.read()");
    let began = Instant::now();
    let words = said(&netns.tcpcat(&format!("send {} 127.0.0.1 7001 --kernel -w 2", from.display())), 4);
    assert!(words.contains("nothing moved for 2s"), "{words}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(server);
}

#[test]
fn a_name_is_dialled_by_the_addresses_that_are_within_reach() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let hosts = scratch.path("hosts");
    std::fs::write(&hosts, "10.9.1.1 both\nfd09::1 both\n").unwrap();
    // `ip netns exec` has a mount namespace of its own.
    let dial = |host: &str, flags: &str| {
        let script = format!(
            "mount --bind {} /etc/hosts && exec {TCPCAT} -d -v {flags} both 7001 {host}",
            hosts.display()
        );
        let dials = Process::start(netns.command("sh").args(["-c", &script]));
        said(&dials.finish(), 0)
    };
    let script = "
import socket, sys
l = socket.create_server(('::', 7001), family=socket.AF_INET6, dualstack_ipv6=True)
print('ready', file=sys.stderr, flush=True)
while True: l.accept()[0].close()
";
    let server = Process::start(netns.command("python3").args(["-c", script]));
    server.await_line("ready");
    let six = dial("--configure --tun tun1 --addr fd09::2/64", "");
    assert!(six.contains("connected to [fd09::1]:7001"), "{six}");
    let four = dial("--configure --tun tun1 --addr 10.9.1.2/24", "");
    assert!(four.contains("connected to 10.9.1.1:7001"), "{four}");

    // The first of two families does not answer.
    let both = "--configure --tun tun1 --addr 10.9.1.2/24 --addr fd09::2/64";
    std::fs::write(&hosts, "10.9.1.1 both\nfd09::99 both\n").unwrap();
    let words = dial(both, "-w 10");
    assert!(words.contains("connected to 10.9.1.1:7001"), "{words}");
}
