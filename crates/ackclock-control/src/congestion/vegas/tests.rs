use std::collections::VecDeque;
use std::time::Duration;

use super::{Thresholds, Vegas};
use crate::Instant;
use crate::congestion::testing::{SMSS, START, loss, timeout};
use crate::congestion::{Ack, Controller, Rounds, Sent, described, testing::ack};
use crate::kit::{Flow, Path};

fn send(vegas: &mut Vegas, in_flight: u64) {
    vegas.on_sent(&Sent { now: Instant::ZERO, bytes: SMSS, in_flight, retransmission: false });
}

/// A connection that has sent its first window.
fn started() -> Vegas {
    let mut vegas = Vegas::new(&START);
    (1..=10).for_each(|segment| send(&mut vegas, segment * SMSS));
    vegas
}

/// A round trip of `rtt_ms` in which a window is sent and acknowledged.
fn round(vegas: &mut Vegas, delivered: &mut u64, rtt_ms: u64) -> u64 {
    let prior_delivered = *delivered;
    let rtt_ns = Some(rtt_ms * 1_000_000);
    let mut in_flight = vegas.cwnd();
    for _ in 0..vegas.cwnd() / SMSS {
        *delivered += SMSS;
        in_flight -= SMSS;
        vegas.on_ack(&Ack { rtt_ns, delivered: *delivered, prior_delivered, ..ack(0, SMSS) });
        while in_flight + SMSS <= vegas.cwnd() {
            in_flight += SMSS;
            send(vegas, in_flight);
        }
    }
    vegas.cwnd() / SMSS
}

fn in_congestion_avoidance(segments: u64) -> (Vegas, u64) {
    let mut vegas = Vegas::new(&START);
    vegas.window.set_cwnd(segments * SMSS);
    vegas.window.set_ssthresh(segments * SMSS);
    let mut delivered = 0;
    round(&mut vegas, &mut delivered, 100);
    (vegas, delivered)
}

#[test]
fn slow_start_doubles_every_other_round() {
    // Tests: V4
    let mut vegas = started();
    let mut delivered = 0;
    let windows: Vec<u64> = (0..6).map(|_| round(&mut vegas, &mut delivered, 100)).collect();
    assert_eq!(windows, [20, 20, 40, 40, 80, 80]);
}

#[test]
fn slow_start_ends_when_one_segment_is_queued() {
    // Tests: V4
    let mut vegas = started();
    let mut delivered = 0;
    round(&mut vegas, &mut delivered, 100);
    // 20 segments at 106 ms: 20 - 20 * 100/106 = 1.13 segments queued; the measured round is the still one.
    round(&mut vegas, &mut delivered, 106);
    round(&mut vegas, &mut delivered, 106);
    assert_eq!(vegas.ssthresh(), 20 * SMSS);
}

#[test]
fn what_slow_start_queued_leaves_the_window_at_once() {
    let mut vegas = started();
    let mut delivered = 0;
    round(&mut vegas, &mut delivered, 100);
    // 20 segments at 200 ms: half of them are queued, and one may stay.
    (0..2).for_each(|_| _ = round(&mut vegas, &mut delivered, 200));
    assert_eq!((vegas.cwnd(), vegas.ssthresh()), (11 * SMSS, 11 * SMSS));
    // The next acknowledgements are for segments sent before the reduction. Then the window grows by a
    // segment a round trip.
    let windows: Vec<u64> = [200, 100, 100, 100].map(|rtt| round(&mut vegas, &mut delivered, rtt)).into();
    assert_eq!(windows, [11, 12, 13, 14]);
}

#[test]
fn round_trip_of_the_handshake_counts_for_base_rtt_where_it_is_told_to() {
    // Tests: V3
    let thresholds =
        |handshake| Vegas { thresholds: Thresholds::ONE_THREE.with_handshake(handshake), ..started() };
    let ssthresh = |mut vegas: Vegas| {
        let mut delivered = 0;
        // No data segment took less than 106 ms; the acknowledgements report a smallest round trip of 100 ms.
        (0..3).for_each(|_| {
            round(&mut vegas, &mut delivered, 106);
        });
        vegas.ssthresh()
    };
    assert_eq!(ssthresh(thresholds(true)), 20 * SMSS);
    assert_eq!(ssthresh(thresholds(false)), u64::MAX);
}

#[test]
fn window_grows_with_the_first_acknowledgement_after_a_timeout() {
    // Tests: V4
    let (mut vegas, mut delivered) = in_congestion_avoidance(20);
    vegas.on_timeout(&timeout(20 * SMSS, 1));
    send(&mut vegas, SMSS);
    let windows: Vec<u64> = (0..4).map(|_| round(&mut vegas, &mut delivered, 100)).collect();
    assert_eq!(windows, [2, 2, 4, 4]);
}

#[test]
fn less_than_alpha_queued_grows_by_a_segment() {
    // Tests: V3
    let (mut vegas, mut delivered) = in_congestion_avoidance(20);
    let windows: Vec<u64> = (0..3).map(|_| round(&mut vegas, &mut delivered, 100)).collect();
    assert_eq!(windows, [21, 22, 23]);
}

#[test]
fn between_alpha_and_beta_the_window_stands() {
    // Tests: V3
    let (mut vegas, mut delivered) = in_congestion_avoidance(20);
    // The round before the first longer round trip had no queue. Then 21 * (1 - 100/111) = 2.1 segments are
    // queued.
    assert_eq!(round(&mut vegas, &mut delivered, 111), 21);
    let windows: Vec<u64> = (0..3).map(|_| round(&mut vegas, &mut delivered, 111)).collect();
    assert_eq!(windows, [21, 21, 21]);
}

#[test]
fn more_than_beta_queued_shrinks_by_a_segment() {
    // Tests: V3
    let (mut vegas, mut delivered) = in_congestion_avoidance(20);
    // 21 * (1 - 100/125) = 4.2 segments queued.
    assert_eq!(round(&mut vegas, &mut delivered, 125), 21);
    let windows: Vec<u64> = (0..3).map(|_| round(&mut vegas, &mut delivered, 125)).collect();
    assert_eq!(windows, [20, 19, 18]);
}

/// Goal: acknowledgements of two segments do not suggest a queue where there is none.
#[test]
fn window_that_is_acknowledged_by_twos_grows_as_any_other() {
    // Tests: V3
    let mut vegas = Vegas::new(&START);
    vegas.window.set_ssthresh(0);
    // For each segment in flight, what had been delivered when it was sent.
    let mut in_flight: VecDeque<u64> = VecDeque::from([0; 10]);
    let (mut rounds, mut delivered) = (Rounds::default(), 0);
    for _ in 0..1000 {
        let prior_in_flight = in_flight.len() as u64 * SMSS;
        in_flight.pop_front();
        let prior_delivered = in_flight.pop_front().expect("two in flight");
        delivered += 2 * SMSS;
        let acked = Ack { delivered, prior_delivered, prior_in_flight, ..ack(0, 2 * SMSS) };
        rounds.on_ack(&acked);
        vegas.on_ack(&acked);
        while (in_flight.len() as u64) < vegas.cwnd() / SMSS {
            in_flight.push_back(delivered);
            send(&mut vegas, in_flight.len() as u64 * SMSS);
        }
    }
    // The first acknowledgement begins a round trip and ends none.
    assert!(rounds.count() > 50, "{}", rounds.count());
    assert_eq!(vegas.cwnd() / SMSS, 10 + rounds.count() - 1);
}

#[test]
fn what_was_compared_is_shown_as_in_figure_8() {
    let (mut vegas, mut delivered) = in_congestion_avoidance(20);
    round(&mut vegas, &mut delivered, 125);
    round(&mut vegas, &mut delivered, 125);
    let shown: Vec<_> = vegas.snapshot().iter().collect();
    let expected = [
        ("base_rtt_us", 100_000),
        ("expected_bytes_per_second", 210_000),
        ("actual_bytes_per_second", 168_000),
        // (210,000 - 168,000) B/s * 100 ms are 4,200 bytes.
        ("diff_hundredths", 420),
        ("alpha", 1),
        ("beta", 3),
        ("doubling", 0),
        ("comparisons", 2),
    ];
    assert_eq!(shown, expected);
    assert!(
        Vegas::new(&START)
            .snapshot()
            .iter()
            .all(|(name, value)| value == 0 || ["alpha", "beta"].contains(&name))
    );
}

#[test]
fn loss_halves() {
    let (mut vegas, _) = in_congestion_avoidance(20);
    vegas.on_loss_episode(&loss(100, 20 * SMSS));
    assert_eq!(vegas.cwnd(), 10 * SMSS);
}

/// On an otherwise empty path the queue stays between alpha and beta, whatever the path.
#[test]
fn queue_settles_between_alpha_and_beta() {
    // Tests: V3
    for thresholds in [Thresholds::ONE_THREE, Thresholds::TWO_FOUR] {
        let vegas = described(Vegas::NAME, Vegas::ABOUT, move |start| {
            Box::new(Vegas::with_thresholds(start, thresholds))
        });
        for (rate, rtt_ms, segments_per_ack) in [
            (200_000, 100, 1),
            (1_250_000, 20, 1),
            (1_250_000, 100, 1),
            (200_000, 100, 2),
            (1_250_000, 20, 2),
        ] {
            let base_rtt = Duration::from_millis(rtt_ms);
            let path = Path { rate, base_rtt, buffer: 40_000, segments_per_ack, ..Path::TYPICAL };
            let mut flow = Flow::new(vegas.as_ref(), path);
            flow.run(Duration::from_secs(60));
            let lost = flow.totals().dropped;
            flow.run(Duration::from_secs(10));
            let queued = flow.controller().cwnd().saturating_sub(path.bandwidth_delay_product()) / SMSS;
            let wanted = u64::from(thresholds.alpha)..=u64::from(thresholds.beta) + 1;
            assert!(
                wanted.contains(&queued),
                "{queued} segments queued, {thresholds:?}, {rate} B/s, {rtt_ms} ms, {segments_per_ack} \
                 acknowledged"
            );
            assert_eq!(flow.totals().dropped, lost, "no loss once settled");
        }
    }
}
