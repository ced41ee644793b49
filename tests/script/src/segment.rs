//! Segments as the tests' own peer builds and parses them.
//!
//! Everything here uses etherparse, and nothing uses `ackclock-wire`: an error that the stack makes in the
//! same way in its encoder and its decoder would otherwise go unseen. The decoder is stricter than a receiver
//! has to be, since it parses only what the stack itself emits.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use etherparse::{
    IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv4HeaderSlice, Ipv6FlowLabel, Ipv6Header, Ipv6HeaderSlice,
    TcpHeader, TcpSlice,
};

use crate::script::pattern;

pub use flag::*;

/// The control bits, as in byte 13 of the header.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// Acknowledgement field significant.
    pub const ACK: u8 = 0x10;
    /// Urgent pointer significant.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// A TCP segment.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Seg {
    /// SEG.SEQ.
    pub seq: u32,
    /// SEG.ACK.
    pub ack: u32,
    /// Control bits of [`flag`].
    pub flags: u8,
    /// AE of RFC 9768, which is in byte 12.
    pub ae: bool,
    /// SEG.WND, not scaled.
    pub window: u16,
    /// SEG.UP.
    pub urgent: u16,
    /// Options in order, padding left out.
    pub options: Vec<Opt>,
    /// Payload.
    pub payload: Vec<u8>,
}

/// A TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opt {
    /// Kind 2.
    Mss(u16),
    /// Kind 3.
    WindowScale(u8),
    /// Kind 4.
    SackPermitted,
    /// Kind 5.
    Sack(Vec<(u32, u32)>),
    /// Kind 8: TSval, TSecr.
    Timestamps(u32, u32),
    /// Kind 1, kept by the builder only.
    Nop,
    /// Any other kind with its data.
    Other(u8, Vec<u8>),
    /// Bytes as they are, possibly malformed; the decoder never returns them.
    Raw(Vec<u8>),
}

/// A segment with fields of its IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Sender.
    pub src: SocketAddr,
    /// Receiver.
    pub dst: SocketAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// TOS or traffic class.
    pub traffic_class: u8,
    /// Flow label of IPv6; 0 in IPv4.
    pub flow_label: u32,
    /// The segment.
    pub seg: Seg,
}

/// A segment with these flags and an open window; the methods add the rest.
#[must_use]
pub fn seg(flags: u8) -> Seg {
    Seg { flags, window: 0xffff, ..Seg::default() }
}

impl Seg {
    /// Sets SEG.SEQ.
    #[must_use]
    pub fn seq(mut self, seq: u32) -> Self {
        self.seq = seq;
        self
    }

    /// Sets SEG.ACK and the ACK bit.
    #[must_use]
    pub fn ack(mut self, ack: u32) -> Self {
        self.ack = ack;
        self.flags |= ACK;
        self
    }

    /// Sets the ACE field of RFC 9768: AE, CWR and ECE as a number.
    #[must_use]
    pub fn ace(mut self, ace: u8) -> Self {
        self.ae = ace & 4 != 0;
        self.flags = self.flags & !(CWR | ECE) | (ace & 3) << 6;
        self
    }

    /// The ACE field.
    #[must_use]
    pub fn ace_value(&self) -> u8 {
        u8::from(self.ae) << 2 | self.flags >> 6
    }

    /// The counters of an Accurate ECN option in the order of the wire, with its kind.
    #[must_use]
    pub fn accecn(&self) -> Option<(u8, Vec<u32>)> {
        let counters =
            |data: &[u8]| data.chunks_exact(3).map(|c| u32::from_be_bytes([0, c[0], c[1], c[2]])).collect();
        self.options.iter().find_map(|option| match option {
            Opt::Other(kind @ (172 | 174), data) => Some((*kind, counters(data))),
            _ => None,
        })
    }

    /// Sets SEG.WND.
    #[must_use]
    pub fn window(mut self, window: u16) -> Self {
        self.window = window;
        self
    }

    /// Sets the urgent pointer and the URG bit.
    #[must_use]
    pub fn urgent(mut self, urgent: u16) -> Self {
        self.urgent = urgent;
        self.flags |= URG;
        self
    }

    /// Adds an option.
    #[must_use]
    pub fn opt(mut self, option: Opt) -> Self {
        self.options.push(option);
        self
    }

    /// Sets the payload.
    #[must_use]
    pub fn data(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// The expression that builds this segment, for a script to be printed.
    #[must_use]
    pub fn code(&self) -> String {
        const NAMES: [(u8, &str); 8] = [
            (FIN, "FIN"),
            (SYN, "SYN"),
            (RST, "RST"),
            (PSH, "PSH"),
            (ACK, "ACK"),
            (URG, "URG"),
            (ECE, "ECE"),
            (CWR, "CWR"),
        ];
        let names: Vec<_> = NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect();
        let flags = if names.is_empty() { "0".to_owned() } else { names.join(" | ") };
        let mut code = format!("seg({flags}).seq({})", number(self.seq));
        if self.has(ACK) {
            code += &format!(".ack({})", number(self.ack));
        }
        code += &format!(".window({})", self.window);
        for option in &self.options {
            code += &match option {
                Opt::Sack(blocks) => {
                    let pair =
                        |(left, right): &(u32, u32)| format!("({}, {})", number(*left), number(*right));
                    let blocks: Vec<_> = blocks.iter().map(pair).collect();
                    format!(".opt(Opt::Sack(vec![{}]))", blocks.join(", "))
                }
                Opt::Other(kind, data) => format!(".opt(Opt::Other({kind}, vec!{data:?}))"),
                Opt::Raw(bytes) => format!(".opt(Opt::Raw(vec!{bytes:?}))"),
                option => format!(".opt(Opt::{option:?})"),
            };
        }
        match self.payload.len() {
            0 => code,
            len if self.payload == pattern(self.seq, len) => {
                format!("{code}.data(&pattern({}, {len}))", number(self.seq))
            }
            _ => format!("{code}.data(&{:?})", self.payload),
        }
    }

    /// Whether all of these flags are set.
    #[must_use]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// SEG.LEN.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }

    /// Whether the segment takes no sequence number.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sequence number after the segment.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len())
    }

    /// The MSS option.
    #[must_use]
    pub fn mss(&self) -> Option<u16> {
        self.options.iter().find_map(|o| if let Opt::Mss(mss) = o { Some(*mss) } else { None })
    }

    /// The window scale option.
    #[must_use]
    pub fn window_scale(&self) -> Option<u8> {
        self.options.iter().find_map(|o| if let Opt::WindowScale(shift) = o { Some(*shift) } else { None })
    }

    /// The timestamps option.
    #[must_use]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        self.options
            .iter()
            .find_map(|o| if let Opt::Timestamps(val, ecr) = o { Some((*val, *ecr)) } else { None })
    }

    /// The SACK blocks.
    #[must_use]
    pub fn sack(&self) -> &[(u32, u32)] {
        self.options
            .iter()
            .find_map(|o| if let Opt::Sack(b) = o { Some(b.as_slice()) } else { None })
            .unwrap_or(&[])
    }

    /// Whether SACK-permitted is among the options.
    #[must_use]
    pub fn sack_permitted(&self) -> bool {
        self.options.contains(&Opt::SackPermitted)
    }
}

impl Frame {
    /// The segment between two sockets.
    #[must_use]
    pub fn new(src: SocketAddr, dst: SocketAddr, seg: Seg) -> Self {
        Self { src, dst, ttl: 64, traffic_class: 0, flow_label: 0, seg }
    }

    /// The IP packet.
    ///
    /// # Panics
    /// If the segment does not fit into a packet.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let tcp = self.tcp_header();
        let len = tcp.header_len() + self.seg.payload.len();
        let dscp = IpDscp::try_new(self.traffic_class >> 2).expect("six bits");
        let ecn = IpEcn::try_new(self.traffic_class & 3).expect("two bits");
        let mut out = Vec::with_capacity(60 + len);
        match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let len = u16::try_from(len).expect("fits a packet");
                let mut ip = Ipv4Header::new(len, self.ttl, IpNumber::TCP, src.octets(), dst.octets())
                    .expect("fits a packet");
                ip.dscp = dscp;
                ip.ecn = ecn;
                ip.header_checksum = ip.calc_header_checksum();
                out.extend_from_slice(&ip.to_bytes());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut ip = Ipv6Header {
                    payload_length: u16::try_from(len).expect("fits a packet"),
                    next_header: IpNumber::TCP,
                    hop_limit: self.ttl,
                    source: src.octets(),
                    destination: dst.octets(),
                    ..Ipv6Header::default()
                };
                ip.set_dscp(dscp);
                ip.set_ecn(ecn);
                ip.flow_label = Ipv6FlowLabel::try_new(self.flow_label).expect("twenty bits");
                out.extend_from_slice(&ip.to_bytes());
            }
            _ => panic!("both ends of one family"),
        }
        out.extend_from_slice(&tcp.to_bytes());
        out.extend_from_slice(&self.seg.payload);
        out
    }

    fn tcp_header(&self) -> TcpHeader {
        let seg = &self.seg;
        let mut tcp = TcpHeader::new(self.src.port(), self.dst.port(), seg.seq, seg.window);
        tcp.acknowledgment_number = seg.ack;
        tcp.fin = seg.has(FIN);
        tcp.syn = seg.has(SYN);
        tcp.rst = seg.has(RST);
        tcp.psh = seg.has(PSH);
        tcp.ack = seg.has(ACK);
        tcp.urg = seg.has(URG);
        tcp.ece = seg.has(ECE);
        tcp.cwr = seg.has(CWR);
        tcp.ns = seg.ae;
        tcp.urgent_pointer = seg.urgent;
        if !seg.options.is_empty() {
            tcp.set_options_raw(&encode_options(&seg.options)).expect("at most 40 bytes of options");
        }
        tcp.checksum = match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                tcp.calc_checksum_ipv4_raw(src.octets(), dst.octets(), &seg.payload).expect("fits")
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                tcp.calc_checksum_ipv6_raw(src.octets(), dst.octets(), &seg.payload).expect("fits")
            }
            _ => panic!("both ends of one family"),
        };
        tcp
    }

    /// Parses a packet that the stack emitted.
    ///
    /// # Errors
    /// The fault of the packet: any length, checksum, padding or option that a correct sender would not emit.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        match bytes.first().map(|b| b >> 4) {
            Some(4) => Self::parse_v4(bytes),
            Some(6) => Self::parse_v6(bytes),
            version => Err(format!("IP version {version:?}")),
        }
    }

    fn parse_v4(bytes: &[u8]) -> Result<Self, String> {
        let ip = Ipv4HeaderSlice::from_slice(bytes).map_err(|e| format!("IPv4 header: {e}"))?;
        let header = ip.to_header();
        ensure(usize::from(ip.total_len()) == bytes.len(), "IPv4 total length is not the packet's")?;
        ensure(header.calc_header_checksum() == ip.header_checksum(), "IPv4 header checksum")?;
        ensure(ip.dont_fragment() && !ip.is_fragmenting_payload(), "fragment, or DF not set")?;
        // docs/security.md A9: a packet that is never fragmented needs no identification, and a counter would
        // leak.
        ensure(ip.identification() == 0, "IPv4 identification is not 0")?;
        ensure(ip.protocol() == IpNumber::TCP, "protocol is not TCP")?;
        let tcp = TcpSlice::from_slice(&bytes[ip.slice().len()..]).map_err(|e| format!("TCP header: {e}"))?;
        let sum = tcp.calc_checksum_ipv4(ip.source(), ip.destination()).map_err(|e| e.to_string())?;
        let traffic_class = ip.dcp().value() << 2 | ip.ecn().value();
        Self::finish(
            &tcp,
            sum,
            (ip.source_addr().into(), ip.destination_addr().into()),
            ip.ttl(),
            (traffic_class, 0),
        )
    }

    fn parse_v6(bytes: &[u8]) -> Result<Self, String> {
        let ip = Ipv6HeaderSlice::from_slice(bytes).map_err(|e| format!("IPv6 header: {e}"))?;
        ensure(
            usize::from(ip.payload_length()) + 40 == bytes.len(),
            "IPv6 payload length is not the packet's",
        )?;
        ensure(ip.next_header() == IpNumber::TCP, "next header is not TCP")?;
        let tcp = TcpSlice::from_slice(&bytes[40..]).map_err(|e| format!("TCP header: {e}"))?;
        let sum = tcp.calc_checksum_ipv6(ip.source(), ip.destination()).map_err(|e| e.to_string())?;
        let addrs = (ip.source_addr().into(), ip.destination_addr().into());
        let flow_label = ip.flow_label().value();
        Self::finish(&tcp, sum, addrs, ip.hop_limit(), (ip.traffic_class(), flow_label))
    }

    fn finish(
        tcp: &TcpSlice<'_>,
        sum: u16,
        (src, dst): (IpAddr, IpAddr),
        ttl: u8,
        (traffic_class, flow_label): (u8, u32),
    ) -> Result<Self, String> {
        ensure(tcp.checksum() == sum, "TCP checksum")?;
        let options = decode_options(tcp.options())?;
        Ok(Self {
            src: SocketAddr::new(src, tcp.source_port()),
            dst: SocketAddr::new(dst, tcp.destination_port()),
            ttl,
            traffic_class,
            flow_label,
            seg: Seg {
                seq: tcp.sequence_number(),
                ack: tcp.acknowledgment_number(),
                flags: tcp.header_slice()[13],
                ae: tcp.ns(),
                window: tcp.window_size(),
                urgent: tcp.urgent_pointer(),
                options,
                payload: tcp.payload().to_vec(),
            },
        })
    }
}

/// Flips one bit of a packet.
#[must_use]
pub fn flip_bit(packet: &[u8], bit: usize) -> Vec<u8> {
    let mut damaged = packet.to_vec();
    damaged[bit / 8] ^= 1 << (bit % 8);
    damaged
}

/// A relative sequence number as code: what lies before the first one is written as a distance from it.
pub(crate) fn number(seq: u32) -> String {
    match seq.cast_signed() {
        before if before < 0 => format!("0_u32.wrapping_sub({})", before.unsigned_abs()),
        seq => seq.to_string(),
    }
}

fn encode_options(options: &[Opt]) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    for option in options {
        match option {
            Opt::Mss(mss) => {
                out.extend_from_slice(&[2, 4]);
                out.extend_from_slice(&mss.to_be_bytes());
            }
            Opt::WindowScale(shift) => out.extend_from_slice(&[3, 3, *shift]),
            Opt::SackPermitted => out.extend_from_slice(&[4, 2]),
            Opt::Sack(blocks) => {
                out.extend_from_slice(&[5, 2 + 8 * blocks.len() as u8]);
                for (left, right) in blocks {
                    out.extend_from_slice(&left.to_be_bytes());
                    out.extend_from_slice(&right.to_be_bytes());
                }
            }
            Opt::Timestamps(val, ecr) => {
                out.extend_from_slice(&[8, 10]);
                out.extend_from_slice(&val.to_be_bytes());
                out.extend_from_slice(&ecr.to_be_bytes());
            }
            Opt::Nop => out.push(1),
            Opt::Other(kind, data) => {
                out.extend_from_slice(&[*kind, 2 + data.len() as u8]);
                out.extend_from_slice(data);
            }
            Opt::Raw(bytes) => out.extend_from_slice(bytes),
        }
    }
    out
}

fn decode_options(mut bytes: &[u8]) -> Result<Vec<Opt>, String> {
    let mut options = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        match kind {
            0 => {
                // RFC 9293 MUST-69: what follows the end of the list is zero.
                ensure(rest.iter().all(|b| *b == 0), "padding that is not zero")?;
                break;
            }
            1 => bytes = rest,
            _ => {
                let len = usize::from(*rest.first().ok_or("option without a length")?);
                ensure(len >= 2 && len <= bytes.len(), "option length out of range")?;
                let (option, rest) = bytes.split_at(len);
                options.push(decode_option(kind, &option[2..])?);
                bytes = rest;
            }
        }
    }
    Ok(options)
}

fn decode_option(kind: u8, data: &[u8]) -> Result<Opt, String> {
    let word = |at: usize| u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    match (kind, data.len()) {
        (2, 2) => Ok(Opt::Mss(u16::from_be_bytes([data[0], data[1]]))),
        (3, 1) => Ok(Opt::WindowScale(data[0])),
        (4, 0) => Ok(Opt::SackPermitted),
        (5, 8 | 16 | 24 | 32) => {
            Ok(Opt::Sack((0..data.len() / 8).map(|i| (word(8 * i), word(8 * i + 4))).collect()))
        }
        (8, 8) => Ok(Opt::Timestamps(word(0), word(4))),
        (2..=5 | 8, len) => Err(format!("option kind {kind} with {len} bytes of data")),
        _ => Ok(Opt::Other(kind, data.to_vec())),
    }
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

impl fmt::Debug for Seg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(u8, char); 8] =
            [(SYN, 'S'), (FIN, 'F'), (RST, 'R'), (PSH, 'P'), (ACK, 'A'), (URG, 'U'), (ECE, 'E'), (CWR, 'C')];
        let flags: String = NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect();
        write!(f, "<{flags} seq={} len={} ", self.seq, self.payload.len())?;
        if self.has(ACK) {
            write!(f, "ack={} ", self.ack)?;
        }
        if self.has(URG) {
            write!(f, "urg={} ", self.urgent)?;
        }
        write!(f, "win={} {:?}>", self.window, self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets() -> [(SocketAddr, SocketAddr); 2] {
        [
            ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:65535".parse().unwrap()),
            ("[fd00::1]:1".parse().unwrap(), "[fd00::2]:65535".parse().unwrap()),
        ]
    }

    #[test]
    fn frame_survives_the_round_trip() {
        for (src, dst) in sockets() {
            let segment = seg(PSH | ECE)
                .seq(u32::MAX)
                .ack(7)
                .urgent(3)
                .opt(Opt::Timestamps(1, 2))
                .opt(Opt::Sack(vec![(1, 2), (3, 4)]))
                .data(b"odd");
            let frame = Frame { ttl: 9, traffic_class: 0xb9, ..Frame::new(src, dst, segment) };
            assert_eq!(Frame::parse(&frame.to_bytes()), Ok(frame));
        }
    }

    #[test]
    fn code_builds_the_segment() {
        macro_rules! same {
            ($segment:expr) => {
                let words: Vec<_> = stringify!($segment).split_whitespace().collect();
                assert_eq!($segment.code(), words.join(" "));
            };
        }
        same!(seg(RST).seq(7).window(0));
        same!(seg(SYN | ACK).seq(0).ack(1).window(64).opt(Opt::Mss(1460)).opt(Opt::SackPermitted));
        same!(seg(PSH | ACK).seq(3).ack(1).window(64).data(&pattern(3, 2)));
        same!(seg(ACK).seq(0_u32.wrapping_sub(1)).ack(2).window(9).opt(Opt::Sack(vec![(1, 2), (4, 6)])));
        same!(seg(FIN | ACK).seq(3).ack(1).window(64).data(&[7, 7]));
    }

    #[test]
    fn every_flipped_bit_of_the_segment_is_seen() {
        for (src, dst) in sockets() {
            let bytes = Frame::new(src, dst, seg(ACK).data(b"payload")).to_bytes();
            let header = if src.is_ipv4() { 20 } else { 40 };
            for bit in header * 8..bytes.len() * 8 {
                assert!(Frame::parse(&flip_bit(&bytes, bit)).is_err(), "bit {bit}");
            }
        }
    }
}
