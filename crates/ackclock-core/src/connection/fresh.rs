//! The fast path of transmission: new data on a connection that has room for it and nothing else to send. It
//! sends the next full segments if at least another follows, or the last of what was written if one segment
//! holds it.
//!
//! It equals [`poll_transmit`](Connection::poll_transmit) with the answers known beforehand. What the slow
//! path asks before data leaves:
//!
//! | asked in [`transmit`](super::transmit), in [`header`](super::header) | the answer here |
//! |---|---|
//! | a reply, a SYN, a RST, a probe, a report, an echo of marks, urgent data, a trace | none: [`Connection::has_only_data_to_send`] |
//! | what is lost, and what recovery lets go | nothing is: [`Flight::is_calm`](crate::sending::Flight::is_calm) |
//! | an idle window | the same |
//! | the two silly-window rules | a full segment, or all there is |
//! | Nagle, cork | the same, of the last: [`Connection::may_send_tail`] |
//! | PSH | on the last |
//! | FIN | in ESTABLISHED the application has not closed |
//! | both windows, pacing | the same |
//! | which timer runs | the retransmission timer |
//! | how much two slices of the buffer hold | a segment at least: [`BETWEEN_MIN`] |
//! | the options of the header | the timestamps, if they were agreed on |
//!
//! A test runs two endpoints through the same events, one of them always on the slow path, and compares
//! everything that they send and all fields of their connections.

use ackclock_control::tally::Tally;
use ackclock_wire::Flags;

use super::header::Segment;
use super::sender::BETWEEN_MIN;
use super::{Connection, State, lend};
use crate::sending::{Chosen, whole_segments};
use crate::trace::SendReason;
use crate::{Instant, Limits};

impl Connection {
    /// The next new data, which counts as sent. `None` if something else must leave first, or nothing;
    /// [`Self::next_segment`] then finds out.
    // Out of line, for the row "acknowledgement sent" of the counted instructions.
    #[inline(never)]
    pub(super) fn next_fresh(&mut self, now: Instant, limits: Limits) -> Option<Segment> {
        if !self.has_only_data_to_send() {
            return None;
        }
        let (unsent, smss) = (self.unsent(), self.smss());
        self.flight.restart_after_idleness(lend!(self, now), unsent);
        let chosen = self.choose_fresh(unsent, self.burst_max(limits))?;
        let Chosen { start, end, reason } = self.flight.pace(now, &self.tcp, chosen)?;
        let payload_len = end.index_from(start);
        self.persist.end_override();
        self.counts.bytes_sent.grow(payload_len as u64);
        let drained = payload_len as u64 == unsent;
        self.flight.on_next_sent(now, end, drained);
        let flags = if drained { Flags::ACK | Flags::PSH } else { Self::ACK };
        if drained {
            self.forget_cork();
        }
        // As `update_send_timer` would: something is outstanding, and the window is open.
        self.persist.stop();
        self.flight.run_timer(lend!(self, now), true);
        self.flight.arm_tail_probe(now);
        Some(Segment { start, flags, payload_len, segment_max: smss, reason })
    }

    /// Whether only data may leave, in plain segments.
    #[inline]
    fn has_only_data_to_send(&self) -> bool {
        self.state == State::Established
            && self.reply.is_none()
            && !self.pending.sends()
            && self.is_unremarkable()
            && self.flight.is_calm()
    }

    /// As many full segments as may leave at one time, if another follows; or the last one, whole.
    #[inline]
    fn choose_fresh(&mut self, unsent: u64, burst_max: u64) -> Option<Chosen> {
        let (start, smss) = (self.flight.nxt(), u64::from(self.smss()));
        debug_assert_eq!(self.smss(), self.effective_mss(), "a change of the path changes both");
        if smss > BETWEEN_MIN as u64 || self.waits_for_more(unsent, burst_max) {
            return None;
        }
        let usable = self.right_edge().since(start).min(self.flight.room());
        let bytes = if unsent > smss {
            self.full_segments(unsent, usable, burst_max)?
        } else if unsent <= usable && (unsent == smss || self.may_send_tail(0)) {
            unsent
        } else {
            return None;
        };
        Some(Chosen { start, end: start + bytes, reason: SendReason::NewData })
    }

    /// As many bytes of full segments as may leave at one time, if another follows.
    #[inline]
    fn full_segments(&mut self, unsent: u64, usable: u64, burst_max: u64) -> Option<u64> {
        let smss = u64::from(self.smss());
        let most = unsent.min(usable).min(self.gathered_max(self.flight.nxt(), unsent, burst_max));
        let full = if most < smss.saturating_mul(2) { most.min(smss) } else { whole_segments(most, smss) };
        // The rest leaves by itself, or it might have gone with these.
        let remains = unsent.saturating_sub(full);
        let follows = burst_max == smss || remains >= smss;
        (full >= smss && follows).then_some(full)
    }
}
