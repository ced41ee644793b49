//! Generic segmentation in software: what an offload device does, for a device without offload.
//!
//! A stack produces packets of up to 64 KB with a segment size ([`TxPacket::segment_size`]) and unfinished
//! checksums ([`ChecksumState::Partial`]). This module cuts such a packet into the packets that belong on the
//! wire. TCP segments get new lengths, sequence numbers and checksums; PSH and FIN stay with the last
//! segment, CWR with the first. UDP datagrams get new lengths and checksums. An unfinished checksum of any
//! other transport is finished in place.

use crate::bytes::{put, read, read_u16};
use crate::checksum::{Sum, pseudo_header, sum};
use crate::packet::ChecksumAt;
use crate::tcp::PROTOCOL as TCP;
use crate::{ChecksumState, Flags, IpPacket, IpPayload, RxMeta, Segment, SeqNum, TxPacket};

/// Cuts a packet into segments of its segment size and finishes their checksums. Each goes to `emit`. A
/// packet that needs no cut, or is neither TCP nor UDP, goes there whole with its checksum finished.
pub fn cut(packet: &TxPacket<'_>, mut emit: impl FnMut(&TxPacket<'_>)) {
    if packet.segment_size.is_none() && packet.checksum == ChecksumState::Complete {
        return emit(packet);
    }
    let Some(mut cutter) = cutter(packet) else { return finish(packet, emit) };
    let size = packet.segment_size.map_or(packet.payload_len(), |size| size.get().into());
    cutter.cut(packet.payload, size, |header, payload| {
        let (checksum, segment_size) = (ChecksumState::Complete, None);
        emit(&TxPacket {
            header,
            transport_offset: packet.transport_offset,
            payload,
            segment_size,
            checksum,
        });
    });
}

/// The cutter for a packet that needs a cut, and for any TCP packet.
fn cutter(packet: &TxPacket<'_>) -> Option<Cutter> {
    let transport = match packet.checksum {
        ChecksumState::Partial(at) if at.is_udp() => packet.segment_size.and(Some(Transport::Udp))?,
        ChecksumState::Partial(at) if !at.is_tcp() || at.start != packet.transport_offset => return None,
        _ => Transport::Tcp,
    };
    Cutter::new(packet.header, packet.transport_offset.into(), transport)
}

/// Emits a packet whole. Its checksum is finished if its field is in the header slice.
fn finish(packet: &TxPacket<'_>, mut emit: impl FnMut(&TxPacket<'_>)) {
    let ChecksumState::Partial(at) = packet.checksum else { return emit(packet) };
    let mut header = packet.header.to_vec();
    let start = usize::from(at.start);
    let (Some(summed), Some(_)) = (packet.header.get(start..), read_u16(packet.header, at.field())) else {
        return emit(packet);
    };
    let [first, second] = packet.payload;
    // The field is part of the sum and so adds the pseudo-header's sum.
    let behind = Sum::ZERO.plus_parts([summed, first]);
    // A zero byte puts what follows an odd length at an odd offset.
    let odd = [0; 1];
    let shift = odd.get(..(summed.len() ^ first.len()) & 1).unwrap_or_default();
    let checksum = on_wire(at, behind.plus(Sum::ZERO.plus_parts([shift, second])));
    put(&mut header, at.field(), checksum.to_be_bytes());
    emit(&TxPacket { header: &header, checksum: ChecksumState::Complete, segment_size: None, ..*packet });
}

/// The checksum of `sum` in the transport's form.
fn on_wire(at: ChecksumAt, sum: Sum) -> u16 {
    match sum.checksum() {
        // RFC 768: zero means no checksum; a computed zero is sent as all ones.
        0 if at.is_udp() => u16::MAX,
        checksum => checksum,
    }
}

/// Cuts a received packet into the segments from which it was coalesced and finishes their checksums. Each
/// goes to `emit` in one piece. A malformed packet goes there unchanged, for the parser to refuse; one that
/// is neither TCP nor UDP goes there whole with its checksum finished.
pub fn cut_contiguous(packet: &[u8], meta: RxMeta, mut emit: impl FnMut(&[u8])) {
    if meta.segment_size.is_none() && meta.checksum == ChecksumState::Complete {
        return emit(packet);
    }
    let cutter = split(packet, meta).and_then(|(header, at, payload, kind)| {
        Some((Cutter::new(header, at, kind)?, header.len(), payload))
    });
    let Some((mut cutter, header_len, payload)) = cutter else {
        let ChecksumState::Partial(at) = meta.checksum else { return emit(packet) };
        let mut whole = packet.to_vec();
        finish_checksum(&mut whole, at);
        return emit(&whole);
    };
    let size = meta.segment_size.map_or(payload.len(), |size| size.get().into());
    let mut segment = Vec::with_capacity(header_len.saturating_add(size.min(payload.len())));
    cutter.cut([payload, &[]], size, |header, [payload, _]| {
        segment.clear();
        segment.extend_from_slice(header);
        segment.extend_from_slice(payload);
        emit(&segment);
    });
}

/// Finishes the checksum at `at`, whose field holds the sum of the pseudo-header: [`ChecksumState::Partial`]
/// becomes [`ChecksumState::Complete`]. A packet too short for the field stays as it is.
pub fn finish_checksum(packet: &mut [u8], at: ChecksumAt) {
    if let Some(summed) = packet.get(at.start.into()..)
        && read_u16(packet, at.field()).is_some()
    {
        let checksum = on_wire(at, sum(summed));
        put(packet, at.field(), checksum.to_be_bytes());
    }
}

/// Splits a valid packet that needs a cut, or is TCP, into its headers and its payload. Also returns where
/// the transport header starts. A checksum not verified yet must be right: new checksums on the segments
/// would hide an error.
fn split(packet: &[u8], meta: RxMeta) -> Option<(&[u8], usize, &[u8], Transport)> {
    let ip = IpPacket::parse(packet).ok()?;
    match (ip.payload, meta.segment_size) {
        (IpPayload::Tcp(tcp), _) if fits(meta.checksum, ChecksumAt::is_tcp) => {
            let payload = Segment::parse(ip.src, ip.dst, tcp, meta.checksum).ok()?.payload;
            let end = packet_len(packet)?;
            let header = packet.get(..end.checked_sub(payload.len())?)?;
            Some((header, end.checked_sub(tcp.len())?, payload, Transport::Tcp))
        }
        (_, Some(_)) if fits(meta.checksum, ChecksumAt::is_udp) => {
            let start = udp_start(packet)?;
            let datagram = packet.get(start..packet_len(packet)?)?;
            let payload = datagram.get(UDP_LEN..)?;
            // RFC 768: zero means that the sender computed no checksum.
            let unverified =
                meta.checksum == ChecksumState::Complete && read_u16(datagram, UDP_CHECKSUM) != Some(0);
            let right =
                || pseudo_header(ip.src, ip.dst, UDP, datagram.len()).plus_bytes(datagram).checksum() == 0;
            (!unverified || right()).then_some(())?;
            Some((packet.get(..start.checked_add(UDP_LEN)?)?, start, payload, Transport::Udp))
        }
        _ => None,
    }
}

/// Whether the checksum state is possible for a transport whose field `is_own` recognises.
fn fits(checksum: ChecksumState, is_own: impl Fn(ChecksumAt) -> bool) -> bool {
    !matches!(checksum, ChecksumState::Partial(at) if !is_own(at))
}

/// The packet length from the IP header.
fn packet_len(packet: &[u8]) -> Option<usize> {
    match packet.first()? >> 4 {
        4 => read_u16(packet, 2).map(usize::from),
        _ => read_u16(packet, 4).map(|len| V6_LEN + usize::from(len)),
    }
}

/// The position of a UDP header directly after the IP header.
fn udp_start(packet: &[u8]) -> Option<usize> {
    let first = *packet.first()?;
    match first >> 4 {
        4 => (*packet.get(9)? == UDP).then_some(usize::from(first & 0xf) * 4),
        _ => (*packet.get(6)? == UDP).then_some(V6_LEN),
    }
}

/// The transport of a packet to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

/// A header to repeat, with its original field values.
struct Cutter {
    header: [u8; HEADER_MAX],
    len: usize,
    transport: usize,
    kind: Transport,
    is_v6: bool,
    /// The pseudo-header sum without its length.
    pseudo: Sum,
    /// The IPv4 identification, if it counts up.
    identification: Option<u16>,
    /// These three are for TCP only.
    seq: SeqNum,
    flags: u8,
    urgent: u16,
}

impl Cutter {
    /// `None` if `header` is not an IP header up to `transport`, followed by a header of that kind up to its
    /// end.
    fn new(header: &[u8], transport: usize, kind: Transport) -> Option<Self> {
        let mut own = [0; HEADER_MAX];
        own.get_mut(..header.len())?.copy_from_slice(header);
        let behind = header.get(transport..)?;
        let (seq, flags, urgent) = match kind {
            Transport::Tcp => tcp_fields(behind)?,
            Transport::Udp => (behind.len() == UDP_LEN).then_some((SeqNum::new(0), 0, 0))?,
        };
        let protocol = if kind == Transport::Tcp { TCP } else { UDP };
        let is_v6 = match header.first()? >> 4 {
            4 if transport >= V4_LEN => false,
            6 if transport >= V6_LEN => true,
            _ => return None,
        };
        let addresses = if is_v6 { header.get(8..40)? } else { header.get(12..20)? };
        // RFC 6864 §4.1: the identification only matters where DF allows fragmentation.
        let may_fragment = !is_v6 && header.get(6)? & 0x40 == 0;
        Some(Self {
            header: own,
            len: header.len(),
            transport,
            kind,
            is_v6,
            pseudo: sum(addresses).plus_u16(protocol.into()),
            identification: read_u16(header, 4).filter(|_| may_fragment),
            seq,
            flags,
            urgent,
        })
    }

    /// Calls `emit` with the header and the payload of each segment; once if there is no payload.
    fn cut(&mut self, payload: [&[u8]; 2], size: usize, mut emit: impl FnMut(&[u8], [&[u8]; 2])) {
        let total: usize = payload.iter().map(|part| part.len()).sum();
        let size = size.max(1);
        let mut start = 0usize;
        for index in 0.. {
            let end = start.saturating_add(size).min(total);
            let part = range(payload, start, end);
            emit(self.segment(start, index, end == total, part), part);
            if end == total {
                return;
            }
            start = end;
        }
    }

    /// The header of the segment whose payload starts `start` bytes after that of the first.
    fn segment(&mut self, start: usize, index: usize, last: bool, payload: [&[u8]; 2]) -> &[u8] {
        let payload_len = payload.iter().map(|part| part.len()).sum();
        let len = self.transport_header().len().saturating_add(payload_len);
        match self.kind {
            // Offsets within a packet are below 2^32, its segments fewer.
            Transport::Tcp => self.patch_tcp(u32::try_from(start).unwrap_or(u32::MAX), last),
            Transport::Udp => put(self.transport_header(), 4, length(len)),
        }
        self.patch_ip(len, index);
        let at = match self.kind {
            Transport::Tcp => ChecksumAt::tcp(0),
            Transport::Udp => ChecksumAt::udp(0),
        };
        let header = self.header.get_mut(..self.len).unwrap_or_default();
        let behind = header.get_mut(self.transport..).unwrap_or_default();
        put(behind, at.field(), [0, 0]);
        let summed = u32::try_from(len).unwrap_or(u32::MAX);
        let checksum = on_wire(at, self.pseudo.plus_u32(summed).plus_bytes(behind).plus_parts(payload));
        put(behind, at.field(), checksum.to_be_bytes());
        header
    }

    fn patch_tcp(&mut self, start: u32, last: bool) {
        let mut flags = Flags::from_bits(self.flags.into());
        if !last {
            flags = flags.without(Flags::FIN | Flags::PSH);
        }
        if start > 0 {
            // RFC 3168 §6.1.2: only the first new data segment has CWR. As a bit of the ACE field it would
            // belong on all, so senders of Accurate ECN send such a segment alone.
            flags = flags.without(Flags::CWR);
        }
        // The urgent pointer counts from its segment's sequence number.
        let urgent = u32::from(self.urgent).checked_sub(start).and_then(|left| u16::try_from(left).ok());
        if urgent.is_none_or(|left| left == 0) && start > 0 {
            flags = flags.without(Flags::URG);
        }
        let [_, flags] = flags.bits().to_be_bytes();
        let seq = self.seq + start;
        let header = self.transport_header();
        put(header, 4, seq.raw().to_be_bytes());
        put(header, 13, [flags]);
        put(header, 18, urgent.unwrap_or(0).to_be_bytes());
    }

    fn transport_header(&mut self) -> &mut [u8] {
        self.header.get_mut(self.transport..self.len).unwrap_or_default()
    }

    fn patch_ip(&mut self, transport_len: usize, index: usize) {
        if self.is_v6 {
            // The length of IPv6 does not count its own header.
            let len = self.transport.saturating_sub(V6_LEN).saturating_add(transport_len);
            put(&mut self.header, 4, length(len));
            return;
        }
        put(&mut self.header, 2, length(self.transport.saturating_add(transport_len)));
        if let Some(first) = self.identification {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            put(&mut self.header, 4, first.wrapping_add(index).to_be_bytes());
        }
        put(&mut self.header, 10, [0, 0]);
        let checksum = sum(self.header.get(..self.transport).unwrap_or_default()).checksum();
        put(&mut self.header, 10, checksum.to_be_bytes());
    }
}

/// Sequence number, flags and urgent pointer of a TCP header whose length agrees with its data offset.
fn tcp_fields(header: &[u8]) -> Option<(SeqNum, u8, u16)> {
    if header.len() < TCP_LEN || header.len() != usize::from(header.get(12)? >> 4) * 4 {
        return None;
    }
    let seq = SeqNum::new(u32::from_be_bytes(read(header, 4)?));
    Some((seq, *header.get(13)?, read_u16(header, 18)?))
}

/// A length in the form of IP and UDP headers.
fn length(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}

/// The bytes from `start` to `end` of two consecutive slices.
fn range<'a>([first, second]: [&'a [u8]; 2], start: usize, end: usize) -> [&'a [u8]; 2] {
    let of = |part: &'a [u8], start: usize, end: usize| {
        part.get(start.min(part.len())..end.min(part.len())).unwrap_or_default()
    };
    let behind = |at: usize| at.saturating_sub(first.len());
    [of(first, start, end), of(second, behind(start), behind(end))]
}

/// The longest header that can be repeated: any IPv4 one, or an IPv6 one with some extension headers.
const HEADER_MAX: usize = 256;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// The position of the checksum in a UDP header.
const UDP_CHECKSUM: usize = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests;
