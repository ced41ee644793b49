//! Bugs that this stack once had, as the explorer of small worlds prints its counterexamples
//! (docs/robustness.md, "Small worlds").

use ackclock_core::Decision;
use ackclock_test_script::script::{Script, Setup, pattern, untimed};
use ackclock_test_script::segment::{ACK, FIN, Opt, PSH, RST, SYN, seg};

/// Found in the small world `deferred`: an accepted SYN has no outcome, and nothing is on the way and no
/// timer runs.
#[test]
fn server_tells_what_became_of_a_syn() {
    let setup = Setup { tcp: untimed(64), deferred: true, ..Setup::default() };
    let mut script = Script::listening(&setup);
    script.accept_at_once();
    script.peer(seg(SYN).seq(0).window(64).opt(Opt::Mss(1460)).opt(Opt::SackPermitted));
    script.decide(Decision::Accept);
    script.expect(seg(SYN | ACK).seq(0).ack(1).window(64).opt(Opt::Mss(1460)).opt(Opt::SackPermitted));
    script.peer(seg(RST).seq(1).window(0));
    script.has_told_of_each_syn();
}

/// Found in the small world `window`: client: an acknowledgement beyond the peer's window (RFC 9293 §3.4).
#[test]
fn client_stays_within_the_window() {
    let setup = Setup { tcp: untimed(4), ..Setup::default() };
    let mut script = Script::closed(&setup);
    script.connect();
    script.expect(seg(SYN).seq(0).window(4).opt(Opt::Mss(1460)).opt(Opt::SackPermitted));
    script.peer(seg(SYN | ACK).seq(0).ack(1).window(4).opt(Opt::Mss(1460)).opt(Opt::SackPermitted));
    script.expect(seg(ACK).seq(1).ack(1).window(4));
    script.write(1, 5);
    script.expect(seg(ACK).seq(1).ack(1).window(4).data(&pattern(1, 4)));
    script.write(6, 3);
    script.shutdown();
    script.peer(seg(PSH | ACK).seq(1).ack(1).window(4).data(&pattern(1, 1)));
    script.expect_read(1, 1);
    script.peer(seg(ACK).seq(2).ack(1).window(4).data(&pattern(2, 3)));
    script.expect(seg(ACK).seq(5).ack(5).window(0));
    script.expect_read(2, 3);
    script.expect(seg(ACK).seq(5).ack(5).window(4));
    script.peer(seg(ACK).seq(5).ack(5).window(4));
    script.expect(seg(FIN | PSH | ACK).seq(5).ack(5).window(4).data(&pattern(5, 4)));
    script.peer(seg(PSH | ACK).seq(5).ack(5).window(4).data(&pattern(5, 2)));
    script.expect_read(5, 2);
    script.stays_within(9);
}

/// Found in the small world `both-ways`: server: received bytes are lost with the connection.
#[test]
fn server_reads_what_has_arrived() {
    let setup = Setup { tcp: untimed(64), ..Setup::default() };
    let mut script = Script::listening(&setup);
    script.accept_at_once();
    script.peer(seg(SYN).seq(0).window(64).opt(Opt::Mss(1460)).opt(Opt::SackPermitted));
    script.expect(seg(SYN | ACK).seq(0).ack(1).window(64).opt(Opt::Mss(1460)).opt(Opt::SackPermitted));
    script.peer(seg(ACK).seq(1).ack(1).window(64));
    script.peer(seg(PSH | ACK).seq(1).ack(1).window(64).data(&pattern(1, 1)));
    script.write(1, 1);
    script.expect(seg(PSH | ACK).seq(1).ack(2).window(63).data(&pattern(1, 1)));
    script.peer(seg(RST | ACK).seq(2).ack(2).window(63));
    script.expect_read(1, 1);
}
