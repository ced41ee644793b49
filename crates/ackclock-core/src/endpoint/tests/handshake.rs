//! From SYN to ESTABLISHED, both ways.

use super::*;
use crate::profile::Choices;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn two_endpoints_connect_exchange_data_and_close() {
    let mut pair = Pair::new();
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    let id = pair.client.connect(pair.now, server(), (None, 0), None).unwrap();
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.server.poll_event(), Some(Event::Acceptable(listener)));
    let accepted = pair.server.accept(pair.now, listener).unwrap();

    pair.client.update(pair.now, id, |connection, now| connection.write(now, b"question").unwrap()).unwrap();
    pair.run(Duration::from_millis(100));
    let mut buffer = [0; 64];
    let read = pair.server.update(pair.now, accepted, |connection, now| connection.read(now, &mut buffer));
    assert_eq!(read, Some(Ok(8)));
    assert_eq!(&buffer[..8], b"question");

    pair.server.release(pair.now, accepted);
    pair.run(Duration::from_millis(100));
    let end = pair.client.update(pair.now, id, |connection, now| connection.read(now, &mut buffer));
    assert_eq!(end, Some(Ok(0)));
    pair.client.release(pair.now, id);
    pair.run(Duration::from_secs(200));
    assert_eq!((pair.client.connections().count(), pair.server.connections().count()), (0, 0));
    assert_eq!((pair.client.poll_timeout(), pair.server.poll_timeout()), (None, None));
    assert_eq!((pair.client.memory().0, pair.server.memory().0), (0, 0));
}

#[test]
fn ipv6_connects_like_ipv4() {
    let mut pair = Pair::with(config("fd00::2"), config("fd00::1"));
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    let remote = SocketAddr::new(ip("fd00::1"), PORT);
    let id = pair.client.connect(pair.now, remote, (None, 0), None).unwrap();
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.client.connection(id).unwrap().state(), State::Established);
    let accepted = pair.server.accept(pair.now, listener).unwrap();
    assert_eq!(pair.server.connection(accepted).unwrap().state(), State::Established);
}

// Tests: RFC 9293 MUST-14, RFC 9293 MUST-67, RFC 9293 SHLD-5, RFC 9293 MAY-3
#[test]
fn the_syn_ack_mirrors_the_options_of_the_syn() {
    let (mut host, _) = Host::listening(on_port(PORT));
    let plain = host.from(4000, fields(Flags::SYN, 1000, SeqNum::new(0)));
    assert_eq!(plain[0].options, TcpOptions { mss: Some(1460), ..TcpOptions::default() });

    let all = host.from(4001, syn_with_all_options(1000, 77));
    let options = all[0].options;
    assert!(options.sack_permitted && options.window_scale.is_some());
    assert_eq!(options.timestamps.map(|(_, echo)| echo), Some(77));
    assert_eq!((all[0].flags, all[0].ack), (Flags::SYN | Flags::ACK, SeqNum::new(1001)));
}

#[test]
fn options_that_the_listener_does_not_want_are_not_agreed_on() {
    let tcp = TcpConfig {
        choices: Choices { timestamps: false, sack: false, window_scaling: false, ..tcp_config().choices },
        ..tcp_config()
    };
    let (mut host, listener) = Host::listening(ListenOptions { tcp: Some(tcp), ..on_port(PORT) });
    let syn_ack = host.from(4000, syn_with_all_options(1000, 77));
    assert_eq!(syn_ack[0].options, TcpOptions { mss: Some(1460), ..TcpOptions::default() });
    host.from(4000, ack(1001, syn_ack[0].seq + 1));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    let info = host.endpoint.connection(id).unwrap().info(host.now);
    assert!(!info.timestamps && !info.sack && info.window_scale.is_none());
}

// Tests: RFC 9293 MUST-15
#[test]
fn a_peer_without_mss_option_is_sent_the_default() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let syn_ack = host.from(4000, fields(Flags::SYN, 1000, SeqNum::new(0)));
    host.from(4000, ack(1001, syn_ack[0].seq + 1));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[7; 4000]).unwrap());
    let sent = host.sent();
    assert!(!sent.is_empty() && sent.iter().all(|sent| sent.payload.len() <= 536), "{sent:?}");
}

#[test]
fn the_handshake_settles_options_and_the_first_round_trip() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let syn_ack = host.from(4000, syn_with_all_options(1000, 77));
    host.wait(Duration::from_millis(30));
    let value = syn_ack[0].options.timestamps.unwrap().0;
    host.from(4000, with_timestamps(ack(1001, syn_ack[0].seq + 1), 107, value));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    let info = host.endpoint.connection(id).unwrap().info(host.now);
    assert!(info.timestamps && info.sack);
    assert_eq!(info.window_scale.unwrap().0, 7);
    assert_eq!(info.srtt, Duration::from_millis(30));
}

#[test]
fn a_repeated_syn_ack_gives_no_round_trip_sample() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let syn_ack = host.from(4000, syn(1000));
    host.wait(Duration::from_millis(1030));
    host.from(4000, ack(1001, syn_ack[0].seq + 1));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    assert_eq!(host.endpoint.connection(id).unwrap().info(host.now).srtt, Duration::ZERO);
}

#[test]
fn data_with_the_last_acknowledgement_is_delivered() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let syn_ack = host.from(4000, syn(1000));
    host.give(client(4000), server(), ack(1001, syn_ack[0].seq + 1), b"early");
    let id = host.endpoint.accept(host.now, listener).unwrap();
    let mut buffer = [0; 16];
    let read = host.endpoint.update(host.now, id, |connection, now| connection.read(now, &mut buffer));
    assert_eq!((read, &buffer[..5]), (Some(Ok(5)), &b"early"[..]));
}

#[test]
fn a_lost_syn_ack_is_repeated_until_five_times_and_the_record_goes() {
    let (mut host, _) = Host::listening(on_port(PORT));
    let first = host.from(4000, syn(1000));
    let repeated = host.wait(2 * MINUTE);
    let seconds: Vec<u64> = repeated.iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!(seconds, [1, 3, 7, 15, 31]);
    assert!(repeated.iter().all(|(_, sent)| *sent == first[0]), "the same SYN-ACK each time");
    assert_eq!(host.endpoint.counters().half_open_expired, 1);
    assert_eq!(host.endpoint.poll_timeout(), None);
}

#[test]
fn the_last_acknowledgement_lost_is_made_up_for_by_the_syn_acks_repetition() {
    let mut pair = Pair::new();
    pair.lose = |side, number| side == 0 && number == 2;
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    let id = pair.client.connect(pair.now, server(), (None, 0), None).unwrap();
    pair.run(Duration::from_secs(5));
    let accepted = pair.server.accept(pair.now, listener).unwrap();
    assert_eq!(pair.server.connection(accepted).unwrap().state(), State::Established);
    assert_eq!(pair.client.connection(id).unwrap().state(), State::Established);
    assert_eq!(pair.server.counters().syn_acks_repeated, 1);
}

#[test]
fn a_closed_port_refuses_with_a_reset() {
    let mut pair = Pair::new();
    let id = pair.client.connect(pair.now, server(), (None, 0), None).unwrap();
    pair.run(Duration::from_millis(100));
    let error = pair.client.connection(id).unwrap().error();
    assert_eq!(error, Some(crate::ConnectionError::Refused));
    assert_eq!(pair.server.counters().resets_sent, 1);
}

// Tests: RFC 9293 MUST-11
#[test]
fn a_reset_returns_a_half_open_connection_to_listen_silently() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    host.from(4000, syn(1000));
    assert_eq!(host.from(4000, fields(Flags::RST, 1001, SeqNum::new(0))), []);
    assert_eq!(host.events(), []);
    assert_eq!(host.endpoint.poll_timeout(), None);
    host.handshake(4000);
    assert_eq!(host.events(), [Event::Acceptable(listener)]);
}

#[test]
fn the_most_specific_listener_takes_the_syn() {
    let mut host = Host::new();
    let listen = |host: &mut Host, addr, port| {
        let options = ListenOptions { reuse_port: true, ..ListenOptions::new(ListenAddr { addr, port }) };
        host.endpoint.listen(host.now, options).unwrap()
    };
    let any = listen(&mut host, None, None);
    let port = listen(&mut host, None, Some(PORT));
    host.handshake(4000);
    assert!(host.endpoint.accept(host.now, port).is_some());
    let both = listen(&mut host, Some(ip(SERVER)), Some(PORT));
    host.handshake(4001);
    assert!(host.endpoint.accept(host.now, both).is_some());
    assert!(host.endpoint.accept(host.now, any).is_none());
}

#[test]
fn a_listener_on_any_address_answers_for_an_address_that_is_not_ours() {
    let mut host = Host::new();
    let dialled: SocketAddr = "198.51.100.9:8443".parse().unwrap();
    assert_eq!(host.give(client(4000), dialled, syn(1000), &[]), [], "no listener: silence");
    assert_eq!(host.endpoint.counters().dropped_not_local, 1);

    let listener = host.endpoint.listen(host.now, ListenOptions::new(ListenAddr::default())).unwrap();
    let syn_ack = host.give(client(4000), dialled, syn(1000), &[]);
    assert_eq!(syn_ack[0].src, dialled);
    host.give(client(4000), dialled, ack(1001, syn_ack[0].seq + 1), &[]);
    let id = host.endpoint.accept(host.now, listener).unwrap();
    assert_eq!(host.endpoint.connection(id).unwrap().tuple().local(), dialled);
}

// Tests: RFC 9293 MUST-41
#[test]
fn a_passive_open_leaves_existing_connections_alone() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    assert!(host.endpoint.listen(host.now, on_port(PORT)).is_err());
    host.endpoint
        .listen(host.now, ListenOptions::new(ListenAddr { addr: Some(ip(SERVER)), port: None }))
        .unwrap();
    host.give(client(4000), server(), ack(1001, iss + 1), b"still here");
    assert_eq!(host.state(id), State::Established);
    assert!(host.endpoint.connection(id).unwrap().is_readable());
}

// Tests: RFC 9293 MUST-42
#[test]
fn one_can_listen_on_a_port_from_which_a_connection_is_being_opened() {
    let mut host = Host::new();
    let id = host.endpoint.connect(host.now, client(9), (None, PORT), None).unwrap();
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    host.sent();
    host.handshake(4000);
    assert!(host.endpoint.accept(host.now, listener).is_some());
    assert_eq!(host.state(id), State::SynSent);
}

// Tests: RFC 9293 MUST-46
#[test]
fn connecting_to_what_cannot_be_a_peer_fails_and_sends_nothing() {
    let mut host = Host::new();
    for remote in ["0.0.0.0:80", "224.0.0.1:80", "255.255.255.255:80", "10.0.0.255:80", "10.0.0.2:0"] {
        let remote = remote.parse().unwrap();
        let error = host.endpoint.connect(host.now, remote, (None, 0), None).unwrap_err();
        assert_eq!(error, crate::ConnectError::InvalidRemote(remote));
    }
    assert_eq!(host.sent(), []);
}

// Tests: RFC 9293 MUST-43, RFC 9293 MUST-44, RFC 9293 MUST-45
#[test]
fn the_local_address_is_the_one_asked_for_or_the_nearest_and_stays() {
    let mut config = config(SERVER);
    config.addresses = vec![ip("10.0.0.1"), ip("192.168.1.1")];
    let mut host = Host::with(config);
    let remote = "192.168.1.9:80".parse().unwrap();
    let mut source = |local| {
        let id = host.endpoint.connect(host.now, remote, local, None).unwrap();
        host.endpoint.connection(id).unwrap().tuple().local()
    };
    assert_eq!(source((None, 0)).ip(), ip("192.168.1.1"));
    assert_eq!(source((Some(ip("10.0.0.1")), 5555)), "10.0.0.1:5555".parse().unwrap());
    let elsewhere = host.endpoint.connect(host.now, remote, (Some(ip("10.9.9.9")), 0), None);
    assert_eq!(elsewhere, Err(crate::ConnectError::NotLocal(ip("10.9.9.9"))));

    host.endpoint.set_addresses(vec![ip("172.16.0.1")]);
    assert_eq!(host.sent().len(), 2);
    let repeated = host.wait(Duration::from_secs(10));
    assert!(!repeated.is_empty());
    assert!(repeated.iter().all(|(_, sent)| sent.src.ip() != ip("172.16.0.1")));
}

#[test]
fn a_name_in_use_cannot_be_opened_again() {
    let mut host = Host::new();
    host.endpoint.connect(host.now, client(80), (None, 5555), None).unwrap();
    let again = host.endpoint.connect(host.now, client(80), (None, 5555), None);
    assert_eq!(again, Err(crate::ConnectError::AddressInUse(client(80))));
    host.endpoint.connect(host.now, client(81), (None, 5555), None).unwrap();
}

#[test]
fn sec_a7_exhausting_the_ports_to_one_peer_ends_in_an_error_and_leaves_other_peers_alone() {
    let mut config = config(SERVER);
    config.ephemeral_ports = (5000, 5099);
    let mut host = Host::with(config);
    for _ in 0..100 {
        host.endpoint.connect(host.now, client(80), (None, 0), None).unwrap();
    }
    let next = host.endpoint.connect(host.now, client(80), (None, 0), None);
    assert_eq!(next, Err(crate::ConnectError::AddressInUse(client(80))));
    host.endpoint.connect(host.now, client(81), (None, 0), None).unwrap();
}

#[test]
fn an_ephemeral_port_is_never_one_that_is_listened_on() {
    let mut config = config(SERVER);
    config.ephemeral_ports = (5000, 5001);
    let mut host = Host::with(config);
    host.endpoint.listen(host.now, on_port(5000)).unwrap();
    let id = host.endpoint.connect(host.now, client(80), (None, 0), None).unwrap();
    assert_eq!(host.endpoint.connection(id).unwrap().tuple().local_port, 5001);
    assert!(host.endpoint.connect(host.now, client(80), (None, 0), None).is_err());
    assert!(host.endpoint.connect(host.now, client(80), (None, 5000), None).is_ok(), "unless asked for");
}

#[test]
fn a_listener_that_asks_for_port_zero_is_told_its_port() {
    let (mut host, listener) = Host::listening(on_port(0));
    let port = host.endpoint.listener_addr(listener).unwrap().port.unwrap();
    assert!(port >= 1024);
    let to = SocketAddr::new(ip(SERVER), port);
    assert_eq!(host.give(client(1), to, syn(1000), &[])[0].flags, Flags::SYN | Flags::ACK);
}

#[test]
fn the_table_of_connections_is_bounded_both_ways() {
    let mut config = config(SERVER);
    config.connections_max = 1;
    let mut host = Host::with(config);
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    host.handshake(4000);
    host.handshake(4001);
    assert_eq!(host.endpoint.counters().dropped_connections_max, 1);
    let error = host.endpoint.connect(host.now, client(80), (None, 0), None);
    assert_eq!(error, Err(crate::ConnectError::TooManyConnections(1)));
    assert!(host.endpoint.accept(host.now, listener).is_some());
    assert!(host.endpoint.accept(host.now, listener).is_none());
}

#[test]
fn what_a_listener_ignores_is_counted_and_not_answered() {
    let (mut host, _) = Host::listening(on_port(PORT));
    for _ in 0..2 {
        assert_eq!(host.from(4000, fields(Flags::RST, 1000, SeqNum::new(0))), []);
        assert_eq!(host.from(4000, fields(Flags::SYN | Flags::FIN, 1000, SeqNum::new(0))), []);
    }
    let counters = host.endpoint.counters();
    assert_eq!((counters.dropped_stray_reset, counters.dropped_in_listen, counters.syns_received), (2, 2, 0));
}

#[test]
fn the_settings_of_a_listener_are_those_of_its_next_connections() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let other = host.endpoint.listen(host.now, on_port(81)).unwrap();
    assert!(host.endpoint.update_listener(listener, |tcp| tcp.receive_buffer_max = 5000));
    let buffer = |host: &Host, id| host.endpoint.listener_tcp(id).map(|tcp| tcp.receive_buffer_max);
    assert_eq!(buffer(&host, listener), Some(5000));
    assert_eq!(buffer(&host, other), Some(tcp_config().receive_buffer_max));
    let syn_ack = host.from(4000, syn(1000));
    assert_eq!(syn_ack[0].window, 5000);
    host.endpoint.close_listener(host.now, listener);
    assert_eq!(buffer(&host, listener), None);
    assert!(!host.endpoint.update_listener(listener, |_| {}));
}

// RFC 6994 §3: an experimental option is told apart by its ExID.
#[test]
fn what_a_syn_sent_in_the_listeners_experiment_is_shown_at_the_connection() {
    let experiment = |id| ackclock_wire::Experiment { id, value: [7; 8] };
    for (theirs, shown) in [(0xf00d_f00d, true), (0xf00d_f00e, false)] {
        let tcp = TcpConfig { experiment: Some(experiment(0xf00d_f00d)), ..tcp_config() };
        let (mut host, listener) = Host::listening(ListenOptions { tcp: Some(tcp), ..on_port(PORT) });
        let mut opening = syn(1000);
        opening.options.experiment = Some(experiment(theirs));
        let syn_ack = host.from(4000, opening);
        host.from(4000, ack(1001, syn_ack[0].seq + 1));
        let id = host.endpoint.accept(host.now, listener).unwrap();
        let found = host.endpoint.connection(id).unwrap().peer_experiment();
        assert_eq!(found, shown.then(|| experiment(theirs)));
        assert_eq!(syn_ack[0].options.experiment, Some(experiment(0xf00d_f00d)));
    }
}

#[test]
fn a_half_open_connection_from_an_address_that_becomes_ours_hears_no_device() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let iss = host.from(4000, syn(1000))[0].seq;
    host.endpoint.set_local_addresses(vec![ip(SERVER).into(), ip(CLIENT).into()], Vec::new());
    assert_eq!(host.from(4000, ack(1001, iss + 1)), []);
    assert_eq!(host.endpoint.counters().dropped_martian_source, 1);
    assert!(host.endpoint.accept(host.now, listener).is_none());
}

#[test]
fn a_large_packet_is_kept_where_it_lies_and_its_text_is_read_there() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    let whole = packet(client(4000), server(), ack(1001, iss + 1), &[7; 40_000]);
    let whole = bytes::Bytes::from(whole);
    let meta = RxMeta { checksum: ChecksumState::Verified, segment_size: std::num::NonZero::new(1460) };
    host.endpoint.handle_packets(host.now, [RxPacket { bytes: &whole, meta, block: Some(whole.clone()) }]);
    let text = host.endpoint.update(host.now, id, |connection, now| connection.read_bytes(now, 40_000));
    let text = text.unwrap().unwrap();
    assert_eq!((text.len(), text.as_ptr()), (40_000, whole[40..].as_ptr()));
}

#[test]
fn replies_that_wait_are_bounded_and_those_beyond_are_counted() {
    let mut host = Host::new();
    let meta = RxMeta { checksum: ChecksumState::Verified, segment_size: None };
    for port in 1000..2100 {
        host.endpoint.handle_packet(host.now, &packet(client(port), server(), syn(1000), &[]), meta);
    }
    assert_eq!(host.endpoint.counters().dropped_replies, 1100 - 1024);
    assert_eq!(host.sent().len(), 1024);
}

// RFC 4861 §7.3.1: hints from TCP that a neighbour is reachable.
#[test]
fn a_packet_to_a_peer_that_made_progress_says_that_it_is_reached() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    let send = |host: &mut Host| {
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"some").unwrap());
        host.endpoint.poll_transmit(host.now, LIMITS).unwrap();
        [host.endpoint.take_reached(), host.endpoint.take_reached()]
    };
    assert_eq!(send(&mut host), [None, None]);
    host.endpoint.handle_packet(
        host.now,
        &packet(client(4000), server(), ack(1001, iss + 5), &[]),
        RxMeta { checksum: ChecksumState::Verified, segment_size: None },
    );
    assert_eq!(send(&mut host), [Some(ip(CLIENT)), None]);
}

/// RFC 6298 §3 (Karn): the client's SYN came again and drew the SYN,ACK again. The acknowledgement answers
/// either of the two.
#[test]
fn syn_ack_that_a_repeated_syn_drew_again_gives_no_round_trip() {
    let delay = Duration::from_millis(20);
    for (repeated, srtt) in [(false, delay), (true, Duration::ZERO)] {
        let (mut host, listener) = Host::listening(on_port(PORT));
        let iss = host.from(4000, syn(1000))[0].seq;
        host.now += delay;
        if repeated {
            assert_eq!(host.from(4000, syn(1000))[0].seq, iss);
            host.now += delay;
        }
        host.from(4000, ack(1001, iss + 1));
        let id = host.endpoint.accept(host.now, listener).unwrap();
        assert_eq!(host.endpoint.connection(id).unwrap().info(host.now).srtt, srtt, "repeated: {repeated}");
    }
}
