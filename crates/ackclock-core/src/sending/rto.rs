//! The retransmission timer (RFC 6298), and how long the peer has been silent. Only this module starts or
//! stops the timer.
//!
//! The timer runs while something is outstanding, unless the peer's window is closed; then the connection's
//! persist timer replaces it (RFC 9293 SHLD-17). It has one deadline. [`RttEstimator`] computes the timeout.

use std::time::Duration;

use ackclock_control::rtt::{RtoConfig, RttEstimator};

use crate::{Instant, TcpConfig};

/// The timer, its estimator, and the count towards giving up.
#[derive(Debug)]
pub(super) struct Rto {
    estimator: RttEstimator,
    deadline: Instant,
    /// When the first transmission left that has not been answered since; `None` if nothing waits.
    waiting_since: Option<Instant>,
    /// Expiries since then.
    expiries: u32,
    /// BACKOFF_CNT of RFC 6069: how many of them have backed the timeout off, and still do.
    backoffs: u32,
}

/// No deadline.
const UNSET: Instant = Instant::FAR_FUTURE;

impl Rto {
    pub fn new(config: &RtoConfig) -> Self {
        let estimator = RttEstimator::new(config);
        Self { estimator, deadline: UNSET, waiting_since: None, expiries: 0, backoffs: 0 }
    }

    #[inline]
    pub fn estimator(&self) -> &RttEstimator {
        &self.estimator
    }

    #[inline]
    pub fn estimator_mut(&mut self) -> &mut RttEstimator {
        &mut self.estimator
    }

    pub fn set_config(&mut self, config: &RtoConfig) {
        self.estimator.set_config(config);
    }

    /// When the timer expires; the far future if it does not run.
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    #[inline]
    pub fn is_running(&self) -> bool {
        self.deadline != UNSET
    }

    /// Consecutive expiries.
    pub fn expiries(&self) -> u32 {
        self.expiries
    }

    pub fn waiting_since(&self) -> Option<Instant> {
        self.waiting_since
    }

    /// Something that needs an answer left.
    #[inline]
    pub fn note_waiting(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// The peer is known to be alive: what still waits, waits since now.
    pub fn note_answer(&mut self, now: Instant) {
        self.waiting_since = self.waiting_since.map(|_| now);
    }

    /// The stack was paused until `now`. Data that may wait for `limit` waits for at least one more timeout.
    pub fn on_pause(&mut self, now: Instant, limit: Duration) {
        let latest = now + self.estimator.rto_unbacked() - limit;
        self.waiting_since = self.waiting_since.map(|since| since.max(latest.min(now)));
    }

    /// New data was acknowledged; the rest, if any, waits since now.
    #[inline]
    pub fn on_progress(&mut self, now: Instant, outstanding: bool) {
        self.waiting_since = outstanding.then_some(now);
        if self.expiries > 0 {
            (self.expiries, self.backoffs) = (0, 0);
            self.estimator.on_progress_after_expiry();
        }
    }

    /// The handshake is over. `clean`: no SYN of ours was lost.
    pub fn establish(&mut self, clean: bool) {
        if !clean {
            self.estimator.on_handshake_after_expiry();
        }
        self.estimator.reset_backoff();
        self.waiting_since = None;
        (self.expiries, self.backoffs) = (0, 0);
        self.deadline = UNSET;
    }

    /// Starts the timer if it does not run.
    #[inline]
    pub fn start(&mut self, now: Instant, tcp: &TcpConfig) {
        if !self.is_running() {
            self.deadline = self.expires_at(now, tcp);
        }
    }

    #[inline]
    pub fn stop(&mut self) {
        self.deadline = UNSET;
    }

    /// Lost data waits for the pacing rate until `at`: nothing is in flight whose acknowledgement could be
    /// overdue.
    pub fn postpone(&mut self, at: Instant) {
        self.deadline = at + self.estimator.rto();
    }

    /// The timer expired. RFC 9293 MUST-19: the estimator does the exponential backoff (RFC 6298 §5.5).
    pub fn on_expiry(&mut self, now: Instant, tcp: &TcpConfig) {
        self.expiries = self.expiries.saturating_add(1);
        // RFC 6069 §4.2 (2): whether or not a bound keeps the timeout from growing.
        self.backoffs = self.backoffs.saturating_add(1);
        self.estimator.on_expiry();
        self.deadline = self.expires_at(now, tcp);
    }

    /// Takes a backoff back, if one was made since the last answer: the segments that left at `sent_at` were
    /// not lost to congestion. Returns whether there was one.
    // RFC 6069 §4.2: step (4), and (7) in the estimator. If the shorter timeout is over already, the timer
    // expires at once, as (8) says.
    pub fn undo_backoff(&mut self, now: Instant, sent_at: Instant, tcp: &TcpConfig) -> bool {
        if self.backoffs == 0 || !self.estimator.undo_backoff() {
            return false;
        }
        self.backoffs = self.backoffs.saturating_sub(1);
        if self.is_running() {
            // Not before now: a deadline that is long past would look like a pause of the driver.
            self.deadline = self.deadline.min(self.expires_at(sent_at, tcp).max(now));
        }
        true
    }

    /// How many backoffs since the last answer were taken back.
    pub fn backoffs_undone(&self) -> u32 {
        self.expiries.saturating_sub(self.backoffs)
    }

    /// RFC 6298 §5: the retransmission timeout from now, or the user timeout if that comes first.
    #[inline]
    fn expires_at(&self, now: Instant, tcp: &TcpConfig) -> Instant {
        let at = self.estimator.expires_at(now);
        match (tcp.user_timeout, self.waiting_since) {
            (Some(limit), Some(since)) => at.min((since + limit).max(now)),
            _ => at,
        }
    }
}

ackclock_form::form! {
    struct Rto { estimator, deadline, waiting_since, expiries, backoffs }
}
