use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::congestion::{
    Ack, Bbr, BbrV1, Bfa, BfaConfig, Card, Controller, Counting, Cubic, Dctcp, Dual, Htcp, HyStart, Illinois,
    LedbatPlusPlus, LossCause, LossEpisode, NewReno, RecoveryEnd, Reno, Sent, Tahoe, Timeout, TriS, Vegas,
    VegasStar, Window,
};

use super::{SMSS, ack, loss, ms, nanos, round, rows, start};

#[test]
fn slow_start_reaches_w_in_log2_w_round_trips() {
    // Tests: J4
    let mut tahoe = Tahoe::new(&start(1));
    for row in rows(include_str!("slow_start_rounds.csv")) {
        round(&mut tahoe, 100);
        assert_eq!(tahoe.cwnd(), row[1].unsigned_abs() * SMSS, "after {} round trips", row[0]);
    }
}

#[test]
fn reno_window_by_round() {
    // Tests: J7
    // Tests: RFC 9293 MUST-19
    let mut reno = Reno::new(&start(10));
    for row in rows(include_str!("reno_rounds.csv")) {
        let flight_size = reno.cwnd();
        if row[0] == 30 {
            reno.on_timeout(&Timeout {
                now: Instant::ZERO,
                flight_size,
                expiries: 1,
                delivered: 0,
                peer_window: u64::MAX,
            });
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
    // Reno's estimate stays below the curve at this window size.
    let mut cubic = Cubic::plain(&start(10));
    let mut segments = 0;
    for row in rows(include_str!("cubic_curve.csv")).filter(|row| row[0] >= 1000 && row[0] < 100_000) {
        if row[0] != segments {
            segments = row[0];
            cubic = Cubic::plain(&start(segments.unsigned_abs()));
            cubic.on_loss_episode(&loss(cubic.cwnd(), LossCause::DuplicateAcks));
            cubic.on_ack(&ack(Instant::ZERO, Duration::ZERO, 0, 0));
            continue;
        }
        // Each window's acknowledgements cover all but 1/e of the distance to the curve; ten leave nothing.
        let before = cubic.cwnd();
        for _ in 0..10 {
            round(&mut cubic, row[1].unsigned_abs());
        }
        let (ours, theirs) = (cubic.cwnd(), row[2].unsigned_abs().max(before));
        assert!(ours.abs_diff(theirs) < 2 * SMSS, "{ours} bytes are not {row:?}");
    }
}

#[test]
fn vegas_decides_as_the_paper() {
    // Tests: V3
    for row in rows(include_str!("vegas_decisions.csv")) {
        let (segments, rtt) = (row[0].unsigned_abs(), ms(row[1]));
        let mut vegas = Vegas::new(&start(segments));
        vegas.limit_slow_start(0);
        // A round trip at BaseRTT without a measurement yet, then one at `rtt`.
        vegas.on_ack(&Ack { bytes_acked: 0, ..ack(Instant::ZERO, ms(100), SMSS, 0) });
        for _ in 0..segments {
            vegas.on_sent(&Sent { now: Instant::ZERO, bytes: SMSS, in_flight: SMSS, retransmission: false });
        }
        vegas.on_ack(&ack(Instant::from_millis(200), rtt, 2 * SMSS, SMSS));
        let change = i64::try_from(vegas.cwnd() / SMSS).unwrap() - row[0];
        assert_eq!(change, row[2], "{row:?}");
    }
}

#[test]
fn bfa_signed_deviation_and_flag() {
    // Tests: B1, B2
    follows_signed_deviation(Bfa::PAPER, include_str!("bfa_srv.csv"));
    follows_signed_deviation(Bfa::GENTLE, include_str!("bfa_gentle_srv.csv"));
}

fn follows_signed_deviation(config: BfaConfig, csv: &str) {
    let mut bfa = Bfa::new(&start(10), config);
    for row in rows(csv) {
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
    // The first acknowledgement begins a round trip; the one that begins the next ends it.
    dctcp.on_ack(&Ack { bytes_acked: 0, ..ack(Instant::ZERO, ms(100), delivered, 0) });
    for row in rows(include_str!("dctcp_alpha.csv")) {
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
        // Alpha has 20 fraction bits and is truncated twice a round trip; a gain of 1/16 accumulates that.
        assert!((alpha - row[1]).abs() <= 32, "alpha {alpha} is not {row:?}");
    }
}

#[test]
fn tahoe_window_by_round() {
    // Tests: J7, J8
    let mut tahoe = Tahoe::new(&start(10));
    for row in rows(include_str!("tahoe_rounds.csv")) {
        let flight_size = tahoe.cwnd();
        if row[0] == 30 {
            tahoe.on_timeout(&Timeout {
                now: Instant::ZERO,
                flight_size,
                expiries: 1,
                delivered: 0,
                peer_window: u64::MAX,
            });
        } else if flight_size >= 40 * SMSS {
            tahoe.on_loss_episode(&loss(flight_size, LossCause::DuplicateAcks));
        } else {
            round(&mut tahoe, 100);
        }
        assert_eq!((row[0], tahoe.cwnd() / SMSS), (row[0], row[1].unsigned_abs()));
    }
}

#[test]
fn newreno_leaves_recovery_without_a_burst() {
    // Tests: J8
    for row in rows(include_str!("newreno_end.csv")) {
        let mut newreno = NewReno::new(&start(20));
        newreno.on_loss_episode(&loss(20 * SMSS, LossCause::DuplicateAcks));
        newreno.on_recovery_end(&RecoveryEnd {
            now: Instant::ZERO,
            in_flight: row[0].unsigned_abs(),
            delivered: 0,
            inflation: 0,
        });
        assert_eq!(newreno.cwnd(), row[1].unsigned_abs(), "{row:?}");
    }
}

#[test]
fn cubic_reduces_to_seven_tenths_with_fast_convergence() {
    let mut cubic = Cubic::plain(&start(1));
    for row in rows(include_str!("cubic_reductions.csv")) {
        if row[1] == 0 {
            cubic = Cubic::plain(&start(row[0].unsigned_abs()));
        }
        cubic.on_loss_episode(&loss(cubic.cwnd(), LossCause::DuplicateAcks));
        assert_eq!(cubic.cwnd(), row[2].unsigned_abs(), "{row:?}");
        assert!((value(&cubic, "w_max") - row[3]).abs() <= 1, "{row:?}");
    }
}

#[test]
fn cubic_follows_reno_with_the_same_average() {
    let mut cubic = Cubic::plain(&start(10));
    cubic.on_loss_episode(&loss(10 * SMSS, LossCause::DuplicateAcks));
    for row in rows(include_str!("cubic_reno_friendly.csv")) {
        cubic.on_ack(&whole_window(&cubic, Duration::ZERO, 0));
        assert!(cubic.cwnd().abs_diff(row[1].unsigned_abs()) <= 5, "{} is not {row:?}", cubic.cwnd());
    }
}

#[test]
fn hystart_threshold_is_an_eighth_within_its_bounds() {
    for row in rows(include_str!("hystart_threshold.csv")) {
        for (growth, conservative) in [(row[1] - 1, false), (row[1], true)] {
            let (mut hystart, mut window) = (HyStart::new(), Window::new(&start(100)));
            let later = ms(row[0]) + Duration::from_nanos(growth.unsigned_abs());
            for (rtt, prior_delivered) in [(ms(row[0]), 0), (later, 8 * SMSS)] {
                for segment in 1..=8 {
                    let delivered = prior_delivered + segment * SMSS;
                    hystart.slow_start(&mut window, &ack(Instant::ZERO, rtt, delivered, prior_delivered));
                }
            }
            assert_eq!(hystart.is_conservative(), conservative, "{row:?}");
        }
    }
}

#[test]
fn vegas_star_threshold_is_bandwidth_times_base_rtt() {
    // Tests: V5
    for row in rows(include_str!("vegas_star_threshold.csv")) {
        let mut star = VegasStar::new(&start(4));
        for segment in 1..=4 {
            let now = Instant::from_micros(1_000_000 + segment * row[0].unsigned_abs());
            star.on_ack(&Ack { cwnd_limited: false, ..ack(now, ms(row[1]), segment * SMSS, 0) });
        }
        assert_eq!(star.ssthresh(), row[2].unsigned_abs(), "{row:?}");
    }
}

#[test]
fn card_window_by_round() {
    // Tests: V6
    by_round(&mut Card::new(&start(10)), include_str!("card_rounds.csv"), 1);
}

#[test]
fn dual_window_by_round() {
    // Tests: V6
    // One acknowledgement stands for a round trip here.
    let mut dual = Dual::with_counting(&start(10), Counting::Bytes);
    by_round(&mut dual, include_str!("dual_rounds.csv"), 1);
}

#[test]
fn tri_s_window_by_round() {
    // Tests: V6
    by_round(&mut TriS::new(&start(10)), include_str!("tri_s_rounds.csv"), 2);
}

/// A round trip for each row, in congestion avoidance, with `acks` acknowledgements; the first covers the
/// whole window.
fn by_round(controller: &mut dyn Controller, csv: &str, acks: usize) {
    controller.limit_slow_start(0);
    let mut delivered = 0;
    for (number, row) in rows(csv).enumerate() {
        let first = whole_window(controller, ms(row[0]), delivered);
        controller.on_ack(&first);
        delivered = first.delivered;
        for _ in 1..acks {
            let prior_delivered = delivered - controller.cwnd();
            controller.on_ack(&Ack { bytes_acked: 0, prior_delivered, ..first });
        }
        assert_eq!(controller.cwnd(), row[1].unsigned_abs(), "round {number}: {row:?}");
    }
}

#[test]
fn htcp_window_by_round() {
    by_round_with_losses(&mut Htcp::new(&start(100)), include_str!("htcp_rounds.csv"));
}

#[test]
fn illinois_window_by_round() {
    by_round_with_losses(&mut Illinois::new(&start(10)), include_str!("illinois_rounds.csv"));
}

#[test]
fn ledbat_plus_plus_window_by_round() {
    let mut ledbat = LedbatPlusPlus::new(&start(50));
    ledbat.limit_slow_start(0);
    let (mut now, mut delivered) = (Instant::ZERO, 0);
    for (number, row) in rows(include_str!("ledbat_plus_plus_rounds.csv")).enumerate() {
        now += ms(row[0]);
        let acked = Ack { now, ..whole_window(&ledbat, ms(row[0]), delivered) };
        delivered = acked.delivered;
        ledbat.on_ack(&acked);
        let (ours, theirs) = (ledbat.cwnd(), row[1].unsigned_abs());
        assert!(ours.abs_diff(theirs) <= 10, "round {number}: {ours} is not {row:?}");
    }
}

/// A round trip in congestion avoidance, or a loss, for each row. Alpha and beta are whole thousandths here,
/// so the windows may differ by two thousandths.
fn by_round_with_losses(controller: &mut dyn Controller, csv: &str) {
    controller.limit_slow_start(0);
    let (mut now, mut delivered) = (Instant::ZERO, 0);
    for (number, row) in rows(csv).enumerate() {
        if row[1] == 1 {
            controller
                .on_loss_episode(&LossEpisode { now, ..loss(controller.cwnd(), LossCause::DuplicateAcks) });
        } else {
            now += ms(row[0]);
            let acked = Ack { now, ..whole_window(controller, ms(row[0]), delivered) };
            delivered = acked.delivered;
            controller.on_ack(&acked);
        }
        let (ours, theirs) = (controller.cwnd(), row[2].unsigned_abs());
        assert!(ours.abs_diff(theirs) <= theirs / 500, "round {number}: {ours} is not {row:?}");
        let beta = value(controller, "beta_thousandths");
        assert!((beta - row[3]).abs() <= 1, "round {number}: {beta} is not {row:?}");
    }
}

/// One acknowledgement for the whole window.
fn whole_window(controller: &dyn Controller, rtt: Duration, prior_delivered: u64) -> Ack {
    let bytes_acked = controller.cwnd();
    Ack {
        bytes_acked,
        srtt_ns: nanos(rtt),
        ..ack(Instant::ZERO, rtt, prior_delivered + bytes_acked, prior_delivered)
    }
}

/// Goal: traces of the delay-based controllers show the quantities in their papers' rules.
#[test]
fn controllers_show_the_numbers_of_their_papers() {
    fn after(mut controller: impl Controller) -> Vec<(&'static str, i64)> {
        controller.limit_slow_start(0);
        let mut delivered = 0;
        for rtt in [100, 100, 130, 130] {
            let acked = whole_window(&controller, ms(rtt), delivered);
            delivered = acked.delivered;
            controller.on_ack(&acked);
        }
        controller.snapshot().iter().collect()
    }
    assert_eq!(after(Dual::new(&start(10))), [("rtt_min_us", 100_000), ("rtt_max_us", 130_000)]);
    // After the fourth round trip, at whose end the window first moves.
    assert_eq!(after(Card::new(&start(10))), [("window_old", 10_000), ("rtt_old_us", 130_000)]);
    // Ten segments outstanding, over the shorter of the last two round trips; one over the shortest of all.
    let rates = [
        ("outstanding", 10_000),
        ("throughput_bytes_per_second", 100_000),
        ("one_segment_bytes_per_second", 10_000),
    ];
    assert_eq!(after(TriS::new(&start(10))), rates);
    let bfa = after(Bfa::new(&start(10), Bfa::PAPER));
    let names: Vec<&str> = bfa.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["srv_us", "avoiding", "sigma_on_us", "sigma_off_us"]);
    assert_eq!((bfa[2].1, bfa[3].1), (10_000, -10_000));
}

#[test]
fn dctcp_reduces_by_half_of_alpha() {
    for row in rows(include_str!("dctcp_reduction.csv")) {
        let mut dctcp = Dctcp::new(&start(100));
        dctcp.on_ack(&Ack { bytes_acked: 0, ..ack(Instant::ZERO, ms(100), SMSS, 0) });
        let ecn_marked = row[0].unsigned_abs() * SMSS;
        let marked = ack(Instant::ZERO, ms(100), 101 * SMSS, SMSS);
        dctcp.on_ack(&Ack { bytes_acked: 100 * SMSS, cwnd_limited: false, ecn_marked, ..marked });
        let cwnd = dctcp.cwnd();
        dctcp.on_loss_episode(&LossEpisode { bytes_lost: 0, ..loss(cwnd, LossCause::EcnEcho) });
        assert!(dctcp.cwnd().abs_diff(row[1].unsigned_abs()) <= 4, "{} is not {row:?}", dctcp.cwnd());
    }
}

#[test]
fn prague_grows_with_the_square_of_a_short_round_trip() {
    for row in rows(include_str!("prague_growth.csv")) {
        let mut prague = Dctcp::prague(&start(10));
        prague.limit_slow_start(0);
        let windows = (1..).find(|_| {
            prague.on_ack(&whole_window(&prague, ms(row[0]), 0));
            prague.cwnd() > 10 * SMSS
        });
        let (ours, theirs): (u64, _) = (windows.unwrap(), row[1].unsigned_abs());
        // The ratio has sixteen fraction bits and is rounded down.
        assert!(ours.abs_diff(theirs) <= 1 + theirs / 50, "{ours} is not {row:?}");
    }
}

#[test]
fn bbr_starts_at_twice_and_three_quarters_of_the_measured_rate() {
    for row in rows(include_str!("bbr_startup.csv")) {
        let mut bbr = Bbr::new(&start(1));
        let (bytes, interval) = (row[0].unsigned_abs(), ms(row[1]));
        bbr.on_ack(&Ack { bytes_acked: bytes, ..ack(Instant::from_millis(1000), interval, bytes, 0) });
        let rate = bbr.pacing_rate().unwrap();
        assert!(rate.abs_diff(row[2].unsigned_abs()) <= 5, "{rate} is not {row:?}");
    }
}

#[test]
fn bbr1_model_and_window_by_round() {
    let mut bbr = BbrV1::new(&start(10));
    let (mut now, mut delivered) = (Instant::ZERO, 0);
    for (number, row) in rows(include_str!("bbr1_rounds.csv")).enumerate() {
        let (interval, bytes, prior_delivered) = (ms(row[0]), row[1].unsigned_abs(), delivered);
        now += interval;
        delivered += bytes;
        let in_flight = row[2].unsigned_abs();
        let acked = ack(now, interval, delivered, prior_delivered);
        bbr.on_ack(&Ack { bytes_acked: bytes, in_flight, prior_in_flight: in_flight + bytes, ..acked });
        // The round trip counts in 2^-30 s, and each step rounds down.
        let (bw, cwnd) = (value(&bbr, "bw"), bbr.cwnd());
        assert!((bw - row[3]).abs() <= 1, "round {number}: {bw} is not {row:?}");
        assert!(cwnd.abs_diff(row[4].unsigned_abs()) <= 5, "round {number}: {cwnd} is not {row:?}");
    }
}

fn value(controller: &dyn Controller, name: &str) -> i64 {
    controller.snapshot().iter().find(|(key, _)| *key == name).unwrap().1
}
