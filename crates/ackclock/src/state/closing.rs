//! How a stack ends: closing, draining, going down.

use std::io;
use std::task::Poll;
use std::time::Duration;

use ackclock_core::{ConnectionId, Instant};
use ackclock_journal::JournalEnd;

use super::{Phase, StackState, has_rest, is_over};
use crate::StackError;

impl StackState {
    /// Begins to close: accepts nothing new; existing connections may finish within the close timeout.
    pub(crate) fn begin_close(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Down(_) | Phase::Closing { drains: false, .. }) {
            return;
        }
        self.close_to_new(now, self.close_timeout, false);
        for id in self.connection_ids() {
            self.endpoint.update(now, id, |connection, now| connection.shutdown(now).ok());
        }
    }

    /// Begins to drain: accepts nothing new; existing connections go on until their programs end them, for
    /// `time` at most.
    pub(crate) fn begin_drain(&mut self, now: Instant, time: Duration) {
        match self.phase {
            Phase::Up | Phase::Closing { drains: true, .. } => self.close_to_new(now, time, true),
            Phase::Closing { drains: false, .. } | Phase::Down(_) => {}
        }
    }

    /// Ends all listeners at once and all connections after `time`; a second call can only make that earlier.
    fn close_to_new(&mut self, now: Instant, time: Duration, drains: bool) {
        let until = match self.phase {
            Phase::Closing { until, .. } => until.min(now + time),
            Phase::Up | Phase::Down(_) => now + time,
        };
        self.phase = Phase::Closing { until, drains };
        for id in self.listeners.ids() {
            self.close_listener(now, id);
        }
        for id in std::mem::take(&mut self.own) {
            self.endpoint.update(now, id, |connection, now| connection.abort(now));
        }
        self.shutdown.wake(&mut self.woken);
    }

    /// Whether the stack was closing and no connection is left to send or receive.
    pub(crate) fn has_finished(&self) -> bool {
        matches!(self.phase, Phase::Closing { .. })
            && self.endpoint.connections().all(|(_, connection)| is_over(connection))
    }

    /// Ends all service: every pending call fails with `why`, and all connections free their memory.
    pub(crate) fn go_down(&mut self, now: Instant, why: StackError) {
        let drains = matches!(self.phase, Phase::Closing { drains: true, .. });
        let keeps_rest = drains || matches!(why, StackError::Device(_));
        self.stop(why);
        for id in self.connection_ids() {
            if !keeps_rest || !self.endpoint.connection(id).is_some_and(has_rest) {
                self.endpoint.update(now, id, |connection, now| connection.abort(now));
            }
        }
        self.endpoint.reset_orphans(now);
        self.endpoint.end_traces();
        self.discard_if_down(now);
    }

    /// Once the stack is down, nothing takes the packets, so they are discarded.
    pub(crate) fn discard_if_down(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Down(_)) {
            return;
        }
        while self.endpoint.poll_transmit(now, self.limits).is_some() {}
        while self.endpoint.poll_event().is_some() {}
        if let Some(journal) = self.endpoint.journal_mut() {
            journal.end(JournalEnd::Closed);
        }
    }

    /// Fails every pending and later call with `why`, without notifying the endpoint.
    pub(crate) fn stop(&mut self, why: StackError) {
        if matches!(self.phase, Phase::Down(_)) {
            return;
        }
        self.phase = Phase::Down(why);
        self.streams.wake_all(&mut self.woken);
        self.listeners.wake_all(&mut self.woken);
        self.shutdown.wake(&mut self.woken);
        self.traces.wake(&mut self.woken);
        self.others.receive.wake(&mut self.woken);
        self.others.send.wake(&mut self.woken);
        self.pings.receive.wake(&mut self.woken);
        self.datagrams.wake_all(&mut self.woken);
        self.lingering.clear();
    }

    /// Ready once the stack takes no new connections.
    pub(crate) fn poll_closing(&self) -> Poll<()> {
        if matches!(self.phase, Phase::Up) { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Ready once the stack is down: the number of connections that had to be reset, or the error.
    pub(crate) fn poll_drained(&self) -> Poll<io::Result<usize>> {
        match &self.phase {
            Phase::Down(StackError::Shutdown) => Poll::Ready(Ok(self.unfinished)),
            Phase::Down(error) => Poll::Ready(Err(error.clone().into())),
            Phase::Up | Phase::Closing { .. } => Poll::Pending,
        }
    }

    /// Why the stack is down, if it is.
    pub(crate) fn down(&self) -> Option<StackError> {
        if let Phase::Down(why) = &self.phase { Some(why.clone()) } else { None }
    }

    /// Ready once the stack is down.
    pub(crate) fn poll_down(&self) -> Poll<()> {
        if matches!(self.phase, Phase::Down(_)) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Resets every connection, including those whose handle was dropped.
    pub(crate) fn abort_all(&mut self, now: Instant) {
        for id in self.connection_ids() {
            self.endpoint.update(now, id, |connection, now| connection.abort(now));
        }
        self.endpoint.reset_orphans(now);
    }

    fn connection_ids(&self) -> Vec<ConnectionId> {
        self.endpoint.connections().map(|(id, _)| id).collect()
    }
}
