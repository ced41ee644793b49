//! The tasks that wait at a stack's UDP sockets.

use std::collections::BTreeMap;
use std::task::Waker;

use ackclock_core::{UdpId, UdpReadiness};

use crate::waiters::{Queue, Side, WaitList};

/// The UDP sockets, and the tasks that wait at each.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    slots: BTreeMap<UdpId, UdpSlot>,
}

#[derive(Debug, Default)]
struct UdpSlot {
    read: WaitList,
    write: WaitList,
}

ackclock_form::form! {
    struct Datagrams { slots }
    struct UdpSlot { read = WaitList::default(), write = WaitList::default() }
}

impl Datagrams {
    /// Their ids.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub fn ids(&self) -> Vec<UdpId> {
        self.slots.keys().copied().collect()
    }

    /// How many sockets there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// A socket was bound.
    pub fn add(&mut self, id: UdpId) {
        self.slots.insert(id, UdpSlot::default());
    }

    /// A socket is closed: all its tasks go on.
    pub fn remove(&mut self, id: UdpId, woken: &mut Vec<Waker>) {
        if let Some(mut slot) = self.slots.remove(&id) {
            slot.wake_all(woken);
        }
    }

    /// The tasks that wait at a socket to send, or for all else.
    pub fn list(&mut self, id: UdpId, side: Side) -> Option<&mut WaitList> {
        let slot = self.slots.get_mut(&id)?;
        Some(if side == Side::Read { &mut slot.read } else { &mut slot.write })
    }

    /// A socket became readable or writable.
    pub fn wake(&mut self, id: UdpId, readiness: UdpReadiness, woken: &mut Vec<Waker>) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if readiness.readable {
            slot.read.wake(woken);
        }
        if readiness.writable {
            slot.write.wake(woken);
        }
    }

    /// Every task goes on.
    pub fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.slots.values_mut().for_each(|slot| slot.wake_all(woken));
    }

    /// All lists, with what their tasks wait for.
    pub fn lists(&self) -> impl Iterator<Item = (Queue, &WaitList)> {
        self.slots
            .iter()
            .flat_map(|(&id, slot)| [(Queue::UdpRead(id), &slot.read), (Queue::UdpWrite(id), &slot.write)])
    }
}

impl UdpSlot {
    fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.read.wake(woken);
        self.write.wake(woken);
    }
}
