//! One direction of a connection as it was seen at one place: data and its acknowledgements, with positions
//! instead of sequence numbers.

use ackclock_wire::{Flags, SeqNum};

use crate::capture::{Segment, Vantage};

/// Data in one direction, and its acknowledgements, in the order in which they were seen.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub entries: Vec<Entry>,
    /// The largest segment in bytes of payload.
    pub mss: u32,
    /// The bytes that were acknowledged without having been seen: the capture lacks packets.
    pub holes: u64,
    /// New data that was seen behind newer one.
    pub out_of_order: u64,
    /// Whether the sender gets SACKs: both SYNs permitted them, or, without these, the receiver sent one.
    pub selective: bool,
}

/// Data or an acknowledgement. `at` is in nanoseconds, positions count bytes since the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A segment with data; handshake and FIN apart.
    Data {
        at: u64,
        from: u64,
        to: u64,
        /// Its TSval.
        timestamp: Option<u32>,
        /// Its place among the vantage's segments.
        index: usize,
    },
    /// An acknowledgement.
    Ack {
        at: u64,
        /// Its acknowledgement.
        to: u64,
        /// Its TSecr.
        echo: Option<u32>,
        /// Its first SACK block.
        sack: Option<(u64, u64)>,
        /// Its first SACK block of data that it does not acknowledge, which is not a D-SACK (RFC 2883 §4).
        beyond: Option<(u64, u64)>,
        /// Whether it is nothing else: no data, and an open window.
        bare: bool,
        /// Whether the window is closed.
        closed: bool,
        /// Its place among the vantage's segments.
        index: usize,
    },
}

impl View {
    /// The data that the client sends, or the server, as far as it was seen.
    pub fn new(vantage: &Vantage, from_client: bool) -> Self {
        let (isn, peer_mss) = if from_client {
            (vantage.client_isn, vantage.server_mss)
        } else {
            (vantage.server_isn, vantage.client_mss)
        };
        let mut data =
            vantage.segments.iter().filter(|segment| segment.from_client == from_client && segment.len > 0);
        let first = data.next().map(first_byte);
        let mut builder = Builder {
            base: isn.map(|isn| isn + 1).or(first).unwrap_or_default(),
            max: 0,
            fin: None,
            seen: Seen::default(),
            view: Self {
                entries: Vec::new(),
                mss: mss(vantage, from_client, peer_mss),
                holes: 0,
                out_of_order: 0,
                selective: vantage.client_sack && vantage.server_sack,
            },
        };
        for (index, segment) in vantage.segments.iter().enumerate() {
            if segment.from_client == from_client {
                builder.data(index, segment);
            } else {
                builder.ack(index, segment);
            }
        }
        builder.view
    }

    /// Bytes of data, each counted once.
    pub fn bytes(&self) -> u64 {
        let ends = self.entries.iter().map(|entry| match entry {
            Entry::Data { to, .. } => *to,
            Entry::Ack { .. } => 0,
        });
        ends.max().unwrap_or(0)
    }

    /// How many acknowledgements there are.
    pub fn acks(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Ack { .. })).count()
    }
}

impl Entry {
    /// Its place among the vantage's segments.
    pub fn index(&self) -> usize {
        match self {
            Self::Data { index, .. } | Self::Ack { index, .. } => *index,
        }
    }
}

struct Builder {
    /// The sequence number of the first byte.
    base: SeqNum,
    /// The end of the data so far.
    max: u64,
    /// Where the FIN stands.
    fin: Option<u64>,
    seen: Seen,
    view: View,
}

impl Builder {
    fn data(&mut self, index: usize, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        let Some(from) = self.position(first_byte(segment)) else { return };
        let to = from + u64::from(segment.len);
        if segment.flags.contains(Flags::FIN) {
            self.fin = self.fin.or(Some(to));
        }
        if segment.len == 0 {
            return;
        }
        self.view.out_of_order += u64::from(to <= self.max && !self.seen.holds(from, to));
        self.seen.insert(from, to);
        self.max = self.max.max(to);
        let timestamp = segment.timestamps.map(|(value, _)| value);
        self.view.entries.push(Entry::Data { at: segment.at, from, to, timestamp, index });
    }

    fn ack(&mut self, index: usize, segment: &Segment) {
        if !segment.flags.contains(Flags::ACK)
            || segment.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST)
        {
            return;
        }
        let Some(to) = self.position(segment.ack) else { return };
        // The number behind the last byte is the FIN's.
        let to = if self.fin.is_some_and(|fin| to == fin + 1) { to - 1 } else { to };
        self.view.holes += self.seen.missing_below(to);
        let blocks = segment.sack.as_slice().iter();
        let mut blocks =
            blocks.filter_map(|&(left, right)| Some((self.position(left)?, self.position(right)?)));
        let sack = blocks.next();
        let beyond = sack.into_iter().chain(blocks).find(|&(left, right)| to < left && left < right);
        self.view.selective |= sack.is_some();
        self.view.entries.push(Entry::Ack {
            at: segment.at,
            to,
            echo: segment.timestamps.map(|(_, echo)| echo),
            sack,
            beyond,
            bare: segment.len == 0 && segment.window > 0,
            closed: segment.window == 0,
            index,
        });
    }

    /// The position of a sequence number, which is taken for the one nearest to the end of the data so far.
    fn position(&self, seq: SeqNum) -> Option<u64> {
        let end = self.base + low_half(self.max);
        let ahead = seq.offset_from(end);
        if ahead < 1 << 31 {
            Some(self.max + u64::from(ahead))
        } else {
            self.max.checked_sub(u64::from(ahead.wrapping_neg()))
        }
    }
}

/// Which bytes have been seen.
#[derive(Debug, Default)]
struct Seen {
    /// Everything up to here, or counted as missing.
    below: u64,
    /// Ranges above, apart from each other and in order.
    above: Vec<(u64, u64)>,
}

impl Seen {
    fn insert(&mut self, from: u64, to: u64) {
        let (mut from, mut to) = (from, to);
        self.above.retain(|&(start, end)| {
            let apart = end < from || to < start;
            if !apart {
                (from, to) = (from.min(start), to.max(end));
            }
            apart
        });
        let place = self.above.partition_point(|&(start, _)| start < from);
        self.above.insert(place, (from, to));
        self.advance();
    }

    fn holds(&self, from: u64, to: u64) -> bool {
        to <= self.below || self.above.iter().any(|&(start, end)| start <= from.max(self.below) && to <= end)
    }

    /// How many of the bytes up to here were never seen; each is counted once.
    fn missing_below(&mut self, to: u64) -> u64 {
        if to <= self.below {
            return 0;
        }
        let seen = self.above.iter().map(|&(start, end)| end.min(to).saturating_sub(start.max(self.below)));
        let missing = to - self.below - seen.sum::<u64>();
        self.below = to;
        self.advance();
        missing
    }

    fn advance(&mut self) {
        while let Some(&(start, end)) = self.above.first().filter(|(start, _)| *start <= self.below) {
            debug_assert!(start <= end);
            self.below = self.below.max(end);
            self.above.remove(0);
        }
    }
}

/// The number of a segment's first byte of data.
fn first_byte(segment: &Segment) -> SeqNum {
    segment.seq + u32::from(segment.flags.contains(Flags::SYN))
}

/// The largest segment on the wire. A device that cuts segments hides it; then the peer's MSS tells.
fn mss(vantage: &Vantage, from_client: bool, peer_mss: Option<u16>) -> u32 {
    let sent =
        vantage.segments.iter().filter(|segment| segment.from_client == from_client && segment.len > 0);
    let largest = sent.clone().map(|segment| segment.len).max().unwrap_or(0);
    let timestamps = sent.clone().any(|segment| segment.timestamps.is_some());
    let options = if timestamps { TIMESTAMPS_BYTES } else { 0 };
    // A peer may announce less than the options take.
    let announced = peer_mss.map_or(USUAL_MSS, u32::from).saturating_sub(options);
    if peer_mss.is_some() || largest > LARGEST_FRAME { largest.min(announced) } else { largest }.max(1)
}

/// The lower half of a position is what sequence numbers count.
fn low_half(position: u64) -> u32 {
    (position & u64::from(u32::MAX)) as u32
}

/// The most that a device of Ethernet's usual MTU sends.
const USUAL_MSS: u32 = 1460;
/// RFC 7323 appendix A: the option and its padding.
const TIMESTAMPS_BYTES: u32 = 12;
/// Larger frames than jumbo frames are cut by the device.
const LARGEST_FRAME: u32 = 9000;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Seen, View};
    use crate::capture::read_one;
    use crate::capture::testing::{Form, Tcp};

    #[test]
    fn mss_below_the_options_is_no_mss() {
        let mut opening = Tcp::handshake(20.0);
        opening[1].mss = Some(5);
        let data = [Tcp::data(20.0, 0).timestamps(1, 2), Tcp::acked(40.0, 1)];
        let packets: Vec<_> = opening.into_iter().chain(data).map(Tcp::seen).collect();
        let file = Form::default().file(&packets);
        let (_, vantages) = read_one(0, Path::new("made-by-hand"), &file[..]).unwrap();
        assert_eq!(View::new(&vantages[0], true).mss, 1);
    }

    #[test]
    fn missing_bytes_are_counted_once() {
        let mut seen = Seen::default();
        seen.insert(0, 10);
        seen.insert(20, 30);
        assert_eq!(seen.missing_below(10), 0);
        assert_eq!(seen.missing_below(25), 10);
        assert_eq!(seen.missing_below(40), 10);
        assert_eq!(seen.missing_below(40), 0);
        seen.insert(40, 50);
        assert_eq!(seen.missing_below(50), 0);
    }

    #[test]
    fn ranges_join_and_are_found() {
        let mut seen = Seen::default();
        seen.insert(10, 20);
        seen.insert(30, 40);
        assert!(seen.holds(10, 20) && !seen.holds(15, 25) && !seen.holds(0, 5));
        seen.insert(18, 32);
        assert!(seen.holds(10, 40));
        seen.insert(0, 10);
        assert!(seen.holds(0, 40) && !seen.holds(39, 41) && seen.above.is_empty());
    }
}
