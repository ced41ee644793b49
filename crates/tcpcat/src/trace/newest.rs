//! The flight recorder beside a whole trace: the newest of the records that the trace has anyway.

use std::collections::{HashMap, VecDeque};

use ackclock::trace::{Batch, BatchCause, Record};

use super::Written;

/// Each connection's newest records, on their way to a file.
#[derive(Debug)]
pub(super) struct Newest {
    written: Written,
    /// How many of each connection are kept.
    most: usize,
    connections: HashMap<u64, Kept>,
    ignores_requests: bool,
}

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Record>,
    /// How many came before these.
    missed: u64,
}

impl Newest {
    pub fn new(written: Written, most: usize) -> Self {
        Self { written, most, connections: HashMap::new(), ignores_requests: false }
    }

    pub fn written(&self) -> &Written {
        &self.written
    }

    pub fn written_mut(&mut self) -> &mut Written {
        &mut self.written
    }

    /// Requests from now on complete the trace, and are not for this file.
    pub fn ignore_requests(&mut self) {
        self.ignores_requests = true;
    }

    /// Keeps the records of a whole trace, and writes the newest where a flight recorder would.
    pub fn add(&mut self, host: &str, batch: &Batch) {
        let kept = self.connections.entry(batch.connection).or_default();
        kept.add(batch, self.most);
        let is_wanted = match batch.cause {
            BatchCause::Failed | BatchCause::Stalled => true,
            BatchCause::Requested => !self.ignores_requests,
            _ => false,
        };
        if is_wanted {
            let Kept { records, missed } = std::mem::take(kept);
            self.written.add(host, &Batch { records: records.into(), missed, ..batch.clone() });
        }
        if matches!(batch.cause, BatchCause::Failed | BatchCause::Ended) {
            self.connections.remove(&batch.connection);
        }
    }
}

impl Kept {
    fn add(&mut self, batch: &Batch, most: usize) {
        if batch.missed > 0 {
            // Those before are not the newest ones any more.
            self.missed += batch.missed + self.records.len() as u64;
            self.records.clear();
        }
        self.records.extend(&batch.records);
        let over = self.records.len().saturating_sub(most);
        self.records.drain(..over);
        self.missed += over as u64;
    }
}
