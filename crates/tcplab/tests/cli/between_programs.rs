//! `tcplab between` held against what users ask of Toxiproxy, by the numbers of its threads, and against
//! programs that know nothing of it.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ackclock_tests::kernel::program::have;
use serde_json::Value;

use super::through::{Between, PATIENCE, bytes, datagrams, echo_at_end, exchange, server, two};

/// "Is there a feature which can config the percentage of the package losses?" (100), and "a toxic that
/// simulates package loss" (87): packets are lost, and the stream arrives whole and later.
#[test]
fn toxiproxy_100_and_87_packets_are_lost_and_the_bytes_arrive() {
    let network = two(r#"rate = "50Mbit/s", delay = "2ms", loss = { independent = "5%" }"#);
    let between = Between::start(&network, echo_at_end(), &[]);
    let sent = bytes(1_000_000);
    assert_eq!(exchange(between.connect(), &sent).unwrap(), sent);
    let (report, _) = between.stop();
    for link in report["network"]["links"].as_array().unwrap() {
        let (packets, lost) = (link["sent"].as_u64().unwrap(), dropped(link, "random-loss"));
        assert!(packets > 1000 && is_share(lost, packets, 0.05), "{lost} of {packets}");
    }
    // 691 segments of 1,448 bytes carry a million; the lost ones went again.
    let guests = report["network"]["guests"].as_array().unwrap();
    assert!(guests.iter().all(|guest| guest["packets_sent"].as_u64().unwrap() > 691 + 691 / 40), "{report}");
}

/// "For what values of latency/jitter the packet loss will be simulated?" (285): a share is a share.
#[test]
fn toxiproxy_285_the_share_is_the_share_that_is_lost() {
    let (program, received) = (datagrams(), 4000);
    let between = Between::start(
        &two(r#"rate = "unlimited", delay = "1ms""#),
        program.local_addr().unwrap(),
        &["--udp"],
    );
    between.change("/links/link", r#"{ "way": "there", "loss": "10%" }"#);
    send_many(&between, received, |report| {
        report["datagrams"]["arrived"].as_u64().unwrap()
            + dropped(&report["network"]["links"][0], "random-loss")
    });
    let (report, _) = between.stop();
    let count = |key: &str| report["datagrams"][key].as_u64().unwrap();
    assert!(count("sent") > 3000, "{report}");
    assert!(is_share(count("sent") - count("arrived"), count("sent"), 0.1), "{report}");
}

/// "Guidance on setting a realistic percentage of packet loss" (578): loss in bursts, as radio links have
/// it, from the scenario's file.
#[test]
fn toxiproxy_578_losses_come_in_bursts() {
    let loss = r#"loss = { gilbert-elliott = { to-bad = "1%", to-good = "25%" } }"#;
    let program = datagrams();
    let network = two(&format!(r#"rate = "unlimited", delay = "1ms", {loss}"#));
    let between = Between::start(&network, program.local_addr().unwrap(), &["--udp"]);
    let arrived = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&arrived);
    // It ends with the test.
    thread::spawn(move || {
        let mut buf = [0; 100];
        while program.recv(&mut buf).is_ok() {
            seen.lock().unwrap().insert(u32::from_le_bytes([buf[0], buf[1], buf[2], buf[3]]));
        }
    });
    // None is under way outside the network when the next ones leave, so that no socket's queue overflows.
    send_many(&between, 6000, |report| {
        arrived.lock().unwrap().len() as u64 + dropped(&report["network"]["links"][0], "burst-loss")
    });
    let arrived = arrived.lock().unwrap().clone();
    let (report, _) = between.stop();
    let link = &report["network"]["links"][0];
    let (packets, lost) = (link["sent"].as_u64().unwrap(), dropped(link, "burst-loss"));
    // One packet in 100 begins a bad period of 4 packets on average: 1 / 26 of the packets. With some 60
    // periods, whose lengths are geometric, four standard deviations are 70 % of both means.
    let share = lost as f64 / packets as f64;
    assert!((0.3 / 26.0..1.7 / 26.0).contains(&share), "{lost} of {packets}");
    let gone: Vec<u32> = (0..6000).filter(|number| !arrived.contains(number)).collect();
    let runs = gone.iter().filter(|number| **number == 0 || arrived.contains(&(**number - 1))).count();
    assert_eq!(gone.len() as u64, lost, "some were lost beside the network");
    let mean = gone.len() as f64 / runs as f64;
    assert!((1.9..6.1).contains(&mean), "{} in {runs} runs", gone.len());
}

/// "Bandwidth limitation can only be applied on a single connection" (613): a link is shared by all.
#[test]
fn toxiproxy_613_all_connections_share_the_bandwidth() {
    let download = server(|mut stream| _ = stream.write_all(&bytes(500_000)));
    let between = Between::start(&two(r#"rate = "20Mbit/s", delay = "5ms""#), download, &[]);
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(exchange(between.connect(), b"").unwrap().len(), 500_000));
        }
    });
    let took = begun.elapsed();
    // 2 MB at 20 Mbit/s; a limit for each connection would let them pass in 0.2 s.
    assert!(took > Duration::from_millis(800), "{took:?}");
    let (report, _) = between.stop();
    let [there, back] = [0, 1].map(|link| report["network"]["links"][link]["sent_bytes"].as_u64().unwrap());
    assert!(back > 2_000_000 && back < 2_400_000 && there < 200_000, "{back} {there}");
}

#[test]
fn curl_gets_a_file() {
    if !have("curl") {
        return;
    }
    let page = server(|mut stream| {
        let mut request = [0; 1000];
        let _ = std::io::Read::read(&mut stream, &mut request);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\nConnection: close\r\n\r\n").unwrap();
        stream.write_all(&bytes(200_000)).unwrap();
    });
    let between = Between::start(&two(r#"rate = "20Mbit/s", delay = "20ms""#), page, &[]);
    let url = format!("http://{}/", between.listen);
    let timed = ["-sS", "-w", "%{stderr}%{time_starttransfer} %{time_total}", "--max-time", "60"];
    let output = Command::new("curl").args(timed).arg(&url).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout == bytes(200_000), "{said}");
    let times: Vec<f64> = said.split(' ').map(|time| time.parse().unwrap()).collect();
    // A handshake and a request are 80 ms; the file at the link's rate is 80 ms more.
    assert!(times[0] > 0.08 && times[1] > 0.16, "{said}");
    between.stop();
}

#[test]
fn iperf3_measures_no_more_than_the_link_has() {
    if !have("iperf3") {
        return;
    }
    // A free port, most likely still free in a moment.
    let port = datagrams().local_addr().unwrap();
    let words = ["--pdeathsig", "KILL", "--", "iperf3", "-s", "-B", "127.0.0.1", "-p"];
    let mut iperf = Command::new("setpriv").args(words).arg(port.port().to_string()).spawn().unwrap();
    let between = Between::start(&two(r#"rate = "10Mbit/s", delay = "5ms""#), port, &[]);
    let client = between.listen.port().to_string();
    let mut measured = None;
    for _ in 0..50 {
        let words = ["-c", "127.0.0.1", "-p", &client, "-n", "2M", "-J", "--reverse"];
        let output = Command::new("iperf3").args(words).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if output.status.success() && found["end"]["sum_received"]["bytes"].is_u64() {
            measured = Some(found);
            break;
        }
        // The server may not listen yet, or still be at the end of a run that failed.
        thread::sleep(Duration::from_millis(200));
    }
    iperf.kill().ok();
    iperf.wait().unwrap();
    let measured = measured.expect("iperf3 connects");
    let received = &measured["end"]["sum_received"];
    assert!(received["bytes"].as_u64().unwrap() >= 2 << 20, "{received}");
    assert!((1e5..1.02e7).contains(&received["bits_per_second"].as_f64().unwrap()), "{received}");
    between.stop();
}

/// Sends numbered datagrams, a few at a time: a socket that nothing has read loses what is too much for it.
/// The next ones leave when `settled` finds in the report that all before are where they go.
fn send_many(between: &Between, count: u32, settled: impl Fn(&Value) -> u64) {
    let sender = datagrams();
    sender.connect(between.listen).unwrap();
    let report = || {
        let (status, report) = between.ask("GET", "/report", "");
        assert_eq!(status, 200, "{report}");
        serde_json::from_str::<Value>(&report).unwrap()
    };
    for number in 0..count {
        let mut datagram = [0; 100];
        datagram[..4].copy_from_slice(&number.to_le_bytes());
        sender.send(&datagram).unwrap();
        let (sent, until) = (u64::from(number) + 1, Instant::now() + PATIENCE);
        while (sent % 50 == 0 || sent == u64::from(count)) && settled(&report()) < sent {
            assert!(Instant::now() < until, "a datagram was lost beside the network");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn dropped(link: &Value, rule: &str) -> u64 {
    let drops = link["drops"].as_array().unwrap();
    drops.iter().filter(|drop| drop[0] == rule).map(|drop| drop[1].as_u64().unwrap()).sum()
}

/// Whether `part` of `whole` lies within four standard deviations of the share.
fn is_share(part: u64, whole: u64, share: f64) -> bool {
    let (part, whole) = (part as f64, whole as f64);
    (part - whole * share).abs() <= 4.0 * (whole * share * (1.0 - share)).sqrt()
}
