//! Two endpoints on a link in memory. Each phase of a transfer is a separate function that is never inlined,
//! so that callgrind's inclusive counts give its cost.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ackclock_core::testing::Pair;
use ackclock_core::{
    ConnectionId, EndpointConfig, Instant, Limits, ListenAddr, ListenOptions, ListenerId, RxPacket, TcpConfig,
};
use ackclock_device::ReceiveBatch;
use ackclock_wire::{ChecksumState, RxMeta, TxPacket};
use bytes::Bytes;

/// Two endpoints and the link between them.
#[derive(Debug)]
pub struct Linked {
    /// The endpoints, and what is on the way between them.
    pub pair: Pair,
    /// The server's listener.
    pub listener: ListenerId,
    burst: u64,
    connected: usize,
    /// The packets on the way to each end if it may keep them, as from a device.
    lent: Option<[ReceiveBatch; 2]>,
}

/// The properties of the link.
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

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// The first port that the client connects to; the server listens on all.
const PORT: u16 = 5001;
/// After this many connections the client uses the next port, so that its own ports do not run out.
const CONNECTIONS_PER_PORT: usize = 30_000;

impl Linked {
    /// Two endpoints without connections.
    #[must_use]
    pub fn new(link: Link, tcp: &TcpConfig) -> Self {
        let end = |addr: IpAddr, secret| {
            let mut config = EndpointConfig::new(vec![addr], [secret; 32]);
            config.mtu = link.mtu;
            config.memory_budget = 8 << 30;
            config.tcp = tcp.clone().into();
            config
        };
        let mut pair = Pair::at(Instant::ZERO, end(CLIENT, 1), end(SERVER, 2));
        let mut options = ListenOptions::new(ListenAddr { addr: None, port: None });
        options.backlog = 1 << 20;
        options.syn_backlog = 1 << 20;
        let listener =
            pair.server.listen(Instant::ZERO, options).expect("nothing else listens on this endpoint");
        let gso = if link.offload { 65_535 } else { link.mtu };
        pair.limits = Limits { gso_max_v4: gso, gso_max_v6: gso, tx_checksum: !link.checksums };
        pair.verified = !link.checksums;
        Self { pair, listener, burst: link.burst, connected: 0, lent: None }
    }

    /// Opens a connection and accepts it. Returns the ids of both ends.
    ///
    /// # Panics
    /// The handshake does not complete at once, as it must on a link without loss.
    pub fn connect(&mut self, now: Instant) -> [ConnectionId; 2] {
        let port =
            PORT + u16::try_from(self.connected / CONNECTIONS_PER_PORT).expect("fewer than 2^16 ports");
        self.connected += 1;
        self.pair.now = now;
        self.pair.open(SocketAddr::new(SERVER, port), self.listener)
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
        self.pair.now = now;
        let Some(lent) = &mut self.lent else { return self.pair.collect(from, self.burst) };
        let (limits, verified) = (self.pair.limits, self.pair.verified);
        let mut sent = 0;
        while sent < self.burst {
            let Some(packet) = self.pair.end(from).poll_transmit(now, limits) else { break };
            let checksum = if verified { ChecksumState::Verified } else { packet.checksum };
            put(&mut lent[1 - from], &packet, RxMeta { checksum, ..packet.meta() });
            sent += 1;
        }
        sent
    }

    /// Lets `to` process what is on the link to it.
    pub fn deliver(&mut self, now: Instant, to: usize) {
        self.pair.now = now;
        let Some(lent) = &mut self.lent else { return self.pair.deliver(to) };
        let (endpoint, batch) = (self.pair.end(to), &mut lent[to]);
        // As in a driver, a packet that fills most of its block may stay there.
        let packets = batch.iter().enumerate();
        let packets = packets.map(|(at, (bytes, meta))| RxPacket { bytes, meta, block: batch.lend(at) });
        endpoint.handle_packets(now, packets);
        batch.clear();
    }
}

/// Connections one after the other, each opened, accepted and closed by both ends step by step. They carry no
/// data, only SYNs and FINs.
#[derive(Debug)]
pub struct Handshakes {
    /// Both ends and the link.
    pub link: Linked,
    /// How many connections there were.
    pub connections: u64,
    now: Instant,
}

impl Handshakes {
    /// Two endpoints without connections.
    #[must_use]
    pub fn new(link: Link, tcp: &TcpConfig) -> Self {
        Self { link: Linked::new(link, tcp), connections: 0, now: Instant::from_millis(1) }
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
        self.link.connect(self.now)
    }

    /// FIN, its acknowledgement and the other FIN, and that one's acknowledgement.
    #[inline(never)]
    pub fn close(&mut self, ids: [ConnectionId; 2]) {
        let now = self.now;
        self.link.pair.client.release(now, ids[0]);
        self.link.carry(now, 0);
        while self.link.pair.server.poll_event().is_some() {}
        let end =
            self.link.pair.server.update(now, ids[1], |connection, now| connection.read(now, &mut [0; 64]));
        assert_eq!(end, Some(Ok(0)), "the end of the stream arrives at once");
        self.link.pair.server.release(now, ids[1]);
        self.link.carry(now, 1);
        self.link.carry(now, 0);
    }

    /// Runs the timers that are due, mostly records in TIME-WAIT that expire.
    #[inline(never)]
    pub fn expire(&mut self) {
        for side in 0..2 {
            let end = self.link.pair.end(side);
            if end.poll_timeout().is_some_and(|due| due <= self.now) {
                end.handle_timeout(self.now);
            }
        }
    }
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
    pub link: Linked,
    /// The connection, seen from each end.
    pub ids: [ConnectionId; 2],
    /// The totals so far.
    pub totals: Totals,
    chunk: Bytes,
    into: Vec<u8>,
    zerocopy: bool,
}

impl Bulk {
    /// A connection ready for data, written and read in pieces of `chunk` bytes.
    #[must_use]
    pub fn new(link: Link, tcp: &TcpConfig, chunk: usize) -> Self {
        let mut link = Linked::new(link, tcp);
        let ids = link.connect(Instant::from_millis(1));
        Self {
            link,
            ids,
            totals: Totals::default(),
            chunk: vec![0x5a; chunk].into(),
            into: vec![0; chunk],
            zerocopy: false,
        }
    }

    /// Uses slices instead of copies: `write_bytes`, `read_bytes`, and packets that the endpoint may keep.
    #[must_use]
    pub fn zerocopy(mut self) -> Self {
        self.zerocopy = true;
        self.link.lent = Some([(); 2].map(|()| ReceiveBatch::new(64, 64 * 65_600)));
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
        for side in 0..2 {
            while let Some(batch) = self.link.pair.end(side).poll_trace() {
                self.totals.records += batch.records.len() as u64;
            }
        }
    }

    /// The application writes until the send buffer is full.
    #[inline(never)]
    pub fn app_write(&mut self, now: Instant) {
        let (chunk, zerocopy) = (&self.chunk, self.zerocopy);
        let id = self.ids[0];
        self.link.pair.client.update(now, id, |connection, now| {
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
        self.link.collect(now, 0)
    }

    /// Data segments are received.
    #[inline(never)]
    pub fn phase_rx_data(&mut self, now: Instant) {
        self.link.deliver(now, 1);
    }

    /// The application reads all there is.
    #[inline(never)]
    pub fn app_read(&mut self, now: Instant) {
        let (into, zerocopy) = (&mut self.into, self.zerocopy);
        let id = self.ids[1];
        let read = self.link.pair.server.update(now, id, |connection, now| {
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
        self.link.collect(now, 1)
    }

    /// Acknowledgements are received.
    #[inline(never)]
    pub fn phase_rx_ack(&mut self, now: Instant) {
        self.link.deliver(now, 0);
    }
}
