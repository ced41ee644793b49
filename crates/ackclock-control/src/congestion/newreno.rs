//! NewReno's window: Reno's, without a burst at the end of an episode.
//!
//! T. Henderson, S. Floyd, A. Gurtov and Y. Nishida, "The NewReno Modification to TCP's Fast Recovery
//! Algorithm", RFC 6582, 2012. NewReno is known for staying in recovery until everything outstanding at its
//! start is acknowledged, and for retransmitting a hole on each partial acknowledgement. The recovery policy
//! does that, and also inflates and deflates the window.
//!
//! The window grows by acknowledgements, as in RFC 2581 when NewReno was new, unless `count=bytes`.

use super::window::{Counting, Window, window_methods};
use super::{
    About, Ack, Controller, IdleRestart, LossEpisode, Parameter, RecoveryEnd, Signal, Start, Timeout, Undo,
};

/// The controller of RFC 6582.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: Window,
    counting: Counting,
}

impl NewReno {
    /// The name in the registry.
    pub const NAME: &'static str = "newreno";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 1999,
        source: "Henderson, Floyd, Gurtov and Nishida, NewReno, RFC 6582 (first RFC 2582)",
        signal: Signal::Loss,
        keeps_in_queue: "up to the whole buffer, half of the window after a loss",
        deviations: "none known; counts acknowledgements, as RFC 2581 did, unless count=bytes",
        exceptions: &[],
    };

    pub(super) const PARAMETERS: &[Parameter] = &[Counting::Acks.parameter()];

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_counting(start, Counting::Acks)
    }

    /// A controller that counts acknowledgements this way.
    #[must_use]
    pub fn with_counting(start: &Start, counting: Counting) -> Self {
        Self { window: Window::new(start), counting }
    }
}

impl Controller for NewReno {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        if Window::may_grow(ack) {
            self.window.grow(ack.bytes_acked, self.counting);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        // RFC 6582 §3.2 (2): ssthresh as in RFC 5681.
        self.window.reduce(self.window.half_of(loss.flight_size));
    }

    fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        // RFC 6582 §3.2 (3), full acknowledgement: cwnd = min (ssthresh, max(FlightSize, SMSS) + SMSS), to
        // prevent a burst when little is in flight.
        let smss = self.window.smss();
        let cwnd = end.in_flight.max(smss).saturating_add(smss);
        self.window.set_cwnd(self.window.cwnd().min(cwnd));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        self.window.undo();
    }

    window_methods!();
}

ackclock_form::form! {
    struct NewReno { window, counting }
}

#[cfg(test)]
mod tests {
    use super::NewReno;
    use crate::Instant;
    use crate::congestion::testing::{SMSS, START, loss};
    use crate::congestion::{Controller, RecoveryEnd};

    #[test]
    fn little_in_flight_at_the_end_of_recovery_becomes_no_burst() {
        let mut newreno = NewReno::new(&START);
        newreno.on_loss_episode(&loss(100, 10 * SMSS));
        assert_eq!(newreno.cwnd(), 5 * SMSS);
        newreno.on_recovery_end(&RecoveryEnd {
            now: Instant::ZERO,
            in_flight: SMSS,
            delivered: 0,
            inflation: 0,
        });
        assert_eq!((newreno.cwnd(), newreno.ssthresh()), (2 * SMSS, 5 * SMSS));
    }

    #[test]
    fn full_pipe_at_the_end_of_recovery_keeps_ssthresh() {
        let mut newreno = NewReno::new(&START);
        newreno.on_loss_episode(&loss(100, 10 * SMSS));
        newreno.on_recovery_end(&RecoveryEnd {
            now: Instant::ZERO,
            in_flight: 5 * SMSS,
            delivered: 0,
            inflation: 0,
        });
        assert_eq!(newreno.cwnd(), 5 * SMSS);
    }
}
