//! Deferred accept: a SYN that waits for a decision.

use super::*;

fn deferred() -> (Host, ListenerId) {
    Host::listening(ListenOptions { deferred: true, ..on_port(PORT) })
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
    assert_eq!(srtt, Duration::from_millis(30), "the wait for the decision is no part of it");
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
