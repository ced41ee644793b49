//! Addresses that cannot be a packet's source or destination (RFC 1122 §3.2.1.3, RFC 4291 §2.5 and §2.7; not
//! read).
//!
//! What is refused here is dropped without a reply: an answer would go to a third party, or to everyone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ackclock_wire::{Egress, Route};

use super::source::{LocalAddress, source_for};

/// The addresses of an endpoint. They are replaced, never appended, so boxed slices save a word compared with
/// vectors.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    own: Box<[LocalAddress]>,
    routes: Box<[Route<IpAddr>]>,
    /// Empty with a single link.
    links: Box<[Route<Egress>]>,
    broadcast: Box<[IpAddr]>,
    /// Whether a loopback address is one of ours; then the device is a loopback.
    loopback: bool,
}

impl Addresses {
    pub(super) fn new(own: Vec<IpAddr>, broadcast: Vec<IpAddr>) -> Self {
        let broadcast = broadcast.into_boxed_slice();
        let mut addresses = Self { broadcast, ..Self::default() };
        addresses.set_own(own.into_iter().map(LocalAddress::from).collect());
        addresses
    }

    pub(super) fn set_own(&mut self, own: Vec<LocalAddress>) {
        self.loopback = own.iter().any(|own| own.address.addr().is_loopback());
        self.own = own.into_boxed_slice();
    }

    pub(super) fn set_broadcast(&mut self, broadcast: Vec<IpAddr>) {
        self.broadcast = broadcast.into_boxed_slice();
    }

    pub(super) fn set_routes(&mut self, routes: Vec<Route<IpAddr>>) {
        self.routes = routes.into_boxed_slice();
    }

    /// Replaces the links' routes. Returns the old ones.
    pub(super) fn set_links(&mut self, links: Vec<Route<Egress>>) -> Box<[Route<Egress>]> {
        std::mem::replace(&mut self.links, links.into_boxed_slice())
    }

    /// The link by which `remote` is reached, if there are several.
    #[inline]
    pub(super) fn link_to(&self, remote: IpAddr) -> Option<Egress> {
        if self.links.is_empty() { None } else { Route::longest(&self.links, remote).map(|route| route.to) }
    }

    /// The entry of one of our addresses.
    pub(super) fn own(&self, addr: IpAddr) -> Option<&LocalAddress> {
        self.own.iter().find(|own| own.address.addr() == addr)
    }

    #[inline]
    pub(super) fn is_own(&self, addr: IpAddr) -> bool {
        self.own.iter().any(|own| own.address.addr() == addr)
    }

    /// Whether a packet from the device may have this source address.
    // RFC 9293 MUST-63: a SYN from an invalid source is ignored.
    pub(super) fn valid_source(&self, addr: IpAddr) -> bool {
        self.is_unicast(addr)
            && match addr {
                IpAddr::V4(v4) => v4.octets()[0] != 0,
                IpAddr::V6(_) => true,
            }
            && if addr.is_loopback() { self.loopback } else { !self.is_own(addr) }
    }

    /// Whether a packet may have this destination, be it ours or (for listeners on any address) not.
    // RFC 9293 MUST-57: a SYN to a broadcast or multicast address is silently discarded.
    pub(super) fn valid_destination(&self, addr: IpAddr) -> bool {
        self.is_unicast(addr) && (self.loopback || !addr.is_loopback())
    }

    /// Whether a connection to this socket may be opened.
    // RFC 9293 MUST-46: an OPEN to an invalid remote address is rejected.
    pub(super) fn valid_peer(&self, remote: SocketAddr) -> bool {
        let addr = remote.ip();
        remote.port() != 0 && self.is_unicast(addr) && (self.loopback || !addr.is_loopback())
    }

    /// The local address for packets to `remote`.
    // RFC 9293 MUST-44: the source address is settled before the first SYN.
    pub(super) fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        source_for(&self.own, &self.routes, &self.links, remote)
    }

    fn is_unicast(&self, addr: IpAddr) -> bool {
        let plausible = match addr {
            IpAddr::V4(addr) => is_unicast_v4(addr),
            IpAddr::V6(addr) => is_unicast_v6(addr),
        };
        plausible && !self.broadcast.contains(&addr)
    }
}

fn is_unicast_v4(addr: Ipv4Addr) -> bool {
    // 224/4 multicast; 240/4 reserved, the limited broadcast address among it.
    !addr.is_unspecified() && addr.octets()[0] < 224
}

fn is_unicast_v6(addr: Ipv6Addr) -> bool {
    // A v4-mapped address never appears in a packet (RFC 4942 §2.2).
    !addr.is_unspecified() && !addr.is_multicast() && addr.to_ipv4_mapped().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn addresses(own: &[&str]) -> Addresses {
        Addresses::new(own.iter().map(|own| ip(own)).collect(), vec![ip("10.0.0.255")])
    }

    // Tests: RFC 9293 MUST-63
    #[test]
    fn sec_c19_martian_sources_are_refused() {
        let addresses = addresses(&["10.0.0.1", "fd00::1"]);
        let martians = [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "10.0.0.255",
            "10.0.0.1",
            "::",
            "::1",
            "ff02::1",
            "::ffff:10.0.0.2",
            "fd00::1",
        ];
        for martian in martians {
            assert!(!addresses.valid_source(ip(martian)), "{martian}");
        }
        for fine in ["10.0.0.2", "192.0.2.1", "fe80::1", "fd00::2", "2001:db8::1"] {
            assert!(addresses.valid_source(ip(fine)), "{fine}");
        }
    }

    // Tests: RFC 9293 MUST-57
    #[test]
    fn sec_c19_martian_destinations_are_refused() {
        let addresses = addresses(&["10.0.0.1"]);
        for martian in
            ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "10.0.0.255", "::", "::1", "ff02::1"]
        {
            assert!(!addresses.valid_destination(ip(martian)), "{martian}");
        }
        assert!(addresses.valid_destination(ip("10.0.0.1")));
        assert!(addresses.valid_destination(ip("198.51.100.7")));
    }

    #[test]
    fn loopback_addresses_are_valid_on_a_loopback_device_only() {
        let addresses = addresses(&["127.0.0.1", "::1"]);
        for loopback in ["127.0.0.1", "::1"] {
            assert!(addresses.valid_source(ip(loopback)) && addresses.valid_destination(ip(loopback)));
        }
    }

    // Tests: RFC 9293 MUST-46
    #[test]
    fn an_invalid_peer_cannot_be_connected_to() {
        let addresses = addresses(&["10.0.0.1", "fd00::1"]);
        for remote in
            ["0.0.0.0:80", "224.0.0.1:80", "255.255.255.255:80", "10.0.0.255:80", "10.0.0.2:0", "[::]:80"]
        {
            assert!(!addresses.valid_peer(remote.parse().unwrap()), "{remote}");
        }
        assert!(addresses.valid_peer("10.0.0.2:80".parse().unwrap()));
    }

    // Tests: RFC 9293 MUST-44
    #[test]
    fn the_source_shares_the_longest_prefix_with_the_peer() {
        let addresses = addresses(&["10.0.0.1", "192.168.7.1", "fd00::1", "2001:db8::1"]);
        let source = |remote| addresses.source_for(ip(remote));
        assert_eq!(source("192.168.7.9"), Some(ip("192.168.7.1")));
        assert_eq!(source("10.9.9.9"), Some(ip("10.0.0.1")));
        assert_eq!(source("2001:db8::5"), Some(ip("2001:db8::1")));
        assert_eq!(Addresses::new(vec![ip("10.0.0.1")], vec![]).source_for(ip("fd00::2")), None);
    }
}
