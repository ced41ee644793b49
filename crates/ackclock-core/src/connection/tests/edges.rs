//! Rules with an edge: what happens at it, and one byte beside it.

use ackclock_wire::{Codepoint, FastOpenCookie, Fields, Flags, IcmpKind, TcpOptions};

use super::lone::{Lone, SECOND, SMSS, handshake, tuple};
use super::*;
use crate::MtuProbing;
use crate::connection::ecn::negotiation::Agreement;
use crate::connection::{FastOpenOffer, Handshake, lend};
use crate::profile::{Ecn, Recovery};

/// An end that asks for a larger path MTU five seconds after it has found one.
fn probing() -> TcpConfig {
    let probing = MtuProbing { raise_after: 5 * SECOND, ..MtuProbing::default() };
    let mut tcp = TcpConfig { mtu_probing: Some(Box::new(probing)), ..TcpConfig::default() };
    tcp.choices.pacing = false;
    tcp
}

/// A router on the path carries 1,000 bytes; the peer acknowledges all and offers this window.
fn find_narrow_path(lone: &mut Lone, window: u16) {
    lone.end.write(lone.now, &[1; 100]).unwrap();
    assert_eq!(lone.sizes(), [100]);
    let first = lone.end.snd.flight().una().seq();
    lone.end.handle_icmp(lone.now, IcmpKind::PacketTooBig { mtu: 1000 }, first);
    lone.sent();
    lone.acknowledge_all(window);
}

/// RFC 4821 §7.4: a probe leaves if enough data follows to reveal its loss, and the window has room for it.
#[test]
fn probe_of_the_path_leaves_with_three_segments_behind_it_and_not_with_less() {
    let (probe, small) = (1460, 960);
    let enough = probe + 3 * small;
    let window = |bytes: usize| u16::try_from(bytes).unwrap();
    for (written, wnd, in_flight, leaves) in [
        (enough, window(enough), 0, true),
        (enough - 1, window(enough), 0, false),
        (enough, window(enough - 1), 0, false),
        (4 * small + enough, window(4 * small + probe), 4, true),
        (4 * small + enough, window(4 * small + probe - 1), 4, false),
    ] {
        let mut lone = Lone::new(probing());
        find_narrow_path(&mut lone, wnd);
        lone.end.set_nodelay(lone.now, true);
        lone.end.write(lone.now, &vec![2; in_flight * small]).unwrap_or(0);
        assert_eq!(lone.sizes(), vec![small; in_flight]);
        lone.now += 5 * SECOND;
        expire_search(&mut lone);
        lone.end.write(lone.now, &vec![2; written - in_flight * small]).unwrap();
        let sizes = lone.sizes();
        let case = format!("{written} written, a window of {wnd}, {in_flight} segments in flight");
        assert_eq!(sizes[0], if leaves { probe } else { small }, "{case}");
        assert!(!sizes.contains(&1), "{case}: {sizes:?}");
        if leaves {
            // Its fate is looked for after a second, and after each other one while it is not known.
            for _ in 0..2 {
                assert_eq!(lone.end.snd.search_due(), lone.now + SECOND, "{case}");
                lone.now += SECOND;
                expire_search(&mut lone);
            }
        }
    }
}

/// The search for the path's MTU goes on, before its time.
fn expire_search(lone: &mut Lone) {
    let Lone { end, now, .. } = lone;
    end.snd.expire_search(&mut lend!(end, *now));
}

/// RFC 9293 §3.8.6.1: into a closed window goes a probe of one byte, although the path may be probed too.
#[test]
fn closed_window_is_probed_before_the_path() {
    let mut lone = Lone::new(probing());
    find_narrow_path(&mut lone, 0);
    lone.end.write(lone.now, &[1; 10_000]).unwrap();
    assert_eq!(lone.sizes(), []);
    lone.now += 5 * SECOND;
    lone.end.handle_timeout(lone.now);
    assert_eq!(lone.sizes(), [1]);
}

/// RFC 7413 §4.2.2: a retransmitted SYN has no data; neither has the SYN,ACK of a crossing open.
#[test]
fn only_the_first_syn_carries_data() {
    let cookie = FastOpenCookie::new(&[1; 8]).unwrap();
    let opening = |offer: FastOpenOffer, len: usize| {
        let now = Instant::from_millis(100_000);
        let (tcp, env) = (TcpConfig::default().into(), environment(5000));
        let (end, taken) = Connection::active_with_data(now, tuple(), tcp, &env, Some(offer), &vec![3; len]);
        assert_eq!(taken, len);
        Lone { end, now, limits: software(1500) }
    };
    let open = || {
        let mut lone = opening(FastOpenOffer { cookie, mss: 1460 }, 100);
        assert_eq!(lone.sizes(), [100]);
        lone
    };
    let mut repeated = open();
    repeated.expire();
    assert_eq!(repeated.sizes(), [0]);
    let mut large = opening(FastOpenOffer { cookie, mss: 9000 }, 4000);
    let sent = large.sent();
    assert_eq!(sent[0].header_len + sent[0].payload_len, 1500, "as much as the path carries");
    let mut crossing = open();
    let syn = Fields { seq: SeqNum::new(1000), flags: Flags::SYN, window: 1000, ..Fields::default() };
    crossing.give(&syn, Codepoint::NotEct, &[]);
    assert_eq!((crossing.end.state(), crossing.sizes()), (State::SynReceived, vec![0]));
}

/// RFC 9768 §3.2.2.5.1: every second mark is acknowledged at once while data waits for an acknowledgement;
/// without, every third.
#[test]
fn marks_on_acknowledgements_are_answered_sooner_while_data_waits() {
    for (data, answered_at) in [(true, 2), (false, 3)] {
        let ecn = Some(Agreement { form: Ecn::Accurate, capable: true });
        let mut lone = Lone::agreed(TcpConfig::default(), Handshake { ecn, ..handshake() });
        let una = lone.end.snd.flight().una().seq();
        let mut fields = Fields { flags: Flags::ACK | Flags::from_ace(2), ..lone.ack(una, 65_535) };
        lone.give(&fields, Codepoint::NotEct, &[]);
        fields.flags = Flags::ACK | Flags::from_ace(5);
        if data {
            lone.give(&fields, Codepoint::NotEct, &[1]);
            fields.seq = lone.end.rcv.nxt().seq();
        }
        assert!(!lone.end.rcv.owes_ack_now());
        let answered = (1..).find(|_| {
            lone.give(&fields, Codepoint::Ce, &[]);
            lone.end.rcv.owes_ack_now()
        });
        assert_eq!(answered, Some(answered_at), "data: {data}");
    }
}

/// An acknowledgement on the fast path leaves what the eight steps leave, whatever window comes with it. The
/// tail is not probed behind a closed one (RFC 9293 SHLD-17).
#[test]
fn predicted_acknowledgement_is_as_any_other_with_windows_open_and_closed() {
    for (acked, window) in [(1, 0), (1, 1), (1, 65_535), (3, 0), (3, 1), (3, 65_535), (0, 0), (0, 65_535)] {
        let [short, long] = [true, false].map(|short| {
            let mut lone = Lone::new(TcpConfig { nodelay: true, ..TcpConfig::default() });
            lone.end.write(lone.now, &[1; 3 * SMSS]).unwrap();
            assert_eq!(lone.sizes(), [SMSS; 3]);
            lone.now += Duration::from_millis(20);
            let fields = lone.ack(lone.end.snd.flight().una().seq() + acked * SMSS as u32, window);
            if short {
                assert!(lone.give_packet(&fields));
            } else {
                lone.give(&fields, Codepoint::NotEct, &[]);
            }
            format!("{:#?}", lone.end)
        });
        assert_eq!(short, long, "{acked} segments acknowledged, a window of {window}");
    }
}

/// RFC 9293 §3.7.4, SHLD-7: while data is outstanding, a short segment waits; a full one does not.
#[test]
fn short_segment_waits_behind_outstanding_data_and_a_full_one_does_not() {
    for (written, leaves) in [
        (SMSS - 1, vec![]),
        (SMSS, vec![SMSS]),
        (SMSS + 1, vec![SMSS]),
        (2 * SMSS, vec![SMSS, SMSS]),
        (2 * SMSS + 1, vec![SMSS, SMSS]),
    ] {
        for short in [true, false] {
            let mut lone = Lone::new(TcpConfig::default());
            lone.end.write(lone.now, &[1; 10]).unwrap();
            assert_eq!(lone.sizes(), [10]);
            lone.end.write(lone.now, &vec![1; written]).unwrap();
            assert_eq!(lone.sizes_of(short), leaves, "{written} bytes written");
        }
    }
}

/// RFC 9293 §3.8.6.2.1, MUST-38: what fits in the window leaves whole; a part of the rest leaves only if it
/// is half of the largest window ever offered.
#[test]
fn part_of_a_segment_leaves_into_a_window_of_half_the_largest_and_into_no_smaller() {
    for (largest, window, written, leaves) in [
        // All of it fits.
        (1000, 400, 400, vec![400]),
        (1000, 400, 399, vec![399]),
        // It does not, by one byte.
        (1000, 500, 501, vec![500]),
        (1000, 499, 500, vec![]),
        (2 * SMSS, SMSS, SMSS + 1, vec![SMSS]),
        (4 * SMSS, SMSS, SMSS + 1, vec![SMSS]),
        (4 * SMSS, SMSS - 1, SMSS, vec![]),
        (4 * SMSS, SMSS + 1, SMSS + 1, vec![SMSS, 1]),
        (4 * SMSS, 2 * SMSS - 1, 2 * SMSS, vec![SMSS]),
    ] {
        let u16_of = |bytes: usize| u16::try_from(bytes).unwrap();
        let handshake = Handshake { peer_window: u16_of(largest), ..handshake() };
        let mut lone = Lone::agreed(TcpConfig { nodelay: true, ..TcpConfig::default() }, handshake);
        lone.acknowledge_all(u16_of(window));
        lone.end.write(lone.now, &vec![1; written]).unwrap();
        assert_eq!(lone.sizes(), leaves, "{written} bytes into {window} of at most {largest}");
    }
}

/// RFC 9293 §3.8.6.1: a FIN takes one number beyond a window that is just full, and none beyond a probe.
#[test]
fn fin_leaves_at_the_edge_of_a_full_window_and_not_beyond_it() {
    for (window, written) in [(100, 100), (100, 99), (0, 0)] {
        let mut lone = Lone::agreed(TcpConfig::default(), Handshake { peer_window: 100, ..handshake() });
        lone.acknowledge_all(window);
        if written > 0 {
            lone.end.write(lone.now, &vec![1; written]).unwrap();
            assert_eq!(lone.sizes(), [written]);
        }
        lone.end.shutdown(lone.now).unwrap();
        assert_eq!(lone.sizes(), [0], "{written} bytes in a window of {window}");
        assert_eq!(lone.end.snd.flight().flight_size(), written as u64 + 1);
    }
}

/// With a signature on each, segments leave one by one: a device that cuts packets cannot sign.
#[cfg(feature = "tcp-ao")]
#[test]
fn signed_segments_leave_one_by_one() {
    for (authenticated, sizes) in [(false, vec![3 * SMSS]), (true, vec![SMSS - 16; 3])] {
        let now = Instant::from_millis(100_000);
        let env = Environment { authenticated, ..environment(5000) };
        let end = Connection::passive(now, tuple(), TcpConfig::default().into(), &env, handshake());
        let mut lone = Lone { end, now, limits: software(65_535) };
        lone.end.write(now, &vec![1; sizes.iter().sum()]).unwrap();
        assert_eq!(lone.sizes(), sizes);
    }
}

/// As many SACK blocks as fit beside timestamps and a signature.
#[cfg(feature = "tcp-ao")]
#[test]
fn sack_blocks_leave_room_for_timestamps_and_signature() {
    for (authenticated, timestamps, blocks) in
        [(false, None, 4), (false, Some(1), 3), (true, None, 2), (true, Some(1), 1)]
    {
        let now = Instant::from_millis(100_000);
        let env = Environment { authenticated, ..environment(5000) };
        let handshake = Handshake { timestamps, ..handshake() };
        let end = Connection::passive(now, tuple(), TcpConfig::default().into(), &env, handshake);
        let mut lone = Lone { end, now, limits: software(1500) };
        let mut fields = lone.ack(lone.end.snd.flight().una().seq(), 65_535);
        fields.options.timestamps = timestamps.map(|value| (value, 0));
        for _ in 0..5 {
            fields.seq += 10;
            lone.give(&fields, Codepoint::NotEct, &[1]);
        }
        let options = lone.end.data_options(now);
        assert_eq!(options.sack.as_slice().len(), blocks, "{authenticated}, {timestamps:?}");
    }
}

/// A probe of the path leaves room for its signature.
#[cfg(feature = "tcp-ao")]
#[test]
fn signed_probe_of_the_path_is_as_large_as_the_size_it_tries() {
    let now = Instant::from_millis(100_000);
    let env = Environment { authenticated: true, ..environment(5000) };
    let end = Connection::passive(now, tuple(), probing().into(), &env, handshake());
    let mut lone = Lone { end, now, limits: software(1500) };
    find_narrow_path(&mut lone, 65_535);
    lone.now += 5 * SECOND;
    lone.end.handle_timeout(lone.now);
    lone.end.write(lone.now, &[1; 10_000]).unwrap();
    assert_eq!(lone.sizes()[..2], [SMSS - 16, 960 - 16]);
}

/// A signature leaves no room for the cookie, and data without a cookie would be sent in vain.
#[cfg(feature = "tcp-ao")]
#[test]
fn signed_syn_has_neither_cookie_nor_data() {
    let now = Instant::from_millis(100_000);
    let env = Environment { authenticated: true, ..environment(5000) };
    let offer = Some(FastOpenOffer { cookie: FastOpenCookie::new(&[1; 8]).unwrap(), mss: 1460 });
    let tcp = TcpConfig::default().into();
    let (end, taken) = Connection::active_with_data(now, tuple(), tcp, &env, offer, &[3; 100]);
    let mut lone = Lone { end, now, limits: software(1500) };
    assert_eq!((taken, lone.end.syn_options(now).fast_open, lone.sizes()), (100, None, vec![0]));
}

/// RFC 7323 §2.3: a larger shift counts as 14. A smaller MSS costs more headers than it carries.
#[test]
fn options_of_a_syn_are_believed_as_far_as_they_may_be() {
    for (mss, believed) in [(None, 536), (Some(1460), 1460), (Some(216), 216), (Some(215), 216)] {
        let mut lone = Lone::opening(TcpConfig::default());
        let options = TcpOptions { mss, window_scale: Some(15), ..TcpOptions::default() };
        let fields = Fields {
            seq: SeqNum::new(1000),
            ack: lone.end.snd.flight().nxt().seq(),
            flags: Flags::SYN | Flags::ACK,
            window: 1000,
            options,
            ..Fields::default()
        };
        lone.give(&fields, Codepoint::NotEct, &[]);
        assert_eq!((lone.end.snd.peer_mss(), lone.end.snd.scale(), lone.end.sack), (believed, 14, false));
    }
}

/// RFC 9768 §3.2.2.1: the acknowledgement of a SYN,ACK that comes again tells how that arrived, until data
/// has been acknowledged.
#[test]
fn syn_ack_that_comes_again_is_answered_with_its_codepoint() {
    for (acked, told) in [(false, Flags::from_ace(0b110)), (true, Flags::from_ace(5))] {
        let mut tcp = TcpConfig::default();
        tcp.choices.ecn = Ecn::Accurate;
        let mut lone = Lone::opening(tcp);
        let ack = lone.end.snd.flight().nxt().seq();
        let flags = Flags::SYN | Flags::ACK | Flags::from_ace(2);
        let fields = Fields { seq: SeqNum::new(1000), ack, flags, window: 1000, ..Fields::default() };
        lone.give(&fields, Codepoint::NotEct, &[]);
        assert_eq!(lone.flags(), [Flags::ACK | Flags::from_ace(2)]);
        if acked {
            lone.end.write(lone.now, &[1]).unwrap();
            lone.sent();
            lone.acknowledge_all(1000);
        }
        lone.give(&Fields { flags: Flags::SYN | Flags::ACK, ..fields }, Codepoint::Ce, &[]);
        assert_eq!(lone.flags(), [Flags::ACK | told], "data acknowledged: {acked}");
    }
}

/// RFC 6675: while nothing else may be sent, the last segment is sent again, once.
#[test]
fn rescue_leaves_when_no_new_data_can() {
    for (segments, window) in [(10, 65_535), (12, 10 * SMSS as u16)] {
        let mut tcp = TcpConfig::default();
        (tcp.choices.pacing, tcp.choices.recovery) = (false, Recovery::Sack);
        let mut lone = Lone::new(tcp);
        let una = lone.end.snd.flight().una();
        lone.acknowledge_all(window);
        lone.end.write(lone.now, &vec![1; segments * SMSS]).unwrap();
        assert_eq!(lone.sizes(), [SMSS; 10]);
        lone.now += Duration::from_millis(20);
        let mut repeated = Vec::new();
        for held in 2..10 {
            let mut fields = lone.ack(una.seq(), window);
            fields.options.sack.push(una.seq() + SMSS as u32, una.seq() + held * SMSS as u32);
            lone.give(&fields, Codepoint::NotEct, &[]);
            repeated.extend(lone.sent().iter().map(|sent| sent.start.since(una) as usize / SMSS));
        }
        assert_eq!(repeated, [0, 9], "{segments} segments written, a window of {window}");
    }
}

/// A device that cuts packets gets whole segments, as many as congestion control allows and the packet
/// holds, and the last partial one with them.
#[test]
fn packet_that_is_cut_holds_as_many_segments_as_window_and_device_take() {
    for (limit, written, sizes) in [
        (65_535, 10 * SMSS, vec![10 * SMSS]),
        (65_535, 11 * SMSS, vec![10 * SMSS]),
        (65_535, 10 * SMSS - 1, vec![10 * SMSS - 1]),
        // RFC 5681 §3.1: not beyond cwnd, whose ten segments are full.
        (65_535, 11 * SMSS - 1, vec![10 * SMSS]),
        (6000, 4 * SMSS, vec![4 * SMSS]),
        (6000, 4 * SMSS + 1, vec![4 * SMSS, 1]),
        (6000, 3 * SMSS + 1, vec![3 * SMSS + 1]),
        (6000, 8 * SMSS, vec![4 * SMSS; 2]),
        // With 80 bytes for headers, two segments fit exactly, or not.
        (2 * SMSS + 80, 2 * SMSS, vec![2 * SMSS]),
        (2 * SMSS + 79, 2 * SMSS, vec![SMSS; 2]),
        (1501, 2 * SMSS, vec![SMSS; 2]),
    ] {
        for short in [true, false] {
            let mut tcp = TcpConfig { nodelay: true, ..TcpConfig::default() };
            tcp.choices.pacing = false;
            let mut lone = Lone::new(tcp);
            lone.limits = software(limit);
            lone.end.write(lone.now, &vec![1; written]).unwrap();
            assert_eq!(lone.sizes_of(short), sizes, "{written} bytes in packets of {limit}");
        }
    }
}

/// While a writer is about to write more and a largest packet is in flight, the next leaves whole or not at
/// all.
#[test]
fn packet_waits_for_the_rest_of_it_while_more_follows() {
    let whole = 4 * SMSS;
    for (limit, first, next, leaves) in [
        (6000, whole, whole, true),
        (6000, whole, whole - 1, false),
        (6000, whole - 1, whole - 1, true),
        (1500, whole, SMSS - 1, true),
    ] {
        let mut tcp = TcpConfig { nodelay: true, ..TcpConfig::default() };
        tcp.choices.pacing = false;
        let mut lone = Lone::new(tcp);
        lone.limits = software(limit);
        lone.end.set_more_follows(true);
        lone.end.write(lone.now, &vec![1; first]).unwrap();
        assert_eq!(lone.sizes().iter().sum::<usize>(), first);
        lone.end.write(lone.now, &vec![1; next]).unwrap();
        assert_eq!(!lone.sizes().is_empty(), leaves, "{next} bytes behind {first}, packets of {limit}");
        lone.end.set_more_follows(false);
        assert_eq!(lone.sizes().is_empty(), leaves);
    }
}

/// The path's probe was due when the peer closed its window, and there is nothing to probe the window with.
#[test]
fn nothing_leaves_into_a_closed_window_where_nothing_waits() {
    let mut lone = Lone::new(probing());
    find_narrow_path(&mut lone, 65_535);
    lone.now += 5 * SECOND;
    lone.end.handle_timeout(lone.now);
    lone.acknowledge_all(0);
    assert_eq!(lone.sizes(), []);
}

/// Bytes beyond the peer's FIN cannot exist (RFC 9293 §3.4: it is the last of its sequence space). Whatever a
/// peer sends of them, before its FIN or after, is forgotten: the stream ends, nothing stays in memory, and
/// `close` finds nothing unread that a reset would have to tell of.
#[test]
fn text_beyond_the_peers_fin_is_forgotten() {
    const FIN: Flags = Flags::FIN.union(Flags::ACK);
    // Each: where it begins behind RCV.NXT, its text, its flags. The FIN is at 4.
    type Case<'a> = (&'a str, &'a [(u32, &'a [u8], Flags)]);
    let cases: [Case<'_>; 5] = [
        ("held beyond it, which comes in order", &[(6, b"xy", Flags::ACK), (0, b"text", FIN)]),
        ("held from it on", &[(4, b"xy", Flags::ACK), (0, b"text", FIN)]),
        (
            "held beyond it, which waits too",
            &[(6, b"xy", Flags::ACK), (4, b"", FIN), (0, b"text", Flags::ACK)],
        ),
        (
            "held around it, which waits too",
            &[(3, b"txy", Flags::ACK), (4, b"", FIN), (0, b"tex", Flags::ACK)],
        ),
        ("after it", &[(4, b"", FIN), (5, b"xy", Flags::ACK), (0, b"text", Flags::ACK)]),
    ];
    for (case, segments) in cases {
        for closed in [false, true] {
            let mut lone = Lone::new(TcpConfig::default());
            if closed {
                lone.end.shutdown(lone.now).unwrap();
                lone.sent();
                lone.acknowledge_all(65_535);
            }
            let first = lone.ack(lone.end.snd.flight().nxt().seq(), 65_535);
            for &(at, text, flags) in segments {
                lone.give(&Fields { seq: first.seq + at, flags, ..first }, Codepoint::NotEct, text);
            }
            assert_eq!(lone.end.state(), if closed { State::TimeWait } else { State::CloseWait }, "{case}");
            assert_eq!(lone.end.rcv.nxt().seq(), first.seq + 5, "{case}");
            let mut read = [0; 10];
            assert_eq!(lone.end.read(lone.now, &mut read), Ok(4), "{case}");
            assert_eq!(lone.end.read(lone.now, &mut read), Ok(0), "{case}");
            assert!(!lone.end.rcv.has_gap(), "{case}");
            lone.sent();
            if !closed {
                lone.end.set_orphaned(lone.now);
                assert_eq!(lone.flags(), [FIN], "{case}");
            }
        }
    }
}

/// RFC 9293 MUST-62: the pointer names the octet after the urgent data. A device would repeat it on each
/// piece that it cuts, where it names another octet. So segments leave one by one until the urgent data has
/// left, and so do retransmissions until it is acknowledged.
#[test]
fn segments_before_the_end_of_urgent_data_are_not_cut_by_the_device() {
    let mut tcp = TcpConfig { nodelay: true, ..TcpConfig::default() };
    tcp.choices.pacing = false;
    let mut lone = Lone::new(tcp);
    lone.limits = software(65_535);
    lone.end.write_urgent(lone.now, &vec![1; 4 * SMSS + 100]).unwrap();
    lone.end.write(lone.now, &vec![1; 5 * SMSS - 100]).unwrap();
    assert_eq!(lone.sizes(), [SMSS, SMSS, SMSS, SMSS, SMSS, 4 * SMSS]);
    // The first three are lost.
    lone.now += Duration::from_millis(20);
    let una = lone.end.snd.flight().una().seq();
    let mut fields = lone.ack(una, 65_535);
    fields.options.sack.push(una + 3 * SMSS as u32, una + 9 * SMSS as u32);
    lone.give(&fields, Codepoint::NotEct, &[]);
    lone.now += Duration::from_millis(20);
    lone.give(&fields, Codepoint::NotEct, &[]);
    let mut sizes = lone.sizes();
    while lone.end.snd.flight().lost() > 0 {
        lone.expire();
        sizes.extend(lone.sizes());
    }
    assert_eq!(sizes, [SMSS; 3]);
}
