//! UDP sockets, and the channel of other packets.

use std::io::ErrorKind;
use std::task::{Context, Waker};
use std::time::Duration;

use ackclock::{OtherPacket, Ping, PingPolicy, Stack, UdpSocket, UdpTransmit};
use ackclock_device::memory::{self, MemoryDevice};
use ackclock_device::{Device, ReceiveBatch};
use tokio::io::Interest;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{Cut, a_little_later, all_tasks_end, at_every_poll, leaves_nothing};
use crate::beside::{Wire, datagram, echo_request_to};
use crate::support::{addr, host, hosts, settle};

/// Runs `call` on a socket to which two datagrams come a little later; `call` gives the one it has taken, if
/// any. The rest stays.
async fn receives(call: impl AsyncFn(&Cut, &UdpSocket) -> Option<Vec<u8>>) {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let ours = hosts.client.udp(addr("10.0.0.1:9")).unwrap();
        let theirs = hosts.server.udp(addr("10.0.0.2:7")).unwrap();
        let talking = tokio::spawn(async move {
            for text in TEXTS {
                a_little_later().await;
                theirs.send_to(text, addr("10.0.0.1:9")).await.unwrap();
            }
        });
        let mut got: Vec<_> = call(cut, &ours).await.into_iter().collect();
        while got.len() < TEXTS.len() {
            let mut buf = [0; 16];
            let len = ours.recv(&mut buf).await.unwrap();
            got.push(buf[..len].to_vec());
        }
        assert_eq!(got, TEXTS);
        assert_eq!(ours.try_recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::WouldBlock);
        talking.await.unwrap();
        drop(ours);
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn receiving_loses_no_datagram() {
    receives(async |cut, socket| {
        let mut buf = [0; 16];
        let len = cut.at("udp::recv", socket.recv(&mut buf)).await?.unwrap();
        Some(buf[..len].to_vec())
    })
    .await;
    receives(async |cut, socket| {
        let mut buf = [0; 16];
        let (len, from) = cut.at("udp::recv_from", socket.recv_from(&mut buf)).await?.unwrap();
        assert_eq!(from, addr("10.0.0.2:7"));
        Some(buf[..len].to_vec())
    })
    .await;
    receives(async |cut, socket| {
        let mut buf = Vec::new();
        cut.at("udp::recv_buf", socket.recv_buf(&mut buf)).await?.unwrap();
        Some(buf)
    })
    .await;
    receives(async |cut, socket| {
        let mut buf = Vec::new();
        cut.at("udp::recv_buf_from", socket.recv_buf_from(&mut buf)).await?.unwrap();
        Some(buf)
    })
    .await;
    receives(async |cut, socket| {
        // No longer than one, so that it takes no two of them.
        let mut buf = [0; 3];
        let meta = cut.at("udp::recv_meta", socket.recv_meta(&mut buf)).await?.unwrap();
        Some(buf[..meta.len].to_vec())
    })
    .await;
    receives(async |cut, socket| {
        let mut buf = [0; 16];
        let io = socket.async_io(Interest::READABLE, || socket.try_recv(&mut buf));
        let len = cut.at("udp::async_io", io).await?.unwrap();
        Some(buf[..len].to_vec())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn looking_takes_no_datagram() {
    receives(async |cut, socket| {
        cut.at("udp::peek", socket.peek(&mut [0; 16])).await.transpose().unwrap();
        None
    })
    .await;
    receives(async |cut, socket| {
        cut.at("udp::peek_from", socket.peek_from(&mut [0; 16])).await.transpose().unwrap();
        None
    })
    .await;
    receives(async |cut, socket| {
        cut.at("udp::peek_sender", socket.peek_sender()).await.transpose().unwrap();
        None
    })
    .await;
    receives(async |cut, socket| {
        cut.at("udp::readable", socket.readable()).await.transpose().unwrap();
        None
    })
    .await;
    receives(async |cut, socket| {
        cut.at("udp::ready", socket.ready(Interest::READABLE)).await.transpose().unwrap();
        None
    })
    .await;
}

/// Runs `call` on a socket that has no room, behind a device that begins to take packets a little later;
/// `call` gets the next datagram and says whether it was sent. Each leaves once, in order.
async fn sends(call: impl AsyncFn(&Cut, &UdpSocket, &[u8]) -> bool) {
    at_every_poll(async |cut| {
        let (stack, wire) = narrow();
        let socket = stack.udp(addr("0.0.0.0:0")).unwrap();
        socket.connect(addr("10.0.0.9:9")).await.unwrap();
        let mut sent = fill(|number| socket.try_send(&number.to_be_bytes()).map(drop)).await;
        let taking = take_all(wire);
        sent += u32::from(call(cut, &socket, &sent.to_be_bytes()).await);
        settle().await;
        assert_eq!(taking.await.unwrap(), (0..sent).collect::<Vec<_>>());
        drop(socket);
        ends(stack).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sending_sends_the_whole_datagram_or_none() {
    sends(async |cut, socket, next| {
        cut.at("udp::send", socket.send(next)).await.transpose().unwrap().is_some()
    })
    .await;
    sends(async |cut, socket, next| {
        let send = socket.send_to(next, addr("10.0.0.9:9"));
        cut.at("udp::send_to", send).await.transpose().unwrap().is_some()
    })
    .await;
    sends(async |cut, socket, next| {
        let transmit = UdpTransmit::new(next, None);
        cut.at("udp::send_transmit", socket.send_transmit(&transmit)).await.transpose().unwrap().is_some()
    })
    .await;
    sends(async |cut, socket, _| {
        cut.at("udp::writable", socket.writable()).await.transpose().unwrap();
        false
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn binding_and_connecting_leave_the_port_free() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        drop(cut.at("udp::bind", UdpSocket::bind(&hosts.client, addr("10.0.0.1:9"))).await);
        let socket = hosts.client.udp(addr("10.0.0.1:9")).unwrap();
        drop(socket);
        leaves_nothing(hosts).await;
    })
    .await;
    at_every_poll(async |cut| {
        let hosts = hosts();
        let socket = hosts.client.udp(addr("10.0.0.1:9")).unwrap();
        cut.at("udp::connect", socket.connect(addr("10.0.0.2:7"))).await.transpose().unwrap();
        assert_eq!(socket.peer_addr().is_ok(), cut.polls > 0);
        drop(socket);
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_channel_of_other_packets_loses_none() {
    at_every_poll(async |cut| {
        let (stack, mut wire) = Wire::of(|builder| builder.other_packets(8));
        let (sender, mut receiver) = stack.other_packets().unwrap();
        let packets = TEXTS.map(|text| datagram("10.0.0.77:53", text));
        let talking = tokio::spawn(async move {
            for text in TEXTS {
                a_little_later().await;
                wire.send(&datagram("10.0.0.77:53", text)).await;
            }
            wire
        });
        let mut got = Vec::new();
        got.extend(cut.at("others::recv", receiver.recv()).await.map(Option::unwrap));
        while got.len() < packets.len() {
            got.push(receiver.recv().await.unwrap());
        }
        assert!(got.iter().map(|packet| &packet.bytes[..]).eq(packets.iter().map(|packet| &packet[..])));
        drop((talking.await.unwrap(), sender, receiver));
        ends(stack).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_receiver_of_pings_loses_none() {
    at_every_poll(async |cut| {
        let (stack, mut wire) = Wire::of(|builder| builder.pings(PingPolicy::Deferred));
        let mut pings = stack.pings().unwrap();
        let talking = tokio::spawn(async move {
            for text in TEXTS {
                a_little_later().await;
                wire.send(&echo_request_to("10.0.0.77:7", text)).await;
            }
            wire
        });
        let mut got = Vec::new();
        got.extend(cut.at("pings::recv", pings.recv()).await.map(Option::unwrap));
        while got.len() < TEXTS.len() {
            got.push(pings.recv().await.unwrap());
        }
        assert!(got.iter().map(Ping::data).eq(TEXTS));
        drop((talking.await.unwrap(), got, pings));
        ends(stack).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_channel_of_other_packets_sends_each_once_or_not_at_all() {
    at_every_poll(async |cut| {
        let (stack, wire) = narrow();
        let (sender, receiver) = stack.other_packets().unwrap();
        let packet = |number: u32| OtherPacket::new(datagram("10.0.0.77:53", &number.to_be_bytes()));
        let mut sent = fill(|number| sender.try_send(&packet(number))).await;
        let taking = take_all(wire);
        let next = packet(sent);
        sent += u32::from(cut.at("others::send", sender.send(&next)).await.transpose().unwrap().is_some());
        settle().await;
        assert_eq!(taking.await.unwrap(), (0..sent).collect::<Vec<_>>());
        drop((sender, receiver));
        ends(stack).await;
    })
    .await;
}

/// A stack behind a device that holds two packets.
fn narrow() -> (Stack, MemoryDevice) {
    let (left, right) = memory::pair(memory::Config { queue_packets: 2, ..memory::Config::default() });
    let builder = host("10.0.0.1/24", "fd00::1/64").other_packets(3);
    (builder.device(left).spawn().unwrap(), right)
}

/// Sends numbers until there is no room; how many.
async fn fill(try_send: impl Fn(u32) -> std::io::Result<()>) -> u32 {
    let (mut sent, mut refused) = (0, 0);
    while refused < 2 {
        match try_send(sent) {
            Ok(()) => (sent, refused) = (sent + 1, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => refused += 1,
            Err(error) => panic!("{error}"),
        }
        settle().await;
    }
    sent
}

/// Begins a little later to take what the stack sends, until it has sent nothing for long; the numbers in the
/// datagrams.
fn take_all(mut wire: MemoryDevice) -> JoinHandle<Vec<u32>> {
    tokio::spawn(async move {
        a_little_later().await;
        let (mut numbers, mut idle) = (Vec::new(), 0);
        while idle < 100 {
            let mut batch = ReceiveBatch::new(64, 1 << 18);
            let received = wire.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch);
            idle = if received.is_ready() { 0 } else { idle + 1 };
            numbers.extend(batch.iter().map(|(packet, _)| number(packet)));
            // At first at the finest grain.
            if numbers.len() < 100 && idle == 0 {
                tokio::task::yield_now().await;
            } else {
                sleep(Duration::from_millis(1)).await;
            }
        }
        numbers
    })
}

/// The number in a datagram over IPv4.
fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[28..32].try_into().unwrap())
}

/// Nothing is left of the stack once its last handle is dropped.
async fn ends(stack: Stack) {
    let info = stack.info();
    assert_eq!((info.memory_used, info.udp_sockets, info.connections), (0, 0, 0), "{info:?}");
    drop(stack);
    all_tasks_end().await;
}

const TEXTS: [&[u8]; 2] = [b"one", b"two"];
