//! Two connections joined directly, in virtual time.

mod acks;
mod afterwards;
mod blocks;
mod calls;
mod closed_window;
mod cut;
mod duplicates;
mod edges;
mod events;
mod feedback;
mod karn;
mod lone;
mod marks;
mod memory;
mod optimistic;
mod options;
mod pacing;
mod sacked;
mod sender;
mod slices;
mod timeout;
mod traces;
mod transfer;
mod undo;
mod waiting;
mod walks;
mod walks_of_segments;
mod window;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ackclock_wire::pipe::Pipe;
use ackclock_wire::{ChecksumState, HEADER_MAX, IpPacket, IpPayload, RxMeta, Segment, SeqNum};
use bytes::Bytes;

use super::{Connection, Environment, FlowLabels, State};
use crate::budget::Budget;
use crate::trace::{Entry, TraceClock, TraceConfig, TraceKeep};
use crate::{FourTuple, Instant, Limits, TcpConfig};

/// Decides the fate of packet `n` from side `side` on the path between the two.
pub(super) type PathRule = Box<dyn FnMut(usize, u64) -> Fate>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Deliver(Duration),
    Drop,
}

/// Two ends and the packets in transit between them.
pub(super) struct ConnectionPair {
    pub(super) now: Instant,
    pub(super) ends: [Connection; 2],
    pub(super) limits: Limits,
    /// How late timers expire.
    pub(super) late: Duration,
    wire: Pipe<Instant, (usize, Bytes, RxMeta)>,
    packets: [u64; 2],
    path: PathRule,
}

pub(super) const DELAY: Duration = Duration::from_millis(10);

pub(super) fn perfect() -> PathRule {
    Box::new(|_, _| Fate::Deliver(DELAY))
}

pub(super) fn software(mtu: usize) -> Limits {
    Limits { gso_max_v4: mtu, gso_max_v6: mtu, tx_checksum: false }
}

/// The environment that an endpoint would give a connection with this ISS.
pub(super) fn environment(iss: u32) -> Environment {
    Environment {
        iss: SeqNum::new(iss),
        known: None,
        timestamp_offset: iss / 3,
        flow_labels: FlowLabels::NONE,
        mtu: 1500,
        budget: Budget::new(64 << 20),
        timer_granularity: Duration::from_millis(1),
        tell_changes: false,
        #[cfg(feature = "tcp-ao")]
        authenticated: false,
    }
}

impl ConnectionPair {
    /// One end traces all that it does from now on.
    pub(super) fn trace(&mut self, end: usize) {
        self.ends[end].set_trace(self.now, Some(TraceConfig { records: 1 << 20, keep: TraceKeep::All }));
    }

    /// Its trace.
    pub(super) fn traced(&self, end: usize) -> Vec<(Instant, Entry)> {
        let mut clock = TraceClock::default();
        let entry = |record| (clock.time(record), Entry::decode(record).expect("each record is known"));
        self.ends[end].trace().map(entry).collect()
    }

    /// A simultaneous open: the shortest way to two established connections without an endpoint.
    pub(super) fn crossing(configs: [TcpConfig; 2], limits: Limits, path: PathRule) -> Self {
        let now = Instant::from_millis(1000);
        let addr = |last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), 1000 + u16::from(last));
        let [one, two] = configs;
        let end = |local, remote, tcp: TcpConfig, iss| {
            let tuple = FourTuple::new(addr(local), addr(remote));
            Connection::active(now, tuple, tcp.into(), &environment(iss))
        };
        let ends = [end(1, 2, one, u32::MAX - 20_000), end(2, 1, two, (1 << 31) - 10_000)];
        Self { now, ends, limits, late: Duration::ZERO, wire: Pipe::new(), packets: [0; 2], path }
    }

    pub(super) fn established(configs: [TcpConfig; 2], path: PathRule) -> Self {
        let mut pair = Self::crossing(configs, software(1500), perfect());
        pair.run_for(Duration::from_millis(100));
        assert_eq!(pair.states(), [State::Established; 2]);
        pair.packets = [0; 2];
        pair.path = path;
        pair
    }

    fn states(&self) -> [State; 2] {
        [self.ends[0].state(), self.ends[1].state()]
    }

    /// Both ends send all that they want to.
    fn flush(&mut self) {
        for side in 0..2 {
            let mut header = [0; HEADER_MAX];
            while let Some(out) = self.ends[side].poll_transmit(self.now, self.limits, true, &mut header) {
                let mut packet = header[..out.header_len].to_vec();
                packet.extend(self.ends[side].payload(&out).concat());
                let number = self.packets[side];
                self.packets[side] += 1;
                if let Fate::Deliver(delay) = (self.path)(side, number) {
                    let meta = RxMeta { checksum: out.checksum, segment_size: out.segment_size };
                    self.wire.carry(self.now + delay, (1 - side, packet.into(), meta));
                }
                assert!(number < 5_000_000, "the two never come to rest");
            }
        }
    }

    /// Advances to the next event; `false` if there is none.
    fn step(&mut self, until: Instant) -> bool {
        self.flush();
        let late = self.late;
        let timers = self.ends.iter().filter_map(Connection::poll_timeout).map(|at| at + late).min();
        let Some(next) = [timers, self.wire.next_due()].into_iter().flatten().min().filter(|&at| at <= until)
        else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(next);
        while let Some((_, (side, packet, meta))) = self.wire.take_due(self.now) {
            deliver(&mut self.ends[side], self.now, &packet, meta);
        }
        for end in &mut self.ends {
            if end.poll_timeout().is_some_and(|at| at + late <= self.now) {
                end.handle_timeout(self.now);
            }
        }
        true
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
        self.flush();
    }

    /// Moves `bytes` from side 0 to side 1, whose reader takes all at once. Returns how long it took.
    pub(super) fn transfer(&mut self, bytes: usize) -> Duration {
        let start = self.now;
        let (mut written, mut read) = (0, 0);
        let mut buffer = vec![0; 1 << 16];
        let mut may_write = true;
        while read < bytes {
            // As a task does: writes until it would block, then waits for readiness.
            may_write |= self.ends[0].take_readiness().writable;
            while may_write && written < bytes {
                let chunk: Vec<u8> = (written..bytes.min(written + 50_000)).map(pattern).collect();
                match self.ends[0].write(self.now, &chunk) {
                    Ok(n) => written += n,
                    Err(_) => may_write = false,
                }
            }
            while let Ok(n) = self.ends[1].read(self.now, &mut buffer) {
                assert!(n > 0, "the stream ended early");
                assert!(buffer[..n].iter().enumerate().all(|(i, &b)| b == pattern(read + i)), "wrong byte");
                read += n;
            }
            let limit = self.now + Duration::from_secs(1000);
            assert!(
                self.step(limit) || read == bytes,
                "stalled at {read} of {bytes}: {:?}",
                self.ends[0].info(self.now)
            );
        }
        self.now.saturating_since(start)
    }
}

fn pattern(i: usize) -> u8 {
    (i.wrapping_mul(31) ^ (i >> 8)) as u8
}

fn deliver(end: &mut Connection, now: Instant, packet: &Bytes, meta: RxMeta) {
    let ip = IpPacket::parse(packet).unwrap();
    let IpPayload::Tcp(tcp) = ip.payload else { panic!("not TCP") };
    let segment = Segment::parse(ip.src, ip.dst, tcp, meta.checksum).unwrap();
    assert!(meta.checksum == ChecksumState::Complete || meta.checksum.is_partial());
    end.handle_segment(now, &segment, meta, ip.ecn(), Some(packet));
}
