//! Eleven checks that every gateway should pass, of TCP and UDP over IPv4.
//!
//! `GATEWAY=path` puts another gateway to these tests; `scripts/gateways.py` does that.

use std::io::{self, ErrorKind};
use std::time::Duration;

use ackclock_tests::kernel::payload::{Digest, receive, send};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::{V4, between, echoed, echoes, exchange, mirror, socks};

const BULK: u64 = 256 << 20;

/// A destination that serves its first connection by `serve`, and the result of that.
fn once<T, F>(
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (impl Future<Output = io::Result<()>> + Send + 'static, oneshot::Receiver<io::Result<T>>)
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send,
{
    let (done, result) = oneshot::channel();
    let world = async {
        let listener = TcpListener::bind("[::]:7").await?;
        tokio::spawn(async move {
            let served = async { serve(listener.accept().await?.0).await };
            done.send(served.await).ok();
        });
        Ok(())
    };
    (world, result)
}

async fn call() -> TcpStream {
    TcpStream::connect(V4).await.unwrap()
}

/// Why a connection to an address cannot be opened.
async fn refusal(to: &str) -> ErrorKind {
    timeout(Duration::from_secs(30), TcpStream::connect(to)).await.expect("at once").unwrap_err().kind()
}

#[test]
fn bulk_up_arrives_intact() {
    let (world, received) = once(|mut stream| async move { receive(&mut stream).await });
    between(world, async {
        let mut stream = call().await;
        let sent: Digest = send(&mut stream, BULK, 1).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(received.await.unwrap().unwrap(), sent);
    });
}

#[test]
fn bulk_down_arrives_intact() {
    let (world, sent) = once(|mut stream| async move {
        let sent = send(&mut stream, BULK, 2).await?;
        stream.shutdown().await?;
        Ok(sent)
    });
    between(world, async {
        let received = receive(&mut call().await).await.unwrap();
        assert_eq!(received, sent.await.unwrap().unwrap());
    });
}

#[test]
fn a_client_that_has_ended_still_hears_its_server() {
    between(mirror(), async { exchange(V4, 100_000, 3).await });
}

#[test]
fn a_server_that_has_ended_still_hears_its_client() {
    let (world, hears) = once(|mut stream| async move {
        stream.write_all(b"all there is").await?;
        stream.shutdown().await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    });
    between(world, async {
        let mut stream = call().await;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "all there is");
        stream.write_all(b"and the answer").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(hears.await.unwrap().unwrap(), "and the answer");
    });
}

#[test]
fn a_reset_of_the_server_is_a_reset_for_the_client() {
    let (world, _) = once(|mut stream| async move {
        stream.write_all(b"half of it").await?;
        stream.read_u8().await?;
        stream.set_zero_linger()
    });
    between(world, async {
        let mut stream = call().await;
        stream.read_exact(&mut [0; 10]).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_reset_of_the_client_is_a_reset_for_the_server() {
    let (world, hears) = once(|mut stream| async move {
        stream.read_exact(&mut [0; 10]).await?;
        Ok(stream.read_u8().await.map_err(|error| error.kind()))
    });
    between(world, async {
        let mut stream = call().await;
        stream.write_all(b"half of it").await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        stream.set_zero_linger().unwrap();
        drop(stream);
        assert_eq!(hears.await.unwrap().unwrap(), Err(ErrorKind::ConnectionReset));
    });
}

#[test]
fn a_closed_port_refuses() {
    between(async { Ok(()) }, async {
        assert_eq!(refusal("203.0.113.7:9").await, ErrorKind::ConnectionRefused);
    });
}

#[test]
fn an_unreachable_host_is_unreachable() {
    between(async { Ok(()) }, async {
        assert_eq!(refusal("198.51.100.1:9").await, ErrorKind::HostUnreachable);
    });
}

#[test]
fn a_black_hole_neither_accepts_nor_refuses() {
    between(mirror(), async {
        let waits = timeout(Duration::from_secs(3), TcpStream::connect(("203.0.113.9", socks::SILENT))).await;
        assert!(waits.is_err(), "{waits:?}");
        exchange(V4, 1000, 4).await;
    });
}

#[test]
fn a_datagram_of_one_packet_comes_back() {
    comes_back(1472);
}

#[test]
fn a_datagram_of_4000_bytes_comes_back() {
    comes_back(4000);
}

fn comes_back(len: usize) {
    between(echoes(), async move {
        echoed(&UdpSocket::bind("0.0.0.0:0").await.unwrap(), V4, len).await;
    });
}
