//! J8, V1, V2: one pattern of losses, and how each policy responds. A window of 16 segments leaves at once at
//! 0 ms; its segments arrive a millisecond apart.

use ackclock_core::ConnectionInfo;
use ackclock_core::profile::Recovery;
use ackclock_core::trace::LossRule;

use super::path::{MSS, ScriptedPath, Transmission, tcp};

/// The losses of the three patterns, each the first transmission.
const ONE: &[(u32, u32)] = &[(5, 1)];
const TWO: &[(u32, u32)] = &[(5, 1), (8, 1)];
const THREE: &[(u32, u32)] = &[(5, 1), (8, 1), (11, 1)];

fn run(policy: Recovery, lost: &[(u32, u32)]) -> (ScriptedPath, ConnectionInfo) {
    let controller = match policy {
        Recovery::Tahoe => "tahoe",
        Recovery::Net2Reno => "net2-reno",
        _ => "reno",
    };
    let mut path = ScriptedPath::new(tcp(policy, controller, 16), lost);
    let info = path.transfer(48);
    assert_eq!(info.recovery, policy);
    (path, info)
}

/// The retransmissions with their times, timeouts, and reductions other than by a timeout.
fn answer(policy: Recovery, lost: &[(u32, u32)]) -> (Vec<Transmission>, u64, u64) {
    let (path, info) = run(policy, lost);
    (path.again(), info.timeouts, info.loss_episodes)
}

#[test]
fn go_back_n_waits_for_the_timer_and_slow_start_fills_the_holes() {
    assert_eq!(answer(Recovery::GoBackN, ONE), (vec![(303, 5)], 1, 0));
    assert_eq!(answer(Recovery::GoBackN, TWO), (vec![(303, 5), (403, 8), (403, 9)], 1, 0));
    assert_eq!(
        answer(Recovery::GoBackN, THREE),
        (vec![(303, 5), (403, 8), (403, 9), (503, 11), (503, 12), (503, 13)], 1, 0)
    );
}

#[test]
fn tahoe_retransmits_at_the_third_duplicate_and_goes_on_from_there_in_slow_start() {
    // Tests: J8
    // Fall and Floyd 1996, §3.2: what had arrived is sent again, since the window passes over it.
    assert_eq!(answer(Recovery::Tahoe, ONE), (vec![(106, 5)], 0, 1));
    assert_eq!(answer(Recovery::Tahoe, TWO), (vec![(106, 5), (208, 8), (208, 9)], 0, 1));
    assert_eq!(
        answer(Recovery::Tahoe, THREE),
        (vec![(106, 5), (208, 8), (208, 9), (308, 11), (308, 12), (308, 13)], 0, 1)
    );
    let mut path = ScriptedPath::new(tcp(Recovery::Tahoe, "tahoe", 16), ONE);
    path.script.stream(1, 48 * MSS);
    path.run_until(|path| path.millis() >= 106);
    assert_eq!(path.script.info().cwnd, u64::from(MSS));
}

#[test]
fn reno_leaves_at_the_first_new_acknowledgement_and_pays_for_each_loss() {
    // Tests: J8
    assert_eq!(answer(Recovery::Reno, ONE), (vec![(106, 5)], 0, 1));
    assert_eq!(answer(Recovery::Reno, TWO), (vec![(106, 5), (302, 8)], 0, 2));
    // The third finds no three duplicates any more.
    assert_eq!(answer(Recovery::Reno, THREE), (vec![(106, 5), (303, 8), (603, 11)], 1, 2));
}

#[test]
fn net2_takes_duplicates_after_a_timeout_for_a_loss_and_halves_once_more() {
    // Tests: J8
    assert_eq!(answer(Recovery::Net2Reno, ONE), (vec![(106, 5)], 0, 1));
    assert_eq!(answer(Recovery::Net2Reno, TWO), (vec![(106, 5), (302, 8)], 0, 2));
    // The fast retransmission is lost as well. After the timeout slow start sends what the receiver holds,
    // too, and with 21 to 25 it draws three duplicates.
    let lost = [(1, 1), (1, 2), (6, 1), (11, 1), (16, 1), (21, 1), (26, 1)];
    let answer = |policy| {
        let mut path = ScriptedPath::new(tcp(policy, "net2-reno", 32), &lost);
        let info = path.transfer(64);
        let twice =
            [21, 26].map(|segment| path.again().iter().filter(|(_, again)| *again == segment).count());
        (twice, info.timeouts, info.loss_episodes)
    };
    assert_eq!(answer(Recovery::Net2Reno), ([2, 2], 1, 4));
    assert_eq!(answer(Recovery::Reno), ([1, 1], 1, 2));
}

#[test]
fn newreno_sends_a_hole_for_each_partial_acknowledgement() {
    // Tests: J8
    assert_eq!(answer(Recovery::NewReno, ONE), (vec![(106, 5)], 0, 1));
    assert_eq!(answer(Recovery::NewReno, TWO), (vec![(106, 5), (210, 8)], 0, 1));
    assert_eq!(answer(Recovery::NewReno, THREE), (vec![(106, 5), (210, 8), (310, 11)], 0, 1));
}

#[test]
fn sack_sends_all_holes_within_a_round_trip_when_the_pipe_has_room() {
    assert_eq!(answer(Recovery::Sack, ONE), (vec![(106, 5)], 0, 1));
    assert_eq!(answer(Recovery::Sack, TWO), (vec![(106, 5), (201, 8)], 0, 1));
    assert_eq!(answer(Recovery::Sack, THREE), (vec![(106, 5), (201, 8), (202, 11)], 0, 1));
}

#[test]
fn rack_with_prr_sends_a_segment_for_every_second_delivered_and_holes_first() {
    assert_eq!(answer(Recovery::RackTlp, ONE), (vec![(106, 5)], 0, 1));
    assert_eq!(answer(Recovery::RackTlp, TWO), (vec![(106, 5), (109, 8)], 0, 1));
    assert_eq!(answer(Recovery::RackTlp, THREE), (vec![(106, 5), (109, 8), (111, 11)], 0, 1));
    // RFC 9937: sent evenly during the round trip of the reduction; RFC 6675 is silent until half has
    // drained.
    let during = |policy| {
        let (path, _) = run(policy, ONE);
        path.sent.iter().filter(|&&(at, _)| (107..200).contains(&at)).count()
    };
    assert_eq!((during(Recovery::RackTlp), during(Recovery::Sack)), (3, 0));
}

#[test]
fn vegas_looks_at_its_clock_after_a_retransmission_and_halves_once() {
    // Tests: V1, V2
    assert_eq!(answer(Recovery::Vegas, ONE), (vec![(106, 5)], 0, 1));
    // The new acknowledgement that the retransmission brings is the hint for the next hole; V2: sent before
    // the decrease.
    assert_eq!(answer(Recovery::Vegas, TWO), (vec![(106, 5), (208, 8)], 0, 1));
    let (path, info) = run(Recovery::Vegas, THREE);
    assert_eq!(
        (path.again(), info.timeouts, info.loss_episodes),
        (vec![(106, 5), (208, 8), (308, 11)], 0, 1)
    );
    assert_eq!(info.losses.of(LossRule::OverdueAfterRetransmission), 2 * u64::from(MSS));
}

#[test]
fn vegas_has_fewer_coarse_timeouts_than_reno_on_the_same_losses() {
    // Tests: V1
    let patterns: [&[(u32, u32)]; 6] = [
        THREE,
        &[(2, 1)],
        &[(2, 1), (3, 1)],
        &[(3, 1), (4, 1), (6, 1)],
        &[(5, 1), (6, 1), (7, 1)],
        &[(5, 1), (7, 1), (9, 1), (11, 1)],
    ];
    let timeouts = |policy| -> u64 { patterns.iter().map(|lost| answer(policy, lost).1).sum() };
    let (vegas, reno) = (timeouts(Recovery::Vegas), timeouts(Recovery::Reno));
    assert!(vegas < reno && reno >= 3, "{vegas} of Vegas, {reno} of Reno");
}

#[test]
fn limited_transmit_sends_one_new_segment_for_each_of_the_first_two_duplicates() {
    let new_before_the_third = |policy| {
        let (path, _) = run(policy, ONE);
        path.sent.iter().copied().filter(|&(at, _)| (104..106).contains(&at)).collect::<Vec<_>>()
    };
    for policy in [Recovery::NewReno, Recovery::Sack, Recovery::RackTlp] {
        assert_eq!(new_before_the_third(policy), [(104, 25), (105, 26)], "{policy:?}");
    }
    for policy in [Recovery::GoBackN, Recovery::Tahoe, Recovery::Reno] {
        assert_eq!(new_before_the_third(policy), [], "{policy:?} is older than RFC 3042");
    }
}

#[test]
fn lost_retransmission_costs_a_timeout_to_all_but_rack() {
    let lost = [(5, 1), (5, 2)];
    for (_, policy) in Recovery::ALL {
        let (_, timeouts, _) = answer(policy, &lost);
        assert_eq!(timeouts == 0, policy == Recovery::RackTlp, "{policy:?}: {timeouts}");
    }
}

#[test]
fn lost_tail_costs_a_timeout_to_all_but_rack() {
    for (_, policy) in Recovery::ALL {
        let (path, info) = run(policy, &[(48, 1)]);
        assert_eq!(info.timeouts == 0, policy == Recovery::RackTlp, "{policy:?}: {:?}", path.again());
        assert_eq!(path.again().len(), 1, "{policy:?}");
    }
}
