//! One endpoint's life, step by step, and the oracles that run after each step.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use ackclock_core::{Connection, ConnectionId, Instant, ListenAddr, ListenOptions, ListenerId, State};
use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta};

use super::{Answers, Input, LifeTotals, Scene};
use crate::host::{Host, check_frame, host_addr};
use crate::icmp::icmp_error;
use crate::segment::{ACK, FIN, Frame, Opt, PSH, SYN, Seg, seg};

/// The endpoint, and what the peer of the current connection knows.
#[derive(Debug)]
pub(super) struct Life<'a> {
    host: Host,
    answers: &'a mut Answers,
    listener: ListenerId,
    conn: Option<ConnectionId>,
    local: SocketAddr,
    peer: Peer,
    /// The last packet that the endpoint sent.
    last: Vec<u8>,
    outcome: LifeTotals,
}

/// The peer's side of the current connection.
#[derive(Debug)]
struct Peer {
    addr: SocketAddr,
    iss: u32,
    /// Next sequence number to send.
    nxt: u32,
    /// The endpoint's initial sequence number, and the end of what it has sent.
    irs: Option<u32>,
    seen: u32,
    /// The bytes that the peer has acknowledged.
    acked: u32,
    timestamps: bool,
    ts_seen: u32,
    /// Noise may have been taken for data: the bytes read cannot be checked.
    noisy: bool,
    /// Bytes read from it, and bytes written to it.
    read: u32,
    written: u32,
}

impl Peer {
    fn new(addr: SocketAddr, iss: u32) -> Self {
        Self {
            addr,
            iss,
            nxt: iss.wrapping_add(1),
            irs: None,
            seen: 0,
            acked: 0,
            timestamps: false,
            ts_seen: 0,
            noisy: false,
            read: 0,
            written: 0,
        }
    }
}

impl<'a> Life<'a> {
    pub(super) fn new(scene: Scene, answers: &'a mut Answers) -> Self {
        let start = Instant::from_millis(3_600_000);
        let local = SocketAddr::new(host_addr(scene.v6, 1), 80);
        let mut host = Host::new(scene.config, start);
        host.gso_max = scene.gso_max;
        let options = ListenOptions::new(ListenAddr { addr: None, port: Some(local.port()) });
        let listener = host.endpoint.listen(start, options).expect("the port is free");
        let peer = Peer::new(SocketAddr::new(host_addr(scene.v6, 2), PEER_PORT), 0xffff_f000);
        Self {
            host,
            answers,
            listener,
            conn: None,
            local,
            peer,
            last: Vec::new(),
            outcome: LifeTotals::default(),
        }
    }

    pub(super) fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0 => self.next_connection(input),
            1 | 2 => self.advance(input.duration()),
            3 => self.expire(),
            4 | 5 => self.write(input),
            6 => self.read(input),
            7 => self.call(input),
            8 | 9 => self.acknowledge(input),
            10 | 11 => self.send_next(input),
            12 | 13 => self.send_near(input),
            14 => self.noise(input),
            _ => self.surroundings(input),
        }
        self.transmit();
        self.check();
        self.answers.figures(self.host.now, &self.host.endpoint);
        while let Some(batch) = self.host.endpoint.poll_trace() {
            self.answers.trace(&batch);
        }
    }

    /// Everything is released; time passes until nothing is left.
    pub(super) fn end(mut self) -> LifeTotals {
        if let Some(id) = self.conn.take() {
            self.note_end(id);
            self.host.endpoint.release(self.host.now, id);
        }
        self.host.endpoint.close_listener(self.host.now, self.listener);
        self.transmit();
        for _ in 0..END_TIMEOUTS_MAX {
            if self.host.next_timeout().is_none() {
                let left: Vec<_> =
                    self.host.endpoint.connections().map(|(_, c)| c.info(self.host.now)).collect();
                assert!(left.is_empty(), "connections without a timer: {left:?}");
                assert_eq!(self.host.endpoint.memory().0, 0, "buffers without a connection");
                return self.outcome;
            }
            self.expire();
            self.transmit();
            self.check();
        }
        let left: Vec<_> = self.host.endpoint.connections().map(|(_, c)| c.info(self.host.now)).collect();
        panic!("the endpoint does not come to rest: {:?}, {left:?}", self.host.endpoint);
    }

    fn note_end(&mut self, id: ConnectionId) {
        if let Some(connection) = self.host.endpoint.connection(id) {
            self.outcome.again += connection.info(self.host.now).retransmits;
        }
    }

    /// The current connection is left alone or released, and another one begins, from either side.
    fn next_connection(&mut self, input: &mut Input<'_>) {
        if let Some(id) = self.conn.take() {
            self.note_end(id);
            self.host.endpoint.release(self.host.now, id);
        }
        let port = self.peer.addr.port();
        let addr =
            SocketAddr::new(self.peer.addr.ip(), if input.chance(3) { port } else { port % 60_000 + 1 });
        let iss = input.pick(&[0xffff_f000, 0x7fff_f000, 1, 0xdead_beef]);
        self.peer = Peer::new(addr, iss);
        let passive = input.chance(2);
        if !passive {
            let local = (None, input.pick(&[0, 4_000]));
            self.conn = self.host.endpoint.connect(self.host.now, addr, local, None).ok();
            if let Some(connection) = self.conn.and_then(|id| self.host.endpoint.connection(id)) {
                self.local = connection.tuple().local();
            }
            self.transmit();
        } else {
            self.local.set_port(80);
        }
        let flags = if passive { SYN } else { SYN | ACK };
        let options = self.syn_options(input);
        self.peer.timestamps = options.iter().any(|option| matches!(option, Opt::Timestamps(..)));
        self.receive(Seg { options, ..seg(flags).seq(iss).window(input.pick(&WINDOWS)) });
        if passive {
            self.transmit();
            self.receive(seg(ACK).seq(self.peer.nxt).window(input.pick(&WINDOWS)));
            self.conn = self.host.endpoint.accept(self.host.now, self.listener);
            let remote = self.connection().map(|connection| connection.tuple().remote());
            self.peer.noisy |= remote != Some(self.peer.addr);
        }
        let established = self.connection().is_some_and(Connection::is_established);
        self.outcome.established += u64::from(established);
    }

    fn syn_options(&self, input: &mut Input<'_>) -> Vec<Opt> {
        let chosen = input.byte();
        let mss = input.pick(&[1_460, 1_460, 0, 1, 536, 65_535]);
        let all =
            [Opt::Mss(mss), Opt::SackPermitted, Opt::Timestamps(1, self.peer.ts_seen), Opt::WindowScale(7)];
        let chosen = all.into_iter().enumerate().filter(|(i, _)| chosen >> (2 * i) & 3 != 0);
        chosen.map(|(_, option)| option).collect()
    }

    fn advance(&mut self, by: Duration) {
        let until = self.host.now + by;
        for _ in 0..TIMEOUTS_MAX {
            let Some(at) = self.host.next_timeout().filter(|at| *at <= until) else { break };
            self.host.wake(at);
            self.transmit();
        }
        self.host.now = until.max(self.host.now);
    }

    /// The next timer expires, a little late.
    fn expire(&mut self) {
        let Some(at) = self.host.next_timeout() else { return };
        self.host.wake(at);
        self.transmit();
        for _ in 0..SPURIOUS_MAX {
            if self.host.next_timeout().is_none_or(|next| next > at) {
                return;
            }
            self.host.wake(at);
            self.transmit();
        }
        panic!("the timer at {at:?} does not go away");
    }

    fn write(&mut self, input: &mut Input<'_>) {
        let len = usize::from(input.word()) << (input.byte() % 4);
        let Some(id) = self.conn else { return };
        let data = pattern(self.peer.written, len.min(self.write_room()));
        let written = self.host.endpoint.update(self.host.now, id, |c, now| c.write(now, &data));
        self.answers.told("write", &written);
        if let Some(Ok(count)) = written {
            self.peer.written = self.peer.written.wrapping_add(count as u32);
        }
    }

    /// How much more may wait, so that a life whose peer does not answer does not send millions of segments.
    fn write_room(&self) -> usize {
        let info = self.connection().map(|connection| connection.info(self.host.now));
        info.map_or(0, |info| (WAITING_MAX * info.snd_mss as usize).saturating_sub(info.send_queue))
    }

    fn read(&mut self, input: &mut Input<'_>) {
        let mut into = vec![0; usize::from(input.word()) << (input.byte() % 4)];
        let Some(id) = self.conn else { return };
        let read = self.host.endpoint.update(self.host.now, id, |c, now| c.read(now, &mut into));
        self.answers.told("read", &read);
        let Some(Ok(count)) = read else { return };
        // Each byte read is the one that the peer sent at its place.
        let noisy = self.peer.noisy;
        assert!(
            noisy || into[..count] == pattern(self.peer.read, count),
            "wrong bytes at {}",
            self.peer.read
        );
        self.peer.read = self.peer.read.wrapping_add(count as u32);
        self.outcome.read += count as u64;
    }

    /// Any other call of an application.
    fn call(&mut self, input: &mut Input<'_>) {
        let Some(id) = self.conn else { return };
        let (what, on, by) = (input.byte() % 12, input.chance(2), input.duration());
        let told = self.host.endpoint.update(self.host.now, id, |connection, now| match what {
            0..3 => connection.shutdown(now).is_ok(),
            3 => {
                connection.abort(now);
                true
            }
            4 => {
                connection.set_nodelay(now, on);
                true
            }
            5 | 6 => {
                connection.set_cork(now, on);
                true
            }
            7 => connection.set_user_timeout(now, on.then_some(by)).is_ok(),
            8 => {
                connection.set_send_buffer_max(by.as_micros() as usize);
                true
            }
            9 => {
                connection.set_receive_buffer_max(by.as_micros() as usize);
                true
            }
            10 => connection.take_error().is_some() || connection.take_soft_error().is_some(),
            _ => connection.is_flushed(),
        });
        self.answers.told("call", &told);
        if what == 11 && on {
            self.note_end(id);
            self.host.endpoint.release(self.host.now, id);
            self.conn = None;
        }
    }

    /// The peer acknowledges: all, a part, nothing new, with holes.
    fn acknowledge(&mut self, input: &mut Input<'_>) {
        let outstanding = self.peer.seen.wrapping_sub(self.peer.acked);
        let how = input.byte();
        let part = match how % 8 {
            0..4 => outstanding,
            4 | 5 => outstanding.min(u32::from(input.pick(&[1_u16, 536, 1_448, 1_460, 2_920]))),
            6 => outstanding / 2,
            _ => 0,
        };
        let ack = self.peer.acked.wrapping_add(part);
        let mut segment = seg(ACK).seq(self.peer.nxt).ack(ack).window(input.pick(&WINDOWS));
        if how >= 128 {
            let mut left = ack;
            let blocks = (0..1 + how % 3).map(|_| {
                let start = left.wrapping_add(u32::from(input.pick(&[1_u16, 1_448, 1_460, 2_896, 60_000])));
                left = start.wrapping_add(u32::from(input.pick(&[1_u16, 536, 1_448, 1_460, 4_380])));
                (start, left)
            });
            let mut blocks: Vec<_> = blocks.collect();
            if input.chance(8) {
                // RFC 2883: the first block reports a duplicate.
                blocks.insert(0, (ack.wrapping_sub(1_448), ack));
            }
            segment = segment.opt(Opt::Sack(blocks));
        }
        if how & 64 != 0 {
            // Marks counted or echoed (RFC 3168, RFC 9768).
            segment.flags |= input.byte() & 0xc0;
        }
        self.peer.acked = ack;
        self.receive(segment);
    }

    /// The peer sends what comes next, in order.
    fn send_next(&mut self, input: &mut Input<'_>) {
        let (len, count) = (usize::from(input.pick(&[1_u16, 100, 536, 1_448, 1_460])), 1 + input.byte() % 8);
        for _ in 0..count {
            let segment = self.data(self.peer.nxt, len);
            self.peer.nxt = segment.end();
            self.receive(segment);
        }
        if input.chance(16) {
            let fin = seg(FIN | ACK).seq(self.peer.nxt).ack(self.peer.acked).window(input.pick(&WINDOWS));
            self.peer.nxt = self.peer.nxt.wrapping_add(1);
            self.receive(fin);
        }
    }

    /// A segment near what a peer would send: out of order, too old, too far, with any flags.
    fn send_near(&mut self, input: &mut Input<'_>) {
        let distance = |input: &mut Input<'_>| {
            let far = input.long();
            input.pick(&[0, 0, 1, 1_460, 2_920, 65_535, 1 << 31, u32::MAX, u32::MAX - 1_459, far])
        };
        let seq = self.peer.nxt.wrapping_add(distance(input));
        let ack = self.peer.acked.wrapping_add(distance(input));
        let len = usize::from(input.pick(&[0_u16, 1, 1_448, 1_460]));
        let flags = input.pick(&[ACK, ACK, ACK, ACK | PSH, ACK | FIN, input.0.first().copied().unwrap_or(0)]);
        let mut segment = Seg { flags, ack, ..self.data(seq, len) };
        if segment.has(SYN) {
            // A SYN takes the number that the first byte would have.
            segment.payload.clear();
        }
        segment.window = input.pick(&WINDOWS);
        segment.urgent = input.word();
        if input.chance(4) {
            segment.options = vec![Opt::Raw(input.bytes(8).to_vec())];
        }
        self.receive(segment);
    }

    fn data(&self, seq: u32, len: usize) -> Seg {
        let offset = seq.wrapping_sub(self.peer.iss).wrapping_sub(1);
        seg(ACK | PSH).seq(seq).ack(self.peer.acked).data(&pattern(offset, len))
    }

    /// Bytes that are not a packet, a damaged packet, or one of the endpoint's own.
    fn noise(&mut self, input: &mut Input<'_>) {
        let mut packet = match input.byte() % 3 {
            0 => input.bytes(80).to_vec(),
            1 => self.last.clone(),
            _ => self.frame(self.data(self.peer.nxt, 100)).to_bytes(),
        };
        for _ in 0..input.byte() % 8 {
            let at = usize::from(input.byte());
            if let Some(byte) = packet.get_mut(at) {
                *byte = input.byte();
            }
        }
        packet.truncate(usize::from(input.byte()).max(20) * 8);
        let checksum = input.pick(&[
            ChecksumState::Complete,
            ChecksumState::Verified,
            ChecksumState::Partial(ChecksumAt::tcp(20)),
        ]);
        // Damage may cancel itself out in the sum.
        self.peer.noisy |= checksum != ChecksumState::Complete || Frame::parse(&packet).is_ok();
        let meta = RxMeta { checksum, segment_size: NonZeroU16::new(input.word()) };
        self.host.receive_as(&packet, meta);
    }

    /// Changes of routers and of the device.
    fn surroundings(&mut self, input: &mut Input<'_>) {
        match input.byte() % 4 {
            0 => self.host.set_mtu(input.pick(&[1_280, 1_500, 9_000, 65_535])),
            1 if !self.last.is_empty() => {
                let router = host_addr(self.local.is_ipv6(), 254);
                let kind = input.pick(&[(3, 4), (3, 1), (3, 3), (11, 0), (2, 0), (1, 4)]);
                let about = self.last.clone();
                self.host.receive(&icmp_error(
                    router,
                    kind,
                    input.pick(&[0, 68, 600, 1_280, 1_400, 1 << 20]),
                    &about,
                ));
            }
            2 => self.host.endpoint.handle_timeout(Instant::ZERO),
            _ => self.host.endpoint.handle_timeout(self.host.now + input.duration() / 100),
        }
    }

    fn frame(&self, mut segment: Seg) -> Frame {
        if self.peer.timestamps && segment.timestamps().is_none() && segment.options.is_empty() {
            let clock = self.host.now.as_nanos() / 1_000_000;
            segment.options.push(Opt::Timestamps(clock as u32, self.peer.ts_seen));
        }
        Frame::new(self.peer.addr, self.local, segment)
    }

    fn receive(&mut self, mut segment: Seg) {
        if segment.has(ACK) && segment.ack == 0 {
            segment.ack = self.peer.seen;
            self.peer.acked = self.peer.seen;
        }
        let packet = self.frame(segment).to_bytes();
        self.host.receive(&packet);
        self.transmit();
    }

    fn transmit(&mut self) {
        for _ in 0..PACKETS_MAX {
            let Some(packets) = self.host.transmit_cut() else {
                let events = self.host.events();
                if !events.is_empty() {
                    self.answers.told("events", &events);
                }
                return;
            };
            for packet in packets {
                self.answers.packet(self.host.now, false, &packet);
                let frame = check_frame(&packet, self.host.mtu())
                    .unwrap_or_else(|why| panic!("{why}: {packet:02x?}"));
                self.outcome.packets += 1;
                self.observe(&frame);
                self.last = packet;
            }
        }
        panic!("the endpoint does not stop sending: {:?}", self.host.endpoint);
    }

    fn observe(&mut self, frame: &Frame) {
        let (segment, peer) = (&frame.seg, &mut self.peer);
        if frame.dst != peer.addr || frame.src != self.local {
            return;
        }
        if segment.has(SYN) {
            // The answer to the SYN of an earlier connection with this four-tuple.
            peer.noisy |= segment.has(ACK) && segment.ack != peer.iss.wrapping_add(1);
            peer.irs = Some(segment.seq);
            peer.seen = segment.end();
            peer.acked = peer.acked.max(segment.seq);
        }
        let Some(irs) = peer.irs else { return };
        if let Some((val, _)) = segment.timestamps() {
            peer.ts_seen = val;
        }
        if segment.end().wrapping_sub(peer.seen) < 1 << 31 {
            peer.seen = segment.end();
        }
        // The byte at a sequence number is always the same.
        let offset = segment.seq.wrapping_sub(irs).wrapping_sub(1);
        let len = segment.payload.len();
        assert!(segment.payload == pattern(offset, len), "other bytes at {offset}: {frame:?}");
        self.outcome.sent += len as u64;
    }

    fn connection(&self) -> Option<&Connection> {
        self.conn.and_then(|id| self.host.endpoint.connection(id))
    }

    fn check(&self) {
        let (used, limit) = self.host.endpoint.memory();
        assert!(used <= limit, "{used} bytes accounted, {limit} allowed");
        let Some(info) = self.connection().map(|connection| connection.info(self.host.now)) else { return };
        assert!(info.cwnd > 0 && info.snd_mss > 0, "{info:?}");
        assert!(info.in_flight <= info.unacked + 1 && info.sacked <= info.unacked, "{info:?}");
        assert!(info.rto <= Duration::from_secs(240), "RTO {:?}", info.rto);
        if info.unacked > 0 && info.state != State::Closed {
            assert!(self.host.next_timeout().is_some(), "no timer is armed: {info:?}");
        }
    }
}

const PEER_PORT: u16 = 4_242;
const WINDOWS: [u16; 6] = [65_535, 65_535, 8_192, 1, 0, 1_460];
/// Segments that wait to be sent or acknowledged.
const WAITING_MAX: usize = 600;
const TIMEOUTS_MAX: usize = 200;
const END_TIMEOUTS_MAX: usize = 20_000;
const SPURIOUS_MAX: usize = 1_000;
const PACKETS_MAX: usize = 100_000;

/// The bytes of either stream from `offset` on, which wraps as sequence numbers do.
fn pattern(offset: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (offset.wrapping_add(i) % 251) as u8).collect()
}
