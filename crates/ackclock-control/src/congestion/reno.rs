//! Reno: slow start, congestion avoidance and halving.
//!
//! V. Jacobson, "Modified TCP Congestion Avoidance Algorithm", 1990; M. Allman, V. Paxson and E. Blanton,
//! "TCP Congestion Control", RFC 5681, 2009; bytes counted as in M. Allman, RFC 3465, 2003, with L = 2.
//!
//! This file only has the window. The recovery policy decides what is sent during an episode (inflation by
//! duplicate acknowledgements, RFC 5681 §3.2, or RFC 6675's pipe).

use super::window::{Counting, Window, window_methods};
use super::{About, Ack, Controller, IdleRestart, LossEpisode, Parameter, Signal, Start, Timeout, Undo};

/// The controller of RFC 5681.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
    counting: Counting,
}

impl Reno {
    /// The name in the registry.
    pub const NAME: &'static str = "reno";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 2009,
        source: "Allman, Paxson and Blanton, TCP Congestion Control, RFC 5681",
        signal: Signal::Loss,
        keeps_in_queue: "up to the whole buffer, half of the window after a loss",
        deviations: "none known; counts bytes as RFC 3465 with L = 2 unless count=acks",
        exceptions: &[],
    };

    pub(super) const PARAMETERS: &[Parameter] = &[Counting::Bytes.parameter()];

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_counting(start, Counting::Bytes)
    }

    /// A controller that counts acknowledgements this way.
    #[must_use]
    pub fn with_counting(start: &Start, counting: Counting) -> Self {
        Self { window: Window::new(start), counting }
    }
}

impl Controller for Reno {
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
        // RFC 5681 §3.2 (2)-(3); a mark is answered like a loss (RFC 3168 §6.1.2).
        self.window.reduce(self.window.half_of(loss.flight_size));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        self.window.undo();
    }

    window_methods!();
}

const _: () = assert!(size_of::<Reno>() <= 256);

ackclock_form::form! {
    struct Reno { window, counting }
}

#[cfg(test)]
mod tests {
    use super::Reno;
    use crate::Instant;
    use crate::congestion::testing::{SMSS, START, ack, idle, loss, timeout};
    use crate::congestion::{Ack, Controller, Undo};

    fn segments(reno: &Reno) -> u64 {
        reno.cwnd() / SMSS
    }

    /// Acknowledges a window, a segment at a time.
    fn round(reno: &mut Reno) {
        for _ in 0..segments(reno) {
            reno.on_ack(&ack(100, SMSS));
        }
    }

    #[test]
    fn slow_start_doubles_the_window_each_round() {
        // Tests: RFC 9293 MUST-19
        let mut reno = Reno::new(&START);
        let windows: Vec<u64> = (0..4)
            .map(|_| {
                round(&mut reno);
                segments(&reno)
            })
            .collect();
        assert_eq!(windows, [20, 40, 80, 160]);
    }

    #[test]
    fn loss_halves_what_is_in_flight_and_growth_becomes_one_segment_a_round() {
        // Tests: RFC 9293 MUST-19
        let mut reno = Reno::new(&START);
        round(&mut reno);
        reno.on_loss_episode(&loss(200, 20 * SMSS));
        assert_eq!((segments(&reno), reno.ssthresh()), (10, 10 * SMSS));
        let windows: Vec<u64> = (0..4)
            .map(|_| {
                round(&mut reno);
                segments(&reno)
            })
            .collect();
        assert_eq!(windows, [11, 12, 13, 14]);
    }

    #[test]
    fn timeout_restarts_with_one_segment_up_to_half() {
        // Tests: RFC 9293 MUST-19
        let mut reno = Reno::new(&START);
        reno.on_timeout(&timeout(10 * SMSS, 1));
        assert_eq!((segments(&reno), reno.ssthresh()), (1, 5 * SMSS));
        let windows: Vec<u64> = (0..4)
            .map(|_| {
                round(&mut reno);
                segments(&reno)
            })
            .collect();
        assert_eq!(windows, [2, 4, 5, 6]);
    }

    #[test]
    fn unused_window_does_not_grow() {
        let mut reno = Reno::new(&START);
        reno.on_ack(&Ack { cwnd_limited: false, ..ack(100, SMSS) });
        reno.on_ack(&Ack { in_recovery: true, ..ack(100, SMSS) });
        assert_eq!(reno.cwnd(), START.initial_window);
    }

    #[test]
    fn undo_restores_cwnd_and_ssthresh() {
        let mut reno = Reno::new(&START);
        reno.on_loss_episode(&loss(200, 10 * SMSS));
        reno.on_undo(&Undo { now: Instant::ZERO });
        assert_eq!((segments(&reno), reno.ssthresh()), (10, u64::MAX));
    }

    #[test]
    fn idle_restarts_from_the_restart_window() {
        let mut reno = Reno::new(&START);
        round(&mut reno);
        reno.on_idle_restart(&idle(10 * SMSS));
        assert_eq!(segments(&reno), 10);
    }
}
