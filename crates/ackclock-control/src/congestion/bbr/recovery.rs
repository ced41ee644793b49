//! The recovery under way, and the window to which it returns.

use super::super::Timeout;

/// The state of recovery.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// InLossRecovery().
    under_way: bool,
    /// After a timeout: recovery ends when this much has been delivered.
    timeout_until: Option<u64>,
    /// The window before recovery or ProbeRTT.
    prior_cwnd: u64,
}

impl Recovery {
    /// SaveCwnd(). In recovery and in ProbeRTT, which have changed it, only a larger window is kept.
    pub fn save(&mut self, cwnd: u64, in_probe_rtt: bool) {
        let keep = self.under_way || in_probe_rtt;
        self.prior_cwnd = if keep { self.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// RestoreCwnd(): the window to go on with.
    pub fn restored(&self, cwnd: u64) -> u64 {
        cwnd.max(self.prior_cwnd)
    }

    /// Fast recovery begins.
    pub fn begin(&mut self) {
        (self.under_way, self.timeout_until) = (true, None);
    }

    /// The recovery of a timeout begins.
    pub fn begin_by_timeout(&mut self, timeout: &Timeout) {
        self.under_way = true;
        self.timeout_until.get_or_insert(timeout.delivered.saturating_add(timeout.flight_size));
    }

    /// Ends it. Returns whether it was under way.
    pub fn end(&mut self) -> bool {
        self.timeout_until = None;
        std::mem::take(&mut self.under_way)
    }

    /// Whether all that a timeout found outstanding has been delivered.
    pub fn is_timeout_repaired(&self, delivered: u64) -> bool {
        self.timeout_until.is_some_and(|until| delivered >= until)
    }

    pub fn is_fast(&self) -> bool {
        self.under_way && self.timeout_until.is_none()
    }

    /// The window before a timeout whose losses are not repaired yet; 0 otherwise.
    pub fn cwnd_before_timeout(&self) -> u64 {
        self.timeout_until.map_or(0, |_| self.prior_cwnd)
    }
}

ackclock_form::form! {
    struct Recovery { under_way, timeout_until, prior_cwnd }
}
