//! Each flag that promises something, with the promise broken: the exit code, the message, and the file that
//! was there before, which stays.

use std::fs;
use std::path::PathBuf;

use blake3::Hash;

use crate::common::{HOST1, HOST2, Netns, Process, Scratch, TCPCAT, assert_same, random_file, said};

/// The two ways by which data reaches a file: the kernel's sockets and the stack's.
const RECEIVERS: [(&str, &str); 2] = [("127.0.0.1", "--kernel"), ("10.9.1.2", HOST1)];

/// A receiver's destination, which holds an older file.
struct Destination {
    scratch: Scratch,
    to: PathBuf,
}

impl Destination {
    fn new() -> Self {
        let scratch = Scratch::new();
        let to = scratch.path("to");
        fs::write(&to, "old").unwrap();
        Self { scratch, to }
    }

    /// The older file is there, and beside it a part with `kept`, if that is anything.
    fn holds(&self, kept: Option<&[u8]>, case: &str) {
        assert_eq!(fs::read(&self.to).unwrap(), b"old", "{case}");
        let parts: Vec<_> = self.scratch.names().into_iter().filter(|name| name.ends_with(".part")).collect();
        let parts: Vec<_> = parts.iter().map(|name| fs::read(self.scratch.path(name)).unwrap()).collect();
        assert_eq!(parts, kept.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), "{case}");
        for name in self.scratch.names().iter().filter(|name| name.ends_with(".part")) {
            fs::remove_file(self.scratch.path(name)).unwrap();
        }
    }
}

#[test]
fn bytes_of_a_verified_receiver_is_kept_or_refused_by_name() {
    let Some(netns) = Netns::new() else { return };
    let there = Destination::new();
    let from = random_file(&there.scratch, "from", 300_000);
    let data = fs::read(&from).unwrap();
    let (from, to) = (from.display(), there.to.display());
    for (host, device) in RECEIVERS {
        for (sends, says) in [
            // A length that the sender announces is compared before the data.
            (format!("send {from} {host} 7000 --verify"), "the sender has 300000 bytes; --bytes asks for"),
            (format!("send {from} {host} 7000 -P 3"), "the sender has 300000 bytes; --bytes asks for"),
        ] {
            for bytes in [299_999, 300_001] {
                let receiver =
                    netns.listen(&format!("recv {to} -l 7000 --verify --bytes {bytes}B -v {device}"));
                let case = format!("{sends}, {bytes} bytes, {device}");
                let sent = netns.tcpcat(&format!("{sends} --kernel"));
                // The receiver may be gone before its other connections come.
                assert!(
                    sent.status.code().is_some_and(|code| code == 1 || code > 0 && sends.contains("-P")),
                    "{case}"
                );
                let words = said(&receiver.finish(), 1);
                assert!(
                    words.contains(&format!("{says} {bytes}")) && words.contains("to fix it:"),
                    "{case}: {words}"
                );
                there.holds(None, &case);
            }
        }
        // A pipe has no length: the data shows.
        for (bytes, says, least) in
            [(299_999, "more than the 299999 bytes", 0), (300_001, "300000 of 300001 bytes arrived", 300_000)]
        {
            let receiver = netns.listen(&format!("recv {to} -l 7000 --verify --bytes {bytes}B -v {device}"));
            let case = format!("a pipe, {bytes} bytes, {device}");
            let script = format!("cat {from} | {TCPCAT} send - {host} 7000 --verify --kernel");
            said(&Process::start(netns.command("sh").args(["-c", &script])).finish(), 1);
            let words = said(&receiver.finish(), 1);
            assert!(words.contains(says) && words.contains("to fix it:"), "{case}: {words}");
            let part = fs::read(there.scratch.await_part(least)).unwrap();
            assert!(part.len() as u64 >= least && data.starts_with(&part), "{case}");
            there.holds(Some(&part), &case);
        }
        // The promised output comes.
        for sends in [
            format!("{TCPCAT} send {from} {host} 7000 --verify --kernel"),
            format!("{TCPCAT} send {from} {host} 7000 -P 3 --kernel"),
            format!("cat {from} | {TCPCAT} send - {host} 7000 --verify --kernel"),
        ] {
            let receiver = netns.listen(&format!("recv {to} -l 7000 --verify --bytes 300000B -v {device}"));
            said(&Process::start(netns.command("sh").args(["-c", &sends])).finish(), 0);
            said(&receiver.finish(), 0);
            assert!(fs::read(&there.to).unwrap() == data);
            fs::write(&there.to, "old").unwrap();
        }
    }
}

/// A connection of a sender that speaks tcpcat's protocol and need not keep to it.
struct Part {
    /// Its number and the number of parts.
    part: (u16, u16),
    offset: u64,
    total: Option<u64>,
    /// Which transfer it says it belongs to.
    transfer: u8,
    frames: &'static [&'static str],
    hash: Option<Hash>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    /// It waits for the receipt.
    Waits,
    /// It waits for its own end before the next connection is made.
    Yields,
    /// It resets once everything is acknowledged.
    Resets,
    /// It ends its stream.
    Closes,
}

impl Part {
    /// A whole file in one part, with its right hash.
    fn whole(total: Option<u64>, frames: &'static [&'static str]) -> Self {
        Self::of((0, 1), 0, total, frames)
    }

    fn of(part: (u16, u16), offset: u64, total: Option<u64>, frames: &'static [&'static str]) -> Self {
        let hash = Some(blake3::hash(frames.concat().as_bytes()));
        Self { part, offset, total, transfer: 1, frames, hash, end: End::Waits }
    }

    fn wrong(self) -> Self {
        Self { hash: Some(blake3::hash(b"other data")), ..self }
    }

    /// It leaves before the hash.
    fn leaves(self, end: End) -> Self {
        Self { hash: None, end, ..self }
    }

    fn json(&self) -> serde_json::Value {
        let end = match self.end {
            End::Waits => "waits",
            End::Yields => "yields",
            End::Resets => "resets",
            End::Closes => "closes",
        };
        serde_json::json!({
            "part": [self.part.0, self.part.1, self.offset, self.total.unwrap_or(u64::MAX)],
            "transfer": self.transfer, "frames": self.frames, "end": end,
            "hash": self.hash.map(|hash| hash.to_string()),
        })
    }
}

/// Sends the parts, one connection each, and holds them until the receiver ends each.
const SENDER: &str = "
import fcntl, json, socket, struct, sys, termios, time
held = []
def send(part):
    s = socket.create_connection((sys.argv[1], 7000), 60)
    held.append(s)
    nonce = s.recv(24, socket.MSG_WAITALL)[8:]
    s.sendall(b'tcpcat1>' + nonce + struct.pack('>HHQQ', *part['part']) + bytes([part['transfer']]) * 16)
    for frame in part['frames']:
        s.sendall(struct.pack('>I', len(frame)) + frame.encode())
    if part['hash']: s.sendall(bytes(4) + bytes.fromhex(part['hash']))
    if part['end'] == 'resets':
        while any(fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4))): time.sleep(0.01)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        held.pop().close()
    elif part['end'] == 'closes': s.shutdown(socket.SHUT_WR)
    elif part['end'] == 'yields':
        while s.recv(100): pass
for part in json.loads(sys.argv[2]):
    # A receiver that has seen enough refuses or resets the others.
    try: send(part)
    except ConnectionError: pass
for s in held:
    try:
        while s.recv(100): pass
    except ConnectionError: pass
";

struct Case {
    name: &'static str,
    flags: &'static str,
    parts: Vec<Part>,
    code: i32,
    says: &'static str,
    /// The content of a part that is kept beside the older file.
    kept: Option<&'static str>,
}

fn broken_promises() -> Vec<Case> {
    let thirds = |first, second, third| {
        vec![
            Part::of((0, 3), 0, Some(12), first),
            Part::of((1, 3), 4, Some(12), second),
            Part::of((2, 3), 8, Some(12), third),
        ]
    };
    let case = |name, parts, code, says, kept| Case { name, flags: "", parts, code, says, kept };
    let mut cases = vec![
        case("wrong hash", vec![Part::whole(Some(4), &["data"]).wrong()], 7, "not the sender's", None),
        case(
            "wrong hash, no length",
            vec![Part::whole(None, &["data"]).wrong()],
            7,
            "not the sender's",
            None,
        ),
        case(
            "short data",
            vec![Part::whole(Some(5), &["data"])],
            7,
            "do not make up the announced file",
            None,
        ),
        case("long data", vec![Part::whole(Some(7), &["data", "data"])], 7, "more than the 7 bytes", None),
        case(
            "short third",
            thirds(&["aaaa"], &["bbb"], &["cccc"]),
            7,
            "do not make up the announced file",
            None,
        ),
        case(
            "long third",
            thirds(&["aaaaa"], &["bbbb"], &["cccc"]),
            7,
            "do not make up the announced file",
            None,
        ),
        case(
            "third beyond the end",
            thirds(&["aaaa"], &["bbbb"], &["ccccc"]),
            7,
            "more than the 4 bytes",
            None,
        ),
        case(
            "reset after data",
            vec![Part::whole(Some(8), &["data"]).leaves(End::Resets)],
            1,
            "4 of 8 bytes arrived, and are in",
            Some("data"),
        ),
        case(
            "reset after data, no length",
            vec![Part::whole(None, &["data"]).leaves(End::Resets)],
            1,
            "4 of an unknown number of bytes arrived, and are in",
            Some("data"),
        ),
        case(
            "closed before the hash",
            vec![Part::whole(Some(4), &["data"]).leaves(End::Closes)],
            1,
            "closed the connection before the end of the data",
            Some("data"),
        ),
        case(
            "reset in the first part, before the second comes",
            vec![Part::of((0, 2), 0, Some(8), &["data"]).leaves(End::Resets)],
            1,
            "4 of 8 bytes arrived, kept with gaps in",
            Some("data"),
        ),
        case(
            "reset behind the first part, before the second comes",
            vec![Part { end: End::Resets, ..Part::of((0, 2), 0, Some(8), &["data"]) }],
            1,
            "4 of 8 bytes arrived, kept with gaps in",
            Some("data"),
        ),
    ];
    let mut wrong = thirds(&["aaaa"], &["bbbb"], &["cccc"]);
    wrong.swap_remove(1);
    wrong.insert(1, Part::of((1, 3), 4, Some(12), &["bbbb"]).wrong());
    cases.push(case("wrong hash of a third", wrong, 7, "not the sender's", None));
    let other = Part { transfer: 2, ..Part::of((1, 2), 4, Some(8), &["evil"]) };
    let mixed = vec![Part::of((0, 2), 0, Some(8), &["data"]), other];
    cases.push(Case {
        flags: "-w 2",
        ..case("a part of another file", mixed, 1, "nothing moved for 2s", Some("data"))
    });
    let lone = vec![Part::of((0, 2), 0, Some(8), &["data"])];
    cases.push(Case {
        flags: "-w 2",
        ..case("a part that does not come", lone, 1, "nothing moved for 2s", Some("data"))
    });
    let short = vec![Part::whole(None, &["data"])];
    cases.push(Case {
        flags: "--bytes 5B",
        ..case("too few bytes", short, 1, "the sender has no more", Some("data"))
    });
    cases
}

#[test]
fn a_verified_transfer_that_breaks_a_promise_says_which_and_leaves_what_was_there() {
    let Some(netns) = Netns::new() else { return };
    for (host, device) in RECEIVERS {
        for case in broken_promises() {
            let there = Destination::new();
            let name = format!("{}, {device}", case.name);
            let line = format!("recv {} -l 7000 --verify -v {} {device}", there.to.display(), case.flags);
            let receiver = netns.listen(&line);
            let parts = serde_json::Value::from(case.parts.iter().map(Part::json).collect::<Vec<_>>());
            let sender =
                Process::start(netns.command("python3").args(["-c", SENDER, host, &parts.to_string()]));
            let words = said(&receiver.finish(), case.code);
            assert!(words.contains(case.says), "{name}: {words}");
            there.holds(case.kept.map(str::as_bytes), &name);
            said(&sender.finish(), 0);
        }
    }
}

#[test]
fn two_senders_in_parts_at_once_are_kept_apart() {
    let Some(netns) = Netns::new() else { return };
    for (host, device) in RECEIVERS {
        let there = Destination::new();
        let receiver = netns.listen(&format!("recv {} -l 7000 --verify -v {device}", there.to.display()));
        // Both send files of eight bytes in two parts, and their connections come in turn.
        let part = |transfer, part, frames| Part {
            transfer,
            ..Part::of((part, 2), 4 * u64::from(part), Some(8), frames)
        };
        let other = Part { end: End::Yields, ..part(2, 1, &["evil"]) };
        let parts = [part(1, 0, &["ours"]), other, part(1, 1, &["file"])];
        let parts = serde_json::Value::from(parts.iter().map(Part::json).collect::<Vec<_>>());
        let senders = Process::start(netns.command("python3").args(["-c", SENDER, host, &parts.to_string()]));
        let words = said(&receiver.finish(), 0);
        assert!(words.contains("carries no part of the file; still listening"), "{device}: {words}");
        assert_eq!(fs::read(&there.to).unwrap(), b"oursfile", "{device}");
        said(&senders.finish(), 0);
    }
}

#[test]
fn a_plain_sender_that_ends_early_is_1_and_one_that_goes_on_is_cut_at_bytes() {
    let Some(netns) = Netns::new() else { return };
    for (host, device) in RECEIVERS {
        for (bytes, code, words) in [(5, 1, "4 of 5 bytes arrived, and are in"), (3, 0, "")] {
            let there = Destination::new();
            let line = format!("recv {} -l 7000 --bytes {bytes}B -v {device}", there.to.display());
            let receiver = netns.listen(&line);
            let nc = format!("printf data | nc -N {host} 7000");
            let sender = Process::start(netns.command("sh").args(["-c", &nc]));
            let said = said(&receiver.finish(), code);
            assert!(said.contains(words), "{device}: {said}");
            sender.finish();
            if code == 0 {
                assert_eq!(fs::read(&there.to).unwrap(), b"dat");
            } else {
                there.holds(Some(b"data"), device);
            }
        }
    }
}

#[test]
fn a_full_disk_under_verify_is_6_at_the_receiver_and_1_at_the_sender() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = random_file(&scratch, "from", 3_000_000);
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let disk = disk.display();
    for flags in ["--verify", "-P 3"] {
        let script = format!(
            "mount -t tmpfs -o size=1m none {disk} && echo old > {disk}/file || exit 99
             {TCPCAT} recv {disk}/file -l 7000 -v --verify {HOST2}; code=$?
             ls -A {disk}; cat {disk}/file; exit $code"
        );
        let receiver = Process::start(netns.command("sh").args(["-c", &script]));
        receiver.await_line("listening on");
        let words = said(&netns.tcpcat(&format!("send {} 10.9.2.2 7000 {flags} {HOST1}", from.display())), 1);
        assert!(words.contains("reset by peer"), "{flags}: {words}");
        let output = receiver.finish();
        let words = said(&output, 6);
        assert!(
            words.contains("No space left") && words.contains("the old file is untouched"),
            "{flags}: {words}"
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), "file\nold\n", "{flags}");
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_transfer() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, to) = (random_file(&scratch, "from", 32_000_000), scratch.path("to"));
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let disk = disk.display();
    let receiver = netns.listen(&format!("recv {} -l 7000 -v --verify {HOST2}", to.display()));
    let script = format!(
        "mount -t tmpfs -o size=16k none {disk} || exit 99
         exec {TCPCAT} send {} 10.9.2.2 7000 --verify --offload off --record {disk}/record {HOST1}",
        from.display()
    );
    let words = said(&Process::start(netns.command("sh").args(["-c", &script])).finish(), 0);
    assert!(words.contains("recording") && words.contains("no storage space"), "{words}");
    said(&receiver.finish(), 0);
    assert_same(&from, &to);
}

#[test]
fn a_listener_that_stays_survives_a_reset_and_not_its_own_full_output() {
    let Some(netns) = Netns::new() else { return };
    let resets = "
import socket, struct, sys
s = socket.create_connection((sys.argv[1], 7000))
s.sendall(b'x')
sys.stdin.readline()
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
";
    for (host, device) in RECEIVERS {
        let mut listener = netns.listen(&format!("-l -k 7000 -v {device}"));
        let client = Process::start(netns.command("python3").args(["-c", resets, host]));
        assert_eq!(listener.read_stdout(1), b"x");
        said(&client.finish(), 0);
        listener.await_line("reset by peer");
        let nc = format!("printf data | nc -N {host} 7000");
        let next = Process::start(netns.command("sh").args(["-c", &nc]));
        assert_eq!(listener.read_stdout(4), b"data", "{device}");
        listener.signal("INT");
        said(&listener.finish(), 0);
        next.finish();

        let script = format!("exec {TCPCAT} -l -k 7000 -v -d {device} > /dev/full");
        let listener = Process::start(netns.command("sh").args(["-c", &script]));
        listener.await_line("listening on");
        Process::start(netns.command("sh").args(["-c", &nc])).finish();
        let words = said(&listener.finish(), 6);
        assert!(words.contains("No space left"), "{device}: {words}");
    }
}

#[test]
fn a_port_that_another_program_has_is_2() {
    let Some(netns) = Netns::new() else { return };
    let there = Destination::new();
    let holder = netns.listen("-l 7000 -v --kernel");
    for command in ["-l 7000", &format!("recv {} -l 7000", there.to.display())] {
        let words = said(&netns.tcpcat(&format!("{command} --kernel")), 2);
        assert!(words.contains("7000") && words.contains("ss -ltnp"), "{command}: {words}");
    }
    there.holds(None, "a port in use");
    drop(holder);
}

/// nc -l stops reading its pipe when its client has ended: of three million bytes 16,384 arrive, with code 0.
#[test]
fn a_listeners_pipe_goes_to_its_end_though_the_client_has_ended() {
    let Some(netns) = Netns::new() else { return };
    for (host, device) in RECEIVERS {
        let script = format!(
            "(echo first; head -n 1; head -c 3000000 /dev/zero) < {{}} | {TCPCAT} -l -N 7000 -v {device}"
        );
        let scratch = Scratch::new();
        let fifo = scratch.path("fifo");
        netns.shell(&format!("mkfifo {}", fifo.display()));
        let script = script.replace("{}", &fifo.display().to_string());
        let listener = Process::start(netns.command("bash").args(["-c", &script]));
        let mut go_on = fs::File::options().write(true).open(&fifo).unwrap();
        listener.await_line("listening on");
        let reads = "
import socket, sys
s = socket.create_connection((sys.argv[1], 7000), 60)
s.shutdown(socket.SHUT_WR)
assert s.recv(6, socket.MSG_WAITALL) == b'first\\n'
print('ended', file=sys.stderr, flush=True)
n = 0
while data := s.recv(65536): n += len(data)
print(n)
";
        let client = Process::start(netns.command("python3").args(["-c", reads, host]));
        client.await_line("ended");
        std::io::Write::write_all(&mut go_on, b"go on\n").unwrap();
        drop(go_on);
        let read = client.finish();
        assert_eq!(String::from_utf8_lossy(&read.stdout), "3000006\n", "{device}");
        said(&listener.finish(), 0);

        // A pipe that stays silent is waited for, unless -w bounds that.
        let script = format!("sleep 60 | exec {TCPCAT} -l -w 1 7000 -v {device}; exit ${{PIPESTATUS[1]}}");
        let listener = Process::start(netns.command("bash").args(["-c", &script]));
        listener.await_line("listening on");
        let nc = format!("printf data | nc -N {host} 7000");
        let client = Process::start(netns.command("sh").args(["-c", &nc]));
        listener.await_line("nothing moved for 1s");
        drop((listener, client));
    }
}
