//! The persist timer: probes of a closed window (RFC 9293 §3.8.6.1), and the wait before less than a segment
//! goes into a small one (§3.8.6.2.1). Whether it runs is decided in [`timeouts`](super::timeouts), which
//! knows the windows.

use std::time::Duration;

use crate::Instant;
use crate::deadline::Deadline;

/// How long sender silly-window avoidance may hold data back (RFC 9293 §3.8.6.2.1: 0.1 to 1.0 s).
pub(super) const OVERRIDE: Duration = Duration::from_millis(200);
/// The longest time between window probes.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The timer, which excludes the retransmission timer, and what its expiries have led to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persist {
    deadline: Deadline,
    /// Probes since the window closed.
    probes: u32,
    /// Data has been held back from a small window long enough.
    overrides: bool,
}

impl Persist {
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    pub fn start(&mut self, at: Instant) {
        self.deadline.set(at);
    }

    #[inline]
    pub fn stop(&mut self) {
        self.deadline.clear();
    }

    /// A probe is due.
    pub fn count_probe(&mut self) {
        self.probes = self.probes.saturating_add(1);
    }

    /// The window has opened. Returns whether it had been probed.
    pub fn end_probing(&mut self) -> bool {
        std::mem::take(&mut self.probes) > 0
    }

    /// How long the next probe waits.
    // RFC 9293 SHLD-29: the first after one retransmission timeout. RFC 9293 SHLD-30: then at exponentially
    // growing intervals.
    pub fn interval(&self, rto: Duration) -> Duration {
        let factor = 1u32.checked_shl(self.probes.min(16)).unwrap_or(u32::MAX);
        rto.saturating_mul(factor).min(INTERVAL_MAX)
    }

    /// Less than a segment may go into a small window.
    pub fn allow_override(&mut self) {
        self.overrides = true;
    }

    pub fn allows_override(&self) -> bool {
        self.overrides
    }

    /// New data has left.
    #[inline]
    pub fn end_override(&mut self) {
        self.overrides = false;
    }
}

ackclock_form::form! {
    struct Persist { deadline, probes, overrides }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293 SHLD-29, SHLD-30.
    #[test]
    fn probes_wait_one_timeout_then_twice_as_long_each_up_to_a_minute() {
        let mut persist = Persist::default();
        let waits: Vec<u128> = (0..10)
            .map(|_| {
                let wait = persist.interval(Duration::from_millis(300)).as_millis();
                persist.count_probe();
                wait
            })
            .collect();
        assert_eq!(waits, [300, 600, 1200, 2400, 4800, 9600, 19_200, 38_400, 60_000, 60_000]);
        assert!(persist.end_probing() && !persist.end_probing());
        assert_eq!(persist.interval(Duration::from_millis(300)).as_millis(), 300);
    }
}
