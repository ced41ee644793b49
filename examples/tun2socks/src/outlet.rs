//! The gateway's own sockets, kept out of the device: what goes to the proxy must not come back as a
//! client's.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::proxy::unspecified;

/// How the gateway's sockets leave this host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlet {
    /// `SO_MARK`, for which a rule of the kernel chooses another table of routes.
    pub(crate) mark: Option<u32>,
    /// `SO_BINDTODEVICE`.
    pub(crate) interface: Option<String>,
}

impl Outlet {
    /// A connection, which sends what it is given at once.
    pub(crate) async fn connect(&self, addr: SocketAddr) -> io::Result<TcpStream> {
        let socket = TcpSocket::from_std_stream(self.socket(addr, Type::STREAM, Protocol::TCP)?.into());
        let stream = socket.connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A socket for datagrams to `addr` and from there.
    pub(crate) fn datagrams(&self, addr: SocketAddr) -> io::Result<UdpSocket> {
        let socket = self.socket(addr, Type::DGRAM, Protocol::UDP)?;
        socket.bind(&SocketAddr::new(unspecified(addr), 0).into())?;
        socket.connect(&addr.into())?;
        UdpSocket::from_std(socket.into())
    }

    fn socket(&self, addr: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(addr), kind, Some(protocol))?;
        socket.set_nonblocking(true)?;
        if let Some(mark) = self.mark {
            socket.set_mark(mark)?;
        }
        if let Some(interface) = &self.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        Ok(socket)
    }
}
