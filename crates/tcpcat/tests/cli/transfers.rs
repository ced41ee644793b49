//! Files and conversations over TUN devices, between two tcpcats and with the kernel's clients and servers.

use std::fs;
use std::io::Write;
use std::process::Command;

use ackclock_tests::kernel::program::have;

use crate::common::{HOST1, HOST2, Netns, Process, Scratch, TCPCAT, assert_same, random_file, said};

#[test]
fn a_file_crosses_between_two_user_space_hosts() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 8_000_001), scratch.path("to"));
    fs::write(&to, "what was there").unwrap();
    let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {HOST2}", to.display()));
    let sent = netns.tcpcat(&format!("send {} 10.9.2.2 7000 --verify --json {HOST1}", from.display()));
    let received = receiver.finish();

    assert!(said(&sent, 0).contains("verified"), "{sent:?}");
    assert!(said(&received, 0).contains("verified"), "{received:?}");
    assert_same(&from, &to);
    assert_eq!(scratch.names(), ["from", "to"]);
    let report: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(report["end"]["bytes_sent"], 8_000_001);
    assert_eq!(report["end"]["verified"], true);
    assert_eq!(report["end"]["exit_code"], 0);
    assert_eq!(report["start"]["connected"][0]["remote"], "10.9.2.2:7000");
    assert_eq!(report["end"]["blake3"], blake3::hash(&fs::read(&from).unwrap()).to_string());
}

#[test]
fn a_file_crosses_in_parts_over_several_connections() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 3_000_017), scratch.path("to"));
    let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {HOST2}", to.display()));
    let sent =
        netns.tcpcat(&format!("send {} 10.9.2.2 7000 -P 4 {HOST1} --loss 1% --seed 7", from.display()));
    let received = receiver.finish();
    assert!(said(&sent, 0).contains("verified"));
    assert!(said(&received, 0).contains("verified"));
    assert_same(&from, &to);
}

#[test]
fn a_file_goes_to_and_comes_from_nc() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, there, back) =
        (random_file(&scratch, "from", 1_234_567), scratch.path("there"), scratch.path("back"));
    let hash = blake3::hash(&fs::read(&from).unwrap()).to_string();

    let nc = Process::start(netns.command("sh").args(["-c", &format!("nc -l 7001 > {}", there.display())]));
    await_listener(&netns, 7001);
    let sent = netns.tcpcat(&format!("send {} 10.9.1.1 7001 --verify {HOST1}", from.display()));
    let words = said(&sent, 0);
    assert!(words.contains(&hash) && words.contains("compare the hashes yourself"), "{words}");
    said(&nc.finish(), 0);
    assert_same(&from, &there);

    let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {HOST1}", back.display()));
    netns.shell(&format!("nc -N 10.9.1.2 7000 < {} > /dev/null", from.display()));
    let words = said(&receiver.finish(), 0);
    assert!(words.contains(&hash), "{words}");
    assert_same(&from, &back);
}

#[test]
fn profiles_are_listed_with_their_sources() {
    let output = Process::start(Command::new(TCPCAT).arg("profiles")).finish();
    said(&output, 0);
    let list = String::from_utf8(output.stdout).unwrap();
    for words in [
        "modern",
        "tahoe-1988",
        "Jacobson and Karels",
        "vegas-star",
        "rack-tlp",
        "RFC 8985",
        "rfc6298-strict",
        "csa",
        "restart-window",
        "(--initial-window SEGMENTS) [RFC 6928]",
        "(--sack on|off) [RFC 2018]",
    ] {
        assert!(list.contains(words), "{words}: {list}");
    }
    assert!(!list.contains("none-1987"), "what no device may meet is not offered");
}

#[test]
fn profiles_are_listed_as_json() {
    let output = Process::start(Command::new(TCPCAT).args(["profiles", "--json"])).finish();
    said(&output, 0);
    let lists: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(lists["profiles"][0]["name"], "modern");
    assert_eq!(lists["profiles"][0]["recovery"], "rack-tlp");
    let named = |rows: &serde_json::Value, least: usize| {
        let rows = rows.as_array().unwrap();
        assert!(
            rows.len() >= least && rows.iter().all(|row| !row["name"].as_str().unwrap().is_empty()),
            "{rows:?}"
        );
    };
    named(&lists["profiles"], 5);
    named(&lists["controllers"], 5);
    for choice in lists["choices"].as_array().unwrap() {
        let key = choice["key"].as_str().unwrap();
        named(&choice["names"], if ["recovery", "rto", "start-up"].contains(&key) { 5 } else { 0 });
        assert!(lists["profiles"][0][key].is_string(), "{key}");
        assert!(
            !choice["help"].as_str().unwrap().is_empty() && !choice["source"].as_str().unwrap().is_empty()
        );
    }
}

#[test]
fn a_file_crosses_under_a_profile_and_the_report_says_so() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    fs::write(&from, vec![7; 500_000]).unwrap();
    let receiver =
        netns.listen(&format!("recv {} -l 7000 --verify -v --profile reno-1990 {HOST2}", to.display()));
    let sent = netns.tcpcat(&format!(
        "send {} 10.9.2.2 7000 --verify --json --stats=100ms --profile vegas-1995 --rto rfc6298,min=300ms \
         {HOST1}",
        from.display()
    ));
    let words = said(&sent, 0);
    said(&receiver.finish(), 0);
    assert_eq!(fs::read(&to).unwrap().len(), 500_000);
    let report: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    let connected = &report["start"]["connected"][0];
    assert_eq!((&connected["profile"], &connected["congestion"]), (&"vegas-1995".into(), &"vegas".into()));
    assert_eq!(connected["rto_estimator"], "custom,min=300ms,g=0ms", "{words}");
    assert!(connected["recovery"].as_str().is_some_and(|name| name == "vegas"), "{connected}");
}

#[test]
fn a_conversation_goes_both_ways() {
    let Some(netns) = Netns::new() else { return };
    let mut listener = netns.listen(&format!("-l 7000 -v {HOST1}"));
    let mut nc = Process::start(netns.command("nc").args(["-N", "10.9.1.2", "7000"]));
    listener.await_line("connection from 10.9.1.1");
    nc.stdin().write_all(b"from the kernel\n").unwrap();
    listener.stdin().write_all(b"from user space\n").unwrap();
    let (listener, nc) = (listener.finish(), nc.finish());
    said(&listener, 0);
    assert_eq!(listener.stdout, b"from the kernel\n");
    assert_eq!(nc.stdout, b"from user space\n");
}

#[test]
fn ipv6_carries_a_conversation_too() {
    let Some(netns) = Netns::new() else { return };
    let host = "--configure --tun tun1 --addr 10.9.1.2/24 --addr fd09::2/64";
    let listener = netns.start(&format!("-l fd09::2 7000 -v {host}"));
    listener.await_line("listening on [fd09::2]:7000");
    let nc = Process::start(netns.command("sh").args(["-c", "echo six | nc -N -6 fd09::2 7000"]));
    let output = listener.finish();
    said(&nc.finish(), 0);
    said(&output, 0);
    assert_eq!(output.stdout, b"six\n");
}

#[test]
fn a_listener_that_is_kept_open_takes_one_peer_after_the_other() {
    let Some(netns) = Netns::new() else { return };
    let listener = netns.listen(&format!("-l -k -d 7000 -v {HOST1}"));
    for word in ["one", "two", "three"] {
        netns.shell(&format!("echo {word} | nc -N -w 5 10.9.1.2 7000"));
    }
    listener.signal("INT");
    let output = listener.finish();
    said(&output, 0);
    assert_eq!(output.stdout, b"one\ntwo\nthree\n");
}

#[test]
fn a_port_that_answers_is_told_without_moving_data() {
    let Some(netns) = Netns::new() else { return };
    let nc = Process::start(netns.command("nc").args(["-l", "7001"]));
    await_listener(&netns, 7001);
    let words = said(&netns.tcpcat(&format!("-z 10.9.1.1 7001 {HOST1}")), 0);
    assert!(words.contains("10.9.1.1:7001 accepts connections"), "{words}");
    assert_eq!(nc.finish().stdout, b"");
    let range = said(&netns.tcpcat(&format!("-z 10.9.1.1 6999-7001 {HOST1}")), 3);
    assert!(range.contains("10.9.1.1:7001"), "the last failure is shown: {range}");
    let nc = Process::start(netns.command("nc").args(["-l", "7000"]));
    await_listener(&netns, 7000);
    let range = said(&netns.tcpcat(&format!("-z 10.9.1.1 6999-7001 {HOST1}")), 0);
    assert!(range.contains("10.9.1.1:7000 accepts connections") && !range.contains(":7001"), "{range}");
    drop(nc);
    let moved = said(&netns.tcpcat(&format!("10.9.1.1 6999-7001 {HOST1}")), 2);
    assert!(moved.contains("6999-7001 are several ports"), "{moved}");
}

#[test]
fn after_the_end_of_stdin_it_quits_when_told_to() {
    let Some(netns) = Netns::new() else { return };
    let server = Process::start(netns.command("sh").args(["-c", "sleep 30 | nc -l 7001"]));
    await_listener(&netns, 7001);
    // The peer keeps its side open: without -q this would last as long as the peer.
    let client = netns.tcpcat(&format!("-q 0.2 10.9.1.1 7001 {HOST1} -v"));
    said(&client, 0);
    drop(server);
}

#[test]
fn a_request_to_a_python_server_is_answered() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let page = random_file(&scratch, "page", 300_000);
    let directory = page.parent().unwrap().to_string_lossy().into_owned();
    let mut server = netns.command("python3");
    server.args(["-m", "http.server", "8000", "--directory", &directory]);
    let server = Process::start(&server);
    await_listener(&netns, 8000);
    let mut client = netns.start(&format!("10.9.1.1 8000 {HOST1}"));
    client.stdin().write_all(b"GET /page HTTP/1.0\r\n\r\n").unwrap();
    let answer = client.finish();
    said(&answer, 0);
    server.signal("TERM");
    server.finish();
    assert!(answer.stdout.starts_with(b"HTTP/1.0 200 OK\r\n"));
    assert!(answer.stdout.ends_with(&fs::read(page).unwrap()));
}

#[test]
fn a_capture_can_be_read_by_tcpdump() {
    if !have("tcpdump") {
        return;
    }
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, pcap) = (random_file(&scratch, "from", 100_000), scratch.path("out.pcapng"));
    let nc = Process::start(netns.command("sh").args(["-c", "nc -l 7001 > /dev/null"]));
    await_listener(&netns, 7001);
    let sent =
        netns.tcpcat(&format!("send {} 10.9.1.1 7001 --pcap {} {HOST1}", from.display(), pcap.display()));
    said(&sent, 0);
    said(&nc.finish(), 0);
    let read = Command::new("tcpdump").args(["-n", "-r"]).arg(&pcap).output().unwrap();
    let text = String::from_utf8_lossy(&read.stdout);
    assert!(text.contains("10.9.1.2.") && text.contains("Flags [S]"), "{text}");
}

#[test]
fn the_demo_verifies_each_row() {
    let Some(netns) = Netns::new() else { return };
    let output = netns.tcpcat("demo --bytes 2M --json");
    said(&output, 0);
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["transfers"].as_array().unwrap();
    assert_eq!((&table["schema"], rows.len()), (&1.into(), 6));
    for row in rows {
        assert_eq!((&row["verified"], &row["bytes"]), (&true.into(), &(2 << 20).into()), "{row}");
        assert_eq!(row["controller"], "cubic", "{row}");
    }
}

#[test]
fn the_demo_runs_without_devices() {
    let mut command = Command::new(TCPCAT);
    let output =
        Process::start(command.args(["demo", "--memory", "--bytes", "2M", "--loss", "0.5%"])).finish();
    assert!(said(&output, 0).contains("cable of memory"));
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(table.matches("✓ blake3").count(), 2, "{table}");
}

/// Waits until the kernel listens on a port of the namespace.
fn await_listener(netns: &Netns, port: u16) {
    netns.shell(&format!(
        "for i in $(seq 500); do ss -ltn | grep -q ':{port} ' && exit 0; sleep 0.02; done; exit 1"
    ));
}
