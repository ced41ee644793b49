//! Which tasks wait for what: any number of tasks for each direction of a stream and for each listener.
//!
//! As with tokio's sockets, the `poll_*` methods of one direction share one place, which keeps the last
//! caller's waker. The async methods queue, each under its own key, so that none takes another's place and
//! each can leave when its future is dropped. An event wakes the whole list; a task that finds nothing waits
//! again.
//!
//! Nothing is allocated for a stream on which no task waits. A task that waits through the `poll_*` methods,
//! as `AsyncRead` and `AsyncWrite` do, uses a slot that is given back with the wake-up; the slot given back
//! last serves the next stream that waits. A queue keeps its memory, so waiting again allocates nothing.
//!
//! A waker is neither woken nor dropped under the stack's lock: with some executors either call runs the
//! task, or drops it and the streams that it owns.

use std::task::Waker;
use std::time::Duration;

use ackclock_core::{ConnectionId, ListenerId, UdpId};

use crate::readiness::{self, Interest};

/// The tasks that wait for one thing.
#[derive(Debug, Default)]
pub(crate) struct WaitList {
    poller: Option<Waker>,
    /// Allocated once an async method has waited. A pointer, to keep an idle connection small.
    queue: Option<Box<WaitQueue>>,
}

#[derive(Debug, Default)]
struct WaitQueue {
    waiting: Vec<Waiter>,
    next_key: WaitKey,
}

/// A task in a queue.
#[derive(Debug)]
struct Waiter {
    key: WaitKey,
    waker: Waker,
    queue: Queue,
}

/// The event that a task waits for, which selects its list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    Read(ConnectionId),
    Write(ConnectionId),
    /// One of several things, in the list of this side.
    Ready(ConnectionId, Side, Interest),
    Notice(ConnectionId),
    /// This many bytes to be delivered.
    Delivered(ConnectionId, u64),
    /// Figures of delivery that have changed more often than this.
    Changed(ConnectionId, u64),
    Accept(ListenerId),
    Traces,
    OtherReceive,
    OtherSend,
    Pings,
    UdpRead(UdpId),
    UdpWrite(UdpId),
    UdpReady(UdpId, Side, Interest),
    /// The stack to take nothing new.
    Closing,
    Down,
}

/// A list of a stream or a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
    /// Neither; a UDP socket has no such list.
    Notice,
}

impl Queue {
    /// The stream whose room to write is waited for.
    pub fn writes(self) -> Option<ConnectionId> {
        match self {
            Self::Write(id) | Self::Ready(id, Side::Write, _) => Some(id),
            _ => None,
        }
    }

    /// The stream that it is about.
    pub fn stream(self) -> Option<ConnectionId> {
        match self {
            Self::Read(id)
            | Self::Write(id)
            | Self::Ready(id, ..)
            | Self::Notice(id)
            | Self::Delivered(id, _)
            | Self::Changed(id, _) => Some(id),
            _ => None,
        }
    }
}

impl Side {
    /// The lists of a stream that events of this interest wake. Its end wakes all.
    pub fn of(interest: Interest) -> [Option<Self>; 3] {
        let urgent = readiness::is_priority(interest);
        let neither = !interest.is_readable() && !interest.is_writable();
        [
            (interest.is_readable() || urgent).then_some(Self::Read),
            interest.is_writable().then_some(Self::Write),
            (urgent || neither).then_some(Self::Notice),
        ]
    }
}

/// A place in a queue. Keys of one list do not repeat within 2^32 waits.
pub(crate) type WaitKey = u32;

impl WaitList {
    /// Takes the place of the `poll_*` methods; returns the previous waker, to be dropped outside the lock.
    pub fn register_poller(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.poller {
            Some(same) if same.will_wake(waker) => None,
            _ => self.poller.replace(waker.clone()),
        }
    }

    /// Takes or keeps a place in the queue; returns a waker to be dropped outside the lock.
    pub fn register(&mut self, key: &mut Option<WaitKey>, waker: &Waker, queue: Queue) -> Option<Waker> {
        let list = self.queue.get_or_insert_default();
        let place = key.and_then(|key| list.waiting.iter_mut().find(|waiter| waiter.key == key));
        if let Some(Waiter { waker: old, .. }) = place {
            return (!old.will_wake(waker)).then(|| std::mem::replace(old, waker.clone()));
        }
        let new = list.next_key;
        list.next_key = list.next_key.wrapping_add(1);
        list.waiting.push(Waiter { key: new, waker: waker.clone(), queue });
        *key = Some(new);
        None
    }

    /// Leaves the queue; returns the waker, to be dropped outside the lock, unless a wake-up took it.
    pub fn leave(&mut self, key: WaitKey) -> Option<Waker> {
        let waiting = &mut self.queue.as_mut()?.waiting;
        let place = waiting.iter().position(|waiter| waiter.key == key)?;
        Some(waiting.swap_remove(place).waker)
    }

    /// Moves all wakers to `woken`.
    pub fn wake(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.poller.take());
        if let Some(queue) = &mut self.queue {
            woken.extend(queue.waiting.drain(..).map(|waiter| waiter.waker));
        }
    }

    /// The event that each task waits for; a caller of the `poll_*` methods waits for `of_list`.
    pub fn sleepers(&self, of_list: Queue) -> impl Iterator<Item = Queue> + '_ {
        let queued = self.queue.iter().flat_map(|queue| queue.waiting.iter().map(|waiter| waiter.queue));
        self.poller.iter().map(move |_| of_list).chain(queued)
    }

    /// Whether no task waits and none ever waited in the queue: a new queue would reuse the keys of the old
    /// one.
    fn is_blank(&self) -> bool {
        self.poller.is_none() && self.queue.is_none()
    }
}

/// State that a stream needs beside the endpoint's, while it needs it.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    pub id: ConnectionId,
    pub read: WaitList,
    pub write: WaitList,
    /// Allocated when first needed.
    pub rare: Option<Box<Rare>>,
}

/// State that few streams need.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    pub notice: WaitList,
    /// Tasks that wait for acknowledgements.
    pub delivered: WaitList,
    /// The urgent pointer advanced and no `notice` reported it yet.
    pub urgent: bool,
    /// A soft error was noted and no `notice` reported it yet.
    pub soft_error: bool,
    /// SO_LINGER.
    pub linger: Option<Duration>,
    /// The stream was dropped and its linger time runs.
    pub lingers: bool,
}

/// Slots of streams by the index of their connections.
#[derive(Debug, Default)]
pub(crate) struct StreamTable {
    slots: Vec<Option<Box<StreamSlot>>>,
    /// Blank slots that were given back, the latest last; at most [`SPARE_MAX`].
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    spare: Vec<Box<StreamSlot>>,
}

/// Slots kept for streams that will wait: as many as a batch of packets wakes.
const SPARE_MAX: usize = 64;

impl StreamTable {
    /// The slot of a connection, if it has one.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut StreamSlot> {
        self.slots.get_mut(id.index())?.as_deref_mut().filter(|slot| slot.id == id)
    }

    /// The slot of a connection, if it has one, for reading.
    pub fn get(&self, id: ConnectionId) -> Option<&StreamSlot> {
        self.slots.get(id.index())?.as_deref().filter(|slot| slot.id == id)
    }

    /// The slots in use.
    pub fn iter(&self) -> impl Iterator<Item = &StreamSlot> {
        self.slots.iter().filter_map(Option::as_deref)
    }

    /// The slot of a connection, created if it has none. The caller owns the connection, so no other
    /// connection can have its index; a slot of an earlier generation is a leftover: it is replaced, and its
    /// tasks are woken.
    pub fn get_or_insert(&mut self, id: ConnectionId, woken: &mut Vec<Waker>) -> &mut StreamSlot {
        let index = id.index();
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let slot = &mut self.slots[index];
        if let Some(mut leftover) = slot.take_if(|slot| slot.id != id) {
            leftover.wake_all(woken);
        }
        let spare = &mut self.spare;
        slot.get_or_insert_with(|| match spare.pop() {
            Some(mut slot) => {
                slot.id = id;
                slot
            }
            None => Box::new(StreamSlot::new(id)),
        })
    }

    /// Wakes the tasks that wait to read, or to write, and gives the slot back if nothing else is kept in it.
    pub fn wake(&mut self, id: ConnectionId, read: bool, write: bool, woken: &mut Vec<Waker>) {
        let Some(slot) = self.get_mut(id) else { return };
        if read {
            slot.read.wake(woken);
        }
        if write {
            slot.write.wake(woken);
        }
        if slot.is_blank() {
            self.give_back(id);
        }
    }

    /// Takes the slot of a connection, in which no task waits, out of the table.
    fn give_back(&mut self, id: ConnectionId) {
        let slot = self.slots.get_mut(id.index()).and_then(Option::take);
        if let Some(slot) = slot.filter(|slot| slot.is_blank() && self.spare.len() < SPARE_MAX) {
            self.spare.push(slot);
        }
    }

    /// Forgets a connection and wakes the tasks that still wait.
    pub fn remove(&mut self, id: ConnectionId, woken: &mut Vec<Waker>) {
        if let Some(slot) = self.get_mut(id) {
            slot.wake_all(woken);
            (slot.read, slot.write, slot.rare) = (WaitList::default(), WaitList::default(), None);
            self.give_back(id);
        }
    }

    /// Wakes every task.
    pub fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        for slot in self.slots.iter_mut().flatten() {
            slot.wake_all(woken);
        }
    }
}

impl StreamSlot {
    fn new(id: ConnectionId) -> Self {
        Self { id, read: WaitList::default(), write: WaitList::default(), rare: None }
    }

    /// The part that few streams need, created if missing.
    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// SO_LINGER.
    pub fn linger(&self) -> Option<Duration> {
        self.rare.as_ref()?.linger
    }

    /// Whether the stream was dropped and its linger time runs.
    pub fn lingers(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.lingers)
    }

    fn is_blank(&self) -> bool {
        self.read.is_blank() && self.write.is_blank() && self.rare.is_none()
    }

    pub fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.read.wake(woken);
        self.write.wake(woken);
        if let Some(rare) = &mut self.rare {
            rare.notice.wake(woken);
            rare.delivered.wake(woken);
        }
    }
}

/// The bytes of a stream on which tasks wait: its slot, and the slot's place in the table.
pub(crate) const STREAM_SLOT_BYTES: usize = size_of::<StreamSlot>() + size_of::<Option<Box<StreamSlot>>>();

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use ackclock_core::{Endpoint, EndpointConfig, Instant};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counter() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    /// Two connections that use one slot after each other, and one beside them.
    fn connections() -> [ConnectionId; 3] {
        let config = EndpointConfig::new(vec!["10.0.0.1".parse().unwrap()], [1; 32]);
        let mut endpoint = Endpoint::new(config, Instant::ZERO);
        let connect = |endpoint: &mut Endpoint| {
            endpoint.connect(Instant::ZERO, "10.0.0.2:7".parse().unwrap(), (None, 0), None).unwrap()
        };
        let (first, other) = (connect(&mut endpoint), connect(&mut endpoint));
        endpoint.release(Instant::ZERO, first);
        let next = connect(&mut endpoint);
        assert!(first.index() == next.index() && first != next);
        [first, next, other]
    }

    fn wake(list: &mut WaitList) {
        let mut woken = Vec::new();
        list.wake(&mut woken);
        woken.into_iter().for_each(Waker::wake);
    }

    #[test]
    fn the_last_poller_is_woken_and_the_one_before_is_not() {
        let mut list = WaitList::default();
        let ((first, first_waker), (last, last_waker)) = (counter(), counter());
        list.register_poller(&first_waker);
        list.register_poller(&last_waker);
        wake(&mut list);
        assert_eq!((first.0.load(Ordering::Relaxed), last.0.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn each_in_the_queue_is_woken_once_however_often_it_registers() {
        let mut list = WaitList::default();
        let ((a, a_waker), (b, b_waker)) = (counter(), counter());
        let (mut a_key, mut b_key) = (None, None);
        for _ in 0..3 {
            list.register(&mut a_key, &a_waker, Queue::Down);
            list.register(&mut b_key, &b_waker, Queue::Down);
        }
        wake(&mut list);
        wake(&mut list);
        assert_eq!((a.0.load(Ordering::Relaxed), b.0.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn who_leaves_is_not_woken_and_takes_no_one_along() {
        let mut list = WaitList::default();
        let ((a, a_waker), (b, b_waker)) = (counter(), counter());
        let (mut a_key, mut b_key) = (None, None);
        list.register(&mut a_key, &a_waker, Queue::Down);
        list.register(&mut b_key, &b_waker, Queue::Down);
        list.leave(a_key.unwrap());
        wake(&mut list);
        assert_eq!((a.0.load(Ordering::Relaxed), b.0.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn a_key_from_before_a_wake_up_gets_a_new_place() {
        let mut list = WaitList::default();
        let (count, waker) = counter();
        let mut key = None;
        list.register(&mut key, &waker, Queue::Down);
        wake(&mut list);
        list.register(&mut key, &waker, Queue::Down);
        wake(&mut list);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }
    #[test]
    fn a_slot_that_is_given_back_serves_the_next_stream_unless_something_is_kept_in_it() {
        let (mut table, mut woken) = (StreamTable::default(), Vec::new());
        let (count, waker) = counter();
        let [first, next, other] = connections();

        table.get_or_insert(first, &mut woken).read.register_poller(&waker);
        table.wake(first, true, true, &mut woken);
        assert!(table.get_mut(first).is_none() && table.spare.len() == 1);

        table.get_or_insert(next, &mut woken).write.register_poller(&waker);
        assert!(table.spare.is_empty() && table.get_mut(first).is_none() && table.get_mut(next).is_some());
        table.wake(next, true, false, &mut woken);
        assert!(table.get_mut(next).is_some(), "a task waits to write");
        table.remove(next, &mut woken);
        assert!(table.get_mut(next).is_none() && table.spare.len() == 1);

        table.get_or_insert(other, &mut woken).rare_mut().linger = Some(Duration::ZERO);
        table.wake(other, true, true, &mut woken);
        assert_eq!(table.get_mut(other).and_then(|slot| slot.linger()), Some(Duration::ZERO));
        table.remove(other, &mut woken);
        assert!(table.spare[0].is_blank(), "the next stream has no linger time of this one's");

        woken.into_iter().for_each(Waker::wake);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn slots_given_back_beyond_the_most_are_freed_and_those_in_use_stay() {
        let (mut table, mut woken) = (StreamTable::default(), Vec::new());
        let (count, waker) = counter();
        let config = EndpointConfig::new(vec!["10.0.0.1".parse().unwrap()], [1; 32]);
        let mut endpoint = Endpoint::new(config, Instant::ZERO);
        let server = "10.0.0.2:7".parse().unwrap();
        let mut connect = || endpoint.connect(Instant::ZERO, server, (None, 0), None).unwrap();
        let waits = connect();
        table.get_or_insert(waits, &mut woken).read.register_poller(&waker);
        let others: Vec<_> = (0..3 * SPARE_MAX).map(|_| connect()).collect();
        for &id in &others {
            table.get_or_insert(id, &mut woken).read.register_poller(&waker);
        }
        for (&id, given_back) in others.iter().zip(1..) {
            table.wake(id, true, true, &mut woken);
            assert_eq!(table.spare.len(), SPARE_MAX.min(given_back));
        }
        assert!(table.iter().map(|slot| slot.id).eq([waits]), "a task waits in this one alone");
        assert_eq!(woken.len(), others.len());
        table.wake(waits, true, false, &mut woken);
        woken.into_iter().for_each(Waker::wake);
        assert_eq!(count.0.load(Ordering::Relaxed), others.len() + 1);
    }

    #[test]
    fn the_key_of_a_task_that_was_woken_does_not_come_again_while_its_stream_lives() {
        let (mut table, mut woken) = (StreamTable::default(), Vec::new());
        let (_, waker) = counter();
        let [id, ..] = connections();
        let (mut gone, mut waits) = (None, None);
        table.get_or_insert(id, &mut woken).read.register(&mut gone, &waker, Queue::Read(id));
        table.wake(id, true, true, &mut woken);
        table.get_or_insert(id, &mut woken).read.register(&mut waits, &waker, Queue::Read(id));
        assert_ne!(gone, waits);
    }
}
