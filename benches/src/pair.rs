//! Two endpoints joined by an in-memory link. Each phase of a transfer is a separate function that is never
//! inlined, so that callgrind's inclusive counts give its cost.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ackclock_core::{
    ConnectionId, Endpoint, EndpointConfig, Instant, Limits, ListenAddr, ListenOptions, ListenerId, TcpConfig,
};
use ackclock_device::ReceiveBatch;
use ackclock_wire::{ChecksumState, RxMeta, TxPacket};
use bytes::Bytes;

/// One end: an endpoint and the packets on their way to it.
#[derive(Debug)]
pub struct End {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its address.
    pub addr: IpAddr,
    inbox: VecDeque<(Vec<u8>, RxMeta)>,
    /// Packets that the endpoint may keep, as from a device.
    batch: ReceiveBatch,
}

/// Both ends, the link between them and its spare packet buffers.
#[derive(Debug)]
pub struct Pair {
    /// The client, then the server.
    pub ends: [End; 2],
    /// The server's listener.
    pub listener: ListenerId,
    /// What the link can do.
    pub limits: Limits,
    burst: u64,
    connected: usize,
    verify: bool,
    lends: bool,
    spare: Vec<Vec<u8>>,
}

/// What the link is like.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Largest packet in bytes.
    pub mtu: usize,
    /// Whether it carries 64 KB packets whole.
    pub offload: bool,
    /// Whether checksums are computed and verified in software.
    pub checksums: bool,
    /// How many packets it takes at a time.
    pub burst: u64,
}

/// The first port that the client connects to; the server listens on all.
const PORT: u16 = 5001;
/// After this many connections the client uses the next port, so that its own ports do not run out.
const CONNECTIONS_PER_PORT: usize = 30_000;

impl Pair {
    /// Two endpoints without connections.
    #[must_use]
    pub fn new(link: Link, tcp: &TcpConfig) -> Self {
        let end = |last: u8| {
            let addr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
            let mut config = EndpointConfig::new(vec![addr], [last; 32]);
            config.mtu = link.mtu;
            config.memory_budget = 8 << 30;
            config.tcp = tcp.clone().into();
            End {
                endpoint: Endpoint::new(config, Instant::ZERO),
                addr,
                inbox: VecDeque::new(),
                batch: batch(),
            }
        };
        let mut ends = [end(1), end(2)];
        let mut options = ListenOptions::new(ListenAddr { addr: None, port: None });
        options.backlog = 1 << 20;
        options.syn_backlog = 1 << 20;
        let listener =
            ends[1].endpoint.listen(Instant::ZERO, options).expect("nothing else listens on this endpoint");
        let gso = if link.offload { 65_535 } else { link.mtu };
        let limits = Limits { gso_max_v4: gso, gso_max_v6: gso, tx_checksum: !link.checksums };
        Self {
            ends,
            listener,
            limits,
            burst: link.burst,
            connected: 0,
            verify: link.checksums,
            lends: false,
            spare: Vec::new(),
        }
    }

    /// Opens a connection and accepts it. Returns the ids of both ends.
    ///
    /// # Panics
    /// The handshake does not complete at once, as it must on a link without loss.
    pub fn connect(&mut self, now: Instant) -> [ConnectionId; 2] {
        let port =
            PORT + u16::try_from(self.connected / CONNECTIONS_PER_PORT).expect("fewer than 2^16 ports");
        self.connected += 1;
        let server = SocketAddr::new(self.ends[1].addr, port);
        let client = self.ends[0].endpoint.connect(now, server, (None, 0), None).expect("a port is free");
        for _ in 0..2 {
            self.carry(now, 0);
            self.carry(now, 1);
        }
        let accepted = self.ends[1].endpoint.accept(now, self.listener).expect("the handshake is complete");
        while self.ends.iter_mut().any(|end| end.endpoint.poll_event().is_some()) {}
        [client, accepted]
    }

    /// Carries all that `from` wants to send to the other end and lets that process it. Returns the number of
    /// packets.
    pub fn carry(&mut self, now: Instant, from: usize) -> u64 {
        let sent = self.collect(now, from);
        self.deliver(now, 1 - from);
        sent
    }

    /// Puts what `from` wants to send on the link.
    pub fn collect(&mut self, now: Instant, from: usize) -> u64 {
        let [client, server] = &mut self.ends;
        let (from, to) = if from == 0 { (client, server) } else { (server, client) };
        let mut sent = 0;
        while sent < self.burst {
            let Some(packet) = from.endpoint.poll_transmit(now, self.limits) else { break };
            let checksum = if self.verify { packet.checksum } else { ChecksumState::Verified };
            let meta = RxMeta { checksum, segment_size: packet.segment_size };
            sent += 1;
            if self.lends {
                put(&mut to.batch, &packet, meta);
                continue;
            }
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(packet.header);
            bytes.extend_from_slice(packet.payload[0]);
            bytes.extend_from_slice(packet.payload[1]);
            to.inbox.push_back((bytes, meta));
        }
        sent
    }

    /// Lets `to` process what is on the link to it.
    pub fn deliver(&mut self, now: Instant, to: usize) {
        let end = &mut self.ends[to];
        while let Some((bytes, meta)) = end.inbox.pop_front() {
            end.endpoint.handle_packet(now, &bytes, meta);
            self.spare.push(bytes);
        }
        if self.lends {
            end.deliver_batch(now);
        }
    }

    /// How many packets are on the link to `to`, and their bytes.
    #[must_use]
    pub fn waiting(&self, to: usize) -> (u64, usize) {
        let inbox = &self.ends[to].inbox;
        (inbox.len() as u64, inbox.iter().map(|(bytes, _)| bytes.len()).sum())
    }
}

/// Connections one after the other, each opened, accepted and closed by both ends step by step. They carry no
/// data, only SYNs and FINs.
#[derive(Debug)]
pub struct Handshakes {
    /// Both ends and the link.
    pub pair: Pair,
    /// How many connections there were.
    pub connections: u64,
    now: Instant,
}

impl Handshakes {
    /// Two endpoints without connections.
    #[must_use]
    pub fn new(link: Link, tcp: &TcpConfig) -> Self {
        Self { pair: Pair::new(link, tcp), connections: 0, now: Instant::from_millis(1) }
    }

    /// Opens a connection and closes it as a client and a server without data do: the client first, then the
    /// server, once it has read the end. The client keeps a record in TIME-WAIT. Connections are 1 ms apart.
    pub fn round(&mut self) {
        self.now += std::time::Duration::from_millis(1);
        let ids = self.open();
        self.close(ids);
        self.expire();
        self.connections += 1;
    }

    /// SYN, SYN-ACK, ACK, and the connection accepted.
    #[inline(never)]
    pub fn open(&mut self) -> [ConnectionId; 2] {
        self.pair.connect(self.now)
    }

    /// FIN, its acknowledgement and the other FIN, and that one's acknowledgement.
    #[inline(never)]
    pub fn close(&mut self, ids: [ConnectionId; 2]) {
        let now = self.now;
        self.pair.ends[0].endpoint.release(now, ids[0]);
        self.pair.carry(now, 0);
        while self.pair.ends[1].endpoint.poll_event().is_some() {}
        let end = self.pair.ends[1]
            .endpoint
            .update(now, ids[1], |connection, now| connection.read(now, &mut [0; 64]));
        assert_eq!(end, Some(Ok(0)), "the end of the stream arrives at once");
        self.pair.ends[1].endpoint.release(now, ids[1]);
        self.pair.carry(now, 1);
        self.pair.carry(now, 0);
    }

    /// Runs the timers that are due, mostly records in TIME-WAIT that expire.
    #[inline(never)]
    pub fn expire(&mut self) {
        for end in &mut self.pair.ends {
            if end.endpoint.poll_timeout().is_some_and(|due| due <= self.now) {
                end.endpoint.handle_timeout(self.now);
            }
        }
    }
}

impl End {
    /// As a driver does: a packet that fills most of its block may stay there.
    fn deliver_batch(&mut self, now: Instant) {
        for (at, (packet, meta)) in self.batch.iter().enumerate() {
            match self.batch.lend(at) {
                Some(block) => self.endpoint.handle_packet_bytes(now, &block, meta),
                None => self.endpoint.handle_packet(now, packet, meta),
            }
        }
        self.batch.clear();
    }
}

fn batch() -> ReceiveBatch {
    ReceiveBatch::new(64, 64 * 65_600)
}

fn put(batch: &mut ReceiveBatch, packet: &TxPacket<'_>, meta: RxMeta) {
    let mut slot = batch.slot(packet.len()).expect("a burst fits into a batch");
    for part in packet.parts() {
        let (room, rest) = slot.split_at_mut(part.len());
        room.copy_from_slice(part);
        slot = rest;
    }
    batch.commit(0, packet.len(), meta);
}

/// Counts of a bulk transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Data packets carried.
    pub segments: u64,
    /// Acknowledgements carried.
    pub acks: u64,
    /// Payload bytes delivered to the reader.
    pub bytes: u64,
    /// Trace records fetched.
    pub records: u64,
}

/// A bulk transfer from the client to the server, a round at a time.
#[derive(Debug)]
pub struct Bulk {
    /// Both ends and the link.
    pub pair: Pair,
    /// The connection, seen from each end.
    pub ids: [ConnectionId; 2],
    /// What was carried so far.
    pub totals: Totals,
    chunk: Bytes,
    into: Vec<u8>,
    zerocopy: bool,
}

impl Bulk {
    /// A connection ready for data, written and read in pieces of `chunk` bytes.
    #[must_use]
    pub fn new(link: Link, tcp: &TcpConfig, chunk: usize) -> Self {
        let mut pair = Pair::new(link, tcp);
        let ids = pair.connect(Instant::from_millis(1));
        Self {
            pair,
            ids,
            totals: Totals::default(),
            chunk: vec![0x5a; chunk].into(),
            into: vec![0; chunk],
            zerocopy: false,
        }
    }

    /// The same with slices instead of copies: `write_bytes`, `read_bytes`, and packets that the endpoint may
    /// keep.
    #[must_use]
    pub fn zerocopy(mut self) -> Self {
        self.zerocopy = true;
        self.pair.lends = true;
        self
    }

    /// Write, send, receive, read, acknowledge, once each.
    pub fn round(&mut self, now: Instant) {
        self.app_write(now);
        self.totals.segments += self.phase_tx_data(now);
        self.phase_rx_data(now);
        self.app_read(now);
        self.totals.acks += self.phase_tx_ack(now);
        self.phase_rx_ack(now);
        self.fetch_traces();
    }

    /// Fetches the trace of the connection and discards it.
    #[inline(never)]
    pub fn fetch_traces(&mut self) {
        for end in &mut self.pair.ends {
            while let Some(batch) = end.endpoint.poll_trace() {
                self.totals.records += batch.records.len() as u64;
            }
        }
    }

    /// The application writes until the send buffer is full.
    #[inline(never)]
    pub fn app_write(&mut self, now: Instant) {
        let (chunk, zerocopy) = (&self.chunk, self.zerocopy);
        let id = self.ids[0];
        self.pair.ends[0].endpoint.update(now, id, |connection, now| {
            if zerocopy {
                while connection.write_bytes(now, chunk).is_ok_and(|written| written == chunk.len()) {}
                return;
            }
            while connection.write(now, chunk).is_ok_and(|written| written == chunk.len()) {}
        });
    }

    /// Data segments are made and put on the link.
    #[inline(never)]
    pub fn phase_tx_data(&mut self, now: Instant) -> u64 {
        self.pair.collect(now, 0)
    }

    /// Data segments are received.
    #[inline(never)]
    pub fn phase_rx_data(&mut self, now: Instant) {
        self.pair.deliver(now, 1);
    }

    /// The application reads all there is.
    #[inline(never)]
    pub fn app_read(&mut self, now: Instant) {
        let (into, zerocopy) = (&mut self.into, self.zerocopy);
        let id = self.ids[1];
        let read = self.pair.ends[1].endpoint.update(now, id, |connection, now| {
            let mut total = 0;
            while zerocopy && let Ok(read) = connection.read_bytes(now, usize::MAX) {
                total += read.len() as u64;
            }
            while let Ok(read) = connection.read(now, into) {
                total += read as u64;
            }
            total
        });
        self.totals.bytes += read.unwrap_or(0);
    }

    /// Acknowledgements are made and put on the link.
    #[inline(never)]
    pub fn phase_tx_ack(&mut self, now: Instant) -> u64 {
        self.pair.collect(now, 1)
    }

    /// Acknowledgements are received.
    #[inline(never)]
    pub fn phase_rx_ack(&mut self, now: Instant) {
        self.pair.deliver(now, 0);
    }
}
