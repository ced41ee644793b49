//! Honest users are served while SYNs of strangers arrive: turn by turn, as a driver works, which hands in a
//! batch of packets and then sends a batch.

use super::*;

/// The packets that a driver sends in a turn.
const SENT_PER_TURN: usize = 64;

/// Gives the host SYNs from `count` addresses without anyone behind them. Each call has others.
fn syns(host: &mut Host, from: &mut u32, count: u32) {
    for _ in 0..count {
        *from += 1;
        let stranger = SocketAddr::new(std::net::Ipv4Addr::from(0xc612_0000 + *from).into(), 4000);
        arrives(host, stranger, syn(1000), &[]);
    }
}

fn arrives(host: &mut Host, src: SocketAddr, fields: Fields, payload: &[u8]) {
    let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
    host.endpoint.handle_packet(host.now, &packet(src, server(), fields, payload), meta);
}

/// The packets that leave in one turn.
fn turn(host: &mut Host) -> Vec<SentSegment> {
    let sent = (0..SENT_PER_TURN).map_while(|_| {
        let packet = host.endpoint.poll_transmit(host.now, LIMITS)?;
        Some(decode(&packet.to_vec()))
    });
    sent.collect()
}

/// A listener whose SYN queue is full of strangers, so that it answers by cookies. Its connections are not
/// paced: only the turns say when something leaves.
fn flooded() -> (Host, ListenerId, u32) {
    let mut tcp = TcpConfig::default();
    tcp.choices.pacing = false;
    let options = ListenOptions { syn_backlog: 64, tcp: Some(tcp), ..on_port(PORT) };
    let (mut host, listener) = Host::listening(options);
    let mut from = 0;
    syns(&mut host, &mut from, 100);
    while !turn(&mut host).is_empty() {}
    (host, listener, from)
}

#[test]
fn sec_b1_a_connection_sends_as_before_though_every_turn_is_full_of_syns() {
    let (mut host, listener, mut from) = flooded();
    let (id, iss) = {
        arrives(&mut host, client(4000), syn(1000), &[]);
        let iss = turn(&mut host)[0].seq;
        arrives(&mut host, client(4000), ack(1001, iss + 1), &[]);
        (host.endpoint.accept(host.now, listener).unwrap(), iss)
    };
    let mut acked = 0;
    for round in 0..20 {
        // Ten segments, the initial window, and then as many as were acknowledged.
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[7; 10 * 1460]));
        syns(&mut host, &mut from, SENT_PER_TURN as u32);
        let segments = turn(&mut host).into_iter().filter(|sent| sent.dst == client(4000));
        let bytes: usize = segments.map(|sent| sent.payload.len()).sum();
        assert_eq!(bytes, 10 * 1460, "round {round}");
        host.now += Duration::from_millis(1);
        acked += bytes as u32;
        arrives(&mut host, client(4000), ack(1001, iss + 1 + acked), &[]);
    }
}

#[test]
fn sec_b1_who_has_shown_an_address_is_answered_before_a_thousand_who_have_not() {
    for connected_before in [true, false] {
        let (mut host, listener) = Host::listening(ListenOptions { syn_backlog: 64, ..on_port(PORT) });
        let mut from = 0;
        if connected_before {
            host.accepted(listener, 3999);
        }
        syns(&mut host, &mut from, 100);
        while !turn(&mut host).is_empty() {}
        if !connected_before {
            host.accepted(listener, 3999);
        }
        // More than may wait, so that some have no room.
        for port in 4000..4100 {
            syns(&mut host, &mut from, 2_000);
            arrives(&mut host, client(port), syn(1000), &[]);
            let answer = turn(&mut host).into_iter().find(|sent| sent.dst == client(port));
            let answer = answer.expect("answered in the same turn");
            arrives(&mut host, client(port), ack(1001, answer.seq + 1), &[]);
            assert!(host.endpoint.accept(host.now, listener).is_some());
        }
        let waiting =
            std::iter::from_fn(|| Some(turn(&mut host).len()).filter(|&sent| sent > 0)).sum::<usize>();
        assert!(waiting <= 1_024, "{waiting}");
        assert!(host.endpoint.counters().dropped_replies > 0);
    }
}

/// A first visitor is a stranger, and waits as the others do: one round trip, as long as a turn can answer
/// what it receives.
#[test]
fn sec_b1_a_first_visitor_is_answered_in_the_turn_of_its_syn_beside_as_many_as_a_turn_can_answer() {
    for beside in [0, 1, 10, SENT_PER_TURN as u32 - 1] {
        let (mut host, listener, mut from) = flooded();
        for visitor in 0..100 {
            let visitor = SocketAddr::new(std::net::Ipv4Addr::new(192, 0, 2, visitor).into(), 4000);
            syns(&mut host, &mut from, beside / 2);
            arrives(&mut host, visitor, syn(1000), &[]);
            syns(&mut host, &mut from, beside - beside / 2);
            let answer = turn(&mut host).into_iter().find(|sent| sent.dst == visitor);
            let answer = answer.expect("answered in the same turn");
            arrives(&mut host, visitor, ack(1001, answer.seq + 1), &[]);
            assert!(host.endpoint.accept(host.now, listener).is_some());
        }
        assert_eq!(host.endpoint.counters().dropped_replies, 0);
    }
}

/// A driver that is behind is caught up by receiving: then a known source and a connection are served as
/// before, and strangers by a sixteenth of what arrives.
#[test]
fn sec_b1_while_the_driver_is_behind_strangers_wait_and_nobody_else_does() {
    let (mut host, listener, mut from) = flooded();
    let (id, iss) = host.accepted(listener, 3999);
    host.endpoint.set_behind(true);
    for (round, port) in (4000..4100).enumerate() {
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[7; 2 * 1460]));
        arrives(&mut host, client(port), syn(1000), &[]);
        syns(&mut host, &mut from, SENT_PER_TURN as u32 - 2);
        let sent = turn(&mut host);
        let to_strangers = sent.iter().filter(|sent| sent.dst.ip() != ip(CLIENT)).count();
        assert!((3..=5).contains(&to_strangers), "{to_strangers} of 62, round {round}");
        let bytes: usize = sent.iter().map(|sent| sent.payload.len()).sum();
        assert_eq!(bytes, 2 * 1460);
        let answer = sent.iter().find(|sent| sent.dst == client(port)).expect("answered at once");
        arrives(&mut host, client(port), ack(1001, answer.seq + 1), &[]);
        assert!(host.endpoint.accept(host.now, listener).is_some());
        host.now += Duration::from_millis(1);
        arrives(&mut host, client(3999), ack(1001, iss + 1 + 2 * 1460 * (round as u32 + 1)), &[]);
    }
    host.endpoint.set_behind(false);
    let waiting = std::iter::from_fn(|| Some(turn(&mut host).len()).filter(|&sent| sent > 0)).sum::<usize>();
    assert!((1_000..=1_024).contains(&waiting), "{waiting}: those who still wait are answered then");
}
