use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

/// A packet that begins as one of IPv4 does.
fn packet(len: usize, number: u8) -> Vec<u8> {
    let mut packet = vec![number; len];
    packet[0] = 0x45;
    packet
}

fn prefixed(packet: &[u8]) -> Vec<u8> {
    [&(packet.len() as u32).to_be_bytes(), packet].concat()
}

async fn send(device: &mut impl Device, packet: &[u8]) {
    poll_fn(|cx| device.poll_send_ready(cx)).await.unwrap();
    device.send(&TxPacket::complete(packet)).unwrap();
}

/// The packets that the device receives at once.
async fn receive(device: &mut impl Device) -> io::Result<Vec<Vec<u8>>> {
    let mut batch = ReceiveBatch::new(64, 1 << 20);
    let received =
        timeout(LONG, poll_fn(|cx| device.poll_receive(cx, &mut batch))).await.expect("it comes")?;
    assert_eq!(received, batch.len());
    Ok(batch.iter().map(|(bytes, _)| bytes.to_vec()).collect())
}

/// This number of packets, in order.
async fn receive_all(device: &mut impl Device, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(receive(device).await.unwrap());
    }
    all
}

fn on_a_stream() -> (IpOver<PacketStream<DuplexStream>>, DuplexStream) {
    let (near, far) = tokio::io::duplex(4096);
    (IpOver::new(PacketStream::prefixed(near), 1400), far)
}

#[tokio::test]
async fn a_packet_crosses_a_stream_behind_its_length() {
    let (mut device, mut far) = on_a_stream();
    send(&mut device, &packet(20, 7)).await;
    device.flush().unwrap();
    let mut wire = [0; 24];
    far.read_exact(&mut wire).await.unwrap();
    assert_eq!((&wire[..4], &wire[4..]), (&[0, 0, 0, 20][..], &packet(20, 7)[..]));
    assert_eq!(device.counters().sent, 1);
}

#[tokio::test]
async fn packets_come_whole_wherever_the_stream_is_cut() {
    let (mut device, mut far) = on_a_stream();
    let packets: Vec<_> = (1..9).map(|number| packet(100 * usize::from(number), number)).collect();
    let bytes: Vec<u8> = packets.iter().flat_map(|packet| prefixed(packet)).collect();
    tokio::spawn(async move {
        for part in bytes.chunks(7) {
            far.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        far
    });
    assert_eq!(receive_all(&mut device, 8).await, packets);
}

#[tokio::test]
async fn what_is_no_packet_is_counted_and_what_follows_comes() {
    let (mut device, mut far) = on_a_stream();
    for bytes in [
        prefixed(&[]),
        prefixed(b"\x12 is neither 4 nor 6"),
        prefixed(&packet(3000, 1)),
        prefixed(&packet(9, 2)),
    ] {
        far.write_all(&bytes).await.unwrap();
    }
    assert_eq!(receive(&mut device).await.unwrap(), [packet(9, 2)]);
    assert_eq!((device.counters().receive_malformed, device.counters().received), (3, 1));
}

#[tokio::test]
async fn a_length_that_no_packet_has_ends_the_device_with_what_to_do() {
    let (mut device, mut far) = on_a_stream();
    far.write_all(&prefixed(&packet(60, 1))).await.unwrap();
    far.write_all(b"GET / HTTP/1.1").await.unwrap();
    assert_eq!(receive(&mut device).await.unwrap(), [packet(60, 1)], "what came before it counts");
    let error = receive(&mut device).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(
        error.to_string().contains("1195725856 bytes") && error.to_string().contains("four bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn a_stream_that_ends_ends_the_device_after_its_packets() {
    let (mut device, mut far) = on_a_stream();
    far.write_all(&prefixed(&packet(60, 1))).await.unwrap();
    drop(far);
    assert_eq!(receive(&mut device).await.unwrap(), [packet(60, 1)]);
    assert_eq!(receive(&mut device).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_sender_waits_for_a_slow_stream_and_nothing_is_lost() {
    let (mut device, far) = on_a_stream();
    let count = 1000;
    let reading = tokio::spawn(async move {
        let mut other = IpOver::new(PacketStream::prefixed(far), 1400);
        (receive_all(&mut other, count).await, other)
    });
    let mut waited = false;
    for number in 0..count {
        poll_fn(|cx| {
            let ready = device.poll_send_ready(cx);
            waited |= ready.is_pending();
            ready
        })
        .await
        .unwrap();
        device.send(&TxPacket::complete(&packet(1000, number as u8))).unwrap();
    }
    device.flush().unwrap();
    // The receiving task hands over the rest.
    let mut batch = ReceiveBatch::new(1, 0);
    let received = tokio::select! {
        received = reading => received.unwrap().0,
        _ = poll_fn(|cx| device.poll_receive(cx, &mut batch)) => unreachable!("nothing is sent back"),
    };
    assert!(waited, "4 KiB of stream and 64 KiB of queue do not hold a megabyte");
    assert!(received.iter().enumerate().all(|(number, bytes)| *bytes == packet(1000, number as u8)));
    assert_eq!((device.counters().sent, device.counters().send_no_room), (count as u64, 0));
}

#[tokio::test]
async fn who_does_not_wait_loses_packets_and_they_are_counted() {
    let (mut device, _far) = on_a_stream();
    for _ in 0..100 {
        device.send(&TxPacket::complete(&packet(1400, 1))).unwrap();
    }
    let Counters { sent, send_no_room, .. } = device.counters();
    // 64 KiB wait here, and one more packet began below that; the stream takes 4 KiB.
    assert!((45..=52).contains(&sent) && sent + send_no_room == 100, "{sent} {send_no_room}");
}

#[tokio::test]
async fn a_packet_that_is_longer_than_the_mtu_is_refused() {
    let (mut device, _far) = on_a_stream();
    device.send(&TxPacket::complete(&packet(1401, 1))).unwrap();
    assert_eq!((device.counters().send_refused, device.counters().sent), (1, 0));
}

/// A device as other crates make them: each read and each write is a packet.
#[derive(Debug)]
struct Whole {
    incoming: mpsc::Receiver<Vec<u8>>,
    outgoing: mpsc::Sender<Vec<u8>>,
}

impl AsyncRead for Whole {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.incoming.poll_recv(cx).map(|packet| {
            into.put_slice(&packet.unwrap_or_default());
            Ok(())
        })
    }
}

impl AsyncWrite for Whole {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // No test here fills the channel.
        self.outgoing.try_send(bytes.to_vec()).map_err(io::Error::other)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn each_call_of_a_device_of_another_crate_is_a_packet() {
    let ((to_device, incoming), (outgoing, mut from_device)) = (mpsc::channel(9), mpsc::channel(9));
    let mut device = IpOver::new(PacketStream::one_per_call(Whole { incoming, outgoing }), 1400);
    for number in 1..4 {
        send(&mut device, &packet(100, number)).await;
        to_device.send(packet(200, number)).await.unwrap();
    }
    for number in 1..4 {
        assert_eq!(from_device.recv().await.unwrap(), packet(100, number));
    }
    assert_eq!(receive_all(&mut device, 3).await, [1, 2, 3].map(|number| packet(200, number)));
    drop(to_device);
    assert_eq!(receive(&mut device).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[cfg(feature = "sink")]
#[tokio::test]
async fn a_codec_of_tokio_util_and_a_prefixed_stream_understand_each_other() {
    use tokio_util::codec::{Framed, LengthDelimitedCodec};
    let (near, far) = tokio::io::duplex(4096);
    let items = Items::<_, bytes::Bytes>::new(Framed::new(near, LengthDelimitedCodec::new()));
    let mut left = IpOver::new(items, 1400);
    let mut right = IpOver::new(PacketStream::prefixed(far), 1400);
    for number in 1..40 {
        let there = async {
            send(&mut left, &packet(1000, number)).await;
            left.flush().unwrap();
        };
        there.await;
        assert_eq!(receive(&mut right).await.unwrap(), [packet(1000, number)]);
        send(&mut right, &packet(500, number)).await;
        right.flush().unwrap();
        assert_eq!(receive(&mut left).await.unwrap(), [packet(500, number)]);
    }
    drop(right);
    assert_eq!(receive(&mut left).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[cfg(feature = "net")]
#[tokio::test]
async fn datagrams_without_a_receiver_are_lost_and_the_socket_goes_on() {
    use tokio::net::UdpSocket;
    let (near, far) =
        (UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let place = far.local_addr().unwrap();
    near.connect(place).await.unwrap();
    drop(far);
    let at_near = near.local_addr().unwrap();
    let mut device = IpOver::new(near, 1400);
    for number in 0..5 {
        send(&mut device, &packet(100, number)).await;
    }
    let far = UdpSocket::bind(place).await.unwrap();
    far.send_to(&packet(100, 9), at_near).await.unwrap();
    assert_eq!(receive(&mut device).await.unwrap(), [packet(100, 9)]);
    assert_eq!(device.counters().sent + device.counters().send_link_down, 5);
}

#[cfg(all(feature = "net", unix))]
#[tokio::test]
async fn frames_cross_a_datagram_socket_and_a_peer_that_is_gone_ends_the_device() {
    use tokio::net::UnixDatagram;
    let (near, far) = UnixDatagram::pair().unwrap();
    let mut device = EthernetOver::new(near, 1500).trusting_checksums();
    let header = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0];
    poll_fn(|cx| device.poll_send_ready(cx)).await.unwrap();
    device.send(&header, &TxPacket::complete(&packet(50, 7))).unwrap();
    let mut frame = [0; 100];
    let len = far.recv(&mut frame).await.unwrap();
    assert_eq!((&frame[..14], &frame[14..len]), (&header[..], &packet(50, 7)[..]));

    far.send(b"VFKT").await.unwrap();
    far.send(&frame[..len]).await.unwrap();
    let mut batch = ReceiveBatch::new(9, 0);
    poll_fn(|cx| device.poll_receive(cx, &mut batch)).await.unwrap();
    let (bytes, meta) = batch.iter().next().unwrap();
    assert_eq!((bytes, meta.checksum), (&frame[..len], ChecksumState::Verified));
    assert_eq!(
        (batch.len(), device.counters().receive_malformed),
        (1, 1),
        "four bytes are too short for a frame"
    );

    drop(far);
    let error = device.send(&header, &TxPacket::complete(&packet(50, 7))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[cfg(all(feature = "net", unix))]
#[tokio::test]
async fn the_first_datagram_says_where_the_peer_is() {
    use tokio::net::UnixDatagram;
    let folder = std::env::temp_dir().join(format!("ackclock-over-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name);
    let socket = UnixDatagram::bind(at("stack")).unwrap();
    let guest = UnixDatagram::bind(at("guest")).unwrap();
    guest.connect(at("stack")).unwrap();
    guest.send(b"VFKT").await.unwrap();
    accept_datagrams(&socket).await.unwrap();
    socket.send(b"frame").await.unwrap();
    assert_eq!(guest.recv(&mut [0; 9]).await.unwrap(), 5);

    let nameless = UnixDatagram::unbound().unwrap();
    let other = UnixDatagram::bind(at("other")).unwrap();
    nameless.connect(at("other")).unwrap();
    nameless.send(b"VFKT").await.unwrap();
    let error = accept_datagrams(&other).await.unwrap_err();
    assert!(error.to_string().contains("bind"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

const LONG: Duration = Duration::from_secs(60);
