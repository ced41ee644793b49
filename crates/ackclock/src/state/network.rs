//! A stack's network, which can change while it runs: addresses, routes, MTU.

use std::io;
use std::net::IpAddr;

use ackclock_core::{Instant, LocalAddress};
use ackclock_journal::RecordedEndpoint;
use ackclock_wire::{Egress, Route};

use crate::{Cidr, NoRoute, error};

/// A stack's network, as each of its shards knows it.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// Local addresses.
    addresses: Vec<Cidr>,
    /// The local addresses used only if no other fits.
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

ackclock_form::form! {
    // The device says what it is made of.
    struct Network { addresses, deprecated, routes, device_mtu, links = Vec::new(), mtu_max }
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

    /// Local addresses.
    pub fn addresses(&self) -> &[Cidr] {
        &self.addresses
    }

    /// Whether a route leads to `remote`. Without routes every destination goes to the device.
    pub fn check_route(&self, remote: IpAddr) -> Result<(), NoRoute> {
        let Some(routes) = &self.routes else { return Ok(()) };
        let mut known = routes.iter().map(|route| &route.destination).chain(&self.addresses);
        if known.any(|network| network.contains(remote)) { Ok(()) } else { Err(NoRoute(remote)) }
    }

    /// The largest IP packet that leaves.
    pub fn mtu(&self) -> usize {
        self.bounded(self.device_mtu)
    }

    fn bounded(&self, mtu: usize) -> usize {
        self.mtu_max.map_or(mtu, |max| max.min(mtu))
    }

    pub fn add_address(&mut self, endpoint: &mut RecordedEndpoint, address: Cidr) {
        let known = self.addresses.iter_mut().find(|known| known.addr() == address.addr());
        match known {
            Some(known) => *known = address,
            None => self.addresses.push(address),
        }
        self.tell_addresses(endpoint);
    }

    pub fn remove_address(&mut self, endpoint: &mut RecordedEndpoint, address: IpAddr) -> bool {
        let before = self.addresses.len();
        self.addresses.retain(|known| known.addr() != address);
        self.deprecated.retain(|known| *known != address);
        self.tell_addresses(endpoint);
        self.addresses.len() < before
    }

    pub fn set_deprecated(
        &mut self,
        endpoint: &mut RecordedEndpoint,
        address: IpAddr,
        deprecated: bool,
    ) -> bool {
        // RFC 6724 §3.2: IPv4 addresses MUST be treated as having "preferred" configuration status.
        let known = address.is_ipv6() && self.addresses.iter().any(|known| known.addr() == address);
        self.deprecated.retain(|known| *known != address);
        if known && deprecated {
            self.deprecated.push(address);
        }
        self.tell_addresses(endpoint);
        known
    }

    pub fn add_route(&mut self, endpoint: &mut RecordedEndpoint, destination: Cidr, source: Option<IpAddr>) {
        let routes = self.routes.get_or_insert_default();
        routes.retain(|known| known.destination.network() != destination.network());
        routes.push(Route::new(destination, source));
        self.tell_routes(endpoint);
    }

    pub fn remove_route(&mut self, endpoint: &mut RecordedEndpoint, destination: Cidr) -> bool {
        let Some(routes) = &mut self.routes else { return false };
        let before = routes.len();
        routes.retain(|known| known.destination.network() != destination.network());
        let removed = routes.len() < before;
        self.tell_routes(endpoint);
        removed
    }

    pub fn clear_routes(&mut self, endpoint: &mut RecordedEndpoint) {
        self.routes = None;
        self.tell_routes(endpoint);
    }

    pub fn routes(&self) -> Option<Vec<Cidr>> {
        let routes = self.routes.as_ref()?;
        Some(routes.iter().map(|route| route.destination).collect())
    }

    /// Bounds the MTU below the device's.
    pub fn set_mtu_max(
        &mut self,
        endpoint: &mut RecordedEndpoint,
        now: Instant,
        mtu: Option<usize>,
    ) -> io::Result<()> {
        let has_v6 = self.addresses.iter().any(|address| address.addr().is_ipv6());
        let (least, range) = if has_v6 { (1280, "1280 or more") } else { (576, "576 or more") };
        if mtu.is_some_and(|mtu| mtu < least) {
            return Err(error::out_of_range("mtu", range));
        }
        self.mtu_max = mtu;
        endpoint.set_mtu(now, self.mtu());
        self.tell_links(endpoint, now);
        Ok(())
    }

    /// The device now carries packets of this size.
    pub fn set_device_mtu(&mut self, endpoint: &mut RecordedEndpoint, now: Instant, mtu: usize) {
        if self.device_mtu != mtu {
            self.device_mtu = mtu;
            endpoint.set_mtu(now, self.mtu());
        }
    }

    /// The device now has these routes.
    pub fn set_device_routes(
        &mut self,
        endpoint: &mut RecordedEndpoint,
        now: Instant,
        links: Vec<Route<Egress>>,
    ) {
        if self.links != links {
            self.links = links;
            self.tell_links(endpoint, now);
        }
    }

    /// Configures a new endpoint with all of it.
    pub fn tell(&self, endpoint: &mut RecordedEndpoint) {
        self.tell_addresses(endpoint);
        self.tell_routes(endpoint);
        self.tell_links(endpoint, Instant::ZERO);
    }

    fn tell_links(&self, endpoint: &mut RecordedEndpoint, now: Instant) {
        let routes = self.links.iter().map(|route| {
            Route::new(route.destination, Egress { mtu: self.bounded(route.to.mtu), ..route.to })
        });
        endpoint.set_link_routes(now, routes.collect());
    }

    fn tell_addresses(&self, endpoint: &mut RecordedEndpoint) {
        let Self { addresses, deprecated, .. } = self;
        let local = |address: &Cidr| LocalAddress {
            address: *address,
            deprecated: deprecated.contains(&address.addr()),
        };
        // RFC 9293 MUST-57: the endpoint must know its networks' broadcast addresses to discard SYNs to them.
        let broadcast = addresses.iter().filter_map(Cidr::broadcast).collect();
        endpoint.set_local_addresses(addresses.iter().map(local).collect(), broadcast);
    }

    fn tell_routes(&self, endpoint: &mut RecordedEndpoint) {
        let routes = self.routes.iter().flatten();
        let with_source =
            routes.filter_map(|route| route.to.map(|source| Route::new(route.destination, source)));
        endpoint.set_source_routes(with_source.collect());
    }
}

/// Whether a route's source can reach its destination.
pub(crate) fn check_families(destination: Cidr, source: IpAddr) -> io::Result<()> {
    if destination.addr().is_ipv4() == source.is_ipv4() {
        return Ok(());
    }
    Err(error::out_of_range("route_from", "a source of the destination's family"))
}
