//! What went wrong with a connection, and what of it the application has been told.

use crate::{ConnectionError, IcmpError};

/// The errors of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    /// How the connection ended, if it ended in error. Stays set.
    hard: Option<ConnectionError>,
    hard_taken: bool,
    /// The last that ICMP reported.
    soft: Option<IcmpError>,
}

impl Errors {
    /// How the connection ended, if it ended in error.
    pub(super) fn hard(&self) -> Option<ConnectionError> {
        self.hard
    }

    /// The connection ended; the first reason stands.
    pub(super) fn end(&mut self, error: Option<ConnectionError>) {
        self.hard = self.hard.or(error);
    }

    /// How the connection ended, given once.
    pub(super) fn take_hard(&mut self) -> Option<ConnectionError> {
        self.hard.filter(|_| !std::mem::replace(&mut self.hard_taken, true))
    }

    pub(super) fn note_soft(&mut self, error: IcmpError) {
        self.soft = Some(error);
    }

    /// The last soft error, given once.
    pub(super) fn take_soft(&mut self) -> Option<IcmpError> {
        self.soft.take()
    }
}
