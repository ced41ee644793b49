//! The history of one byte.

use ackclock_core::Instant;
use ackclock_core::trace::{Entry, LossRule, SendReason, UndoRule};

use crate::file::TracedSource;

/// An event of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was sent.
    Sent(SendReason),
    /// It was declared lost.
    Lost(LossRule),
    /// The peer holds it beyond a gap.
    Sacked,
    /// A reduction caused by its loss, or another byte's, was taken back.
    Undone(UndoRule),
    /// It was acknowledged, which ends its history.
    Acked,
}

/// Everything that happened to the byte with this sequence number, relative to the initial one (the first
/// byte is 1).
#[must_use]
pub fn history(source: &TracedSource, seq: u32) -> Vec<(Instant, Event)> {
    let within = |start: u32, end: u32| seq.wrapping_sub(start) < end.wrapping_sub(start);
    let mut events: Vec<(Instant, Event)> = Vec::new();
    let mut acked = false;
    let mut held = false;
    for &(at, entry) in &source.entries {
        let event = match entry {
            Entry::Sent { reason, seq: start, len, .. } if within(start, start.wrapping_add(len)) => {
                Event::Sent(reason)
            }
            // Sent data is far less than 2^31 bytes ahead of acknowledged data.
            Entry::Acked { ack, .. }
                if !events.is_empty() && !acked && (ack.wrapping_sub(seq) as i32) > 0 =>
            {
                acked = true;
                Event::Acked
            }
            _ if events.is_empty() || acked => continue,
            Entry::Lost { rule, start, end } if within(start, end) => Event::Lost(rule),
            Entry::Sacked { left, right } if !held && within(left, right) => {
                held = true;
                Event::Sacked
            }
            Entry::Undone(rule) if events.iter().any(|(_, event)| matches!(event, Event::Lost(_))) => {
                Event::Undone(rule)
            }
            _ => continue,
        };
        events.push((at, event));
    }
    events
}
