//! What a sender takes for a loss, and how far its window falls: segments in, segments and `info()` out.

use std::time::Duration;

use ackclock_core::TcpConfig;
use ackclock_core::profile::Recovery;
use ackclock_tests::script::{Script, Setup};
use ackclock_tests::segment::{ACK, Opt, Seg, seg};

use super::path::{MSS, tcp};

const SMSS: usize = MSS as usize;

fn accepted(tcp: TcpConfig) -> Script {
    let peer_options = vec![Opt::Mss(1460), Opt::SackPermitted, Opt::WindowScale(7)];
    Script::accepted(&Setup { tcp, peer_options, ..Setup::default() })
}

/// With a round trip of 20 ms, learnt from one segment, and a window of `window` segments.
fn measured(window: u32) -> Script {
    let mut s = accepted(tcp(Recovery::RackTlp, "reno", window));
    s.stream(1, MSS);
    s.take_sent();
    s.advance(Duration::from_millis(20));
    s.peer(ack(2));
    s
}

/// The sequence number at which segment `n` begins, the first being 1.
fn at(n: u32) -> u32 {
    1 + (n - 1) * MSS
}

/// Everything before segment `n` is acknowledged.
fn ack(n: u32) -> Seg {
    seg(ACK).seq(1).ack(at(n)).window(65_535)
}

fn sack(n: u32, blocks: &[(u32, u32)]) -> Seg {
    let blocks = blocks.iter().map(|&(start, end)| (at(start), at(end))).collect();
    ack(n).opt(Opt::Sack(blocks))
}

/// Four segments leave after the first, and nothing is heard until the probe of the last one leaves.
fn probed() -> Script {
    let mut s = measured(10);
    s.stream(at(2), 4 * MSS);
    assert_eq!(s.take_sent().len(), 4);
    let (after, probe) = s.wait(Duration::from_millis(100)).expect("a probe");
    assert!(after >= Duration::from_millis(40), "{after:?}");
    assert_eq!((probe.seq, probe.payload.len()), (at(5), SMSS));
    s
}

/// Two more segments leave and are acknowledged.
fn goes_on(s: &mut Script) {
    s.stream(at(6), 2 * MSS);
    assert_eq!(s.take_sent().len(), 2);
    s.advance(Duration::from_millis(20));
    s.peer(ack(8));
}

// RFC 8985 §7.4.2, case 1.
#[test]
fn probe_on_a_path_that_was_only_slow_begins_no_episode() {
    let mut s = probed();
    s.peer(ack(6));
    s.advance(Duration::from_millis(10));
    s.peer(sack(6, &[(5, 6)]));
    goes_on(&mut s);
    assert_eq!((s.info().loss_episodes, s.info().ssthresh), (0, None));
}

// Case 2.
#[test]
fn duplicate_acknowledgement_without_blocks_settles_a_probe() {
    let mut s = probed();
    s.peer(ack(6));
    s.advance(Duration::from_millis(10));
    s.peer(ack(6));
    goes_on(&mut s);
    assert_eq!(s.info().loss_episodes, 0);
}

#[test]
fn probe_of_which_no_copy_is_reported_had_repaired_a_loss() {
    let mut s = probed();
    s.advance(Duration::from_millis(20));
    s.peer(ack(6));
    assert_eq!(s.info().loss_episodes, 0, "not decided yet");
    goes_on(&mut s);
    assert_eq!(s.info().loss_episodes, 1);
    assert_eq!(s.info().retransmits, 1, "the probe is all that went twice");
}

// RFC 5681 §3.1 (4).
#[test]
fn acknowledgement_of_most_of_a_window_halves_the_whole_window() {
    let mut s = measured(20);
    s.stream(at(2), 20 * MSS);
    assert_eq!(s.take_sent().iter().map(|segment| segment.payload.len()).sum::<usize>(), 20 * SMSS);
    s.advance(Duration::from_millis(20));
    // The receiver coalesces: sixteen segments, a hole, three more.
    s.peer(sack(18, &[(19, 22)]));
    assert_eq!(s.info().loss_episodes, 1);
    assert_eq!(s.info().ssthresh, Some(10 * u64::from(MSS)));
}

#[test]
fn slow_start_after_a_timeout_doubles_though_nothing_new_waits() {
    let mut s = accepted(tcp(Recovery::NewReno, "reno", 16));
    s.stream(1, 16 * MSS);
    s.take_sent();
    let (_, first) = s.wait(Duration::from_secs(3)).expect("the timeout");
    assert_eq!(first.seq, 1);
    let (mut acked, mut flight, mut rounds) = (1, 1, Vec::new());
    while acked < 17 {
        rounds.push(flight);
        s.advance(Duration::from_millis(20));
        for _ in 0..flight {
            acked += 1;
            s.peer(ack(acked));
        }
        flight = s.take_sent().iter().map(|segment| segment.payload.len() / SMSS).sum();
        assert!(flight > 0 || acked == 17, "after {rounds:?}");
    }
    assert_eq!(rounds, [1, 2, 4, 8, 1]);
}

// RFC 8985 §6.3.
#[test]
fn timeout_sends_again_only_what_is_old() {
    let mut s = measured(10);
    s.stream(at(2), 3 * MSS);
    s.take_sent();
    // The probe, then silence; a new segment leaves just before the timer expires.
    s.wait(Duration::from_millis(100)).expect("a probe");
    let rto = s.info().rto;
    s.advance(rto - Duration::from_millis(2));
    s.stream(at(5), MSS);
    s.expect_data(at(5), SMSS);
    assert_eq!(s.info().timeouts, 0);
    s.advance(Duration::from_millis(3));
    assert_eq!(s.info().timeouts, 1);
    // Four are outstanding: one went again, two are lost, and the newest is in flight.
    assert_eq!(s.info().lost + u64::from(MSS), 3 * u64::from(MSS));
}
