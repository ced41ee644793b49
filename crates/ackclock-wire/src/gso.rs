//! Generic segmentation in software: what a device with offload does, for one without.
//!
//! A stack hands out packets of up to 64 KB with a segment size ([`TxPacket::segment_size`]) and TCP
//! checksums that are not finished ([`ChecksumState::Partial`]). Here such a packet is cut into the segments
//! that belong on the wire: lengths, sequence numbers and checksums are made anew, PSH and FIN stay with the
//! last segment, CWR with the first.

use crate::bytes::{put, read, read_u16};
use crate::checksum::{Sum, sum};
use crate::tcp::PROTOCOL;
use crate::{ChecksumState, Flags, IpPacket, IpPayload, RxMeta, Segment, SeqNum, TxPacket};

/// Cuts a packet into segments of its segment size and finishes their checksums; each goes to `emit`. A
/// packet without a segment size goes there too, its checksum finished, as does, unchanged, one that is not
/// TCP.
pub fn cut(packet: &TxPacket<'_>, mut emit: impl FnMut(&TxPacket<'_>)) {
    if packet.segment_size.is_none() && packet.checksum == ChecksumState::Complete {
        return emit(packet);
    }
    let Some(mut cutter) = Cutter::new(packet.header, packet.transport_offset.into()) else {
        return emit(packet);
    };
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

/// Cuts a received packet into the segments it was put together from and finishes their checksums; each goes
/// to `emit` as one piece. A packet that is not TCP or is malformed goes there unchanged, to be refused by
/// whoever parses it.
pub fn cut_contiguous(packet: &[u8], meta: RxMeta, mut emit: impl FnMut(&[u8])) {
    if meta.segment_size.is_none() && meta.checksum == ChecksumState::Complete {
        return emit(packet);
    }
    let Some((header, transport_offset, payload)) = split(packet, meta.checksum) else { return emit(packet) };
    let Some(mut cutter) = Cutter::new(header, transport_offset) else { return emit(packet) };
    let size = meta.segment_size.map_or(payload.len(), |size| size.get().into());
    let mut segment = Vec::with_capacity(header.len() + size.min(payload.len()));
    cutter.cut([payload, &[]], size, |header, [payload, _]| {
        segment.clear();
        segment.extend_from_slice(header);
        segment.extend_from_slice(payload);
        emit(&segment);
    });
}

/// Finishes the TCP checksum of a packet whose checksum field holds the sum of the pseudo-header: what was
/// [`ChecksumState::Partial`] is [`ChecksumState::Complete`] afterwards. A packet without room for a TCP
/// header behind `transport_offset` is left as it is.
pub fn finish_checksum(packet: &mut [u8], transport_offset: usize) {
    let segment = packet.get_mut(transport_offset..).unwrap_or_default();
    if segment.len() >= TCP_LEN {
        // The field takes part in the sum and so adds the pseudo-header's.
        let checksum = sum(segment).checksum();
        put(segment, CHECKSUM, checksum.to_be_bytes());
    }
}

/// Splits a valid TCP packet into its headers and its payload, and says where the TCP header starts. A
/// checksum that is still to be verified must be right: segments with new ones would hide that it was not.
fn split(packet: &[u8], checksum: ChecksumState) -> Option<(&[u8], usize, &[u8])> {
    let ip = IpPacket::parse(packet).ok()?;
    let IpPayload::Tcp(tcp) = ip.payload else { return None };
    let payload = Segment::parse(ip.src, ip.dst, tcp, checksum).ok()?.payload;
    let end = match packet.first()? >> 4 {
        4 => usize::from(read_u16(packet, 2)?),
        _ => V6_LEN + usize::from(read_u16(packet, 4)?),
    };
    Some((packet.get(..end.checked_sub(payload.len())?)?, end.checked_sub(tcp.len())?, payload))
}

/// A header to repeat, and what it was before any segment was cut.
struct Cutter {
    header: [u8; HEADER_MAX],
    len: usize,
    transport: usize,
    is_v6: bool,
    /// The sum of the pseudo-header without its length.
    pseudo: Sum,
    /// The IPv4 identification, if it is to be counted up.
    identification: Option<u16>,
    seq: SeqNum,
    flags: u8,
    urgent: u16,
}

impl Cutter {
    /// `None` if `header` is not an IP header up to `transport` and a TCP header from there to its end.
    fn new(header: &[u8], transport: usize) -> Option<Self> {
        let mut own = [0; HEADER_MAX];
        own.get_mut(..header.len())?.copy_from_slice(header);
        let tcp = header.get(transport..)?;
        if tcp.len() < TCP_LEN || tcp.len() != usize::from(tcp.get(12)? >> 4) * 4 {
            return None;
        }
        let is_v6 = match header.first()? >> 4 {
            4 if transport >= V4_LEN => false,
            6 if transport >= V6_LEN => true,
            _ => return None,
        };
        let addresses = if is_v6 { header.get(8..40)? } else { header.get(12..20)? };
        // RFC 6864 §4.1: the identification has a meaning only where DF allows fragmentation.
        let may_fragment = !is_v6 && header.get(6)? & 0x40 == 0;
        Some(Self {
            header: own,
            len: header.len(),
            transport,
            is_v6,
            pseudo: sum(addresses).plus_u16(PROTOCOL.into()),
            identification: read_u16(header, 4).filter(|_| may_fragment),
            seq: SeqNum::new(u32::from_be_bytes(read(tcp, 4)?)),
            flags: *tcp.get(13)?,
            urgent: read_u16(tcp, 18)?,
        })
    }

    /// Calls `emit` with the header and the payload of each segment; with one segment when there is no
    /// payload.
    fn cut(&mut self, payload: [&[u8]; 2], size: usize, mut emit: impl FnMut(&[u8], [&[u8]; 2])) {
        let total: usize = payload.iter().map(|part| part.len()).sum();
        let size = size.max(1);
        let mut start = 0usize;
        loop {
            let end = start.saturating_add(size).min(total);
            let part = range(payload, start, end);
            emit(self.segment(start, start / size, end == total, part), part);
            if end == total {
                return;
            }
            start = end;
        }
    }

    /// The header of the segment whose payload starts `start` bytes behind the first one's.
    fn segment(&mut self, start: usize, index: usize, last: bool, payload: [&[u8]; 2]) -> &[u8] {
        let tcp_len = self.len - self.transport + payload.iter().map(|part| part.len()).sum::<usize>();
        // Offsets within a packet are below 2^32, its segments fewer.
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        self.patch_tcp(start, last);
        self.patch_ip(tcp_len, index);
        let header = self.header.get_mut(..self.len).unwrap_or_default();
        let tcp = header.get_mut(self.transport..).unwrap_or_default();
        put(tcp, CHECKSUM, [0, 0]);
        let length = u32::try_from(tcp_len).unwrap_or(u32::MAX);
        let checksum = self.pseudo.plus_u32(length).plus_bytes(tcp).plus_parts(payload).checksum();
        put(tcp, CHECKSUM, checksum.to_be_bytes());
        header
    }

    fn patch_tcp(&mut self, start: u32, last: bool) {
        let mut flags = Flags::from_bits(self.flags.into());
        if !last {
            flags = flags.without(Flags::FIN | Flags::PSH);
        }
        if start > 0 {
            // RFC 3168 §6.1.2: CWR goes out with the first new data segment only. As a bit of the ACE field it would
            // belong on all, so that whoever sends with Accurate ECN has such a segment leave alone.
            flags = flags.without(Flags::CWR);
        }
        // The urgent pointer counts from the segment's own sequence number.
        let urgent = u32::from(self.urgent).checked_sub(start).and_then(|left| u16::try_from(left).ok());
        if urgent.is_none_or(|left| left == 0) && start > 0 {
            flags = flags.without(Flags::URG);
        }
        let [_, flags] = flags.bits().to_be_bytes();
        put(&mut self.header, self.transport + 4, (self.seq + start).raw().to_be_bytes());
        put(&mut self.header, self.transport + 13, [flags]);
        put(&mut self.header, self.transport + 18, urgent.unwrap_or(0).to_be_bytes());
    }

    fn patch_ip(&mut self, tcp_len: usize, index: usize) {
        let length = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
        if self.is_v6 {
            put(&mut self.header, 4, length(self.transport - V6_LEN + tcp_len));
            return;
        }
        put(&mut self.header, 2, length(self.transport + tcp_len));
        if let Some(first) = self.identification {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            put(&mut self.header, 4, first.wrapping_add(index).to_be_bytes());
        }
        put(&mut self.header, 10, [0, 0]);
        let checksum = sum(self.header.get(..self.transport).unwrap_or_default()).checksum();
        put(&mut self.header, 10, checksum.to_be_bytes());
    }
}

/// The bytes from `start` to `end` of two slices, one behind the other.
fn range<'a>([first, second]: [&'a [u8]; 2], start: usize, end: usize) -> [&'a [u8]; 2] {
    let of = |part: &'a [u8], start: usize, end: usize| {
        part.get(start.min(part.len())..end.min(part.len())).unwrap_or_default()
    };
    let behind = |at: usize| at.saturating_sub(first.len());
    [of(first, start, end), of(second, behind(start), behind(end))]
}

/// Longest header that is cut behind: any IPv4 one, and an IPv6 one with some extension headers.
const HEADER_MAX: usize = 256;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const TCP_LEN: usize = 20;
/// Where the checksum stands in a TCP header.
const CHECKSUM: usize = 16;

#[cfg(test)]
mod tests;
