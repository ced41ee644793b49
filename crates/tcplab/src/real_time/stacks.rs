//! The stacks of this program in the network, for those who look at their connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackclock::Stack;

use crate::live::Connection;

/// The stacks that run now, with their hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks(Arc<Mutex<Vec<(u64, String, Stack)>>>);

/// A stack's entry. A crash of its host drops it, with what the host runs.
#[derive(Debug)]
pub(crate) struct Entry {
    stacks: Stacks,
    number: u64,
}

impl Stacks {
    pub fn enter(&self, host: &str, stack: &Stack) -> Entry {
        let mut all = self.lock();
        let number = all.last().map_or(0, |(last, ..)| last + 1);
        all.push((number, host.to_owned(), stack.clone()));
        Entry { stacks: self.clone(), number }
    }

    /// The connections of all, `most` at most, and how many there are beside those.
    pub fn connections(&self, most: usize) -> (Vec<Connection>, usize) {
        let mut shown = Vec::new();
        let mut left_out = 0;
        for (_, host, stack) in &*self.lock() {
            let all = stack.connections();
            let room = most - shown.len();
            left_out += all.len().saturating_sub(room);
            shown.extend(all.into_iter().take(room).map(|(tuple, info)| Connection {
                host: host.clone(),
                name: format!("{} > {}", tuple.local(), tuple.remote()),
                state: format!("{:?}", info.state),
                bytes: info.bytes_acked + info.bytes_received,
                cwnd: info.cwnd,
                in_flight: info.in_flight,
                srtt: info.srtt.as_secs_f64(),
            }));
        }
        (shown, left_out)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, String, Stack)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut all = self.stacks.lock();
        // Dropped without the lock: what a stack does at its end is its own affair.
        let gone: Vec<_> = all.extract_if(.., |(number, ..)| *number == self.number).collect();
        drop(all);
        drop(gone);
    }
}
