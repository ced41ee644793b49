//! A connection in its slot, with the endpoint's state for it: its owner, its number, what it reports.

use std::fmt;

use super::{Followup, Turn};
use crate::{Connection, FourTuple, ListenerId, Readiness};

/// A connection of an endpoint. It is boxed, so that its table can grow without moving it and an unused slot
/// is small.
pub(super) struct Slot {
    pub(super) connection: Connection,
    number: u64,
    bound: bool,
    looped: bool,
    owner: Owner,
}

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The application, which will release it.
    Application,
    /// A listener's accept queue.
    Listener(ListenerId),
    /// None: the application has released it, and it finishes by itself.
    Orphan,
    /// None: it has been reset, and only has to send that.
    Nobody,
}

impl Slot {
    /// A connection whose four-tuple the demultiplexer has. `looped`: its peer is the endpoint itself.
    pub(super) fn new(connection: Connection, number: u64, looped: bool, owner: Owner) -> Self {
        Self { connection, number, bound: true, looped, owner }
    }

    /// Its two sockets.
    #[inline]
    pub(super) fn tuple(&self) -> FourTuple {
        self.connection.tuple()
    }

    /// The connection's number at the endpoint, for traces.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the peer is the endpoint itself.
    #[inline]
    pub(super) fn is_looped(&self) -> bool {
        self.looped
    }

    /// Whether the demultiplexer leads here. A connection that is over releases its four-tuple before its
    /// slot.
    #[inline]
    pub(super) fn is_bound(&self) -> bool {
        self.bound
    }

    /// The demultiplexer does not lead here any more. Returns whether it did.
    pub(super) fn unbind(&mut self) -> bool {
        std::mem::take(&mut self.bound)
    }

    #[inline]
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Gives the connection to another owner. Returns whether there is something to report to that one.
    pub(super) fn pass_to(&mut self, owner: Owner) -> bool {
        self.owner = owner;
        self.reports()
    }

    /// Takes the report for the application; `None` if there is nothing.
    pub(super) fn take_report(&mut self) -> Option<Readiness> {
        self.reports().then(|| self.connection.take_readiness())
    }

    /// The consequences of a change of the connection. `shortcuts`: it is not asked to send where it is idle.
    #[inline(always)]
    pub(super) fn followup(&mut self, shortcuts: bool) -> Followup {
        let sends = if shortcuts && self.connection.is_idle() {
            Turn::Never
        } else if self.connection.sends_little() {
            Turn::First
        } else {
            Turn::Last
        };
        Followup { sends, ..self.settled() }
    }

    /// The consequences of a change that leaves nothing to send.
    // Always inlined, for all four rows of the counted instructions.
    #[inline(always)]
    pub(super) fn settled(&mut self) -> Followup {
        Followup { reports: self.reports(), deadline: self.connection.poll_timeout(), sends: Turn::Never }
    }

    #[inline]
    fn reports(&self) -> bool {
        self.connection.has_changes() && self.owner == Owner::Application
    }
}

impl Owner {
    /// Whether the connection has no owner any more.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Orphan | Self::Nobody)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({:?})", self.tuple(), self.owner)
    }
}

ackclock_form::form! {
    struct Slot { connection, number, bound, looped, owner }
    enum Owner { 0 Application, 1 Listener(value), 2 Orphan, 3 Nobody }
}
