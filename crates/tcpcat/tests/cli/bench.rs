//! `tcpcat bench` with the distribution's iperf3 at the other end of a TUN device, with itself, and with
//! peers that break the protocol.

use std::process::Output;

use ackclock_tests::kernel::program::have;
use serde_json::Value;

use crate::common::{HOST1, HOST2, Netns, Process, said};

const MIB: u64 = 1 << 20;

/// A namespace, and whether iperf3 is there.
pub(crate) fn with_iperf3() -> Option<Netns> {
    if have("iperf3") { Netns::new() } else { None }
}

/// Starts a server in the namespace, and returns when it listens.
fn iperf3_server(netns: &Netns) -> Process {
    let server = Process::start(netns.command("iperf3").args(["-s", "-1", "--forceflush"]));
    netns.shell("for i in $(seq 500); do ss -ltn | grep -q ':5201 ' && exit 0; sleep 0.02; done; exit 1");
    server
}

pub(crate) fn object(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The sums of a tcpcat's report: bytes sent and received, on the streams on which it sends, or receives.
pub(crate) fn sums(report: &Value, sends: bool) -> (u64, u64) {
    let streams = report["end"]["bench"]["streams"].as_array().expect("streams");
    let sum = |name: &str| {
        let of = streams.iter().filter(|stream| stream["sends"] == sends);
        of.map(|stream| stream[name].as_u64().expect("a count")).sum()
    };
    (sum("bytes_sent"), sum("bytes_received"))
}

#[test]
fn a_client_without_a_server_is_told_which_to_start() {
    let Some(netns) = Netns::new() else { return };
    let words = said(&netns.tcpcat(&format!("bench client 10.9.1.1 {HOST1}")), 3);
    assert!(words.contains("tcpcat bench server, or iperf3 -s") && !words.contains("tcpcat -l"), "{words}");
}

#[test]
fn a_client_measures_against_iperf3() {
    let Some(netns) = with_iperf3() else { return };
    for streams in [1, 4] {
        for (way, sends) in [("", true), ("-R", false)] {
            let server = iperf3_server(&netns);
            let line = format!("bench client 10.9.1.1 {way} -P {streams} -n 4M --json {HOST1}");
            let client = netns.tcpcat(&line);
            said(&client, 0);
            let words = said(&server.finish(), 0);
            assert!(!words.contains("error"), "{words}");
            let report = object(&client);
            let (sent, received) = sums(&report, sends);
            assert_eq!(report["end"]["bench"]["streams"].as_array().unwrap().len(), streams, "{report}");
            // The bytes that were asked for are counted, and no end has more than was sent.
            let counted = if sends { sent } else { received };
            assert_eq!(counted, 4 * MIB, "{report}");
            assert!(received > 0 && received <= sent, "{report}");
        }
    }
}

#[test]
fn iperf3_measures_against_a_server() {
    let Some(netns) = with_iperf3() else { return };
    for streams in [1, 4] {
        for (way, sends) in [("", false), ("-R", true)] {
            let server = netns.start(&format!("bench server --one-off --json {HOST1}"));
            server.await_line("serving measurements");
            let line = format!("-c 10.9.1.2 {way} -P {streams} -n 4M -J");
            let client = Process::start(netns.command("iperf3").args(line.split_whitespace())).finish();
            let server = server.finish();
            said(&client, 0);
            said(&server, 0);
            let (theirs, ours) = (object(&client), object(&server));
            assert_eq!(theirs["error"], Value::Null, "{theirs}");
            let (sent, received) = sums(&ours, sends);
            // Both programs say the same of both ends.
            assert_eq!(theirs["end"]["sum_received"]["bytes"], received, "{theirs}");
            assert_eq!(theirs["end"]["sum_sent"]["bytes"], sent, "{theirs}");
            assert!(received > 0 && received <= sent, "{ours}");
            assert!(theirs["end"]["sum_sent"]["retransmits"].is_u64(), "{theirs}");
            if sends {
                // The results have those so far; some may have followed.
                let streams = ours["end"]["bench"]["streams"].as_array().unwrap();
                let told: u64 = streams.iter().map(|stream| stream["retransmits"].as_u64().unwrap()).sum();
                assert_eq!(theirs["end"]["sum_sent"]["retransmits"], told, "{theirs}\n{ours}");
                assert!(ours["end"]["retransmits"].as_u64() >= Some(told), "{ours}");
            }
        }
    }
}

#[test]
fn iperf3_measures_both_ways_at_once_against_a_server() {
    let Some(netns) = with_iperf3() else { return };
    let server = netns.start(&format!("bench server --one-off --json {HOST1}"));
    server.await_line("serving measurements");
    let client =
        Process::start(netns.command("iperf3").args("-c 10.9.1.2 --bidir -P 2 -t 1 -J".split(' '))).finish();
    let server = server.finish();
    said(&client, 0);
    said(&server, 0);
    let (theirs, ours) = (object(&client), object(&server));
    assert_eq!(theirs["end"]["sum_received"]["bytes"], sums(&ours, false).1, "{theirs}");
    assert_eq!(theirs["end"]["sum_sent_bidir_reverse"]["bytes"], sums(&ours, true).0, "{theirs}");
}

#[test]
fn a_measurement_goes_both_ways_and_is_reported() {
    let Some(netns) = Netns::new() else { return };
    // Either end may do without copies: the other one does not see it.
    for (of_server, of_client) in [("", ""), ("-Z", "-Z"), ("", "-Z")] {
        let server = netns.start(&format!("bench server --one-off {of_server} {HOST2}"));
        server.await_line("serving measurements");
        let client = netns.tcpcat(&format!(
            "bench client 10.9.2.2 --bidir --bytes 4M -P 2 --json --stats=50ms {of_client} {HOST1}"
        ));
        let words = said(&client, 0);
        assert!(
            words.contains("cubic") && words.contains("cwnd:") && words.contains("bytes_acked:"),
            "{words}"
        );
        assert!(words.contains("to the peer: 4.00 MiB sent") && words.contains("from the peer: "), "{words}");
        said(&server.finish(), 0);
        let report = object(&client);
        assert_eq!(report["end"]["bytes_sent"], 4 * MIB);
        assert_eq!(report["end"]["bytes_received"], 4 * MIB);
        // The server reads all that had arrived when the client ended the run.
        assert_eq!(sums(&report, true), (4 * MIB, 4 * MIB));
        assert_eq!(report["end"]["bench"]["streams"].as_array().unwrap().len(), 4);
    }
}

/// A client in Python: `s` is its control connection, after the cookie; `state` reads a state's byte, and
/// `json` sends bytes behind their length.
pub(crate) const CLIENT: &str = "
import socket, struct, sys, time
def connect(cookie):
    s = socket.create_connection(('127.0.0.1', 5201))
    s.settimeout(20)
    s.sendall(cookie)
    return s
def state(s):
    return struct.unpack('b', s.recv(1) or b'\\x7f')[0]
def json(s, text, length=None):
    s.sendall(struct.pack('>I', len(text) if length is None else length) + text)
cookie, other = b'a' * 36 + b'\\0', b'b' * 36 + b'\\0'
s = connect(cookie)
assert state(s) == 9
";

#[test]
fn a_client_that_breaks_the_protocol_is_named_and_the_next_one_is_served() {
    let Some(netns) = Netns::new() else { return };
    let server = netns.start("bench server --kernel");
    server.await_line("serving measurements");
    for (script, says) in [
        ("json(s, b'', 0xffffffff); assert state(s) == 127", "at most 8192 are taken"),
        ("json(s, b'{\"tcp\":tru'); assert state(s) == 127", "JSON cannot be read"),
        ("json(s, b'{\"tcp\":true,\"parallel\":1000000}'); assert state(s) == -2", "1000000 streams"),
        (
            "json(s, b'{\"tcp\":true,\"parallel\":1,\"len\":1e18}'); assert state(s) == -2",
            "blocks of 1000000000000000000 bytes",
        ),
        ("json(s, b'{\"sctp\":true,\"parallel\":1}'); assert state(s) == -2", "only TCP"),
        ("s.close()", "closed the connection"),
        (
            "json(s, b'{\"tcp\":true,\"parallel\":1}'); assert state(s) == 10
wrong = connect(other); assert state(wrong) == -1
d = connect(cookie); assert state(s) == 1 and state(s) == 2
busy = connect(other); assert state(busy) == -1
late = connect(cookie); assert state(late) == -1
d.sendall(b'x' * 100000); d.close(); s.close()",
            "closed",
        ),
        (
            "json(s, b'{\"tcp\":true,\"parallel\":1}'); assert state(s) == 10
d = connect(cookie); assert state(s) == 1 and state(s) == 2
s.sendall(b'\\x2a')
try: assert state(s) == 127
except ConnectionResetError: pass",
            "42 is not a state",
        ),
    ] {
        // A connection that never says a cookie holds up nothing.
        let script = format!("{CLIENT}silent = socket.create_connection(('127.0.0.1', 5201))\n{script}\n");
        let client = Process::start(netns.command("python3").args(["-c", &script]));
        server.await_line(says);
        said(&client.finish(), 0);
    }
    said(&netns.tcpcat("bench client 127.0.0.1 -n 1M --kernel"), 0);
    server.signal("INT");
    said(&server.finish(), 0);
}

/// A server in Python that answers with the bytes `{}`, and keeps the connection open while the client does.
fn server_that_says(netns: &Netns, bytes: &str) -> Process {
    let script = format!(
        "
import socket, sys
l = socket.create_server(('0.0.0.0', 5201))
print('ready', file=sys.stderr, flush=True)
s, _ = l.accept()
s.recv(37, socket.MSG_WAITALL)
s.sendall({bytes})
s.shutdown(socket.SHUT_WR)
while s.recv(65536): pass
"
    );
    let server = Process::start(netns.command("python3").args(["-c", &script]));
    server.await_line("ready");
    server
}

#[test]
fn a_server_that_does_not_go_on_is_named() {
    let Some(netns) = Netns::new() else { return };
    for (bytes, code, says) in [
        ("b'\\xff'", 3, "busy with another test"),
        ("b'\\xfe\\0\\0\\0\\x0d\\0\\0\\0\\0'", 1, "iperf3's number 13"),
        ("b'\\x0b'", 1, "the server was ended"),
        ("b'\\x02'", 1, "out of turn"),
        ("b'SSH-2.0-OpenSSH'", 1, "not a state of iperf3's protocol"),
        ("b''", 1, "closed the connection"),
    ] {
        let server = server_that_says(&netns, bytes);
        let words = said(&netns.tcpcat("bench client 127.0.0.1 --kernel"), code);
        assert!(words.contains(says), "{bytes}: {words}");
        drop(server);
    }
}

#[test]
fn an_interrupt_of_either_end_is_told_to_the_other() {
    let Some(netns) = Netns::new() else { return };
    let server = netns.start("bench server --kernel");
    server.await_line("serving measurements");
    let client = netns.start("bench client 127.0.0.1 -t 600 -v --kernel");
    for _ in 0..2 {
        client.await_line("connected to");
    }
    client.signal("INT");
    let words = said(&client.finish(), 1);
    assert!(words.contains("the measurement is incomplete"), "{words}");
    server.await_line("the client was ended");
    let client = netns.start("bench client 127.0.0.1 -t 600 --kernel --json");
    netns.shell(
        "for i in $(seq 500); do [ $(ss -tnH state established dport = :5201 | wc -l) -ge 2 ] && exit 0; \
         sleep 0.02; done; exit 1",
    );
    server.signal("INT");
    said(&server.finish(), 0);
    let words = said(&client.finish(), 1);
    assert!(words.contains("the server was ended"), "{words}");
}
