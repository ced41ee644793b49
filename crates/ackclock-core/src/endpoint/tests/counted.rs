//! A refusal is counted once, under its reason, and under no other.

use super::icmp::{error, fix_checksum};
use super::*;
use ackclock_wire::{UdpHeader, write_udp};

const VERIFIED: RxMeta = RxMeta { checksum: ChecksumState::Verified, segment_size: None };
const ELSEWHERE: &str = "10.0.0.9:81";
const MARTIAN: [u8; 4] = [224, 0, 0, 1];

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The counters by name, except the one of packets received.
fn counts(host: &Host) -> Vec<(&'static str, u64)> {
    host.endpoint
        .counters()
        .iter()
        .map(|(name, _, count)| (name, count))
        .filter(|(name, _)| *name != "packets_received")
        .collect()
}

/// The counts that two copies of a packet add at a host with a listener and a connection.
fn added(packet: &[u8], meta: RxMeta) -> Vec<(&'static str, u64)> {
    let (mut host, listener) = Host::listening(on_port(PORT));
    host.accepted(listener, 4000);
    host.sent();
    let before = counts(&host);
    for _ in 0..2 {
        host.endpoint.handle_packet(host.now, packet, meta);
    }
    let changed = counts(&host).into_iter().zip(before);
    changed.filter(|(now, before)| now.1 != before.1).map(|(now, before)| (now.0, now.1 - before.1)).collect()
}

fn changed(mut packet: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut packet);
    let len = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    let header = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let checksum = internet_checksum(&packet[..header]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn from_martian(packet: Vec<u8>) -> Vec<u8> {
    changed(packet, |packet| packet[12..16].copy_from_slice(&MARTIAN))
}

fn segment(from: &str, to: &str, flags: Flags) -> Vec<u8> {
    packet(at(from), at(to), fields(flags, 1000, SeqNum::new(77)), &[])
}

fn datagram(from: &str, to: &str) -> Vec<u8> {
    let flow_label = FlowLabel::NONE;
    let header = UdpHeader { src: at(from), dst: at(to), ttl: 64, traffic_class: 0, flow_label };
    write_udp(&header, b"some").unwrap()
}

/// An ICMP message of a kind about a segment of ours.
fn message(kind: (u8, u8)) -> Vec<u8> {
    error(kind, 0, (server(), client(4001)), SeqNum::new(1))
}

const PEER: &str = "10.0.0.2:4001";
const OURS: &str = "10.0.0.1:81";
const LISTENING: &str = "10.0.0.1:80";

#[test]
fn a_packet_that_is_not_for_tcp_is_counted_once_under_its_reason() {
    let plain = segment(PEER, OURS, Flags::SYN);
    let routed = changed(plain.clone(), |packet| {
        packet[0] = 0x46;
        packet.splice(20..20, [131, 3, 4, 0]);
    });
    let martian_datagram = datagram("224.0.0.1:53", "10.0.0.1:53");
    let damaged = changed(datagram("10.0.0.2:53", "10.0.0.1:53"), |packet| *packet.last_mut().unwrap() ^= 1);
    for (name, packet) in [
        ("dropped_malformed_ip", vec![0x45; 8]),
        ("dropped_ip_checksum", [&plain[..10], &[1, 2], &plain[12..]].concat()),
        ("dropped_fragment", changed(plain.clone(), |packet| packet[6] = 0x20)),
        ("dropped_source_route", routed),
        ("dropped_other_protocol", changed(plain, |packet| packet[9] = 99)),
        ("dropped_malformed_udp", changed(datagram("10.0.0.2:53", "10.0.0.1:53"), |packet| packet[25] = 3)),
        ("dropped_udp_checksum", damaged),
        ("dropped_martian_source", martian_datagram),
        ("dropped_not_local", datagram("10.0.0.2:53", "10.0.0.9:53")),
        ("dropped_malformed_icmp", changed(message((3, 3)), |packet| *packet.last_mut().unwrap() ^= 1)),
        ("dropped_martian_source", from_martian(message((3, 3)))),
        ("dropped_martian_source", from_martian(message((8, 0)))),
        ("dropped_source_quench", message((4, 0))),
        ("dropped_icmp_unmatched", message((3, 3))),
        ("dropped_icmp_other", message((0, 0))),
        ("echoes_answered", message((8, 0))),
    ] {
        assert_eq!(added(&packet, RxMeta::default()), [(name, 2)], "{packet:02x?}");
    }
    let unbound = added(&datagram("10.0.0.2:53", "10.0.0.1:53"), RxMeta::default());
    assert_eq!(unbound, [("dropped_udp_unbound", 2), ("icmp_errors_sent", 2)]);
}

#[test]
fn a_segment_without_a_connection_is_counted_once_under_its_reason() {
    for (name, from, to, flags) in [
        ("dropped_martian_source", "224.0.0.1:1", OURS, Flags::SYN),
        ("dropped_martian_source", "10.0.0.1:1", OURS, Flags::SYN),
        ("dropped_martian_source", "10.0.0.2:0", OURS, Flags::SYN),
        ("dropped_martian_destination", PEER, "10.0.0.255:80", Flags::SYN),
        ("dropped_martian_destination", PEER, "10.0.0.1:0", Flags::SYN),
        ("dropped_not_local", PEER, ELSEWHERE, Flags::SYN),
        ("dropped_stray_reset", PEER, OURS, Flags::RST),
        ("dropped_stray_reset", PEER, LISTENING, Flags::RST),
        ("dropped_in_listen", PEER, LISTENING, Flags::SYN | Flags::FIN),
        ("dropped_in_listen", PEER, LISTENING, Flags::FIN),
        ("resets_sent", PEER, OURS, Flags::SYN),
        ("resets_sent", PEER, LISTENING, Flags::ACK),
    ] {
        assert_eq!(added(&segment(from, to, flags), VERIFIED), [(name, 2)], "{from} {to} {flags:?}");
    }
    let again = added(&segment(PEER, LISTENING, Flags::SYN), VERIFIED);
    assert_eq!(again, [("syns_received", 1), ("syn_acks_repeated", 1)]);
    let mut damaged = segment(PEER, LISTENING, Flags::SYN);
    damaged[34] ^= 1;
    assert_eq!(added(&damaged, RxMeta::default()), [("dropped_tcp_checksum", 2)]);
    damaged[32] = 0x10;
    assert_eq!(added(&damaged, VERIFIED), [("dropped_malformed_tcp", 2)]);
}

#[test]
fn a_segment_for_a_connection_is_counted_as_delivered_whatever_it_says() {
    let foreign = segment("10.0.0.2:4000", LISTENING, Flags::ACK);
    assert_eq!(added(&foreign, VERIFIED), [("segments_delivered", 2)]);
    // One of ours from outside.
    let packet = from_martian(segment("10.0.0.2:4000", LISTENING, Flags::ACK));
    assert_eq!(added(&packet, VERIFIED), [("dropped_martian_source", 2)]);
    // Fragments but the last are of whole eights.
    let fragment = changed(foreign, |packet| (packet[6], _) = (0x20, packet.extend([0; 4])));
    let mut host = Host::with(EndpointConfig { reassembly: Some(Box::default()), ..config(SERVER) });
    for source in [MARTIAN, [10, 0, 0, 1], [10, 0, 0, 2]] {
        let mut fragment = fragment.clone();
        fragment[12..16].copy_from_slice(&source);
        fix_checksum(&mut fragment);
        host.endpoint.handle_packet(host.now, &fragment, RxMeta::default());
    }
    let counters = host.endpoint.counters();
    assert_eq!(
        (counters.dropped_fragment - 2, counters.fragments_received),
        (0, 1),
        "only of plausible sources"
    );
}
