//! `tokio::net` on the kernel's loopback.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) use tokio::net::{TcpListener, TcpSocket, TcpStream};

pub(crate) use KernelLoopback as Loopback;

/// The host of a case.
pub(crate) struct KernelLoopback;

impl KernelLoopback {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) async fn listen(&self, addr: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(addr).await
    }

    pub(crate) async fn bind(&self, addr: impl tokio::net::ToSocketAddrs) -> io::Result<TcpListener> {
        TcpListener::bind(addr).await
    }

    pub(crate) async fn connect(&self, addr: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(addr).await
    }

    pub(crate) fn socket_v4(&self) -> io::Result<TcpSocket> {
        TcpSocket::new_v4()
    }

    pub(crate) fn socket_v6(&self) -> io::Result<TcpSocket> {
        TcpSocket::new_v6()
    }
}

#[expect(deprecated, reason = "with a time, it blocks the thread that drops a kernel's socket")]
pub(crate) fn set_linger(socket: &TcpSocket, time: Duration) -> io::Result<()> {
    socket.set_linger(Some(time))
}

/// Whether the loopback has IPv6.
pub(crate) fn has_v6() -> io::Result<()> {
    std::net::TcpListener::bind("[::1]:0").map(drop)
}
