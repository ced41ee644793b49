//! Addresses, routes and the MTU while a stack runs, and several devices in one.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use ackclock::{Stack, UdpSocketError};
use ackclock_device::several::Several;
use ackclock_device::{Capabilities, Device, ReceiveBatch, memory};
use ackclock_wire::TxPacket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{addr, between, connection, host, hosts, kind, settle};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_address_can_be_added_and_removed_while_connections_go_on() {
    let hosts = hosts();
    assert_eq!(kind(hosts.server.listen(addr("10.0.0.22:80"))), ErrorKind::AddrNotAvailable);
    hosts.server.add_address("10.0.0.22/24".parse().unwrap()).unwrap();
    let listener = hosts.server.listen(addr("10.0.0.22:80")).unwrap();
    let (client, server) = tokio::join!(hosts.client.connect(addr("10.0.0.22:80")), listener.accept());
    let (mut client, mut server) = (client.unwrap(), server.unwrap().0);

    assert!(hosts.server.remove_address(ip("10.0.0.22")));
    assert!(!hosts.server.remove_address(ip("10.0.0.22")));
    client.write_all(b"still here").await.unwrap();
    server.read_exact(&mut [0; 10]).await.unwrap();
    let attempt = timeout(Duration::from_secs(5), hosts.client.connect(addr("10.0.0.22:80"))).await;
    assert!(attempt.is_err(), "no one answers for an address that was removed");
    assert!(hosts.server.counters().dropped_not_local > 0);

    let broadcast = "10.0.0.255/24".parse().unwrap();
    assert_eq!(kind(hosts.server.add_address(broadcast)), ErrorKind::InvalidInput);
}

#[tokio::test(start_paused = true)]
async fn a_transparent_proxy_speaks_to_the_server_from_its_clients_address() {
    let (left, right) = memory::pair(memory::Config::default());
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    let proxy = Stack::builder().device(left).transparent(true).spawn().unwrap();
    for (client, to) in [("198.51.100.7:4000", "10.0.0.2:80"), ("[2001:db8:7::7]:4000", "[fd00::2]:80")] {
        let listener = server.listen(addr(to)).unwrap();
        let socket = proxy.socket();
        socket.bind(addr(client)).unwrap();
        let (stream, accepted) = tokio::join!(socket.connect(addr(to)), listener.accept());
        let (mut stream, (mut served, peer)) = (stream.unwrap(), accepted.unwrap());
        assert_eq!((peer, stream.local_addr().unwrap()), (addr(client), addr(client)));
        stream.write_all(&[7; 100_000]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut request = Vec::new();
        served.read_to_end(&mut request).await.unwrap();
        served.write_all(b"done").await.unwrap();
        stream.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(request.len(), 100_000);
    }
}

#[tokio::test]
async fn another_hosts_address_is_refused_with_what_permits_it() {
    let hosts = hosts();
    let socket = hosts.client.socket();
    let error = socket.bind(addr("198.51.100.7:4000")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    assert!(error.to_string().contains("transparent"), "{error}");
}

/// Notes who was reached.
#[derive(Debug)]
struct Noting(memory::MemoryDevice, Arc<Mutex<Vec<IpAddr>>>);

impl Device for Noting {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.0.poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.0.send(packet)
    }

    fn reached(&mut self, addr: IpAddr) {
        self.1.lock().unwrap().push(addr);
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_hears_of_peers_whose_connections_make_progress_and_of_no_others() {
    let (left, right) = memory::pair(memory::Config::default());
    let (of_client, of_server) = <(Arc<Mutex<Vec<IpAddr>>>, Arc<Mutex<Vec<IpAddr>>>)>::default();
    let (left, right) = (Noting(left, Arc::clone(&of_client)), Noting(right, Arc::clone(&of_server)));
    let client = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    // No host answers there; SYNs are sent again and again.
    let answer = timeout(Duration::from_secs(20), client.connect(addr("10.0.0.77:80"))).await;
    assert!(answer.is_err() && of_client.lock().unwrap().is_empty());

    let listener = server.listen(addr("10.0.0.2:80")).unwrap();
    let (stream, accepted) = tokio::join!(client.connect(addr("10.0.0.2:80")), listener.accept());
    let (mut stream, mut accepted) = (stream.unwrap(), accepted.unwrap().0);
    let read = tokio::spawn(async move { accepted.read_to_end(&mut Vec::new()).await });
    stream.write_all(&vec![7; 1 << 20]).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(read.await.unwrap().unwrap(), 1 << 20);
    for (reached, peer) in [(&of_client, "10.0.0.2"), (&of_server, "10.0.0.1")] {
        let reached = reached.lock().unwrap();
        assert!(reached.len() > 2 && reached.iter().all(|addr| *addr == ip(peer)), "{peer}: {reached:?}");
    }
}

#[tokio::test]
async fn the_broadcast_address_of_an_added_network_is_no_peer() {
    let hosts = hosts();
    let socket = hosts.client.udp(addr("0.0.0.0:0")).unwrap();
    socket.send_to(b"x", addr("192.168.7.255:9")).await.unwrap();
    hosts.client.add_address("192.168.7.1/24".parse().unwrap()).unwrap();
    assert_eq!(kind(socket.send_to(b"x", addr("192.168.7.255:9")).await), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn routes_come_and_go() {
    let hosts = hosts();
    let socket = hosts.client.udp(addr("0.0.0.0:0")).unwrap();
    let sends = async |to: &str| socket.send_to(b"x", addr(to)).await.is_ok();
    assert!(sends("192.0.2.1:9").await, "without routes the device leads everywhere");
    hosts.client.add_route("203.0.113.0/24".parse().unwrap());
    assert!(!sends("192.0.2.1:9").await);
    assert!(sends("203.0.113.9:9").await && sends("10.0.0.2:9").await);
    assert_eq!(hosts.client.info().routes.unwrap().len(), 1);
    assert!(hosts.client.remove_route("203.0.113.0/24".parse().unwrap()));
    assert!(!hosts.client.remove_route("203.0.113.0/24".parse().unwrap()));
    assert!(!sends("203.0.113.9:9").await && sends("10.0.0.2:9").await);
    hosts.client.clear_routes();
    assert!(sends("192.0.2.1:9").await);
    assert_eq!(hosts.client.info().routes, None);
}

#[tokio::test]
async fn an_address_and_a_route_are_changed_in_place() {
    let hosts = hosts();
    let stack = &hosts.client;
    let socket = stack.udp(addr("0.0.0.0:0")).unwrap();
    let refused = async |to: &str| socket.send_to(b"x", addr(to)).await.err().map(|error| error.kind());
    stack.add_route("203.0.113.0/24".parse().unwrap());
    assert_eq!(refused("10.0.1.9:9").await, Some(ErrorKind::NetworkUnreachable));
    assert_eq!(refused("10.0.0.255:9").await, Some(ErrorKind::InvalidInput), "a broadcast address");
    stack.add_address("10.0.0.1/16".parse().unwrap()).unwrap();
    assert_eq!(stack.info().addresses.len(), 2, "the prefix is another one, the address the same");
    assert_eq!((refused("10.0.1.9:9").await, refused("10.0.0.255:9").await), (None, None));
    assert_eq!(refused("10.0.255.255:9").await, Some(ErrorKind::InvalidInput));

    stack.add_address("192.0.2.1/24".parse().unwrap()).unwrap();
    for source in ["192.0.2.1", "10.0.0.1"] {
        stack.add_route_from("203.0.113.0/24".parse().unwrap(), ip(source)).unwrap();
        assert_eq!(stack.info().routes.unwrap().len(), 1);
        socket.connect(addr("203.0.113.9:9")).await.unwrap();
        assert_eq!(socket.local_addr().unwrap().ip(), ip(source));
    }
}

#[tokio::test]
async fn the_source_follows_the_rules_the_route_and_deprecation() {
    let (device, _other) = memory::pair(memory::Config::default());
    let stack = host("10.0.0.1/24", "fd00::1/64").device(device).spawn().unwrap();
    stack.add_address("192.0.2.1/24".parse().unwrap()).unwrap();
    stack.add_address("192.0.2.2/24".parse().unwrap()).unwrap();
    let source = async |to: &str| {
        let socket = stack.udp(addr("0.0.0.0:0")).unwrap();
        socket.connect(addr(to)).await.unwrap();
        socket.local_addr().unwrap().ip()
    };
    assert_eq!(source("192.0.2.9:1").await, ip("192.0.2.1"));
    // RFC 6724 §3.2: an IPv4 address is always preferred.
    assert!(!stack.set_deprecated(ip("192.0.2.1"), true));
    assert_eq!(source("192.0.2.9:1").await, ip("192.0.2.1"));
    stack.add_address("fd00::2/64".parse().unwrap()).unwrap();
    let source6 = async || {
        let socket = stack.udp(addr("[::]:0")).unwrap();
        socket.connect(addr("[fd00::9]:1")).await.unwrap();
        socket.local_addr().unwrap().ip()
    };
    assert_eq!(source6().await, ip("fd00::1"));
    assert!(stack.set_deprecated(ip("fd00::1"), true));
    assert_eq!(source6().await, ip("fd00::2"));
    assert!(stack.set_deprecated(ip("fd00::1"), false));
    assert_eq!(source6().await, ip("fd00::1"));
    stack.add_route_from("198.51.100.0/24".parse().unwrap(), ip("192.0.2.2")).unwrap();
    assert_eq!(source("198.51.100.7:1").await, ip("192.0.2.2"));
    assert_eq!(
        kind(stack.add_route_from("198.51.100.0/24".parse().unwrap(), ip("fd00::1"))),
        ErrorKind::InvalidInput
    );
}

#[tokio::test]
async fn the_mtu_is_bounded_and_raised_again() {
    let hosts = hosts();
    let too_long = async |len: usize| {
        let socket = hosts.client.udp(addr("0.0.0.0:0")).unwrap();
        let error = socket.send_to(&vec![0; len], addr("10.0.0.2:9")).await.err()?;
        match error.downcast() {
            Ok(UdpSocketError::TooLong { max }) => Some(max),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(too_long(1472).await, None);
    hosts.client.set_mtu(Some(1300)).unwrap();
    assert_eq!(hosts.client.info().mtu, 1300);
    assert_eq!(too_long(1400).await, Some(1272));
    assert_eq!(kind(hosts.client.set_mtu(Some(1279))), ErrorKind::InvalidInput);
    hosts.client.set_mtu(Some(9000)).unwrap();
    assert_eq!(hosts.client.info().mtu, 1500, "never more than the device carries");
    hosts.client.set_mtu(None).unwrap();
    assert_eq!(too_long(1472).await, None);
}

#[tokio::test]
async fn a_connection_follows_the_mtu() {
    let hosts = hosts();
    let (mut client, mut server) = connection(&hosts).await;
    hosts.client.set_mtu(Some(1280)).unwrap();
    client.write_all(&[1; 100_000]).await.unwrap();
    let mut read = vec![0; 100_000];
    server.read_exact(&mut read).await.unwrap();
    let received = hosts.server.counters().segments_delivered;
    assert!(received >= 100_000 / 1240, "{received} segments of at most 1240 bytes");
}

/// Two networks, a host in each, and a stack with a device in both.
struct Town {
    middle: Stack,
    left: Stack,
    right: Stack,
    handle: ackclock_device::several::SeveralHandle,
}

fn town() -> Town {
    let (left, to_left) = memory::pair(memory::Config::default());
    let (right, to_right) = memory::pair(memory::Config::default());
    let devices = Several::new()
        .device("left", to_left)
        .device("right", to_right)
        .route("left", "10.1.0.0/16".parse().unwrap())
        .route("right", "10.2.0.0/16".parse().unwrap());
    let handle = devices.handle();
    let stack = |address: &str| Stack::builder().address(address.parse().unwrap()).seed(7);
    Town {
        middle: stack("10.1.0.1/16").address("10.2.0.1/16".parse().unwrap()).device(devices).spawn().unwrap(),
        left: stack("10.1.0.9/16").device(left).spawn().unwrap(),
        right: stack("10.2.0.9/16").device(right).spawn().unwrap(),
        handle,
    }
}

#[tokio::test]
async fn a_stack_with_two_devices_reaches_both_networks_from_the_right_address() {
    let town = town();
    for (peer, peer_addr, source) in
        [(&town.left, "10.1.0.9:80", "10.1.0.1"), (&town.right, "10.2.0.9:80", "10.2.0.1")]
    {
        let listener = peer.listen(addr(peer_addr)).unwrap();
        let (client, server) = tokio::join!(town.middle.connect(addr(peer_addr)), listener.accept());
        let (mut client, (mut server, from)) = (client.unwrap(), server.unwrap());
        assert_eq!(from.ip(), ip(source));
        let writing = tokio::spawn(async move {
            client.write_all(&[1; 1_000_000]).await.unwrap();
            client.shutdown().await.unwrap();
        });
        let mut read = Vec::new();
        server.read_to_end(&mut read).await.unwrap();
        assert_eq!(read.len(), 1_000_000);
        writing.await.unwrap();
    }
    // And is reached from both.
    let listener = town.middle.listen(addr("0.0.0.0:80")).unwrap();
    for (peer, to) in [(&town.left, "10.1.0.1:80"), (&town.right, "10.2.0.1:80")] {
        let (client, server) = tokio::join!(peer.connect(addr(to)), listener.accept());
        assert_eq!(client.unwrap().local_addr().unwrap(), server.unwrap().1);
    }
}

#[tokio::test(start_paused = true)]
async fn devices_and_routes_come_and_go() {
    let town = town();
    let (new, other_end) = memory::pair(memory::Config::default());
    let third = Stack::builder().address("10.3.0.9/16".parse().unwrap()).device(new).spawn().unwrap();
    let bound = third.udp(addr("10.3.0.9:7")).unwrap();
    let socket = town.middle.udp(addr("10.1.0.1:0")).unwrap();
    let mut buf = [0; 9];

    socket.send_to(b"x", addr("10.3.0.9:7")).await.unwrap();
    settle().await;
    assert_eq!(kind(bound.try_recv(&mut buf)), ErrorKind::WouldBlock, "no route leads there");
    town.handle.add_device("third", other_end);
    town.handle.add_route("third", "10.3.0.0/16".parse().unwrap());
    settle().await;
    socket.send_to(b"x", addr("10.3.0.9:7")).await.unwrap();
    settle().await;
    let (_, from) = bound.try_recv_from(&mut buf).unwrap();
    // The way back works at once, too.
    bound.send_to(b"back", from).await.unwrap();
    settle().await;
    assert_eq!(socket.try_recv(&mut buf).unwrap(), 4);
    assert_eq!(town.handle.devices(), ["left", "right", "third"]);

    town.handle.remove_device("third");
    settle().await;
    socket.send_to(b"x", addr("10.3.0.9:7")).await.unwrap();
    settle().await;
    assert_eq!(kind(bound.try_recv(&mut buf)), ErrorKind::NetworkDown, "its device has been unplugged");
    let left = town.left.udp(addr("10.1.0.9:7")).unwrap();
    socket.send_to(b"x", addr("10.1.0.9:7")).await.unwrap();
    settle().await;
    assert_eq!(left.try_recv(&mut buf).unwrap(), 1, "the others go on");
}

#[tokio::test(start_paused = true)]
async fn a_device_that_fails_or_is_stuck_leaves_the_others_working() {
    let (stuck, _no_one_reads) =
        memory::pair(memory::Config { queue_packets: 4, ..memory::Config::default() });
    let (right, to_right) = memory::pair(memory::Config::default());
    let (gone, gone_end) = memory::pair(memory::Config::default());
    let devices = Several::new()
        .device("stuck", stuck)
        .device("right", to_right)
        .device("gone", gone)
        .route("stuck", "10.1.0.0/16".parse().unwrap())
        .route("right", "10.2.0.0/16".parse().unwrap());
    let handle = devices.handle();
    let stack = Stack::builder().address("10.2.0.1/16".parse().unwrap()).device(devices).spawn().unwrap();
    let peer = Stack::builder().address("10.2.0.9/16".parse().unwrap()).device(right).spawn().unwrap();
    drop(gone_end);
    settle().await;
    assert_eq!(handle.devices(), ["stuck", "right"]);

    let (socket, bound) = (stack.udp(addr("10.2.0.1:0")).unwrap(), peer.udp(addr("10.2.0.9:7")).unwrap());
    for _ in 0..1000 {
        socket.send_to(&[0; 1000], addr("10.1.0.9:7")).await.unwrap();
        settle().await;
    }
    socket.send_to(b"through", addr("10.2.0.9:7")).await.unwrap();
    settle().await;
    assert_eq!(bound.try_recv(&mut [0; 9]).unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn numbers_and_times_may_be_the_greatest() {
    let (left, right) = memory::pair(memory::Config::default());
    let most = |builder: ackclock::StackBuilder| {
        builder
            .memory_budget(usize::MAX)
            .connections_max(usize::MAX)
            .other_packets(usize::MAX)
            .echo_replies(u32::MAX)
            .flight_recorder(usize::MAX)
            .close_timeout(Duration::MAX)
    };
    let client = most(host("10.0.0.1/24", "fd00::1/64").device(left)).spawn().unwrap();
    let server = most(host("10.0.0.2/24", "fd00::2/64").device(right)).spawn().unwrap();
    let (stream, peer) = between(&client, &server).await;
    stream.set_linger(Some(Duration::MAX)).unwrap();
    stream.set_user_timeout(Some(Duration::MAX)).unwrap();
    drop(stream);
    let draining = tokio::spawn(async move { server.drain(Duration::MAX).await });
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert!(!draining.is_finished());
    drop(peer);
    assert_eq!(draining.await.unwrap().unwrap(), 0);
    client.shutdown().await;
}
