//! Endpoints in virtual time: one against a script of segments ([`Host`]), or two joined by a path
//! ([`Pair`]).

#[cfg(feature = "tcp-ao")]
mod authentication;
mod blocks;
mod bounded;
mod counted;
mod datagrams;
mod deferred;
mod disruption;
mod ecn;
mod ends;
mod fast_open;
mod flood;
mod fragments;
mod frozen;
mod groups;
mod handshake;
mod histograms;
mod icmp;
mod idle_timeout;
mod lifecycle;
mod looped;
mod mtu_search;
mod others;
mod path_cache;
mod pauses;
mod pings;
mod ports;
mod predicted;
mod push;
mod reuse;
mod security;
mod shaper;
mod shards;
mod time_wait;
mod traces;
mod transparent;
mod user_timeout;
mod walks;
mod windows;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackclock_wire::{
    ChecksumAt, ChecksumState, ControlSegment, Fields, Flags, FlowLabel, HEADER_MAX, IpPacket, IpPayload,
    RxMeta, Segment, SeqNum, TcpOptions, write_control,
};

use crate::testing::Pair;
use crate::{
    ConnectionId, Decision, Endpoint, EndpointConfig, Event, Instant, Limits, ListenAddr, ListenOptions,
    ListenerId, RxPacket, State, TcpConfig,
};

pub(super) fn tcp_config() -> TcpConfig {
    TcpConfig::default()
}

const LIMITS: Limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
const SERVER: &str = "10.0.0.1";
const CLIENT: &str = "10.0.0.2";
const PORT: u16 = 80;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn server() -> SocketAddr {
    SocketAddr::new(ip(SERVER), PORT)
}

fn client(port: u16) -> SocketAddr {
    SocketAddr::new(ip(CLIENT), port)
}

fn config(addr: &str) -> EndpointConfig {
    let mut config = EndpointConfig::new(vec![ip(addr)], [if addr == SERVER { 1 } else { 2 }; 32]);
    config.broadcast = vec![ip("10.0.0.255")];
    config
}

fn on_port(port: u16) -> ListenOptions {
    ListenOptions::new(ListenAddr { addr: None, port: Some(port) })
}

/// The parts of a segment that left an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentSegment {
    src: SocketAddr,
    dst: SocketAddr,
    seq: SeqNum,
    ack: SeqNum,
    flags: Flags,
    window: u16,
    options: TcpOptions,
    payload: Vec<u8>,
    bytes: usize,
}

/// An endpoint at 10.0.0.1 and the script that talks to it.
struct Host {
    endpoint: Endpoint,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        Self::with(config(SERVER))
    }

    fn with(config: EndpointConfig) -> Self {
        let now = Instant::from_millis(1_000_000);
        Self { endpoint: Endpoint::new(config, now), now }
    }

    fn listening(options: ListenOptions) -> (Self, ListenerId) {
        let mut host = Self::new();
        let id = host.endpoint.listen(host.now, options).unwrap();
        (host, id)
    }

    /// Delivers a segment and returns what it triggers.
    fn give(&mut self, src: SocketAddr, dst: SocketAddr, fields: Fields, payload: &[u8]) -> Vec<SentSegment> {
        let packet = packet(src, dst, fields, payload);
        let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
        self.endpoint.handle_packet(self.now, &packet, meta);
        self.sent()
    }

    /// Delivers a segment from the client's `port` to the server's port, and returns what it triggers.
    fn from(&mut self, port: u16, fields: Fields) -> Vec<SentSegment> {
        self.give(client(port), server(), fields, &[])
    }

    fn sent(&mut self) -> Vec<SentSegment> {
        std::iter::from_fn(|| {
            let packet = self.endpoint.poll_transmit(self.now, LIMITS)?;
            Some(decode(&packet.to_vec()))
        })
        .collect()
    }

    /// Advances time and runs timers. Returns what was sent, with the times.
    fn wait(&mut self, span: Duration) -> Vec<(Duration, SentSegment)> {
        let (start, end) = (self.now, self.now + span);
        let mut sent = Vec::new();
        while let Some(next) = self.endpoint.poll_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.endpoint.handle_timeout(self.now);
            sent.extend(self.sent().into_iter().map(|sent| (self.now.saturating_since(start), sent)));
        }
        self.now = end;
        sent
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.endpoint.poll_event()).collect()
    }

    /// A handshake from the client's `port`, its ISN 1000; returns the server's ISN.
    fn handshake(&mut self, port: u16) -> SeqNum {
        let syn_ack = self.from(port, syn(1000));
        let iss = syn_ack[0].seq;
        self.from(port, ack(1001, iss + 1));
        iss
    }

    /// A connection from the client's `port`, accepted.
    fn accepted(&mut self, listener: ListenerId, port: u16) -> (ConnectionId, SeqNum) {
        let iss = self.handshake(port);
        (self.endpoint.accept(self.now, listener).unwrap(), iss)
    }

    fn state(&self, id: ConnectionId) -> State {
        self.endpoint.connection(id).unwrap().state()
    }
}

impl Pair {
    /// A client at 10.0.0.2 and a server at 10.0.0.1.
    fn new() -> Self {
        Self::with(config(CLIENT), config(SERVER))
    }

    fn with(client: EndpointConfig, server: EndpointConfig) -> Self {
        Self::at(Instant::from_millis(1_000_000), client, server)
    }
}

fn packet(src: SocketAddr, dst: SocketAddr, fields: Fields, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER_MAX];
    let flow_label = FlowLabel::NONE;
    let segment = ControlSegment { src, dst, ttl: 64, traffic_class: 0, flow_label, fields };
    let len = write_control(&mut header, &segment);
    let mut packet = header[..len].to_vec();
    packet.extend_from_slice(payload);
    let total = u16::try_from(packet.len()).unwrap();
    if src.is_ipv4() {
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[10..12].fill(0);
        let checksum = internet_checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&(total - 40).to_be_bytes());
    }
    packet
}

fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

fn decode(packet: &[u8]) -> SentSegment {
    let ip = IpPacket::parse(packet).unwrap();
    let IpPayload::Tcp(bytes) = ip.payload else { panic!("not TCP: {:?}", ip.payload) };
    let segment = Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).unwrap();
    SentSegment {
        src: SocketAddr::new(ip.src, segment.src_port),
        dst: SocketAddr::new(ip.dst, segment.dst_port),
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        options: segment.options,
        payload: segment.payload.to_vec(),
        bytes: packet.len(),
    }
}

fn fields(flags: Flags, seq: u32, ack: SeqNum) -> Fields {
    Fields { seq: SeqNum::new(seq), ack, flags, window: 65_535, ..Fields::default() }
}

fn syn(seq: u32) -> Fields {
    let options = TcpOptions { mss: Some(1460), ..TcpOptions::default() };
    Fields { options, ..fields(Flags::SYN, seq, SeqNum::new(0)) }
}

fn syn_with_all_options(seq: u32, timestamp: u32) -> Fields {
    let options = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((timestamp, 0)),
        ..TcpOptions::default()
    };
    Fields { options, ..fields(Flags::SYN, seq, SeqNum::new(0)) }
}

fn ack(seq: u32, ack: SeqNum) -> Fields {
    fields(Flags::ACK, seq, ack)
}

fn with_timestamps(mut fields: Fields, value: u32, echo: u32) -> Fields {
    fields.options.timestamps = Some((value, echo));
    fields
}
