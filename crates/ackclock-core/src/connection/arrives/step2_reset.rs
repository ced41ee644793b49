//! Second, the RST bit (RFC 9293 §3.10.7.4, with RFC 5961 §3). RFC 9293 SHLD-2: data in a reset is ignored.

use ackclock_wire::Flags;

use super::super::limiter::Provocation;
use super::super::{Connection, Reply, State};
use super::{Arrival, StepOutcome};
use crate::ConnectionError;

impl Connection {
    pub(super) fn step2_reset(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if !arrival.segment.flags.contains(Flags::RST) {
            return StepOutcome::Continue;
        }
        if arrival.start < self.rcv.nxt() {
            // RFC 5961 §3.2 (1): judged by where it begins, not by text that reaches into the window.
            return StepOutcome::Drop;
        }
        if arrival.start != self.rcv.nxt() {
            // RFC 5961 §3.2 (3): in the window but not at its edge. A genuine peer answers the challenge with
            // an exact one.
            if self.cold.allow(arrival.now, Provocation::Reset) {
                self.reply = Some(Reply::Ack);
            }
            return StepOutcome::Drop;
        }
        match self.state {
            // RFC 1337 §3 (F1): a reset does not end TIME-WAIT.
            State::TimeWait => {}
            // RFC 9293 MUST-11: from an active open, so the user learns of it.
            State::SynReceived => self.close_with(arrival.now, Some(ConnectionError::Refused)),
            // Both FINs are exchanged, and only our last acknowledgement is missing: nothing is lost
            // (§3.10.7.4).
            State::Closing | State::LastAck if self.snd.queued() == 0 => {
                self.close_with(arrival.now, None);
            }
            // RFC 9293 MUST-12: distinct from a normal close.
            _ => self.close_with(arrival.now, Some(ConnectionError::Reset)),
        }
        StepOutcome::Drop
    }
}
