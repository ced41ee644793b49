//! A thousand connections at once, half of them opened by each side.

use std::sync::Arc;
use std::time::Duration;

use ackclock_device::OffloadMode;
use ackclock_tests::kernel::payload::{Digest, receive, send};
use ackclock_tests::kernel::scene::{Family, stack, within};
use ackclock_tests::netns::{in_namespace, raise_descriptor_limit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

#[test]
fn thousand_connections_at_once_over_ipv4_packet_by_packet() {
    in_namespace(|| thousand(Family::V4, OffloadMode::Off));
}

#[test]
fn thousand_connections_at_once_over_ipv6_with_offload() {
    in_namespace(|| thousand(Family::V6, OffloadMode::On));
}

async fn thousand(family: Family, mode: OffloadMode) {
    let descriptors = raise_descriptor_limit().unwrap();
    assert!(descriptors >= 3 * CONNECTIONS, "{descriptors} descriptors are not enough: raise `ulimit -Hn`");
    let stack = stack(mode);
    let all_open = Arc::new(Barrier::new(2 * CONNECTIONS as usize));
    let mut ends = JoinSet::new();

    let theirs = net::TcpSocket::new_v4();
    let theirs = if family == Family::V4 { theirs } else { net::TcpSocket::new_v6() }.unwrap();
    theirs.bind(family.kernel(7)).unwrap();
    let theirs = theirs.listen(1024).unwrap();
    let ours = stack.listen(family.stack(7)).unwrap();
    for seed in 0..CONNECTIONS / 2 {
        let (stack, dialled, open) = (stack.clone(), family.kernel(7), Arc::clone(&all_open));
        ends.spawn(async move { exchange(stack.connect(dialled).await.unwrap(), seed, open).await });
        let (dialled, open) = (family.stack(7), Arc::clone(&all_open));
        ends.spawn(
            async move { exchange(net::TcpStream::connect(dialled).await.unwrap(), seed, open).await },
        );
    }
    within(LIMIT, &stack, async {
        for seed in 0..CONNECTIONS / 2 {
            let (stream, open) = (theirs.accept().await.unwrap().0, Arc::clone(&all_open));
            ends.spawn(exchange(stream, CONNECTIONS + seed, open));
            let (stream, open) = (ours.accept().await.unwrap().0, Arc::clone(&all_open));
            ends.spawn(exchange(stream, CONNECTIONS + seed, open));
        }
    })
    .await;

    // The pairing is not known; every hash sent must be received once.
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    within(LIMIT, &stack, async {
        while let Some(end) = ends.join_next().await {
            let (sent_hash, received_hash) = end.unwrap();
            sent.push(sent_hash);
            received.push(received_hash);
        }
    })
    .await;
    assert_eq!(sent.len() as u64, 2 * CONNECTIONS);
    let key = |digest: &Digest| (digest.bytes, *digest.hash.as_bytes());
    sent.sort_by_key(key);
    received.sort_by_key(key);
    assert_eq!(sent, received);
}

/// Waits until all connections are open, then sends and receives at once.
async fn exchange<S>(stream: S, seed: u64, all_open: Arc<Barrier>) -> (Digest, Digest)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    // A stack that answered with a SYN cookie, as it does beyond 256 half-open connections from one host,
    // knows nothing of a client whose last ACK was lost until that client sends.
    writer.write_all(b"!").await.unwrap();
    reader.read_exact(&mut [0]).await.unwrap();
    all_open.wait().await;
    let (sent, received) = tokio::join!(
        async {
            let sent = send(&mut writer, LEN, seed).await.unwrap();
            writer.shutdown().await.unwrap();
            sent
        },
        receive(&mut reader)
    );
    (sent, received.unwrap())
}

const CONNECTIONS: u64 = 1000;
const LEN: u64 = 64 << 10;
const LIMIT: Duration = Duration::from_secs(60);
