//! TIME-WAIT without a connection: the few numbers needed to answer what is left in the network.
//!
//! A connection in TIME-WAIT that the application has released becomes a record here. Records expire in order
//! of addition (with one list for each duration), so expiry costs a constant number of steps. When the table
//! is full, the record that would expire first is recycled: new connections are never refused because of it.

use std::time::Duration;

use ackclock_wire::{Fields, Flags, Segment, SeqNum};

use super::Answer;
use super::compact::{Limiter, is_acceptable, is_old_timestamp};
use super::replies::bare;
use super::slots::Slots;
use crate::connection::{TimeWaitParams, timestamp_clock};
use crate::{FourTuple, Instant};

/// All TIME-WAIT records of an endpoint.
#[derive(Debug)]
pub(super) struct TimeWaitTable {
    records: Slots<TimeWait>,
    lists: Vec<List>,
    max: usize,
}

/// One connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
struct TimeWait {
    tuple: FourTuple,
    last: TimeWaitParams,
    list: u8,
    expires: Instant,
    limiter: Limiter,
    next: u32,
    previous: u32,
}

/// The answer to a segment for a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeWaitAction {
    /// Nothing.
    Drop,
    /// Send <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>.
    Acknowledge,
    /// A new connection replaces the record. Its ISS must be after `snd_nxt`.
    Reopen {
        /// SND.NXT of the old connection.
        snd_nxt: SeqNum,
    },
}

/// Records of one duration in order of expiry.
#[derive(Clone, Copy, Debug)]
struct List {
    duration: Duration,
    head: u32,
    tail: u32,
}

impl TimeWaitTable {
    pub fn new(max: usize) -> Self {
        Self { records: Slots::default(), lists: Vec::new(), max: max.max(1) }
    }

    /// Whether each record is in the list that it names, once.
    fn is_sound(&self) -> bool {
        let mut listed = 0_usize;
        for (list, place) in self.lists.iter().zip(0_u8..) {
            let (mut index, mut previous) = (list.head, NIL);
            while let Some(record) = self.records.at(index) {
                if record.list != place || record.previous != previous || listed >= self.records.len() {
                    return false;
                }
                listed = listed.saturating_add(1);
                (previous, index) = (index, record.next);
            }
            if index != NIL || list.tail != previous {
                return false;
            }
        }
        listed == self.records.len() && self.lists.len() <= usize::from(u8::MAX) && self.max > 0
    }

    /// Adds a record that lasts `duration` from now. Returns its index. There must be room: see
    /// [`Self::surplus`].
    pub fn insert(
        &mut self,
        now: Instant,
        duration: Duration,
        tuple: FourTuple,
        last: TimeWaitParams,
    ) -> u32 {
        let list = self.list_for(duration);
        let (index, _) = self.records.insert(TimeWait {
            tuple,
            last,
            list,
            expires: now,
            limiter: Limiter::default(),
            next: NIL,
            previous: NIL,
        });
        self.append(index, now);
        index
    }

    /// Removes a record. Returns its four-tuple.
    pub fn remove(&mut self, index: u32) -> Option<FourTuple> {
        self.unlink(index);
        self.records.remove(index).map(|record| record.tuple)
    }

    pub fn tuple(&self, index: u32) -> Option<&FourTuple> {
        self.records.at(index).map(|record| &record.tuple)
    }

    /// <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK> for a record.
    pub fn acknowledgement(&self, now: Instant, index: u32, ttl: u8) -> Option<Answer> {
        let TimeWait { tuple, last, .. } = *self.records.at(index)?;
        let mut fields = Fields { window: last.window, ..bare(last.snd_nxt, last.rcv_nxt, Flags::ACK) };
        fields.options.timestamps =
            last.timestamps.map(|(recent, offset)| (timestamp_clock(now).wrapping_add(offset), recent));
        Some(Answer { tuple, ttl, label_changes: last.label_changes, recent: None, fields })
    }

    /// The four-tuples of all records.
    pub fn tuples(&self) -> impl Iterator<Item = FourTuple> + '_ {
        self.bound().map(|(_, tuple)| tuple)
    }

    /// All records, with their four-tuples.
    pub fn bound(&self) -> impl Iterator<Item = (u32, FourTuple)> + '_ {
        self.records.iter().map(|(index, _, record)| (index, record.tuple))
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The record to recycle before adding another, if the table is full.
    pub fn surplus(&self) -> Option<u32> {
        if self.records.len() < self.max { None } else { self.first().map(|(index, _)| index) }
    }

    pub fn next_timeout(&self) -> Option<Instant> {
        self.first().map(|(_, expires)| expires)
    }

    /// An expired record, still in the table.
    pub fn expired(&self, now: Instant) -> Option<u32> {
        self.first().filter(|(_, expires)| *expires <= now).map(|(index, _)| index)
    }

    /// RFC 9293 §3.10.7.4 in TIME-WAIT, in the order of its steps.
    pub fn judge(&mut self, now: Instant, index: u32, segment: &Segment<'_>) -> TimeWaitAction {
        let Some(record) = self.records.at_mut(index) else { return TimeWaitAction::Drop };
        let last = record.last;
        // RFC 1337 §3 (F1): a reset, old or forged, must not end TIME-WAIT before its time.
        if segment.flags.contains(Flags::RST) {
            return TimeWaitAction::Drop;
        }
        if is_plain_syn(segment) && last.may_reopen(segment) {
            return TimeWaitAction::Reopen { snd_nxt: last.snd_nxt };
        }
        // "The only thing that can arrive in this state is a retransmission of the remote FIN": it restarts
        // the 2 MSL timer, and is answered each time, because the peer waits for nothing else.
        let end = segment.seq + segment.seq_len();
        let is_old = last.is_old(segment);
        if segment.flags.contains(Flags::FIN | Flags::ACK) && end == last.rcv_nxt && !is_old {
            self.unlink(index);
            self.append(index, now);
            return TimeWaitAction::Acknowledge;
        }
        let unacceptable = is_old || !is_acceptable(segment, last.rcv_nxt, u32::from(last.window));
        // RFC 5961 §4.2: any other SYN is challenged.
        let is_syn = segment.flags.contains(Flags::SYN);
        if (unacceptable || is_syn) && record.limiter.allow(now) {
            return TimeWaitAction::Acknowledge;
        }
        TimeWaitAction::Drop
    }

    /// The record that expires first, and when.
    fn first(&self) -> Option<(u32, Instant)> {
        let heads =
            self.lists.iter().filter_map(|list| Some((list.head, self.records.at(list.head)?.expires)));
        heads.min_by_key(|(_, expires)| *expires)
    }

    /// The list for a duration. Beyond [`DURATIONS_MAX`] different ones: the next longer one, or else the
    /// longest.
    fn list_for(&mut self, duration: Duration) -> u8 {
        let place = |position: Option<usize>| position.and_then(|position| u8::try_from(position).ok());
        let same = place(self.lists.iter().position(|list| list.duration == duration));
        same.unwrap_or_else(|| {
            if self.lists.len() < DURATIONS_MAX {
                self.lists.push(List { duration, head: NIL, tail: NIL });
                return place(self.lists.len().checked_sub(1)).unwrap_or(0);
            }
            let by_duration = |(_, list): &(usize, &List)| list.duration;
            let longer = self.lists.iter().enumerate().filter(|(_, list)| list.duration > duration);
            let next_longer = longer.min_by_key(by_duration);
            let longest = || self.lists.iter().enumerate().max_by_key(by_duration);
            place(next_longer.or_else(longest).map(|(position, _)| position)).unwrap_or(0)
        })
    }

    /// Appends a record to its list, to expire its duration from now.
    fn append(&mut self, index: u32, now: Instant) {
        let Some(record) = self.records.at_mut(index) else { return };
        let Some(list) = self.lists.get_mut(usize::from(record.list)) else { return };
        record.expires = now + list.duration;
        record.next = NIL;
        record.previous = list.tail;
        let old_tail = std::mem::replace(&mut list.tail, index);
        match self.records.at_mut(old_tail) {
            Some(old_tail) => old_tail.next = index,
            None => list.head = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let Some(&TimeWait { next, previous, list, .. }) = self.records.at(index) else { return };
        let Some(list) = self.lists.get_mut(usize::from(list)) else { return };
        match self.records.at_mut(next) {
            Some(next) => next.previous = previous,
            None => list.tail = previous,
        }
        match self.records.at_mut(previous) {
            Some(previous) => previous.next = next,
            None => list.head = next,
        }
    }
}

impl TimeWaitParams {
    /// Whether a SYN may open a new connection of this four-tuple (RFC 6191 §2, RFC 9293 §3.6.1).
    // RFC 9293 MAY-2: a SYN may reopen a connection in TIME-WAIT, if it cannot be an old duplicate.
    // RFC 9293 SHLD-4: timestamps show this even if sequence numbers do not.
    pub fn may_reopen(&self, segment: &Segment<'_>) -> bool {
        let higher_seq = segment.seq.after(self.rcv_nxt);
        match (self.ts_recent(), segment.options.timestamps) {
            (Some(recent), Some((value, _))) if value == recent => higher_seq,
            (Some(recent), Some((value, _))) => !is_old_timestamp(value, recent),
            // An old duplicate would carry no timestamps, like its connection.
            (None, Some(_)) => true,
            (_, None) => higher_seq,
        }
    }

    fn ts_recent(&self) -> Option<u32> {
        self.timestamps.map(|(recent, _)| recent)
    }

    fn is_old(&self, segment: &Segment<'_>) -> bool {
        match (self.ts_recent(), segment.options.timestamps) {
            (Some(recent), Some((value, _))) => is_old_timestamp(value, recent),
            _ => false,
        }
    }
}

/// Whether a segment requests a new connection: a SYN without conflicting flags.
pub(super) fn is_plain_syn(segment: &Segment<'_>) -> bool {
    segment.flags.contains(Flags::SYN) && !segment.flags.intersects(Flags::ACK | Flags::RST | Flags::FIN)
}

/// The most different durations that are tracked.
const DURATIONS_MAX: usize = 8;
const NIL: u32 = u32::MAX;

const _: () = assert!(Slots::<TimeWait>::BYTES <= 96, "a connection in TIME-WAIT in 96 bytes");

ackclock_form::form! {
    struct TimeWaitTable { records, lists, max } => |table| table.is_sound();
    struct TimeWait { tuple, last, list, expires, limiter, next, previous }
    struct List { duration, head, tail }
}

#[cfg(test)]
mod tests;
