//! UDP sockets: what a program that knows `tokio::net::UdpSocket` relies on.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock::{Codepoint, Stack, UdpSocket, UdpSocketError, UdpTransmit};
use ackclock_device::memory;
use ackclock_wire::{IpPacket, IpPayload};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadBuf, Ready};
use tokio::time::timeout;

use crate::beside::{Wire, datagram};
use crate::support::{addr, connection, host, hosts, kind, settle};

/// A client's socket connected to a server's, and the latter.
async fn pair(client: &Stack, server: &Stack) -> (UdpSocket, UdpSocket) {
    let bound = server.udp(addr("10.0.0.2:7")).unwrap();
    let connected = client.udp(addr("0.0.0.0:0")).unwrap();
    connected.connect(addr("10.0.0.2:7")).await.unwrap();
    (connected, bound)
}

#[tokio::test]
async fn datagrams_go_both_ways_whole_and_over_both_families() {
    let hosts = hosts();
    for (server_addr, any) in [("10.0.0.2:7", "0.0.0.0:0"), ("[fd00::2]:7", "[::]:0")] {
        let server = UdpSocket::bind(&hosts.server, addr(server_addr)).await.unwrap();
        let client = UdpSocket::bind(&hosts.client, addr(any)).await.unwrap();
        let mut buf = [0; 2000];
        for len in [0, 1, 1000, client.payload_max(addr(server_addr).ip())] {
            let data = vec![7; len];
            assert_eq!(client.send_to(&data, addr(server_addr)).await.unwrap(), len);
            let (got, from) = server.recv_from(&mut buf).await.unwrap();
            assert_eq!(buf[..got], data[..]);
            assert_eq!(from.port(), client.local_addr().unwrap().port());
            server.send_to(&buf[..got], from).await.unwrap();
            assert_eq!(client.recv_from(&mut buf).await.unwrap(), (len, addr(server_addr)));
        }
        assert_eq!(server.local_addr().unwrap(), addr(server_addr));
    }
    let counters = hosts.server.counters();
    assert_eq!((counters.udp_received, counters.udp_sent), (8, 8));
}

#[tokio::test]
async fn a_connected_socket_has_a_peer_and_hears_it_alone() {
    let hosts = hosts();
    let (client, server) = pair(&hosts.client, &hosts.server).await;
    assert_eq!(client.peer_addr().unwrap(), addr("10.0.0.2:7"));
    assert_eq!(client.local_addr().unwrap().ip(), addr("10.0.0.1:0").ip());
    assert_eq!(kind(server.peer_addr()), ErrorKind::NotConnected);
    assert_eq!(kind(server.send(b"to whom?").await), ErrorKind::NotConnected);

    client.send(b"question").await.unwrap();
    let mut buf = [0; 100];
    let (_, peer) = server.recv_from(&mut buf).await.unwrap();
    let stranger = hosts.server.udp(addr("10.0.0.2:8")).unwrap();
    stranger.send_to(b"forged", peer).await.unwrap();
    server.send_to(b"answer", peer).await.unwrap();
    let len = client.recv(&mut buf).await.unwrap();
    assert_eq!(&buf[..len], b"answer");
    assert_eq!(kind(client.try_recv(&mut buf)), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn peek_leaves_what_it_shows_and_a_short_buffer_cuts() {
    let hosts = hosts();
    let (client, server) = pair(&hosts.client, &hosts.server).await;
    client.send(b"hello").await.unwrap();
    let mut buf = [0; 3];
    assert_eq!(server.peek(&mut buf).await.unwrap(), 3);
    assert_eq!(server.try_peek_from(&mut buf).unwrap().0, 3);
    server.readable().await.unwrap();
    assert_eq!(server.recv(&mut buf).await.unwrap(), 3);
    assert_eq!(&buf, b"hel");
    assert_eq!(kind(server.try_recv(&mut buf)), ErrorKind::WouldBlock);
    client.send(b"grows").await.unwrap();
    server.readable().await.unwrap();
    let mut grown = Vec::new();
    assert_eq!(server.try_recv_buf(&mut grown).unwrap(), 5);
    assert_eq!(grown, b"grows");
}

#[tokio::test]
async fn peeking_shows_the_sender_and_polls_too() {
    let hosts = hosts();
    let (client, server) = pair(&hosts.client, &hosts.server).await;
    assert_eq!(kind(server.try_peek_sender()), ErrorKind::WouldBlock);
    client.send(b"hello").await.unwrap();
    let from = client.local_addr().unwrap();
    assert_eq!(server.peek_sender().await.unwrap(), from);
    assert_eq!(server.try_peek_sender().unwrap(), from);
    assert_eq!(poll_fn(|cx| server.poll_peek_sender(cx)).await.unwrap(), from);
    let mut buf = [0; 9];
    assert_eq!(server.try_peek(&mut buf).unwrap(), 5);
    let mut buf = ReadBuf::new(&mut buf);
    poll_fn(|cx| server.poll_peek(cx, &mut buf)).await.unwrap();
    assert_eq!(buf.filled(), b"hello");
    let mut grown = b"> ".to_vec();
    assert_eq!(server.recv_buf_from(&mut grown).await.unwrap(), (5, from));
    client.send(b", again").await.unwrap();
    assert_eq!(server.recv_buf(&mut grown).await.unwrap(), 7);
    assert_eq!(grown, b"> hello, again");
}

#[tokio::test]
async fn readiness_says_what_is_possible_and_waits_for_it() {
    let hosts = hosts();
    let (client, server) = pair(&hosts.client, &hosts.server).await;
    let both = Interest::READABLE | Interest::WRITABLE;
    assert_eq!(server.ready(both).await.unwrap(), Ready::WRITABLE);
    let mut buf = [0; 9];
    let receive = server.try_io(Interest::READABLE, || panic!("it is not readable"));
    assert_eq!(kind(receive.map(|never: usize| never)), ErrorKind::WouldBlock);
    let waiting = async { server.ready(Interest::READABLE).await.unwrap() };
    let (ready, sent) = tokio::join!(waiting, client.send(b"hello"));
    assert_eq!((ready, sent.unwrap()), (Ready::READABLE, 5));
    assert_eq!(server.ready(both).await.unwrap(), both_ready());
    let receive = server.try_io(Interest::READABLE, || server.try_recv(&mut buf));
    assert_eq!(receive.unwrap(), 5);
    let receive = server.async_io(Interest::READABLE, || server.try_recv(&mut buf));
    let (received, _) = tokio::join!(receive, client.send(b"hello"));
    assert_eq!(received.unwrap(), 5);

    client.connect(addr("10.0.0.2:9")).await.unwrap();
    client.send(b"anyone?").await.unwrap();
    assert_eq!(client.ready(Interest::READABLE).await.unwrap(), Ready::READABLE);
    assert!(client.ready(Interest::READABLE | Interest::ERROR).await.unwrap().is_error());
    assert_eq!(client.take_error().unwrap().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
}

fn both_ready() -> Ready {
    Ready::READABLE | Ready::WRITABLE
}

#[tokio::test]
async fn names_are_unique_and_free_again_once_a_socket_is_dropped() {
    let hosts = hosts();
    let first = hosts.server.udp(addr("10.0.0.2:7")).unwrap();
    assert_eq!(kind(hosts.server.udp(addr("10.0.0.2:7"))), ErrorKind::AddrInUse);
    assert_eq!(kind(hosts.server.udp(addr("10.0.0.3:7"))), ErrorKind::AddrNotAvailable);
    let any = hosts.server.udp(addr("0.0.0.0:7")).unwrap();
    assert_eq!(any.local_addr().unwrap(), addr("0.0.0.0:7"));
    assert_eq!(hosts.server.info().udp_sockets, 2);
    drop(first);
    hosts.server.udp(addr("10.0.0.2:7")).unwrap();
    // TCP has ports of its own.
    hosts.server.listen(addr("10.0.0.2:7")).unwrap();
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_with_the_reason() {
    let hosts = hosts();
    let socket = hosts.client.udp(addr("0.0.0.0:0")).unwrap();
    let error = socket.send_to(&[0; 1473], addr("10.0.0.2:7")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(matches!(error.downcast(), Ok(UdpSocketError::TooLong { max: 1472 })));
    for wrong in ["0.0.0.0:7", "224.0.0.1:7", "10.0.0.2:0"] {
        assert_eq!(kind(socket.send_to(b"x", addr(wrong)).await), ErrorKind::InvalidInput, "{wrong}");
    }
    let v4_only = Stack::builder().address("10.0.0.9/24".parse().unwrap());
    let (device, _other) = memory::pair(memory::Config::default());
    let v4_only = v4_only.device(device).route("10.0.0.0/8".parse().unwrap()).spawn().unwrap();
    let socket = v4_only.udp(addr("0.0.0.0:0")).unwrap();
    assert_eq!(kind(socket.send_to(b"x", addr("192.0.2.1:7")).await), ErrorKind::NetworkUnreachable);
    assert_eq!(kind(socket.connect(addr("[fd00::2]:7")).await), ErrorKind::NetworkUnreachable);
}

#[tokio::test]
async fn a_port_without_a_socket_refuses_a_connected_socket_once() {
    let hosts = hosts();
    for (to, any) in [("10.0.0.2:9", "0.0.0.0:0"), ("[fd00::2]:9", "[::]:0")] {
        let client = hosts.client.udp(addr(any)).unwrap();
        client.connect(addr(to)).await.unwrap();
        client.send(b"anyone?").await.unwrap();
        let mut buf = [0; 100];
        assert_eq!(kind(client.recv(&mut buf).await), ErrorKind::ConnectionRefused);
        assert_eq!(kind(client.try_recv(&mut buf)), ErrorKind::WouldBlock, "the error is reported once");
        client.send(b"still?").await.unwrap();
        settle().await;
        let error = client.take_error().unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(client.take_error().unwrap().is_none());
    }
    let unconnected = hosts.client.udp(addr("0.0.0.0:0")).unwrap();
    unconnected.send_to(b"anyone?", addr("10.0.0.2:9")).await.unwrap();
    settle().await;
    assert_eq!(kind(unconnected.try_recv(&mut [0; 9])), ErrorKind::WouldBlock);
    assert_eq!(hosts.server.counters().icmp_errors_sent, 5);
    assert_eq!(hosts.server.counters().dropped_udp_unbound, 5);
    assert_eq!(hosts.client.counters().icmp_delivered, 5);
}

#[tokio::test(start_paused = true)]
async fn port_unreachable_is_limited_and_can_be_turned_off() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    for _ in 0..20 {
        wire.send(&datagram("10.0.0.1:99", b"x")).await;
    }
    let errors = wire.take();
    assert_eq!(errors.len(), 6);
    let ip = IpPacket::parse(&errors[0]).unwrap();
    let IpPayload::Icmp4(message) = ip.payload else { panic!("not ICMP") };
    assert_eq!((message[0], message[1]), (3, 3));
    assert!(message[8..].starts_with(&datagram("10.0.0.1:99", b"x")[..28]));
    assert_eq!(stack.counters().dropped_icmp_limited, 14);
    tokio::time::advance(Duration::from_secs(2)).await;
    for _ in 0..5 {
        wire.send(&datagram("10.0.0.1:99", b"x")).await;
    }
    assert_eq!(wire.take().len(), 2);

    let (silent, mut wire) = Wire::of(|builder| builder.port_unreachable(false));
    wire.send(&datagram("10.0.0.1:99", b"x")).await;
    assert_eq!(wire.take().len(), 0);
    assert_eq!(silent.counters().dropped_udp_unbound, 1);
}

#[tokio::test]
async fn nothing_is_answered_that_is_damaged_or_for_someone_else() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    let mut damaged = datagram("10.0.0.1:99", b"data");
    *damaged.last_mut().unwrap() ^= 1;
    wire.send(&damaged).await;
    wire.send(&datagram("10.0.0.77:99", b"data")).await;
    wire.send(&datagram("10.0.0.255:99", b"data")).await;
    wire.send(&datagram("224.0.0.1:99", b"data")).await;
    let counters = stack.counters();
    assert_eq!((counters.dropped_udp_checksum, counters.dropped_not_local), (1, 3));
    assert_eq!(wire.take().len(), 0);
}

#[tokio::test]
async fn a_full_socket_drops_and_counts_and_other_sockets_go_on() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    let (full, other) = (stack.udp(addr("10.0.0.1:7")).unwrap(), stack.udp(addr("10.0.0.1:8")).unwrap());
    for _ in 0..300 {
        wire.send(&datagram("10.0.0.1:7", &[0; 1000])).await;
    }
    let fit = (256 << 10) / 1128;
    assert_eq!(stack.counters().dropped_udp_full, 300 - fit);
    wire.send(&datagram("10.0.0.1:8", b"here")).await;
    assert_eq!(other.try_recv(&mut [0; 9]).unwrap(), 4);
    let before = stack.info().memory_used;
    while full.try_recv(&mut [0; 1000]).is_ok() {}
    assert!(before > 200_000 && stack.info().memory_used < 2000, "what is read is given back");
}

#[tokio::test]
async fn the_memory_budget_bounds_all_sockets_together() {
    let (stack, mut wire) = Wire::of(|builder| builder.memory_budget(100_000));
    let sockets: Vec<_> = (1..=4).map(|port| stack.udp(SocketAddr::from(([10, 0, 0, 1], port)))).collect();
    for port in (1..=4).cycle().take(200) {
        wire.send(&datagram(&format!("10.0.0.1:{port}"), &[0; 1000])).await;
    }
    let info = stack.info();
    assert!(info.memory_used <= 100_000 && info.memory_used > 98_000, "{info:?}");
    assert_eq!(stack.counters().udp_received, 88);
    drop(sockets);
    assert_eq!(stack.info().memory_used, 0);
}

#[tokio::test]
async fn a_sender_without_room_waits_for_the_device() {
    let (left, right) = memory::pair(memory::Config { queue_packets: 4, ..memory::Config::default() });
    let stack = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let socket = stack.udp(addr("0.0.0.0:9")).unwrap();
    settle().await;
    let to = addr("10.0.0.2:7");
    let sent = (0..10_000).take_while(|_| socket.try_send_to(&[0; 1000], to).is_ok()).count();
    assert!((200..300).contains(&sent), "{sent}: four on the cable, 256 KiB in the socket");
    assert_eq!(kind(socket.try_send_to(b"x", to)), ErrorKind::WouldBlock);
    assert!(timeout(Duration::from_millis(20), socket.writable()).await.is_err());
    let peer = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    let bound = peer.udp(to).unwrap();
    timeout(Duration::from_secs(5), socket.writable()).await.unwrap().unwrap();
    socket.try_send_to(b"now", to).unwrap();
    let mut received = 0;
    while timeout(Duration::from_millis(100), bound.recv(&mut [0; 1500])).await.is_ok() {
        received += 1;
    }
    assert_eq!(received as u64 + peer.counters().dropped_udp_full, sent as u64 + 1);
}

#[tokio::test]
async fn several_datagrams_are_sent_in_one_call_and_received_in_one() {
    let hosts = hosts();
    let (client, server) = pair(&hosts.client, &hosts.server).await;
    let data: Vec<u8> = (0..10_500_u32).map(|n| n as u8).collect();
    let transmit =
        UdpTransmit { segment_size: Some(1000), ecn: Codepoint::Ect0, ..UdpTransmit::new(&data, None) };
    assert_eq!(client.send_transmit(&transmit).await.unwrap(), 10_500);
    settle().await;
    let mut buf = vec![0; 65_536];
    let meta = server.recv_meta(&mut buf).await.unwrap();
    assert_eq!((meta.len, meta.stride, meta.ecn), (10_500, 1000, Codepoint::Ect0));
    assert_eq!(buf[..10_500], data);
    assert_eq!(meta.to, addr("10.0.0.2:7"));
    assert_eq!(hosts.server.counters().udp_received, 11);
    for (size, len) in [(0, 10), (1, 65), (1473, 2000)] {
        let transmit = UdpTransmit { segment_size: Some(size), ..UdpTransmit::new(&data[..len], None) };
        assert_eq!(kind(client.try_send_transmit(&transmit)), ErrorKind::InvalidInput, "{size}");
    }
}

#[tokio::test]
async fn any_destination_is_heard_and_answered_from_what_was_dialled() {
    let (left, right) = memory::pair(memory::Config::default());
    let client = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let proxy = Stack::builder().device(right).spawn().unwrap();
    let any = proxy.udp_any().unwrap();
    let mut buf = [0; 100];
    for dialled in ["203.0.113.7:53", "[2001:db8::7]:443"] {
        let socket = client.udp(SocketAddr::new(addr(dialled).ip(), 0)).err();
        assert!(socket.is_some(), "it is not an address of the client's");
        let socket = client.udp(addr("0.0.0.0:0")).unwrap();
        socket.connect(addr(dialled)).await.unwrap();
        socket.send(b"hello").await.unwrap();
        let meta = any.recv_meta(&mut buf).await.unwrap();
        assert_eq!(meta.to, addr(dialled));
        assert_eq!(kind(any.try_send_to(b"from where?", meta.from)), ErrorKind::AddrNotAvailable);
        let answer = UdpTransmit { from: Some(meta.to), ..UdpTransmit::new(b"answer", Some(meta.from)) };
        any.send_transmit(&answer).await.unwrap();
        assert_eq!(socket.recv(&mut buf).await.unwrap(), 6);
    }
    let other =
        UdpTransmit { from: Some(addr("10.0.0.9:1")), ..UdpTransmit::new(b"x", Some(addr("10.0.0.2:7"))) };
    let bound = client.udp(addr("10.0.0.1:7")).unwrap();
    assert_eq!(kind(bound.try_send_transmit(&other)), ErrorKind::InvalidInput, "not from another's address");
}

#[tokio::test(start_paused = true)]
async fn an_own_address_is_reached_by_datagrams_too() {
    let (stack, mut wire) = Wire::of(|builder| builder.address("fe80::1/64".parse().unwrap()));
    let mut buf = [0; 9];
    for (own, no_one) in
        [("10.0.0.1:7", "10.0.0.1:8"), ("[fd00::1]:7", "[fd00::1]:8"), ("[fe80::1]:7", "[fe80::1]:8")]
    {
        let server = stack.udp(addr(own)).unwrap();
        let client = stack.udp(addr("0.0.0.0:0")).unwrap();
        client.connect(addr(own)).await.unwrap();
        client.send(b"hello").await.unwrap();
        let (len, from) = server.recv_from(&mut buf).await.unwrap();
        assert_eq!((&buf[..len], from), (&b"hello"[..], client.local_addr().unwrap()));
        server.send_to(b"answer", from).await.unwrap();
        assert_eq!(client.recv(&mut buf).await.unwrap(), 6);
        client.connect(addr(no_one)).await.unwrap();
        client.send(b"anyone?").await.unwrap();
        assert_eq!(kind(client.recv(&mut buf).await), ErrorKind::ConnectionRefused);
    }
    assert_eq!(wire.take().len(), 0);
}

#[tokio::test]
async fn datagrams_and_streams_share_a_device() {
    let hosts = hosts();
    let (mut client_stream, mut server_stream) = connection(&hosts).await;
    let (client, server) = pair(&hosts.client, &hosts.server).await;
    let writing = tokio::spawn(async move {
        client_stream.write_all(&[1; 2_000_000]).await.unwrap();
        client_stream.shutdown().await.unwrap();
    });
    let sending = tokio::spawn(async move {
        for _ in 0..500 {
            client.send(&[2; 500]).await.unwrap();
            tokio::task::yield_now().await;
        }
        client
    });
    let receiving = tokio::spawn(async move {
        let mut received = 0;
        while timeout(Duration::from_secs(1), server.recv(&mut [0; 600])).await.is_ok() {
            received += 1;
        }
        received
    });
    let mut read = Vec::new();
    server_stream.read_to_end(&mut read).await.unwrap();
    assert_eq!(read.len(), 2_000_000);
    writing.await.unwrap();
    drop(sending.await.unwrap());
    let received: u64 = receiving.await.unwrap();
    assert!(received > 400, "{received} of 500; the cable may have dropped some when it was full");
}

#[tokio::test]
async fn a_socket_fails_with_the_stack_and_who_waits_is_woken() {
    let hosts = hosts();
    let socket = hosts.client.udp(addr("0.0.0.0:0")).unwrap();
    let waiting = tokio::spawn(async move { (kind(socket.recv(&mut [0; 9]).await), socket) });
    settle().await;
    hosts.client.shutdown().await;
    let (error, socket) = timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
    assert_eq!(error, ErrorKind::NetworkDown);
    assert_eq!(kind(socket.try_send_to(b"x", addr("10.0.0.2:7"))), ErrorKind::NetworkDown);
    assert_eq!(kind(hosts.client.udp(addr("0.0.0.0:0"))), ErrorKind::NetworkDown);
}

#[tokio::test]
async fn the_time_to_live_is_set_for_each_socket() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    let socket = stack.udp(addr("10.0.0.1:7")).unwrap();
    assert_eq!(socket.ttl().unwrap(), 64);
    socket.set_ttl(3).unwrap();
    assert_eq!(kind(socket.set_ttl(0)), ErrorKind::InvalidInput);
    socket.send_to(b"x", addr("10.0.0.2:7")).await.unwrap();
    settle().await;
    assert_eq!(IpPacket::parse(&wire.take()[0]).unwrap().ttl, 3);
}

#[tokio::test]
async fn the_traffic_class_is_set_for_each_socket_and_ecn_for_each_datagram() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    let socket = stack.udp(addr("0.0.0.0:7")).unwrap();
    assert_eq!(socket.tos_v4().unwrap(), 0);
    // Expedited forwarding.
    socket.set_tos_v4(46 << 2).unwrap();
    assert_eq!(
        (socket.tclass_v6().unwrap(), kind(socket.set_tclass_v6(256))),
        (184, ErrorKind::InvalidInput)
    );
    for to in ["10.0.0.2:7", "[fd00::2]:7"] {
        socket.send_to(b"x", addr(to)).await.unwrap();
        let marked = UdpTransmit { ecn: Codepoint::Ect0, ..UdpTransmit::new(b"x", Some(addr(to))) };
        socket.send_transmit(&marked).await.unwrap();
    }
    settle().await;
    let classes: Vec<u8> =
        wire.take().iter().map(|packet| IpPacket::parse(packet).unwrap().traffic_class).collect();
    assert_eq!(classes, [184, 186, 184, 186]);
}

/// As on Linux with one interface: any of its addresses stands for it in joins and leaves. A foreign address
/// leaves nothing.
#[tokio::test]
async fn a_group_is_left_at_any_address_of_the_stack_and_at_no_other() {
    let hosts = hosts();
    let socket = hosts.client.udp(addr("0.0.0.0:5000")).unwrap();
    let (group, unspecified, own, other) =
        ([239, 1, 2, 3].into(), [0; 4].into(), [10, 0, 0, 1].into(), [10, 0, 0, 9].into());
    for joined_at in [unspecified, own] {
        for left_at in [unspecified, own] {
            socket.join_multicast_v4(group, joined_at).unwrap();
            for again in [unspecified, own] {
                assert_eq!(kind(socket.join_multicast_v4(group, again)), ErrorKind::AddrInUse);
            }
            assert_eq!(kind(socket.leave_multicast_v4(group, other)), ErrorKind::AddrNotAvailable);
            socket.leave_multicast_v4(group, left_at).unwrap();
            assert_eq!(kind(socket.leave_multicast_v4(group, left_at)), ErrorKind::AddrNotAvailable);
        }
    }
    assert_eq!(kind(socket.join_multicast_v4(group, other)), ErrorKind::AddrNotAvailable);
}
