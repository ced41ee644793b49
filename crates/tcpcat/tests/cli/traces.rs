//! Traces of the real program against the kernel's TCP: what is in the file is what the program counted, and
//! it is there however the program or the connection ends.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::{HOST1, Netns, Process, Scratch, TCPCAT, said};
use ackclock::trace::{BatchCause, Entry, Failure, SendReason, Timer};
use ackclock::{Instant as Moment, State};
use ackclock_trace::file::{Source, Trace, TracedSource};

#[test]
fn a_trace_of_a_lossy_transfer_agrees_with_the_counts() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (from, trace) = (scratch.path("from"), scratch.path("trace"));
    fs::write(&from, vec![7; 4 << 20]).unwrap();
    let nc = Process::start(netns.command("sh").args(["-c", "nc -l 7001 > /dev/null"]));
    netns.shell("for i in $(seq 500); do ss -ltn | grep -q ':7001 ' && exit 0; sleep 0.02; done; exit 1");
    let began = SystemTime::now();
    // Segment by segment: each record is one.
    let output = netns.tcpcat(&format!(
        "send {} 10.9.1.1 7001 --trace {} --json -v --loss 1% --offload off {HOST1}",
        from.display(),
        trace.display()
    ));
    let words = said(&output, 0);
    said(&nc.finish(), 0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counted = &report["end"]["streams"][0];

    let trace = read(&trace);
    assert!(trace.origin.program.starts_with("tcpcat "), "{:?}", trace.origin);
    let connection = only(&trace);
    assert_eq!((connection.missed, connection.unknown), (0, 0));
    assert!(words.contains(&format!("{} records", connection.entries.len())), "{words}");
    let Source::Connection { local, remote, congestion, .. } = &connection.source else { panic!() };
    assert_eq!(
        (&local.to_string()[..], &remote.to_string()[..]),
        (counted["local"].as_str().unwrap(), counted["remote"].as_str().unwrap())
    );
    assert_eq!(congestion, "cubic");
    let (mut next, mut bytes, mut again, mut again_segments) = (0, 0, 0, 0);
    for (_, entry) in &connection.entries {
        let &Entry::Sent { reason, seq, len, .. } = entry else { continue };
        let (seq, len) = (u64::from(seq), u64::from(len));
        let lone_fin = len == 0 && matches!(reason, SendReason::Retransmission | SendReason::TailProbe);
        bytes += len;
        if len > 0 && seq < next || lone_fin {
            again += len;
            again_segments += 1;
        }
        if len > 0 {
            next = next.max(seq + len);
        }
    }
    assert_eq!(next, 1 + (4 << 20));
    let counts = |name: &str| counted[name].as_u64().unwrap();
    assert_eq!(
        (bytes, again, again_segments),
        (counts("bytes_sent"), counts("bytes_retransmitted"), counts("retransmits"))
    );
    assert!(again_segments > 5, "{again_segments} of 2,900 segments at 1 %");
    assert!(connection.entries.iter().any(|(_, entry)| matches!(entry, Entry::Lost { .. })));
    assert_eq!(connection.cause, Some(BatchCause::Ended));

    let epoch = UNIX_EPOCH + Duration::from_nanos(trace.origin.epoch_unix_nanos.expect("time is real"));
    let at = |index: usize| epoch + connection.entries[index].0.saturating_since(Moment::ZERO);
    let slack = Duration::from_millis(100);
    assert!(at(0) + slack >= began && at(connection.entries.len() - 1) <= SystemTime::now() + slack);
}

#[test]
fn an_interrupted_trace_is_complete() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let trace = scratch.path("trace");
    let mut listener = netns.listen(&format!("-l 7000 -v --trace {} {HOST1}", trace.display()));
    let _stdin = listener.stdin();
    let nc = Process::start(netns.command("nc").args(["-d", "10.9.1.2", "7000"]));
    listener.await_line("connection from");
    listener.signal("INT");
    said(&nc.finish(), 0);
    said(&listener.finish(), 0);
    assert_eq!(scratch.names(), ["trace"]);
    let trace = read(&trace);
    let mut states = only(&trace).entries.iter().filter_map(|(_, entry)| match entry {
        Entry::State(_, to) => Some(*to),
        _ => None,
    });
    let last = states.next_back();
    assert!(matches!(last, Some(State::TimeWait | State::Closed)), "{last:?}");
}

#[test]
fn a_flight_recorder_is_written_when_the_kernel_resets() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let file = scratch.path("flight");
    let server = netns.resetting_server();
    let mut client = netns.start(&format!("10.9.1.1 7001 --flight-recorder {},64 {HOST1}", file.display()));
    let mut stdin = client.stdin();
    stdin.write_all(b"x").unwrap();
    let words = said(&client.finish(), 1);
    assert!(words.contains("records of the connections are in"), "{words}");
    server.finish();
    let trace = read(&file);
    let connection = only(&trace);
    assert_eq!(connection.cause, Some(BatchCause::Failed));
    assert_eq!(connection.entries.last().map(|&(_, entry)| entry), Some(Entry::Failed(Failure::Reset)));
    assert!(connection.entries.iter().any(|(_, entry)| matches!(entry, Entry::Sent { len: 1, .. })));
}

#[test]
fn a_flight_recorder_is_written_when_the_peer_vanishes() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let file = scratch.path("flight");
    let mut listener = netns.listen(&format!("-l 7000 -v --flight-recorder {} {HOST1}", file.display()));
    let mut stdin = listener.stdin();
    let _nc = Process::start(netns.command("nc").args(["-d", "10.9.1.2", "7000"]));
    listener.await_line("connection from");
    netns.shell("ip addr del 10.9.1.1/24 dev tun1");
    stdin.write_all(b"anybody?").unwrap();
    let trace = await_trace(&file);
    let connection = only(&trace);
    assert_eq!(connection.cause, Some(BatchCause::Stalled));
    let expiries = connection.entries.iter().filter_map(|(_, entry)| match entry {
        Entry::TimerFired { timer: Timer::Retransmission, count, .. } => Some(*count),
        _ => None,
    });
    assert_eq!(expiries.collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_flight_recorder_is_written_on_request() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let file = scratch.path("flight");
    let mut listener = netns.listen(&format!("-l 7000 -v --flight-recorder {} {HOST1}", file.display()));
    let _stdin = listener.stdin();
    let nc = Process::start(netns.command("nc").args(["-d", "10.9.1.2", "7000"]));
    listener.await_line("connection from");
    assert_eq!(read(&file).sources, [], "nothing has happened to it");
    listener.signal("USR1");
    assert_eq!(only(&await_trace(&file)).cause, Some(BatchCause::Requested));
    listener.signal("INT");
    said(&nc.finish(), 0);
    said(&listener.finish(), 0);
    assert_eq!(only(&read(&file)).cause, Some(BatchCause::Requested), "it ended well");
}

#[test]
fn flight_recorder_beside_a_whole_trace_has_the_newest_of_its_records() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (whole, flight) = (scratch.path("trace"), scratch.path("flight"));
    let files = format!("--trace {} --flight-recorder {},64", whole.display(), flight.display());
    let mut listener = netns.listen(&format!("-l 7000 -v --mss 200 --offload off {files} {HOST1}"));
    let mut stdin = listener.stdin();
    let nc = Process::start(netns.command("sh").args(["-c", "nc -d 10.9.1.2 7000 > /dev/null"]));
    listener.await_line("connection from");
    stdin.write_all(&[7; 60_000]).unwrap();
    let arrived = "ss -tniH dport = :7000 | grep -q bytes_received:60000";
    netns.shell(&format!("for i in $(seq 500); do {arrived} && exit 0; sleep 0.02; done; exit 1"));
    listener.signal("USR1");
    let newest = only(&await_trace(&flight)).clone();
    assert_eq!((newest.cause, newest.entries.len()), (Some(BatchCause::Requested), 64));
    listener.signal("INT");
    nc.finish();
    said(&listener.finish(), 0);
    assert_eq!(only(&read(&flight)), &newest, "it ended well");
    let whole = read(&whole);
    let all = &only(&whole).entries;
    let begin = usize::try_from(newest.missed).unwrap();
    assert_eq!(all[begin..begin + 64], newest.entries);
    assert!(begin > 100 && all.len() > begin + 64, "{begin} records before them, of {}", all.len());
}

#[test]
fn flight_recorder_beside_a_whole_trace_tells_of_a_reset() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (whole, flight) = (scratch.path("trace"), scratch.path("flight"));
    let server = netns.resetting_server();
    let files = format!("--trace {} --flight-recorder {}", whole.display(), flight.display());
    let mut client = netns.start(&format!("10.9.1.1 7001 {files} {HOST1}"));
    client.stdin().write_all(b"x").unwrap();
    let words = said(&client.finish(), 1);
    assert!(words.contains("records of the connections are in"), "{words}");
    server.finish();
    let [whole, flight] = [whole, flight].map(|path| only(&read(&path)).clone());
    assert_eq!((flight.cause, flight.missed), (Some(BatchCause::Failed), 0));
    assert_eq!(flight.entries.last().map(|&(_, entry)| entry), Some(Entry::Failed(Failure::Reset)));
    assert!(whole.entries.starts_with(&flight.entries), "{whole:?}");
}

#[test]
fn a_full_disk_ends_the_trace_and_not_the_transfer() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (disk, from) = (scratch.path("disk"), scratch.path("from"));
    fs::create_dir(&disk).unwrap();
    fs::write(&from, vec![7; 4 << 20]).unwrap();
    let (disk, from) = (disk.display(), from.display());
    let script = format!(
        "mount -t tmpfs -o size=16k none {disk} || exit 99
         nc -l 7001 > /dev/null & sleep 0.5
         {TCPCAT} send {from} 10.9.1.1 7001 --trace {disk}/trace --offload off {HOST1}; code=$?
         cat {disk}/trace; exit $code"
    );
    let output = Process::start(netns.command("sh").args(["-c", &script])).finish();
    let words = said(&output, 0);
    assert!(words.contains("No space left") && words.contains("are missing"), "{words}");
    assert!(output.stdout.len() <= 16 << 10);
    let trace = Trace::read(&output.stdout).expect("its beginning is a trace");
    assert!(trace.origin.program.starts_with("tcpcat "));

    let none = netns.tcpcat(&format!("10.9.1.1 7001 --trace /nowhere/trace {HOST1}"));
    assert!(said(&none, 6).contains("/nowhere/trace"));
}

#[test]
fn the_demo_traces_both_hosts_of_each_round_on_one_clock() {
    let scratch = Scratch::new();
    let path = scratch.path("demo.trace");
    let words = ["demo", "--memory", "--bytes", "2M", "--trace"];
    let output = Process::start(Command::new(TCPCAT).args(words).arg(&path)).finish();
    let said = said(&output, 0);
    let trace = read(&path);
    let records: usize = trace.sources.iter().map(|source| source.entries.len()).sum();
    assert!(said.contains(&format!("{records} records are in {}", path.display())), "{said}");

    let mut ends = Vec::new();
    for traced in &trace.sources {
        let Source::Connection { host, .. } = &traced.source else { panic!("{:?}", traced.source) };
        assert_eq!((traced.missed, traced.unknown), (0, 0), "{host}");
        let began = traced.entries.first().expect("it has done something").0;
        ends.push((host.as_str(), began));
    }
    ends.sort();
    let [(a, a_began), (a_lossy, _), (b, b_began), (b_lossy, _)] = ends[..] else { panic!("{ends:?}") };
    assert_eq!([a, b], ["A at 0 % loss", "B at 0 % loss"]);
    assert_eq!([a_lossy, b_lossy], ["A at 1 % loss", "B at 1 % loss"]);
    // B cannot have heard of the connection before A opened it, nor an hour later.
    let apart = b_began.saturating_since(a_began);
    assert!(b_began >= a_began && apart < Duration::from_secs(10), "{a_began:?} {b_began:?}");
}

fn read(path: &Path) -> Trace {
    let trace = Trace::read(&fs::read(path).expect("the trace is there")).expect("it is a trace");
    assert_eq!(trace.damage, None);
    trace
}

/// The trace of the only connection.
fn only(trace: &Trace) -> &TracedSource {
    let [source] = &trace.sources[..] else { panic!("{} sources", trace.sources.len()) };
    source
}

/// Waits until something of a connection is in the file.
fn await_trace(path: &Path) -> Trace {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let trace = Trace::read(&fs::read(path).expect("the trace is there")).expect("it is a trace");
        // The writer may be in the midst of it.
        if trace.damage.is_none() && trace.sources.iter().any(|source| source.cause.is_some()) {
            return trace;
        }
        assert!(Instant::now() < deadline, "nothing was written");
        std::thread::sleep(Duration::from_millis(20));
    }
}
