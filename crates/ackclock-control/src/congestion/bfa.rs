//! TCP-BFA: Reno that stops growing while round trips get longer.
//!
//! A. Awadallah and C. Rai, "TCP-BFA: Buffer Fill Avoidance", 1998, §3; the variants of its §6.
//!
//! The average of the round-trip time's signed deviation shows whether the path's queue fills. Above one
//! threshold the window is frozen; below the other it grows again as Reno's does. A loss or a timeout
//! unfreezes it. Round trips are measured in ticks of 10 ms. The coarse timeout of §3.1 is a preset of the
//! estimator ([`rtt`](crate::rtt)).
//!
//! §3.2 says that timestamps make the samples "more frequent": with `sample=acks` each acknowledgement gives
//! one, as in the FreeBSD 2.1.6 of §5. With `sample=rounds` the smallest round trip of each round is the
//! sample, which a burst and a delayed acknowledgement do not lengthen. With `sample=timed` it is that of the
//! one segment of each round that a BSD without timestamps, or ns, times: the first that is sent in it.
//!
//! §6 only names the variants; [`BfaConfig`] documents what is chosen for them.

use std::num::NonZeroU64;
use std::time::Duration;

use super::registered_name;
use super::round::RoundTimes;
use super::snapshot::signed;
use super::window::{Counting, Window, window_methods};
use super::{
    About, Ack, Controller, IdleRestart, LossEpisode, Parameter, Settings, Signal, Snapshot, Start, Timeout,
    Undo, Values,
};
use crate::InvalidParameter;
use crate::divide::{at_least_one, nearest_multiple};
use crate::time::nanos;

/// The controller of §3.
#[derive(Clone, Debug)]
pub struct Bfa {
    window: Window,
    config: BfaConfig,
    rounds: RoundTimes,
    /// Smoothed round-trip time and its signed deviation (§3.2), in nanoseconds; `None` before the first
    /// sample.
    srtt: Option<i64>,
    srv: i64,
    base_rtt: i64,
    /// The BFA flag (§3.3).
    avoiding: bool,
    /// The flag as it would be without the last reduction.
    prior_avoiding: bool,
}

/// The parameters of TCP-BFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfaConfig {
    /// The name in the registry.
    pub(super) name: &'static str,
    memory_quarters: u8,
    thresholds: BfaThresholds,
    tick: Duration,
    decreasing: bool,
    sampling: BfaSampling,
    counting: Counting,
}

/// Which round trips TCP-BFA measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BfaSampling {
    /// That of each acknowledgement, as timestamps give it.
    Acks,
    /// The smallest of each round.
    Rounds,
    /// That of the first segment sent in each round.
    Timed,
}

impl BfaConfig {
    /// The parameters in the registry's words.
    pub(super) const PARAMETERS: &[Parameter] = &[
        Parameter { name: "gain", values: Values::Words(&["0", "1/4", "1/2", "3/4"]), default: 2 },
        Parameter { name: "on", values: Values::Millis(1, 10_000), default: 10 },
        Parameter { name: "off", values: Values::Millis(-10_000, -1), default: -10 },
        Parameter { name: "tick", values: Values::Millis(1, 1000), default: 10 },
        Parameter { name: "thresholds", values: Values::Words(&["fixed", "path"]), default: 0 },
        Parameter { name: "decreasing", values: Values::Words(&["no", "yes"]), default: 0 },
        Parameter { name: "sample", values: Values::Words(&["acks", "rounds", "timed"]), default: 1 },
        Counting::Acks.parameter(),
    ];

    /// These parameters with another gain: the share of the signed deviation that each sample keeps (α_srv),
    /// in quarters, 0 to 3. The paper uses 2, or 3 for less reaction to noise.
    ///
    /// # Errors
    /// [`InvalidParameter`] for any other.
    pub fn with_memory_quarters(self, memory_quarters: u8) -> Result<Self, InvalidParameter> {
        if memory_quarters > 3 {
            return Err(InvalidParameter::new(
                format!("gain={memory_quarters}/4"),
                "it must be 0 to 3 quarters",
            ));
        }
        Ok(Self { memory_quarters, ..self })
    }

    /// These parameters with other thresholds for freezing the window and for letting it grow again.
    ///
    /// # Errors
    /// [`InvalidParameter`] if one is zero. §3.3: σ_on must be positive and σ_off negative, or a constant
    /// load would set or clear the flag.
    pub fn with_thresholds(self, thresholds: BfaThresholds) -> Result<Self, InvalidParameter> {
        if let BfaThresholds::Fixed { on_ms, off_ms } = thresholds
            && (on_ms == 0 || off_ms == 0)
        {
            let given = format!("on={on_ms}ms,off=-{off_ms}ms");
            return Err(InvalidParameter::new(given, "on must be at least 1ms, off at most -1ms"));
        }
        Ok(Self { thresholds, ..self })
    }

    /// These parameters with another tick for measuring round trips, 1 ms to 1 s.
    ///
    /// # Errors
    /// [`InvalidParameter`] for any other.
    pub fn with_tick(self, tick: Duration) -> Result<Self, InvalidParameter> {
        if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&tick) {
            return Err(InvalidParameter::new(format!("tick={tick:?}"), "it must be 1ms to 1000ms"));
        }
        Ok(Self { tick, ..self })
    }

    /// These parameters, decreasing or not (§6): above three times σ_on the window also shrinks, by an eighth
    /// once a round trip. The paper says "when the signed variance is very high"; three times and an eighth
    /// are this project's choice.
    #[must_use]
    pub fn with_decrease(self, decreasing: bool) -> Self {
        Self { decreasing, ..self }
    }

    /// These parameters with other round trips.
    #[must_use]
    pub fn with_sampling(self, sampling: BfaSampling) -> Self {
        Self { sampling, ..self }
    }

    /// These parameters with another count of acknowledgements for the growth of the window.
    #[must_use]
    pub fn with_counting(self, counting: Counting) -> Self {
        Self { counting, ..self }
    }

    pub(super) fn from_settings(settings: &Settings) -> Result<Self, InvalidParameter> {
        let magnitude = |name| u16::try_from(settings.value(name).unsigned_abs()).unwrap_or(0);
        let thresholds = match settings.value("thresholds") {
            0 => BfaThresholds::Fixed { on_ms: magnitude("on"), off_ms: magnitude("off") },
            _ => BfaThresholds::Path,
        };
        let sampling = match settings.value("sample") {
            0 => BfaSampling::Acks,
            1 => BfaSampling::Rounds,
            _ => BfaSampling::Timed,
        };
        Bfa::PAPER
            .with_memory_quarters(u8::try_from(magnitude("gain")).unwrap_or(u8::MAX))?
            .with_thresholds(thresholds)?
            .with_tick(Duration::from_millis(magnitude("tick").into()))
            .map(|config| config.with_decrease(settings.value("decreasing") == 1).with_sampling(sampling))
            .and_then(|config| Ok(config.with_counting(Counting::from_settings(settings)?)))
    }
}

/// The thresholds of TCP-BFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BfaThresholds {
    /// σ_on and -σ_off, in whole milliseconds: 10 and 10 in the paper.
    Fixed {
        /// Above this the window is frozen.
        on_ms: u16,
        /// Below minus this the window grows again.
        off_ms: u16,
    },
    /// §6, from the path: both are a sixteenth of the smallest round trip, and at least a tick. The fraction
    /// is this project's choice.
    Path,
}

impl Bfa {
    /// Its row in the table of controllers.
    pub const ABOUT: About = About {
        year: 1998,
        source: "Awadallah and Rai, TCP-BFA: Buffer Fill Avoidance",
        signal: Signal::Delay,
        keeps_in_queue: "what is there when growth is noticed",
        deviations: "measures the smallest of each round trip if sample=rounds",
        exceptions: &[],
    };
    /// [`GENTLE`](Self::GENTLE).
    pub const ABOUT_GENTLE: About = About {
        source: "Awadallah and Rai, TCP-BFA: Buffer Fill Avoidance, figs. 21 and 22, a gain of 3/4",
        ..Self::ABOUT
    };
    /// [`DECREASING`](Self::DECREASING).
    pub const ABOUT_DECREASING: About = About {
        source: "Awadallah and Rai, TCP-BFA: Buffer Fill Avoidance, §6, a window that also decreases",
        keeps_in_queue: "less than what is there when growth is noticed",
        deviations: "as bfa without parameters; a variant that the paper names in §6, its \
            numbers chosen here",
        ..Self::ABOUT
    };
    /// [`PATH`](Self::PATH).
    pub const ABOUT_PATH: About = About {
        source: "Awadallah and Rai, TCP-BFA: Buffer Fill Avoidance, §6, thresholds from the path",
        keeps_in_queue: Self::ABOUT.keeps_in_queue,
        ..Self::ABOUT_DECREASING
    };
    /// The paper's α_srv = 1/2 and thresholds of 10 ms, with what suits receivers that delay their
    /// acknowledgements.
    pub const PAPER: BfaConfig = BfaConfig {
        name: "bfa",
        memory_quarters: 2,
        thresholds: BfaThresholds::Fixed { on_ms: 10, off_ms: 10 },
        tick: Duration::from_millis(10),
        decreasing: false,
        sampling: BfaSampling::Rounds,
        counting: Counting::Acks,
    };
    /// α_srv = 3/4 (figs. 21 and 22).
    pub const GENTLE: BfaConfig = BfaConfig { name: "bfa-gentle", memory_quarters: 3, ..Self::PAPER };
    /// The decreasing variant of §6.
    pub const DECREASING: BfaConfig = BfaConfig { name: "bfa-decreasing", decreasing: true, ..Self::PAPER };
    /// Thresholds from the path (§6).
    pub const PATH: BfaConfig =
        BfaConfig { name: "bfa-path", thresholds: BfaThresholds::Path, ..Self::PAPER };

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start, config: BfaConfig) -> Self {
        Self {
            window: Window::new(start),
            config,
            rounds: RoundTimes::new(),
            srtt: None,
            srv: 0,
            base_rtt: i64::MAX,
            avoiding: false,
            prior_avoiding: false,
        }
    }

    fn measure(&mut self, rtt: Duration) {
        let rtt = self.in_ticks(rtt);
        self.base_rtt = self.base_rtt.min(rtt);
        let Some(srtt) = self.srtt else {
            self.srtt = Some(rtt);
            return;
        };
        // §3.2: δ = measured RTT - smoothed RTT; srv <- α_srv * srv + (1 - α_srv) * δ.
        let error = rtt.saturating_sub(srtt);
        let memory = i64::from(self.config.memory_quarters);
        let past = memory.saturating_mul(self.srv);
        let present = 4_i64.saturating_sub(memory).saturating_mul(error);
        self.srv = past.saturating_add(present) / 4;
        self.srtt = Some(srtt.saturating_add(error / 8));
        let (on, off) = self.thresholds();
        // §3.3, with hysteresis.
        for avoiding in [&mut self.avoiding, &mut self.prior_avoiding] {
            *avoiding = if *avoiding { self.srv > off } else { self.srv > on };
        }
    }

    /// σ_on and σ_off in nanoseconds.
    fn thresholds(&self) -> (i64, i64) {
        match self.config.thresholds {
            BfaThresholds::Fixed { on_ms, off_ms } => {
                (i64::from(on_ms).saturating_mul(MS), i64::from(off_ms).saturating_mul(-MS))
            }
            BfaThresholds::Path => {
                let sigma = (self.base_rtt / 16).max(signed(self.tick().get()));
                (sigma, sigma.saturating_neg())
            }
        }
    }

    fn tick(&self) -> NonZeroU64 {
        at_least_one(nanos(self.config.tick).min(RTT_MAX))
    }

    fn in_ticks(&self, rtt: Duration) -> i64 {
        signed(nearest_multiple(nanos(rtt).min(RTT_MAX), self.tick()))
    }

    fn shrink(&mut self) {
        let (on, _) = self.thresholds();
        if self.srv > on.saturating_mul(3) {
            self.window.ease_by_an_eighth();
        }
    }
}

impl Controller for Bfa {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        self.config.name
    }

    fn on_ack(&mut self, ack: &Ack) {
        // Within a burst each segment's round trip is longer than the last, which says nothing about the
        // standing queue, and an acknowledgement may have been delayed.
        let round = self.rounds.on_ack(ack);
        let sample = match self.config.sampling {
            BfaSampling::Acks => ack.rtt_ns,
            BfaSampling::Rounds => round.flatten(),
            BfaSampling::Timed => round.and(ack.rtt_ns),
        };
        if let Some(rtt) = sample {
            self.measure(Duration::from_nanos(rtt));
        }
        if !Window::may_grow(ack) {
            return;
        }
        if self.avoiding {
            // §3.3: in the BFA state the congestion window is held constant.
            if self.config.decreasing && round.is_some() {
                self.shrink();
            }
        } else {
            self.window.grow(ack.bytes_acked, self.config.counting);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        // §3.3: the flag is cleared whenever the window drops due to a timeout or a fast retransmit.
        self.prior_avoiding = std::mem::take(&mut self.avoiding);
        self.window.reduce(self.window.half_of(loss.flight_size));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries <= 1 {
            self.prior_avoiding = self.avoiding;
        }
        self.avoiding = false;
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        if self.window.undo() {
            self.avoiding = self.prior_avoiding;
        }
    }

    fn snapshot(&self) -> Snapshot {
        let (on, off) = if self.srtt.is_some() { self.thresholds() } else { (0, 0) };
        Snapshot::default()
            .with("srv_us", self.srv / 1000)
            .with("avoiding", i64::from(self.avoiding))
            .with("sigma_on_us", on / 1000)
            .with("sigma_off_us", off / 1000)
    }

    window_methods!();
}

const MS: i64 = 1_000_000;
/// Longer round trips count as this value: 78 hours.
const RTT_MAX: u64 = 1 << 48;

ackclock_form::form! {
    struct Bfa { window, config, rounds, srtt, srv, base_rtt, avoiding, prior_avoiding }
    struct BfaConfig {
        name as registered_name, memory_quarters, thresholds, tick, decreasing, sampling, counting
    }
    enum BfaSampling { 0 Acks, 1 Rounds, 2 Timed }
    enum BfaThresholds { 0 Fixed { on_ms, off_ms }, 1 Path }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bfa, BfaConfig, BfaSampling, BfaThresholds};
    use crate::congestion::testing::{SMSS, START, ack, loss, timeout};
    use crate::congestion::{Ack, Controller, described};
    use crate::kit::{Flow, Path};

    fn with(config: BfaConfig, rtts_ms: &[u64]) -> Bfa {
        let mut bfa = Bfa::new(&START, config);
        for &rtt in rtts_ms {
            let rtt_ns = Some(rtt * 1_000_000);
            bfa.on_ack(&Ack { rtt_ns, delivered: 0, cwnd_limited: false, ..ack(0, SMSS) });
        }
        bfa
    }

    #[test]
    fn signed_deviation_is_half_the_error_and_half_the_past() {
        // Tests: B1
        // Errors of 40 and, after the mean has moved by an eighth, 115: srv = 20, then 67.5.
        let bfa = with(Bfa::PAPER, &[100, 140, 220]);
        assert_eq!(bfa.srv, 67_500_000);
        // A quarter of the error: 10, then 36.25.
        assert_eq!(with(Bfa::GENTLE, &[100, 140, 220]).srv, 36_250_000);
    }

    #[test]
    fn samples_are_every_one_the_smallest_of_a_round_or_that_of_the_segment_timed_in_it() {
        let srv = |sampling| {
            let mut bfa = Bfa::new(&START, Bfa::PAPER.with_sampling(sampling));
            // A round, an acknowledgement within it, and the one that ends it.
            for (prior_delivered, delivered, rtt_ms) in [(0, 1000, 100), (500, 2000, 140), (1000, 3000, 200)]
            {
                let rtt_ns = Some(rtt_ms * 1_000_000);
                bfa.on_ack(&Ack { rtt_ns, prior_delivered, delivered, ..ack(0, SMSS) });
            }
            bfa.srv
        };
        // After 100 ms: errors of 40 and 95, of 40, of 100.
        assert_eq!(srv(BfaSampling::Acks), 57_500_000);
        assert_eq!(srv(BfaSampling::Rounds), 20_000_000);
        assert_eq!(srv(BfaSampling::Timed), 50_000_000);
    }

    #[test]
    fn flag_is_set_above_sigma_on_and_cleared_below_sigma_off() {
        // Tests: B2
        let states = |rtts: &[u64]| {
            (1..=rtts.len()).map(|n| with(Bfa::PAPER, &rtts[..n]).avoiding).collect::<Vec<_>>()
        };
        // srv: 0, 10 (not above 10), 19.4, 8.4 (not below -10), -21.3.
        assert_eq!(states(&[100, 120, 130, 100, 50]), [false, false, true, true, false]);
        // 0, 40, and -10, which is no longer above σ_off.
        assert_eq!(states(&[100, 180, 50]), [false, true, false]);
    }

    #[test]
    fn window_is_held_while_avoiding() {
        let mut bfa = with(Bfa::PAPER, &[100, 200]);
        bfa.on_ack(&Ack { rtt_ns: None, ..ack(0, SMSS) });
        assert_eq!(bfa.cwnd(), START.initial_window);
        bfa.on_loss_episode(&loss(0, 10 * SMSS));
        assert!(!bfa.avoiding, "a loss clears the flag");
    }

    #[test]
    fn timeout_and_loss_clear_the_flag() {
        // Tests: B2
        let avoiding = with(Bfa::PAPER, &[100, 200]);
        assert!(avoiding.avoiding);
        let (mut lost, mut expired) = (avoiding.clone(), avoiding);
        lost.on_loss_episode(&loss(0, 10 * SMSS));
        expired.on_timeout(&timeout(10 * SMSS, 1));
        assert!(!lost.avoiding && !expired.avoiding);
    }

    #[test]
    fn thresholds_and_ticks_are_parameters() {
        // Tests: B2
        let fixed = |on_ms, off_ms| Bfa::PAPER.with_thresholds(BfaThresholds::Fixed { on_ms, off_ms });
        // A round trip 60 ms longer: srv is 30 ms.
        assert!(with(fixed(29, 10).unwrap(), &[100, 160]).avoiding);
        assert!(!with(fixed(30, 10).unwrap(), &[100, 160]).avoiding);
        // Measured in ticks of 100 ms the round trip is as long as before; in ticks of 1 ms it is 44 ms
        // longer.
        assert_eq!(with(Bfa::PAPER.with_tick(Duration::from_millis(100)).unwrap(), &[100, 144]).srv, 0);
        assert_eq!(
            with(Bfa::PAPER.with_tick(Duration::from_millis(1)).unwrap(), &[100, 144]).srv,
            22_000_000
        );
        assert!(fixed(0, 10).is_err() && fixed(10, 0).is_err());
        assert!(Bfa::PAPER.with_tick(Duration::ZERO).is_err() && Bfa::PAPER.with_memory_quarters(4).is_err());
    }

    #[test]
    fn thresholds_from_the_path_grow_with_its_round_trip() {
        // Tests: B3
        // A sixteenth of 800 ms is 50 ms; srv is 45 ms, then 55.
        assert!(!with(Bfa::PATH, &[800, 890]).avoiding);
        assert!(with(Bfa::PATH, &[800, 910]).avoiding);
        // For 80 ms it would be 5 ms, but a tick is the minimum.
        assert!(!with(Bfa::PATH, &[80, 100]).avoiding);
        assert!(with(Bfa::PATH, &[80, 110]).avoiding);
    }

    #[test]
    fn decreasing_variant_gives_back_the_queue_that_the_paper_keeps() {
        // Tests: B3
        let queued = |config: BfaConfig| {
            let bfa = described(config.name, Bfa::ABOUT, move |start| Box::new(Bfa::new(start, config)));
            let mut flow = Flow::new(bfa.as_ref(), Path { buffer: 10_000_000, ..Path::TYPICAL });
            flow.run(Duration::from_secs(60));
            (flow.queue(), flow.totals().delivered)
        };
        let (paper, decreasing) = (queued(Bfa::PAPER), queued(Bfa::DECREASING));
        assert!(decreasing.0 < paper.0 * 3 / 4, "{decreasing:?} and {paper:?} bytes queued and delivered");
        assert!(decreasing.1 > paper.1 * 95 / 100, "{decreasing:?} and {paper:?} bytes queued and delivered");
    }

    #[test]
    fn ticks_hide_less_than_half_of_one() {
        // Tests: B2
        let bfa = with(Bfa::PAPER, &[100, 104, 96, 103]);
        assert_eq!(bfa.srv, 0);
    }

    #[test]
    fn decreasing_variant_shrinks_by_an_eighth() {
        // Tests: B3
        let mut bfa = with(Bfa::DECREASING, &[100, 200]);
        bfa.on_ack(&Ack { rtt_ns: None, delivered: 20 * SMSS, prior_delivered: 10 * SMSS, ..ack(0, SMSS) });
        assert_eq!(bfa.cwnd(), START.initial_window * 7 / 8);
    }

    // The queue of a slow link stays short, where Reno fills it (figs. 4 to 6).
    #[test]
    fn no_loss_on_a_slow_link_whatever_its_buffer() {
        // Tests: B2
        for buffer in [30, 60, 100] {
            let path = Path {
                rate: 8_000,
                base_rtt: Duration::from_millis(300),
                buffer: buffer * 1000,
                ..Path::TYPICAL
            };
            for config in [Bfa::PAPER, Bfa::GENTLE, Bfa::DECREASING, Bfa::PATH] {
                let bfa = described(config.name, Bfa::ABOUT, move |start| Box::new(Bfa::new(start, config)));
                let mut flow = Flow::with_initial_window(bfa.as_ref(), path, 1);
                flow.run(Duration::from_secs(400));
                assert_eq!(flow.totals().dropped, 0, "{} with {buffer} buffers", config.name);
                assert!(flow.totals().delivered > 350 * 8_000, "{}", config.name);
            }
        }
    }
}
