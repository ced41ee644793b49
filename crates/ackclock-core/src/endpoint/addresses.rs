//! An endpoint's addresses: what can be a packet's source or destination, which source a packet has, and the
//! order in which to try destinations.
//!
//! Which cannot: RFC 1122 §3.2.1.3, RFC 4291 §2.5 and §2.7. What is refused here is dropped without
//! a reply: an answer would go to a third party, or to everyone.
//!
//! # Source address
//!
//! The source address of a packet whose sender names none (RFC 6724 §5, as far as it applies here).
//!
//! A route may name its source, as the kernel's may; the longest one to the destination decides. Otherwise
//! the rules of RFC 6724 apply in order: 1, the destination itself; 2, an appropriate scope; 3, no deprecated
//! address; 5, the outgoing interface; 6, a matching label; 8, the longest matching prefix, up to the prefix
//! of the address. IPv4 uses the same rules. Rules 4 and 7 concern addresses that this stack does not have
//! (home and temporary addresses). Rule 5.5 needs the next hop, which a stack of IP packets does not know.
//! For rule 5 an address is at the link by which it would itself be reached; one without a link's route is at
//! every link. With one link the rule says nothing.
//!
//! # Order of destinations
//!
//! The order in which to try the addresses of one name (RFC 6724 §6).
//!
//! The rules of §6 apply in order: 1, destinations with a source address first; 2, those whose scope matches
//! their source's; 3, those whose source is not deprecated; 5, those whose label matches their source's; 6,
//! higher precedence; 8, smaller scope; 9, a longer prefix in common with their source; 10, the original
//! order. Rules 4 and 7 concern addresses and tunnels that this stack does not have.
//!
//! Deviation from RFC 6724 §6 rule 9: it applies to IPv6 only. IPv4 addresses are assigned without regard to
//! location, and the rule would undo a name server's rotation.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ackclock_wire::{Cidr, Egress, Route};

/// The addresses of an endpoint. They are replaced, never appended, so boxed slices save a word compared with
/// vectors.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    own: Box<[LocalAddress]>,
    routes: Box<[Route<IpAddr>]>,
    /// Empty with a single link.
    links: Box<[Route<Egress>]>,
    /// The largest packet where no link's route leads.
    mtu: usize,
    broadcast: Box<[IpAddr]>,
    /// Whether a loopback address is one of ours; then the device is a loopback.
    loopback: bool,
    /// Whether sockets may use addresses that are not ours.
    transparent: bool,
}

impl Addresses {
    pub fn new(own: Vec<IpAddr>, broadcast: Vec<IpAddr>, mtu: usize) -> Self {
        let broadcast = broadcast.into_boxed_slice();
        let mut addresses = Self { broadcast, mtu, ..Self::default() };
        addresses.set_own(own.into_iter().map(LocalAddress::from).collect());
        addresses
    }

    /// Whether sockets may use addresses that are not ours.
    pub fn set_transparent(&mut self, transparent: bool) {
        self.transparent = transparent;
    }

    pub fn set_own(&mut self, own: Vec<LocalAddress>) {
        self.loopback = own.iter().any(|own| own.address.addr().is_loopback());
        self.own = own.into_boxed_slice();
    }

    pub fn set_broadcast(&mut self, broadcast: Vec<IpAddr>) {
        self.broadcast = broadcast.into_boxed_slice();
    }

    pub fn set_routes(&mut self, routes: Vec<Route<IpAddr>>) {
        self.routes = routes.into_boxed_slice();
    }

    /// Replaces the links' routes. Returns the old ones.
    pub fn set_links(&mut self, links: Vec<Route<Egress>>) -> Box<[Route<Egress>]> {
        std::mem::replace(&mut self.links, links.into_boxed_slice())
    }

    /// The link by which `remote` is reached, if there are several.
    #[inline]
    pub fn link_to(&self, remote: IpAddr) -> Option<Egress> {
        if self.links.is_empty() { None } else { Route::longest(&self.links, remote).map(|route| route.to) }
    }

    /// The largest IP packet to `remote`.
    #[inline]
    pub fn mtu_to(&self, remote: IpAddr) -> usize {
        self.link_to(remote).map_or(self.mtu, |link| link.mtu)
    }

    /// The largest IP packet to `remote`, by these routes.
    pub fn mtu_by(&self, links: &[Route<Egress>], remote: IpAddr) -> usize {
        Route::longest(links, remote).map_or(self.mtu, |route| route.to.mtu)
    }

    /// The largest IP packet where no link's route leads.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    pub fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// The entry of one of our addresses.
    fn own(&self, addr: IpAddr) -> Option<&LocalAddress> {
        self.own.iter().find(|own| own.address.addr() == addr)
    }

    #[inline]
    pub fn is_own(&self, addr: IpAddr) -> bool {
        self.own.iter().any(|own| own.address.addr() == addr)
    }

    /// Whether a socket may have this local address: one of ours, or that of any host if this is permitted.
    pub fn may_be_local(&self, addr: IpAddr) -> bool {
        self.is_own(addr) || self.transparent && self.valid_destination(addr)
    }

    /// Whether a packet from the device may have this source address.
    // RFC 9293 MUST-63: a SYN from an invalid source is ignored.
    pub fn valid_source(&self, addr: IpAddr) -> bool {
        self.is_unicast(addr) && if addr.is_loopback() { self.loopback } else { !self.is_own(addr) }
    }

    /// Whether a packet may have this destination, be it ours or (for listeners on any address) not.
    // RFC 9293 MUST-57: a SYN to a broadcast or multicast address is silently discarded.
    pub fn valid_destination(&self, addr: IpAddr) -> bool {
        self.is_unicast(addr) && (self.loopback || !addr.is_loopback())
    }

    /// Whether a connection to this socket may be opened.
    // RFC 9293 MUST-46: an OPEN to an invalid remote address is rejected.
    pub fn valid_peer(&self, remote: SocketAddr) -> bool {
        let addr = remote.ip();
        remote.port() != 0 && self.is_unicast(addr) && (self.loopback || !addr.is_loopback())
    }

    /// The local address for packets to `remote`.
    // RFC 9293 MUST-44: the source address is settled before the first SYN.
    pub fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        source_for(&self.own, &self.routes, &self.links, remote)
    }

    /// Sorts addresses of one name, of one family or both, into the order in which to try them. Equals keep
    /// their order.
    pub fn sort_destinations(&self, remotes: &mut [IpAddr]) {
        remotes.sort_by_cached_key(|&remote| Reverse(destination_rank(self, remote)));
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
    // RFC 1122 §3.2.1.3 (a), (b): 0/8 MUST NOT be sent, except as a source before a host knows its address.
    // 224/4 multicast; 240/4 reserved, the limited broadcast address among it.
    (1..224).contains(&addr.octets()[0])
}

fn is_unicast_v6(addr: Ipv6Addr) -> bool {
    // A v4-mapped address never appears in a packet (RFC 4942 §2.2).
    !addr.is_unspecified() && !addr.is_multicast() && addr.to_ipv4_mapped().is_none()
}

/// One of an endpoint's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// The address, and its network's prefix.
    pub address: Cidr,
    /// Whether new connections use it only if there is no other (RFC 4862 §5.5.4). Without effect for an
    /// IPv4 address, which is always preferred (RFC 6724 §3.2).
    pub deprecated: bool,
}

impl LocalAddress {
    /// Whether it is in its preferred lifetime.
    // RFC 6724 §3.2: IPv4 addresses MUST be treated as having "preferred" configuration status. §3.4: so must
    // the loopback address.
    fn is_preferred(&self) -> bool {
        let addr = self.address.addr();
        addr.is_ipv4() || addr.is_loopback() || !self.deprecated
    }
}

impl From<IpAddr> for LocalAddress {
    /// An address alone in its network.
    fn from(addr: IpAddr) -> Self {
        Self { address: addr.into(), deprecated: false }
    }
}

/// The address for packets to `remote`; of equals the first.
fn source_for(
    own: &[LocalAddress],
    routes: &[Route<IpAddr>],
    links: &[Route<Egress>],
    remote: IpAddr,
) -> Option<IpAddr> {
    let is_usable = |route: &&Route<IpAddr>| {
        route.to.is_ipv4() == remote.is_ipv4() && own.iter().any(|own| own.address.addr() == route.to)
    };
    if let Some(route) = Route::longest(routes.iter().filter(is_usable), remote) {
        return Some(route.to);
    }
    let link_to = |addr| Route::longest(links, addr).map(|route| route.to.link);
    let outgoing = link_to(remote);
    let mut best: Option<(SourceRank, IpAddr)> = None;
    for own in own.iter().filter(|own| own.address.addr().is_ipv4() == remote.is_ipv4()) {
        let link = link_to(own.address.addr());
        let is_outgoing = outgoing.is_none() || link.is_none() || link == outgoing;
        let rank = source_rank(own, remote, is_outgoing);
        if best.is_none_or(|(highest, _)| rank > highest) {
            best = Some((rank, own.address.addr()));
        }
    }
    best.map(|(_, addr)| addr)
}

/// How well a source fits, rule by rule.
type SourceRank = (bool, ScopeRank, bool, bool, bool, u8);

/// Rule 2: sufficient scope before insufficient; the smallest sufficient one, or the largest insufficient
/// one.
type ScopeRank = (bool, i8);

fn source_rank(own: &LocalAddress, remote: IpAddr, is_outgoing: bool) -> SourceRank {
    let addr = own.address.addr();
    let (has, wanted) = (scope(addr), scope(remote));
    let scope_rank = if has >= wanted { (true, has.saturating_neg()) } else { (false, has) };
    let label_matches = label(addr) == label(remote);
    let common = own.address.shared_len(remote);
    (addr == remote, scope_rank, own.is_preferred(), is_outgoing, label_matches, common)
}

/// RFC 6724 §3.1, §3.2: unique local and private IPv4 addresses have global scope.
fn scope(addr: IpAddr) -> i8 {
    let is_link_local = match addr {
        IpAddr::V4(addr) => addr.is_link_local() || addr.is_loopback(),
        IpAddr::V6(addr) => addr.is_unicast_link_local() || addr.is_loopback(),
    };
    match addr {
        _ if is_link_local => LINK_LOCAL,
        // RFC 4291 §2.5.7: fec0::/10.
        IpAddr::V6(addr) if addr.segments()[0] & 0xffc0 == 0xfec0 => SITE_LOCAL,
        _ => GLOBAL,
    }
}

/// RFC 6724 §2.1: the label of the default policy table, where the longest prefix counts.
fn label(addr: IpAddr) -> u8 {
    let IpAddr::V6(addr) = addr else { return 4 };
    let [first, second, ..] = addr.segments();
    match (first, second) {
        _ if addr == Ipv6Addr::LOCALHOST => 0,
        (0, 0) if addr.to_bits() >> 32 == 0 => 3,
        (0x2002, _) => 2,
        (0x2001, 0) => 5,
        (0x3ffe, _) => 12,
        (0xfc00..=0xfdff, _) => 13,
        (0xfec0..=0xfeff, _) => 11,
        _ => 1,
    }
}

const LINK_LOCAL: i8 = 2;
const SITE_LOCAL: i8 = 5;
const GLOBAL: i8 = 14;

/// How well a destination fits, rule by rule.
type DestinationRank = (bool, bool, bool, bool, u8, Reverse<i8>, u8);

fn destination_rank(addresses: &Addresses, remote: IpAddr) -> DestinationRank {
    let Some(source) = addresses.source_for(remote).and_then(|source| addresses.own(source)) else {
        return (false, false, false, false, precedence(remote), Reverse(scope(remote)), 0);
    };
    let common = match remote {
        IpAddr::V6(_) => source.address.shared_len(remote),
        IpAddr::V4(_) => 0,
    };
    let same_scope = scope(source.address.addr()) == scope(remote);
    let same_label = label(source.address.addr()) == label(remote);
    (true, same_scope, source.is_preferred(), same_label, precedence(remote), Reverse(scope(remote)), common)
}

/// RFC 6724 §2.1: the precedence of the default policy table.
fn precedence(addr: IpAddr) -> u8 {
    match label(addr) {
        0 => 50,
        4 => 35,
        2 => 30,
        5 => 5,
        13 => 3,
        // Deprecated forms: IPv4-compatible and site-local addresses, the 6bone.
        3 | 11 | 12 => 1,
        _ => 40,
    }
}

ackclock_form::form! {
    struct Addresses { own, routes, links, mtu, broadcast, loopback, transparent }
    struct LocalAddress { address, deprecated }
}

#[cfg(test)]
mod tests;
