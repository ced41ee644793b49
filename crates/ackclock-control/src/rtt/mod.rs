//! Round-trip time, and the retransmission timeout computed from it (RFC 6298).
//!
//! One estimator with parameters ([`RtoConfig`]) covers the recursion of V. Jacobson and M. Karels
//! ("Congestion Avoidance and Control", SIGCOMM 1988, §2 and Appendix A), RFC 793's before it, RFC 6298's
//! after it, and every variant that M. Allman and V. Paxson measured ("On Estimating End-to-End Network Path
//! Properties", SIGCOMM 1999, §2).
//!
//! The recursion works on integers: nanoseconds with eight fraction bits. Each step rounds to the nearest
//! 1/256 ns, so with a gain of 1/n the mean stays within n/512 ns of the recursion with real numbers.
//!
//! ```
//! use std::time::Duration;
//! use ackclock_control::rtt::{RtoConfig, RttEstimator};
//!
//! let mut rtt = RttEstimator::new(&RtoConfig::default());
//! assert_eq!(rtt.rto(), Duration::from_secs(1));
//! rtt.on_sample(Duration::from_millis(100));
//! assert_eq!(rtt.rto(), Duration::from_millis(300));
//! rtt.on_expiry();
//! assert_eq!(rtt.rto(), Duration::from_millis(600));
//! ```

mod choice;
mod config;
pub mod presets;
ackclock_form::form! {
    struct RttEstimator {
        averages, srv_ns, latest_ns, rtt_min_ns, timed, initial_ns, rto_min_ns, rto_max_ns, granularity_ns,
        srtt_gain, rttvar_gain, formula, backoff, deviation_floor, flags
    } => |rtt| 0 < rtt.rto_min_ns && rtt.rto_min_ns <= rtt.rto_max_ns;
    enum Averages { 0 None, 1 Fine { srtt, rttvar }, 2 Ticks(value) }
    struct Flags(bits)
}

#[cfg(test)]
mod tests;
mod ticks;

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

pub use choice::InvalidRto;
pub use config::{Arithmetic, Backoff, DeviationFloor, Formula, Gain, RtoConfig, Sampling};
pub use ticks::TickEstimator;

use crate::Instant;
use crate::divide::nearest_multiple;
use crate::time::nanos;

/// Smoothed round-trip time, its mean deviation, and the timeout.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    averages: Averages,
    /// Signed deviation in nanoseconds, for [`Formula::SignedDeviation`].
    srv_ns: i64,
    latest_ns: u64,
    rtt_min_ns: u64,
    /// When the timed segment was sent, if only one is timed at a time; `FAR_FUTURE` if none is.
    timed: Instant,
    initial_ns: u64,
    rto_min_ns: u64,
    rto_max_ns: u64,
    granularity_ns: NonZeroU32,
    srtt_gain: Gain,
    rttvar_gain: Gain,
    formula: Formula,
    backoff: u8,
    deviation_floor: DeviationFloor,
    flags: Flags,
}

impl RttEstimator {
    /// An estimator without measurements.
    #[must_use]
    pub fn new(config: &RtoConfig) -> Self {
        // A timeout of zero would expire before a segment could arrive.
        let rto_min_ns = nanos(config.rto_min).clamp(1, DURATION_NS_MAX);
        let granularity = NonZeroU32::new(u32::try_from(nanos(config.granularity)).unwrap_or(u32::MAX));
        Self {
            averages: Averages::None,
            srv_ns: 0,
            latest_ns: 0,
            rtt_min_ns: u64::MAX,
            timed: Instant::FAR_FUTURE,
            initial_ns: nanos(config.initial).min(DURATION_NS_MAX),
            rto_min_ns,
            rto_max_ns: nanos(config.rto_max).clamp(rto_min_ns, DURATION_NS_MAX),
            granularity_ns: granularity.unwrap_or(NonZeroU32::MIN),
            srtt_gain: config.srtt_gain,
            rttvar_gain: config.rttvar_gain,
            formula: config.formula,
            backoff: 0,
            deviation_floor: config.deviation_floor,
            flags: Flags::of(config),
        }
    }

    /// Continues with other parameters. The measurements and the backoff stay.
    pub fn set_config(&mut self, config: &RtoConfig) {
        let (srtt, rttvar) = (self.srtt_nanos(), nanos(self.rttvar()));
        let measured = self.has_sample();
        let (timed, backoff) = (self.timed, self.backoff);
        let (srv_ns, latest_ns, rtt_min_ns) = (self.srv_ns, self.latest_ns, self.rtt_min_ns);
        *self = Self { timed, backoff, srv_ns, latest_ns, rtt_min_ns, ..Self::new(config) };
        if measured {
            self.averages = if self.flags.has(Flags::TICKS) {
                Averages::Ticks(TickEstimator::from_averages(srtt, rttvar, self.tick_ns().get()))
            } else {
                Averages::Fine { srtt: srtt << FRACTION_BITS, rttvar: rttvar << FRACTION_BITS }
            };
        }
    }

    /// Earlier connections to the same host measured this (RFC 9040). Until there is a sample, the timeout is
    /// what it would be after this one as the first, with the deviation if that is larger: at most 3 s, or
    /// the initial value if that is more.
    pub fn expect(&mut self, srtt: Duration, rttvar: Duration) {
        let (srtt_ns, rttvar_ns) = (nanos(srtt), nanos(rttvar));
        // RFC 6298 §2 (2.2): RTTVAR <- R/2, RTO <- SRTT + max (G, K*RTTVAR), where K = 4.
        let expected = srtt_ns.saturating_add(rttvar_ns.max(srtt_ns / 2).saturating_mul(4));
        let most = self.initial_ns.max(RTO_AFTER_SYN_EXPIRY_NS).max(self.rto_min_ns);
        self.initial_ns = expected.clamp(self.rto_min_ns, most);
    }

    /// Takes the round trip of a segment that was sent once, or that a timestamp identifies.
    ///
    /// The caller applies Karn's rule (RFC 6298 §3): no sample from a retransmitted segment, unless a
    /// timestamp shows which transmission was acknowledged.
    pub fn on_sample(&mut self, rtt: Duration) {
        let measured = nanos(rtt).min(SAMPLE_NS_MAX);
        self.take(measured, self.ticks_of(measured));
    }

    /// A segment with new data was sent. If only one segment is timed at a time and none is, this one is.
    #[inline]
    pub fn on_segment_sent(&mut self, now: Instant) {
        if self.flags.has(Flags::ONCE_PER_FLIGHT) && self.timed == Instant::FAR_FUTURE {
            self.timed = now;
        }
    }

    /// A segment was retransmitted, or a retransmitted one was acknowledged. The timed segment is no longer
    /// timed, as BSD clears `t_rtt` (Karn and Partridge 1987; Jacobson and Karels 1988, (vi)).
    #[inline]
    pub fn on_segment_retransmitted(&mut self) {
        self.timed = Instant::FAR_FUTURE;
    }

    /// Takes the round trip of a segment sent once, at `sent_at`, and acknowledged `now` with everything
    /// before it, if the sampling rule times that segment or an earlier one. Returns whether it did.
    ///
    /// A clock with coarse ticks shows how often it ticked in between: possibly once for a moment, or not at
    /// all for nearly a tick, as BSD's counter `t_rtt` did.
    // Always inlined, for the row "acknowledgement received" of the counted instructions of ackclock-core.
    #[inline(always)]
    pub fn on_segment_acked(&mut self, sent_at: Instant, now: Instant) -> bool {
        let mut timed_from = sent_at;
        if self.flags.has(Flags::ONCE_PER_FLIGHT) {
            if sent_at < self.timed || self.timed == Instant::FAR_FUTURE {
                return false;
            }
            timed_from = std::mem::replace(&mut self.timed, Instant::FAR_FUTURE);
        }
        let measured = now.nanos_since(timed_from).min(SAMPLE_NS_MAX);
        self.take(measured, self.shown_between(timed_from, now));
        true
    }

    /// Takes the round trip of the SYN, sent once at `sent_at` and answered `now`. The arithmetics in
    /// ticks count its ticks, too (4.3BSD, 10 August 1987: "get rtt estimate on SYN").
    pub fn on_syn_acked(&mut self, sent_at: Instant, now: Instant) {
        let measured = now.nanos_since(sent_at).min(SAMPLE_NS_MAX);
        let counts = self.flags.has(Flags::TICKS) || self.flags.has(Flags::WHOLE_TICKS);
        let shown = if counts { self.shown_between(sent_at, now) } else { self.ticks_of(measured) };
        self.take(measured, shown);
    }

    /// The time that a clock of this granularity shows between two instants.
    #[inline]
    fn shown_between(&self, from: Instant, to: Instant) -> u64 {
        let tick = self.tick_ns();
        let shown = if tick == NonZeroU64::MIN {
            to.nanos_since(from)
        } else {
            let ticks = (to.as_nanos() / tick).saturating_sub(from.as_nanos() / tick);
            ticks.saturating_add(self.ticks_ahead()).saturating_mul(tick.get())
        };
        shown.min(SAMPLE_NS_MAX)
    }

    /// How many ticks the next sample counts before one has gone by.
    fn ticks_ahead(&self) -> u64 {
        let first = !self.has_sample() && self.flags.has(Flags::FIRST_COUNTS_ONE_MORE);
        u64::from(first || self.flags.has(Flags::WHOLE_TICKS))
    }

    /// Whether one segment at a time is timed.
    #[must_use]
    #[inline]
    pub fn times_one_segment(&self) -> bool {
        self.flags.has(Flags::ONCE_PER_FLIGHT)
    }

    /// The retransmission timer expired.
    pub fn on_expiry(&mut self) {
        // RFC 9293 MUST-19: exponential backoff; RFC 6298 §5 (5.5): the host MUST set RTO <- RTO * 2 ("back
        // off the timer").
        self.backoff = self.backoff.saturating_add(1);
        self.on_segment_retransmitted();
    }

    /// The last expiry was wrong: the acknowledgement was on its way.
    pub fn on_spurious_expiry(&mut self) {
        if let Formula::MeanDeviation { k, adapt: true } = &mut self.formula {
            *k = k.saturating_mul(2);
        }
    }

    /// Gives extra weight to the last sample: the first one of data sent after a wrong expiry. `srtt` and
    /// `rttvar` are the values before the expiry, and replace what the samples since have made of them.
    ///
    /// This is the response of R. Ludwig and A. Gurtov, "The Eifel Response Algorithm for TCP", RFC 4015,
    /// 2005, step 11, for a timer as in RFC 6298. Other formulas and the arithmetic of 1988 keep their
    /// samples.
    pub fn adapt_to_spurious_expiry(&mut self, srtt: Duration, rttvar: Duration) {
        let Formula::MeanDeviation { adapt: false, .. } = self.formula else { return };
        if let Averages::Fine { .. } = self.averages {
            // Step 0: SRTT_prev <- SRTT + 2*G. Step 11: SRTT <- max(SRTT_prev, RTT-SAMPLE),
            // RTTVAR <- max(RTTVAR_prev, RTT-SAMPLE/2).
            let srtt_ns =
                nanos(srtt).saturating_add(self.tick_ns().get().saturating_mul(2)).min(SAMPLE_NS_MAX);
            let rttvar_ns = nanos(rttvar).min(SAMPLE_NS_MAX);
            let sample = self.latest_ns << FRACTION_BITS;
            self.averages = Averages::Fine {
                srtt: (srtt_ns << FRACTION_BITS).max(sample),
                rttvar: (rttvar_ns << FRACTION_BITS).max(sample / 2),
            };
        }
    }

    /// Takes the backoff of the last expiry back: what was sent is known not to have been lost to congestion
    /// (A. Zimmermann and A. Hannemann, "Making TCP More Robust to Long Connectivity Disruptions", RFC 6069,
    /// 2010, §4.2 (7)). Returns whether there was one, and the estimator takes part.
    // RFC 6069 §4.2: a sender that does not compute its timeout by RFC 2988 (now RFC 6298) MUST NOT use the
    // scheme, so the older arithmetics and formulas, and other backoffs, do not.
    pub fn undo_backoff(&mut self) -> bool {
        let other = self.flags.has(Flags::TICKS) || self.flags.has(Flags::WHOLE_TICKS);
        let is_standard =
            matches!(self.formula, Formula::MeanDeviation { .. }) && self.flags.has(Flags::DOUBLES) && !other;
        let undoes = is_standard && self.backoff > 0;
        self.backoff = self.backoff.saturating_sub(u8::from(undoes));
        undoes
    }

    /// Takes all backoff back. [`Self::on_sample`] does so too.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The handshake completed after a retransmitted SYN, and gave no sample.
    pub fn on_handshake_after_expiry(&mut self) {
        self.backoff = 0;
        // RFC 6298 §5 (5.7): if the timer expired for a SYN and the RTO was below 3 seconds, the RTO MUST be
        // re-initialized to 3 seconds when data transmission begins.
        self.initial_ns = self.initial_ns.max(RTO_AFTER_SYN_EXPIRY_NS);
    }

    /// Smoothed round-trip time; zero before the first sample.
    #[must_use]
    #[inline]
    pub fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt_nanos())
    }

    /// [`Self::srtt`] in nanoseconds.
    #[must_use]
    #[inline]
    pub fn srtt_nanos(&self) -> u64 {
        match self.averages {
            Averages::None => 0,
            Averages::Fine { srtt, .. } => whole_nanos(srtt),
            Averages::Ticks(ticks) => ticks.mean_eighths().saturating_mul(self.tick_ns().get()) / 8,
        }
    }

    /// Mean deviation of the round-trip time; zero before the first sample.
    #[must_use]
    pub fn rttvar(&self) -> Duration {
        Duration::from_nanos(match self.averages {
            Averages::None => 0,
            Averages::Fine { rttvar, .. } => whole_nanos(rttvar),
            Averages::Ticks(ticks) => ticks.deviation_quarters().saturating_mul(self.tick_ns().get()) / 4,
        })
    }

    /// Smallest round trip measured; zero before the first sample.
    #[must_use]
    #[inline]
    pub fn rtt_min(&self) -> Duration {
        Duration::from_nanos(self.rtt_min_nanos())
    }

    /// [`Self::rtt_min`] in nanoseconds.
    #[must_use]
    #[inline]
    pub fn rtt_min_nanos(&self) -> u64 {
        if self.has_sample() { self.rtt_min_ns } else { 0 }
    }

    /// Last round trip measured; zero before the first sample.
    #[must_use]
    pub fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest_ns)
    }

    /// Whether a round trip has been measured.
    #[must_use]
    #[inline]
    pub fn has_sample(&self) -> bool {
        !matches!(self.averages, Averages::None)
    }

    /// How many times in a row the timer has expired.
    #[must_use]
    pub fn backoff(&self) -> u32 {
        u32::from(self.backoff)
    }

    /// The timeout, backoff and bounds included.
    #[must_use]
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto_ns())
    }

    /// The smallest value that [`Self::rto`] can have, in nanoseconds.
    #[must_use]
    #[inline]
    pub fn rto_min_nanos(&self) -> u64 {
        self.rto_min_ns
    }

    #[inline]
    fn rto_ns(&self) -> u64 {
        let base = self.rto_base_ns();
        if self.backoff == 0 {
            // It is within the bounds already.
            return base;
        }
        // Both factors are at most 2^64, so the product is exact; the bound makes the result fit again.
        let backed_off = if self.flags.has(Flags::DOUBLES) {
            u128::from(base) << self.backoff.min(64)
        } else if self.flags.has(Flags::BSD43_TABLE) {
            // sys/netinet/tcp_timer.c 6.10, 13 January 1986: the bounds come after the factor.
            let at = usize::from(self.backoff.saturating_sub(1)).min(BSD43_BACKOFF.len().saturating_sub(1));
            let factor = BSD43_BACKOFF.get(at).copied().unwrap_or(1);
            u128::from(self.rto_unbounded_ns().saturating_mul(factor).max(self.rto_min_ns))
        } else {
            u128::from(base)
        };
        u64::try_from(backed_off).unwrap_or(u64::MAX).min(self.rto_max_ns)
    }

    /// New data was acknowledged after an expiry. Takes the backoff back if it lasts no longer than that,
    /// whether or not there is a sample.
    pub fn on_progress_after_expiry(&mut self) {
        if self.flags.has(Flags::BSD43_TABLE) {
            self.backoff = 0;
        }
    }

    /// The timeout without backoff, within its bounds.
    #[must_use]
    pub fn rto_unbacked(&self) -> Duration {
        Duration::from_nanos(self.rto_base_ns())
    }

    /// When the retransmission timer, started `now`, expires.
    #[must_use]
    #[inline]
    pub fn expires_at(&self, now: Instant) -> Instant {
        self.deadline_after(now, self.rto_ns())
    }

    /// When a timer of this clock, set `now` to `time`, expires: after that time or, with a heartbeat clock,
    /// at the tick that ends the last of its ticks, up to one tick early.
    #[must_use]
    pub fn deadline(&self, now: Instant, time: Duration) -> Instant {
        self.deadline_after(now, nanos(time))
    }

    #[inline]
    fn deadline_after(&self, now: Instant, time_ns: u64) -> Instant {
        if !self.flags.has(Flags::HEARTBEAT) {
            return now.plus_nanos(time_ns);
        }
        let tick = self.tick_ns();
        let last_tick = now.as_nanos().saturating_sub(now.as_nanos() % tick);
        // Bounds need not be whole ticks, but the clock counts only whole ones.
        let ticks = time_ns.div_ceil(tick.get()).saturating_mul(tick.get());
        Instant::from_nanos(last_tick.saturating_add(ticks))
    }

    #[inline]
    fn take(&mut self, measured: u64, shown: u64) {
        self.latest_ns = measured;
        self.rtt_min_ns = self.rtt_min_ns.min(measured);
        self.average(shown);
        // RFC 6298 §5: the backed-off timeout is kept until a new sample is taken (Karn and Partridge 1987).
        self.backoff = 0;
    }

    // RFC 9293 MUST-18: the retransmission timeout is computed as RFC 6298 says.
    #[inline]
    fn average(&mut self, rtt_ns: u64) {
        match &mut self.averages {
            Averages::None if self.flags.has(Flags::TICKS) => {
                self.averages = Averages::Ticks(TickEstimator::first(self.in_ticks(rtt_ns)));
            }
            Averages::None => {
                // RFC 6298 §2 (2.2): SRTT <- R, RTTVAR <- R/2.
                let srtt = rtt_ns << FRACTION_BITS;
                self.averages = Averages::Fine { srtt, rttvar: srtt / 2 };
            }
            Averages::Ticks(_) => {
                let ticks = self.in_ticks(rtt_ns);
                if let Averages::Ticks(estimator) = &mut self.averages {
                    estimator.update(ticks);
                }
            }
            Averages::Fine { srtt, rttvar } => {
                let sample = rtt_ns << FRACTION_BITS;
                // RFC 6298 §2 (2.3): RTTVAR is updated with SRTT's value from before this sample.
                *rttvar = self.rttvar_gain.average(*rttvar, srtt.abs_diff(sample));
                // Awadallah and Rai 1998 §3.2: srv <- srv/2 + (measured RTT - smoothed RTT)/2.
                let error_ns = signed(rtt_ns).saturating_sub(signed(whole_nanos(*srtt)));
                self.srv_ns = self.srv_ns.saturating_add(error_ns) / 2;
                *srtt = self.srtt_gain.average(*srtt, sample);
            }
        }
    }

    fn rto_base_ns(&self) -> u64 {
        self.rto_unbounded_ns().clamp(self.rto_min_ns, self.rto_max_ns)
    }

    #[inline(always)]
    fn rto_unbounded_ns(&self) -> u64 {
        let base = match (self.formula, self.averages) {
            (Formula::Static, _) | (_, Averages::None) => self.initial_ns,
            (Formula::Multiple { beta }, _) => self.srtt_nanos().saturating_mul(u64::from(beta)),
            (
                Formula::MeanDeviation { k, .. } | Formula::SignedDeviation { k, .. },
                Averages::Ticks(ticks),
            ) => ticks.rto_ticks(k).saturating_mul(self.tick_ns().get()),
            (Formula::MeanDeviation { k, .. }, Averages::Fine { srtt, rttvar }) => {
                self.mean_deviation_ns(srtt, rttvar, k)
            }
            (Formula::SignedDeviation { k, k_falling }, Averages::Fine { srtt, rttvar }) => {
                self.mean_deviation_ns(srtt, rttvar, if self.srv_ns < 0 { k_falling } else { k })
            }
        };
        if self.flags.has(Flags::WHOLE_TICKS) {
            base.saturating_sub(base % self.tick_ns())
        } else {
            self.up_to_tick(base)
        }
    }

    fn mean_deviation_ns(&self, srtt: u64, rttvar: u64, k: u8) -> u64 {
        let tick = self.tick_ns().get();
        let term = match self.deviation_floor {
            // RFC 6298 §2 (2.3): RTO <- SRTT + max (G, K*RTTVAR).
            DeviationFloor::Term => whole_nanos(rttvar.saturating_mul(u64::from(k))).max(tick),
            DeviationFloor::Deviation => {
                whole_nanos(rttvar.max(tick << FRACTION_BITS).saturating_mul(u64::from(k)))
            }
        };
        whole_nanos(srtt).saturating_add(term)
    }

    /// The round trip as a clock of granularity G shows it, ignoring phase: the nearest number of ticks.
    fn ticks_of(&self, rtt_ns: u64) -> u64 {
        let tick = self.tick_ns();
        if tick == NonZeroU64::MIN {
            return rtt_ns;
        }
        nearest_multiple(rtt_ns, tick).saturating_add(self.ticks_ahead().saturating_mul(tick.get()))
    }

    fn in_ticks(&self, rtt_ns: u64) -> u32 {
        u32::try_from(rtt_ns / self.tick_ns()).unwrap_or(u32::MAX)
    }

    fn up_to_tick(&self, timeout_ns: u64) -> u64 {
        let tick = self.tick_ns().get();
        if tick == 1 { timeout_ns } else { timeout_ns.div_ceil(tick).saturating_mul(tick) }
    }

    #[inline]
    fn tick_ns(&self) -> NonZeroU64 {
        self.granularity_ns.into()
    }
}

/// The averages of the round trip, once there is one.
#[derive(Clone, Copy, Debug)]
enum Averages {
    /// Nothing.
    None,
    /// In 1/256 ns.
    Fine { srtt: u64, rttvar: u64 },
    /// As in 1988.
    Ticks(TickEstimator),
}

/// Flags, in one byte.
#[derive(Clone, Copy, Debug)]
struct Flags(u8);

impl Flags {
    const TICKS: u8 = 1;
    const HEARTBEAT: u8 = 2;
    const ONCE_PER_FLIGHT: u8 = 4;
    const DOUBLES: u8 = 8;
    const BSD43_TABLE: u8 = 16;
    const FIRST_COUNTS_ONE_MORE: u8 = 32;
    /// Each sample counts one more, and a timeout is cut to whole ticks.
    const WHOLE_TICKS: u8 = 64;

    fn of(config: &RtoConfig) -> Self {
        let flags = [
            (matches!(config.arithmetic, Arithmetic::Ticks | Arithmetic::BsdTicks), Self::TICKS),
            (config.arithmetic == Arithmetic::BsdTicks, Self::FIRST_COUNTS_ONE_MORE),
            (config.arithmetic == Arithmetic::Bsd43, Self::WHOLE_TICKS),
            (config.heartbeat, Self::HEARTBEAT),
            (config.sampling == Sampling::OncePerFlight, Self::ONCE_PER_FLIGHT),
            (config.backoff == Backoff::Doubling, Self::DOUBLES),
            (config.backoff == Backoff::Bsd43, Self::BSD43_TABLE),
        ];
        Self(flags.iter().filter(|(on, _)| *on).fold(0, |bits, (_, flag)| bits | flag))
    }

    #[inline]
    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

#[inline]
fn whole_nanos(fixed: u64) -> u64 {
    fixed.saturating_add(1 << (FRACTION_BITS - 1)) >> FRACTION_BITS
}

/// A sample is far below i64::MAX (see [`SAMPLE_NS_MAX`]).
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// By how much 4.3BSD multiplied the timeout after the first expiry in a row, the second, and so on.
const BSD43_BACKOFF: [u64; 9] = [1, 2, 4, 6, 8, 10, 15, 20, 30];
/// Bits below the nanosecond.
const FRACTION_BITS: u32 = 8;
/// Longer samples count as this value: 78 hours.
const SAMPLE_NS_MAX: u64 = 1 << 48;
/// Longer timeouts count as this value: 78 hours.
const DURATION_NS_MAX: u64 = 1 << 48;
/// RFC 6298 §5 (5.7).
const RTO_AFTER_SYN_EXPIRY_NS: u64 = 3_000_000_000;

const _: () = assert!(SAMPLE_NS_MAX.leading_zeros() > FRACTION_BITS);
// Each connection has an estimator; an idle connection's memory is counted in KiB.
const _: () = assert!(size_of::<RttEstimator>() <= 96);
