//! A segment that is discarded for its ACK field (RFC 5961 §5.2), or for lack of one, leaves no trace. An
//! attacker who guesses the sequence number has done half of the work.

use std::time::Duration;

use ackclock_core::profile::{Choices, Ecn};
use ackclock_core::{Keepalive, State, TcpConfig};
use ackclock_tests::script::{Script, Setup, modern_options, pattern, peer_syn};
use ackclock_tests::segment::{ACK, FIN, Opt, PSH, RST, SYN, Seg, seg};

/// Acknowledges what was never sent.
const IMPOSSIBLE: u32 = 1_000_000;

fn stamped(setup: TcpConfig) -> Script {
    Script::accepted(&Setup { tcp: setup, peer_options: modern_options(7), ..Setup::default() })
}

/// RFC 7323 §5.3 R3 would take the timestamp: the sequence number is right.
#[test]
fn timestamp_of_a_blind_segment_is_not_taken() {
    for (ack, flags) in [(IMPOSSIBLE, ACK), (u32::MAX - 100_000, ACK), (0, 0), (1, SYN | ACK), (0, SYN)] {
        for payload in [&b""[..], b"evil"] {
            let mut s = stamped(TcpConfig::default());
            s.peer(Seg { ack, ..seg(flags).seq(1).data(payload).opt(Opt::Timestamps(1_000 + (1 << 30), 0)) });
            s.take_sent();
            s.peer(seg(PSH).seq(1).ack(1).data(b"true"));
            assert_eq!(s.read(10), b"true", "after {flags:#x} that acknowledges {}", ack as i32);
            s.advance(Duration::from_millis(100));
            let echoed = s.take_sent().last().and_then(Seg::timestamps).map(|(_, echoed)| echoed);
            assert_eq!(echoed, Some(1_000), "the peer's own stamp is echoed");
        }
    }
}

#[test]
fn timestamp_of_a_segment_whose_ack_is_good_is_taken_though_it_brings_nothing() {
    let mut s = stamped(TcpConfig::default());
    s.peer(seg(ACK).seq(1).ack(1).opt(Opt::Timestamps(1_500, s.ts_seen)));
    s.write(1, 10);
    assert_eq!(s.sent().timestamps().map(|(_, echoed)| echoed), Some(1_500));
}

#[test]
fn ecn_codepoint_of_a_blind_segment_is_not_counted() {
    let tcp =
        TcpConfig { choices: Choices { ecn: Ecn::Accurate, ..Choices::default() }, ..TcpConfig::default() };
    let setup = Setup { tcp, peer_options: vec![Opt::Mss(1460), Opt::SackPermitted], ..Setup::default() };
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup).ace(0b111));
    s.take_sent();
    s.peer(seg(ACK).seq(1).ack(1).ace(0b010));
    s.accept();
    s.peer_traffic_class = 3;
    for segment in [seg(ACK).ack(IMPOSSIBLE), seg(SYN | ACK).ack(1), seg(SYN), seg(0)] {
        s.peer(segment.seq(1).data(b"evil"));
    }
    s.take_sent();
    let ecn = s.info().ecn.expect("agreed on");
    assert_eq!((ecn.packets_marked, ecn.bytes_marked, ecn.capable), (0, 0, true));
    s.write(1, 10);
    assert_eq!(s.sent().ace_value(), 5, "no mark is reported");
    // The true peer's are.
    s.peer(seg(ACK).seq(1).ack(11).ace(5).data(b"true"));
    assert_eq!(s.info().ecn.map(|ecn| ecn.packets_marked), Some(1));
}

/// RFC 9768 §3.2.2.1: the acknowledgement reports how a SYN,ACK arrived, but not how any other SYN did.
#[test]
fn blind_syn_does_not_change_the_counter_of_marks() {
    let tcp = TcpConfig {
        nodelay: true,
        choices: Choices { ecn: Ecn::Accurate, ..Choices::default() },
        ..TcpConfig::default()
    };
    let setup = Setup { tcp, ..Setup::default() };
    for blind in [seg(SYN).seq(0), seg(SYN | ACK).seq(1).ack(1), seg(SYN | ACK).seq(0).ack(IMPOSSIBLE)] {
        let mut s = Script::connecting(&setup);
        s.take_sent();
        s.peer(peer_syn(&setup).ack(1).ace(0b010));
        s.take_sent();
        s.write(1, 100);
        s.take_sent();
        s.peer_traffic_class = 3;
        s.peer(blind.clone());
        assert_eq!(s.sent().ace_value(), 5, "{blind:?} is challenged by an ordinary acknowledgement");
    }
}

#[test]
fn blind_duplicate_is_not_reported_as_received_twice() {
    for ack in [IMPOSSIBLE, u32::MAX - 100_000] {
        let mut s = stamped(TcpConfig::default());
        s.peer(seg(PSH).seq(1).ack(1).data(&pattern(1, 1_000)));
        s.take_sent();
        s.advance(Duration::from_secs(1));
        s.take_sent();
        for _ in 0..10 {
            s.peer(seg(PSH).seq(1).ack(ack).data(&pattern(1, 1_000)));
        }
        let answers = s.take_sent();
        assert_eq!(answers.len(), 1, "challenged at a limited rate: {answers:?}");
        assert_eq!(answers[0].sack(), [], "{answers:?}");
        assert_eq!(s.info().bytes_duplicate, 0);
        s.peer(seg(PSH).seq(1).ack(1).data(&pattern(1, 1_000)));
        assert_eq!(s.sent().sack(), [(1, 1_001)], "the true peer's is");
    }
}

#[test]
fn blind_overlap_counts_as_no_duplicate() {
    let mut s = stamped(TcpConfig::default());
    s.peer(seg(PSH).seq(1).ack(1).data(&pattern(1, 1_000)));
    s.peer(seg(PSH).seq(501).ack(IMPOSSIBLE).data(&pattern(501, 1_000)));
    assert_eq!(s.info().bytes_duplicate, 0);
    assert_eq!(s.read(10_000).len(), 1_000);
}

#[test]
fn blind_segments_keep_no_silent_peer_alive() {
    let keepalive = Keepalive { idle: Duration::from_secs(10), interval: Duration::from_secs(1), probes: 3 };
    let mut s = stamped(TcpConfig { keepalive: Some(keepalive), ..TcpConfig::default() });
    for _ in 0..15 {
        s.advance(Duration::from_secs(1));
        // One of them in the window, one a byte before it, where a probe would be.
        s.peer(seg(ACK).seq(1).ack(IMPOSSIBLE));
        s.peer(seg(ACK).seq(0).ack(IMPOSSIBLE));
    }
    assert_eq!(s.state(), State::Closed);
}

#[test]
fn blind_fin_does_not_prolong_time_wait() {
    for (seq, ack, again) in [(1, 2, true), (1, IMPOSSIBLE, false), (1 << 20, 2, false), (0, 2, false)] {
        let mut s = Script::accepted(&Setup::default());
        s.shutdown();
        s.take_sent();
        s.peer(seg(FIN).seq(1).ack(2));
        assert_eq!(s.state(), State::TimeWait);
        s.take_sent();
        s.advance(Duration::from_secs(50));
        s.peer(seg(FIN).seq(seq).ack(ack));
        s.advance(Duration::from_secs(11));
        let expected = if again { State::TimeWait } else { State::Closed };
        assert_eq!(s.state(), expected, "FIN at {seq} that acknowledges {ack}");
    }
}

/// RFC 7323 §5.2: a reset is not judged by its timestamp, in SYN-RECEIVED either.
#[test]
fn old_timestamp_does_not_keep_a_reset_from_a_half_open_connection() {
    let setup = Setup { peer_options: modern_options(7), ..Setup::default() };
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    s.take_sent();
    s.peer(seg(RST).seq(1).opt(Opt::Timestamps(1, 0)));
    s.nothing();
    assert_eq!(s.host.next_timeout(), None, "nothing of it is left");
}
