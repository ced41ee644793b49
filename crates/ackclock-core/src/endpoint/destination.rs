//! The order in which to try the addresses of one name (RFC 6724 §6).
//!
//! The rules of §6 apply in order: 1, destinations with a source address first; 2, those whose scope matches
//! their source's; 3, those whose source is not deprecated; 5, those whose label matches their source's; 6,
//! higher precedence; 8, smaller scope; 9, a longer prefix in common with their source; 10, the original
//! order. Rules 4 and 7 concern addresses and tunnels that this stack does not have.
//!
//! Deviation from RFC 6724 §6 rule 9: it applies to IPv6 only. IPv4 addresses are assigned without regard to
//! location, and the rule would undo a name server's rotation.
//!
//! RFC 6724 was read in quotations only; the policy table of §2.1 is known from those, too.

use std::cmp::Reverse;
use std::net::IpAddr;

use super::Endpoint;
use super::martians::Addresses;
use super::source::{label, scope};

impl Endpoint {
    /// Sorts addresses of one name, of one family or both, into the order in which to try them (RFC 6724 §6).
    /// Equals keep their order.
    pub fn sort_destinations(&self, remotes: &mut [IpAddr]) {
        remotes.sort_by_cached_key(|&remote| Reverse(rank(&self.addresses, remote)));
    }
}

/// How well a destination fits, rule by rule.
type Rank = (bool, bool, bool, bool, u8, Reverse<i8>, u8);

fn rank(addresses: &Addresses, remote: IpAddr) -> Rank {
    let Some(source) = addresses.source_for(remote).and_then(|source| addresses.own(source)) else {
        return (false, false, false, false, precedence(remote), Reverse(scope(remote)), 0);
    };
    let common = match remote {
        IpAddr::V6(_) => source.address.shared_len(remote),
        IpAddr::V4(_) => 0,
    };
    let same_scope = scope(source.address.addr()) == scope(remote);
    let same_label = label(source.address.addr()) == label(remote);
    (true, same_scope, !source.deprecated, same_label, precedence(remote), Reverse(scope(remote)), common)
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

#[cfg(test)]
mod tests {
    use super::super::source::LocalAddress;
    use super::*;

    fn order(own: &[&str], remotes: &[&str]) -> Vec<String> {
        let mut addresses = Addresses::new(Vec::new(), Vec::new());
        addresses.set_own(own.iter().map(|text| local(text)).collect());
        let mut remotes: Vec<IpAddr> = remotes.iter().map(|text| text.parse().unwrap()).collect();
        remotes.sort_by_cached_key(|&remote| Reverse(rank(&addresses, remote)));
        remotes.iter().map(IpAddr::to_string).collect()
    }

    fn local(text: &str) -> LocalAddress {
        LocalAddress { address: text.trim_end_matches('-').parse().unwrap(), deprecated: text.ends_with('-') }
    }

    #[test]
    fn what_cannot_be_reached_is_last() {
        assert_eq!(order(&["10.0.0.1/24"], &["2001:db8::1", "192.0.2.1"]), ["192.0.2.1", "2001:db8::1"]);
    }

    #[test]
    fn the_scope_of_the_source_decides_before_precedence() {
        // The other end cannot answer to a link-local source from beyond the link.
        let own = ["fe80::1/64", "10.0.0.1/24"];
        assert_eq!(order(&own, &["2001:db8::1", "192.0.2.1"]), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(order(&own, &["192.0.2.1", "fe80::9"]), ["fe80::9", "192.0.2.1"]);
    }

    #[test]
    fn a_deprecated_source_and_a_foreign_label_put_a_destination_back() {
        let own = ["2001:db8:1::1/64-", "fd00::1/64"];
        assert_eq!(order(&own[..1], &["2001:db8:1::2", "10.0.0.9"])[0], "2001:db8:1::2", "there is no other");
        assert_eq!(order(&own, &["2a00::1", "fd77::1"]), ["fd77::1", "2a00::1"]);
        assert_eq!(order(&[own[0], "10.0.0.1/8"], &["2001:db8:1::2", "10.0.0.9"])[0], "10.0.0.9");
        assert_eq!(
            order(&["2001:db8:1::1/64"], &["2002:c000:201::1", "2a00::1"]),
            ["2a00::1", "2002:c000:201::1"]
        );
    }

    #[test]
    fn of_equals_the_nearer_network_of_ipv6_is_first_and_ipv4_stays_as_it_stands() {
        let own = ["2001:db8:1::1/48", "10.0.0.1/8"];
        assert_eq!(
            order(&own, &["2a00::1", "2001:db8:9::1", "2001:db8:1:7::1"]),
            ["2001:db8:1:7::1", "2001:db8:9::1", "2a00::1"]
        );
        assert_eq!(order(&own, &["192.0.2.1", "10.0.0.2"]), ["192.0.2.1", "10.0.0.2"]);
    }

    #[test]
    fn of_two_scopes_the_smaller_is_first() {
        let own = ["fe80::1/64", "2001:db8:1::1/64"];
        assert_eq!(order(&own, &["2a00::1", "fe80::9"]), ["fe80::9", "2a00::1"]);
        assert_eq!(order(&[], &["2a00::1", "fe80::9"]), ["fe80::9", "2a00::1"], "without a source, too");
    }

    #[test]
    fn precedences_are_those_of_the_default_policy_table() {
        let table = [
            ("::1", 50),
            ("2a00::1", 40),
            ("10.0.0.1", 35),
            ("2002:c000:201::1", 30),
            ("2001:0:1::1", 5),
            ("fd00::1", 3),
            ("::192.0.2.1", 1),
            ("fec0::1", 1),
            ("3ffe::1", 1),
        ];
        for (addr, expected) in table {
            assert_eq!(precedence(addr.parse().unwrap()), expected, "{addr}");
        }
    }
}
