//! The retransmission timer and its limits: RFC 9293 §3.8.1 to §3.8.3, RFC 6298.

use std::time::Duration;

use ackclock_core::{ConnectionError, ReadError, State, TcpConfig};
use ackclock_tests::script::{Script, Setup, modern_options, peer_syn};

use super::nodelay;

/// A connection whose handshake took `rtt`.
fn with_rtt(setup: &Setup, rtt: Duration) -> Script {
    let mut s = Script::connecting(setup);
    s.take_sent();
    s.advance(rtt);
    if setup.peer_options.len() > 1 {
        s.ts_val = Some(1_000);
    }
    s.peer(peer_syn(setup).ack(1));
    s.expect_ack(1);
    s
}

// Tests: RFC 9293 MUST-18
#[test]
fn first_sample_sets_the_estimates_of_rfc_6298() {
    let rtt = Duration::from_millis(100);
    let s = with_rtt(&Setup::default(), rtt);
    let info = s.info();
    // RFC 6298 §2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + max(G, 4 * RTTVAR).
    assert_eq!((info.srtt, info.rttvar), (rtt, rtt / 2));
    assert!(info.rto >= rtt * 3, "{:?}", info.rto);
}

// Tests: RFC 9293 MUST-18
#[test]
fn later_samples_move_the_estimates_by_eighths_and_quarters() {
    let mut s = with_rtt(&nodelay(), Duration::from_millis(100));
    s.write(1, 100);
    s.expect_data(1, 100);
    s.advance(Duration::from_millis(180));
    s.take_sent();
    s.peer_ack(1, 101);
    let info = s.info();
    // RFC 6298 §2.3: RTTVAR = 3/4 * 50 + 1/4 * |100 - 180|; SRTT = 7/8 * 100 + 1/8 * 180.
    assert_eq!((info.srtt.as_micros(), info.rttvar.as_micros()), (110_000, 57_500));
}

// Tests: RFC 9293 MUST-18
#[test]
fn karn_takes_no_sample_from_a_retransmitted_segment() {
    let mut s = with_rtt(&nodelay(), Duration::from_millis(100));
    s.write(1, 100);
    s.expect_data(1, 100);
    let (_, again) = s.wait(Duration::from_secs(5)).expect("a retransmission");
    assert_eq!(again.seq, 1);
    s.advance(Duration::from_millis(10));
    let before = s.info().srtt;
    s.peer_ack(1, 101);
    assert_eq!(s.info().srtt, before, "whose round trip would that be?");
}

// Tests: RFC 9293 MUST-18
#[test]
fn karn_takes_no_sample_from_an_ack_that_covers_a_retransmission_in_part_or_with_others() {
    for ack in [700, 1_461, 2_000, 2_921] {
        let mut s = with_rtt(&nodelay(), Duration::from_millis(100));
        s.write(1, 2 * 1_460);
        assert_eq!(s.take_sent().len(), 2);
        let (_, again) = s.wait(Duration::from_secs(5)).expect("a retransmission");
        assert_eq!((again.seq, again.payload.len()), (1, 1_460), "of the first alone");
        s.advance(Duration::from_millis(10));
        let before = s.info().srtt;
        s.peer_ack(1, ack);
        assert_eq!(s.info().srtt, before, "up to {ack}");
    }
}

#[test]
fn timestamps_measure_a_retransmitted_segment() {
    let setup = Setup { peer_options: modern_options(7), ..nodelay() };
    let mut s = with_rtt(&setup, Duration::from_millis(100));
    s.write(1, 100);
    s.expect_data(1, 100);
    s.wait(Duration::from_secs(5)).expect("a retransmission");
    s.take_sent();
    s.advance(Duration::from_millis(20));
    s.peer_ack(1, 101);
    assert!(s.info().srtt < Duration::from_millis(100), "{:?}", s.info().srtt);
}

// Tests: RFC 9293 MUST-19
// Tests: RFC 9293 MUST-20
// Tests: RFC 9293 SHLD-9
// Tests: RFC 9293 SHLD-10
// Tests: RFC 9293 SHLD-11
#[test]
fn peer_that_vanishes_is_given_up_after_r2_with_word_in_between() {
    let mut s = Script::accepted(&nodelay());
    s.write(1, 100);
    s.expect_data(1, 100);
    s.readiness();
    let start = s.now();
    let (mut gaps, mut told_after) = (Vec::new(), None);
    while let Some((gap, segment)) = s.wait(Duration::from_secs(300)) {
        assert_eq!(segment.seq, 1);
        gaps.push(gap);
        if s.readiness().soft_error && told_after.is_none() {
            told_after = Some(gaps.len());
        }
        assert!(gaps.len() < 60, "no end");
    }
    let given_up = s.now().saturating_since(start) - Duration::from_secs(300);
    assert_eq!((s.state(), s.error()), (State::Closed, Some(ConnectionError::TimedOut)));
    assert_eq!(s.try_read(), Err(ReadError::Connection(ConnectionError::TimedOut)));
    // Backoff: a tail-loss probe may come first.
    for pair in gaps.windows(2).skip(1) {
        assert!(pair[1] >= pair[0] * 19 / 10 || pair[1] >= Duration::from_secs(60), "no backoff: {gaps:?}");
    }
    let until_last: Duration = gaps.iter().sum();
    assert!(until_last >= Duration::from_secs(60), "{gaps:?}");
    assert!(given_up + Duration::from_secs(300) >= Duration::from_secs(100), "{given_up:?}");
    assert!(told_after.is_some_and(|count| count >= 3), "R1, the soft error: {told_after:?}");
    assert_eq!(s.host.next_timeout(), None, "nothing is left to do");
}

// Tests: RFC 9293 SHLD-11
#[test]
fn vanished_peer_is_not_given_up_before_100_seconds() {
    let mut s = Script::accepted(&nodelay());
    s.write(1, 100);
    s.advance(Duration::from_secs(99));
    assert_eq!((s.state(), s.error()), (State::Established, None));
}

// Tests: RFC 9293 MUST-21
#[test]
fn user_timeout_replaces_r2() {
    for seconds in [5, 30, 4_000] {
        let mut s = Script::accepted(&nodelay());
        let timeout = Duration::from_secs(seconds);
        s.update(|c, now| c.set_user_timeout(now, Some(timeout))).expect("in range");
        assert_eq!(s.connection().user_timeout(), Some(timeout));
        s.write(1, 100);
        let start = s.now();
        s.advance(timeout * 9 / 10);
        assert_eq!((s.state(), s.error()), (State::Established, None), "{seconds} s");
        s.take_sent();
        while s.error().is_none() && s.now().saturating_since(start) < timeout * 2 {
            s.advance(Duration::from_millis(500));
        }
        assert_eq!(s.error(), Some(ConnectionError::TimedOut), "{seconds} s");
        let after = s.now().saturating_since(start);
        assert!(after <= timeout + Duration::from_secs(61), "{after:?} for {timeout:?}");
    }
}

// Tests: RFC 9293 MUST-21
#[test]
fn user_timeout_counts_from_the_oldest_unacknowledged_data() {
    let tcp =
        TcpConfig { user_timeout: Some(Duration::from_secs(10)), nodelay: true, ..TcpConfig::default() };
    let mut s = Script::accepted(&Setup { tcp, ..Setup::default() });
    // Idle for long: nothing is unacknowledged.
    s.advance(Duration::from_secs(100));
    for i in 0..30 {
        s.write(1 + 10 * i, 10);
        s.advance(Duration::from_millis(900));
        s.take_sent();
        s.peer_ack(1, 11 + 10 * i);
        assert_eq!(s.error(), None, "after {i} acknowledged writes");
    }
}
