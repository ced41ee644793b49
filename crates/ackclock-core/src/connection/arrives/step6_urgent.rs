//! Sixth, the URG bit (RFC 9293 §3.10.7.4, §3.8.5). RFC 9293 MUST-30: urgent data stays in the stream.

use ackclock_wire::Flags;

use super::super::Connection;
use super::{Arrival, StepOutcome};

impl Connection {
    pub(super) fn step6_urgent(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        if !arrival.segment.flags.contains(Flags::URG) || !self.state.takes_text() {
            return StepOutcome::Continue;
        }
        // RFC 9293 MUST-62: the pointer names the octet after the urgent data. Urgent data may be longer than
        // a segment or a window (RFC 9293 MUST-31): the pointer only marks its end.
        let up = arrival.start + u64::from(arrival.segment.urgent);
        if self.rcv.note_urgent(up) {
            // RFC 9293 MUST-32: the application is notified each time the pointer advances.
            self.readiness.urgent = true;
        }
        StepOutcome::Continue
    }
}
