//! Recordings with a record that is missing or too long.

use super::super::ReplayError;
use super::super::record::SENT;
use super::*;

/// The records of a recording, without their lengths.
fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let (registry, mut records, mut at) = (Registry::builtin(), Vec::new(), MAGIC.len());
    while let Some(len) = file.get(at..).and_then(|rest| rest.first_chunk()) {
        let content = at + HEAD;
        at = content + u32::from_le_bytes(*len) as usize;
        let mut input = Input::new(&file[content..at], &registry);
        while input.len() > 0 {
            let len = usize::take(&mut input).unwrap();
            records.push(input.bytes(len).unwrap().to_vec());
        }
    }
    records
}

/// A recording of these records, in one block.
fn recording(records: &[Vec<u8>]) -> Vec<u8> {
    let mut block = vec![0; HEAD];
    for record in records {
        record.len().put(&mut block);
        block.extend_from_slice(record);
    }
    super::super::block::seal(&mut block, 0);
    [&MAGIC[..], &block].concat()
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
    for number in 0..opening().len() {
        let mut records = opening();
        records[number].push(0);
        let damage = match Replay::open(&recording(&records)[..], &Registry::builtin(), Changes::default()) {
            Ok(mut replay) => loop {
                match replay.step(|_, _| ()) {
                    Ok(step) => assert!(step.is_some(), "record {number} is read"),
                    Err(damage) => break damage.kind,
                }
            },
            Err(ReplayError::Damage(damage)) => damage.kind,
            Err(other) => panic!("record {number}: {other}"),
        };
        let DamageKind::Malformed { record, malformed: Malformed::Long } = damage else {
            panic!("record {number}: {damage:?}");
        };
        assert_eq!(record, number as u64);
    }
}
