//! How a client of the control socket taps a connection: see [`Taps`](crate::state::Taps).

use std::task::Poll;

use ackclock_core::trace::{Batch, TraceConfig, TraceKeep};
use ackclock_core::{Connection, ConnectionId, Instant};
use ackclock_journal::{RecordedConnection, RecordedEndpoint};

use super::protocol::{Name, Refusal};
use crate::state::{Tap, Taps};

impl Taps {
    /// From now on the connection's records go to a client. Returns the tap's number.
    pub(super) fn tap(
        &mut self,
        endpoint: &mut RecordedEndpoint,
        now: Instant,
        name: Name,
    ) -> Result<u64, Refusal> {
        let id = numbered(endpoint, name)?;
        if self.of.contains_key(&name.number) {
            return Err(traced_already(name, "another client of this socket has it traced"));
        }
        let before = endpoint.connection(id).and_then(Connection::trace_config);
        if before.is_some_and(|config| config.keep == TraceKeep::All) {
            return Err(traced_already(name, "its program has it traced, and gets all of it"));
        }
        let set =
            |connection: &mut RecordedConnection<'_>, now| connection.set_trace(now, Some(TraceConfig::FULL));
        endpoint.update(now, id, set).ok_or_else(|| closing(name))?;
        self.made += 1;
        let number = self.made;
        self.of.insert(name.number, Tap { number, id, before });
        Ok(number)
    }

    /// Undoes [`tap`](Self::tap): any client's, or only the tap numbered `only`. Returns whether there was
    /// one.
    pub(super) fn untap(
        &mut self,
        endpoint: &mut RecordedEndpoint,
        now: Instant,
        name: Name,
        only: Option<u64>,
    ) -> bool {
        let tap = self.of.get(&name.number).copied();
        let Some(Tap { id, before, .. }) = tap.filter(|tap| only.is_none_or(|only| only == tap.number))
        else {
            return false;
        };
        self.of.remove(&name.number);
        endpoint.update(now, id, |connection, now| connection.set_trace(now, before));
        // The records of the tap are of no use to the program.
        while endpoint.poll_trace_if(|batch| batch.connection == name.number).is_some() {}
        true
    }

    /// The next records for the client; `None` once there are no more. `is_down`: the stack is.
    pub(super) fn poll(
        &self,
        endpoint: &mut RecordedEndpoint,
        name: Name,
        number: u64,
        is_down: bool,
    ) -> Poll<Option<Batch>> {
        let tap = self.of.get(&name.number).filter(|tap| tap.number == number);
        let Some(&Tap { id, .. }) = tap else { return Poll::Ready(None) };
        match endpoint.poll_trace_if(|batch| batch.connection == name.number) {
            None if endpoint.number(id).is_some() && !is_down => Poll::Pending,
            batch => Poll::Ready(batch),
        }
    }

    /// Makes the connection hand over what it has recorded so far.
    pub(super) fn ask(&self, endpoint: &mut RecordedEndpoint, now: Instant, name: Name) {
        if let Some(&Tap { id, .. }) = self.of.get(&name.number) {
            endpoint.update(now, id, |connection, _| connection.request_trace());
        }
    }
}

/// The contents of the connection's flight recorder.
pub(super) fn recorded(endpoint: &RecordedEndpoint, name: Name) -> Result<Batch, Refusal> {
    let id = numbered(endpoint, name)?;
    endpoint.recorded(id).ok_or_else(|| Refusal {
        kind: "not-traced",
        message: format!(
            "connection {} has no flight recorder: its program has to ask for one when it starts \
             (StackBuilder::flight_recorder)",
            name.word()
        ),
    })
}

fn numbered(endpoint: &RecordedEndpoint, name: Name) -> Result<ConnectionId, Refusal> {
    endpoint.numbered(name.number).ok_or_else(|| Refusal::no_such_connection(&name.word()))
}

fn traced_already(name: Name, why: &str) -> Refusal {
    let message = format!("connection {} is traced already: {why}", name.word());
    Refusal { kind: "traced-already", message }
}

fn closing(name: Name) -> Refusal {
    let message =
        format!("connection {} closes in the background, and cannot be traced any more", name.word());
    Refusal { kind: "no-such-connection", message }
}
