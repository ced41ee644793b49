//! Connections whose traces go to a client of the control socket rather than to
//! [`Stack::next_trace`](crate::Stack::next_trace).

use std::collections::BTreeMap;

use ackclock_core::ConnectionId;
use ackclock_core::trace::{Batch, TraceConfig};
use ackclock_journal::RecordedEndpoint;

/// The tapped connections.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    /// By the connection's number.
    pub of: BTreeMap<u64, Tap>,
    pub made: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap {
    /// The tap's number within the stack, so that a client undoes only its own.
    pub number: u64,
    /// The connection with the number, kept because a search by number walks over all.
    pub id: ConnectionId,
    /// How the connection was traced before.
    pub before: Option<TraceConfig>,
}

impl Taps {
    /// The next records that belong to the program.
    pub fn poll_own(&self, endpoint: &mut RecordedEndpoint) -> Option<Batch> {
        if self.of.is_empty() {
            return endpoint.poll_trace();
        }
        endpoint.poll_trace_if(|batch| !self.of.contains_key(&batch.connection))
    }
}
