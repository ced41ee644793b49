//! Deferred accept: a SYN that waits for a decision.

use ackclock_wire::{IcmpKind, IcmpReport, parse_icmp4};

use super::*;
use crate::Unreachable;

fn deferred() -> (Host, ListenerId) {
    Host::listening(ListenOptions { deferred: true, ..on_port(PORT) })
}

/// A reset with the exact sequence number for a client whose SYN had this number.
fn take_back(seq: u32) -> Fields {
    fields(Flags::RST, seq + 1, SeqNum::new(0))
}

fn incoming(host: &mut Host) -> crate::endpoint::IncomingId {
    match host.events()[..] {
        [Event::Incoming(_, id)] => id,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_syn_waits_in_silence_and_can_be_looked_at() {
    let (mut host, _) = deferred();
    assert_eq!(host.from(4000, syn(1000)), []);
    let id = incoming(&mut host);
    let seen = host.endpoint.incoming(id).unwrap();
    assert_eq!((seen.tuple.remote(), seen.tuple.local(), seen.mss), (client(4000), server(), Some(1460)));
    assert_eq!(host.from(4000, syn(1000)), [], "the SYN again changes nothing");
    assert_eq!(host.events(), []);
}

#[test]
fn accepting_answers_the_syn() {
    let (mut host, listener) = deferred();
    host.from(4000, syn(1000));
    let id = incoming(&mut host);
    host.wait(Duration::from_secs(20));
    assert!(host.endpoint.decide(host.now, id, Decision::Accept));
    let syn_ack = host.sent();
    assert_eq!(syn_ack[0].flags, Flags::SYN | Flags::ACK);
    host.wait(Duration::from_millis(30));
    host.from(4000, ack(1001, syn_ack[0].seq + 1));
    assert_eq!(host.events(), [Event::Acceptable(listener)]);
    let connection = host.endpoint.accept(host.now, listener).unwrap();
    let srtt = host.endpoint.connection(connection).unwrap().info(host.now).srtt;
    assert_eq!(srtt, Duration::from_millis(30), "without the wait for the decision");
    assert!(!host.endpoint.decide(host.now, id, Decision::Reset), "decided once");
}

#[test]
fn a_repeated_syn_ack_of_an_accepted_one_follows_the_usual_times() {
    let (mut host, _) = deferred();
    host.from(4000, syn(1000));
    let id = incoming(&mut host);
    host.wait(Duration::from_secs(20));
    host.endpoint.decide(host.now, id, Decision::Accept);
    host.sent();
    let times: Vec<u64> = host.wait(Duration::from_secs(90)).iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!(times, [1, 3, 7, 15, 31]);
}

#[test]
fn resetting_refuses_the_syn() {
    let (mut host, _) = deferred();
    host.from(4000, syn(1000));
    let id = incoming(&mut host);
    assert!(host.endpoint.decide(host.now, id, Decision::Reset));
    let reset = host.sent();
    assert_eq!((reset[0].flags, reset[0].ack), (Flags::RST | Flags::ACK, SeqNum::new(1001)));
    assert!(host.endpoint.incoming(id).is_none());
}

/// The next ICMP error of the host, and its source.
fn icmp_error(host: &mut Host) -> (IpAddr, IcmpReport) {
    let packet = host.endpoint.poll_transmit(host.now, LIMITS).unwrap();
    let packet = packet.to_vec();
    let ip = IpPacket::parse(&packet).unwrap();
    let IpPayload::Icmp4(message) = ip.payload else { panic!("not ICMP: {:?}", ip.payload) };
    assert_eq!(ip.dst, client(0).ip());
    (ip.src, parse_icmp4(message).unwrap().unwrap())
}

#[test]
fn what_cannot_be_reached_is_told_by_an_error_that_quotes_the_syn() {
    let (mut host, _) = deferred();
    for (why, kind) in [
        (Unreachable::Network, IcmpKind::NetworkUnreachable),
        (Unreachable::Host, IcmpKind::HostUnreachable),
        (Unreachable::Prohibited, IcmpKind::Prohibited),
    ] {
        host.from(4000, syn(1000));
        let id = incoming(&mut host);
        assert!(host.endpoint.decide(host.now, id, Decision::Unreachable(why)));
        let expected = IcmpReport { kind, src: client(4000), dst: server(), seq: SeqNum::new(1000) };
        assert_eq!(icmp_error(&mut host), (server().ip(), expected));
        assert_eq!((host.sent(), host.endpoint.incoming(id).is_none()), (vec![], true));
    }
    assert_eq!(host.endpoint.counters().icmp_errors_sent, 3);
    assert_eq!(host.endpoint.counters().resets_sent, 0);
}

#[test]
fn an_endpoint_without_addresses_tells_it_from_the_address_that_was_dialled() {
    let mut host = Host::with(EndpointConfig::new(Vec::new(), [1; 32]));
    host.endpoint.listen(host.now, ListenOptions { deferred: true, ..on_port(PORT) }).unwrap();
    let dialled: SocketAddr = "203.0.113.7:80".parse().unwrap();
    host.give(client(4000), dialled, syn(1000), &[]);
    let id = incoming(&mut host);
    assert!(host.endpoint.decide(host.now, id, Decision::Unreachable(Unreachable::Host)));
    let (from, report) = icmp_error(&mut host);
    assert_eq!((from, report.src, report.dst), (dialled.ip(), client(4000), dialled));
}

#[test]
fn beyond_the_limit_of_errors_a_client_that_cannot_reach_its_destination_is_reset() {
    let (mut host, _) = deferred();
    for port in 4000..4010 {
        host.from(port, syn(1000));
        let id = incoming(&mut host);
        assert!(host.endpoint.decide(host.now, id, Decision::Unreachable(Unreachable::Host)));
        if port < 4006 {
            assert_eq!(icmp_error(&mut host).1.src, client(port));
        } else {
            let reset = host.sent();
            assert_eq!((reset[0].flags, reset[0].dst), (Flags::RST | Flags::ACK, client(port)));
            assert_eq!(reset[0].ack, SeqNum::new(1001));
        }
    }
    let counters = host.endpoint.counters();
    assert_eq!((counters.icmp_errors_sent, counters.dropped_icmp_limited, counters.resets_sent), (6, 4, 4));
}

#[test]
fn dropping_forgets_the_syn_silently() {
    let (mut host, _) = deferred();
    host.from(4000, syn(1000));
    let id = incoming(&mut host);
    assert!(host.endpoint.decide(host.now, id, Decision::Drop));
    assert_eq!(host.sent(), []);
    assert_eq!(host.endpoint.poll_timeout(), None);
}

#[test]
fn a_syn_is_held_for_a_minute_at_most() {
    let (mut host, _) = deferred();
    host.from(4000, syn(1000));
    let id = incoming(&mut host);
    assert_eq!(host.wait(Duration::from_millis(59_999)), []);
    assert!(host.endpoint.incoming(id).is_some());
    host.wait(Duration::from_millis(1));
    assert!(host.endpoint.incoming(id).is_none());
    assert!(!host.endpoint.decide(host.now, id, Decision::Accept));
    assert_eq!(host.endpoint.counters().syns_undecided_expired, 1);
}

#[test]
fn a_peer_can_take_its_syn_back() {
    let (mut host, _) = deferred();
    host.from(4000, syn(1000));
    let id = incoming(&mut host);
    host.from(4000, fields(Flags::RST, 1002, SeqNum::new(0)));
    assert!(host.endpoint.incoming(id).is_some(), "not with another number");
    host.from(4000, fields(Flags::RST, 1001, SeqNum::new(0)));
    assert!(host.endpoint.incoming(id).is_none());
}

#[test]
fn sec_b1_more_syns_than_may_wait_are_dropped_not_answered() {
    let (mut host, _) = Host::listening(ListenOptions { deferred: true, syn_backlog: 8, ..on_port(PORT) });
    for n in 0..20 {
        let from = SocketAddr::new(IpAddr::from([10, 0, 1, n]), 4000);
        assert_eq!(host.give(from, server(), syn(1000), &[]), []);
    }
    assert_eq!(host.events().len(), 8);
    assert_eq!(
        (host.endpoint.counters().dropped_syn_backlog, host.endpoint.counters().cookies_sent),
        (12, 0)
    );
}

#[test]
fn sec_b13_one_source_of_deferred_syns_leaves_as_much_as_it_takes() {
    // All clients of a proxy may have one address, so a quarter is too little; others must find room all the
    // same. A source may have as many as are free: one takes a half, the next a half of the rest.
    let (mut host, _) = Host::listening(ListenOptions { deferred: true, syn_backlog: 64, ..on_port(PORT) });
    let mut come = |subnet: u8, syns: u16| {
        for port in 0..syns {
            host.give(([10, 0, subnet, 1], 4000 + port).into(), server(), syn(1000), &[]);
        }
        host.events().len()
    };
    assert_eq!(come(1, 64), 32);
    assert_eq!(come(2, 64), 16);
    assert_eq!(come(3, 64), 16, "a quarter in any case");
    assert_eq!(come(4, 64), 0);
}

#[test]
fn a_reset_before_and_after_the_decision_is_told_at_once_and_once() {
    for accepts in [false, true] {
        let (mut host, listener) = deferred();
        host.from(4000, syn(1000));
        let id = incoming(&mut host);
        if accepts {
            assert!(host.endpoint.decide(host.now, id, Decision::Accept));
            host.sent();
        }
        host.from(4000, take_back(1000));
        assert_eq!(host.events(), [Event::IncomingGone(listener, id)], "accepted: {accepts}");
        assert!(!host.endpoint.decide(host.now, id, Decision::Accept));
        host.wait(Duration::from_secs(200));
        assert_eq!(host.events(), []);
        assert_eq!(host.endpoint.poll_timeout(), None);
    }
}

#[test]
fn a_client_that_resets_and_comes_again_is_another_one() {
    let (mut host, listener) = deferred();
    host.from(4000, syn(1000));
    let first = incoming(&mut host);
    host.endpoint.decide(host.now, first, Decision::Accept);
    host.sent();
    host.from(4000, take_back(1000));
    host.from(4000, syn(5000));
    let events = host.events();
    let [Event::IncomingGone(_, gone), Event::Incoming(_, second)] = events[..] else { panic!("{events:?}") };
    assert_eq!(gone, first);
    assert_ne!(second, first);
    host.endpoint.decide(host.now, second, Decision::Accept);
    let iss = host.sent()[0].seq;
    host.from(4000, ack(5001, iss + 1));
    assert_eq!(host.events(), [Event::Acceptable(listener)]);
    let (_, came_of) = host.endpoint.accept_decided(host.now, listener).unwrap();
    assert_eq!(came_of, Some(second));
    host.wait(Duration::from_secs(200));
    assert!(!host.events().iter().any(|event| matches!(event, Event::IncomingGone(..))));
}

#[test]
fn a_syn_that_starts_afresh_within_the_window_is_told_as_an_end() {
    let (mut host, listener) = deferred();
    host.from(4000, syn(1000));
    let id = incoming(&mut host);
    host.endpoint.decide(host.now, id, Decision::Accept);
    host.sent();
    host.from(4000, syn(1500));
    assert_eq!(host.events(), [Event::IncomingGone(listener, id)]);
}

#[test]
fn what_was_never_told_is_never_told_to_be_gone() {
    let (mut host, _) = deferred();
    host.from(4000, syn(1000));
    host.from(4000, take_back(1000));
    assert_eq!(host.events(), []);
    assert_eq!(host.endpoint.counters().half_open_ended, 1);
}

#[test]
fn who_refused_or_dropped_a_syn_does_not_hear_of_it_again() {
    for decision in [Decision::Reset, Decision::Drop] {
        let (mut host, _) = deferred();
        host.from(4000, syn(1000));
        let id = incoming(&mut host);
        assert!(host.endpoint.decide(host.now, id, decision));
        host.wait(Duration::from_secs(200));
        assert_eq!(host.events(), [], "{decision:?}");
    }
}

#[test]
fn the_end_of_a_syns_time_is_told_when_it_comes() {
    for (accepts, seconds) in [(false, 60), (true, 63)] {
        let (mut host, listener) = deferred();
        host.from(4000, syn(1000));
        let id = incoming(&mut host);
        if accepts {
            host.endpoint.decide(host.now, id, Decision::Accept);
        }
        host.wait(Duration::from_millis(seconds * 1000 - 1));
        assert_eq!(host.events(), []);
        host.wait(Duration::from_millis(2));
        assert_eq!(host.events(), [Event::IncomingGone(listener, id)], "accepted: {accepts}");
    }
}

#[test]
fn a_closed_listener_tells_nothing_of_those_who_went_before() {
    let (mut host, listener) = deferred();
    for (seq, port) in [(1000, 4000), (2000, 4001)] {
        host.from(port, syn(seq));
    }
    assert_eq!(host.events().len(), 2);
    host.from(4000, take_back(1000));
    host.endpoint.close_listener(host.now, listener);
    assert_eq!(host.events(), []);
    assert_eq!(host.endpoint.poll_timeout(), None);
}

#[test]
fn sec_b1_those_who_come_and_go_are_bounded_as_those_who_stay() {
    let (mut host, _) = Host::listening(ListenOptions { deferred: true, syn_backlog: 8, ..on_port(PORT) });
    let from = |n| SocketAddr::new(IpAddr::from([10, 0, 1, n]), 4000);
    for n in 0..8 {
        host.give(from(n), server(), syn(1000), &[]);
    }
    assert_eq!(host.events().len(), 8);
    for n in 0..8 {
        host.give(from(n), server(), take_back(1000), &[]);
    }
    // They keep their places until they are reported to the application; those that were never reported keep
    // none.
    for n in 8..200 {
        host.give(from(n), server(), syn(1000), &[]);
        host.give(from(n), server(), take_back(1000), &[]);
    }
    assert_eq!(host.endpoint.counters().dropped_syn_backlog, 192);
    let waiting = host.events();
    assert_eq!(waiting.len(), 8);
    assert!(waiting.iter().all(|event| matches!(event, Event::IncomingGone(..))), "{waiting:?}");
    host.give(from(201), server(), syn(1000), &[]);
    assert!(matches!(host.events()[..], [Event::Incoming(..)]), "there is room again");
}

#[test]
fn sec_b1_syns_beyond_the_decisions_that_may_be_pending_are_dropped_until_one_is_made() {
    let (mut host, _) = Host::listening(ListenOptions { deferred: true, decisions_max: 3, ..on_port(PORT) });
    for port in 0..10 {
        assert_eq!(host.from(4000 + port, syn(1000)), []);
    }
    let ids: Vec<_> = host
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Incoming(_, id) => id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((ids.len(), host.endpoint.counters().dropped_syn_backlog), (3, 7));
    // Each decision, and the client's own reset, makes room for one.
    host.endpoint.decide(host.now, ids[0], Decision::Accept);
    host.endpoint.decide(host.now, ids[1], Decision::Drop);
    host.from(4002, take_back(1000));
    for port in 0..10 {
        host.from(5000 + port, syn(1000));
    }
    let fresh = host.events().iter().filter(|event| matches!(event, Event::Incoming(..))).count();
    assert_eq!((fresh, host.endpoint.counters().dropped_syn_backlog), (3, 14));
}
