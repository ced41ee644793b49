//! A sender beside a naive one, which keeps every byte of the stream, how often and when it left, and what
//! the peer has said.
//!
//! After each of many events the segments that left, the figures of [`info`](Connection::info), the timer and
//! the writer's readiness are those of the model; nothing that may leave stays, and nothing else leaves. Path
//! and peer are honest; every second walk loses one segment in eight.

use ackclock_wire::{Codepoint, Fields, Flags, SackBlocks, TcpOptions};

use super::lone::{Lone, SMSS, handshake};
use super::*;
use crate::connection::Handshake;
use crate::walks::{Walk, each};

/// How long the sender may hold back less than a segment: before a small window (RFC 9293 §3.8.6.2.1 allows
/// 0.1 to 1 s), and with a cork in.
const HELD: Duration = Duration::from_millis(200);

/// By how many bits the peer shifts its window (RFC 7323 §2).
const SCALE: u8 = 3;

/// How long the memory of an empty buffer is kept, twice: it may have been used just after a look.
const KEPT: Duration = Duration::from_secs(1);

/// A byte that was written.
#[derive(Clone, Copy, Default)]
struct Byte {
    value: u8,
    /// How often it left, and after which step the last time.
    left: u32,
    left_in: u64,
    arrived: bool,
}

/// A segment as the peer sees it: the offsets of its text in the stream, and its flags.
struct Seen {
    at: Instant,
    start: usize,
    end: usize,
    flags: Flags,
}

/// A connection, and what a naive one would know.
struct Sender {
    lone: Lone,
    stream: Vec<Byte>,
    /// How far the stream was sent, and how far it was acknowledged.
    sent: usize,
    acked: usize,
    /// The window that the peer has at all, how far its application has read, and the edge that it has said.
    window: usize,
    read: usize,
    edge: usize,
    window_max: usize,
    sack: bool,
    nodelay: bool,
    /// Since when data waits behind a cork.
    corked: bool,
    held_since: Option<Instant>,
    /// Since when less than a segment waits before a window that is smaller.
    small_since: Option<Instant>,
    closed: bool,
    fins: u32,
    buffer_max: usize,
    /// Whether the application found less room than it wanted, and was not told of any since.
    blocked: bool,
    /// Segments on the way to the peer, and whether it has had the FIN.
    wire: Vec<Seen>,
    finished: bool,
    /// How many timers and reports of a gap there were: reasons to send again.
    step: u64,
    /// The last of these, and what was sent then.
    reason: u64,
    reason_sent: usize,
    /// A timer has just expired: a closed window may be probed.
    expired: bool,
}

impl Sender {
    fn new(walk: &mut Walk) -> Self {
        let (window, sack) = (walk.pick(&[2_000, 20_000, 64_000, 400_000]), walk.one_in(2));
        let mut tcp = TcpConfig::default();
        tcp.choices.pacing = false;
        let buffer_max = tcp.send_buffer_max;
        // RFC 7323 §2.2: not in units yet.
        let peer_window = window.min(65_535) as u16;
        let handshake = Handshake { sack, peer_window, window_scale: Some((SCALE, 0)), ..handshake() };
        let mut lone = Lone::agreed(tcp, handshake);
        assert!(lone.end.take_readiness().writable);
        if walk.one_in(3) {
            lone.limits = Limits { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true };
        }
        Self {
            lone,
            stream: Vec::new(),
            sent: 0,
            acked: 0,
            window,
            read: 0,
            edge: peer_window.into(),
            window_max: peer_window.into(),
            sack,
            nodelay: false,
            corked: false,
            held_since: None,
            small_since: None,
            closed: false,
            fins: 0,
            buffer_max,
            blocked: false,
            wire: Vec::new(),
            finished: false,
            step: 1,
            reason: 0,
            reason_sent: 0,
            expired: false,
        }
    }

    /// The offset in the stream of the first byte with this sequence number.
    fn offset(&self, seq: u32) -> usize {
        SeqNum::new(seq).offset_from(SeqNum::new(5001)) as usize
    }

    fn write(&mut self, len: usize) {
        let info = self.lone.end.info(self.lone.now);
        // What is outstanding, or the window if that is more, and another window to follow it.
        let queued = self.stream.len() - self.acked;
        let limit = info.cwnd.max(info.unacked) + info.cwnd;
        let limit = (limit as usize).max(64 << 10).min(self.buffer_max);
        let start = self.stream.len();
        let value = |at: usize| (at % 251) as u8;
        let data: Vec<u8> = (start..start + len).map(value).collect();
        let written = match self.lone.end.write(self.lone.now, &data) {
            Ok(written) => written,
            Err(_) if self.closed => return,
            Err(_) => 0,
        };
        assert_eq!(written, len.min(limit.saturating_sub(queued)), "of {limit} bytes {queued} are taken");
        self.stream.extend(data[..written].iter().map(|&value| Byte { value, ..Byte::default() }));
        self.blocked |= written < len;
    }

    /// All that leaves now. Each segment is what the rules allow.
    fn transmit(&mut self) {
        let mut header = [0; HEADER_MAX];
        while let Some(out) = self.lone.end.poll_transmit(self.lone.now, self.lone.limits, true, &mut header)
        {
            let at = usize::from(out.transport_offset);
            let start =
                self.offset(u32::from_be_bytes(header[at + 4..at + 8].try_into().expect("four bytes")));
            let flags = Flags::from_bits(u16::from_be_bytes([header[at + 12] & 1, header[at + 13]]));
            let text = self.lone.end.payload(&out).concat();
            let size = out.segment_size.map_or(text.len().max(1), |size| size.get().into());
            let mut from = 0;
            loop {
                let until = text.len().min(from + size);
                // A device that cuts a packet leaves the end to its last piece.
                let last = until == text.len();
                let flags = if last { flags } else { flags.without(Flags::FIN | Flags::PSH) };
                let segment = Seen { at: self.lone.now, start: start + from, end: start + until, flags };
                self.judge(&segment, &text[from..until]);
                self.wire.push(segment);
                if last {
                    break;
                }
                from = until;
            }
        }
    }

    fn judge(&mut self, segment: &Seen, text: &[u8]) {
        let Seen { start, end, flags, .. } = *segment;
        let len = end - start;
        assert!(flags.contains(Flags::ACK) && !flags.intersects(Flags::SYN | Flags::RST | Flags::URG));
        // A FIN goes with the last of the text; text that goes again, and a probe, may go without.
        let (fin, probes) = (flags.contains(Flags::FIN), len == 1 && start == self.edge && self.expired);
        let is_last = self.closed && end == self.stream.len();
        assert!(!fin || is_last, "{start}..{end}: a FIN before the end");
        assert!(fin || !is_last || start < self.sent || probes || len == 0, "{start}..{end}: no FIN");
        self.fins += u32::from(flags.contains(Flags::FIN));
        if len == 0 {
            return;
        }
        let values = self.stream[start..end].iter().map(|byte| byte.value);
        assert!(values.eq(text.iter().copied()), "what was written at {start}");
        assert!(len <= SMSS);
        // RFC 9293 MUST-61: the last of what is buffered is pushed, and it alone.
        assert_eq!(flags.contains(Flags::PSH), end == self.stream.len(), "{start}..{end}");
        assert!(end <= self.edge || probes, "{start}..{end} beyond {}", self.edge);
        assert!(start <= self.sent, "no byte is left out");
        if start < self.sent {
            let (reason, again) = (self.reason, &self.stream[start..end.min(self.sent)]);
            assert!(
                again.iter().all(|byte| byte.left_in < reason),
                "{start}..{end} leaves again without a reason"
            );
        } else if len < SMSS && !probes {
            self.judge_short(end, len);
        }
        for byte in &mut self.stream[start..end] {
            (byte.left, byte.left_in) = (byte.left + 1, self.step);
        }
        self.sent = self.sent.max(end);
    }

    /// Nagle's algorithm, the cork, and the silly window (RFC 9293 §3.7.4, §3.8.6.2.1).
    fn judge_short(&self, end: usize, len: usize) {
        let now = self.lone.now;
        let expired = |since: Option<Instant>| since.is_some_and(|since| now >= since + HELD);
        if end == self.stream.len() {
            let idle = self.sent == self.acked;
            let may =
                self.closed || if self.corked { expired(self.held_since) } else { self.nodelay || idle };
            assert!(may || expired(self.held_since), "a tail of {len} bytes should wait");
            return;
        }
        assert_eq!(
            end,
            self.edge,
            "less than a segment for no reason: {len} of {}, {} sent",
            self.stream.len(),
            self.sent
        );
        assert!(2 * len >= self.window_max || expired(self.small_since), "{len} bytes into a small window");
    }

    /// One event, and all that leaves because of it.
    fn go(&mut self, walk: &mut Walk) {
        let now = self.lone.now;
        match walk.below(14) {
            0..=2 => self.write(walk.pick(&[1, 100, SMSS, 3 * SMSS + 7, 50_000, 1 << 20])),
            3 => {
                self.nodelay = walk.one_in(2);
                self.lone.end.set_nodelay(now, self.nodelay);
            }
            4 => {
                self.corked = walk.one_in(3);
                self.lone.end.set_cork(now, self.corked);
            }
            5 => {
                self.buffer_max = walk.pick(&[1, 5_000, 4 << 20]);
                self.lone.end.set_send_buffer_max(self.buffer_max);
            }
            6..=8 => self.hear(walk),
            9 | 10 => {
                self.read += walk.pick(&[0, 1, 700, SMSS, 1 << 20]).min(self.acked - self.read);
                self.acknowledge();
            }
            11 => self.pass_until(now + Duration::from_millis(walk.pick(&[1, 20, 190, 300]))),
            12 if self.lone.end.poll_timeout().is_some() => {
                let due = self.lone.end.poll_timeout().expect("it runs");
                self.pass_until(now.max(due));
            }
            _ if walk.one_in(20) && !self.closed => {
                self.closed = true;
                self.lone.end.shutdown(now).expect("it is open");
            }
            _ => {}
        }
        self.transmit();
    }

    /// Time passes. Timers expire when they are due.
    fn pass_until(&mut self, at: Instant) {
        while let Some(due) = self.lone.end.poll_timeout().filter(|due| *due <= at) {
            self.lone.now = self.lone.now.max(due);
            self.give_reason();
            self.expired = true;
            self.lone.end.handle_timeout(self.lone.now);
            self.transmit();
            self.expired = false;
            self.note_waiting();
        }
        self.lone.now = at;
    }

    fn give_reason(&mut self) {
        self.step += 1;
        (self.reason, self.reason_sent) = (self.step, self.sent);
    }

    /// Segments on the way arrive, or are lost, and the peer acknowledges those that it has.
    fn hear(&mut self, walk: &mut Walk) {
        let lossy = walk.number() % 2 == 1;
        if let Some(last) = self.wire.last() {
            self.pass_until(self.lone.now.max(last.at + ROUND_TRIP));
        }
        for segment in std::mem::take(&mut self.wire) {
            if lossy && walk.one_in(8) {
                continue;
            }
            let taken = segment.end.min(self.edge).max(segment.start);
            self.stream[segment.start..taken].iter_mut().for_each(|byte| byte.arrived = true);
            self.finished |= segment.flags.contains(Flags::FIN);
            self.acknowledge();
        }
    }

    fn acknowledge(&mut self) {
        let held = &self.stream[self.acked..];
        let next = self.acked + held.iter().take_while(|byte| byte.arrived).count();
        let all = self.finished && next == self.stream.len();
        // What arrived beyond a gap.
        let behind = next + self.stream[next..].iter().take_while(|byte| !byte.arrived).count();
        let len = self.stream[behind..].iter().take_while(|byte| byte.arrived).count();
        let seq = |offset: usize| SeqNum::new(5001) + offset as u32;
        let mut sack = SackBlocks::default();
        if len > 0 && self.sack {
            sack.push(seq(behind), seq(behind + len));
        }
        if next == self.acked && self.sent > self.acked {
            // A duplicate.
            self.give_reason();
        }
        let window = (self.read + self.window - next) >> SCALE << SCALE;
        if self.sent > self.edge && next + window > self.edge {
            // The peer had no room for the byte of a probe.
            self.give_reason();
        }
        (self.acked, self.edge) = (next, next + window);
        self.window_max = self.window_max.max(window);
        let ack = seq(next) + u32::from(all);
        let options = TcpOptions { sack, ..TcpOptions::default() };
        let fields = Fields { options, ..self.lone.ack(ack, (window >> SCALE) as u16) };
        self.lone.give(&fields, Codepoint::NotEct, &[]);
    }

    /// No segment is left to leave, and the figures are those of the model.
    fn check(&mut self, story: &str) {
        let info = self.lone.end.info(self.lone.now);
        let outstanding = self.sent - self.acked;
        let unsent = self.stream.len() - self.sent;
        let fin = u64::from(self.fins > 0 && info.unacked > outstanding as u64);
        assert_eq!(info.unacked, outstanding as u64 + fin, "{story}");
        assert_eq!(info.send_queue, self.stream.len() - self.acked, "{story}");
        assert_eq!(info.bytes_acked, self.acked as u64, "{story}");
        let left: u64 = self.stream.iter().map(|byte| u64::from(byte.left)).sum();
        assert_eq!((info.bytes_sent, info.bytes_retransmitted), (left, left - self.sent as u64), "{story}");
        // Nothing that may leave stays.
        let room = info.cwnd.saturating_sub(info.in_flight) as usize;
        let usable = room.min(self.edge.saturating_sub(self.sent));
        let calm = self.acked >= self.reason_sent;
        if calm {
            // A FIN carries no data; the window does not hold it back.
            assert!(
                info.in_flight <= info.cwnd + fin,
                "{story}: {} in flight of {}",
                info.in_flight,
                info.cwnd
            );
            assert!(unsent < SMSS || usable < SMSS, "{story}: {unsent} unsent, {usable} usable");
            let may = self.closed || !self.corked && (self.nodelay || outstanding == 0);
            assert!(unsent == 0 || unsent > usable || !may, "{story}: {unsent} unsent, {usable} usable");
            assert!(!self.closed || unsent > 0 || self.fins > 0, "{story}: no FIN");
        }
        let waits =
            info.unacked > 0 || unsent > 0 && self.edge <= self.sent || unsent > 0 && outstanding == 0;
        assert!(!waits || self.lone.end.poll_timeout().is_some(), "{story}: no timer");
        if info.unacked == 0 && unsent == 0 && !self.closed {
            // Only the memory of the empty buffer, which is kept for a moment.
            let (timeout, capacity) = (self.lone.end.poll_timeout(), self.lone.end.buffer_capacity());
            assert_eq!(timeout.is_some(), capacity > 0, "{story}: {capacity} bytes kept until {timeout:?}");
            assert!(timeout.is_none_or(|at| at <= self.lone.now + KEPT), "{story}: kept until {timeout:?}");
        }
        // A writer that found no room learns of it, and of nothing else.
        let writable = self.lone.end.take_readiness().writable;
        let queued = self.stream.len() - self.acked;
        let news = self.blocked && queued < self.buffer_max;
        let of = self.buffer_max;
        assert!(
            !writable || self.closed || news,
            "{story}: no room, {queued} of {of}, blocked {}",
            self.blocked
        );
        self.blocked &= !writable;
        assert!(!self.blocked || queued > 0, "{story}: it is not told of room");
        self.note_waiting();
    }

    /// Since when something waits.
    fn note_waiting(&mut self) {
        let unsent = self.stream.len() - self.sent;
        let outstanding = self.sent - self.acked;
        let now = self.lone.now;
        let since = |waits: bool, since: Option<Instant>| if waits { since.or(Some(now)) } else { None };
        self.held_since = since(self.corked && unsent > 0, self.held_since);
        let small = (1..unsent.min(SMSS)).contains(&self.edge.saturating_sub(self.sent));
        self.small_since = since(small && outstanding == 0, self.small_since);
    }
}

/// The round trip of the handshake, and of everything from then on: a peer that answered sooner would have to
/// prove that it has the data that it acknowledges.
const ROUND_TRIP: Duration = Duration::from_millis(20);

#[test]
fn a_sender_sends_what_a_naive_one_would() {
    each(200, |walk| {
        let mut sender = Sender::new(walk);
        for step in 0..300 {
            sender.go(walk);
            sender.check(&format!("step {step}"));
            if sender.finished && sender.acked == sender.stream.len() {
                break;
            }
        }
    });
}
