//! Reno and CUBIC where packets are lost by chance: the windows that theory gives.
//!
//! M. Mathis, J. Semke, J. Mahdavi and T. Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", ACM CCR
//! 27(3), 1997: a window of sqrt(3/2) / sqrt(p) segments on average where it grows by one a round trip. Ours does so
//! whatever the receiver acknowledges at once, because it counts bytes; the constant for delayed acknowledgements
//! does not apply.
//!
//! The response function of CUBIC (RFC 9438 §5), or Reno's where that is larger, takes a loss at equal intervals. Where
//! each packet is lost by chance, the mean of Reno's window is a few hundredths larger than at equal intervals, and that of
//! CUBIC's by up to a quarter: it is held against its own recursion (§4), drawn by chance.

use ackclock_sim::rng::Rng;
use ackclock_sim::units::Share;
use ackclock_trace::theory::{CUBIC_BETA as BETA, CUBIC_C as C, reno_window};

use crate::paths::{Path, SMSS};

/// Far more than either window fills.
const MBIT: u64 = 100;
/// Round trip in milliseconds, loss in hundredths of a percent, seeds, and seconds of each.
const CASES: [(u64, u32, u64, u64); 4] =
    [(40, 100, 8, 100), (100, 100, 8, 200), (100, 10, 16, 150), (200, 10, 16, 300)];

/// The mean window in segments, from the twentieth second on, and its standard error.
fn mean_window(path: Path, cc: &str, seeds: u64, seconds: u64) -> (f64, f64) {
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

/// The mean of CUBIC's window by the recursion of RFC 9438 §4.2 to §4.7, a round trip a step, where each packet is lost
/// with probability `p`.
fn cubic_by_chance(p: f64, rtt: f64) -> f64 {
    const ROUNDS: u32 = 200_000;
    let mut rng = Rng::derive(1, "losses");
    let (mut cwnd, mut w_max, mut w_est, mut prior, mut k, mut since) =
        (10.0_f64, 10.0_f64, 10.0, 10.0, 0.0_f64, 0.0);
    let mut sum = 0.0;
    for _ in 0..ROUNDS {
        sum += cwnd;
        since += rtt;
        let lost = 1.0 - (1.0 - p).powf(cwnd);
        if rng.happens(Share::per_million((lost * 1e6) as u32)) {
            // Fast convergence (§4.7).
            w_max = if cwnd < w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
            prior = cwnd;
            cwnd = (cwnd * BETA).max(2.0);
            w_est = cwnd;
            k = ((w_max - cwnd).max(0.0) / C).cbrt();
            since = 0.0;
        } else {
            w_est += if w_est < prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
            let curve = |t: f64| C * (t - k).powi(3) + w_max;
            let target = curve(since + rtt).clamp(cwnd, 1.5 * cwnd);
            cwnd = if curve(since) < w_est { cwnd.max(w_est) } else { target };
        }
    }
    sum / f64::from(ROUNDS)
}

fn hold_against(cc: &str, theory: impl Fn(f64, f64) -> f64) {
    let mut misses = Vec::new();
    for (rtt_ms, loss, seeds, seconds) in CASES {
        let path = Path { mbit: MBIT, rtt_ms, loss };
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
    hold_against("reno", |p, _| reno_window(p, 1.0));
}

#[test]
fn cubic_sends_what_its_recursion_gives_where_losses_fall_by_chance() {
    hold_against("cubic", cubic_by_chance);
}
