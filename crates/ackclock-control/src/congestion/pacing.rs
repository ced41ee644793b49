//! Pacing for controllers that have a window alone.
//!
//! A. Aggarwal, S. Savage and T. Anderson, "Understanding the Performance of TCP Pacing", INFOCOM 2000: a
//! window spread over its round trip. The factors, twice the window in slow start and 1.2 of it afterwards,
//! leave room to grow; they are those in common use.

use std::sync::Arc;

use super::{
    About, Ack, Controller, ControllerFactory, IdleRestart, LossEpisode, Lost, RecoveryEnd, Sent, Snapshot,
    Start, Timeout, Undo,
};
use crate::time::nanos;

/// Makes the controllers of another factory with a pacing rate, under the same name. A controller that has a
/// rate of its own keeps it.
#[derive(Clone, Debug)]
pub struct Paced(pub Arc<dyn ControllerFactory>);

impl ControllerFactory for Paced {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn create(&self, start: &Start) -> Box<dyn Controller> {
        Box::new(PacedController { inner: self.0.create(start), srtt: 0 })
    }

    fn about(&self) -> About {
        self.0.about()
    }
}

/// The rate at which `cwnd` bytes take a round trip of `srtt` nanoseconds, and some more; `None` without a
/// round trip.
#[must_use]
pub(super) fn window_rate(cwnd: u64, srtt: u64, in_slow_start: bool) -> Option<u64> {
    let percent: u128 = if in_slow_start { 200 } else { 120 };
    let rate = (u128::from(cwnd) * percent * 10_000_000).checked_div(u128::from(srtt))?;
    Some(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
}

#[derive(Debug)]
struct PacedController {
    inner: Box<dyn Controller>,
    /// Smoothed round-trip time in nanoseconds.
    srtt: u64,
}

impl Controller for PacedController {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.srtt = nanos(ack.srtt);
        self.inner.on_ack(ack);
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.inner.on_loss_episode(loss);
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.inner.on_lost(lost);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.inner.on_timeout(timeout);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
    }

    fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        self.inner.on_recovery_end(end);
    }

    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        self.inner.on_idle_restart(idle);
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.inner.on_undo(undo);
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.inner.on_mss_change(smss);
    }

    fn cwnd(&self) -> u64 {
        self.inner.cwnd()
    }

    fn ssthresh(&self) -> u64 {
        self.inner.ssthresh()
    }

    fn pacing_rate(&self) -> Option<u64> {
        let (cwnd, ssthresh) = (self.cwnd(), self.ssthresh());
        self.inner.pacing_rate().or_else(|| window_rate(cwnd, self.srtt, cwnd < ssthresh))
    }

    fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Paced, window_rate};
    use crate::congestion::testing::{SMSS, START, ack};
    use crate::congestion::{ControllerFactory, Registry};
    use crate::kit::{Flow, Path, examine};

    #[test]
    fn window_is_spread_over_its_round_trip() {
        // 100 KB in 100 ms is 1 MB/s.
        assert_eq!(window_rate(100_000, 100_000_000, true), Some(2_000_000));
        assert_eq!(window_rate(100_000, 100_000_000, false), Some(1_200_000));
        assert_eq!(window_rate(100_000, 0, false), None);
    }

    #[test]
    fn no_rate_before_the_first_round_trip() {
        let mut paced = Paced(Registry::builtin().find("reno").unwrap()).create(&START);
        assert_eq!(paced.pacing_rate(), None);
        paced.on_ack(&ack(100, SMSS));
        assert_eq!(paced.pacing_rate(), Some(11 * SMSS * 10 * 2));
    }

    #[test]
    fn paced_start_needs_a_smaller_queue() {
        let reno = Registry::builtin().find("reno").unwrap();
        let queue_max = |factory: &dyn ControllerFactory| {
            let mut flow = Flow::new(factory, Path { buffer: 1_000_000, ..Path::TYPICAL });
            flow.run(Duration::from_millis(350));
            flow.totals().queue_max
        };
        assert!(queue_max(&Paced(Arc::clone(&reno))) < queue_max(reno.as_ref()) / 2);
    }

    #[test]
    fn every_builtin_conforms_when_paced() {
        let registry = Registry::builtin();
        for name in registry.names() {
            let report = examine(&Paced(registry.find(name).unwrap()));
            assert!(report.passed(), "{report}");
        }
    }
}
