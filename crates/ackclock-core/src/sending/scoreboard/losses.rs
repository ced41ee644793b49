//! Marks outstanding data as lost, by what the peer holds beyond it, by time, or altogether, and takes that
//! back.

use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::tally::Tally;

use super::super::records::RecordIndex;
use super::{Condition, Record, Scoreboard, SendMoment};
use crate::position::Position;

/// The ranges that were found to be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sending) struct Marked {
    /// Bytes that count as lost from now on.
    pub bytes: u64,
    /// The newest transmission among them.
    pub newest: Option<SendMoment>,
    /// From the start of the first to the end of the last.
    pub span: Option<(Position, Position)>,
}

impl Marked {
    fn add(&mut self, record: &Record) {
        self.bytes.grow(record.len());
        let (start, end) = self.span.unwrap_or((record.start, record.end));
        self.span = Some((start.min(record.start), end.max(record.end)));
        if self.newest.is_none_or(|newest| newest.at <= record.moment.at) {
            self.newest = Some(record.moment);
        }
    }
}

impl Scoreboard {
    /// The boundary below which RFC 6675 §4 IsLost holds for data that is not SACKed: `dup_thresh`
    /// discontiguous ranges or more than `dup_thresh - 1` segments of `smss` bytes were SACKed above it.
    pub(in crate::sending) fn lost_boundary(&self, dup_thresh: u32, smss: u32) -> Option<Position> {
        let bytes_needed = u64::from(dup_thresh.saturating_sub(1)).saturating_mul(u64::from(smss));
        let mut bytes = 0_u64;
        for (ranges, (start, end)) in (1..).zip(self.sacked.descending()) {
            bytes.grow(end.since(start));
            if ranges >= dup_thresh || bytes > bytes_needed {
                return Some(start);
            }
        }
        None
    }

    /// Marks outstanding data before `boundary` that was sent once as lost. Each record is judged once.
    pub(in crate::sending) fn mark_lost_before(&mut self, boundary: Position) -> Marked {
        let mut place = self.records.place_at(self.judged);
        let mut marked = Marked::default();
        while let Some(record) = self.records.get(place).copied() {
            if record.start >= boundary {
                break;
            }
            if record.condition == Condition::Outstanding && !record.retransmitted {
                place = self.records.isolate(place, record.start, record.end.min(boundary));
                self.mark_lost_at(place, &mut marked);
            }
            place = self.records.after(place);
        }
        self.judged = self.judged.max(boundary);
        marked
    }

    /// Marks the first unacknowledged segment as lost, whatever its history.
    pub(in crate::sending) fn mark_first_lost(&mut self) -> Marked {
        let mut marked = Marked::default();
        if let Some(first) = self.records.front().copied()
            && first.condition == Condition::Outstanding
        {
            let end = first.end.min(first.start + u64::from(first.segment));
            let place = self.records.place_at(first.start);
            let place = self.records.isolate(place, first.start, end);
            self.mark_lost_at(place, &mut marked);
        }
        marked
    }

    /// Marks everything that the peer is not known to hold as lost (RFC 6675 §5.1: after a timeout). With
    /// `reneged`, also what it was known to hold (RFC 2018 §8).
    pub(in crate::sending) fn mark_all_lost(&mut self, reneged: bool) -> Marked {
        if reneged {
            self.sacked.clear();
        }
        let mut marked = Marked::default();
        let lost = &mut self.lost;
        self.records.for_each_mut(|record| {
            let lose = match record.condition {
                Condition::Outstanding => true,
                Condition::Sacked => reneged,
                Condition::Lost => false,
            };
            if lose {
                record.condition = Condition::Lost;
                marked.add(record);
                lost.insert(record.start, record.end);
            }
        });
        self.outstanding = 0;
        self.judged = Position::default();
        marked
    }

    /// RFC 8985 §6.3: marks as lost what is outstanding and was sent at least `patience` ago, and whatever
    /// lies at `una`.
    pub(in crate::sending) fn mark_lost_at_timeout(
        &mut self,
        now: Instant,
        una: Position,
        patience: Duration,
    ) -> Marked {
        let mut marked = Marked::default();
        let (lost, outstanding) = (&mut self.lost, &mut self.outstanding);
        self.records.for_each_mut(|record| {
            let late = record.start <= una || record.moment.at + patience <= now;
            if record.condition == Condition::Outstanding && late {
                record.condition = Condition::Lost;
                outstanding.shrink(record.len());
                marked.add(record);
                lost.insert(record.start, record.end);
            }
        });
        self.judged = Position::default();
        marked
    }

    /// Whether a transmission from before `newest` may still be in flight.
    #[inline]
    pub(in crate::sending) fn was_sent_before(&self, newest: (Instant, Position)) -> bool {
        self.order.front().is_some_and(|&(at, start, _)| (at, start) < newest)
    }

    /// RFC 8985 §6.2 step 5: marks as lost what was sent before `newest` and at least `patience` ago. Also
    /// returns when the next will be due.
    pub(in crate::sending) fn mark_lost_by_time(
        &mut self,
        now: Instant,
        newest: (Instant, Position),
        patience: Duration,
    ) -> (Marked, Option<Instant>) {
        let mut marked = Marked::default();
        while let Some(&(at, start, end)) = self.order.front() {
            if (at, start) >= newest {
                break;
            }
            let until = if at < newest.0 { end } else { end.min(newest.1) };
            let due = at + patience;
            if due > now {
                if let Some(waiting) = self.first_waiting(at, start, until) {
                    // What lies before it is settled, and is not visited again.
                    if let Some(front) = self.order.front_mut() {
                        front.1 = waiting;
                    }
                    return (marked, Some(due));
                }
            } else {
                self.mark_lost_sent_at(at, start, until, &mut marked);
            }
            self.order.pop_front();
            if until < end {
                self.order.push_front((at, until, end));
                break;
            }
        }
        (marked, None)
    }

    /// The start of the first record within `start..end` that was last sent at `at` and is still in flight.
    fn first_waiting(&self, at: Instant, start: Position, end: Position) -> Option<Position> {
        let mut place = self.records.place_at(start);
        while let Some(record) = self.records.get(place).filter(|record| record.start < end) {
            if record.condition == Condition::Outstanding && record.moment.at == at {
                return Some(record.start.max(start));
            }
            place = self.records.after(place);
        }
        None
    }

    fn mark_lost_sent_at(&mut self, at: Instant, start: Position, end: Position, marked: &mut Marked) {
        let mut place = self.records.place_at(start);
        while let Some(record) = self.records.get(place).copied() {
            if record.start >= end {
                break;
            }
            if record.condition == Condition::Outstanding && record.moment.at == at {
                place = self.records.isolate(place, record.start.max(start), record.end.min(end));
                self.mark_lost_at(place, marked);
            }
            place = self.records.after(place);
        }
    }

    /// Nothing was lost: data counted as lost is outstanding again.
    pub(in crate::sending) fn on_undo(&mut self) {
        while let Some((start, end)) = self.lost.first() {
            let mut place = self.records.place_at(start);
            while let Some(record) = self.records.get_mut(place).filter(|record| record.start < end) {
                if record.condition == Condition::Lost {
                    record.condition = Condition::Outstanding;
                    self.outstanding.grow(record.len());
                    // RACK removed it from its list when it was found late.
                    self.order.push_front((record.moment.at, record.start, record.end));
                }
                place = self.records.after(place);
            }
            self.lost.remove(start, end);
        }
        self.order.make_contiguous().sort_unstable();
        self.judged = Position::default();
    }

    fn mark_lost_at(&mut self, place: RecordIndex, marked: &mut Marked) {
        let Some(record) = self.records.get_mut(place) else { return };
        record.condition = Condition::Lost;
        marked.add(record);
        self.outstanding.shrink(record.len());
        self.lost.insert(record.start, record.end);
    }
}
