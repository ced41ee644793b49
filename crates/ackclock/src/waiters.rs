//! Who waits for what: any number of tasks for each direction of a stream and for each listener.
//!
//! As with tokio's sockets, the `poll_*` methods of one direction share one place, where the last caller's waker stays;
//! the async methods queue, each under a key of its own, so that none takes another's place and each can leave
//! when its future is dropped. An event wakes all of a list; who finds nothing comes back.
//!
//! Nothing is allocated for a stream on which nobody ever had to wait, nor for the first `poll_*` waiter of a
//! list; a queue keeps its memory, so waiting again costs none.
//!
//! A waker is neither woken nor dropped under the stack's lock: with some executors either runs the task, or drops it
//! and the streams that it owns.

use std::task::Waker;
use std::time::Duration;

use ackclock_core::ConnectionId;

/// The tasks that wait for one thing.
#[derive(Debug, Default)]
pub(crate) struct WaitList {
    poller: Option<Waker>,
    queue: Vec<(WaitKey, Waker)>,
    next_key: WaitKey,
}

/// A place in a queue. Keys of one list do not repeat within 2^32 waits.
pub(crate) type WaitKey = u32;

impl WaitList {
    /// Takes the place of the `poll_*` methods; returns who was there, to be dropped outside the lock.
    pub(crate) fn register_poller(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.poller {
            Some(same) if same.will_wake(waker) => None,
            _ => self.poller.replace(waker.clone()),
        }
    }

    /// Takes or keeps a place in the queue; returns a waker to be dropped outside the lock.
    pub(crate) fn register(&mut self, key: &mut Option<WaitKey>, waker: &Waker) -> Option<Waker> {
        let place = key.and_then(|key| self.queue.iter_mut().find(|(other, _)| *other == key));
        if let Some((_, old)) = place {
            return (!old.will_wake(waker)).then(|| std::mem::replace(old, waker.clone()));
        }
        let new = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        self.queue.push((new, waker.clone()));
        *key = Some(new);
        None
    }

    /// Leaves the queue; returns the waker, to be dropped outside the lock, unless a wake-up took it.
    pub(crate) fn leave(&mut self, key: WaitKey) -> Option<Waker> {
        let place = self.queue.iter().position(|(other, _)| *other == key)?;
        Some(self.queue.swap_remove(place).1)
    }

    /// Moves all wakers to `woken`.
    pub(crate) fn wake(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.poller.take());
        woken.extend(self.queue.drain(..).map(|(_, waker)| waker));
    }
}

/// What is kept of a stream beside the endpoint's own state, from the first time that it is needed.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    id: ConnectionId,
    pub(crate) read: WaitList,
    pub(crate) write: WaitList,
    pub(crate) notice: WaitList,
    /// The urgent pointer advanced and no `notice` told of it.
    pub(crate) urgent: bool,
    /// A soft error was noted and no `notice` told of it.
    pub(crate) soft_error: bool,
    /// SO_LINGER.
    pub(crate) linger: Option<Duration>,
    /// The stream was dropped and its linger time runs.
    pub(crate) lingers: bool,
}

/// Slots of streams by the index of their connections.
#[derive(Debug, Default)]
pub(crate) struct StreamTable {
    slots: Vec<Option<Box<StreamSlot>>>,
}

impl StreamTable {
    /// The slot of a connection, if it has one.
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut StreamSlot> {
        self.slots.get_mut(id.index())?.as_deref_mut().filter(|slot| slot.id == id)
    }

    /// The slot of a connection, made if it has none. The caller owns the connection, so no other one can have
    /// its index; a slot of an earlier generation is a leftover and replaced, and who waits there is woken.
    pub(crate) fn get_or_insert(&mut self, id: ConnectionId, woken: &mut Vec<Waker>) -> &mut StreamSlot {
        let index = id.index();
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let slot = &mut self.slots[index];
        if let Some(mut leftover) = slot.take_if(|slot| slot.id != id) {
            leftover.wake_all(woken);
        }
        slot.get_or_insert_with(|| Box::new(StreamSlot::new(id)))
    }

    /// Forgets a connection; whoever still waits is woken.
    pub(crate) fn remove(&mut self, id: ConnectionId, woken: &mut Vec<Waker>) {
        if let Some(slot) = self.get_mut(id) {
            slot.wake_all(woken);
            self.slots[id.index()] = None;
        }
    }

    /// Wakes everyone.
    pub(crate) fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        for slot in self.slots.iter_mut().flatten() {
            slot.wake_all(woken);
        }
    }
}

impl StreamSlot {
    fn new(id: ConnectionId) -> Self {
        Self {
            id,
            read: WaitList::default(),
            write: WaitList::default(),
            notice: WaitList::default(),
            urgent: false,
            soft_error: false,
            linger: None,
            lingers: false,
        }
    }

    pub(crate) fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.read.wake(woken);
        self.write.wake(woken);
        self.notice.wake(woken);
    }
}

/// The most bytes that this crate keeps for a stream on which tasks have waited: the slot, its place in the table,
/// and the handle.
const STREAM_BYTES_MAX: usize = 300;
const _: () = assert!(
    size_of::<StreamSlot>() + size_of::<Option<Box<StreamSlot>>>() + size_of::<crate::TcpStream>()
        <= STREAM_BYTES_MAX
);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

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
            list.register(&mut a_key, &a_waker);
            list.register(&mut b_key, &b_waker);
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
        list.register(&mut a_key, &a_waker);
        list.register(&mut b_key, &b_waker);
        list.leave(a_key.unwrap());
        wake(&mut list);
        assert_eq!((a.0.load(Ordering::Relaxed), b.0.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn a_key_from_before_a_wake_up_gets_a_new_place() {
        let mut list = WaitList::default();
        let (count, waker) = counter();
        let mut key = None;
        list.register(&mut key, &waker);
        wake(&mut list);
        list.register(&mut key, &waker);
        wake(&mut list);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }
}
