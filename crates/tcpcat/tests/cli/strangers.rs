//! Connections that bring no file, before and among those that do.

use std::fs;

use crate::common::{HOST1, HOST2, Netns, Process, Scratch, assert_same, random_file, said};

/// A health check, a port scan, and one that stays and says nothing.
const STRANGERS: &str = "
import socket, struct, sys, time
def connect(): return socket.create_connection((sys.argv[1], 7000), 20)
connect().close()
s = connect()
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
silent = [connect() for _ in range(3)]
print('came', file=sys.stderr, flush=True)
try:
    while silent[0].recv(100): pass
except ConnectionResetError: pass
print('over', file=sys.stderr, flush=True)
";

fn strangers(netns: &Netns, host: &str) -> Process {
    let strangers = Process::start(netns.command("python3").args(["-c", STRANGERS, host]));
    strangers.await_line("came");
    strangers
}

#[test]
fn strangers_neither_replace_a_file_nor_hold_up_its_sender() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 3_000_017), scratch.path("to"));
    let ends = [
        ("127.0.0.1", "--kernel".to_owned(), "--kernel".to_owned()),
        ("10.9.2.2", HOST1.to_owned(), HOST2.to_owned()),
    ];
    for (host, sends, receives) in ends {
        for (of_sender, of_receiver) in [("", ""), ("--verify", "--verify"), ("-P 4", "--verify")] {
            fs::write(&to, "old").unwrap();
            let receiver =
                netns.listen(&format!("recv {} -l 7000 -v {of_receiver} {receives}", to.display()));
            let strangers = strangers(&netns, host);
            receiver.await_line("still listening");
            assert_eq!(fs::read(&to).unwrap(), b"old");
            let sent = netns.tcpcat(&format!("send {} {host} 7000 {of_sender} {sends}", from.display()));
            let received = receiver.finish();
            said(&sent, 0);
            let words = said(&received, 0);
            // A stranger that leaves a greeting unread resets.
            let says =
                if of_receiver.is_empty() { "closed without sending a byte" } else { "still listening" };
            assert!(words.contains(says), "{words}");
            assert_eq!(words.contains("verified"), !of_sender.is_empty(), "{words}");
            assert_same(&from, &to);
            said(&strangers.finish(), 0);
            assert_eq!(scratch.names(), ["from", "to"]);
        }
    }
}

#[test]
fn only_silence_is_4_for_who_does_not_want_to_wait() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let to = scratch.path("to");
    fs::write(&to, "old").unwrap();
    for flags in ["", "--verify"] {
        let receiver = netns.listen(&format!("recv {} -l 7000 -v -w 2 {flags} --kernel", to.display()));
        let strangers = strangers(&netns, "127.0.0.1");
        let words = said(&receiver.finish(), 4);
        assert!(words.contains("nothing moved for 2s"), "{words}");
        strangers.finish();
        assert_eq!(fs::read(&to).unwrap(), b"old");
        assert_eq!(scratch.names(), ["to"]);
    }
}

#[test]
fn a_peer_that_was_named_and_sends_nothing_is_1_and_what_was_there_stays() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let to = scratch.path("to");
    fs::write(&to, "old").unwrap();
    for flags in ["", "--verify"] {
        let script = "
import socket, sys
l = socket.create_server(('0.0.0.0', 7001))
print('ready', file=sys.stderr, flush=True)
s, _ = l.accept()
s.shutdown(socket.SHUT_WR)
while s.recv(100): pass
";
        let server = Process::start(netns.command("python3").args(["-c", script]));
        server.await_line("ready");
        let words = said(&netns.tcpcat(&format!("recv {} 127.0.0.1 7001 {flags} --kernel", to.display())), 1);
        assert!(words.contains("closed without sending a byte"), "{words}");
        assert_eq!(fs::read(&to).unwrap(), b"old");
        assert_eq!(scratch.names(), ["to"]);
    }
}

#[test]
fn an_empty_file_arrives_where_its_sender_says_what_it_is() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 0), scratch.path("to"));
    for flags in ["--verify", "--announce-length", "-P 3"] {
        fs::write(&to, "old").unwrap();
        let receives = if flags == "-P 3" { "--verify" } else { flags };
        let receiver = netns.listen(&format!("recv {} -l 7000 -v {receives} {HOST2}", to.display()));
        said(&netns.tcpcat(&format!("send {} 10.9.2.2 7000 {flags} {HOST1}", from.display())), 0);
        said(&receiver.finish(), 0);
        assert_eq!(fs::read(&to).unwrap(), b"", "{flags}");
    }
    // A plain sender cannot say it, and knows.
    let receiver = netns.listen(&format!("recv {} -l 7000 -v {HOST2}", to.display()));
    let words = said(&netns.tcpcat(&format!("send {} 10.9.2.2 7000 {HOST1}", from.display())), 0);
    assert!(words.contains("is empty") && words.contains("--verify"), "{words}");
    receiver.await_line("still listening");
}

#[test]
fn the_length_is_in_the_handshake_only_when_asked_for() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to, pcap) = (random_file(&scratch, "from", 1000), scratch.path("to"), scratch.path("pcap"));
    // RFC 6994: kind 254, a length of 14 with the four bytes of the identifier.
    let option = b"\xfe\x0etcpc";
    for flag in ["", "--announce-length"] {
        let line = format!("recv {} -l 7000 -v {flag} --pcap {} {HOST2}", to.display(), pcap.display());
        let receiver = netns.listen(&line);
        said(&netns.tcpcat(&format!("send {} 10.9.2.2 7000 {flag} {HOST1}", from.display())), 0);
        said(&receiver.finish(), 0);
        let packets = fs::read(&pcap).unwrap();
        let found = packets.windows(option.len()).filter(|bytes| bytes == option).count();
        assert_eq!(found, if flag.is_empty() { 0 } else { 2 }, "{flag}: in the SYN and in the SYN-ACK");
        fs::remove_file(&pcap).unwrap();
    }
    // One end alone does not disturb the other.
    for (sends, receives) in [("--announce-length", ""), ("", "--announce-length")] {
        let receiver = netns.listen(&format!("recv {} -l 7000 -v {receives} {HOST2}", to.display()));
        said(&netns.tcpcat(&format!("send {} 10.9.2.2 7000 {sends} {HOST1}", from.display())), 0);
        said(&receiver.finish(), 0);
        assert_same(&from, &to);
    }
}

#[test]
fn a_file_in_parts_goes_to_a_receiver_that_connects() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 3_000_017), scratch.path("to"));
    for (host, sends, receives) in [("127.0.0.1", "--kernel", "--kernel"), ("10.9.1.2", HOST1, HOST2)] {
        // The number of parts is the sender's, whatever the receiver has.
        for wants in ["--verify", "-P 4", "-P 2"] {
            let sender = netns.listen(&format!("send {} -l 7000 -v -P 4 -w 20 {sends}", from.display()));
            let stranger = strangers(&netns, host);
            let line = format!("recv {} {host} 7000 {wants} -v -w 20 {receives}", to.display());
            let words = said(&netns.tcpcat(&line), 0);
            assert_eq!(words.matches("connected to").count(), 4, "{words}");
            assert!(words.contains("verified"), "{words}");
            assert!(said(&sender.finish(), 0).contains("verified"));
            assert_same(&from, &to);
            drop(stranger);
            fs::remove_file(&to).unwrap();
        }
    }
}

#[test]
fn a_plain_receiver_is_told_that_a_file_comes_in_parts() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 3_000_017), scratch.path("to"));
    let sender = netns.listen(&format!("send {} -l 7000 -v -P 4 --kernel", from.display()));
    let words = said(&netns.tcpcat(&format!("recv {} 127.0.0.1 7000 --kernel", to.display())), 1);
    assert!(words.contains("add --verify if the sender has --verify or -P"), "{words}");
    assert!(!to.exists());
    sender.await_line("a peer does not take a file in parts (tcpcat recv --verify does); still listening");
    said(&netns.tcpcat(&format!("recv {} 127.0.0.1 7000 --verify --kernel", to.display())), 0);
    said(&sender.finish(), 0);
    assert_same(&from, &to);
}

#[test]
fn sixteen_parts_cross_a_long_path() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 300_017), scratch.path("to"));
    // Greeted one after the other, sixteen take 3.2 s, and a sender waits for 3 s in the plain case.
    let receiver = netns.listen(&format!("recv {} -l 7000 -v --verify {HOST2}", to.display()));
    let line = format!("send {} 10.9.2.2 7000 -P 16 --delay 100ms {HOST1}", from.display());
    said(&netns.tcpcat(&line), 0);
    said(&receiver.finish(), 0);
    assert_same(&from, &to);
}
