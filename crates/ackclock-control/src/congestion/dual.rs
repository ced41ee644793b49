//! DUAL: Reno that gives up an eighth when the delay is above the middle of its range so far.
//!
//! Z. Wang and J. Crowcroft, "Eliminating Periodic Packet Losses in 4.3-Tahoe BSD TCP Congestion Control
//! Algorithm", ACM Computer Communication Review 22(2), 1992, as described by L. Brakmo and L. Peterson (IEEE
//! JSAC 13(8), 1995, §III-B).
//!
//! Deviations: the check also applies in slow start, and ends it. A round trip is the smallest measured
//! within it. Losses are answered as in Reno. As in 4.3BSD, an acknowledgement counts for one segment, unless
//! `count=bytes`.

use super::round::RoundTimes;
use super::snapshot::signed;
use super::window::{Counting, Window, window_methods};
use super::{
    About, Ack, Controller, IdleRestart, LossEpisode, Parameter, Signal, Snapshot, Start, Timeout, Undo,
};

/// The controller of 1992.
#[derive(Clone, Debug)]
pub struct Dual {
    window: Window,
    counting: Counting,
    rounds: RoundTimes,
    /// The smallest and the largest round trip so far, in nanoseconds. Each round contributes its smallest.
    rtt_min: u64,
    rtt_max: u64,
}

impl Dual {
    /// The name in the registry.
    pub const NAME: &'static str = "dual";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 1992,
        source: "Wang and Crowcroft, Eliminating Periodic Packet Losses in 4.3-Tahoe, ACM CCR 22(2)",
        signal: Signal::Delay,
        keeps_in_queue: "about half of the longest queue it has seen",
        deviations: "the check applies in slow start too; Reno on losses",
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
        Self {
            window: Window::new(start),
            counting,
            rounds: RoundTimes::new(),
            rtt_min: u64::MAX,
            rtt_max: 0,
        }
    }

    /// Every two round trips: is the delay above the average of the smallest and the largest?
    fn decide(&mut self, rtt: u64) {
        let middle = (self.rtt_min / 2).saturating_add(self.rtt_max / 2);
        if rtt > middle {
            self.window.ease_by_an_eighth();
        }
    }
}

impl Controller for Dual {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        let round = self.rounds.on_ack(ack);
        if let Some(Some(rtt)) = round {
            (self.rtt_min, self.rtt_max) = (self.rtt_min.min(rtt), self.rtt_max.max(rtt));
        }
        if !Window::may_grow(ack) {
            return;
        }
        self.window.grow(ack.bytes_acked, self.counting);
        if let (Some(Some(rtt)), true) = (round, self.rounds.count().is_multiple_of(2)) {
            self.decide(rtt);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.window.reduce(self.window.half_of(loss.flight_size));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        self.window.undo();
    }

    fn snapshot(&self) -> Snapshot {
        // Nothing has been measured while the largest is zero.
        let rtt_min = self.rtt_min.min(self.rtt_max);
        Snapshot::default()
            .with("rtt_min_us", signed(rtt_min / 1000))
            .with("rtt_max_us", signed(self.rtt_max / 1000))
    }

    window_methods!();
}

ackclock_form::form! {
    struct Dual { window, counting, rounds, rtt_min, rtt_max }
}

#[cfg(test)]
mod tests {
    use super::Dual;
    use crate::congestion::Controller;
    use crate::congestion::testing::{SMSS, START};

    fn with_rtts(rtt_min: u64, rtt_max: u64) -> Dual {
        let mut dual = Dual { rtt_min, rtt_max, ..Dual::new(&START) };
        dual.window.set_cwnd(16 * SMSS);
        dual
    }

    #[test]
    fn delay_above_the_middle_takes_an_eighth_and_ends_slow_start() {
        // Tests: V6
        let mut dual = with_rtts(100, 200);
        dual.decide(151);
        assert_eq!((dual.cwnd(), dual.ssthresh()), (14 * SMSS, 14 * SMSS));
    }

    #[test]
    fn delay_up_to_the_middle_changes_nothing() {
        let mut dual = with_rtts(100, 200);
        dual.decide(150);
        assert_eq!((dual.cwnd(), dual.ssthresh()), (16 * SMSS, u64::MAX));
    }
}
