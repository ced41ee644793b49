//! Beside TCP: other packets, the loopback within a stack, echo.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::{
    ChecksumAt, ChecksumState, OtherError, OtherPacket, PingPolicy, ReassemblyConfig, Stack, StackBuilder,
    Unreachable,
};
use ackclock_device::memory::{self, MemoryDevice};
use ackclock_device::{Device, ReceiveBatch};
use ackclock_wire::{FlowLabel, IpPacket, IpPayload, Segment, TxPacket, UdpHeader, checksum, write_udp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::support::{Virtual, addr, host, kind, settle};

/// The wire of a stack: what the test sends and takes there.
pub(crate) struct Wire(MemoryDevice);

impl Wire {
    /// A stack at `10.0.0.1` and `fd00::1`, and its wire.
    pub(crate) fn of(adjust: impl FnOnce(StackBuilder) -> StackBuilder) -> (Stack, Self) {
        let (left, right) = memory::pair(memory::Config { gso: true, ..memory::Config::default() });
        (adjust(host("10.0.0.1/24", "fd00::1/64")).device(left).spawn().unwrap(), Self(right))
    }

    /// Sends a packet and lets the stack take it.
    pub(crate) async fn send(&mut self, packet: &[u8]) {
        self.send_as(packet, ChecksumState::Complete).await;
    }

    async fn send_as(&mut self, packet: &[u8], checksum: ChecksumState) {
        self.send_with(packet, checksum, None).await;
    }

    async fn send_with(&mut self, packet: &[u8], checksum: ChecksumState, segment_size: Option<NonZeroU16>) {
        let transport_offset = if packet[0] >> 4 == 4 { 20 } else { 40 };
        // The headers of IP and TCP stand in front of what is cut.
        let (header, payload) = packet.split_at(packet.len().min(usize::from(transport_offset) + 20));
        let payload = [payload, &[]];
        let packet = TxPacket { header, transport_offset, payload, segment_size, checksum };
        self.0.send(&packet).unwrap();
        settle().await;
    }

    /// The packets that the stack has sent since the last call.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        let mut batch = ReceiveBatch::new(1024, 4 << 20);
        match self.0.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch) {
            Poll::Ready(received) => drop(received.unwrap()),
            Poll::Pending => return Vec::new(),
        }
        batch.iter().map(|(packet, _)| packet.to_vec()).collect()
    }
}

/// A datagram from `10.0.0.9` or `fd00::9`, port 9, as a whole packet.
pub(crate) fn datagram(to: &str, payload: &[u8]) -> Vec<u8> {
    let dst = addr(to);
    let src = addr(if dst.is_ipv4() { "10.0.0.9:9" } else { "[fd00::9]:9" });
    let header = UdpHeader { src, dst, ttl: 64, traffic_class: 0, flow_label: FlowLabel::NONE };
    write_udp(&header, payload).unwrap()
}

/// An echo request to the stack.
fn echo_request(v6: bool, data: &[u8]) -> Vec<u8> {
    echo_request_to(if v6 { "[fd00::1]:7" } else { "10.0.0.1:7" }, data)
}

/// An echo request to the address of this socket.
pub(crate) fn echo_request_to(to: &str, data: &[u8]) -> Vec<u8> {
    let mut packet = datagram(to, data);
    let v6 = addr(to).is_ipv6();
    let start = if v6 { 40 } else { 20 };
    packet[start..start + 8].copy_from_slice(&[if v6 { 128 } else { 8 }, 0, 0, 0, 0x12, 0x34, 0, 1]);
    let len = packet.len() - start;
    let ip = IpPacket::parse(&packet).unwrap();
    let pseudo = if v6 { checksum::pseudo_header(ip.src, ip.dst, 58, len) } else { checksum::Sum::ZERO };
    let sum = pseudo.plus_bytes(&packet[start..]).checksum();
    packet[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    packet[if v6 { 6 } else { 9 }] = if v6 { 58 } else { 1 };
    if !v6 {
        packet[10..12].fill(0);
        let sum = checksum::sum(&packet[..20]).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

fn message(packet: &[u8]) -> (IpAddr, IpAddr, &[u8]) {
    let ip = IpPacket::parse(packet).unwrap();
    let (IpPayload::Icmp4(message) | IpPayload::Icmp6(message)) = ip.payload else { panic!("not ICMP") };
    (ip.src, ip.dst, message)
}

#[tokio::test]
async fn what_is_not_tcp_comes_out_of_the_channel_and_can_be_sent_from_it() {
    let (stack, mut wire) = Wire::of(|builder| builder.other_packets(8));
    let (sender, mut receiver) = stack.other_packets().unwrap();
    assert!(stack.other_packets().is_none(), "there is one channel");
    assert_eq!(kind(receiver.try_recv()), ErrorKind::WouldBlock);

    let packet = datagram("10.0.0.77:53", b"a question");
    wire.send(&packet).await;
    assert_eq!(receiver.recv().await.unwrap(), OtherPacket::new(packet));

    let answer = datagram("203.0.113.5:53", b"an answer");
    sender.send(&OtherPacket::new(answer.clone())).await.unwrap();
    settle().await;
    assert_eq!(wire.take(), [answer]);
    let counters = stack.counters();
    assert_eq!((counters.others_received, counters.others_sent), (1, 1));
    assert_eq!(counters.dropped_other_protocol, 0);
}

#[tokio::test]
async fn a_full_channel_drops_and_counts_what_arrives_and_refuses_what_is_sent() {
    let (left, right) = memory::pair(memory::Config { queue_packets: 4, ..memory::Config::default() });
    let stack = host("10.0.0.1/24", "fd00::1/64").device(left).other_packets(3).spawn().unwrap();
    let mut wire = Wire(right);
    let (sender, mut receiver) = stack.other_packets().unwrap();
    for number in 0..5 {
        wire.send(&datagram("10.0.0.77:53", &[number])).await;
    }
    assert_eq!(stack.counters().dropped_other_full, 2);
    for number in 0..3 {
        assert_eq!(receiver.try_recv().unwrap().bytes.last(), Some(&number), "the first to come stay");
    }
    assert_eq!(kind(receiver.try_recv()), ErrorKind::WouldBlock);

    // Four on the cable, three in the channel.
    let packet = OtherPacket::new(datagram("10.0.0.77:53", b"out"));
    let sent = (0..10).take_while(|_| sender.try_send(&packet).is_ok()).count();
    assert_eq!(sent, 7);
    assert_eq!(kind(sender.try_send(&packet)), ErrorKind::WouldBlock);
    let waiting = tokio::spawn({
        let (sender, packet) = (sender.clone(), packet.clone());
        async move { sender.send(&packet).await }
    });
    settle().await;
    assert!(!waiting.is_finished(), "there is no room");
    let mut taken = wire.take().len();
    settle().await;
    taken += wire.take().len();
    timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap().unwrap();
    settle().await;
    assert_eq!(taken + wire.take().len(), 8, "each packet leaves once");
}

#[tokio::test]
async fn an_unfinished_checksum_is_labelled_and_finished_when_it_is_sent_on() {
    let (stack, mut wire) = Wire::of(|builder| builder.other_packets(8));
    let (sender, mut receiver) = stack.other_packets().unwrap();
    let whole = datagram("10.0.0.77:53", b"data");
    let mut unfinished = whole.clone();
    let ip = IpPacket::parse(&whole).unwrap();
    let sum = checksum::pseudo_header(ip.src, ip.dst, 17, whole.len() - 20).fold();
    unfinished[26..28].copy_from_slice(&sum.to_be_bytes());

    wire.send_as(&unfinished, ChecksumState::Partial(ChecksumAt::udp(20))).await;
    let received = receiver.recv().await.unwrap();
    assert_eq!(received.meta.checksum, ChecksumState::Partial(ChecksumAt::udp(20)));
    received.whole(|packet| assert_eq!(packet, whole));
    sender.send(&received).await.unwrap();
    settle().await;
    assert_eq!(wire.take(), [whole]);
}

/// A TCP segment from `10.0.0.9` to `10.0.0.77` whose checksum field holds the sum of the pseudo-header.
fn unfinished_segment(payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0, 9, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0];
    segment.extend_from_slice(payload);
    let header = datagram("10.0.0.77:80", &segment[8..])[..20].to_vec();
    let mut packet = [header, segment].concat();
    packet[9] = 6;
    packet[10..12].fill(0);
    let sum = checksum::sum(&packet[..20]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let ip = IpPacket::parse(&packet).unwrap();
    let sum = checksum::pseudo_header(ip.src, ip.dst, 6, packet.len() - 20).fold();
    packet[36..38].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn segment(packet: &[u8]) -> Segment<'_> {
    let ip = IpPacket::parse(packet).unwrap();
    let IpPayload::Tcp(bytes) = ip.payload else { panic!("not TCP") };
    Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).expect("its checksum is whole and right")
}

#[tokio::test]
async fn a_segment_of_64_kb_is_labelled_and_comes_apart_into_whole_ones() {
    let (stack, mut wire) = Wire::of(|builder| builder.other_packets(8));
    let (sender, mut receiver) = stack.other_packets().unwrap();
    let payload: Vec<u8> = (0..5000_u32).map(|n| n as u8).collect();
    let packet = unfinished_segment(&payload);
    let size = NonZeroU16::new(1400).unwrap();
    wire.send_with(&packet, ChecksumState::Partial(ChecksumAt::tcp(20)), Some(size)).await;
    let received = receiver.recv().await.unwrap();
    let meta = received.meta;
    assert_eq!((meta.checksum, meta.segment_size), (ChecksumState::Partial(ChecksumAt::tcp(20)), Some(size)));
    let mut whole = Vec::new();
    received.whole(|packet| whole.extend_from_slice(segment(packet).payload));
    assert_eq!(whole, payload);
    sender.send(&received).await.unwrap();
    settle().await;
    let sent = wire.take();
    let lengths: Vec<usize> = sent.iter().map(|packet| segment(packet).payload.len()).collect();
    assert_eq!(lengths, [1400, 1400, 1400, 800]);
}

#[tokio::test]
async fn an_unfinished_checksum_inside_a_tunnelled_packet_is_labelled_too() {
    let (stack, mut wire) = Wire::of(|builder| builder.other_packets(8));
    let (sender, mut receiver) = stack.other_packets().unwrap();
    let inner = unfinished_segment(b"data");
    // IP in IP (RFC 2003): protocol 4.
    let mut outer = datagram("10.0.0.88:4", &inner[8..])[..20].to_vec();
    outer[9] = 4;
    outer[10..12].fill(0);
    let sum = checksum::sum(&outer).checksum();
    outer[10..12].copy_from_slice(&sum.to_be_bytes());
    let state = ChecksumState::Partial(ChecksumAt::tcp(40));
    wire.send_as(&[outer, inner].concat(), state).await;
    let received = receiver.recv().await.unwrap();
    assert_eq!(received.meta.checksum, state);
    sender.send(&received).await.unwrap();
    settle().await;
    assert_eq!(segment(&wire.take()[0][20..]).payload, b"data");
}

#[tokio::test]
async fn what_is_no_packet_or_too_long_is_refused() {
    let (stack, _wire) = Wire::of(|builder| builder.other_packets(8));
    let (sender, receiver) = stack.other_packets().unwrap();
    let error = |bytes: Vec<u8>| sender.try_send(&OtherPacket::new(bytes)).unwrap_err();
    for bytes in [vec![], vec![0x45; 19], vec![0x60; 40], vec![7; 100]] {
        assert!(matches!(error(bytes).downcast(), Ok(OtherError::Malformed)));
    }
    let long = error(datagram("10.0.0.2:1", &[0; 1473]));
    assert_eq!(long.kind(), ErrorKind::InvalidInput);
    assert!(matches!(long.downcast(), Ok(OtherError::TooLong { mtu: 1500 })));
    drop(receiver);
    assert_eq!(
        kind(sender.try_send(&OtherPacket::new(datagram("10.0.0.2:1", b"")))),
        ErrorKind::NotConnected
    );
}

#[tokio::test]
async fn without_a_channel_such_packets_are_counted_as_ever() {
    let (stack, mut wire) = Wire::of(|builder| builder.echo_replies(0));
    assert!(stack.other_packets().is_none());
    let mut unknown = datagram("10.0.0.1:1", b"data");
    unknown[9] = 253;
    unknown[10..12].fill(0);
    let sum = checksum::sum(&unknown[..20]).checksum();
    unknown[10..12].copy_from_slice(&sum.to_be_bytes());
    wire.send(&unknown).await;
    wire.send(&echo_request(false, b"ping")).await;
    let counters = stack.counters();
    assert_eq!((counters.dropped_other_protocol, counters.dropped_icmp_other), (1, 1));
    assert_eq!(wire.take(), Vec::<Vec<u8>>::new());
}

#[tokio::test]
async fn a_receiver_ends_with_the_stack() {
    let (stack, _wire) = Wire::of(|builder| builder.other_packets(8));
    let (sender, mut receiver) = stack.other_packets().unwrap();
    let receiving = tokio::spawn(async move { receiver.recv().await });
    settle().await;
    stack.shutdown().await;
    assert_eq!(receiving.await.unwrap(), None);
    assert_eq!(kind(sender.send(&OtherPacket::default()).await), ErrorKind::NetworkDown);
}

#[tokio::test(start_paused = true)]
async fn an_own_address_is_reached_from_the_stack_itself() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    for own in ["10.0.0.1:80", "[fd00::1]:80"] {
        let listener = stack.listen(addr(own)).unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, peer) = listener.accept().await.unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).await.unwrap();
            stream.write_all(&received).await.unwrap();
            stream.shutdown().await.unwrap();
            (received.len(), peer)
        });
        let started = Instant::now();
        let stream = stack.connect(addr(own)).await.unwrap();
        let local = stream.local_addr().unwrap();
        assert_eq!(local.ip(), addr(own).ip());
        let (mut reader, mut writer) = stream.into_split();
        let writing = tokio::spawn(async move {
            writer.write_all(&[7; 10_000_000]).await.unwrap();
            writer.shutdown().await.unwrap();
        });
        let mut echoed = Vec::new();
        reader.read_to_end(&mut echoed).await.unwrap();
        writing.await.unwrap();
        assert!(echoed.len() == 10_000_000 && echoed.iter().all(|&byte| byte == 7));
        assert_eq!(serving.await.unwrap(), (10_000_000, local));
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
    assert_eq!(wire.take(), Vec::<Vec<u8>>::new(), "nothing of it was on the wire");
    let counters = stack.counters();
    assert!(counters.packets_looped > 100, "{counters:?}");
    assert_eq!(counters.dropped_looped, 0);
}

#[tokio::test(start_paused = true)]
async fn a_link_local_address_and_one_added_later_are_reached_from_the_stack_itself() {
    let (stack, mut wire) = Wire::of(|builder| builder.address("fe80::1/64".parse().unwrap()));
    stack.add_address("10.0.0.7/24".parse().unwrap()).unwrap();
    for own in ["[fe80::1]:80", "10.0.0.7:80"] {
        let listener = stack.listen(addr(own)).unwrap();
        let (client, server) = tokio::join!(stack.connect(addr(own)), listener.accept());
        let (mut client, (mut server, from)) = (client.unwrap(), server.unwrap());
        // RFC 6724 §5 rule 1: an address is reached from itself.
        assert_eq!((from.ip(), client.local_addr().unwrap()), (addr(own).ip(), from));
        client.write_all(b"forth").await.unwrap();
        server.read_exact(&mut [0; 5]).await.unwrap();
        server.write_all(b"back").await.unwrap();
        client.read_exact(&mut [0; 4]).await.unwrap();
    }
    assert_eq!(wire.take().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_own_port_on_which_no_one_listens_refuses_at_once() {
    let (stack, _wire) = Wire::of(|builder| builder);
    let started = Instant::now();
    assert_eq!(kind(stack.connect(addr("10.0.0.1:80")).await), ErrorKind::ConnectionRefused);
    assert!(started.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_connects_to_itself_reads_what_it_writes() {
    let (stack, _wire) = Wire::of(|builder| builder);
    let socket = stack.socket();
    socket.bind(addr("10.0.0.1:5000")).unwrap();
    let connecting = socket.connect(addr("10.0.0.1:5000"));
    // RFC 9293 §3.5: its SYN meets itself, which is a simultaneous open.
    let mut stream = timeout(Duration::from_secs(5), connecting).await.unwrap().unwrap();
    assert_eq!(stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut read = [0; 5];
    timeout(Duration::from_secs(5), stream.read_exact(&mut read)).await.unwrap().unwrap();
    assert_eq!(&read, b"hello");
}

#[tokio::test(start_paused = true)]
async fn an_own_address_of_a_stack_that_someone_else_drives_is_reached() {
    let clock = Arc::<Virtual>::default();
    let (stack, mut port) = crate::support::detached(&clock, 1);
    let listener = stack.listen(addr("10.0.0.1:80")).unwrap();
    let limits = ackclock::Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
    let program = tokio::spawn(async move {
        let (client, server) = tokio::join!(stack.connect(addr("10.0.0.1:80")), listener.accept());
        let (mut client, mut server) = (client.unwrap(), server.unwrap().0);
        client.write_all(b"hello").await.unwrap();
        let mut read = [0; 5];
        server.read_exact(&mut read).await.unwrap();
        read
    });
    for _ in 0..20 {
        assert!(!port.poll_transmit(ackclock::Instant::ZERO, limits, |_| panic!("on the wire")));
        settle().await;
    }
    assert_eq!(&program.await.unwrap(), b"hello", "and no time has passed");
}

#[tokio::test]
async fn a_forged_packet_from_an_own_address_does_not_reach_a_connection_within() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    let before = stack.counters().dropped_martian_source;
    let mut forged = echo_request(false, b"ping");
    forged[12..16].copy_from_slice(&[10, 0, 0, 1]);
    forged[10..12].fill(0);
    let sum = checksum::sum(&forged[..20]).checksum();
    forged[10..12].copy_from_slice(&sum.to_be_bytes());
    wire.send(&forged).await;
    assert_eq!(stack.counters().dropped_martian_source, before + 1);
    assert_eq!(stack.counters().packets_looped, 0);
}

#[tokio::test]
async fn an_echo_request_is_answered_with_its_data() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    for v6 in [false, true] {
        let request = echo_request(v6, b"some data");
        wire.send(&request).await;
        let replies = wire.take();
        assert_eq!(replies.len(), 1);
        let (src, dst, asked) = message(&request);
        let (from, to, answered) = message(&replies[0]);
        assert_eq!((from, to), (dst, src));
        assert_eq!(answered[0], if v6 { 129 } else { 0 });
        assert_eq!(answered[4..], asked[4..]);
    }
    assert_eq!(stack.counters().echoes_answered, 2);
}

#[tokio::test(start_paused = true)]
async fn echo_replies_are_limited_and_can_be_turned_off() {
    let (stack, mut wire) = Wire::of(|builder| builder.echo_replies(100));
    for _ in 0..30 {
        wire.send(&echo_request(false, b"x")).await;
    }
    assert_eq!(wire.take().len(), 10, "a tenth of a second's worth at once");
    assert_eq!(stack.counters().dropped_icmp_limited, 20);
    tokio::time::advance(Duration::from_secs(1)).await;
    wire.send(&echo_request(false, b"x")).await;
    assert_eq!(wire.take().len(), 1);

    let (_silent, mut wire) = Wire::of(|builder| builder.echo_replies(0));
    wire.send(&echo_request(false, b"x")).await;
    assert_eq!(wire.take().len(), 0);
}

const ELSEWHERE: [&str; 2] = ["203.0.113.7:7", "[2001:db8::7]:7"];

#[tokio::test]
async fn a_ping_to_any_address_is_answered_where_that_is_asked_for() {
    let (stack, mut wire) = Wire::of(|builder| builder.pings(PingPolicy::Any));
    assert!(stack.pings().is_none(), "the stack answers by itself");
    for to in ELSEWHERE {
        wire.send(&echo_request_to(to, b"some data")).await;
        let replies = wire.take();
        let (from, _, answered) = message(&replies[0]);
        assert_eq!((replies.len(), from, &answered[8..]), (1, addr(to).ip(), &b"some data"[..]));
    }
    let (_own, mut wire) = Wire::of(|builder| builder);
    wire.send(&echo_request_to(ELSEWHERE[0], b"x")).await;
    assert_eq!(wire.take().len(), 0, "by default it answers for its own addresses");
}

#[tokio::test]
async fn the_program_answers_pings_to_other_addresses_or_does_not() {
    let (stack, mut wire) = Wire::of(|builder| builder.pings(PingPolicy::Deferred));
    let mut pings = stack.pings().unwrap();
    assert!(stack.pings().is_none(), "there is one receiver");
    assert_eq!(kind(pings.try_recv()), ErrorKind::WouldBlock);
    for to in ELSEWHERE {
        let request = echo_request_to(to, b"some data");
        let peer = message(&request).0;
        wire.send(&request).await;
        let ping = pings.recv().await.unwrap();
        assert_eq!((ping.peer_addr(), ping.local_addr()), (peer, addr(to).ip()));
        assert_eq!((ping.identifier(), ping.sequence(), ping.data()), (0x1234, 1, &b"some data"[..]));
        assert_eq!(wire.take().len(), 0);
        assert!(ping.reply());
        settle().await;
        let replies = wire.take();
        assert_eq!((replies.len(), message(&replies[0]).0), (1, addr(to).ip()));

        wire.send(&request).await;
        assert!(pings.try_recv().unwrap().unreachable(Unreachable::Host));
        settle().await;
        let errors = wire.take();
        let (_, dst, error) = message(&errors[0]);
        assert_eq!((errors.len(), dst, &error[8..]), (1, peer, &request[..]));

        // Dropped: no answer.
        wire.send(&request).await;
        drop(pings.try_recv().unwrap());
        settle().await;
        assert_eq!(wire.take().len(), 0);
    }
    assert_eq!(stack.counters().pings_deferred, 6);
    drop(pings);
    wire.send(&echo_request_to(ELSEWHERE[0], b"x")).await;
    assert_eq!((stack.counters().pings_deferred, stack.counters().dropped_icmp_other), (6, 1));
}

#[tokio::test]
async fn a_receiver_of_pings_ends_with_the_stack() {
    let (stack, mut wire) = Wire::of(|builder| builder.pings(PingPolicy::Deferred));
    let mut pings = stack.pings().unwrap();
    wire.send(&echo_request_to(ELSEWHERE[0], b"x")).await;
    let held = pings.recv().await.unwrap();
    let receiving = tokio::spawn(async move { pings.recv().await.is_none() });
    settle().await;
    stack.shutdown().await;
    assert!(receiving.await.unwrap());
    assert!(!held.reply(), "its device is gone");
}

#[tokio::test]
async fn a_request_with_a_wrong_checksum_or_to_another_host_is_not_answered() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    let mut wrong = echo_request(false, b"x");
    *wrong.last_mut().unwrap() ^= 1;
    wire.send(&wrong).await;
    assert_eq!(stack.counters().dropped_malformed_icmp, 1);
    let mut elsewhere = echo_request(false, b"x");
    elsewhere[19] = 255;
    elsewhere[10..12].fill(0);
    let sum = checksum::sum(&elsewhere[..20]).checksum();
    elsewhere[10..12].copy_from_slice(&sum.to_be_bytes());
    wire.send(&elsewhere).await;
    assert_eq!(wire.take().len(), 0, "not to a broadcast address either");
}

/// A datagram in two fragments; the second begins after 800 bytes.
fn fragments(to: &str, payload: &[u8]) -> [Vec<u8>; 2] {
    let whole = datagram(to, payload);
    let v4 = |from: usize, to: usize, field: u16| {
        let mut piece = [&whole[..20], &whole[from..to]].concat();
        let len = u16::try_from(piece.len()).unwrap();
        piece[2..4].copy_from_slice(&len.to_be_bytes());
        piece[6..8].copy_from_slice(&field.to_be_bytes());
        piece[10..12].fill(0);
        let sum = checksum::sum(&piece[..20]).checksum();
        piece[10..12].copy_from_slice(&sum.to_be_bytes());
        piece
    };
    let v6 = |from: usize, to: usize, field: u16| {
        let [high, low] = field.to_be_bytes();
        let mut piece = [&whole[..40], &[17, 0, high, low, 0, 0, 0, 1], &whole[from..to]].concat();
        let len = u16::try_from(piece.len() - 40).unwrap();
        piece[4..6].copy_from_slice(&len.to_be_bytes());
        piece[6] = 44;
        piece
    };
    if whole[0] >> 4 == 4 {
        [v4(20, 820, 0x2000), v4(820, whole.len(), 100)]
    } else {
        [v6(40, 840, 1), v6(840, whole.len(), 800)]
    }
}

#[tokio::test(start_paused = true)]
async fn fragments_are_put_together_where_that_is_asked_for() {
    let (stack, mut wire) = Wire::of(|builder| builder.reassembly(ReassemblyConfig::default()));
    let socket = stack.udp(addr("0.0.0.0:7")).unwrap();
    let payload: Vec<u8> = (0..1400_u32).map(|n| n as u8).collect();
    let mut buf = [0; 2000];
    for to in ["10.0.0.1:7", "[fd00::1]:7"] {
        let [first, second] = fragments(to, &payload);
        wire.send(&second).await;
        assert_eq!(kind(socket.try_recv(&mut buf)), ErrorKind::WouldBlock);
        wire.send(&first).await;
        let len = socket.try_recv(&mut buf).unwrap();
        assert_eq!(buf[..len], payload);
    }
    let counters = stack.counters();
    assert_eq!((counters.fragments_received, counters.packets_reassembled), (4, 2));
    assert_eq!(stack.info().memory_used, 0);
}

#[tokio::test(start_paused = true)]
async fn the_source_hears_of_fragments_whose_others_did_not_come() {
    let (stack, mut wire) = Wire::of(|builder| builder.reassembly(ReassemblyConfig::default()));
    for (to, kind) in [("10.0.0.1:7", [11, 1]), ("[fd00::1]:7", [3, 1])] {
        let [first, second] = fragments(to, &[7; 1400]);
        wire.send(&first).await;
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert_eq!(wire.take().len(), 0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let errors = wire.take();
        let (_, _, error) = message(&errors[0]);
        assert_eq!((errors.len(), &error[..2]), (1, &kind[..]));
        // Without the first, there is no one to tell.
        wire.send(&second).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(wire.take().len(), 0);
    }
    assert_eq!(stack.counters().dropped_reassembly_time, 4);
}

#[tokio::test]
async fn fragments_are_refused_and_counted_unless_they_are_asked_for() {
    let (stack, mut wire) = Wire::of(|builder| builder);
    let socket = stack.udp(addr("0.0.0.0:7")).unwrap();
    for fragment in fragments("10.0.0.1:7", &[7; 1400]) {
        wire.send(&fragment).await;
    }
    assert_eq!(stack.counters().dropped_fragment, 2);
    assert_eq!(kind(socket.try_recv(&mut [0; 9])), ErrorKind::WouldBlock);

    let (stack, mut wire) = Wire::of(|builder| builder.other_packets(8));
    let (_, mut receiver) = stack.other_packets().unwrap();
    let fragments = fragments("10.0.0.1:7", &[7; 1400]);
    wire.send(&fragments[0]).await;
    assert_eq!(
        receiver.recv().await.unwrap().bytes,
        fragments[0],
        "they reach the receiver of other packets"
    );
    assert_eq!(stack.counters().dropped_fragment, 0);
}
