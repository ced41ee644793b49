//! A socket for datagrams, of the stack or the kernel.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::{Kind, Net};

/// A bound socket, which may be connected.
#[derive(Debug)]
pub(crate) enum DatagramSocket {
    User(ackclock::UdpSocket),
    Kernel(tokio::net::UdpSocket),
}

impl Net {
    /// Binds a socket to an address and a port, which may be 0.
    pub async fn datagrams(&self, local: SocketAddr) -> io::Result<DatagramSocket> {
        Ok(match &self.kind {
            Kind::User { stack, .. } => DatagramSocket::User(stack.udp(local)?),
            Kind::Kernel => DatagramSocket::Kernel(tokio::net::UdpSocket::bind(local).await?),
        })
    }
}

impl DatagramSocket {
    /// From now on the socket receives from `peer` alone, and learns that nothing is bound there.
    pub async fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        match self {
            Self::User(socket) => socket.connect(peer).await,
            Self::Kernel(socket) => socket.connect(peer).await,
        }
    }

    pub async fn send_to(&self, datagram: &[u8], peer: SocketAddr) -> io::Result<usize> {
        match self {
            Self::User(socket) => socket.send_to(datagram, peer).await,
            Self::Kernel(socket) => socket.send_to(datagram, peer).await,
        }
    }

    /// Receives a datagram; bytes beyond `room` are lost. It may be cancelled.
    pub async fn recv_from(&self, room: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        match self {
            Self::User(socket) => socket.recv_from(room).await,
            Self::Kernel(socket) => socket.recv_from(room).await,
        }
    }

    /// The most bytes of a datagram to `peer`. The kernel cuts a long one into fragments; the stack does not.
    pub fn payload_max(&self, peer: IpAddr) -> usize {
        match self {
            Self::User(socket) => socket.payload_max(peer),
            Self::Kernel(_) => DATAGRAM_MAX,
        }
    }
}

/// The longest payload over IPv4: 65,535 bytes without the headers of IP and UDP.
pub(crate) const DATAGRAM_MAX: usize = 65_507;
