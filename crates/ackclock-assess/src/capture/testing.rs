//! Hand-made captures for tests: packets, and files of them in every supported format.

use std::net::Ipv4Addr;

use etherparse::{PacketBuilder, TcpOptionElement};

/// An IP packet with its time in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub at: u64,
    pub packet: Vec<u8>,
}

/// A TCP segment between a client (10.0.0.1:5000) and a server (10.0.0.2:80).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tcp {
    pub at_ms: f64,
    pub from_server: bool,
    pub seq: u32,
    pub ack: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub len: usize,
    pub timestamps: Option<(u32, u32)>,
    pub sack: Option<(u32, u32)>,
    /// Whether a SYN permits SACK.
    pub sack_permitted: bool,
    /// The MSS that a SYN announces; 1460 by default.
    pub mss: Option<u16>,
}

pub(crate) const CLIENT_ISN: u32 = u32::MAX - 1000;
pub(crate) const SERVER_ISN: u32 = 7000;
pub(crate) const MSS: usize = 1000;

impl Tcp {
    /// SYN, SYN-ACK and ACK, as seen at the client of a path of this round trip.
    pub fn handshake(rtt_ms: f64) -> Vec<Self> {
        let server =
            |ack| Self { from_server: true, seq: SERVER_ISN, syn: true, ack: Some(ack), ..Self::default() };
        vec![
            Self { seq: CLIENT_ISN, syn: true, ..Self::default() },
            Self { at_ms: rtt_ms, ..server(CLIENT_ISN.wrapping_add(1)) },
            Self {
                at_ms: rtt_ms,
                seq: CLIENT_ISN.wrapping_add(1),
                ack: Some(SERVER_ISN + 1),
                ..Self::default()
            },
        ]
    }

    /// The client's segment of this number.
    pub fn data(at_ms: f64, number: u32) -> Self {
        let seq = CLIENT_ISN.wrapping_add(1 + number * MSS as u32);
        Self { at_ms, seq, ack: Some(SERVER_ISN + 1), len: MSS, ..Self::default() }
    }

    /// The server's acknowledgement of this many segments.
    pub fn acked(at_ms: f64, segments: u32) -> Self {
        let ack = CLIENT_ISN.wrapping_add(1 + segments * MSS as u32);
        Self { at_ms, from_server: true, seq: SERVER_ISN + 1, ack: Some(ack), ..Self::default() }
    }

    /// Adds a SACK block of these segments.
    pub fn sack(self, from: u32, to: u32) -> Self {
        let edge = |segments: u32| CLIENT_ISN.wrapping_add(1 + segments * MSS as u32);
        Self { sack: Some((edge(from), edge(to))), ..self }
    }

    pub fn timestamps(self, value: u32, echo: u32) -> Self {
        Self { timestamps: Some((value, echo)), ..self }
    }

    /// This segment, seen this much later.
    pub fn later(self, ms: f64) -> Self {
        Self { at_ms: self.at_ms + ms, ..self }
    }

    pub fn seen(self) -> Seen {
        let (client, server) = (Ipv4Addr::new(10, 0, 0, 1).octets(), Ipv4Addr::new(10, 0, 0, 2).octets());
        let (src, dst, ports) =
            if self.from_server { (server, client, (80, 5000)) } else { (client, server, (5000, 80)) };
        let mut builder = PacketBuilder::ipv4(src, dst, 64).tcp(ports.0, ports.1, self.seq, 60_000);
        if let Some(ack) = self.ack {
            builder = builder.ack(ack);
        }
        if self.syn {
            builder = builder.syn();
        }
        if self.fin {
            builder = builder.fin();
        }
        let mut options = Vec::new();
        if self.syn {
            options.push(TcpOptionElement::MaximumSegmentSize(self.mss.unwrap_or(1460)));
            options
                .extend(self.sack_permitted.then_some(TcpOptionElement::SelectiveAcknowledgementPermitted));
        }
        options.extend(self.timestamps.map(|(value, echo)| TcpOptionElement::Timestamp(value, echo)));
        options.extend(self.sack.map(|block| TcpOptionElement::SelectiveAcknowledgement(block, [None; 3])));
        let builder = builder.options(&options).expect("they fit");
        let mut packet = Vec::new();
        builder.write(&mut packet, &vec![0; self.len]).expect("a vector takes all");
        Seen { at: 1_000_000_000_000 + (self.at_ms * 1e6) as u64, packet }
    }
}

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub kind: Kind,
    pub big_endian: bool,
    pub link_type: u16,
    pub snap_len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Micros,
    Nanos,
    /// pcapng with this if_tsresol.
    Ng(u8),
}

impl Default for Form {
    fn default() -> Self {
        Self { kind: Kind::Nanos, big_endian: false, link_type: 101, snap_len: 262_144 }
    }
}

impl Form {
    /// A file of these packets.
    pub fn file(self, packets: &[Seen]) -> Vec<u8> {
        let mut out = Vec::new();
        match self.kind {
            Kind::Ng(resolution) => {
                self.section(&mut out);
                self.interface(&mut out, resolution);
                packets.iter().for_each(|seen| self.enhanced(&mut out, 0, resolution, seen));
            }
            kind => {
                let magic: u32 = if kind == Kind::Nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
                self.put(&mut out, magic);
                self.put_16(&mut out, 2);
                self.put_16(&mut out, 4);
                for field in [0, 0, self.snap_len as u32, u32::from(self.link_type)] {
                    self.put(&mut out, field);
                }
                for seen in packets {
                    let unit = if kind == Kind::Nanos { 1 } else { 1000 };
                    let kept = self.kept(seen);
                    let fraction = seen.at % 1_000_000_000 / unit;
                    for field in
                        [seen.at / 1_000_000_000, fraction, kept.len() as u64, self.framed(seen).len() as u64]
                    {
                        self.put(&mut out, field as u32);
                    }
                    out.extend(kept);
                }
            }
        }
        out
    }

    pub fn section(self, out: &mut Vec<u8>) {
        self.block(out, 0x0a0d_0d0a, |body| {
            self.put(body, 0x1a2b_3c4d);
            self.put_16(body, 1);
            self.put_16(body, 0);
            body.extend([0xff; 8]);
        });
    }

    pub fn interface(self, out: &mut Vec<u8>, resolution: u8) {
        self.block(out, 1, |body| {
            self.put_16(body, self.link_type);
            self.put_16(body, 0);
            self.put(body, self.snap_len as u32);
            self.put_16(body, 9);
            self.put_16(body, 1);
            body.extend([resolution, 0, 0, 0]);
            body.extend([0; 4]);
        });
    }

    pub fn enhanced(self, out: &mut Vec<u8>, interface: u32, resolution: u8, seen: &Seen) {
        let units = if resolution & 0x80 == 0 {
            u128::from(seen.at) * 10u128.pow(resolution.into()) / 1_000_000_000
        } else {
            u128::from(seen.at) * (1 << (resolution & 0x7f)) / 1_000_000_000
        };
        let kept = self.kept(seen);
        self.block(out, 6, |body| {
            for field in [
                interface,
                (units >> 32) as u32,
                units as u32,
                kept.len() as u32,
                self.framed(seen).len() as u32,
            ] {
                self.put(body, field);
            }
            body.extend(&kept);
            body.resize(body.len().next_multiple_of(4), 0);
        });
    }

    pub fn simple(self, out: &mut Vec<u8>, seen: &Seen) {
        let kept = self.kept(seen);
        self.block(out, 3, |body| {
            self.put(body, self.framed(seen).len() as u32);
            body.extend(&kept);
            body.resize(body.len().next_multiple_of(4), 0);
        });
    }

    fn framed(self, seen: &Seen) -> Vec<u8> {
        let front: &[u8] = match self.link_type {
            1 => &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00],
            _ => &[],
        };
        [front, &seen.packet].concat()
    }

    fn kept(self, seen: &Seen) -> Vec<u8> {
        let mut frame = self.framed(seen);
        frame.truncate(self.snap_len);
        frame
    }

    fn block(self, out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut body = Vec::new();
        fill(&mut body);
        let len = body.len() as u32 + 12;
        self.put(out, kind);
        self.put(out, len);
        out.extend(body);
        self.put(out, len);
    }

    fn put(self, out: &mut Vec<u8>, field: u32) {
        out.extend(if self.big_endian { field.to_be_bytes() } else { field.to_le_bytes() });
    }

    fn put_16(self, out: &mut Vec<u8>, field: u16) {
        out.extend(if self.big_endian { field.to_be_bytes() } else { field.to_le_bytes() });
    }
}
