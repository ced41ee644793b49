//! Findings of a review: each a case in which loss was found on a path without any, or a window fell too far.

use super::*;
use crate::congestion::Registry;
use crate::profile::{Choices, Recovery};

// RFC 8985 §7.4.2: an acknowledgement of just what the probe repeated does not show whether the probe was
// needed.
#[test]
fn late_answer_to_a_probe_is_no_loss() {
    let mut sender = Sender::new(reno());
    sender.send(4).expire();
    assert_eq!(sender.resend(2), [(3, SendReason::TailProbe)]);
    // Only the answer to the original was late.
    sender.wait(5).ack(4, &[]);
    assert_eq!((sender.info().loss_episodes, sender.ssthresh()), (0, u64::MAX));
    // Case 1: the answer to the probe shows it.
    sender.wait(5).ack(4, &[(3, 4)]);
    sender.send(4).wait(20).ack(8, &[]);
    assert_eq!((sender.info().loss_episodes, sender.ssthresh()), (0, u64::MAX));
}

#[test]
fn probe_whose_copy_nobody_reports_repaired_a_loss() {
    let mut sender = Sender::new(reno());
    sender.send(4).expire();
    assert_eq!(sender.resend(2).len(), 1);
    sender.wait(20).ack(4, &[]);
    sender.send(4).wait(20);
    assert_eq!(sender.info().loss_episodes, 0, "undecided until something later is acknowledged");
    sender.ack(8, &[]);
    assert_eq!(sender.info().loss_episodes, 1);
    assert!(sender.ssthresh() < u64::MAX);
}

#[test]
fn duplicate_without_sack_settles_a_probe() {
    let mut sender = Sender::new(reno());
    sender.send(4).expire();
    sender.resend(2);
    // Case 2: a receiver without D-SACK.
    sender.wait(20).ack(4, &[]).ack(4, &[]);
    sender.send(4).wait(20).ack(8, &[]);
    assert_eq!(sender.info().loss_episodes, 0);
}

#[test]
fn report_of_another_segment_does_not_settle_a_probe() {
    let mut sender = Sender::new(reno());
    sender.send(4).expire();
    sender.resend(2);
    sender.wait(20).ack(4, &[(0, 1)]);
    sender.send(4).wait(20).ack(8, &[]);
    assert_eq!(sender.info().loss_episodes, 1);
}

// RFC 5681 §3.1 (4): FlightSize is what was outstanding when the loss was found, not what the same
// acknowledgement left.
#[test]
fn acknowledgement_of_most_of_a_window_halves_the_whole_window() {
    let mut sender = Sender::new(reno());
    sender.send(20).wait(20);
    // One acknowledgement for 16 segments, with a hole behind them, as a coalescing receiver sends it.
    sender.ack(16, &[(17, 20)]);
    assert_eq!(sender.info().loss_episodes, 1);
    assert_eq!(sender.ssthresh(), 10 * SMSS);
}

#[test]
fn repaired_tail_halves_the_window_it_was_part_of() {
    let mut sender = Sender::new(reno());
    sender.send(10).wait(20).ack(9, &[]).expire();
    assert_eq!(sender.resend(2), [(9, SendReason::TailProbe)]);
    sender.wait(20).ack(10, &[]);
    sender.send(12).wait(20).ack(22, &[]);
    assert_eq!((sender.info().loss_episodes, sender.ssthresh()), (1, 6 * SMSS));
}

// RFC 5681 §3.1: slow start after a timeout grows by what is acknowledged, whether or not new data waits.
#[test]
fn slow_start_after_a_timeout_grows_while_only_lost_data_waits() {
    let mut sender =
        Sender::new(TcpConfig { choices: Choices { undo: Default::default(), ..reno().choices }, ..reno() });
    sender.send(16).wait(20);
    while sender.info().timeouts == 0 {
        sender.expire();
        if sender.info().timeouts == 0 {
            sender.resend(1);
        }
    }
    let mut una = 0;
    let mut rounds = Vec::new();
    while una < 16 {
        let flight = sender.resend(16).len() as u64;
        assert!(flight > 0, "after {una}");
        rounds.push(flight);
        for _ in 0..flight {
            una += 1;
            sender.wait(1).ack(una, &[]);
        }
        sender.wait(20);
    }
    assert_eq!(rounds, [1, 2, 4, 8, 1]);
}

// A loss found by the reordering timer is retransmitted at once, because no later event may come to trigger
// it.
#[test]
fn loss_found_by_the_timer_during_recovery_is_sent_again() {
    let mut sender = Sender::new(reno());
    // Segment 0 arrives behind segment 1, so the path reorders, and a timer finds what is lost.
    sender.send(3).wait(20).ack(0, &[(1, 2)]).ack(3, &[]);
    sender.send(20).wait(20).ack(3, &[(4, 7)]);
    assert_eq!(sender.info().lost, 0, "the reordering window is open");
    sender.expire();
    assert_eq!(sender.resend(5), [(3, SendReason::Retransmission)]);
    // Recovery has already sent more than it may when the timer finds another.
    sender.wait(1).ack(3, &[(8, 9), (4, 7)]);
    assert_eq!((sender.info().lost, sender.flight.room()), (0, 0));
    sender.expire();
    assert_eq!(sender.info().lost, SMSS);
    assert_eq!(sender.resend(5), [(7, SendReason::Retransmission)]);
}

// RFC 8985 §6.3: after a timeout only what is old enough counts as lost.
#[test]
fn timeout_spares_what_was_sent_a_moment_ago() {
    let mut sender =
        Sender::new(TcpConfig { choices: Choices { undo: Default::default(), ..reno().choices }, ..reno() });
    sender.send(4).wait(20);
    // A probe or two may come first.
    let deadline = loop {
        let next = sender.flight.next_timeout();
        sender.expire();
        if sender.info().timeouts > 0 {
            break next;
        }
        sender.resend(1);
        // New data leaves a millisecond before the timeout.
        if sender.flight.nxt() == at(4) {
            let timeout = sender.flight.expiries().retransmission;
            sender.now = timeout - Duration::from_millis(1);
            let start = sender.flight.nxt();
            sender.leaves(start, start + SMSS, SendReason::NewData);
        }
    };
    assert_eq!(sender.now, deadline);
    assert_eq!(sender.info().lost, 4 * SMSS, "all but the last");
    assert_eq!(sender.resend(1), [(0, SendReason::Retransmission)]);
}

// RFC 6582 §3.2 (3): a partial acknowledgement has the first unacknowledged segment sent again at once.
#[test]
fn partial_acknowledgement_sends_the_next_hole_though_the_window_is_full() {
    let choices = Choices { recovery: Recovery::NewReno, ..reno().choices };
    let mut sender = Sender::new(TcpConfig { choices, ..reno() });
    sender.send(10).wait(20);
    sender.ack(0, &[]).ack(0, &[]).ack(0, &[]);
    assert_eq!(sender.resend(5), [(0, SendReason::Retransmission)]);
    sender.wait(20).ack(1, &[]);
    assert_eq!(sender.flight.room(), 0);
    assert_eq!(sender.resend(5), [(1, SendReason::Retransmission)]);
}

#[test]
fn stopped_timers_include_that_of_the_reordering_window() {
    let mut sender = Sender::new(reno());
    sender.send(3).wait(20).ack(0, &[(1, 2)]).ack(3, &[]);
    sender.send(20).wait(20).ack(3, &[(4, 7)]);
    assert!(sender.flight.expiries().reordering < Instant::FAR_FUTURE, "the path reorders");
    sender.flight.stop_timers();
    assert_eq!(sender.flight.next_timeout(), Instant::FAR_FUTURE);
}

#[test]
fn before_the_handshake_there_is_no_window() {
    let tcp = reno();
    let flight = Flight::new(Instant::ZERO, at(0), SMSS as u32, 1_000_000, &tcp);
    let controller = flight.controller();
    assert_eq!((controller.name(), controller.cwnd(), controller.ssthresh()), ("none", 0, u64::MAX));
}

// A window whose round trip is no longer than two granularities is not paced.
#[test]
fn window_is_paced_from_a_round_trip_of_more_than_two_granularities_on() {
    for (round_trip_ns, is_paced) in [(2_000_000, false), (2_000_001, true)] {
        let mut sender =
            Sender::new(TcpConfig { choices: Choices { pacing: true, ..reno().choices }, ..reno() });
        sender.send(1).wait(1).ack(1, &[]);
        sender.flight.rto = crate::sending::Rto::new(&sender.tcp.choices.rto);
        sender.flight.on_handshake_sample(sender.now - Duration::from_nanos(round_trip_ns), sender.now);
        let (start, end) = (at(1), at(100));
        let chosen = crate::sending::Chosen { start, end, reason: SendReason::NewData };
        let Sender { flight, tcp, now, .. } = &mut sender;
        let left = flight.pace(*now, tcp, chosen).map(|chosen| chosen.end);
        assert_eq!(left != Some(end), is_paced, "{round_trip_ns}: {left:?}");
    }
}

// RFC 5682 §3.1 (3b): with SACK, a report of data from before the timeout that was sent once proves it wrong.
#[test]
fn report_of_old_data_sent_once_takes_the_timeout_back() {
    for (held, undone) in [((2, 3), 1), ((6, 7), 0)] {
        let undo = crate::profile::UndoChoice { frto: true, ..crate::profile::UndoChoice::OFF };
        let choices = Choices { recovery: Recovery::Sack, undo, ..reno().choices };
        let mut sender = Sender::new(TcpConfig { choices, ..reno() });
        sender.send(5).expire();
        assert_eq!((sender.info().timeouts, sender.resend(9)), (1, vec![(0, SendReason::Retransmission)]));
        sender.wait(5).ack(1, &[]).send(2);
        sender.wait(5).ack(1, &[held]);
        assert_eq!(sender.info().undone.frto, undone, "{held:?}");
    }
}

/// The tail times out, and there is nothing new to send. The window of one segment holds back the other lost
/// segments, so the first acknowledgement makes it two (RFC 5681 §3.1), also while F-RTO judges (RFC 5682
/// §2.1 (3): without new data the conventional recovery goes on).
#[test]
fn window_grows_by_the_first_answer_to_a_timeout_where_nothing_new_waits() {
    for frto in [true, false] {
        let mut tcp = reno();
        tcp.choices.undo.frto = frto;
        tcp.choices.recovery = Recovery::Sack;
        let mut sender = Sender::new(tcp);
        sender.send(8).expire();
        assert_eq!(sender.resend(8).len(), 1, "one segment");
        assert_eq!(sender.flight.cwnd(), SMSS);
        sender.wait(20).sendable = 0;
        sender.ack(1, &[]);
        assert_eq!(sender.flight.cwnd(), 2 * SMSS, "F-RTO: {frto}");
        assert_eq!(sender.resend(8).len(), 2, "F-RTO: {frto}");
    }
}

/// The first 8 of 20 segments are lost. At the first report, the connection switches to this controller.
/// Returns the segments sent during recovery.
fn sent_during_recovery(controller: Option<&str>) -> usize {
    let mut sender = Sender::new(reno());
    sender.send(20).wait(20).ack(0, &[(8, 11)]);
    let mut sent = sender.resend(20).len();
    if let Some(controller) = controller {
        sender.replace_controller(controller);
    }
    for held in 12..=20 {
        sender.ack(0, &[(8, held)]);
        let resent = sender.resend(20).len();
        let new = sender.flight.room() / SMSS;
        sender.send(if resent == 0 { new } else { 0 });
        sent += resent + if resent == 0 { new as usize } else { 0 };
    }
    sent
}

#[test]
fn another_controller_during_recovery_sends_on() {
    let same = sent_during_recovery(None);
    // Half of 20 may be in flight; 8 were lost and 12 delivered.
    assert!((7..=12).contains(&same), "{same}");
    for name in Registry::builtin().names() {
        let other = sent_during_recovery(Some(name));
        // PRR's share follows the threshold. Where that stays, so does the share.
        let is_kept = !WITHOUT_THRESHOLD.contains(&name);
        assert!(
            if is_kept { other == same } else { (7..=20).contains(&other) },
            "{name}: {other}, not {same}"
        );
    }
}

const WITHOUT_THRESHOLD: [&str; 3] = ["bbr", "bbr1", "uncontrolled"];

/// RFC 5681 §3.1: slow start ends at ssthresh, which a loss sets to half of FlightSize. That is knowledge of
/// the path, and outlives the controller that wrote it down.
#[test]
fn another_controller_keeps_the_threshold() {
    for name in Registry::builtin().names().filter(|name| !WITHOUT_THRESHOLD.contains(name)) {
        let mut sender = Sender::new(reno());
        sender.send(20).wait(20).ack(0, &[(1, 20)]);
        sender.replace_controller(name);
        assert_eq!(sender.ssthresh(), 10 * SMSS, "{name}, during recovery");

        let mut tcp = reno();
        tcp.choices.recovery = Recovery::Sack;
        let mut sender = Sender::new(tcp);
        sender.send(20).expire();
        sender.replace_controller(name);
        assert_eq!((sender.flight.cwnd(), sender.ssthresh()), (SMSS, 10 * SMSS), "{name}, after a timeout");
    }
}

/// Before a loss there is no threshold, and one below the window would be none to slow start.
#[test]
fn another_controller_finds_no_threshold_before_a_loss() {
    let mut sender = Sender::new(reno());
    sender.send(4);
    sender.replace_controller("cubic");
    assert_eq!(sender.ssthresh(), u64::MAX);
}

/// In congestion avoidance another controller grows by a segment in a round trip, not by a window.
#[test]
fn another_controller_in_congestion_avoidance_stays_there() {
    let mut sender = Sender::new(reno());
    sender.send(20).wait(20).ack(0, &[(1, 20)]);
    sender.resend(1);
    sender.wait(20).ack(20, &[]);
    sender.replace_controller("reno");
    let window = sender.flight.cwnd() / SMSS;
    assert_eq!(window, 10);
    sender.send(window);
    sender.flight.note_cwnd_limited();
    sender.wait(20);
    for acked in 21..=20 + window {
        sender.ack(acked, &[]);
    }
    assert_eq!(sender.flight.cwnd() / SMSS, window + 1);
}

/// RFC 9937, from memory (DeliveredData = 0: return); RFC 6937 §3 counts what an acknowledgement delivers. A
/// report of a duplicate delivers nothing, so it lets nothing go.
#[test]
fn reports_of_duplicates_alone_release_nothing_during_recovery() {
    let mut sender = Sender::new(reno());
    sender.send(20).wait(20).ack(0, &[(1, 14)]);
    sender.resend(20);
    let room = sender.flight.room() / SMSS;
    sender.send(room);
    let before = sender.flight.in_flight();
    for _ in 0..30 {
        sender.acknowledge(0, &[(at(3), at(4)), (at(1), at(14))]);
        assert_eq!(sender.resend(20), []);
        let room = sender.flight.room() / SMSS;
        sender.send(room);
    }
    assert_eq!(sender.flight.in_flight(), before);
}
