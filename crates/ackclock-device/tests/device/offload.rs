//! The virtio-net path against the kernel's TCP: whole 64 KB packets in both directions, unfinished
//! checksums.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU16;
use std::time::Duration;

use ackclock_device::{Device, OffloadMode, TunDevice};
use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta, TxPacket, gso};

use super::common::packets::{ACK, PSH, SYN, Tcp, TcpReceived, datagram_sum, parse_tcp, udp};
use super::common::{NAME, in_namespace, ip, open_configured, receive, send};

/// A connection to the kernel, opened by hand.
struct Connection {
    device: Box<dyn Device>,
    segment: Tcp<'static>,
    kernel: TcpStream,
}

impl Connection {
    async fn open(kernel: &'static str, own: &'static str, port: u16) -> Self {
        let mut device = open_configured(OffloadMode::On);
        let listener = TcpListener::bind((kernel, 7000)).unwrap();
        let mut segment =
            Tcp { src: own, dst: kernel, ports: (port, 7000), seq: 1000, ack: 0, flags: SYN, window: 0xffff };
        // MSS 1000, window scale 7.
        send(&mut *device, &segment.header(&[2, 4, 3, 232, 1, 3, 3, 7], &[])).await;
        let (answer, meta) = receive_tcp(&mut *device, port).await;
        assert_eq!((answer.flags, answer.ack), (SYN | ACK, 1001));
        assert_eq!(meta, RxMeta { checksum: unfinished(own), segment_size: None });
        assert!(!answer.checksum_whole);
        segment = Tcp { seq: 1001, ack: answer.seq.wrapping_add(1), flags: ACK, ..segment };
        send(&mut *device, &segment.header(&[], &[])).await;
        let (kernel, _) = listener.accept().unwrap();
        kernel.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Self { device, segment, kernel }
    }
}

/// The next segment for `port`. The kernel may still be busy with an earlier connection.
async fn receive_tcp(device: &mut dyn Device, port: u16) -> (TcpReceived, RxMeta) {
    let wanted = |tcp: &TcpReceived| tcp.dst_port == port;
    receive(device, |bytes, meta| parse_tcp(bytes).filter(wanted).map(|tcp| (tcp, meta))).await
}

/// The kernel's address, ours and our port, for each family.
const ENDS: [(&str, &str, u16); 2] = [("10.9.0.1", "10.9.0.2", 4000), ("fd09::1", "fd09::2", 4001)];

/// An unfinished TCP checksum, in a packet from or to `own`.
fn unfinished(own: &str) -> ChecksumState {
    ChecksumState::Partial(ChecksumAt::tcp(if own.contains(':') { 40 } else { 20 }))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[test]
fn the_kernel_sends_large_segments_whole() {
    in_namespace(|| async {
        for (kernel, own, port) in ENDS {
            let mut connection = Connection::open(kernel, own, port).await;
            let sent = pattern(100_000);
            connection.kernel.set_nonblocking(true).unwrap();
            let taken = connection.kernel.write(&sent).unwrap();
            let sent = &sent[..taken];
            let mut received = Vec::new();
            let mut largest = 0;
            while received.len() < sent.len() {
                let (tcp, meta) = receive_tcp(&mut *connection.device, port).await;
                assert_eq!(meta.checksum, unfinished(own));
                assert_eq!(meta.segment_size.is_some(), tcp.payload.len() > 1000, "cut by 1000");
                assert!(meta.segment_size.is_none_or(|size| size.get() == 1000));
                assert_eq!(tcp.seq, connection.segment.ack);
                largest = largest.max(tcp.payload.len());
                connection.segment.ack = tcp.seq.wrapping_add(u32::try_from(tcp.payload.len()).unwrap());
                received.extend(tcp.payload);
                send(&mut *connection.device, &connection.segment.header(&[], &[])).await;
            }
            assert!(received == sent);
            assert!(
                largest > 9000,
                "an initial window of ten segments came in one packet, then more: {largest}"
            );
            assert_eq!(connection.device.counters().receive_malformed, 0);
        }
    });
}

#[test]
fn the_kernel_takes_a_large_segment_whole() {
    in_namespace(|| async {
        for (kernel, own, port) in ENDS {
            let mut connection = Connection::open(kernel, own, port).await;
            let sent = pattern(60_000);
            let segment = Tcp { flags: ACK | PSH, ..connection.segment };
            let (first, second) = sent.split_at(1234);
            let packet = TxPacket {
                header: &segment.header_partial(&sent),
                transport_offset: if own.contains(':') { 40 } else { 20 },
                payload: [first, second],
                segment_size: NonZeroU16::new(1000),
                checksum: unfinished(own),
            };
            connection.device.send(&packet).unwrap();
            let mut received = vec![0; sent.len()];
            connection.kernel.read_exact(&mut received).unwrap();
            assert!(received == sent);
            // The SYN, the ACK, and one packet.
            assert_eq!(connection.device.counters().sent, 3);
            let (answer, _) = receive_tcp(&mut *connection.device, port).await;
            assert_eq!(answer.ack, 1001 + 60_000);
        }
    });
}

#[test]
fn an_unfinished_checksum_of_a_small_segment_is_finished() {
    in_namespace(|| async {
        let mut connection = Connection::open("10.9.0.1", "10.9.0.2", 4000).await;
        let packet = TxPacket {
            header: &connection.segment.header_partial(b"hello"),
            transport_offset: 20,
            payload: [b"hel", b"lo"],
            segment_size: None,
            checksum: unfinished("10.9.0.2"),
        };
        connection.device.send(&packet).unwrap();
        let mut received = [0; 5];
        connection.kernel.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"hello");
    });
}

#[test]
fn unfinished_checksums_of_udp_cross_both_ways() {
    in_namespace(|| async {
        let mut device = open_configured(OffloadMode::On);
        for (kernel, own, _) in ENDS {
            let start = if own.contains(':') { 40 } else { 20 };
            let checksum = ChecksumState::Partial(ChecksumAt::udp(start));
            let socket = UdpSocket::bind((kernel, 7000)).unwrap();
            socket.send_to(b"from the kernel", (own, 7000)).unwrap();
            let mut datagram = receive(&mut *device, |bytes, meta| {
                bytes.ends_with(b"from the kernel").then(|| (bytes.to_vec(), meta))
            })
            .await;
            assert_eq!(datagram.1, RxMeta { checksum, segment_size: None });
            // The kernel verifies this one, and would discard a wrong one.
            gso::finish_checksum(&mut datagram.0, ChecksumAt::udp(start));
            // The kernel chooses the IP header's identification.
            let expected = udp(kernel, own, b"from the kernel");
            assert_eq!(datagram.0[start.into()..], expected[start.into()..]);

            let mut answer = udp(own, kernel, b"to the kernel!!");
            let field = usize::from(start) + 6;
            // The sum of the pseudo-header is the same in both directions.
            let sum = datagram_sum(kernel, own, &answer[usize::from(start)..]);
            answer[field..field + 2].copy_from_slice(&sum);
            let (header, payload) = answer.split_at(usize::from(start) + 8);
            let packet = TxPacket {
                header,
                transport_offset: start,
                payload: [payload, &[]],
                segment_size: None,
                checksum,
            };
            device.send(&packet).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut received = [0; 64];
            let len = socket.recv(&mut received).unwrap();
            assert_eq!(&received[..len], b"to the kernel!!");
        }
    });
}

#[test]
fn a_plain_device_cuts_a_large_segment_in_software() {
    in_namespace(|| async {
        let mut device = open_configured(OffloadMode::Off);
        let listener = TcpListener::bind("10.9.0.1:7000").unwrap();
        let syn = Tcp {
            src: "10.9.0.2",
            dst: "10.9.0.1",
            ports: (4000, 7000),
            seq: 1000,
            ack: 0,
            flags: SYN,
            window: 0xffff,
        };
        send(&mut *device, &syn.header(&[], &[])).await;
        let (answer, meta) = receive_tcp(&mut *device, 4000).await;
        assert_eq!(meta, RxMeta::default());
        assert!(answer.checksum_whole);
        let segment = Tcp { seq: 1001, ack: answer.seq.wrapping_add(1), flags: ACK, ..syn };
        let sent = pattern(10_500);
        let packet = TxPacket {
            header: &segment.header_partial(&sent),
            transport_offset: 20,
            payload: [&sent, &[]],
            segment_size: NonZeroU16::new(1000),
            checksum: unfinished("10.9.0.2"),
        };
        device.send(&packet).unwrap();
        let (mut kernel, _) = listener.accept().unwrap();
        kernel.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut received = vec![0; sent.len()];
        kernel.read_exact(&mut received).unwrap();
        assert!(received == sent);
        assert_eq!(device.counters().sent, 1 + 11);
    });
}

#[test]
fn a_plain_device_gets_nothing_of_the_offload_an_earlier_one_has_asked_for() {
    in_namespace(|| async {
        ip("tuntap add dev tun0 mode tun");
        drop(open_configured(OffloadMode::On));
        let mut device = TunDevice::open(NAME).unwrap();
        let _listener = TcpListener::bind("10.9.0.1:7000").unwrap();
        let syn = Tcp {
            src: "10.9.0.2",
            dst: "10.9.0.1",
            ports: (4000, 7000),
            seq: 1000,
            ack: 0,
            flags: SYN,
            window: 0xffff,
        };
        send(&mut device, &syn.header(&[], &[])).await;
        let (answer, _) = receive_tcp(&mut device, 4000).await;
        assert!(answer.checksum_whole, "the kernel has finished the checksum");
    });
}
