//! Traces on their way out of an endpoint.

use std::collections::VecDeque;

use super::Endpoint;
use super::live::Live;
use crate::ConnectionId;
use crate::trace::{Batch, BatchCause, Reader};

/// Batches that wait to be fetched.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// Made with the first batch: most endpoints trace nothing.
    waiting: Option<Box<Waiting>>,
    /// Records that wait, each batch counted as [`BATCH_COST`] more.
    held: usize,
    /// Records that were dropped because too many waited.
    dropped: u64,
    /// How many connections there have been.
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
        self.connections += 1;
        self.connections - 1
    }

    /// What a connection has written down leaves, if it is time for it.
    #[inline]
    pub(super) fn collect(&mut self, live: &mut Live) {
        // First the changes, then a trace of its own.
        while let Some((reader, cause)) = live.connection.trace_due() {
            self.take(live, reader, cause);
        }
    }

    /// The connection is gone: what is left of a whole trace leaves.
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
        let cost = records.len() + BATCH_COST;
        if self.held + cost > HELD_MAX {
            // Nobody fetches them, or not often enough: the next one says how many are missing.
            self.dropped += records.len() as u64;
            return live.connection.miss_trace(reader, missed + records.len() as u64);
        }
        self.held += cost;
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
    /// Records of traced connections, if some are to leave; a driver that traces asks after each turn. At most 4 Mi
    /// records wait (64 MiB); later ones are dropped and counted, in the connection's next batch
    /// ([`Batch::missed`]) and in [`Counters::trace_records_dropped`](super::Counters::trace_records_dropped).
    pub fn poll_trace(&mut self) -> Option<Batch> {
        let batch = self.traces.waiting.as_mut()?.traces.pop_front()?;
        self.traces.held -= batch.records.len() + BATCH_COST;
        Some(batch)
    }

    /// The same, of the first batch that is `wanted`; the others stay where they are.
    pub fn poll_trace_if(&mut self, wanted: impl Fn(&Batch) -> bool) -> Option<Batch> {
        let traces = &mut self.traces.waiting.as_mut()?.traces;
        let place = traces.iter().position(wanted)?;
        let batch = traces.remove(place)?;
        self.traces.held -= batch.records.len() + BATCH_COST;
        Some(batch)
    }

    /// What a connection's trace has written down and not given out, as a copy: it stays there. `None`: it has no trace, or none
    /// that keeps records.
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

    /// What changed a connection or cost it data, if the endpoint [tells of changes](crate::EndpointConfig::tell_changes),
    /// whether or not the connection has a trace of its own: a driver that tells of it asks after each turn. The bound is the one
    /// of [`poll_trace`](Self::poll_trace), for both together.
    pub fn poll_changes(&mut self) -> Option<Batch> {
        let batch = self.traces.waiting.as_mut()?.changes.pop_front()?;
        self.traces.held -= batch.records.len() + BATCH_COST;
        Some(batch)
    }

    /// Whether [`poll_changes`](Self::poll_changes) has something to give.
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.traces.waiting.as_ref().is_some_and(|waiting| !waiting.changes.is_empty())
    }

    /// Whether [`poll_trace`](Self::poll_trace) has something to give.
    #[inline]
    #[must_use]
    pub fn has_traces(&self) -> bool {
        self.traces.waiting.as_ref().is_some_and(|waiting| !waiting.traces.is_empty())
    }

    /// Has all connections that are traced give their records out now.
    pub fn request_traces(&mut self) {
        self.for_each_traced(|traces, live| {
            live.connection.request_trace();
            traces.collect(live);
        });
    }

    /// Has all connections give out what they would at their end: the driver will not look at them again.
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

/// The most that waits, in records: 64 MiB.
const HELD_MAX: usize = 4 << 20;

/// What a batch takes beside its records, in records.
const BATCH_COST: usize = size_of::<Batch>().div_ceil(crate::trace::Record::LEN) + 16;
