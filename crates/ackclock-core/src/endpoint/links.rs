//! The links of an endpoint that has several: which one leads where, and how large a packet each carries.
//!
//! An endpoint sends by one device; where that is several, their routes are told here. A route decides the MTU of what goes
//! to its destinations, and so the MSS of their connections, and from which address they are reached (rule 5 in `source.rs`).
//! Without routes the endpoint's MTU is that of every destination.

use std::net::IpAddr;

use super::Endpoint;
use super::source::common_prefix;
use crate::Instant;

/// A network, and the link that leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRoute {
    /// An address of the network.
    pub network: IpAddr,
    /// How many bits of it name the network.
    pub prefix_len: u8,
    /// Which link it is, by any number.
    pub link: usize,
    /// Largest IP packet that the link carries, in bytes.
    pub mtu: usize,
}

/// The route to `remote`: the longest, and of equals the last.
pub(super) fn route_to(routes: &[LinkRoute], remote: IpAddr) -> Option<&LinkRoute> {
    let leads = |route: &&LinkRoute| {
        common_prefix(route.network, remote).is_some_and(|common| common >= route.prefix_len.into())
    };
    routes.iter().filter(leads).max_by_key(|route| route.prefix_len)
}

impl Endpoint {
    /// The device's MTU changed: that of all destinations to which no link's route leads.
    pub fn set_mtu(&mut self, now: Instant, mtu: usize) {
        let now = self.advance(now);
        self.config.mtu = mtu;
        for index in self.connections.indices() {
            let Some(live) = self.connections.at_mut(index) else { continue };
            if self.addresses.link_to(live.name().remote_addr).is_none() {
                live.connection.set_mtu(now, mtu);
                self.touch(index);
            }
        }
    }

    /// Replaces the links' routes. Connections to destinations whose link carries packets of another size follow.
    pub fn set_link_routes(&mut self, now: Instant, routes: Vec<LinkRoute>) {
        let now = self.advance(now);
        let before = self.addresses.set_links(routes);
        for index in self.connections.indices() {
            let Some(live) = self.connections.at_mut(index) else { continue };
            let remote = live.name().remote_addr;
            let mtu = |route: Option<&LinkRoute>| route.map_or(self.config.mtu, |route| route.mtu);
            let (old, new) = (mtu(route_to(&before, remote)), mtu(self.addresses.link_to(remote)));
            if old != new {
                live.connection.set_mtu(now, new);
                self.touch(index);
            }
        }
    }

    /// Largest IP packet that leaves for `remote`.
    #[inline]
    pub(super) fn mtu_to(&self, remote: IpAddr) -> usize {
        self.addresses.link_to(remote).map_or(self.config.mtu, |route| route.mtu)
    }
}
