//! Where a connection is in its life: its state, and how long it lasts once only time can end it.

use super::State;
use crate::deadline::Deadline;
use crate::{Instant, TcpConfig};

#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    state: State,
    // RFC 9293 MUST-11: whether SYN-RECEIVED came from an active open. A passive one is a half-open record of
    // the endpoint, or has data (RFC 7413), so here it always did.
    established: bool,
    orphaned: bool,
    /// The end of TIME-WAIT, of an orphan's FIN-WAIT-2, or of the idle timeout.
    ends: Deadline,
}

impl Life {
    pub(super) fn new() -> Self {
        Self { state: State::Closed, established: false, orphaned: false, ends: Deadline::UNSET }
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Whether the handshake was ever completed.
    #[inline]
    pub(super) fn is_established(&self) -> bool {
        self.established
    }

    /// Whether the application has released the connection.
    #[inline]
    pub(super) fn is_orphaned(&self) -> bool {
        self.orphaned
    }

    /// Whether time alone can end it, whatever data moves: TIME-WAIT, or an orphan's FIN-WAIT-2.
    pub(super) fn is_lingering(&self) -> bool {
        self.state == State::TimeWait || self.orphaned && self.state == State::FinWait2
    }

    /// Without more data it ends then; `None`: not for the lack of data.
    pub(super) fn ends_idle(&mut self, at: Option<Instant>) {
        if self.state.is_synchronized() && !self.is_lingering() {
            match at {
                Some(at) => self.ends.set(at),
                None => self.ends.clear(),
            }
        }
    }

    /// When time ends it.
    #[inline]
    pub(super) fn deadline(&self) -> Deadline {
        self.ends
    }

    pub(super) fn enter(&mut self, now: Instant, state: State, tcp: &TcpConfig) {
        self.state = state;
        self.established |= state == State::Established;
        match state {
            // RFC 9293 MUST-13: linger for 2 MSL.
            State::TimeWait => self.linger(now, tcp),
            State::FinWait2 if self.orphaned => self.ends.set(now + tcp.fin_wait_2_max),
            State::Closed => self.ends.clear(),
            _ => {}
        }
    }

    /// TIME-WAIT lasts 2 MSL from now on.
    pub(super) fn linger(&mut self, now: Instant, tcp: &TcpConfig) {
        self.ends.set(now + tcp.time_wait);
    }

    /// The application releases the connection: nothing waits for the peer's FIN for ever.
    pub(super) fn orphan(&mut self, now: Instant, tcp: &TcpConfig) {
        self.orphaned = true;
        if self.state == State::FinWait2 {
            self.ends.set(now + tcp.fin_wait_2_max);
        }
    }
}

ackclock_form::form! {
    struct Life { state, established, orphaned, ends }
}
