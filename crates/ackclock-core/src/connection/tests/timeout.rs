//! The retransmission timer under the estimators that a profile may choose.

use super::*;
use crate::Keepalive;
use crate::profile::{Choices, Recovery};
use crate::rtt::RtoConfig;

/// A sender with the estimator that these words describe, with the timer as its only loss recovery.
fn timed(words: &str) -> TcpConfig {
    TcpConfig {
        nodelay: true,
        choices: Choices {
            rto: RtoConfig::find(words).unwrap(),
            recovery: Recovery::NewReno,
            sack: false,
            timestamps: false,
            ..Choices::default()
        },
        ..TcpConfig::default()
    }
}

fn lost() -> PathRule {
    Box::new(|side, _| if side == 0 { Fate::Drop } else { Fate::Deliver(DELAY) })
}

/// When side 0 retransmits what it has sent now, this many times.
fn retransmissions(pair: &mut ConnectionPair, count: usize) -> Vec<Instant> {
    pair.path = lost();
    pair.ends[0].write(pair.now, b"x").unwrap();
    pair.flush();
    let times = (0..count).map(|_| {
        let before = pair.packets[0];
        while pair.packets[0] == before {
            let at = pair.ends[0].poll_timeout().expect("a timer runs");
            pair.step(at);
            pair.flush();
        }
        pair.now
    });
    times.collect()
}

// A1: a heartbeat clock times out at its ticks.
#[test]
fn heartbeat_timer_expires_at_ticks() {
    // Tests: A1
    for words in ["jacobson-1992", "jacobson-1992,min=750ms"] {
        let mut pair = ConnectionPair::established([timed(words), timed(words)], perfect());
        pair.run_for(Duration::from_millis(137));
        let sent = pair.now;
        let times = retransmissions(&mut pair, 4);
        assert!(times.iter().all(|at| at.as_millis() % 500 == 0), "{words}: {times:?}");
        assert!(times[0] > sent + Duration::from_millis(500), "{words}: {times:?}");
    }
}

#[test]
fn fine_timer_expires_after_its_time() {
    let mut pair = ConnectionPair::established([timed("rfc6298"), timed("rfc6298")], perfect());
    let (sent, rto) = (pair.now, pair.ends[0].info(pair.now).rto);
    assert_eq!(retransmissions(&mut pair, 1), [sent + rto]);
}

// J3: doubles, is capped, and is reset by a valid sample only.
#[test]
fn backoff_doubles_up_to_its_cap() {
    // Tests: J3
    let words = "rfc6298,min=1s,max=5s";
    let mut pair = ConnectionPair::established([timed(words), timed(words)], perfect());
    let sent = pair.now;
    let times = retransmissions(&mut pair, 5);
    let after: Vec<u64> = times.iter().map(|at| at.saturating_since(sent).as_millis() as u64).collect();
    assert_eq!(after, [1000, 3000, 7000, 12_000, 17_000]);
}

// J6: the acknowledgement of what was sent twice gives no sample, and the backoff stays until something sent
// once is acknowledged.
#[test]
fn backoff_stays_until_a_segment_sent_once_is_acknowledged() {
    // Tests: J3, J6
    for words in ["rfc6298,min=1s", "rfc6298,min=1s,sampling=flight", "jacobson-1992"] {
        let mut pair = ConnectionPair::established([timed(words), timed(words)], perfect());
        retransmissions(&mut pair, 2);
        pair.path = perfect();
        // The third gets through.
        pair.run_for(Duration::from_secs(30));
        let info = pair.ends[0].info(pair.now);
        let before = ConnectionPair::established([timed(words), timed(words)], perfect());
        let before = before.ends[0].info(before.now);
        assert_eq!((info.bytes_acked, info.backoff), (1, 3), "{words}: acknowledged, and nothing learnt");
        assert_eq!((info.srtt, info.rtt_min), (before.srtt, before.rtt_min), "{words}: no sample");
        pair.ends[0].write(pair.now, b"y").unwrap();
        pair.run_for(Duration::from_secs(10));
        assert_eq!(pair.ends[0].info(pair.now).backoff, 0, "{words}");
    }
}

#[test]
fn one_segment_of_a_flight_is_timed() {
    // Tests: A1
    let srtt_after = |words| {
        let mut pair = ConnectionPair::established([timed(words), timed(words)], perfect());
        let smss = pair.ends[0].info(pair.now).snd_mss as usize;
        // The acknowledgements behind the first are slow, and the estimator gets their samples or not.
        pair.path =
            Box::new(|side, number| Fate::Deliver(if side == 1 && number > 0 { 3 * DELAY } else { DELAY }));
        for _ in 0..8 {
            pair.ends[0].write(pair.now, &vec![1; smss]).unwrap();
            pair.run_for(Duration::from_millis(1));
        }
        pair.run_for(10 * DELAY);
        pair.ends[0].info(pair.now).srtt
    };
    // The first segment waited a millisecond for the second; the other six left before their acknowledgement.
    assert_eq!(srtt_after("rfc6298,sampling=flight"), Duration::from_millis(21));
    assert!(srtt_after("rfc6298") > Duration::from_millis(21));
}

#[test]
fn estimator_changes_while_the_timer_runs() {
    let mut pair = ConnectionPair::established([timed("rfc6298"), timed("rfc6298")], perfect());
    pair.path = lost();
    pair.ends[0].write(pair.now, b"x").unwrap();
    pair.flush();
    let srtt = pair.ends[0].info(pair.now).srtt;
    pair.ends[0].set_rto(pair.now, RtoConfig::find("rfc6298,min=7s").unwrap()).unwrap();
    assert_eq!(pair.ends[0].poll_timeout(), Some(pair.now + Duration::from_secs(7)));
    assert_eq!(pair.ends[0].info(pair.now).srtt, srtt, "what was measured stays");
    let crossed = RtoConfig { rto_min: Duration::from_secs(99), ..RtoConfig::default() };
    assert!(pair.ends[0].set_rto(pair.now, crossed).is_err());
}

// The window probe's clock is the estimator's.
#[test]
fn heartbeat_times_window_probes_too() {
    let tcp = TcpConfig { receive_buffer_max: 4000, ..timed("jacobson-1992") };
    let mut pair = ConnectionPair::established([tcp.clone(), tcp], perfect());
    pair.ends[0].write(pair.now, &[1; 8000]).unwrap();
    pair.run_for(Duration::from_millis(333));
    assert_eq!(pair.ends[0].info(pair.now).snd_wnd, 0);
    let at = pair.ends[0].poll_timeout().expect("a probe is due");
    assert_eq!(at.as_millis() % 500, 0, "{at:?}");
}

#[test]
fn keepalive_timer_rests_while_data_is_outstanding() {
    let mut pair = ConnectionPair::established([timed("rfc6298"), timed("rfc6298")], lost());
    let (idle, interval) = (Duration::from_millis(200), Duration::from_secs(1));
    let keepalive = Keepalive { idle, interval, probes: 3 };
    pair.ends[0].set_keepalive(pair.now, Some(keepalive)).unwrap();
    pair.ends[0].write(pair.now, b"x").unwrap();
    pair.flush();
    let until = pair.now + Duration::from_secs(10);
    let wakes = std::iter::from_fn(|| pair.step(until).then_some(())).count();
    // The keep-alive timer once, the buffers' timer at each end, and the retransmission timer, backed off.
    assert!((4..=10).contains(&wakes), "{wakes} wakes in 10 s");

    pair.path = perfect();
    pair.run_for(Duration::from_secs(10));
    let probes = pair.packets[0];
    pair.run_for(Duration::from_secs(10));
    let probes = pair.packets[0] - probes;
    // The peer answers at most two in a second.
    assert_eq!(pair.states(), [State::Established; 2]);
    assert!((8..=50).contains(&probes), "{probes} probes in 10 s");
}
