//! The layer below: RFC 9293 §3.9.1.9, §3.9.2.

use std::time::Duration;

use ackclock_core::{ConnectionError, IcmpError, State, TcpConfig};
use ackclock_tests::host::host_addr;
use ackclock_tests::icmp::{icmp_error, packet_too_big};
use ackclock_tests::script::{Script, Setup, peer_syn};
use ackclock_tests::segment::{ACK, PSH, SYN, flip_bit, seg};
use etherparse::Ipv4Header;

use super::nodelay;

/// Lets a connection send data, and returns the packet of it as a router would quote it.
fn in_flight(s: &mut Script) -> Vec<u8> {
    s.write(1, 1_000);
    quoted(s)
}

fn quoted(s: &mut Script) -> Vec<u8> {
    let mut frame = s.next_frame();
    frame.seg.seq = frame.seg.seq.wrapping_add(s.iss.unwrap());
    frame.seg.ack = frame.seg.ack.wrapping_add(s.irs);
    frame.to_bytes()
}

// Tests: RFC 9293 MUST-48
// Tests: RFC 9293 MUST-49
// Tests: RFC 9293 SHLD-21
// Tests: RFC 9293 SHLD-22
#[test]
fn ttl_and_dscp_are_the_applications_to_choose_at_any_time() {
    for v6 in [false, true] {
        let tcp = TcpConfig { ttl: 9, dscp: 46, nodelay: true, ..TcpConfig::default() };
        let mut s = Script::accepted(&Setup { v6, tcp, ..Setup::default() });
        s.write(1, 10);
        let frame = s.next_frame();
        assert_eq!((frame.ttl, frame.traffic_class >> 2), (9, 46));
        s.update(|c, _| c.set_ttl(200).and(c.set_dscp(10))).expect("in range");
        s.write(11, 10);
        let frame = s.next_frame();
        assert_eq!((frame.ttl, frame.traffic_class >> 2), (200, 10));
        assert!(s.update(|c, _| c.set_ttl(0)).is_err());
        assert!(s.update(|c, _| c.set_dscp(64)).is_err());
    }
}

// Tests: RFC 9293 MUST-50
// Tests: RFC 9293 MAY-10
// Tests: RFC 9293 MAY-11
#[test]
fn ip_options_that_mean_nothing_here_are_skipped() {
    // No operation, end of list, record route, timestamp, router alert, an unknown kind.
    let lists: [&[u8]; 5] = [
        &[1, 1, 1, 0],
        &[7, 7, 4, 0, 0, 0, 0, 0],
        &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[148, 4, 0, 0],
        &[200, 4, 9, 9],
    ];
    let mut s = Script::accepted(&Setup::default());
    for (i, list) in lists.into_iter().enumerate() {
        let packet = s.packet(seg(PSH).seq(1 + i as u32).ack(1).data(b"x"));
        s.raw(&with_ip_options(&packet, list));
        assert_eq!(s.read(10), b"x", "options {list:?}");
        s.take_sent();
    }
}

#[test]
fn source_routed_packet_is_dropped() {
    for kind in [131, 137] {
        let mut s = Script::accepted(&Setup::default());
        let packet = s.packet(seg(PSH).seq(1).ack(1).data(b"x"));
        s.raw(&with_ip_options(&packet, &[kind, 7, 4, 10, 0, 0, 9, 0]));
        s.nothing();
        assert!(s.read(10).is_empty(), "RFC 7126 §4.3.5");
    }
}

// Tests: RFC 9293 MUST-47
// Tests: RFC 9293 MUST-54
// Tests: RFC 9293 MUST-56
// Tests: RFC 9293 SHLD-25
#[test]
fn soft_icmp_errors_are_told_and_survived() {
    let v4 = [(3, 0), (3, 1), (3, 5), (11, 0), (11, 1), (12, 0)].map(|kind| (false, kind));
    let v6 = [(1, 0), (1, 3), (3, 0), (3, 1), (4, 0)].map(|kind| (true, kind));
    for (v6, kind) in v4.into_iter().chain(v6) {
        let mut s = Script::accepted(&Setup { v6, ..nodelay() });
        let about = in_flight(&mut s);
        s.readiness();
        s.raw(&icmp_error(host_addr(v6, 254), kind, 0, &about));
        assert_eq!((s.state(), s.error()), (State::Established, None), "{kind:?}");
        assert!(s.readiness().soft_error, "{kind:?}");
        assert!(s.update(|c, _| c.take_soft_error()).is_some(), "{kind:?}");
        assert_eq!(s.update(|c, _| c.take_soft_error()), None);
        s.nothing();
    }
}

// Tests: RFC 9293 MUST-55
#[test]
fn source_quench_is_discarded() {
    let mut s = Script::accepted(&nodelay());
    let about = in_flight(&mut s);
    s.readiness();
    let before = s.info().cwnd;
    s.raw(&icmp_error(host_addr(false, 254), (4, 0), 0, &about));
    assert_eq!(s.info().cwnd, before);
    assert!(s.readiness().is_empty());
    assert_eq!(s.update(|c, _| c.take_soft_error()), None);
}

// Tests: RFC 9293 SHLD-26
#[test]
fn hard_icmp_error_ends_an_attempt_to_connect_but_no_connection() {
    let cases = [
        (false, (3, 2)),
        (false, (3, 3)),
        (true, (1, 4)),
        (true, (4, 1)),
        (false, (3, 10)),
        (false, (3, 13)),
    ];
    for (v6, kind) in cases {
        let mut s = Script::connecting(&Setup { v6, ..Setup::default() });
        let about = quoted(&mut s);
        s.raw(&icmp_error(host_addr(v6, 254), kind, 0, &about));
        let ended = matches!(s.error(), Some(ConnectionError::Unreachable(_) | ConnectionError::Refused));
        assert!(ended || kind.1 > 4, "{kind:?}: {:?}", s.error());

        let mut s = Script::accepted(&Setup { v6, ..nodelay() });
        let about = in_flight(&mut s);
        s.raw(&icmp_error(host_addr(v6, 254), kind, 0, &about));
        // RFC 5927 §5.2: a synchronized connection outlives what a blind attacker can forge.
        assert_eq!((s.state(), s.error()), (State::Established, None), "{kind:?}");
    }
}

#[test]
fn network_unreachable_does_not_end_an_attempt_to_connect() {
    let mut s = Script::connecting(&Setup::default());
    let about = quoted(&mut s);
    s.raw(&icmp_error(host_addr(false, 254), (3, 0), 0, &about));
    assert_eq!((s.state(), s.error()), (State::SynSent, None));
    assert_eq!(s.update(|c, _| c.take_soft_error()), Some(IcmpError::Network));
}

// Tests: RFC 9293 MUST-54
#[test]
fn icmp_error_reaches_only_the_connection_it_quotes() {
    let mut s = Script::accepted(&nodelay());
    let about = in_flight(&mut s);
    s.readiness();
    for bit in [12 * 8, 16 * 8 + 31, 20 * 8 + 15, 22 * 8 + 15] {
        // Another source, destination, source port, destination port.
        let mut other = flip_bit(&about, bit);
        let (mut header, _) = Ipv4Header::from_slice(&other).expect("a header");
        header.header_checksum = header.calc_header_checksum();
        other[..20].copy_from_slice(&header.to_bytes());
        let mut report = icmp_error(host_addr(false, 254), (3, 1), 0, &other);
        // The report itself comes to this host in any case.
        let (mut outer, _) = Ipv4Header::from_slice(&report).expect("a header");
        outer.destination = [10, 0, 0, 1];
        outer.header_checksum = outer.calc_header_checksum();
        report[..20].copy_from_slice(&outer.to_bytes());
        s.raw(&report);
        assert!(s.readiness().is_empty(), "bit {bit}");
    }
    s.raw(&icmp_error(host_addr(false, 254), (3, 1), 0, &about));
    assert!(s.readiness().soft_error);
}

#[test]
fn packet_too_big_lowers_the_segment_size_and_sends_again() {
    for (v6, headers) in [(false, 40), (true, 60)] {
        let mut s = Script::accepted(&Setup { v6, ..nodelay() });
        s.write(1, 5_000);
        let about = quoted(&mut s);
        s.take_sent();
        s.raw(&packet_too_big(host_addr(v6, 254), 1_300, &about));
        assert_eq!(s.info().pmtu, 1_300);
        let sent = match s.take_sent() {
            sent if sent.is_empty() => vec![s.wait(Duration::from_secs(5)).expect("sent again").1],
            sent => sent,
        };
        assert_eq!((sent[0].seq, sent[0].payload.len()), (1, 1_300 - headers), "v6 {v6}");
    }
}

#[test]
fn icmp_for_a_half_open_connection_is_ignored() {
    let setup = Setup::default();
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    let about = quoted(&mut s);
    s.raw(&icmp_error(host_addr(false, 254), (3, 1), 0, &about));
    s.nothing();
    s.peer(seg(ACK).seq(1).ack(1));
    s.accept();
}

// Tests: RFC 9293 MAY-4
#[test]
fn retransmission_has_the_same_identification() {
    // The decoder accepts no identification but 0, which RFC 6864 allows for packets that are never
    // fragmented.
    let mut s = Script::accepted(&nodelay());
    s.write(1, 100);
    s.expect_data(1, 100);
    assert_eq!(s.wait(Duration::from_secs(5)).expect("again").1.seq, 1);
}

/// The IPv4 packet with options put into its header.
fn with_ip_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    let (mut header, rest) = Ipv4Header::from_slice(packet).expect("a header");
    header.options = options.try_into().expect("a multiple of four");
    header.set_payload_len(rest.len()).expect("fits");
    header.header_checksum = header.calc_header_checksum();
    assert_eq!(packet[20 + 13] & SYN, 0);
    [header.to_bytes().as_slice(), rest].concat()
}
