//! Flow labels of IPv6 (RFC 6437): one for all packets of a connection, unlike any other's, and another after
//! a timeout.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock_core::{EndpointConfig, State, TcpConfig};
use ackclock_tests::script::{Script, Setup, modern_options, pattern, peer_syn};
use ackclock_tests::segment::{ACK, FIN, Frame, Opt, RST, SYN, seg};

fn v6() -> Setup {
    Setup { v6: true, peer_options: modern_options(7), ..Setup::default() }
}

/// The label of the next frame, which is sent with these flags.
#[track_caller]
fn label(s: &mut Script, flags: u8) -> u32 {
    let frame = s.next_frame();
    assert!(frame.seg.has(flags), "{frame:?}");
    frame.flow_label
}

#[test]
fn every_segment_of_a_connection_has_the_same_label() {
    let setup = v6();
    let mut s = Script::connecting(&setup);
    let one = label(&mut s, SYN);
    assert!((1..1 << 20).contains(&one), "{one:#x}");
    s.ts_val = Some(1_001);
    s.peer(peer_syn(&setup).ack(1));
    s.write(1, 10_000);
    s.peer(seg(ACK).seq(1).ack(1).data(&pattern(1, 2_000)));
    s.peer(seg(ACK).seq(1).ack(1).data(&pattern(1, 2_000)));
    // A challenge, and the end.
    s.peer(seg(SYN).seq(500));
    s.update(|connection, _| connection.set_dscp(46)).expect("it is below 64");
    s.write(10_001, 100);
    s.abort();
    let mut frames = Vec::new();
    while frames.last().is_none_or(|last: &Frame| !last.seg.has(RST)) {
        frames.push(s.next_frame());
    }
    assert!(frames.len() > 10 && frames.iter().all(|frame| frame.flow_label == one), "{one}: {frames:?}");
}

#[test]
fn answers_before_and_after_the_connection_have_its_label() {
    let setup = v6();
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    let one = label(&mut s, SYN | ACK);
    assert_ne!(one, 0);
    // SYN-RECEIVED: a challenge, then the connection.
    s.peer(seg(ACK).seq(1_000_000).ack(1).opt(Opt::Timestamps(1_000, 0)));
    assert_eq!(label(&mut s, ACK), one);
    s.ts_val = Some(1_000);
    s.peer(seg(ACK).seq(1).ack(1));
    s.accept();
    s.write(1, 100);
    assert_eq!(label(&mut s, ACK), one);
    s.shutdown();
    assert_eq!(label(&mut s, FIN), one);
    s.peer(seg(FIN).seq(1).ack(102));
    assert_eq!((label(&mut s, ACK), s.state()), (one, State::TimeWait));
    // TIME-WAIT without a connection.
    s.release();
    s.peer(seg(FIN).seq(1).ack(102));
    assert_eq!(label(&mut s, ACK), one);
    // Without any state at all.
    s.advance(Duration::from_secs(61));
    s.peer(seg(ACK).seq(2).ack(102));
    assert!(s.state() == State::Closed && label(&mut s, RST) == one);
}

/// As Linux does: the path that the label chose may be the one that loses.
#[test]
fn each_timeout_changes_the_label_and_nothing_else_does() {
    let tcp = TcpConfig { nodelay: true, ..TcpConfig::default() };
    let mut s = Script::accepted(&Setup { tcp, ..v6() });
    let repeated = seg(ACK).seq(1).ack(1).data(b"again");
    s.peer(repeated.clone());
    s.write(1, 7_140);
    let frames: Vec<Frame> = (0..5).map(|_| s.next_frame()).collect();
    let mut labels = vec![frames[0].flow_label];
    assert!(frames.iter().all(|frame| frame.flow_label == labels[0]), "{frames:?}");
    // A loss that is found without a timeout.
    s.peer(seg(ACK).seq(6).ack(1).opt(Opt::Sack(vec![(1_429, 7_141)])));
    let again = s.next_frame();
    assert_eq!((again.seg.seq, again.flow_label, s.info().timeouts), (1, labels[0], 0));
    while labels.len() < 6 {
        let timeouts = s.info().timeouts;
        while s.info().timeouts == timeouts {
            s.take_sent();
            s.advance(Duration::from_millis(10));
        }
        labels.push(label(&mut s, ACK));
        s.take_sent();
        s.peer(repeated.clone());
        assert_eq!(label(&mut s, ACK), labels[labels.len() - 1], "all that follows has it, too");
    }
    assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), labels.len(), "{labels:x?}");
    assert!(labels.iter().all(|label| (1..1 << 20).contains(label)), "{labels:x?}");
}

#[test]
fn syn_that_is_sent_again_has_another_label_at_either_end() {
    let setup = v6();
    let mut s = Script::connecting(&setup);
    let first = label(&mut s, SYN);
    s.advance(Duration::from_millis(1_500));
    let second = label(&mut s, SYN);
    assert_ne!(second, first);
    s.ts_val = Some(1_001);
    s.peer(peer_syn(&setup).ack(1));
    assert_eq!(label(&mut s, ACK), second);

    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    let first = label(&mut s, SYN | ACK);
    s.advance(Duration::from_millis(1_500));
    let second = label(&mut s, SYN | ACK);
    assert_ne!(second, first);
    s.ts_val = Some(1_000);
    s.peer(seg(ACK).seq(1).ack(1));
    s.accept();
    s.write(1, 100);
    assert_eq!(label(&mut s, ACK), second);
}

#[test]
fn label_that_a_timeout_changed_outlives_the_connection() {
    let mut s = Script::accepted(&v6());
    s.write(1, 100);
    let first = label(&mut s, ACK);
    while s.info().timeouts == 0 {
        s.advance(Duration::from_millis(10));
    }
    s.take_sent();
    s.peer_ack(1, 101);
    s.shutdown();
    let second = label(&mut s, FIN);
    assert_ne!(second, first);
    s.peer(seg(FIN).seq(1).ack(102));
    assert_eq!(label(&mut s, ACK), second);
    s.release();
    s.peer(seg(FIN).seq(1).ack(102));
    assert_eq!(label(&mut s, ACK), second);
}

/// RFC 6437 §3: labels are spread evenly, and cannot be predicted from one another.
#[test]
fn labels_of_different_connections_and_secrets_look_independent() {
    let label_of = |port: u16, secret: fn(&mut EndpointConfig)| {
        let setup = Setup { config: secret, ..v6() };
        let mut s = Script::closed(&setup);
        s.remote = SocketAddr::new(s.remote.ip(), port);
        s.peer(seg(SYN).seq(0));
        label(&mut s, RST)
    };
    let labels: Vec<u32> = (1_000..1_600).map(|port| label_of(port, |_| {})).collect();
    let distinct = labels.iter().collect::<BTreeSet<_>>().len();
    assert!(distinct >= 595, "{distinct} of 600");
    for bit in 0..20 {
        let set = labels.iter().filter(|&label| label >> bit & 1 == 1).count();
        // Five deviations of a fair coin; the secret is fixed, so this cannot fail by chance.
        assert!((240..=360).contains(&set), "bit {bit} is set in {set} of 600");
    }
    assert_ne!(labels[0], label_of(1_000, |config| config.secret = [8; 32]));
}

#[test]
fn labels_can_be_left_out_and_ipv4_has_none() {
    let without = Setup { config: |config| config.flow_labels = false, ..v6() };
    for setup in [without, Setup::default()] {
        let mut s = Script::connecting(&setup);
        assert_eq!(label(&mut s, SYN), 0);
        s.advance(Duration::from_millis(1_500));
        assert_eq!(label(&mut s, SYN), 0);
        s.peer(seg(SYN).seq(0).ack(1));
        s.take_sent();
        s.advance(Duration::from_secs(1));
        s.abort();
        assert_eq!(label(&mut s, RST), 0);
    }
}
