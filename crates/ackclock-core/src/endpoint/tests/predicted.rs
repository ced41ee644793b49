//! The fast path against the slow path: two pairs of endpoints, one without header prediction, live the same
//! life and have the same state in every field after each step.

use std::fmt::Write;
use std::num::NonZeroU16;

use ackclock_control::congestion::Registry;
use ackclock_control::profile::{AckPolicy, Choices, Recovery, UndoChoice};
use ackclock_control::rtt::RtoConfig;
use ackclock_wire::pipe::Pipe;
use ackclock_wire::random::Rng;
use bytes::Bytes;

use super::*;
use crate::Counters;

/// Lives of one run. `ACKCLOCK_LIVES` sets more.
const LIVES: u64 = 60;
const STEPS: usize = 400;
/// Packets of a life that may be under way at a time.
const UNDER_WAY_MAX: usize = 200;

const POLICIES: [Recovery; 7] = [
    Recovery::GoBackN,
    Recovery::Tahoe,
    Recovery::Reno,
    Recovery::NewReno,
    Recovery::Vegas,
    Recovery::Sack,
    Recovery::RackTlp,
];

/// Settings for one end. All policies and controllers take their turns.
fn settings(choices: &mut Rng) -> TcpConfig {
    let mut tcp = TcpConfig {
        nodelay: choices.one_in(2),
        send_buffer_max: 64 << 10,
        receive_buffer_max: choices.pick(&[4 << 10, 32 << 10, 128 << 10]),
        choices: Choices {
            recovery: choices.pick(&POLICIES),
            undo: choices.pick(&[UndoChoice::OFF, UndoChoice::ALL]),
            acks: choices.pick(&[AckPolicy::EVERY_SECOND, AckPolicy::BSD_4_3]),
            rto: choices.pick(&[RtoConfig::default(), RtoConfig::RFC_6298]),
            timestamps: !choices.one_in(4),
            sack: !choices.one_in(4),
            pacing: choices.one_in(2),
            ..Choices::default()
        },
        ..TcpConfig::default()
    };
    let registry = Registry::builtin();
    let controller = choices.pick(&registry.names().collect::<Vec<_>>());
    tcp.congestion = registry.find(controller).expect("it is one of the names");
    tcp
}

/// The rate of each fault of the path: one packet in this many; 0: none.
#[derive(Clone, Copy)]
struct Harm {
    lost: u64,
    late: u64,
    doubled: u64,
    changed: u64,
}

/// A packet, and the size of the segments that it stands for.
#[derive(Clone)]
struct Arriving {
    bytes: Vec<u8>,
    segment_size: Option<NonZeroU16>,
}

/// Two endpoints, a connection, and the path between them.
struct HarmedPair {
    ends: [Endpoint; 2],
    ids: [ConnectionId; 2],
    now: Instant,
    harm: Harm,
    limits: Limits,
    /// Whether packets that arrive at the same time are handled in one call.
    batches: bool,
    /// Packets in transit: the receiving end, and the packet.
    path: Pipe<Instant, (usize, Arriving)>,
    /// Everything sent and read since the last comparison.
    seen: String,
}

impl HarmedPair {
    fn new(predicts: bool, harm: Harm, limits: Limits, mtu: usize, tcp: [TcpConfig; 2]) -> Self {
        let now = Instant::from_millis(1_000_000);
        let [client, server] = tcp.map(std::sync::Arc::new);
        let end = |addr, tcp| {
            let config = EndpointConfig { header_prediction: predicts, tcp, mtu, ..config(addr) };
            Endpoint::new(config, now)
        };
        let mut ends = [end(CLIENT, client), end(SERVER, server)];
        let listener = ends[1].listen(now, on_port(PORT)).unwrap();
        let client = ends[0].connect(now, server_socket(), (None, 0), None).unwrap();
        let quiet = Harm { lost: 0, late: 0, doubled: 0, changed: 0 };
        let mut pair = Self {
            ends,
            ids: [client; 2],
            now,
            harm: quiet,
            limits,
            batches: predicts,
            path: Pipe::new(),
            seen: String::new(),
        };
        let mut unused = Rng::new(1);
        for _ in 0..20 {
            pair.advance(&mut unused);
        }
        pair.ids[1] = pair.ends[1].accept(pair.now, listener).expect("the handshake is complete");
        pair.harm = harm;
        pair
    }

    /// One thing happens.
    fn step(&mut self, choices: &mut Rng) {
        let side = usize::from(choices.one_in(3));
        let (now, id) = (self.now, self.ids[side]);
        match choices.below(9) {
            0 | 1 => {
                let bytes = choices.pick(&[1, 100, 1448, 5000, 40_000]);
                let data: Bytes = (0..bytes).map(|k: u32| k.to_le_bytes()[0]).collect();
                let slices = choices.one_in(2);
                let written = self.ends[side].update(now, id, |connection, now| match slices {
                    true => connection.write_bytes(now, &data),
                    false => connection.write(now, &data),
                });
                write!(self.seen, "{written:?}").unwrap();
            }
            2 => {
                let (more, cork) = (choices.one_in(2), choices.one_in(4));
                self.ends[side].update(now, id, |connection, now| {
                    connection.set_more_follows(more);
                    connection.set_cork(now, cork);
                });
            }
            3 => {
                let mut into = vec![0; choices.pick(&[100, 3000, 200_000])];
                let read = self.ends[side].update(now, id, |connection, now| connection.read(now, &mut into));
                write!(self.seen, "{read:?}").unwrap();
            }
            _ => self.advance(choices),
        }
    }

    /// Sends packets, advances to the next event, and runs it.
    fn advance(&mut self, choices: &mut Rng) {
        for side in 0..2 {
            while let Some(packet) = self.ends[side].poll_transmit(self.now, self.limits) {
                let bytes = packet.to_vec();
                let segment_size = packet.segment_size;
                writeln!(self.seen, "{side} {segment_size:?} {:?}", &bytes[..60.min(bytes.len())]).unwrap();
                self.carry(choices, 1 - side, Arriving { bytes, segment_size });
            }
        }
        let due = self.ends.iter().filter_map(Endpoint::poll_timeout).min();
        let next = [due, self.path.next_due()].into_iter().flatten().min().unwrap_or(self.now);
        self.now = self.now.max(next);
        let due: Vec<_> = std::iter::from_fn(|| self.path.take_due(self.now)).map(|(_, due)| due).collect();
        for (side, end) in self.ends.iter_mut().enumerate() {
            let packets =
                due.iter().filter(|(to, _)| *to == side).map(|(_, Arriving { bytes, segment_size })| {
                    // Changed packets must reach the connection, so nothing verifies their checksums.
                    let meta = RxMeta { checksum: ChecksumState::Verified, segment_size: *segment_size };
                    RxPacket::new(bytes, meta)
                });
            if self.batches {
                end.handle_packets(self.now, packets);
            } else {
                packets.for_each(|packet| end.handle_packet(self.now, packet.bytes, packet.meta));
            }
        }
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
    }

    fn carry(&mut self, choices: &mut Rng, to: usize, mut packet: Arriving) {
        if choices.one_in(self.harm.lost) || self.path.in_transit() >= UNDER_WAY_MAX {
            return;
        }
        if choices.one_in(self.harm.changed) {
            change(choices, &mut packet.bytes);
        }
        let copies = if choices.one_in(self.harm.doubled) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if choices.one_in(self.harm.late) { choices.below(20_000) } else { 0 };
            self.path.carry(self.now + Duration::from_micros(5_000 + late), (to, packet.clone()));
        }
    }

    /// All that is visible of both ends, except how many segments took which path.
    fn look(&mut self) -> String {
        let mut seen = std::mem::take(&mut self.seen);
        for end in &self.ends {
            let counters = Counters { segments_predicted: 0, ..end.counters() };
            write!(seen, "{counters:?} {:?}", end.poll_timeout()).unwrap();
            for (id, connection) in end.connections() {
                write!(seen, "{id:?} {connection:?}").unwrap();
            }
        }
        seen
    }

    fn predicted(&self) -> u64 {
        self.ends.iter().map(|end| end.counters().segments_predicted).sum()
    }

    fn delivered(&self) -> u64 {
        self.ends.iter().map(|end| end.counters().segments_delivered).sum()
    }
}

fn server_socket() -> SocketAddr {
    server()
}

/// Changes one field of the TCP header.
fn change(choices: &mut Rng, bytes: &mut [u8]) {
    let header = 20..bytes.len().min(52);
    // Not the ports: the segment must belong to the connection.
    let at = header.start + 4 + usize::try_from(choices.below((header.len() - 4) as u64)).unwrap();
    bytes[at] = match choices.below(3) {
        0 => bytes[at].wrapping_add(1),
        1 => bytes[at] ^ 1 << choices.below(8),
        _ => choices.below(256).to_le_bytes()[0],
    };
}

fn fields_that_differ(long: &str, short: &str) -> String {
    let pairs = long.split(", ").zip(short.split(", ")).filter(|(long, short)| long != short);
    pairs.take(12).map(|(long, short)| format!("long: {long}\nshort: {short}\n")).collect()
}

#[test]
fn short_way_leaves_what_the_long_way_leaves() {
    let lives = std::env::var("ACKCLOCK_LIVES").map_or(LIVES, |lives| lives.parse().expect("a number"));
    let (mut predicted, mut delivered) = (0, 0);
    for seed in 1..=lives {
        let mut choices = Rng::new(seed);
        let tcp = [settings(&mut choices), settings(&mut choices)];
        let harm = Harm {
            lost: choices.pick(&[0, 0, 100, 20]),
            late: choices.pick(&[0, 0, 30]),
            doubled: choices.pick(&[0, 50]),
            changed: choices.pick(&[0, 0, 20]),
        };
        let gso_max_v4 = choices.pick(&[0, 0, 20_000, 65_535]);
        let limits = Limits { gso_max_v4, gso_max_v6: 0, tx_checksum: choices.one_in(2) };
        // The segments of the largest packets may span more than two slices of the send buffer.
        let mtu = choices.pick(&[1500, 1500, 1500, 65_535]);
        let [mut long, mut short] =
            [false, true].map(|predicts| HarmedPair::new(predicts, harm, limits, mtu, tcp.clone()));
        for step in 0..STEPS {
            let mut same = choices;
            long.step(&mut same);
            short.step(&mut choices);
            let (of_long, of_short) = (long.look(), short.look());
            assert!(
                of_long == of_short,
                "life {seed}, step {step}:\n{}",
                fields_that_differ(&of_long, &of_short)
            );
        }
        assert_eq!(long.predicted(), 0, "the long way alone");
        predicted += short.predicted();
        delivered += short.delivered();
    }
    let share = predicted * 100 / delivered;
    assert!((40..=98).contains(&share), "{predicted} of {delivered} segments took the short way");
}

#[test]
fn nearly_all_of_a_transfer_takes_the_short_way() {
    let mut pair = Pair::new();
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    let id = pair.client.connect(pair.now, server(), (None, 0), None).unwrap();
    pair.run(Duration::from_millis(50));
    let accepted = pair.server.accept(pair.now, listener).unwrap();
    let mut into = vec![0; 1 << 20];
    for _ in 0..200 {
        let now = pair.now;
        pair.client.update(now, id, |connection, now| connection.write(now, &[1; 100_000]));
        pair.run(Duration::from_millis(20));
        let now = pair.now;
        pair.server.update(now, accepted, |connection, now| connection.read(now, &mut into));
    }
    for (side, end) in [&pair.client, &pair.server].into_iter().enumerate() {
        let counters = end.counters();
        let others = counters.segments_delivered - counters.segments_predicted;
        assert!(counters.segments_delivered > 150, "end {side}: {}", counters.segments_delivered);
        // The SYN,ACK, or the last segment of the handshake.
        assert_eq!(others, 1, "end {side}: of {}", counters.segments_delivered);
    }
}
