//! 1 GiB each way between the stack and the kernel, under a hash: IPv4 and IPv6, packet by packet and with
//! offload.
//!
//! `ACKCLOCK_TRANSFER_MIB` sets another length.

use std::time::{Duration, Instant};

use ackclock_device::OffloadMode;
use ackclock_tests::kernel::payload::{receive, send};
use ackclock_tests::kernel::scene::{Family, report, stack, within};
use ackclock_tests::netns::in_namespace;
use tokio::io::AsyncWriteExt;
use tokio::net;

#[test]
fn gib_each_way_over_ipv4_packet_by_packet() {
    in_namespace(|| each_way(Family::V4, OffloadMode::Off));
}

#[test]
fn gib_each_way_over_ipv4_with_offload() {
    in_namespace(|| each_way(Family::V4, OffloadMode::On));
}

#[test]
fn gib_each_way_over_ipv6_packet_by_packet() {
    in_namespace(|| each_way(Family::V6, OffloadMode::Off));
}

#[test]
fn gib_each_way_over_ipv6_with_offload() {
    in_namespace(|| each_way(Family::V6, OffloadMode::On));
}

#[test]
fn both_ways_at_once_on_one_connection() {
    in_namespace(|| async {
        let stack = stack(OffloadMode::On);
        let listener = net::TcpListener::bind(Family::V4.kernel(7)).await.unwrap();
        let bytes = transfer_bytes() / 4;
        let kernel = tokio::spawn(async move {
            let (mut reader, mut writer) = listener.accept().await.unwrap().0.into_split();
            let sent = tokio::spawn(async move { send(&mut writer, bytes, 1).await });
            (receive(&mut reader).await.unwrap(), sent.await.unwrap().unwrap())
        });
        let (mut reader, mut writer) = stack.connect(Family::V4.kernel(7)).await.unwrap().into_split();
        let sent = tokio::spawn(async move { send(&mut writer, bytes, 2).await });
        let received = within(LIMIT, &stack, receive(&mut reader)).await.unwrap();
        let sent = sent.await.unwrap().unwrap();
        assert_eq!(kernel.await.unwrap(), (sent, received));
    });
}

/// One transfer to the kernel on a connection that the stack opens, one from the kernel on one that the
/// kernel opens.
async fn each_way(family: Family, mode: OffloadMode) {
    let stack = stack(mode);
    let bytes = transfer_bytes();

    let listener = net::TcpListener::bind(family.kernel(7)).await.unwrap();
    let kernel = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        receive(&mut stream).await.unwrap()
    });
    let began = Instant::now();
    let mut stream = stack.connect(family.kernel(7)).await.unwrap();
    let sent = within(LIMIT, &stack, send(&mut stream, bytes, 1)).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(within(LIMIT, &stack, kernel).await.unwrap(), sent);
    report("to the kernel", bytes, began);

    let listener = stack.listen(family.stack(7)).unwrap();
    let kernel = tokio::spawn(async move {
        let mut stream = net::TcpStream::connect(family.stack(7)).await.unwrap();
        let sent = send(&mut stream, bytes, 2).await.unwrap();
        stream.shutdown().await.unwrap();
        sent
    });
    let began = Instant::now();
    let (mut stream, peer) = listener.accept().await.unwrap();
    assert_eq!(peer.ip(), family.kernel(0).ip());
    let received = within(LIMIT, &stack, receive(&mut stream)).await.unwrap();
    assert_eq!(received, kernel.await.unwrap());
    report("from the kernel", bytes, began);
}

fn transfer_bytes() -> u64 {
    let mib =
        std::env::var("ACKCLOCK_TRANSFER_MIB").map_or(1024, |mib| mib.parse().expect("a number of MiB"));
    mib << 20
}

const LIMIT: Duration = Duration::from_secs(120);
