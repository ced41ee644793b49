//! RFC 3168 §6.1.2 to §6.1.6.

use std::time::Duration;

use ackclock_core::Limits;
use ackclock_core::profile::Ecn;
use ackclock_tests::script::{Script, pattern};
use ackclock_tests::segment::{ACK, CWR, ECE, Opt, PSH, seg};

use super::{CE, ECT_0, NOT_ECT, agreed, codepoint_of_data};

/// Data of the peer arrives with this codepoint.
fn arrives(s: &mut Script, seq: u32, flags: u8, codepoint: u8) {
    s.peer_traffic_class = codepoint;
    s.peer(seg(PSH | ACK | flags).seq(seq).ack(1).data(&pattern(seq, 100)));
    s.peer_traffic_class = NOT_ECT;
}

/// RFC 3168 §6.1.4, §6.1.5, §6.1.6.
#[test]
fn only_new_data_is_ecn_capable() {
    for ecn in [Ecn::Classic, Ecn::Accurate] {
        let mut s = agreed(ecn);
        let ace = if ecn == Ecn::Accurate { 5 } else { 0 };
        s.peer(seg(PSH).seq(1).ack(1).ace(ace).data(&pattern(1, 100)));
        s.advance(Duration::from_secs(1));
        let ack = s.next_frame();
        assert_eq!((ack.seg.payload.len(), ack.traffic_class), (0, NOT_ECT), "an acknowledgement");
        assert_eq!(codepoint_of_data(&mut s, 1, 1000), ECT_0);
        s.advance(Duration::from_secs(3));
        let again = s.next_frame();
        assert_eq!((again.seg.seq, again.seg.payload.len()), (1, 1000));
        assert_eq!(again.traffic_class, NOT_ECT, "sent again");
        s.take_sent();
        // A closed window is probed.
        s.peer(seg(ACK).seq(101).ack(1001).window(0).ace(ace));
        s.write(1001, 1000);
        s.advance(Duration::from_secs(3));
        let probe = s.next_frame();
        assert_eq!((probe.seg.payload.len(), probe.traffic_class), (1, NOT_ECT), "a window probe");
    }
}

/// RFC 3168 §6.1.3.
#[test]
fn mark_is_echoed_until_the_sender_says_that_it_answered() {
    let mut s = agreed(Ecn::Classic);
    let mut seq = 1;
    let mut echoed = |flags, codepoint| {
        for _ in 0..2 {
            arrives(&mut s, seq, flags, codepoint);
            seq += 100;
        }
        s.take_sent().iter().any(|ack| ack.has(ECE))
    };
    assert!(!echoed(0, ECT_0));
    assert!(echoed(0, CE));
    assert!(echoed(0, ECT_0));
    assert!(echoed(CWR, CE), "the answer was marked, too");
    assert!(!echoed(CWR, ECT_0));
    let ecn = s.info().ecn.unwrap();
    assert_eq!((ecn.packets_marked, ecn.bytes_marked), (4, 400));
}

/// RFC 3168 §6.1.2: once per window of data; the first new data after it carries CWR; nothing is
/// retransmitted.
#[test]
fn echo_reduces_the_window_once_and_is_answered_once() {
    let mut s = agreed(Ecn::Classic);
    s.stream(1, 200_000);
    let sent = s.take_sent();
    let edge = sent.last().unwrap().end();
    let before = s.info().cwnd;
    let mut acked = 1;
    let mut later = Vec::new();
    while acked < edge {
        acked += 1460;
        s.peer(seg(ACK | ECE).seq(1).ack(acked));
        later.extend(s.take_sent());
    }
    let info = s.info();
    assert!(info.cwnd < before && info.cwnd >= before / 2, "{} after {before}", info.cwnd);
    assert_eq!(info.ecn.map(|ecn| ecn.reductions), Some(1));
    assert_eq!((info.retransmits, info.loss_episodes), (0, 0));
    assert!(later[0].has(CWR), "{later:?}");
    assert!(!later[1..].iter().any(|segment| segment.has(CWR)));
    // The next window's echo is a new one.
    s.peer(seg(ACK | ECE).seq(1).ack(acked + 1460));
    assert_eq!(s.info().ecn.map(|ecn| ecn.reductions), Some(2));
}

/// RFC 3168 §6.1.2: also when the window was reduced for a loss; and a loss in a window that a mark has
/// reduced is repaired without a second reduction.
#[test]
fn loss_and_mark_in_one_window_reduce_it_once() {
    let lose = |first: u8| {
        let mut s = agreed(Ecn::Classic);
        s.stream(1, 200_000);
        s.take_sent();
        s.peer(seg(ACK | first).seq(1).ack(1461));
        let marked = s.info().cwnd;
        for held in 2..=4 {
            let sack = Opt::Sack(vec![(2921, 2921 + 1460 * held)]);
            s.peer(seg(ACK).seq(1).ack(1461).opt(sack));
        }
        s.advance(Duration::from_millis(50));
        (marked, s)
    };
    let (before, mut s) = lose(0);
    let info = s.info();
    assert!(info.cwnd < before && info.retransmits > 0);
    let mut sent = s.take_sent();
    s.peer(seg(ACK).seq(1).ack(sent.iter().map(|segment| segment.end()).max().unwrap()));
    sent.extend(s.take_sent());
    assert!(sent.iter().all(|segment| !segment.has(CWR) || segment.seq > 1461), "not on what is sent again");
    assert_eq!(sent.iter().filter(|segment| segment.has(CWR)).count(), 1, "once, on new data");

    let (marked, mut s) = lose(ECE);
    let info = s.info();
    assert_eq!(info.cwnd, marked, "reduced before");
    assert!(s.take_sent().iter().any(|segment| segment.seq == 1461), "the hole is filled all the same");
}

/// A spurious retransmission in a window that a mark has reduced: the reduction for the mark is not undone.
#[test]
fn undo_of_a_loss_never_takes_an_answer_to_a_mark_back() {
    let cwnd_at_the_end = |echo: u8| {
        let mut setup = super::setup(Ecn::Classic);
        setup.peer_options.push(Opt::Timestamps(1000, 0));
        let mut s = Script::listening(&setup);
        s.peer(ackclock_tests::script::peer_syn(&setup).ace(0b011));
        s.sent();
        s.ts_val = Some(1000);
        s.peer(seg(ACK).seq(1).ack(1));
        s.accept();
        s.stream(1, 200_000);
        let first = s.take_sent();
        let (len, value) = (first[0].payload.len() as u32, s.ts_seen);
        s.advance(Duration::from_millis(20));
        s.peer(seg(ACK | echo).seq(1).ack(1 + len).opt(Opt::Timestamps(1020, value)));
        let before = s.info().cwnd;
        for held in 2..=5 {
            let sack = Opt::Sack(vec![(1 + 2 * len, 1 + (1 + held) * len)]);
            s.peer(seg(ACK).seq(1).ack(1 + len).opt(sack).opt(Opt::Timestamps(1021, value)));
        }
        s.advance(Duration::from_millis(40));
        assert!(s.info().retransmits > 0);
        s.take_sent();
        // The first transmission is answered, not the second.
        s.peer(seg(ACK).seq(1).ack(1 + 6 * len).opt(Opt::Timestamps(1022, value)));
        (before, s.info())
    };
    let (before, info) = cwnd_at_the_end(0);
    assert!(info.undone.total() == 1 && info.cwnd >= before, "{info:?}");
    let (before, info) = cwnd_at_the_end(ECE);
    assert!(info.undone.total() == 0 && info.cwnd <= before + 1460, "{} after {before}", info.cwnd);
}

/// RFC 3168 §6.1.2: only the first segment of the wire may carry CWR, so it leaves alone.
#[test]
fn answer_never_rides_on_a_packet_that_will_be_cut() {
    let mut s = agreed(Ecn::Classic);
    s.stream(1, 14_600);
    s.take_sent();
    s.peer(seg(ACK | ECE).seq(1).ack(14_601));
    let (now, conn) = (s.host.now, s.conn.unwrap());
    s.host.endpoint.update(now, conn, |c, now| c.write(now, &pattern(14_601, 20_000))).unwrap().unwrap();
    let limits = Limits { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true };
    let mut sent = Vec::new();
    while let Some(packet) = s.host.endpoint.poll_transmit(now, limits) {
        sent.push((packet.header[33] & CWR != 0, packet.segment_size.is_some(), packet.header[1] & 3));
    }
    assert_eq!(sent[..2], [(true, false, ECT_0), (false, true, ECT_0)], "{sent:?}");
    assert!(sent[1..].iter().all(|(cwr, ..)| !cwr));
}

/// Data that was not ECN-capable cannot cause an echo: a peer that sends one all the same changes nothing.
#[test]
fn echo_without_agreement_changes_nothing() {
    let mut s = Script::accepted(&super::setup(Ecn::Off));
    s.stream(1, 100_000);
    let before = s.info().cwnd;
    s.peer(seg(ACK | ECE | CWR).seq(1).ack(14_601));
    assert!(s.info().cwnd >= before);
    assert!(s.take_sent().iter().all(|segment| segment.ace_value() == 0));
}
