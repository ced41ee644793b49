//! Consecutive tail loss probes, and those in recovery and after a timeout.

use super::*;

/// Two round trips of 20 ms, and what timers may add before any loss.
const PTO: Duration = Duration::from_millis(50);
/// The probe's timeout on a path with known loss.
const PTO_AFTER_LOSS: Duration = Duration::from_millis(41);
/// The smallest timeout of the default estimator.
const RTO: Duration = Duration::from_millis(200);

#[test]
fn probe_without_answer_is_followed_by_another_after_twice_the_time() {
    let mut sender = Sender::new(reno());
    let sent = sender.send(4).now;
    assert_eq!(sender.expire().now, sent + PTO);
    assert_eq!(sender.resend(2), [(3, SendReason::TailProbe)]);
    assert_eq!(sender.expire().now, sent + 3 * PTO);
    assert_eq!(sender.resend(2), [(3, SendReason::TailProbe)]);
    // A third one would be later than the timer, which the first restarted and the second did not.
    assert_eq!(sender.expire().now, sent + PTO + RTO);
    assert_eq!(sender.info().timeouts, 1);
    // Nothing is known of the last segment; the first one is the probe.
    assert_eq!(sender.resend(2), [(0, SendReason::Retransmission)]);
}

#[test]
fn second_probe_is_left_out_where_it_would_leave_with_the_timeout() {
    for (round_trip_ms, earlier) in [(45, false), (44, true)] {
        let mut sender = Sender::new(reno());
        sender.flight.rto = crate::sending::Rto::new(&sender.tcp.choices.rto);
        sender.flight.on_handshake_sample(sender.now - Duration::from_millis(round_trip_ms), sender.now);
        // Twice the time of the first: 2 * (2 * 45 + 10) ms are the timeout.
        sender.send(4).expire();
        assert_eq!(sender.resend(1), [(3, SendReason::TailProbe)]);
        let due = sender.flight.expiries();
        assert_eq!(due.retransmission, sender.now + RTO);
        assert_eq!(due.tail_probe < due.retransmission, earlier);
        assert_eq!(due.tail_probe == Instant::FAR_FUTURE, !earlier);
    }
}

#[test]
fn answer_to_the_second_probe_finds_the_loss_without_a_timeout() {
    let mut sender = Sender::new(reno());
    sender.send(4).expire().resend(1);
    sender.expire().resend(1);
    sender.wait(20).ack(0, &[(3, 4)]);
    assert_eq!((sender.info().timeouts, sender.info().loss_episodes, sender.info().lost), (0, 1, 3 * SMSS));
    assert_eq!(sender.resend(4), [(0, SendReason::Retransmission)], "as RFC 9937 allows");
    // The count restarts: what follows is probed after one PTO.
    let sent = sender.wait(20).ack(4, &[]).send(4).now;
    assert_eq!(sender.expire().now, sent + PTO_AFTER_LOSS);
    assert_eq!(sender.resend(1), [(7, SendReason::TailProbe)]);
}

#[test]
fn each_of_two_probes_needs_its_own_report() {
    let answered = |reports: u64| {
        let mut sender = Sender::new(reno());
        sender.send(4).expire().resend(1);
        sender.expire().resend(1);
        for _ in 0..reports {
            sender.wait(5).ack(4, &[(3, 4)]);
        }
        sender.send(4).wait(20).ack(8, &[]);
        sender.info().loss_episodes
    };
    // RFC 8985 §7.4.2: otherwise the original, a probe or an answer was lost, and that is congestion.
    assert_eq!([answered(1), answered(2)], [1, 0]);
}

#[test]
fn lost_data_that_the_window_holds_back_is_the_probe() {
    let mut sender = Sender::new(reno());
    // Three of twenty arrive, so that four of the seventeen lost may go.
    sender.send(20).wait(20).ack(0, &[(17, 20)]);
    let resent = sender.resend(20).len() as u64;
    assert!((1..17).contains(&resent), "{resent}");
    assert_eq!(sender.resend(1), [], "the window is full");
    // No answer arrives. The timer of the probe releases one more, and the retransmission timer has not
    // expired.
    sender.expire();
    assert_eq!(sender.resend(20), [(resent, SendReason::Retransmission)]);
    assert_eq!(sender.info().timeouts, 0);
    assert!(sender.flight.next_timeout() > sender.now);
}

#[test]
fn first_segment_after_a_timeout_is_probed_for() {
    let mut sender = Sender::new(reno());
    sender.send(4);
    while sender.info().timeouts == 0 {
        sender.expire().resend(1);
    }
    // F-RTO permits nothing else, so the probe repeats what the timer sent.
    let timeout = sender.now;
    sender.expire();
    assert_eq!(sender.resend(4), [(0, SendReason::TailProbe)]);
    assert!(sender.now.saturating_since(timeout) < 2 * RTO, "before the next timeout");
    assert_eq!(sender.info().timeouts, 1);
}

// F-RTO has had its first answer and holds back what is lost: a probe has nothing to repeat.
#[test]
fn probe_without_a_segment_does_not_put_the_timeout_off() {
    let mut sender = Sender::new(reno());
    sender.send(4);
    while sender.info().timeouts == 0 {
        sender.expire().resend(1);
    }
    sender.wait(20).ack(1, &[]).send(2);
    let due = sender.flight.rto.deadline();
    while sender.info().timeouts == 1 {
        assert_eq!(sender.resend(1), [], "held back");
        sender.expire().ack(1, &[]);
        assert!(sender.now <= due, "put off beyond {due:?}");
    }
    assert_eq!(sender.now, due);
    assert_eq!(sender.resend(1), [(1, SendReason::Retransmission)]);
}

#[test]
fn probes_of_an_outage_grow_with_the_logarithm_of_its_length() {
    let mut sender = Sender::new(reno());
    let sent = sender.send(4).now;
    let mut probes = Vec::new();
    while sender.now.saturating_since(sent) < Duration::from_secs(300) {
        let resent = sender.expire().resend(1);
        probes
            .extend(resent.iter().filter(|(_, reason)| *reason == SendReason::TailProbe).map(|_| sender.now));
    }
    let probes_until = |secs| probes.iter().filter(|&&at| at < sent + Duration::from_secs(secs)).count();
    // 41 ms doubled seven times are five seconds, thirteen times five minutes; the retransmission timer
    // replaces some.
    let counts = [probes_until(5), probes_until(300)];
    assert!((2..=7).contains(&counts[0]) && (2..=13).contains(&counts[1]), "{counts:?}");
}

/// Of a later flight the first segment is lost, and the three behind it arrive at once. Returns whether it is
/// retransmitted at once, as on a path without reordering.
fn next_loss_is_answered_at_once(sender: &mut Sender) -> bool {
    let first = sender.flight.nxt().since(at(0)) / SMSS;
    sender.send(4).wait(20).ack(first, &[(first + 1, first + 4)]);
    sender.resend(1) == [(first, SendReason::Retransmission)]
}

// RFC 8985 §6.2 step 4 widens the window because a segment was wrongly taken to be late. A probe was not.
#[test]
fn reported_copies_of_probes_show_no_reordering() {
    for (probes, reports) in [(1, 1), (2, 1), (2, 2)] {
        let mut sender = Sender::new(reno());
        sender.send(4);
        for _ in 0..probes {
            sender.expire();
            assert_eq!(sender.resend(2), [(3, SendReason::TailProbe)]);
        }
        sender.wait(5).ack(4, &[]).send(1);
        for _ in 0..reports {
            sender.wait(1).ack(4, &[(3, 4)]);
        }
        sender.wait(10).ack(5, &[]);
        assert!(next_loss_is_answered_at_once(&mut sender), "{reports} reports of {probes} probes");
    }
}

#[test]
fn copies_of_both_ends_of_the_flight_show_no_reordering() {
    let mut sender = Sender::new(reno());
    // The last segment twice, the timer's retransmission, and a probe of the first: all arrive.
    sender.send(4);
    while sender.info().timeouts == 0 {
        sender.expire().resend(1);
    }
    assert_eq!(sender.expire().resend(1), [(0, SendReason::TailProbe)]);
    sender.wait(1).ack(4, &[]).send(1);
    for copy in [3, 3, 0] {
        sender.wait(1).ack(4, &[(copy, copy + 1)]);
    }
    sender.wait(10).ack(5, &[]);
    assert!(next_loss_is_answered_at_once(&mut sender));
}

#[test]
fn one_report_more_than_probes_shows_reordering() {
    let mut sender = Sender::new(reno());
    sender.send(4).expire().resend(1);
    sender.wait(5).ack(4, &[]).send(1);
    sender.wait(1).ack(4, &[(3, 4)]).wait(1).ack(4, &[(3, 4)]);
    sender.wait(10).ack(5, &[]);
    assert!(!next_loss_is_answered_at_once(&mut sender));
}

#[test]
fn reported_copy_of_a_window_probe_shows_no_reordering() {
    let mut sender = Sender::new(reno());
    sender.send(2).wait(5);
    // The peer's window has closed, and the first byte probes it.
    sender.leaves(at(0), at(0) + 1, SendReason::WindowProbe);
    sender.wait(15).ack(2, &[]).send(1);
    sender.acknowledge(2, &[(at(0), at(0) + 1)]);
    sender.wait(20).ack(3, &[]);
    assert!(next_loss_is_answered_at_once(&mut sender));
}

// Acknowledgements overtake one another: one may move SND.UNA over what an earlier one reported.
#[test]
fn acknowledgement_of_what_was_known_to_be_held_restarts_the_count_of_probes() {
    let mut sender = Sender::new(reno());
    sender.send(4).wait(20).ack(0, &[(1, 4)]).ack(1, &[]);
    sender.send(1).expire();
    assert_eq!(sender.resend(1), [(4, SendReason::TailProbe)]);
    assert!(!sender.flight.probe.is_first());
    sender.wait(1).ack(4, &[]);
    assert!(sender.flight.probe.is_first());
}

// Otherwise probes that arrive would put the timeout off for ever.
#[test]
fn report_of_a_copy_alone_does_not_restart_the_count_of_probes() {
    let mut sender = Sender::new(reno());
    sender.send(4).wait(20).ack(3, &[]).expire();
    assert_eq!(sender.resend(1), [(3, SendReason::TailProbe)]);
    sender.wait(1).ack(3, &[(2, 3)]);
    assert!(!sender.flight.probe.is_first());
    sender.wait(1).ack(4, &[]);
    assert!(sender.flight.probe.is_first());
}
