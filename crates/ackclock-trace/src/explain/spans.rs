//! Times and their causes, and evidence that claims a part of them.

use ackclock_core::Instant;

use super::waiting::Waiting;

/// From, until, and the cause.
pub(super) type Span = (Instant, Instant, Waiting);

/// Appends a span if it took any time. Adjacent spans of one cause are merged.
pub(super) fn append(spans: &mut Vec<Span>, (from, until, waiting): Span) {
    if until <= from {
        return;
    }
    match spans.last_mut() {
        Some((_, end, before)) if *end == from && *before == waiting => *end = until,
        _ => spans.push((from, until, waiting)),
    }
}

/// Gives claims, which are in order of time, their part of the spans whose cause they may override.
pub(super) fn claim(spans: Vec<Span>, claims: &[Span], may: impl Fn(Waiting) -> bool) -> Vec<Span> {
    if claims.is_empty() {
        return spans;
    }
    let (mut left, mut claimed) = (claims, Vec::with_capacity(spans.len()));
    for (from, until, waiting) in spans {
        while let [(_, end, _), rest @ ..] = left
            && *end <= from
        {
            left = rest;
        }
        let mut reached = from;
        if may(waiting) {
            for &(begin, end, what) in left.iter().take_while(|(begin, ..)| *begin < until) {
                append(&mut claimed, (reached, begin, waiting));
                append(&mut claimed, (reached.max(begin), end.min(until), what));
                reached = reached.max(end.min(until));
            }
        }
        append(&mut claimed, (reached, until, waiting));
    }
    claimed
}

/// Joins a claim to those before it, which end no later. Claims stay disjoint and in order.
pub(super) fn join(claims: &mut Vec<Span>, (mut from, until, waiting): Span) {
    if until <= from {
        return;
    }
    while let Some(&(begin, end, _)) = claims.last()
        && end >= from
    {
        from = from.min(begin);
        claims.pop();
    }
    claims.push((from, until, waiting));
}
