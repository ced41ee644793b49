//! Delivering traces from an endpoint.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;

use super::Endpoint;
use super::live::Live;
use crate::ConnectionId;
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
    pub(super) fn number(&mut self) -> u64 {
        let number = self.connections;
        self.connections.count();
        number
    }

    /// Collects a connection's records, if they are due.
    #[inline]
    pub(super) fn collect(&mut self, live: &mut Live) {
        // First the changes, then a trace of the connection itself.
        while let Some((reader, cause)) = live.connection.trace_due() {
            self.take(live, reader, cause);
        }
    }

    /// The connection is gone: collects the rest of a whole trace.
    pub(super) fn end(&mut self, live: &mut Live) {
        self.collect(live);
        if live.connection.has_trace_to_end() {
            self.take(live, Reader::Trace, BatchCause::Ended);
        }
    }

    #[cold]
    fn take(&mut self, live: &mut Live, reader: Reader, cause: BatchCause) {
        let (profile, congestion) = live.connection.trace_choices();
        let (names, records, missed) = live.connection.take_trace(reader);
        let cost = cost_of(&records);
        if self.held.saturating_add(cost) > HELD_MAX {
            // They are not fetched often enough. The next batch says how many are missing.
            self.dropped.grow(records.len() as u64);
            return live.connection.miss_trace(reader, missed.saturating_add(records.len() as u64));
        }
        self.held.grow(cost);
        let (connection, tuple) = (live.number, *live.name());
        let waiting = self.waiting.get_or_insert_default();
        let queue = match reader {
            Reader::Trace => &mut waiting.traces,
            Reader::Changes => &mut waiting.changes,
        };
        queue.push_back(Batch { connection, tuple, profile, congestion, names, records, missed, cause });
    }
}

impl Endpoint {
    /// Records of traced connections, if some are due. A driver that traces calls this after each turn. At
    /// most 4 Mi records wait (64 MiB). Later ones are dropped and counted, in the connection's next batch
    /// ([`Batch::missed`]) and in
    /// [`Counters::trace_records_dropped`](super::Counters::trace_records_dropped).
    pub fn poll_trace(&mut self) -> Option<Batch> {
        let batch = self.traces.waiting.as_mut()?.traces.pop_front()?;
        self.traces.held.shrink(cost_of(&batch.records));
        Some(batch)
    }

    /// The same, of the first batch that is `wanted`; the others stay where they are.
    pub fn poll_trace_if(&mut self, wanted: impl Fn(&Batch) -> bool) -> Option<Batch> {
        let traces = &mut self.traces.waiting.as_mut()?.traces;
        let place = traces.iter().position(wanted)?;
        let batch = traces.remove(place)?;
        self.traces.held.shrink(cost_of(&batch.records));
        Some(batch)
    }

    /// What a connection's trace has written down and not given out, as a copy: it stays there. `None`: it
    /// has no trace, or none that keeps records.
    #[must_use]
    pub fn recorded(&self, id: ConnectionId) -> Option<Batch> {
        let live = self.connections.get(id.index, id.generation)?;
        let connection = &live.connection;
        let (names, missed) = connection.trace_kept()?;
        let (profile, congestion) = connection.trace_choices();
        Some(Batch {
            connection: live.number,
            tuple: *live.name(),
            profile,
            congestion,
            names,
            records: connection.trace().collect(),
            missed,
            cause: BatchCause::Requested,
        })
    }

    /// The number of a connection, by which batches name it: they are numbered as they are made, from 0.
    #[must_use]
    pub fn number(&self, id: ConnectionId) -> Option<u64> {
        Some(self.connections.get(id.index, id.generation)?.number)
    }

    /// The connection that has this number, if it still exists.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Option<ConnectionId> {
        let found = self.connections.iter().find(|(_, _, live)| live.number == number);
        found.map(|(index, generation, _)| ConnectionId { index, generation })
    }

    /// What changed a connection or cost it data, if the endpoint [reports
    /// changes](crate::EndpointConfig::tell_changes), whether or not the connection is traced. A driver that
    /// reports it calls this after each turn. The bound is that of [`poll_trace`](Self::poll_trace), for both
    /// together.
    pub fn poll_changes(&mut self) -> Option<Batch> {
        let batch = self.traces.waiting.as_mut()?.changes.pop_front()?;
        self.traces.held.shrink(cost_of(&batch.records));
        Some(batch)
    }

    /// Whether [`poll_changes`](Self::poll_changes) would return something.
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.traces.waiting.as_ref().is_some_and(|waiting| !waiting.changes.is_empty())
    }

    /// Whether [`poll_trace`](Self::poll_trace) would return something.
    #[inline]
    #[must_use]
    pub fn has_traces(&self) -> bool {
        self.traces.waiting.as_ref().is_some_and(|waiting| !waiting.traces.is_empty())
    }

    /// Whether records have come from any connection so far.
    #[inline]
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.traces.waiting.is_some()
    }

    /// Makes all traced connections deliver their records now.
    pub fn request_traces(&mut self) {
        self.for_each_traced(|traces, live| {
            live.connection.request_trace();
            traces.collect(live);
        });
    }

    /// Makes all connections deliver what they would at their end, because the driver stops polling.
    pub fn end_traces(&mut self) {
        self.for_each_traced(Traces::end);
    }

    fn for_each_traced(&mut self, f: impl Fn(&mut Traces, &mut Live)) {
        for index in self.connections.indices() {
            if let Some(live) = self.connections.at_mut(index) {
                f(&mut self.traces, live);
            }
        }
    }

    /// See [`Counters::trace_records_dropped`](super::Counters::trace_records_dropped).
    pub(super) fn trace_records_dropped(&self) -> u64 {
        self.traces.dropped
    }
}

/// The most records that wait: 64 MiB.
const HELD_MAX: usize = 4 << 20;

/// What a batch of these records counts.
fn cost_of(records: &[Record]) -> usize {
    records.len().saturating_add(BATCH_COST)
}

/// The cost of a batch besides its records, in records.
const BATCH_COST: usize = size_of::<Batch>().div_ceil(Record::LEN) + 16;
