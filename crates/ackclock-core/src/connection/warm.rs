//! A connection that has left the caches comes back as fast as memory can bring it.
//!
//! What a segment needs lies in some twenty cache lines, and each step needs what the last one found: the stalls add up.
//! Here one field of each part is read, none of which depends on another, so that the processor waits for all of them
//! together.

use std::hint::black_box;

use super::Connection;

impl Connection {
    /// Reads a little of each part, and does nothing with it.
    #[inline]
    pub(crate) fn warm(&self) {
        black_box((self.snd.una, self.snd.wl2, self.snd.pmtu, self.snd.queued()));
        black_box((self.rcv.nxt, self.rcv.edge, self.rcv.mss, self.rcv.buffer.readable()));
        black_box((self.timers.send, self.timers.recovery, self.timers.buffers, self.rtt.srtt()));
        black_box((self.timestamps, self.template.transport_offset(), self.state, self.acks.segments));
        black_box((self.scoreboard.pipe(), self.scoreboard.first_sent_at(), self.congestion.cwnd()));
        black_box((self.recovery.phase, self.recovery.left_network(), self.recovery.rack.newest()));
        black_box((self.delivery.bytes, self.delivery.cwnd_limited_until, self.give_up.heard_at));
        black_box((self.counts.bytes_sent, self.counts.received_at, self.readiness, self.pending));
        black_box((self.pacer.as_ref().map(|pacer| pacer.is_even(self.give_up.heard_at)), self.orphaned));
    }
}
