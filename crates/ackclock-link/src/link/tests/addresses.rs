//! Own addresses: probed, announced, found in use by another station, defended.

use super::*;

/// IPv4 alone.
fn v4_only(config: &mut LinkConfig) {
    config.addresses.truncate(1);
}

/// IPv6 alone.
fn v6_only(config: &mut LinkConfig) {
    config.addresses.remove(0);
}

#[test]
fn an_ipv4_address_is_probed_three_times_then_announced_twice() {
    let mut rig = Rig::fresh(v4_only);
    assert!(!rig.link.is_settled());
    assert_eq!(rig.send(V4, PEER), Sending::Refused(Refusal::SourceNotUsable));
    let sent = rig.run(20 * SECOND);
    assert_eq!(sent.len(), 5);
    let (probes, announcements) = sent.split_at(3);
    for (_, probe) in probes {
        let arp = probe.arp();
        assert!(arp.sender.is_unspecified() && arp.target.to_string() == V4 && !arp.is_reply);
        assert_eq!((probe.dst, arp.sender_mac, arp.target_mac), (MacAddr::BROADCAST, own(), MacAddr::ZERO));
    }
    for (_, announcement) in announcements {
        assert!(announcement.arp().sender.to_string() == V4 && announcement.arp().target.to_string() == V4);
    }
    // RFC 5227 §2.1.1, §2.3: a random wait of up to 1 s, 1 to 2 s between probes, 2 s, 2 s between
    // announcements.
    let at: Vec<Duration> = sent.iter().map(|(at, _)| *at).collect();
    assert!(at[0] < SECOND);
    assert!(
        (SECOND..2 * SECOND).contains(&(at[1] - at[0])) && (SECOND..2 * SECOND).contains(&(at[2] - at[1]))
    );
    assert_eq!((at[3] - at[2], at[4] - at[3]), (2 * SECOND, 2 * SECOND));
    assert_eq!((rig.state(V4), rig.link.is_settled()), (Some(AddressState::Preferred), true));
    assert_eq!(rig.link.counters().source_not_usable, 1);
    assert_eq!(rig.link.poll_timeout(), None, "nothing is left to do");
}

#[test]
fn an_ipv6_address_is_asked_for_once_and_used_a_second_later() {
    let mut rig = Rig::fresh(v6_only);
    assert_eq!(rig.send(V6, PEER_V6), Sending::Refused(Refusal::SourceNotUsable));
    let sent = rig.run(10 * SECOND);
    // The address and the link-local one: a probe and two announcements each.
    assert_eq!(sent.len(), 6);
    let of_address: Vec<_> =
        sent.iter().filter(|(_, frame)| frame.bytes[48..64] == v6(V6).octets()).collect();
    let expected = Nd::Solicitation { src: Ipv6Addr::UNSPECIFIED, target: v6(V6), source_mac: None };
    assert_eq!(of_address[0].1.nd(), expected);
    assert!(of_address[0].0 < SECOND);
    assert_eq!(of_address[1].0 - of_address[0].0, SECOND);
    let Nd::Advertisement(told) = of_address[1].1.nd() else { panic!() };
    assert!(!told.solicited && told.overrides && told.target_mac == Some(own()));
    assert_eq!(rig.state(V6), Some(AddressState::Preferred));
    let link_local = rig.link.addresses(rig.now).find(|own| own.automatic).unwrap();
    assert_eq!(link_local.prefix.addr(), ip("fe80::ff:fe00:2"));
}

#[test]
fn two_stations_with_one_ethernet_address_have_addresses_of_their_own() {
    let rig = Rig::fresh(|config| config.interface_id = [0xa; 8]);
    assert_eq!(rig.state("fe80::a0a:a0a:a0a:a0a"), Some(AddressState::Tentative));
}

#[test]
fn hosts_that_start_together_do_not_probe_together() {
    let first = |seed| {
        let mut rig = Rig::fresh(|config| config.seed = seed);
        rig.run(2 * SECOND)[0].0
    };
    assert_ne!(first(1), first(2));
    assert_eq!(first(1), first(1));
}

#[test]
fn an_ipv4_address_that_another_host_has_is_not_used_until_it_is_free() {
    type Claims = fn(&mut Rig);
    let ways: [Claims; 3] = [
        |rig| rig.arp(true, station(7), V4, V4),
        |rig| rig.arp(false, station(7), V4, PEER),
        // RFC 5227 §2.1.1: another host that probes at the same time.
        |rig| rig.arp(false, station(7), "0.0.0.0", V4),
    ];
    for claims in ways {
        let mut rig = Rig::fresh(v4_only);
        rig.run(SECOND);
        claims(&mut rig);
        assert_eq!(rig.state(V4), Some(AddressState::Duplicate(station(7))));
        assert_eq!((rig.link.counters().conflicts, rig.link.is_settled()), (1, true));
        assert_eq!(rig.send(V4, PEER), Sending::Refused(Refusal::SourceNotUsable));
        rig.arp(false, station(8), PEER, V4);
        assert_eq!(rig.sent(), [], "it does not answer for the address");
        assert_eq!(rig.run(59 * SECOND), []);
        // RATE_LIMIT_INTERVAL later it tries again, and this time no station objects.
        assert_eq!(rig.run(20 * SECOND).len(), 5);
        assert_eq!(rig.state(V4), Some(AddressState::Preferred));
    }
}

#[test]
fn an_ipv6_address_that_another_host_has_or_probes_is_never_used() {
    let ways = [
        nd::advertise(nd::ALL_NODES, v6(V6), station(7), false),
        nd::solicit(Ipv6Addr::UNSPECIFIED, solicited_node(v6(V6)), v6(V6), station(7)),
    ];
    for claim in ways {
        let mut rig = Rig::fresh(v6_only);
        rig.run(SECOND / 100);
        rig.nd(station(7), &claim);
        assert_eq!(rig.state(V6), Some(AddressState::Duplicate(station(7))));
        rig.run(1000 * SECOND);
        assert_eq!(rig.state(V6), Some(AddressState::Duplicate(station(7))));
        assert_eq!(rig.send(V6, PEER_V6), Sending::Refused(Refusal::SourceNotUsable));
    }
}

#[test]
fn its_own_probe_that_comes_back_is_no_conflict() {
    let mut rig = Rig::fresh(|_| {});
    let probes = rig.run(2 * SECOND);
    for (_, probe) in &probes {
        let echoed =
            [&frame::header(probe.dst, own(), EtherType(probe.ether_type))[..], &probe.bytes].concat();
        assert_eq!(rig.link.handle_frame(rig.now, &echoed), None);
    }
    assert_eq!(rig.link.counters().conflicts, 0);
    assert_eq!(rig.link.counters().own, probes.len() as u64);
}

#[test]
fn an_address_in_use_is_defended_once_in_ten_seconds_and_kept() {
    let mut rig = Rig::settled(|_| {});
    for (at, defended) in [(0, 1), (1, 0), (5, 0), (3, 0), (2, 1), (1, 0)] {
        rig.run(at * SECOND);
        rig.arp(false, station(7), V4, PEER);
        let sent = rig.sent();
        assert_eq!(sent.len(), defended, "after another {at} s: {sent:?}");
        assert!(sent.iter().all(|frame| frame.arp().sender == frame.arp().target));
    }
    assert_eq!(rig.link.counters().conflicts, 6);
    assert_eq!(rig.state(V4), Some(AddressState::Preferred));
    assert_eq!(rig.link.neighbours().count(), 0, "its own address is not a neighbour");
}

#[test]
fn who_probes_for_an_address_in_use_is_told_that_it_is() {
    let mut rig = Rig::settled(|_| {});
    rig.arp(false, station(7), "0.0.0.0", V4);
    let sent = rig.sent();
    assert_eq!((sent[0].dst, sent[0].arp().is_reply), (station(7), true));
    rig.nd(station(7), &nd::solicit(Ipv6Addr::UNSPECIFIED, solicited_node(v6(V6)), v6(V6), station(7)));
    let sent = rig.sent();
    // RFC 4861 §7.2.4: to all, since the solicitor has no address yet.
    assert_eq!(sent[0].dst, "33:33:00:00:00:01".parse().unwrap());
    assert!(matches!(sent[0].nd(), Nd::Advertisement(told) if !told.solicited && told.target == v6(V6)));
}

#[test]
fn a_tentative_address_is_not_answered_for() {
    let mut rig = Rig::fresh(|_| {});
    rig.arp(false, station(7), PEER, V4);
    rig.nd(station(7), &nd::solicit(v6(PEER_V6), solicited_node(v6(V6)), v6(V6), station(7)));
    assert_eq!(rig.sent(), []);
    assert_eq!(rig.state(V4), Some(AddressState::Tentative));
}

#[test]
fn addresses_beyond_the_limit_are_left_out() {
    let rig = Rig::fresh(|config| config.limits.addresses_max = 1);
    assert_eq!(rig.link.addresses(rig.now).count(), 1);
}
