//! `tcpcat bench` over UDP, with the distribution's iperf3 at the other end of a TUN device or on loopback,
//! with itself, and with a client that loses datagrams on purpose.

use std::process::Output;

use serde_json::Value;

use crate::bench::{CLIENT, object, sums, with_iperf3};
use crate::common::{HOST1, HOST2, Netns, Process, said};

/// Where the ends are: tcpcat's flags, its address, and that of the kernel.
const PLACES: [(&str, &str, &str); 2] =
    [(HOST1, "10.9.1.2", "10.9.1.1"), ("--kernel", "127.0.0.1", "127.0.0.1")];

/// Starts a server in the namespace that reports as JSON, and returns when it listens.
fn iperf3_server(netns: &Netns) -> Process {
    let server = Process::start(netns.command("iperf3").args(["-s", "-1", "-J"]));
    netns.shell("for i in $(seq 500); do ss -ltn | grep -q ':5201 ' && exit 0; sleep 0.02; done; exit 1");
    server
}

/// One end's counts of datagrams, of all streams together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    sent: u64,
    received: u64,
    lost: u64,
}

/// Those of a tcpcat's report, of the streams on which it sends, or receives.
fn counts(report: &Value, sends: bool) -> Counts {
    let streams = report["end"]["bench"]["streams"].as_array().expect("streams");
    let sum = |name: &str| {
        let of = streams.iter().filter(|stream| stream["sends"] == sends);
        of.map(|stream| stream["datagrams"][name].as_u64().expect("a count")).sum()
    };
    Counts { sent: sum("sent"), received: sum("received"), lost: sum("lost") }
}

/// A sum of a number that iperf3 reports of each stream.
fn iperf3_sum(report: &Value, name: &str) -> u64 {
    let streams = report["end"]["streams"].as_array().expect("streams");
    streams.iter().map(|stream| stream["udp"][name].as_u64().expect("a count")).sum()
}

/// The counts are of a test of a second or more at 4 Mbit/s, with datagrams of 1,000 bytes, on a network
/// without loss. A busy machine may have sent a tenth, and counted a quarter of that before the run was over.
#[track_caller]
fn assert_likely(counts: Counts, seconds: f64, what: &Value) {
    let most = (550.0 * seconds) as u64 + 60;
    assert!((50..=most).contains(&counts.sent), "{seconds} s: {counts:?} {what}");
    assert!(counts.received + counts.lost <= counts.sent, "{counts:?} {what}");
    assert!(counts.received >= counts.sent / 4, "{counts:?} {what}");
}

fn finished(client: Output, server: Output) -> (Value, Value) {
    said(&client, 0);
    said(&server, 0);
    (object(&client), object(&server))
}

#[test]
fn a_client_measures_udp_against_iperf3() {
    let Some(netns) = with_iperf3() else { return };
    for (host, _, peer) in PLACES {
        for (way, sends) in [("", true), ("-R --udp-counters-64bit", false)] {
            let server = iperf3_server(&netns);
            let line = format!("bench client {peer} -u {way} -P 2 -t 1 -b 4M -l 1000B --json {host}");
            let client = netns.tcpcat(&line);
            let (ours, theirs) = finished(client, server.finish());
            assert_eq!(theirs["error"], Value::Null, "{theirs}");
            let found = counts(&ours, sends);
            let seconds = theirs["end"]["sum"]["seconds"].as_f64().unwrap();
            assert_likely(found, seconds.max(ours["end"]["bench"]["seconds"].as_f64().unwrap()), &ours);
            // A datagram's bytes are counted with it.
            let (sent, received) = sums(&ours, sends);
            assert_eq!((sent, received), (found.sent * 1000, found.received * 1000), "{ours}");
            // Both programs say the same. Iperf3's server shows its own end only.
            let told = iperf3_sum(&theirs, "packets");
            if sends {
                assert_eq!(told, found.received + found.lost, "{theirs}");
                assert_eq!(iperf3_sum(&theirs, "lost_packets"), found.lost, "{theirs}");
                assert_eq!(theirs["end"]["sum_received"]["bytes"], received, "{theirs}");
            } else {
                assert_eq!(told, found.sent, "{theirs}");
                assert_eq!(theirs["end"]["sum_sent"]["bytes"], sent, "{theirs}");
            }
        }
    }
}

#[test]
fn iperf3_measures_udp_against_a_server() {
    let Some(netns) = with_iperf3() else { return };
    for (host, own, _) in PLACES {
        for (way, sends) in [("--udp-counters-64bit", false), ("-R", true)] {
            let server = netns.start(&format!("bench server --one-off --json {host}"));
            server.await_line("serving measurements");
            let line = format!("-c {own} -u {way} -P 2 -t 1 -b 2M -l 1000 -J");
            let client = Process::start(netns.command("iperf3").args(line.split_whitespace())).finish();
            let (theirs, ours) = finished(client, server.finish());
            assert_eq!(theirs["error"], Value::Null, "{theirs}");
            let found = counts(&ours, sends);
            let end = &theirs["end"];
            let seconds = end["sum_sent"]["seconds"].as_f64().unwrap();
            assert_likely(found, seconds.max(ours["end"]["bench"]["seconds"].as_f64().unwrap()), &ours);
            let (sent, received) = sums(&ours, sends);
            assert_eq!((sent, received), (found.sent * 1000, found.received * 1000), "{ours}");
            // Both programs say the same of both ends.
            assert_eq!(
                (&end["sum_sent"]["packets"], &end["sum_sent"]["bytes"]),
                (&found.sent.into(), &sent.into())
            );
            assert_eq!(end["sum_received"]["packets"], found.received + found.lost, "{theirs}");
            assert_eq!(end["sum_received"]["lost_packets"], found.lost, "{theirs}");
            assert_eq!(end["sum_received"]["bytes"], received, "{theirs}");
            // A receiver's jitter goes to the other end, and is of this machine: below a second, and not 0.
            let jitter = end["sum"]["jitter_ms"].as_f64().unwrap();
            let streams = ours["end"]["bench"]["streams"].as_array().unwrap();
            let mean =
                streams.iter().map(|one| one["datagrams"]["jitter_ms"].as_f64().unwrap()).sum::<f64>() / 2.0;
            assert!(jitter > 0.0 && jitter < 1000.0 && (jitter - mean).abs() < 1e-4, "{theirs}\n{ours}");
        }
    }
}

#[test]
fn iperf3_measures_udp_both_ways_and_leaves_out_a_second() {
    let Some(netns) = with_iperf3() else { return };
    let server = netns.start(&format!("bench server --one-off --json {HOST1}"));
    server.await_line("serving measurements");
    let line = "-c 10.9.1.2 -u --bidir -O 1 -t 1 -b 4M -l 1000 -J";
    let client = Process::start(netns.command("iperf3").args(line.split(' '))).finish();
    let (theirs, ours) = finished(client, server.finish());
    for (sends, sent, received) in
        [(false, "sum_sent", "sum_received"), (true, "sum_sent_bidir_reverse", "sum_received_bidir_reverse")]
    {
        let found = counts(&ours, sends);
        assert_eq!(theirs["end"][sent]["bytes"], sums(&ours, sends).0, "{theirs}");
        assert_eq!(theirs["end"][received]["bytes"], sums(&ours, sends).1, "{theirs}");
        // Those of one second, not of both.
        let seconds = theirs["end"][sent]["seconds"].as_f64().unwrap();
        assert_likely(found, seconds.max(ours["end"]["bench"]["seconds"].as_f64().unwrap()), &theirs);
    }
}

#[test]
fn loss_and_order_on_the_way_are_measured() {
    let Some(netns) = Netns::new() else { return };
    let server = netns.start(&format!("bench server --one-off --json {HOST2}"));
    server.await_line("serving measurements");
    let client = netns.tcpcat(&format!(
        "bench client 10.9.2.2 -u -k 1000 -l 200B -b 1M -P 2 --json --loss 10% --reorder 5% {HOST1}"
    ));
    let words = said(&client, 0);
    let server = server.finish();
    said(&server, 0);
    let (ours, theirs) = (object(&client), object(&server));
    let found = counts(&ours, true);
    assert_eq!(found, counts(&theirs, false), "{ours}\n{theirs}");
    assert_eq!((found.sent, sums(&ours, true)), (1000, (200_000, found.received * 200)), "{ours}");
    // A tenth is lost, within five standard deviations; a queue of a busy machine may lose some more. Nothing
    // shows that a stream's last ones are missing.
    assert!((52..=400).contains(&found.lost), "{ours}");
    assert!((960..=1000).contains(&(found.received + found.lost)), "{ours}");
    let streams = theirs["end"]["bench"]["streams"].as_array().unwrap();
    let late: u64 = streams.iter().map(|one| one["datagrams"]["out_of_order"].as_u64().unwrap()).sum();
    assert!((10..=120).contains(&late), "{theirs}");
    let says = format!("{} of {} datagrams lost", found.lost, found.received + found.lost);
    assert!(words.contains(&says) && words.contains("ms"), "{words}");
}

#[test]
fn a_length_without_limit_of_rate_goes_both_ways() {
    let Some(netns) = Netns::new() else { return };
    for (ours, theirs, peer) in [(HOST1, HOST2, "10.9.2.2"), ("--kernel", "--kernel", "127.0.0.1")] {
        let server = netns.start(&format!("bench server --one-off --json {theirs}"));
        server.await_line("serving measurements");
        let client = netns.tcpcat(&format!("bench client {peer} -u --bidir -n 2M -b 0 -l 1K --json {ours}"));
        let words = said(&client, 0);
        assert!(words.contains("to the peer: 2.00 MiB sent") && words.contains("from the peer: "), "{words}");
        let (ours, theirs) = finished(client, server.finish());
        for sends in [true, false] {
            let found = counts(&ours, sends);
            assert_eq!(found, counts(&theirs, !sends), "{ours}\n{theirs}");
            assert!(found.received > 0 && found.received + found.lost <= found.sent, "{ours}");
        }
        assert_eq!(counts(&ours, true).sent, 2048, "{ours}");
        // The server sends on until the client has what it wants, and knows.
        assert!(sums(&ours, false).1 >= 2 << 20, "{ours}");
    }
}

#[test]
fn a_server_counts_what_a_client_leaves_out_and_swaps() {
    let Some(netns) = Netns::new() else { return };
    for (counters, format, len) in [("", ">III", 12), (",\"udp_counters_64bit\":1", ">IIQ", 16)] {
        let server = netns.start("bench server --one-off --kernel --json");
        server.await_line("serving measurements");
        let script = format!(
            "{CLIENT}
json(s, b'{{\"udp\":true,\"parallel\":1,\"len\":100{counters}}}')
assert state(s) == 10
def greet(address):
    d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    d.bind((address, 0))
    d.connect(('127.0.0.1', 5201))
    d.settimeout(20)
    d.send(b'9876')
    return d
stranger = greet('127.0.0.2')
d = greet('127.0.0.1')
assert d.recv(100) == b'6789'
assert state(s) == 1 and state(s) == 2
stranger.send(b'x' * 100)
d.send(b'short')
for number in [1, 2, 5, 4, 3, 9]:
    d.send(struct.pack('{format}', 7, number * 1000, number).ljust(100, b'x'))
s.sendall(b'\\x04')
assert state(s) == 13
json(s, b'{{\"cpu_util_total\":0,\"cpu_util_user\":0,\"cpu_util_system\":0,\"sender_has_retransmits\":0,\
\"streams\":[{{\"id\":1,\"bytes\":1000,\"retransmits\":-1,\"jitter\":0,\"errors\":0,\"packets\":10}}]}}')
length, = struct.unpack('>I', s.recv(4, socket.MSG_WAITALL))
print(s.recv(length, socket.MSG_WAITALL).decode())
assert state(s) == 14
stranger.settimeout(0)
try: stranger.recv(100); assert False
except BlockingIOError: pass
s.sendall(b'\\x10')
"
        );
        let client = Process::start(netns.command("python3").args(["-c", &script])).finish();
        said(&client, 0);
        let results = object(&client);
        let stream = &results["streams"][0];
        // 3 and 4 came late; 6, 7 and 8 did not come.
        assert_eq!(
            (&stream["packets"], &stream["errors"], &stream["bytes"]),
            (&9.into(), &3.into(), &600.into())
        );
        let jitter = stream["jitter"].as_f64().unwrap();
        assert!(jitter > 0.0 && jitter < 1.0, "{len}: {results}");
        let server = server.finish();
        said(&server, 0);
        let report = object(&server);
        assert_eq!(counts(&report, false), Counts { sent: 10, received: 6, lost: 3 }, "{report}");
        assert_eq!(report["end"]["bench"]["streams"][0]["datagrams"]["out_of_order"], 2, "{report}");
    }
}

#[test]
fn datagrams_that_no_packet_takes_are_refused_with_the_length_that_fits() {
    let Some(netns) = with_iperf3() else { return };
    // An Ethernet packet of 1,500 bytes without the headers of IP and UDP.
    let server = netns.start("bench server --kernel");
    server.await_line("serving measurements");
    let words = said(&netns.tcpcat(&format!("bench client 10.9.1.1 -u -l 1473B {HOST1}")), 2);
    assert!(words.contains("1473 bytes") && words.contains("-l 1472B"), "{words}");
    said(&netns.tcpcat(&format!("bench client 10.9.1.1 -u -k 3 -b 0 -l 1472B {HOST1}")), 0);
    server.signal("INT");
    said(&server.finish(), 0);
    let server = netns.start(&format!("bench server {HOST1}"));
    server.await_line("serving measurements");
    let client = Process::start(netns.command("iperf3").args("-c 10.9.1.2 -u -R -l 1473".split(' ')));
    server.await_line("1473 bytes; at most 1472 fit");
    client.finish();
    let client = Process::start(netns.command("iperf3").args("-c 10.9.1.2 -u -R -n 2000 -l 1472".split(' ')));
    said(&client.finish(), 0);
    server.signal("INT");
    said(&server.finish(), 0);
}

#[test]
fn a_server_whose_udp_port_is_another_programs_says_so() {
    let Some(netns) = Netns::new() else { return };
    let script = "
import socket, sys
d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
d.bind(('127.0.0.1', 5201))
print('ready', file=sys.stderr, flush=True)
sys.stdin.read()
";
    let other = Process::start(netns.command("python3").args(["-c", script]));
    other.await_line("ready");
    let server = netns.start("bench server --kernel");
    server.await_line("serving measurements");
    let words = said(&netns.tcpcat("bench client 127.0.0.1 -u --kernel"), 1);
    assert!(words.contains("refused the test (iperf3's number 202)"), "{words}");
    server.await_line("binding a UDP socket");
    said(&other.finish(), 0);
    said(&netns.tcpcat("bench client 127.0.0.1 -u -k 2 --kernel"), 0);
    server.signal("INT");
    said(&server.finish(), 0);
}
