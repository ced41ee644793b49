//! Pairs two captures of one connection, at its sender and at its receiver: which packets of one are in the
//! other.
//!
//! A packet has the same header at both places. If several packets share a header (a retransmission without
//! timestamps and without an identification), they are matched in order if all arrived. Otherwise each
//! arrival matches the last copy that was sent early enough, judged by the shortest passage of the
//! unambiguous ones. That is wrong if a copy arrives late and the one after it is lost.
//!
//! Devices cut large segments and join small ones, so data is compared in pieces of a segment's size.

use std::collections::HashMap;

use ackclock_wire::Flags;

use super::connections::Vantage;
use super::segment::Segment;

/// The fate of a connection's packets on their way, for data in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// For each segment at the sender, by its index: the index of its arrival at the receiver. `None` if it
    /// has no data, was lost, or goes the other way.
    pub arrived: Vec<Option<usize>>,
    /// The segments that the receiver sent, by their index there, and whether each arrived.
    pub answers: Vec<(usize, bool)>,
}

/// The captures are not of the same packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotPaired {
    /// Packets seen at their destination but never at their source.
    pub strangers: usize,
    /// Packets at their destination.
    pub of: usize,
}

/// Pairs the packets of two places. `from_client` gives the direction of the data, `mss` the size of its
/// segments.
///
/// # Errors
/// More than a few packets were seen at their destination and not at their source.
pub(crate) fn pair(
    sender: &Vantage,
    receiver: &Vantage,
    from_client: bool,
    mss: u32,
) -> Result<Delivery, NotPaired> {
    let data = Way::new(&sender.segments, &receiver.segments, from_client, mss);
    let answers = Way::new(&receiver.segments, &sender.segments, !from_client, u32::MAX);
    let (strangers, of) = (data.strangers + answers.strangers, data.received + answers.received);
    if strangers * STRANGERS_ONE_IN > of {
        return Err(NotPaired { strangers, of });
    }
    Ok(Delivery { arrived: data.whole_segments(sender.segments.len()), answers: answers.in_order() })
}

/// The fields that are the same at both places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    seq: u32,
    len: u32,
    ack: u32,
    /// SYN, RST and ACK. The others do not survive cutting and joining.
    flags: u16,
    id: u16,
    timestamps: Option<(u32, u32)>,
    sack: Option<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Piece {
    key: Key,
    at: u64,
    /// The index of its segment.
    index: usize,
}

/// The segments of one direction, in pieces of at most `mss` bytes.
fn pieces(segments: &[Segment], from_client: bool, mss: u32, with_id: bool) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(segments.len());
    for (index, segment) in
        segments.iter().enumerate().filter(|(_, segment)| segment.from_client == from_client)
    {
        let mut offset = 0;
        loop {
            let len = (segment.len - offset).min(mss);
            pieces.push(Piece { key: Key::of(segment, offset, len, with_id), at: segment.at, index });
            offset += len;
            if offset >= segment.len {
                break;
            }
        }
    }
    pieces
}

impl Key {
    fn of(segment: &Segment, offset: u32, len: u32, with_id: bool) -> Self {
        Self {
            seq: (segment.seq + offset).raw(),
            len,
            ack: segment.ack.raw(),
            flags: segment.flags.bits() & (Flags::SYN | Flags::RST | Flags::ACK).bits(),
            id: if with_id { segment.id } else { 0 },
            timestamps: segment.timestamps,
            sack: segment.sack.as_slice().first().map(|(left, right)| (left.raw(), right.raw())),
        }
    }
}

/// The fate of the pieces of one direction.
struct Way {
    /// For each piece sent: its segment, and the segment that delivered it.
    arrivals: Vec<(usize, Option<usize>)>,
    strangers: usize,
    received: usize,
}

impl Way {
    fn new(sent: &[Segment], received: &[Segment], from_client: bool, mss: u32) -> Self {
        let mss = mss.max(1);
        // A device that cuts segments gives the pieces its own identifications.
        let with_id = sent.iter().chain(received).all(|segment| segment.len <= mss);
        let sent = pieces(sent, from_client, mss, with_id);
        let received = pieces(received, from_client, mss, with_id);
        let mut groups: HashMap<Key, Group> = HashMap::new();
        for (number, piece) in sent.iter().enumerate() {
            groups.entry(piece.key).or_default().sent.push((number, piece.at));
        }
        let mut strangers = 0;
        for piece in &received {
            match groups.get_mut(&piece.key) {
                // A piece that arrives more often than it was sent was duplicated on the way.
                Some(group) if group.received.len() == group.sent.len() => {}
                Some(group) => group.received.push(*piece),
                None => strangers += 1,
            }
        }
        let shortest = groups.values().filter_map(Group::passage).min().unwrap_or(i128::MIN);
        let mut arrivals: Vec<_> = sent.iter().map(|piece| (piece.index, None)).collect();
        for group in groups.into_values() {
            group.assign(shortest, |number, arrival| arrivals[number].1 = Some(arrival));
        }
        Self { arrivals, strangers, received: received.len() }
    }

    /// For each segment: the arrival of its last piece, if all of them arrived.
    fn whole_segments(&self, segments: usize) -> Vec<Option<usize>> {
        let mut arrived = vec![None; segments];
        for &(index, at) in &self.arrivals {
            arrived[index] = arrived[index].max(at);
        }
        for &(index, _) in self.arrivals.iter().filter(|(_, at)| at.is_none()) {
            arrived[index] = None;
        }
        arrived
    }

    fn in_order(&self) -> Vec<(usize, bool)> {
        self.arrivals.iter().map(|&(index, at)| (index, at.is_some())).collect()
    }
}

/// Pieces that look alike, at both places.
#[derive(Default)]
struct Group {
    /// Their indices and times.
    sent: Vec<(usize, u64)>,
    received: Vec<Piece>,
}

impl Group {
    /// The passage time if there is only one, across two clocks.
    fn passage(&self) -> Option<i128> {
        match (&self.sent[..], &self.received[..]) {
            ([(_, sent)], [received]) => Some(i128::from(received.at) - i128::from(*sent)),
            _ => None,
        }
    }

    fn assign(mut self, shortest: i128, mut arrived: impl FnMut(usize, usize)) {
        if self.sent.len() == self.received.len() {
            self.sent.iter().zip(&self.received).for_each(|((number, _), to)| arrived(*number, to.index));
            return;
        }
        for to in self.received.iter().rev() {
            let early = |from: &(usize, u64)| {
                i128::from(to.at) - i128::from(from.1) >= shortest.saturating_sub(SKEW_NS)
            };
            let last = self.sent.iter().rposition(early).unwrap_or(0);
            let Some(&(number, _)) = self.sent.get(last) else { break };
            arrived(number, to.index);
            self.sent.truncate(last);
        }
    }
}

/// One packet in this many may be a stranger.
const STRANGERS_ONE_IN: usize = 50;
/// How far two clocks may drift apart during a connection.
const SKEW_NS: i128 = 1_000_000;
