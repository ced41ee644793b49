//! CUBIC: the window is a cubic function of the time since the last reduction.
//!
//! L. Xu, S. Ha, I. Rhee, V. Goel and L. Eggert, "CUBIC for Fast and Long-Distance Networks", RFC 9438, 2023;
//! section numbers below are its own. The arithmetic is in integers: bytes for windows, 2^-20 s for the time
//! on the curve.
//!
//! Slow start is HyStart++ (RFC 9406), as §4.10 recommends. `cubic-plain` does without it.
//!
//! Deviations: growth counts acknowledged bytes, not acknowledgements, so delayed and stretched
//! acknowledgements grow the window as prompt ones do, and divided ones gain nothing. In slow start an
//! acknowledgement adds everything that it acknowledges (RFC 9406 §4.3 with L infinite).

use std::num::NonZeroU128;

use super::hystart::HyStart;
use super::snapshot::signed;
use super::window::{CWND_MAX, Remainder, SlowStart, Window};
use super::{
    About, Ack, Controller, Exception, IdleRestart, LossCause, LossEpisode, Signal, Snapshot, Start, Timeout,
    Undo,
};
use crate::Instant;
use crate::divide::at_least_one;
use crate::time::nanos;

/// The controller of RFC 9438.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    /// Used after the first slow start. It is boxed for the benchmark row "bytes of an idle connection".
    curves: Option<Box<Curves>>,
    /// When the last acknowledgement came, to measure the time that does not count.
    last_ack: Instant,
    hystart: Option<HyStart>,
}

impl Cubic {
    /// The name in the registry.
    pub const NAME: &'static str = "cubic";
    /// The name in the registry of CUBIC with RFC 5681's slow start.
    pub const NAME_PLAIN: &'static str = "cubic-plain";
    /// Its row in the table of controllers.
    pub const ABOUT: About = About {
        year: 2023,
        source: "Xu, Ha, Rhee, Goel and Eggert, CUBIC for Fast and Long-Distance Networks, RFC 9438",
        signal: Signal::Loss,
        keeps_in_queue: "up to the whole buffer, 0.7 of the window after a loss",
        deviations: "counts bytes, not acknowledgements; slow start is not limited by acknowledgement; \
            HyStart++ judges eight samples in a row, and a spike's end by rounds",
        exceptions: &[Exception {
            check: "halves on loss",
            why: "it keeps seven tenths, and grows more slowly where Reno would be ahead (RFC 9438 §4.6)",
        }],
    };

    /// CUBIC with RFC 5681's slow start.
    pub const ABOUT_PLAIN: About = About {
        source: "RFC 9438 without HyStart++: Xu, Ha, Rhee, Goel and Eggert, CUBIC for Fast and Long-Distance Networks",
        deviations: "counts bytes, not acknowledgements; slow start is not limited by acknowledgement",
        ..Self::ABOUT
    };

    /// A controller for one connection, with HyStart++.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self { hystart: Some(HyStart::new()), ..Self::plain(start) }
    }

    /// A controller for one connection, with the slow start of RFC 5681.
    #[must_use]
    pub fn plain(start: &Start) -> Self {
        Self { window: Window::new(start), curves: None, last_ack: start.now, hystart: None }
    }

    fn slow_start(&mut self, ack: &Ack) -> u64 {
        match &mut self.hystart {
            // RFC 9406 §4.3: HyStart++ is for the initial slow start, while ssthresh is arbitrarily high.
            Some(hystart) if self.window.ssthresh() == u64::MAX => hystart.slow_start(&mut self.window, ack),
            // Deviation from RFC 3465 §2.3: no limit after a timeout either. Bytes delivered before it are
            // counted when SACK reports them, so the first cumulative acknowledgement causes no burst.
            _ => self.window.slow_start(ack.bytes_acked, SlowStart::Unlimited),
        }
    }

    /// §4.2 to §4.5: concave, convex or Reno-friendly.
    fn avoid_congestion(&mut self, ack: &Ack, bytes_acked: u64) {
        let (cwnd, smss) = (self.window.cwnd(), self.window.smss());
        let curve = &mut self.curves.get_or_insert_default().present;
        let epoch = curve.epoch_at(ack.now, cwnd, smss);
        let t = curve_time(nanos(ack.now.saturating_since(epoch)));
        curve.grow_reno_estimate(cwnd, bytes_acked, smss);

        // §4.3: if W_cubic(t) is less than W_est, cwnd SHOULD be set to W_est.
        if curve.window_at(t, smss) < curve.w_est {
            self.window.set_cwnd(cwnd.max(curve.w_est));
            return;
        }
        // §4.2: target = W_cubic(t + RTT), not below cwnd and not above 1.5*cwnd.
        let ahead = t.saturating_add(curve_time(ack.srtt_ns));
        let target = curve.window_at(ahead, smss).clamp(cwnd, cwnd.saturating_add(cwnd / 2));
        // §4.4, §4.5: cwnd grows by (target - cwnd)/cwnd for each segment acknowledged.
        let gap = target.saturating_sub(cwnd);
        let growth = curve.cubic_growth.divide(gap.saturating_mul(bytes_acked), cwnd);
        self.window.grow_by(growth);
    }

    fn note_reduction(&mut self) {
        let cwnd = self.window.cwnd();
        let Curves { present, prior } = &mut **self.curves.get_or_insert_default();
        *prior = *present;
        // §4.7: fast convergence: a window that did not reach W_max again gives up more, for new flows.
        let w_max = if cwnd < present.w_max { cwnd.saturating_mul(17) / 20 } else { cwnd };
        *present = Curve { w_max, cwnd_prior: cwnd, ..Curve::default() };
    }

    /// §4.6: ssthresh = flight_size * β_cubic. The caller ensures at least two segments. Data outstanding
    /// beyond the window does not count (see [`Window::half_of`]).
    fn reduced(&self, flight_size: u64) -> u64 {
        flight_size.min(self.window.cwnd()).saturating_mul(BETA_NUMERATOR) / BETA_DENOMINATOR
    }
}

impl Controller for Cubic {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        if self.hystart.is_some() { Self::NAME } else { Self::NAME_PLAIN }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let since_last = ack.now.saturating_since(self.last_ack);
        self.last_ack = self.last_ack.max(ack.now);
        if !Window::may_grow(ack) {
            // §4.2: t leaves out the time in which cwnd was not the limit; otherwise the curve would run
            // ahead.
            if let Some(curves) = &mut self.curves {
                curves.present.pause(since_last);
            }
            return;
        }
        let mut bytes = ack.bytes_acked;
        if self.window.in_slow_start() {
            bytes = self.slow_start(ack);
        }
        if !self.window.in_slow_start() && bytes > 0 {
            self.avoid_congestion(ack, bytes.min(self.window.cwnd()));
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        let reduced = self.reduced(loss.flight_size);
        self.note_reduction();
        self.window.reduce(reduced.max(self.window.segments(2)));
        if loss.cause == LossCause::EcnEcho {
            // §4.6: on a mark cwnd may fall to one segment; ssthresh may not.
            self.window.set_cwnd(self.window.cwnd().min(reduced));
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let ssthresh = self.reduced(timeout.flight_size).max(self.window.segments(2));
        if timeout.expiries <= 1 {
            self.note_reduction();
        }
        // §4.8: after a timeout K is zero and W_max the window at which congestion avoidance begins.
        let curve = &mut self.curves.get_or_insert_default().present;
        *curve = Curve { cwnd_prior: curve.cwnd_prior, ..Curve::default() };
        self.window.collapse(timeout, ssthresh);
    }

    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        self.window.restart(idle);
        if let Some(curves) = &mut self.curves {
            curves.present.epoch_start = None;
        }
    }

    fn on_undo(&mut self, _: &Undo) {
        // §4.9: cwnd, ssthresh, W_max, K, the epoch and cwnd_prior are what they were.
        if self.window.undo()
            && let Some(Curves { present, prior }) = self.curves.as_deref_mut()
        {
            *present = *prior;
        }
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.window.set_smss(smss);
    }

    fn limit_slow_start(&mut self, bytes: u64) {
        self.window.limit_slow_start(bytes);
    }

    /// §4.6 allows it. A peer's window that has not opened yet, or an application that paused for a moment,
    /// leaves little outstanding and says nothing about the path.
    fn reduces_window(&self) -> bool {
        true
    }

    fn cwnd(&self) -> u64 {
        self.window.cwnd()
    }

    fn ssthresh(&self) -> u64 {
        self.window.ssthresh()
    }

    fn snapshot(&self) -> Snapshot {
        let curve = self.curves.as_ref().map(|curves| curves.present).unwrap_or_default();
        Snapshot::default()
            .with("w_max", signed(curve.w_max))
            .with("w_est", signed(curve.w_est))
            .with("k_ms", signed(curve.k.saturating_mul(1000) >> TIME_BITS))
            .with("css", self.hystart.as_ref().is_some_and(HyStart::is_conservative).into())
    }
}

/// The curve that the window follows, and the one before the last reduction (§4.9).
#[derive(Clone, Copy, Debug, Default)]
struct Curves {
    present: Curve,
    prior: Curve,
}

/// W_cubic(t) and W_est (§4.1).
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// Window before the last reduction, lowered by fast convergence. The curve is flat there.
    w_max: u64,
    /// Window before the last reduction.
    cwnd_prior: u64,
    /// The time from the reduction to `w_max`, in 2^-20 s.
    k: u64,
    /// When congestion avoidance began; `None` before its first acknowledgement.
    epoch_start: Option<Instant>,
    /// The window that Reno with the same average would have.
    w_est: u64,
    reno_growth: Remainder,
    cubic_growth: Remainder,
}

impl Curve {
    /// The start of this congestion avoidance phase; `now` if it has not started yet.
    fn epoch_at(&mut self, now: Instant, cwnd: u64, smss: u64) -> Instant {
        if let Some(epoch) = self.epoch_start {
            return epoch;
        }
        self.epoch_start = Some(now);
        // §4.2, §4.10: without a larger window to return to, W_max is the window at the start and K is zero.
        self.w_max = self.w_max.max(cwnd);
        // §4.2: K = cubic root of ((W_max - cwnd_epoch) / C).
        self.k = time_to_grow(self.w_max.saturating_sub(cwnd), smss);
        self.w_est = cwnd;
        now
    }

    /// §4.2: W_cubic(t) = C*(t - K)^3 + W_max, in bytes.
    fn window_at(&self, t: u64, smss: u64) -> u64 {
        let distance = cubic_growth_bytes(t.abs_diff(self.k), smss);
        if t >= self.k {
            self.w_max.saturating_add(distance).min(CWND_MAX)
        } else {
            self.w_max.saturating_sub(distance)
        }
    }

    /// §4.3: W_est += alpha * segments_acked / cwnd.
    fn grow_reno_estimate(&mut self, cwnd: u64, bytes_acked: u64, smss: u64) {
        let acked = bytes_acked.saturating_mul(smss);
        // alpha = 3 * (1 - beta) / (1 + beta) = 9/17; §4.3: 1 once W_est has reached cwnd_prior.
        let alpha_times_17 = if self.w_est < self.cwnd_prior { 9 } else { 17 };
        let growth = self.reno_growth.divide(acked.saturating_mul(alpha_times_17), cwnd.saturating_mul(17));
        self.w_est = self.w_est.saturating_add(growth).min(CWND_MAX);
    }

    fn pause(&mut self, by: std::time::Duration) {
        if let Some(epoch) = &mut self.epoch_start {
            *epoch += by;
        }
    }
}

/// Nanoseconds as time on the curve, at most 2^40 ns (18 minutes).
fn curve_time(ns: u64) -> u64 {
    (ns.min(1 << 40) << TIME_BITS) / 1_000_000_000
}

/// C * t^3 segments in bytes, with C = 0.4.
fn cubic_growth_bytes(t: u64, smss: u64) -> u64 {
    let t = t.min(TIME_MAX);
    // Cubic seconds with 30 fractional bits: below 2^66 as t is below 2^32.
    let cube = u128::from(t.saturating_mul(t)).saturating_mul(t.into()) >> (3 * TIME_BITS - 30);
    let bytes = cube.saturating_mul(smss.saturating_mul(2).into()) >> 30;
    u64::try_from(bytes).unwrap_or(u64::MAX) / 5
}

/// The time in which C * t^3 segments become `bytes`: the cubic root, rounded down.
fn time_to_grow(bytes: u64, smss: u64) -> u64 {
    let fixed = u128::from(bytes.min(CWND_MAX)) << (3 * TIME_BITS);
    let cube = fixed.saturating_mul(5) / NonZeroU128::from(at_least_one(smss.saturating_mul(2)));
    let mut root = 0_u64;
    for bit in (0..32).rev() {
        let candidate = u128::from(root | 1 << bit);
        if candidate.saturating_pow(3) <= cube {
            root |= 1 << bit;
        }
    }
    root
}

/// §4.6: β_cubic = 0.7.
const BETA_NUMERATOR: u64 = 7;
const BETA_DENOMINATOR: u64 = 10;
/// Time on the curve is in 2^-20 s.
const TIME_BITS: u32 = 20;
const TIME_MAX: u64 = u32::MAX as u64;

const _: () = assert!(size_of::<Cubic>() <= 120);

ackclock_form::form! {
    struct Cubic { window, curves, last_ack, hystart }
    struct Curves { present, prior }
    struct Curve { w_max, cwnd_prior, k, epoch_start, w_est, reno_growth, cubic_growth }
}

#[cfg(test)]
mod tests;
