//! Whether a connection has nothing to send, told by a few comparisons: most that receive have not, most of the time, and
//! to ask [`transmit`](super::transmit) for it costs hundreds of instructions.

use super::{Connection, Pending, State};
use crate::Instant;

impl Connection {
    /// Whether `poll_transmit` would find nothing to send and nothing to change, whenever it is called before anything
    /// else is done to the connection: it is established, all in its buffer has left, nothing of that is held to be lost, and it
    /// owes no answer. `false` says nothing.
    #[inline]
    pub(crate) fn is_quiet(&mut self, now: Instant) -> bool {
        let is_quiet = self.state == State::Established
            && self.is_sender_idle()
            && !self.acks.now
            && self.reply.is_none()
            && !self.pending.sends()
            // A trace tells what sending waits for, which is found out on the way.
            && !self.trace.is_on();
        // Each test of anything is a test of this.
        #[cfg(debug_assertions)]
        if is_quiet {
            let limits = crate::Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
            assert!(self.next_segment(now, limits).is_none(), "a quiet connection sends nothing");
        }
        #[cfg(not(debug_assertions))]
        let _ = now;
        is_quiet
    }

    /// Whether there is neither new data, nor a FIN, nor anything that has to go again: to choose what to send would find
    /// nothing, and change nothing. So it is with most of those that receive, and with those that have sent a short message.
    #[inline]
    pub(super) fn is_sender_idle(&self) -> bool {
        self.flight.is_quiet() && self.unsent() == 0 && !self.snd.closed
    }
}

impl Pending {
    /// Whether any of it is a reason to send.
    #[inline]
    pub(super) fn sends(&self) -> bool {
        self.syn || self.reset || self.probe || self.keepalive
    }
}
