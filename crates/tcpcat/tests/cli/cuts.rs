//! A user dials, writes or asks for something impossible; tcpcat answers at once and names it.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{HOST1, HOST2, Netns, Process, Scratch, TCPCAT, said};

fn tcpcat(line: &str) -> Output {
    Process::start(Command::new(TCPCAT).args(line.split_whitespace())).finish()
}

fn object(output: &Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout).expect("stdout is one JSON value");
    assert!(value.is_object(), "{value}");
    assert_eq!(value["schema"], 1, "{value}");
    value
}

#[test]
fn the_stacks_own_address_and_loopback_are_refused_before_there_is_a_device() {
    // No namespace: a device would be made in the test's own.
    for (host, says) in [
        ("10.9.1.2", "10.9.1.2 is this stack's own address"),
        ("127.0.0.1", "127.0.0.1 is this machine's loopback"),
        ("127.9.9.9", "127.9.9.9 is this machine's loopback"),
        ("localhost", "localhost is this machine's loopback"),
        ("::1", "::1 is this machine's loopback"),
    ] {
        for command in ["", "connect ", "send /etc/hostname ", "recv out ", "bench client "] {
            let began = Instant::now();
            let words = said(&tcpcat(&format!("{command}{host} 9 --addr 10.9.1.2/24")), 2);
            assert!(words.contains(says) && words.contains("--kernel"), "{command}{host}: {words}");
            assert!(began.elapsed() < Duration::from_secs(4), "{command}{host} waited for a device");
        }
    }
    said(&tcpcat("--kernel 127.0.0.1 1"), 3);
}

#[test]
fn the_interface_that_has_an_address_is_named() {
    let Some(netns) = Netns::new() else { return };
    netns.shell("ip addr add 10.9.1.2/24 dev lo");
    let words = said(&netns.tcpcat(&format!("10.9.1.1 9 {HOST1}")), 5);
    assert!(words.contains("on lo") && words.contains("ip addr del 10.9.1.2/24 dev lo"), "{words}");
}

#[test]
fn a_link_local_address_names_its_link() {
    let Some(netns) = Netns::new() else { return };
    let host = "--configure --tun tun1 --addr fe80::2/64";
    let words = said(&netns.tcpcat(&format!("fe80::1%eth7 9 {host}")), 2);
    assert!(words.contains("the stack is on tun1, not on eth7") && words.contains("fe80::1%tun1"), "{words}");
    said(&netns.tcpcat(&format!("-w 5 fe80::1%tun1 9 {host}")), 3);
    said(&netns.tcpcat(&format!("-w 5 fe80::1 9 {host}")), 3);
    let words = said(&netns.tcpcat("--kernel fe80::1 9"), 2);
    assert!(words.contains("does not say which") && words.contains("fe80::1%eth0"), "{words}");
}

#[test]
fn a_retry_lasts_until_somebody_listens() {
    let Some(netns) = Netns::new() else { return };
    let mut peer = netns.start(&format!("-N 10.9.1.1 7000 --retry -v {HOST1}"));
    peer.await_line("trying again every second");
    let server = Process::start(netns.command("nc").args(["-l", "-N", "7000"]));
    drop(peer.stdin());
    said(&peer.finish(), 0);
    server.finish();

    let began = Instant::now();
    said(&netns.tcpcat(&format!("-w 2 10.9.1.1 7001 --retry {HOST1}")), 4);
    assert!(began.elapsed() >= Duration::from_secs(2));
    said(&netns.tcpcat(&format!("-w 2 10.9.1.1 7001 {HOST1}")), 3);
}

#[test]
fn json_is_one_object_whatever_happens() {
    let usage = tcpcat("10.0.0.1 80 --json --no-such-flag");
    said(&usage, 2);
    let report = object(&usage);
    assert_eq!((&report["exit_code"], &report["error_kind"]), (&2.into(), &"usage".into()), "{report}");
    assert!(report["error"].as_str().unwrap().contains("--no-such-flag"), "{report}");

    let early = tcpcat("send /etc/hostname 127.0.0.1 9 --json --addr 10.9.1.2/24");
    said(&early, 2);
    assert_eq!(object(&early)["end"]["error_kind"], "usage");

    let refused = tcpcat("send /etc/hostname 127.0.0.1 1 --json --kernel");
    said(&refused, 3);
    assert_eq!(object(&refused)["end"]["error_kind"], "refused");

    let none = tcpcat("ss --json --control /nowhere");
    said(&none, 3);
    assert_eq!((&object(&none)["exit_code"], &object(&none)["error_kind"]), (&3.into(), &"refused".into()));

    assert!(object(&tcpcat("profiles --json"))["profiles"].is_array());
    let demo = tcpcat("demo --memory --bytes 100K --loss 0 --json");
    said(&demo, 0);
    assert!(object(&demo)["transfers"].as_array().is_some_and(|rows| !rows.is_empty()));
}

#[test]
fn each_result_that_cannot_be_written_is_6_and_a_reader_that_leaves_is_quiet() {
    let Some(netns) = Netns::new() else { return };
    let run = |script: &str| netns.command("bash").args(["-o", "pipefail", "-c", script]).output().unwrap();
    for words in [
        "demo --memory --bytes 100K --loss 0",
        "demo --memory --bytes 100K --loss 0 --json",
        "ss --json --control /nowhere",
        "send /etc/hostname 127.0.0.1 1 --json --kernel",
        "completions bash",
        "bench client --help",
    ] {
        let ended = run(&format!("{TCPCAT} {words} > /dev/full 2> /dev/null"));
        // A command that has failed already keeps its own code.
        let own = run(&format!("{TCPCAT} {words} > /dev/null 2> /dev/null")).status.code();
        assert_eq!(ended.status.code(), if own == Some(0) { Some(6) } else { own }, "{words}");
    }
    let listener = run_receiver(&netns, "> /dev/full");
    netns.tcpcat(&format!("send /etc/passwd 10.9.2.2 7000 {HOST1}"));
    assert!(said(&listener.finish(), 6).contains("No space left"));

    let listener = run_receiver(&netns, "| head -c 100 > /dev/null; exit ${PIPESTATUS[0]}");
    netns.tcpcat(&format!("send /dev/zero 10.9.2.2 7000 --bytes 8M {HOST1}"));
    let ended = listener.finish();
    let words = said(&ended, 141);
    assert!(!words.contains("roken pipe") && !words.contains("left"), "{words}");
}

/// A receiver to stdout in a shell, which listens.
fn run_receiver(netns: &Netns, redirected: &str) -> Process {
    let script = format!("{TCPCAT} recv - -l 7000 -v {HOST2} {redirected}");
    let receiver = Process::start(netns.command("bash").args(["-c", &script]));
    receiver.await_line("listening on");
    receiver
}

#[test]
fn no_output_is_written_over_another() {
    let scratch = Scratch::new();
    let file = scratch.path("file");
    let file = file.display();
    let pairs = [
        ("--pcap", "--trace"),
        ("--pcap", "--flight-recorder"),
        ("--trace", "--flight-recorder"),
        ("--trace", "--control"),
    ];
    for (one, other) in pairs {
        let words = said(&tcpcat(&format!("10.0.0.1 9 --addr 10.9.1.2/24 {one} {file} {other} {file}")), 2);
        assert!(words.contains(&format!("{one} and {other} would both write")), "{words}");
    }
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 0, "nothing was written");
}

#[test]
fn the_file_that_is_moved_is_not_written_over() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    fs::write(&path, "precious").unwrap();
    let file = path.display();
    let words = said(&tcpcat(&format!("send {file} 10.0.0.1 9 --addr 10.9.1.2/24 --trace {file}")), 2);
    assert!(words.contains("--trace would overwrite") && words.contains("which is read"), "{words}");
    let same = scratch.path("./file");
    let receive = format!("recv {file} -l 9 --addr 10.9.1.2/24 --pcap {}", same.display());
    let words = said(&tcpcat(&receive), 2);
    assert!(words.contains("FILE and --pcap would both write"), "{words}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_running_demo_is_seen_at_its_control_socket() {
    let scratch = Scratch::new();
    let socket = scratch.path("control");
    let demo = Process::start(Command::new(TCPCAT).args(
        format!("demo --memory --bytes 1G --loss 0 --control {}", socket.display()).split_whitespace(),
    ));
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let list = tcpcat(&format!("ss --json --control {} state established", socket.display()));
        let list: Value = serde_json::from_slice(&list.stdout).unwrap_or_default();
        if list["connections"].as_array().is_some_and(|all| !all.is_empty()) {
            break;
        }
        assert!(Instant::now() < deadline, "the demo's connection is not listed: {list}");
        std::thread::sleep(Duration::from_millis(20));
    }
    demo.signal("KILL");
    demo.finish();
}
