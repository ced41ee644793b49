//! Ownership: events, accepting, releasing, closing listeners.

use super::*;
use crate::{Readiness, WriteError};

fn readable(event: &Event) -> bool {
    matches!(event, Event::Connection(_, readiness) if readiness.readable)
}

#[test]
fn changes_of_one_connection_are_merged_into_one_event() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.events();
    for n in 0..5 {
        host.give(client(4000), server(), ack(1001 + n, iss + 1), b"x");
    }
    let events = host.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(readable(&events[0]) && matches!(events[0], Event::Connection(of, _) if of == id));
    assert_eq!(host.events(), []);
}

/// A writer within a mark waits until less than half of the mark is unsent. The last packet to leave makes
/// that room. Nothing else need happen: the acknowledgement is a round trip away.
#[test]
fn room_that_the_last_packet_makes_is_told_once_it_has_left() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, _) = host.accepted(listener, 4000);
    let write = |host: &mut Host| host.endpoint.update(host.now, id, |tcp, now| tcp.write(now, &[7; 8000]));
    host.endpoint.update(host.now, id, |tcp, _| tcp.set_not_sent_lowat(Some(1)));
    assert_eq!(write(&mut host), Some(Ok(2 * 1460)), "a mark is two segments at least");
    assert_eq!(write(&mut host), Some(Err(WriteError::WouldBlock)));
    host.events();
    assert_eq!(host.sent().len(), 2);
    let room = Readiness { writable: true, ..Readiness::default() };
    assert_eq!(host.events(), [Event::Connection(id, room)]);
    assert_eq!(write(&mut host), Some(Ok(2 * 1460)));
}

#[test]
fn what_happened_before_accept_is_told_after_it() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let iss = host.handshake(4000);
    host.give(client(4000), server(), ack(1001, iss + 1), b"x");
    assert_eq!(host.events(), [Event::Acceptable(listener)]);
    host.endpoint.accept(host.now, listener).unwrap();
    assert!(readable(&host.events()[0]));
}

#[test]
fn connections_that_were_released_are_reset_where_all_must_end() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (released, _) = host.accepted(listener, 4000);
    let (held, _) = host.accepted(listener, 4001);
    host.endpoint.release(host.now, released);
    host.sent();
    host.endpoint.reset_orphans(host.now);
    let sent = host.sent();
    assert!(sent.len() == 1 && sent[0].flags.contains(Flags::RST) && sent[0].dst.port() == 4000, "{sent:?}");
    assert_eq!((host.endpoint.connections().count(), host.state(held)), (1, State::Established));
    assert_eq!(host.endpoint.counters().orphans_reset, 1);
    host.endpoint.reset_orphans(host.now);
    assert!(host.sent().is_empty());
}

#[test]
fn a_released_id_leads_nowhere_even_when_its_index_is_used_again() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (old, iss) = host.accepted(listener, 4000);
    host.endpoint.release(host.now, old);
    host.sent();
    host.from(4000, fields(Flags::RST, 1001, iss + 1));
    let (new, _) = host.accepted(listener, 4001);
    assert_eq!(new.index(), old.index());
    assert!(host.endpoint.connection(old).is_none());
    assert!(host.endpoint.update(host.now, old, |_, _| ()).is_none());
    host.endpoint.release(host.now, old);
    assert!(host.endpoint.connection(new).is_some());
}

// Tests: RFC 9293 SHLD-3
#[test]
fn releasing_with_unread_data_resets() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.give(client(4000), server(), ack(1001, iss + 1), b"never read");
    host.endpoint.release(host.now, id);
    let sent = host.sent();
    assert!(sent.iter().any(|sent| sent.flags.contains(Flags::RST)), "{sent:?}");
    assert_eq!(host.endpoint.connections().count(), 0);
}

#[test]
fn releasing_with_unread_data_in_time_wait_keeps_the_name_waiting() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.endpoint.update(host.now, id, |connection, now| connection.shutdown(now).unwrap());
    host.sent();
    host.give(client(4000), server(), ack(1001, iss + 2), b"never read");
    host.from(4000, fields(Flags::FIN | Flags::ACK, 1011, iss + 2));
    assert_eq!(host.endpoint.connection(id).unwrap().state(), State::TimeWait);
    host.sent();
    host.endpoint.release(host.now, id);
    assert_eq!(host.endpoint.memory().0, 0, "unread data is freed");

    // The last acknowledgement was lost: the peer repeats its FIN, and must not get a reset.
    let answers = host.from(4000, fields(Flags::FIN | Flags::ACK, 1011, iss + 2));
    assert!(answers.len() == 1 && answers[0].flags == Flags::ACK, "{answers:?}");
}

// Tests: RFC 9293 SHLD-3
#[test]
fn releasing_with_unread_data_in_last_ack_resets() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.give(client(4000), server(), fields(Flags::FIN | Flags::ACK, 1001, iss + 1), b"never read");
    host.endpoint.update(host.now, id, |connection, now| connection.shutdown(now).unwrap());
    assert_eq!(host.endpoint.connection(id).unwrap().state(), State::LastAck);
    host.sent();
    host.endpoint.release(host.now, id);
    let sent = host.sent();
    assert!(sent.iter().any(|sent| sent.flags.contains(Flags::RST)), "the FIN may be lost: {sent:?}");
    assert_eq!(host.endpoint.connections().count(), 0);
}

#[test]
fn releasing_without_unread_data_closes_and_the_orphan_goes_on_by_itself() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"bye").unwrap());
    host.endpoint.release(host.now, id);
    let sent = host.sent();
    let end = sent.last().unwrap();
    assert!(end.flags.contains(Flags::FIN));
    assert_eq!(sent.iter().flat_map(|sent| sent.payload.clone()).collect::<Vec<_>>(), b"bye");
    assert_eq!(host.endpoint.connections().count(), 1);

    // The peer acknowledges the FIN and never closes: the orphan is given up.
    host.from(4000, ack(1001, iss + 5));
    assert_eq!(host.endpoint.connections().next().unwrap().1.state(), State::FinWait2);
    host.wait(Duration::from_secs(61));
    assert_eq!(host.endpoint.connections().count(), 0);
    assert_eq!(host.endpoint.poll_timeout(), None);
}

#[test]
fn a_connection_that_is_over_keeps_its_place_but_not_its_name() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (dead, iss) = host.accepted(listener, 4000);
    host.from(4000, fields(Flags::RST, 1001, iss + 1));
    assert_eq!(host.state(dead), State::Closed);

    let (alive, iss) = host.accepted(listener, 4000);
    host.give(client(4000), server(), ack(1001, iss + 1), b"x");
    assert!(host.endpoint.connection(alive).unwrap().is_readable());
    assert_eq!(host.endpoint.connection(dead).unwrap().error(), Some(crate::ConnectionError::Reset));
    host.endpoint.release(host.now, dead);
    assert_eq!(host.state(alive), State::Established);
    assert_eq!(host.endpoint.connections().count(), 1);
}

#[test]
fn closing_a_listener_forgets_the_half_open_and_resets_the_unaccepted() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (accepted, _) = host.accepted(listener, 4000);
    host.handshake(4001);
    host.from(4002, syn(1000));
    host.endpoint.close_listener(host.now, listener);
    let sent = host.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].flags.contains(Flags::RST) && sent[0].dst == client(4001));
    assert_eq!(host.state(accepted), State::Established);
    assert_eq!(host.endpoint.connections().count(), 1);
    assert_eq!(host.from(4003, syn(1000))[0].flags, Flags::RST | Flags::ACK, "the listener is gone");
    assert_eq!(host.endpoint.listener_addr(listener), None);
    host.endpoint.listen(host.now, on_port(PORT)).unwrap();
}

#[test]
fn connections_take_turns_in_sending() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let ids: Vec<ConnectionId> = (4000..4003).map(|port| host.accepted(listener, port).0).collect();
    for id in ids {
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[0; 8 * 1460]).unwrap());
    }
    let ports: Vec<u16> = host.sent().iter().map(|sent| sent.dst.port()).collect();
    assert!(ports.len() >= 9, "{ports:?}");
    assert_eq!(ports[..9], [4000, 4001, 4002, 4000, 4001, 4002, 4000, 4001, 4002]);
}

// Tests: RFC 9293 MUST-58, RFC 9293 MUST-59
#[test]
fn a_batch_of_segments_is_taken_in_before_one_acknowledgement_leaves() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (_, iss) = host.accepted(listener, 4000);
    for n in 0..10 {
        let packet = packet(client(4000), server(), ack(1001 + n * 1000, iss + 1), &[0; 1000]);
        let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
        host.endpoint.handle_packet(host.now, &packet, meta);
    }
    let sent = host.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].ack, SeqNum::new(11_001));
}

#[test]
fn the_timers_of_many_connections_run_independently() {
    let mut host = Host::new();
    for port in 0..50 {
        host.endpoint.connect(host.now, client(1000 + port), (None, 0), None).unwrap();
        host.sent();
        host.wait(Duration::from_millis(7));
    }
    let repeated = host.wait(Duration::from_secs(2));
    let ports: std::collections::HashSet<u16> = repeated.iter().map(|(_, sent)| sent.dst.port()).collect();
    assert_eq!(ports.len(), 50);
    assert!(repeated.iter().all(|(_, sent)| sent.flags == Flags::SYN));
}

#[test]
fn a_clock_that_runs_backwards_stands_still() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    host.from(4000, syn(1000));
    host.now = Instant::ZERO;
    host.endpoint.handle_timeout(Instant::ZERO);
    host.handshake(4001);
    let id = host.endpoint.accept(Instant::ZERO, listener).unwrap();
    assert_eq!(host.state(id), State::Established);
}

#[test]
fn a_smaller_mtu_reaches_every_connection() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, _) = host.accepted(listener, 4000);
    host.endpoint.set_mtu(host.now, 1000);
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[0; 5000]).unwrap());
    let sent = host.sent();
    assert!(!sent.is_empty() && sent.iter().all(|sent| sent.bytes <= 1000), "{sent:?}");
    assert_eq!(host.from(4001, syn(1000))[0].options.mss, Some(960));
}

#[test]
fn an_earlier_deadline_moves_the_timer_of_a_connection_forward() {
    let tcp = TcpConfig { keepalive: Some(crate::Keepalive::default()), ..tcp_config() };
    let (mut host, listener) = Host::listening(ListenOptions { tcp: Some(tcp), ..on_port(PORT) });
    let (_, iss) = host.accepted(listener, 4000);
    assert!(host.endpoint.poll_timeout().unwrap() > host.now + Duration::from_secs(7000));
    assert_eq!(host.give(client(4000), server(), ack(1001, iss + 1), b"x"), []);
    let delayed = host.wait(Duration::from_secs(1));
    assert_eq!(delayed.len(), 1);
    assert!(delayed[0].0 <= Duration::from_millis(40));
}

#[test]
fn nothing_is_told_of_a_connection_after_its_release() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.endpoint.release(host.now, id);
    host.sent();
    host.from(4000, fields(Flags::FIN | Flags::ACK, 1001, iss + 1));
    assert_eq!(host.endpoint.connections().count(), 1);
    assert_eq!(host.events(), []);
}

#[test]
fn beyond_the_bound_the_oldest_orphan_is_reset() {
    let mut host = Host::with(EndpointConfig { orphans_max: 3, ..config(SERVER) });
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    // Each peer acknowledges nothing, so that no orphan ever finishes.
    let mut release = |port| {
        let (id, _) = host.accepted(listener, port);
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"bye").unwrap());
        host.endpoint.release(host.now, id);
        let sent = host.sent();
        let reset = sent.iter().filter(|sent| sent.flags.contains(Flags::RST));
        (reset.map(|sent| sent.dst.port()).collect::<Vec<_>>(), host.endpoint.connections().count())
    };
    assert_eq!([4000, 4001, 4002].map(&mut release), [(vec![], 1), (vec![], 2), (vec![], 3)]);
    assert_eq!([4003, 4004].map(&mut release), [(vec![4000], 3), (vec![4001], 3)]);
    assert_eq!(host.endpoint.counters().orphans_reset, 2);
    let (mine, _) = host.accepted(listener, 4005);
    assert_eq!(host.state(mine), State::Established, "connections that have an owner do not count");
}

#[test]
fn orphans_that_finish_make_room() {
    let mut host = Host::with(EndpointConfig { orphans_max: 2, ..config(SERVER) });
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    for port in 4000..4050 {
        let (id, iss) = host.accepted(listener, port);
        host.endpoint.release(host.now, id);
        host.sent();
        // Some end in TIME-WAIT, some by a reset.
        let flags = if port % 2 == 0 { Flags::FIN | Flags::ACK } else { Flags::RST };
        host.from(port, fields(flags, 1001, iss + 2));
    }
    assert_eq!(host.endpoint.counters().orphans_reset, 0);
    assert_eq!(host.endpoint.connections().count(), 0);
}

#[test]
fn finished_orphans_leave_the_queue_when_it_is_more_than_twice_the_bound() {
    let mut host = Host::with(EndpointConfig { orphans_max: 2, ..config(SERVER) });
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    let mut release = |port| {
        let (id, iss) = host.accepted(listener, port);
        host.endpoint.release(host.now, id);
        host.sent();
        if port > 4000 {
            host.from(port, fields(Flags::RST, 1001, iss + 2));
        }
        host.endpoint.orphans.queued()
    };
    // The first stays, and all others finish at once.
    assert_eq!([4000, 4001, 4002, 4003, 4004, 4005, 4006].map(&mut release), [1, 2, 3, 4, 5, 2, 3]);
}

#[test]
fn data_beyond_a_gap_is_not_readable_yet() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (_, iss) = host.accepted(listener, 4000);
    host.events();
    host.give(client(4000), server(), ack(1003, iss + 1), b"cd");
    assert!(!host.events().iter().any(readable));
    host.give(client(4000), server(), ack(1001, iss + 1), b"ab");
    assert!(host.events().iter().any(readable));
}

#[test]
fn a_packet_from_the_device_is_not_that_of_a_connection_to_oneself() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let id = host.endpoint.connect(host.now, server(), (None, 5000), None).unwrap();
    host.sent();
    let accepted = host.endpoint.accept(host.now, listener).unwrap();
    let from = SocketAddr::new(ip(SERVER), 5000);
    assert_eq!(host.give(from, server(), fields(Flags::RST, 0, SeqNum::new(0)), &[]), []);
    assert_eq!(host.endpoint.counters().dropped_martian_source, 1);
    assert_eq!((host.state(id), host.state(accepted)), (State::Established, State::Established));
}

#[test]
fn debug_output_counts_what_an_endpoint_holds() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    host.accepted(listener, 4000);
    host.from(4001, syn(1000));
    let shown = format!("{:?}", host.endpoint);
    assert!(shown.starts_with("Endpoint { now: "), "{shown}");
    assert!(shown.contains("connections: 1, half_open: 1, time_wait: 0, counters: "), "{shown}");
}
