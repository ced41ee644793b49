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
//! RFC 6724 was read in quotations only, rules 1 to 3 and 6 in those of its predecessor, RFC 3484.

use std::net::{IpAddr, Ipv6Addr};

use ackclock_wire::{Cidr, Egress, Route};

/// One of an endpoint's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// The address, and its network's prefix.
    pub address: Cidr,
    /// Whether new connections use it only if there is no other (RFC 4862 §5.5.4).
    pub deprecated: bool,
}

impl From<IpAddr> for LocalAddress {
    /// An address alone in its network.
    fn from(addr: IpAddr) -> Self {
        Self { address: addr.into(), deprecated: false }
    }
}

/// The address for packets to `remote`; of equals the first.
pub(super) fn source_for(
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
    let mut best: Option<(Rank, IpAddr)> = None;
    for own in own.iter().filter(|own| own.address.addr().is_ipv4() == remote.is_ipv4()) {
        let link = link_to(own.address.addr());
        let is_outgoing = outgoing.is_none() || link.is_none() || link == outgoing;
        let rank = rank(own, remote, is_outgoing);
        if best.is_none_or(|(highest, _)| rank > highest) {
            best = Some((rank, own.address.addr()));
        }
    }
    best.map(|(_, addr)| addr)
}

/// How well an address fits, rule by rule.
type Rank = (bool, ScopeRank, bool, bool, bool, u8);

/// Rule 2: sufficient scope before insufficient; the smallest sufficient one, or the largest insufficient
/// one.
type ScopeRank = (bool, i8);

fn rank(own: &LocalAddress, remote: IpAddr, is_outgoing: bool) -> Rank {
    let addr = own.address.addr();
    let (has, wanted) = (scope(addr), scope(remote));
    let scope_rank = if has >= wanted { (true, has.saturating_neg()) } else { (false, has) };
    let label_matches = label(addr) == label(remote);
    let common = own.address.shared_len(remote);
    (addr == remote, scope_rank, !own.deprecated, is_outgoing, label_matches, common)
}

/// RFC 6724 §3.1, §3.2: link-local, or global. Site-local addresses are deprecated, private IPv4 addresses
/// have global scope.
pub(super) fn scope(addr: IpAddr) -> i8 {
    let is_link_local = match addr {
        IpAddr::V4(addr) => addr.is_link_local() || addr.is_loopback(),
        IpAddr::V6(addr) => addr.is_unicast_link_local() || addr.is_loopback(),
    };
    if is_link_local { LINK_LOCAL } else { GLOBAL }
}

/// RFC 6724 §2.1: the label of the default policy table, where the longest prefix counts.
pub(super) fn label(addr: IpAddr) -> u8 {
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
const GLOBAL: i8 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> LocalAddress {
        LocalAddress { address: text.parse().unwrap(), deprecated: false }
    }

    fn source(addresses: &[&str], remote: &str) -> String {
        let addresses: Vec<_> = addresses.iter().map(|text| own(text)).collect();
        source_for(&addresses, &[], &[], remote.parse().unwrap()).unwrap().to_string()
    }

    // The examples of RFC 6724 §10.1, as far as their rules apply here.
    #[test]
    fn the_examples_of_rfc_6724_come_out() {
        assert_eq!(source(&["2001:db8:3::1/64", "fe80::1/64"], "2001:db8:1::1"), "2001:db8:3::1");
        assert_eq!(source(&["fe80::1/64", "2001:db8:1::1/64"], "2001:db8:2::1"), "2001:db8:1::1");
        assert_eq!(source(&["2001:db8:1::1/64", "fe80::1/64"], "fe80::2"), "fe80::1");
        assert_eq!(source(&["2001:db8:3::2/64", "2001:db8:1::2/64"], "2001:db8:1::1"), "2001:db8:1::2");
        assert_eq!(
            source(&["2002:c633:6401::d5e3:7953:13eb:22e8/64", "2001:db8:1::2/64"], "2001:db8:1::1"),
            "2001:db8:1::2"
        );
        assert_eq!(
            source(&["2001:db8:1::2/64", "2002:c633:6401::d5e3:7953:13eb:22e8/64"], "2002:c633:6401::1"),
            "2002:c633:6401:0:d5e3:7953:13eb:22e8"
        );
    }

    #[test]
    fn labels_are_those_of_the_default_policy_table() {
        let table = [
            ("::1", 0),
            ("2a00::1", 1),
            ("10.0.0.1", 4),
            ("2002:c000:201::1", 2),
            ("2001:0:1::1", 5),
            ("2001:db8::1", 1),
            ("fd00::1", 13),
            ("fc00::1", 13),
            ("::192.0.2.1", 3),
            ("fec0::1", 11),
            ("3ffe::1", 12),
            ("fe80::1", 1),
        ];
        for (addr, expected) in table {
            assert_eq!(label(addr.parse().unwrap()), expected, "{addr}");
        }
    }

    #[test]
    fn loopback_and_link_local_addresses_have_the_scope_of_the_link() {
        for addr in ["127.0.0.1", "169.254.7.7", "::1", "fe80::1"] {
            assert_eq!(scope(addr.parse().unwrap()), LINK_LOCAL, "{addr}");
        }
        for addr in ["10.0.0.1", "192.0.2.1", "fd00::1", "fec0::1", "2001:db8::1"] {
            assert_eq!(scope(addr.parse().unwrap()), GLOBAL, "{addr}");
        }
    }

    #[test]
    fn an_address_reaches_itself_from_itself() {
        assert_eq!(source(&["10.0.0.2/24", "10.0.0.1/24"], "10.0.0.1"), "10.0.0.1");
        assert_eq!(source(&["fd00::2/64", "fe80::1/64"], "fe80::1"), "fe80::1");
    }

    #[test]
    fn a_unique_local_address_reaches_its_like() {
        assert_eq!(source(&["2001:db8::1/64", "fd00::1/64"], "fd77::2"), "fd00::1");
        assert_eq!(source(&["fd00::1/64", "2001:db8::1/64"], "2a00::1"), "2001:db8::1");
    }

    #[test]
    fn a_deprecated_address_is_the_last_choice_of_its_scope() {
        let mut addresses = [own("2001:db8:1::1/64"), own("2001:db8:2::1/64")];
        addresses[0].deprecated = true;
        let remote = "2001:db8:1::9".parse().unwrap();
        assert_eq!(source_for(&addresses, &[], &[], remote), Some(addresses[1].address.addr()));
        assert_eq!(source_for(&addresses[..1], &[], &[], remote), Some(addresses[0].address.addr()));
    }

    #[test]
    fn a_prefix_counts_up_to_its_length_and_of_equals_the_first_stands() {
        // Beyond 24 bits 10.0.0.129 has more in common with 10.0.0.200; that says nothing about where the two
        // are.
        assert_eq!(source(&["10.0.0.1/24", "10.0.0.129/24"], "10.0.0.200"), "10.0.0.1");
        assert_eq!(source(&["10.0.0.1/24", "192.168.7.1/24"], "192.168.7.9"), "192.168.7.1");
    }

    #[test]
    fn the_longest_route_with_a_source_decides() {
        let addresses = [own("10.0.0.1/24"), own("192.0.2.1/24"), own("198.51.100.1/24")];
        let route =
            |network: &str, source: &str| Route::new(network.parse().unwrap(), source.parse().unwrap());
        let routes = [
            route("0.0.0.0/0", "192.0.2.1"),
            route("203.0.113.0/24", "198.51.100.1"),
            route("10.7.0.0/16", "10.9.9.9"),
        ];
        let source =
            |remote: &str| source_for(&addresses, &routes, &[], remote.parse().unwrap()).unwrap().to_string();
        assert_eq!(source("8.8.8.8"), "192.0.2.1");
        assert_eq!(source("203.0.113.7"), "198.51.100.1");
        assert_eq!(source("10.7.0.1"), "192.0.2.1", "a source that is not ours is passed over");
    }

    #[test]
    fn an_address_at_the_outgoing_link_goes_before_label_and_prefix_and_behind_deprecation() {
        let link = |network: &str, link| Route::new(network.parse().unwrap(), Egress { link, mtu: 1500 });
        let links = [link("0.0.0.0/0", 1), link("10.0.0.0/8", 2), link("::/0", 1), link("fd00::/8", 2)];
        let mut addresses =
            [own("10.0.0.1/8"), own("192.0.2.1/24"), own("fd00::1/64"), own("2001:db8::1/64")];
        let source = |addresses: &[LocalAddress], remote: &str| {
            source_for(addresses, &[], &links, remote.parse().unwrap()).unwrap().to_string()
        };
        // By rule 8 alone 10.0.0.1 and the first would win.
        assert_eq!(source(&addresses, "11.0.0.1"), "192.0.2.1");
        assert_eq!(source(&addresses, "10.9.9.9"), "10.0.0.1");
        assert_eq!(source(&addresses, "2a00::1"), "2001:db8::1");
        assert_eq!(source(&addresses, "fd77::1"), "fd00::1");
        addresses[1].deprecated = true;
        assert_eq!(source(&addresses, "11.0.0.1"), "10.0.0.1", "rule 3 goes before rule 5");
        // An address without a link's route is at every link.
        let only_lan = [link("10.0.0.0/8", 2)];
        let far = [own("192.0.2.1/24"), own("10.0.0.1/8")];
        let source = source_for(&far, &[], &only_lan, "10.9.9.9".parse().unwrap()).unwrap();
        assert_eq!(source.to_string(), "10.0.0.1");
    }

    #[test]
    fn without_a_route_to_the_peer_or_to_an_address_links_do_not_decide() {
        let link = |network: &str| Route::new(network.parse().unwrap(), Egress { link: 2, mtu: 1500 });
        let source = |own: [LocalAddress; 2], links: &[Route<Egress>], remote: &str| {
            source_for(&own, &[], links, remote.parse().unwrap()).unwrap().to_string()
        };
        // The peer is at a link, and the nearer address at none.
        let links = [link("10.9.9.9/32"), link("192.0.2.0/24")];
        assert_eq!(source([own("192.0.2.1/24"), own("10.9.9.1/24")], &links, "10.9.9.9"), "10.9.9.1");
        // No link leads to the peer, and one to the nearer address.
        assert_eq!(
            source([own("11.0.0.1/8"), own("10.0.0.1/8")], &[link("10.0.0.1/32")], "10.9.9.9"),
            "10.0.0.1"
        );
    }

    #[test]
    fn there_is_none_without_an_address_of_the_family() {
        assert_eq!(source_for(&[own("10.0.0.1/24")], &[], &[], "fd00::2".parse().unwrap()), None);
    }
}
