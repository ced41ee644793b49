//! Provokes each exit code, and checks that the message says what to do.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use ackclock_tests::netns::skip;

use crate::common::{HOST1, Netns, Process, Scratch, TCPCAT, said};

fn tcpcat(line: &str) -> std::process::Output {
    Process::start(Command::new(TCPCAT).args(line.split_whitespace())).finish()
}

#[test]
fn a_wrong_command_line_is_2() {
    assert!(said(&tcpcat("send file 10.0.0.1 7000 --verfy"), 2).contains("--verify"));
    assert!(said(&tcpcat("snd file"), 2).contains("'send'"));
    assert!(said(&tcpcat("10.0.0.1 80"), 2).contains("--addr"), "an address of the stack is missing");
    said(&tcpcat("--help"), 0);
}

#[test]
fn a_wrong_name_is_2_and_the_right_ones_are_listed() {
    for (line, expected) in [
        ("--profile vegas 10.0.0.1 80", "vegas-1995"),
        ("--cc renault 10.0.0.1 80", "newreno"),
        ("--recovery rack 10.0.0.1 80", "rack-tlp"),
        ("--rto jacobson 10.0.0.1 80", "jacobson-1988"),
        ("--profile none-1987 10.0.0.1 80", "simulated networks only"),
    ] {
        let words = said(&tcpcat(line), 2);
        assert!(words.contains(expected), "{words}");
    }
}

#[test]
fn a_number_without_its_unit_is_2() {
    for (flag, units) in [
        ("--delay 20", "`20ms` or `20s`"),
        ("--bytes 20", "`20B` or `20KiB`"),
        ("--rate 20", "`20Mbit/s` or `20kbit/s`"),
        ("--rate-limit 1Mbit/s,queue=20", "`20packets` or `20KiB`"),
        ("--acks every-second:20", "`20ms` or `20s`"),
        ("--rto rfc6298,min=20", "`20ms` or `20s`"),
    ] {
        let words = said(&tcpcat(&format!("10.0.0.1 80 --addr 10.0.0.2/24 {flag}")), 2);
        assert!(words.contains(&format!("`20` has no unit; write {units}")), "{flag}: {words}");
    }
    // nc and iperf3 count these in seconds.
    let words = said(&tcpcat("-w 20 -q 20 10.0.0.1 80"), 2);
    assert!(words.contains("--addr") && !words.contains("unit"), "{words}");
}

#[test]
fn a_refused_connection_is_3() {
    let Some(netns) = Netns::new() else { return };
    let output = netns.tcpcat(&format!("10.9.1.1 9 {HOST1}"));
    let words = said(&output, 3);
    assert!(words.contains("10.9.1.1:9") && words.contains("tcpcat -l"), "{words}");
}

#[test]
fn no_answer_is_4() {
    let Some(netns) = Netns::new() else { return };
    netns.shell("echo 0 > /proc/sys/net/ipv4/ip_forward");
    let started = Instant::now();
    let words = said(&netns.tcpcat(&format!("-w 1 10.9.77.7 9 {HOST1}")), 4);
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert!(words.contains("tcpcat doctor"), "{words}");
}

#[test]
fn silence_is_4_for_who_does_not_want_to_wait() {
    let Some(netns) = Netns::new() else { return };
    let mut listener = netns.start(&format!("-l 7000 -w 1 -v {HOST1}"));
    let _stdin = listener.stdin();
    let words = said(&listener.finish(), 4);
    assert!(words.contains("no peer connected within 1s"), "{words}");

    let mut listener = netns.start(&format!("-l 7000 -w 1 -v {HOST1}"));
    let _stdin = listener.stdin();
    listener.await_line("listening on");
    let peer = Process::start(netns.command("nc").args(["-d", "10.9.1.2", "7000"]));
    let words = said(&listener.finish(), 4);
    assert!(words.contains("nothing moved for 1s"), "{words}");
    peer.finish();
}

#[test]
fn an_interrupted_receiver_is_143_and_leaves_what_was_there() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let target = scratch.path("file");
    fs::write(&target, "old").unwrap();
    let receiver = netns.listen(&format!("recv {} -l 7000 -v {HOST1}", target.display()));
    let sender =
        Process::start(netns.command("sh").args(["-c", "(echo some; sleep 60) | nc -N 10.9.1.2 7000"]));
    let part = scratch.await_part(5);
    receiver.signal("TERM");
    let words = said(&receiver.finish(), 143);
    assert!(
        words.contains("5 of an unknown number of bytes arrived") && words.contains("incomplete"),
        "{words}"
    );
    assert_eq!(fs::read(&target).unwrap(), b"old");
    assert_eq!(fs::read(&part).unwrap(), b"some\n");
    drop(sender);
}

#[test]
fn a_family_that_the_stack_has_no_address_of_is_2() {
    let Some(netns) = Netns::new() else { return };
    let words = said(&netns.tcpcat(&format!("fd00::1 9 {HOST1}")), 2);
    assert!(words.contains("--addr fd00::2/64"), "{words}");
}

#[test]
fn a_user_without_rights_is_5() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    // Where everybody may go: the folder of the tree may be its owner's alone.
    let program = scratch.path("tcpcat");
    fs::copy(TCPCAT, &program).unwrap();
    let mut command = netns.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command.args(format!("10.9.1.1 9 {HOST1}").split_whitespace());
    let output = Process::start(&command).finish();
    if String::from_utf8_lossy(&output.stderr).contains("failed to execute") {
        return skip("the program cannot be run by another user");
    }
    let words = said(&output, 5);
    // EACCES on the driver where it is root's alone, EPERM at the interface elsewhere.
    assert!(
        words.contains("sudo chmod 0666 /dev/net/tun") || words.contains("sudo ip tuntap add"),
        "{words}"
    );
}

#[test]
fn a_link_that_stays_down_is_5() {
    let Some(netns) = Netns::new() else { return };
    netns.shell("ip tuntap add dev tun1 mode tun");
    let words = said(&netns.tcpcat("10.9.1.1 9 --tun tun1 --addr 10.9.1.2/24"), 5);
    assert!(words.contains("tun1 is down") && words.contains("sudo ip link set tun1 up"), "{words}");
}

#[test]
fn a_link_that_comes_up_in_time_is_used() {
    let Some(netns) = Netns::new() else { return };
    let client = netns.start("10.9.1.1 9 --tun tun1 --addr 10.9.1.2/24");
    client.await_line("tun1 is down");
    netns.shell("ip addr add 10.9.1.1/24 dev tun1; ip link set tun1 up");
    // Nothing listens there: the kernel's answer has come through the device.
    said(&client.finish(), 3);
}

#[test]
fn a_failure_is_in_the_report() {
    let Some(netns) = Netns::new() else { return };
    let output = netns.tcpcat(&format!("send /etc/hostname 10.9.1.1 9 --json {HOST1}"));
    said(&output, 3);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["end"]["exit_code"], 3);
    assert!(report["end"]["error"].as_str().unwrap().contains("refused"), "{report}");
}

#[test]
fn an_address_of_the_kernel_is_5() {
    let Some(netns) = Netns::new() else { return };
    netns.shell("ip addr add 10.9.1.2/24 dev lo");
    let words = said(&netns.tcpcat(&format!("10.9.1.1 9 {HOST1}")), 5);
    assert!(words.contains("belongs to this machine's kernel"), "{words}");
}

#[test]
fn a_device_in_use_is_5() {
    let Some(netns) = Netns::new() else { return };
    let holder = netns.listen(&format!("-l 7000 -v {HOST1}"));
    let words = said(&netns.tcpcat("10.9.1.1 9 --tun tun1 --addr 10.9.1.3/24"), 5);
    assert!(words.contains("in use by process"), "{words}");
    holder.signal("INT");
    said(&holder.finish(), 1);
}

#[test]
fn a_device_deleted_in_use_is_5() {
    let Some(netns) = Netns::new() else { return };
    let listener = netns.listen(&format!("-l 7000 -v {HOST1}"));
    netns.shell("ip link del tun1");
    let words = said(&listener.finish(), 5);
    assert!(words.contains("tun1 was deleted while it was in use"), "{words}");
}

#[test]
fn a_file_that_is_not_there_is_6() {
    let Some(netns) = Netns::new() else { return };
    let words = said(&netns.tcpcat(&format!("send /nowhere/file 10.9.1.1 9 {HOST1}")), 6);
    assert!(words.contains("/nowhere/file"), "{words}");
}

#[test]
fn a_full_disk_is_6_and_leaves_what_was_there() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let disk = disk.display();
    // The small disk is mounted in the mount namespace that `ip netns exec` makes.
    let script = format!(
        "mount -t tmpfs -o size=1m none {disk} && echo old > {disk}/file || exit 99
         {TCPCAT} recv {disk}/file -l 7000 -v {HOST1}; code=$?
         ls -A {disk}; cat {disk}/file; exit $code"
    );
    let receiver = Process::start(netns.command("sh").args(["-c", &script]));
    receiver.await_line("listening on");
    let sender =
        Process::start(netns.command("sh").args(["-c", "head -c 8000000 /dev/zero | nc -N 10.9.1.2 7000"]));
    let output = receiver.finish();
    sender.finish();
    let words = said(&output, 6);
    assert!(words.contains("No space left") && words.contains("df -h"), "{words}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "file\nold\n");
}

#[test]
fn a_device_that_is_full_is_6() {
    let Some(netns) = Netns::new() else { return };
    let receiver = netns.listen(&format!("recv /dev/full -l 7000 -v {HOST1}"));
    let sender = Process::start(netns.command("sh").args(["-c", "echo data | nc -N 10.9.1.2 7000"]));
    said(&receiver.finish(), 6);
    sender.finish();
}

#[test]
fn a_wrong_hash_is_7_and_leaves_what_was_there() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let target = scratch.path("file");
    fs::write(&target, "old").unwrap();
    let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {HOST1}", target.display()));
    // A sender that speaks the protocol and gives the hash of other data.
    let script = "
import socket, struct
s = socket.create_connection(('10.9.1.2', 7000))
nonce = s.recv(24, socket.MSG_WAITALL)[8:]
s.sendall(b'tcpcat1>' + nonce + struct.pack('>HHQQ', 0, 1, 0, 4) + bytes(16))
s.sendall(struct.pack('>I', 4) + b'data' + struct.pack('>I', 0) + bytes(32))
print(s.recv(40, socket.MSG_WAITALL).hex())
";
    let sender = Process::start(netns.command("python3").args(["-c", script]));
    let words = said(&receiver.finish(), 7);
    assert!(words.contains("not the sender's"), "{words}");
    assert_eq!(fs::read(&target).unwrap(), b"old");
    assert_eq!(scratch.names(), ["file"]);
    let verdict = String::from_utf8_lossy(&sender.finish().stdout).trim().to_owned();
    assert_eq!(verdict, format!("0000000000000004{}", blake3::hash(b"data")));
}

#[test]
fn a_sender_that_dies_is_1_and_leaves_what_was_there() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let target = scratch.path("file");
    fs::write(&target, "old").unwrap();
    let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {HOST1}", target.display()));
    let script = "
import socket, struct
s = socket.create_connection(('10.9.1.2', 7000))
nonce = s.recv(24, socket.MSG_WAITALL)[8:]
s.sendall(b'tcpcat1>' + nonce + struct.pack('>HHQQ', 0, 1, 0, 1000) + bytes(16) + struct.pack('>I', 1000) + b'data')
";
    said(&Process::start(netns.command("python3").args(["-c", script])).finish(), 0);
    let words = said(&receiver.finish(), 1);
    assert!(
        words.contains("4 of 1000 bytes arrived") && words.contains("before the end of the data"),
        "{words}"
    );
    assert_eq!(fs::read(&target).unwrap(), b"old");
    assert_eq!(fs::read(scratch.await_part(4)).unwrap(), b"data");
}

#[test]
fn a_reset_is_1() {
    let Some(netns) = Netns::new() else { return };
    let server = netns.resetting_server();
    let mut client = netns.start(&format!("10.9.1.1 7001 {HOST1}"));
    let mut stdin = client.stdin();
    stdin.write_all(b"x").unwrap();
    let words = said(&client.finish(), 1);
    assert!(words.contains("reset by peer"), "{words}");
    server.finish();
}

#[test]
fn the_first_interrupt_closes_in_order() {
    let Some(netns) = Netns::new() else { return };
    let mut listener = netns.listen(&format!("-l 7000 -v {HOST1}"));
    let _stdin = listener.stdin();
    let nc = Process::start(netns.command("nc").args(["-d", "10.9.1.2", "7000"]));
    listener.await_line("connection from");
    listener.signal("INT");
    listener.await_line("interrupt again to abort");
    // The peer sees the end of the stream, not a reset, and closes.
    said(&nc.finish(), 0);
    said(&listener.finish(), 0);
}

#[test]
fn the_second_interrupt_aborts() {
    let Some(netns) = Netns::new() else { return };
    let mut listener = netns.listen(&format!("-l 7000 -v {HOST1}"));
    let _stdin = listener.stdin();
    // A peer that never closes, and tells how its connection ends.
    let script = "
import socket, time
s = socket.create_connection(('10.9.1.2', 7000))
try:
    assert s.recv(1) == b''
    while True:
        s.sendall(b'x'); time.sleep(0.02)
except ConnectionError as e:
    print(type(e).__name__)
";
    let peer = Process::start(netns.command("python3").args(["-c", script]));
    listener.await_line("connection from");
    listener.signal("INT");
    listener.await_line("interrupt again to abort");
    let started = Instant::now();
    listener.signal("INT");
    said(&listener.finish(), 1);
    assert!(started.elapsed() < Duration::from_secs(5), "it does not wait for the peer");
    let ended = String::from_utf8_lossy(&peer.finish().stdout).trim().to_owned();
    assert!(["ConnectionResetError", "BrokenPipeError"].contains(&ended.as_str()), "{ended}");
}

/// The requested output is missing then, so the command has failed. Words on stderr are extra.
#[test]
fn results_that_cannot_be_written_are_6() {
    let Some(netns) = Netns::new() else { return };
    let tcpcat = |words: &str, redirected: &str| {
        let script = format!("{TCPCAT} {words} {redirected}");
        netns.command("bash").args(["-o", "pipefail", "-c", &script]).output().unwrap()
    };
    let doctor = "doctor --configure --tun tun1 --addr 10.9.1.2/24";
    for words in [doctor, "profiles", "profiles --json", "man", "completions zsh", "--help", "--version"] {
        assert!(said(&tcpcat(words, "> /dev/full"), 6).contains("stdout"), "{words}");
        said(&tcpcat(words, "> /dev/full 2> /dev/full"), 6);
        said(&tcpcat(words, "2> /dev/full"), 0);
        said(&tcpcat(words, "| head -n 1 > /dev/null"), 0);
    }
}

#[test]
fn a_manual_page_of_each_command_is_written() {
    let scratch = Scratch::new();
    let directory = scratch.path("man1");
    said(&tcpcat(&format!("man --out {}", directory.display())), 0);
    let mut names: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 11 && names.iter().all(|name| name.ends_with(".1")), "{names:?}");
    for (page, expected) in [("tcpcat.1", "EXIT STATUS"), ("tcpcat-bench-client.1", "reverse")] {
        let text = fs::read_to_string(directory.join(page)).unwrap();
        assert!(text.starts_with(".ie") && text.contains(expected), "{page}: {text}");
    }
    let words = said(&tcpcat("man --out /proc/man1"), 6);
    assert!(words.contains("/proc/man1"), "{words}");
}

#[test]
fn completions_of_each_shell_know_the_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let output = tcpcat(&format!("completions {shell}"));
        said(&output, 0);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("profiles") && script.contains("parallel"), "{shell}: {script}");
        // Values of --profile, --cc, --recovery, --rto, --acks and --device.
        for value in ["vegas-1995", "illinois", "rack-tlp", "rfc6298", "every-second", "xdp"] {
            assert!(script.contains(value), "{shell} does not offer {value}");
        }
    }
    assert!(said(&tcpcat("completions csh"), 2).contains("fish"));
}

#[test]
fn the_doctor_tells_what_stands_in_the_way() {
    let Some(netns) = Netns::new() else { return };
    let good = netns.tcpcat("doctor --configure --tun tun1 --addr 10.9.1.2/24");
    said(&good, 0);
    assert!(String::from_utf8_lossy(&good.stdout).contains("a transfer would work"));

    netns.shell("ip tuntap add dev tun1 mode tun; ip addr add 10.9.1.2/24 dev lo");
    let bad = netns.tcpcat("doctor --tun tun1 --addr 10.9.1.2/24");
    said(&bad, 5);
    let text = String::from_utf8_lossy(&bad.stdout).into_owned();
    assert!(text.contains("sudo ip link set tun1 up"), "{text}");
    assert!(text.contains("belongs to the kernel"), "{text}");
    assert!(text.contains("2 problems"), "{text}");
}
