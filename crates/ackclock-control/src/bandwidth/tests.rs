use std::time::Duration;

use super::{
    Combine, Csa, CsaConfig, PacketPair, Passage, Receiver, SenderEstimatorKind, Tcsa, TcsaPrime, Tssf, pbm,
    pbm_between, pbm_prime, run,
};
use crate::Instant;

const RTT: Duration = Duration::from_millis(100);
const SMSS: u64 = 1000;

/// Acknowledgements at these times, in tenths of a millisecond, of `bytes` each.
fn acks(times: &[u64], bytes: u64) -> Vec<(Instant, u64)> {
    times.iter().map(|&time| (Instant::from_micros(time * 100), bytes)).collect()
}

#[test]
fn csa_takes_the_first_group_that_is_close_enough() {
    // ν·RTT is 10 ms: gaps of 20 ms and 11 ms do not count, then two of 4 ms do: 2 KB in 8 ms.
    let arrivals = acks(&[0, 200, 310, 350, 390, 391], SMSS);
    assert_eq!(run(Csa::new(CsaConfig::PAPER, RTT), arrivals), Some(250_000));
}

#[test]
fn csa_with_larger_nu_is_fooled_by_wider_gaps() {
    let arrivals = acks(&[0, 200, 310, 350, 390], SMSS);
    assert_eq!(run(Csa::new(CsaConfig::new(3, 2000).unwrap(), RTT), arrivals), Some(64_516));
}

#[test]
fn csa_without_a_close_group_makes_no_estimate() {
    assert_eq!(run(Csa::new(CsaConfig::PAPER, RTT), acks(&[0, 200, 400, 600], SMSS)), None);
    assert_eq!(
        run(Csa::new(CsaConfig::new(2, 1000).unwrap(), RTT), acks(&[0, 0, 0], SMSS)),
        None,
        "no time passed"
    );
}

#[test]
fn impossible_csa_parameters_are_answered_by_the_possible_ones() {
    for (n, nu) in [(1, 1000), (3, 0), (3, 10_001)] {
        let message = CsaConfig::new(n, nu).unwrap_err().to_string();
        assert!(message.ends_with("n must be 2 to 100, nu 1/10000 to 10000/10000"), "{message}");
    }
}

#[test]
fn tcsa_ends_with_the_smallest_when_a_sample_comes_close_to_it() {
    // Samples of three, each from the last of the one before: 500, 250, 400, 240 KB/s.
    let times = [0, 20, 40, 80, 120, 145, 170, 211, 253, 254, 255];
    assert_eq!(run(Tcsa::new(Csa::new(CsaConfig::PAPER, RTT)), acks(&times, SMSS)), Some(240_963));
}

#[test]
fn tcsa_prime_is_the_mean_of_two_samples_in_a_row() {
    // Samples: 500, 250, 260, then others.
    let times = [0, 20, 40, 80, 120, 158, 197, 198, 199];
    let estimate = run(TcsaPrime::new(Csa::new(CsaConfig::PAPER, RTT)), acks(&times, SMSS)).unwrap();
    assert_eq!(estimate, (250_000 + 259_740) / 2);
}

#[test]
fn tssf_takes_three_acknowledgements_of_one_flight() {
    // A flight of two segments has one acknowledgement, and the flight of three after it has two. The flight
    // of five has three; the last covers a single segment and does not count. The flight of eight has four,
    // 4 ms apart.
    let mut arrivals = acks(&[0], 2 * SMSS);
    arrivals.extend(acks(&[1000], 2 * SMSS));
    arrivals.extend(acks(&[1500], SMSS));
    arrivals.extend(acks(&[2000, 2040], 2 * SMSS));
    arrivals.extend(acks(&[2500], SMSS));
    arrivals.extend(acks(&[3000, 3040, 3080, 3120], 2 * SMSS));
    assert_eq!(run(Tssf::new(3, 2 * SMSS, SMSS), arrivals), Some(500_000));
}

#[test]
fn tssf_gives_up_at_a_duplicate() {
    let mut arrivals = acks(&[0], 2 * SMSS);
    arrivals.extend(acks(&[10], 0));
    arrivals.extend(acks(&[1000, 1040, 1080, 1120], 2 * SMSS));
    assert_eq!(run(Tssf::new(3, 8 * SMSS, SMSS), arrivals), None);
}

#[test]
fn packet_pair_is_the_spacing_of_two() {
    assert_eq!(run(PacketPair::new(), acks(&[0, 40, 1000, 1040], SMSS)), Some(250_000));
    assert_eq!(run(PacketPair::new(), acks(&[0], SMSS)), None);
}

/// A slow start whose bursts arrive with `gaps` tenths of a millisecond between segments. Each burst is
/// acknowledged at its end, which allows one segment more.
fn receiver(gaps: &[u64], samples_max: usize) -> Receiver {
    let mut receiver = Receiver::new(samples_max, SMSS, SMSS);
    receiver.on_data(Instant::ZERO, SMSS);
    receiver.on_ack_sent();
    for (burst, gap) in (1..).zip(gaps) {
        for segment in 0..=burst {
            receiver.on_data(Instant::from_micros(burst * 100_000 + segment * gap * 100), SMSS);
        }
        receiver.on_ack_sent();
    }
    receiver
}

#[test]
fn receiver_measures_the_bursts_that_its_acknowledgements_allow() {
    let mut receiver = Receiver::new(50, SMSS, SMSS);
    let at = Instant::from_millis;
    receiver.on_data(at(0), SMSS);
    receiver.on_ack_sent();
    // One segment acknowledged: the next two come back to back, 4 ms apart.
    receiver.on_data(at(100), SMSS);
    receiver.on_data(at(104), SMSS);
    assert_eq!(receiver.estimate(Combine::Max), Some(250_000));
    receiver.on_ack_sent();
    // Two acknowledged: the next three.
    receiver.on_data(at(204), SMSS);
    receiver.on_data(at(207), SMSS);
    receiver.on_data(at(212), SMSS);
    assert_eq!((receiver.samples(), receiver.estimate(Combine::Min)), (2, Some(250_000)));
}

#[test]
fn receiver_combines_its_samples() {
    // 250, 500, 250 and 1000 KB/s.
    let receiver = receiver(&[40, 20, 40, 10], 50);
    let estimates =
        [Combine::Min, Combine::Med, Combine::Avg, Combine::Max].map(|how| receiver.estimate(how).unwrap());
    assert_eq!(estimates, [250_000, 500_000, 500_000, 1_000_000]);
}

#[test]
fn receiver_stops_at_k_samples_and_at_a_loss() {
    assert_eq!(receiver(&[40; 20], 5).samples(), 5);
    let mut receiver = receiver(&[40; 3], 50);
    let before = receiver.samples();
    receiver.on_loss();
    receiver.on_data(Instant::from_millis(9000), 100 * SMSS);
    assert_eq!(receiver.samples(), before);
}

#[test]
fn pbm_finds_the_rate_at_which_most_bunches_arrive() {
    // Bursts of five at 1 ms a segment, with pauses, and one pair compressed to nothing.
    let times = (0..20).flat_map(|burst| (0..5).map(move |n| burst * 1000 + n * 10));
    let mut arrivals = acks(&times.collect::<Vec<_>>(), SMSS);
    arrivals[7].0 = arrivals[8].0 - Duration::from_micros(10);
    assert_eq!(pbm(arrivals), Some(1_000_000));
}

#[test]
fn pbm_prime_stops_at_the_first_loss() {
    let slow = (0..10).map(|n| (Instant::from_millis(10 * n), SMSS, false));
    let fast = (0..90).map(|n| (Instant::from_millis(200 + n), SMSS, n == 0));
    assert_eq!(pbm_prime(slow.clone().chain(fast.clone())), Some(100_000));
    assert_eq!(pbm(slow.chain(fast).map(|(at, bytes, _)| (at, bytes))), Some(1_000_000));
}

#[test]
fn pbm_tells_the_path_from_the_sender_where_both_ends_are_seen() {
    // Slow start over 100 ms: flights of 1, 1, 1, 2 and 3 segments. Segments sent together arrive 1 ms apart.
    // Most bunches show the round trip.
    let flights = [1, 1, 1, 2, 3].into_iter().zip([0, 100, 200, 300, 400]);
    let packets: Vec<Passage> = flights
        .flat_map(|(segments, ms)| {
            (0..segments).map(move |n| Passage {
                sent: Instant::from_millis(ms),
                arrived: Instant::from_millis(ms + 50 + n),
                bytes: SMSS,
            })
        })
        .collect();
    assert_eq!(pbm_between(packets.iter().copied()), Some(1_000_000));
    let arrivals = packets.iter().map(|packet| (packet.arrived, packet.bytes));
    assert!(pbm(arrivals).is_some_and(|rate| rate < 100_000), "the receiver alone is fooled");
    // Packets sent as far apart as they arrive say nothing about the path.
    let paced = packets.iter().map(|packet| Passage { sent: packet.arrived, ..*packet });
    assert_eq!(pbm_between(paced), None);
}

#[test]
fn nothing_to_look_at_is_no_estimate() {
    assert_eq!(pbm([]), None);
    assert_eq!(pbm(acks(&[0, 10], SMSS)), None, "one bunch is not a mode");
    for (_, kind) in SenderEstimatorKind::ALL {
        assert_eq!(kind.create(RTT, 10 * SMSS, SMSS).estimate(), None);
    }
}

#[test]
fn unknown_name_lists_the_valid_ones() {
    let message = SenderEstimatorKind::find("csaa").unwrap_err().to_string();
    assert!(message.ends_with("tssf, csa, tcsa, tcsa-prime, packet-pair"), "{message}");
    assert_eq!(SenderEstimatorKind::find("csa"), Ok(SenderEstimatorKind::Csa(CsaConfig::PAPER)));
}

#[test]
fn parameters_follow_the_name() {
    for (name, kind) in SenderEstimatorKind::ALL {
        assert_eq!((SenderEstimatorKind::find(name), kind.name()), (Ok(kind), name));
        assert_eq!(kind.to_string().parse(), Ok(kind), "{kind}");
    }
    let csa = |n, nu_e4| Ok(SenderEstimatorKind::Csa(CsaConfig::new(n, nu_e4).unwrap()));
    assert_eq!(SenderEstimatorKind::find("csa:5,0.2"), csa(5, 2000));
    assert_eq!(SenderEstimatorKind::find("csa:2,0.0125"), csa(2, 125));
    assert_eq!(SenderEstimatorKind::find("csa:2, 1"), csa(2, 10_000));
    assert_eq!(SenderEstimatorKind::find("csa:4"), csa(4, 1000));
    for words in
        ["csa:", "csa:1", "csa:3,0", "csa:3,1.1", "csa:3,x", "csa:999", "tssf:3,0.1", "packet-pair:2"]
    {
        let message = SenderEstimatorKind::find(words).unwrap_err().to_string();
        assert!(message.contains("csa:N,NU"), "{words}: {message}");
    }
}

/// Takes centuries if flights are skipped one by one.
#[test]
fn acknowledgement_far_ahead_is_one_step() {
    let arrivals =
        [(Instant::ZERO, 1), (Instant::from_millis(1), u64::MAX / 2), (Instant::from_millis(2), 1)];
    assert_eq!(run(Tssf::new(3, 1, 1), arrivals), None);
}

#[test]
fn any_times_and_sizes_are_survived() {
    let numbers = [0, 1, 1000, u64::MAX / 2, u64::MAX];
    for &a in &numbers {
        for &b in &numbers {
            let arrivals = [(a, b), (b, a), (a, a), (0, b), (b, b), (b, 0)];
            let arrivals = arrivals.map(|(at, bytes)| (Instant::from_nanos(at), bytes));
            for (_, kind) in SenderEstimatorKind::ALL {
                let mut estimator = kind.create(Duration::from_nanos(a), b, a);
                arrivals.iter().for_each(|&(at, bytes)| estimator.on_ack(at, bytes));
            }
            pbm(arrivals);
            let mut receiver = Receiver::new(3, a, b);
            for (at, bytes) in arrivals {
                receiver.on_data(at, bytes);
                receiver.on_ack_sent();
            }
        }
    }
}
