//! What waits for its turn or its time: connections that may have something to send, timers, and events for
//! the application.

use std::collections::VecDeque;

use super::timers::TimerWheel;
use super::{Followup, Turn};
use crate::Instant;

/// The queues and timers of an endpoint's connections and listeners. Each index waits at most once, so the
/// queues are as bounded as the tables.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Schedule {
    /// Connections that may have something to send; `little` are those with a segment at most.
    sends: IndexQueue,
    little: IndexQueue,
    /// How many of the latter have gone before one of the others since its turn came.
    gone_before: u32,
    /// Those with something to report to the application, and listeners and half-open records that have.
    connections: IndexQueue,
    listeners: IndexQueue,
    half_open: IndexQueue,
    timers: TimerWheel,
}

/// What has something to report to the application, by index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    Listener(u32),
    HalfOpen(u32),
    Connection(u32),
}

impl Schedule {
    /// These small turns take less time than one of 64 KB, which waits no longer than that for them.
    const LITTLE_MAX: u32 = 8;

    pub fn new(now: Instant) -> Self {
        Self {
            sends: IndexQueue::default(),
            little: IndexQueue::default(),
            gone_before: 0,
            connections: IndexQueue::default(),
            listeners: IndexQueue::default(),
            half_open: IndexQueue::default(),
            timers: TimerWheel::new(now),
        }
    }

    /// Does what follows from a change of the connection at `index`.
    // Always inlined, for the rows of what is received of the counted instructions.
    #[inline(always)]
    pub fn follow(&mut self, index: u32, followup: Followup) {
        if followup.reports {
            self.connections.push(index);
        }
        self.timers.rearm(index, followup.deadline);
        match followup.sends {
            Turn::Never => {}
            Turn::First => self.little.push(index),
            Turn::Last => self.sends.push(index),
        }
    }

    /// The connection at `index` is removed.
    pub fn forget(&mut self, index: u32) {
        self.timers.disarm(index);
    }

    /// Whether a connection may have something to send.
    #[inline]
    pub fn has_senders(&self) -> bool {
        !self.sends.is_empty() || !self.little.is_empty()
    }

    /// The next connection that may have something to send: one with little, unless many of these have had
    /// their turn while another waits.
    #[inline]
    pub fn next_sender(&mut self) -> Option<u32> {
        if !self.little.is_empty() && (self.gone_before < Self::LITTLE_MAX || self.sends.is_empty()) {
            self.gone_before = self.gone_before.saturating_add(1);
            return self.little.pop();
        }
        self.gone_before = 0;
        self.sends.pop()
    }

    /// When the next timer is due.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next connection whose timer is due.
    pub fn pop_expired(&mut self, now: Instant) -> Option<u32> {
        self.timers.pop_expired(now)
    }

    /// The application has something to learn about this.
    pub fn report(&mut self, subject: Subject) {
        match subject {
            Subject::Listener(index) => self.listeners.push(index),
            Subject::HalfOpen(index) => self.half_open.push(index),
            Subject::Connection(index) => self.connections.push(index),
        }
    }

    /// What to report next.
    pub fn next_report(&mut self) -> Option<Subject> {
        let listener = self.listeners.pop().map(Subject::Listener);
        let half_open = || self.half_open.pop().map(Subject::HalfOpen);
        listener.or_else(half_open).or_else(|| self.connections.pop().map(Subject::Connection))
    }
}

/// A queue of small numbers that holds each at most once, first in, first out, so its length is bounded by
/// the table that they index.
///
/// The first one is stored inline: an endpoint with one connection needs no allocation.
#[derive(Debug)]
pub(super) struct IndexQueue {
    /// [`NONE`] if the queue is empty.
    first: u32,
    rest: Option<Box<Rest>>,
}

/// What waits behind the first.
#[derive(Debug, Default)]
struct Rest {
    order: VecDeque<u32>,
    waiting: Vec<bool>,
}

impl IndexQueue {
    /// Appends an index, unless it waits already.
    #[inline]
    pub fn push(&mut self, index: u32) {
        if self.first == NONE {
            self.first = index;
        } else if self.first != index {
            self.rest.get_or_insert_default().push(index);
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Removes the first index.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        if self.first == NONE {
            return None;
        }
        let next = self.rest.as_mut().and_then(|rest| rest.pop());
        Some(std::mem::replace(&mut self.first, next.unwrap_or(NONE)))
    }
}

impl Default for IndexQueue {
    fn default() -> Self {
        Self { first: NONE, rest: None }
    }
}

impl Rest {
    fn push(&mut self, index: u32) {
        let place = index as usize;
        if place >= self.waiting.len() {
            self.waiting.resize(place.saturating_add(1), false);
        }
        if let Some(waiting) = self.waiting.get_mut(place)
            && !*waiting
        {
            *waiting = true;
            self.order.push_back(index);
        }
    }

    fn pop(&mut self) -> Option<u32> {
        let index = self.order.pop_front()?;
        if let Some(waiting) = self.waiting.get_mut(index as usize) {
            *waiting = false;
        }
        Some(index)
    }
}

/// Marks absence; tables are smaller.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_index_waits_once_and_keeps_its_place() {
        let mut queue = IndexQueue::default();
        [3, 1, 3, 2, 1].into_iter().for_each(|index| queue.push(index));
        assert_eq!([queue.pop(), queue.pop(), queue.pop(), queue.pop()], [Some(3), Some(1), Some(2), None]);
        queue.push(3);
        assert_eq!(queue.pop(), Some(3));
    }

    fn follow(schedule: &mut Schedule, index: u32, sends: Turn) {
        schedule.follow(index, Followup { reports: false, deadline: None, sends });
    }

    #[test]
    fn little_goes_first_eight_times_in_nine() {
        let mut schedule = Schedule::new(Instant::ZERO);
        (0..3).for_each(|index| follow(&mut schedule, index, Turn::Last));
        (10..30).for_each(|index| follow(&mut schedule, index, Turn::First));
        let order: Vec<_> = std::iter::from_fn(|| schedule.next_sender()).collect();
        let expected: Vec<_> =
            (10..18).chain([0]).chain(18..26).chain([1]).chain(26..30).chain([2]).collect();
        assert_eq!(order, expected);
        assert!(!schedule.has_senders());
    }

    proptest! {
        /// Compares with a plain list.
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec(prop::option::of(0u32..6), 1..200)) {
            let (mut queue, mut model) = (IndexQueue::default(), VecDeque::new());
            for step in steps {
                match step {
                    Some(index) => {
                        queue.push(index);
                        if !model.contains(&index) {
                            model.push_back(index);
                        }
                    }
                    None => prop_assert_eq!(queue.pop(), model.pop_front()),
                }
            }
        }
    }
}
