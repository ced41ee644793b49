//! Accounts and histories in sentences.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::Instant;
use ackclock_core::trace::{LossRule, SendReason, UndoRule};

use super::account::{Account, Waiting, account};
use super::byte::{Event, history};
use crate::file::{Source, TracedSource};

/// Where the time of a connection went, a sentence each.
#[must_use]
pub fn sentences(source: &TracedSource) -> Vec<String> {
    let account = account(source);
    let mut said = vec![life(source, &account)];
    if source.missed > 0 {
        let missed = source.missed;
        said.push(format!(
            "{missed} records before these are missing, so what follows is of the last part only."
        ));
    }
    if source.unknown > 0 {
        said.push(format!("{} records are of kinds that this version does not know.", source.unknown));
    }
    let mut waits: Vec<(Waiting, Duration)> =
        account.waiting.iter().map(|(&what, &time)| (what, time)).collect();
    waits.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
    said.extend(waits.iter().map(|&(what, time)| wait(what, time, account.duration)));
    said.extend(losses(&account));
    said.extend(timeouts(&account));
    said.extend(others(&account));
    said
}

/// What happened to one byte, a sentence each; none if it was never sent.
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

fn life(source: &TracedSource, account: &Account) -> String {
    let Source::Connection { profile, congestion, .. } = &source.source else {
        return format!("{} is no connection.", source.source);
    };
    let again = match account.again.bytes {
        0 => "none of them twice".to_owned(),
        bytes => format!("and {} again", size(bytes)),
    };
    let failed = account.failed.map_or(String::new(), |failure| format!(" It failed: {failure}."));
    format!(
        "{} (profile {profile}, controller {congestion}) is traced for {}; it sent {}, {again}, and received {}.{failed}",
        source.source,
        span(account.duration),
        size(account.bytes_sent),
        size(account.bytes_received),
    )
}

fn wait(what: Waiting, time: Duration, whole: Duration) -> String {
    let share = time.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE) * 100.0;
    let words = match what {
        Waiting::Handshake => "it waited for the handshake",
        Waiting::Application => "it had nothing to send: it waited for the application",
        Waiting::PeerWindow => "the peer's window kept it from sending more",
        Waiting::Cwnd => "the congestion window was full: it waited for acknowledgements",
        Waiting::Recovery => "it recovered from losses, and was allowed no more than it sent",
        Waiting::Timeout => "it waited in silence for a retransmission timer to run out",
        Waiting::Pacing => "it waited for its turn at the pacing rate",
        Waiting::SmallSegment => "it held a small segment back (Nagle's algorithm, or a cork)",
        Waiting::Closing => {
            "all had been sent, and it waited for the last acknowledgements or the peer's close"
        }
    };
    format!("{share:.1} % of the time ({}) {words}.", span(time))
}

fn losses(account: &Account) -> Vec<String> {
    let mut said = Vec::new();
    if !account.again.rules.is_empty() {
        said.push(format!(
            "Losses were declared by {}; {}, each of which reduced the congestion window.",
            counted(&account.again.rules),
            plural(account.episodes, "loss episode", "loss episodes"),
        ));
    }
    if !account.again.segments.is_empty() {
        said.push(format!("What was sent again left as {}.", counted(&account.again.segments)));
    }
    if account.marks > 0 {
        let marks =
            plural(account.marks, "Congestion Experienced mark was", "Congestion Experienced marks were");
        said.push(format!("{marks} answered as losses are, without one."));
    }
    if !account.undone.is_empty() {
        said.push(format!("Reductions that had been wrong were taken back: {}.", counted(&account.undone)));
    }
    said
}

fn timeouts(account: &Account) -> Vec<String> {
    let Some(&(at, silence, count)) = account.timeouts.iter().max_by_key(|(_, silence, _)| *silence) else {
        return Vec::new();
    };
    let total: Duration = account.timeouts.iter().map(|(_, silence, _)| *silence).sum();
    let number = account.timeouts.len() as u64;
    vec![format!(
        "{} after {} of silence altogether; the longest at {} after {}, number {count} in a row.",
        plural(number, "retransmission timer ran out", "retransmission timers ran out"),
        span(total),
        clock(at),
        span(silence),
    )]
}

fn others(account: &Account) -> Vec<String> {
    let mut said = Vec::new();
    if let Some((least, mean, most)) = account.round_trip {
        let (least, mean, most) = (span(least), span(mean), span(most));
        said.push(format!("Round trips took {least} at least, {mean} on average, {most} at most."));
    }
    if account.late.0 > 0 {
        let late = plural(account.late.0, "timer ran out", "timers ran out");
        said.push(format!("{late} more than a millisecond late, by up to {}.", span(account.late.1)));
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

fn rule_words(rule: LossRule) -> &'static str {
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
            "it was older than the fine timeout at one of the two acknowledgements after a retransmission (Vegas)"
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

fn counted(counts: &BTreeMap<&'static str, u64>) -> String {
    let words: Vec<String> = counts.iter().map(|(name, count)| format!("{name} ({count} times)")).collect();
    words.join(", ").replace("(1 times)", "(once)")
}

fn plural(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

fn clock(at: Instant) -> String {
    format!("{:.6} s", at.as_nanos() as f64 / 1e9)
}

/// A time with the unit that suits it.
fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
