use std::net::SocketAddr;
use std::time::Duration;

use ackclock_core::trace::{Batch, BatchCause, Entry, Limit, Record, SendReason};
use ackclock_core::{FourTuple, Instant};

use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn batch(connection: u64, names: Vec<&'static str>, entries: &[(Instant, Entry)]) -> Batch {
    let addr = |last: u8| SocketAddr::from(([10, 0, 0, last], 1000));
    Batch {
        connection,
        tuple: FourTuple::new(addr(1), addr(2)),
        profile: "modern",
        congestion: "cubic",
        names,
        records: entries.iter().map(|&(at, entry)| entry.encode(at)).collect(),
        missed: 3,
        cause: BatchCause::Requested,
    }
}

/// A file with two batches of one connection, the second with an additional name, and one of a queue.
fn file() -> (Vec<u8>, Vec<(Instant, Entry)>) {
    let entries = vec![
        (at(1), Entry::Sent { reason: SendReason::NewData, flags: 0x10, seq: 1, len: 1000 }),
        (at(2), Entry::Controller { name: 0, value: -7 }),
        (at(300 * 3_600_000), Entry::Limited { by: Limit::Cwnd, in_flight: 9, unsent: 8 }),
    ];
    let mut bytes = Vec::new();
    let mut writer =
        Writer::new(&mut bytes, &Origin { program: "test".into(), epoch_unix_nanos: Some(5) }).unwrap();
    writer.batch("a", &batch(0, vec![], &entries[..1])).unwrap();
    writer.queue("r1-r2:there", &["tail"], &[Entry::Dropped { rule: 0, len: 99 }.encode(at(1))]).unwrap();
    writer.batch("a", &batch(0, vec!["srv"], &entries[1..])).unwrap();
    (bytes, entries)
}

#[test]
fn what_was_written_is_read() {
    let (bytes, mut entries) = file();
    let trace = Trace::read(&bytes).unwrap();
    assert_eq!((trace.origin.program.as_str(), trace.origin.epoch_unix_nanos), ("test", Some(5)));
    assert_eq!(trace.damage, None);
    let connection = trace.connections().next().unwrap();
    // The clock of records wraps after 78 hours; a longer gap reads as a shorter one.
    entries[2].0 = Instant::from_nanos(entries[2].0.as_nanos() % (1 << 48));
    assert_eq!(connection.entries, entries);
    assert_eq!(
        (connection.missed, connection.cause, connection.source.name(0)),
        (6, Some(BatchCause::Requested), "srv")
    );
    assert_eq!(connection.source.to_string(), "a: 10.0.0.1:1000 > 10.0.0.2:1000");
    let queue = trace.queues().next().unwrap();
    assert_eq!(queue.entries, [(at(1), Entry::Dropped { rule: 0, len: 99 })]);
    assert_eq!((queue.source.name(0), queue.source.name(9)), ("tail", "?"));
}

#[test]
fn a_file_cut_anywhere_is_read_as_far_as_it_goes() {
    let (bytes, _) = file();
    let whole = Trace::read(&bytes).unwrap();
    let mut seen = 0;
    for len in MAGIC.len()..bytes.len() {
        let trace = Trace::read(&bytes[..len]).unwrap();
        let entries: usize = trace.sources.iter().map(|source| source.entries.len()).sum();
        assert!(entries >= seen, "more of a file never means less");
        seen = entries;
        if let Some(damage) = &trace.damage {
            assert_eq!(damage.offset + damage.ignored, len);
        }
    }
    assert_eq!(seen + 2, whole.sources.iter().map(|source| source.entries.len()).sum::<usize>());
}

#[test]
fn a_file_with_any_byte_changed_is_read_without_a_panic() {
    let (bytes, _) = file();
    for place in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut broken = bytes.clone();
            broken[place] ^= flip;
            let read = Trace::read(&broken);
            assert_eq!(read.is_err(), place < MAGIC.len(), "byte {place}");
        }
    }
}

#[test]
fn other_files_are_refused_by_name() {
    assert_eq!(Trace::read(b"PK\x03\x04"), Err(ReadError::Magic));
    assert_eq!(Trace::read(b""), Err(ReadError::Magic));
    assert_eq!(Trace::read(b"ackclock trace\x02\n"), Err(ReadError::Version(2)));
}

#[test]
fn records_and_chunks_of_later_versions_are_counted_or_skipped() {
    let (mut bytes, _) = file();
    let mut later = [0; HEAD];
    later[0] = 77;
    later[8] = 2;
    bytes.extend(later);
    bytes.extend([1, 2]);
    let mut unknown = [0; HEAD];
    unknown[0] = RECORDS;
    unknown[8] = (RECORDS_HEAD + Record::LEN) as u8;
    bytes.extend(unknown);
    bytes.extend([0; RECORDS_HEAD]);
    bytes.extend([0xee; Record::LEN]);
    let trace = Trace::read(&bytes).unwrap();
    assert_eq!((trace.damage, trace.sources[0].unknown), (None, 1));
}

#[test]
fn a_connection_does_not_become_a_queue() {
    let (bytes, _) = file();
    let mut broken = bytes.clone();
    let mut at = MAGIC.len();
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let mut chunk = bytes[at..at + HEAD + len].to_vec();
        // Each source's description again, for the other source.
        if chunk[0] == SOURCE {
            chunk[4] ^= 1;
            broken.extend(chunk);
        }
        at += HEAD + len;
    }
    let (whole, mut trace) = (Trace::read(&bytes).unwrap(), Trace::read(&broken).unwrap());
    let damage = trace.damage.take().unwrap();
    assert!(damage.what.contains("becomes a queue"), "{damage}");
    assert_eq!((damage.offset, trace), (bytes.len(), whole));
}
