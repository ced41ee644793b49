//! Checks the code against the vectors that `tests/reference` computes from the papers' formulas.

mod assess;
mod bandwidth;
mod congestion;
mod rto;

use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::congestion::{Ack, Controller, LossCause, LossEpisode, Start};

const SMSS: u64 = 1000;

/// Rows of numbers.
fn rows(csv: &str) -> impl Iterator<Item = Vec<i64>> + '_ {
    csv.lines().skip(1).map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
}

/// Rows of words and numbers.
fn words(csv: &str) -> impl Iterator<Item = Vec<&str>> {
    csv.lines().skip(1).map(|line| line.split(',').collect())
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

fn start(segments: u64) -> Start {
    Start { smss: 1000, initial_window: segments * SMSS, now: Instant::ZERO }
}

fn ms(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

/// An acknowledgement of a segment, `rtt` after it was sent.
fn ack(now: Instant, rtt: Duration, delivered: u64, prior_delivered: u64) -> Ack {
    Ack {
        now,
        bytes_acked: SMSS,
        bytes_cumulative: SMSS,
        rtt_ns: Some(nanos(rtt)),
        srtt_ns: nanos(rtt),
        rtt_min_ns: nanos(rtt),
        delivered,
        prior_delivered,
        sent_at: now - rtt,
        delivery_interval_ns: nanos(rtt),
        app_limited: false,
        tx_in_flight: SMSS,
        lost: 0,
        prior_in_flight: SMSS,
        in_flight: 0,
        cwnd_limited: true,
        in_recovery: false,
        ecn_marked: 0,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a few seconds")
}

/// A round trip in which the whole window is acknowledged, a segment at a time.
fn round(controller: &mut dyn Controller, now_ms: u64) {
    for _ in 0..controller.cwnd() / SMSS {
        // Without a smoothed round trip, W_cubic(t + RTT) is the curve now.
        controller.on_ack(&Ack { srtt_ns: 0, ..ack(Instant::from_millis(now_ms), ms(100), 0, 0) });
    }
}

fn loss(flight_size: u64, cause: LossCause) -> LossEpisode {
    LossEpisode {
        now: Instant::ZERO,
        cause,
        flight_size,
        bytes_lost: SMSS,
        delivered: 0,
        repeated: false,
        peer_window: u64::MAX,
    }
}
