//! Keep-alives: RFC 9293 §3.8.4.

use std::time::Duration;

use ackclock_core::{ConnectionError, Keepalive, State};
use ackclock_tests::script::{Script, Setup};
use ackclock_tests::segment::RST;

const PROBING: Keepalive =
    Keepalive { idle: Duration::from_secs(100), interval: Duration::from_secs(10), probes: 4 };

fn probing() -> Script {
    let mut s = Script::accepted(&Setup::default());
    s.update(|c, now| c.set_keepalive(now, Some(PROBING))).expect("in range");
    s
}

// Tests: RFC 9293 MUST-25
#[test]
fn idle_connection_is_silent_by_default() {
    let mut s = Script::accepted(&Setup::default());
    assert_eq!(s.connection().keepalive(), None);
    s.advance(Duration::from_secs(24 * 3_600));
    s.nothing();
    assert_eq!(s.state(), State::Established);
}

// Tests: RFC 9293 MUST-24
// Tests: RFC 9293 MUST-27
// Tests: RFC 9293 SHLD-12
// Tests: RFC 9293 MAY-5
// Tests: RFC 9293 MAY-6
#[test]
fn idle_peer_is_probed_when_asked_for_without_data() {
    let mut s = probing();
    let (after, probe) = s.wait(Duration::from_secs(200)).expect("a probe");
    assert!(after >= PROBING.idle && after <= PROBING.idle + Duration::from_secs(1), "{after:?}");
    assert_eq!((probe.seq, probe.payload.len()), (0, 0), "SND.NXT - 1, no garbage octet");
    s.peer_ack(1, 1);
    let (after, _) = s.wait(Duration::from_secs(200)).expect("idle again");
    assert!(after >= PROBING.idle && after <= PROBING.idle + Duration::from_secs(1), "{after:?}");
    s.update(|c, now| c.set_keepalive(now, None)).expect("off");
    s.advance(Duration::from_secs(10_000));
    s.nothing();
}

// Tests: RFC 9293 MUST-26
#[test]
fn nothing_is_probed_while_data_is_outstanding_or_arriving() {
    let mut s = probing();
    for i in 0..20 {
        s.advance(Duration::from_secs(60));
        s.peer_ack(1, 1);
        s.nothing();
        assert_eq!(s.error(), None, "{i}");
    }
    s.write(1, 100);
    s.expect_data(1, 100);
    // Data is outstanding: retransmissions, no probes.
    let mut at = Duration::ZERO;
    while at < Duration::from_secs(150) {
        let Some((gap, segment)) = s.wait(Duration::from_secs(150) - at) else { break };
        at += gap;
        assert!(!segment.payload.is_empty(), "a keep-alive in between: {segment:?}");
    }
    assert_eq!(s.error(), None);
}

// Tests: RFC 9293 MUST-28
#[test]
fn default_interval_is_two_hours() {
    assert!(Keepalive::default().idle >= Duration::from_secs(7_200));
    let mut s = Script::accepted(&Setup::default());
    s.update(|c, now| c.set_keepalive(now, Some(Keepalive::default()))).expect("in range");
    let (after, _) = s.wait(Duration::from_secs(10_000)).expect("a probe");
    assert!((7_200..=7_201).contains(&after.as_secs()), "{after:?}");
}

// Tests: RFC 9293 MUST-29
#[test]
fn connection_survives_all_lost_probes_but_one() {
    let mut s = probing();
    for _ in 0..PROBING.probes {
        let (_, probe) = s.wait(Duration::from_secs(200)).expect("a probe");
        assert!(probe.payload.is_empty());
        assert_eq!(s.error(), None);
    }
    // All but the last were lost.
    s.peer_ack(1, 1);
    s.advance(Duration::from_secs(50));
    assert_eq!((s.state(), s.error()), (State::Established, None));
}

#[test]
fn peer_that_answers_no_probe_is_given_up() {
    let mut s = probing();
    let (start, mut probes) = (s.now(), 0);
    while s.error().is_none() {
        s.advance(Duration::from_secs(1));
        probes += s.take_sent().iter().filter(|segment| !segment.has(RST)).count();
        assert!(probes < 20, "no end");
    }
    assert_eq!(s.error(), Some(ConnectionError::KeepaliveTimedOut));
    assert_eq!(probes, PROBING.probes as usize);
    let took = s.now().saturating_since(start);
    let least = PROBING.idle + PROBING.probes * PROBING.interval;
    assert!(took >= least && took <= least + Duration::from_secs(2), "{took:?}");
}
