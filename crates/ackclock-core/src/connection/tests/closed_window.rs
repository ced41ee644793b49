//! Segments that leave beside a closed window, and those that are taken while ours is closed (RFC 9293 §3.4,
//! §3.8.6.1).

use ackclock_wire::{Codepoint, Fields, Flags};

use super::lone::{Lone, SECOND, SMSS};
use super::*;
use crate::{ConnectionError, Keepalive, UserTimeoutOption};

/// How far beyond SND.UNA each segment without text begins that leaves now, with its flags.
fn bare_starts(lone: &mut Lone) -> Vec<(u32, Flags)> {
    let una = lone.end.snd.flight().una().seq();
    let mut header = [0; HEADER_MAX];
    let next = || {
        let out = lone.end.poll_transmit(lone.now, lone.limits, true, &mut header)?;
        let at = usize::from(out.transport_offset);
        let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
        let flags = Flags::from_bits(u16::from_be_bytes([header[at + 12], header[at + 13]]));
        assert_eq!(out.payload_len, 0);
        Some((SeqNum::new(word(at + 4)).offset_from(una), flags))
    };
    std::iter::from_fn(next).collect()
}

/// The peer has closed its window, and the byte that probes it is out.
fn probing_with(tcp: TcpConfig) -> Lone {
    let mut lone = Lone::new(tcp);
    lone.acknowledge_all(0);
    lone.sent();
    lone.end.write(lone.now, &[1; 5000]).unwrap();
    assert_eq!(lone.sizes(), []);
    lone.expire();
    assert_eq!(lone.sizes(), [1]);
    assert_eq!(lone.end.snd.flight().flight_size(), 1);
    lone
}

fn probing() -> Lone {
    probing_with(TcpConfig::default())
}

const RST_ACK: Flags = Flags::RST.union(Flags::ACK);

/// RFC 9293 §3.4: a peer with RCV.WND = 0 takes SEG.SEQ = RCV.NXT and nothing else. The byte of a probe is
/// not in its window, so what follows without text begins before it.
#[test]
fn segments_without_text_begin_at_the_edge_of_a_window_that_is_probed() {
    type Provoke = fn(&mut Lone, SeqNum);
    let cases: [(&str, Provoke, Flags); 4] = [
        (
            "data is acknowledged",
            |lone, una| {
                let fields = lone.ack(una, 0);
                lone.give(&fields, Codepoint::NotEct, &[1; SMSS]);
                lone.give(&Fields { seq: fields.seq + SMSS as u32, ..fields }, Codepoint::NotEct, &[1; SMSS]);
            },
            Flags::ACK,
        ),
        (
            "a SYN is challenged",
            |lone, una| {
                let fields = lone.ack(una, 0);
                lone.give(&Fields { flags: Flags::SYN, ..fields }, Codepoint::NotEct, &[]);
            },
            Flags::ACK,
        ),
        (
            "the user timeout is announced",
            |lone, _| {
                lone.end.set_user_timeout(lone.now, Some(90 * SECOND)).unwrap();
            },
            Flags::ACK,
        ),
        ("the application aborts", |lone, _| lone.end.abort(lone.now), RST_ACK),
    ];
    for (case, provoke, flags) in cases {
        let option = Some(Box::new(UserTimeoutOption::default()));
        let mut lone = probing_with(TcpConfig { user_timeout_option: option, ..TcpConfig::default() });
        let una = lone.end.snd.flight().una().seq();
        provoke(&mut lone, una);
        assert_eq!(bare_starts(&mut lone), [(0, flags)], "{case}");
    }
}

/// RFC 9293 §3.8.6: the same when the peer takes back what it has offered, down to SND.UNA and no further.
#[test]
fn segments_without_text_begin_within_a_window_that_shrank() {
    for (wnd, start) in
        [(0, 0), (1, 1), (1000, 1000), (2919, 2919), (2920, 2920), (2921, 2920), (60_000, 2920)]
    {
        for abort in [false, true] {
            let mut lone = Lone::new(TcpConfig { nodelay: true, ..TcpConfig::default() });
            lone.end.write(lone.now, &[1; 2 * SMSS]).unwrap();
            assert_eq!(lone.sizes(), [SMSS; 2]);
            let una = lone.end.snd.flight().una().seq();
            lone.give(&lone.ack(una, wnd), Codepoint::NotEct, &[]);
            if abort {
                lone.end.abort(lone.now);
                assert_eq!(bare_starts(&mut lone), [(start, RST_ACK)], "a window of {wnd}");
            } else {
                lone.end.rcv.owe_ack_now();
                assert_eq!(bare_starts(&mut lone), [(start, Flags::ACK)], "a window of {wnd}");
            }
        }
    }
}

/// RFC 9293 §3.10.7.3: the window of a SYN counts from the first byte of text, so our SYN is never beyond
/// it, and a reset follows the SYN.
#[test]
fn reset_of_a_crossing_open_follows_the_syn_whatever_its_window() {
    for window in [0, 1, 1000] {
        let mut lone = Lone::opening(TcpConfig::default());
        let syn = Fields { seq: SeqNum::new(1000), flags: Flags::SYN, window, ..Fields::default() };
        lone.give(&syn, Codepoint::NotEct, &[]);
        assert_eq!((lone.end.state(), lone.sizes()), (State::SynReceived, vec![0]));
        lone.end.abort(lone.now);
        assert_eq!(bare_starts(&mut lone), [(1, RST_ACK)], "a window of {window}");
    }
}

/// RFC 9293 §3.8.4: SEG.SEQ = SND.NXT-1, though the window is closed.
#[test]
fn keepalive_beside_a_closed_window_begins_before_it() {
    let keepalive = Keepalive { idle: 5 * SECOND, interval: SECOND, probes: 3 };
    let mut lone = Lone::new(TcpConfig { keepalive: Some(keepalive), ..TcpConfig::default() });
    lone.acknowledge_all(0);
    lone.now += 5 * SECOND;
    lone.end.handle_timeout(lone.now);
    assert_eq!(bare_starts(&mut lone), [(u32::MAX, Flags::ACK)]);
}

/// Side 0 reads nothing, and side 1 has written as much, which is more than side 0 holds.
fn beside_a_stalled_direction(bytes: usize) -> ConnectionPair {
    let deaf = TcpConfig { receive_buffer_max: 20_000, ..TcpConfig::default() };
    let mut pair = ConnectionPair::established([deaf, TcpConfig::default()], perfect());
    if bytes > 0 {
        let now = pair.now;
        assert_eq!(pair.ends[1].write(now, &vec![1; bytes]), Ok(bytes));
        // Ten minutes: the window is full, and the longest time between two probes is reached.
        pair.run_for(600 * SECOND);
        let stalled = pair.ends[1].info(pair.now);
        assert_eq!((stalled.snd_wnd, stalled.unacked), (0, 1));
    }
    pair
}

/// RFC 9293 §3.4: "it is possible for a TCP implementation to maintain a zero receive window while
/// transmitting data and receiving ACKs".
#[test]
fn data_beside_a_stalled_direction_takes_as_long_as_without() {
    let [free, beside] = [0, 60_000].map(|stalled| beside_a_stalled_direction(stalled).transfer(300_000));
    // From 14,600 bytes on, a window that doubles needs five round trips of 20 ms for 300 KB; the offered one
    // grows behind it, and may double their number.
    assert!((9 * DELAY..=20 * DELAY).contains(&free), "{free:?}");
    // Between the two lies no more than a late acknowledgement.
    let late = Duration::from_millis(40);
    assert!((free - late..=free + late).contains(&beside), "{beside:?} beside, {free:?} alone");
}

/// RFC 9293 §3.10.5: the peer of an abort learns of it by the reset, half a round trip later.
#[test]
fn abort_beside_a_probed_window_ends_the_peer_at_once() {
    // Tests: RFC 9293 MUST-66
    let mut pair = beside_a_stalled_direction(60_000);
    let now = pair.now;
    pair.ends[1].abort(now);
    pair.run_for(DELAY);
    assert_eq!(pair.ends[0].error(), Some(ConnectionError::Reset));
}

/// An end whose window the peer has filled, at sequence number RCV.NXT, and which has data outstanding.
fn full() -> (Lone, SeqNum) {
    let mut lone = Lone::new(TcpConfig { receive_buffer_max: 4 * SMSS, ..TcpConfig::default() });
    lone.end.write(lone.now, &[1; 1000]).unwrap();
    assert_eq!(lone.sizes(), [1000]);
    let una = lone.end.snd.flight().una().seq();
    while lone.end.rcv.wnd() > 0 {
        let len = usize::try_from(lone.end.rcv.wnd()).unwrap().min(SMSS);
        lone.give(&lone.ack(una, 65_535), Codepoint::NotEct, &vec![1; len]);
        lone.end.rcv.owe_ack_now();
        lone.sent();
    }
    let next = lone.end.rcv.nxt().seq();
    (lone, next)
}

/// RFC 9293 §3.4, §3.10.7.4: while RCV.WND = 0 valid ACKs are heeded. A peer that counts its probe's byte
/// sends them from RCV.NXT + 1, and nothing of it can be further.
#[test]
fn acknowledgement_behind_a_probes_byte_counts_while_the_window_is_closed() {
    for (ahead, acked) in [(0, 600), (1, 600), (2, 0), (u32::MAX - 1, 0)] {
        let (mut lone, next) = full();
        let una = lone.end.snd.flight().una().seq();
        let fields = Fields { seq: next + ahead, ..lone.ack(una + 600, 3000) };
        lone.give(&fields, Codepoint::NotEct, &[]);
        assert_eq!(lone.end.snd.flight().una().seq().offset_from(una), acked, "{ahead} beyond RCV.NXT");
        // What was heeded needs no answer (or two closed ends would answer each other for ever).
        assert_eq!(lone.sizes(), if acked > 0 { vec![] } else { vec![0] }, "{ahead} beyond RCV.NXT");
        assert_eq!(lone.end.rcv.nxt().seq(), next);
    }
}

/// Text beyond the closed window is not taken, wherever it begins.
#[test]
fn text_behind_a_probes_byte_is_not_taken_while_the_window_is_closed() {
    for ahead in [0, 1] {
        let (mut lone, next) = full();
        let readable = lone.end.readable();
        let una = lone.end.snd.flight().una().seq();
        lone.give(&Fields { seq: next + ahead, ..lone.ack(una, 3000) }, Codepoint::NotEct, b"x");
        assert_eq!((lone.end.readable(), lone.sizes()), (readable, vec![0]), "{ahead} beyond RCV.NXT");
        assert_eq!(lone.end.rcv.nxt().seq(), next);
    }
}

/// SND.WL1: the peer's next probe begins at RCV.NXT again, and its window counts as well.
#[test]
fn window_of_a_probe_counts_after_an_acknowledgement_behind_it() {
    let (mut lone, next) = full();
    let una = lone.end.snd.flight().una().seq();
    lone.give(&Fields { seq: next + 1, ..lone.ack(una, 3000) }, Codepoint::NotEct, &[]);
    assert_eq!(lone.end.snd.wnd(), 3000);
    lone.give(&lone.ack(una, 5000), Codepoint::NotEct, b"x");
    assert_eq!(lone.end.snd.wnd(), 5000);
}

/// RFC 9293 MUST-66 with RFC 5961 §3.2: at RCV.NXT a reset ends the connection. Behind a probe's byte it is
/// challenged, and the peer, which has no connection any more, answers with one at the number challenged.
#[test]
fn reset_behind_a_probes_byte_is_challenged_while_the_window_is_closed() {
    for (ahead, ends, answers) in [(0, true, 0), (1, false, 1), (2, false, 0), (u32::MAX, false, 0)] {
        let (mut lone, next) = full();
        let una = lone.end.snd.flight().una().seq();
        let fields = Fields { flags: RST_ACK, seq: next + ahead, ..lone.ack(una, 0) };
        lone.give(&fields, Codepoint::NotEct, &[]);
        let case = format!("{ahead} beyond RCV.NXT");
        assert_eq!(lone.end.error(), ends.then_some(ConnectionError::Reset), "{case}");
        assert_eq!(lone.sizes().len(), answers, "{case}");
        lone.give(&Fields { flags: Flags::RST, ..lone.ack(una, 0) }, Codepoint::NotEct, &[]);
        assert_eq!(lone.end.error(), Some(ConnectionError::Reset), "{case}");
    }
}

/// RFC 9293 §3.10.5 asks for no reset in CLOSING and LAST-ACK, where the peer has all. Behind a closed
/// window it has not, and would wait for the rest.
#[test]
fn abort_behind_a_closed_window_tells_a_peer_that_has_closed() {
    for finishes_first in [false, true] {
        let mut lone = probing();
        let finish = |lone: &mut Lone| {
            let fields = lone.ack(lone.end.snd.flight().una().seq(), 0);
            lone.give(&Fields { flags: Flags::ACK | Flags::FIN, ..fields }, Codepoint::NotEct, &[]);
        };
        if finishes_first {
            finish(&mut lone);
        }
        lone.end.shutdown(lone.now).unwrap();
        if !finishes_first {
            finish(&mut lone);
        }
        assert_eq!(lone.end.state(), if finishes_first { State::LastAck } else { State::Closing });
        assert_eq!(bare_starts(&mut lone), [(0, Flags::ACK)]);
        lone.end.abort(lone.now);
        assert_eq!(bare_starts(&mut lone), [(0, RST_ACK)], "{finishes_first}");
    }
}

/// A window far below the largest, into which the peer takes what comes: each segment waits for the override
/// of RFC 9293 §3.8.6.2.1. Returns after `times` of them, with all acknowledged.
fn after_overrides(times: usize) -> Lone {
    let mut lone = Lone::new(TcpConfig { nodelay: true, ..TcpConfig::default() });
    lone.acknowledge_all(500);
    lone.end.write(lone.now, &[1; 20_000]).unwrap();
    for _ in 0..times {
        let from = lone.now;
        assert_eq!(lone.sizes(), []);
        lone.expire();
        assert_eq!((lone.now.saturating_since(from), lone.sizes()), (OVERRIDE, vec![500]));
        // A round trip that an honest peer may have.
        lone.now += ROUND_TRIP;
        lone.acknowledge_all(500);
    }
    lone
}

const OVERRIDE: Duration = Duration::from_millis(200);
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// When the next timer expires, and what leaves then.
fn next_timer(lone: &mut Lone) -> (Duration, Vec<usize>) {
    let from = lone.now;
    lone.expire();
    (lone.now.saturating_since(from), lone.sizes())
}

/// RFC 9293 SHLD-29: the first probe after one retransmission timeout. SHLD-30: only probes double the next
/// wait; what silly-window avoidance held back was no probe.
#[test]
fn first_probe_waits_one_timeout_however_often_data_was_held_back_before() {
    for overrides in [0, 1, 10] {
        let mut lone = after_overrides(overrides);
        lone.acknowledge_all(0);
        let rto = lone.end.snd.flight().rtt().rto_unbacked();
        assert_eq!(next_timer(&mut lone), (rto, vec![1]), "after {overrides}");
        assert_eq!(next_timer(&mut lone), (2 * rto, vec![1]), "after {overrides}");
    }
}

/// Nothing probed the window while it was closed, so what was in flight when it closed is not known to have
/// met it.
#[test]
fn window_that_opens_unprobed_repeats_nothing() {
    for overrides in [0, 1] {
        let mut lone = after_overrides(overrides);
        lone.acknowledge_all(2000);
        assert_eq!(lone.sizes(), [SMSS], "after {overrides}");
        let una = lone.end.snd.flight().una().seq();
        for window in [0, 2000] {
            lone.give(&lone.ack(una, window), Codepoint::NotEct, &[]);
            assert_eq!(lone.sizes(), [], "after {overrides}, a window of {window}");
        }
    }
}

/// RFC 9293 §3.8.6.2.1: 0.1 to 1.0 s, also when the window opens a little after a minute between two probes.
#[test]
fn window_that_opens_a_little_waits_for_the_override_and_no_probe() {
    let mut lone = probing();
    while next_timer(&mut lone).0 < 60 * SECOND {}
    // Far from the next probe.
    lone.now += SECOND;
    lone.acknowledge_all(0);
    assert_eq!(lone.sizes(), []);
    lone.now += SECOND;
    lone.acknowledge_all(500);
    assert_eq!(lone.sizes(), []);
    assert_eq!(next_timer(&mut lone), (OVERRIDE, vec![500]));
}

/// RFC 9293 SHLD-29: the window has been closed for a timeout, and was small before.
#[test]
fn window_that_closes_behind_a_little_room_is_probed_a_timeout_later() {
    let mut lone = after_overrides(1);
    let rto = lone.end.snd.flight().rtt().rto_unbacked();
    lone.now += OVERRIDE / 2;
    lone.acknowledge_all(0);
    assert_eq!(lone.sizes(), []);
    assert_eq!(next_timer(&mut lone), (rto, vec![1]));
}
