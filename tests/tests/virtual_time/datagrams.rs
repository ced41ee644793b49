//! Traffic besides TCP on a simulated network: datagrams, echo, other packets, and a stack that reaches
//! itself.

use std::io::ErrorKind;
use std::time::Duration;

use ackclock::{OtherPacket, Stack};
use ackclock_sim::VirtualNetwork;
use ackclock_sim::scenario::Loss;
use ackclock_sim::units::Share;
use ackclock_wire::{IpPacket, IpPayload, checksum};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::support::{path, payload, two};

fn stacks(net: &mut VirtualNetwork) -> (Stack, Stack) {
    let with_others = |host: &str, net: &mut VirtualNetwork| {
        net.stack_with(host, |builder| Ok(builder.other_packets(64))).unwrap()
    };
    (with_others("a", net), with_others("b", net))
}

#[test]
fn a_datagram_and_its_answer_take_a_round_trip() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, server) = (net.stack("a").unwrap(), net.stack("b").unwrap());
    let addr = (net.lookup("b").unwrap(), 7).into();
    let took = net.run(async move {
        let socket = server.udp(addr).unwrap();
        tokio::spawn(async move {
            let mut buf = [0; 1500];
            while let Ok((len, peer)) = socket.recv_from(&mut buf).await {
                socket.send_to(&buf[..len], peer).await.unwrap();
            }
        });
        let socket = client.udp("0.0.0.0:0".parse().unwrap()).unwrap();
        socket.connect(addr).await.unwrap();
        let begun = Instant::now();
        socket.send(&[7; 972]).await.unwrap();
        assert_eq!(socket.recv(&mut [0; 1500]).await.unwrap(), 972);
        begun.elapsed()
    });
    // 1000 bytes at 10 Mbit/s take 0.8 ms, the path 20 ms, each way.
    assert_eq!(took.unwrap(), Duration::from_micros(2 * 20_800));
}

#[test]
fn a_path_that_loses_half_delivers_half() {
    let mut net = VirtualNetwork::new(&two(path().loss(Loss::Independent(Share::percent(50))))).unwrap();
    let (client, server) = (net.stack("a").unwrap(), net.stack("b").unwrap());
    let addr = (net.lookup("b").unwrap(), 7).into();
    let received = net.run(async move {
        let bound = server.udp(addr).unwrap();
        let sending = tokio::spawn(async move {
            let socket = client.udp("0.0.0.0:0".parse().unwrap()).unwrap();
            for _ in 0..1000 {
                socket.send_to(&[7; 100], addr).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let mut received = 0;
        while timeout(Duration::from_secs(1), bound.recv(&mut [0; 200])).await.is_ok() {
            received += 1;
        }
        sending.await.unwrap();
        received
    });
    let received = received.unwrap();
    assert!((430..570).contains(&received), "{received} of 1000");
}

#[test]
fn a_port_without_a_socket_refuses_after_a_round_trip() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, _server) = (net.stack("a").unwrap(), net.stack("b").unwrap());
    let addr = (net.lookup("b").unwrap(), 7).into();
    let took = net.run(async move {
        let socket = client.udp("0.0.0.0:0".parse().unwrap()).unwrap();
        socket.connect(addr).await.unwrap();
        let begun = Instant::now();
        socket.send(b"anyone?").await.unwrap();
        assert_eq!(socket.recv(&mut [0; 9]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        begun.elapsed()
    });
    let took = took.unwrap();
    assert!(took > Duration::from_millis(40) && took < Duration::from_millis(41), "{took:?}");
}

#[test]
fn a_program_pings_through_the_channel_of_other_packets() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, _server) = stacks(&mut net);
    let (here, there) = (net.lookup("a").unwrap(), net.lookup("b").unwrap());
    let took = net.run(async move {
        let (sender, mut receiver) = client.other_packets().unwrap();
        let begun = Instant::now();
        sender.send(&OtherPacket::new(echo_request(&octets(here), &octets(there)))).await.unwrap();
        let reply = receiver.recv().await.unwrap();
        let ip = IpPacket::parse(&reply.bytes).unwrap();
        let IpPayload::Icmp4(message) = ip.payload else { panic!("not ICMP") };
        assert_eq!((ip.src, message[0]), (there, 0));
        assert_eq!(&message[8..], b"ping");
        begun.elapsed()
    });
    let took = took.unwrap();
    assert!(took > Duration::from_millis(40) && took < Duration::from_millis(41), "{took:?}");
}

#[test]
fn a_stack_reaches_itself_without_the_network_and_in_no_time() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (stack, _other) = (net.stack("a").unwrap(), net.stack("b").unwrap());
    let addr = (net.lookup("a").unwrap(), 80).into();
    let took = net.run(async move {
        let listener = stack.listen(addr).unwrap();
        let bytes = payload(5_000_000);
        let sent = bytes.clone();
        let begun = Instant::now();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&sent).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let mut stream = stack.connect(addr).await.unwrap();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        assert!(read == bytes);
        assert_eq!(stack.counters().dropped_looped, 0);
        begun.elapsed()
    });
    let took = took.unwrap();
    assert!(took < Duration::from_millis(200), "{took:?}");
}

fn octets(addr: std::net::IpAddr) -> [u8; 4] {
    match addr {
        std::net::IpAddr::V4(addr) => addr.octets(),
        std::net::IpAddr::V6(_) => panic!("the scenario's hosts have IPv4 addresses"),
    }
}

fn echo_request(src: &[u8; 4], dst: &[u8; 4]) -> Vec<u8> {
    let mut message = [&[8, 0, 0, 0, 0, 1, 0, 1][..], b"ping"].concat();
    let sum = checksum::sum(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = [&[0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 1, 0, 0], &src[..], &dst[..], &message].concat();
    let sum = checksum::sum(&packet[..20]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}
