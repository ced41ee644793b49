//! Addresses as sockets show and take them: v4-mapped ones on an IPv6 socket (RFC 4291 §2.5.5.2, RFC 3493
//! §3.7), which never appear in a packet; and unspecified ones as a destination, which mean this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ackclock_core::ListenAddr;

use crate::state::StackState;

/// An address as packets carry it: the IPv4 address for a v4-mapped one.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// Whether an address is v4-mapped.
pub(crate) fn is_mapped(ip: IpAddr) -> bool {
    ip.is_ipv6() && ip.to_canonical().is_ipv4()
}

/// An address as a socket shows it.
pub(crate) fn shown(addr: SocketAddr, mapped: bool) -> SocketAddr {
    match addr {
        SocketAddr::V4(v4) if mapped => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        addr => addr,
    }
}

/// The address of a listener as a socket shows it: a listener for both families has IPv6's wildcard.
pub(crate) fn listened(addr: ListenAddr, mapped: bool) -> SocketAddr {
    let ip = addr.addr.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
    shown(SocketAddr::new(ip, addr.port.unwrap_or(0)), mapped)
}

/// The address to listen on or bind to: `0.0.0.0` stands for any IPv4 address, `::` for any of either family,
/// or of IPv6 if `only_v6`.
pub(crate) fn local(ip: IpAddr, only_v6: bool) -> Option<IpAddr> {
    match ip {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) if !only_v6 => None,
        ip => Some(ip.to_canonical()),
    }
}

/// The address to connect to: an unspecified address is this host, by its first address of the family.
pub(crate) fn remote(state: &StackState, addr: SocketAddr) -> SocketAddr {
    let addr = canonical(addr);
    let same = |own: &IpAddr| own.is_ipv4() == addr.is_ipv4();
    let own = state.network.addresses().iter().map(|own| own.addr()).find(same);
    match own.filter(|_| addr.ip().is_unspecified()) {
        Some(own) => SocketAddr::new(own, addr.port()),
        None => addr,
    }
}

/// The address to connect from: a wildcard leaves the choice to the stack.
pub(crate) fn specified(addr: IpAddr) -> Option<IpAddr> {
    Some(addr.to_canonical()).filter(|addr| !addr.is_unspecified())
}

/// The wildcard of a family.
pub(crate) fn wildcard(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_wildcard_of_ipv6_stands_for_both_families_unless_it_is_only_ipv6() {
        assert_eq!(local(ip("::"), false), None);
        assert_eq!(local(ip("::"), true), Some(ip("::")));
        assert_eq!(local(ip("0.0.0.0"), false), Some(ip("0.0.0.0")));
        assert_eq!(local(ip("::ffff:0.0.0.0"), false), Some(ip("0.0.0.0")));
        assert_eq!(local(ip("::ffff:10.0.0.1"), false), Some(ip("10.0.0.1")));
    }

    #[test]
    fn a_mapped_address_is_shown_as_it_was_given() {
        let given: SocketAddr = "[::ffff:10.0.0.1]:80".parse().unwrap();
        assert_eq!(canonical(given), "10.0.0.1:80".parse().unwrap());
        assert_eq!(shown(canonical(given), true), given);
        assert_eq!(shown("[fd00::1]:80".parse().unwrap(), true), "[fd00::1]:80".parse().unwrap());
    }
}
