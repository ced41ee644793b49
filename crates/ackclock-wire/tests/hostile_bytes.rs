//! No bytes from the wire make a parser panic (docs/security.md, D): arbitrary bytes, and valid packets
//! damaged so slightly that every check before the last one passes.

use std::net::{Ipv6Addr, SocketAddr};

use ackclock_wire::{
    AccEcn, AccEcnOrder, ChecksumState, Fields, Flags, HEADER_MAX, HeaderTemplate, IpPacket, IpPayload,
    RxMeta, SackBlocks, Segment, SeqNum, TcpOptions, TxChecksum, UdpDatagram, checksum, gso, parse_icmp4,
    parse_icmp6, parse_udp_error4, parse_udp_error6,
};
use proptest::prelude::*;

/// Does everything that is done to a received packet.
fn receive(packet: &[u8]) {
    let segment_size = std::num::NonZeroU16::new(7);
    gso::cut_contiguous(packet, RxMeta { checksum: ChecksumState::Verified, segment_size }, |_| {});
    let Ok(ip) = IpPacket::parse(packet) else { return };
    match ip.payload {
        IpPayload::Tcp(bytes) => {
            for checksum in [ChecksumState::Complete, ChecksumState::Verified] {
                if let Ok(segment) = Segment::parse(ip.src, ip.dst, bytes, checksum) {
                    assert!(segment.payload.len() <= bytes.len() - 20);
                    assert!(segment.options.sack.as_slice().len() <= 4);
                }
            }
        }
        IpPayload::Icmp4(bytes) => {
            let _ = parse_icmp4(&with_checksum(bytes, checksum::Sum::ZERO));
            let _ = parse_udp_error4(bytes);
        }
        IpPayload::Icmp6(bytes) => {
            let pseudo = checksum::pseudo_header(
                Ipv6Addr::LOCALHOST.into(),
                Ipv6Addr::LOCALHOST.into(),
                58,
                bytes.len(),
            );
            let _ = parse_icmp6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, &with_checksum(bytes, pseudo));
            let _ = parse_udp_error6(bytes);
        }
        IpPayload::Udp(bytes) => {
            let _ = UdpDatagram::parse(ip.src, ip.dst, bytes, ChecksumState::Verified);
            let _ = UdpDatagram::parse(ip.src, ip.dst, bytes, ChecksumState::Complete);
        }
        IpPayload::Other(_) => {}
    }
}

/// An ICMP message with a right checksum, to reach what lies behind that check.
fn with_checksum(message: &[u8], pseudo: checksum::Sum) -> Vec<u8> {
    let mut message = message.to_vec();
    if message.len() >= 4 {
        message[2..4].fill(0);
        let sum = pseudo.plus_bytes(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// A packet with every kind of option.
fn valid(v6: bool, syn: bool, payload: &[u8]) -> Vec<u8> {
    let socket = |v4: &str, v6_text: &str| -> SocketAddr { if v6 { v6_text } else { v4 }.parse().unwrap() };
    let template =
        HeaderTemplate::new(socket("10.0.0.1:1", "[fd00::1]:1"), socket("10.0.0.2:2", "[fd00::2]:2"), 64, 0);
    let mut sack = SackBlocks::default();
    sack.push(SeqNum::new(1), SeqNum::new(2));
    let options = match syn {
        true => TcpOptions {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((1, 2)),
            ..Default::default()
        },
        false => TcpOptions {
            timestamps: Some((1, 2)),
            sack,
            accecn: Some(AccEcn::new(AccEcnOrder::Ect1First, 1, 2, 3)),
            ..Default::default()
        },
    };
    let flags = if syn { Flags::SYN } else { Flags::ACK };
    let mut header = [0; HEADER_MAX];
    let fields = Fields { flags, options, ..Default::default() };
    let len = template.write(&mut header, &fields, [payload, &[]], TxChecksum::Full);
    [&header[..len], payload].concat()
}

/// Corrects the IPv4 header checksum.
fn repair(packet: &mut [u8]) {
    let ihl = packet.first().map_or(0, |byte| usize::from(byte & 15) * 4);
    if packet.first().is_some_and(|byte| byte >> 4 == 4) && ihl >= 20 && packet.len() >= ihl {
        packet[10..12].fill(0);
        let sum = checksum::sum(&packet[..ihl]).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), version: Option<bool>) {
        if let (Some(v6), Some(first)) = (version, bytes.first_mut()) {
            *first = if v6 { 0x60 } else { 0x45 };
        }
        receive(&bytes);
        repair(&mut bytes);
        receive(&bytes);
    }

    #[test]
    fn damaged_packets_never_panic(
        v6: bool, syn: bool,
        payload in prop::collection::vec(any::<u8>(), 0..100),
        damage in prop::collection::vec((0usize..120, any::<u8>()), 0..6),
        len in prop::option::of(0usize..200),
    ) {
        let mut packet = valid(v6, syn, &payload);
        for (at, byte) in damage {
            if let Some(slot) = packet.get_mut(at) {
                *slot = byte;
            }
        }
        if let Some(len) = len {
            packet.resize(len, 0);
        }
        repair(&mut packet);
        receive(&packet);
    }

    /// Error messages that quote a damaged packet, with right lengths and checksums of their own.
    #[test]
    fn errors_with_damaged_quotes_never_panic(
        v6: bool, kind: u8, code: u8, damage in prop::collection::vec((0usize..80, any::<u8>()), 0..6), len in 0usize..120,
    ) {
        let mut quote = valid(v6, false, b"payload");
        for (at, byte) in damage {
            quote[at % 60] = byte;
        }
        quote.truncate(len);
        let message = [&[kind, code, 0, 0, 0, 0, 0, 0][..], &quote].concat();
        let _ = parse_icmp4(&with_checksum(&message, checksum::Sum::ZERO));
        let local = Ipv6Addr::LOCALHOST;
        let pseudo = checksum::pseudo_header(local.into(), local.into(), 58, message.len());
        let _ = parse_icmp6(local, local, &with_checksum(&message, pseudo));
    }
}
