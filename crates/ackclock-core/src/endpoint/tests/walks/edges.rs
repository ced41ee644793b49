//! Packets of IPv6, damaged ones, and those from and to where none should be.

use ackclock_wire::checksum::pseudo_header;

use super::*;
use crate::trace::{TraceConfig, TraceKeep};

pub(super) const SERVER_V6: &str = "fd00::1";
pub(super) const CLIENT_V6: &str = "fd00::2";

/// A short trace of a connection, or none.
pub(super) fn trace(walk: &mut Walk) -> Option<TraceConfig> {
    let keep = walk.pick(&[TraceKeep::All, TraceKeep::Newest, TraceKeep::Changes]);
    walk.one_in(2).then_some(TraceConfig { records: 64, keep })
}

pub(super) fn step(town: &mut Town, walk: &mut Walk) {
    match walk.below(14) {
        0 => town.syn(walk),
        1..=3 => town.segment(walk),
        4 | 5 => damaged(town, walk),
        6 | 7 => misplaced(town, walk),
        8 => icmp6(town, walk),
        9 => to_itself(town, walk),
        10 => echo(town, walk),
        11 | 12 => traces(town, walk),
        _ => connect(town, walk),
    }
}

/// A right packet of some kind from a client.
fn plain(town: &Town, walk: &mut Walk) -> Vec<u8> {
    let number = walk.below(4) as usize;
    let known = town.clients[number];
    let flags = walk.pick(&[Flags::SYN, Flags::ACK, Flags::RST, Flags::FIN | Flags::ACK]);
    if walk.one_in(3) {
        let (src, dst) =
            (SocketAddr::new(town.client(number).ip(), 53), SocketAddr::new(town.server().ip(), 53));
        let header = UdpHeader { src, dst, ttl: 64, traffic_class: 0, flow_label: FlowLabel::NONE };
        return write_udp(&header, &[3; 24]).unwrap();
    }
    packet(town.client(number), town.server(), fields(flags, known.seq, known.seen), &[9; 10])
}

fn finish(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 && packet.len() >= 20 {
        fix_checksum(packet);
    }
}

/// One byte is wrong, or some are missing.
fn damaged(town: &mut Town, walk: &mut Walk) {
    let mut packet = plain(town, walk);
    match walk.below(6) {
        0 => packet.truncate(walk.below(packet.len() as u64) as usize),
        1 if !town.v6 => {
            // An option: a source route, or none.
            packet[0] = 0x46;
            packet.splice(20..20, walk.pick(&[[131, 3, 4, 0], [137, 3, 4, 0], [1, 1, 1, 0]]));
            let len = u16::try_from(packet.len()).unwrap();
            packet[2..4].copy_from_slice(&len.to_be_bytes());
        }
        2 => {
            // Another protocol.
            packet[if town.v6 { 6 } else { 9 }] = walk.pick(&[47, 1, 58, 17, 6, 44, 0, 59]);
        }
        _ => {
            let at = walk.below(packet.len().min(60) as u64) as usize;
            packet[at] ^= 1 << walk.below(8);
        }
    }
    if !packet.is_empty() && !walk.one_in(4) {
        finish(&mut packet);
    }
    let meta = walk.pick(&[VERIFIED, RxMeta::default()]);
    town.arrives(&packet, meta);
}

/// From and to addresses that are ours, everyone's, no one's or another's; from and to port 0.
fn misplaced(town: &mut Town, walk: &mut Walk) {
    let mut packet = plain(town, walk);
    let (addresses, at): (&[&str], _) = if town.v6 {
        (&[SERVER_V6, CLIENT_V6, "::", "::1", "ff02::1", "::ffff:10.0.0.2", "fd00::9", "fe80::1"], [8, 24])
    } else {
        (
            &[SERVER, CLIENT, "0.0.0.0", "127.0.0.1", "224.0.0.1", "10.0.0.255", "10.0.0.7", "10.0.0.9"],
            [12, 16],
        )
    };
    let at = walk.pick(&at);
    match ip(walk.pick(addresses)) {
        IpAddr::V4(addr) => packet[at..at + 4].copy_from_slice(&addr.octets()),
        IpAddr::V6(addr) => packet[at..at + 16].copy_from_slice(&addr.octets()),
    }
    if walk.one_in(3) {
        let ports = if town.v6 { 40 } else { 20 };
        let at = ports + walk.pick(&[0, 2]);
        packet[at..at + 2].copy_from_slice(&walk.pick(&[[0, 0], [0, 80], [0, 81]]));
    }
    finish(&mut packet);
    town.arrives(&packet, VERIFIED);
}

/// An ICMPv6 message with a right checksum, mostly.
fn message6(kind: [u8; 2], body: &[u8], walk: &mut Walk) -> Vec<u8> {
    let (src, dst) = (ip(walk.pick(&[CLIENT_V6, CLIENT_V6, "ff02::1", "2001:db8::1"])), ip(SERVER_V6));
    let mut icmp = [&kind[..], &[0, 0], body].concat();
    let checksum = pseudo_header(src, dst, 58, icmp.len()).plus_bytes(&icmp).checksum();
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    if walk.one_in(8) {
        icmp[2] ^= 1;
    }
    let mut whole =
        packet(SocketAddr::new(src, 1), SocketAddr::new(dst, 1), fields(Flags::ACK, 0, SeqNum::new(0)), &[]);
    whole.truncate(40);
    whole[6] = 58;
    whole[4..6].copy_from_slice(&u16::try_from(icmp.len()).unwrap().to_be_bytes());
    whole.extend(icmp);
    whole
}

/// An error about a segment or a datagram of ours.
fn icmp6(town: &mut Town, walk: &mut Walk) {
    let number = walk.below(4) as usize;
    let known = town.clients[number];
    let from = SocketAddr::new(ip(SERVER_V6), PORT);
    let to = SocketAddr::new(ip(CLIENT_V6), 4000 + number as u16);
    let quoted = if walk.one_in(4) {
        let names = (SocketAddr::new(from.ip(), 53), SocketAddr::new(to.ip(), 53));
        let flow_label = FlowLabel::NONE;
        let header = UdpHeader { src: names.0, dst: names.1, ttl: 64, traffic_class: 0, flow_label };
        write_udp(&header, &[3; 24]).unwrap()
    } else {
        let seq = known.seen + walk.pick(&[0, u32::MAX, u32::MAX, 1]);
        packet(from, to, Fields { seq, ..ack(0, SeqNum::new(0)) }, &[])
    };
    let kind = walk.pick(&[[1, 0], [1, 1], [1, 3], [1, 4], [2, 0], [2, 0], [3, 0], [4, 1], [4, 0], [9, 0]]);
    let mtu: u32 = walk.pick(&[1280, 1279, 1400, 1500, 0]);
    let body = [&mtu.to_be_bytes()[..], &quoted].concat();
    let message = message6(kind, &body, walk);
    town.arrives(&message, RxMeta::default());
}

fn echo(town: &mut Town, walk: &mut Walk) {
    let body = [0, 1, 0, 2, 5, 5];
    let whole = if town.v6 {
        message6([128, 0], &body, walk)
    } else {
        let mut icmp = [&[8, 0, 0, 0], &body[..]].concat();
        let checksum = internet_checksum(&icmp);
        icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
        let mut whole = packet(client(1), server(), fields(Flags::ACK, 0, SeqNum::new(0)), &[]);
        whole.truncate(20);
        whole[9] = 1;
        whole[2..4].copy_from_slice(&u16::try_from(20 + icmp.len()).unwrap().to_be_bytes());
        whole.extend(icmp);
        finish(&mut whole);
        whole
    };
    for _ in 0..walk.pick(&[1, 1, 30]) {
        town.arrives(&whole, RxMeta::default());
    }
}

/// Datagrams and connections from the host to itself, some before the driver has its turn.
fn to_itself(town: &mut Town, walk: &mut Walk) {
    let now = town.host.now;
    let own = walk.pick(&[SERVER, SERVER_V6]);
    if let Some(&id) = town.udp.first() {
        let contents = [3; 9];
        let transmit = UdpTransmit::new(&contents, Some(SocketAddr::new(ip(own), 53)));
        for _ in 0..walk.pick(&[1, 3, 17, 40]) {
            let _ = town.host.endpoint.udp_send(now, id, &transmit);
        }
        while let Some(packet) = town.host.endpoint.poll_transmit(now, LIMITS) {
            assert!(packet.header.len() >= 20);
        }
        assert!(!town.host.endpoint.has_looped());
    }
}

/// An open to a client, which may answer it.
fn connect(town: &mut Town, walk: &mut Walk) {
    let number = walk.below(4) as usize;
    let to = town.client(number);
    let it = &mut town.host.endpoint;
    let made = it.connect(town.host.now, to, (None, walk.pick(&[0, PORT, 5000])), None);
    town.conns.extend(made);
    let (Ok(id), true) = (made, walk.one_in(2)) else { return };
    town.check();
    let Some(tuple) = town.host.endpoint.connection(id).map(crate::Connection::tuple) else { return };
    let seen = town.clients[number].seen;
    let mut answer = syn_with_all_options(walk.pick(&[1000, u32::MAX]), 77);
    answer.flags = walk.pick(&[Flags::SYN | Flags::ACK, Flags::SYN, Flags::RST | Flags::ACK, Flags::ACK]);
    answer.ack = seen + walk.pick(&[0, 0, 0, 1, u32::MAX]);
    let back = packet(to, SocketAddr::new(tuple.local_addr, tuple.local_port), answer, &[]);
    town.arrives(&back, VERIFIED);
}

fn traces(town: &mut Town, walk: &mut Walk) {
    let it = &mut town.host.endpoint;
    match walk.below(6) {
        0 => {
            let has_one = it.has_traces();
            assert_eq!(it.poll_trace().is_some(), has_one);
        }
        1 => {
            let batch = it.poll_trace_if(|batch| batch.records.len() > 5);
            assert!(batch.is_none_or(|batch| batch.records.len() > 5));
        }
        2 => {
            let has_one = it.has_changes();
            assert_eq!(it.poll_changes().is_some(), has_one);
        }
        3 => it.request_traces(),
        4 => it.end_traces(),
        _ => {
            if let Some(&id) = town.conns.first() {
                let number = it.number(id).unwrap();
                assert_eq!(it.numbered(number), Some(id));
            }
        }
    }
}
