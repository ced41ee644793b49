//! Packets made by hand, with independent checksums, so that nothing under test takes part.

use std::net::IpAddr;

/// An IPv4 or IPv6 packet.
pub fn ip_packet(src: &str, dst: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = |len: usize| u16::try_from(len).unwrap().to_be_bytes();
    let mut packet = match addresses(src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let [high, low] = len(20 + payload.len());
            let mut header = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            header.extend(src.octets());
            header.extend(dst.octets());
            let checksum = checksum(&[&header]);
            header[10..12].copy_from_slice(&checksum);
            header
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let [high, low] = len(payload.len());
            let mut header = vec![0x60, 0, 0, 0, high, low, protocol, 64];
            header.extend(src.octets());
            header.extend(dst.octets());
            header
        }
        _ => panic!("mixed families"),
    };
    packet.extend_from_slice(payload);
    packet
}

/// A UDP packet from and to the same port 7000.
pub fn udp(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    udp_between(src, dst, (7000, 7000), payload)
}

/// A UDP packet between these ports.
pub fn udp_between(src: &str, dst: &str, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).unwrap().to_be_bytes();
    let ports = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
    let mut datagram = [&ports.0[..], &ports.1, &len, &[0, 0], payload].concat();
    let checksum = transport_checksum(src, dst, UDP, &datagram);
    datagram[6..8].copy_from_slice(&checksum);
    ip_packet(src, dst, UDP, &datagram)
}

/// The sum of the pseudo-header of a UDP datagram, as in an unfinished checksum.
pub fn datagram_sum(src: &str, dst: &str, datagram: &[u8]) -> [u8; 2] {
    checksum(&[&pseudo_header(src, dst, UDP, datagram.len())]).map(|byte| !byte)
}

/// An ICMP echo request.
pub fn echo_request_v4(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = [&[8, 0, 0, 0, 0, 1, 0, 1], payload].concat();
    let checksum = checksum(&[&message]);
    message[2..4].copy_from_slice(&checksum);
    ip_packet(src, dst, ICMP, &message)
}

/// A TCP segment of a connection, as the user-space end sends it.
#[derive(Clone, Copy)]
pub struct Tcp<'a> {
    pub src: &'a str,
    pub dst: &'a str,
    pub ports: (u16, u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    /// As on the wire, with a window scale of 7.
    pub window: u16,
}

impl Tcp<'_> {
    /// IP and TCP headers for `payload`, with a complete TCP checksum.
    pub fn header(&self, options: &[u8], payload: &[u8]) -> Vec<u8> {
        self.with_checksum(options, payload, |segment| transport_checksum(self.src, self.dst, TCP, segment))
    }

    /// The header with only the sum of the pseudo-header in the checksum field.
    pub fn header_partial(&self, payload: &[u8]) -> Vec<u8> {
        self.with_checksum(&[], payload, |segment| {
            let inverted = checksum(&[&pseudo_header(self.src, self.dst, TCP, segment.len())]);
            inverted.map(|byte| !byte)
        })
    }

    fn with_checksum(&self, options: &[u8], payload: &[u8], checksum: impl Fn(&[u8]) -> [u8; 2]) -> Vec<u8> {
        let offset = u8::try_from((20 + options.len()) / 4).unwrap() << 4;
        let mut segment = Vec::new();
        segment.extend(self.ports.0.to_be_bytes());
        segment.extend(self.ports.1.to_be_bytes());
        segment.extend(self.seq.to_be_bytes());
        segment.extend(self.ack.to_be_bytes());
        segment.extend([offset, self.flags]);
        segment.extend(self.window.to_be_bytes());
        segment.extend([0, 0, 0, 0]);
        segment.extend_from_slice(options);
        segment.extend_from_slice(payload);
        let checksum = checksum(&segment);
        segment[16..18].copy_from_slice(&checksum);
        let mut packet = ip_packet(self.src, self.dst, TCP, &segment);
        packet.truncate(packet.len() - payload.len());
        packet
    }
}

/// The fields of a received TCP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpReceived {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
    /// Whether the checksum field holds the complete checksum, instead of the pseudo-header's.
    pub checksum_whole: bool,
}

/// Parses an IPv4 or IPv6 packet whose first header is followed by TCP.
pub fn parse_tcp(packet: &[u8]) -> Option<TcpReceived> {
    let (transport, pseudo) = match packet[0] >> 4 {
        4 if packet[9] == TCP => {
            (20, [&packet[12..20], &[0, TCP], &((packet.len() - 20) as u16).to_be_bytes()].concat())
        }
        6 if packet[6] == TCP => {
            (40, [&packet[8..40], &[0, TCP], &((packet.len() - 40) as u16).to_be_bytes()].concat())
        }
        _ => return None,
    };
    let segment = &packet[transport..];
    let u16_at = |at: usize| u16::from_be_bytes(segment[at..at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_be_bytes(segment[at..at + 4].try_into().unwrap());
    Some(TcpReceived {
        src_port: u16_at(0),
        dst_port: u16_at(2),
        seq: u32_at(4),
        ack: u32_at(8),
        flags: segment[13],
        payload: segment[usize::from(segment[12] >> 4) * 4..].to_vec(),
        checksum_whole: checksum(&[&pseudo, segment]) == [0, 0],
    })
}

fn transport_checksum(src: &str, dst: &str, protocol: u8, segment: &[u8]) -> [u8; 2] {
    checksum(&[&pseudo_header(src, dst, protocol, segment.len()), segment])
}

fn pseudo_header(src: &str, dst: &str, protocol: u8, len: usize) -> Vec<u8> {
    let len = u16::try_from(len).unwrap().to_be_bytes();
    let addresses = match addresses(src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => [src.octets(), dst.octets()].concat(),
        (IpAddr::V6(src), IpAddr::V6(dst)) => [src.octets(), dst.octets()].concat(),
        _ => panic!("mixed families"),
    };
    [&addresses[..], &[0, protocol], &len].concat()
}

/// RFC 1071 over parts; all except the last have even lengths.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn addresses(src: &str, dst: &str) -> (IpAddr, IpAddr) {
    (src.parse().unwrap(), dst.parse().unwrap())
}

pub const SYN: u8 = 2;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
