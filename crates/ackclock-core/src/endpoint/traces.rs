//! Traces on their way out of an endpoint.

use std::collections::VecDeque;

use super::Endpoint;
use super::live::Live;
use crate::trace::{Batch, BatchCause};

/// Batches that wait to be fetched.
#[derive(Debug, Default)]
pub(super) struct Traces {
    waiting: VecDeque<Batch>,
    /// How many connections there have been.
    connections: u64,
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
        if let Some(cause) = live.connection.trace_due() {
            self.take(live, cause);
        }
    }

    /// The connection is gone: what is left of a whole trace leaves.
    pub(super) fn end(&mut self, live: &mut Live) {
        let cause = live.connection.trace_due();
        if let Some(cause) = cause.or(live.connection.traces_all().then_some(BatchCause::Ended)) {
            self.take(live, cause);
        }
    }

    #[cold]
    fn take(&mut self, live: &mut Live, cause: BatchCause) {
        let (profile, congestion) = live.connection.trace_choices();
        let (names, records, missed) = live.connection.take_trace();
        if self.waiting.len() >= BATCHES_MAX {
            // Nobody fetches them, or not often enough: the next one says how many are missing.
            return live.connection.miss_trace(missed + records.len() as u64);
        }
        let (connection, tuple) = (live.number, live.tuple);
        self.waiting.push_back(Batch {
            connection,
            tuple,
            profile,
            congestion,
            names,
            records,
            missed,
            cause,
        });
    }
}

impl Endpoint {
    /// Records of traced connections, if some are to leave; a driver that traces asks after each turn. At most 4,096
    /// batches wait; of later ones only the number of their records is kept.
    pub fn poll_trace(&mut self) -> Option<Batch> {
        self.traces.waiting.pop_front()
    }

    /// Has all connections that are traced give their records out now.
    pub fn request_traces(&mut self) {
        for index in self.connections.indices() {
            if let Some(live) = self.connections.at_mut(index) {
                live.connection.request_trace();
                self.traces.collect(live);
            }
        }
    }
}

/// The most batches that wait.
const BATCHES_MAX: usize = 4096;
