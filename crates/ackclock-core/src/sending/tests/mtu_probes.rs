//! A lost probe of the path's MTU: its data is retransmitted at once, and nothing else happens, under any
//! policy.

use ackclock_control::profile::{Choices, Recovery};

use super::*;
use crate::sending::ProbeOutcome;

const WITHOUT_SACK: [Recovery; 5] =
    [Recovery::NewReno, Recovery::Reno, Recovery::Tahoe, Recovery::Vegas, Recovery::GoBackN];
const AGAIN: [(u64, SendReason); 2] = [(4, SendReason::Retransmission), (5, SendReason::Retransmission)];

/// Segments 0 to 3 have arrived, 4 and 5 went out as one probe, and `behind` more behind it.
fn probed(recovery: Recovery, behind: u64) -> Sender {
    let mut sender = probing(recovery, behind);
    sender.wait(20).ack(4, &[]);
    sender
}

/// The probe and the data behind it have left, and nothing has arrived.
fn probing(recovery: Recovery, behind: u64) -> Sender {
    let mut sender = Sender::new(TcpConfig { choices: Choices { recovery, ..reno().choices }, ..reno() });
    sender.send(4);
    let start = sender.flight.nxt();
    sender.call(|flight, call| {
        assert!(flight.may_probe_mtu(2 * SMSS));
        flight.send_mtu_probe(call, start, start + 2 * SMSS);
        flight.run_timer(call, true);
    });
    sender.send(behind);
    sender
}

fn unharmed(sender: &Sender) {
    let info = sender.info();
    assert_eq!((info.loss_episodes, info.timeouts), (0, 0));
    assert_eq!(sender.ssthresh(), u64::MAX);
}

#[test]
fn third_duplicate_resends_all_of_a_probe_and_no_one_is_told() {
    for recovery in WITHOUT_SACK {
        let mut sender = probed(recovery, 6);
        let cwnd = sender.info().cwnd;
        assert_eq!(sender.ack(4, &[]).ack(4, &[]).resend(10), [], "{recovery:?}: two may be reordering");
        assert_eq!(sender.ack(4, &[]).resend(10), AGAIN, "{recovery:?}");
        // Those of the other segments arrive as late as what is retransmitted.
        for _ in 0..3 {
            assert_eq!(sender.wait(2).ack(4, &[]).resend(10), [], "{recovery:?}");
        }
        assert_eq!((sender.info().cwnd, sender.info().lost), (cwnd, 0), "{recovery:?}");
        assert_eq!(sender.wait(14).ack(5, &[]).resend(10), [], "{recovery:?}: the second half is on its way");
        sender.ack(12, &[]);
        unharmed(&sender);
        assert!(sender.info().cwnd >= cwnd, "{recovery:?}");
        assert_eq!(sender.flight.mtu_probe_outcome(), Some(ProbeOutcome::Lost));
        assert_eq!(sender.flight.mtu_probe_outcome(), None, "told once");
    }
}

#[test]
fn a_probe_goes_again_though_the_window_is_full() {
    for recovery in WITHOUT_SACK {
        // A window of 24 segments, and 26 behind the first four.
        let mut sender = probed(recovery, 24);
        assert!(sender.flight.room() < SMSS, "{recovery:?}");
        sender.ack(4, &[]).ack(4, &[]).ack(4, &[]);
        assert_eq!(sender.resend(10), AGAIN, "{recovery:?}");
        unharmed(&sender);
    }
}

#[test]
fn duplicates_behind_a_lost_probe_let_new_data_follow() {
    for recovery in WITHOUT_SACK {
        let mut sender = probed(recovery, 16);
        sender.ack(4, &[]).ack(4, &[]).ack(4, &[]);
        sender.resend(10);
        let room = sender.flight.room();
        sender.ack(4, &[]).ack(4, &[]);
        assert_eq!(sender.flight.room(), room + 2 * SMSS, "{recovery:?}");
        // Their credit is taken back when the hole is filled.
        sender.wait(20).ack(22, &[]);
        assert_eq!(sender.flight.in_flight(), 0, "{recovery:?}");
        unharmed(&sender);
    }
}

#[test]
fn a_peer_that_answers_many_segments_at_once_shows_the_loss_by_its_sacks() {
    for recovery in WITHOUT_SACK {
        let mut sender = probed(recovery, 6);
        assert_eq!(sender.ack(4, &[(6, 8)]).resend(10), [], "{recovery:?}: two may be reordering");
        assert_eq!(sender.ack(4, &[(6, 12)]).resend(10), AGAIN, "{recovery:?}");
        sender.wait(20).ack(12, &[]);
        unharmed(&sender);
        assert_eq!(sender.flight.mtu_probe_outcome(), Some(ProbeOutcome::Lost));
    }
}

#[test]
fn loss_of_what_ends_where_a_probe_begins_is_not_the_probes() {
    let mut sender = probing(Recovery::Sack, 6);
    sender.wait(20).ack(3, &[]).ack(3, &[(4, 9)]);
    assert_eq!(sender.resend(10), [(3, SendReason::Retransmission)]);
    sender.wait(20).ack(12, &[]);
    assert_eq!(sender.flight.mtu_probe_outcome(), Some(ProbeOutcome::Arrived));
}

#[test]
fn what_was_lost_behind_a_probe_counts_as_any_loss() {
    for recovery in [Recovery::NewReno, Recovery::Reno] {
        // Segment 7 is lost as well.
        let mut sender = probed(recovery, 8);
        for _ in 0..7 {
            sender.ack(4, &[]);
        }
        assert_eq!(sender.resend(10), AGAIN, "{recovery:?}");
        sender.send(3).wait(20).ack(5, &[]).ack(7, &[]);
        unharmed(&sender);
        sender.ack(7, &[]).ack(7, &[]).ack(7, &[]);
        assert_eq!(sender.resend(1), [(7, SendReason::Retransmission)], "{recovery:?}");
        assert_eq!((sender.info().loss_episodes, sender.info().timeouts), (1, 0), "{recovery:?}");
    }
}

#[test]
fn acknowledgements_that_a_queue_delays_are_no_second_loss() {
    let mut sender = probed(Recovery::Sack, 14);
    sender.ack(4, &[(6, 7)]).ack(4, &[(6, 8)]).ack(4, &[(6, 9)]);
    assert_eq!(sender.resend(10), AGAIN);
    // Longer than the smallest round trip, and what was sent before the retransmission still arrives.
    for held in 10..20 {
        assert_eq!(sender.wait(4).ack(4, &[(6, held)]).resend(10), [], "{held}");
    }
    unharmed(&sender);
}

#[test]
fn no_probe_leaves_where_its_loss_would_not_be_seen() {
    let narrow = TcpConfig { choices: Choices { initial_window_segments: 4, ..reno().choices }, ..reno() };
    let sender = Sender::new(narrow);
    assert!(sender.flight.may_probe_mtu(SMSS));
    assert!(!sender.flight.may_probe_mtu(2 * SMSS), "three segments would not fit behind it");
}
