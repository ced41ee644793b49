//! One connection among segments of all kinds, with numbers at and beside the edges of what is acceptable,
//! beside the rules of RFC 9293 §3.10.7.4 and a map of every byte that arrived.

use std::collections::BTreeSet;
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

use crate::walks::{Walk, each};

const STEPS: u64 = 60;
const EXPERIMENT: Experiment = Experiment { id: 0x0ac0_0001, value: *b"segments" };

#[test]
fn a_connection_takes_what_the_standard_accepts_and_nothing_else() {
    each(160, |walk| {
        let mut lone = Lone::new(walk);
        for _ in 0..STEPS {
            lone.step(walk);
            lone.transmit(walk);
            lone.check();
            if lone.end.is_gone() {
                lone = Lone::new(walk);
            }
        }
        let budget = lone.budget.clone();
        drop(lone);
        assert_eq!(budget.used(), 0, "all memory is given back");
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
    budget: Budget,
    /// Whether memory never runs out.
    plenty: bool,
    /// Every byte that arrived within the window.
    arrived: BTreeSet<Position>,
    /// The furthest that the peer's window has reached.
    offered: Position,
    /// The byte to read next.
    read: Position,
    /// The last acknowledgement number.
    acked: Position,
}

/// The state that a segment may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    state: State,
    rcv_nxt: Position,
    una: Position,
    readable: usize,
    ended: bool,
}

/// The byte that the peer sends at this sequence number.
fn byte(seq: SeqNum) -> u8 {
    (seq.raw().wrapping_mul(0x9e37_79b1) >> 24) as u8
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
        let memory = walk.pick(&[64 << 20, 64 << 20, 20_000]);
        let env = Environment {
            mtu: walk.pick(&[1500, 1500, 1280, 9000]),
            tell_changes: walk.one_in(3),
            budget: Budget::new(memory),
            ..environment(iss)
        };
        let mut tcp = settings(walk);
        tcp.experiment = walk.one_in(3).then_some(EXPERIMENT);
        let irs = SeqNum::new(walk.pick(&[5_000_000, u32::MAX - 2000, u32::MAX, (1 << 31) - 1]));
        let len: u32 = walk.pick(&[0, 10, 1460, 4000]);
        let data: Vec<_> = (0..len).map(|offset| byte(irs + 1 + offset)).collect();
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
        let limits = Limits { tx_checksum: walk.one_in(2), ..limits };
        Self {
            now,
            limits,
            clock: 1000,
            marks: None,
            plenty: memory > 20_000,
            arrived: (0..end.readable() as u64).map(|offset| end.rcv.irs() + 1 + offset).collect(),
            offered: end.snd.flight().una(),
            read: end.rcv.irs() + 1,
            acked: end.rcv.irs(),
            budget: env.budget,
            end,
        }
    }

    fn known(&self) -> Known {
        Known {
            state: self.end.state(),
            rcv_nxt: self.end.rcv.nxt(),
            una: self.end.snd.flight().una(),
            readable: self.end.readable(),
            ended: self.end.has_peer_ended(),
        }
    }

    /// Checks the invariants that hold between any two events.
    fn check(&mut self) {
        let (end, now) = (&mut self.end, self.now);
        let info = end.info(now);
        assert!(info.sacked + info.lost + info.in_flight <= info.unacked, "{info:?}");
        if end.state().is_synchronized() && end.error().is_none() {
            assert!(end.snd.flight().nxt() <= end.snd.data_end() + 1);
            assert_eq!(end.is_writable(), end.write_room() > 0 || end.is_write_closed());
            assert!(!end.is_flushed() || info.send_queue == 0);
            let window = end.snd.flight().una() + u64::from(end.snd.wnd());
            self.offered = self.offered.max(window);
        }
        assert!(!end.is_readable() || end.readable() > 0 || end.has_peer_ended());
        assert_eq!(end.is_read_closed(), end.readable() == 0 && end.has_peer_ended());
        end.take_readiness();
        end.take_progress();
        assert!(self.budget.used() <= if self.plenty { 64 << 20 } else { 20_000 });
        assert!(end.poll_timeout().is_none() || !end.is_gone(), "nothing is left to do");
    }

    fn step(&mut self, walk: &mut Walk) {
        let (end, now) = (&mut self.end, self.now);
        match walk.below(25) {
            0..=6 => self.hand_over(walk, false),
            7..=13 => self.hand_over(walk, true),
            14 | 15 => {
                let smss = end.snd.smss() as usize;
                let len = walk.pick(&[1, smss - 1, smss, smss + 1, 2 * smss, 5 * smss, 40_000]);
                let (before, room) = (end.written(), end.write_room());
                if let Ok(took) = end.write(now, &vec![7; len]) {
                    assert!(took <= len.min(room) && end.written() == before + took as u64);
                }
            }
            16 | 17 => {
                let mut into = vec![0; walk.pick(&[1, 100, 4000, 100_000])];
                let readable = end.readable();
                if let Ok(len) = end.read(now, &mut into) {
                    assert_eq!(len, readable.min(into.len()));
                    self.was_read(&into[..len]);
                }
            }
            18 | 19 => call(end, now, walk),
            20 => self.rare(walk),
            _ => self.pass(walk),
        }
    }

    fn rare(&mut self, walk: &mut Walk) {
        let (end, now) = (&mut self.end, self.now);
        match walk.below(16) {
            0..=2 => assert!(end.shutdown(now).is_err() || end.is_write_closed()),
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
                let acked = end.acked();
                let told = end.await_delivered(upto);
                assert_eq!(told.map(|(bytes, _)| bytes), (acked >= upto).then_some(acked));
                assert!(told.is_none_or(|(_, at)| at <= now));
                assert!(end.await_feedback(end.feedback_changes()).is_none());
            }
            8 => {
                end.take_fast_open_outcome();
                assert!(end.take_fast_open_outcome().is_none(), "told once");
            }
            9 => end.on_pause(now),
            10 => {
                end.take_soft_error();
                assert!(end.take_soft_error().is_none(), "told once");
            }
            11 => {
                let most = walk.pick(&[0, 1, 1000]);
                let mut seen = vec![0; most];
                let seen_len = end.peek(&mut seen).unwrap_or(0);
                end.consume(now, most);
                self.was_read(&seen[..seen_len]);
            }
            12 => {
                let max = walk.pick(&[0, 1, 1000, 100_000]);
                if let Ok(taken) = end.read_bytes(now, max) {
                    assert!(taken.len() <= max);
                    self.was_read(&taken);
                }
            }
            13 => {
                let bytes = vec![9; walk.pick(&[1, 1448, SLICE_MIN - 1, SLICE_MIN, 3 * SLICE_MIN])].into();
                let before = end.written();
                let took = end.write_bytes(now, &bytes).unwrap_or(0);
                assert_eq!(end.written(), before + took as u64);
            }
            14 => {
                end.request_trace();
                while let Some((reader, _)) = end.trace_due() {
                    let (_, records, _) = end.take_trace(reader);
                    assert!(records.into_iter().all(|record| Entry::decode(record).is_some()));
                }
            }
            _ => end.set_mtu(now, walk.pick(&[1500, 1280, 600])),
        }
    }

    /// The application took these bytes.
    fn was_read(&mut self, bytes: &[u8]) {
        for found in bytes {
            assert_eq!(*found, byte(self.read.seq()), "the byte that was sent");
            assert!(self.arrived.contains(&self.read), "it arrived");
            self.read += 1;
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

    /// Takes the segments that leave now, or the first of them.
    fn transmit(&mut self, walk: &mut Walk) {
        let most = walk.pick(&[0, 1, 100, 100]);
        let short = walk.one_in(2);
        for _ in 0..most {
            let mut header = [0; HEADER_MAX];
            let Some(out) = self.end.poll_transmit(self.now, self.limits, short, &mut header) else { return };
            let packet = [&header[..out.header_len], &self.end.payload(&out).concat()].concat();
            self.sends(&packet, out.checksum);
        }
    }

    /// Checks a packet that leaves. It must be well-formed, acknowledge everything received in order, and
    /// stay within the peer's window.
    fn sends(&mut self, packet: &[u8], checksum: ChecksumState) {
        let ip = IpPacket::parse(packet).unwrap();
        let IpPayload::Tcp(tcp) = ip.payload else { panic!("not TCP") };
        let segment = Segment::parse(ip.src, ip.dst, tcp, checksum).unwrap();
        let end = &self.end;
        if segment.flags.contains(Flags::RST) || segment.flags.contains(Flags::SYN) || end.is_gone() {
            return;
        }
        let (start, nxt) = (end.snd.flight().una().near(segment.seq), end.snd.flight().nxt());
        let text_end = start + segment.payload.len() as u64;
        let data_end = end.snd.data_end();
        let most = if segment.payload.is_empty() { nxt } else { nxt.min(data_end) };
        assert!(text_end <= most, "{segment:?} of {nxt:?}, {data_end:?}: {:?}", end.state());
        // RFC 9293 MAY-7; a window probe is one byte beyond.
        let offered = self.offered.max(end.snd.flight().una() + u64::from(end.snd.wnd()));
        assert!(
            segment.payload.is_empty() || text_end <= offered + 1,
            "{segment:?} beyond {offered:?}: {:?}",
            end.state()
        );
        // What receive offload joined may be acknowledged piece by piece, in order.
        let ack = end.rcv.nxt().near(segment.ack);
        assert!((self.acked..=end.rcv.nxt()).contains(&ack), "{segment:?} after {:?}", self.acked);
        self.acked = ack;
    }

    fn hand_over(&mut self, walk: &mut Walk, at_edge: bool) {
        let len = self.payload_len(walk);
        let segment = if at_edge { self.at_edge(walk, len) } else { self.expected(walk) };
        let first = segment.seq + u32::from(segment.flags.contains(Flags::SYN));
        let text: Vec<_> = (0..len as u32).map(|offset| byte(first + offset)).collect();
        let segment = Segment { payload: &text, ..segment };
        let segment_size = NonZeroU16::new(walk.pick(&[0, 0, 0, 100, 730]));
        let meta = RxMeta { checksum: ChecksumState::Verified, segment_size };
        let all = [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce];
        let (before, edge, nxt) = (self.known(), self.end.rcv.edge(), self.end.snd.flight().nxt());
        let knows_irs = before.state != State::SynSent;
        if knows_irs {
            self.note_text(&segment, edge);
        }
        self.end.handle_segment(self.now, &segment, meta, walk.pick(&all), None);
        if before.state.is_synchronized() {
            self.judge(&segment, before, edge, nxt);
        } else if !knows_irs {
            self.read = self.end.rcv.irs() + 1;
            self.acked = self.end.rcv.irs();
            self.arrived = (0..self.end.readable() as u64).map(|offset| self.read + offset).collect();
        }
        self.marks = match self.marks {
            None => self.end.is_established().then_some(0),
            Some(marks) => Some(marks + u8::from(!at_edge && walk.one_in(4))),
        };
    }

    /// Notes the text within the window.
    fn note_text(&mut self, segment: &Segment<'_>, edge: Position) {
        let nxt = self.end.rcv.nxt();
        let start = nxt.near(segment.seq + u32::from(segment.flags.contains(Flags::SYN)));
        let places = (0..segment.payload.len() as u64).map(|offset| start + offset);
        self.arrived.extend(places.filter(|place| nxt <= *place && *place < edge));
    }

    /// RFC 9293 §3.10.7.4, without the exceptions: what a segment may change, and must.
    fn judge(&mut self, segment: &Segment<'_>, before: Known, edge: Position, nxt: Position) {
        let after = self.known();
        let (start, len) = (before.rcv_nxt.near(segment.seq), u64::from(segment.seq_len()));
        let has = |flags| segment.flags.contains(flags);
        let in_window = |place: Position| before.rcv_nxt <= place && place < edge;
        let acceptable = match (len, edge > before.rcv_nxt) {
            (0, false) => start == before.rcv_nxt,
            (0, true) => in_window(start),
            // A FIN takes no room.
            (_, false) => start == before.rcv_nxt && segment.payload.is_empty(),
            (_, true) => in_window(start) || in_window((start + len).back(1)),
        };
        if has(Flags::RST) {
            // RFC 5961 §3.2: exactly the next number resets; another changes nothing.
            let resets = start == before.rcv_nxt;
            assert!(resets || after == before, "{segment:?}");
            assert!(
                !resets || after.state == State::Closed || before.state == State::TimeWait,
                "{segment:?}"
            );
            return;
        }
        if has(Flags::SYN) || !has(Flags::ACK) {
            // RFC 5961 §4.2, and the fifth step: dropped.
            assert_eq!(after, before, "{segment:?}");
            return;
        }
        let ack = before.una.near(segment.ack);
        if ack > nxt {
            assert_eq!(after, before, "it acknowledges what was never sent: {segment:?}");
            return;
        }
        let advanced = after.una == ack && ack > before.una;
        assert!(
            after.una == before.una || advanced || after.state == State::Closed,
            "{segment:?}, {after:?}"
        );
        assert!(after.rcv_nxt == before.rcv_nxt || acceptable, "{segment:?} beside {before:?}..{edge:?}");
        // Bytes become readable in order, and only those that arrived.
        let mut next = before.rcv_nxt;
        while self.arrived.contains(&next) {
            next += 1;
        }
        let taken = after.rcv_nxt.since(before.rcv_nxt);
        let fin = u64::from(after.ended && !before.ended);
        assert!(before.rcv_nxt + taken <= next + fin, "{taken} bytes of {}", next.since(before.rcv_nxt));
    }

    /// The ACE field that an honest peer sends (RFC 9768 §3.2.2).
    fn ace(&self) -> u8 {
        self.marks.map_or(2, |marks| (5 + marks) & 7)
    }

    fn payload_len(&self, walk: &mut Walk) -> usize {
        let window = usize::try_from(self.end.rcv.wnd()).unwrap_or(0).min(9000);
        walk.pick(&[0, 0, 0, 0, 1, 100, 1448, window, window + 1, window.saturating_sub(1)])
    }

    /// A segment that an honest peer might send.
    fn expected(&self, walk: &mut Walk) -> Segment<'static> {
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
        let mut segment = self.segment(walk);
        segment.seq =
            if opening { walk.pick(&[SeqNum::new(77), SeqNum::new(u32::MAX)]) } else { end.rcv.nxt().seq() };
        segment.ack = walk.pick(&[una, some, nxt, nxt]).seq();
        segment.flags = flags;
        segment
    }

    /// A segment with any number one off.
    fn at_edge(&self, walk: &mut Walk, len: usize) -> Segment<'static> {
        let (end, len) = (&self.end, u32::try_from(len).unwrap());
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
        let mut segment = self.segment(walk);
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
    fn segment(&self, walk: &mut Walk) -> Segment<'static> {
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
            payload: &[],
        }
    }
}

/// One of these, or a number beside it.
fn beside(walk: &mut Walk, all: &[Position]) -> SeqNum {
    walk.pick(all).seq() - 1 + walk.pick(&[0, 1, 1, 1, 2])
}
