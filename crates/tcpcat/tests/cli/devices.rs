//! Devices other than TUN: addresses of the host, and captures that are played.

use std::fs;
use std::process::{Command, Output};

use ackclock_tests::kernel::program::have;

use crate::common::{HOST1, HOST2, Netns, Scratch, TCPCAT, random_file, said};

#[test]
fn a_file_crosses_between_two_addresses_of_the_host() {
    let Some(netns) = raw_netns() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 4_000_003), scratch.path("to"));
    let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {RAW2}", to.display()));
    let sent = netns.tcpcat(&format!("send {} 10.88.0.2 7000 --verify {RAW1}", from.display()));
    let received = receiver.finish();
    assert!(said(&sent, 0).contains("verified"), "{sent:?}");
    assert!(said(&received, 0).contains("verified"), "{received:?}");
    assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
    assert!(!said(&sent, 0).contains("warning"), "{sent:?}");
}

#[test]
fn a_killed_process_leaves_no_rule_behind() {
    let Some(netns) = raw_netns() else { return };
    let listener = netns.listen(&format!("-l 7000 -v {RAW1}"));
    // 1 is a refusal, which comes at once; 124 is the end of the patience, which a busy machine must not reach.
    let dial = "timeout 10 python3 -c 'import socket; socket.create_connection((\"10.88.0.1\", 7001), \
                source_address=(\"10.88.0.2\", 0))' 2> /dev/null";
    let dial = || netns.command("sh").args(["-c", dial]).output().unwrap().status.code();
    assert_eq!(dial(), Some(1), "the stack refuses by itself");
    listener.signal("KILL");
    listener.finish();
    assert_eq!(dial(), Some(1), "and the kernel once it is gone");
}

#[test]
fn the_doctor_tells_what_a_raw_device_needs() {
    let Some(netns) = raw_netns() else { return };
    let good = told(&netns.tcpcat("doctor --raw --addr 10.88.0.1/24 --ports 40000-40999"), 0);
    assert!(good.contains("TCP ports 40000-40999 of 10.88.0.1 can be the stack's"), "{good}");
    assert!(good.contains("ip_local_reserved_ports=40000-40999"), "{good}");
    let foreign = told(&netns.tcpcat("doctor --device raw --addr 192.0.2.1/24"), 5);
    assert!(foreign.contains("-> sudo ip route add local 192.0.2.1 dev lo"), "{foreign}");
    if !have("setpriv") {
        return;
    }
    let without = |capability: &str| {
        let words = ["--bounding-set", capability, TCPCAT, "doctor", "--raw", "--addr", "10.88.0.1/24"];
        told(&netns.command("setpriv").args(words).output().unwrap(), 5)
    };
    let no_rule = without("-net_admin");
    assert!(no_rule.contains("sudo nft 'add table inet ackclock"), "{no_rule}");
    assert!(no_rule.contains("ip daddr 10.88.0.1 meta l4proto { tcp, udp } drop"), "{no_rule}");
    assert!(without("-net_raw").contains("PROBLEM privilege"), "raw sockets are forbidden");
}

#[test]
fn a_captured_transfer_is_received_again() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to, again) =
        (random_file(&scratch, "from", 300_007), scratch.path("to"), scratch.path("again"));
    let capture = scratch.path("capture.pcapng");
    let receiver =
        netns.listen(&format!("recv {} -l 7000 -v {HOST2} --pcap {}", to.display(), capture.display()));
    said(&netns.tcpcat(&format!("send {} 10.9.2.2 7000 {HOST1}", from.display())), 0);
    said(&receiver.finish(), 0);
    // No namespace, no right: a file is all that it takes.
    let play = |to: &std::path::Path, more: &[&str]| {
        let capture = capture.display().to_string();
        let to = to.display().to_string();
        let words = ["recv", &to, "-l", "7000", "--addr", "10.9.2.2/24", "--device", &capture];
        Command::new(TCPCAT).args(words).args(more).output().unwrap()
    };
    said(&play(&again, &[]), 0);
    assert!(fs::read(&from).unwrap() == fs::read(&again).unwrap());
    // A file that breaks off is played as far as it goes, and no part is taken for the whole.
    let bytes = fs::read(&capture).unwrap();
    fs::write(&capture, &bytes[..bytes.len() / 2]).unwrap();
    fs::remove_file(&again).unwrap();
    let words = said(&play(&again, &["--at-once"]), 5);
    assert!(words.contains("the file ends within a block that begins at byte"), "{words}");
    assert!(words.contains("the recording has ended"), "{words}");
    assert!(!again.exists());
    fs::write(&capture, b"no capture, whatever its name").unwrap();
    assert!(said(&play(&again, &[]), 6).contains("neither pcap nor pcapng"));
}

#[test]
fn flags_that_mean_nothing_to_a_device_are_refused() {
    for (flags, word) in
        [("--configure", "--configure"), ("--mtu 1400", "--mtu"), ("--peer 10.88.0.2", "--peer")]
    {
        let line = format!("10.88.0.2 7000 --device raw --addr 10.88.0.1/24 {flags}");
        let output = Command::new(TCPCAT).args(line.split(' ')).output().unwrap();
        assert!(said(&output, 2).contains(&format!("{word} means nothing with --device raw")), "{output:?}");
    }
}

/// What a command that ended with `code` wrote to stdout.
fn told(output: &Output, code: i32) -> String {
    said(output, code);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A namespace whose loopback interface has two more addresses.
fn raw_netns() -> Option<Netns> {
    let netns = Netns::new()?;
    netns.shell("ip addr add 10.88.0.1/32 dev lo; ip addr add 10.88.0.2/32 dev lo");
    Some(netns)
}

const RAW1: &str = "--device raw --addr 10.88.0.1/24";
const RAW2: &str = "--device raw --addr 10.88.0.2/24";
