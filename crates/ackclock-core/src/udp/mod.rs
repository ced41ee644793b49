//! UDP sockets, sans-IO: which socket a datagram is for, what waits in it, and its errors.
//!
//! A socket's name is an address and a port; either may be a wildcard, and names are unique. A datagram goes
//! to the most specific name that matches, as a segment goes to a listener; one for a multicast group goes
//! to each socket that has joined the group (RFC 3376 §3.1, §3.2). A connected socket only accepts its
//! peer's. Limits for each socket, and the endpoint's budget for all, bound what waits to be read or sent.
//! A datagram without room is dropped and counted on arrival, and refused on sending. `endpoint/non_tcp.rs`
//! connects this to packets.

mod error;
mod paths;
mod socket;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
    /// The groups that sockets listen to.
    groups: BTreeMap<IpAddr, BTreeSet<UdpId>>,
    /// Whether they have changed since they were last taken.
    groups_changed: bool,
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
        let joined: Vec<_> = self.groups_of(id).collect();
        for group in joined {
            self.leave(id, group).ok();
        }
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

    /// A socket listens to a group.
    pub fn join(&mut self, id: UdpId, group: IpAddr) -> Result<(), UdpSocketError> {
        let socket = self.sockets.get(&id).ok_or(UdpSocketError::Closed)?;
        if !group.is_multicast() {
            return Err(UdpSocketError::NotMulticast(group));
        }
        if let Some(addr) = socket.addr().addr {
            return Err(UdpSocketError::BoundToOne(addr));
        }
        let is_new = !self.groups.contains_key(&group);
        if is_new && self.groups.len() >= GROUPS_MAX {
            return Err(UdpSocketError::TooManyGroups(GROUPS_MAX));
        }
        if !self.groups.entry(group).or_default().insert(id) {
            return Err(UdpSocketError::AlreadyJoined(group));
        }
        self.groups_changed |= is_new;
        Ok(())
    }

    /// A socket no longer listens to a group.
    pub fn leave(&mut self, id: UdpId, group: IpAddr) -> Result<(), UdpSocketError> {
        let members = self.groups.get_mut(&group).ok_or(UdpSocketError::NotJoined(group))?;
        if !members.remove(&id) {
            return Err(UdpSocketError::NotJoined(group));
        }
        if members.is_empty() {
            self.groups.remove(&group);
            self.groups_changed = true;
        }
        Ok(())
    }

    /// Whether a socket listens to the group.
    pub fn listens_to(&self, group: IpAddr) -> bool {
        self.groups.contains_key(&group)
    }

    /// The groups that a socket listens to, in order.
    pub fn groups_of(&self, id: UdpId) -> impl Iterator<Item = IpAddr> + '_ {
        self.groups.iter().filter(move |(_, members)| members.contains(&id)).map(|(group, _)| *group)
    }

    /// The sockets for datagrams from `remote` to a group, `to`.
    pub fn members(&self, to: SocketAddr, remote: SocketAddr) -> Vec<UdpId> {
        let hears = |id: &&UdpId| {
            self.sockets.get(id).is_some_and(|socket| {
                socket.addr().port.is_none_or(|port| port == to.port())
                    && socket.remote().is_none_or(|peer| peer == remote)
            })
        };
        self.groups.get(&to.ip()).into_iter().flatten().filter(hears).copied().collect()
    }

    /// Whether [`take_groups`](Self::take_groups) has something.
    pub fn has_groups(&self) -> bool {
        self.groups_changed
    }

    /// All groups, in order, if they have changed since the last call.
    pub fn take_groups(&mut self) -> Option<Vec<IpAddr>> {
        std::mem::take(&mut self.groups_changed).then(|| self.groups.keys().copied().collect())
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

/// The most multicast groups of all sockets together: what an interface's filter and a report have room for.
pub(crate) const GROUPS_MAX: usize = 64;
/// The most UDP sockets: as many as there are ports.
pub(crate) const SOCKETS_MAX: usize = 65_536;

ackclock_form::form! {
    struct UdpId { number }
    struct Sockets { sockets, by_addr, made, groups, groups_changed, changed }
}

#[cfg(test)]
mod tests;
