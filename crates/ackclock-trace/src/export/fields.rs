//! An entry as named values.

use ackclock_core::trace::Entry;

use crate::file::Source;

/// A value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A number.
    Number(i64),
    /// A name.
    Text(String),
}

/// The kind of an entry, and its values by name, in the order of [`COLUMNS`](super::COLUMNS). Sizes are in
/// bytes; names ending in `_us` are times in microseconds.
#[must_use]
pub fn fields(source: &Source, entry: &Entry) -> (&'static str, Vec<(&'static str, Value)>) {
    match *entry {
        Entry::State(from, to) => ("state", vec![("from", debug(from)), ("to", debug(to))]),
        Entry::Sent { reason, flags, seq, len } => {
            let what = ("what", text(reason.name()));
            (
                "sent",
                vec![what, ("flags", text(&flag_names(flags))), ("seq", number(seq)), ("len", number(len))],
            )
        }
        Entry::Told { ack, window } => ("told", vec![("ack", number(ack)), ("window", number(window))]),
        Entry::Received { flags, seq, len } => (
            "received",
            vec![("flags", text(&flag_names(flags))), ("seq", number(seq)), ("len", number(len))],
        ),
        Entry::Acked { duplicate, ack, window } => {
            let what = text(if duplicate { "duplicate" } else { "new" });
            ("acked", vec![("what", what), ("ack", number(ack)), ("window", number(window))])
        }
        Entry::Sacked { left, right } => ("sacked", vec![("seq", number(left)), ("end", number(right))]),
        Entry::RoundTrip { sample_us, rto_us } => {
            ("round-trip", vec![("rtt_us", number(sample_us)), ("rto_us", number(rto_us))])
        }
        Entry::Smoothed { srtt_us, rttvar_us } => {
            ("smoothed", vec![("srtt_us", number(srtt_us)), ("rttvar_us", number(rttvar_us))])
        }
        Entry::TimerSet { timer, in_us } => {
            ("timer-set", vec![("what", text(timer.name())), ("in_us", number(in_us))])
        }
        Entry::TimerStopped(timer) => ("timer-stopped", vec![("what", text(timer.name()))]),
        Entry::TimerFired { timer, late_us, count } => {
            let what = ("what", text(timer.name()));
            ("timer-fired", vec![what, ("late_us", number(late_us)), ("count", number(count))])
        }
        Entry::Limited { by, in_flight, unsent } => {
            let what = ("what", text(by.name()));
            ("limited", vec![what, ("in_flight", number(in_flight)), ("unsent", number(unsent))])
        }
        Entry::HeldByHost { for_us } => ("held-by-host", vec![("for_us", number(for_us))]),
        Entry::Window { cause, cwnd, ssthresh } => {
            let mut values = vec![("what", text(cause.name())), ("cwnd", number(cwnd))];
            if ssthresh != u32::MAX {
                values.push(("ssthresh", number(ssthresh)));
            }
            ("window", values)
        }
        Entry::Lost { rule, start, end } => {
            ("lost", vec![("what", text(rule.name())), ("seq", number(start)), ("end", number(end))])
        }
        Entry::SegmentSize { bytes } => ("segment-size", vec![("bytes", number(bytes))]),
        Entry::Undone(rule) => ("undone", vec![("what", text(rule.name()))]),
        Entry::Recovered => ("recovered", vec![]),
        Entry::Controller { name, value } => {
            ("controller", vec![("what", text(source.name(name))), ("value", Value::Number(value))])
        }
        Entry::Written { len, queued } => ("written", vec![("len", number(len)), ("queued", number(queued))]),
        Entry::Read { len, waiting } => ("read", vec![("len", number(len)), ("waiting", number(waiting))]),
        Entry::Shutdown => ("shutdown", vec![]),
        Entry::Failed(failure) => ("failed", vec![("what", text(failure.name()))]),
        Entry::Queue { packets, bytes } => {
            ("queue", vec![("packets", number(packets)), ("bytes", number(bytes))])
        }
        Entry::Dropped { rule, len } => {
            ("dropped", vec![("what", text(source.name(rule))), ("len", number(len))])
        }
        Entry::Extension { what, value } => {
            ("extension", vec![("what", text(what.name())), ("value", number(value))])
        }
        _ => ("unknown", vec![]),
    }
}

/// The control bits, as `SYN ACK`.
fn flag_names(flags: u8) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set = NAMES.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

fn number(value: u32) -> Value {
    Value::Number(value.into())
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn debug(state: ackclock_core::State) -> Value {
    Value::Text(format!("{state:?}"))
}
