//! The rows of docs/security.md that belong to an endpoint.

use ackclock_wire::random::Rng;

use super::*;
use crate::FourTuple;
use crate::endpoint::replies::control;

/// A sequence of numbers that looks random and is always the same.
fn noise() -> impl FnMut() -> u32 {
    let mut rng = Rng::new(0x2545_f491);
    move || (rng.next_u64() >> 32) as u32
}

fn spoofed(n: u32) -> SocketAddr {
    let [_, b, c, d] = n.to_be_bytes();
    SocketAddr::from(([172, 16 + b, c, d], 1024 + u16::from(d)))
}

fn flood(host: &mut Host, syns: std::ops::Range<u32>) -> Vec<SentSegment> {
    syns.flat_map(|n| host.give(spoofed(n), server(), syn(n), &[])).collect()
}

#[test]
fn sec_a4_answers_of_one_connection_do_not_depend_on_attacks_on_another() {
    let run = |attacked: bool| {
        let (mut host, listener) = Host::listening(on_port(PORT));
        host.accepted(listener, 4000);
        host.accepted(listener, 4001);
        // Half-open records, too.
        host.from(4002, syn(1000));
        host.from(4003, syn(1000));
        let mut answers = 0;
        for n in 0..2_000 {
            if attacked {
                host.from(4000, fields(Flags::RST, 2000 + n, SeqNum::new(0)));
                host.from(4002, fields(Flags::RST, 2000 + n, SeqNum::new(0)));
            }
            for observed in [4001, 4003] {
                let sent = host.from(observed, fields(Flags::RST, 2000 + n, SeqNum::new(0)));
                answers += sent.iter().filter(|sent| sent.dst.port() == observed).count();
            }
            host.wait(Duration::from_millis(3));
        }
        answers
    };
    let (quiet, attacked) = (run(false), run(true));
    assert!(quiet > 0);
    assert_eq!(quiet, attacked);
}

#[test]
fn sec_a6_isns_on_the_wire_follow_the_clock_of_their_name() {
    let mut host = Host::new();
    let mut iss = |micros: u64| {
        host.now = Instant::from_micros(2_000_000_000 + micros);
        let id = host.endpoint.connect(host.now, client(80), (None, 5555), None).unwrap();
        let seq = host.sent()[0].seq;
        host.endpoint.update(host.now, id, |connection, now| connection.abort(now));
        host.endpoint.release(host.now, id);
        host.sent();
        seq
    };
    let first = iss(0);
    assert_eq!(iss(4_000).offset_from(first), 1_000);
}

#[test]
fn sec_a9_the_ip_identification_of_replies_is_zero_and_fragmenting_forbidden() {
    let (mut host, _) = Host::listening(on_port(PORT));
    for (dst, fields) in [(server(), syn(1)), (SocketAddr::new(ip(SERVER), 81), syn(1))] {
        let packet = packet(client(4000), dst, fields, &[]);
        let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
        host.endpoint.handle_packet(host.now, &packet, meta);
        let reply = host.endpoint.poll_transmit(host.now, LIMITS).unwrap();
        assert_eq!(reply.header[4..8], [0, 0, 0x40, 0]);
    }
}

#[test]
fn sec_a13_random_acknowledgements_open_nothing_even_while_cookies_are_in_use() {
    let (mut host, listener) = Host::listening(ListenOptions { syn_backlog: 4, ..on_port(PORT) });
    flood(&mut host, 0..16);
    let mut noise = noise();
    for n in 0..100_000 {
        let sent = host.give(spoofed(1000 + n), server(), ack(noise(), SeqNum::new(noise())), &[]);
        assert!(sent.iter().all(|sent| sent.flags == Flags::RST));
    }
    assert!(host.endpoint.accept(host.now, listener).is_none());
    assert!(host.endpoint.counters().cookies_refused > 99_000);
}

#[test]
fn sec_a13_a_cookie_is_honoured_only_after_a_recent_overflow() {
    let (mut host, listener) = Host::listening(ListenOptions { syn_backlog: 4, ..on_port(PORT) });
    flood(&mut host, 0..16);
    let cookie = host.from(4000, syn(1000))[0].seq;
    let other = host.from(4001, syn(1000))[0].seq;
    assert_eq!(host.endpoint.counters().cookies_sent, 14);
    host.from(4000, ack(1001, cookie + 1));
    assert!(host.endpoint.accept(host.now, listener).is_some());
    host.wait(Duration::from_secs(129));
    assert_eq!(host.from(4001, ack(1001, other + 1))[0].flags, Flags::RST);
    assert_eq!(host.endpoint.counters().cookies_refused, 0, "not even looked at");
}

#[test]
fn sec_a14_no_stimulus_is_answered_by_more_bytes_than_it_had() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    host.accepted(listener, 4000);
    let mut noise = noise();
    for n in 0..5_000 {
        let flags = Flags::from_bits(u16::try_from(n % 256).unwrap());
        let mut fields = Fields { flags, ..fields(flags, noise(), SeqNum::new(noise())) };
        if flags.contains(Flags::SYN) {
            fields.options = syn(0).options;
        }
        let to = SocketAddr::new(ip(SERVER), if n % 2 == 0 { PORT } else { 9999 });
        let data = vec![0; usize::try_from(noise() % 40).unwrap()];
        let before = packet(spoofed(n), to, fields, &data).len();
        let sent = host.give(spoofed(n), to, fields, &data);
        assert!(sent.iter().map(|sent| sent.bytes).sum::<usize>() <= before, "{flags:?}: {sent:?}");
        assert!(sent.is_empty() || !flags.contains(Flags::RST), "a reset was answered");
    }
}

#[test]
fn sec_a14_data_in_a_syn_is_not_acknowledged_before_the_handshake() {
    let (mut host, _) = Host::listening(on_port(PORT));
    let sent = host.give(client(4000), server(), syn(1000), b"data");
    assert_eq!(sent[0].ack, SeqNum::new(1001));
}

#[test]
fn sec_b1_a_syn_flood_fills_a_bounded_table_and_others_connect_by_cookie() {
    let (mut host, listener) = Host::listening(ListenOptions { syn_backlog: 64, ..on_port(PORT) });
    let (_, iss) = host.accepted(listener, 3999);
    flood(&mut host, 0..6_400);
    assert_eq!(host.endpoint.listening.half_open(), 64);

    // No state is kept for these, and yet they connect with all their options.
    for port in 4000..4100 {
        let syn_ack = host.from(port, syn_with_all_options(1000, 77));
        let (value, _) = syn_ack[0].options.timestamps.unwrap();
        host.from(port, with_timestamps(ack(1001, syn_ack[0].seq + 1), 80, value));
        let id = host.endpoint.accept(host.now, listener).unwrap();
        let info = host.endpoint.connection(id).unwrap().info(host.now);
        assert!(info.sack && info.timestamps && info.window_scale.is_some_and(|(peers, _)| peers == 7));
    }
    assert_eq!(host.endpoint.counters().cookies_accepted, 100);

    // The existing connection is not affected.
    host.give(client(3999), server(), ack(1001, iss + 1), &[1; 1000]);
    let answer = host.give(client(3999), server(), ack(2001, iss + 1), &[1; 1000]);
    assert_eq!(answer[0].ack, SeqNum::new(3001));
    host.wait(Duration::from_secs(64));
    assert_eq!(host.endpoint.listening.half_open(), 0);
}

#[test]
fn sec_b1_a_cookie_without_timestamps_promises_neither_sack_nor_window_scaling() {
    let (mut host, listener) = Host::listening(ListenOptions { syn_backlog: 4, ..on_port(PORT) });
    flood(&mut host, 0..16);
    let mut syn = syn_with_all_options(1000, 0);
    syn.options.timestamps = None;
    let syn_ack = host.from(4000, syn);
    assert_eq!(syn_ack[0].options, TcpOptions { mss: Some(1460), ..TcpOptions::default() });
    host.from(4000, ack(1001, syn_ack[0].seq + 1));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    let info = host.endpoint.connection(id).unwrap().info(host.now);
    assert!(!info.sack && !info.timestamps && info.window_scale.is_none());
    assert_eq!(info.snd_mss, 1460);
}

#[test]
fn sec_b3_a_full_accept_queue_drops_last_acknowledgements_and_recovers() {
    let (mut host, listener) = Host::listening(ListenOptions { backlog: 2, ..on_port(PORT) });
    host.handshake(4000);
    host.handshake(4001);
    let iss = host.handshake(4002);
    assert_eq!(host.endpoint.connections().count(), 2);
    assert_eq!(host.endpoint.counters().dropped_accept_queue, 1);

    assert!(host.endpoint.accept(host.now, listener).is_some());
    let repeated = host.wait(Duration::from_secs(1));
    assert_eq!(repeated[0].1.flags, Flags::SYN | Flags::ACK, "the record is still there");
    host.from(4002, ack(1001, iss + 1));
    assert_eq!(host.endpoint.connections().count(), 3);
}

#[test]
fn sec_b13_one_source_fills_a_quarter_of_the_syn_queue_at_most() {
    let (mut host, _) = Host::listening(ListenOptions { syn_backlog: 64, ..on_port(PORT) });
    for port in 1000..2000 {
        host.from(port, syn(1000));
    }
    assert_eq!(host.endpoint.listening.half_open(), 16);
    flood(&mut host, 0..100);
    assert_eq!(host.endpoint.listening.half_open(), 64, "others still have their places");
}

#[test]
fn sec_c15_every_flag_set_in_closed_is_answered_by_the_table_and_leaves_nothing() {
    let mut host = Host::new();
    for bits in 0..0x200 {
        let flags = Flags::from_bits(bits);
        let sent = host.give(client(4000), server(), fields(flags, 1000, SeqNum::new(77)), b"12");
        if flags.contains(Flags::RST) {
            assert_eq!(sent, [], "{flags:?}");
            continue;
        }
        assert_eq!(sent.len(), 1, "{flags:?}");
        let length = 2 + u32::from(flags.contains(Flags::SYN)) + u32::from(flags.contains(Flags::FIN));
        let wanted = if flags.contains(Flags::ACK) {
            (SeqNum::new(77), SeqNum::new(0), Flags::RST)
        } else {
            (SeqNum::new(0), SeqNum::new(1000 + length), Flags::RST | Flags::ACK)
        };
        assert_eq!((sent[0].seq, sent[0].ack, sent[0].flags), wanted, "{flags:?}");
    }
    assert_eq!((host.endpoint.tuples.len(), host.endpoint.poll_timeout()), (0, None));
}

#[test]
fn sec_c15_in_listen_only_a_syn_alone_leaves_a_record() {
    for bits in 0..0x200 {
        let flags = Flags::from_bits(bits);
        let (mut host, _) = Host::listening(on_port(PORT));
        let sent = host.from(4000, fields(flags, 1000, SeqNum::new(77)));
        let answer = sent.first().map(|sent| sent.flags);
        let has = |flag| flags.contains(flag);
        let wanted = if has(Flags::RST) {
            None
        } else if has(Flags::ACK) {
            Some(Flags::RST)
        } else if has(Flags::SYN) && !has(Flags::FIN) {
            Some(Flags::SYN | Flags::ACK)
        } else {
            None
        };
        assert_eq!((answer, sent.len()), (wanted, usize::from(wanted.is_some())), "{flags:?}");
        let keeps = wanted == Some(Flags::SYN | Flags::ACK);
        assert_eq!(host.endpoint.tuples.len(), usize::from(keeps), "{flags:?}");
    }
}

#[test]
fn sec_c18_a_segment_from_its_own_destination_is_dropped() {
    let (mut host, _) = Host::listening(on_port(PORT));
    assert_eq!(host.give(server(), server(), syn(1000), &[]), []);
    assert_eq!(host.endpoint.counters().dropped_martian_source, 1);

    let mut config = config(SERVER);
    config.addresses = vec![ip("127.0.0.1")];
    let mut host = Host::with(config);
    host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    let here = SocketAddr::new(ip("127.0.0.1"), PORT);
    assert_eq!(host.give(here, here, syn(1000), &[]), []);
    assert_eq!(host.endpoint.counters().dropped_land, 1);
    assert_eq!(host.endpoint.tuples.len(), 0);
}

// Tests: RFC 9293 MUST-57, RFC 9293 MUST-63
#[test]
fn sec_c19_martians_are_neither_answered_nor_remembered() {
    let mut host = Host::new();
    host.endpoint.listen(host.now, ListenOptions::new(ListenAddr::default())).unwrap();
    let sources = [
        "0.0.0.0:1",
        "127.0.0.1:1",
        "224.0.0.1:1",
        "255.255.255.255:1",
        "10.0.0.255:1",
        "10.0.0.1:1",
        "10.0.0.2:0",
    ];
    for source in sources {
        for flags in [Flags::SYN, Flags::ACK, Flags::NONE] {
            let sent = host.give(source.parse().unwrap(), server(), fields(flags, 1, SeqNum::new(2)), &[]);
            assert_eq!(sent, [], "from {source}");
        }
    }
    let destinations =
        ["0.0.0.0:1", "127.0.0.1:1", "224.0.0.1:1", "255.255.255.255:1", "10.0.0.255:1", "10.0.0.1:0"];
    for destination in destinations {
        let sent = host.give(client(4000), destination.parse().unwrap(), syn(1), &[]);
        assert_eq!(sent, [], "to {destination}");
    }
    let v6 = |src: &str, dst: &str| (SocketAddr::new(ip(src), 1), SocketAddr::new(ip(dst), 2));
    for (src, dst) in [
        v6("::", "fd00::1"),
        v6("ff02::1", "fd00::1"),
        v6("::ffff:10.0.0.2", "fd00::1"),
        v6("fd00::2", "ff02::1"),
    ] {
        assert_eq!(host.give(src, dst, syn(1), &[]), [], "{src} to {dst}");
    }
    assert_eq!(host.endpoint.tuples.len(), 0);
    let counters = host.endpoint.counters();
    assert_eq!((counters.dropped_martian_source, counters.dropped_martian_destination), (24, 7));
}

// Tests: RFC 9293 MUST-3
#[test]
fn sec_d6_a_segment_with_any_bit_wrong_is_dropped_and_counted() {
    let mut header = [0; HEADER_MAX];
    let tuple = FourTuple::new(client(4000), server());
    let len = write_control(&mut header, &control(&tuple, 64, FlowLabel::NONE, syn(1000)));
    for bit in 0..(len - 20) * 8 {
        let (mut host, _) = Host::listening(on_port(PORT));
        let mut damaged = header[..len].to_vec();
        damaged[20 + bit / 8] ^= 1 << (bit % 8);
        host.endpoint.handle_packet(host.now, &damaged, RxMeta::default());
        assert_eq!(host.sent(), [], "bit {bit}");
        let counters = host.endpoint.counters();
        assert_eq!(counters.dropped_tcp_checksum + counters.dropped_malformed_tcp, 1, "bit {bit}");
        assert_eq!(host.endpoint.tuples.len(), 0);
    }
}
