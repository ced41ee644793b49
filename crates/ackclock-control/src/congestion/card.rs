//! CARD: moves the window against the sign of the delay gradient, every other round trip.
//!
//! R. Jain, "A Delay-Based Approach for Congestion Avoidance in Interconnected Heterogeneous Computer
//! Networks", ACM Computer Communication Review 19(5), 1989, as described by L. Brakmo and L. Peterson (IEEE
//! JSAC 13(8), 1995, §III-B).
//!
//! Deviations: that description does not specify the start. Here slow start runs until the gradient is first
//! positive, and counts bytes (RFC 3465), so that it does not depend on how the peer divides its
//! acknowledgements. A round trip is the smallest measured within it. Losses are answered as in Reno.

use super::round::RoundTimes;
use super::snapshot::signed;
use super::window::{SlowStart, Window, window_methods};
use super::{About, Ack, Controller, IdleRestart, LossEpisode, Signal, Snapshot, Start, Timeout, Undo};

/// Congestion Avoidance using Round-trip Delay.
#[derive(Clone, Debug)]
pub struct Card {
    window: Window,
    rounds: RoundTimes,
    /// Window and round-trip time two round trips ago.
    old: Option<(u64, u64)>,
    /// `old` before the last reduction.
    prior_old: Option<(u64, u64)>,
}

impl Card {
    /// The name in the registry.
    pub const NAME: &'static str = "card";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 1989,
        source: "Jain, A Delay-Based Approach for Congestion Avoidance, ACM CCR 19(5)",
        signal: Signal::Delay,
        keeps_in_queue: "about one segment, oscillating",
        deviations: "slow start until the first positive gradient; Reno on losses",
        exceptions: &[],
    };

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self { window: Window::new(start), rounds: RoundTimes::new(), old: None, prior_old: None }
    }

    /// Every two round trips: the sign of (W - W_old) * (RTT - RTT_old).
    fn decide(&mut self, rtt: u64) {
        let cwnd = self.window.cwnd();
        let Some((old_cwnd, old_rtt)) = self.old.replace((cwnd, rtt)) else { return };
        let positive = (cwnd > old_cwnd && rtt > old_rtt) || (cwnd < old_cwnd && rtt < old_rtt);
        if positive {
            self.window.ease_by_an_eighth();
        } else if !self.window.in_slow_start() {
            self.window.grow_by(self.window.smss());
        }
    }
}

impl Controller for Card {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        let round = self.rounds.on_ack(ack);
        if !Window::may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            self.window.slow_start(ack.bytes_acked, SlowStart::Counted);
        }
        if let (Some(Some(rtt)), true) = (round, self.rounds.count().is_multiple_of(2)) {
            self.decide(rtt);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.prior_old = self.old.take();
        self.window.reduce(self.window.half_of(loss.flight_size));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries <= 1 {
            self.prior_old = self.old;
        }
        self.old = None;
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        if self.window.undo() {
            self.old = self.prior_old;
        }
    }

    fn snapshot(&self) -> Snapshot {
        let (window, rtt) = self.old.unwrap_or_default();
        Snapshot::default().with("window_old", signed(window)).with("rtt_old_us", signed(rtt / 1000))
    }

    window_methods!();
}

ackclock_form::form! {
    struct Card { window, rounds, old, prior_old }
}

#[cfg(test)]
mod tests {
    use super::Card;
    use crate::congestion::Controller;
    use crate::congestion::testing::{SMSS, START};

    fn after(windows_and_rtts: &[(u64, u64)]) -> u64 {
        let mut card = Card::new(&START);
        card.window.set_ssthresh(0);
        for &(segments, rtt_ms) in windows_and_rtts {
            card.window.set_cwnd(segments * SMSS);
            card.decide(rtt_ms * 1_000_000);
        }
        card.cwnd()
    }

    #[test]
    fn longer_delay_with_a_larger_window_takes_an_eighth() {
        // Tests: V6
        assert_eq!(after(&[(15, 100), (16, 110)]), 14 * SMSS);
    }

    #[test]
    fn shorter_delay_with_a_smaller_window_takes_an_eighth() {
        assert_eq!(after(&[(17, 110), (16, 100)]), 14 * SMSS);
    }

    #[test]
    fn no_gradient_adds_a_segment() {
        // Tests: V6
        assert_eq!(after(&[(15, 100), (16, 100)]), 17 * SMSS);
        assert_eq!(after(&[(17, 100), (16, 110)]), 17 * SMSS);
        assert_eq!(after(&[(16, 100), (16, 110)]), 17 * SMSS);
    }
}
