//! `tcplab replay` of a recorded stack: a transfer over a cable in memory that loses packets.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ackclock::Stack;
use ackclock_device::impair::{Impaired, Settings, Share};
use ackclock_device::memory;
use ackclock_tests::kernel::payload::{receive, send};
use tokio::io::AsyncWriteExt;

use crate::{Scratch, run};

#[test]
fn recording_is_replayed_to_the_same_packets_trace_and_capture() {
    let folder = Scratch::new();
    let [recording, trace, capture] = ["recording", "trace", "capture"].map(|name| folder.text(name));
    record(recording.as_ref());
    let words = run(&["replay", &recording, "--trace", &trace, "--pcap", &capture]).done();
    assert!(words.contains("the recording is whole"), "{words}");
    assert!(words.contains("every packet and every result is the recorded one"), "{words}");
    let explained = run(&["explain", &trace]).done();
    assert!(explained.contains("profile modern, controller cubic"), "{explained}");
    let found = json(&["replay", &recording, "--trace", &trace]);
    let of = |name: &str| found[name].as_u64().unwrap();
    assert_eq!((of("schema"), of("departures")), (1, 0));
    assert_eq!((&found["timers_stopped"], &found["whole"]), (&false.into(), &true.into()));
    let hash = found["trace_hash"].as_str().unwrap();
    assert!(words.ends_with(&format!("trace hash {hash}\n")), "{words}");
    let (sent, received) = (of("packets_sent"), of("packets_received"));
    assert!((100..1000).contains(&sent) && (30..1000).contains(&received), "{found}");
    if let Some(listed) = crate::tcpdump(&capture, "tcp") {
        // A packet that left as several segments is several.
        let listed = listed.lines().count() as u64;
        assert!((sent + received..2 * (sent + received)).contains(&listed), "{listed} of {found}");
    }
    let words = run(&["replay", &recording, "--against", &trace]).done();
    assert!(words.ends_with(": the same\n"), "{words}");
}

#[test]
fn another_profile_departs_at_the_first_packet_that_it_changes() {
    let folder = Scratch::new();
    let [recording, trace] = ["recording", "trace"].map(|name| folder.text(name));
    record(recording.as_ref());
    run(&["replay", &recording, "--trace", &trace]).done();
    let words = run(&["replay", &recording, "--profile", "tahoe-1988"]).done();
    assert!(words.contains("departs from the recording") && words.contains("recorded: "), "{words}");
    assert!(words.contains("[SYN]") && words.contains("the peers answered the recorded packets"), "{words}");
    let found = json(&["replay", &recording, "--profile", "tahoe-1988"]);
    assert!(found["departures"].as_u64().unwrap() > 0, "{found}");
    assert_eq!((&found["profile"], &found["timers_stopped"]), (&"tahoe-1988".into(), &false.into()));
    // Its trace is another one, and that is what the code says.
    let against = run(&["replay", &recording, "--profile", "tahoe-1988", "--against", &trace]);
    assert!(against.out.ends_with(": another one\n"), "{}", against.out);
    assert_eq!(against.code, Some(1), "{}", against.err);
}

#[test]
fn replay_stops_where_it_is_told_and_where_the_file_does() {
    let folder = Scratch::new();
    let [recording, cut] = ["recording", "cut"].map(|name| folder.text(name));
    record(recording.as_ref());
    let found = json(&["replay", &recording, "--until", "5"]);
    assert_eq!((&found["calls"], &found["end"]), (&5.into(), &"stopped as asked".into()));
    let found = json(&["replay", &recording, "--until", "15ms"]);
    assert!((0.015..0.1).contains(&found["seconds"].as_f64().unwrap()), "{found}");
    let bytes = fs::read(&recording).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let ended = run(&["replay", &cut]);
    assert!(ended.err.contains("the part before that was replayed"), "{}", ended.err);
    assert!(ended.out.contains("the recording has no end"), "{}", ended.out);
    fs::write(&cut, b"something else").unwrap();
    let refused = run(&["replay", &cut]).failed(2);
    assert!(refused.contains(&cut) && refused.contains("not a recording"), "{refused}");
    assert!(run(&["replay", &recording, "--until", "5x"]).failed(2).contains("or a call's number"));
    assert!(run(&["replay", &recording, "--profile", "taho"]).failed(2).contains("tahoe-1988"));
}

/// Records the sender of 300 kB over a path of 5 ms each way that loses one packet in fifty.
fn record(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (left, right) = memory::pair(memory::Config::default());
        let settings =
            Settings { delay: Duration::from_millis(5), loss: Share::percent(2), ..Settings::default() };
        let left = Impaired::new(left, 7, settings, settings).unwrap();
        let stack = |addr: &str| Stack::builder().address(addr.parse().unwrap());
        let client = stack("10.0.0.1/24").device(left).record(path).spawn().unwrap();
        let server = stack("10.0.0.2/24").device(right).spawn().unwrap();
        let to: SocketAddr = "10.0.0.2:7".parse().unwrap();
        let listener = server.listen(to).unwrap();
        let receiving = tokio::spawn(async move { receive(&mut listener.accept().await?.0).await });
        let mut stream = client.connect(to).await.unwrap();
        let sent = send(&mut stream, 300_000, 1).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(receive(&mut stream).await.unwrap().bytes, 0);
        assert_eq!(receiving.await.unwrap().unwrap(), sent);
        drop(stream);
        tokio::join!(client.shutdown(), server.shutdown());
    });
}

/// The one object that `--json` prints.
fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&run(&[words, &["--json"]].concat()).done()).unwrap()
}
