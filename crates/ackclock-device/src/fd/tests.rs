//! A descriptor without room. A pair of sockets replaces the interface.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::task::Waker;

use super::*;

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
