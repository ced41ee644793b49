//! Beginnings that many cases share.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::side::{Loopback, TcpStream};

pub(super) const ANY_PORT: &str = "127.0.0.1:0";

pub(super) fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// This address with the port of `like`.
pub(super) fn at(ip: &str, like: SocketAddr) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), like.port())
}

/// A connection: the client's end and the server's.
pub(super) async fn pair(host: &Loopback) -> io::Result<(TcpStream, TcpStream)> {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let (connected, accepted) = tokio::join!(host.connect(listener.local_addr()?), listener.accept());
    Ok((connected?, accepted?.0))
}

/// The address of a listener that is gone, one of whose connections is in TIME-WAIT.
pub(super) async fn time_wait(host: &Loopback) -> io::Result<SocketAddr> {
    let listener = host.listen(addr(ANY_PORT)).await?;
    let local = listener.local_addr()?;
    let (connected, accepted) = tokio::join!(host.connect(local), listener.accept());
    // The server closes first: the TIME-WAIT is its own.
    drop(accepted?.0);
    let connected = connected?;
    connected.readable().await?;
    drop(connected);
    drop(listener);
    pause().await;
    Ok(local)
}

/// A stream whose peer has reset it.
pub(super) async fn reset(host: &Loopback) -> io::Result<TcpStream> {
    let (client, server) = pair(host).await?;
    server.set_zero_linger()?;
    drop(server);
    client.readable().await?;
    Ok(client)
}

/// A stream that was reset after `text` had arrived.
pub(super) async fn reset_after(host: &Loopback, text: &[u8]) -> io::Result<TcpStream> {
    let (client, mut server) = pair(host).await?;
    server.write_all(text).await?;
    client.readable().await?;
    server.set_zero_linger()?;
    drop(server);
    pause().await;
    Ok(client)
}

/// A stream whose peer has closed it, and has answered with a reset what was written since.
pub(super) async fn closed_then_reset(host: &Loopback) -> io::Result<TcpStream> {
    let (mut client, server) = pair(host).await?;
    drop(server);
    client.readable().await?;
    client.write_all(b"too late").await?;
    pause().await;
    Ok(client)
}

/// A port that no one has.
pub(super) async fn free_port(host: &Loopback) -> io::Result<SocketAddr> {
    host.listen(addr(ANY_PORT)).await?.local_addr()
}

/// Lets packets under way arrive; the loopbacks of the kernel and of the stack take far less time.
pub(super) async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
