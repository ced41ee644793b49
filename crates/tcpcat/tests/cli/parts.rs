//! Transfers that break off, at either end and in every way: no part is ever taken for the whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use crate::common::{HOST1, HOST2, Netns, Process, Scratch, TCPCAT, random_file, said};

const LEN: usize = 4_000_000;
/// Slow enough to be interrupted: a file takes sixteen seconds.
const RATE: &str = "2M";
/// The bytes that have arrived by then.
const SOME: u64 = 100_000;

/// A file on its way from one host to the other, and an older one in its place.
struct Transfer {
    netns: Netns,
    scratch: Scratch,
    from: PathBuf,
    to: PathBuf,
    sender: Process,
    receiver: Process,
    part: PathBuf,
}

/// How the two ends ended, and what is left.
struct Ended {
    sender: Output,
    receiver: Output,
    scratch: Scratch,
    from: PathBuf,
    to: PathBuf,
    part: PathBuf,
    // Last, so that the processes end in it first.
    _netns: Netns,
}

impl Transfer {
    /// Begins one between two stacks, and returns when some of it has come.
    fn begin(sender_flags: &str, receiver_flags: &str) -> Option<Self> {
        let ends = (format!("10.9.2.2 7000 --announce-length {HOST1}"), format!("--announce-length {HOST2}"));
        Self::between(&ends.0, sender_flags, &ends.1, receiver_flags)
    }

    fn between(to_whom: &str, sender_flags: &str, where_: &str, receiver_flags: &str) -> Option<Self> {
        let netns = Netns::new()?;
        let scratch = Scratch::new();
        let (from, to) = (random_file(&scratch, "from", LEN), scratch.path("to"));
        fs::write(&to, "old").unwrap();
        let receiver = netns.listen(&format!("recv {} -l 7000 -v {receiver_flags} {where_}", to.display()));
        let sender = netns.start(&format!("send {} {to_whom} --rate {RATE} {sender_flags}", from.display()));
        let part = scratch.await_part(SOME);
        Some(Self { netns, scratch, from, to, sender, receiver, part })
    }

    fn end(self) -> Ended {
        let Self { netns, scratch, from, to, sender, receiver, part } = self;
        let (sender, receiver) = (sender.finish(), receiver.finish());
        Ended { sender, receiver, scratch, from, to, part, _netns: netns }
    }
}

impl Ended {
    /// The sender's words.
    fn sender(&self, code: i32) -> String {
        let words = said(&self.sender, code);
        assert!(words.contains(&format!("of {LEN} bytes were sent")), "{words}");
        words
    }

    /// The receiver's words, which tell how much came and where it is; that is so, and what was there is
    /// untouched.
    fn receiver(&self, code: i32) -> String {
        self.receiver_of(code, &LEN.to_string())
    }

    fn receiver_of(&self, code: i32, whole: &str) -> String {
        let words = said(&self.receiver, code);
        let (part, whole_file) = (fs::read(&self.part).unwrap(), fs::read(&self.from).unwrap());
        assert!(part.len() as u64 >= SOME && part.len() < LEN);
        assert!(words.contains(&format!("{} of {whole} bytes arrived", part.len())), "{words}");
        assert!(words.contains(&self.part.display().to_string()), "{words}");
        assert!(whole_file.starts_with(&part), "the part is the file's beginning");
        assert_eq!(fs::read(&self.to).unwrap(), b"old");
        assert_eq!(self.scratch.names().len(), 3, "{:?}", self.scratch.names());
        words
    }
}

#[test]
fn an_interrupted_sender_resets_and_says_so_by_its_code() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        let Some(transfer) = Transfer::begin("", "") else { return };
        transfer.sender.signal(signal);
        let ended = transfer.end();
        assert!(ended.sender(code).contains("interrupted"));
        assert!(ended.receiver(1).contains("reset by peer"));
    }
}

#[test]
fn a_sender_interrupted_twice_ends_no_other_way() {
    let Some(transfer) = Transfer::begin("", "") else { return };
    transfer.sender.signal("INT");
    transfer.sender.signal("INT");
    let ended = transfer.end();
    said(&ended.sender, 130);
    assert!(ended.receiver(1).contains("reset by peer"));
}

#[test]
fn an_interrupted_sender_that_verifies_resets_too() {
    let Some(transfer) = Transfer::begin("--verify", "--verify") else { return };
    transfer.sender.signal("INT");
    let ended = transfer.end();
    ended.sender(130);
    assert!(ended.receiver(1).contains("reset by peer"));
}

#[test]
fn a_sender_that_is_killed_leaves_a_part_to_who_does_not_wait() {
    let Some(transfer) = Transfer::begin("", "-w 2") else { return };
    transfer.sender.signal("KILL");
    let started = Instant::now();
    let ended = transfer.end();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(ended.receiver(1).contains("nothing moved for 2s"));
}

/// No reset comes from a device that is gone: the receiver's probes find out.
#[test]
fn a_sender_that_is_killed_is_found_out_within_half_a_minute() {
    let Some(transfer) = Transfer::begin("", "") else { return };
    transfer.sender.signal("KILL");
    let started = Instant::now();
    let ended = transfer.end();
    let took = started.elapsed();
    assert!((Duration::from_secs(20)..Duration::from_secs(45)).contains(&took), "{took:?}");
    assert!(ended.receiver(1).contains("keep-alive"));
}

#[test]
fn an_interrupted_receiver_resets_and_keeps_its_part() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        let Some(transfer) = Transfer::begin("", "") else { return };
        transfer.receiver.signal(signal);
        let ended = transfer.end();
        assert!(ended.sender(1).contains("reset by peer"));
        assert!(ended.receiver(code).contains("interrupted"));
    }
}

#[test]
fn a_receiver_interrupted_twice_ends_no_other_way() {
    let Some(transfer) = Transfer::begin("", "") else { return };
    transfer.receiver.signal("INT");
    transfer.receiver.signal("INT");
    let ended = transfer.end();
    assert!(ended.sender(1).contains("reset by peer"));
    said(&ended.receiver, 130);
}

#[test]
fn a_receiver_that_is_killed_is_4_for_a_sender_that_does_not_wait() {
    let Some(transfer) = Transfer::begin("-w 2", "") else { return };
    transfer.receiver.signal("KILL");
    let ended = transfer.end();
    assert!(ended.sender(4).contains("nothing moved for 2s"));
    assert_eq!(fs::read(&ended.to).unwrap(), b"old");
}

#[test]
fn a_receiver_that_is_killed_is_found_out_by_its_silence() {
    let Some(transfer) = Transfer::begin("", "") else { return };
    transfer.receiver.signal("KILL");
    let started = Instant::now();
    let ended = transfer.end();
    let took = started.elapsed();
    assert!((Duration::from_secs(20)..Duration::from_secs(50)).contains(&took), "{took:?}");
    assert!(ended.sender(4).contains("stopped answering"));
}

#[test]
fn the_kernels_sockets_reset_for_a_sender_that_is_interrupted_or_killed() {
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let begun = Transfer::between("127.0.0.1 7000 --kernel", "", "--kernel", "");
        let Some(transfer) = begun else { return };
        transfer.sender.signal(signal);
        let ended = transfer.end();
        assert_eq!(ended.sender.status.code(), code);
        // Their handshake has no room for the length.
        assert!(ended.receiver_of(1, "an unknown number of").contains("reset by peer"));
    }
}

#[test]
fn a_plain_receiver_sees_a_reset_behind_the_bytes_of_a_part() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", LEN);
    let script = "
import socket, sys
l = socket.create_server(('0.0.0.0', 7001))
print('ready', file=sys.stderr, flush=True)
s, _ = l.accept()
out, n = open(sys.argv[1], 'wb', buffering=0), 0
try:
    while data := s.recv(65536):
        out.write(data); n += len(data)
        if n > 100000 and n - len(data) <= 100000: print('some', file=sys.stderr, flush=True)
    print('end', file=sys.stderr, flush=True)
except ConnectionResetError:
    print('reset', file=sys.stderr, flush=True)
";
    let seen = scratch.path("seen");
    let server = Process::start(netns.command("python3").args(["-c", script]).arg(&seen));
    server.await_line("ready");
    let sender = netns.start(&format!("send {} 10.9.1.1 7001 --rate {RATE} {HOST1}", from.display()));
    server.await_line("some");
    sender.signal("INT");
    said(&sender.finish(), 130);
    assert!(said(&server.finish(), 0).ends_with("reset\n"));
    assert!(fs::read(&from).unwrap().starts_with(&fs::read(&seen).unwrap()));
}

#[test]
fn a_plain_senders_reset_leaves_all_that_came_before_it() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let target = scratch.path("file");
    let receiver = netns.listen(&format!("recv {} -l 7000 -v {HOST1}", target.display()));
    let script = "
import fcntl, socket, struct, termios, time
s = socket.create_connection(('10.9.1.2', 7000))
s.sendall(bytes(range(250)) * 4000)
# A reset throws away what has not been acknowledged.
while any(fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4))): time.sleep(0.01)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
";
    said(&Process::start(netns.command("python3").args(["-c", script])).finish(), 0);
    let words = said(&receiver.finish(), 1);
    assert!(words.contains("1000000 of an unknown number of bytes arrived"), "{words}");
    let part = fs::read(scratch.await_part(1_000_000)).unwrap();
    assert!(part.iter().enumerate().all(|(at, &byte)| usize::from(byte) == at % 250));
    assert!(!Path::new(&target).exists());
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_is_not_passed_off_as_whole() {
    let Some(transfer) = Transfer::begin("", "") else { return };
    fs::File::options().write(true).open(&transfer.from).unwrap().set_len(1_000_000).unwrap();
    let words = said(&transfer.sender.finish(), 6);
    assert!(words.contains("was truncated while it was read"), "{words}");
    let words = said(&transfer.receiver.finish(), 1);
    assert!(words.contains(&format!("of {LEN} bytes arrived")) && words.contains("reset by peer"), "{words}");
    assert_eq!(fs::read(&transfer.to).unwrap(), b"old");
}

#[test]
fn a_sender_learns_of_the_receivers_full_disk_by_a_reset() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", LEN);
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let disk = disk.display();
    let script = format!(
        "mount -t tmpfs -o size=1m none {disk} || exit 99
         {TCPCAT} recv {disk}/file -l 7000 -v {HOST2}; code=$?
         ls -A {disk}; exit $code"
    );
    let receiver = Process::start(netns.command("sh").args(["-c", &script]));
    receiver.await_line("listening on");
    let words = said(&netns.tcpcat(&format!("send {} 10.9.2.2 7000 {HOST1}", from.display())), 1);
    assert!(words.contains("reset by peer"), "{words}");
    let receiver = receiver.finish();
    let words = said(&receiver, 6);
    assert!(words.contains("No space left"), "{words}");
    assert_eq!(String::from_utf8_lossy(&receiver.stdout), "", "what fills the disk is removed");
}

#[test]
fn a_file_whose_length_is_announced_is_whole() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    for len in [0, 1, 300_000] {
        let (from, to) = (random_file(&scratch, "from", len), scratch.path("to"));
        let receiver = netns.listen(&format!("recv {} -l 7000 -v --announce-length {HOST2}", to.display()));
        let line = format!("send {} 10.9.2.2 7000 --announce-length {HOST1}", from.display());
        said(&netns.tcpcat(&line), 0);
        said(&receiver.finish(), 0);
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{len} bytes");
        assert_eq!(scratch.names(), ["from", "to"]);
    }
}

#[test]
fn the_length_is_told_by_a_sender_that_listens_too() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", LEN), scratch.path("to"));
    let sender =
        netns.listen(&format!("send {} -l 7000 -v --rate {RATE} --announce-length {HOST1}", from.display()));
    let receiver = netns.start(&format!("recv {} 10.9.1.2 7000 --announce-length {HOST2}", to.display()));
    scratch.await_part(SOME);
    sender.signal("TERM");
    said(&sender.finish(), 143);
    let words = said(&receiver.finish(), 1);
    assert!(words.contains(&format!("of {LEN} bytes arrived")), "{words}");
}

#[test]
fn who_does_not_want_to_wait_gives_up_sending_and_receiving() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", LEN);
    // Without a connection.
    let words = said(&netns.tcpcat(&format!("send {} -l 7000 -w 1 {HOST1}", from.display())), 4);
    assert!(words.contains("no peer connected within 1s"), "{words}");
    let to = scratch.path("to");
    let words = said(&netns.tcpcat(&format!("recv {} -l 7000 -w 1 {HOST1}", to.display())), 4);
    assert!(words.contains("no peer connected within 1s"), "{words}");

    // Without data: a peer that neither reads nor sends.
    let script = "
import socket, sys, time
l = socket.create_server(('0.0.0.0', 7001))
print('ready', file=sys.stderr, flush=True)
held = []
while True: held.append(l.accept())
";
    let server = Process::start(netns.command("python3").args(["-c", script]));
    server.await_line("ready");
    for flags in ["", "--verify"] {
        let line = format!("send {} 10.9.1.1 7001 -w 1 {flags} --sndbuf 4K {HOST1}", from.display());
        let words = said(&netns.tcpcat(&line), 4);
        assert!(words.contains("nothing moved for 1s"), "{words}");
        let words =
            said(&netns.tcpcat(&format!("recv {} 10.9.1.1 7001 -w 1 {flags} {HOST1}", to.display())), 4);
        assert!(words.contains("nothing moved for 1s"), "{words}");
    }
    assert_eq!(scratch.names(), ["from"]);
}
