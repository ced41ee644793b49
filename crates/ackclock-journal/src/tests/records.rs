//! Recordings that are taken apart and put together again, and what a replay makes of them.

use super::*;
use crate::ReplayError;
use crate::block::seal;
use crate::record::SENT;

/// The records of a recording, without their lengths.
pub(super) fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let (registry, mut records, mut at) = (Registry::builtin(), Vec::new(), MAGIC.len());
    while let Some(len) = file.get(at..).and_then(|rest| rest.first_chunk()) {
        let content = at + HEAD;
        at = content + u32::from_le_bytes(*len) as usize;
        let mut input = reader(&file[content..at], &registry);
        while !input.is_empty() {
            let len = usize::take(&mut input).unwrap();
            records.push(input.bytes(len).unwrap().to_vec());
        }
    }
    records
}

/// A recording of these records, in one block.
pub(super) fn recording(records: &[Vec<u8>]) -> Vec<u8> {
    let mut content = Writer::default();
    for record in records {
        record.len().put(&mut content);
        content.extend_from_slice(record);
    }
    file_of(&[content.into_bytes()])
}

/// A file of blocks with these contents.
pub(super) fn file_of(contents: &[Vec<u8>]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    for (number, content) in contents.iter().enumerate() {
        let mut block = [&[0; HEAD][..], content].concat();
        seal(&mut block, u32::try_from(number).unwrap());
        file.extend_from_slice(&block);
    }
    file
}

/// A client sends its SYN, and its timer is looked at.
fn opening() -> Vec<Vec<u8>> {
    let file = File::new();
    let header = header("10.0.0.1");
    let mut client = recorded(&header, &file, u64::MAX);
    let to = SocketAddr::new("10.0.0.22".parse().unwrap(), 7);
    client.connect(header.start, to, (None, 0), None).unwrap();
    assert!(client.poll_transmit(header.start, LIMITS).is_some());
    client.handle_timeout(header.start);
    drop(client);
    records(&file.bytes())
}

#[test]
fn packet_that_leaves_now_and_did_not_then_is_a_departure() {
    let mut records = opening();
    assert_eq!(replay(&recording(&records), Changes::default()).departures, []);
    records.retain(|record| record[0] != SENT);
    let departures = replay(&recording(&records), Changes::default()).departures;
    let [Departure { difference: Difference::Packet { recorded: None, replayed: Some(_) }, .. }] =
        &departures[..]
    else {
        panic!("{departures:?}");
    };
}

#[test]
fn record_with_a_byte_too_many_is_damage() {
    let records = opening();
    for number in 0..records.len() {
        let mut records = records.clone();
        records[number].push(0);
        let file = recording(&records);
        let damage = match Replay::open(&file[..], &Registry::builtin(), Changes::default()) {
            Err(ReplayError::Damage(damage)) => Some(damage.kind),
            Err(other) => panic!("record {number}: {other}"),
            Ok(_) => replay(&file, Changes::default()).damage,
        };
        let Some(DamageKind::Malformed { record, malformed: FormError::Long }) = damage else {
            panic!("record {number}: {damage:?}");
        };
        assert_eq!(record, number as u64);
    }
}
