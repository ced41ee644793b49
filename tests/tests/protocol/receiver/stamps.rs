//! Which acknowledgements give a sample of the round trip by the timestamp that they echo, and how long it
//! may be: stamps count milliseconds, and a path may be a hundred times shorter.

use std::time::Duration;

use ackclock_core::profile::{Choices, Recovery, UndoChoice};
use ackclock_core::{Instant, TcpConfig};
use ackclock_tests::script::{Script, Setup, modern_options, peer_syn};
use ackclock_tests::segment::{ACK, Opt, Seg, seg};

const LEN: u32 = 100;

/// A connection over a path of this round trip, which has measured it ten times, and where its data goes on.
fn measured(rtt: Duration, recovery: Recovery, start: Instant) -> (Script, u32) {
    let tcp = TcpConfig {
        nodelay: true,
        choices: Choices { recovery, undo: UndoChoice::default(), ..Choices::default() },
        ..TcpConfig::default()
    };
    let setup = Setup { tcp, peer_options: modern_options(7), start, ..Setup::default() };
    let mut s = Script::connecting(&setup);
    s.take_sent();
    s.advance(rtt);
    s.ts_val = Some(1_001);
    s.peer(peer_syn(&setup).ack(1));
    s.take_sent();
    for number in 0..10 {
        s.write(1 + number * LEN, LEN as usize);
        s.take_sent();
        s.advance(rtt);
        s.peer_ack(1, 1 + (number + 1) * LEN);
    }
    assert_eq!(s.info().srtt, rtt);
    (s, 1 + 10 * LEN)
}

/// Writes a segment, waits until it is sent again, and returns both.
fn sent_twice(s: &mut Script, seq: u32) -> (Seg, Seg) {
    s.write(seq, LEN as usize);
    let first = s.sent();
    let (_, again) = s.wait(Duration::from_secs(1)).expect("sent again");
    assert_eq!((again.seq, again.payload.len()), (seq, LEN as usize));
    (first, again)
}

fn stamp(segment: &Seg) -> u32 {
    segment.timestamps().expect("agreed on").0
}

fn starts() -> impl Iterator<Item = Instant> {
    (0..25).map(|part| Instant::from_micros(3_600_000_000 + 40 * part))
}

/// RFC 7323 §4.3: a duplicate does not advance the window, and its acknowledgement echoes the stamp of the
/// segment that did, a retransmission timeout ago.
#[test]
fn acknowledgement_that_reports_a_duplicate_gives_no_sample() {
    let rtt = Duration::from_micros(80);
    for recovery in [Recovery::RackTlp, Recovery::Sack, Recovery::NewReno] {
        let (mut s, seq) = measured(rtt, recovery, Instant::from_millis(3_600_000));
        let (first, _) = sent_twice(&mut s, seq);
        s.advance(rtt);
        let duplicate = Opt::Sack(vec![(seq, seq + LEN)]);
        let echo = Opt::Timestamps(1_001, stamp(&first));
        s.peer(seg(ACK).seq(1).ack(seq + LEN).opt(duplicate).opt(echo));
        let srtt = s.info().srtt;
        assert_eq!(s.info().unacked, 0);
        assert!(srtt >= rtt / 2 && srtt <= rtt * 2, "{recovery:?}: {srtt:?} on a path of {rtt:?}");
    }
}

/// Nor by the transmission time of what was sent once: the duplicate triggered the acknowledgement, not its
/// own arrival.
#[test]
fn what_a_duplicate_made_the_peer_acknowledge_gives_no_sample() {
    let rtt = Duration::from_micros(80);
    let (mut s, seq) = measured(rtt, Recovery::RackTlp, Instant::from_millis(3_600_000));
    s.write(seq, 3_000);
    let sent = s.take_sent();
    assert_eq!(sent.len(), 3);
    // The acknowledgement was lost, or is held back. A probe for the tail draws another.
    let (after, probe) = s.wait(Duration::from_secs(1)).expect("a probe");
    assert!(after < Duration::from_millis(20), "{after:?}");
    s.advance(rtt);
    let duplicate = Opt::Sack(vec![(probe.seq, probe.end())]);
    s.peer(seg(ACK).seq(1).ack(seq + 3_000).opt(duplicate).opt(Opt::Timestamps(1_001, stamp(&sent[0]))));
    assert_eq!((s.info().unacked, s.info().srtt), (0, rtt));
}

/// Wherever a tick falls, a retransmission that is answered after 80 µs is not held to have taken a
/// millisecond.
#[test]
fn sample_of_a_retransmission_is_not_longer_than_its_stamp_allows() {
    for rtt in [Duration::from_micros(80), Duration::from_micros(12_900)] {
        for start in starts() {
            let (mut s, seq) = measured(rtt, Recovery::RackTlp, start);
            let (_, again) = sent_twice(&mut s, seq);
            s.advance(rtt);
            s.peer(seg(ACK).seq(1).ack(seq + LEN).opt(Opt::Timestamps(1_001, stamp(&again))));
            let srtt = s.info().srtt;
            assert_eq!(s.info().unacked, 0);
            assert!(srtt <= rtt && srtt >= rtt - rtt / 8, "{srtt:?} on a path of {rtt:?}, {start:?}");
        }
    }
}

/// The original was late, and its own acknowledgement says by how much: a spurious timeout gives a sample.
#[test]
fn stamp_of_the_original_tells_that_the_path_became_slower() {
    let rtt = Duration::from_micros(80);
    for start in starts() {
        let (mut s, seq) = measured(rtt, Recovery::RackTlp, start);
        let (sent_at, (first, _)) = (s.now(), sent_twice(&mut s, seq));
        s.advance(Duration::from_millis(100));
        s.take_sent();
        s.peer(seg(ACK).seq(1).ack(seq + LEN).opt(Opt::Timestamps(1_001, stamp(&first))));
        let took = s.now().saturating_since(sent_at);
        let srtt = s.info().srtt;
        // RFC 6298 (2.3): an eighth of the sample, which is at most a millisecond too short.
        let most = (rtt * 7 + took) / 8;
        assert!(took > Duration::from_millis(250));
        assert!(srtt <= most && srtt + Duration::from_micros(126) >= most, "{srtt:?}, {most:?}, {took:?}");
    }
}

/// For data sent once, the transmission time is more precise than the stamp.
#[test]
fn stale_stamp_does_not_lengthen_the_round_trip_of_what_was_sent_once() {
    let rtt = Duration::from_micros(80);
    let (mut s, seq) = measured(rtt, Recovery::RackTlp, Instant::from_millis(3_600_000));
    let stale = s.ts_seen;
    s.advance(Duration::from_millis(50));
    s.write(seq, LEN as usize);
    s.take_sent();
    s.advance(rtt);
    s.peer(seg(ACK).seq(1).ack(seq + LEN).opt(Opt::Timestamps(1_001, stale)));
    assert_eq!(s.info().srtt, rtt);
}

/// A lost segment and one sent once after it are acknowledged together, with a stamp from before both: the
/// sample is not longer than the one sent once has been out.
#[test]
fn sample_is_not_longer_than_what_was_sent_once_has_been_out() {
    let rtt = Duration::from_micros(80);
    let (mut s, seq) = measured(rtt, Recovery::NewReno, Instant::from_millis(3_600_000));
    let stale = s.ts_seen;
    s.advance(Duration::from_secs(3));
    sent_twice(&mut s, seq);
    s.advance(Duration::from_millis(30));
    s.take_sent();
    // A timeout's window lets one segment go at a time.
    s.peer(seg(ACK).seq(1).ack(seq + 50).opt(Opt::Timestamps(1_001, s.ts_seen)));
    s.write(seq + LEN, LEN as usize);
    let before = s.info().srtt;
    let sent = s.take_sent();
    assert!(sent.iter().any(|segment| segment.end() == seq + 2 * LEN), "{sent:?}");
    s.advance(rtt);
    s.peer(seg(ACK).seq(1).ack(seq + 2 * LEN).opt(Opt::Timestamps(1_001, stale)));
    assert!(s.info().srtt <= before, "{:?} after {before:?}", s.info().srtt);
}
