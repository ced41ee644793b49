//! A connection's errors, and which of them the application knows.

use crate::{ConnectionError, IcmpError, WriteError};

/// The errors of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    /// How the connection ended, if it ended in error. Stays set.
    hard: Option<ConnectionError>,
    /// Whether a call has reported it to the application.
    told: bool,
    /// The last error that ICMP reported.
    soft: Option<IcmpError>,
}

impl Errors {
    /// How the connection ended, if it ended in error.
    pub fn hard(&self) -> Option<ConnectionError> {
        self.hard
    }

    /// The connection ended; the first reason stands.
    pub fn end(&mut self, error: Option<ConnectionError>) {
        self.hard = self.hard.or(error);
    }

    /// How the connection ended, returned once.
    pub fn take_hard(&mut self) -> Option<ConnectionError> {
        self.hard.filter(|_| !std::mem::replace(&mut self.told, true))
    }

    /// A call reports to the application how the connection ended.
    pub fn tell(&mut self) {
        self.told |= self.hard.is_some();
    }

    /// The result of a write after the connection ended in error. `ended`: the peer had closed its side
    /// before.
    ///
    /// As with the kernel's sockets, the first call of any kind reports the error, and from then on the pipe
    /// is broken. If a peer resets that had already closed, the pipe is broken at once. An error caused by
    /// this end stays.
    pub fn for_writer(&self, ended: bool) -> Option<WriteError> {
        let error = self.hard?;
        let own = matches!(error, ConnectionError::Aborted | ConnectionError::OutOfMemory);
        let broken = self.told || ended && error == ConnectionError::Reset;
        Some(if broken && !own { WriteError::Shutdown } else { WriteError::Connection(error) })
    }

    pub fn note_soft(&mut self, error: IcmpError) {
        self.soft = Some(error);
    }

    /// The last soft error, returned once.
    pub fn take_soft(&mut self) -> Option<IcmpError> {
        self.soft.take()
    }
}

ackclock_form::form! {
    struct Errors { hard, told, soft }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writer_gets_the_reason_once_and_a_broken_pipe_from_then_on() {
        use ConnectionError::{Aborted, OutOfMemory, Reset, TimedOut};
        let written = |error, told, ended| {
            let mut errors = Errors::default();
            errors.end(Some(error));
            if told {
                errors.tell();
            }
            errors.for_writer(ended)
        };
        for (error, told, ended, broken) in [
            (TimedOut, false, false, false),
            (TimedOut, true, false, true),
            (TimedOut, false, true, false),
            (Reset, false, false, false),
            (Reset, true, false, true),
            // The peer had closed: the pipe is broken at once.
            (Reset, false, true, true),
            // An action of this end stays the reason.
            (Aborted, true, false, false),
            (OutOfMemory, true, true, false),
        ] {
            let expected = if broken { WriteError::Shutdown } else { WriteError::Connection(error) };
            assert_eq!(written(error, told, ended), Some(expected), "{error:?}, {told}, {ended}");
        }
        assert_eq!(Errors::default().for_writer(true), None);
    }

    #[test]
    fn the_end_is_returned_once_and_its_first_reason_stands() {
        let mut errors = Errors::default();
        assert_eq!(errors.take_hard(), None);
        errors.end(Some(ConnectionError::Reset));
        errors.end(Some(ConnectionError::TimedOut));
        assert_eq!(errors.take_hard(), Some(ConnectionError::Reset));
        assert_eq!((errors.take_hard(), errors.hard()), (None, Some(ConnectionError::Reset)));
    }
}
