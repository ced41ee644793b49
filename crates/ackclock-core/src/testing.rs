//! Two endpoints and what is on the way between them, for tests and benchmarks.
//!
//! ```
//! use ackclock_core::testing::Pair;
//! use ackclock_core::{EndpointConfig, Instant, ListenAddr, ListenOptions};
//!
//! let config = |addr: &str| EndpointConfig::new(vec![addr.parse().expect("an address")], [1; 32]);
//! let mut pair = Pair::at(Instant::from_millis(1), config("10.0.0.1"), config("10.0.0.2"));
//! let port = ListenAddr { addr: None, port: Some(7) };
//! let listener = pair.server.listen(pair.now, ListenOptions::new(port))?;
//! let [client, server] = pair.open("10.0.0.2:7".parse()?, listener);
//!
//! pair.client.update(pair.now, client, |connection, now| connection.write(now, b"hello")).expect("open")?;
//! pair.run(2 * Pair::DELAY);
//! let mut into = [0; 5];
//! let read = pair.server.update(pair.now, server, |connection, now| connection.read(now, &mut into));
//! assert_eq!((read.expect("open")?, &into), (5, b"hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(
    not(test),
    expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "a side is 0 or 1, and a panic fails the test"
    )
)]

use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock_wire::{ChecksumState, RxMeta};

use crate::{ConnectionId, Endpoint, EndpointConfig, Instant, Limits, ListenerId, RxPacket};

/// A client and a server, sides 0 and 1, in virtual time.
#[derive(Debug)]
pub struct Pair {
    /// Side 0.
    pub client: Endpoint,
    /// Side 1.
    pub server: Endpoint,
    /// The time. Only [`run`](Self::run) and the caller let it pass.
    pub now: Instant,
    /// The limits of both devices; at first, they carry nothing but packets.
    pub limits: Limits,
    /// Whether the devices have verified the checksums of what arrives.
    pub verified: bool,
    /// Which packets that [`run`](Self::run) or [`carry`](Self::carry) sends get lost, by their side and
    /// their number, from 1 on.
    pub lose: fn(usize, u64) -> bool,
    /// How many packets those have sent for each side.
    pub counts: [u64; 2],
    on_the_way: [OnTheWay; 2],
}

/// The packets on their way to a side, back to back in one buffer.
#[derive(Debug, Default)]
struct OnTheWay {
    bytes: Vec<u8>,
    /// The end of each in `bytes`, and its metadata.
    packets: Vec<(usize, RxMeta)>,
}

impl Pair {
    /// How long a packet takes.
    pub const DELAY: Duration = Duration::from_millis(5);

    /// Two endpoints without connections, made at `now`.
    #[must_use]
    pub fn at(now: Instant, client: EndpointConfig, server: EndpointConfig) -> Self {
        Self {
            client: Endpoint::new(client, now),
            server: Endpoint::new(server, now),
            now,
            limits: Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false },
            verified: false,
            lose: |_, _| false,
            counts: [0; 2],
            on_the_way: Default::default(),
        }
    }

    /// The endpoint of a side.
    #[inline]
    pub fn end(&mut self, side: usize) -> &mut Endpoint {
        if side == 0 { &mut self.client } else { &mut self.server }
    }

    /// Opens a connection of the client's and accepts it, in no time. Returns the ids of both ends.
    ///
    /// # Panics
    /// The handshake does not complete, as it must where nothing is lost.
    pub fn open(&mut self, to: SocketAddr, listener: ListenerId) -> [ConnectionId; 2] {
        let client = self.client.connect(self.now, to, (None, 0), None).expect("a port is free");
        for from in [0, 1, 0, 1] {
            self.collect(from, u64::MAX);
            self.deliver(1 - from);
        }
        let accepted = self.server.accept(self.now, listener).expect("the handshake is complete");
        while [&mut self.client, &mut self.server].into_iter().any(|end| end.poll_event().is_some()) {}
        [client, accepted]
    }

    /// Carries packets both ways and runs timers, until nothing happens within `span`.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.send(0);
            self.send(1);
            if self.on_the_way.iter().any(|on_the_way| !on_the_way.packets.is_empty()) {
                self.now += Self::DELAY;
            } else if let Some(due) = self.next_timeout().filter(|due| *due <= end) {
                self.now = self.now.max(due);
            } else {
                self.now = self.now.max(end);
                return;
            }
            self.deliver(1);
            self.deliver(0);
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
        }
    }

    /// The packets that `from` sends now and that do not get lost. The caller delivers them.
    pub fn carry(&mut self, from: usize) -> Vec<Vec<u8>> {
        self.send(from);
        mem::take(&mut self.on_the_way[1 - from]).packets().map(|packet| packet.bytes.to_vec()).collect()
    }

    /// Puts up to `most` packets of `from` on the way. Returns how many there were.
    pub fn collect(&mut self, from: usize, most: u64) -> u64 {
        let mut sent = 0;
        let end = if from == 0 { &mut self.client } else { &mut self.server };
        while sent < most && end.has_outgoing() {
            let Some(packet) = end.poll_transmit(self.now, self.limits) else { break };
            let checksum = if self.verified { ChecksumState::Verified } else { packet.checksum };
            let OnTheWay { bytes, packets } = &mut self.on_the_way[1 - from];
            packet.parts().iter().for_each(|part| bytes.extend_from_slice(part));
            packets.push((bytes.len(), RxMeta { checksum, ..packet.meta() }));
            sent += 1;
        }
        sent
    }

    /// Puts all packets of `from` on the way that do not get lost.
    fn send(&mut self, from: usize) {
        while self.collect(from, 1) == 1 {
            self.counts[from] += 1;
            if (self.lose)(from, self.counts[from]) {
                self.on_the_way[1 - from].lose_last();
            }
        }
    }

    /// Lets `to` process what is on the way to it.
    pub fn deliver(&mut self, to: usize) {
        let end = if to == 0 { &mut self.client } else { &mut self.server };
        let on_the_way = &mut self.on_the_way[to];
        end.handle_packets(self.now, on_the_way.packets());
        on_the_way.bytes.clear();
        on_the_way.packets.clear();
    }

    /// When the first timer of either end expires.
    fn next_timeout(&self) -> Option<Instant> {
        [&self.client, &self.server].into_iter().filter_map(Endpoint::poll_timeout).min()
    }
}

impl OnTheWay {
    fn packets(&self) -> impl Iterator<Item = RxPacket<'_>> {
        let mut start = 0;
        self.packets
            .iter()
            .map(move |&(end, meta)| RxPacket::new(&self.bytes[mem::replace(&mut start, end)..end], meta))
    }

    fn lose_last(&mut self) {
        self.packets.pop();
        self.bytes.truncate(self.packets.last().map_or(0, |&(end, _)| end));
    }
}
