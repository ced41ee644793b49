//! Eighth, the FIN bit (RFC 9293 §3.10.7.4).

use super::super::Connection;
use super::{Arrival, StepOutcome};

impl Connection {
    pub(super) fn step8_fin(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        // A FIN beyond a gap waits until the gap is filled.
        if self.rcv.take_fin() {
            // RFC 2525 §2.15: the reader sees the end in the same poll as the last data.
            self.readiness.readable = true;
            self.enter(arrival.now, self.state.after_fin(self.fin_acked()));
        } else if arrival.fin {
            self.rcv.owe_ack_now();
        }
        StepOutcome::Continue
    }
}
