//! A bandwidth estimate that ends the first slow start.
//!
//! J. Hoe, "Improving the Start-up Behavior of a Congestion Control Scheme for TCP", SIGCOMM 1996, with the
//! estimators of M. Allman and V. Paxson, "On Estimating End-to-End Network Path Properties", SIGCOMM 1999,
//! §3: ssthresh is the estimated bandwidth times the round trip. It applies only to the first slow start, and
//! it only lowers the threshold.

use std::time::Duration;

use super::{Ack, Controller, Start};
use crate::bandwidth::{SenderEstimator, SenderEstimatorKind};
use crate::divide::{SECOND, times};
use ackclock_form::{Form, FormError, Reader, Writer};

/// Estimates the bandwidth of one connection: it sees the acknowledgements of the first slow start and limits
/// the controller's.
#[derive(Debug)]
pub struct StartUp {
    kind: SenderEstimatorKind,
    initial_window: u64,
    smss: u64,
    phase: Phase,
    estimate: Option<StartUpEstimate>,
}

/// The result of the estimation at the start of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StartUpEstimate {
    /// The bandwidth in bytes a second.
    pub bandwidth: u64,
    /// The window in bytes: the bandwidth times the smallest round trip.
    pub window: u64,
    /// Whether it lowered ssthresh.
    pub set_ssthresh: bool,
}

#[derive(Debug)]
enum Phase {
    BeforeRoundTrip,
    Estimating(Box<dyn SenderEstimator>),
    Over,
}

impl StartUp {
    /// An estimation for a connection with this start.
    #[must_use]
    pub fn new(kind: SenderEstimatorKind, start: &Start) -> Self {
        Self {
            kind,
            initial_window: start.initial_window,
            smss: u64::from(start.smss),
            phase: Phase::BeforeRoundTrip,
            estimate: None,
        }
    }

    /// Takes an acknowledgement before `controller` does.
    pub fn before_ack(&mut self, controller: &mut dyn Controller, ack: &Ack) {
        let Some((bandwidth, window)) = self.estimated(ack) else { return };
        let before = controller.ssthresh();
        controller.limit_slow_start(window);
        let set_ssthresh =
            controller.ssthresh() < before || self.estimate.is_some_and(|last| last.set_ssthresh);
        self.estimate = Some(StartUpEstimate { bandwidth, window, set_ssthresh });
    }

    /// The first slow start is over: something was lost.
    pub fn end(&mut self) {
        self.phase = Phase::Over;
    }

    /// The last estimate, if any.
    #[must_use]
    pub fn estimate(&self) -> Option<StartUpEstimate> {
        self.estimate
    }

    /// The bandwidth and its window, if there is an estimate now.
    fn estimated(&mut self, ack: &Ack) -> Option<(u64, u64)> {
        // rtt_min, not the smoothed round trip: a clock with coarse ticks may show zero for that.
        if matches!(self.phase, Phase::BeforeRoundTrip) && ack.rtt_min_ns > 0 {
            self.phase = Phase::Estimating(self.kind.create(
                Duration::from_nanos(ack.rtt_min_ns),
                self.initial_window,
                self.smss,
            ));
        }
        let Phase::Estimating(estimator) = &mut self.phase else { return None };
        // To these estimators an acknowledgement by SACK alone is a duplicate.
        estimator.on_ack(ack.now, ack.bytes_cumulative);
        let bandwidth = estimator.estimate();
        if estimator.is_done() {
            self.phase = Phase::Over;
        }
        let bandwidth = bandwidth?;
        let window = times(bandwidth, ack.rtt_min_ns, SECOND).unwrap_or(u64::MAX);
        Some((bandwidth, window.max(self.smss.saturating_mul(2))))
    }
}

ackclock_form::form! {
    struct StartUpEstimate { bandwidth, window, set_ssthresh }
}

impl Form for StartUp {
    fn write(&self, out: &mut Writer) {
        let Self { kind, initial_window, smss, phase, estimate } = self;
        kind.write(out);
        initial_window.write(out);
        smss.write(out);
        estimate.write(out);
        match phase {
            Phase::BeforeRoundTrip => out.push(0),
            Phase::Estimating(estimator) => {
                out.push(1);
                estimator.freeze(out);
            }
            Phase::Over => out.push(2),
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let kind = SenderEstimatorKind::read(input)?;
        let (initial_window, smss) = (Form::read(input)?, Form::read(input)?);
        let estimate = Form::read(input)?;
        let phase = match input.byte()? {
            0 => Phase::BeforeRoundTrip,
            1 => {
                let mut estimator = kind.create(Duration::ZERO, initial_window, smss);
                estimator.thaw(input)?;
                Phase::Estimating(estimator)
            }
            2 => Phase::Over,
            code => return Err(FormError::Code(code)),
        };
        Ok(Self { kind, initial_window, smss, phase, estimate })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{SenderEstimatorKind, StartUp};
    use crate::congestion::layer::{Layer, layered};
    use crate::congestion::{Ack, Controller, ControllerFactory, LossEpisode, Registry, Timeout};
    use crate::kit::{Flow, Path, examine};

    impl Layer for StartUp {
        fn on_ack(&mut self, inner: &mut dyn Controller, ack: &Ack) {
            self.before_ack(inner, ack);
            inner.on_ack(ack);
        }

        fn on_loss_episode(&mut self, inner: &mut dyn Controller, loss: &LossEpisode) {
            self.end();
            inner.on_loss_episode(loss);
        }

        fn on_timeout(&mut self, inner: &mut dyn Controller, timeout: &Timeout) {
            self.end();
            inner.on_timeout(timeout);
        }
    }

    fn with_start_up(
        inner: Arc<dyn ControllerFactory>,
        kind: SenderEstimatorKind,
    ) -> Arc<dyn ControllerFactory> {
        layered(inner, move |start| StartUp::new(kind, start))
    }

    const PATH: Path = Path { buffer: 60_000, segments_per_ack: 2, ..Path::TYPICAL };

    // The estimate prevents the losses that would otherwise end slow start.
    #[test]
    fn estimate_ends_slow_start_before_the_queue_overflows() {
        // Tests: A4
        let reno = Registry::builtin().find("reno").unwrap();
        let dropped = |flow: &mut Flow| {
            flow.run(Duration::from_secs(2));
            (flow.totals().dropped, flow.controller().ssthresh())
        };
        let (without, _) = dropped(&mut Flow::new(reno.as_ref(), PATH));
        assert!(without > 0);
        for name in ["csa", "tcsa", "tcsa-prime"] {
            let kind = SenderEstimatorKind::find(name).unwrap();
            let (with, ssthresh) = dropped(&mut Flow::new(with_start_up(reno.clone(), kind).as_ref(), PATH));
            assert_eq!(with, 0, "{kind:?}");
            let product = PATH.bandwidth_delay_product();
            assert!(ssthresh.abs_diff(product) < product / 10, "{kind:?}: {ssthresh} is not {product}");
        }
    }

    #[test]
    fn threshold_is_never_raised() {
        let reno = Registry::builtin().find("reno").unwrap();
        let kind = SenderEstimatorKind::find("csa").unwrap();
        let mut controller = with_start_up(reno, kind).create(&crate::congestion::testing::START);
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
