//! The packet log: one fixed-size record for each event, and a hash over them.

use ackclock_wire::hash::Fnv1a;

use super::{Observer, PacketEvent, What};

/// Keeps the log's bytes.
#[derive(Clone, Debug, Default)]
pub struct PacketLog {
    bytes: Vec<u8>,
}

/// Keeps only a hash of the log. Equal runs give equal hashes, on every machine and in every build.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogHash {
    hash: Fnv1a,
    records: u64,
}

impl PacketLog {
    /// The records, [`RECORD`](Self::RECORD) bytes each.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of a record.
    pub const RECORD: usize = 40;
}

impl LogHash {
    /// The hash over all records so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.hash.finish()
    }

    /// The number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }
}

impl Observer for PacketLog {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        for word in record(event) {
            self.bytes.extend(word.to_le_bytes());
        }
    }
}

impl Observer for LogHash {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        self.records += 1;
        record(event).into_iter().for_each(|word| self.hash.write_word(word));
    }
}

/// Time; what, where; which packet; its length; a hash of its bytes.
fn record(event: &PacketEvent<'_>) -> [u64; PacketLog::RECORD / 8] {
    let what = match event.what {
        What::Sent => 0,
        What::Queued => 1,
        What::Departed => 2,
        What::Marked => 3,
        What::Delivered => 4,
        What::Dropped(rule) => 16 + rule as u64,
    };
    let link = event.link.unwrap_or(u32::MAX);
    let packet = &event.packet;
    let mut bytes = Fnv1a::default();
    packet.header().iter().chain(packet.payload()).for_each(|byte| bytes.write_word((*byte).into()));
    [
        event.at.as_nanos(),
        what << 56 | u64::from(event.node) << 32 | u64::from(link),
        packet.serial(),
        packet.len().into(),
        bytes.finish(),
    ]
}
