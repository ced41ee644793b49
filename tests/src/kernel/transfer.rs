//! Transfers between a stack and the kernel, under a hash at both ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use ackclock::{TcpListener, TcpStream};
use tokio::io::AsyncWriteExt;
use tokio::net;

use super::payload::{receive, send};

/// Sends `bytes` to the kernel, which listens at `addr`. `connect` makes the connection. Returns the stack's
/// end.
///
/// # Panics
/// If the transfer fails, or the kernel did not get what was sent.
pub async fn to_the_kernel<C>(addr: SocketAddr, connect: C, bytes: u64, seed: u64) -> TcpStream
where
    C: Future<Output = io::Result<TcpStream>>,
{
    let listener = net::TcpListener::bind(addr).await.unwrap();
    let kernel = tokio::spawn(async move { receive(&mut listener.accept().await?.0).await });
    let mut stream = connect.await.unwrap();
    let sent = send(&mut stream, bytes, seed).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(kernel.await.unwrap().unwrap(), sent);
    stream
}

/// Takes `bytes` from the kernel, which connects to `listener` at `addr`. Returns the stack's end.
///
/// # Panics
/// If the transfer fails, or what arrived is not what the kernel sent.
pub async fn from_the_kernel(listener: &TcpListener, addr: SocketAddr, bytes: u64, seed: u64) -> TcpStream {
    let kernel = tokio::spawn(async move {
        let mut stream = net::TcpStream::connect(addr).await?;
        let sent = send(&mut stream, bytes, seed).await?;
        stream.shutdown().await?;
        io::Result::Ok(sent)
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    let received = receive(&mut stream).await.unwrap();
    assert_eq!(received, kernel.await.unwrap().unwrap());
    stream
}
