//! A stack with the loopback's addresses, which reaches itself.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock::Stack;
pub(crate) use ackclock::{TcpListener, TcpSocket, TcpStream};
use ackclock_device::memory::{self, MemoryDevice};

pub(crate) use StackLoopback as Loopback;

/// The host of a case.
pub(crate) struct StackLoopback {
    stack: Stack,
    _cable: MemoryDevice,
}

impl StackLoopback {
    pub(crate) fn new() -> Self {
        let (device, cable) = memory::pair(memory::Config::default());
        let mut builder = Stack::builder().device(device);
        for address in ["127.0.0.1/8", "127.0.0.2/8", "::1/128"] {
            builder = builder.address(address.parse().expect("an address"));
        }
        Self { stack: builder.spawn().expect("a stack"), _cable: cable }
    }

    pub(crate) async fn listen(&self, addr: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(&self.stack, addr).await
    }

    pub(crate) async fn bind(&self, addr: impl ackclock::ToSocketAddrs) -> io::Result<TcpListener> {
        TcpListener::bind(&self.stack, addr).await
    }

    pub(crate) async fn connect(&self, addr: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(&self.stack, addr).await
    }

    pub(crate) fn socket_v4(&self) -> io::Result<TcpSocket> {
        TcpSocket::new_v4(&self.stack)
    }

    pub(crate) fn socket_v6(&self) -> io::Result<TcpSocket> {
        TcpSocket::new_v6(&self.stack)
    }
}

pub(crate) fn set_linger(socket: &TcpSocket, time: Duration) -> io::Result<()> {
    socket.set_linger(Some(time))
}
