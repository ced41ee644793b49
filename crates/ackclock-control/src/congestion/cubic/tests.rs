use proptest::prelude::*;

use super::{Cubic, Curve, Remainder, cubic_growth_bytes, curve_time, time_to_grow};
use crate::Instant;
use crate::congestion::testing::{SMSS, START, ack, idle, loss, timeout};
use crate::congestion::{Ack, Controller, LossCause, LossEpisode, Undo};

fn with_window(segments: u64) -> Cubic {
    let mut cubic = Cubic::plain(&START);
    cubic.window.set_cwnd(segments * SMSS);
    cubic
}

/// A window of `segments` that lost a segment at time zero.
fn after_loss(segments: u64) -> Cubic {
    let mut cubic = with_window(segments);
    cubic.on_loss_episode(&loss(0, segments * SMSS));
    cubic
}

/// Acknowledges everything for a number of round trips of 100 ms, a segment at a time.
fn run(cubic: &mut Cubic, from_ms: u64, rounds: u64) {
    for round in 0..rounds {
        for _ in 0..cubic.cwnd() / SMSS {
            cubic.on_ack(&ack(from_ms + round * 100, SMSS));
        }
    }
}

/// The curve that the window follows.
fn curve(cubic: &Cubic) -> Curve {
    cubic.curves.as_ref().map(|curves| curves.present).unwrap_or_default()
}

#[test]
fn loss_reduces_to_seven_tenths() {
    let cubic = after_loss(100);
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (70 * SMSS, 70 * SMSS));
}

#[test]
fn what_is_outstanding_is_the_most_that_a_loss_or_a_timeout_reduces() {
    let mut cubic = with_window(82);
    cubic.on_loss_episode(&loss(0, 45 * SMSS));
    assert_eq!(cubic.ssthresh(), 45 * SMSS * 7 / 10);
    let mut cubic = with_window(82);
    cubic.on_timeout(&timeout(45 * SMSS, 1));
    assert_eq!(cubic.ssthresh(), 45 * SMSS * 7 / 10);
}

#[test]
fn mark_may_reduce_to_one_segment_and_ssthresh_stays_at_two() {
    let mut cubic = with_window(1);
    cubic.on_loss_episode(&LossEpisode { cause: LossCause::EcnEcho, ..loss(0, SMSS) });
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (SMSS, 2 * SMSS));
}

#[test]
fn window_is_back_at_w_max_after_k_seconds() {
    // K = cbrt(1000 * 0.3 / 0.4) = 9.086 s; the curve is flat around it.
    let mut cubic = after_loss(1000);
    run(&mut cubic, 0, 90);
    let at_k = cubic.cwnd() / SMSS;
    assert!((998..=1000).contains(&at_k), "{at_k} segments after K");
}

#[test]
fn growth_is_concave_before_k_and_convex_after() {
    let mut cubic = after_loss(1000);
    let windows: Vec<u64> = (0..18)
        .map(|second| {
            run(&mut cubic, second * 1000, 10);
            cubic.cwnd()
        })
        .collect();
    let growth: Vec<u64> = windows.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(growth[..7].windows(2).all(|pair| pair[1] < pair[0]), "concave: {growth:?}");
    assert!(growth[9..].windows(2).all(|pair| pair[1] > pair[0]), "convex: {growth:?}");
}

#[test]
fn small_window_grows_as_reno_with_the_same_average() {
    // 10 segments: W_cubic needs K = 1.96 s; W_est grows 9/17 of a segment a round and is ahead.
    let mut cubic = after_loss(10);
    run(&mut cubic, 0, 5);
    let grown = cubic.cwnd() - 7 * SMSS;
    let reno_friendly = 5 * SMSS * 9 / 17;
    assert!(grown.abs_diff(reno_friendly) < SMSS / 4, "{grown} is not {reno_friendly}");
}

#[test]
fn estimate_grows_a_whole_segment_a_round_beyond_the_prior_window() {
    let mut curve = Curve { w_est: 100 * SMSS, cwnd_prior: 100 * SMSS, ..Curve::default() };
    (0..100).for_each(|_| curve.grow_reno_estimate(100 * SMSS, SMSS, SMSS));
    assert_eq!(curve.w_est, 101 * SMSS);
}

#[test]
fn window_that_shrinks_gives_up_more() {
    let mut cubic = after_loss(100);
    cubic.on_loss_episode(&loss(100, 70 * SMSS));
    assert_eq!(curve(&cubic).w_max, 70 * SMSS * 17 / 20);
}

#[test]
fn target_is_at_most_half_a_window_ahead() {
    let mut cubic = after_loss(100);
    cubic.on_ack(&ack(0, SMSS));
    let before = cubic.cwnd();
    // A quarter of an hour later the curve is far above. One window's acknowledgements add half of it.
    (0..before / SMSS).for_each(|_| cubic.on_ack(&ack(900_000, SMSS)));
    assert!(cubic.cwnd() <= before * 166 / 100, "{} from {before}", cubic.cwnd());
}

#[test]
fn timeout_leaves_one_segment_and_seven_tenths_as_threshold() {
    // Tests: RFC 9293 MUST-19
    let mut cubic = with_window(100);
    cubic.on_timeout(&timeout(100 * SMSS, 1));
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (SMSS, 70 * SMSS));
    cubic.on_timeout(&timeout(SMSS, 2));
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (SMSS, 70 * SMSS));
}

#[test]
fn congestion_avoidance_after_a_timeout_starts_convex() {
    let mut cubic = with_window(1000);
    cubic.on_timeout(&timeout(1000 * SMSS, 1));
    run(&mut cubic, 1000, 10);
    assert_eq!((curve(&cubic).k, curve(&cubic).w_max), (0, 700 * SMSS));
}

#[test]
fn time_without_use_of_the_window_does_not_count() {
    let mut busy = after_loss(1000);
    run(&mut busy, 0, 20);
    let mut paused = busy.clone();
    for now in 21..80 {
        paused.on_ack(&Ack { cwnd_limited: false, ..ack(now * 100, SMSS) });
    }
    run(&mut busy, 2000, 10);
    run(&mut paused, 8000, 10);
    assert!(busy.cwnd().abs_diff(paused.cwnd()) < 3 * SMSS, "{} and {}", busy.cwnd(), paused.cwnd());
}

#[test]
fn undo_restores_the_window_and_the_curve() {
    let mut cubic = after_loss(1000);
    run(&mut cubic, 0, 50);
    let before = cubic.clone();
    cubic.on_loss_episode(&loss(5000, cubic.cwnd()));
    cubic.on_undo(&Undo { now: Instant::ZERO });
    assert_eq!((cubic.cwnd(), cubic.ssthresh()), (before.cwnd(), before.ssthresh()));
    assert_eq!((curve(&cubic).w_max, curve(&cubic).k), (curve(&before).w_max, curve(&before).k));
}

#[test]
fn growing_delay_ends_the_first_slow_start() {
    let mut cubic = Cubic::new(&START);
    let mut delivered = 0;
    for round in 0..20 {
        let prior_delivered = delivered;
        let rtt_ns = Some((100 + 20 * round.min(3)) * 1_000_000);
        for _ in 0..cubic.cwnd() / SMSS {
            delivered += SMSS;
            cubic.on_ack(&Ack { rtt_ns, delivered, prior_delivered, ..ack(round * 100, SMSS) });
        }
    }
    assert!(cubic.ssthresh() < 400 * SMSS, "ssthresh {}", cubic.ssthresh());
}

#[test]
fn idle_starts_a_new_epoch_from_the_restart_window() {
    let mut cubic = after_loss(100);
    run(&mut cubic, 0, 10);
    cubic.on_idle_restart(&idle(10 * SMSS));
    assert_eq!(cubic.cwnd(), 10 * SMSS);
    assert_eq!(curve(&cubic).epoch_start, None);
}

#[test]
fn fractions_of_a_byte_add_up() {
    let mut remainder = Remainder::default();
    let bytes: u64 = (0..30_000).map(|_| remainder.divide(1, 3)).sum();
    assert_eq!(bytes, 10_000);
}

proptest! {
    #[test]
    fn curve_equals_the_formula_with_real_numbers(
        w_max in 2_u64..1 << 18, lost in 0_u64..=100, ms in 0_u64..100_000, smss in 200_u64..9_000,
    ) {
        let w_max = w_max * smss;
        let cwnd = w_max - w_max * 3 / 1000 * lost;
        let mut curve = Curve { w_max, ..Curve::default() };
        curve.epoch_at(Instant::ZERO, cwnd, smss);
        let k = ((w_max - cwnd) as f64 / smss as f64 / 0.4).cbrt();
        let t = ms as f64 / 1000.0;
        let expected = (0.4 * (t - k).powi(3) * smss as f64 + w_max as f64).clamp(0.0, 4_294_967_296.0);
        let window = curve.window_at(curve_time(ms * 1_000_000), smss) as f64;
        // A microsecond of time, where the curve is steepest, and a byte.
        let slope = 1.2 * (t - k).powi(2) * smss as f64;
        prop_assert!((window - expected).abs() <= slope * 3e-6 + 2.0, "{window} is not {expected}");
    }

    #[test]
    fn time_to_grow_is_the_inverse_of_growth(bytes in 0_u64..1 << 32, smss in 1_u64..65_536) {
        let t = time_to_grow(bytes, smss);
        prop_assert!(cubic_growth_bytes(t, smss) <= bytes);
        prop_assert!(t == u64::from(u32::MAX) || cubic_growth_bytes(t + 2, smss) + 1 >= bytes);
    }

    #[test]
    fn any_time_and_size_is_survived(
        acks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..50), smss in any::<u32>(),
    ) {
        let mut cubic = after_loss(10);
        cubic.on_mss_change(smss);
        for (now, bytes, srtt) in acks {
            let ack = Ack { now: Instant::from_nanos(now), srtt_ns: srtt, ..ack(0, bytes) };
            cubic.on_ack(&ack);
            prop_assert!(cubic.cwnd() >= u64::from(smss).max(1));
        }
    }
}
