//! Tahoe: after every loss one segment, slow start, congestion avoidance.
//!
//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, §1, §3 and Appendix B, with
//! the fast retransmit of 4.3BSD-Tahoe. The recovery policy does the retransmission; here it begins an
//! episode.
//!
//! Deviations: the window grows by whole segments, once enough acknowledgements have come to make one
//! (Appendix B adds 1/cwnd for each). An acknowledgement of less than a segment counts for what it
//! acknowledges.

use super::window::{SlowStart, Window, window_methods};
use super::{About, Ack, Controller, Exception, IdleRestart, LossEpisode, Signal, Start, Timeout, Undo};

/// The controller of 1988.
#[derive(Clone, Debug)]
pub struct Tahoe {
    window: Window,
}

impl Tahoe {
    /// The name in the registry.
    pub const NAME: &'static str = "tahoe";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 1988,
        source: "Jacobson and Karels, Congestion Avoidance and Control, SIGCOMM 1988",
        signal: Signal::Loss,
        keeps_in_queue: "up to the whole buffer, nothing after a loss",
        deviations: "grows by whole segments; small acknowledgements count for what they acknowledge",
        exceptions: &[
            Exception {
                check: "does not grow in recovery",
                why: "it has no recovery: after a loss it starts from one segment at once",
            },
            Exception {
                check: "keeps ssthresh at a second expiry",
                why: "halves the window of the moment at each, as Appendix B says",
            },
        ],
    };

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self { window: Window::new(start) }
    }
}

impl Controller for Tahoe {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        if !ack.cwnd_limited || ack.bytes_cumulative == 0 {
            return;
        }
        // Appendix B: if (cwnd < ssthresh) cwnd += 1; else cwnd += 1/cwnd.
        if self.window.in_slow_start() {
            self.window.slow_start(ack.bytes_acked, SlowStart::PerAck);
        } else {
            self.window.reno_step(ack.bytes_acked.min(self.window.smss()));
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        // Appendix B: half the current window is recorded in ssthresh, then cwnd is set to one packet.
        self.window.reduce(self.window.half_of(loss.flight_size));
        self.window.set_cwnd(self.window.smss());
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let half = self.window.half_of(timeout.flight_size);
        self.window.collapse(timeout, half);
        // Appendix B: half of the current window at every timeout. The exception of RFC 5681 §3.1 for a
        // segment that the timer has sent again is of 2009.
        self.window.set_ssthresh(half);
    }

    fn on_undo(&mut self, _: &Undo) {
        self.window.undo();
    }

    window_methods!();
}

ackclock_form::form! {
    struct Tahoe { window }
}

#[cfg(test)]
mod tests {
    use super::Tahoe;
    use crate::congestion::Controller;
    use crate::congestion::testing::{SMSS, START, ack, loss};

    #[test]
    fn third_duplicate_restarts_from_one_segment() {
        // Tests: J8
        let mut tahoe = Tahoe::new(&START);
        tahoe.on_loss_episode(&loss(100, 10 * SMSS));
        assert_eq!((tahoe.cwnd(), tahoe.ssthresh()), (SMSS, 5 * SMSS));
    }

    #[test]
    fn window_opens_to_half_exponentially_and_then_by_a_segment_a_round() {
        // Tests: J4, J7
        let mut tahoe = Tahoe::new(&START);
        tahoe.on_loss_episode(&loss(100, 10 * SMSS));
        let windows: Vec<u64> = (0..6)
            .map(|_| {
                (0..tahoe.cwnd() / SMSS).for_each(|_| tahoe.on_ack(&ack(200, SMSS)));
                tahoe.cwnd() / SMSS
            })
            .collect();
        assert_eq!(windows, [2, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn delayed_acknowledgements_halve_the_growth() {
        let mut tahoe = Tahoe::new(&START);
        (0..5).for_each(|_| tahoe.on_ack(&ack(200, 2 * SMSS)));
        assert_eq!(tahoe.cwnd(), 15 * SMSS);
    }
}
