//! A bandwidth estimate that ends the first slow start.
//!
//! J. Hoe, "Improving the Start-up Behavior of a Congestion Control Scheme for TCP", SIGCOMM 1996, with the
//! estimators of M. Allman and V. Paxson, "On Estimating End-to-End Network Path Properties", SIGCOMM 1999,
//! §3: ssthresh is the estimated bandwidth times the round trip. Only the first slow start is concerned, and
//! the threshold is only lowered.

use std::sync::Arc;

use super::layer::{Layer, layered};
use super::{Ack, Controller, ControllerFactory, LossEpisode, Timeout};
use crate::bandwidth::{SenderEstimator, SenderEstimatorKind};
use crate::time::nanos;

/// The controllers of `inner`, with an estimate of the bandwidth as their first ssthresh.
#[must_use]
pub fn with_start_up(
    inner: Arc<dyn ControllerFactory>,
    kind: SenderEstimatorKind,
) -> Arc<dyn ControllerFactory> {
    layered(inner, move |start| StartUp {
        kind,
        initial_window: start.initial_window,
        smss: u64::from(start.smss),
        phase: Phase::BeforeRoundTrip,
    })
}

#[derive(Debug)]
struct StartUp {
    kind: SenderEstimatorKind,
    initial_window: u64,
    smss: u64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    BeforeRoundTrip,
    Estimating(Box<dyn SenderEstimator>),
    Over,
}

impl StartUp {
    /// The window that the estimate stands for, if there is one now.
    fn estimate(&mut self, ack: &Ack) -> Option<u64> {
        if matches!(self.phase, Phase::BeforeRoundTrip) && !ack.srtt.is_zero() {
            self.phase = Phase::Estimating(self.kind.create(ack.srtt, self.initial_window, self.smss));
        }
        let Phase::Estimating(estimator) = &mut self.phase else { return None };
        // Acknowledged by SACK alone is a duplicate to these estimators.
        estimator.on_ack(ack.now, ack.bytes_cumulative);
        let bandwidth = estimator.estimate();
        if estimator.is_done() {
            self.phase = Phase::Over;
        }
        let window = u128::from(bandwidth?) * u128::from(nanos(ack.rtt_min)) / 1_000_000_000;
        Some(u64::try_from(window).unwrap_or(u64::MAX).max(2 * self.smss))
    }
}

impl Layer for StartUp {
    fn on_ack(&mut self, inner: &mut dyn Controller, ack: &Ack) {
        if let Some(window) = self.estimate(ack) {
            inner.limit_slow_start(window);
        }
        inner.on_ack(ack);
    }

    fn on_loss_episode(&mut self, inner: &mut dyn Controller, loss: &LossEpisode) {
        self.phase = Phase::Over;
        inner.on_loss_episode(loss);
    }

    fn on_timeout(&mut self, inner: &mut dyn Controller, timeout: &Timeout) {
        self.phase = Phase::Over;
        inner.on_timeout(timeout);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{SenderEstimatorKind, with_start_up};
    use crate::congestion::Registry;
    use crate::kit::{Flow, Path, examine};

    const PATH: Path = Path { buffer: 60_000, segments_per_ack: 2, ..Path::TYPICAL };

    // A4: the estimate prevents the losses that end slow start otherwise.
    #[test]
    fn estimate_ends_slow_start_before_the_queue_overflows() {
        let reno = Registry::builtin().find("reno").unwrap();
        let dropped = |flow: &mut Flow| {
            flow.run(Duration::from_secs(2));
            (flow.totals().dropped, flow.controller().ssthresh())
        };
        let (without, _) = dropped(&mut Flow::new(reno.as_ref(), PATH));
        assert!(without > 0);
        for kind in [SenderEstimatorKind::Csa, SenderEstimatorKind::Tcsa, SenderEstimatorKind::TcsaPrime] {
            let (with, ssthresh) = dropped(&mut Flow::new(with_start_up(reno.clone(), kind).as_ref(), PATH));
            assert_eq!(with, 0, "{kind:?}");
            let product = PATH.bandwidth_delay_product();
            assert!(ssthresh.abs_diff(product) < product / 10, "{kind:?}: {ssthresh} is not {product}");
        }
    }

    #[test]
    fn threshold_is_never_raised() {
        let reno = Registry::builtin().find("reno").unwrap();
        let mut controller =
            with_start_up(reno, SenderEstimatorKind::Csa).create(&crate::congestion::testing::START);
        controller.limit_slow_start(20_000);
        controller.limit_slow_start(30_000);
        assert_eq!(controller.ssthresh(), 20_000);
        controller.limit_slow_start(1);
        assert_eq!(controller.ssthresh(), controller.cwnd(), "what is reached already stays");
    }

    #[test]
    fn every_builtin_conforms_with_each_estimator() {
        let registry = Registry::builtin();
        for (_, kind) in SenderEstimatorKind::ALL {
            for name in ["cubic", "newreno", "bbr"] {
                let report = examine(with_start_up(registry.find(name).unwrap(), kind).as_ref());
                assert!(report.passed(), "{report}");
            }
        }
    }
}
