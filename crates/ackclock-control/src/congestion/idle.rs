//! Shrinks an unused window: after a pause, or when the application sends little.

use std::time::Duration;

use super::round::Rounds;
use super::{Ack, Controller, IdleRestart, LossEpisode, Start};
use crate::time::nanos;
use crate::{Instant, InvalidParameter};

/// The window after nothing was sent for longer than a retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdlePolicy {
    /// It stays.
    Keep,
    /// Slow start from one segment (Jacobson and Karels 1988, Appendix C).
    OneSegment,
    /// The restart window, min(IW, cwnd) (RFC 5681 §4.1).
    RestartWindow,
    /// The window stays for five minutes and is then halved (RFC 7661 §4.4). Use it with [`Validation`] and
    /// pacing, because a kept window would leave in one burst.
    Validated,
}

impl IdlePolicy {
    /// All policies with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("validated", Self::Validated),
        ("restart-window", Self::RestartWindow),
        ("one-segment", Self::OneSegment),
        ("keep", Self::Keep),
    ];

    /// The name under which it is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, policy)| *policy == self).map_or("unknown", |(name, _)| name)
    }

    /// One line on what the policy does, and where it is described.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Keep => "the window stays",
            Self::OneSegment => "slow start from one segment (Jacobson and Karels 1988, Appendix C)",
            Self::RestartWindow => "at most the initial window (RFC 5681 §4.1)",
            Self::Validated => "the window stays for five minutes and is then halved (RFC 7661 §4.4)",
        }
    }

    /// Finds a policy by name.
    ///
    /// # Errors
    /// [`InvalidParameter`]; its message lists the names.
    pub fn find(name: &str) -> Result<Self, InvalidParameter> {
        let found = Self::ALL.iter().find(|(valid, _)| *valid == name).map(|(_, policy)| *policy);
        found.ok_or_else(|| InvalidParameter::new(name, IDLE_VALID))
    }

    /// The window to restart with, as in [`IdleRestart::restart_window`]. If it is not below `cwnd`, the
    /// window stays, and the controller only learns that time has passed, which CUBIC's curve must not count.
    #[must_use]
    pub fn restart_window(self, idle: Duration, cwnd: u64, initial_window: u64, smss: u64) -> u64 {
        match self {
            Self::Keep => cwnd,
            Self::OneSegment => smss,
            // RFC 5681 §4.1: RW = min(IW, cwnd).
            Self::RestartWindow => initial_window.min(cwnd),
            Self::Validated if idle <= NON_VALIDATED_MAX => cwnd,
            Self::Validated => (cwnd / 2).max(initial_window).min(cwnd),
        }
    }
}

/// Validates the window of one connection by its use. It sees every event before the controller.
///
/// G. Fairhurst, A. Sathiaseelan and R. Secchi, "Updating TCP to Support Rate-Limited Traffic", RFC 7661,
/// 2015. A window less than half used in the recent past is not validated. It does not grow (here an unused
/// window never grows), a loss is answered by what was really in the pipe, and after five minutes the window
/// is halved.
///
/// Deviations: the samples of pipeACK come from the present and the last period. Retransmitted data is not
/// taken off the window when recovery ends (R of §4.4.1), because the recovery policy knows it. When the
/// window is halved, ssthresh stays (§4.4.3 raises it to 3/4 of the window).
#[derive(Debug)]
pub struct Validation {
    initial_window: u64,
    rounds: Rounds,
    acked_in_round: u64,
    /// The largest pipeACK samples of this period and of the one before.
    pipe_ack: [Option<u64>; 2],
    period_start: Instant,
    /// When the window was last validated, or reduced because it was not.
    validated_at: Instant,
}

impl Validation {
    /// Validates a window from now on. [`Start::initial_window`] is the window that the connection began
    /// with; until the window exceeds it, there is nothing to validate.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self {
            initial_window: start.initial_window,
            rounds: Rounds::default(),
            acked_in_round: 0,
            pipe_ack: [None, None],
            period_start: start.now,
            validated_at: start.now,
        }
    }

    /// Takes an acknowledgement before `controller` does.
    pub fn before_ack(&mut self, controller: &mut dyn Controller, ack: &Ack) {
        self.measure(ack);
        let cwnd = controller.cwnd();
        if self.is_validated(cwnd) {
            self.validated_at = ack.now;
        } else if ack.now.saturating_since(self.validated_at) > NON_VALIDATED_MAX {
            // RFC 7661 §4.4.3: cwnd = max(cwnd/2, IW).
            let restart_window = (cwnd / 2).max(self.initial_window);
            let (now, idle, rto) = (ack.now, NON_VALIDATED_MAX, Duration::from_nanos(ack.srtt_ns));
            controller.on_idle_restart(&IdleRestart { now, idle, rto, restart_window });
            self.validated_at = ack.now;
        }
    }

    /// The loss episode as `controller` should see it.
    #[must_use]
    pub fn as_used(&self, controller: &dyn Controller, loss: LossEpisode) -> LossEpisode {
        let cwnd = controller.cwnd();
        let used = if !self.is_validated(cwnd) {
            // RFC 7661 §4.4.1: the reduction is from Max(pipeACK, LossFlightSize), not from an unused window.
            self.pipe_ack().unwrap_or(u64::MAX).max(loss.flight_size).min(cwnd)
        } else if controller.reduces_window() {
            cwnd
        } else {
            loss.flight_size
        };
        LossEpisode { flight_size: used, ..loss }
    }

    /// RFC 7661 §4.2: pipeACK, the volume acknowledged in a round trip; `None` while it is undefined.
    fn pipe_ack(&self) -> Option<u64> {
        let [current, previous] = self.pipe_ack;
        current.max(previous)
    }

    /// RFC 7661 §4.3: validated while pipeACK is at least half of cwnd, or undefined.
    fn is_validated(&self, cwnd: u64) -> bool {
        self.pipe_ack().is_none_or(|pipe_ack| pipe_ack >= cwnd / 2)
    }

    fn measure(&mut self, ack: &Ack) {
        if self.rounds.on_ack(ack) && self.rounds.count() > 1 {
            // RFC 7661 §4.2: the sampling period is max(3*RTT, 1 second).
            let period = ack.srtt_ns.saturating_mul(3).max(1_000_000_000);
            let [current, _] = self.pipe_ack;
            if nanos(ack.now.saturating_since(self.period_start)) >= period {
                self.pipe_ack = [None, current];
                self.period_start = ack.now;
            }
            let [current, _] = &mut self.pipe_ack;
            *current = (*current).max(Some(self.acked_in_round));
            self.acked_in_round = 0;
        }
        self.acked_in_round = self.acked_in_round.saturating_add(ack.bytes_acked);
    }
}

const IDLE_VALID: &str = "for idleness, choose validated, restart-window, one-segment or keep";

/// RFC 7661 §4.4: the non-validated period lasts five minutes.
const NON_VALIDATED_MAX: Duration = Duration::from_secs(300);

ackclock_form::form! {
    enum IdlePolicy { 0 Keep, 1 OneSegment, 2 RestartWindow, 3 Validated }
    struct Validation { initial_window, rounds, acked_in_round, pipe_ack, period_start, validated_at }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{IdlePolicy, Validation};
    use crate::congestion::layer::{Layer, layered};
    use crate::congestion::testing::{SMSS, START, ack, loss};
    use crate::congestion::{Ack, Controller, ControllerFactory, LossEpisode, Registry};
    use crate::kit::examine;

    impl Layer for Validation {
        fn on_ack(&mut self, inner: &mut dyn Controller, ack: &Ack) {
            self.before_ack(inner, ack);
            inner.on_ack(ack);
        }

        fn on_loss_episode(&mut self, inner: &mut dyn Controller, loss: &LossEpisode) {
            inner.on_loss_episode(&self.as_used(inner, *loss));
        }
    }

    fn validated(inner: Arc<dyn ControllerFactory>) -> Arc<dyn ControllerFactory> {
        layered(inner, Validation::new)
    }

    /// A validated controller after its window was fully used, and then `segments` a round trip for this
    /// long.
    fn after_little_use(name: &str, segments: u64, seconds: u64) -> (Box<dyn Controller>, u64) {
        let mut controller = validated(Registry::builtin().find(name).unwrap()).create(&START);
        let (mut delivered, mut now_ms) = (0, 0);
        let mut round = |controller: &mut dyn Controller, segments: u64, cwnd_limited: bool| {
            now_ms += 100;
            let prior_delivered = delivered;
            for _ in 0..segments {
                delivered += SMSS;
                controller.on_ack(&Ack { delivered, prior_delivered, cwnd_limited, ..ack(now_ms, SMSS) });
            }
        };
        for _ in 0..3 {
            let segments = controller.cwnd() / SMSS;
            round(controller.as_mut(), segments, true);
        }
        let full = controller.cwnd();
        for _ in 0..seconds * 10 {
            round(controller.as_mut(), segments, false);
        }
        (controller, full)
    }

    #[test]
    fn policies_differ_in_the_restart_window() {
        // Tests: J9
        // Tests: RFC 9293 MUST-19
        let minute = Duration::from_secs(60);
        let window = |policy: IdlePolicy, idle| policy.restart_window(idle, 100 * SMSS, 10 * SMSS, SMSS);
        assert_eq!(window(IdlePolicy::Keep, minute), 100 * SMSS);
        assert_eq!(window(IdlePolicy::OneSegment, minute), SMSS);
        assert_eq!(window(IdlePolicy::RestartWindow, minute), 10 * SMSS);
        assert_eq!(window(IdlePolicy::Validated, minute), 100 * SMSS);
        assert_eq!(window(IdlePolicy::Validated, 6 * minute), 50 * SMSS);
    }

    #[test]
    fn window_that_is_not_used_stays_for_five_minutes_and_is_halved() {
        let (controller, full) = after_little_use("reno", 5, 290);
        assert_eq!(controller.cwnd(), full);
        let (controller, full) = after_little_use("reno", 5, 310);
        assert_eq!(controller.cwnd(), full / 2);
        let (controller, _) = after_little_use("reno", 5, 3600);
        assert_eq!(controller.cwnd(), 10 * SMSS, "never below the initial window");
    }

    #[test]
    fn window_that_is_half_used_stays() {
        let (controller, full) = after_little_use("reno", 41, 1000);
        assert_eq!((controller.cwnd(), full), (80 * SMSS, 80 * SMSS));
    }

    #[test]
    fn loss_in_an_unused_window_is_answered_by_what_was_used() {
        let (mut controller, _) = after_little_use("reno", 8, 100);
        controller.on_loss_episode(&loss(200_000, 3 * SMSS));
        assert_eq!(
            controller.cwnd(),
            4 * SMSS,
            "half of the eight segments of a round trip, not of the three in flight"
        );
    }

    #[test]
    fn window_half_used_is_reduced_itself_and_one_used_less_is_not() {
        let after_loss = |used: u64| {
            let (mut controller, cwnd) = after_little_use("cubic", used, 100);
            controller.on_loss_episode(&loss(200_000, 3 * SMSS));
            assert_eq!(cwnd, 80 * SMSS);
            controller.cwnd()
        };
        // RFC 9438 §4.6: cwnd in place of FlightSize while the window is validated; RFC 7661 §4.4.1: else
        // pipeACK.
        assert_eq!([after_loss(41), after_loss(20)], [56 * SMSS, 14 * SMSS]);
    }

    #[test]
    fn every_builtin_conforms_when_validated() {
        let registry = Registry::builtin();
        for name in registry.names() {
            let report = examine(validated(registry.find(name).unwrap()).as_ref());
            assert!(report.passed(), "{report}");
        }
    }
}
