//! Eighth, the FIN bit (RFC 9293 §3.10.7.4).

use super::super::Connection;
use super::{Arrival, StepOutcome};
use crate::Readiness;

impl Connection {
    pub(super) fn step8_fin(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        // A FIN beyond a gap waits until the gap is filled.
        if self.rcv.fin.is_some_and(|fin| fin == self.rcv.nxt) && !self.rcv.fin_taken() {
            self.take_fin(arrival);
        } else if arrival.fin {
            self.acks.now = true;
        }
        StepOutcome::Continue
    }

    fn take_fin(&mut self, arrival: &Arrival<'_>) {
        self.rcv.nxt += 1;
        self.rcv.edge = self.rcv.edge.max(self.rcv.nxt);
        self.acks.now = true;
        self.acks.take_fin(self.rcv.nxt);
        // RFC 2525 §2.15: the reader sees the end in the same poll as the last data.
        self.readiness = self.readiness.merged(Readiness { readable: true, ..Readiness::default() });
        self.enter(arrival.now, self.state.after_fin(self.fin_acked()));
    }
}
