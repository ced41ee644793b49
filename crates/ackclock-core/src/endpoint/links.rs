//! The links of an endpoint that has several: where each leads, and how large a packet it carries.
//!
//! An endpoint sends by one device. If that combines several, their routes are set here. A route decides the
//! MTU for its destinations, and so the MSS of their connections, and from which address they are reached
//! (rule 5 in `source.rs`). Without routes, every destination has the endpoint's MTU.

use std::net::IpAddr;

use ackclock_wire::{Egress, Route};

use super::Endpoint;
use crate::Instant;

impl Endpoint {
    /// The device's MTU changed. It applies to all destinations without a link's route.
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

    /// Replaces the links' routes. Connections to destinations with a new packet size follow.
    pub fn set_link_routes(&mut self, now: Instant, routes: Vec<Route<Egress>>) {
        let now = self.advance(now);
        let before = self.addresses.set_links(routes);
        for index in self.connections.indices() {
            let Some(live) = self.connections.at_mut(index) else { continue };
            let remote = live.name().remote_addr;
            let mtu = |link: Option<Egress>| link.map_or(self.config.mtu, |link| link.mtu);
            let old = mtu(Route::longest(&before, remote).map(|route| route.to));
            let new = mtu(self.addresses.link_to(remote));
            if old != new {
                live.connection.set_mtu(now, new);
                self.touch(index);
            }
        }
    }

    /// The largest IP packet to `remote`.
    #[inline]
    pub(super) fn mtu_to(&self, remote: IpAddr) -> usize {
        self.addresses.link_to(remote).map_or(self.config.mtu, |link| link.mtu)
    }
}
