//! The vectors that `reference.py` computes from the papers' formulas, against the code.

use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::congestion::{
    Ack, Bfa, Controller, Cubic, Dctcp, LossCause, LossEpisode, Reno, Sent, Start, Tahoe, Timeout, Vegas,
};
use ackclock_control::rtt::{RtoConfig, RttEstimator, TickEstimator};

const SMSS: u64 = 1000;

fn rows(csv: &str) -> impl Iterator<Item = Vec<i64>> + '_ {
    csv.lines().skip(1).map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
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
        rtt: Some(rtt),
        srtt: rtt,
        rtt_min: rtt,
        delivered,
        prior_delivered,
        sent_at: now - rtt,
        delivery_interval: rtt,
        app_limited: false,
        prior_in_flight: SMSS,
        in_flight: 0,
        cwnd_limited: true,
        in_recovery: false,
        ecn_marked: 0,
    }
}

/// A round trip in which the whole window is acknowledged, a segment at a time.
fn round(controller: &mut dyn Controller, now_ms: u64) {
    for _ in 0..controller.cwnd() / SMSS {
        // No smoothed round trip: W_cubic(t + RTT) is then the curve now.
        controller.on_ack(&Ack { srtt: Duration::ZERO, ..ack(Instant::from_millis(now_ms), ms(100), 0, 0) });
    }
}

fn loss(flight_size: u64, cause: LossCause) -> LossEpisode {
    LossEpisode { now: Instant::ZERO, cause, flight_size, bytes_lost: SMSS, delivered: 0 }
}

// J1, A1
#[test]
fn rfc_6298_timeouts() {
    // Tests: RFC 9293 MUST-18
    let mut rtt = RttEstimator::new(&RtoConfig::RFC_6298);
    for row in rows(include_str!("vectors/rto_rfc6298.csv")) {
        rtt.on_sample(Duration::from_nanos(row[0].unsigned_abs()));
        let ours = [rtt.srtt(), rtt.rttvar(), rtt.rto()].map(|time| i64::try_from(time.as_nanos()).unwrap());
        for (ours, theirs) in ours.iter().zip(&row[1..]) {
            assert!((ours - theirs).abs() <= 2, "{ours:?} is not {row:?}");
        }
    }
}

// J1
#[test]
fn timeouts_of_1988_in_ticks() {
    let mut estimator: Option<TickEstimator> = None;
    for row in rows(include_str!("vectors/rto_jacobson1988.csv")) {
        let ticks = u32::try_from(row[0]).unwrap();
        match &mut estimator {
            Some(estimator) => estimator.update(ticks),
            None => estimator = Some(TickEstimator::first(ticks)),
        }
        let ours = [2, 4].map(|k| i64::try_from(estimator.unwrap().rto_ticks(k)).unwrap());
        assert_eq!(ours, row[1..]);
    }
}

// J4
#[test]
fn slow_start_reaches_w_in_log2_w_round_trips() {
    let mut tahoe = Tahoe::new(&start(1));
    for row in rows(include_str!("vectors/slow_start_rounds.csv")) {
        round(&mut tahoe, 100);
        assert_eq!(tahoe.cwnd(), row[1].unsigned_abs() * SMSS, "after {} round trips", row[0]);
    }
}

// J7
#[test]
fn reno_window_by_round() {
    // Tests: RFC 9293 MUST-19
    let mut reno = Reno::new(&start(10));
    for row in rows(include_str!("vectors/reno_rounds.csv")) {
        let flight_size = reno.cwnd();
        if row[0] == 30 {
            reno.on_timeout(&Timeout { now: Instant::ZERO, flight_size, expiries: 1, delivered: 0 });
        } else if flight_size >= 40 * SMSS {
            reno.on_loss_episode(&loss(flight_size, LossCause::DuplicateAcks));
        } else {
            round(&mut reno, 100);
        }
        assert_eq!((row[0], reno.cwnd() / SMSS), (row[0], row[1].unsigned_abs()));
    }
}

#[test]
fn cubic_follows_its_curve() {
    // Reno's estimate stays below the curve for windows of this size.
    let mut cubic = Cubic::plain(&start(10));
    let mut segments = 0;
    for row in rows(include_str!("vectors/cubic_curve.csv")).filter(|row| row[0] >= 1000 && row[0] < 100_000)
    {
        if row[0] != segments {
            segments = row[0];
            cubic = Cubic::plain(&start(segments.unsigned_abs()));
            cubic.on_loss_episode(&loss(cubic.cwnd(), LossCause::DuplicateAcks));
            cubic.on_ack(&ack(Instant::ZERO, Duration::ZERO, 0, 0));
            continue;
        }
        // Each window's acknowledgements take it to the curve but for 1/e of the distance; ten leave nothing.
        let before = cubic.cwnd();
        for _ in 0..10 {
            round(&mut cubic, row[1].unsigned_abs());
        }
        let (ours, theirs) = (cubic.cwnd(), row[2].unsigned_abs().max(before));
        assert!(ours.abs_diff(theirs) < 2 * SMSS, "{ours} bytes are not {row:?}");
    }
}

// V3
#[test]
fn vegas_decides_as_the_paper() {
    for row in rows(include_str!("vectors/vegas_decisions.csv")) {
        let (segments, rtt) = (row[0].unsigned_abs(), ms(row[1]));
        let mut vegas = Vegas::new(&start(segments));
        vegas.limit_slow_start(0);
        // A round trip at BaseRTT, of which nothing was measured yet, then one at `rtt`.
        vegas.on_ack(&Ack { bytes_acked: 0, ..ack(Instant::ZERO, ms(100), SMSS, 0) });
        for _ in 0..segments {
            vegas.on_sent(&Sent { now: Instant::ZERO, bytes: SMSS, in_flight: SMSS, retransmission: false });
        }
        vegas.on_ack(&ack(Instant::from_millis(200), rtt, 2 * SMSS, SMSS));
        let change = i64::try_from(vegas.cwnd() / SMSS).unwrap() - row[0];
        assert_eq!(change, row[2], "{row:?}");
    }
}

// B1, B2
#[test]
fn bfa_signed_deviation_and_flag() {
    let mut bfa = Bfa::new(&start(10), Bfa::PAPER);
    for row in rows(include_str!("vectors/bfa_srv.csv")) {
        bfa.on_ack(&Ack { cwnd_limited: false, ..ack(Instant::ZERO, ms(row[0]), 0, 0) });
        let snapshot: Vec<i64> = bfa.snapshot().iter().map(|(_, value)| value).collect();
        assert!((snapshot[0] - row[1]).abs() <= 1, "srv {} is not {row:?}", snapshot[0]);
        assert_eq!(snapshot[1], row[2], "{row:?}");
    }
}

#[test]
fn dctcp_alpha_by_round() {
    let mut dctcp = Dctcp::new(&start(10));
    let mut delivered = SMSS;
    // The first acknowledgement begins a round trip; the one that begins the next closes its books.
    dctcp.on_ack(&Ack { bytes_acked: 0, ..ack(Instant::ZERO, ms(100), delivered, 0) });
    for row in rows(include_str!("vectors/dctcp_alpha.csv")) {
        let prior_delivered = delivered;
        delivered += 100 * SMSS;
        let ecn_marked = row[0].unsigned_abs() * SMSS;
        dctcp.on_ack(&Ack {
            bytes_acked: 100 * SMSS,
            cwnd_limited: false,
            ecn_marked,
            ..ack(Instant::ZERO, ms(100), delivered, prior_delivered)
        });
        let alpha = dctcp.snapshot().iter().next().unwrap().1;
        // Alpha has 20 bits below the point and is truncated twice a round trip, which a gain of 1/16 sums
        // up.
        assert!((alpha - row[1]).abs() <= 32, "alpha {alpha} is not {row:?}");
    }
}
