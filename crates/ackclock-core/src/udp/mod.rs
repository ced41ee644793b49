//! UDP sockets, sans-IO: which socket a datagram is for, what waits in it, and its errors.
//!
//! A socket's name is an address and a port; either may be a wildcard, and names are unique. A datagram goes
//! to the most specific name that matches, as a segment goes to a listener. A connected socket only accepts
//! its peer's. Limits for each socket, and the endpoint's budget for all, bound what waits to be read or
//! sent. What has no room is dropped and counted on arrival, and refused on sending. `endpoint/non_tcp.rs`
//! connects this to packets.

mod error;
mod paths;
mod socket;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use ackclock_control::tally::Tally;

pub use self::error::UdpSocketError;
pub(crate) use self::paths::PathMtus;
pub(crate) use self::socket::{Datagram, Socket};
pub use self::socket::{UdpMeta, UdpNames, UdpOptions, UdpReadiness, UdpTransmit};
use crate::ListenAddr;

/// A UDP socket of an endpoint. An id is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UdpId {
    pub(crate) number: u64,
}

/// All UDP sockets of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    sockets: BTreeMap<UdpId, Socket>,
    by_addr: BTreeMap<ListenAddr, UdpId>,
    made: u64,
    /// Sockets whose readiness changed, each at most once.
    changed: VecDeque<UdpId>,
}

impl Sockets {
    /// Adds a socket; its name must not be in use.
    pub fn insert(&mut self, socket: Socket) -> Result<UdpId, UdpSocketError> {
        if self.by_addr.contains_key(&socket.addr()) {
            return Err(UdpSocketError::AddressInUse);
        }
        if self.sockets.len() >= SOCKETS_MAX {
            return Err(UdpSocketError::TooManySockets(SOCKETS_MAX));
        }
        self.made.count();
        let id = UdpId { number: self.made };
        self.by_addr.insert(socket.addr(), id);
        self.sockets.insert(id, socket);
        Ok(id)
    }

    /// Removes a socket. Returns its name, which is free then.
    pub fn remove(&mut self, id: UdpId) -> Option<ListenAddr> {
        let addr = self.sockets.remove(&id)?.addr();
        self.by_addr.remove(&addr);
        Some(addr)
    }

    pub fn get(&self, id: UdpId) -> Option<&Socket> {
        self.sockets.get(&id)
    }

    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether a socket has this name.
    pub fn has(&self, addr: ListenAddr) -> bool {
        self.by_addr.contains_key(&addr)
    }

    /// The socket for datagrams from `remote` to `local`.
    pub fn find(&self, local: SocketAddr, remote: SocketAddr) -> Option<UdpId> {
        let (addr, port) = (Some(local.ip()), Some(local.port()));
        let names = [(addr, port), (addr, None), (None, port), (None, None)];
        names.into_iter().find_map(|(addr, port)| {
            let id = *self.by_addr.get(&ListenAddr { addr, port })?;
            self.sockets.get(&id)?.takes(local.ip(), remote).then_some(id)
        })
    }

    /// Calls `f` on a socket, and records what became possible.
    pub fn update<R>(&mut self, id: UdpId, f: impl FnOnce(&mut Socket) -> R) -> Option<R> {
        let socket = self.sockets.get_mut(&id)?;
        let before = socket.readiness();
        let result = f(socket);
        if before.is_empty() && !socket.readiness().is_empty() {
            self.changed.push_back(id);
        }
        Some(result)
    }

    /// The next socket whose readiness changed.
    pub fn poll_changed(&mut self) -> Option<(UdpId, UdpReadiness)> {
        while let Some(id) = self.changed.pop_front() {
            // A socket closed in the meantime is no longer there.
            if let Some(socket) = self.sockets.get_mut(&id) {
                return Some((id, socket.take_readiness()));
            }
        }
        None
    }
}

/// The name of a socket at `addr`; an unspecified address means any.
impl From<SocketAddr> for ListenAddr {
    fn from(addr: SocketAddr) -> Self {
        let ip = Some(addr.ip()).filter(|ip: &IpAddr| !ip.is_unspecified());
        Self { addr: ip, port: Some(addr.port()) }
    }
}

/// The most UDP sockets: as many as there are ports.
pub(crate) const SOCKETS_MAX: usize = 65_536;

#[cfg(test)]
mod tests;
