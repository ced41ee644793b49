//! The arithmetic that window-based controllers share: slow start, the Reno step, the reductions and their
//! undo, as in M. Allman, V. Paxson and E. Blanton ("TCP Congestion Control", RFC 5681, 2009), with the byte
//! counting of RFC 3465.

use super::{Ack, IdleRestart, Parameter, Settings, Start, Timeout, Values};
use crate::InvalidParameter;
use crate::divide::at_least_one;

/// A congestion window with its threshold, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    smss: u32,
    cwnd: u64,
    ssthresh: u64,
    /// Bytes acknowledged since cwnd last grew in congestion avoidance (RFC 3465's bytes_acked): less than
    /// cwnd, so less than 2^32.
    bytes_acked: u32,
    /// Whether slow start follows a timeout.
    after_timeout: bool,
    /// These before the last reduction. A cwnd of zero: nothing to undo.
    prior_cwnd: u64,
    prior_ssthresh: u64,
    prior_bytes_acked: u32,
    prior_after_timeout: bool,
}

/// How much one acknowledgement may add in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowStart {
    /// One segment for each acknowledgement, but no more than it acknowledges (RFC 5681 §3.1).
    PerAck,
    /// The bytes that it acknowledges, up to two segments; up to one after a timeout (RFC 3465 §2.3: L = 2).
    Counted,
    /// All bytes that it acknowledges (RFC 9406 §4.3: L is infinite for a sender that paces).
    Unlimited,
}

/// The bytes for which an acknowledgement counts in standard growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counting {
    /// One segment, however many it acknowledges, as in 4.3BSD and RFC 2581. Where every second segment is
    /// acknowledged, the window grows half as fast. An acknowledgement of less than a segment counts for what
    /// it acknowledges.
    Acks,
    /// The bytes that it acknowledges; in slow start at most two segments (RFC 3465, L = 2).
    Bytes,
}

impl Counting {
    /// The values of `count=`.
    pub(super) const PARAMETER: Values = Values::Words(&["acks", "bytes"]);

    /// The parameter `count` with this default.
    pub(super) const fn parameter(self) -> Parameter {
        Parameter { name: "count", values: Self::PARAMETER, default: self as i64 }
    }

    pub(super) fn from_settings(settings: &Settings) -> Result<Self, InvalidParameter> {
        Ok(if settings.value("count") == Self::Acks as i64 { Self::Acks } else { Self::Bytes })
    }
}

impl Window {
    /// The window at the start of a connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        let smss = start.smss.max(1);
        Self {
            smss,
            cwnd: start.initial_window.clamp(u64::from(smss), CWND_MAX),
            // RFC 5681 §3.1: the initial value of ssthresh SHOULD be set arbitrarily high.
            ssthresh: u64::MAX,
            bytes_acked: 0,
            after_timeout: false,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            prior_bytes_acked: 0,
            prior_after_timeout: false,
        }
    }

    /// The window in bytes: at least one segment, at most 4 GiB.
    #[must_use]
    #[inline]
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// The slow-start threshold in bytes.
    #[must_use]
    #[inline]
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// The segment size in bytes.
    #[must_use]
    #[inline]
    pub fn smss(&self) -> u64 {
        u64::from(self.smss)
    }

    /// This many segments, in bytes.
    #[inline]
    pub(super) fn segments(&self, number: u64) -> u64 {
        self.smss().saturating_mul(number)
    }

    /// Whether the window grows exponentially.
    #[must_use]
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        // RFC 5681 §3.1: slow start when cwnd < ssthresh.
        self.cwnd < self.ssthresh
    }

    /// Whether this acknowledgement may make the window grow. A window that was not full or is in recovery
    /// must not grow, and a duplicate never grows it, whatever it reports (RFC 5681 §3.2 (1)).
    #[must_use]
    #[inline]
    pub fn may_grow(ack: &Ack) -> bool {
        ack.cwnd_limited && !ack.in_recovery && ack.bytes_cumulative > 0
    }

    /// Slow start or congestion avoidance, as in RFC 5681 §3.1.
    #[inline]
    pub fn grow(&mut self, bytes_acked: u64, counting: Counting) {
        match counting {
            // 4.3BSD's tcp_input: one segment for each acknowledgement, or its share of the window at once.
            Counting::Acks if self.in_slow_start() => _ = self.slow_start(bytes_acked, SlowStart::PerAck),
            Counting::Acks => {
                let counted = bytes_acked.min(self.smss());
                let share = self.smss().saturating_mul(counted) / at_least_one(self.cwnd);
                self.grow_by(share.max(u64::from(bytes_acked > 0)));
            }
            Counting::Bytes => {
                let mut bytes = bytes_acked;
                if self.in_slow_start() {
                    bytes = self.slow_start(bytes, SlowStart::Counted);
                }
                if !self.in_slow_start() {
                    self.reno_step(bytes);
                }
            }
        }
    }

    /// Slow start: grows by what is acknowledged, within `limit` and up to ssthresh. Returns the bytes left
    /// for congestion avoidance.
    // RFC 9293 MUST-19: a TCP endpoint implements slow start and congestion avoidance (RFC 5681).
    #[inline]
    pub fn slow_start(&mut self, bytes_acked: u64, limit: SlowStart) -> u64 {
        let smss = self.smss();
        let most = match limit {
            // RFC 5681 §3.1 (2): cwnd += min (N, SMSS).
            SlowStart::PerAck => smss,
            // RFC 3465 §2.3: L is at most 2*SMSS, and 1*SMSS in slow start after a retransmission timeout.
            SlowStart::Counted if self.after_timeout => smss,
            SlowStart::Counted => self.segments(2),
            SlowStart::Unlimited => u64::MAX,
        };
        let room = self.ssthresh.saturating_sub(self.cwnd);
        let growth = bytes_acked.min(most).min(room);
        self.grow_by(growth);
        if self.in_slow_start() {
            return 0;
        }
        self.after_timeout = false;
        bytes_acked.saturating_sub(growth)
    }

    /// Congestion avoidance: grows by one segment once a whole window has been acknowledged.
    #[inline]
    pub fn reno_step(&mut self, bytes_acked: u64) {
        // RFC 3465 §2.1: when bytes_acked reaches cwnd, subtract cwnd from it and add SMSS to cwnd. The limit
        // is one SMSS a round trip (RFC 5681 §3.1 (3)); any excess is dropped.
        let counted = u64::from(self.bytes_acked).saturating_add(bytes_acked.min(self.cwnd));
        let left = counted.checked_sub(self.cwnd);
        self.bytes_acked = u32::try_from(left.unwrap_or(counted)).unwrap_or(u32::MAX);
        if left.is_some() {
            self.grow_by(self.smss());
        }
    }

    /// Half of what is in flight, at least two segments: the threshold after a loss.
    ///
    /// Data outstanding beyond the window does not count, because it would raise the threshold: duplicate
    /// acknowledgements released it, or the peer holds it already (RFC 5681 §3.2 (1) says so of limited
    /// transmit).
    #[must_use]
    pub fn half_of(&self, flight_size: u64) -> u64 {
        // RFC 5681 §3.1 (4): ssthresh = max (FlightSize / 2, 2*SMSS).
        (flight_size.min(self.cwnd) / 2).max(self.segments(2))
    }

    /// A loss episode begins: sets ssthresh, and lowers the window to it.
    ///
    /// The recovery policy inflates the window on duplicate acknowledgements, or does the modern equivalent.
    pub fn reduce(&mut self, ssthresh: u64) {
        self.remember();
        self.ssthresh = ssthresh;
        self.set_cwnd(self.cwnd.min(ssthresh));
    }

    /// The timer expired: one segment, and a new ssthresh at the first expiry.
    pub fn collapse(&mut self, timeout: &Timeout, ssthresh: u64) {
        // RFC 5681 §3.1: ssthresh is held constant when the segment has already been retransmitted by the
        // timer.
        if timeout.expiries <= 1 {
            self.remember();
            self.ssthresh = ssthresh;
        }
        // RFC 5681 §3.1: upon a timeout cwnd MUST be set to no more than the loss window, one full-sized
        // segment.
        self.set_cwnd(self.smss());
        self.after_timeout = true;
    }

    /// Takes the last reduction back, once. Returns whether there was one.
    pub fn undo(&mut self) -> bool {
        let prior_cwnd = std::mem::take(&mut self.prior_cwnd);
        if prior_cwnd == 0 {
            return false;
        }
        (self.ssthresh, self.after_timeout) = (self.prior_ssthresh, self.prior_after_timeout);
        if self.cwnd <= prior_cwnd {
            self.set_cwnd(prior_cwnd);
            self.bytes_acked = self.prior_bytes_acked;
        }
        true
    }

    /// Idle for longer than a retransmission timeout: slow start begins again from the restart window.
    pub fn restart(&mut self, idle: &IdleRestart) {
        // RFC 5681 §4.1: cwnd SHOULD be reduced to no more than RW = min(IW, cwnd).
        self.set_cwnd(self.cwnd.min(idle.restart_window));
    }

    /// Sets the window, within its bounds.
    pub fn set_cwnd(&mut self, cwnd: u64) {
        let cwnd = cwnd.clamp(self.smss(), CWND_MAX);
        if cwnd < self.cwnd {
            self.bytes_acked = 0;
        }
        self.cwnd = cwnd;
    }

    /// Raises the window by this many bytes, within its bounds.
    #[inline]
    pub(super) fn grow_by(&mut self, bytes: u64) {
        self.set_cwnd(self.cwnd.saturating_add(bytes));
    }

    /// Congestion avoidance at a controller's own rate: adds `thousandths` of a segment in a round trip, and
    /// never grows faster than slow start. What is less than a byte stays in `rest`.
    pub(super) fn grow_in_thousandths(&mut self, bytes_acked: u64, thousandths: u64, rest: &mut Remainder) {
        let gained = bytes_acked.min(self.cwnd()).saturating_mul(self.smss()).saturating_mul(thousandths);
        let growth = rest.divide(gained, self.cwnd().saturating_mul(1000));
        self.grow_by(growth.min(bytes_acked));
    }

    /// A decrease without a loss. The threshold follows, or slow start would undo the decrease.
    pub fn ease(&mut self, cwnd: u64) {
        self.set_cwnd(cwnd.min(self.cwnd));
        self.ssthresh = self.ssthresh.min(self.cwnd);
    }

    /// A decrease by an eighth without a loss. Two segments stay.
    pub(super) fn ease_by_an_eighth(&mut self) {
        self.ease(self.cwnd.saturating_sub(self.cwnd / 8).max(self.segments(2)));
    }

    /// Ends slow start at this window, or here if the window is past it; never raises the threshold.
    pub fn limit_slow_start(&mut self, bytes: u64) {
        if self.in_slow_start() {
            self.ssthresh = self.ssthresh.min(bytes.max(self.cwnd));
        }
    }

    /// Sets the threshold; `u64::MAX` means none.
    pub fn set_ssthresh(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh;
    }

    /// The path's segment size changed. The window keeps its bytes.
    pub fn set_smss(&mut self, smss: u32) {
        self.smss = smss.max(1);
        self.set_cwnd(self.cwnd);
    }

    /// Notes the window for [`Self::undo`].
    pub fn remember(&mut self) {
        (self.prior_cwnd, self.prior_ssthresh) = (self.cwnd, self.ssthresh);
        (self.prior_bytes_acked, self.prior_after_timeout) = (self.bytes_acked, self.after_timeout);
    }
}

/// The remainder of a division into bytes, kept for the next: a window of thousands of segments grows by less
/// than a byte with each acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Remainder(u64);

impl Remainder {
    /// The whole bytes of `numerator / denominator` and what was left before.
    #[inline]
    pub(super) fn divide(&mut self, numerator: u64, denominator: u64) -> u64 {
        let (denominator, total) = (at_least_one(denominator), self.0.saturating_add(numerator));
        self.0 = total % denominator;
        total / denominator
    }
}

/// The methods of a [`Controller`](super::Controller) that its field `window` implements alone.
macro_rules! window_methods {
    () => {
        fn on_idle_restart(&mut self, idle: &IdleRestart) {
            self.window.restart(idle);
        }

        fn on_mss_change(&mut self, smss: u32) {
            self.window.set_smss(smss);
        }

        fn limit_slow_start(&mut self, bytes: u64) {
            self.window.limit_slow_start(bytes);
        }

        fn cwnd(&self) -> u64 {
            self.window.cwnd()
        }

        fn ssthresh(&self) -> u64 {
            self.window.ssthresh()
        }
    };
}
pub(super) use window_methods;

/// The largest window in bytes: four times what a window field with the largest scale (RFC 7323 §2.3) can
/// offer, and small enough for products of windows and segments.
pub(super) const CWND_MAX: u64 = 1 << 32;

ackclock_form::form! {
    struct Window {
        smss, cwnd, ssthresh, bytes_acked, after_timeout, prior_cwnd, prior_ssthresh, prior_bytes_acked,
        prior_after_timeout
    } => |window| window.smss > 0;
    enum SlowStart { 0 PerAck, 1 Counted, 2 Unlimited }
    enum Counting { 0 Acks, 1 Bytes }
    struct Remainder(rest)
}

#[cfg(test)]
mod tests {
    use super::{CWND_MAX, Counting, SlowStart, Window};
    use crate::congestion::testing::{SMSS, START, timeout};

    fn window(cwnd: u64, ssthresh: u64) -> Window {
        let mut window = Window::new(&START);
        window.set_cwnd(cwnd * SMSS);
        window.set_ssthresh(ssthresh.saturating_mul(SMSS));
        window
    }

    #[test]
    fn per_ack_slow_start_adds_one_segment_for_a_stretch_ack() {
        // Tests: J4
        let mut w = window(10, u64::MAX);
        w.slow_start(4 * SMSS, SlowStart::PerAck);
        assert_eq!(w.cwnd(), 11 * SMSS);
    }

    #[test]
    fn counted_slow_start_adds_two_segments_at_most() {
        let mut w = window(10, u64::MAX);
        w.slow_start(4 * SMSS, SlowStart::Counted);
        assert_eq!(w.cwnd(), 12 * SMSS);
    }

    #[test]
    fn counted_slow_start_adds_one_segment_after_a_timeout() {
        let mut w = window(10, u64::MAX);
        w.collapse(&timeout(10 * SMSS, 1), 8 * SMSS);
        w.slow_start(4 * SMSS, SlowStart::Counted);
        assert_eq!(w.cwnd(), 2 * SMSS);
    }

    #[test]
    fn divided_acks_buy_no_more_than_the_data_they_acknowledge() {
        for limit in [SlowStart::PerAck, SlowStart::Counted, SlowStart::Unlimited] {
            let mut w = window(10, u64::MAX);
            (0..SMSS).for_each(|_| {
                w.slow_start(1, limit);
            });
            assert_eq!(w.cwnd(), 11 * SMSS, "{limit:?}");
        }
    }

    #[test]
    fn slow_start_ends_at_ssthresh_and_leaves_the_rest() {
        let mut w = window(10, 12);
        assert_eq!(w.slow_start(5 * SMSS, SlowStart::Unlimited), 3 * SMSS);
        assert_eq!(w.cwnd(), 12 * SMSS);
        assert!(!w.in_slow_start());
    }

    #[test]
    fn reno_step_adds_one_segment_a_window() {
        // Tests: J7
        let mut w = window(10, 10);
        (0..9).for_each(|_| w.reno_step(SMSS));
        assert_eq!(w.cwnd(), 10 * SMSS);
        w.reno_step(SMSS);
        assert_eq!(w.cwnd(), 11 * SMSS);
    }

    #[test]
    fn ack_of_two_segments_counts_for_one_or_for_two() {
        for (counting, after_five, acks_for_one) in [(Counting::Acks, 15, 10), (Counting::Bytes, 20, 5)] {
            let mut w = window(10, u64::MAX);
            (0..5).for_each(|_| w.grow(2 * SMSS, counting));
            assert_eq!(w.cwnd(), after_five * SMSS, "{counting:?}, slow start");
            let mut w = window(10, 10);
            (0..acks_for_one).for_each(|_| w.grow(2 * SMSS, counting));
            // Growth by shares of a growing window adds a little less than one segment.
            assert!((10_950..=11 * SMSS).contains(&w.cwnd()), "{counting:?}, avoidance: {}", w.cwnd());
        }
    }

    #[test]
    fn one_ack_for_many_windows_adds_one_segment() {
        let mut w = window(10, 10);
        w.reno_step(100 * SMSS);
        assert_eq!(w.cwnd(), 11 * SMSS);
        w.reno_step(SMSS);
        assert_eq!(w.cwnd(), 11 * SMSS);
    }

    #[test]
    fn half_is_at_least_two_segments() {
        // Tests: J7
        assert_eq!(window(10, 10).half_of(0), 2 * SMSS);
        assert_eq!(window(10, 10).half_of(9 * SMSS), 9 * SMSS / 2);
    }

    #[test]
    fn half_is_not_of_more_than_the_window() {
        assert_eq!(window(10, 10).half_of(30 * SMSS), 5 * SMSS);
    }

    #[test]
    fn second_expiry_keeps_ssthresh() {
        let mut w = window(10, u64::MAX);
        w.collapse(&timeout(10 * SMSS, 1), 5 * SMSS);
        w.collapse(&timeout(SMSS, 2), 2 * SMSS);
        assert_eq!((w.cwnd(), w.ssthresh()), (SMSS, 5 * SMSS));
    }

    #[test]
    fn undo_after_two_expiries_restores_what_was_before_the_first() {
        let mut w = window(10, 20);
        w.collapse(&timeout(10 * SMSS, 1), 5 * SMSS);
        w.collapse(&timeout(SMSS, 2), 2 * SMSS);
        assert!(w.undo());
        assert_eq!((w.cwnd(), w.ssthresh()), (10 * SMSS, 20 * SMSS));
        assert!(!w.undo(), "a reduction is undone once");
    }

    #[test]
    fn decrease_without_loss_does_not_reopen_slow_start() {
        let mut w = window(10, 10);
        w.ease(9 * SMSS);
        assert_eq!((w.cwnd(), w.in_slow_start()), (9 * SMSS, false));
    }

    #[test]
    fn window_stays_within_its_bounds() {
        let mut w = window(1, u64::MAX);
        w.set_cwnd(0);
        assert_eq!(w.cwnd(), SMSS);
        (0..100).for_each(|_| {
            w.slow_start(u64::MAX, SlowStart::Unlimited);
        });
        assert_eq!(w.cwnd(), CWND_MAX);
        w.set_ssthresh(1);
        (0..10).for_each(|_| w.reno_step(u64::MAX));
        assert_eq!(w.cwnd(), CWND_MAX);
    }
}
