//! Storing and delivering a connection's records.

use ackclock_control::tally::Tally;

use super::names::{known_name, known_names};
use super::{Entry, Record};
use crate::config::profile_name;
use crate::{FourTuple, Instant};

/// How to trace a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// How many records to allocate for a connection, 16 bytes each, clamped to 64 to 1,048,576. None for
    /// [`TraceKeep::Changes`], which stores nothing.
    pub records: usize,
    /// Which records to keep.
    pub keep: TraceKeep,
}

/// Which records of a connection to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceKeep {
    /// All: they are delivered each time the allocated ones are full, and at the end.
    All,
    /// The newest: a flight recorder. They are delivered when the connection fails, when its retransmission
    /// timer has expired three times in a row, and on request.
    Newest,
    /// Only what changes the connection or costs it data: changes of its state, losses and what ends them,
    /// expiries of the retransmission timer, resets that leave, and its failure. They are delivered at once.
    /// An endpoint can deliver them for all its connections, besides their traces:
    /// [`EndpointConfig::tell_changes`](crate::EndpointConfig::tell_changes).
    Changes,
}

impl TraceConfig {
    /// Everything is kept, and delivered in batches of 4,096 records.
    pub const FULL: Self = Self { records: 4096, keep: TraceKeep::All };
    /// The newest 1,024 records are kept.
    pub const FLIGHT_RECORDER: Self = Self { records: 1024, keep: TraceKeep::Newest };
    /// Changes of the connection and losses of data are reported at once.
    pub const CHANGES: Self = Self { records: 0, keep: TraceKeep::Changes };

    /// Without room for a record, each is handled as the last.
    fn capacity(self) -> usize {
        if self.keep == TraceKeep::Changes { 0 } else { self.records.clamp(64, RECORDS_MAX) }
    }
}

/// The most records that a log has.
const RECORDS_MAX: usize = 1 << 20;

/// A batch of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The connection's number at the endpoint, in order of creation, from 0.
    pub connection: u64,
    /// Its two sockets.
    pub tuple: FourTuple,
    /// Its profile.
    pub profile: &'static str,
    /// Its controller.
    pub congestion: &'static str,
    /// Names of the controller's numbers, by the index in [`Entry::Controller`](super::Entry::Controller).
    pub names: Vec<&'static str>,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// How many before these were overwritten, or dropped because they were not collected in time.
    pub missed: u64,
    /// Why they are delivered now.
    pub cause: BatchCause,
}

coded! {
    /// Why records are delivered.
    pub enum BatchCause {
        /// The allocated records are full.
        Full = "full",
        /// The connection is gone.
        Ended = "ended",
        /// It failed.
        Failed = "failed",
        /// Its retransmission timer has expired three times in a row.
        Stalled = "stalled",
        /// They were requested.
        Requested = "requested",
        /// They are changes, which are reported at once.
        Changed = "changed",
    }
}

/// The records of one connection.
#[derive(Debug)]
pub(crate) struct Log {
    /// How many records are allocated.
    capacity: usize,
    keep: TraceKeep,
    records: Vec<Record>,
    /// For the newest: the index of the next, which is that of the oldest.
    next: usize,
    missed: u64,
    due: Option<BatchCause>,
}

impl Log {
    pub fn new(config: TraceConfig) -> Self {
        let capacity = config.capacity();
        Self {
            capacity,
            keep: config.keep,
            records: Vec::with_capacity(capacity),
            next: 0,
            missed: 0,
            due: None,
        }
    }

    #[inline]
    pub fn push(&mut self, at: Instant, entry: Entry) {
        let record = entry.encode(at);
        if self.records.len() < self.capacity.saturating_sub(1) {
            self.records.push(record);
        } else {
            self.push_last(entry, record);
        }
    }

    /// The last record for which there is room, or one more.
    #[cold]
    fn push_last(&mut self, entry: Entry, record: Record) {
        if self.keep == TraceKeep::Changes {
            if entry.is_change() {
                self.records.push(record);
                self.due = self.due.or(Some(BatchCause::Changed));
            }
            return;
        }
        if self.records.len() < self.capacity {
            self.records.push(record);
            if self.keep == TraceKeep::All {
                // A cause that is known already says more.
                self.due = self.due.or(Some(BatchCause::Full));
            }
            return;
        }
        if self.keep == TraceKeep::All {
            // One call may add more than was allocated; all are delivered together when it returns.
            self.records.push(record);
            return;
        }
        if let Some(oldest) = self.records.get_mut(self.next) {
            *oldest = record;
        }
        self.next = self.next.saturating_add(1).checked_rem(self.records.len()).unwrap_or(0);
        self.missed.count();
    }

    /// Marks a flight recorder, or the rest of a log, for delivery.
    pub fn call(&mut self, cause: BatchCause) {
        // No changes are held back that could be requested.
        if self.keep != TraceKeep::Changes {
            self.due = Some(cause);
        }
    }

    /// Whether this is a log of changes.
    pub fn is_of_changes(&self) -> bool {
        self.keep == TraceKeep::Changes
    }

    #[inline]
    pub fn due(&self) -> Option<BatchCause> {
        self.due
    }

    /// Whether records are left that are wanted when the connection ends.
    pub fn has_rest(&self) -> bool {
        self.keep == TraceKeep::All && (!self.records.is_empty() || self.missed > 0)
    }

    /// The records, oldest first, and how many were lost before them.
    pub fn take(&mut self) -> (Vec<Record>, u64) {
        self.due = None;
        let mut records = std::mem::replace(&mut self.records, Vec::with_capacity(self.capacity));
        records.rotate_left(std::mem::take(&mut self.next));
        if records.len() < records.capacity() / 2 {
            // It may have to wait for long.
            records.shrink_to_fit();
        }
        (records, std::mem::take(&mut self.missed))
    }

    /// How many are missing before the first.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Counts records that will not be delivered.
    pub fn miss(&mut self, records: u64) {
        self.missed.grow(records);
    }

    pub fn iter(&self) -> impl Iterator<Item = Record> + '_ {
        let (new, old) = self.records.split_at(self.next.min(self.records.len()));
        old.iter().chain(new).copied()
    }
}

ackclock_form::form! {
    struct TraceConfig { records, keep }
    enum TraceKeep { 0 All, 1 Newest, 2 Changes }
    struct Batch {
        connection, tuple, profile as profile_name, congestion as known_name, names as known_names,
        records, missed, cause
    }
    struct Log { capacity, keep, records, next, missed, due } => |log| log.next <= log.records.len() && log.capacity <= RECORDS_MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(keep: TraceKeep, entries: u32) -> Log {
        let mut log = Log::new(TraceConfig { records: 64, keep });
        for value in 0..entries {
            log.push(Instant::ZERO, Entry::TimerSet { timer: super::super::Timer::Close, in_us: value });
        }
        log
    }

    fn values(records: impl IntoIterator<Item = Record>) -> Vec<u32> {
        let value = |record| match Entry::decode(record) {
            Some(Entry::TimerSet { in_us, .. }) => in_us,
            other => panic!("{other:?}"),
        };
        records.into_iter().map(value).collect()
    }

    #[test]
    fn a_flight_recorder_keeps_the_newest_in_their_order() {
        let mut log = log(TraceKeep::Newest, 100);
        assert_eq!((log.due(), values(log.iter())), (None, (36..100).collect()));
        let (records, missed) = log.take();
        assert_eq!((values(records), missed), ((36..100).collect(), 36));
        assert_eq!(log.take(), (vec![], 0));
    }

    #[test]
    fn a_log_of_changes_is_due_with_the_first_and_keeps_nothing_else() {
        let mut log = log(TraceKeep::Changes, 100);
        assert_eq!((log.due(), log.take()), (None, (vec![], 0)));
        log.call(BatchCause::Requested);
        assert_eq!(log.due(), None);
        log.push(Instant::ZERO, Entry::Failed(super::super::Failure::Reset));
        log.push(Instant::ZERO, Entry::Shutdown);
        assert_eq!((log.due(), log.take().0.len(), log.due()), (Some(BatchCause::Changed), 1, None));
    }

    #[test]
    fn a_full_log_is_due_and_loses_nothing_until_it_is_taken() {
        assert_eq!(log(TraceKeep::All, 63).due(), None);
        let mut log = log(TraceKeep::All, 100);
        assert_eq!(log.due(), Some(BatchCause::Full));
        let (records, missed) = log.take();
        assert_eq!((values(records), missed, log.due()), ((0..100).collect(), 0, None));
    }

    #[test]
    fn records_that_fill_less_than_half_of_their_memory_give_the_rest_back() {
        for (entries, capacity) in [(0, 0), (1, 1), (31, 31), (32, 64), (63, 64)] {
            let mut log = log(TraceKeep::All, entries);
            assert_eq!(log.has_rest(), entries > 0);
            let (records, _) = log.take();
            assert_eq!((records.len(), records.capacity()), (entries as usize, capacity));
            assert_eq!((log.has_rest(), log.missed()), (false, 0));
            log.miss(3);
            assert_eq!((log.has_rest(), log.missed()), (true, 3));
        }
        for (records, capacity) in [(0, 64), (63, 64), (65, 65), (1 << 20, 1 << 20), (1 << 21, 1 << 20)] {
            assert_eq!(TraceConfig { records, ..TraceConfig::FULL }.capacity(), capacity);
        }
    }
}
