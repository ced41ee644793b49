//! A stack's network, which can change while it runs: addresses, routes, MTU.

use std::io;
use std::net::IpAddr;

use ackclock_core::{Instant, LocalAddress};
use ackclock_wire::{Egress, Route};

use super::StackState;
use crate::{Cidr, NoRoute, error};

/// A stack's network, as each of its shards knows it.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// Local addresses.
    pub(crate) addresses: Vec<Cidr>,
    /// The local addresses that are used only where there is no other.
    deprecated: Vec<IpAddr>,
    /// The networks reached through the device, and the local address to use for each unless the rules
    /// choose. `None`: every destination goes to the device.
    routes: Option<Vec<Route<Option<IpAddr>>>>,
    /// Largest IP packet that the device carries.
    device_mtu: usize,
    /// The routes of a device that consists of several.
    links: Vec<Route<Egress>>,
    /// The program's bound on IP packets.
    mtu_max: Option<usize>,
}

impl Network {
    pub fn new(
        addresses: Vec<Cidr>,
        routes: Option<Vec<Route<Option<IpAddr>>>>,
        device_mtu: usize,
        links: Vec<Route<Egress>>,
    ) -> Self {
        Self { addresses, deprecated: Vec::new(), routes, device_mtu, links, mtu_max: None }
    }

    /// Whether a route leads to `remote`. Without routes every destination goes to the device.
    pub fn check_route(&self, remote: IpAddr) -> Result<(), NoRoute> {
        let Some(routes) = &self.routes else { return Ok(()) };
        let mut known = routes.iter().map(|route| &route.destination).chain(&self.addresses);
        if known.any(|network| network.contains(remote)) { Ok(()) } else { Err(NoRoute(remote)) }
    }

    fn mtu(&self) -> usize {
        self.bounded(self.device_mtu)
    }

    fn bounded(&self, mtu: usize) -> usize {
        self.mtu_max.map_or(mtu, |max| max.min(mtu))
    }
}

impl StackState {
    pub(crate) fn add_address(&mut self, address: Cidr) {
        let known = self.network.addresses.iter_mut().find(|known| known.addr() == address.addr());
        match known {
            Some(known) => *known = address,
            None => self.network.addresses.push(address),
        }
        self.tell_addresses();
    }

    pub(crate) fn remove_address(&mut self, address: IpAddr) -> bool {
        let before = self.network.addresses.len();
        self.network.addresses.retain(|known| known.addr() != address);
        self.network.deprecated.retain(|known| *known != address);
        self.tell_addresses();
        self.network.addresses.len() < before
    }

    pub(crate) fn set_deprecated(&mut self, address: IpAddr, deprecated: bool) -> bool {
        let known = self.network.addresses.iter().any(|known| known.addr() == address);
        self.network.deprecated.retain(|known| *known != address);
        if known && deprecated {
            self.network.deprecated.push(address);
        }
        self.tell_addresses();
        known
    }

    pub(crate) fn add_route(&mut self, destination: Cidr, source: Option<IpAddr>) {
        let routes = self.network.routes.get_or_insert_default();
        routes.retain(|known| known.destination.network() != destination.network());
        routes.push(Route::new(destination, source));
        self.tell_routes();
    }

    pub(crate) fn remove_route(&mut self, destination: Cidr) -> bool {
        let Some(routes) = &mut self.network.routes else { return false };
        let before = routes.len();
        routes.retain(|known| known.destination.network() != destination.network());
        let removed = routes.len() < before;
        self.tell_routes();
        removed
    }

    pub(crate) fn clear_routes(&mut self) {
        self.network.routes = None;
        self.tell_routes();
    }

    pub(crate) fn routes(&self) -> Option<Vec<Cidr>> {
        let routes = self.network.routes.as_ref()?;
        Some(routes.iter().map(|route| route.destination).collect())
    }

    /// Bounds the MTU below the device's.
    pub(crate) fn set_mtu_max(&mut self, now: Instant, mtu: Option<usize>) -> io::Result<()> {
        let has_v6 = self.network.addresses.iter().any(|address| address.addr().is_ipv6());
        let (least, range) = if has_v6 { (1280, "1280 or more") } else { (576, "576 or more") };
        if mtu.is_some_and(|mtu| mtu < least) {
            return Err(error::out_of_range("mtu", range));
        }
        self.network.mtu_max = mtu;
        self.endpoint.set_mtu(now, self.network.mtu());
        self.tell_links(now);
        Ok(())
    }

    /// The device now carries packets of this size.
    pub(crate) fn set_device_mtu(&mut self, now: Instant, mtu: usize) {
        if self.network.device_mtu != mtu {
            self.network.device_mtu = mtu;
            self.endpoint.set_mtu(now, self.network.mtu());
        }
    }

    /// The device now has these routes.
    pub(crate) fn set_device_routes(&mut self, now: Instant, links: Vec<Route<Egress>>) {
        if self.network.links != links {
            self.network.links = links;
            self.tell_links(now);
        }
    }

    pub(crate) fn mtu(&self) -> usize {
        self.network.mtu()
    }

    /// Configures a new endpoint with all of it.
    pub(crate) fn tell_network(&mut self) {
        self.tell_addresses();
        self.tell_routes();
        self.tell_links(Instant::ZERO);
    }

    fn tell_links(&mut self, now: Instant) {
        let network = &self.network;
        let routes = network.links.iter().map(|route| {
            Route::new(route.destination, Egress { mtu: network.bounded(route.to.mtu), ..route.to })
        });
        self.endpoint.set_link_routes(now, routes.collect());
    }

    fn tell_addresses(&mut self) {
        let Network { addresses, deprecated, .. } = &self.network;
        let local = |address: &Cidr| LocalAddress {
            address: *address,
            deprecated: deprecated.contains(&address.addr()),
        };
        // RFC 9293 MUST-57: the endpoint must know its networks' broadcast addresses to discard SYNs to them.
        let broadcast = addresses.iter().filter_map(Cidr::broadcast).collect();
        self.endpoint.set_local_addresses(addresses.iter().map(local).collect(), broadcast);
    }

    fn tell_routes(&mut self) {
        let routes = self.network.routes.iter().flatten();
        let with_source =
            routes.filter_map(|route| route.to.map(|source| Route::new(route.destination, source)));
        self.endpoint.set_source_routes(with_source.collect());
    }
}

/// Whether a route's source can reach its destination.
pub(crate) fn check_families(destination: Cidr, source: IpAddr) -> io::Result<()> {
    if destination.addr().is_ipv4() == source.is_ipv4() {
        return Ok(());
    }
    Err(error::out_of_range("route_from", "a source of the destination's family"))
}
