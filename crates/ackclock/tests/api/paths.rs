//! Paths that carry less than the device: what datagrams learn of them.

use std::io::{self, ErrorKind};
use std::time::Duration;

use ackclock::{Stack, UdpSocket, UdpSocketError};
use ackclock_wire::{IpPacket, checksum};

use crate::beside::{Wire, datagram};
use crate::support::{addr, settle};

/// An ICMP message to the stack that says of a packet of its own that the next link carries `mtu` bytes (RFC
/// 1191 §4, RFC 4443 §3.2).
fn too_big(mtu: u32, about: &[u8]) -> Vec<u8> {
    let v6 = about[0] >> 4 == 6;
    let kind = if v6 { [2, 0] } else { [3, 4] };
    let quoted = &about[..about.len().min(600)];
    let mut message = [&kind[..], &[0, 0], &mtu.to_be_bytes(), quoted].concat();
    // The first eight bytes of the message take the place of a UDP header.
    let to = if v6 { "[fd00::1]:0" } else { "10.0.0.1:0" };
    let mut packet = datagram(to, &message[8..]);
    let start = if v6 { 40 } else { 20 };
    let ip = IpPacket::parse(&packet).unwrap();
    let pseudo = checksum::pseudo_header(ip.src, ip.dst, 58, message.len());
    let sum = if v6 { pseudo } else { checksum::Sum::ZERO }.plus_bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    packet[start..].copy_from_slice(&message);
    packet[if v6 { 6 } else { 9 }] = if v6 { 58 } else { 1 };
    if !v6 {
        packet[10..12].fill(0);
        let sum = checksum::sum(&packet[..20]).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

const PEERS: [&str; 2] = ["10.0.0.9:9", "[fd00::9]:9"];

async fn connected(stack: &Stack, peer: &str) -> UdpSocket {
    let socket = stack.udp(addr("0.0.0.0:0")).unwrap();
    socket.connect(addr(peer)).await.unwrap();
    socket
}

fn inner<T: std::fmt::Debug>(result: io::Result<T>) -> UdpSocketError {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    error.downcast().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_connected_socket_is_told_once_that_its_datagram_was_too_long_for_the_path() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    for (peer, headers) in PEERS.into_iter().zip([28, 48]) {
        let socket = connected(&stack, peer).await;
        let other = stack.udp(addr("0.0.0.0:0")).unwrap();
        let (before, max) = (1500 - headers, 1400 - headers);
        socket.send(&vec![1; before]).await.unwrap();
        settle().await;
        let sent = wire.take();
        wire.send(&too_big(1400, &sent[0])).await;
        assert_eq!(inner(socket.send(b"short").await), UdpSocketError::PathTooSmall { max });
        socket.send(b"short").await.unwrap();
        assert_eq!(socket.payload_max(addr(peer).ip()), max);
        assert_eq!(inner(socket.send(&vec![1; max + 1]).await), UdpSocketError::TooLong { max });
        assert_eq!(
            inner(other.send_to(&vec![1; max + 1], addr(peer)).await),
            UdpSocketError::TooLong { max }
        );
        assert_eq!(socket.send(&vec![1; max]).await.unwrap(), max);
        let elsewhere = if headers == 28 { "10.0.0.10:9" } else { "[fd00::10]:9" };
        assert_eq!(other.send_to(&vec![1; before], addr(elsewhere)).await.unwrap(), before);
        // A task that waits to receive learns of it, too.
        settle().await;
        let sent = wire.take();
        let waiting = tokio::spawn(async move { (inner(socket.recv(&mut [0; 9]).await), socket) });
        settle().await;
        wire.send(&too_big(1300, &sent[1])).await;
        let (error, socket) = waiting.await.unwrap();
        assert_eq!(error, UdpSocketError::PathTooSmall { max: 1300 - headers });
        // After ten minutes longer ones are tried again.
        tokio::time::sleep(Duration::from_secs(601)).await;
        assert_eq!(socket.send(&vec![1; before]).await.unwrap(), before);
        settle().await;
        wire.take();
    }
}

#[tokio::test]
async fn a_router_that_tells_no_mtu_means_the_next_plateau() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    let socket = connected(&stack, PEERS[0]).await;
    socket.send(&[1; 1472]).await.unwrap();
    settle().await;
    let sent = wire.take();
    wire.send(&too_big(0, &sent[0])).await;
    assert_eq!(inner(socket.send(b"x").await), UdpSocketError::PathTooSmall { max: 1492 - 28 });
}

/// RFC 8201 §4: what tells less than 1280 bytes, or none, is discarded. RFC 1191 allows less than 552 in
/// IPv4, which RFC 5927 §7 does not believe: 552 are the nearest.
#[tokio::test]
async fn a_router_that_tells_less_than_is_believed_means_the_least_in_ipv4_and_nothing_in_ipv6() {
    for (peer, told, max) in [
        (PEERS[0], 551, 552 - 28),
        (PEERS[0], 68, 552 - 28),
        (PEERS[1], 1280, 1280 - 48),
        (PEERS[1], 1279, 1500 - 48),
        (PEERS[1], 0, 1500 - 48),
    ] {
        let (stack, mut wire) = Wire::of(|builder| builder);
        let socket = connected(&stack, peer).await;
        socket.send(&vec![1; socket.payload_max(addr(peer).ip())]).await.unwrap();
        settle().await;
        let sent = wire.take();
        wire.send(&too_big(told, &sent[0])).await;
        assert_eq!(socket.payload_max(addr(peer).ip()), max, "{peer}, {told} told");
    }
}

#[tokio::test]
async fn what_a_forger_could_say_as_well_is_not_believed() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    for peer in PEERS {
        let socket = connected(&stack, peer).await;
        let unconnected = stack.udp(addr("0.0.0.0:0")).unwrap();
        let max = socket.payload_max(addr(peer).ip());
        socket.send(&vec![1; max]).await.unwrap();
        socket.send(b"short").await.unwrap();
        unconnected.send_to(&vec![1; max], addr(peer)).await.unwrap();
        settle().await;
        let sent = wire.take();
        let mut other_port = sent[0].clone();
        let port = if peer.starts_with('[') { 42 } else { 22 };
        other_port[port + 1] ^= 1;
        let lies = [
            ("no less than before", too_big(1500, &sent[0])),
            ("no less than the packet", too_big(1400, &sent[1])),
            ("of a socket without a peer", too_big(1400, &sent[2])),
            ("of another peer", too_big(1400, &other_port)),
        ];
        for (lie, message) in lies {
            wire.send(&message).await;
            assert_eq!(socket.payload_max(addr(peer).ip()), max, "{lie}");
            assert_eq!(socket.send(&vec![1; max]).await.unwrap(), max, "{lie}");
        }
        settle().await;
        wire.take();
    }
}
