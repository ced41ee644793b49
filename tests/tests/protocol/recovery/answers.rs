//! Losses that a sender sees, and the fall of its window: segments in, segments and `info()` out.

use std::time::Duration;

use ackclock_core::TcpConfig;
use ackclock_core::profile::{Choices, Recovery, UndoChoice};
use ackclock_tests::script::Script;
use ackclock_tests::segment::{ACK, Opt, Seg, seg};

use super::path::{self, MSS, tcp};

const SMSS: usize = MSS as usize;

const RTT: Duration = Duration::from_millis(20);

/// A connection that knows its round trip from the handshake, with a window of `window` segments.
fn connected(recovery: Recovery, window: u32) -> Script {
    path::connected(tcp(recovery, "reno", window), RTT)
}

/// The first segment has been acknowledged.
fn measured(window: u32) -> Script {
    let mut s = connected(Recovery::RackTlp, window);
    s.stream(1, MSS);
    s.take_sent();
    s.advance(RTT);
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

// RFC 8985 §6.2 step 4: a probe was not held to be late, so that its copy arrived, too, shows no reordering.
#[test]
fn copy_of_a_probe_widens_no_reordering_window() {
    let mut s = probed();
    s.peer(ack(6));
    s.stream(at(6), 4 * MSS);
    assert_eq!(s.take_sent().len(), 4);
    s.advance(Duration::from_millis(10));
    s.peer(sack(6, &[(5, 6)]));
    s.nothing();
    s.advance(Duration::from_millis(10));
    // Three behind a hole are enough where nothing was reordered.
    s.peer(sack(6, &[(7, 10)]));
    s.expect_data(at(6), SMSS);
}

// When the reordering timer finds a loss, no acknowledgement may be left to come, so each expiry buys one
// segment.
#[test]
fn each_expiry_of_the_reordering_timer_sends_one_segment() {
    let mut s = measured(30);
    // Segment 2 arrives behind segment 3: the path reorders, and the timer finds what is lost.
    s.stream(at(2), 3 * MSS);
    assert_eq!(s.take_sent().len(), 3);
    s.advance(RTT);
    s.peer(sack(2, &[(3, 4)]));
    s.peer(ack(5));
    s.stream(at(5), 20 * MSS);
    assert_eq!(s.take_sent().len(), 20);
    s.advance(RTT);
    s.peer(sack(5, &[(7, 10)]));
    assert_eq!((s.info().lost, s.info().loss_episodes), (0, 0), "the reordering window is open");
    // Two are found, and one goes.
    let (after, again) = s.wait(RTT).expect("a retransmission");
    assert_eq!((after, again.seq), (RTT / 4, at(5)));
    s.nothing();
    assert_eq!((s.info().lost, s.info().timeouts, s.info().ssthresh), (u64::from(MSS), 0, Some(10 * 1460)));
    // More is out than the new threshold, so an acknowledgement buys half a segment; the timer finds a third.
    s.advance(Duration::from_millis(1));
    s.peer(sack(5, &[(11, 12), (7, 10)]));
    s.nothing();
    let (_, again) = s.wait(RTT).expect("another");
    assert_eq!(again.seq, at(6));
    s.nothing();
    assert_eq!((s.info().lost, s.info().timeouts), (u64::from(MSS), 0));
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
    let mut s = connected(Recovery::NewReno, 16);
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
    assert_eq!(s.take_sent().len(), 3);
    // Two probes, then silence; a new segment leaves just before the timer expires, 200 ms after the first
    // probe.
    let first = s.wait(Duration::from_millis(100)).expect("a probe").0;
    let second = s.wait(Duration::from_millis(100)).expect("another").0;
    assert_eq!((s.info().rto, s.info().retransmits), (Duration::from_millis(200), 2));
    s.advance(s.info().rto - second - Duration::from_millis(2));
    s.stream(at(5), MSS);
    s.expect_data(at(5), SMSS);
    assert_eq!(s.info().timeouts, 0, "{first:?}");
    s.advance(Duration::from_millis(3));
    assert_eq!(s.info().timeouts, 1);
    s.expect_data(at(2), SMSS);
    // Four are outstanding: one went again, two are lost, and the newest is in flight.
    assert_eq!(s.info().lost, 2 * u64::from(MSS));
}

// RFC 3708 §3: what was retransmitted was reported, and the rest of the flight was not retransmitted, nor has
// to be.
#[test]
fn timeout_is_undone_before_its_flight_went_again() {
    let undo = UndoChoice { dsack: true, ..UndoChoice::default() };
    let mut s = path::connected(
        TcpConfig {
            choices: Choices { undo, ..tcp(Recovery::Sack, "reno", 16).choices },
            ..tcp(Recovery::Sack, "reno", 16)
        },
        RTT,
    );
    s.stream(1, 10 * MSS);
    assert_eq!(s.take_sent().len(), 10);
    let (_, first) = s.wait(Duration::from_secs(3)).expect("the timeout");
    assert_eq!((first.seq, s.info().timeouts, s.info().cwnd), (1, 1, u64::from(MSS)));
    // The path was slow: both copies of the first arrive, and the report of that comes with the second one's
    // answer.
    s.peer(sack(2, &[(1, 2)]));
    let info = s.info();
    assert_eq!(
        (info.undone.dsack, info.lost, info.cwnd),
        (1, 0, 17 * u64::from(MSS)),
        "what it was, and this answer's"
    );
    s.nothing();
}
