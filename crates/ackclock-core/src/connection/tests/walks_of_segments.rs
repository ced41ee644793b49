//! One connection among segments of all kinds, with numbers at and beside the edges of what is acceptable.

use std::num::NonZeroU16;

use ackclock_wire::{
    AccEcn, AccEcnOrder, Codepoint, Experiment, FastOpenCookie, Flags, IcmpKind, SackBlocks, TcpOptions,
    UserTimeout,
};

use super::walks::{call, settings};
use super::*;
use crate::connection::send::SLICE_MIN;
use crate::connection::{FastOpenOffer, Handshake, Offer};
use crate::position::Position;

use crate::walks::{Walk, check};

const STEPS: u64 = 60;
const EXPERIMENT: Experiment = Experiment { id: 0x0ac0_0001, value: *b"segments" };

#[test]
fn a_connection_goes_as_before() {
    check("connection/tests/walks_of_segments.txt", 160, |walk| {
        let mut lone = Lone::new(walk);
        for _ in 0..STEPS {
            lone.step(walk);
            lone.transmit(walk);
            lone.see(walk);
            if lone.end.is_gone() {
                lone = Lone::new(walk);
            }
        }
    });
}

/// A connection, and what its peer would know.
struct Lone {
    end: Connection,
    now: Instant,
    limits: Limits,
    /// The timestamp of the peer's next segment.
    clock: u32,
    /// How many marks the peer has seen, once the handshake is over.
    marks: Option<u8>,
}

impl Lone {
    fn new(walk: &mut Walk) -> Self {
        let now = Instant::from_millis(100_000);
        let ip = |last: u8| match last % 2 {
            0 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)]),
            _ => IpAddr::from([10, 0, 0, last]),
        };
        let family = walk.pick(&[1, 1, 2]);
        let tuple = FourTuple::new(SocketAddr::new(ip(family), 1000), SocketAddr::new(ip(family + 2), 2000));
        let iss = walk.pick(&[1_000_000, u32::MAX - 3000, 0, (1 << 31) - 2000]);
        let env = Environment {
            mtu: walk.pick(&[1500, 1500, 1280, 9000]),
            tell_changes: walk.one_in(3),
            budget: Budget::new(walk.pick(&[64 << 20, 64 << 20, 20_000])),
            ..environment(iss)
        };
        let mut tcp = settings(walk);
        tcp.experiment = walk.one_in(3).then_some(EXPERIMENT);
        let irs = SeqNum::new(walk.pick(&[5_000_000, u32::MAX - 2000, u32::MAX, (1 << 31) - 1]));
        let data = vec![3; walk.pick(&[0, 10, 1460, 4000])];
        let offer = walk.pick(&[Offer::None, Offer::Classic, Offer::Accurate(Codepoint::Ce)]);
        let handshake = Handshake {
            irs,
            peer_mss: walk.pick(&[1460, 536, 216, 100]),
            window_scale: walk.pick(&[None, None, Some((0, 0)), Some((7, 7)), Some((14, 2))]),
            sack: !walk.one_in(4),
            timestamps: walk.one_in(2).then_some(1000),
            rtt: walk.one_in(2).then_some(Duration::from_millis(30)),
            repetitions: walk.pick(&[0, 0, 1, 3]),
            peer_window: walk.pick(&[65_535, 0, 1, 1000]),
            ecn: offer.agreement(walk.pick(&[0, 2])),
            experiment: walk.one_in(4).then_some(EXPERIMENT),
        };
        let cookie = FastOpenCookie::new(&[1; 8]).unwrap();
        let end = match walk.below(6) {
            0 => Connection::active(now, tuple, tcp.into(), &env),
            1 => {
                let cookie = walk.pick(&[cookie, cookie, FastOpenCookie::REQUEST]);
                let known = FastOpenOffer { cookie, mss: walk.pick(&[1460, 100, 40]) };
                let known = (!walk.one_in(4)).then_some(known);
                Connection::active_with_data(now, tuple, tcp.into(), &env, known, &data).0
            }
            2 => {
                let opening = (walk.one_in(2).then_some(cookie), offer);
                Connection::passive_with_data(now, tuple, tcp.into(), &env, handshake, opening, &data)
            }
            _ => Connection::passive(now, tuple, tcp.into(), &env, handshake),
        };
        let limits = walk.pick(&[software(1500), software(65_535), software(6000)]);
        Self { end, now, limits: Limits { tx_checksum: walk.one_in(2), ..limits }, clock: 1000, marks: None }
    }

    fn see(&mut self, walk: &mut Walk) {
        let (end, now) = (&mut self.end, self.now);
        walk.see(end);
        walk.see(&(end.info(now), end.delivery(), end.limited_by(), end.poll_timeout(), end.is_gone()));
        walk.see(&(end.is_flushed(), end.is_writable(), end.write_room(), end.urgent_remaining()));
        walk.see(&(end.is_readable(), end.is_read_closed(), end.is_write_closed(), end.stalled_since(now)));
        walk.see(&(end.take_readiness(), end.take_progress(), end.time_wait(), end.trace_due()));
    }

    fn step(&mut self, walk: &mut Walk) {
        let (end, now) = (&mut self.end, self.now);
        match walk.below(25) {
            0..=6 => self.hand_over(walk, false),
            7..=13 => self.hand_over(walk, true),
            14 | 15 => {
                let smss = end.snd.smss() as usize;
                let len = walk.pick(&[1, smss - 1, smss, smss + 1, 2 * smss, 5 * smss, 40_000]);
                walk.see(&end.write(now, &vec![7; len]));
            }
            16 | 17 => {
                let mut into = vec![0; walk.pick(&[1, 100, 4000, 100_000])];
                walk.see(&end.read(now, &mut into));
            }
            18 | 19 => call(end, now, walk),
            20 => self.rare(walk),
            _ => self.pass(walk),
        }
    }

    fn rare(&mut self, walk: &mut Walk) {
        let (end, now) = (&mut self.end, self.now);
        match walk.below(16) {
            0..=2 => walk.see(&end.shutdown(now)),
            3 if walk.one_in(3) => end.set_orphaned(now),
            4 if walk.one_in(3) => end.abort(now),
            5 => {
                let pmtu = end.snd.pmtu();
                let told = walk.pick(&[0, pmtu - 1, pmtu, 1280, 1279, 552, 551, 1006]);
                let (una, nxt) = (end.snd.flight().una().seq(), end.snd.flight().nxt().seq());
                let seq = walk.pick(&[una, una, una - 1, nxt - 1, nxt]);
                let all = [IcmpKind::PacketTooBig { mtu: told }, IcmpKind::PortUnreachable, IcmpKind::Other];
                end.handle_icmp(now, walk.pick(&all), seq);
            }
            6 | 7 => {
                let upto = walk.pick(&[0, 1, 1448, 10_000]);
                walk.see(&(end.await_delivered(upto), end.await_feedback(upto)));
            }
            8 => walk.see(&end.take_fast_open_outcome()),
            9 => end.on_pause(now),
            10 => walk.see(&(end.take_error(), end.take_soft_error())),
            11 => end.consume(now, walk.pick(&[0, 1, 1000])),
            12 => {
                let max = walk.pick(&[0, 1, 1000, 100_000]);
                walk.see(&end.read_bytes(now, max));
            }
            13 => {
                let bytes = vec![9; walk.pick(&[1, 1448, SLICE_MIN - 1, SLICE_MIN, 3 * SLICE_MIN])].into();
                walk.see(&end.write_bytes(now, &bytes));
            }
            14 => {
                end.request_trace();
                while let Some((reader, cause)) = end.trace_due() {
                    walk.see(&(cause, end.take_trace(reader)));
                }
            }
            _ => end.set_mtu(now, walk.pick(&[1500, 1280, 600])),
        }
    }

    /// Time passes, mostly until a deadline or just before it.
    fn pass(&mut self, walk: &mut Walk) {
        let until = self.end.poll_timeout().map_or(0, |at| at.nanos_since(self.now));
        let until = until.min(20_000_000_000);
        let nanos = walk.pick(&[0, 1, 1_000_000, 20_000_000, until, until, until, until.saturating_sub(1)]);
        self.now = self.now.plus_nanos(nanos);
        self.clock = self.clock.wrapping_add(u32::try_from(nanos / 1_000_000).unwrap());
        self.end.handle_timeout(self.now);
    }

    /// What leaves now, or the first of it.
    fn transmit(&mut self, walk: &mut Walk) {
        let most = walk.pick(&[0, 1, 100, 100]);
        let short = walk.one_in(2);
        for _ in 0..most {
            let mut header = [0; HEADER_MAX];
            let Some(out) = self.end.poll_transmit(self.now, self.limits, short, &mut header) else { return };
            walk.see(&(&header[..out.header_len], out));
        }
    }

    fn hand_over(&mut self, walk: &mut Walk, at_edge: bool) {
        let payload = vec![5; self.payload_len(walk)];
        let segment = if at_edge { self.at_edge(walk, &payload) } else { self.expected(walk, &payload) };
        let segment_size = NonZeroU16::new(walk.pick(&[0, 0, 0, 100, 730]));
        let meta = RxMeta { checksum: ChecksumState::Verified, segment_size };
        let all = [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce];
        self.end.handle_segment(self.now, &segment, meta, walk.pick(&all), None);
        self.marks = match self.marks {
            None => self.end.is_established().then_some(0),
            Some(marks) => Some(marks + u8::from(!at_edge && walk.one_in(4))),
        };
    }

    /// The ACE field that an honest peer sends (RFC 9768 §3.2.2).
    fn ace(&self) -> u8 {
        self.marks.map_or(2, |marks| (5 + marks) & 7)
    }

    fn payload_len(&self, walk: &mut Walk) -> usize {
        let window = usize::try_from(self.end.rcv.wnd()).unwrap_or(0).min(9000);
        walk.pick(&[0, 0, 0, 0, 1, 100, 1448, window, window + 1, window.saturating_sub(1)])
    }

    /// What an honest peer might send.
    fn expected<'a>(&self, walk: &mut Walk, payload: &'a [u8]) -> Segment<'a> {
        let end = &self.end;
        let opening = matches!(end.state(), State::SynSent);
        let smss = u64::from(end.snd.smss());
        let (una, nxt) = (end.snd.flight().una(), end.snd.flight().nxt());
        let some = (una + smss).min(nxt);
        let ace = if walk.one_in(20) { walk.pick(&[0, 1, 2, 3, 6]) } else { self.ace() };
        let mut flags = Flags::ACK | Flags::from_ace(ace);
        if opening {
            flags = flags | Flags::SYN;
        } else if walk.one_in(50) {
            flags = flags | Flags::FIN;
        }
        let mut segment = self.segment(walk, payload);
        segment.seq =
            if opening { walk.pick(&[SeqNum::new(77), SeqNum::new(u32::MAX)]) } else { end.rcv.nxt().seq() };
        segment.ack = walk.pick(&[una, some, nxt, nxt]).seq();
        segment.flags = flags;
        segment
    }

    /// A segment with any number one off.
    fn at_edge<'a>(&self, walk: &mut Walk, payload: &'a [u8]) -> Segment<'a> {
        let (end, len) = (&self.end, u32::try_from(payload.len()).unwrap());
        let (rcv, una, nxt) = (&end.rcv, end.snd.flight().una(), end.snd.flight().nxt());
        let reach = (rcv.limit_max() as u64).saturating_mul(2);
        let fin = rcv.fin().unwrap_or(rcv.nxt());
        let starts = [
            rcv.nxt(),
            rcv.nxt(),
            rcv.nxt(),
            rcv.edge(),
            rcv.irs(),
            fin,
            rcv.nxt().back(reach),
            rcv.nxt() + 2000,
        ];
        let acks = [una, nxt, nxt, end.snd.iss(), una.back(u64::from(end.snd.max_wnd())), una + 1448];
        let mut segment = self.segment(walk, payload);
        let back = walk.pick(&[0, 0, 0, 0, 0, len, len, len / 2]);
        segment.seq = beside(walk, &starts) - back;
        segment.ack = if walk.one_in(3) { beside(walk, &acks) } else { walk.pick(&[una, nxt]).seq() };
        let flags = walk.flags();
        let ace = if walk.one_in(4) { u8::try_from(walk.below(8)).unwrap() } else { self.ace() };
        segment.flags = flags | Flags::from_ace(ace);
        if segment.flags.intersects(Flags::RST | Flags::FIN) && !walk.one_in(4) {
            // Few at their place, or no walk would get far.
            segment.seq += walk.pick(&[1, 1000, u32::MAX]);
        }
        if walk.one_in(8) {
            segment.flags = segment.flags | Flags::RARE;
            let told = [UserTimeout::at_least(Duration::from_secs(5)), UserTimeout::at_least(Duration::ZERO)];
            segment.options.user_timeout = Some(walk.pick(&told));
        }
        segment
    }

    /// Window and options.
    fn segment<'a>(&self, walk: &mut Walk, payload: &'a [u8]) -> Segment<'a> {
        let (end, una) = (&self.end, self.end.snd.flight().una());
        let smss = u16::try_from(end.snd.smss()).unwrap();
        let shifted = u16::try_from(end.snd.wnd() >> end.snd.scale()).unwrap_or(u16::MAX);
        let windows = [65_535, 65_535, shifted, shifted, 0, 1, smss - 1, smss, smss + 1, 2 * smss];
        let mut options = TcpOptions::default();
        let old = walk.pick(&[0, 0, 0, 0, 0, 1, 1000, 1 << 31]);
        let echoed = end.timestamps.map_or(0, |timestamps| timestamps.value(self.now));
        let echoed = echoed.wrapping_sub(walk.pick(&[0, 10, 30, 5000]));
        let timestamps = (self.clock.wrapping_sub(old), echoed);
        options.timestamps = (end.timestamps.is_some() && !walk.one_in(20)).then_some(timestamps);
        let mut sack = SackBlocks::default();
        for _ in 0..walk.pick(&[0, 0, 0, 1, 2]) {
            let left = una + walk.pick(&[0, 1, 1448, 2896, 5000]);
            sack.push(
                left.seq() - walk.pick(&[0, 0, 0, 1]),
                left.seq() + walk.pick(&[1448, 1448, 1, 0, 2896]),
            );
        }
        options.sack = sack;
        options.accecn = walk.one_in(4).then(|| {
            let order = walk.pick(&[AccEcnOrder::Ect0First, AccEcnOrder::Ect1First]);
            let mut counter = || u32::try_from(walk.pick(&[0, 1, 1448, 10_000])).unwrap();
            let all = AccEcn::new(order, counter(), counter(), counter());
            all.truncated(walk.pick(&[3, 3, 2, 1, 0]))
        });
        if end.state() == State::SynSent {
            options.mss = walk.pick(&[None, Some(1460), Some(216), Some(215)]);
            options.window_scale = walk.pick(&[None, Some(0), Some(7), Some(15)]);
            options.sack_permitted = !walk.one_in(4);
            options.experiment = walk.one_in(2).then_some(EXPERIMENT);
            options.fast_open = walk.one_in(4).then_some(FastOpenCookie::REQUEST);
        }
        Segment {
            src_port: 2000,
            dst_port: 1000,
            seq: SeqNum::new(0),
            ack: SeqNum::new(0),
            flags: Flags::ACK,
            window: walk.pick(&windows),
            urgent: walk.pick(&[0, 1, 2, 100]),
            options,
            payload,
        }
    }
}

/// One of these, or a number beside it.
fn beside(walk: &mut Walk, all: &[Position]) -> SeqNum {
    walk.pick(all).seq() - 1 + walk.pick(&[0, 1, 1, 1, 2])
}
