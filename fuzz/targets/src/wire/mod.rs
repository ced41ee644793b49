//! The parsers of packets, held against etherparse and against what is printed of what they read.
//!
//! Both targets count each call of a parser of `ackclock-wire` as one execution.

mod icmp;
mod ip;
mod print;
mod tcp;
mod udp;

use std::net::Ipv6Addr;
use std::num::NonZeroU16;

use ackclock_device::recording;
use ackclock_wire::{ChecksumState, IpPayload, RxMeta, checksum, ecn, gso};

pub(crate) use self::print::print;

/// A packet, as it came and with its checksums made right: behind them lies most of the code.
pub(crate) fn packet(bytes: &[u8]) -> u64 {
    let mut count = Count(0);
    judge(bytes, &mut count);
    let mut whole = bytes.to_vec();
    if repair(&mut whole) {
        judge(&whole, &mut count);
    }
    for link_type in [1, 113, 276, 101] {
        count.one();
        if let Ok(packet) = recording::ip_packet(link_type, bytes) {
            assert!(bytes.ends_with(packet), "a packet outside its frame");
        }
    }
    count.0
}

/// Executions of parsers.
struct Count(u64);

impl Count {
    fn one(&mut self) {
        self.0 += 1;
    }
}

fn judge(bytes: &[u8], count: &mut Count) {
    cut(bytes, count);
    let Some(packet) = ip::judge(bytes, count) else { return };
    match packet.payload {
        IpPayload::Tcp(segment) => tcp::judge(&packet, segment, count),
        IpPayload::Udp(datagram) => udp::judge(&packet, datagram, count),
        IpPayload::Icmp4(message) | IpPayload::Icmp6(message) => icmp::judge(&packet, bytes, message, count),
        IpPayload::Other(_) => {}
    }
    let mut marked = bytes.to_vec();
    if ecn::mark(&mut marked) {
        let again = ip::parse(&marked, count).expect("a mark damages nothing");
        assert_eq!(again.ecn(), ackclock_wire::Codepoint::Ce);
        assert_eq!(again.payload, packet.payload);
    }
}

/// Cuts a packet that receive offload put together: no byte of the payload is lost.
fn cut(bytes: &[u8], count: &mut Count) {
    let meta = RxMeta { checksum: ChecksumState::Verified, segment_size: NonZeroU16::new(7) };
    let (mut pieces, mut last) = (0, 0);
    gso::cut_contiguous(bytes, meta, |piece| {
        pieces += 1;
        last = piece.len();
        assert!(piece.len() <= bytes.len(), "a piece longer than the whole");
    });
    count.one();
    assert!(pieces >= 1 && last > 0 || bytes.is_empty(), "nothing is left of a packet");
}

/// Makes the checksums of a packet right; `false` if nothing changed.
fn repair(packet: &mut [u8]) -> bool {
    let before = packet.to_vec();
    match packet.first().map(|first| first >> 4) {
        Some(4) => repair_v4(packet),
        Some(6) if packet.len() > 40 => {
            let octets = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).expect("sixteen bytes");
            let (src, dst) = (Ipv6Addr::from(octets(8)), Ipv6Addr::from(octets(24)));
            let (protocol, end) = (packet[6], 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])));
            let end = end.clamp(40, packet.len());
            let pseudo = checksum::pseudo_header(src.into(), dst.into(), protocol, end - 40);
            repair_transport(&mut packet[40..end], protocol, pseudo, pseudo);
        }
        _ => {}
    }
    before != packet
}

fn repair_v4(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 15) * 4;
    if header < 20 || packet.len() < header {
        return;
    }
    packet[10..12].fill(0);
    let sum = checksum::sum(&packet[..header]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let addr =
        |at: usize| std::net::IpAddr::from([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
    let end = usize::from(u16::from_be_bytes([packet[2], packet[3]])).clamp(header, packet.len());
    let (src, dst, protocol) = (addr(12), addr(16), packet[9]);
    let pseudo = checksum::pseudo_header(src, dst, protocol, end - header);
    repair_transport(&mut packet[header..end], protocol, pseudo, checksum::Sum::ZERO);
}

fn repair_transport(bytes: &mut [u8], protocol: u8, pseudo: checksum::Sum, of_icmp: checksum::Sum) {
    let (at, pseudo) = match protocol {
        6 => (16, pseudo),
        17 => (6, pseudo),
        1 | 58 => (2, of_icmp),
        _ => return,
    };
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.fill(0);
        let sum = pseudo.plus_bytes(bytes).checksum();
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}
