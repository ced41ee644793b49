//! The history of a byte in sentences.

use std::time::Duration;

use ackclock_core::Instant;
use ackclock_core::trace::{LossRule, SendReason, UndoRule};

use super::byte::{Event, history};
use super::units::{clock, span};
use crate::file::TracedSource;

/// The history of one byte, a sentence per event; empty if it was never sent.
#[must_use]
pub fn byte_sentences(source: &TracedSource, seq: u32) -> Vec<String> {
    let events = history(source, seq);
    let mut said = Vec::new();
    let mut last_sent: Option<Instant> = None;
    for (at, event) in events {
        let when = clock(at);
        said.push(match event {
            Event::Sent(reason) => {
                let since = last_sent.replace(at).map(|before| at.saturating_since(before));
                let after =
                    since.map_or(String::new(), |time| format!(", {} after it was sent last", span(time)));
                format!("{when}: sent{after}: {}.", sent_words(reason))
            }
            Event::Lost(rule) => format!("{when}: declared lost: {}.", rule_words(rule)),
            Event::Sacked => format!("{when}: the peer reports that it holds it, beyond a gap."),
            Event::Undone(rule) => format!("{when}: the reduction is taken back: {}.", undo_words(rule)),
            Event::Acked => {
                let since = last_sent.map_or(Duration::ZERO, |before| at.saturating_since(before));
                format!("{when}: acknowledged, {} after it was sent last.", span(since))
            }
        });
    }
    said
}

fn sent_words(reason: SendReason) -> &'static str {
    match reason {
        SendReason::NewData => "new data",
        SendReason::Retransmission => "a retransmission of what had been declared lost",
        SendReason::Rescue => {
            "a rescue, since nothing else could be sent during recovery (RFC 6675, NextSeg (3) and (4))"
        }
        SendReason::TailProbe => "a probe for a lost tail (RFC 8985 §7)",
        SendReason::WindowProbe => "a probe of a window too small to send into",
        other => other.name(),
    }
}

/// A rule of loss in words, with its source.
pub(crate) fn rule_words(rule: LossRule) -> &'static str {
    match rule {
        LossRule::DuplicateAcks => "three duplicate acknowledgements (RFC 5681 §3.2)",
        LossRule::SackEvidence => "the peer holds enough that was sent after it (RFC 6675 §4)",
        LossRule::LaterDelivered => {
            "something sent later was delivered a reordering window before (RFC 8985 §6)"
        }
        LossRule::TailProbe => "the probe of the tail was answered as the only copy (RFC 8985 §7.4)",
        LossRule::PartialAck => "an acknowledgement during recovery ended before it (RFC 6582 §3.2)",
        LossRule::OverdueAtDuplicate => {
            "it was older than the fine timeout when a duplicate acknowledgement came (Vegas)"
        }
        LossRule::OverdueAfterRetransmission => {
            "it was older than the fine timeout at one of the two acknowledgements after a retransmission \
             (Vegas)"
        }
        LossRule::Timeout => "the retransmission timer ran out (RFC 6298 §5)",
        LossRule::WindowReopened => "it had been sent beyond a window that was closed, and the window opened",
        LossRule::TooBig => {
            "a router reported that it could not carry packets of that size (RFC 1191, RFC 8201)"
        }
        _ => rule.name(),
    }
}

fn undo_words(rule: UndoRule) -> &'static str {
    match rule {
        UndoRule::Timestamps => "an echoed timestamp is older than the retransmission (RFC 3522)",
        UndoRule::Dsack => "all that was sent again is reported as received twice (RFC 3708)",
        UndoRule::Frto => "acknowledgements came for what the timer had not sent again (RFC 5682)",
        UndoRule::MinRtt => "the acknowledgement came sooner than the path allows",
        _ => rule.name(),
    }
}
