//! [`Wire`]: what one end has said, as anyone on the path can see, and how a segment is shown.

use std::fmt::Write;

use ackclock_wire::{ChecksumState, Flags, IpPacket, IpPayload, RxMeta, Segment, SeqNum};

/// The bytes that one end has put on the wire, and those that have reached it. Places count from the initial
/// sequence numbers, so the first byte of either stream is 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    /// The initial sequence number.
    iss: Option<SeqNum>,
    /// Whether it has begun another connection since, after an old duplicate of a SYN. Its places mean
    /// nothing then.
    pub is_mixed: bool,
    /// Where the last segment ended that went furthest.
    pub sent: u32,
    /// The right edge of the window that it announced.
    pub edge: u32,
    /// The highest acknowledgement that reached it, and the right edge of the peer's window.
    pub heard: Option<(u32, u32)>,
    /// Bit n: byte n of its stream has reached the peer.
    pub arrived: u64,
}

/// The segment of a packet.
pub(crate) fn parse(packet: &[u8]) -> Option<Segment<'_>> {
    let ip = IpPacket::parse(packet).ok()?;
    let IpPayload::Tcp(bytes) = ip.payload else { return None };
    Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Verified).ok()
}

/// The driver's findings about a packet between two worlds: its checksum needs no look.
pub(crate) const META: RxMeta = RxMeta { checksum: ChecksumState::Verified, segment_size: None };

impl Wire {
    /// Notes what this end sends, and returns what it must not do, if anything.
    pub fn on_sent(&mut self, peer: &Self, segment: &Segment<'_>) -> Option<&'static str> {
        let flags = segment.flags;
        if flags.contains(Flags::SYN) {
            self.is_mixed |= self.iss.is_some_and(|iss| iss != segment.seq);
            self.iss = self.iss.or(Some(segment.seq));
        }
        if self.is_mixed || peer.is_mixed {
            return None;
        }
        let iss = self.iss?;
        if flags.contains(Flags::RST) {
            return None;
        }
        let start = segment.seq.offset_from(iss);
        // A keep-alive probe lies one before the first byte.
        let end = if start == u32::MAX { 0 } else { start.saturating_add(segment.seq_len()) };
        self.sent = self.sent.max(end);
        if flags.contains(Flags::ACK)
            && let Some(theirs) = peer.iss
        {
            let ack = segment.ack.offset_from(theirs);
            if ack > peer.sent {
                return Some("an acknowledgement of what was never sent");
            }
            let edge = ack.saturating_add(u32::from(segment.window));
            if edge < self.edge {
                return Some("the window shrinks (RFC 9293 §3.8.6: a receiver SHOULD NOT shrink it)");
            }
            self.edge = edge;
        }
        let (una, edge) = self.heard?;
        let probe = u32::from(una == edge && start == edge);
        let text = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
        if text > 0 && end.saturating_sub(u32::from(flags.contains(Flags::FIN))) > edge.saturating_add(probe)
        {
            return Some("text beyond the peer's window (RFC 9293 §3.8.6)");
        }
        if segment.seq_len() == 0 && start != u32::MAX && start > edge {
            return Some("an acknowledgement beyond the peer's window (RFC 9293 §3.4)");
        }
        None
    }

    /// Notes what reaches this end.
    pub fn on_received(&mut self, peer: &mut Self, segment: &Segment<'_>) {
        let Some(theirs) = peer.iss else { return };
        let at = segment.seq.offset_from(theirs).wrapping_sub(1);
        // The end of the stream counts as a byte: it has a sequence number.
        let places = segment.payload.len() + usize::from(segment.flags.contains(Flags::FIN));
        for byte in (0..64).skip(at as usize).take(places) {
            peer.arrived |= 1 << byte;
        }
        let Some(iss) = self.iss else { return };
        if segment.flags.contains(Flags::ACK) && !segment.flags.contains(Flags::RST) {
            let ack = segment.ack.offset_from(iss);
            let edge = ack.saturating_add(u32::from(segment.window));
            let (una, before) = self.heard.unwrap_or_default();
            self.heard = Some((una.max(ack), before.max(edge)));
        }
    }

    /// A sequence number of this end as a place.
    pub fn place(&self, seq: SeqNum) -> Option<u32> {
        self.iss.map(|iss| seq.offset_from(iss))
    }

    /// A place as a sequence number of this end.
    pub fn at(&self, place: u32) -> Option<SeqNum> {
        self.iss.map(|iss| iss + place)
    }

    /// A segment of this end in the words of the protocol tests (`tests/src/segment.rs`). Its numbers count
    /// from the initial ones.
    pub fn notation(&self, packet: &[u8], to: &Self) -> String {
        let Some(segment) = parse(packet) else { return "a packet without a segment".into() };
        let mut names = String::new();
        for (flag, name) in [
            (Flags::FIN, "FIN"),
            (Flags::SYN, "SYN"),
            (Flags::RST, "RST"),
            (Flags::PSH, "PSH"),
            (Flags::ACK, "ACK"),
        ] {
            if segment.flags.contains(flag) {
                names.push_str(if names.is_empty() { "" } else { " | " });
                names.push_str(name);
            }
        }
        let place = |wire: &Self, seq: SeqNum| wire.place(seq).map_or(0, u32::cast_signed);
        let mut text = format!("seg({names}).seq({})", place(self, segment.seq));
        // Writing to a string cannot fail.
        if segment.flags.contains(Flags::ACK) {
            let _ = write!(text, ".ack({})", place(to, segment.ack));
        }
        let _ = write!(text, ".window({})", segment.window);
        let blocks = segment.options.sack.as_slice();
        if !blocks.is_empty() {
            let blocks: Vec<_> =
                blocks.iter().map(|&(left, right)| (place(to, left), place(to, right))).collect();
            let _ = write!(text, ".opt(Opt::Sack(vec!{blocks:?}))");
        }
        if !segment.payload.is_empty() {
            let _ = write!(text, ".data(&{:?})", segment.payload);
        }
        text
    }

    /// All numbers, for the comparison of states.
    pub fn numbers(&self) -> [u64; 6] {
        let (una, edge) = self.heard.map_or((0, 0), |(una, edge)| (una, edge + 1));
        [self.sent, self.edge, una, edge, u32::from(self.iss.is_some()) + 2 * u32::from(self.is_mixed)]
            .map(u64::from)
            .into_iter()
            .chain([self.arrived])
            .collect::<Vec<_>>()
            .try_into()
            .unwrap_or_default()
    }
}
