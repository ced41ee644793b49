//! H-TCP: Reno whose window grows faster the longer there was no congestion.
//!
//! D. Leith, "H-TCP: TCP Congestion Control for High Bandwidth-Delay Product Paths", draft-leith-tcp-htcp-06,
//! 2008; first R. Shorten and D. Leith, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004.
//! Of the draft's text only its first page could be read. The formulas are those on which the
//! implementations of FreeBSD (`cc_htcp.c`, from the draft) and Linux (`tcp_htcp.c`, from the paper) agree.
//!
//! `backoff=half` keeps beta at one half, as FreeBSD does unless asked.
//!
//! Deviations: growth counts acknowledged bytes and is never faster than slow start. The time since the last
//! congestion leaves out the time in which the window was not the limit, or nothing was outstanding. A round
//! trip is the smallest measured within it. The optional scaling with the round-trip time is left out:
//! FreeBSD's and Linux's scale in different ways.

use super::round::{RoundTimes, per_second};
use super::snapshot::signed;
use super::window::{Remainder, SlowStart, Window, window_methods};
use super::{
    About, Ack, Controller, IdleRestart, LossEpisode, Parameter, Settings, Signal, Snapshot, Start, Timeout,
    Undo, Values,
};
use crate::divide::{at_least_one, times};
use crate::time::nanos;
use crate::{Instant, InvalidParameter};

/// The controller of the draft.
#[derive(Clone, Debug)]
pub struct Htcp {
    window: Window,
    /// Whether beta follows the round trips.
    adaptive: bool,
    rounds: RoundTimes,
    growth: Remainder,
    /// When the last acknowledgement came, to measure the time that does not count.
    last_ack: Instant,
    /// The smallest round trip so far, in nanoseconds.
    rtt_min: u64,
    epoch: Epoch,
    /// The epoch before the last reduction.
    prior: Epoch,
}

/// The state that congestion events change.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When the last congestion event was.
    since: Instant,
    /// The share of the window that a loss leaves, in thousandths.
    beta: u64,
    /// The largest round trip so far, in nanoseconds; it fades.
    rtt_max: u64,
    /// B(k): the largest throughput since the last congestion event, and between the two before, in bytes a
    /// second; zero if there was none.
    throughput: u64,
    throughput_before: u64,
}

impl Htcp {
    /// The name in the registry.
    pub const NAME: &'static str = "htcp";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 2008,
        source: "Leith, H-TCP, draft-leith-tcp-htcp-06; first Shorten and Leith, PFLDnet 2004",
        signal: Signal::Loss,
        keeps_in_queue: "up to the whole buffer, 0.5 to 0.8 of the window after a loss",
        deviations: "the formulas are read from FreeBSD's and Linux's code; counts bytes; never grows faster \
            than slow start; no scaling with the round trip",
        exceptions: &[],
    };

    /// Its parameters in the registry's words.
    pub(super) const PARAMETERS: &[Parameter] =
        &[Parameter { name: "backoff", values: Values::Words(&["adaptive", "half"]), default: 0 }];

    pub(super) fn adaptive_from(settings: &Settings) -> Result<bool, InvalidParameter> {
        Ok(settings.value("backoff") == 0)
    }

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_backoff(start, true)
    }

    /// A controller whose beta follows the round trips, or is always one half.
    #[must_use]
    pub fn with_backoff(start: &Start, adaptive: bool) -> Self {
        let epoch =
            Epoch { since: start.now, beta: BETA_MIN, rtt_max: 0, throughput: 0, throughput_before: 0 };
        Self {
            window: Window::new(start),
            adaptive,
            rounds: RoundTimes::new(),
            growth: Remainder::default(),
            last_ack: start.now,
            rtt_min: u64::MAX,
            epoch,
            prior: epoch,
        }
    }

    /// Takes what a round trip shows: its time, and the throughput during it.
    fn measure(&mut self, ack: &Ack, rtt: u64) {
        self.rtt_min = self.rtt_min.min(rtt);
        self.epoch.rtt_max = self.epoch.rtt_max.max(rtt);
        let delivered = ack.delivered.saturating_sub(ack.prior_delivered);
        let throughput = per_second(delivered, ack.delivery_interval_ns);
        self.epoch.throughput = self.epoch.throughput.max(throughput);
    }

    /// A congestion event: a new beta, and a new epoch.
    fn congested(&mut self, now: Instant) {
        self.prior = self.epoch;
        let Epoch { rtt_max, throughput, throughput_before, .. } = self.epoch;
        // |B(k+1) - B(k)| > 0.2 B(k): the bandwidth has changed, or another flow came or left.
        let changed = throughput.abs_diff(throughput_before) > throughput_before / 5;
        let ratio = times(self.rtt_min, ONE, at_least_one(rtt_max)).unwrap_or(ONE);
        let beta = if changed || !self.adaptive { BETA_MIN } else { ratio.clamp(BETA_MIN, BETA_MAX) };
        // A path that has become shorter is noticed as the largest round trip fades.
        let range = rtt_max.saturating_sub(self.rtt_min);
        let rtt_max = rtt_max.saturating_sub(range / 20);
        self.epoch = Epoch { since: now, beta, rtt_max, throughput: 0, throughput_before: throughput };
    }

    /// alpha as of the last acknowledgement, in thousandths of a segment a round trip.
    fn alpha(&self) -> u64 {
        alpha_after(nanos(self.last_ack.saturating_since(self.epoch.since)), self.epoch.beta)
    }

    /// beta * FlightSize, as [`Window::half_of`] has it.
    fn reduced(&self, flight_size: u64) -> u64 {
        let flight_size = flight_size.min(self.window.cwnd());
        (flight_size.saturating_mul(self.epoch.beta) / ONE).max(self.window.segments(2))
    }
}

/// alpha after this time without congestion, in thousandths: 1, and from a second on
/// 1 + 10 (Δ - Δ_L) + ((Δ - Δ_L) / 2)², times 2 (1 - beta).
fn alpha_after(delta_ns: u64, beta: u64) -> u64 {
    let beyond_ms = delta_ns.saturating_sub(DELTA_L_NS) / 1_000_000;
    let square = beyond_ms.saturating_mul(beyond_ms) / 4000;
    let alpha = ONE.saturating_add(beyond_ms.saturating_mul(10)).saturating_add(square);
    // The factor keeps the average share of a flow the same whatever beta is.
    alpha.saturating_mul(2).saturating_mul(ONE.saturating_sub(beta)) / ONE
}

impl Controller for Htcp {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        let since_last = ack.now.saturating_since(self.last_ack);
        // Nothing was outstanding before this was sent.
        let idle = ack.sent_at.saturating_since(self.last_ack);
        self.last_ack = self.last_ack.max(ack.now);
        if let Some(Some(rtt)) = self.rounds.on_ack(ack)
            && !ack.in_recovery
        {
            self.measure(ack, rtt);
        }
        if !Window::may_grow(ack) {
            self.epoch.since += since_last;
            return;
        }
        self.epoch.since += idle;
        let mut bytes = ack.bytes_acked;
        if self.window.in_slow_start() {
            bytes = self.window.slow_start(bytes, SlowStart::Counted);
        }
        if !self.window.in_slow_start() {
            // cwnd += alpha / cwnd for each segment acknowledged.
            self.window.grow_in_thousandths(bytes, self.alpha(), &mut self.growth);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.congested(loss.now);
        self.window.reduce(self.reduced(loss.flight_size));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries <= 1 {
            self.congested(timeout.now);
        }
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        if self.window.undo() {
            let rtt_max = self.prior.rtt_max.max(self.epoch.rtt_max);
            let throughput = self.prior.throughput.max(self.epoch.throughput);
            self.epoch = Epoch { rtt_max, throughput, ..self.prior };
        }
    }

    fn snapshot(&self) -> Snapshot {
        let rtt_min = if self.rtt_min == u64::MAX { 0 } else { self.rtt_min };
        Snapshot::default()
            .with("alpha_thousandths", signed(self.alpha()))
            .with("beta_thousandths", signed(self.epoch.beta))
            .with("rtt_min_us", signed(rtt_min / 1000))
            .with("rtt_max_us", signed(self.epoch.rtt_max / 1000))
            .with("throughput", signed(self.epoch.throughput))
    }

    window_methods!();
}

/// The unit of alpha and beta.
const ONE: u64 = 1000;
/// Bounds of beta: 0.5 and 0.8.
const BETA_MIN: u64 = 500;
const BETA_MAX: u64 = 800;
/// Δ_L: for a second after congestion the window grows as Reno's.
const DELTA_L_NS: u64 = 1_000_000_000;

ackclock_form::form! {
    struct Htcp { window, adaptive, rounds, growth, last_ack, rtt_min, epoch, prior }
    struct Epoch { since, beta, rtt_max, throughput, throughput_before }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Htcp, alpha_after};
    use crate::Instant;
    use crate::congestion::testing::{SMSS, START, ack, loss};
    use crate::congestion::{Ack, Controller, Reno, described};
    use crate::kit::{Flow, Path};

    #[test]
    fn alpha_grows_with_the_time_since_congestion() {
        // 1 + 10 d + (d/2)² for d seconds beyond the first, times 2 (1 - beta).
        let alphas = |beta| [0, 500, 1000, 2000, 3000, 11_000].map(|ms| alpha_after(ms * 1_000_000, beta));
        assert_eq!(alphas(500), [1000, 1000, 1000, 11_250, 22_000, 126_000]);
        assert_eq!(alphas(800), [400, 400, 400, 4500, 8800, 50_400]);
    }

    /// An H-TCP that has seen round trips of 100 and of `longest` ms and this many KB/s in two epochs.
    fn after_epochs(longest: u64, throughputs: [u64; 2]) -> Htcp {
        let mut htcp = Htcp::new(&START);
        let mut delivered = 0;
        for rate in throughputs {
            for rtt_ms in [100, longest, longest] {
                let prior_delivered = delivered;
                delivered += rate * 100;
                let rtt_ns = Some(rtt_ms * 1_000_000);
                htcp.on_ack(&Ack { rtt_ns, delivered, prior_delivered, ..ack(100, SMSS) });
            }
            htcp.on_loss_episode(&loss(200, htcp.cwnd()));
        }
        htcp
    }

    #[test]
    fn beta_is_the_ratio_of_round_trips_between_its_bounds_while_throughput_is_steady() {
        // The longest round trip fades by a twentieth of its distance at the first loss, and is seen again.
        for (longest, throughputs, beta) in [
            (150, [1000, 1000], 666),
            (150, [1000, 1190], 666),
            (150, [1000, 1210], 500),
            (150, [1000, 790], 500),
            (105, [1000, 1000], 800),
            (400, [1000, 1000], 500),
        ] {
            assert_eq!(after_epochs(longest, throughputs).epoch.beta, beta, "{longest} {throughputs:?}");
        }
    }

    #[test]
    fn beta_stays_at_one_half_if_asked() {
        let mut htcp = after_epochs(105, [1000, 1000]);
        assert_eq!(htcp.epoch.beta, 800);
        htcp.adaptive = false;
        htcp.on_loss_episode(&loss(300, htcp.cwnd()));
        assert_eq!(htcp.epoch.beta, 500);
    }

    #[test]
    fn window_grows_by_alpha_a_round_trip() {
        for (second, segments) in [(0, 1.0), (2, 11.25), (3, 22.0)] {
            let mut htcp = Htcp::new(&START);
            htcp.window.set_cwnd(1000 * SMSS);
            htcp.window.set_ssthresh(0);
            let mut grown = 0.0;
            // Each acknowledgement brings a thousandth of a round trip of a window that stays so large.
            for _ in 0..1000 {
                let before = htcp.cwnd();
                // Data was outstanding all the time.
                htcp.on_ack(&Ack { sent_at: Instant::ZERO, ..ack(second * 1000, SMSS) });
                grown += (htcp.cwnd() - before) as f64;
                htcp.window.set_cwnd(1000 * SMSS);
            }
            let expected = segments * SMSS as f64;
            assert!((grown - expected).abs() <= 0.01 * expected, "{grown} bytes after {second} s");
        }
    }

    #[test]
    fn time_without_use_of_the_window_is_no_time_without_congestion() {
        let mut htcp = Htcp::new(&START);
        htcp.window.set_ssthresh(0);
        for now in (0..10_000).step_by(100) {
            htcp.on_ack(&Ack { cwnd_limited: false, ..ack(now, SMSS) });
        }
        htcp.on_ack(&ack(10_000, SMSS));
        assert_eq!(htcp.alpha(), 1000);
        // Nothing was outstanding from 10.0 to 15.0 s, so 1.1 s count, 0.1 of them beyond the first.
        htcp.on_ack(&Ack { sent_at: Instant::from_millis(15_000), ..ack(16_000, SMSS) });
        assert_eq!(htcp.alpha(), alpha_after(1_100_000_000, 500));
        assert_eq!(htcp.alpha(), 2002);
    }

    #[test]
    fn long_fat_path_is_filled_sooner_than_by_reno() {
        // 100 Mbit/s and 200 ms: 2,500 segments. After a loss Reno needs 1,250 round trips, four minutes.
        let path =
            Path { rate: 12_500_000, base_rtt: Duration::from_millis(200), buffer: 250_000, ..Path::TYPICAL };
        let htcp = described(Htcp::NAME, Htcp::ABOUT, |start| Box::new(Htcp::new(start)));
        let reno = described(Reno::NAME, Reno::ABOUT, |start| Box::new(Reno::new(start)));
        let [htcp, reno] = [htcp, reno].map(|factory| {
            let mut flow = Flow::new(factory.as_ref(), path);
            flow.run(Duration::from_secs(20));
            let before = flow.totals();
            flow.run(Duration::from_secs(100));
            let used = (flow.totals().delivered - before.delivered) * 100 / (100 * path.rate);
            (used, flow.totals().episodes - before.episodes)
        });
        assert!((80..=100).contains(&htcp.0), "{} % of the path", htcp.0);
        assert!(htcp.0 > reno.0 + 10, "{} %, Reno {} %", htcp.0, reno.0);
        // It comes back to the full path within some ten seconds, so losses come that often.
        assert!((4..=40).contains(&htcp.1), "{} losses in 100 s", htcp.1);
    }
}
