//! Reno and CUBIC where packets are lost: the windows that their response functions give.
//!
//! M. Mathis, J. Semke, J. Mahdavi and T. Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
//! Algorithm", ACM CCR 27(3), 1997: a window that grows by one segment a round trip is sqrt(3/2) / sqrt(p)
//! segments on average. This Reno does so whatever the receiver acknowledges at once, because it counts
//! bytes; the constant for delayed acknowledgements does not apply. CUBIC: RFC 9438 §5, or Reno's window
//! where that is larger (its Reno-friendly region).
//!
//! Both assume losses at equal intervals. If each packet is lost at random, the mean of Reno's window is a
//! few hundredths larger, and that of CUBIC's up to a quarter. CUBIC is therefore compared with its own
//! recursion (§4) under random loss.
//!
//! Both also assume windows so large that two things do not count: the round trip of recovery, in which
//! nothing grows, and the fraction of a segment that a window holds and cannot send. At one loss in a
//! thousand they are nearly right. At one in a hundred, Reno's cycle is eight round trips of growth, from
//! seven segments to fourteen, and one of recovery, so the response functions promise a fifth too much.
//! There, losses at equal intervals are compared with the recursions that include both effects.

use ackclock_sim::rng::{Rng, Variates as _};
use ackclock_sim::units::Share;
use ackclock_trace::theory::{CUBIC_BETA as BETA, CUBIC_C as C, cubic_window, reno_window};

use crate::paths::{LossyPath, Pattern, SMSS};

/// Far more than either window fills.
const MBIT: u64 = 100;
/// Round trip in milliseconds, loss in hundredths of a percent, seeds, and seconds of each.
const CASES: [(u64, u32, u64, u64); 4] =
    [(40, 100, 8, 100), (100, 100, 8, 200), (100, 10, 16, 150), (200, 10, 16, 300)];

/// The mean window in segments, from the twentieth second on, and its standard error.
fn mean_window(path: LossyPath, cc: &str, seeds: u64, seconds: u64) -> (f64, f64) {
    let windows: Vec<f64> = (1..=seeds)
        .map(|seed| {
            let delivered = path.delivered(cc, seed, &[20, 20 + seconds]);
            (delivered[1] - delivered[0]) as f64 / SMSS * path.rtt_ms as f64 / 1e3 / seconds as f64
        })
        .collect();
    let count = windows.len() as f64;
    let mean = windows.iter().sum::<f64>() / count;
    let variance = windows.iter().map(|window| (window - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, (variance / count).sqrt())
}

/// A window, advanced by a round trip per step.
trait Recursion {
    fn cwnd(&self) -> f64;
    fn grow(&mut self);
    fn reduce(&mut self);
}

/// RFC 5681 §3.1.
struct Reno(f64);

impl Recursion for Reno {
    fn cwnd(&self) -> f64 {
        self.0
    }

    fn grow(&mut self) {
        self.0 += 1.0;
    }

    fn reduce(&mut self) {
        self.0 = (self.0 / 2.0).max(2.0);
    }
}

/// RFC 9438 §4.2 to §4.7.
struct Cubic {
    rtt: f64,
    cwnd: f64,
    w_max: f64,
    w_est: f64,
    prior: f64,
    k: f64,
    since: f64,
}

impl Cubic {
    fn new(rtt: f64) -> Self {
        Self { rtt, cwnd: 10.0, w_max: 10.0, w_est: 10.0, prior: 10.0, k: 0.0, since: 0.0 }
    }
}

impl Recursion for Cubic {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn grow(&mut self) {
        self.since += self.rtt;
        self.w_est += if self.w_est < self.prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        let curve = |t: f64| C * (t - self.k).powi(3) + self.w_max;
        let target = curve(self.since + self.rtt).clamp(self.cwnd, 1.5 * self.cwnd);
        self.cwnd = if curve(self.since) < self.w_est { self.cwnd.max(self.w_est) } else { target };
    }

    fn reduce(&mut self) {
        // Fast convergence (§4.7).
        self.w_max = if self.cwnd < self.w_max { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
        self.prior = self.cwnd;
        self.cwnd = (self.cwnd * BETA).max(2.0);
        self.w_est = self.cwnd;
        self.k = ((self.w_max - self.cwnd).max(0.0) / C).cbrt();
        self.since = 0.0;
    }
}

/// The mean of `window` if each packet is lost with probability `p`.
fn by_chance(mut window: impl Recursion, p: f64) -> f64 {
    let mut rng = Rng::derive(1, "losses");
    let mut sum = 0.0;
    for _ in 0..ROUNDS {
        sum += window.cwnd();
        let lost = 1.0 - (1.0 - p).powf(window.cwnd());
        if rng.happens(Share::per_million((lost * 1e6) as u32)) {
            window.reduce();
        } else {
            window.grow();
        }
    }
    sum / f64::from(ROUNDS)
}

/// The segments that `window` delivers in a round trip on average if one packet in each 1/p is lost. Only
/// whole segments are in flight, and a round trip of recovery, in which nothing grows, follows each loss.
fn at_equal_intervals(mut window: impl Recursion, p: f64) -> f64 {
    let (mut sent, mut rounds) = (0.0_f64, 0.0);
    for _ in 0..ROUNDS {
        let lost = (sent * p).floor();
        sent += window.cwnd().floor();
        rounds += 1.0;
        if (sent * p).floor() > lost {
            window.reduce();
            sent += window.cwnd().floor();
            rounds += 1.0;
        } else {
            window.grow();
        }
    }
    sent * (1.0 - p) / rounds
}

const ROUNDS: u32 = 200_000;

/// The cases with at most this loss, in hundredths of a percent.
fn hold_against(cc: &str, pattern: Pattern, loss_max: u32, theory: impl Fn(f64, f64) -> f64) {
    let mut misses = Vec::new();
    for (rtt_ms, loss, seeds, seconds) in CASES.into_iter().filter(|(_, loss, ..)| *loss <= loss_max) {
        let seeds = match pattern {
            Pattern::Chance => seeds,
            Pattern::Even => 2,
        };
        let path = LossyPath { mbit: MBIT, rtt_ms, loss, pattern };
        let expected = theory(f64::from(loss) / 1e4, rtt_ms as f64 / 1e3);
        let (mean, error) = mean_window(path, cc, seeds, seconds);
        let found = format!("{cc}, {path:?}: {mean:.2} ± {error:.2} segments, theory {expected:.2}");
        println!("{found}: {:.3}", mean / expected);
        if !(0.85..=1.15).contains(&(mean / expected)) || error > 0.05 * mean {
            misses.push(found);
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}

#[test]
fn reno_sends_what_its_response_function_gives_where_losses_fall_by_chance() {
    hold_against("reno", Pattern::Chance, 100, |p, _| reno_window(p, 1.0));
}

#[test]
fn cubic_sends_what_its_recursion_gives_where_losses_fall_by_chance() {
    hold_against("cubic", Pattern::Chance, 100, |p, rtt| by_chance(Cubic::new(rtt), p));
}

#[test]
fn reno_sends_what_its_recursion_gives_where_losses_are_even() {
    hold_against("reno", Pattern::Even, 100, |p, _| at_equal_intervals(Reno(10.0), p));
}

#[test]
fn cubic_sends_what_its_recursion_gives_where_losses_are_even() {
    hold_against("cubic", Pattern::Even, 100, |p, rtt| at_equal_intervals(Cubic::new(rtt), p));
}

#[test]
fn reno_sends_what_its_response_function_gives_where_a_thousandth_is_lost_evenly() {
    hold_against("reno", Pattern::Even, 10, |p, _| reno_window(p, 1.0));
}

#[test]
fn cubic_sends_what_its_response_function_gives_where_a_thousandth_is_lost_evenly() {
    hold_against("cubic", Pattern::Even, 10, cubic_window);
}
