//! QUIC between the stack and quinn on a socket of the kernel, over TUN: downloads each way through loss, and
//! one beside TCP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use ackclock::TcpConfig;
use ackclock::quinn::endpoint;
use ackclock_device::OffloadMode;
use ackclock_device::impair::{Settings, Share, Statistics};
use ackclock_tests::kernel::payload::{self, Digest, Payload};
use ackclock_tests::kernel::scene::{Family, impaired_stack, within};
use ackclock_tests::netns::in_namespace;
use ackclock_tests::quic::{self, NAME, configs, give};
use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use tokio::net::{TcpListener, UdpSocket};

/// An endpoint on a socket of the kernel.
async fn kernels(addr: SocketAddr, server: Option<ServerConfig>) -> Endpoint {
    let socket = UdpSocket::bind(addr).await.and_then(UdpSocket::into_std).unwrap();
    Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime)).unwrap()
}

/// Downloads what a server gives with the seed 3, and checks it. `bytes` counts along.
async fn download(client: &Endpoint, from: SocketAddr, bytes: &AtomicU64) {
    let (_, config) = configs();
    let connection = client.connect_with(config, from, NAME).unwrap().await.unwrap();
    let mut hasher = blake3::Hasher::new();
    let taken = quic::take(&connection, |part| {
        hasher.update(part);
        bytes.fetch_add(part.len() as u64, Relaxed); // a part's length
    });
    taken.await.unwrap();
    let got = Digest { bytes: bytes.load(Relaxed), hash: hasher.finalize() };
    assert_eq!(got, expected(), "from {from}");
}

fn expected() -> Digest {
    let mut payload = Payload::new(LEN, 3);
    while payload.next_block().is_some() {}
    payload.digest()
}

/// The server is the kernel's, then the stack's; packet by packet, then with offload, where segments of many
/// datagrams cross the device. A sender that hears nothing of the ECN field of what arrived sends no more
/// ECN-capable packets, and none of those is marked: marks to the end show that each end tells the other.
#[test]
fn downloads_come_whole_through_loss_and_marks_each_way() {
    in_namespace(|| async {
        for (family, mode) in [(Family::V4, OffloadMode::Off), (Family::V6, OffloadMode::On)] {
            let settings = Settings {
                loss: Share::percent(1),
                mark: Share::percent(1),
                delay: Duration::from_millis(2),
                ..Settings::default()
            };
            let (stack, network) = impaired_stack(mode, SEED, settings, TcpConfig::default());
            let (config, _) = configs();
            tokio::spawn(give(kernels(family.kernel(443), Some(config)).await, LEN, 3));
            let client = endpoint(&stack, family.stack(0), EndpointConfig::default(), None).unwrap();
            within(LIMIT, &stack, download(&client, family.kernel(443), &AtomicU64::new(0))).await;
            enough(network.statistics_received());

            let (config, _) = configs();
            let server =
                endpoint(&stack, family.stack(443), EndpointConfig::default(), Some(config)).unwrap();
            tokio::spawn(give(server, LEN, 3));
            let client = kernels(family.kernel(0), None).await;
            within(LIMIT, &stack, download(&client, family.stack(443), &AtomicU64::new(0))).await;
            enough(network.statistics_sent());
            let counters = stack.counters();
            assert_eq!((counters.dropped_udp_checksum, counters.dropped_malformed_udp), (0, 0));
            within(LIMIT, &stack, stack.shutdown()).await;
        }
    });
}

/// A hundredth of 2,700 datagrams or more is 27, and 10 are more than three deviations of 5 below that.
fn enough(there: Statistics) {
    assert!(there.lost > 10 && there.marked > 10, "{there:?}");
}

/// From the kernel through one queue: both come whole, and neither waits for the other. How they share the
/// queue depends on how fast this machine is; in virtual time it does not (`virtual_time/quic.rs`).
#[test]
fn a_download_by_quic_and_one_by_tcp_come_through_one_queue_at_once() {
    in_namespace(|| async {
        let settings = Settings {
            rate_bps: Some(40_000_000),
            queue_packets: 100,
            delay: Duration::from_millis(5),
            ..Settings::default()
        };
        let (stack, network) = impaired_stack(OffloadMode::On, SEED, settings, TcpConfig::default());
        let (config, _) = configs();
        tokio::spawn(give(kernels(Family::V4.kernel(443), Some(config)).await, LEN, 3));
        let listener = TcpListener::bind(Family::V4.kernel(80)).await.unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            payload::send(&mut stream, LEN, 3).await
        });
        let (quic_bytes, began) = (AtomicU64::new(0), Instant::now());
        let by_quic = async {
            let client = endpoint(&stack, Family::V4.stack(0), EndpointConfig::default(), None).unwrap();
            download(&client, Family::V4.kernel(443), &quic_bytes).await;
            began.elapsed()
        };
        let by_tcp = async {
            let mut stream = stack.connect(Family::V4.kernel(80)).await.unwrap();
            assert_eq!(payload::receive(&mut stream).await.unwrap(), expected());
            (began.elapsed(), quic_bytes.load(Relaxed))
        };
        let both = async { tokio::join!(by_quic, by_tcp) };
        let (by_quic, (by_tcp, meanwhile)) = within(LIMIT, &stack, both).await;
        println!("QUIC took {by_quic:?}, TCP {by_tcp:?}; QUIC had {meanwhile} bytes then");
        assert!(network.statistics_received().queue_full > 0);
        // Twice 4 MB take 1.6 s of this queue.
        let last = by_quic.max(by_tcp);
        assert!(last >= Duration::from_millis(1600), "{last:?}: faster than the queue");
        assert!(meanwhile > LEN / 20, "{meanwhile} bytes by QUIC while TCP ran");
        // Alone it would take 0.85 s; the rest is TCP's.
        assert!(by_quic > Duration::from_millis(950), "{by_quic:?}: TCP had nothing meanwhile");
    });
}

const SEED: u64 = 11;
const LEN: u64 = 4_000_000;
/// For a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(60);
