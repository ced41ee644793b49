//! Packets under way. They are stored in one table and identified by their index, so an event or a queue
//! moves 4 bytes.
//!
//! A packet is its headers and, only where it can be observed, its payload. Simulated applications send bytes
//! of arbitrary values; then only the number of bytes travels, and the receiving host gets that many zeros. A
//! packet then fits in three cache lines, and the endpoints see no difference.

use ackclock_core::fetch;
use ackclock_wire::checksum::sum;
use ackclock_wire::{ChecksumState, RxMeta, SeqNum, TxPacket};

use crate::host::source_node;
use crate::queue::{Headers, PureAck};

/// A packet's index in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketId(pub(crate) u32);

/// One packet. Fields are in order of use: forwarding touches only the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    /// The destination node.
    pub(crate) dst: u32,
    /// Bytes of payload, whether or not they are carried.
    payload_len: u32,
    header_len: u8,
    transport_offset: u8,
    /// Whether the TCP checksum is right, or assumed to be.
    pub(crate) verified: bool,
    /// How many nodes have forwarded it.
    pub(crate) hops: u8,
    header: [u8; HEADER_MAX],
    /// The packet's number in the simulation. A copy has its original's number.
    pub(crate) serial: u64,
    /// The payload bytes, empty where they are not carried.
    #[expect(
        clippy::box_collection,
        reason = "a boxed slice takes 8 bytes more, and a packet two cache lines"
    )]
    payload: Option<Box<Vec<u8>>>,
}

const _: () = assert!(size_of::<Packet>() == 128, "a packet is two cache lines");

/// Fields of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpFields {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
}

/// All packets under way.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    packets: Vec<Packet>,
    free: Vec<u32>,
    serial: u64,
}

impl Packets {
    /// Inserts a packet from a host. `carry`: with the values of its payload.
    #[inline]
    pub fn insert(&mut self, packet: &TxPacket<'_>, carry: bool, dst: u32) -> PacketId {
        let (id, place) = self.vacant();
        let header_len = packet.header.len().min(HEADER_MAX);
        place.header[..header_len].copy_from_slice(&packet.header[..header_len]);
        place.header_len = header_len as u8;
        place.transport_offset = packet.transport_offset as u8;
        place.verified = packet.checksum != ChecksumState::Complete;
        place.payload_len = packet.payload_len() as u32;
        if carry {
            place.carry(packet.payload);
        }
        place.dst = dst;
        place.hops = 0;
        id
    }

    /// Inserts a packet that a router made.
    pub fn insert_bytes(&mut self, bytes: &[u8], dst: u32) -> PacketId {
        let (id, place) = self.vacant();
        let header_len = bytes.len().min(HEADER_MAX);
        place.header[..header_len].copy_from_slice(&bytes[..header_len]);
        place.header_len = header_len as u8;
        place.transport_offset = if bytes[0] >> 4 == 6 { 40 } else { 20 };
        place.verified = false;
        place.payload_len = (bytes.len() - header_len) as u32;
        place.carry([&bytes[header_len..], &[]]);
        place.dst = dst;
        place.hops = 0;
        id
    }

    /// A copy of `id`.
    pub fn duplicate(&mut self, id: PacketId) -> PacketId {
        let copy = match self.free.pop() {
            Some(index) => PacketId(index),
            None => {
                self.packets.push(Packet::EMPTY);
                PacketId((self.packets.len() - 1) as u32)
            }
        };
        let original = &self.packets[id.0 as usize];
        self.packets[copy.0 as usize] = Packet { payload: original.payload.clone(), ..*original };
        copy
    }

    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id.0 as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.0 as usize]
    }

    /// Frees the packet's index for reuse.
    #[inline]
    pub fn remove(&mut self, id: PacketId) {
        self.packets[id.0 as usize].payload = None;
        self.free.push(id.0);
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    #[inline]
    fn vacant(&mut self) -> (PacketId, &mut Packet) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::EMPTY);
            (self.packets.len() - 1) as u32
        });
        self.serial += 1;
        let place = &mut self.packets[index as usize];
        place.serial = self.serial;
        (PacketId(index), place)
    }
}

impl Headers for Packets {
    fn hosts(&self, packet: PacketId) -> [u32; 2] {
        self.get(packet).hosts()
    }

    fn pure_ack(&self, packet: PacketId) -> Option<PureAck> {
        self.get(packet).pure_ack()
    }
}

impl Packet {
    const EMPTY: Self = Self {
        header: [0; HEADER_MAX],
        header_len: 0,
        transport_offset: 0,
        verified: false,
        payload_len: 0,
        payload: None,
        dst: 0,
        hops: 0,
        serial: 0,
    };

    /// Length of the IP packet in bytes.
    #[inline]
    pub fn len(&self) -> u32 {
        u32::from(self.header_len) + self.payload_len()
    }

    #[inline]
    pub fn payload_len(&self) -> u32 {
        self.payload_len
    }

    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }

    pub fn payload(&self) -> &[u8] {
        self.payload.as_deref().map_or(&[], Vec::as_slice)
    }

    #[cold]
    fn carry(&mut self, payload: [&[u8]; 2]) {
        self.payload = Some(Box::new(payload.concat()));
    }

    /// The packet as a receiver sees it, assembled in `scratch`.
    #[inline]
    pub fn assemble<'a>(&self, scratch: &'a mut Scratch) -> (&'a [u8], RxMeta) {
        let header = self.header();
        let start = HEADER_MAX - header.len();
        scratch.0[start..HEADER_MAX].copy_from_slice(header);
        let end = HEADER_MAX + self.payload_len() as usize;
        // A simulation carries all payloads or none, so the zeros are never overwritten where they are
        // needed.
        let payload = self.payload();
        scratch.0[HEADER_MAX..HEADER_MAX + payload.len()].copy_from_slice(payload);
        let checksum = if self.verified { ChecksumState::Verified } else { ChecksumState::Complete };
        (&scratch.0[start..end], RxMeta { checksum, segment_size: None })
    }

    /// Prefetches it.
    #[inline]
    pub fn warm(&self) {
        fetch(self, size_of::<Self>());
    }

    /// The two ECN bits: 0 for Not-ECT.
    #[inline]
    pub fn ecn(&self) -> u8 {
        if self.is_v6() { self.header[1] >> 4 & 3 } else { self.header[1] & 3 }
    }

    /// RFC 3168 §5: sets Congestion Experienced.
    pub fn mark_ce(&mut self) {
        if self.is_v6() {
            self.header[1] |= 0x30;
        } else {
            let before = self.word(0);
            self.header[1] |= 3;
            self.patch_checksum(before, self.word(0));
        }
    }

    /// Decrements the hop limit. Returns `false` if it had run out.
    #[inline]
    pub fn count_hop(&mut self) -> bool {
        let at = if self.is_v6() { 7 } else { 8 };
        self.hops = self.hops.saturating_add(1);
        if self.header[at] <= 1 {
            return false;
        }
        if self.is_v6() {
            self.header[at] -= 1;
        } else {
            let before = self.word(8);
            self.header[at] -= 1;
            self.patch_checksum(before, self.word(8));
        }
        true
    }

    /// Source and destination port of a TCP segment.
    #[inline]
    pub fn ports(&self) -> Option<(u16, u16)> {
        self.tcp().map(|tcp| (tcp.src_port, tcp.dst_port))
    }

    pub fn is_tcp(&self) -> bool {
        self.header[if self.is_v6() { 6 } else { 9 }] == 6
    }

    /// The fields of a TCP segment that the simulator uses.
    #[inline]
    pub fn tcp(&self) -> Option<TcpFields> {
        let bytes = self.header.get(usize::from(self.transport_offset)..)?.first_chunk::<14>()?;
        let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, _, flags] = *bytes;
        self.is_tcp().then(|| TcpFields {
            src_port: u16::from_be_bytes([s0, s1]),
            dst_port: u16::from_be_bytes([d0, d1]),
            seq: u32::from_be_bytes([q0, q1, q2, q3]),
            ack: u32::from_be_bytes([a0, a1, a2, a3]),
            flags,
        })
    }

    /// The nodes that it comes from and goes to.
    fn hosts(&self) -> [u32; 2] {
        [source_node(self.header()), self.dst]
    }

    /// See [`Headers::pure_ack`].
    pub fn pure_ack(&self) -> Option<PureAck> {
        let TcpFields { src_port, dst_port, ack, flags, .. } = self.tcp()?;
        let (header, options) =
            self.header().get(usize::from(self.transport_offset)..)?.split_at_checked(20)?;
        let is_whole = header.len() + options.len() == usize::from(header[12] >> 4) * 4;
        let is_pure = is_whole && self.payload_len == 0 && flags & 0x3f == 0x10;
        is_pure.then(|| PureAck {
            connection: (self.hosts(), [src_port, dst_port]),
            ack: SeqNum::new(ack),
            ecn: (header[12] & 1) << 2 | flags >> 6,
            // No option, or two NOPs and timestamps: RFC 7323 appendix A.
            is_plain: matches!(options, [] | [1, 1, 8, 10, _, _, _, _, _, _, _, _]),
        })
    }

    /// A hash of the packet's flow; each direction has a different one.
    pub fn flow_hash(&self) -> u32 {
        let addresses = if self.is_v6() { 8..40 } else { 12..20 };
        let at = usize::from(self.transport_offset);
        let ports = if self.is_tcp() { at..at + 4 } else { 0..0 };
        // Jenkins' one-at-a-time hash: short keys, no state.
        let mut hash = 0u32;
        for byte in self.header[addresses].iter().chain(&self.header[ports]) {
            hash = hash.wrapping_add(u32::from(*byte));
            hash = hash.wrapping_add(hash << 10);
            hash ^= hash >> 6;
        }
        hash = hash.wrapping_add(hash << 3);
        hash ^= hash >> 11;
        hash.wrapping_add(hash << 15)
    }

    /// Flips one bit after the IP header; any checksum detects it.
    pub fn flip_bit(&mut self, draw: u64) {
        let from = usize::from(self.transport_offset);
        let bits = (usize::from(self.header_len) - from + self.payload().len()) * 8;
        let bit = ((u128::from(draw) * bits as u128) >> 64) as usize;
        let (at, mask) = (from + bit / 8, 0x80 >> (bit % 8));
        match at.checked_sub(self.header_len.into()) {
            Some(at) => {
                if let Some(byte) = self.payload.as_mut().and_then(|payload| payload.get_mut(at)) {
                    *byte ^= mask;
                }
            }
            None => self.header[at] ^= mask,
        }
    }

    /// Swaps two different 16-bit words of the payload, which a ones' complement sum does not detect. Returns
    /// `false` if there are none.
    pub fn swap_words(&mut self) -> bool {
        let Some(payload) = &mut self.payload else { return false };
        let first = payload.get(..2).map(<[u8]>::to_vec);
        let words = payload.len() / 2;
        let other = (1..words).find(|at| first.as_deref() != Some(&payload[at * 2..at * 2 + 2]));
        // Headers are a multiple of four bytes long, so the payload's words are the checksum's.
        let Some(at) = other else { return false };
        payload.swap(0, at * 2);
        payload.swap(1, at * 2 + 1);
        true
    }

    #[inline]
    fn is_v6(&self) -> bool {
        self.header[0] >> 4 == 6
    }

    #[inline]
    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    /// RFC 1624 §3 (eqn. 3): HC' = ~(~HC + ~m + m').
    #[inline]
    fn patch_checksum(&mut self, before: u16, after: u16) {
        let sum = u32::from(!self.word(10)) + u32::from(!before) + u32::from(after);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        self.header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        debug_assert_eq!(sum_of_header(&self.header), 0, "the checksum of the IPv4 header");
    }
}

fn sum_of_header(header: &[u8]) -> u16 {
    sum(&header[..usize::from(header[0] & 15) * 4]).checksum()
}

/// The buffer for assembling packets: headers end where the payload begins, at [`HEADER_MAX`].
#[derive(Debug)]
pub(crate) struct Scratch(Box<[u8]>);

impl Scratch {
    pub fn new() -> Self {
        Self(vec![0; HEADER_MAX + 65_536].into())
    }
}

/// The longest IP and TCP headers that an endpoint makes.
pub(crate) const HEADER_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use ackclock_wire::{
        Codepoint, ControlSegment, Fields, Flags, FlowLabel, IpPacket, IpPayload, Segment, SeqNum,
        TcpOptions, write_control,
    };

    use super::*;

    /// A SYN with real checksums, and a payload behind it.
    fn packet(packets: &mut Packets, v6: bool, traffic_class: u8) -> PacketId {
        let addrs: [IpAddr; 2] = match v6 {
            true => [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9).into()],
            false => [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()],
        };
        let ecn = [Codepoint::NotEct, Codepoint::Ect1, Codepoint::Ect0, Codepoint::Ce]
            [usize::from(traffic_class & 3)];
        let traffic_class = traffic_class & !3;
        let fields = Fields {
            seq: SeqNum::new(77),
            ack: SeqNum::new(0),
            flags: Flags::SYN,
            window: 1000,
            urgent: 0,
            ecn,
            options: TcpOptions::default(),
        };
        let control = ControlSegment {
            src: (addrs[0], 1).into(),
            dst: (addrs[1], 2).into(),
            ttl: 64,
            traffic_class,
            flow_label: FlowLabel::NONE,
            fields,
        };
        let mut bytes = [0; ackclock_wire::HEADER_MAX];
        let len = write_control(&mut bytes, &control);
        packets.insert_bytes(&bytes[..len], 5)
    }

    #[test]
    fn marking_and_hops_keep_the_packet_valid() {
        for v6 in [false, true] {
            for traffic_class in [0, 1, 2, 0xb9, 0xfe] {
                let mut packets = Packets::default();
                let id = packet(&mut packets, v6, traffic_class);
                assert_eq!(packets.get(id).ecn(), traffic_class & 3);
                packets.get_mut(id).mark_ce();
                (0..40).for_each(|_| assert!(packets.get_mut(id).count_hop()));
                let mut scratch = Scratch::new();
                let (bytes, meta) = packets.get(id).assemble(&mut scratch);
                let ip = IpPacket::parse(bytes).unwrap();
                assert_eq!((ip.ttl, ip.traffic_class), (24, traffic_class | 3));
                let IpPayload::Tcp(tcp) = ip.payload else { panic!("no TCP") };
                let segment = Segment::parse(ip.src, ip.dst, tcp, meta.checksum).unwrap();
                assert_eq!((packets.get(id).ports(), segment.seq.raw()), (Some((1, 2)), 77));
                (0..23).for_each(|_| assert!(packets.get_mut(id).count_hop()));
                assert!(!packets.get_mut(id).count_hop());
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_always_found() {
        for draw in 0..160u64 {
            let mut packets = Packets::default();
            let id = packet(&mut packets, false, 0);
            packets.get_mut(id).flip_bit(draw << 56 | draw << 48);
            let mut scratch = Scratch::new();
            let (bytes, meta) = packets.get(id).assemble(&mut scratch);
            let ip = IpPacket::parse(bytes).unwrap();
            let IpPayload::Tcp(tcp) = ip.payload else { panic!("no TCP") };
            assert!(Segment::parse(ip.src, ip.dst, tcp, meta.checksum).is_err());
        }
    }

    #[test]
    fn places_are_used_again_and_copies_are_packets_of_their_own() {
        let mut packets = Packets::default();
        let first = packet(&mut packets, false, 0);
        let copy = packets.duplicate(first);
        packets.get_mut(copy).mark_ce();
        assert_eq!((packets.get(first).ecn(), packets.get(copy).ecn()), (0, 3));
        assert_eq!((packets.len(), packets.get(first).serial == packets.get(copy).serial), (2, true));
        packets.remove(first);
        let next = packet(&mut packets, false, 0);
        assert_eq!((next, packets.len()), (first, 2));
        assert_ne!(packets.get(next).serial, packets.get(copy).serial);
        assert_ne!(packets.get(next).flow_hash(), 0);
    }
}
