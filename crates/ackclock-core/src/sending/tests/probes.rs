//! Tail loss probes that follow each other, and those in recovery and after a timeout.

use super::*;

/// Two round trips of 20 ms, and a millisecond for timers.
const PTO: Duration = Duration::from_millis(41);
/// The least timeout of the default estimator.
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
    // Of the last segment nothing is known; the first one asks.
    assert_eq!(sender.resend(2), [(0, SendReason::Retransmission)]);
}

#[test]
fn answer_to_the_second_probe_finds_the_loss_without_a_timeout() {
    let mut sender = Sender::new(reno());
    sender.send(4).expire().resend(1);
    sender.expire().resend(1);
    sender.wait(20).ack(0, &[(3, 4)]);
    assert_eq!((sender.info().timeouts, sender.info().loss_episodes, sender.info().lost), (0, 1, 3 * SMSS));
    assert_eq!(sender.resend(4), [(0, SendReason::Retransmission)], "as RFC 9937 allows");
    // The count begins again: what follows is probed after one PTO.
    let sent = sender.wait(20).ack(4, &[]).send(4).now;
    assert!(sender.expire().now.saturating_since(sent) <= PTO);
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
    // RFC 8985 §7.4.2: else the original, a probe or an answer was lost, and that is congestion.
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
    // No answer comes. The timer of the probe lets one more go, and the retransmission timer has not expired.
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
    // F-RTO lets nothing else go, so the probe repeats what the timer sent.
    let timeout = sender.now;
    sender.expire();
    assert_eq!(sender.resend(4), [(0, SendReason::TailProbe)]);
    assert!(sender.now.saturating_since(timeout) < 2 * RTO, "before the next timeout");
    assert_eq!(sender.info().timeouts, 1);
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
    // 41 ms doubled seven times are five seconds, thirteen times five minutes; the timer takes the place of some.
    let counts = [probes_until(5), probes_until(300)];
    assert!((2..=7).contains(&counts[0]) && (2..=13).contains(&counts[1]), "{counts:?}");
}
