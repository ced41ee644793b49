//! TCP-Illinois: losses tell when to reduce, the queueing delay how much to grow and to reduce.
//!
//! S. Liu, T. Başar and R. Srikant, "TCP-Illinois: A loss- and delay-based congestion control algorithm for
//! high-speed networks", Performance Evaluation 65 (2008), pp. 417–440; first VALUETOOLS 2006. Of the paper
//! only abstract and introduction could be read. The formulas and constants are those of Linux's
//! `tcp_illinois.c`, of which S. Liu is an author, and ns-3's, which agrees with it.
//!
//! Deviations: growth counts acknowledged bytes.

use super::round::Rounds;
use super::snapshot::signed;
use super::window::{Remainder, SlowStart, Window, window_methods};
use super::{
    About, Ack, Controller, Exception, IdleRestart, LossEpisode, Parameter, Settings, Signal, Snapshot,
    Start, Timeout, Undo, Values,
};
use crate::InvalidParameter;
use crate::divide::{at_least_one, times};

/// The controller of the paper.
#[derive(Clone, Debug)]
pub struct Illinois {
    window: Window,
    thresholds: IllinoisThresholds,
    rounds: Rounds,
    growth: Remainder,
    /// The smallest and the largest round trip so far, in nanoseconds.
    base_rtt: u64,
    max_rtt: u64,
    /// The round trips measured in this round trip: their sum in nanoseconds, and their number.
    sum_rtt: u64,
    samples: u64,
    factors: Factors,
    /// The factors before the last timeout.
    prior: Option<Factors>,
}

/// How much the window grows and shrinks.
#[derive(Clone, Copy, Debug)]
struct Factors {
    /// Segments that a round trip adds, in thousandths.
    alpha: u64,
    /// The share of the window that a loss takes, in thousandths.
    beta: u64,
    /// Whether the delay was above d_1 since alpha was last at its largest, and for how many round trips in a
    /// row it has been below since.
    was_above: bool,
    rounds_below: u64,
}

/// When delay counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllinoisThresholds {
    /// W_thresh: a smaller window, in segments, grows and shrinks as Reno's.
    segments: u64,
    /// θ: round trips with little delay before alpha is at its largest again.
    rounds: u64,
}

impl Illinois {
    /// The name in the registry.
    pub const NAME: &'static str = "illinois";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 2008,
        source: "Liu, Başar and Srikant, TCP-Illinois, Performance Evaluation 65, 2008",
        signal: Signal::Delay,
        keeps_in_queue: "up to the whole buffer, half to seven eighths of the window after a loss",
        deviations: "the formulas are read from Linux's code; counts bytes",
        exceptions: &[Exception {
            check: "halves on loss",
            why: "where the queue is short, the loss did not come from it: an eighth less",
        }],
    };

    /// Its parameters in the registry's words.
    pub(super) const PARAMETERS: &[Parameter] = &[
        Parameter { name: "window", values: Values::Number(1, 1000), default: 15 },
        Parameter { name: "rounds", values: Values::Number(1, 1000), default: 5 },
    ];

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_thresholds(start, IllinoisThresholds::DEFAULT)
    }

    /// A controller with other thresholds.
    #[must_use]
    pub fn with_thresholds(start: &Start, thresholds: IllinoisThresholds) -> Self {
        Self {
            window: Window::new(start),
            thresholds,
            rounds: Rounds::default(),
            growth: Remainder::default(),
            base_rtt: u64::MAX,
            max_rtt: 0,
            sum_rtt: 0,
            samples: 0,
            factors: Factors { alpha: ALPHA_MAX, ..Factors::RENO },
            prior: None,
        }
    }

    /// Ends a round trip: alpha and beta from the mean delay within it.
    fn update(&mut self) {
        if self.window.cwnd() < self.window.segments(self.thresholds.segments) {
            (self.factors.alpha, self.factors.beta) = (ONE, BETA_MAX);
        } else if let Some(mean) = self.sum_rtt.checked_div(self.samples) {
            let most = self.max_rtt.saturating_sub(self.base_rtt);
            let delay = mean.saturating_sub(self.base_rtt);
            self.factors.alpha = self.alpha(delay, most);
            self.factors.beta = beta(delay, most);
        }
        (self.sum_rtt, self.samples) = (0, 0);
    }

    /// f_1: alpha for a mean delay d_a where the largest is d_m. Above d_1 it is κ_1 / (κ_2 + d_a), which is
    /// the largest alpha at d_1 and the smallest at d_m.
    fn alpha(&mut self, delay: u64, most: u64) -> u64 {
        let d_1 = most / 100;
        if delay > d_1 {
            (self.factors.was_above, self.factors.rounds_below) = (true, 0);
            let (delay, most) = (delay.saturating_sub(d_1), most.saturating_sub(d_1));
            let span = most.saturating_mul(ALPHA_MIN);
            let below = span.saturating_add(delay.saturating_mul(ALPHA_MAX - ALPHA_MIN));
            return times(ALPHA_MAX, span, at_least_one(below)).unwrap_or(ALPHA_MAX).max(ALPHA_MIN);
        }
        // One round trip with little delay may be chance.
        self.factors.rounds_below = self.factors.rounds_below.saturating_add(1);
        if self.factors.was_above && self.factors.rounds_below < self.thresholds.rounds {
            return self.factors.alpha;
        }
        (self.factors.was_above, self.factors.rounds_below) = (false, 0);
        ALPHA_MAX
    }
}

/// f_2: beta for a mean delay d_a where the largest is d_m: the smallest up to d_2, the largest from d_3 on,
/// and a line between.
fn beta(delay: u64, most: u64) -> u64 {
    let (d_2, d_3) = (most / 10, (most / 5).saturating_mul(4));
    if delay <= d_2 {
        return BETA_MIN;
    }
    let (beyond, width) = (delay.saturating_sub(d_2), d_3.saturating_sub(d_2));
    if beyond >= width {
        return BETA_MAX;
    }
    let share = times(BETA_MAX - BETA_MIN, beyond, at_least_one(width)).unwrap_or(0);
    BETA_MIN.saturating_add(share)
}

impl IllinoisThresholds {
    /// Linux's: 15 segments, 5 round trips.
    pub const DEFAULT: Self = Self { segments: 15, rounds: 5 };

    pub(super) fn from_settings(settings: &Settings) -> Result<Self, InvalidParameter> {
        let number = |name| settings.value(name).unsigned_abs();
        Ok(Self { segments: number("window"), rounds: number("rounds") })
    }
}

impl Factors {
    const RENO: Self = Self { alpha: ONE, beta: BETA_MAX, was_above: false, rounds_below: 0 };
}

impl Controller for Illinois {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt_ns {
            (self.base_rtt, self.max_rtt) = (self.base_rtt.min(rtt), self.max_rtt.max(rtt));
            self.sum_rtt = self.sum_rtt.saturating_add(rtt);
            self.samples = self.samples.saturating_add(1);
        }
        if self.rounds.on_ack(ack) {
            self.update();
        }
        if !Window::may_grow(ack) {
            return;
        }
        let mut bytes = ack.bytes_acked;
        if self.window.in_slow_start() {
            bytes = self.window.slow_start(bytes, SlowStart::Counted);
        }
        if !self.window.in_slow_start() {
            // W += alpha / W for each segment acknowledged.
            self.window.grow_in_thousandths(bytes, self.factors.alpha, &mut self.growth);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.prior = None;
        let flight_size = loss.flight_size.min(self.window.cwnd());
        let kept = ONE.saturating_sub(self.factors.beta);
        let reduced = flight_size.saturating_mul(kept) / ONE;
        self.window.reduce(reduced.max(self.window.segments(2)));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries <= 1 {
            self.prior = Some(self.factors);
        }
        self.factors = Factors::RENO;
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        if self.window.undo() {
            self.factors = self.prior.take().unwrap_or(self.factors);
        }
    }

    fn snapshot(&self) -> Snapshot {
        // Nothing has been measured while the largest is zero.
        let base_rtt = self.base_rtt.min(self.max_rtt);
        Snapshot::default()
            .with("alpha_thousandths", signed(self.factors.alpha))
            .with("beta_thousandths", signed(self.factors.beta))
            .with("base_rtt_us", signed(base_rtt / 1000))
            .with("max_rtt_us", signed(self.max_rtt / 1000))
    }

    window_methods!();
}

/// The unit of alpha and beta.
const ONE: u64 = 1000;
/// Bounds of alpha: 0.3 and 10 segments a round trip.
const ALPHA_MIN: u64 = 300;
const ALPHA_MAX: u64 = 10_000;
/// Bounds of beta: an eighth and a half.
const BETA_MIN: u64 = 125;
const BETA_MAX: u64 = 500;

ackclock_form::form! {
    struct Illinois {
        window, thresholds, rounds, growth, base_rtt, max_rtt, sum_rtt, samples, factors, prior
    }
    struct Factors { alpha, beta, was_above, rounds_below }
    struct IllinoisThresholds { segments, rounds }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Illinois, beta};
    use crate::congestion::testing::{SMSS, START, ack, loss, timeout};
    use crate::congestion::{Ack, Controller, Reno, Undo, described};
    use crate::kit::{Flow, Path};

    /// Illinois with this window, in congestion avoidance.
    fn with_window(segments: u64) -> Illinois {
        let mut illinois = Illinois::new(&START);
        illinois.window.set_cwnd(segments * SMSS);
        illinois.window.set_ssthresh(0);
        illinois
    }

    /// Ends round trips of these lengths.
    fn rounds(illinois: &mut Illinois, rtts_ms: &[u64]) {
        for &rtt_ms in rtts_ms {
            let rtt_ns = Some(rtt_ms * 1_000_000);
            illinois.on_ack(&Ack { rtt_ns, cwnd_limited: false, prior_delivered: u64::MAX, ..ack(0, SMSS) });
        }
    }

    #[test]
    fn alpha_falls_from_ten_to_three_tenths_as_the_queue_fills() {
        // d_m is 100 ms, d_1 one of them. At d_a of 50: 10 * 99 * 0.3 / (99 * 0.3 + 49 * 9.7) = 0.588.
        for (rtt, alpha) in [(200, 300), (150, 588), (110, 2538), (101, 10_000), (100, 10_000)] {
            let mut illinois = with_window(100);
            rounds(&mut illinois, &[100]);
            rounds(&mut illinois, &[200]);
            illinois.factors.was_above = false;
            rounds(&mut illinois, &[rtt]);
            assert_eq!(illinois.factors.alpha, alpha, "{rtt} ms");
        }
    }

    #[test]
    fn beta_rises_from_an_eighth_to_a_half_between_a_tenth_and_four_fifths_of_the_delay() {
        let betas = [0, 100, 450, 800, 1000].map(|delay| beta(delay, 1000));
        assert_eq!(betas, [125, 125, 312, 500, 500]);
        // Without any queue no loss comes from one.
        assert_eq!(beta(0, 0), 125);
    }

    #[test]
    fn alpha_is_at_its_largest_again_after_five_round_trips_with_little_delay() {
        let mut illinois = with_window(100);
        rounds(&mut illinois, &[100, 200]);
        assert_eq!(illinois.factors.alpha, 300);
        rounds(&mut illinois, &[100; 4]);
        assert_eq!(illinois.factors.alpha, 300);
        rounds(&mut illinois, &[100]);
        assert_eq!(illinois.factors.alpha, 10_000);
    }

    #[test]
    fn small_window_behaves_as_renos() {
        let mut illinois = with_window(14);
        rounds(&mut illinois, &[100, 101]);
        assert_eq!((illinois.factors.alpha, illinois.factors.beta), (1000, 500));
        illinois.on_loss_episode(&loss(0, 14 * SMSS));
        assert_eq!(illinois.cwnd(), 7 * SMSS);
    }

    #[test]
    fn loss_takes_beta_of_the_window() {
        for (rtt, kept) in [(100, 87_500), (145, 68_800), (200, 50_000)] {
            let mut illinois = with_window(100);
            rounds(&mut illinois, &[100, 200, rtt]);
            illinois.on_loss_episode(&loss(0, 100 * SMSS));
            assert_eq!(illinois.cwnd(), kept, "{rtt} ms");
        }
    }

    #[test]
    fn timeout_forgets_the_delay_and_its_undo_remembers_it() {
        let mut illinois = with_window(100);
        rounds(&mut illinois, &[100, 150]);
        let before = illinois.factors.alpha;
        illinois.on_timeout(&timeout(100 * SMSS, 1));
        assert_eq!((illinois.factors.alpha, illinois.factors.beta), (1000, 500));
        illinois.on_undo(&Undo { now: crate::Instant::ZERO });
        assert_eq!((illinois.factors.alpha, illinois.cwnd()), (before, 100 * SMSS));
    }

    #[test]
    fn alpha_follows_the_queue_of_a_path_and_fills_it_sooner_than_reno() {
        // 20 Mbit/s and 100 ms: 250 segments, and as many in the queue.
        let path = Path { rate: 2_500_000, buffer: 250_000, ..Path::TYPICAL };
        let illinois = described(Illinois::NAME, Illinois::ABOUT, |start| Box::new(Illinois::new(start)));
        let mut flow = Flow::new(illinois.as_ref(), path);
        let (mut lowest, mut highest) = (u64::MAX, 0);
        flow.run(Duration::from_secs(10));
        for _ in 0..3000 {
            flow.run(Duration::from_millis(100));
            let alpha = flow.controller().snapshot().iter().next().unwrap().1.unsigned_abs();
            (lowest, highest) = (lowest.min(alpha), highest.max(alpha));
        }
        assert!((300..=600).contains(&lowest), "{lowest}: the full queue slows growth");
        assert!((1000..=10_000).contains(&highest), "{highest}: an empty one allows it");
        let reno = described(Reno::NAME, Reno::ABOUT, |start| Box::new(Reno::new(start)));
        // 100 Mbit/s with a queue of a tenth.
        let shallow = Path { rate: 12_500_000, buffer: 125_000, ..path };
        let [ours, renos] = [illinois, reno].map(|factory| {
            let mut flow = Flow::new(factory.as_ref(), shallow);
            flow.run(Duration::from_secs(60));
            flow.totals().delivered * 100 / (60 * shallow.rate)
        });
        assert!((85..=100).contains(&ours) && ours > renos + 3, "{ours} % of the path, Reno {renos} %");
    }
}
