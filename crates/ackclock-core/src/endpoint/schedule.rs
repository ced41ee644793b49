//! Queues of connections that may have something to send, of timers, and of events for the application.

use std::collections::VecDeque;

use super::timers::TimerWheel;
use super::{Followup, Turn};
use crate::Instant;
use ackclock_form::{Form, FormError, Reader, Writer};

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
    /// Present while one rate bounds what leaves: then turns are by bytes.
    fair: Option<Box<Fair>>,
}

/// The source of a report to the application, by index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    Listener(u32),
    HalfOpen(u32),
    Connection(u32),
}

impl Schedule {
    /// These small turns take less time than one of 64 KB, which waits no longer than that for them.
    const LITTLE_MAX: u32 = 8;

    /// `quantum`: connections take turns by bytes, this many at a time.
    pub fn new(now: Instant, quantum: Option<usize>) -> Self {
        Self {
            sends: IndexQueue::default(),
            little: IndexQueue::default(),
            gone_before: 0,
            connections: IndexQueue::default(),
            listeners: IndexQueue::default(),
            half_open: IndexQueue::default(),
            timers: TimerWheel::new(now),
            fair: quantum.map(|bytes| Box::new(Fair::new(bytes))),
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
            Turn::First | Turn::Last if self.fair.is_some() => self.follow_fairly(index),
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
        if self.fair.is_some() {
            return self.next_fair_sender();
        }
        if !self.little.is_empty() && (self.gone_before < Self::LITTLE_MAX || self.sends.is_empty()) {
            self.gone_before = self.gone_before.saturating_add(1);
            return self.little.pop();
        }
        self.gone_before = 0;
        self.sends.pop()
    }

    /// The connection whose turn it is has sent this many bytes.
    pub fn spend(&mut self, index: u32, bytes: u64) {
        if let Some(flow) = self.fair.as_mut().and_then(|fair| fair.flow(index)) {
            flow.deficit = flow.deficit.saturating_sub_unsigned(bytes);
        }
    }

    /// The connection at `index` has something to send.
    #[inline(never)]
    fn follow_fairly(&mut self, index: u32) {
        let Some(fair) = &mut self.fair else { return };
        let (quantum, served) = (fair.quantum, fair.served.take_if(|served| served.index == index));
        let Some(flow) = fair.flow(index) else { return };
        match served {
            // Its turn goes on.
            Some(Served { is_new, .. }) => {
                flow.waits = true;
                (if is_new { &mut self.little } else { &mut self.sends }).push_front(index);
            }
            None if flow.waits => {}
            None => {
                *flow = Flow { waits: true, deficit: quantum };
                self.little.push(index);
            }
        }
    }

    /// As in deficit round robin, a connection whose bytes are used up gets its quantum and goes to the end.
    #[inline(never)]
    fn next_fair_sender(&mut self) -> Option<u32> {
        let fair = self.fair.as_mut()?;
        if let Some(Served { index, is_new }) = fair.served.take() {
            // It had nothing more. A new one goes once through the others' queue before it is new again.
            match fair.flow(index) {
                Some(_) if is_new => self.sends.push(index),
                Some(flow) => flow.waits = false,
                None => {}
            }
        }
        loop {
            let is_new =
                !self.little.is_empty() && (self.gone_before < Self::LITTLE_MAX || self.sends.is_empty());
            let index = if is_new { self.little.pop() } else { self.sends.pop() }?;
            let quantum = fair.quantum;
            let flow = fair.flow(index)?;
            if flow.deficit <= 0 {
                flow.deficit = flow.deficit.saturating_add(quantum);
                self.sends.push(index);
                continue;
            }
            self.gone_before = if is_new { self.gone_before.saturating_add(1) } else { 0 };
            fair.served = Some(Served { index, is_new });
            return Some(index);
        }
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

    /// The subject of the next report.
    pub fn next_report(&mut self) -> Option<Subject> {
        let listener = self.listeners.pop().map(Subject::Listener);
        let half_open = || self.half_open.pop().map(Subject::HalfOpen);
        listener.or_else(half_open).or_else(|| self.connections.pop().map(Subject::Connection))
    }
}

/// Turns by bytes: deficit round robin with two queues, one of them for those that have just begun to send.
///
/// M. Shreedhar and G. Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", SIGCOMM 1995; not read,
/// cited by its title. The queues are those of FQ-CoDel (RFC 8290 §4.1, §4.2). `little` has the new ones,
/// which go first with one quantum, and `sends` the others. A connection that had nothing more to send passes
/// through the latter once, so that none gets more than its share by pausing after each segment.
///
/// Deviation from DRR: the size of the next packet is not known before it is made, so a turn ends when the
/// deficit is used up, and what a packet took beyond it is missing from the next turns.
#[derive(Debug)]
struct Fair {
    quantum: i64,
    /// By connection.
    flows: Vec<Flow>,
    /// Whose turn it is.
    served: Option<Served>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Bytes that it may still send.
    deficit: i64,
    /// Whether it is in one of the queues.
    waits: bool,
}

#[derive(Clone, Copy, Debug)]
struct Served {
    index: u32,
    /// Whether it came from the queue of the new ones.
    is_new: bool,
}

impl Fair {
    fn new(quantum: usize) -> Self {
        let quantum = i64::try_from(quantum).unwrap_or(i64::MAX).max(1);
        Self { quantum, flows: Vec::new(), served: None }
    }

    fn flow(&mut self, index: u32) -> Option<&mut Flow> {
        let place = index as usize;
        if place >= self.flows.len() {
            self.flows.resize(place.saturating_add(1), Flow::default());
        }
        self.flows.get_mut(place)
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

/// The queue behind the first.
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

    /// Puts an index that does not wait before all others.
    fn push_front(&mut self, index: u32) {
        let second = std::mem::replace(&mut self.first, index);
        if second != NONE {
            self.rest.get_or_insert_default().push_front(second);
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

    fn push_front(&mut self, index: u32) {
        self.push(index);
        if let Some(last) = self.order.pop_back() {
            self.order.push_front(last);
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

ackclock_form::form! {
    struct Schedule { sends, little, gone_before, connections, listeners, half_open, timers, fair }
    struct Fair { quantum, flows, served }
    struct Flow { deficit, waits }
    struct Served { index, is_new }
}

/// The indices in order.
impl Form for IndexQueue {
    fn write(&self, out: &mut Writer) {
        let Self { first, rest } = self;
        let first = Some(*first).filter(|&first| first != NONE);
        let rest = rest.iter().flat_map(|rest| &rest.order).copied();
        first.into_iter().chain(rest).collect::<Vec<_>>().write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let mut queue = Self::default();
        for index in Vec::<u32>::read(input)? {
            // The table of those that wait is as long as the largest index.
            if index as usize > input.size() {
                return Err(FormError::Number);
            }
            queue.push(index);
        }
        Ok(queue)
    }
}

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
        let mut schedule = Schedule::new(Instant::ZERO, None);
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
