//! Vegas*: Vegas whose slow start is paced at the bottleneck's rate and ends at its bandwidth.
//!
//! L. Brakmo and L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE Journal
//! on Selected Areas in Communications 13(8), 1995, §III-C (the experimental version) and fig. 11.
//!
//! The spacing of the acknowledgements of four segments gives the available bandwidth. The bandwidth times
//! BaseRTT is the threshold window. In slow start, what an acknowledgement adds to the window is not sent at
//! once, but spaced by that bandwidth, behind the acknowledgements still to come.
//!
//! Deviations: the pacing rate spaces the segments, instead of scheduled increments of the window; the same
//! segments leave at the same times. The paper does not say which estimate counts; here it is the largest of
//! the slow start.

use std::time::Duration;

use super::round::Rounds;
use super::snapshot::signed;
use super::vegas::{Thresholds, Vegas};
use super::{
    About, Ack, Controller, IdleRestart, LossEpisode, RecoveryEnd, Sent, Signal, Snapshot, Start, Timeout,
    Undo,
};
use crate::Instant;
use crate::divide::{SECOND, times};

/// Vegas with the experimental slow start.
#[derive(Clone, Debug)]
pub struct VegasStar {
    vegas: Vegas,
    rounds: Rounds,
    train: Train,
    /// The train and the bandwidth before the last timeout, until it is undone.
    prior: Option<(Train, u64)>,
    /// The available bandwidth in bytes a second; zero if unknown.
    bandwidth: u64,
}

/// The acknowledgements whose spacing is taken.
#[derive(Clone, Copy, Debug)]
struct Train {
    /// When the first of the four acknowledgements came, and the bytes acknowledged since.
    start: Instant,
    bytes: u64,
    acks: u32,
}

impl VegasStar {
    /// The name in the registry.
    pub const NAME: &'static str = "vegas-star";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 1995,
        source: "Brakmo and Peterson, TCP Vegas, IEEE JSAC 13(8), §III-C, Vegas*",
        signal: Signal::Delay,
        keeps_in_queue: "one to three segments",
        deviations: "paces instead of scheduling increments; takes the largest estimate",
        exceptions: &[],
    };

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_thresholds(start, Thresholds::ONE_THREE)
    }

    /// A controller with other thresholds.
    #[must_use]
    pub fn with_thresholds(start: &Start, thresholds: Thresholds) -> Self {
        Self {
            vegas: Vegas::with_thresholds(start, thresholds),
            rounds: Rounds::default(),
            train: Train { start: start.now, bytes: 0, acks: 0 },
            prior: None,
            bandwidth: 0,
        }
    }

    fn in_slow_start(&self) -> bool {
        self.vegas.cwnd() < self.vegas.ssthresh()
    }

    /// Takes the spacing of the first four acknowledgements of each round trip.
    fn measure(&mut self, ack: &Ack) {
        if self.rounds.on_ack(ack) {
            self.train = Train { start: ack.now, bytes: 0, acks: 1 };
            return;
        }
        let train = &mut self.train;
        if train.acks == 0 || train.acks >= TRAIN {
            return;
        }
        train.acks = train.acks.saturating_add(1);
        train.bytes = train.bytes.saturating_add(ack.bytes_acked);
        if train.acks == TRAIN {
            let estimate = bytes_per_second(train.bytes, ack.now.saturating_since(train.start));
            self.bandwidth = self.bandwidth.max(estimate.unwrap_or(0));
        }
    }

    /// The threshold window is the available bandwidth times BaseRTT.
    fn set_threshold(&mut self, rtt_min_ns: u64) {
        let window = times(self.bandwidth, rtt_min_ns, SECOND);
        if let (Some(window), true) = (window, self.bandwidth > 0) {
            self.vegas.set_threshold_window(window);
        }
    }
}

impl Controller for VegasStar {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.in_slow_start() && !ack.in_recovery {
            self.measure(ack);
            self.set_threshold(ack.rtt_min_ns);
        }
        self.vegas.on_ack(ack);
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.prior = None;
        self.vegas.on_loss_episode(loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries <= 1 {
            self.prior = Some((self.train, self.bandwidth));
        }
        self.train.acks = 0;
        self.bandwidth = 0;
        self.vegas.on_timeout(timeout);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.vegas.on_sent(sent);
    }

    fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        self.vegas.on_recovery_end(end);
    }

    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        self.vegas.on_idle_restart(idle);
    }

    fn on_undo(&mut self, undo: &Undo) {
        if let Some((train, bandwidth)) = self.prior.take() {
            // A train that has begun since goes on.
            if self.train.acks == 0 {
                self.train = train;
            }
            self.bandwidth = self.bandwidth.max(bandwidth);
        }
        self.vegas.on_undo(undo);
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.vegas.on_mss_change(smss);
    }

    fn limit_slow_start(&mut self, bytes: u64) {
        self.vegas.limit_slow_start(bytes);
    }

    fn cwnd(&self) -> u64 {
        self.vegas.cwnd()
    }

    fn ssthresh(&self) -> u64 {
        self.vegas.ssthresh()
    }

    fn pacing_rate(&self) -> Option<u64> {
        (self.bandwidth > 0 && self.in_slow_start()).then_some(self.bandwidth)
    }

    fn snapshot(&self) -> Snapshot {
        self.vegas.snapshot().with("bandwidth", signed(self.bandwidth))
    }
}

fn bytes_per_second(bytes: u64, time: Duration) -> Option<u64> {
    let rate = (u128::from(bytes) * 1_000_000_000).checked_div(time.as_nanos())?;
    u64::try_from(rate).ok()
}

/// Acknowledgements that give an estimate: "four segments" (§III-C).
const TRAIN: u32 = 4;

ackclock_form::form! {
    struct VegasStar { vegas, rounds, train, prior, bandwidth }
    struct Train { start, bytes, acks }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Ack, Start, Vegas, VegasStar};
    use crate::Instant;
    use crate::congestion::testing::ack;
    use crate::congestion::{Controller, described};
    use crate::kit::{Flow, Path};

    /// Fig. 11: 300 KB/s, 16 buffers, packets of 1.4 KB. From a window of five segments, doubling leads from
    /// 20, which the path carries, to 40, more than path and buffers hold: the step of the figure.
    const FIGURE_11: Path = Path {
        rate: 300_000,
        base_rtt: Duration::from_millis(100),
        buffer: 16 * 1400,
        mark_above: None,
        segments_per_ack: 1,
        smss: 1400,
    };

    fn start_up(make: fn(&super::Start) -> Box<dyn Controller>) -> Flow {
        let factory = described("vegas", Vegas::ABOUT, make);
        let mut flow = Flow::with_initial_window(factory.as_ref(), FIGURE_11, 5);
        flow.run(Duration::from_secs(4));
        flow
    }

    // No loss at 300 KB/s and 16 buffers, where Vegas loses.
    #[test]
    fn start_loses_nothing_where_vegas_does() {
        // Tests: V5
        let vegas = start_up(|start| Box::new(Vegas::new(start))).totals();
        let star = start_up(|start| Box::new(VegasStar::new(start))).totals();
        assert!(vegas.dropped > 0);
        assert_eq!(star.dropped, 0);
    }

    #[test]
    fn threshold_is_the_bandwidth_delay_product() {
        // Tests: V5
        let flow = start_up(|start| Box::new(VegasStar::new(start)));
        let ssthresh = flow.controller().ssthresh();
        let product = FIGURE_11.bandwidth_delay_product();
        assert!(ssthresh.abs_diff(product) < product / 5, "{ssthresh} is not {product}");
    }

    /// Slow start ends at its threshold: the spacing of what follows sets no other.
    #[test]
    fn threshold_that_is_reached_stays() {
        let start = Start { smss: 1000, initial_window: 10_000, now: Instant::ZERO };
        let after = |threshold: u64| {
            let mut star = VegasStar::new(&start);
            star.limit_slow_start(threshold);
            for number in 1..8 {
                // The first begins a round trip.
                let prior_delivered = number * 1000;
                star.on_ack(&Ack { prior_delivered, delivered: prior_delivered + 9000, ..ack(number, 1000) });
            }
            star.ssthresh()
        };
        assert_eq!(after(10_000), 10_000, "reached");
        assert_ne!(after(50_000), 50_000, "measured on the way");
    }

    #[test]
    fn path_is_used_after_the_start() {
        let mut flow = start_up(|start| Box::new(VegasStar::new(start)));
        let before = flow.totals().delivered;
        flow.run(Duration::from_secs(10));
        assert!(flow.totals().delivered - before > 2_800_000);
    }
}
