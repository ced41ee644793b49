//! Packets in datagrams.

use std::io;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
#[cfg(unix)]
use tokio::net::UnixDatagram;

use super::PacketIo;

/// To the peer that the socket is connected to.
impl PacketIo for UdpSocket {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut datagram = ReadBuf::new(into);
            match Self::poll_recv(self, cx, &mut datagram) {
                // An error about an earlier datagram is a loss.
                Poll::Ready(Err(error)) if is_absence(&error) => {}
                polled => return polled.map_ok(|()| datagram.filled().len()),
            }
        }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_send_ready(self, cx)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self.try_send(packet) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock && !is_absence(&error) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, error))
            }
            sent => sent.map(drop),
        }
    }
}

/// To the peer that the socket is connected to.
#[cfg(unix)]
impl PacketIo for UnixDatagram {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut datagram = ReadBuf::new(into);
        Self::poll_recv(self, cx, &mut datagram).map_ok(|()| datagram.filled().len())
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_send_ready(self, cx)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self.try_send(packet).map(drop) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            // The peer has closed its socket, and a new one takes a new connection.
            Err(error) if is_absence(&error) || error.kind() == io::ErrorKind::NotConnected => {
                Err(io::Error::new(io::ErrorKind::BrokenPipe, error))
            }
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                Err(error)
            }
            sent => sent.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error)),
        }
    }
}

/// Connects `socket`, which is bound to a path, to the first that sends to it, and takes that datagram. vfkit
/// and libkrun first send four bytes, `VFKT`, to say where they are; a frame in their place is lost, as it
/// may be on any network.
///
/// # Errors
/// The socket's; [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if the sender is bound to no path, so
/// that nothing can be sent to it.
#[cfg(unix)]
pub async fn accept_datagrams(socket: &UnixDatagram) -> io::Result<()> {
    let (_, from) = socket.recv_from(&mut [0; 4]).await?;
    let Some(path) = from.as_pathname() else {
        let why = "the peer's socket has no path to answer to: it must bind one before it connects";
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
    };
    socket.connect(path)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable
    )
}
