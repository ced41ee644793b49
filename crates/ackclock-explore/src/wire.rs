//! [`Wire`]: what one end has said, as anyone on the path can see, and how a segment is shown.

use ackclock_test_script::segment::{ACK, Frame, Opt, Seg};
use ackclock_wire::{ChecksumState, Flags, IpPacket, IpPayload, RxMeta, Segment, SeqNum};

use crate::judge::Rule;
use crate::step::Side;

/// The bytes that one end has put on the wire, and those that have reached it. Places count from the initial
/// sequence numbers, so the first byte of either stream is 1.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// The end whose stream it is.
    of: Side,
    /// The initial sequence number.
    iss: Option<SeqNum>,
    /// Whether it has begun another connection since, after an old duplicate of a SYN. Its places mean
    /// nothing then.
    pub is_mixed: bool,
    /// Where the last segment ended that went furthest.
    sent: u32,
    /// The right edge of the window that it announced.
    pub edge: u32,
    /// The highest acknowledgement that reached it, and the right edge of the peer's window.
    heard: Option<(u32, u32)>,
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
    /// The wire of an end that has said nothing.
    pub fn new(of: Side) -> Self {
        Self { of, iss: None, is_mixed: false, sent: 0, edge: 0, heard: None, arrived: 0 }
    }

    /// Notes what this end sends, and returns the rule that it breaks thereby, if any.
    pub fn on_sent(&mut self, peer: &Self, segment: &Segment<'_>) -> Option<(Rule, &'static str)> {
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
            let known = 1 + peer.arrived.trailing_ones();
            if ack > known {
                let what = "an acknowledgement of what has not arrived (RFC 9293 §3.8.1)";
                return Some((Rule::AcknowledgeUpTo(known), what));
            }
            let blocks = segment.options.sack.as_slice().iter();
            let mut blocks = blocks.map(|&(left, right)| (left.offset_from(theirs), right.offset_from(theirs)));
            let ranges = peer.ranges();
            if blocks.any(|(left, right)| !ranges.iter().any(|it| it.0 <= left && right <= it.1)) {
                return Some((Rule::Report(ranges), "a SACK block of what has not arrived (RFC 2018 §3)"));
            }
            let edge = ack.saturating_add(u32::from(segment.window));
            if edge < self.edge {
                let what = "the window shrinks (RFC 9293 §3.8.6: a receiver SHOULD NOT shrink it)";
                return Some((Rule::KeepEdge(self.edge), what));
            }
            self.edge = edge;
        }
        if !self.is_stream(start, segment.payload) {
            return Some((Rule::SendStream, "text that the application has not written"));
        }
        let (una, edge) = self.heard?;
        let probe = u32::from(una == edge && start == edge);
        let text = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
        if text > 0 && end.saturating_sub(u32::from(flags.contains(Flags::FIN))) > edge.saturating_add(probe)
        {
            let what = "text beyond the peer's window (RFC 9293 §3.8.6)";
            return Some((Rule::StayWithin(edge.saturating_add(probe)), what));
        }
        if segment.seq_len() == 0 && start != u32::MAX && start > edge {
            let what = "an acknowledgement beyond the peer's window (RFC 9293 §3.4)";
            return Some((Rule::StayWithin(edge), what));
        }
        None
    }

    /// Whether these bytes belong at this place of the stream.
    pub fn is_stream(&self, start: u32, text: &[u8]) -> bool {
        let at = |index: usize| u8::try_from(start as usize + index).unwrap_or(u8::MAX);
        text.iter().enumerate().all(|(index, &found)| at(index) > 0 && found == byte(self.of, at(index) - 1))
    }

    /// The places of the stream that have reached the peer, as ranges.
    fn ranges(&self) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for place in (1..=u64::BITS).filter(|place| self.arrived >> (place - 1) & 1 == 1) {
            match ranges.last_mut().filter(|range| range.1 == place) {
                Some(range) => range.1 += 1,
                None => ranges.push((place, place + 1)),
            }
        }
        ranges
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

    /// A segment of this end in the words of the protocol tests. Its numbers count from the initial ones.
    pub fn notation(&self, packet: &[u8], to: &Self) -> String {
        let base = |wire: &Self| wire.iss.map_or(0, |iss| (iss - SeqNum::new(0)).cast_unsigned());
        let shown = Frame::parse(packet).map(|frame| relative(frame.seg, base(self), base(to)).code());
        shown.unwrap_or_else(|why| format!("a packet that no end may send: {why}"))
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

/// A segment whose numbers count from these initial ones, of its sender and of its receiver.
pub(crate) fn relative(mut segment: Seg, iss: u32, irs: u32) -> Seg {
    segment.seq = segment.seq.wrapping_sub(iss);
    if segment.has(ACK) {
        segment.ack = segment.ack.wrapping_sub(irs);
        for option in &mut segment.options {
            if let Opt::Sack(blocks) = option {
                for (left, right) in blocks {
                    (*left, *right) = (left.wrapping_sub(irs), right.wrapping_sub(irs));
                }
            }
        }
    }
    segment
}

/// A byte of the stream that a side writes.
pub(crate) fn byte(of: Side, at: u8) -> u8 {
    at.wrapping_mul(3) ^ if of == Side::Client { 0x40 } else { 0xc0 }
}
