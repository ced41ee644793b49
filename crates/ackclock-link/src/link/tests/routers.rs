//! Routers that advertise themselves: default route, prefixes, addresses made from them, times and MTU.

use super::*;

/// A router advertisement with what a test needs.
struct Told {
    src: &'static str,
    lifetime_s: u16,
    prefix: &'static str,
    flags: u8,
    valid_s: u32,
    preferred_s: u32,
    mtu: u32,
}

impl Default for Told {
    fn default() -> Self {
        let (src, prefix) = ("fe80::1", "2001:db8::");
        Self { src, lifetime_s: 1800, prefix, flags: 0xc0, valid_s: 86_400, preferred_s: 3600, mtu: 1500 }
    }
}

impl Told {
    fn bytes(&self) -> Vec<u8> {
        let mut body = vec![64, 0];
        body.extend(self.lifetime_s.to_be_bytes());
        body.extend([0; 8]);
        body.extend([1, 1]);
        body.extend(station(1).octets());
        body.extend([5, 1, 0, 0]);
        body.extend(self.mtu.to_be_bytes());
        body.extend([3, 4, 64, self.flags]);
        body.extend(self.valid_s.to_be_bytes());
        body.extend(self.preferred_s.to_be_bytes());
        body.extend([0; 4]);
        body.extend(v6(self.prefix).octets());
        nd::tests::packet_of(v6(self.src), nd::ALL_NODES, 134, &body)
    }
}

/// No IPv6 address of its own, and open to routers.
fn listening() -> Rig {
    Rig::fresh(|config| {
        config.addresses.clear();
        config.autoconfigure = true;
    })
}

fn global(rig: &Rig) -> Option<(IpAddr, AddressState)> {
    let mut own = rig.link.addresses(rig.now);
    own.find(|own| !matches!(own.prefix.addr(), IpAddr::V6(addr) if addr.is_unicast_link_local()))
        .map(|own| (own.prefix.addr(), own.state))
}

#[test]
fn routers_are_asked_for_three_times_four_seconds_apart_until_one_answers() {
    let asked = |frames: &[(Duration, SentFrame)]| {
        let to_routers = "33:33:00:00:00:02".parse().unwrap();
        frames.iter().filter(|(_, frame)| frame.dst == to_routers).map(|(at, _)| *at).collect::<Vec<_>>()
    };
    let mut rig = listening();
    let at = asked(&rig.run(60 * SECOND));
    assert_eq!((at.len(), at[1] - at[0], at[2] - at[1]), (3, 4 * SECOND, 4 * SECOND));

    let mut rig = listening();
    assert_eq!(asked(&rig.run(2 * SECOND)).len(), 1);
    rig.nd(station(1), &Told::default().bytes());
    assert_eq!(asked(&rig.run(60 * SECOND)), []);

    // RFC 4861 §6.3.7: at least one solicitation, even if an advertisement came first.
    let mut rig = listening();
    for _ in 0..2 {
        rig.nd(station(1), &Told::default().bytes());
    }
    assert_eq!(asked(&rig.run(60 * SECOND)).len(), 1);
}

#[test]
fn an_advertised_prefix_gives_an_address_that_is_probed_first() {
    let mut rig = listening();
    rig.run(5 * SECOND);
    let before = rig.link.groups_revision();
    rig.nd(station(1), &Told::default().bytes());
    let addr = ip("2001:db8::ff:fe00:2");
    assert_eq!(global(&rig), Some((addr, AddressState::Tentative)));
    assert_ne!(rig.link.groups_revision(), before);
    rig.run(3 * SECOND);
    assert_eq!(global(&rig), Some((addr, AddressState::Preferred)));
    // RFC 4862 §5.5.4: deprecated when its preferred lifetime is over, gone when it is no longer valid.
    rig.run(3600 * SECOND);
    assert_eq!(global(&rig), Some((addr, AddressState::Deprecated)));
    rig.run(83_000 * SECOND);
    assert_eq!(global(&rig), None);
}

#[test]
fn a_router_is_the_way_off_the_link_as_long_as_it_says() {
    let mut rig = listening();
    rig.run(5 * SECOND);
    rig.nd(station(1), &Told::default().bytes());
    assert_eq!(rig.link.next_hop(ip("2001:db8:1::9")), Some(ip("fe80::1")));
    assert_eq!(rig.link.next_hop(ip("2001:db8::9")), Some(ip("2001:db8::9")), "on the link");
    assert_eq!(rig.link.next_hop(ip("203.0.113.9")), None);
    // Its Ethernet address came with the advertisement.
    assert_eq!(rig.neighbour("fe80::1"), Some((Some(station(1)), NeighbourState::Stale)));
    rig.run(1801 * SECOND);
    assert_eq!(rig.link.next_hop(ip("2001:db8:1::9")), None);

    rig.nd(station(1), &Told::default().bytes());
    rig.nd(station(1), &Told { lifetime_s: 0, ..Told::default() }.bytes());
    assert_eq!(rig.link.next_hop(ip("2001:db8:1::9")), None, "a lifetime of 0 takes it away");
}

#[test]
fn a_prefix_is_on_the_link_only_if_it_says_so_and_as_long_as_it_says() {
    let mut rig = listening();
    rig.nd(station(1), &Told { flags: 0x40, ..Told::default() }.bytes());
    assert_eq!(rig.link.next_hop(ip("2001:db8::9")), Some(ip("fe80::1")));
    rig.nd(station(1), &Told { valid_s: 10, preferred_s: 5, ..Told::default() }.bytes());
    assert_eq!(rig.link.next_hop(ip("2001:db8::9")), Some(ip("2001:db8::9")));
    rig.run(11 * SECOND);
    assert_eq!(rig.link.next_hop(ip("2001:db8::9")), Some(ip("fe80::1")));
}

#[test]
fn prefixes_that_no_address_may_be_made_from_are_passed_over() {
    for (told, why) in [
        (Told { flags: 0x80, ..Told::default() }, "not autonomous"),
        (Told { prefix: "fe80::", ..Told::default() }, "link-local"),
        (Told { valid_s: 0, preferred_s: 0, ..Told::default() }, "not valid"),
        (Told { preferred_s: 90_000, ..Told::default() }, "preferred for longer than valid"),
    ] {
        let mut rig = listening();
        rig.nd(station(1), &told.bytes());
        assert_eq!(global(&rig), None, "{why}");
    }
}

#[test]
fn no_message_takes_an_address_away_within_two_hours() {
    // RFC 4862 §5.5.3 (e).
    let mut rig = listening();
    rig.nd(station(1), &Told::default().bytes());
    rig.run(3 * SECOND);
    rig.nd(station(1), &Told { valid_s: 1, preferred_s: 0, ..Told::default() }.bytes());
    rig.run(7199 * SECOND);
    assert!(matches!(global(&rig), Some((_, AddressState::Deprecated))), "{:?}", global(&rig));
    rig.run(2 * SECOND);
    assert_eq!(global(&rig), None);
}

#[test]
fn a_router_that_does_not_answer_gives_way_to_another() {
    let mut rig = listening();
    rig.run(5 * SECOND);
    rig.nd(station(1), &Told::default().bytes());
    rig.nd(station(1), &Told { src: "fe80::2", ..Told::default() }.bytes());
    rig.run(5 * SECOND);
    let own_addr = global(&rig).unwrap().0.to_string();
    assert!(matches!(rig.send(&own_addr, "2001:db8:1::9"), Sending::Frame(_)));
    assert_eq!(rig.link.next_hop(ip("2001:db8:1::9")), Some(ip("fe80::1")));
    rig.run(20 * SECOND);
    assert_eq!(rig.link.next_hop(ip("2001:db8:1::9")), Some(ip("fe80::2")));
}

#[test]
fn a_neighbour_that_says_it_is_no_router_is_none() {
    let mut rig = listening();
    rig.nd(station(1), &Told::default().bytes());
    rig.nd(station(1), &nd::advertise(nd::ALL_NODES, v6("fe80::1"), station(1), false));
    assert_eq!(rig.link.next_hop(ip("2001:db8:1::9")), None);
}

#[test]
fn the_mtu_of_the_link_is_believed_down_to_what_ipv6_needs() {
    let mut rig = listening();
    assert_eq!(rig.link.mtu(), None);
    for (told, known) in [(1400, 1400), (1279, 1400), (0, 1400), (1280, 1280)] {
        rig.nd(station(1), &Told { mtu: told, ..Told::default() }.bytes());
        assert_eq!(rig.link.mtu(), Some(known), "{told}");
    }
}

#[test]
fn who_did_not_ask_for_routers_does_not_hear_them() {
    let mut rig = Rig::settled(|_| {});
    rig.nd(station(1), &Told { mtu: 1280, ..Told::default() }.bytes());
    assert_eq!((rig.link.mtu(), rig.link.neighbours().count()), (None, 0));
    assert_eq!(rig.link.addresses(rig.now).count(), 3, "two configured ones and the link-local one");
}

#[test]
fn a_configured_gateway_goes_before_routers() {
    let mut rig = Rig::settled(|config| config.autoconfigure = true);
    rig.nd(station(1), &Told::default().bytes());
    assert_eq!(rig.link.next_hop(ip("2001:db8:1::9")), Some(ip("fd09::1")));
}

#[test]
fn routers_and_prefixes_and_addresses_are_bounded() {
    let mut rig = listening();
    for number in 0..1000u16 {
        let mut told = Told::default().bytes();
        // Each from another router, with another prefix.
        told[22..24].copy_from_slice(&number.to_be_bytes());
        let at = told.len() - 10;
        told[at..at + 2].copy_from_slice(&number.to_be_bytes());
        told[42..44].fill(0);
        let src = Ipv6Addr::from(<[u8; 16]>::try_from(&told[8..24]).unwrap());
        let sum =
            ackclock_wire::checksum::pseudo_header(src.into(), nd::ALL_NODES.into(), 58, told.len() - 40);
        let checksum = sum.plus_bytes(&told[40..]).checksum().to_be_bytes();
        told[42..44].copy_from_slice(&checksum);
        rig.nd(station(number), &told);
    }
    let limits = crate::Limits::default();
    assert_eq!(rig.link.counters().malformed, 0);
    assert_eq!(rig.link.addresses(rig.now).count(), limits.addresses_max);
    assert_eq!(rig.link.neighbours().count(), limits.neighbours_max);
    assert!(rig.link.counters().table_full > 1000);
}
