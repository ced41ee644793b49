//! Packets that arrived at another shard than their connection's.

use std::collections::VecDeque;
use std::sync::PoisonError;

use ackclock_core::Stray;

use crate::sync::{AtomicU64, Mutex, Ordering};

/// Packets for this shard that arrived at others.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<VecDeque<Stray>>,
    dropped: AtomicU64,
}

impl Inbox {
    /// Adds a packet, if there is room. Returns whether to wake the driver, because the inbox was empty.
    pub fn push(&self, stray: Stray) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= INBOX_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        waiting.push_back(stray);
        waiting.len() == 1
    }

    /// Moves all packets to `taken`, which is empty. To be called under the lock under which the driver is
    /// noted to sleep: a later [`push`](Self::push) then finds it asleep.
    pub fn take(&self, taken: &mut VecDeque<Stray>) {
        std::mem::swap(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner), taken);
    }

    /// The number of packets that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The most packets that wait for a shard.
const INBOX_MAX: usize = 1024;
