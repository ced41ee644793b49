//! The outstanding data: one record for each transmission that may still be unacknowledged.
//!
//! Records are in order of position. Each is in one of three conditions, as the pipe of RFC 6675 §2 requires:
//! outstanding (counted in the pipe), lost (not counted until retransmitted), or held by the peer (SACKed).
//! An acknowledgement costs O(log n) plus one step for each record that it changes; [`Records`] ensures this
//! in whatever order a peer acknowledges. Only a timeout walks over everything outstanding. [`losses`] marks
//! what counts as lost.

mod losses;

use std::collections::VecDeque;

use ackclock_control::Instant;
use ackclock_control::tally::Tally;

pub(super) use self::losses::Marked;
use super::records::{Records, give_back};
use super::whole_segments;
use crate::buffer::RangeSet;
use crate::position::Position;
use ackclock_form::with_capacity;

/// The state of the connection when something was sent, for samples of time and rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendMoment {
    /// When it was sent.
    pub at: Instant,
    /// Bytes delivered by then.
    pub delivered: u64,
    /// When the last of them was delivered.
    pub delivered_at: Instant,
    /// Microseconds since the then last delivered data had been sent.
    pub sending_us: u32,
    /// Bytes in flight, including those sent.
    pub in_flight: u32,
    /// Bytes found to be lost by then, modulo 2^32.
    pub lost: u32,
    /// Whether the application had too little to send.
    pub app_limited: bool,
}

impl SendMoment {
    /// Whether both are the same moment, and samples of data sent in both would be the same except for what
    /// is in flight.
    fn is_same(&self, other: &Self) -> bool {
        *self == Self { in_flight: self.in_flight, ..*other }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Outstanding,
    Lost,
    Sacked,
}

/// A range of positions in the same condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) start: Position,
    pub(super) end: Position,
    pub(super) moment: SendMoment,
    /// The segment size in which it left.
    pub(super) segment: u32,
    pub(super) condition: Condition,
    pub(super) retransmitted: bool,
}

impl Record {
    fn len(&self) -> u64 {
        self.end.since(self.start)
    }

    /// Whether both left together, and are in the same condition.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.moment, self.segment, self.condition, self.retransmitted)
            == (other.moment, other.segment, other.condition, other.retransmitted)
    }
}

/// Sent and unacknowledged data.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    records: Records,
    /// The ranges that the peer holds beyond a gap.
    sacked: RangeSet,
    /// The ranges that are lost and wait to be retransmitted.
    lost: RangeSet,
    outstanding: u64,
    /// Records before this have been judged by `mark_lost_before` once.
    judged: Position,
    /// The highest position that the peer is known to hold.
    highest_held: Position,
    /// All transmissions in order of sending, for RACK, at most 64 KB each. Acknowledged ones are removed
    /// lazily.
    order: VecDeque<(Instant, Position, Position)>,
}

/// The effect of one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckOutcome {
    /// Bytes acknowledged for the first time, cumulatively or selectively.
    pub newly_acked: u64,
    /// When the newest of these transmissions left that was sent only once: a valid sample (Karn's rule).
    pub newest_once: Option<Instant>,
    /// The newest of these transmissions, retransmissions included, and its end.
    pub newest_any: Option<(SendMoment, Position)>,
    /// Whether that one had been sent before.
    pub newest_was_repeated: bool,
    /// It had, and the first transmission was acknowledged.
    pub newest_is_original: bool,
    /// Whether data sent once was delivered after data sent later.
    pub reordered: bool,
    /// Bytes acknowledged selectively for the first time.
    pub newly_sacked: u64,
    /// Whether the peer reported that data arrived twice (RFC 2883).
    pub duplicate_reported: bool,
    /// Whether retransmitted data was acknowledged.
    pub retransmission_acked: bool,
}

impl AckOutcome {
    fn count(&mut self, record: &Record, bytes: u64) {
        let end = record.start + bytes;
        self.newly_acked.grow(bytes);
        self.retransmission_acked |= record.retransmitted;
        let at = record.moment.at;
        if self.newest_any.as_ref().is_none_or(|(moment, last)| (moment.at, *last) <= (at, end)) {
            self.newest_any = Some((record.moment, end));
            self.newest_was_repeated = record.retransmitted;
        }
        if !record.retransmitted {
            self.newest_once = self.newest_once.max(Some(at));
        }
    }
}

impl Scoreboard {
    /// The most ranges that the peer may hold beyond gaps. Blocks that would begin another are ignored.
    pub(super) const SACKED_RANGES_MAX: usize = 4096;
    /// From this many ranges on, one begins and ends with segments as they were sent last. A peer that
    /// reports every other byte then cuts no more of them into pieces.
    pub(super) const EXACT_RANGES_MAX: usize = 64;
    /// The most bytes that share one record.
    const RECORD_MAX: u64 = 1 << 16;

    /// Bytes in flight: RFC 6675's pipe.
    #[inline]
    pub(super) fn pipe(&self) -> u64 {
        self.outstanding
    }

    /// Bytes held to be lost and not yet retransmitted.
    #[inline]
    pub(super) fn lost(&self) -> u64 {
        self.lost.bytes()
    }

    /// Bytes that the peer holds beyond a gap.
    #[inline]
    pub(super) fn sacked(&self) -> u64 {
        self.sacked.bytes()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// New data was sent at the end, in segments of `segment` bytes.
    // Always inlined, for the row "data segment sent" of the counted instructions.
    #[inline(always)]
    pub(super) fn on_sent(&mut self, start: Position, end: Position, segment: u32, moment: SendMoment) {
        self.outstanding.grow(end.since(start));
        if let Some(last) = self.records.growing_mut() {
            debug_assert!(last.end == start, "data is sent in order");
            let same = last.moment.is_same(&moment)
                && last.condition == Condition::Outstanding
                && !last.retransmitted
                && last.segment == segment
                && last.len().is_multiple_of(u64::from(segment.max(1)));
            if same && end.since(last.start) <= Self::RECORD_MAX {
                last.end = end;
                last.moment = moment;
                self.extend_order(moment.at, start, end);
                return;
            }
        }
        self.extend_order(moment.at, start, end);
        self.records.push_back(Record {
            start,
            end,
            moment,
            segment: segment.max(1),
            condition: Condition::Outstanding,
            retransmitted: false,
        });
    }

    /// The cumulative acknowledgement advanced to `una`.
    #[inline]
    pub(super) fn on_cumulative_ack(&mut self, una: Position, outcome: &mut AckOutcome) {
        while let Some(first) = self.records.front_mut() {
            if first.start >= una {
                break;
            }
            let bytes = una.min(first.end).since(first.start);
            match first.condition {
                Condition::Outstanding => self.outstanding.shrink(bytes),
                Condition::Lost | Condition::Sacked => {}
            }
            if first.condition != Condition::Sacked {
                outcome.reordered |= !first.retransmitted && first.end < self.highest_held;
                outcome.count(first, bytes);
            }
            if first.end > una {
                let left = left_of_segment(una.since(first.start), first.segment);
                first.start = una;
                let edge = first.end.min(una + left);
                if first.retransmitted && left > 0 && edge < first.end {
                    // A record begins with a segment, and what is left of one counts as one. What was
                    // sent once is not split, so that the common case need not look for it.
                    let place = self.records.place_at(una);
                    self.records.isolate(place, una, edge);
                }
                break;
            }
            self.records.pop_front();
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_before(una);
        }
        if !self.lost.is_empty() {
            self.lost.remove_before(una);
        }
        self.forget_order_before(una);
    }

    /// SND.UNA advances from `prior_una` to `una`, and nothing is unusual: the acknowledged data was sent
    /// once, nothing is lost, and the peer holds nothing beyond a gap. Returns when the last of it left;
    /// `None`, without a change, if something is unusual.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    pub(super) fn on_plain_ack(&mut self, prior_una: Position, una: Position) -> Option<SendMoment> {
        if !self.sacked.is_empty() || !self.lost.is_empty() {
            return None;
        }
        let highest_held = self.highest_held;
        let moment = self.records.take_plain(una, |record| {
            let is_late = record.end < highest_held;
            record.condition == Condition::Outstanding && !record.retransmitted && !is_late
        })?;
        self.outstanding.shrink(una.since(prior_una));
        self.forget_order_before(una);
        Some(moment)
    }

    /// Data sent first is mostly acknowledged first; the rest is removed when its turn comes.
    #[inline]
    fn forget_order_before(&mut self, una: Position) {
        while let Some((_, start, end)) = self.order.front_mut() {
            if *end > una {
                *start = una.max(*start);
                break;
            }
            self.order.pop_front();
        }
    }

    /// The peer holds `start..end`, which lies in what is outstanding.
    pub(super) fn on_sack(&mut self, start: Position, end: Position, outcome: &mut AckOutcome) {
        let mut gaps = [None; 8];
        let mut slots = gaps.iter_mut();
        self.sacked.for_each_gap(start, end, |from, until| {
            if let Some(slot) = slots.next() {
                *slot = Some((from, until));
            }
        });
        // A block rarely bridges more than one gap. If one bridges many, the rest waits for the next block.
        for (from, until) in gaps.into_iter().flatten() {
            self.sack_gap(from, until, outcome);
        }
    }

    fn sack_gap(&mut self, from: Position, until: Position, outcome: &mut AckOutcome) {
        let mut place = self.records.place_at(from);
        while let Some(record) = self.records.get(place).copied() {
            if record.start >= until {
                break;
            }
            // RFC 6675 §4: each octet that is SACKed is marked. A peer may hold a part of a segment: one that
            // was sent again in other segments, or that something on the way cut.
            let (start, end) = if self.sacked.len() < Self::EXACT_RANGES_MAX {
                (record.start.max(from), record.end.min(until))
            } else {
                inner_edges(&record, from, until)
            };
            if record.condition == Condition::Sacked || start >= end {
                place = self.records.after(place);
                continue;
            }
            if self.sacked.len() >= Self::SACKED_RANGES_MAX {
                return;
            }
            place = self.records.isolate(place, start, end);
            if let Some(record) = self.records.get_mut(place) {
                match record.condition {
                    Condition::Outstanding => self.outstanding.shrink(record.len()),
                    Condition::Lost => self.lost.remove(start, end),
                    Condition::Sacked => {}
                }
                record.condition = Condition::Sacked;
                outcome.reordered |= !record.retransmitted && end < self.highest_held;
                outcome.count(record, record.len());
                outcome.newly_sacked.grow(record.len());
            }
            self.highest_held = self.highest_held.max(end);
            self.sacked.insert(start, end);
            let joined = self.records.join(place);
            place = self.records.after(joined);
        }
    }

    /// When the first unacknowledged segment was last sent.
    pub(super) fn first_sent_at(&self) -> Option<Instant> {
        self.records.front().map(|first| first.moment.at)
    }

    /// Whether the first unacknowledged segment was sent more than once.
    pub(super) fn first_is_repeated(&self) -> bool {
        self.records.front().is_some_and(|first| first.retransmitted)
    }

    /// The lowest lost bytes that wait to be retransmitted: at most `max`, contiguous.
    pub(super) fn next_lost(&self, max: u64) -> Option<(Position, Position)> {
        self.lost.first().map(|(start, end)| (start, end.min(start + max)))
    }

    /// Lost bytes, as returned by `next_lost` or the front of that, were retransmitted in segments of
    /// `segment` bytes.
    pub(super) fn on_retransmitted(
        &mut self,
        start: Position,
        end: Position,
        segment: u32,
        moment: SendMoment,
    ) {
        let segment = segment.max(1);
        let mut place = self.records.place_at(start);
        while let Some(record) = self.records.get(place).copied() {
            if record.start >= end {
                break;
            }
            let from = record.start.max(start);
            // What left together may once have left in other segments. A record begins with a segment.
            let inside = from.since(start).checked_rem(u64::from(segment)).unwrap_or(0);
            let edge = if inside == 0 { end } else { from + u64::from(segment).saturating_sub(inside) };
            place = self.records.isolate(place, from, record.end.min(end).min(edge));
            if let Some(record) = self.records.get_mut(place) {
                if record.condition == Condition::Lost {
                    record.condition = Condition::Outstanding;
                    self.outstanding.grow(record.len());
                }
                record.moment = moment;
                record.segment = segment;
                record.retransmitted = true;
            }
            place = self.records.after(place);
        }
        self.lost.remove(start, end);
        self.extend_order(moment.at, start, end);
    }

    /// The first segment from `from` on that lies below something the peer holds and is not held itself
    /// (RFC 6675 §4 NextSeg (3)).
    pub(super) fn first_below_held(&self, from: Position) -> Option<(Position, Position)> {
        let start = self.sacked.containing(from).map_or(from, |(_, end)| end);
        self.sacked.descending().next().filter(|&(highest, _)| start < highest)?;
        let record = self.records.get(self.records.place_at(start))?;
        (record.condition == Condition::Outstanding)
            .then(|| (start, record.end.min(start + u64::from(record.segment))))
    }

    /// Counts the data that the peer was known to hold as outstanding again, for a policy that does not use
    /// SACKs.
    pub(super) fn forget_held(&mut self) {
        let outstanding = &mut self.outstanding;
        self.records.for_each_mut(|record| {
            if record.condition == Condition::Sacked {
                record.condition = Condition::Outstanding;
                outstanding.grow(record.len());
            }
        });
        self.sacked.clear();
        self.judged = Position::default();
    }

    /// The last segment that the peer is not known to hold, for a tail loss probe (RFC 8985 §7.3).
    pub(super) fn last_segment(&self) -> Option<(Position, Position)> {
        let sent = self.records.back()?.end;
        let end = match self.sacked.descending().next() {
            Some((start, held)) if held == sent => start,
            _ => sent,
        };
        let last = self.records.get(self.records.place_at(end.back(1)))?;
        // As it left: a record begins with a segment.
        let before = whole_segments(end.back(1).since(last.start), u64::from(last.segment));
        (last.condition == Condition::Outstanding).then(|| (last.start + before, end))
    }

    /// The first segment, unless the peer holds it or it waits to be retransmitted.
    pub(super) fn first_segment(&self) -> Option<(Position, Position)> {
        let first = self.records.front()?;
        (first.condition == Condition::Outstanding)
            .then(|| (first.start, first.end.min(first.start + u64::from(first.segment))))
    }

    fn extend_order(&mut self, at: Instant, start: Position, end: Position) {
        match self.order.back_mut() {
            Some(last) if last.0 == at && last.2 == start && end.since(last.1) <= Self::RECORD_MAX => {
                last.2 = end
            }
            _ => self.order.push_back((at, start, end)),
        }
    }

    /// `start..end` was sent again as a probe, without having been held to be lost.
    pub(super) fn on_probe(&mut self, start: Position, end: Position) {
        let place = self.records.place_at(start);
        if let Some(record) = self.records.get_mut(place).filter(|record| record.start < end) {
            record.retransmitted = true;
        }
    }

    /// Whether the peer once reported to hold the first unacknowledged byte, which is impossible: it reneged.
    pub(super) fn first_is_sacked(&self) -> bool {
        self.records.front().is_some_and(|record| record.condition == Condition::Sacked)
    }

    /// A recovery episode is over: what is sent from now on is judged separately.
    pub(super) fn on_recovery_end(&mut self) {
        self.judged = Position::default();
        // The window has been smaller for long: frees what much larger ones needed.
        self.records.give_back();
        give_back(&mut self.order);
    }

    /// Frees all memory when nothing is outstanding.
    pub(super) fn shrink(&mut self) {
        if self.records.is_empty() {
            self.records = Records::default();
            self.order = VecDeque::new();
            self.judged = Position::default();
            self.sacked.shrink();
            self.lost.shrink();
        }
    }

    /// The most bytes that all of it takes, if records are sent in segments of at least `smss` bytes. The
    /// pieces of split records are not counted one by one, and their deques may have capacity for twice as
    /// many.
    pub(super) fn bytes(&self, smss: u32) -> usize {
        let ranges =
            [&self.sacked, &self.lost].into_iter().map(|set| RangeSet::bytes_of(set.len())).sum::<usize>();
        let order = self.order.capacity().saturating_mul(size_of::<(Instant, Position, Position)>());
        let kept = self.records.bytes().saturating_add(order);
        if ranges == 0 {
            // Records are only split around such a range.
            return kept;
        }
        let outstanding = match (self.records.front(), self.records.back()) {
            (Some(first), Some(last)) => last.end.index_from(first.start),
            _ => 0,
        };
        let cut = self.sacked.len().min(Self::EXACT_RANGES_MAX).saturating_mul(2);
        let pieces = outstanding.checked_div(smss as usize).unwrap_or(outstanding).saturating_add(cut);
        kept.saturating_add(pieces.saturating_mul(2).saturating_mul(size_of::<Record>()))
            .saturating_add(ranges)
    }

    #[cfg(test)]
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        self.records.iter().count()
    }

    /// Records visited so far.
    #[cfg(test)]
    pub(super) fn visits(&self) -> u64 {
        self.records.visits()
    }

    /// Whether to check all records after this call: after every call while they are few; otherwise so rarely
    /// that a call pays for [`CHECKED_EACH_CALL`] records. Checking after each would cost a window of n
    /// segments n² on its way out and back. The decision depends on what moves with each call, so equal
    /// histories are checked equally.
    #[cfg(debug_assertions)]
    pub(super) fn is_checked_at(&self, una: Position, nxt: Position) -> bool {
        // As many records as segments, if all batches are split.
        let segment = self.records.front().map_or(1, |record| record.segment.max(1));
        let segments = nxt.since(una).checked_div(u64::from(segment)).unwrap_or(0);
        let share = segments / CHECKED_EACH_CALL;
        let origin = Position::default();
        let moved =
            [una.since(origin), nxt.since(origin), self.outstanding, self.sacked.bytes(), self.lost.bytes()];
        let mixed =
            moved.into_iter().fold(0, |sum: u64, one| (sum ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        share == 0 || (mixed >> 32).is_multiple_of(share)
    }

    /// Checks that the sums agree with the records.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.violated(), None);
    }

    /// Names an invariant of the records and their sums that does not hold, if any.
    pub(super) fn violated(&self) -> Option<&'static str> {
        let (mut outstanding, mut lost, mut sacked) = (0_u64, 0_u64, 0_u64);
        let mut before: Option<&Record> = None;
        for record in self.records.iter() {
            if record.start >= record.end {
                return Some("no record is empty");
            }
            if before.is_some_and(|before| before.end != record.start) {
                return Some("records are contiguous");
            }
            before = Some(record);
            let sum = match record.condition {
                Condition::Outstanding => &mut outstanding,
                Condition::Lost => &mut lost,
                Condition::Sacked => &mut sacked,
            };
            sum.grow(record.len());
        }
        let sums = [
            (self.outstanding == outstanding, "the pipe is what is outstanding"),
            (self.lost.bytes() == lost, "what is lost is marked as lost"),
            (self.sacked.bytes() == sacked, "what is sacked is marked as sacked"),
        ];
        sums.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }

    /// Whether each marked record lies in the set of its mark. The sums then agree only with equal sets.
    pub(super) fn marks_agree(&self) -> bool {
        self.records.iter().all(|record| {
            let marked = match record.condition {
                Condition::Outstanding => return true,
                Condition::Lost => &self.lost,
                Condition::Sacked => &self.sacked,
            };
            marked.containing(record.start).is_some_and(|(_, end)| record.end <= end)
        })
    }

    /// Whether its records begin with the first of these positions and do not go beyond the last.
    pub(super) fn lies_within(&self, una: Position, nxt: Position) -> bool {
        let first = self.records.front().is_none_or(|first| first.start == una);
        first && self.records.back().is_none_or(|last| last.end <= nxt)
    }
}

/// Records that a check visits per call on average, if there are more.
#[cfg(debug_assertions)]
pub(super) const CHECKED_EACH_CALL: u64 = 64;

/// How much of a segment is left after `bytes` of segments of this size; zero at the end of one.
fn left_of_segment(bytes: u64, segment: u32) -> u64 {
    let segment = u64::from(segment);
    match bytes.checked_rem(segment) {
        None | Some(0) => 0,
        Some(begun) => segment.saturating_sub(begun),
    }
}

/// The part of `from..until` within `record`, cut inward to the edges of the segments in which it was sent.
fn inner_edges(record: &Record, from: Position, until: Position) -> (Position, Position) {
    let segment = u64::from(record.segment);
    let start = match from.since(record.start) {
        0 => record.start,
        inside => record.start + inside.checked_next_multiple_of(segment).unwrap_or(inside),
    };
    let end = if until >= record.end {
        record.end
    } else {
        record.start + whole_segments(until.since(record.start), segment)
    };
    (start.min(record.end), end)
}

ackclock_form::form! {
    struct SendMoment { at, delivered, delivered_at, sending_us, in_flight, lost, app_limited }
    enum Condition { 0 Outstanding, 1 Lost, 2 Sacked }
    struct Record { start, end, moment, segment, condition, retransmitted } => |record| record.segment > 0;
    struct Scoreboard { records, sacked, lost, outstanding, judged, highest_held, order as with_capacity }
}
