//! Reports connections as spans and events of `tracing` (feature `tracing`).
//!
//! The core records what changes a connection or costs it data
//! ([`EndpointConfig::tell_changes`](ackclock_core::EndpointConfig::tell_changes)), beside the trace that the
//! connection itself may have. Here each of these entries becomes an event, after the call or the driver's
//! turn in which it happened and outside the stack's lock, so a subscriber may use the stack. One thread
//! reports at a time, in the order of the entries; a thread that arrives meanwhile leaves its entries to it.

use std::collections::BTreeMap;

use ackclock_core::State as Tcp;
use ackclock_core::trace::{Batch, Entry, SendReason, Timer};
use tracing::{Span, debug, info_span, warn};

/// The spans of connections that are neither closed nor in TIME-WAIT, by the connections' numbers.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    open: BTreeMap<u64, Span>,
}

impl Spans {
    /// Reports a connection's changes.
    pub fn tell(&mut self, batch: &Batch) {
        let entries = batch.records.iter().filter_map(|&record| Entry::decode(record));
        let entries: Vec<Entry> = entries.collect();
        let Some(first) = entries.first() else { return };
        let span = match self.open.get(&batch.connection) {
            Some(span) => span.clone(),
            None if is_afterwards(first) => Span::none(),
            None => self.open(batch),
        };
        span.in_scope(|| {
            if batch.missed > 0 {
                warn!(target: TARGET, missed = batch.missed, "changes were dropped");
            }
            entries.iter().for_each(tell);
        });
        if entries.iter().any(is_end) {
            self.open.remove(&batch.connection);
        }
    }

    fn open(&mut self, batch: &Batch) -> Span {
        if self.open.len() >= SPANS_MAX {
            self.open.pop_first();
        }
        // The span does not belong to the task that happened to make the call.
        let span = info_span!(
            target: TARGET,
            parent: None,
            "connection",
            number = batch.connection,
            local = %batch.tuple.local(),
            remote = %batch.tuple.remote(),
            profile = batch.profile,
            congestion = batch.congestion,
        );
        self.open.insert(batch.connection, span.clone());
        span
    }
}

fn tell(entry: &Entry) {
    match *entry {
        Entry::State(from, to) => debug!(target: TARGET, ?from, ?to, "state changed"),
        Entry::Failed(reason) => warn!(target: TARGET, reason = reason.name(), "failed"),
        Entry::Lost { rule, start, end } => {
            let bytes = end.wrapping_sub(start);
            debug!(target: TARGET, rule = rule.name(), start, bytes, "lost");
        }
        Entry::TimerFired { timer: Timer::Retransmission, count, late_us } => {
            debug!(target: TARGET, in_a_row = count, late_us, "retransmission timeout");
        }
        Entry::Undone(proof) => debug!(target: TARGET, proof = proof.name(), "reduction taken back"),
        Entry::Recovered => debug!(target: TARGET, "recovered"),
        Entry::Sent { reason: SendReason::Reset, seq, .. } => debug!(target: TARGET, seq, "reset sent"),
        _ => {}
    }
}

/// Whether a connection's span ends with this entry. The entry for TIME-WAIT says nothing about how long
/// it lasts.
fn is_end(entry: &Entry) -> bool {
    matches!(entry, Entry::State(_, Tcp::Closed | Tcp::TimeWait))
}

/// Whether it can follow the end of its span.
fn is_afterwards(entry: &Entry) -> bool {
    matches!(entry, Entry::State(Tcp::TimeWait, _) | Entry::Sent { .. } | Entry::Failed(_))
}

const TARGET: &str = "ackclock";

/// Beyond this many, the oldest connection's span ends; the connection gets a new one when there is more
/// to report.
const SPANS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use ackclock_core::trace::BatchCause;
    use ackclock_core::{FourTuple, Instant};

    use super::*;

    /// Something that connection `number` has to report.
    fn batch(number: u64, entry: Entry) -> Batch {
        let tuple = FourTuple::new("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        Batch {
            connection: number,
            tuple,
            profile: "",
            congestion: "",
            names: Vec::new(),
            records: vec![entry.encode(Instant::ZERO)],
            missed: 0,
            cause: BatchCause::Changed,
        }
    }

    #[test]
    fn beyond_the_most_the_oldest_connection_s_span_ends_and_it_gets_another_with_its_next_report() {
        let mut spans = Spans::default();
        let most = SPANS_MAX as u64;
        let mut opening = batch(0, Entry::State(Tcp::SynSent, Tcp::Established));
        let mut open = |spans: &mut Spans, number| {
            opening.connection = number;
            spans.tell(&opening);
        };
        (0..most).for_each(|number| open(&mut spans, number));
        assert!(spans.open.keys().copied().eq(0..most));
        // A connection that reports again takes no second place.
        open(&mut spans, 0);
        assert!(spans.open.keys().copied().eq(0..most));
        open(&mut spans, most);
        assert!(spans.open.keys().copied().eq(1..=most));
        open(&mut spans, 0);
        assert!(spans.open.keys().copied().eq([0].into_iter().chain(2..=most)));
        // One that ends leaves room: no other goes.
        spans.tell(&batch(5, Entry::State(Tcp::LastAck, Tcp::Closed)));
        open(&mut spans, most + 1);
        let in_use = [0].into_iter().chain((2..=most + 1).filter(|number| *number != 5));
        assert!(spans.open.keys().copied().eq(in_use));
    }
}
