use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn addresses(own: &[&str]) -> Addresses {
    Addresses::new(own.iter().map(|own| ip(own)).collect(), vec![ip("10.0.0.255")], 1500)
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
    for martian in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "10.0.0.255",
        "::",
        "::1",
        "ff02::1",
    ] {
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
    for remote in [
        "0.0.0.0:80",
        "0.1.2.3:80",
        "224.0.0.1:80",
        "255.255.255.255:80",
        "10.0.0.255:80",
        "10.0.0.2:0",
        "[::]:80",
    ] {
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
    assert_eq!(Addresses::new(vec![ip("10.0.0.1")], vec![], 1500).source_for(ip("fd00::2")), None);
}

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
    for addr in ["10.0.0.1", "192.0.2.1", "fd00::1", "2001:db8::1"] {
        assert_eq!(scope(addr.parse().unwrap()), GLOBAL, "{addr}");
    }
}

// RFC 6724 §3.1: between the scopes of the link and of all.
#[test]
fn site_local_addresses_have_a_scope_of_their_own() {
    for addr in ["fec0::1", "feff::1"] {
        assert_eq!(scope(addr.parse().unwrap()), 5, "{addr}");
    }
    let addresses = ["fec0::1/64", "2001:db8::1/64", "fe80::1/64"];
    assert_eq!(source(&addresses, "fec0:7::9"), "fec0::1");
    assert_eq!(source(&addresses, "2a00::1"), "2001:db8::1");
    assert_eq!(source(&["fec0::1/64", "fe80::1/64"], "2a00::1"), "fec0::1", "the largest that is too small");
    assert_eq!(source(&["2001:db8::1/64", "fe80::1/64"], "fec0::9"), "2001:db8::1", "and not the link's");
}

// RFC 6724 §3.2: IPv4 addresses MUST be treated as having "preferred" configuration status.
#[test]
fn ipv4_address_is_preferred_whatever_its_mark() {
    let mut addresses = [own("10.0.0.1/24"), own("10.0.0.2/24")];
    addresses[0].deprecated = true;
    let remote = "10.0.0.9".parse().unwrap();
    assert_eq!(source_for(&addresses, &[], &[], remote), Some(ip("10.0.0.1")));
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
    let route = |network: &str, source: &str| Route::new(network.parse().unwrap(), source.parse().unwrap());
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
    let mut addresses = [own("10.0.0.1/8"), own("192.0.2.1/24"), own("fd00::1/64"), own("2001:db8::1/64")];
    let source = |addresses: &[LocalAddress], remote: &str| {
        source_for(addresses, &[], &links, remote.parse().unwrap()).unwrap().to_string()
    };
    // By rule 8 alone 10.0.0.1 and the first would win.
    assert_eq!(source(&addresses, "11.0.0.1"), "192.0.2.1");
    assert_eq!(source(&addresses, "10.9.9.9"), "10.0.0.1");
    assert_eq!(source(&addresses, "2a00::1"), "2001:db8::1");
    assert_eq!(source(&addresses, "fd77::1"), "fd00::1");
    addresses[3].deprecated = true;
    assert_eq!(source(&addresses, "2a00::1"), "fd00::1", "rule 3 goes before rule 5");
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

fn order(own: &[&str], remotes: &[&str]) -> Vec<String> {
    let mut addresses = Addresses::new(Vec::new(), Vec::new(), 1500);
    addresses.set_own(own.iter().map(|text| local(text)).collect());
    let mut remotes: Vec<IpAddr> = remotes.iter().map(|text| text.parse().unwrap()).collect();
    addresses.sort_destinations(&mut remotes);
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
