//! Edge cases of recovery: a FIN lost, a window closed, blocks that repeat, a policy changed during the
//! connection.

use std::time::Duration;

use ackclock_core::profile::{Choices, Recovery, UndoChoice};
use ackclock_core::{ConnectionError, State, TcpConfig};
use ackclock_tests::script::{Script, Setup, pattern};
use ackclock_tests::segment::{ACK, Opt, seg};

use super::path::{MSS, ScriptedPath, tcp};

const SMSS: usize = MSS as usize;

fn accepted(policy: Recovery, window: u32) -> Script {
    accepted_by(tcp(policy, "reno", window))
}

fn accepted_by(tcp: TcpConfig) -> Script {
    let peer_options = vec![Opt::Mss(1460), Opt::SackPermitted];
    Script::accepted(&Setup { tcp, peer_options, ..Setup::default() })
}

fn sack(ack: u32, blocks: &[(u32, u32)]) -> ackclock_tests::segment::Seg {
    seg(ACK).seq(1).ack(ack).window(65_535).opt(Opt::Sack(blocks.to_vec()))
}

/// The sequence number at which segment `n` begins, the first being 1.
fn at(n: u32) -> u32 {
    1 + (n - 1) * MSS
}

#[test]
fn repeated_blocks_report_no_duplicate_and_delay_no_retransmission() {
    // RFC 2018 §4: an acknowledgement repeats the blocks of the ones before.
    let mut s = accepted(Recovery::RackTlp, 10);
    s.stream(1, 10 * MSS);
    s.take_sent();
    s.advance(Duration::from_millis(50));
    s.peer(sack(at(1), &[(at(2), at(3))]));
    s.peer(sack(at(1), &[(at(4), at(5)), (at(2), at(3))]));
    s.peer(sack(at(1), &[(at(6), at(7)), (at(4), at(5)), (at(2), at(3))]));
    s.expect_data(1, SMSS);
}

#[test]
fn policies_without_sack_look_at_no_block() {
    for policy in [Recovery::GoBackN, Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Vegas] {
        let mut s = accepted(policy, 10);
        s.stream(1, 10 * MSS);
        s.take_sent();
        s.advance(Duration::from_millis(50));
        s.peer(sack(at(1), &[(at(5), at(10))]));
        let info = s.info();
        assert_eq!((info.sacked, info.recovery), (0, policy));
    }
}

#[test]
fn policies_of_sack_are_newreno_where_the_peer_sends_none() {
    for policy in [Recovery::Sack, Recovery::RackTlp] {
        let s = Script::accepted(&Setup { tcp: tcp(policy, "reno", 10), ..Setup::default() });
        assert_eq!(s.info().recovery, Recovery::NewReno);
    }
}

#[test]
fn every_policy_may_take_over_in_the_middle_of_an_episode() {
    for (_, from) in Recovery::ALL {
        for (_, to) in Recovery::ALL {
            let mut path = ScriptedPath::new(tcp(from, "reno", 16), &[(5, 1), (8, 1), (11, 1), (30, 1)]);
            path.script.stream(1, 48 * MSS);
            path.run_until(|path| path.millis() >= 107);
            path.script.update(|connection, now| connection.set_recovery(now, to));
            assert_eq!(path.script.info().recovery, to);
            path.transfer(48);
            assert!(path.millis() < 5_000, "{from:?} to {to:?}: {} ms", path.millis());
        }
    }
}

#[test]
fn window_closed_in_recovery_is_respected_and_recovery_goes_on_when_it_opens() {
    for (_, policy) in Recovery::ALL.into_iter().filter(|&(_, policy)| policy != Recovery::GoBackN) {
        let mut s = accepted(policy, 10);
        s.stream(1, 20 * MSS);
        s.take_sent();
        s.advance(Duration::from_millis(50));
        for n in 3..6 {
            s.peer(sack(at(1), &[(at(2), at(n))]));
        }
        s.take_sent();
        s.peer(seg(ACK).seq(1).ack(at(2)).window(0));
        let sent = s.take_sent();
        assert!(sent.iter().all(|segment| segment.payload.is_empty()), "{policy:?}: {sent:?}");
        s.peer(seg(ACK).seq(1).ack(at(2)).window(60_000));
        s.advance(Duration::from_secs(3));
        assert!(s.take_sent().iter().any(|segment| segment.seq == at(2)), "{policy:?}");
    }
}

#[test]
fn lost_fin_is_sent_again_by_every_policy() {
    for (_, policy) in Recovery::ALL {
        let mut s = accepted(policy, 10);
        s.stream(1, 4 * MSS);
        s.take_sent();
        s.update(|connection, now| connection.shutdown(now)).expect("it is open");
        s.take_sent();
        s.advance(Duration::from_millis(50));
        s.peer_ack(1, at(5));
        let again = s.wait(Duration::from_secs(3)).expect("the FIN again").1;
        assert!(again.has(ackclock_tests::segment::FIN), "{policy:?}: {again:?}");
        s.peer_ack(1, at(5) + 1);
        assert_eq!(s.info().unacked, 0, "{policy:?}");
    }
}

#[test]
fn rack_learns_from_a_needless_retransmission_how_far_the_path_reorders() {
    let late = Duration::from_millis(30);
    let path = ScriptedPath::new(tcp(Recovery::RackTlp, "reno", 16), &[]);
    let mut path = path.delay(5, 1, late).delay(30, 1, late).delay(70, 1, late);
    path.transfer(100);
    let again: Vec<u32> = path.again().iter().map(|&(_, segment)| segment).collect();
    assert_eq!(again, [5], "a segment that is late for the first time, and no other");
}

#[test]
fn recovery_by_the_timer_goes_on_when_new_data_proved_nothing() {
    // RFC 5682 §2.1 (3a): a duplicate after the new data means that the timeout was right.
    for policy in [Recovery::GoBackN, Recovery::Reno, Recovery::NewReno] {
        let undo = UndoChoice { frto: true, ..UndoChoice::default() };
        let lost: &[(u32, u32)] =
            if policy == Recovery::GoBackN { &[(5, 1), (8, 1)] } else { &[(5, 1), (5, 2), (8, 1)] };
        let mut path = ScriptedPath::new(
            TcpConfig {
                choices: Choices { undo, ..tcp(policy, "reno", 16).choices },
                ..tcp(policy, "reno", 16)
            },
            lost,
        );
        let info = path.transfer(48);
        assert_eq!(info.timeouts, 1, "{policy:?}: {:?}", path.again());
    }
}

#[test]
fn user_timeout_ends_a_connection_of_which_a_probe_is_due_at_the_same_time() {
    // The handshake took no time, so that the probe and the timer have one deadline, which is the user's.
    let user_timeout = Duration::from_micros(300);
    let mut s =
        accepted_by(TcpConfig { user_timeout: Some(user_timeout), ..tcp(Recovery::RackTlp, "reno", 10) });
    s.stream(1, 3 * MSS);
    assert_eq!(s.take_sent().len(), 3);
    s.advance(user_timeout);
    assert_eq!((s.state(), s.error()), (State::Closed, Some(ConnectionError::TimedOut)));
}

#[test]
fn probe_that_is_reported_as_a_duplicate_beyond_a_gap_does_not_put_the_timeout_off() {
    let mut s = accepted(Recovery::RackTlp, 11);
    s.update(|connection, now| {
        connection.write(now, &pattern(1, 10 * SMSS + 700)).expect("there is room");
        connection.shutdown(now).expect("it is open");
    });
    s.take_sent();
    s.advance(Duration::from_millis(5));
    s.peer_ack(1, at(2));
    // The second segment is lost, and lost again. The peer holds the rest, but its blocks do not cover the
    // FIN.
    let held = (at(3), at(11) + 700);
    s.peer(sack(at(2), &[held]));
    let start = s.now();
    let mut probes = 0;
    while s.info().timeouts == 0 {
        assert!(s.now().saturating_since(start) < Duration::from_millis(300), "{probes} probes, no timeout");
        for segment in s.take_sent().iter().filter(|segment| segment.seq >= at(11)) {
            probes += 1;
            let repeated = (segment.seq, segment.seq + segment.payload.len() as u32);
            s.peer(sack(at(2), &[repeated, held]));
        }
        s.advance(Duration::from_millis(1));
    }
    // Two smoothed round trips and the slack are 2.25 ms; doubled each time, six waits at most end before the
    // timer.
    assert_eq!(probes, 5);
}
