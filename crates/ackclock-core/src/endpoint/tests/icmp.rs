//! ICMP errors about connections and half-open records.

use super::*;

const ROUTER: &str = "192.0.2.254";

/// An ICMPv4 error from a router about a segment that `from` sent to `to`.
pub(super) fn error(kind: (u8, u8), rest: u32, (from, to): (SocketAddr, SocketAddr), seq: SeqNum) -> Vec<u8> {
    let quoted = packet(from, to, Fields { seq, ..ack(0, SeqNum::new(0)) }, &[]);
    let mut icmp = vec![kind.0, kind.1, 0, 0];
    icmp.extend_from_slice(&rest.to_be_bytes());
    icmp.extend_from_slice(&quoted);
    let checksum = internet_checksum(&icmp);
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());

    // The IP header of any packet from there to here, with another protocol and length.
    let carrier = packet(SocketAddr::new(ip(ROUTER), 1), from, ack(0, SeqNum::new(0)), &[]);
    let mut packet = carrier[..20].to_vec();
    packet[9] = 1;
    packet[2..4].copy_from_slice(&u16::try_from(20 + icmp.len()).unwrap().to_be_bytes());
    fix_checksum(&mut packet);
    packet.extend_from_slice(&icmp);
    packet
}

/// Recomputes the IPv4 header's checksum.
pub(super) fn fix_checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let checksum = internet_checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

const PORT_UNREACHABLE: (u8, u8) = (3, 3);
const HOST_UNREACHABLE: (u8, u8) = (3, 1);
pub(super) const TOO_BIG: (u8, u8) = (3, 4);
const SOURCE_QUENCH: (u8, u8) = (4, 0);

fn give(host: &mut Host, packet: &[u8]) {
    host.endpoint.handle_packet(host.now, packet, RxMeta::default());
}

fn names(port: u16) -> (SocketAddr, SocketAddr) {
    (server(), client(port))
}

// Tests: RFC 9293 MUST-54
#[test]
fn an_error_reaches_the_connection_that_it_quotes_and_no_other() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (one, iss) = host.accepted(listener, 4000);
    let (other, _) = host.accepted(listener, 4001);
    host.endpoint.update(host.now, one, |connection, now| connection.write(now, b"x").unwrap());
    host.sent();
    host.events();
    give(&mut host, &error(HOST_UNREACHABLE, 0, names(4000), iss + 1));
    assert_eq!(host.endpoint.counters().icmp_delivered, 1);
    let mut soft_error =
        |id| host.endpoint.update(host.now, id, |connection, _| connection.take_soft_error()).unwrap();
    assert_eq!(soft_error(one), Some(crate::IcmpError::Host));
    assert_eq!(soft_error(other), None);
    assert_eq!((host.state(one), host.state(other)), (State::Established, State::Established));
}

#[test]
fn sec_a10_an_error_about_nothing_of_ours_is_dropped() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    host.accepted(listener, 4000);
    give(&mut host, &error(PORT_UNREACHABLE, 0, names(4001), SeqNum::new(1)));
    let not_ours = ("10.0.0.77:80".parse().unwrap(), client(4000));
    give(&mut host, &error(PORT_UNREACHABLE, 0, not_ours, SeqNum::new(1)));
    let mut to_another = error(PORT_UNREACHABLE, 0, names(4000), SeqNum::new(1));
    to_another[16..20].copy_from_slice(&[10, 0, 0, 9]);
    fix_checksum(&mut to_another);
    give(&mut host, &to_another);
    let counters = host.endpoint.counters();
    assert_eq!((counters.icmp_delivered, counters.dropped_icmp_unmatched), (0, 3));
}

// Tests: RFC 9293 MUST-55
#[test]
fn sec_a12_source_quench_changes_nothing() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, b"x").unwrap());
    host.sent();
    host.events();
    let cwnd = |host: &Host| host.endpoint.connection(id).unwrap().info(host.now).cwnd;
    let before = cwnd(&host);
    give(&mut host, &error(SOURCE_QUENCH, 0, names(4000), iss + 1));
    assert_eq!((cwnd(&host), host.events(), host.sent()), (before, vec![], vec![]));
    assert_eq!(host.endpoint.counters().dropped_source_quench, 1);
}

// Tests: RFC 9293 SHLD-26
#[test]
fn a_hard_error_about_the_syn_ack_returns_to_listen_and_a_soft_one_does_not() {
    let (mut host, _) = Host::listening(on_port(PORT));
    let iss = host.from(4000, syn(1000))[0].seq;
    give(&mut host, &error(HOST_UNREACHABLE, 0, names(4000), iss));
    assert!(host.endpoint.poll_timeout().is_some());
    give(&mut host, &error(PORT_UNREACHABLE, 0, names(4000), iss));
    assert_eq!(host.endpoint.poll_timeout(), None);
}

#[test]
fn a_hard_error_about_an_accepted_syn_is_told_to_its_deferred_listener() {
    let (mut host, listener) = Host::listening(ListenOptions { deferred: true, ..on_port(PORT) });
    host.from(4000, syn(1000));
    let [Event::Incoming(_, id)] = host.events()[..] else { panic!("a SYN that waits") };
    host.endpoint.decide(host.now, id, Decision::Accept);
    let iss = host.sent()[0].seq;
    give(&mut host, &error(PORT_UNREACHABLE, 0, names(4000), iss));
    assert_eq!(host.events(), [Event::IncomingGone(listener, id)]);
}

#[test]
fn sec_a10_a_half_open_connection_believes_only_errors_that_quote_its_syn_ack() {
    let (mut host, _) = Host::listening(on_port(PORT));
    let iss = host.from(4000, syn(1000))[0].seq;
    for seq in [iss + 1, iss - 1, iss + (1 << 31)] {
        give(&mut host, &error(PORT_UNREACHABLE, 0, names(4000), seq));
    }
    assert_eq!(host.endpoint.counters().dropped_icmp_unmatched, 3);
    assert!(host.endpoint.poll_timeout().is_some());
}

#[test]
fn sec_a11_packet_too_big_before_the_handshake_ends_bounds_the_segments_after_it() {
    for (told, largest) in [(1000, 1000), (68, 552), (0, 552)] {
        let (mut host, listener) = Host::listening(on_port(PORT));
        let iss = host.from(4000, syn(1000))[0].seq;
        give(&mut host, &error(TOO_BIG, told, names(4000), iss));
        host.from(4000, ack(1001, iss + 1));
        let id = host.endpoint.accept(host.now, listener).unwrap();
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[0; 4000]).unwrap());
        let longest = host.sent().iter().map(|sent| sent.bytes).max();
        assert_eq!(longest, Some(largest), "told {told}");
    }
}

#[test]
fn sec_c19_an_error_from_a_martian_is_dropped() {
    let (mut host, _) = Host::listening(on_port(PORT));
    let iss = host.from(4000, syn(1000))[0].seq;
    let mut packet = error(PORT_UNREACHABLE, 0, names(4000), iss);
    packet[12..16].copy_from_slice(&[224, 0, 0, 1]);
    fix_checksum(&mut packet);
    give(&mut host, &packet);
    assert_eq!(host.endpoint.counters().dropped_martian_source, 1);
    assert!(host.endpoint.poll_timeout().is_some());
}

#[test]
fn packet_too_big_only_lowers_the_path_mtu_and_not_below_the_least() {
    for (told, pmtu) in
        [(9000, 1500), (1500, 1500), (1499, 1499), (552, 552), (551, 552), (300, 552), (1, 552)]
    {
        let (mut host, listener) = Host::listening(on_port(PORT));
        let (id, iss) = host.accepted(listener, 4000);
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[0; 100]).unwrap());
        host.sent();
        give(&mut host, &error(TOO_BIG, told, names(4000), iss + 1));
        let info = host.endpoint.connection(id).unwrap().info(host.now);
        assert_eq!(info.pmtu, pmtu, "told {told}");
    }
}

#[test]
fn echo_replies_beyond_those_that_may_wait_are_dropped_and_counted() {
    let mut host = Host::with(EndpointConfig { echo_replies_per_second: 1000, ..config(SERVER) });
    let mut echo = packet(client(1), server(), ack(0, SeqNum::new(0)), &[]);
    echo.truncate(20);
    echo.extend([8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    echo[9] = 1;
    echo[2..4].copy_from_slice(&[0, 28]);
    fix_checksum(&mut echo);
    // A tenth of a second's worth may be answered at once.
    for _ in 0..101 {
        give(&mut host, &echo);
    }
    let counters = host.endpoint.counters();
    let seen = [counters.echoes_answered, counters.dropped_replies, counters.dropped_icmp_limited];
    assert_eq!(seen, [64, 36, 1]);
}
