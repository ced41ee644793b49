//! Tri-S: grows while another segment still gains throughput.
//!
//! Z. Wang and J. Crowcroft, "A New Congestion Control Scheme: Slow Start and Search (Tri-S)", ACM Computer
//! Communication Review 21(1), 1991, as described by L. Brakmo and L. Peterson (IEEE JSAC 13(8), 1995,
//! §III-B).
//!
//! Deviations: a connection starts with more than one segment, so "the throughput achieved when only one
//! segment was in transit" is one segment per smallest round trip. Slow start lasts while the same test, per
//! segment added, succeeds. Losses are answered as in Reno.

use super::round::{Rounds, per_second};
use super::snapshot::signed;
use super::window::{SlowStart, Window, window_methods};
use super::{About, Ack, Controller, IdleRestart, LossEpisode, Signal, Snapshot, Start, Timeout, Undo};
use crate::divide::at_least_one;

/// Slow Start and Search.
#[derive(Clone, Debug)]
pub struct TriS {
    window: Window,
    rounds: Rounds,
    rtt_min: u64,
    /// The last two acknowledgements: what was outstanding when the segment was sent, and its round trip.
    latest: [(u64, u64); 2],
    /// Bytes outstanding and throughput (bytes a second) a round trip ago.
    old: Option<(u64, u64)>,
    /// `old` before the last reduction.
    prior_old: Option<(u64, u64)>,
}

impl TriS {
    /// The name in the registry.
    pub const NAME: &'static str = "tri-s";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 1991,
        source: "Wang and Crowcroft, Slow Start and Search (Tri-S), ACM CCR 21(1)",
        signal: Signal::Rate,
        keeps_in_queue: "about one segment, oscillating",
        deviations: "one segment's throughput is a segment per smallest round trip; Reno on losses",
        exceptions: &[],
    };

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self {
            window: Window::new(start),
            rounds: Rounds::default(),
            rtt_min: u64::MAX,
            latest: [(0, 0); 2],
            old: None,
            prior_old: None,
        }
    }

    /// Every round trip: tests what the segments added since the last one gained.
    fn decide(&mut self, outstanding: u64, rtt: u64) {
        // Throughput is the number of bytes outstanding divided by the round-trip time.
        let throughput = per_second(outstanding, rtt);
        let Some((old_outstanding, old_throughput)) = self.old.replace((outstanding, throughput)) else {
            return;
        };
        let (cwnd, smss) = (self.window.cwnd(), self.window.smss());
        let one_segment = per_second(smss, self.rtt_min);
        let added_segments = outstanding.saturating_sub(old_outstanding) / at_least_one(smss);
        let gain = throughput.saturating_sub(old_throughput) / at_least_one(added_segments);
        if outstanding > old_outstanding && gain < one_segment / 2 {
            self.window.ease(cwnd.saturating_sub(smss).max(self.window.segments(2)));
        } else if !self.window.in_slow_start() {
            self.window.grow_by(smss);
        }
    }
}

impl Controller for TriS {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        let round_begins = self.rounds.on_ack(ack);
        if round_begins && Window::may_grow(ack) {
            // The last segments of the round trip were sent with the whole window outstanding. Of two
            // acknowledgements, one was not delayed.
            let whole_window =
                self.latest.into_iter().filter(|&(_, rtt)| rtt > 0).min_by_key(|&(_, rtt)| rtt);
            if let Some((outstanding, rtt)) = whole_window {
                self.decide(outstanding, rtt);
            }
        }
        if let Some(rtt) = ack.rtt_ns {
            self.rtt_min = self.rtt_min.min(rtt);
            let [last, _] = self.latest;
            self.latest = [(ack.delivered.saturating_sub(ack.prior_delivered), rtt), last];
        }
        if !Window::may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            self.window.slow_start(ack.bytes_acked, SlowStart::PerAck);
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
        let (outstanding, throughput) = self.old.unwrap_or_default();
        let one_segment = per_second(self.window.smss(), self.rtt_min);
        Snapshot::default()
            .with("outstanding", signed(outstanding))
            .with("throughput_bytes_per_second", signed(throughput))
            .with("one_segment_bytes_per_second", signed(one_segment))
    }

    window_methods!();
}

ackclock_form::form! {
    struct TriS { window, rounds, rtt_min, latest, old, prior_old }
}

#[cfg(test)]
mod tests {
    use super::TriS;
    use crate::congestion::Controller;
    use crate::congestion::testing::{SMSS, START};

    /// Ten segments in flight at 100 ms, then eleven at `rtt_ms`.
    fn after_growth(rtt_ms: u64) -> u64 {
        let mut tri_s = TriS { rtt_min: 100_000_000, ..TriS::new(&START) };
        tri_s.window.set_ssthresh(0);
        tri_s.decide(10 * SMSS, 100_000_000);
        tri_s.window.set_cwnd(11 * SMSS);
        tri_s.decide(11 * SMSS, rtt_ms * 1_000_000);
        tri_s.cwnd()
    }

    #[test]
    fn throughput_that_grows_adds_a_segment() {
        // One segment alone gives 10 KB/s. The throughput goes from 100 to 110 KB/s.
        assert_eq!(after_growth(100), 12 * SMSS);
    }

    #[test]
    fn throughput_that_grows_by_less_than_half_takes_the_segment_back() {
        // Tests: V6
        // From 100 to 104.8 KB/s.
        assert_eq!(after_growth(105), 10 * SMSS);
        // To 105.8 KB/s: more than half of what one segment alone achieves.
        assert_eq!(after_growth(104), 12 * SMSS);
    }
}
