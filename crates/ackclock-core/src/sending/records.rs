//! The records of a scoreboard: contiguous, in order of position, numerous, split in the middle.
//!
//! A deque of batches, each what one call sent: one record, or the pieces that it was split into. Growing at
//! the end and shrinking at the front touch one batch and allocate nothing. A split moves only the pieces of
//! its batch, at most as many as there are segments in 64 KB, never other batches. Finding costs O(log n).

use std::collections::VecDeque;

use ackclock_control::tally::Tally;

use super::scoreboard::{Record, SendMoment};
use crate::position::Position;
use ackclock_form::{Form, FormError, Reader, Writer, with_capacity};

#[derive(Debug, Default)]
pub(super) struct Records {
    batches: VecDeque<Batch>,
    /// Records visited, for tests of an acknowledgement's cost.
    #[cfg(test)]
    visits: Visits,
}

/// Frees capacity that is more than four times what is needed, when the window has become smaller.
pub(super) fn give_back<T>(deque: &mut VecDeque<T>) {
    const TIMES: usize = 4;
    let needed = deque.len();
    if deque.capacity() > needed.max(TIMES).saturating_mul(TIMES) {
        deque.shrink_to(needed.saturating_mul(2));
    }
}

#[derive(Debug)]
enum Batch {
    Whole(Record),
    /// Never empty.
    Split(VecDeque<Record>),
}

/// A meter, ignored when tests compare two paths of different cost.
#[cfg(test)]
#[derive(Default)]
struct Visits(std::cell::Cell<u64>);

#[cfg(test)]
impl std::fmt::Debug for Visits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Visits")
    }
}

/// The place of a record, valid until records are added or removed before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordIndex {
    batch: usize,
    piece: usize,
}

impl Batch {
    fn first(&self) -> Option<&Record> {
        self.piece(0)
    }

    fn last(&self) -> Option<&Record> {
        match self {
            Self::Whole(record) => Some(record),
            Self::Split(pieces) => pieces.back(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Whole(_) => 1,
            Self::Split(pieces) => pieces.len(),
        }
    }

    fn piece(&self, piece: usize) -> Option<&Record> {
        match self {
            Self::Whole(record) => (piece == 0).then_some(record),
            Self::Split(pieces) => pieces.get(piece),
        }
    }

    fn piece_mut(&mut self, piece: usize) -> Option<&mut Record> {
        match self {
            Self::Whole(record) => (piece == 0).then_some(record),
            Self::Split(pieces) => pieces.get_mut(piece),
        }
    }

    fn insert(&mut self, piece: usize, new: Record) {
        match self {
            Self::Whole(record) => *self = Self::Split(VecDeque::from([*record])),
            Self::Split(_) => {}
        }
        if let Self::Split(pieces) = self {
            pieces.insert(piece.min(pieces.len()), new);
        }
    }
}

impl Records {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Bytes allocated, without the pieces of split batches.
    pub(super) fn bytes(&self) -> usize {
        self.batches.capacity().saturating_mul(size_of::<Batch>())
    }

    /// Frees capacity that far more batches once needed.
    pub(super) fn give_back(&mut self) {
        give_back(&mut self.batches);
    }

    #[inline]
    pub(super) fn push_back(&mut self, record: Record) {
        self.batches.push_back(Batch::Whole(record));
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&Record> {
        self.batches.front()?.first()
    }

    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut Record> {
        self.visit(1);
        self.batches.front_mut()?.piece_mut(0)
    }

    pub(super) fn back(&self) -> Option<&Record> {
        self.batches.back()?.last()
    }

    /// The last record, if nothing was split off it, so that it may still grow.
    #[inline]
    pub(super) fn growing_mut(&mut self) -> Option<&mut Record> {
        match self.batches.back_mut()? {
            Batch::Whole(record) => Some(record),
            Batch::Split(_) => None,
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) {
        if let Some(Batch::Split(pieces)) = self.batches.front_mut()
            && pieces.len() > 1
        {
            pieces.pop_front();
            return;
        }
        self.batches.pop_front();
    }

    /// Removes everything before `until` from the front. Returns when the last of it left. Returns `None`,
    /// and changes nothing, if any of it is not `plain`, or in pieces.
    #[inline]
    pub(super) fn take_plain(
        &mut self,
        until: Position,
        plain: impl Fn(&Record) -> bool,
    ) -> Option<SendMoment> {
        let mut whole = 0_usize;
        let moment = loop {
            let Batch::Whole(record) = self.batches.get_mut(whole)? else { return None };
            if !plain(record) {
                return None;
            }
            whole.grow(usize::from(record.end <= until));
            if until <= record.end {
                record.start = until;
                break record.moment;
            }
        };
        for _ in 0..whole {
            self.batches.pop_front();
        }
        Some(moment)
    }

    /// The place of the first record that ends after `at`.
    pub(super) fn place_at(&self, at: Position) -> RecordIndex {
        let ends_before = |record: &Record| record.end <= at;
        let batch = self.batches.partition_point(|batch| batch.last().is_some_and(ends_before));
        let piece = match self.batches.get(batch) {
            Some(Batch::Split(pieces)) => pieces.partition_point(ends_before),
            _ => 0,
        };
        RecordIndex { batch, piece }
    }

    pub(super) fn get(&self, place: RecordIndex) -> Option<&Record> {
        self.visit(1);
        self.batches.get(place.batch)?.piece(place.piece)
    }

    pub(super) fn get_mut(&mut self, place: RecordIndex) -> Option<&mut Record> {
        self.batches.get_mut(place.batch)?.piece_mut(place.piece)
    }

    /// The next place.
    pub(super) fn after(&self, place: RecordIndex) -> RecordIndex {
        let piece = place.piece.saturating_add(1);
        if self.batches.get(place.batch).is_some_and(|batch| piece < batch.len()) {
            RecordIndex { piece, ..place }
        } else {
            RecordIndex { batch: place.batch.saturating_add(1), piece: 0 }
        }
    }

    /// Splits the record at `place` so that `start..end`, which lies in it, is a separate record. Returns its
    /// place.
    pub(super) fn isolate(&mut self, place: RecordIndex, start: Position, end: Position) -> RecordIndex {
        let Some(batch) = self.batches.get_mut(place.batch) else { return place };
        let Some(record) = batch.piece(place.piece).copied() else { return place };
        let mut piece = place.piece;
        if record.start < start {
            batch.insert(piece, Record { end: start, ..record });
            piece.count();
        }
        if end < record.end {
            batch.insert(piece.saturating_add(1), Record { start: end, ..record });
        }
        if let Some(middle) = batch.piece_mut(piece) {
            middle.start = start;
            middle.end = end;
        }
        let moved = batch.len();
        if moved > 1 {
            self.visit(moved as u64);
        }
        RecordIndex { piece, ..place }
    }

    /// Joins the record at `place` to its neighbours, where one call sent them and the same became of them.
    /// Returns its place.
    pub(super) fn join(&mut self, place: RecordIndex) -> RecordIndex {
        let RecordIndex { batch, mut piece } = place;
        let Some(Batch::Split(pieces)) = self.batches.get_mut(batch) else { return place };
        let mut moved = 0;
        for first in [Some(piece), piece.checked_sub(1)].into_iter().flatten() {
            let second = first.saturating_add(1);
            let (Some(one), Some(two)) = (pieces.get(first), pieces.get(second).copied()) else { continue };
            if one.is_like(&two) {
                if let Some(one) = pieces.get_mut(first) {
                    one.end = two.end;
                }
                pieces.remove(second);
                piece = first;
                moved = pieces.len();
            }
        }
        self.visit(moved as u64);
        RecordIndex { batch, piece }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.batches.iter().flat_map(|batch| (0..batch.len()).filter_map(|piece| batch.piece(piece)))
    }

    pub(super) fn for_each_mut(&mut self, mut visit: impl FnMut(&mut Record)) {
        for batch in &mut self.batches {
            match batch {
                Batch::Whole(record) => visit(record),
                Batch::Split(pieces) => pieces.iter_mut().for_each(&mut visit),
            }
        }
    }

    #[cfg(test)]
    pub(super) fn visits(&self) -> u64 {
        self.visits.0.get()
    }

    #[inline]
    fn visit(&self, records: u64) {
        #[cfg(test)]
        self.visits.0.set(self.visits.0.get() + records);
        let _ = records;
    }
}

ackclock_form::form! {
    enum Batch { 0 Whole(value), 1 Split(value) }
}

impl Form for Records {
    fn write(&self, out: &mut Writer) {
        with_capacity::write(&self.batches, out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let batches: VecDeque<Batch> = with_capacity::read(input)?;
        if batches.iter().any(|batch| batch.len() == 0) {
            return Err(FormError::Invariant("Records"));
        }
        Ok(Self {
            batches,
            #[cfg(test)]
            visits: Visits::default(),
        })
    }
}
