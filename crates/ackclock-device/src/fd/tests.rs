//! A descriptor without room. A pair of sockets replaces the interface.

use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::task::Waker;

use ackclock_link::HEADER_LEN;
use ackclock_wire::{ChecksumAt, ChecksumState};

use super::*;
use crate::framing::Framing;

/// A device and the other end of its descriptor.
fn device(attachment: Attachment) -> (TunFd, UnixDatagram) {
    let (near, far) = UnixDatagram::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (TunFd::register(File::from(OwnedFd::from(near)), "test0", attachment).unwrap(), far)
}

fn send(device: &mut TunFd, number: u32) {
    device.send(&[], &TxPacket::complete(&number.to_be_bytes())).unwrap();
}

fn is_ready(device: &mut TunFd) -> bool {
    match device.poll_send_ready(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ready) => ready.map(|()| true).unwrap(),
        Poll::Pending => false,
    }
}

/// The numbers that have arrived.
fn take(far: &UnixDatagram) -> Vec<u32> {
    let mut buf = [0; 4];
    std::iter::from_fn(|| far.recv(&mut buf).ok().map(|_| u32::from_be_bytes(buf))).collect()
}

/// Sends at most `most` packets while the device is ready. Returns how many.
async fn fill(device: &mut TunFd, from: u32, most: u32) -> u32 {
    // The runtime reports room at its first poll.
    poll_until_ready(device).await;
    let mut sent = 0;
    while sent < most && is_ready(device) {
        send(device, from + sent);
        sent += 1;
        tokio::task::yield_now().await;
    }
    sent
}

#[tokio::test]
async fn a_tun_that_blocks_loses_one_packet_counts_it_and_is_ready_when_there_is_room() {
    let (mut device, far) = device(Attachment::Tun);
    let sent = fill(&mut device, 0, 100_000).await;
    assert!((1..100_000).contains(&sent), "it blocks at last: {sent}");
    assert!(!is_ready(&mut device), "no busy loop: it waits for room");
    let counters = device.counters;
    assert_eq!((counters.sent, counters.send_no_room), (u64::from(sent) - 1, 1));
    assert_eq!(take(&far), (0..sent - 1).collect::<Vec<_>>());

    let room = async { poll_until_ready(&mut device).await };
    tokio::time::timeout(Duration::from_secs(10), room).await.expect("there is room");
    send(&mut device, 7);
    assert_eq!(take(&far), [7]);
}

#[tokio::test]
async fn a_packet_socket_that_blocks_keeps_the_packet_that_it_had_promised_to_take() {
    let (mut device, far) = device(Attachment::Socket(0));
    let sent = fill(&mut device, 0, 100_000).await;
    assert!((1..100_000).contains(&sent) && !is_ready(&mut device));
    assert_eq!(device.counters.send_no_room, 0);
    let mut arrived = take(&far);
    let room = async { poll_until_ready(&mut device).await };
    tokio::time::timeout(Duration::from_secs(10), room).await.expect("there is room");
    arrived.extend(take(&far));
    assert_eq!(arrived, (0..sent).collect::<Vec<_>>(), "none is lost, and none twice");
    assert_eq!(device.counters.sent, u64::from(sent));
}

async fn poll_until_ready(device: &mut TunFd) {
    std::future::poll_fn(|cx| device.poll_send_ready(cx)).await.unwrap();
}

#[tokio::test]
async fn a_kernel_without_buffers_costs_the_packet_and_not_the_device() {
    let (mut device, far) = device(Attachment::Tun);
    for code in [libc::ENOBUFS, libc::ENOMEM, libc::EAGAIN, libc::EPERM] {
        device.account(Err(io::Error::from_raw_os_error(code)), 4).unwrap();
    }
    assert_eq!(device.counters.send_no_room, 4);
    let room = async { poll_until_ready(&mut device).await };
    tokio::time::timeout(Duration::from_secs(10), room).await.expect("it is ready");
    send(&mut device, 1);
    assert_eq!(take(&far), [1]);
    let error = device.account(Err(io::Error::from_raw_os_error(libc::EBADFD)), 4).unwrap_err();
    assert!(crate::explain(&error, "tun0").contains("was deleted"));
}

/// Packets of each kind: short ones, copied ones and ones too long to copy, plain and cut, with checksums
/// finished and not, with traffic class and hop limit, with a payload in one place and in two.
fn frames(framing: Framing, send: &mut dyn FnMut(&[u8; HEADER_LEN], &TxPacket<'_>)) {
    let unfinished = ChecksumState::Partial(ChecksumAt::tcp(20));
    let said = [
        (64, 0, 0, 0, None, ChecksumState::Complete),
        (64, 0, 1200, 700, NonZeroU16::new(500), unfinished),
        (1, 0xb8, 1200, 1200, None, unfinished),
        (255, 0x02, COPIED_MAX + 1, 5, NonZeroU16::new(1000), unfinished),
        (63, 0x03, 3 * COPIED_MAX, 3 * COPIED_MAX, NonZeroU16::new(1400), unfinished),
        (64, 0x01, COPIED_MAX, 9, None, ChecksumState::Complete),
    ];
    for (number, (ttl, tos, len, first, segment_size, checksum)) in (1_u8..).zip(said) {
        // A device without a virtio-net header is given packets that need none.
        if framing == Framing::Plain && (segment_size.is_some() || checksum.is_partial()) {
            continue;
        }
        let [high, low] = (40 + len as u16).to_be_bytes();
        let mut header = vec![0x45, tos, high, low, 0, number, 0x40, 0, ttl, 6, 0, 0];
        header.extend([10, 9, 0, 1, 10, 9, 0, 2]);
        header.extend([0x12, 0x34, 0, 80, 0, 0, 0, number, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        let payload: Vec<u8> = (0..len).map(|place| (place % 251) as u8 ^ number).collect();
        let (first, second) = payload.split_at(first);
        let link = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, number, 0x08, 0];
        let payload = [first, second];
        send(&link, &TxPacket { header: &header, transport_offset: 20, payload, segment_size, checksum });
    }
}

/// The frames that have arrived.
fn arrived(far: &UnixDatagram) -> Vec<Vec<u8>> {
    let mut buf = vec![0; 70_000];
    std::iter::from_fn(|| far.recv(&mut buf).ok().map(|len| buf[..len].to_vec())).collect()
}

#[tokio::test]
async fn what_waited_for_a_packet_socket_equals_what_went_at_once() {
    for (framing, kinds) in [(Framing::Plain, 2), (Framing::Vnet, 6)] {
        let (mut device, far) = device(Attachment::Socket(0));
        let mut at_once = Vec::new();
        frames(framing, &mut |link, packet| {
            framing.send(&mut device, link, packet).unwrap();
            assert!(device.held.is_empty(), "there was room");
            at_once.extend(arrived(&far));
        });
        assert_eq!(at_once.len(), kinds);

        let mut waited = Vec::new();
        for (number, once) in at_once.iter().enumerate() {
            let filler = fill(&mut device, 0, 100_000).await;
            assert!((1..100_000).contains(&filler), "it is full");
            // The last of the fillers is held; it leaves, and again there is no room.
            arrived(&far);
            poll_until_ready(&mut device).await;
            while device.held.is_empty() {
                let mut kind = 0;
                frames(framing, &mut |link, packet| {
                    if kind == number {
                        framing.send(&mut device, link, packet).unwrap();
                    }
                    kind += 1;
                });
            }
            assert!(!is_ready(&mut device), "it waits for room");
            let before = arrived(&far);
            poll_until_ready(&mut device).await;
            waited.extend(arrived(&far));
            assert_eq!(waited.len(), number + 1, "one was held");
            assert!(before.iter().skip(1).all(|went| went == once));
        }
        assert_eq!(waited, at_once, "{framing:?}");
        assert_eq!((device.counters.send_no_room, device.counters.send_refused), (0, 0));
    }
}
