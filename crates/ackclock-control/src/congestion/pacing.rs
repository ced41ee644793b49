//! Pacing for controllers that only have a window.
//!
//! A. Aggarwal, S. Savage and T. Anderson, "Understanding the Performance of TCP Pacing", INFOCOM 2000: the
//! window is spread over its round trip. The factors, 2 in slow start and 1.2 afterwards, leave room to grow;
//! they are the ones in common use.

use std::sync::Arc;

use super::layer::{Layer, layered};
use super::{Ack, Controller, ControllerFactory};
use crate::time::nanos;

/// The controllers of `inner`, with a pacing rate. A controller with its own rate keeps it.
#[must_use]
pub fn paced(inner: Arc<dyn ControllerFactory>) -> Arc<dyn ControllerFactory> {
    layered(inner, |_| Pacing { srtt: 0 })
}

/// The pacing rate for `cwnd` bytes over a round trip of `srtt_ns` nanoseconds, in bytes a second: twice
/// cwnd/SRTT in slow start, 1.2 times afterwards. `None` without a round trip, otherwise at least 1.
#[must_use]
#[inline]
pub fn window_rate(cwnd: u64, srtt_ns: u64, in_slow_start: bool) -> Option<u64> {
    const PERCENT_OF_SECOND_NS: u64 = 10_000_000;
    let factor = PERCENT_OF_SECOND_NS * if in_slow_start { 200 } else { 120 };
    let rate = match cwnd.checked_mul(factor) {
        Some(scaled) => scaled.checked_div(srtt_ns)?,
        None => {
            let wide = (u128::from(cwnd) * u128::from(factor)).checked_div(u128::from(srtt_ns))?;
            u64::try_from(wide).unwrap_or(u64::MAX)
        }
    };
    Some(rate.max(1))
}

#[derive(Debug)]
struct Pacing {
    /// Smoothed round-trip time in nanoseconds.
    srtt: u64,
}

impl Layer for Pacing {
    fn on_ack(&mut self, inner: &mut dyn Controller, ack: &Ack) {
        self.srtt = nanos(ack.srtt);
        inner.on_ack(ack);
    }

    fn pacing_rate(&self, inner: &dyn Controller) -> Option<u64> {
        let (cwnd, ssthresh) = (inner.cwnd(), inner.ssthresh());
        inner.pacing_rate().or_else(|| window_rate(cwnd, self.srtt, cwnd < ssthresh))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{paced, window_rate};
    use crate::congestion::testing::{SMSS, START, ack};
    use crate::congestion::{ControllerFactory, Registry};
    use crate::kit::{Flow, Path, examine};

    #[test]
    fn window_is_spread_over_its_round_trip() {
        // 100 KB in 100 ms is 1 MB/s.
        assert_eq!(window_rate(100_000, 100_000_000, true), Some(2_000_000));
        assert_eq!(window_rate(100_000, 100_000_000, false), Some(1_200_000));
        assert_eq!(window_rate(100_000, 0, false), None);
        assert_eq!(window_rate(1, u64::MAX, false), Some(1));
    }

    #[test]
    fn window_of_any_size_has_a_rate() {
        // 10 GB in 10 s is 1 GB/s. The intermediate product exceeds 64 bits.
        assert_eq!(window_rate(10_000_000_000, 10_000_000_000, true), Some(2_000_000_000));
        assert_eq!(window_rate(u64::MAX, 1_000_000_000, false), Some(u64::MAX));
    }

    #[test]
    fn no_rate_before_the_first_round_trip() {
        let mut reno = paced(Registry::builtin().find("reno").unwrap()).create(&START);
        assert_eq!(reno.pacing_rate(), None);
        reno.on_ack(&ack(100, SMSS));
        assert_eq!(reno.pacing_rate(), Some(11 * SMSS * 10 * 2));
    }

    #[test]
    fn paced_start_needs_a_smaller_queue() {
        let reno = Registry::builtin().find("reno").unwrap();
        let queue_max = |factory: &dyn ControllerFactory| {
            let mut flow = Flow::new(factory, Path { buffer: 1_000_000, ..Path::TYPICAL });
            flow.run(Duration::from_millis(350));
            flow.totals().queue_max
        };
        assert!(queue_max(paced(Arc::clone(&reno)).as_ref()) < queue_max(reno.as_ref()) / 2);
    }

    #[test]
    fn every_builtin_conforms_when_paced() {
        let registry = Registry::builtin();
        for name in registry.names() {
            let report = examine(paced(registry.find(name).unwrap()).as_ref());
            assert!(report.passed(), "{report}");
        }
    }
}
