//! [`Wire`]: what one end has said, as anyone on the path can see, and how a segment is shown.

use ackclock_test_script::script::pattern;
use ackclock_test_script::segment::{ACK, Frame, Opt, Seg, seg};
use ackclock_test_script::step::Step;
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
            let known = peer.known();
            if ack > known {
                let what = "an acknowledgement of what has not arrived (RFC 9293 §3.8.1)";
                return Some((Rule::AcknowledgeUpTo(known), what));
            }
            let blocks = segment.options.sack.as_slice();
            let ranges = if blocks.is_empty() { Vec::new() } else { peer.ranges() };
            let place = |seq: SeqNum| seq.offset_from(theirs);
            let is_held = |left, right| ranges.iter().any(|it| it.0 <= place(left) && place(right) <= it.1);
            if !blocks.iter().all(|&(left, right)| is_held(left, right)) {
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
        let is_right = |index, found| at(index) > 0 && found == byte(self.of, at(index) - 1);
        text.iter().enumerate().all(|(index, &found)| is_right(index, found))
    }

    /// The place up to which everything has reached the peer.
    pub fn known(&self) -> u32 {
        1 + self.arrived.trailing_ones()
    }

    /// The places of the stream that have reached the peer, as ranges.
    pub fn ranges(&self) -> Vec<(u32, u32)> {
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

    /// Whether the places of either end mean nothing.
    pub fn mixes_with(&self, peer: &Self) -> bool {
        self.is_mixed || peer.is_mixed
    }

    /// The oldest place of this end's stream that it has not seen acknowledged.
    pub fn una(&self) -> u32 {
        self.heard.map_or(0, |(una, _)| una)
    }

    /// The right edge of the peer's window, as it reached this end.
    #[cfg(test)]
    pub fn heard_edge(&self) -> u32 {
        self.heard.map_or(0, |(_, edge)| edge)
    }

    /// A place as a sequence number of this end.
    pub fn at(&self, place: u32) -> Option<SeqNum> {
        self.iss.map(|iss| iss + place)
    }

    /// A segment of this end in the words of the protocol tests.
    pub fn notation(&self, packet: &[u8], to: &Self) -> String {
        let shown = self.spoken(packet, to).map(|segment| segment.code());
        shown.unwrap_or_else(|why| format!("a packet that no end may send: {why}"))
    }

    /// The step of a protocol test in which a segment of this end arrives at the other.
    pub fn arrives(&self, packet: &[u8], to: &Self) -> Result<Step, String> {
        let segment = self.spoken(packet, to)?;
        Ok(if refuses(packet) { Step::PeerRefuses(segment.ack) } else { Step::Peer(segment) })
    }

    /// The step of a protocol test that expects a segment of this end.
    pub fn leaves(&self, packet: &[u8], to: &Self) -> Result<Step, String> {
        let segment = self.spoken(packet, to)?;
        Ok(if refuses(packet) { Step::ExpectRefusal(segment.ack) } else { Step::Expect(segment) })
    }

    /// A segment of this end as the protocol tests have it: its numbers count from the initial ones, and what
    /// it carries of the stream is their pattern.
    pub fn spoken(&self, packet: &[u8], to: &Self) -> Result<Seg, String> {
        let base = |wire: &Self| wire.iss.map_or(0, |iss| iss.raw());
        // Where a Linux answers instead, the checksum is not of the packet.
        let segment = Frame::parse(packet).map(|frame| frame.seg).or_else(|why| plain(packet).ok_or(why))?;
        let mut segment = relative(segment, base(self), base(to));
        if self.is_stream(segment.seq, &segment.payload) {
            segment.payload = pattern(segment.seq, segment.payload.len());
        }
        Ok(segment)
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

/// Whether this is a reset in answer to a segment that acknowledged nothing. Its sequence number is 0
/// (RFC 9293 §3.10.7.1) and not a place of the stream.
fn refuses(packet: &[u8]) -> bool {
    parse(packet).is_some_and(|it| it.flags == Flags::RST | Flags::ACK && it.seq.raw() == 0)
}

/// A segment of an open connection as this stack's own decoder reads it.
fn plain(packet: &[u8]) -> Option<Seg> {
    let segment = parse(packet)?;
    let flags = u8::try_from(segment.flags.bits()).ok()?;
    let shown = seg(flags).seq(segment.seq.raw()).ack(segment.ack.raw()).window(segment.window);
    let blocks: Vec<_> =
        segment.options.sack.as_slice().iter().map(|(left, right)| (left.raw(), right.raw())).collect();
    let options = if blocks.is_empty() { Vec::new() } else { vec![Opt::Sack(blocks)] };
    Some(Seg { options, ..shown.data(segment.payload) })
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
