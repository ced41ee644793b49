//! Vegas as it was distributed, in USC's NetBSD.
//!
//! L. Brakmo and L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE Journal
//! on Selected Areas in Communications 13(8), 1995, leaves open what their code decides. That code is not
//! public. USC's NetBSD carried it, and T. Kuo's agent of ns (`tcp/tcp-vegas.cc`, 1997), which says that it
//! follows USC's, was read for the rules below. [`Vegas`](super::Vegas) is the same algorithm for today's
//! receivers and paths.
//!
//! | point | here | [`Vegas`](super::Vegas) |
//! |---|---|---|
//! | round trip that is compared | the mean of a round's | the smallest |
//! | Diff | rounded to whole segments | in hundredths |
//! | Expected | what is in transit, over BaseRTT | the window, over BaseRTT |
//! | BaseRTT | of data; the last mean where a round sent one segment | of data, or of everything |
//! | leaving slow start | an eighth less | what is queued less, except for a segment |
//! | growth | 1/cwnd for each acknowledgement of a round | a segment at its start |
//! | loss | a quarter less, half if it was sent again before | half |
//! | timeout | two segments | one segment |
//!
//! Deviation: ns counts a window in segments, and so bytes are counted here by full segments.

use super::{Comparison, Thresholds};
use crate::congestion::round::{Rounds, per_second};
use crate::congestion::window::{Window, window_methods};
use crate::congestion::{
    About, Ack, Controller, Exception, IdleRestart, LossEpisode, Sent, Signal, Snapshot, Start, Timeout, Undo,
};
use crate::divide::{at_least_one, times};

/// The controller of USC's NetBSD-Vegas.
#[derive(Clone, Debug)]
pub struct VegasUsc {
    window: Window,
    thresholds: Thresholds,
    rounds: Rounds,
    /// The smallest round trip, in nanoseconds.
    base_rtt: u64,
    round: Round,
    growth: Growth,
    /// In slow start: whether the window doubles in this round.
    doubling: bool,
    /// The last comparison.
    compared: Comparison,
    /// The last two before the last reduction.
    prior: (Growth, bool),
}

/// The measurements of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// New bytes sent.
    sent: u64,
    /// The sum of the round trips measured, in nanoseconds, and their number.
    sum_ns: u64,
    samples: u64,
}

/// The growth with each acknowledgement of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Nothing,
    /// A segment: slow start.
    Segment,
    /// A segment's share of the window.
    Share,
}

impl VegasUsc {
    /// The name in the registry.
    pub const NAME: &'static str = "vegas-usc";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 1995,
        source: "USC's NetBSD-Vegas, after ns' tcp-vegas.cc; Brakmo and Peterson, IEEE JSAC 13(8)",
        signal: Signal::Delay,
        keeps_in_queue: "one to three segments",
        deviations: "counts bytes where ns counts segments; small acknowledgements count for what they \
                     acknowledge",
        exceptions: &[
            Exception {
                check: "halves on loss",
                why: "takes a quarter off for a loss, and half for a segment that was sent again before",
            },
            Exception {
                check: "restarts from one segment after a timeout",
                why: "restarts from two, so that a round trip can be compared",
            },
        ],
    };

    /// A controller for one connection, with thresholds of 1 and 3.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_thresholds(start, Thresholds::ONE_THREE)
    }

    /// A controller with other thresholds.
    #[must_use]
    pub fn with_thresholds(start: &Start, thresholds: Thresholds) -> Self {
        Self {
            window: Window::new(start),
            thresholds,
            rounds: Rounds::default(),
            base_rtt: u64::MAX,
            round: Round::default(),
            growth: Growth::Nothing,
            // The first acknowledgement, which has nothing to compare, counts as a round in ns.
            doubling: false,
            compared: Comparison::default(),
            prior: (Growth::Nothing, false),
        }
    }

    /// A round is over, with `in_transit` bytes in transit.
    fn on_round(&mut self, in_transit: u64) {
        let Round { sent, sum_ns, samples } = std::mem::take(&mut self.round);
        let Some(rtt) = sum_ns.checked_div(samples).filter(|rtt| *rtt > 0) else { return };
        if rtt < self.base_rtt || sent <= self.window.smss() {
            self.base_rtt = rtt;
        }
        let diff = self.compare(rtt, sent, in_transit);
        let Thresholds { alpha, beta, gamma, .. } = self.thresholds;
        if self.window.in_slow_start() {
            self.doubling = !self.doubling;
            if !self.doubling {
                self.growth = Growth::Nothing;
            } else if diff > gamma.into() {
                self.window.ease_by_an_eighth();
                self.growth = Growth::Nothing;
            } else {
                self.growth = Growth::Segment;
            }
        } else if diff > beta.into() {
            let smaller = self.window.cwnd().saturating_sub(self.window.smss());
            self.window.ease(smaller.max(self.window.segments(2)));
            self.growth = Growth::Nothing;
        } else {
            self.growth = if diff < alpha.into() { Growth::Share } else { Growth::Nothing };
        }
    }

    /// Expected less Actual, times BaseRTT, in segments.
    fn compare(&mut self, rtt: u64, sent: u64, in_transit: u64) -> u64 {
        let moved = times(sent, self.base_rtt, at_least_one(rtt)).unwrap_or(u64::MAX);
        let smss = self.window.smss();
        let diff = in_transit.saturating_sub(moved).saturating_add(smss / 2).checked_div(smss).unwrap_or(0);
        self.compared = Comparison {
            expected: per_second(in_transit, self.base_rtt),
            actual: per_second(sent, rtt),
            extra: diff.saturating_mul(100),
            number: self.compared.number.saturating_add(1),
        };
        diff
    }

    /// An acknowledgement of less than a segment counts for what it acknowledges, or a peer that sends
    /// many would gain by them.
    fn grow(&mut self, bytes_acked: u64) {
        if self.growth == Growth::Segment && !self.window.in_slow_start() {
            self.growth = Growth::Nothing;
        }
        let counted = bytes_acked.min(self.window.smss());
        match self.growth {
            Growth::Nothing => {}
            Growth::Segment => self.window.grow_by(counted),
            Growth::Share => {
                let share = self.window.smss().saturating_mul(counted) / at_least_one(self.window.cwnd());
                self.window.grow_by(share.max(1));
            }
        }
    }
}

impl Controller for VegasUsc {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_sent(&mut self, sent: &Sent) {
        if !sent.retransmission {
            self.round.sent = self.round.sent.saturating_add(sent.bytes);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.bytes_cumulative == 0 {
            return;
        }
        // The round trip of the acknowledgement that ends a round counts in the next one.
        if self.rounds.on_ack(ack) {
            // What was in transit, the segment that this acknowledgement has freed included.
            self.on_round(ack.in_flight.saturating_add(self.window.smss()));
        }
        // ns: not where more than two segments of the window are unused.
        if Window::may_grow(ack) {
            self.grow(ack.bytes_acked);
        }
        if let Some(rtt) = ack.rtt_ns {
            self.base_rtt = self.base_rtt.min(rtt);
            self.round.sum_ns = self.round.sum_ns.saturating_add(rtt);
            self.round.samples = self.round.samples.saturating_add(1);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.prior = (self.growth, self.doubling);
        let cwnd = self.window.cwnd();
        let left = if loss.repeated { cwnd / 2 } else { cwnd.saturating_sub(cwnd / 4) };
        self.window.reduce(left.max(self.window.segments(2)));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries <= 1 {
            self.prior = (self.growth, self.doubling);
        }
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
        self.window.set_cwnd(self.window.segments(2));
    }

    fn on_undo(&mut self, _: &Undo) {
        if self.window.undo() {
            (self.growth, self.doubling) = self.prior;
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.compared.snapshot(self.base_rtt, self.thresholds, self.doubling)
    }

    window_methods!();
}

ackclock_form::form! {
    struct VegasUsc { window, thresholds, rounds, base_rtt, round, growth, doubling, compared, prior }
    struct Round { sent, sum_ns, samples }
    enum Growth { 0 Nothing, 1 Segment, 2 Share }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;
    use crate::congestion::testing::{SMSS, START, ack, loss, timeout};

    /// A connection whose sender has always sent what the window allows.
    struct Flow {
        vegas: VegasUsc,
        delivered: u64,
        in_flight: u64,
    }

    impl Flow {
        /// A first window of `segments`, which is in transit.
        fn new(segments: u64) -> Self {
            let vegas = VegasUsc::new(&Start { initial_window: segments * SMSS, ..START });
            let mut flow = Self { vegas, delivered: 0, in_flight: 0 };
            flow.send();
            flow
        }

        /// A flow in congestion avoidance.
        fn steady(segments: u64) -> Self {
            let mut flow = Self::new(segments);
            flow.vegas.window.set_ssthresh(segments * SMSS);
            flow
        }

        fn send(&mut self) {
            while self.in_flight + SMSS <= self.vegas.cwnd() {
                self.in_flight += SMSS;
                let now = Instant::ZERO;
                self.vegas.on_sent(&Sent {
                    now,
                    bytes: SMSS,
                    in_flight: self.in_flight,
                    retransmission: false,
                });
            }
        }

        /// Acknowledges everything in transit, each segment after one of these times, in turn. Returns the
        /// window in segments.
        fn round(&mut self, rtts_ms: &[u64]) -> u64 {
            let prior_delivered = self.delivered;
            let segments = self.in_flight / SMSS;
            for (_, rtt_ms) in (0..segments).zip(rtts_ms.iter().cycle()) {
                self.delivered += SMSS;
                self.in_flight -= SMSS;
                let rtt_ns = Some(rtt_ms * 1_000_000);
                let (delivered, in_flight) = (self.delivered, self.in_flight);
                self.vegas.on_ack(&Ack { rtt_ns, delivered, prior_delivered, in_flight, ..ack(0, SMSS) });
                self.send();
            }
            self.vegas.cwnd() / SMSS
        }
    }

    #[test]
    fn slow_start_doubles_every_other_round() {
        let mut flow = Flow::new(2);
        let windows: Vec<u64> = (0..7).map(|_| flow.round(&[100])).collect();
        assert_eq!(windows, [2, 4, 4, 8, 8, 16, 16]);
    }

    /// 16 segments against 14.6 and 14.4 that a pipe without a queue would have carried in the time: Diff is
    /// 1.4 and 1.6, or 1 and 2.
    #[test]
    fn slow_start_ends_an_eighth_lower_when_diff_rounds_to_more_than_one() {
        for (rtt, expected) in [(109, (32, true)), (111, (14, false))] {
            let mut flow = Flow::new(16);
            flow.vegas.base_rtt = 100_000_000;
            flow.round(&[rtt]);
            let window = flow.round(&[rtt]);
            assert_eq!((window, flow.vegas.window.in_slow_start()), expected, "{rtt} ms");
        }
    }

    #[test]
    fn mean_round_trip_is_compared() {
        let grown = |rtts: &[u64]| {
            let mut flow = Flow::steady(10);
            flow.round(&[100]);
            flow.round(&[100]);
            flow.round(rtts);
            flow.round(&[100]);
            flow.vegas.compared.extra / 100
        };
        // Half of them at 100 and half at 180 ms are 140 in the mean: 10 - 10 * 100 / 140 = 2.9.
        assert_eq!(grown(&[100, 180]), 3);
        assert_eq!(grown(&[100]), 0);
    }

    #[test]
    fn diff_in_whole_segments_moves_the_window_by_one_in_a_round() {
        // 20 segments: Diff is 20 - 2000 / rtt.
        for (rtt, diff, window) in [(100, 0, 21), (102, 0, 21), (104, 1, 20), (120, 3, 20), (122, 4, 19)] {
            let mut flow = Flow::steady(20);
            flow.round(&[100]);
            flow.vegas.growth = Growth::Nothing;
            flow.vegas.window.set_cwnd(20 * SMSS);
            flow.round(&[rtt]);
            flow.vegas.growth = Growth::Nothing;
            flow.vegas.window.set_cwnd(20 * SMSS);
            let after = flow.round(&[rtt]);
            assert_eq!(flow.vegas.compared.extra / 100, diff, "{rtt} ms");
            // Twenty shares of a growing window are a little less than a segment.
            assert_eq!((after * SMSS).max(flow.vegas.cwnd() + 50) / SMSS, window, "{rtt} ms");
        }
    }

    #[test]
    fn round_of_one_segment_replaces_the_base() {
        for (segments, base_ms) in [(1, 300), (2, 100)] {
            let mut vegas = Flow::steady(2).vegas;
            vegas.base_rtt = 100_000_000;
            vegas.round = Round { sent: segments * SMSS, sum_ns: 300_000_000, samples: 1 };
            vegas.on_round(2 * SMSS);
            assert_eq!(vegas.base_rtt / 1_000_000, base_ms);
        }
    }

    #[test]
    fn loss_takes_a_quarter_and_of_a_segment_sent_again_half() {
        for (repeated, expected) in [(false, 15), (true, 10)] {
            let mut vegas = Flow::steady(20).vegas;
            vegas.on_loss_episode(&LossEpisode { repeated, ..loss(0, 20 * SMSS) });
            assert_eq!(vegas.cwnd() / SMSS, expected);
        }
        let mut vegas = Flow::steady(2).vegas;
        vegas.on_loss_episode(&loss(0, 2 * SMSS));
        assert_eq!(vegas.cwnd() / SMSS, 2);
    }

    #[test]
    fn timeout_leaves_two_segments_and_half_as_threshold() {
        let mut vegas = Flow::steady(20).vegas;
        vegas.on_timeout(&timeout(20 * SMSS, 1));
        assert_eq!((vegas.cwnd() / SMSS, vegas.ssthresh() / SMSS), (2, 10));
    }
}
