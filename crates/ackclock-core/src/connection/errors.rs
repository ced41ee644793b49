//! What went wrong with a connection, and what of it the application has been told.

use crate::{ConnectionError, IcmpError, WriteError};

/// The errors of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    /// How the connection ended, if it ended in error. Stays set.
    hard: Option<ConnectionError>,
    /// A call has told the application of it.
    told: bool,
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
        self.hard.filter(|_| !std::mem::replace(&mut self.told, true))
    }

    /// A call tells the application how the connection ended.
    pub(super) fn tell(&mut self) {
        self.told |= self.hard.is_some();
    }

    /// What is said to one who writes after the connection ended in error; `ended`: the peer had closed its side before.
    ///
    /// As with the kernel's sockets the error is told once, by whichever call comes first, and from then on the pipe is
    /// broken; what a peer resets that had already closed is a broken pipe at once. What this end did itself stays.
    pub(super) fn for_writer(&self, ended: bool) -> Option<WriteError> {
        let error = self.hard?;
        let own = matches!(error, ConnectionError::Aborted | ConnectionError::OutOfMemory);
        let broken = self.told || ended && error == ConnectionError::Reset;
        Some(if broken && !own { WriteError::Shutdown } else { WriteError::Connection(error) })
    }

    pub(super) fn note_soft(&mut self, error: IcmpError) {
        self.soft = Some(error);
    }

    /// The last soft error, given once.
    pub(super) fn take_soft(&mut self) -> Option<IcmpError> {
        self.soft.take()
    }
}
