//! Options and what can be learnt of a connection.

use std::io::ErrorKind;
use std::time::Duration;

use ackclock::{Cidr, Experiment, Keepalive, Notice, Stack, State, TcpConfig, TcpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{accepted, addr, between, connection, hosts, hosts_with_network, kind, settle};

#[tokio::test]
async fn options_are_what_they_were_set_to() {
    // Tests: RFC 9293 MUST-17, MUST-24, MUST-27, MUST-48, MUST-49, SHLD-21
    let hosts = hosts();
    let (stream, _peer) = connection(&hosts).await;
    assert!(!stream.nodelay().unwrap());
    stream.set_nodelay(true).unwrap();
    assert!(stream.nodelay().unwrap());

    assert_eq!(stream.ttl().unwrap(), 64);
    stream.set_ttl(9).unwrap();
    assert_eq!(stream.ttl().unwrap(), 9);
    assert_eq!(kind(stream.set_ttl(0)), ErrorKind::InvalidInput);
    assert_eq!(kind(stream.set_ttl(256)), ErrorKind::InvalidInput);

    stream.set_dscp(46).unwrap();
    assert_eq!(stream.dscp().unwrap(), 46);
    assert_eq!(kind(stream.set_dscp(64)), ErrorKind::InvalidInput);

    assert_eq!(stream.keepalive().unwrap(), None);
    let keepalive = Keepalive { idle: Duration::from_secs(60), ..Keepalive::default() };
    stream.set_keepalive(Some(keepalive)).unwrap();
    assert_eq!(stream.keepalive().unwrap(), Some(keepalive));

    stream.set_user_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(stream.user_timeout().unwrap(), Some(Duration::from_secs(30)));
    assert_eq!(stream.linger().unwrap(), None);

    assert_eq!(stream.max_pacing_rate().unwrap(), None);
    stream.set_max_pacing_rate(Some(1_000_000)).unwrap();
    assert_eq!(stream.max_pacing_rate().unwrap(), Some(1_000_000));
    assert_eq!(kind(stream.set_max_pacing_rate(Some(0))), ErrorKind::InvalidInput);
}

#[tokio::test(start_paused = true)]
async fn bounded_rate_is_kept_by_the_driver() {
    const RATE: u64 = 1_000_000;
    let hosts = hosts();
    let (mut stream, mut peer) = connection(&hosts).await;
    stream.set_max_pacing_rate(Some(RATE)).unwrap();
    let began = tokio::time::Instant::now();
    let sent = async { stream.write_all(&[7; 3_000_000]).await };
    let (sent, received) = tokio::join!(sent, async {
        let mut data = vec![0; 3_000_000];
        peer.read_exact(&mut data).await
    });
    assert_eq!((sent.unwrap(), received.unwrap()), ((), 3_000_000));
    let took = began.elapsed().as_millis();
    assert!((2_950..3_050).contains(&took), "3 s at {RATE} bytes a second: {took} ms");
}

#[tokio::test]
async fn a_sockets_options_are_the_streams() {
    // Tests: RFC 9293 MUST-43
    let hosts = hosts();
    let listening = hosts.server.socket();
    listening.set_nodelay(true).unwrap();
    listening.set_linger(Some(Duration::from_secs(1))).unwrap();
    listening.bind(addr("10.0.0.2:80")).unwrap();
    let listener = listening.listen(16).unwrap();

    let socket = TcpSocket::new_v4(&hosts.client).unwrap();
    assert_eq!(socket.local_addr().unwrap(), addr("0.0.0.0:0"));
    socket.bind(addr("10.0.0.1:5555")).unwrap();
    assert_eq!(kind(socket.bind(addr("10.0.0.1:5556"))), ErrorKind::InvalidInput);
    socket.set_keepalive(true).unwrap();
    socket.set_tos_v4(0xb8).unwrap();
    socket.set_zero_linger().unwrap();
    let (stream, accepted) = tokio::join!(socket.connect(addr("10.0.0.2:80")), listener.accept());
    let (stream, (accepted, peer)) = (stream.unwrap(), accepted.unwrap());
    assert_eq!(peer, addr("10.0.0.1:5555"));
    assert_eq!(stream.dscp().unwrap(), 46);
    assert_eq!(stream.keepalive().unwrap(), Some(Keepalive::default()));
    assert_eq!(stream.linger().unwrap(), Some(Duration::ZERO));
    assert!(accepted.nodelay().unwrap());
    assert_eq!(accepted.linger().unwrap(), Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn a_socket_of_one_family_refuses_the_other() {
    let hosts = hosts();
    let socket = TcpSocket::new_v6(&hosts.client).unwrap();
    assert_eq!(kind(socket.bind(addr("10.0.0.1:1"))), ErrorKind::InvalidInput);
    assert_eq!(kind(socket.connect(addr("10.0.0.2:1")).await), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn binding_to_a_foreign_address_or_a_port_in_use_fails_at_once() {
    let hosts = hosts();
    let _listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let foreign = hosts.client.socket();
    assert_eq!(kind(foreign.bind(addr("10.0.0.9:0"))), ErrorKind::AddrNotAvailable);
    let bound = |reuseaddr| {
        let socket = hosts.client.socket();
        socket.set_reuseaddr(reuseaddr).unwrap();
        socket.bind(addr("10.0.0.1:7000")).map(|()| socket)
    };
    let first = bound(false).unwrap();
    assert_eq!(kind(bound(true)), ErrorKind::AddrInUse);
    let _first = first.connect(addr("10.0.0.2:80")).await.unwrap();
    assert_eq!(kind(bound(false)), ErrorKind::AddrInUse);
    // The port will do, and the name is taken.
    let second = bound(true).unwrap();
    assert_eq!(kind(second.connect(addr("10.0.0.2:80")).await), ErrorKind::AddrNotAvailable);
    assert!(bound(true).is_ok(), "a socket that is gone has given its port back");
}

#[test]
fn streams_listeners_and_sockets_cross_a_catch_unwind() {
    fn crosses<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    crosses::<ackclock::Stack>();
    crosses::<ackclock::TcpStream>();
    crosses::<ackclock::TcpListener>();
    crosses::<TcpSocket>();
}

#[tokio::test]
async fn a_listener_sets_what_a_socket_sets_and_begins_with_the_stacks_profile() {
    let (device, _other) = ackclock_device::memory::pair(Default::default());
    let stack = Stack::builder().device(device).address("10.0.0.1/24".parse().unwrap());
    let stack = stack.profile("reno-1990").unwrap().spawn().unwrap();
    assert_eq!((stack.config().profile, stack.socket().config().profile), ("reno-1990", "reno-1990"));
    let builder =
        stack.listener().addr(addr("10.0.0.1:80")).nodelay(true).recv_buffer_size(1).ttl(9).unwrap();
    let builder = builder.rto("rfc6298,min=1s").unwrap().tos(0xb8).unwrap().keepalive(true);
    let tcp = builder.config();
    assert_eq!((tcp.profile, tcp.nodelay, tcp.receive_buffer_max, tcp.ttl), ("reno-1990", true, 2304, 9));
    assert_eq!(
        (tcp.choices.rto.rto_min, tcp.dscp, tcp.keepalive.is_some()),
        (Duration::from_secs(1), 0x2e, true)
    );
    assert_eq!(kind(builder.clone().ttl(0)), ErrorKind::InvalidInput);
    assert_eq!(kind(builder.clone().rto("rfc")), ErrorKind::InvalidInput);
    let listener = builder.bind().unwrap();
    let (client, accepted) = accepted(&stack, &listener).await;
    assert_eq!((accepted.ttl().unwrap(), accepted.nodelay().unwrap(), client.ttl().unwrap()), (9, true, 64));
}

#[tokio::test]
async fn a_wildcard_that_is_only_ipv6_leaves_the_port_of_ipv4_free() {
    let hosts = hosts();
    let v6 = hosts.server.listener().addr(addr("[::]:80")).only_v6(true).bind().unwrap();
    assert_eq!(v6.local_addr().unwrap(), addr("[::]:80"));
    let v4 = hosts.server.listen(addr("0.0.0.0:80")).unwrap();
    for (target, listener, none) in [("10.0.0.2:80", &v4, &v6), ("[fd00::2]:80", &v6, &v4)] {
        let (connected, accepted) = tokio::join!(hosts.client.connect(addr(target)), listener.accept());
        assert_eq!(connected.unwrap().peer_addr().unwrap(), addr(target));
        assert_eq!(accepted.unwrap().0.local_addr().unwrap(), addr(target));
        assert!(crate::support::cancelled_after(none.accept(), 3).await.is_none());
    }
    let both = hosts.server.listener().any_address(82).bind().unwrap();
    for target in ["10.0.0.2:82", "[fd00::2]:82"] {
        let (connected, accepted) = tokio::join!(hosts.client.connect(addr(target)), both.accept());
        assert_eq!(accepted.unwrap().1, connected.unwrap().local_addr().unwrap());
    }
    let socket = TcpSocket::new_v6(&hosts.server).unwrap();
    socket.set_only_v6(true).unwrap();
    socket.bind(addr("[::]:81")).unwrap();
    assert_eq!(kind(socket.set_only_v6(false)), ErrorKind::InvalidInput);
    assert!(hosts.server.listen(addr("0.0.0.0:81")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn quickack_acknowledges_at_once_and_sends_what_was_delayed() {
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    let acknowledged = |client: &ackclock::TcpStream| client.info().unwrap().bytes_acked;
    client.write_all(b"x").await.unwrap();
    settle().await;
    let before = acknowledged(&client);
    server.set_quickack(true).unwrap();
    settle().await;
    assert_eq!(acknowledged(&client), before + 1, "what waited was acknowledged");
    client.write_all(b"y").await.unwrap();
    settle().await;
    assert_eq!(acknowledged(&client), before + 2);
}

#[tokio::test]
async fn info_tells_what_ss_would() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    client.write_all(&[1; 10_000]).await.unwrap();
    server.read_exact(&mut [0; 10_000]).await.unwrap();
    server.write_all(b"x").await.unwrap();
    client.read_exact(&mut [0; 1]).await.unwrap();
    let info = client.info().unwrap();
    assert_eq!(info.state, State::Established);
    assert_eq!(info.congestion, "cubic");
    assert_eq!(info.bytes_acked, 10_000);
    assert_eq!(server.info().unwrap().bytes_received, 10_000);
    assert!(info.timestamps && info.sack && info.window_scale.is_some());
    assert_eq!((info.snd_mss, info.pmtu), (1448, 1500));
    assert!(info.srtt > Duration::ZERO);
    let listed = hosts.client.connections();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].0.remote(), addr("10.0.0.2:80"));
    assert!(hosts.client.counters().packets_sent >= 8);
}

#[tokio::test]
async fn a_controller_is_chosen_by_name_on_stack_socket_and_stream() {
    let hosts = hosts();
    let _listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let socket = hosts.client.socket();
    socket.set_congestion_control("reno").unwrap();
    let stream = socket.connect(addr("10.0.0.2:80")).await.unwrap();
    assert_eq!(stream.info().unwrap().congestion, "reno");
    stream.set_congestion_control("cubic").unwrap();
    assert_eq!(stream.info().unwrap().congestion, "cubic");
    stream.set_congestion_control(TcpConfig::default().congestion).unwrap();
    let unknown = stream.set_congestion_control("renault").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidInput);
    assert!(unknown.to_string().contains("reno"), "{unknown}");
}

#[tokio::test]
async fn urgent_data_is_noticed_and_stays_in_the_stream() {
    // Tests: RFC 9293 MUST-30, MUST-32, MUST-33
    let hosts = hosts();
    let (client, mut server) = connection(&hosts).await;
    assert_eq!(client.try_write_urgent(b"stop!").unwrap(), 5);
    let Notice::Urgent { remaining } = server.notice().await.unwrap() else { panic!("urgent data was sent") };
    assert_eq!(remaining, 5);
    let mut read = [0; 5];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"stop!");
    assert_eq!(server.urgent_remaining().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_peer_is_noticed_before_the_connection_ends() {
    // Tests: RFC 9293 MUST-47, SHLD-9
    let (client, server, network) = hosts_with_network();
    let (mut stream, _peer) = between(&client, &server).await;
    network.set_blackout(true);
    stream.write_all(b"anybody?").await.unwrap();
    assert_eq!(stream.notice().await.unwrap(), Notice::Unanswered);
    // And again with each further retransmission, until R2.
    let ended = loop {
        match stream.notice().await {
            Ok(notice) => assert_eq!(notice, Notice::Unanswered),
            Err(error) => break error,
        }
    };
    assert_eq!(ended.kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn corked_writes_leave_together_when_uncorked() {
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    client.set_nodelay(true).unwrap();
    client.set_cork(true).unwrap();
    for _ in 0..5 {
        client.write_all(b"abc").await.unwrap();
    }
    settle().await;
    assert_eq!(kind(server.try_read(&mut [0; 64])), ErrorKind::WouldBlock);
    client.set_cork(false).unwrap();
    settle().await;
    assert_eq!(server.try_read(&mut [0; 64]).unwrap(), 15);
}

#[tokio::test]
async fn addresses_can_be_added_and_removed_while_the_stack_runs() {
    // Tests: RFC 9293 MUST-45
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    let added: Cidr = "10.0.0.42/24".parse().unwrap();
    hosts.server.add_address(added).unwrap();
    let listener = hosts.server.listen(addr("10.0.0.42:80")).unwrap();
    let (stream, _) = tokio::join!(hosts.client.connect(addr("10.0.0.42:80")), listener.accept());
    assert_eq!(stream.unwrap().peer_addr().unwrap().ip(), added.addr());
    // A connection keeps an address that the stack has given up.
    assert!(hosts.client.remove_address("10.0.0.1".parse().unwrap()));
    client.write_all(b"x").await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'x');
}

#[tokio::test]
async fn what_applications_say_in_their_handshake_reaches_those_who_take_part() {
    let hosts = hosts();
    let said = |value: &[u8; 8]| Some(Experiment { id: 0x1234_5678, value: *value });
    for (ours, theirs, heard) in [
        (said(b"client's"), said(b"server's"), (said(b"server's"), said(b"client's"))),
        (None, said(b"server's"), (None, None)),
        (said(b"client's"), None, (None, None)),
    ] {
        let listener = hosts.server.listener().addr(addr("10.0.0.2:90")).experiment(theirs).bind().unwrap();
        let socket = hosts.client.socket();
        socket.set_experiment(ours).unwrap();
        let (client, server) = tokio::join!(socket.connect(addr("10.0.0.2:90")), listener.accept());
        let (client, server) = (client.unwrap(), server.unwrap().0);
        assert_eq!((client.peer_experiment().unwrap(), server.peer_experiment().unwrap()), heard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_a_call_sets_wakes_a_driver_that_sleeps() {
    let (client, server, network) = hosts_with_network();
    let (stream, _accepted) = between(&client, &server).await;
    let stream = std::sync::Arc::new(stream);
    let waiter = tokio::spawn({
        let stream = std::sync::Arc::clone(&stream);
        async move { stream.readable().await }
    });
    // Nothing is due any more, and the waiter is registered: no call but the next will look at the clock.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    network.set_blackout(true);
    let (idle, interval) = (Duration::from_secs(60), Duration::from_secs(10));
    stream.set_keepalive(Some(Keepalive { idle, interval, probes: 3 })).unwrap();
    let start = tokio::time::Instant::now();
    let told = tokio::time::timeout(Duration::from_secs(3_600), waiter).await;
    told.expect("the stream ends").unwrap().unwrap();
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(90) && took <= Duration::from_secs(92), "{took:?}");
    assert_eq!(stream.try_read(&mut [0; 8]).unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}
