//! Detects with a few comparisons that a connection has nothing to send. Most receivers have nothing, most of
//! the time, and asking [`transmit`](super::transmit) costs hundreds of instructions.

use super::{Connection, Pending, State};
use crate::Instant;

impl Connection {
    /// Whether `poll_transmit` would find nothing to send or change, if called before anything else happens
    /// to the connection: it is established, everything in its buffer has left, none of that is held to be
    /// lost, and it owes no answer. `false` says nothing.
    #[inline]
    pub(crate) fn is_quiet(&mut self, now: Instant) -> bool {
        let is_quiet = self.state == State::Established
            && self.is_sender_idle()
            && !self.rcv.owes_ack_now()
            && self.reply.is_none()
            && !self.pending.sends()
            // A trace records what sending waits for, which `transmit` finds out.
            && !self.trace.is_on();
        // Every test doubles as a test of this.
        #[cfg(debug_assertions)]
        if is_quiet {
            let limits = crate::Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
            assert!(self.next_segment(now, limits).is_none(), "a quiet connection sends nothing");
        }
        #[cfg(not(debug_assertions))]
        let _ = now;
        is_quiet
    }

    /// Whether there is no new data, no FIN and no retransmission: choosing what to send would find nothing
    /// and change nothing. This holds for most receivers, and for senders of a short message.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_alone_is_a_reason_to_send() {
        let none = Pending { more_follows: true, ..Pending::default() };
        assert!(!none.sends());
        for reason in [
            Pending { syn: true, ..none },
            Pending { reset: true, ..none },
            Pending { probe: true, ..none },
            Pending { keepalive: true, ..none },
        ] {
            assert!(reason.sends(), "{reason:?}");
        }
    }
}
