//! Packets as a Linux writes them in place of this stack's.

use std::net::SocketAddr;

use ackclock_wire::{Fields, HEADER_MAX, HeaderTemplate, IpPacket, Segment, TxChecksum};

use crate::wire::parse;

/// The header of a segment.
pub(crate) fn header_of(segment: &Segment<'_>) -> Fields {
    let Segment { seq, ack, flags, window, urgent, options, .. } = *segment;
    Fields { seq, ack, flags, window, urgent, options, ..Fields::default() }
}

/// Replaces the header of a packet, and drops its text if asked to.
pub(crate) fn with_header(packet: &[u8], header: &Fields, keeps_text: bool) -> Option<Vec<u8>> {
    let (from, to, segment) = ends(packet)?;
    Some(written(from, to, header, if keeps_text { segment.payload } else { &[] }))
}

/// A packet with this header that answers another.
pub(crate) fn answer_to(packet: &[u8], header: &Fields) -> Option<Vec<u8>> {
    let (from, to, _) = ends(packet)?;
    Some(written(to, from, header, &[]))
}

fn ends(packet: &[u8]) -> Option<(SocketAddr, SocketAddr, Segment<'_>)> {
    let ip = IpPacket::parse(packet).ok()?;
    let segment = parse(packet)?;
    Some((SocketAddr::new(ip.src, segment.src_port), SocketAddr::new(ip.dst, segment.dst_port), segment))
}

fn written(from: SocketAddr, to: SocketAddr, header: &Fields, text: &[u8]) -> Vec<u8> {
    let mut bytes = [0; HEADER_MAX];
    let template = HeaderTemplate::new(from, to, TTL, 0);
    let len = template.write(&mut bytes, header, [text, &[]], TxChecksum::Full);
    [&bytes[..len], text].concat()
}

const TTL: u8 = 64;
