//! The names of connections and listeners.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The two sockets that name a connection, seen from this end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FourTuple {
    /// This end's address.
    pub local_addr: IpAddr,
    /// This end's port.
    pub local_port: u16,
    /// The peer's address.
    pub remote_addr: IpAddr,
    /// The peer's port.
    pub remote_port: u16,
}

impl FourTuple {
    /// The tuple of two sockets.
    #[must_use]
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local_addr: local.ip(),
            local_port: local.port(),
            remote_addr: remote.ip(),
            remote_port: remote.port(),
        }
    }

    /// This end's socket.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local_addr, self.local_port)
    }

    /// The peer's socket.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.remote_addr, self.remote_port)
    }
}

impl fmt::Debug for FourTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <-> {}", self.local(), self.remote())
    }
}

/// The address and port of a listener; `None` means any. An unspecified address means any of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ListenAddr {
    /// The local address, or any (including addresses that the endpoint was not configured with, as a proxy
    /// needs).
    pub addr: Option<IpAddr>,
    /// The local port, or any.
    pub port: Option<u16>,
}

ackclock_form::form! {
    struct FourTuple { local_addr, local_port, remote_addr, remote_port }
    struct ListenAddr { addr, port }
}
