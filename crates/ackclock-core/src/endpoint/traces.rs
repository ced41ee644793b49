//! Delivering traces from an endpoint.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;

use super::slot::Slot;
use crate::trace::{Batch, BatchCause, Reader, Record};

/// Batches that wait to be fetched.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// Allocated with the first batch: most endpoints trace nothing.
    waiting: Option<Box<Waiting>>,
    /// Records that wait; each batch counts as [`BATCH_COST`] more.
    held: usize,
    /// Records that were dropped because too many waited.
    dropped: u64,
    /// The number of connections so far.
    connections: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    traces: VecDeque<Batch>,
    changes: VecDeque<Batch>,
}

impl Traces {
    /// The number of the next connection.
    pub fn number(&mut self) -> u64 {
        let number = self.connections;
        self.connections.count();
        number
    }

    /// Collects a connection's records, if they are due.
    #[inline]
    pub fn collect(&mut self, slot: &mut Slot) {
        // First the changes, then a trace of the connection itself.
        while let Some((reader, cause)) = slot.connection.trace_due() {
            self.take(slot, reader, cause);
        }
    }

    /// The connection is gone: collects the rest of a whole trace.
    pub fn end(&mut self, slot: &mut Slot) {
        self.collect(slot);
        if slot.connection.has_trace_to_end() {
            self.take(slot, Reader::Trace, BatchCause::Ended);
        }
    }

    /// The next batch for this reader.
    pub fn next(&mut self, reader: Reader) -> Option<Batch> {
        let batch = self.waiting.as_mut()?.of(reader).pop_front()?;
        self.held.shrink(cost_of(&batch.records));
        Some(batch)
    }

    /// The first trace that is `wanted`; the others stay where they are.
    pub fn next_if(&mut self, wanted: impl Fn(&Batch) -> bool) -> Option<Batch> {
        let traces = &mut self.waiting.as_mut()?.traces;
        let batch = traces.remove(traces.iter().position(wanted)?)?;
        self.held.shrink(cost_of(&batch.records));
        Some(batch)
    }

    /// The sum of the batches' costs.
    fn counted(&self) -> usize {
        let waiting = self.waiting.iter().flat_map(|waiting| waiting.traces.iter().chain(&waiting.changes));
        waiting.map(|batch| cost_of(&batch.records)).sum()
    }

    #[inline]
    pub fn has_traces(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| !waiting.traces.is_empty())
    }

    #[inline]
    pub fn has_changes(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| !waiting.changes.is_empty())
    }

    /// Whether records have come from any connection so far.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.waiting.is_some()
    }

    /// How many records were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    #[cold]
    fn take(&mut self, slot: &mut Slot, reader: Reader, cause: BatchCause) {
        let (profile, congestion) = slot.connection.trace_choices();
        let (names, records, missed) = slot.connection.take_trace(reader);
        let cost = cost_of(&records);
        if self.held.saturating_add(cost) > HELD_MAX {
            // They are not fetched often enough. The next batch says how many are missing.
            self.dropped.grow(records.len() as u64);
            return slot.connection.miss_trace(reader, missed.saturating_add(records.len() as u64));
        }
        self.held.grow(cost);
        let (connection, tuple) = (slot.number(), slot.tuple());
        let queue = self.waiting.get_or_insert_default().of(reader);
        queue.push_back(Batch { connection, tuple, profile, congestion, names, records, missed, cause });
    }
}

impl Waiting {
    fn of(&mut self, reader: Reader) -> &mut VecDeque<Batch> {
        match reader {
            Reader::Trace => &mut self.traces,
            Reader::Changes => &mut self.changes,
        }
    }
}

/// A copy of the records that a connection's trace has not given out.
pub(super) fn recorded(slot: &Slot) -> Option<Batch> {
    let connection = &slot.connection;
    let (names, missed) = connection.trace_kept()?;
    let (profile, congestion) = connection.trace_choices();
    Some(Batch {
        connection: slot.number(),
        tuple: slot.tuple(),
        profile,
        congestion,
        names,
        records: connection.trace().collect(),
        missed,
        cause: BatchCause::Requested,
    })
}

/// The most records that wait: 64 MiB.
const HELD_MAX: usize = 4 << 20;

/// The cost of a batch of these records.
fn cost_of(records: &[Record]) -> usize {
    records.len().saturating_add(BATCH_COST)
}

/// The cost of a batch besides its records, in records.
const BATCH_COST: usize = size_of::<Batch>().div_ceil(Record::LEN) + 16;

ackclock_form::form! {
    struct Traces { waiting, held, dropped, connections } => |traces| traces.held == traces.counted();
    struct Waiting { traces, changes }
}
