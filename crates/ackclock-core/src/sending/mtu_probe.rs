//! A probe of the path's MTU in flight: one segment, larger than the others, which may be lost because of its
//! size.
//!
//! If only the probe is lost, its data is sent again at once and congestion control ignores the loss
//! (RFC 4821 §7.6.2). If anything else was found to be lost with it, or its retransmission is
//! lost, the loss counts as any other. So does a loss that the timer found (§7.6.3).
//!
//! With SACK the recovery policy finds the loss. Without it, a policy only knows that something is missing
//! after SND.UNA, and would begin an episode, take further duplicates for further losses of the first hole,
//! or wait for its timer. While SND.UNA waits for the probe, the policy is therefore not asked: the third
//! duplicate shows the loss, whatever the policy, and each duplicate lets as much follow as in fast recovery.
//! The first acknowledgement beyond the probe ends that. A peer that sends SACKs may answer many segments by
//! one acknowledgement, even if the policy does not use SACK: here what it reports counts as the duplicates
//! would.

use super::policy::LossFound;
use crate::position::Position;

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuProbe {
    start: Position,
    end: Position,
    /// The outcome so far. The probe may still be lost until `end` is acknowledged.
    outcome: ProbeOutcome,
    /// The loss of everything before this has been found and needs no answer.
    excused: Position,
}

impl MtuProbe {
    /// It left.
    pub fn new(start: Position, end: Position) -> Self {
        Self { start, end, outcome: ProbeOutcome::Arrived, excused: start }
    }

    /// Whether SND.UNA waits for it.
    pub fn holds(&self, una: Position) -> bool {
        self.start <= una && una < self.end
    }

    pub fn end(&self) -> Position {
        self.end
    }

    pub fn is_lost(&self) -> bool {
        self.outcome != ProbeOutcome::Arrived
    }

    /// The outcome, once known.
    pub fn outcome(&self, una: Position) -> Option<ProbeOutcome> {
        (self.end <= una).then_some(self.outcome)
    }

    /// It is lost, if it is still in flight, and is sent again, which needs no other answer.
    pub fn excuse(&mut self, una: Position) {
        if una < self.end {
            self.note_loss();
            self.excused = self.end;
        }
    }

    /// The retransmission timer expired: it is lost, if it is still in flight.
    pub fn time_out(&mut self, una: Position) {
        if una < self.end {
            self.outcome = ProbeOutcome::TimedOut;
        }
    }

    /// Whether a loss is that of the probe only, and so does not indicate congestion. `calm`: no episode is
    /// under way.
    pub fn is_lost_for_its_size(&mut self, found: &LossFound, una: Position, calm: bool) -> bool {
        if una >= self.end {
            return false;
        }
        if found.marked.bytes == 0 {
            // The policy still sees the hole.
            return calm && self.is_lost();
        }
        let span = found.marked.span.filter(|&(start, end)| self.excused <= start && end <= self.end);
        // The lost data may lie entirely before the probe.
        if found.marked.span.is_none_or(|(_, end)| end > self.start) {
            self.note_loss();
        }
        let Some((_, end)) = span else { return false };
        self.excused = end;
        calm
    }

    /// The timer stays what found it, if it did.
    fn note_loss(&mut self) {
        if self.outcome == ProbeOutcome::Arrived {
            self.outcome = ProbeOutcome::Lost;
        }
    }
}

/// The outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    Arrived,
    /// The data that followed showed the loss.
    Lost,
    /// The retransmission timer expired while it was in flight.
    TimedOut,
}

ackclock_form::form! {
    enum ProbeOutcome { 0 Arrived, 1 Lost, 2 TimedOut }
    struct MtuProbe { start, end, outcome, excused }
}
