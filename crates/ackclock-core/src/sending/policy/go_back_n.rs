//! Go back N: the timer alone finds losses, and everything outstanding is sent again.
//!
//! The sender of 4.3BSD before 1988, whose SND.NXT returned to SND.UNA when the timer expired; V. Jacobson and
//! M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, figure 3, show what comes of it. Duplicate
//! acknowledgements mean nothing to it.
//!
//! Deviations: SND.NXT stays; what it would have come back to counts as lost, which sends the same.

use super::{Evidence, LossFound, Policy};

#[derive(Debug)]
pub(in crate::sending) struct GoBackN;

impl Policy for GoBackN {
    fn on_ack(&mut self, _: &mut Evidence<'_>) -> Option<LossFound> {
        None
    }
}
