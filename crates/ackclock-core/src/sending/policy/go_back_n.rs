//! Go back N: only the timer finds losses, and everything outstanding is retransmitted.
//!
//! This is the sender of 4.3BSD before 1988, whose SND.NXT returned to SND.UNA when the timer expired. V.
//! Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, figure 3, show the result. It
//! ignores duplicate acknowledgements.
//!
//! Deviations: SND.NXT stays; the data that it would have returned to counts as lost, which sends the same.

use super::{Evidence, LossFound, Policy};

#[derive(Debug)]
pub(in crate::sending) struct GoBackN;

impl Policy for GoBackN {
    fn on_ack(&mut self, _: &mut Evidence<'_>) -> Option<LossFound> {
        None
    }
}

ackclock_form::form! {
    struct GoBackN {}
}
