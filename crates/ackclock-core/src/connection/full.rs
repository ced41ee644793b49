//! The short way of what leaves: the next full segments of new data, of a connection that has room for them and nothing
//! else to say.
//!
//! It is [`poll_transmit`](Connection::poll_transmit) with the answers known beforehand. What the long way asks before data
//! leaves, and where:
//!
//! | asked in [`transmit`](super::transmit), in [`header`](super::header) | the answer here |
//! |---|---|
//! | a reply, a SYN, a RST, a probe, a report, an echo of marks, urgent data, a trace | none: [`Connection::has_only_data_to_send`] |
//! | what is lost, and what recovery lets go | nothing is: [`Flight::is_calm`](crate::sending::Flight::is_calm) |
//! | an idle window | the same |
//! | the two silly-window rules, Nagle, cork, PSH, FIN | a full segment, and at least another behind it |
//! | both windows, pacing | the same |
//! | the options of the header | the timestamps, if they were agreed on |
//!
//! A test gives the same life to two endpoints, one of which goes the long way always, and compares all they send, and all
//! fields of their connections.

use super::header::Segment;
use super::{Connection, State, lend};
use crate::sending::Chosen;
use crate::trace::SendReason;
use crate::{Instant, Limits};

impl Connection {
    /// Whether a full segment waits, and at least another behind it.
    #[inline]
    pub(super) fn has_full_segments(&self) -> bool {
        self.unsent() >= 2 * u64::from(self.smss())
    }

    /// The next full segments of those, which count as sent. `None`: something else is to leave first, or nothing, and
    /// [`Self::next_segment`] finds that out.
    // Out of line, for the row "acknowledgement sent" of the counted instructions.
    #[inline(never)]
    pub(super) fn next_full(&mut self, now: Instant, limits: Limits) -> Option<Segment> {
        if !self.has_only_data_to_send() {
            return None;
        }
        let (unsent, smss) = (self.unsent(), self.smss());
        self.flight.restart_after_idleness(lend!(self, now), unsent);
        let chosen = self.choose_full(unsent, self.burst_max(limits))?;
        let Chosen { start, end, reason } = self.flight.pace(now, &self.tcp, chosen)?;
        let payload_len = end.index_from(start);
        self.pending.override_sws = false;
        self.counts.bytes_sent += payload_len as u64;
        self.flight.on_next_sent(now, end);
        self.update_send_timer(now);
        self.flight.arm_tail_probe(now);
        Some(Segment { start, flags: Self::ACK, payload_len, segment_max: smss, reason })
    }

    /// Whether data is all that may leave, in plain segments.
    #[inline]
    fn has_only_data_to_send(&self) -> bool {
        self.state == State::Established
            && self.reply.is_none()
            && !self.pending.sends()
            && self.is_unremarkable()
            && self.option_reserve() == 0
            && self.flight.is_calm()
    }

    /// As many full segments as may leave at one time, if another follows.
    #[inline]
    fn choose_full(&mut self, unsent: u64, burst_max: u64) -> Option<Chosen> {
        let (start, smss) = (self.flight.nxt(), u64::from(self.smss()));
        if self.waits_for_more(unsent, burst_max) {
            return None;
        }
        let burst_max = self.gathered_max(start, unsent, burst_max);
        let window = self.right_edge().since(start);
        let most = unsent.min(window).min(self.flight.room()).min(burst_max);
        let full = if most < 2 * smss { most.min(smss) } else { most - most % smss };
        // The last may be less than full, and is for the long way.
        let another = full + smss <= unsent;
        // A path that has changed may ask for smaller ones.
        let fits = self.smss() == self.effective_mss();
        (full >= smss && another && fits).then(|| Chosen {
            start,
            end: start + full,
            reason: SendReason::NewData,
        })
    }
}
