//! Recordings of the real program over TUN against the kernel's TCP: the same code makes the same packets and
//! the same trace of them again, also of a program that was killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{HOST1, Netns, Process, Scratch, said};
use ackclock::congestion::Registry;
use ackclock::journal::{Changes, JournalEnd, Replay};
use ackclock_trace::file::{Origin, Trace, Writer};

/// The result of replaying a recording.
struct Replayed {
    trace: Trace,
    calls: u64,
    departures: u64,
    end: Option<JournalEnd>,
}

fn replay(path: &Path) -> Replayed {
    let file = fs::File::open(path).unwrap();
    let mut replay = Replay::open(file, &Registry::builtin(), Changes::default()).unwrap();
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &Origin::default()).unwrap();
    loop {
        let more = replay.step(|_, _| ()).unwrap();
        if let Some(departure) = more.as_ref().and_then(|step| step.departure.as_ref()) {
            println!("{departure}");
        }
        while let Some(batch) = replay.endpoint_mut().poll_trace() {
            writer.batch("", &batch).unwrap();
        }
        if more.is_none() {
            break;
        }
    }
    let (calls, departures, end) = (replay.calls(), replay.departures(), replay.end());
    Replayed { trace: Trace::read(&bytes).unwrap(), calls, departures, end }
}

#[test]
fn recorded_transfer_is_replayed_to_the_same_trace() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, trace, record) = (scratch.path("from"), scratch.path("trace"), scratch.path("record"));
    fs::write(&from, vec![0x5a; 4 << 20]).unwrap();
    let nc = Process::start(netns.command("sh").args(["-c", "nc -l 7001 > /dev/null"]));
    netns.shell("for i in $(seq 500); do ss -ltn | grep -q ':7001 ' && exit 0; sleep 0.02; done; exit 1");
    let output = netns.tcpcat(&format!(
        "send {} 10.9.1.1 7001 --trace {} --record {} -v --loss 1% {HOST1}",
        from.display(),
        trace.display(),
        record.display()
    ));
    let words = said(&output, 0);
    said(&nc.finish(), 0);
    assert!(words.contains("calls of the stack are in"), "{words}");
    let bytes = fs::read(&record).unwrap();
    assert!(!bytes.windows(16).any(|bytes| bytes == [0x5a; 16]), "the payload is in the recording");

    let live = Trace::read(&fs::read(&trace).unwrap()).unwrap();
    let replayed = replay(&record);
    assert_eq!((replayed.departures, replayed.end), (0, Some(JournalEnd::Closed)));
    assert!(live.sources[0].entries.len() > 500, "{} entries", live.sources[0].entries.len());
    assert!(replayed.trace.sources == live.sources, "the trace is the same, entry by entry");
}

#[test]
fn recording_of_a_killed_program_is_replayed_up_to_its_end() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (to, record) = (scratch.path("to"), scratch.path("record"));
    let mut receiver =
        netns.listen(&format!("recv {} -l 7000 -v --record {} {HOST1}", to.display(), record.display()));
    let script = "
import socket
s = socket.create_connection(('10.9.1.2', 7000))
s.settimeout(5)
try:
    while True:
        s.sendall(b'x' * 65536)
except OSError:
    pass
";
    let sender = Process::start(netns.command("python3").args(["-c", script]));
    scratch.await_part(2_000_000);
    receiver.kill();
    let replayed = replay(&record);
    assert_eq!((replayed.departures, replayed.end), (0, None));
    assert!(replayed.calls > 100, "{} calls", replayed.calls);
    drop(sender);
}

#[test]
fn recording_ends_at_its_limit_and_the_transfer_goes_on() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, record) = (scratch.path("from"), scratch.path("record"));
    fs::write(&from, vec![7; 16 << 20]).unwrap();
    let nc = Process::start(netns.command("sh").args(["-c", "nc -l 7001 | wc -c"]));
    netns.shell("for i in $(seq 500); do ss -ltn | grep -q ':7001 ' && exit 0; sleep 0.02; done; exit 1");
    let output = netns.tcpcat(&format!(
        "send {} 10.9.1.1 7001 --record {} --record-limit 64K --offload off {HOST1}",
        from.display(),
        record.display()
    ));
    let words = said(&output, 0);
    assert!(words.contains("the recording reached its size limit"), "{words}");
    assert_eq!(String::from_utf8_lossy(&nc.finish().stdout).trim(), (16 << 20).to_string());
    assert!(fs::metadata(&record).unwrap().len() <= 64 << 10);
    let replayed = replay(&record);
    assert_eq!((replayed.departures, replayed.end), (0, Some(JournalEnd::Limit)));
}

#[test]
fn sec_f1_recording_is_its_owners_alone_and_replaces_no_file() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let taken = scratch.path("taken");
    fs::write(&taken, "something").unwrap();
    let words = said(&netns.tcpcat(&format!("10.9.1.1 7001 --record {} {HOST1}", taken.display())), 6);
    assert!(words.contains("exists already"), "{words}");
    assert_eq!(fs::read_to_string(&taken).unwrap(), "something");
    let own = scratch.path("own");
    said(&netns.tcpcat(&format!("10.9.1.1 7001 --record {} {HOST1}", own.display())), 3);
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn recording_that_cannot_be_written_is_refused_at_once() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let words = said(&netns.tcpcat(&format!("10.9.1.1 7001 --record /dev/full {HOST1}")), 6);
    assert!(words.contains("the recording cannot be written to /dev/full"), "{words}");
    let small = scratch.path("small");
    let line = format!("10.9.1.1 7001 --record {} --record-limit 1K {HOST1}", small.display());
    let words = said(&netns.tcpcat(&line), 2);
    assert!(words.contains("allow 65536 or more"), "{words}");
}

#[test]
fn a_pipe_whose_reader_stops_holds_up_neither_the_transfer_nor_its_end() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let from = scratch.path("from");
    fs::write(&from, vec![0x5a; 16 << 20]).unwrap();
    for flag in ["--pcap", "--trace", "--record"] {
        let pipe = scratch.path(flag.trim_start_matches('-'));
        let nc = Process::start(netns.command("sh").args(["-c", "nc -l 7001 > /dev/null"]));
        netns.shell("for i in $(seq 500); do ss -ltn | grep -q ':7001 ' && exit 0; sleep 0.02; done; exit 1");
        netns.shell(&format!("mkfifo {}", pipe.display()));
        // It opens the pipe, so that the other end opens, and reads nothing.
        let holds = format!("exec 3< {}; exec sleep 60", pipe.display());
        let reader = Process::start(netns.command("sh").args(["-c", &holds]));
        let words = format!("send {} 10.9.1.1 7001 {flag} {} {HOST1}", from.display(), pipe.display());
        let words = said(&netns.tcpcat(&words), 0);
        said(&nc.finish(), 0);
        // 16 MiB are more than wait for a reader; records of the stack's calls and its trace may all fit.
        assert!(words.contains("slow") || flag != "--pcap", "{flag}: {words}");
        drop(reader);
    }
}
