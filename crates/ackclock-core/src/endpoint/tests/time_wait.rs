//! TIME-WAIT: records, and how a new connection replaces them.

use super::*;

/// A connection that the server closed first, in TIME-WAIT, with the last acknowledgement sent. Returns its
/// id, and the server's and the client's next sequence numbers.
fn in_time_wait(host: &mut Host, listener: ListenerId, port: u16) -> (ConnectionId, SeqNum, u32) {
    let (id, iss) = host.accepted(listener, port);
    host.endpoint.update(host.now, id, |connection, now| connection.shutdown(now)).unwrap().unwrap();
    assert!(host.sent()[0].flags.contains(Flags::FIN));
    let last_ack = host.from(port, fields(Flags::FIN | Flags::ACK, 1001, iss + 2));
    assert_eq!(last_ack[0].ack, SeqNum::new(1002));
    assert_eq!(host.state(id), State::TimeWait);
    (id, iss + 2, 1002)
}

fn recorded(host: &mut Host, listener: ListenerId, port: u16) -> (SeqNum, u32) {
    let (id, snd_nxt, rcv_nxt) = in_time_wait(host, listener, port);
    host.endpoint.release(host.now, id);
    assert_eq!(host.sent(), []);
    assert_eq!(host.endpoint.connections().count(), 0);
    (snd_nxt, rcv_nxt)
}

// Tests: RFC 9293 MUST-13
#[test]
fn a_released_connection_lasts_two_msl_as_a_record_and_blocks_its_name() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    recorded(&mut host, listener, 4000);
    let open = |host: &mut Host| host.endpoint.connect(host.now, client(4000), (None, PORT), None);
    assert_eq!(open(&mut host), Err(crate::ConnectError::AddressInUse(client(4000))));
    host.wait(Duration::from_millis(59_999));
    assert!(open(&mut host).is_err());
    host.wait(Duration::from_millis(1));
    assert_eq!(host.endpoint.counters().time_wait_expired, 1);
    assert!(open(&mut host).is_ok());
}

#[test]
fn the_last_acknowledgement_leaves_before_the_connection_becomes_a_record() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.endpoint.release(host.now, id);
    host.sent();
    let last_ack = host.from(4000, fields(Flags::FIN | Flags::ACK, 1001, iss + 2));
    assert_eq!((last_ack.len(), last_ack[0].ack), (1, SeqNum::new(1002)));
    assert_eq!(host.endpoint.connections().count(), 0);
    assert!(host.endpoint.poll_timeout().is_some());
}

#[test]
fn a_connection_that_was_not_released_stays_readable_in_time_wait() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, ..) = in_time_wait(&mut host, listener, 4000);
    host.wait(Duration::from_secs(5));
    let mut buffer = [0; 8];
    let read = host.endpoint.update(host.now, id, |connection, now| connection.read(now, &mut buffer));
    assert_eq!(read, Some(Ok(0)));
}

#[test]
fn a_repeated_fin_is_acknowledged_by_the_record() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (snd_nxt, _) = recorded(&mut host, listener, 4000);
    let answer = host.from(4000, fields(Flags::FIN | Flags::ACK, 1001, snd_nxt));
    assert_eq!((answer[0].seq, answer[0].ack, answer[0].flags), (snd_nxt, SeqNum::new(1002), Flags::ACK));
    assert!(answer[0].window > 0, "the window that the connection told last");
}

#[test]
fn sec_c17_a_reset_does_not_end_time_wait_in_either_form() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (_, rcv_nxt) = recorded(&mut host, listener, 4000);
    let (id, ..) = in_time_wait(&mut host, listener, 4001);
    for port in [4000, 4001] {
        assert_eq!(host.from(port, fields(Flags::RST, rcv_nxt, SeqNum::new(0))), []);
    }
    assert_eq!(host.state(id), State::TimeWait);
    assert!(host.endpoint.connect(host.now, client(4000), (None, PORT), None).is_err());
}

// Tests: RFC 9293 MAY-2
#[test]
fn a_later_syn_takes_the_place_of_a_record_with_an_isn_beyond_the_old_one() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (snd_nxt, rcv_nxt) = recorded(&mut host, listener, 4000);
    let syn_ack = host.from(4000, syn(rcv_nxt + 1));
    assert_eq!(syn_ack[0].flags, Flags::SYN | Flags::ACK);
    assert!(syn_ack[0].seq.after(snd_nxt));
    host.from(4000, ack(rcv_nxt + 2, syn_ack[0].seq + 1));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    assert_eq!(host.state(id), State::Established);
    assert_eq!(host.endpoint.counters().time_wait_reopened, 1);
}

#[test]
fn a_later_syn_takes_the_place_of_a_connection_that_was_not_released() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (old, snd_nxt, rcv_nxt) = in_time_wait(&mut host, listener, 4000);
    let syn_ack = host.from(4000, syn(rcv_nxt + 1));
    assert!(syn_ack[0].flags == Flags::SYN | Flags::ACK && syn_ack[0].seq.after(snd_nxt));
    host.from(4000, ack(rcv_nxt + 2, syn_ack[0].seq + 1));
    let new = host.endpoint.accept(host.now, listener).unwrap();
    assert_eq!((host.state(old), host.state(new)), (State::TimeWait, State::Established));
    assert_eq!(host.endpoint.counters().time_wait_reopened, 1);
    host.endpoint.release(host.now, old);
    host.wait(Duration::from_secs(120));
    assert_eq!(host.endpoint.connections().count(), 1);
    assert_eq!(host.state(new), State::Established);
}

#[test]
fn an_old_syn_is_answered_by_the_old_numbers() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (snd_nxt, rcv_nxt) = recorded(&mut host, listener, 4000);
    let (held, held_snd_nxt, _) = in_time_wait(&mut host, listener, 4001);
    // A SYN that is too low, and one with another control bit.
    for (port, snd_nxt) in [(4000, snd_nxt), (4001, held_snd_nxt)] {
        let answer = host.from(port, syn(rcv_nxt - 500));
        let seen = (answer[0].seq, answer[0].ack, answer[0].flags);
        assert_eq!(seen, (snd_nxt, SeqNum::new(rcv_nxt), Flags::ACK), "{port}");
        host.from(port, fields(Flags::SYN | Flags::FIN, rcv_nxt + 1, SeqNum::new(0)));
        assert_eq!(host.endpoint.counters().time_wait_reopened, 0, "{port}");
    }
    assert_eq!(host.state(held), State::TimeWait);
}

#[test]
fn without_a_listener_a_syn_in_time_wait_is_refused_and_time_wait_goes_on() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (snd_nxt, rcv_nxt) = recorded(&mut host, listener, 4000);
    let (held, held_snd_nxt, _) = in_time_wait(&mut host, listener, 4001);
    host.endpoint.close_listener(host.now, listener);
    for (port, snd_nxt) in [(4000, snd_nxt), (4001, held_snd_nxt)] {
        assert_eq!(host.from(port, syn(rcv_nxt + 1))[0].flags, Flags::RST | Flags::ACK);
        // The FIN again, as if its acknowledgement had been lost: not a reset.
        let answers = host.from(port, fields(Flags::FIN | Flags::ACK, rcv_nxt - 1, snd_nxt));
        assert!(answers.len() == 1 && answers[0].flags == Flags::ACK, "{port}: {answers:?}");
    }
    assert_eq!(host.state(held), State::TimeWait);
}

// Tests: RFC 9293 SHLD-4
#[test]
fn with_timestamps_a_newer_syn_reopens_below_the_last_sequence_number() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let syn_ack = host.from(4000, syn_with_all_options(1000, 500));
    let echo = syn_ack[0].options.timestamps.unwrap().0;
    let iss = syn_ack[0].seq;
    host.from(4000, with_timestamps(ack(1001, iss + 1), 500, echo));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    host.endpoint.release(host.now, id);
    host.sent();
    host.from(4000, with_timestamps(fields(Flags::FIN | Flags::ACK, 1001, iss + 2), 510, echo));
    assert_eq!(host.endpoint.connections().count(), 0);

    let challenge = host.from(4000, syn_with_all_options(900, 509));
    assert_eq!(challenge[0].flags, Flags::ACK);
    assert_eq!(
        challenge[0].options.timestamps,
        Some((echo, 510)),
        "the connection's clock goes on, and TS.Recent is echoed"
    );
    assert_eq!(host.from(4000, syn_with_all_options(900, 511))[0].flags, Flags::SYN | Flags::ACK);
}

#[test]
fn sec_b11_short_connections_in_any_number_leave_a_bounded_table() {
    let mut config = config(SERVER);
    config.time_wait_max = 100;
    let mut host = Host::with(config);
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    for port in 1000..3000 {
        recorded(&mut host, listener, port);
    }
    let counters = host.endpoint.counters();
    assert_eq!((counters.opened_passively, counters.time_wait_recycled), (2000, 1900));
    host.wait(Duration::from_secs(61));
    assert_eq!(host.endpoint.counters().time_wait_expired, 100);
    assert_eq!(host.endpoint.poll_timeout(), None);
}
