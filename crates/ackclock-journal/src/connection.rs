//! [`RecordedConnection`]: a connection within an update, whose calls are written down too.

use std::ops::Deref;

use super::calls::ConnectionCall;
use super::outcome::{ResultCode, noted};
use crate::Journal;
use ackclock_core::{Connection, Instant};

/// A connection of a [`RecordedEndpoint`](crate::RecordedEndpoint). Methods that only look at the connection
/// are called on it directly.
#[derive(Debug)]
pub struct RecordedConnection<'a> {
    connection: &'a mut Connection,
    journal: Option<&'a mut Journal>,
}

impl Deref for RecordedConnection<'_> {
    type Target = Connection;

    #[inline]
    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl<'a> RecordedConnection<'a> {
    #[inline]
    pub(super) fn new(connection: &'a mut Connection, journal: Option<&'a mut Journal>) -> Self {
        Self { connection, journal }
    }

    #[inline]
    pub(super) fn is_recorded(&self) -> bool {
        self.journal.is_some()
    }

    /// Makes a call, with a note of it and of its result. The update has said when.
    #[inline]
    pub(super) fn make<R: ResultCode>(
        &mut self,
        _: Option<Instant>,
        call: Option<ConnectionCall>,
        make: impl FnOnce(&mut Connection) -> R,
    ) -> R {
        let note = |journal: &mut Journal| {
            if let Some(call) = call {
                journal.connection_call(&call);
            }
        };
        noted(self.journal.as_deref_mut(), note, || make(self.connection))
    }
}
