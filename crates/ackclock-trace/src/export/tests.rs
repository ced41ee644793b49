use std::net::SocketAddr;

use ackclock_core::trace::{Batch, BatchCause, Entry, LossRule, SendReason, Timer, WindowCause};
use ackclock_core::{FourTuple, Instant, State};

use super::*;
use crate::file::{Origin, Trace, Writer};

/// A handshake, a segment that is lost and retransmitted, a SACK, and a queue that drops.
fn trace() -> Trace {
    let at = Instant::from_millis;
    let entries = [
        (at(0), Entry::Sent { reason: SendReason::Handshake, flags: 0x02, seq: 0, len: 0 }),
        (at(10), Entry::Received { flags: 0x12, seq: 0, len: 0 }),
        (at(10), Entry::State(State::SynSent, State::Established)),
        (at(10), Entry::Told { ack: 1, window: 100_000 }),
        (at(10), Entry::Sent { reason: SendReason::NewData, flags: 0x10, seq: 1, len: 1000 }),
        (at(10), Entry::Sent { reason: SendReason::NewData, flags: 0x18, seq: 1001, len: 1000 }),
        (at(20), Entry::Received { flags: 0x10, seq: 1, len: 0 }),
        (at(20), Entry::Acked { duplicate: true, ack: 1, window: 70_000 }),
        (at(20), Entry::Sacked { left: 1001, right: 2001 }),
        (at(22), Entry::Lost { rule: LossRule::LaterDelivered, start: 1, end: 1001 }),
        (at(22), Entry::Controller { name: 0, value: -3 }),
        (at(23), Entry::Sent { reason: SendReason::Retransmission, flags: 0x10, seq: 1, len: 1000 }),
    ];
    traced(&entries)
}

/// The trace of a connection with `entries`, and of a queue that dropped a packet.
fn traced(entries: &[(Instant, Entry)]) -> Trace {
    let at = Instant::from_millis;
    let addr = |last: u8| SocketAddr::from(([10, 0, 0, last], 1000));
    let batch = Batch {
        connection: 0,
        tuple: FourTuple::new(addr(1), addr(2)),
        profile: "modern",
        congestion: "cubic",
        names: vec!["srv, \"quoted\""],
        records: entries.iter().map(|&(at, entry)| entry.encode(at)).collect(),
        missed: 0,
        cause: BatchCause::Ended,
    };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &Origin::default()).unwrap();
    writer.batch("", &batch).unwrap();
    let drop = Entry::Dropped { rule: 0, len: 1040 }.encode(at(11));
    writer.queue("r1-r2:there", &["queue-full"], &[drop]).unwrap();
    Trace::read(&bytes).unwrap()
}

#[test]
fn csv_has_a_row_for_each_entry_and_as_many_cells_in_each() {
    let mut text = Vec::new();
    csv(&trace(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 13);
    // The drop of the queue is in order of time.
    assert!(lines[7].starts_with("0.011000000,queue r1-r2:there,dropped,queue-full,"), "{}", lines[7]);
    let quoted = lines.iter().find(|line| line.contains("controller")).unwrap();
    assert!(quoted.contains("\"srv, \"\"quoted\"\"\""), "{quoted}");
    for line in lines.iter().filter(|line| !line.contains('"')) {
        assert_eq!(line.matches(',').count(), 2 + COLUMNS.len(), "{line}");
    }
}

#[test]
fn every_value_has_a_column() {
    let trace = trace();
    for source in &trace.sources {
        for (_, entry) in &source.entries {
            let (kind, values) = fields(&source.source, entry);
            assert_ne!(kind, "unknown");
            for (name, _) in values {
                assert!(COLUMNS.contains(&name) || ["from", "to"].contains(&name), "{name}");
            }
        }
    }
}

#[test]
fn json_lines_are_json_each() {
    let mut text = Vec::new();
    json_lines(&trace(), &mut text).unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1 + 2 + 13);
    let lost = lines.iter().find(|line| line["entry"] == "lost").unwrap();
    assert_eq!((lost["what"].as_str(), lost["end"].as_u64()), (Some("later-delivered"), Some(1001)));
    assert_eq!(lines[1]["is"]["congestion"], "cubic");
}

#[test]
fn a_capture_has_each_segment_with_what_it_said_and_why_it_left() {
    let mut bytes = Vec::new();
    assert_eq!(pcapng(&trace(), &mut bytes).unwrap(), 6);
    let packets = packets(&bytes);
    assert_eq!(packets.len(), 6);
    let (last, comment) = packets.last().unwrap();
    assert_eq!(comment, "retransmission: declared lost by later-delivered, 1.000 ms before");
    let tcp = &last[20..];
    let number = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    assert_eq!((number(4), number(8)), (1, 1), "sequence and acknowledgement number");
    // 100,000 bytes do not fit 16 bits: the SYN gives the window shift.
    assert_eq!(u16::from_be_bytes([tcp[14], tcp[15]]), 50_000);
    let syn = &packets[0].0[40..];
    assert!(syn.windows(3).any(|option| option == [3, 3, 1]), "{syn:?}");
    let sack = &packets[4].0[40..];
    assert!(sack.windows(8).any(|block| block == [0, 0, 3, 0xe9, 0, 0, 7, 0xd1]), "{sack:?}");
}

#[test]
fn comments_tell_the_windows_and_the_timer_that_let_a_segment_go() {
    let at = Instant::from_millis;
    let window = |cause, cwnd, ssthresh| Entry::Window { cause, cwnd, ssthresh };
    let sent = |reason| Entry::Sent { reason, flags: 0x10, seq: 1, len: 1000 };
    let entries = [
        (at(0), window(WindowCause::Start, 14_480, u32::MAX)),
        (at(0), Entry::Received { flags: 0x10, seq: 1, len: 0 }),
        (at(0), Entry::Acked { duplicate: false, ack: 1, window: 70_000 }),
        (at(1), sent(SendReason::NewData)),
        (at(300), Entry::TimerFired { timer: Timer::Retransmission, late_us: 0, count: 2 }),
        (at(300), Entry::Lost { rule: LossRule::Timeout, start: 1, end: 1001 }),
        (at(300), window(WindowCause::Timeout, 1448, 7240)),
        (at(300), sent(SendReason::Retransmission)),
    ];
    let mut bytes = Vec::new();
    pcapng(&traced(&entries), &mut bytes).unwrap();
    let comments: Vec<String> = packets(&bytes).into_iter().map(|(_, comment)| comment).collect();
    assert_eq!(
        comments[1..],
        [
            "new-data; cwnd 14480, the peer's window 70000",
            "retransmission: declared lost by timeout, 0.000 ms before; the retransmission timer had \
             expired, 2 in a row; cwnd 1448, ssthresh 7240, the peer's window 70000",
        ]
    );
}

/// The captured bytes and the comment of each packet of a pcapng file; a parser just sufficient for this
/// test.
fn packets(mut file: &[u8]) -> Vec<(Vec<u8>, String)> {
    let mut packets = Vec::new();
    while !file.is_empty() {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let (kind, len) = (word(0), word(4));
        if kind == 6 {
            let kept = word(20);
            let mut options = &file[28 + kept.next_multiple_of(4)..len - 4];
            let mut comment = String::new();
            while let [code, 0, low, high, rest @ ..] = options {
                let len = usize::from(u16::from_le_bytes([*low, *high]));
                if *code == 1 {
                    comment = String::from_utf8(rest[..len].to_vec()).unwrap();
                }
                options = &rest[len.next_multiple_of(4)..];
            }
            packets.push((file[28..28 + kept].to_vec(), comment));
        }
        file = &file[len..];
    }
    packets
}
