//! The fast path of a packet: to the connection of the last segment, if it is what that connection expects
//! next.

use ackclock_control::tally::Tally;

use super::Endpoint;
use super::input::Frame;
use crate::Instant;

impl Endpoint {
    /// Hands the packet to the connection of the last segment, if it has the predicted form and changes no
    /// more than a prediction allows. Returns whether it did; if not, nothing has changed.
    // Its addresses were checked when the connection was opened, as in `deliver`.
    #[inline]
    pub(super) fn take_predicted(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        #[cfg(feature = "tcp-ao")]
        if self.authentication.is_some() {
            return false;
        }
        if !self.predicts {
            return false;
        }
        let index = self.last_connection;
        let Some(live) = self.connections.at_mut(index) else { return false };
        if live.looped != frame.looped {
            return false;
        }
        if !live.connection.take_predicted(now, frame.packet, frame.meta, frame.block) {
            return false;
        }
        debug_assert!(live.bound, "a connection has its name until it is over or in TIME-WAIT");
        self.counters.segments_delivered.count();
        self.counters.segments_predicted.count();
        // As `touch` does: the connection is still established, and has no trace.
        live.follow_up(index, &mut self.events, &mut self.timers, &mut self.transmit);
        true
    }
}
