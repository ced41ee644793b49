//! The wire between the ends: packets under way, and their accidents.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

use ackclock_core::{Instant, Limits};
use ackclock_tests::host::check_frame;
use ackclock_tests::icmp::{icmp_error, packet_too_big};
use ackclock_tests::segment::{Frame, Opt, SYN, Seg, seg};
use ackclock_wire::{ChecksumState, IpPacket, IpPayload, RxMeta, gso};

use super::calls::{nth, port_of};
use super::scene::Forged;
use super::{FuzzedPair, addr_of};

/// A packet under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flying {
    /// The side that it goes to.
    to: bool,
    sent: Instant,
    damaged: bool,
    bytes: Vec<u8>,
}

impl Flying {
    fn new(to: bool, sent: Instant, bytes: Vec<u8>) -> Self {
        Self { to, sent, damaged: false, bytes }
    }

    pub(super) fn is_for_second(&self) -> bool {
        self.to
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.damaged
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl FuzzedPair {
    /// Collects the packets that the endpoints want to send. Each packet is checked.
    pub(super) fn collect(&mut self) {
        for side in [false, true] {
            let mut sent = 0;
            while let Some(packets) = self.transmit(side) {
                for bytes in packets {
                    self.answers.packet(self.now, side, &bytes);
                    if self.wire.len() < UNDER_WAY_MAX {
                        self.wire.push_back(Flying::new(!side, self.now, bytes));
                    }
                }
                sent += 1;
                assert!(sent < PACKETS_MAX, "the endpoint does not stop sending");
            }
        }
        self.events();
    }

    /// The next packet of a side, cut as its device does.
    fn transmit(&mut self, side: bool) -> Option<Vec<Vec<u8>>> {
        let now = self.now;
        let end = &mut self.ends[usize::from(side)];
        let max = end.gso_max;
        let limits = Limits { gso_max_v4: max, gso_max_v6: max, tx_checksum: max > 0 };
        let packet = end.endpoint.poll_transmit(now, limits)?;
        let mut cut = Vec::new();
        gso::cut(&packet, |part| cut.push(part.to_vec()));
        for packet in &cut {
            let ip = IpPacket::parse(packet).unwrap_or_else(|why| panic!("{why}: {packet:02x?}"));
            if matches!(ip.payload, IpPayload::Tcp(_)) {
                check_frame(packet, end.mtu).unwrap_or_else(|why| panic!("{why}: {packet:02x?}"));
            } else {
                assert!(packet.len() <= end.mtu, "{} bytes over an MTU of {}", packet.len(), end.mtu);
            }
        }
        Some(cut)
    }

    /// The next `count` packets arrive, in order, with what they cause.
    pub(super) fn carry(&mut self, count: usize) {
        for _ in 0..count {
            let Some(flying) = self.wire.pop_front() else { return };
            self.deliver(&flying);
        }
    }

    pub(super) fn deliver(&mut self, flying: &Flying) {
        if self.now.saturating_since(flying.sent) > SEGMENT_LIFETIME {
            return;
        }
        let segment_size = NonZeroU16::new(0);
        let meta = RxMeta { checksum: ChecksumState::Complete, segment_size };
        self.with(flying.to, |end, now| end.endpoint.handle_packet(now, &flying.bytes, meta));
        self.collect();
    }

    pub(super) fn take(&mut self, which: u8) -> Option<Flying> {
        self.wire.remove(nth(which, self.wire.len())?)
    }

    pub(super) fn arrive(&mut self, which: u8) {
        if let Some(flying) = self.take(which) {
            self.deliver(&flying);
        }
    }

    pub(super) fn double(&mut self, which: u8) {
        if let Some(at) = nth(which, self.wire.len()) {
            self.wire.push_back(self.wire[at].clone());
        }
    }

    /// One byte of a packet changes. Every checksum sees that, but two changes may make up for each other.
    pub(super) fn damage(&mut self, which: u8, at: u8, by: u8) {
        let Some(flying) = nth(which, self.wire.len()).and_then(|at| self.wire.get_mut(at)) else { return };
        let len = flying.bytes.len();
        if len == 0 {
            return;
        }
        let is_part = flying.bytes[0] == 0x45 && flying.bytes.get(6).is_some_and(|flags| flags & 0x3f != 0);
        self.noisy |= flying.damaged || is_part;
        flying.damaged = true;
        // One in eight damages is to the length.
        if by.is_multiple_of(8) {
            flying.bytes.truncate(usize::from(at));
        } else {
            flying.bytes[usize::from(at) % len] ^= by;
        }
    }

    /// A packet of IPv4 is cut into fragments, as a router does where it may: these clear DF first.
    pub(super) fn cut(&mut self, which: u8, size: u8) {
        let size = usize::from(size).max(24).next_multiple_of(8);
        let Some(at) = nth(which, self.wire.len()) else { return };
        let bytes = &self.wire[at].bytes;
        if bytes.len() < 20 + 2 * size || bytes[0] != 0x45 || bytes[6] & 0x3f != 0 {
            return;
        }
        let Some(whole) = self.wire.remove(at) else { return };
        self.noisy |= whole.damaged;
        let (head, payload) = whole.bytes.split_at(20);
        // No two packets have the same within the time that matters.
        let identification = (self.steps as u16).to_be_bytes();
        for (number, part) in payload.chunks(size).enumerate().take(80) {
            let mut bytes = [head, part].concat();
            let (len, more) = (bytes.len() as u16, (number + 1) * size < payload.len());
            let offset = (number * size / 8) as u16 | if more { 0x2000 } else { 0 };
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            bytes[4..6].copy_from_slice(&identification);
            bytes[6..8].copy_from_slice(&offset.to_be_bytes());
            bytes[10..12].fill(0);
            let sum = ackclock_wire::checksum::sum(&bytes[..20]).checksum();
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            let part = Flying { bytes, ..whole };
            self.wire.push_back(part);
        }
    }

    /// An attacker who sees or guesses numbers sends a segment in the name of an end.
    pub(super) fn forge(&mut self, which: u8, forged: &Forged) {
        let Some(at) = nth(which, self.wire.len()) else { return };
        let Ok(frame) = Frame::parse(&self.wire[at].bytes) else { return };
        self.noisy = true;
        let seg = forged.segment(frame.seg.seq, frame.seg.ack);
        let to = self.wire[at].to;
        let bytes = Frame { seg, ..frame }.to_bytes();
        self.wire.push_back(Flying::new(to, self.now, bytes));
    }

    /// A third host sends a segment of its own.
    pub(super) fn stranger(&mut self, side: bool, from: u8, port: u8, forged: &Forged) {
        let (mut src, mut dst) = (addr_of(self.v6, 100 + from % 8), addr_of(self.v6, 1 + u8::from(side)));
        match from {
            // Addresses that no host has.
            240.. => src = self.martian(from, dst),
            224.. => dst = self.martian(from, src),
            _ => {}
        }
        // Some of these are addresses of the ends.
        self.noisy |= from >= 224;
        let src = SocketAddr::new(src, 1000 + u16::from(from / 8));
        let dst = SocketAddr::new(dst, port_of(port));
        let bytes = Frame::new(src, dst, forged.segment(0, 0)).to_bytes();
        self.wire.push_back(Flying::new(side, self.now, bytes));
    }

    /// An address that cannot be a source, or a destination beside `own`.
    fn martian(&self, number: u8, own: IpAddr) -> IpAddr {
        match (number % 8, self.v6) {
            (0, false) => Ipv4Addr::UNSPECIFIED.into(),
            (1, false) => Ipv4Addr::LOCALHOST.into(),
            (2, false) => Ipv4Addr::BROADCAST.into(),
            (3, false) => Ipv4Addr::new(224, 0, 0, 1).into(),
            (0, true) => Ipv6Addr::UNSPECIFIED.into(),
            (1, true) => Ipv6Addr::LOCALHOST.into(),
            (2, true) => Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
            (3, true) => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into(),
            (4, _) => addr_of(self.v6, BROADCAST),
            (5, _) => addr_of(self.v6, 7),
            _ => own,
        }
    }

    /// A router complains of a packet to its sender.
    pub(super) fn icmp(&mut self, which: u8, kind: u8, mtu: u16) {
        let Some(at) = nth(which, self.wire.len()) else { return };
        let about = &self.wire[at];
        let v6 = about.bytes.first().is_some_and(|first| first >> 4 == 6);
        if about.bytes.len() < if v6 { 40 } else { 20 } {
            return;
        }
        // One in sixteen comes from where it goes to, and one is damaged.
        let from = addr_of(v6, if kind / 16 == 15 { 2 - u8::from(about.to) } else { 254 });
        let damaged = kind / 16 == 14;
        let kind = KINDS[usize::from(kind) % KINDS.len()];
        let mut bytes = icmp_error(from, kind, mtu.into(), &about.bytes);
        if damaged && let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        self.wire.push_back(Flying::new(!about.to, self.now, bytes));
    }

    /// A router says that a packet was larger than `mtu`.
    pub(super) fn too_big(&mut self, about: &Flying, mtu: u16) {
        let v6 = about.bytes.first().is_some_and(|first| first >> 4 == 6);
        let bytes = packet_too_big(addr_of(v6, 254), mtu.into(), &about.bytes);
        self.wire.push_back(Flying::new(!about.to, self.now, bytes));
    }

    /// Time passes, and both ends are woken when they want to be. `flows`: all that is sent meanwhile arrives
    /// at once.
    pub(super) fn pass(&mut self, by: Duration, flows: bool) {
        let until = self.now + by;
        for _ in 0..WAKES_MAX {
            if flows {
                self.carry(FLOW);
            }
            let Some(at) = self.next_timeout().filter(|at| *at <= until) else { break };
            self.wake(at);
        }
        self.now = self.now.max(until);
    }

    /// The next timer expires; it does not come back at once for ever.
    pub(super) fn expire(&mut self) {
        let Some(at) = self.next_timeout() else { return };
        for _ in 0..SPURIOUS_MAX {
            if self.next_timeout().is_none_or(|next| next > at) {
                return;
            }
            self.wake(at);
        }
        panic!("the timer at {at:?} does not go away");
    }

    /// The process was stopped: time is much later than its timers.
    pub(super) fn jump(&mut self, by: Duration) {
        self.now += 100 * by;
        self.wake(self.now);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let due = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout()).min()?;
        Some(due.max(self.now))
    }

    pub(super) fn wake(&mut self, at: Instant) {
        self.now = at;
        for side in [false, true] {
            self.with(side, |end, now| end.endpoint.handle_timeout(now));
        }
        self.collect();
    }
}

impl Forged {
    fn segment(&self, seq: u32, ack: u32) -> Seg {
        let mut segment = Seg {
            seq: self.seq.from(seq),
            ack: self.ack.from(ack),
            window: self.window,
            ..seg(self.flags & 0x3f)
        };
        let [kind, a, b, c] = self.options;
        segment.options = match kind % 6 {
            0 => vec![Opt::Timestamps(u32::from_be_bytes([a, b, c, 0]), 0)],
            1 => vec![Opt::Sack(vec![(ack.wrapping_add(a.into()), ack.wrapping_add(u32::from(b) << 6))])],
            2 if segment.has(SYN) => vec![Opt::Mss(u16::from_be_bytes([a, b])), Opt::WindowScale(c)],
            3 => vec![Opt::Raw(vec![a, b, c])],
            _ => Vec::new(),
        };
        segment
    }
}

/// The longest that a packet is under way: less than half of TIME-WAIT (RFC 9293 §3.4.1).
const SEGMENT_LIFETIME: Duration = Duration::from_secs(25);
const UNDER_WAY_MAX: usize = 300;
const PACKETS_MAX: usize = 100_000;
const WAKES_MAX: usize = 100;
const SPURIOUS_MAX: usize = 1000;
/// More than is under way at one time, with the answers to it.
pub(super) const FLOW: usize = 2000;
/// An address of one network that means all its hosts, where a scene says so.
pub(super) const BROADCAST: u8 = 255;
/// Errors, and requests for an echo.
const KINDS: [(u8, u8); 16] = [
    (3, 4),
    (3, 1),
    (3, 3),
    (11, 0),
    (2, 0),
    (1, 4),
    (4, 0),
    (3, 0),
    (8, 0),
    (128, 0),
    (3, 2),
    (12, 0),
    (4, 1),
    (1, 1),
    (5, 0),
    (3, 13),
];
