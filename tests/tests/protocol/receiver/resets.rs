//! Resets carry timestamps once these are agreed on (RFC 7323 §3.2: SHOULD), and only then.

use std::time::Duration;

use ackclock_core::{Keepalive, State, TcpConfig};
use ackclock_tests::script::{Script, Setup, modern_options, peer_syn};
use ackclock_tests::segment::{ACK, Opt, PSH, RST, SYN, Seg, seg};

fn stamped(tcp: TcpConfig) -> Setup {
    Setup { tcp, peer_options: modern_options(7), ..Setup::default() }
}

/// The reset that ends a connection, and what its stamps must be.
#[track_caller]
fn check(s: &mut Script, echoed: u32) {
    let before = s.ts_seen;
    let sent = s.take_sent();
    let reset = sent.last().expect("a reset");
    assert!(reset.has(RST | ACK), "{sent:?}");
    let (value, echo) = reset.timestamps().expect("stamps on a reset");
    assert_eq!(echo, echoed);
    assert!(before.wrapping_sub(value) < 1 << 31, "the connection's own clock: {value} after {before}");
    assert_eq!(reset.options.len(), 1, "and nothing else: {reset:?}");
}

#[test]
fn every_reset_of_a_connection_carries_its_timestamps() {
    let mut s = Script::accepted(&stamped(TcpConfig::default()));
    s.abort();
    check(&mut s, 1_000);

    // RFC 9293 SHLD-3: unread data at the close.
    let mut s = Script::accepted(&stamped(TcpConfig::default()));
    s.peer(seg(PSH).seq(1).ack(1).data(b"unread").opt(Opt::Timestamps(1_500, s.ts_seen)));
    s.release();
    check(&mut s, 1_500);

    // Data for a connection that its application has let go.
    let mut s = Script::accepted(&stamped(TcpConfig::default()));
    s.release();
    s.take_sent();
    s.peer(seg(PSH).seq(1).ack(2).data(b"late").opt(Opt::Timestamps(1_600, s.ts_seen)));
    check(&mut s, 1_600);

    let keepalive = Keepalive { idle: Duration::from_secs(10), interval: Duration::from_secs(1), probes: 2 };
    let mut s = Script::accepted(&stamped(TcpConfig { keepalive: Some(keepalive), ..TcpConfig::default() }));
    s.advance(Duration::from_secs(20));
    check(&mut s, 1_000);
}

#[test]
fn reset_without_an_agreement_carries_none() {
    // The peer offered none.
    let mut s = Script::accepted(&Setup::default());
    s.abort();
    assert_eq!(s.expect_rst(1).options, []);
    // RFC 9293 §3.5.2: in SYN-SENT, in SYN-RECEIVED and without a connection a reset is made from the segment
    // alone.
    let setup = stamped(TcpConfig::default());
    let mut s = Script::connecting(&setup);
    s.take_sent();
    s.peer(seg(ACK).seq(1).ack(1_000));
    assert_eq!(s.expect_rst(1_000).options, []);
    assert_eq!(s.state(), State::SynSent);

    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    assert!(s.sent().has(SYN | ACK));
    s.peer(seg(ACK).seq(1).ack(1_000).opt(Opt::Timestamps(1_000, 0)));
    assert_eq!(s.expect_rst(1_000).options, []);

    let mut s = Script::closed(&setup);
    s.peer(Seg { ack: 77, ..seg(ACK).seq(1).opt(Opt::Timestamps(1_000, 0)) });
    assert_eq!(s.expect_rst(77).options, []);
}
