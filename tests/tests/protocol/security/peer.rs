//! C: a peer that lies about windows, acknowledgements, timestamps and data.

use std::time::Duration;

use ackclock_core::profile::{Choices, UndoChoice};
use ackclock_core::{ConnectionError, State, TcpConfig};
use ackclock_tests::rng::Rng;
use ackclock_tests::script::{Script, Setup, modern_options, pattern, peer_syn};
use ackclock_tests::segment::{ACK, FIN, Opt, PSH, RST, SYN, Seg, URG, seg};

/// A connection with much to send, its first flight sent.
fn sending(peer_options: Vec<Opt>) -> (Script, Vec<Seg>) {
    let mut s = Script::accepted(&Setup { peer_options, ..Setup::default() });
    s.advance(Duration::from_millis(50));
    s.stream(1, 2_000_000);
    s.advance(Duration::from_millis(50));
    let flight = s.take_sent();
    assert!(flight.len() > 5);
    (s, flight)
}

#[test]
fn sec_c1_divided_acks_grow_the_window_no_faster_than_honest_ones() {
    let (mut honest, flight) = sending(vec![Opt::Mss(1460)]);
    let end = flight.last().unwrap().end();
    for segment in &flight {
        honest.peer_ack(1, segment.end());
    }
    let (mut divided, _) = sending(vec![Opt::Mss(1460)]);
    for ack in (2..=end).step_by(7).chain([end]) {
        divided.peer_ack(1, ack);
    }
    let (honest, divided) = (honest.info().cwnd, divided.info().cwnd);
    assert!(divided <= honest + 1_460, "{divided} by division, {honest} honestly");
}

#[test]
fn sec_c2_forged_duplicate_acks_send_no_more_than_is_outstanding() {
    for peer_options in [vec![Opt::Mss(1460)], modern_options(7)] {
        let (mut s, flight) = sending(peer_options);
        let outstanding: usize = flight.iter().map(|segment| segment.payload.len()).sum();
        for _ in 0..10_000 {
            s.peer_ack(1, 1);
        }
        let sent: usize = s.take_sent().iter().map(|segment| segment.payload.len()).sum();
        assert!(sent <= outstanding + 3 * 1_460, "{sent} bytes for {outstanding} outstanding");
    }
}

#[test]
fn sec_c3_ack_of_what_was_not_sent_is_refused() {
    let (mut s, flight) = sending(vec![Opt::Mss(1460)]);
    let end = flight.last().unwrap().end();
    let before = (s.info().cwnd, s.info().bytes_acked);
    for beyond in [1, 1_460, 100_000] {
        s.peer_ack(1, end + beyond);
    }
    assert_eq!((s.info().cwnd, s.info().bytes_acked), before);
    let answers = s.take_sent();
    assert!((1..=3).contains(&answers.len()) && answers.iter().all(|a| a.payload.is_empty()), "{answers:?}");
}

#[test]
fn sec_c4_sacked_data_is_kept_until_acknowledged() {
    let (mut s, flight) = sending(modern_options(7));
    let (first, last) = (&flight[0], flight.last().unwrap());
    s.peer(seg(ACK).seq(1).ack(1).opt(Opt::Sack(vec![(first.end(), last.end())])));
    s.take_sent();
    // The peer forgets what it had: only the first segment is acknowledged, nothing selectively.
    s.peer_ack(1, first.end());
    let mut again = s.take_sent();
    for _ in 0..20 {
        s.advance(Duration::from_secs(1));
        again.extend(s.take_sent());
    }
    let second = again.iter().find(|segment| segment.seq == flight[1].seq).expect("sent again");
    assert_eq!(second.payload, pattern(second.seq, second.payload.len()));
}

#[test]
fn sec_c22_peer_that_calls_every_loss_a_duplicate_is_believed_within_bounds() {
    // RFC 3708 §5: the first segment of each flight is lost, and its retransmission reported as received
    // twice.
    let undo = UndoChoice { dsack: true, ..UndoChoice::default() };
    let tcp = TcpConfig { choices: Choices { undo, ..Choices::default() }, ..TcpConfig::default() };
    let mut s = Script::accepted(&Setup { peer_options: modern_options(7), tcp, ..Setup::default() });
    s.advance(Duration::from_millis(50));
    s.stream(1, 4_000_000_000);
    let mut cwnd_max = 0;
    for _ in 0..40 {
        s.advance(Duration::from_millis(20));
        let flight = s.take_sent();
        let (first, end) = (&flight[0], flight.iter().map(Seg::end).max().unwrap());
        s.peer(seg(ACK).seq(1).ack(first.seq).window(60_000).opt(Opt::Sack(vec![(first.end(), end)])));
        s.advance(Duration::from_millis(20));
        let again = s.take_sent();
        let end = again.iter().map(Seg::end).max().unwrap_or(end).max(end);
        let lie = Opt::Sack(vec![(first.seq, first.end())]);
        s.peer(seg(ACK).seq(1).ack(end).window(60_000).opt(lie));
        cwnd_max = cwnd_max.max(s.info().cwnd);
    }
    let info = s.info();
    assert!(info.loss_episodes >= 30 && info.undone.dsack > 0, "{info:?}");
    assert!(u64::from(info.undone.dsack) <= info.loss_episodes * 8 / 9 + 1, "one in nine stands: {info:?}");
    assert!(info.ssthresh.is_some(), "{cwnd_max} {info:?}");
}

#[test]
fn sec_c23_echo_of_a_stamp_that_was_not_sent_undoes_nothing() {
    // RFC 3522 §5: an echo from long before the flight, or from the future, after a timeout.
    for shift in [1_000_u32, 1 << 20, 1 << 31, 0_u32.wrapping_sub(5_000)] {
        let (mut s, flight) = sending(modern_options(7));
        s.ts_seen = s.ts_seen.wrapping_sub(shift);
        let forged = s.ts_seen;
        s.advance(Duration::from_secs(1));
        assert!(s.info().timeouts > 0);
        s.peer(seg(ACK).seq(1).ack(flight[1].end()).opt(Opt::Timestamps(1_001, forged)));
        let info = s.info();
        assert_eq!(info.undone.timestamps, 0, "{shift}: {info:?}");
    }
}

#[test]
fn sec_c8_data_beyond_the_window_is_cut() {
    for beyond in [1_u32, 500, 1_460] {
        let tcp = TcpConfig {
            receive_buffer_max: 4_096,
            choices: Choices { window_scaling: false, ..Choices::default() },
            ..TcpConfig::default()
        };
        let mut s = Script::accepted(&Setup { tcp, ..Setup::default() });
        let edge = s.edge;
        let mut seq = 1;
        while seq < edge - 1_000 {
            let len = (edge - 1_000 - seq).min(1_000);
            s.peer(seg(ACK).seq(seq).ack(1).data(&pattern(seq, len as usize)));
            seq += len;
        }
        let edge = s.edge.max(edge);
        let over = (edge - seq + beyond) as usize;
        s.peer(seg(ACK).seq(seq).ack(1).data(&pattern(seq, over)));
        s.advance(Duration::from_millis(100));
        let last = s.take_sent().last().expect("an ACK").ack;
        assert!(last <= edge, "acknowledged {} bytes beyond the window", last - edge);
        let data = s.read(100_000);
        assert_eq!(data, pattern(1, data.len()));
        assert_eq!(data.len() as u32, last - 1);
    }
}

#[test]
fn sec_c9_overlapping_data_never_changes_what_came_first() {
    // All relations of two intervals (Ptacek and Newsham 1998); capitals come first, small letters second.
    let intervals: Vec<(u32, u32)> =
        (1..8).flat_map(|start| (start + 1..=8).map(move |end| (start, end))).collect();
    for first in &intervals {
        for second in &intervals {
            let mut s = Script::accepted(&Setup::default());
            let piece = |range: &(u32, u32), letter: u8| {
                seg(ACK).seq(range.0).ack(1).data(&vec![letter; (range.1 - range.0) as usize])
            };
            s.peer(piece(first, b'A'));
            s.peer(piece(second, b'b'));
            // Whatever is missing comes last.
            s.peer(piece(&(1, 9), b'z'));
            let data = s.read(100);
            assert_eq!(data.len(), 8, "{first:?} {second:?}");
            for (i, byte) in (1_u32..).zip(data) {
                let expected = match (contains(first, i), contains(second, i)) {
                    (true, _) => b'A',
                    (false, true) => b'b',
                    _ => b'z',
                };
                assert_eq!(byte, expected, "byte {i} of {first:?} then {second:?}");
            }
        }
    }
}

fn contains(range: &(u32, u32), at: u32) -> bool {
    (range.0..range.1).contains(&at)
}

#[test]
fn sec_c11_old_timestamps_are_refused_and_do_not_poison() {
    let setup = Setup { peer_options: modern_options(7), ..Setup::default() };
    let mut s = Script::accepted(&setup);
    let stamped = |val: u32, seq: u32, data: &[u8], ecr: u32| {
        seg(PSH).seq(seq).ack(1).data(data).opt(Opt::Timestamps(val, ecr))
    };
    let ecr = s.ts_seen;
    s.peer(stamped(2_000, 1, b"one", ecr));
    assert_eq!(s.read(10), b"one");
    s.advance(Duration::from_millis(100));
    s.take_sent();
    // RFC 7323 §5.3 R1: older than TS.Recent: dropped and acknowledged.
    s.peer(stamped(1_999, 4, b"old", ecr));
    assert!(s.read(10).is_empty());
    s.expect_ack(4);
    // A segment outside the window must not set TS.Recent to something far ahead (CVE-2005-0356).
    s.peer(stamped(2_000 + (1 << 30), 4_000_000, b"poison", ecr));
    s.advance(Duration::from_secs(1));
    s.take_sent();
    s.peer(stamped(2_001, 4, b"two", ecr));
    assert_eq!(s.read(10), b"two");
    // §5.5: after 24 days of idleness a timestamp may have wrapped; the connection must not be stuck.
    s.advance(Duration::from_secs(25 * 24 * 3_600));
    s.take_sent();
    s.peer(stamped(2_001_u32.wrapping_sub(1_000), 7, b"three", ecr));
    assert_eq!(s.read(10), b"three");
}

#[test]
fn sec_c11_reset_is_not_subject_to_paws() {
    let setup = Setup { peer_options: modern_options(7), ..Setup::default() };
    let mut s = Script::accepted(&setup);
    s.peer(seg(RST).seq(1).opt(Opt::Timestamps(1, 0)));
    assert_eq!(s.state(), State::Closed, "RFC 7323 §5.2");
}

#[test]
fn sec_c12_segment_without_the_negotiated_timestamp_is_dropped() {
    let setup = Setup { peer_options: modern_options(7), ..Setup::default() };
    let mut s = Script::accepted(&setup);
    s.ts_val = None;
    s.peer(seg(PSH).seq(1).ack(1).data(b"bare"));
    assert!(s.read(10).is_empty(), "RFC 7323 §3.2");
    assert_eq!(s.state(), State::Established);
    s.peer(seg(RST).seq(1));
    assert_eq!(s.state(), State::Closed, "a reset needs none");
}

#[test]
fn sec_c13_window_scale_is_clamped_to_14() {
    let mut s = Script::accepted(&Setup { peer_options: modern_options(255), ..Setup::default() });
    s.peer(seg(ACK).seq(1).ack(1).window(1));
    assert_eq!(s.info().snd_wnd, 1 << 14, "RFC 7323 §2.3");
}

#[test]
fn sec_c14_urgent_pointers_of_all_sizes_leave_the_stream_alone() {
    for pointer in [0, 1, 2, 3, 4, 100, 32_767, 32_768, 65_535] {
        for len in [0, 1, 3] {
            let mut s = Script::accepted(&Setup::default());
            s.peer(seg(ACK).seq(1).ack(1).urgent(pointer).data(&pattern(1, len)));
            s.peer(seg(ACK).seq(1 + len as u32).ack(1).data(b"tail"));
            let data = s.read(100);
            assert_eq!(data, [pattern(1, len).as_slice(), b"tail"].concat(), "pointer {pointer}");
            assert!(s.connection().urgent_remaining() <= 65_535);
            s.peer(seg(FIN | URG).seq(5 + len as u32).ack(1));
            assert_eq!(s.try_read(), Ok(0), "pointer {pointer}");
        }
    }
}

#[test]
fn sec_c15_syn_with_fin_or_rst_leaves_no_state() {
    for flags in 0_u8..64 {
        if flags & SYN == 0 || flags & (FIN | RST) == 0 {
            continue;
        }
        let setup = Setup::default();
        let mut s = Script::listening(&setup);
        s.peer(Seg { ack: 1, ..seg(flags).seq(0) });
        assert!(!s.take_sent().iter().any(|answer| answer.has(SYN)), "flags {flags:#x}");
        assert_eq!(s.host.next_timeout(), None, "flags {flags:#x} started a timer");
    }
}

#[test]
fn sec_c16_split_handshake_completes_with_the_peers_options() {
    // The peer answers our SYN with a SYN of its own instead of a SYN-ACK.
    let setup = Setup { peer_options: vec![Opt::Mss(1_000), Opt::WindowScale(3)], ..Setup::default() };
    let mut s = Script::connecting(&setup);
    s.take_sent();
    s.peer(peer_syn(&setup));
    assert!(s.sent().has(SYN | ACK));
    s.peer(seg(ACK).seq(1).ack(1).window(1_000));
    assert_eq!(s.state(), State::Established);
    assert_eq!((s.info().snd_mss, s.info().snd_wnd), (1_000, 8_000));
    // Answered by an ACK alone: nothing was opened.
    let mut s = Script::connecting(&setup);
    s.take_sent();
    s.peer(seg(ACK).seq(1).ack(1));
    assert_eq!(s.state(), State::SynSent);
    s.nothing();
}

#[test]
fn sec_c17_time_wait_is_not_assassinated() {
    let mut s = Script::accepted(&Setup::default());
    s.shutdown();
    s.take_sent();
    s.peer(seg(FIN).seq(1).ack(2));
    s.take_sent();
    assert_eq!(s.state(), State::TimeWait);
    // RFC 1337 §2: an old segment provokes an ACK, which the peer answers by a reset.
    s.peer(seg(PSH).seq(1_u32.wrapping_sub(500)).ack(1).data(b"old duplicate"));
    s.expect_ack(2);
    s.peer(seg(RST).seq(2));
    s.nothing();
    assert_eq!(s.state(), State::TimeWait);
}

#[test]
fn sec_c18_land_is_dropped() {
    let mut s = Script::listening(&Setup::default());
    let frame = ackclock_tests::segment::Frame::new(s.local, s.local, seg(SYN).seq(5));
    s.host.receive(&frame.to_bytes());
    assert_eq!(s.host.transmit(), []);
}

#[test]
fn sec_c21_arithmetic_survives_an_instant_network() {
    // No time passes at all: SRTT is zero, rates are infinite.
    let mut s = Script::accepted(&Setup { peer_options: vec![Opt::Mss(1)], ..Setup::default() });
    s.stream(1, 100_000);
    for _ in 0..200 {
        let Some(last) = s.take_sent().last().map(Seg::end) else {
            s.advance(Duration::from_millis(1));
            continue;
        };
        s.peer_ack(1, last);
    }
    let info = s.info();
    assert!(info.rto >= Duration::from_millis(1) && info.rto <= Duration::from_secs(60), "{:?}", info.rto);
    assert!(info.cwnd > 0 && info.bytes_acked > 1_000, "{info:?}");
}

#[test]
fn refused_connection_is_not_opened_by_what_comes_later() {
    let setup = Setup::default();
    let mut s = Script::connecting(&setup);
    s.take_sent();
    s.peer(seg(RST).seq(0).ack(1));
    s.peer(peer_syn(&setup).ack(1));
    assert_eq!((s.state(), s.error()), (State::Closed, Some(ConnectionError::Refused)));
    s.expect_rst(1);
}

#[test]
fn sec_c10_byte_at_a_sequence_number_is_always_the_same() {
    // RFC 2525 §2.4. Whatever is lost, cut again for another MTU, or probed for, `seq` determines the byte.
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let (mut s, mut sent) = sending(if seed % 2 == 0 { modern_options(7) } else { vec![Opt::Mss(1460)] });
        let (mut una, mut end, mut again) = (1, 1, 0);
        for _ in 0..300 {
            for segment in &sent {
                let len = segment.payload.len();
                assert_eq!(segment.payload, pattern(segment.seq, len), "seed {seed}, {segment:?}");
                again += usize::from(len > 0 && segment.seq < end);
                end = end.max(segment.end());
            }
            match rng.below(8) {
                0 => s.advance(Duration::from_millis(rng.below(3_000))),
                1 => s.host.set_mtu(rng.pick(&[1_500, 1_300, 900, 576])),
                2 => s.peer(seg(ACK).seq(1).ack(una).window(rng.pick(&[0, 1, 100]))),
                3 | 4 => {
                    let left = una + rng.below(u64::from(end - una) + 1) as u32;
                    let right = left + rng.below(u64::from(end - left) + 1) as u32;
                    s.peer(seg(ACK).seq(1).ack(una).opt(Opt::Sack(vec![(left, right)])));
                }
                5 => s.peer_ack(1, una),
                _ => {
                    una += rng.below(u64::from(end - una) + 1) as u32;
                    s.peer_ack(1, una);
                }
            }
            s.drain();
            sent = s.take_sent();
        }
        assert!(again > 10, "seed {seed}: {again} segments sent again prove little");
    }
}
