//! The ICMP errors that routers send: packet too big, and time exceeded.

use std::net::IpAddr;

use ackclock_wire::checksum::{pseudo_header, sum};

use crate::packet::Packet;

/// The error that a router reports about a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Complaint {
    /// The packet is larger than the next link's MTU (RFC 1191 §4, RFC 8201 §4).
    TooBig(u32),
    /// Its hop limit ran out.
    HopLimit,
}

/// An ICMP error from `router` about `packet`. `None` if the packet is not a TCP segment: errors do not
/// answer errors (RFC 1122 §3.2.2).
pub(crate) fn error(complaint: Complaint, router: IpAddr, packet: &Packet) -> Option<Vec<u8>> {
    if !packet.is_tcp() {
        return None;
    }
    let header = packet.header();
    match router {
        IpAddr::V4(router) => {
            let (kind, code, mtu) = match complaint {
                Complaint::TooBig(mtu) => (3, 4, mtu as u16),
                Complaint::HopLimit => (11, 0, 0),
            };
            // RFC 792: the IP header and 8 bytes.
            let quote = &header[..28];
            let mut message = vec![kind, code, 0, 0, 0, 0, (mtu >> 8) as u8, mtu as u8];
            message.extend_from_slice(quote);
            let checksum = sum(&message).checksum();
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
            let len = (20 + message.len()) as u16;
            let mut bytes = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, HOPS, 1, 0, 0];
            bytes.extend(router.octets());
            bytes.extend_from_slice(&header[12..16]);
            let checksum = sum(&bytes).checksum();
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            bytes.extend(message);
            Some(bytes)
        }
        IpAddr::V6(router) => {
            let (kind, mtu) = match complaint {
                Complaint::TooBig(mtu) => (2, mtu),
                Complaint::HopLimit => (3, 0),
            };
            let mut message = vec![kind, 0, 0, 0];
            message.extend(mtu.to_be_bytes());
            message.extend_from_slice(header);
            let mut source = [0; 16];
            source.copy_from_slice(&header[8..24]);
            let pseudo = pseudo_header(router.into(), IpAddr::from(source), 58, message.len());
            let checksum = pseudo.plus_bytes(&message).checksum();
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
            let len = message.len() as u16;
            let mut bytes = vec![0x60, 0, 0, 0, (len >> 8) as u8, len as u8, 58, HOPS];
            bytes.extend(router.octets());
            bytes.extend(source);
            bytes.extend(message);
            Some(bytes)
        }
    }
}

const HOPS: u8 = 64;
