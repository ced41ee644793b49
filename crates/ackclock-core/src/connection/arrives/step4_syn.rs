//! Fourth, the SYN bit (RFC 9293 §3.10.7.4, with RFC 5961 §4). The endpoint takes a SYN that may reopen a
//! connection in TIME-WAIT (RFC 6191) before it gets here.

use ackclock_wire::Flags;

use super::super::limiter::Provocation;
use super::super::{Connection, Reply, State};
use super::{Arrival, StepOutcome};

impl Connection {
    pub(super) fn step4_syn(&mut self, arrival: &mut Arrival<'_>) -> StepOutcome {
        let flags = arrival.segment.flags;
        let crossing = self.state == State::SynReceived && arrival.start == self.rcv.irs();
        if !flags.intersects(Flags::SYN | Flags::RARE) {
            return StepOutcome::Continue;
        }
        if flags.contains(Flags::RARE) && self.has_believable_ack(arrival) {
            self.hear_user_timeout(arrival.now, arrival.segment.options.user_timeout);
        }
        if !flags.contains(Flags::SYN) || crossing && flags.contains(Flags::ACK) {
            return StepOutcome::Continue;
        }
        // RFC 5961 §4.2: whatever the sequence number, a challenge; a peer that lost its state answers with a
        // reset.
        if self.cold.allow(arrival.now, Provocation::Syn) {
            self.reply = Some(Reply::Ack);
            let again = arrival.start == self.rcv.irs() && self.has_believable_ack(arrival);
            if again {
                self.note_syn_again(arrival.codepoint);
            }
        }
        StepOutcome::Drop
    }
}
