//! Go back N: the timer alone finds losses, and everything outstanding is sent again.
//!
//! The sender of 4.3BSD before 1988, whose SND.NXT returned to SND.UNA when the timer expired; V. Jacobson and
//! M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, figure 3, show what comes of it. Duplicate
//! acknowledgements mean nothing to it.
//!
//! Every other policy does the same at a timeout (RFC 6675 §5.1, RFC 6582 §3.2 (4)), except that what the peer
//! is known to hold is not sent again.
//!
//! Deviations: SND.NXT stays; what it would have come back to counts as lost, which sends the same.

use ackclock_control::congestion::Timeout;

use super::super::timers::RecoveryTimer;
use super::Connection;
use crate::Instant;
use crate::trace::LossRule;

impl Connection {
    /// Without SACK: a duplicate after a timeout tells that a segment of the new data has arrived, which F-RTO sent before the
    /// rest of the old; it leaves the pipe, or nothing could follow it.
    pub(super) fn count_new_data_arrived(&mut self) {
        let new_data = self.snd.nxt.since(self.recovery.recover);
        let arrived = self.recovery.left_network + u64::from(self.smss());
        self.recovery.left_network = arrived.min(new_data).min(self.scoreboard.pipe());
    }

    /// The retransmission timer expired: all that the peer is not known to hold is lost.
    pub(in crate::connection) fn lose_all_by_timer(&mut self, now: Instant) {
        self.watch_reduction(true);
        // RFC 2018 §8: a peer that holds the first byte would have acknowledged it; it has thrown its SACKed data away.
        let lost = self.scoreboard.mark_all_lost(self.scoreboard.first_is_sacked());
        self.declare_lost(now, LossRule::Timeout, lost);
        self.tell_timeout(&Timeout {
            now,
            flight_size: self.snd.flight_size(),
            expiries: self.give_up.expiries,
            delivered: self.delivery.bytes,
        });
        self.recovery.on_timeout(self.snd.nxt);
        self.timers.recovery = RecoveryTimer::Idle;
        self.pending.tail_probe = false;
    }
}
