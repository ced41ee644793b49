//! The retransmission timer after a timeout that was wrong (RFC 4015 step 11): segments in, `info()` out.

use std::time::Duration;

use ackclock_core::profile::{Choices, Recovery, UndoChoice};
use ackclock_core::{ConnectionInfo, TcpConfig};
use ackclock_tests::script::{Script, Setup, modern_options, peer_syn};
use ackclock_tests::segment::{ACK, Opt, Seg, seg};

use super::path::{RTT, tcp};

/// The room that the timestamps leave of 1460 bytes.
const SMSS: u32 = 1448;

/// Everything before segment `n` is acknowledged, as an answer to a segment with this timestamp.
fn ack(n: u32, stamp: u32) -> Seg {
    seg(ACK).seq(1).ack(1 + (n - 1) * SMSS).window(65_535).opt(Opt::Timestamps(1_001, stamp))
}

/// A flight of two is answered after four round trips, so that the timer expires before. The new data that
/// this lets go is answered after `later`.
fn after_a_spike(later: Duration) -> ConnectionInfo {
    let undo = UndoChoice { timestamps: true, ..UndoChoice::default() };
    let tcp = TcpConfig {
        choices: Choices { undo, ..tcp(Recovery::NewReno, "reno", 2).choices },
        ..tcp(Recovery::NewReno, "reno", 2)
    };
    let setup = Setup { tcp, peer_options: modern_options(7), ..Setup::default() };
    let mut s = Script::connecting(&setup);
    s.take_sent();
    s.ts_val = Some(1_000);
    s.advance(RTT);
    s.peer(peer_syn(&setup).ack(1));
    s.expect_ack(1);
    assert_eq!(s.info().rto, 3 * RTT);
    s.stream(1, 20 * SMSS);
    let stamp = s.ts_seen;
    assert_eq!(s.take_sent().len(), 2);
    let (after, again) = s.wait(4 * RTT).expect("the timeout");
    assert_eq!((after, again.seq), (3 * RTT, 1));
    s.advance(RTT);
    s.peer(ack(2, stamp));
    assert_eq!((s.info().timeouts, s.info().undone.timestamps), (1, 1));
    s.peer(ack(3, stamp));
    assert!(s.info().srtt > RTT + RTT / 4, "the late round trips are samples: {:?}", s.info().srtt);
    let new = s.take_sent();
    assert!(new.iter().all(|segment| segment.seq > 2 * SMSS) && new.len() >= 2, "{new:?}");
    let stamp = s.ts_seen;
    s.advance(later);
    assert_eq!(s.info().timeouts, 1);
    s.peer(ack(4, stamp));
    s.info()
}

/// Twice the granularity of the clock, which is that of the simulator's.
const TWO_TICKS: Duration = Duration::from_nanos(2);

#[test]
fn path_that_stays_slow_is_given_three_of_its_round_trips() {
    let info = after_a_spike(4 * RTT);
    assert_eq!((info.srtt, info.rttvar, info.rto), (4 * RTT, 2 * RTT, 12 * RTT));
}

#[test]
fn single_spike_leaves_the_timeout_where_it_was() {
    let info = after_a_spike(RTT);
    // RTTVAR was half of the only round trip.
    assert_eq!((info.srtt, info.rttvar), (RTT + TWO_TICKS, RTT / 2));
    assert_eq!(info.rto, 3 * RTT + TWO_TICKS);
}
