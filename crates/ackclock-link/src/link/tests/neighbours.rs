//! The states of a neighbour, each change at its time.

use super::*;
use NeighbourState::{Delay, Incomplete, Probe, Reachable, Stale};

/// A rig whose answers hold for exactly 30 s, with a reachable neighbour of each family.
fn reachable() -> Rig {
    let mut rig = Rig::settled(|_| {});
    for (own_addr, peer) in [(V4, PEER), (V6, PEER_V6)] {
        assert_eq!(rig.send(own_addr, peer), Sending::Waiting);
    }
    rig.sent();
    rig.arp(true, station(7), PEER, V4);
    rig.nd(station(7), &nd::advertise(v6(V6), v6(PEER_V6), station(7), true));
    assert_eq!(rig.sent().len(), 2);
    for peer in [PEER, PEER_V6] {
        assert_eq!(rig.neighbour(peer), Some((Some(station(7)), Reachable)));
    }
    rig
}

/// Runs until the neighbours of [`reachable`] are stale.
fn stale() -> Rig {
    let mut rig = reachable();
    // RFC 4861 §6.3.2: between a half and one and a half times ReachableTime.
    assert_eq!(rig.run(14 * SECOND), []);
    assert_eq!(rig.neighbour(PEER).unwrap().1, Reachable);
    assert_eq!(rig.run(32 * SECOND), []);
    rig
}

#[test]
fn unanswered_questions_are_asked_three_times_a_second_apart_and_then_given_up() {
    for (src, dst) in [(V4, PEER), (V6, PEER_V6)] {
        let mut rig = Rig::settled(|_| {});
        rig.send(src, dst);
        rig.send(src, dst);
        assert_eq!(rig.sent().len(), 1, "one question for two packets");
        let asked = rig.run(10 * SECOND);
        assert_eq!(seconds(&asked), [1, 2], "{dst}");
        assert_eq!(rig.neighbour(dst), None);
        assert_eq!(rig.link.counters().unresolved, 2);
        // The next packet starts from the beginning.
        assert_eq!(rig.send(src, dst), Sending::Waiting);
        assert_eq!(rig.sent().len(), 1);
    }
}

#[test]
fn a_solicitation_for_an_unknown_neighbour_goes_to_its_group_with_the_own_address() {
    let mut rig = Rig::settled(|_| {});
    rig.send(V6, PEER_V6);
    let asked = rig.sent();
    assert_eq!(asked[0].dst, "33:33:ff:00:00:07".parse().unwrap());
    let expected = Nd::Solicitation { src: v6(V6), target: v6(PEER_V6), source_mac: Some(own()) };
    assert_eq!(asked[0].nd(), expected);
}

#[test]
fn a_neighbour_that_is_not_used_grows_stale_and_is_forgotten_without_a_question() {
    let mut rig = stale();
    for peer in [PEER, PEER_V6] {
        assert_eq!(rig.neighbour(peer), Some((Some(station(7)), Stale)));
    }
    assert_eq!(rig.run(700 * SECOND), []);
    assert_eq!((rig.neighbour(PEER), rig.neighbour(PEER_V6)), (None, None));
}

#[test]
fn a_stale_neighbour_in_use_is_asked_itself_after_five_seconds() {
    let mut rig = stale();
    for (own_addr, peer) in [(V4, PEER), (V6, PEER_V6)] {
        assert!(matches!(rig.send(own_addr, peer), Sending::Frame(_)));
        assert_eq!(rig.neighbour(peer).unwrap().1, Delay);
    }
    let asked = rig.run(Duration::from_millis(5500));
    assert_eq!(seconds(&asked), [5, 5]);
    assert!(asked.iter().all(|(_, frame)| frame.dst == station(7)), "{asked:?}");
    assert_eq!(rig.neighbour(PEER).unwrap().1, Probe);
    // Packets continue meanwhile, and an answer ends the check.
    assert!(matches!(rig.send(V4, PEER), Sending::Frame(_)));
    rig.arp(true, station(7), PEER, V4);
    rig.nd(station(7), &nd::advertise(v6(V6), v6(PEER_V6), station(7), true));
    for peer in [PEER, PEER_V6] {
        assert_eq!(rig.neighbour(peer).unwrap().1, Reachable);
    }
}

#[test]
fn a_neighbour_that_went_is_found_out_and_found_again_where_it_is() {
    let mut rig = stale();
    rig.send(V4, PEER);
    // The check begins after 5 s, three unicast requests follow, and then the address is unknown.
    assert_eq!(seconds(&rig.run(20 * SECOND)), [5, 6, 7]);
    assert_eq!(rig.neighbour(PEER), None);
    assert_eq!(rig.send(V4, PEER), Sending::Waiting);
    assert_eq!(rig.sent()[0].dst, MacAddr::BROADCAST);
    rig.arp(true, station(8), PEER, V4);
    assert_eq!(rig.sent()[0].dst, station(8));
    assert_eq!(rig.neighbour(PEER), Some((Some(station(8)), Reachable)));
}

#[test]
fn an_advertisement_changes_a_neighbour_as_rfc_4861_says() {
    // RFC 4861 §7.2.5 and appendix C: state before, flags, whether the advertised address is another, state
    // and address after.
    let (same, other) = (station(7), station(8));
    let cases = [
        (Reachable, false, false, same, Reachable, same),
        (Reachable, false, false, other, Stale, same),
        (Reachable, true, false, other, Stale, same),
        (Reachable, false, true, other, Stale, other),
        (Reachable, true, true, other, Reachable, other),
        (Stale, false, false, other, Stale, same),
        (Stale, false, true, same, Stale, same),
        (Stale, true, true, same, Reachable, same),
        (Stale, true, false, same, Reachable, same),
        (Stale, false, true, other, Stale, other),
        (Incomplete, false, false, same, Delay, same),
        (Incomplete, true, true, same, Reachable, same),
    ];
    for case @ (before, solicited, overrides, told, state, mac) in cases {
        let mut rig = match before {
            Reachable => reachable(),
            Stale => stale(),
            _ => {
                let mut rig = Rig::settled(|_| {});
                rig.send(V6, PEER_V6);
                rig
            }
        };
        let mut bytes = nd::advertise(v6(V6), v6(PEER_V6), told, solicited);
        bytes[44] = (bytes[44] & 0x40) | if overrides { 0x20 } else { 0 };
        bytes[42..44].fill(0);
        let sum = ackclock_wire::checksum::pseudo_header(ip(PEER_V6), ip(V6), 58, bytes.len() - 40);
        let checksum = sum.plus_bytes(&bytes[40..]).checksum().to_be_bytes();
        bytes[42..44].copy_from_slice(&checksum);
        rig.nd(told, &bytes);
        assert_eq!(rig.neighbour(PEER_V6), Some((Some(mac), state)), "{case:?}");
    }
}

#[test]
fn an_advertisement_nobody_waits_for_makes_no_neighbour() {
    let mut rig = Rig::settled(|_| {});
    rig.nd(station(7), &nd::advertise(v6(V6), v6(PEER_V6), station(7), true));
    assert_eq!(rig.neighbour(PEER_V6), None);
}

#[test]
fn who_asks_for_this_host_is_answered_and_remembered_as_stale() {
    let mut rig = Rig::settled(|_| {});
    rig.arp(false, station(7), PEER, V4);
    let answer = rig.sent();
    assert_eq!((answer.len(), answer[0].dst), (1, station(7)));
    let arp = answer[0].arp();
    assert_eq!((arp.is_reply, arp.sender.to_string(), arp.sender_mac), (true, V4.into(), own()));

    let question = nd::solicit(v6(PEER_V6), solicited_node(v6(V6)), v6(V6), station(7));
    rig.nd(station(7), &question);
    let answer = rig.sent();
    assert_eq!((answer.len(), answer[0].dst), (1, station(7)));
    let Nd::Advertisement(told) = answer[0].nd() else { panic!("{answer:?}") };
    assert!(told.solicited && told.overrides && !told.is_router && told.target_mac == Some(own()));
    for peer in [PEER, PEER_V6] {
        assert_eq!(rig.neighbour(peer), Some((Some(station(7)), Stale)));
    }
}

#[test]
fn a_question_for_another_host_is_not_answered_and_makes_no_neighbour() {
    let mut rig = Rig::settled(|_| {});
    rig.arp(false, station(7), PEER, "10.9.0.8");
    rig.nd(station(7), &nd::solicit(v6(PEER_V6), solicited_node(v6("fd09::8")), v6("fd09::8"), station(7)));
    assert_eq!(rig.sent(), []);
    assert_eq!(rig.link.neighbours().count(), 0);
}

#[test]
fn a_neighbour_that_announces_another_address_is_believed_and_checked() {
    // RFC 826 merges it; its use shows whether it is valid.
    let mut rig = reachable();
    rig.arp(false, station(8), PEER, PEER);
    assert_eq!(rig.neighbour(PEER), Some((Some(station(8)), Stale)));
    rig.send(V4, PEER);
    let asked = rig.run(6 * SECOND);
    assert_eq!(asked[0].1.dst, station(8));
}

#[test]
fn a_queue_that_is_full_drops_its_oldest_packet() {
    let mut rig = Rig::settled(|config| config.limits.waiting_packets_max = 3);
    for number in 0..5u8 {
        let bytes = packet(V4, PEER, &[number]);
        rig.link.send_packet(rig.now, &plain(&bytes), None);
    }
    assert_eq!(rig.link.counters().waiting_dropped, 2);
    rig.sent();
    rig.arp(true, station(7), PEER, V4);
    let left: Vec<u8> = rig.sent().iter().map(|frame| frame.bytes[20]).collect();
    assert_eq!(left, [2, 3, 4]);
}

#[test]
fn waiting_packets_of_all_neighbours_share_a_bound_of_bytes() {
    let mut rig = Rig::settled(|config| config.limits.waiting_bytes_max = 100);
    let bytes = packet(V4, PEER, &[0; 20]);
    let other = packet(V4, "10.9.0.8", &[0; 20]);
    for _ in 0..3 {
        rig.link.send_packet(rig.now, &plain(&bytes), None);
    }
    assert_eq!((rig.link.neighbours.waiting_bytes(), rig.link.counters().waiting_dropped), (80, 1));
    rig.link.send_packet(rig.now, &plain(&other), None);
    assert_eq!((rig.link.neighbours.waiting_bytes(), rig.link.counters().waiting_dropped), (80, 2));
    rig.run(10 * SECOND);
    assert_eq!(rig.link.neighbours.waiting_bytes(), 0);
    assert_eq!(rig.link.counters().unresolved, 2);
}

#[test]
fn a_link_that_comes_back_doubts_its_neighbours_and_announces_itself() {
    let mut rig = Rig::settled(|config| config.timing.announcements = 0);
    rig.send(V4, PEER);
    rig.arp(true, station(7), PEER, V4);
    rig.sent();
    rig.link.link_restored(rig.now);
    assert_eq!(rig.neighbour(PEER), Some((Some(station(7)), Stale)));

    let mut rig = Rig::fresh(|config| config.detection = Detection::Announce);
    rig.run(10 * SECOND);
    rig.link.link_restored(rig.now);
    let announced = rig.run(10 * SECOND);
    // Two of the IPv4 address, two of each IPv6 address.
    assert_eq!(seconds(&announced), [0, 0, 0, 2, 2, 2]);
    assert!(announced[0].1.arp().sender == announced[0].1.arp().target);
}

#[test]
fn a_neighbour_whose_connections_go_on_is_never_asked() {
    let mut rig = stale();
    // Ten times the interval of requests, in seconds.
    for _ in 0..300 {
        assert!(matches!(rig.send(V4, PEER), Sending::Frame(_)));
        rig.link.reached(rig.now, ip(PEER));
        assert!(rig.run(SECOND).is_empty());
        assert_eq!(rig.neighbour(PEER).unwrap().1, Reachable);
    }
    // Once they stop, it is requested as before.
    let mut asked = Vec::new();
    for _ in 0..60 {
        rig.send(V4, PEER);
        asked.extend(rig.run(SECOND));
    }
    assert!(!asked.is_empty() && asked[0].1.arp().target.to_string() == PEER, "{asked:?}");
}

#[test]
fn word_that_packets_arrive_makes_no_neighbour_and_finds_none() {
    let mut rig = Rig::settled(|_| {});
    rig.link.reached(rig.now, ip(PEER));
    assert_eq!(rig.neighbour(PEER), None);
    rig.send(V4, PEER);
    rig.link.reached(rig.now, ip(PEER));
    assert_eq!(rig.neighbour(PEER), Some((None, Incomplete)));
}

#[test]
fn word_from_behind_a_router_is_word_of_the_router() {
    let mut rig = Rig::settled(|_| {});
    rig.arp(false, station(1), "10.9.0.1", "10.9.0.2");
    assert_eq!(rig.neighbour("10.9.0.1").unwrap().1, Stale);
    rig.link.reached(rig.now, ip("192.0.2.7"));
    assert_eq!(rig.neighbour("10.9.0.1").unwrap().1, Reachable);
}

/// The device may take one frame at a time, so new packets come while those that waited are still here.
#[test]
fn no_packet_overtakes_those_that_waited_for_its_neighbour() {
    for (src, peer, other) in [(V4, PEER, "10.9.0.8"), (V6, PEER_V6, "fd09::8")] {
        let mut rig = Rig::settled(|_| {});
        let send = |rig: &mut Rig, dst: &str, number: u8| {
            rig.link.send_packet(rig.now, &plain(&packet(src, dst, &[number])), None)
        };
        let answers = |rig: &mut Rig, addr: &str, mac: MacAddr| match ip(addr) {
            IpAddr::V4(_) => rig.arp(true, mac, addr, src),
            IpAddr::V6(target) => rig.nd(mac, &nd::advertise(v6(src), target, mac, true)),
        };
        // The next packet to leave: its station, and its number.
        let leaves = |rig: &mut Rig| {
            let Transmit { header, packet } = rig.link.poll_transmit()?;
            Some((
                Frame::parse(&header).unwrap().dst,
                *packet.payload[0].last().or(packet.header.last()).unwrap(),
            ))
        };
        for (dst, number) in [(peer, 1), (other, 11), (peer, 2)] {
            assert_eq!(send(&mut rig, dst, number), Sending::Waiting);
        }
        assert_eq!(rig.sent().len(), 2, "one question to each");
        answers(&mut rig, peer, station(7));
        assert_eq!(send(&mut rig, peer, 3), Sending::Waiting, "two are before it");
        assert_eq!(leaves(&mut rig), Some((station(7), 1)));
        assert_eq!(send(&mut rig, peer, 4), Sending::Waiting, "two are before it");
        // It has another address by the time that the rest can leave.
        answers(&mut rig, peer, station(9));
        answers(&mut rig, other, station(8));
        let mut left: Vec<_> = std::iter::from_fn(|| leaves(&mut rig)).collect();
        left.sort_by_key(|(to, _)| *to == station(8));
        assert_eq!(left, [(station(9), 2), (station(9), 3), (station(9), 4), (station(8), 11)]);
        for (dst, mac) in [(peer, station(9)), (other, station(8))] {
            let sending = send(&mut rig, dst, 5);
            assert!(matches!(sending, Sending::Frame(header) if header[..6] == mac.octets()), "{sending:?}");
        }
        assert_eq!((rig.link.neighbours.waiting_bytes(), rig.link.counters().waiting_dropped), (0, 0));
    }
}

/// Packets that wait for a neighbour count as before once it is found, and go with it.
#[test]
fn packets_of_a_neighbour_that_was_found_keep_the_bound_and_go_with_it() {
    let mut rig = Rig::settled(|config| config.limits.waiting_packets_max = 2);
    let blocked = |rig: &mut Rig| {
        rig.send(V4, PEER);
        rig.sent();
        rig.arp(true, station(7), PEER, V4);
        assert_eq!([rig.send(V4, PEER), rig.send(V4, PEER)], [Sending::Waiting; 2]);
    };
    blocked(&mut rig);
    assert_eq!(rig.link.counters().waiting_dropped, 1, "of three, two have room");
    // RFC 4861 §6.3.2: reachable for 45 s at most, stale for ten minutes, and then forgotten.
    while rig.link.poll_timeout().is_some_and(|due| due < rig.now + 700 * SECOND) {
        rig.now = rig.link.poll_timeout().unwrap();
        rig.wake();
    }
    assert_eq!((rig.neighbour(PEER), rig.link.counters().waiting_dropped), (None, 3));
    assert_eq!((rig.link.neighbours.waiting_bytes(), rig.link.has_transmit()), (0, false));

    blocked(&mut rig);
    // It is used while it is stale, asked three times, and does not answer.
    rig.now += 46 * SECOND;
    rig.wake();
    assert_eq!(rig.send(V4, PEER), Sending::Waiting);
    for _ in 0..4 {
        rig.now = rig.link.poll_timeout().unwrap();
        rig.wake();
    }
    assert_eq!((rig.neighbour(PEER), rig.link.counters().unresolved), (None, 2));
    while let Some(Transmit { header, .. }) = rig.link.poll_transmit() {
        assert_eq!(Frame::parse(&header).unwrap().ether_type, EtherType::ARP, "only the questions");
    }
    assert_eq!((rig.link.neighbours.waiting_bytes(), rig.link.has_transmit()), (0, false));
}

#[test]
fn a_packet_too_large_to_wait_takes_none_of_the_others_along() {
    let mut rig = Rig::settled(|config| config.limits.waiting_bytes_max = 100);
    rig.send(V4, PEER);
    rig.sent();
    let bytes = packet(V4, PEER, &[7; 81]);
    assert_eq!(rig.link.send_packet(rig.now, &plain(&bytes), None), Sending::Waiting);
    assert_eq!(rig.link.counters().waiting_dropped, 1);
    rig.arp(true, station(7), PEER, V4);
    assert_eq!(rig.sent().len(), 1);
    assert!(matches!(rig.send(V4, PEER), Sending::Frame(_)));
}

/// Of a queue that is found, the last packet may go for the sake of another: nothing is left to send then.
#[test]
fn a_queue_that_gave_its_room_away_is_found_no_more() {
    let mut rig = Rig::settled(|config| config.limits.waiting_bytes_max = 100);
    rig.link.send_packet(rig.now, &plain(&packet(V4, PEER, &[7; 60])), None);
    rig.sent();
    rig.arp(true, station(7), PEER, V4);
    rig.link.send_packet(rig.now, &plain(&packet(V4, "10.9.0.8", &[7; 60])), None);
    assert_eq!(rig.sent().len(), 1, "the question, and nothing that is gone");
    assert!(!rig.link.has_transmit());
    assert!(matches!(rig.send(V4, PEER), Sending::Frame(_)));
}
