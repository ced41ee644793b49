//! Whose turn it is to write.
//!
//! Writes between two turns of the driver should fit a processor's cache: the driver then processes the
//! acknowledgements, and the next bytes reuse that part of the send buffers. So writers wait for the driver,
//! and take turns by bytes.
//!
//! A stream owes the bytes that it has written. Each turn of the driver pays a quantum, stream after stream
//! in the order in which they began to owe; a stream that still owes goes to the end. This is deficit round
//! robin (M. Shreedhar and G. Varghese, SIGCOMM 1995), except that a write is paid for afterwards instead of
//! cut. A stream that owes little does not wait, so a small write never waits for another stream's large one.

use std::collections::{BTreeMap, VecDeque};

use ackclock_core::ConnectionId;

/// The turns that the streams of a stack owe.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    debts: BTreeMap<ConnectionId, Debt>,
    /// The streams that owe, in the order in which they are paid for.
    order: VecDeque<ConnectionId>,
    /// How many writers wait.
    held: usize,
    /// Bytes written since the driver's last turn.
    written: usize,
}

/// Whether a writer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    No,
    Begins,
    /// It waited already.
    GoesOn,
}

#[derive(Debug, Default)]
struct Debt {
    bytes: usize,
    /// Whether a writer of the stream waits.
    holds: bool,
}

impl Writers {
    /// Whether a writer of this stream waits until it has been paid for. If so, it is noted.
    pub fn hold(&mut self, id: ConnectionId) -> Hold {
        let full = self.written >= QUANTUM;
        let Some(debt) = self.debts.get_mut(&id) else { return Hold::No };
        if debt.bytes < SMALL || !full && debt.bytes < QUANTUM {
            return Hold::No;
        }
        if std::mem::replace(&mut debt.holds, true) {
            return Hold::GoesOn;
        }
        self.held += 1;
        Hold::Begins
    }

    /// Whether a writer of this stream waits until it has been paid for.
    pub fn holds(&self, id: ConnectionId) -> bool {
        self.debts.get(&id).is_some_and(|debt| debt.holds)
    }

    /// A stream has written. Returns what it owes.
    pub fn note(&mut self, id: ConnectionId, bytes: usize) -> usize {
        self.written = self.written.saturating_add(bytes);
        let debt = self.debts.entry(id).or_insert_with(|| {
            self.order.push_back(id);
            Debt::default()
        });
        debt.bytes = debt.bytes.saturating_add(bytes);
        debt.bytes
    }

    /// Pays a quantum in the driver's turn. Calls `release` for each stream whose writers need not wait any
    /// more.
    pub fn pay(&mut self, mut release: impl FnMut(ConnectionId)) {
        self.written = 0;
        let mut quantum = QUANTUM;
        while quantum > 0 {
            let Some(id) = self.order.pop_front() else { return };
            let Some(debt) = self.debts.get_mut(&id) else { continue };
            let paid = debt.bytes.min(quantum);
            quantum -= paid;
            debt.bytes -= paid;
            if debt.bytes < SMALL && std::mem::take(&mut debt.holds) {
                self.held -= 1;
                release(id);
            }
            if debt.bytes == 0 {
                self.debts.remove(&id);
            } else {
                self.order.push_back(id);
            }
        }
    }

    /// Whether any writer waits for the driver's next turn.
    pub fn any_waits(&self) -> bool {
        self.held > 0
    }
}

/// Bytes that each turn of the driver pays.
const QUANTUM: usize = 256 << 10;
/// A stream that owes less than this never waits.
const SMALL: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use ackclock_core::{Endpoint, EndpointConfig, Instant};

    use super::*;

    fn connections(count: usize) -> Vec<ConnectionId> {
        let config = EndpointConfig::new(vec!["10.0.0.1".parse().unwrap()], [1; 32]);
        let mut endpoint = Endpoint::new(config, Instant::ZERO);
        let mut connect =
            || endpoint.connect(Instant::ZERO, "10.0.0.2:7".parse().unwrap(), (None, 0), None).unwrap();
        (0..count).map(|_| connect()).collect()
    }

    /// A turn of the driver; returns who may go on.
    fn turn(writers: &mut Writers) -> Vec<ConnectionId> {
        let mut released = Vec::new();
        writers.pay(|id| released.push(id));
        released
    }

    /// 4, 8 or 32 streams write a quantum whenever they may. One of them goes on in each turn of the driver,
    /// in order, so each waits for as many turns as there are streams. A stream of small writes never waits.
    #[test]
    fn large_writers_take_turns_and_a_small_one_never_waits() {
        for count in [4, 8, 32] {
            let ids = connections(count + 1);
            let (small, large) = ids.split_last().unwrap();
            let mut writers = Writers::default();
            for id in large {
                assert_eq!(writers.hold(*id), Hold::No, "it owes nothing");
                writers.note(*id, QUANTUM);
            }
            let mut served = vec![0; count];
            for round in 0..3 {
                for (n, id) in large.iter().enumerate() {
                    large.iter().for_each(|id| assert_ne!(writers.hold(*id), Hold::No));
                    assert_eq!(writers.hold(*small), Hold::No, "{count} {round} {n}");
                    writers.note(*small, 1);
                    assert_eq!(turn(&mut writers), [*id], "{count} {round} {n}");
                    served[n] += 1;
                    assert_eq!(writers.hold(*id), Hold::No);
                    writers.note(*id, QUANTUM);
                }
                assert!(served.iter().all(|times| *times == round + 1));
            }
        }
    }

    /// Who writes four times as much at one time waits four times as long.
    #[test]
    fn turns_are_by_bytes() {
        let ids = connections(2);
        let mut writers = Writers::default();
        let sizes = [QUANTUM, 4 * QUANTUM];
        let mut written = [0; 2];
        for _ in 0..400 {
            for n in 0..2 {
                if writers.hold(ids[n]) == Hold::No {
                    writers.note(ids[n], sizes[n]);
                    written[n] += sizes[n];
                }
            }
            turn(&mut writers);
        }
        let (less, more) = (written[0].min(written[1]), written[0].max(written[1]));
        assert!(more - less <= 8 * QUANTUM, "{written:?}");
        // 400 turns pay for 400 quanta, and the bytes owed at the end were written, too.
        assert!((400 * QUANTUM..=408 * QUANTUM).contains(&(more + less)), "{written:?}");
    }

    /// Six quanta are owed, so after six turns each writer has been released, and once.
    #[test]
    fn each_writer_that_waits_is_released_by_the_turns_that_pay_what_is_owed() {
        let ids = connections(3);
        let mut writers = Writers::default();
        for (n, id) in ids.iter().enumerate() {
            writers.note(*id, (n + 1) * QUANTUM);
            assert_eq!(writers.hold(*id), Hold::Begins);
            assert_eq!(writers.hold(*id), Hold::GoesOn, "its connection learns of it once");
        }
        let mut released = Vec::new();
        for _ in 0..6 {
            assert!(writers.any_waits());
            released.extend(turn(&mut writers));
        }
        released.sort_unstable();
        assert_eq!(released, ids);
        assert!(!writers.any_waits() && writers.order.is_empty());
    }

    /// A single stream is paid for with each turn, as far as it goes.
    #[test]
    fn a_lone_writer_waits_for_one_turn_after_each_quantum() {
        let ids = connections(1);
        let mut writers = Writers::default();
        for _ in 0..10 {
            for _ in 0..4 {
                assert_eq!(writers.hold(ids[0]), Hold::No);
                writers.note(ids[0], QUANTUM / 4);
            }
            assert_eq!(writers.hold(ids[0]), Hold::Begins);
            assert_eq!(turn(&mut writers), ids);
        }
    }
}
