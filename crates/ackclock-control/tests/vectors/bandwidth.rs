use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::assess::ssthresh::{KnownPath, LossRegion, LosslessRegion};
use ackclock_control::bandwidth::{
    Combine, Csa, CsaConfig, PacketPair, Receiver, Tcsa, TcsaPrime, Tssf, pbm, pbm_prime, run,
};

use super::{SMSS, number, rows, words};

const RTT: Duration = Duration::from_millis(100);

/// The acknowledgements of a trace.
fn acks(trace: u64) -> Vec<(Instant, u64)> {
    rows(include_str!("start_up_acks.csv"))
        .filter(|row| row[0].unsigned_abs() == trace)
        .map(|row| (Instant::from_micros(row[1].unsigned_abs()), row[2].unsigned_abs()))
        .collect()
}

#[test]
fn sender_side_estimates_of_the_traces() {
    // Tests: A4
    let csa = |n, nu_e4| Csa::new(CsaConfig::new(n, nu_e4).unwrap(), RTT);
    let mut found = 0;
    for row in words(include_str!("start_up_estimates.csv")) {
        let acks = acks(number(row[0]));
        let estimate = match row[1] {
            "csa-2-0.05" => run(csa(2, 500), acks),
            "csa-2-0.1" => run(csa(2, 1000), acks),
            "csa-3-0.1" => run(Csa::new(CsaConfig::PAPER, RTT), acks),
            "csa-2-0.2" => run(csa(2, 2000), acks),
            "tcsa" => run(Tcsa::new(Csa::new(CsaConfig::PAPER, RTT)), acks),
            "tcsa-prime" => run(TcsaPrime::new(Csa::new(CsaConfig::PAPER, RTT)), acks),
            "tssf" => run(Tssf::new(3, 2 * SMSS, SMSS), acks),
            _ => run(PacketPair::new(), acks),
        };
        let (ours, theirs) = (estimate.unwrap_or(0), number(row[2]));
        found += u32::from(theirs > 0);
        // Packet pair keeps sixteen fraction bits of a nanosecond.
        assert!(ours.abs_diff(theirs) <= 1, "{ours} is not {row:?}");
    }
    assert!(found > 100, "{found} estimates");
}

/// The arrivals of a trace.
fn arrivals(trace: u64) -> impl Iterator<Item = Instant> {
    let rows = rows(include_str!("start_up_arrivals.csv"));
    rows.filter(move |row| row[0].unsigned_abs() == trace)
        .map(|row| Instant::from_micros(row[1].unsigned_abs()))
}

#[test]
fn receiver_side_estimates_of_the_traces() {
    // Tests: A4
    for row in rows(include_str!("start_up_receiver.csv")) {
        let samples_max = usize::try_from(row[1]).unwrap();
        let mut receiver = Receiver::new(samples_max, SMSS, SMSS);
        for (count, at) in (1..).zip(arrivals(row[0].unsigned_abs())) {
            receiver.on_data(at, SMSS);
            if count == 1 || count % 2 == 0 {
                receiver.on_ack_sent();
            }
        }
        let ours = [Combine::Min, Combine::Avg, Combine::Med, Combine::Max]
            .map(|combine| i64::try_from(receiver.estimate(combine).unwrap()).unwrap());
        assert_eq!(ours, row[2..], "{row:?}");
    }
}

#[test]
fn bunch_modes_of_the_traces() {
    // Tests: A4
    for row in rows(include_str!("start_up_pbm.csv")) {
        let arrivals: Vec<Instant> = arrivals(row[0].unsigned_abs()).collect();
        let all = arrivals.iter().map(|&at| (at, SMSS));
        assert_eq!(pbm(all), Some(row[1].unsigned_abs()), "{row:?}");
        let until_loss = arrivals.iter().enumerate().map(|(number, &at)| (at, SMSS, number == 20));
        assert_eq!(pbm_prime(until_loss), Some(row[2].unsigned_abs()), "{row:?}");
    }
}

#[test]
fn regions_of_estimates() {
    // Tests: A5
    let (mut with_loss, mut without) = ([0; 6], [0; 4]);
    for row in rows(include_str!("start_up_regions.csv")) {
        let [estimate, loss_point, bottleneck] = [0, 1, 2].map(|column| row[column].unsigned_abs());
        let path = KnownPath { bottleneck, rtt: RTT, segment: 1000, segments_per_ack: 2 };
        let region = match path.with_loss(loss_point, Some(estimate)) {
            LossRegion::NoEstimate => 0,
            LossRegion::NoImpact => 1,
            LossRegion::SomeLossPrevention => 2,
            LossRegion::SteadyState => 3,
            LossRegion::Optimal => 4,
            LossRegion::ReducedPerformance => 5,
        };
        let lossless = match path.without_loss(loss_point, Some(estimate)) {
            LosslessRegion::NoEstimate => 0,
            LosslessRegion::UnknownEffect => 1,
            LosslessRegion::Optimal => 2,
            LosslessRegion::ReducedPerformance => 3,
        };
        assert_eq!([region, lossless], [3, 4].map(|column| usize::try_from(row[column]).unwrap()), "{row:?}");
        with_loss[region] += 1;
        without[lossless] += 1;
    }
    assert!(with_loss[1..].iter().chain(&without[1..]).all(|&count| count > 50), "{with_loss:?} {without:?}");
}
