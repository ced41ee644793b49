//! Floods, forgeries and garbage: every table keeps its bound, and nothing panics.

use proptest::prelude::*;

use super::*;

/// Host `number` of 10.0.0.0/8.
fn host(number: u32) -> String {
    let [_, b, c, d] = number.to_be_bytes();
    format!("10.{b}.{c}.{d}")
}

/// A link in a network of 16 million hosts.
fn large_network() -> Rig {
    Rig::settled(|config| config.addresses[0] = Cidr::up_to(ip(V4), 8))
}

#[test]
fn a_flood_of_questions_fills_the_table_and_takes_no_place_from_a_neighbour_in_use() {
    let mut rig = large_network();
    rig.send(V4, PEER);
    rig.arp(true, station(7), PEER, V4);
    rig.sent();
    for number in 0..5000u16 {
        rig.arp(false, station(number | 1), &host(0x10_0000 + u32::from(number)), V4);
        assert_eq!(rig.sent().len(), 1, "each is answered");
    }
    assert_eq!(rig.link.neighbours().count(), 512);
    assert_eq!(rig.link.counters().table_full, 5000 - 511);
    assert_eq!(rig.neighbour(PEER), Some((Some(station(7)), NeighbourState::Reachable)));
    // Another neighbour that this host needs finds its place.
    assert_eq!(rig.send(V4, "10.200.0.1"), Sending::Waiting);
    assert_eq!(rig.link.counters().evicted, 1);
    assert_eq!(rig.neighbour(PEER), Some((Some(station(7)), NeighbourState::Reachable)));
}

/// A peer that makes this host send to many addresses, as by SYNs with false ones, takes neither the place
/// of a neighbour that has answered, however long it has been quiet, nor the room of its packets.
#[test]
fn neighbours_that_never_answer_take_nothing_from_those_that_do() {
    let mut rig = large_network();
    rig.send(V4, PEER);
    rig.arp(true, station(7), PEER, V4);
    rig.sent();
    rig.run(60 * SECOND);
    assert_eq!(rig.neighbour(PEER), Some((Some(station(7)), NeighbourState::Stale)));
    let large = |dst: &str| packet(V4, dst, &[7; 200]);
    for number in 0..2000 {
        for _ in 0..20 {
            rig.link.send_packet(rig.now, &plain(&large(&host(0x10_0000 + number))), None);
        }
    }
    assert!(rig.link.neighbours.waiting_bytes() > 1_000_000, "their packets fill the room there is");
    assert!(matches!(rig.send(V4, PEER), Sending::Frame(_)));
    // A new one that answers gets its packet.
    rig.sent();
    assert_eq!(rig.send(V4, "10.200.0.1"), Sending::Waiting);
    rig.arp(true, station(8), "10.200.0.1", V4);
    assert!(rig.sent().iter().any(|frame| frame.dst == station(8) && frame.ether_type == EtherType::IPV4.0));
}

#[test]
fn a_scan_by_this_host_keeps_the_bounds_too() {
    let mut rig = large_network();
    for number in 0..2000 {
        assert_eq!(rig.send(V4, &host(0x10_0000 + number)), Sending::Waiting);
    }
    assert_eq!(rig.link.neighbours().count(), 512);
    let counters = rig.link.counters();
    assert_eq!((counters.evicted, counters.waiting_dropped), (2000 - 512, 2000 - 512));
    // Requests that find no room are dropped; those before them are repeated in time.
    assert_eq!(rig.sent().len(), 256);
    assert_eq!(counters.messages_dropped, 2000 - 256);
    rig.run(10 * SECOND);
    assert_eq!((rig.link.neighbours().count(), rig.link.neighbours.waiting_bytes()), (0, 0));
}

#[test]
fn a_forged_reply_makes_no_neighbour_and_convinces_only_until_the_check() {
    let mut rig = Rig::settled(|_| {});
    rig.arp(true, station(66), PEER, V4);
    assert_eq!(rig.link.neighbours().count(), 0, "unsolicited");
    rig.send(V4, PEER);
    rig.arp(true, station(7), PEER, V4);
    rig.sent();
    rig.arp(true, station(66), PEER, V4);
    assert_eq!(rig.neighbour(PEER), Some((Some(station(66)), NeighbourState::Stale)));
    // The station does not answer for the address: after three requests, a broadcast one follows.
    rig.send(V4, PEER);
    let asked = rig.run(9 * SECOND);
    assert_eq!(asked.iter().filter(|(_, frame)| frame.dst == station(66)).count(), 3);
    assert_eq!(rig.send(V4, PEER), Sending::Waiting);
}

#[test]
fn forged_messages_that_claim_the_own_addresses_change_nothing() {
    let mut rig = Rig::settled(|_| {});
    rig.arp(true, station(66), V4, V4);
    rig.arp(false, station(66), V4, PEER);
    rig.nd(station(66), &nd::advertise(nd::ALL_NODES, v6(V6), station(66), false));
    rig.nd(station(66), &nd::solicit(v6(V6), solicited_node(v6(PEER_V6)), v6(PEER_V6), station(66)));
    assert_eq!(rig.link.counters().conflicts, 4);
    assert_eq!(rig.link.neighbours().count(), 0);
    assert_eq!(rig.sent().len(), 2, "one defence of each");
    assert_eq!(
        (rig.state(V4), rig.state(V6)),
        (Some(AddressState::Preferred), Some(AddressState::Preferred))
    );
}

#[test]
fn a_sender_off_the_link_is_answered_and_not_remembered() {
    let mut rig = Rig::settled(|_| {});
    rig.arp(false, station(66), "203.0.113.1", V4);
    assert_eq!(rig.sent().len(), 1);
    assert_eq!(rig.link.neighbours().count(), 0);
    rig.arp(false, station(66), "10.9.0.255", V4);
    assert_eq!(rig.link.neighbours().count(), 0, "no station has the broadcast address");
}

#[test]
fn messages_from_off_the_link_and_redirects_are_counted_and_ignored() {
    let mut rig = Rig::settled(|_| {});
    let mut forwarded = nd::advertise(v6(V6), v6(PEER_V6), station(66), true);
    forwarded[7] = 254;
    rig.nd(station(66), &forwarded);
    assert_eq!(rig.link.counters().malformed, 1);
    let redirect = nd::tests::packet_of(v6("fe80::1"), v6(V6), 137, &[0; 36]);
    rig.nd(station(66), &redirect);
    assert_eq!(rig.link.counters().redirects, 1);
    assert_eq!(rig.link.neighbours().count(), 0);
}

#[test]
fn replies_that_nobody_takes_away_are_bounded() {
    let mut rig = large_network();
    for number in 0..1000 {
        rig.arp(false, station(7), &host(number + 0x10_0000), V4);
    }
    assert_eq!(rig.sent().len(), 256);
    assert_eq!(rig.link.counters().messages_dropped, 1000 - 256);
}

/// An event on a link.
#[derive(Clone, Debug)]
enum Event {
    Frame(Vec<u8>),
    Arp { is_reply: bool, mac: u8, sender: u8, target: u8 },
    Advertise { mac: u8, target: u8, solicited: bool },
    Solicit { mac: u8, src: u8, target: u8 },
    Send { dst: u8, len: usize },
    Wait(u64),
    Transmit,
    Restored,
}

fn events() -> impl Strategy<Value = Event> {
    let bytes = prop::collection::vec(any::<u8>(), 0..120);
    let addressed = (bytes.clone(), 0usize..3).prop_map(|(payload, kind)| {
        let ether_type = [EtherType::ARP, EtherType::IPV4, EtherType::IPV6][kind];
        Event::Frame([&frame::header(own(), station(9), ether_type)[..], &payload].concat())
    });
    prop_oneof![
        bytes.prop_map(Event::Frame),
        addressed,
        (any::<bool>(), any::<u8>(), 0u8..20, 0u8..4)
            .prop_map(|(is_reply, mac, sender, target)| Event::Arp { is_reply, mac, sender, target }),
        (any::<u8>(), 0u8..20, any::<bool>()).prop_map(|(mac, target, solicited)| Event::Advertise {
            mac,
            target,
            solicited
        }),
        (any::<u8>(), 0u8..20, 0u8..20).prop_map(|(mac, src, target)| Event::Solicit { mac, src, target }),
        (0u8..40, 0usize..200).prop_map(|(dst, len)| Event::Send { dst, len }),
        (0u64..20_000).prop_map(Event::Wait),
        Just(Event::Transmit),
        Just(Event::Restored),
    ]
}

fn happen(rig: &mut Rig, event: Event) {
    let v4 = |last: u8| format!("10.9.0.{last}");
    let v6_of = |last: u8| Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, last.into());
    match event {
        Event::Frame(bytes) => drop(rig.link.handle_frame(rig.now, &bytes).map(<[u8]>::to_vec)),
        Event::Arp { is_reply, mac, sender, target } => {
            rig.arp(is_reply, station(mac.into()), &v4(sender), &v4(target));
        }
        Event::Advertise { mac, target, solicited } => {
            rig.nd(
                station(mac.into()),
                &nd::advertise(v6(V6), v6_of(target), station(mac.into()), solicited),
            );
        }
        Event::Solicit { mac, src, target } => {
            let (src, target) = (v6_of(src), v6_of(target));
            rig.nd(
                station(mac.into()),
                &nd::solicit(src, solicited_node(target), target, station(mac.into())),
            );
        }
        Event::Send { dst, len } => {
            let payload = vec![0; len];
            let bytes = packet(V4, &v4(dst), &payload);
            rig.link.send_packet(rig.now, &plain(&bytes), None);
        }
        Event::Wait(millis) => drop(rig.run(Duration::from_millis(millis))),
        Event::Transmit => drop(rig.sent()),
        Event::Restored => rig.link.link_restored(rig.now),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_bounds_hold_and_time_goes_on(
        seed: u64,
        probe: bool,
        happened in prop::collection::vec(events(), 1..150),
    ) {
        let mut rig = Rig::fresh(|config| {
            config.seed = seed;
            config.detection = if probe { Detection::Probe } else { Detection::Announce };
            config.limits.neighbours_max = 8;
            config.limits.waiting_packets_max = 4;
            config.limits.waiting_bytes_max = 500;
            config.limits.messages_max = 8;
            config.autoconfigure = true;
        });
        for event in happened {
            happen(&mut rig, event);
            prop_assert!(rig.link.neighbours().count() <= 8);
            prop_assert!(rig.link.neighbours().all(|neighbour| neighbour.waiting <= 4));
            prop_assert!(rig.link.neighbours.waiting_bytes() <= 500);
            prop_assert!(rig.link.messages.len() <= 8);
            prop_assert!(rig.link.addresses(rig.now).count() <= 16);
        }
        // Waiting packets are sent or given up, and a link without input comes to rest.
        rig.sent();
        rig.run(2000 * SECOND);
        prop_assert_eq!(rig.link.neighbours.waiting_bytes(), 0);
        prop_assert_eq!(rig.link.neighbours().count(), 0);
    }
}
