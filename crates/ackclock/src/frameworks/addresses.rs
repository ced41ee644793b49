//! [`Addresses`]: both ends of a connection, for handlers that do not see the stream.

use std::net::SocketAddr;

use crate::TcpStream;

/// Both ends of a connection, in the form that request handlers see: with axum through
/// `ConnectInfo<Addresses>`, with hyper's pooled client in the extensions of each response.
///
/// On a listener for any address, `local` is the destination that the client dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Addresses {
    /// This end's address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
}

impl Addresses {
    /// The addresses of a stream; `None` once the stack is gone.
    pub(super) fn of(stream: &TcpStream) -> Option<Self> {
        Some(Self { local: stream.local_addr().ok()?, peer: stream.peer_addr().ok()? })
    }
}
