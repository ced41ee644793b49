//! Failures, and the errors that a program gets.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use ackclock::{ConnectionError, NoRoute, StackError, TcpStream, connection_error};
use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::time::{Instant, timeout};

use crate::support::{accepted, addr, between, connection, host, hosts, hosts_with_network, kind};

#[tokio::test]
async fn a_port_where_nobody_listens_refuses() {
    let hosts = hosts();
    let error = hosts.client.connect(addr("10.0.0.2:80")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(connection_error(&error), Some(ConnectionError::Refused));
    assert_eq!(hosts.client.info().connections, 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_answers_times_out_after_three_minutes_or_more() {
    // Tests: RFC 9293 MUST-23
    let hosts = hosts();
    let started = Instant::now();
    assert_eq!(kind(hosts.client.connect(addr("10.0.0.77:80")).await), ErrorKind::TimedOut);
    assert!(started.elapsed() >= Duration::from_secs(180), "{:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(600), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_user_timeout_bounds_connect_and_an_established_connection() {
    // Tests: RFC 9293 MUST-21
    let (client, server, network) = hosts_with_network();
    let socket = client.socket();
    socket.set_user_timeout(Some(Duration::from_secs(5))).unwrap();
    let started = Instant::now();
    assert_eq!(kind(socket.connect(addr("10.0.0.77:80")).await), ErrorKind::TimedOut);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());

    let (mut stream, _peer) = between(&client, &server).await;
    stream.set_user_timeout(Some(Duration::from_secs(3))).unwrap();
    network.set_blackout(true);
    let started = Instant::now();
    stream.write_all(b"anybody?").await.unwrap();
    assert_eq!(kind(stream.read(&mut [0; 1]).await), ErrorKind::TimedOut);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_carries_no_data_ends_by_its_idle_timeout() {
    let hosts = hosts();
    let (mut stream, mut peer) = connection(&hosts).await;
    assert_eq!(stream.idle_timeout().unwrap(), None);
    assert_eq!(kind(stream.set_idle_timeout(Some(Duration::ZERO))), ErrorKind::InvalidInput);
    stream.set_idle_timeout(Some(Duration::from_secs(60))).unwrap();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        peer.write_all(b"x").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
    }
    let left = stream.info().unwrap().idle_left.unwrap();
    assert!((59..=60).contains(&left.as_secs()), "{left:?}");
    let started = Instant::now();
    let error = stream.read(&mut [0]).await.unwrap_err();
    assert_eq!(
        (error.kind(), connection_error(&error)),
        (ErrorKind::TimedOut, Some(ConnectionError::IdleTimedOut))
    );
    assert!(error.to_string().contains("idle timeout"), "{error}");
    let waited = started.elapsed();
    assert!((59..=60).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(kind(peer.read(&mut [0]).await), ErrorKind::ConnectionReset);
    assert_eq!(hosts.client.counters().idle_timeouts + hosts.server.counters().idle_timeouts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_listener_and_a_socket_give_their_connections_an_idle_timeout() {
    let hosts = hosts();
    let listener =
        hosts.server.listener().addr(addr("10.0.0.2:80")).idle_timeout(Some(Duration::from_secs(9)));
    let listener = listener.bind().unwrap();
    let socket = hosts.client.socket();
    assert_eq!(kind(socket.set_idle_timeout(Some(Duration::ZERO))), ErrorKind::InvalidInput);
    socket.set_idle_timeout(Some(Duration::from_secs(7))).unwrap();
    let (client, server) = tokio::join!(socket.connect(addr("10.0.0.2:80")), listener.accept());
    let (mut client, (server, _)) = (client.unwrap(), server.unwrap());
    assert_eq!(server.idle_timeout().unwrap(), Some(Duration::from_secs(9)));
    let started = Instant::now();
    assert_eq!(kind(client.read(&mut [0]).await), ErrorKind::TimedOut);
    assert_eq!(started.elapsed().as_secs(), 7);
}

#[tokio::test]
async fn addresses_that_no_peer_can_have_are_refused_without_a_packet() {
    // Tests: RFC 9293 MUST-46
    let hosts = hosts();
    for bad in ["224.0.0.1:80", "255.255.255.255:80", "10.0.0.255:80", "[ff02::1]:80"] {
        assert_eq!(kind(hosts.client.connect(addr(bad)).await), ErrorKind::NetworkUnreachable, "{bad}");
    }
    assert_eq!(kind(hosts.client.connect(addr("10.0.0.2:0")).await), ErrorKind::ConnectionRefused);
    // This host, where nothing listens.
    assert_eq!(kind(hosts.client.connect(addr("0.0.0.0:80")).await), ErrorKind::ConnectionRefused);
    assert_eq!(hosts.client.counters().packets_sent, 0);
}

#[tokio::test]
async fn what_had_arrived_before_the_device_failed_is_read_to_its_last_byte() {
    let hosts = hosts();
    let (mut ended, mut reads_ended) = between(&hosts.client, &hosts.server).await;
    let (mut open, mut reads_open) = between(&hosts.client, &hosts.server).await;
    for stream in [&mut ended, &mut open] {
        stream.write_all(&[7; 50_000]).await.unwrap();
    }
    ended.shutdown().await.unwrap();
    let has_all = || {
        let infos = hosts.server.connections();
        infos.iter().map(|(_, info)| info.receive_queue).sum::<usize>() == 100_000
    };
    while !has_all() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await; // the FIN is behind the data
    hosts.cable.unplug();
    let down = timeout(Duration::from_secs(5), hosts.server.connect(addr("10.0.0.1:80"))).await.unwrap();
    assert_eq!(kind(down), ErrorKind::NetworkDown);

    reads_ended.readable().await.unwrap();
    assert_eq!(reads_ended.peek(&mut [0; 10]).await.unwrap(), 10);
    let mut all = Vec::new();
    reads_ended.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, [7; 50_000], "and then the end of the stream, which had come");
    let mut all = Vec::new();
    let error = reads_open.read_to_end(&mut all).await.unwrap_err();
    assert_eq!((all.len(), error.kind()), (50_000, ErrorKind::NetworkDown));
    assert_eq!(kind(reads_open.write(b"x").await), ErrorKind::NetworkDown);
    drop((reads_ended, reads_open));
    assert_eq!((hosts.server.info().connections, hosts.server.info().memory_used), (0, 0));
}

#[tokio::test]
async fn without_a_route_the_network_is_unreachable() {
    let (left, _right) = memory::pair(memory::Config::default());
    let stack = host("10.0.0.1/24", "fd00::1/64")
        .route("192.0.2.0/24".parse().unwrap())
        .device(left)
        .spawn()
        .unwrap();
    let error = stack.connect(addr("198.51.100.1:80")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
    assert_eq!(error.downcast::<NoRoute>().unwrap(), NoRoute(addr("198.51.100.1:80").ip()));
    // The route and the local network beside it lead somewhere: no host answers, but a SYN leaves.
    for reachable in ["192.0.2.9:80", "10.0.0.9:80"] {
        let waiting = timeout(Duration::from_millis(10), stack.connect(addr(reachable))).await;
        assert!(waiting.is_err(), "{reachable}");
    }
}

#[tokio::test]
async fn a_reset_fails_reads_until_the_end_and_breaks_the_pipe() {
    let hosts = hosts();
    let (mut client, server) = connection(&hosts).await;
    server.abort();
    assert_eq!(kind(client.read(&mut [0; 1]).await), ErrorKind::ConnectionReset);
    assert_eq!(kind(client.read(&mut [0; 1]).await), ErrorKind::ConnectionReset);
    assert_eq!(kind(client.write(b"x").await), ErrorKind::BrokenPipe);
    assert!(client.ready(Interest::ERROR).await.unwrap().is_error());
}

#[tokio::test]
async fn take_error_gives_the_error_once() {
    let hosts = hosts();
    let (client, server) = connection(&hosts).await;
    assert!(client.take_error().unwrap().is_none());
    server.abort();
    client.readable().await.unwrap();
    assert_eq!(client.take_error().unwrap().unwrap().kind(), ErrorKind::ConnectionReset);
    assert!(client.take_error().unwrap().is_none());
}

#[tokio::test]
async fn a_device_that_vanishes_fails_every_pending_call_within_a_second() {
    let hosts = hosts();
    let (client, server) = connection(&hosts).await;
    let (client, server) = (Arc::new(client), Arc::new(server));
    let other = hosts.server.listen(addr("10.0.0.2:81")).unwrap();
    let (full, unread) = accepted(&hosts.client, &other).await;
    let stack = hosts.client.clone();
    let listener = hosts.client.listen(addr("10.0.0.1:99")).unwrap();
    let deferred = hosts.client.listener().addr(addr("10.0.0.1:98")).deferred().unwrap();
    let (reading, noticing, peeking) = (Arc::clone(&client), client, Arc::clone(&server));
    let pending: Vec<tokio::task::JoinHandle<io::Result<()>>> = vec![
        tokio::spawn(async move { reading.readable().await }),
        tokio::spawn(async move { peeking.peek(&mut [0; 1]).await.map(drop) }),
        tokio::spawn(async move { noticing.notice().await.map(drop) }),
        tokio::spawn(async move { stack.connect(addr("10.0.0.77:1")).await.map(drop) }),
        tokio::spawn(async move { listener.accept().await.map(drop) }),
        tokio::spawn(async move { deferred.incoming().await.map(drop) }),
        tokio::spawn(fill(full)),
    ];
    tokio::time::sleep(Duration::from_millis(50)).await;
    hosts.cable.unplug();
    for (call, task) in pending.into_iter().enumerate() {
        let result = timeout(Duration::from_secs(1), task).await.expect("pending for a second").unwrap();
        let error = result.expect_err("the device is gone");
        assert_eq!(error.kind(), ErrorKind::NetworkDown, "call {call}");
        assert!(error.to_string().starts_with("the network device is gone: "), "{error}");
        assert!(matches!(error.downcast::<StackError>().unwrap(), StackError::Device(_)));
    }
    drop((server, unread));
    for stack in [&hosts.client, &hosts.server] {
        assert_eq!((stack.info().connections, stack.info().memory_used), (0, 0));
        assert_eq!(kind(stack.listen(addr("10.0.0.1:1"))), ErrorKind::NetworkDown);
        timeout(Duration::from_secs(1), stack.shutdown()).await.unwrap();
    }
}

/// Writes until it fails.
async fn fill(stream: TcpStream) -> io::Result<()> {
    let block = vec![0; 1 << 16];
    loop {
        stream.writable().await?;
        match stream.try_write(&block) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
}
