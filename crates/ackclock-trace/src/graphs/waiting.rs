//! The causes for which a connection waited, as a strip of colours over time.

use ackclock_core::Instant;

use super::timeline::seconds;
use super::{axis, noted, panel, point, series};
use crate::explain::{Waiting, Waits, account};
use crate::file::TracedSource;
use ackclock_chart::{Axis, Panel, Point, Series, Style};

/// The most spans of a strip. A longer one is cut into this many time slices, each with the colour of its
/// longest wait.
const SLICES: usize = 4000;

type Span = (Instant, Instant, Waiting);

/// The strip of a connection, with that of its other end below it if the trace has both. The longest silence
/// ended by a timer is labelled.
pub(super) fn waiting(source: &TracedSource, peer: Option<&TracedSource>, zero: Instant) -> Panel {
    let ends: Vec<Waits> = [Some(source), peer].into_iter().flatten().map(|end| account(end).waits).collect();
    let strips: Vec<Vec<Span>> = ends.iter().map(|waits| sliced(&waits.spans)).collect();
    let mut all: Vec<Series> = Waiting::ALL.map(|kind| strip(kind, &strips, zero)).into();
    all.push(series("longest silence", Style::Labels, 1, longest(&ends[0], zero).into_iter().collect()));
    // From the bottom up.
    let categories =
        ["other end", "this end"].iter().skip(2 - ends.len()).map(|&end| end.to_owned()).collect();
    let range = Some((-0.5, ends.len() as f64 - 0.5));
    panel(0.22 * ends.len() as f64, Axis { range, categories, ..axis("waited for") }, all)
}

/// The spans of one kind; this end is in the upper row.
fn strip(kind: Waiting, strips: &[Vec<Span>], zero: Instant) -> Series {
    let mut points = Vec::new();
    for (row, spans) in strips.iter().rev().enumerate() {
        for &(from, until, _) in spans.iter().filter(|(.., what)| *what == kind) {
            let lasted = until.saturating_since(from).as_secs_f64() * 1e3;
            let note = format!("{}, {lasted:.3} ms", kind.name());
            let end = |at, note| noted(seconds(zero, at), row as f64, note);
            points.extend([end(from, note.clone()), end(until, note), point(f64::NAN, f64::NAN)]);
        }
    }
    // The windows below have a line `cwnd` and marks `timeout`.
    series(&format!("for {}", kind.name()), Style::Strip, colour(kind), points)
}

/// Waits that never occur in one strip may share a colour: a controller paces or the application caps, a
/// program corks or Nagle's algorithm holds, and only a capture leaves anything unseen.
fn colour(kind: Waiting) -> u8 {
    match kind {
        Waiting::Cwnd => 0,
        Waiting::Timeout => 1,
        Waiting::PeerWindow => 2,
        Waiting::TailProbe => 3,
        Waiting::Recovery => 4,
        Waiting::Path => 5,
        Waiting::Application => 6,
        Waiting::Handshake => 7,
        Waiting::Closing => 8,
        Waiting::SlowStart => 9,
        Waiting::Host | Waiting::Unseen => 10,
        Waiting::DelayedAck => 11,
        Waiting::Reader => 12,
        Waiting::Pacing | Waiting::RateCap => 13,
        Waiting::Nagle | Waiting::Cork => 14,
        Waiting::SendBuffer => 15,
    }
}

fn longest(waits: &Waits, zero: Instant) -> Option<Point> {
    let silences = waits.timeouts.iter().chain(&waits.probes);
    let silence =
        silences.max_by_key(|silence| silence.lasted).filter(|silence| !silence.lasted.is_zero())?;
    let lasted = silence.lasted.as_secs_f64();
    let middle = seconds(zero, silence.at) - lasted / 2.0;
    Some(noted(middle, f64::INFINITY, format!("{lasted:.3} s of silence")))
}

fn sliced(spans: &[Span]) -> Vec<Span> {
    let (Some(&(begin, ..)), Some(&(_, end, _))) = (spans.first(), spans.last()) else { return Vec::new() };
    if spans.len() <= SLICES {
        return spans.to_vec();
    }
    let length = end.saturating_since(begin) / SLICES as u32;
    let mut slices: Vec<Span> = Vec::new();
    let mut rest = spans;
    for slice in 0..SLICES as u32 {
        let from = begin + length * slice;
        let until = if slice + 1 == SLICES as u32 { end } else { from + length };
        while let [(_, over, _), later @ ..] = rest
            && *over <= from
        {
            rest = later;
        }
        let most = most_of(rest, from, until);
        match slices.last_mut() {
            Some((_, reached, before)) if *before == most => *reached = until,
            _ => slices.push((from, until, most)),
        }
    }
    slices
}

/// The longest wait between two instants.
fn most_of(spans: &[Span], from: Instant, until: Instant) -> Waiting {
    let mut shares = std::collections::BTreeMap::new();
    for &(begin, end, what) in spans.iter().take_while(|(begin, ..)| *begin < until) {
        *shares.entry(what).or_insert(std::time::Duration::ZERO) +=
            end.min(until).saturating_since(begin.max(from));
    }
    shares.into_iter().max_by_key(|(_, share)| *share).map_or(Waiting::Closing, |(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn many_short_waits_become_slices_of_what_took_most() {
        // 10 s: each millisecond has 0.9 ms of one wait and 0.1 of another; in the second half the other way
        // round.
        let spans: Vec<Span> = (0..10_000)
            .flat_map(|millis| {
                let (from, until) = (at(millis), at(millis + 1));
                let part = if millis < 5000 { 900_000 } else { 100_000 };
                let between = from + std::time::Duration::from_nanos(part);
                [(from, between, Waiting::Pacing), (between, until, Waiting::Cwnd)]
            })
            .collect();
        let sliced = sliced(&spans);
        assert_eq!(sliced, [(at(0), at(5000), Waiting::Pacing), (at(5000), at(10_000), Waiting::Cwnd)]);
    }

    #[test]
    fn what_can_be_in_one_strip_differs_in_colour() {
        let together = Waiting::ALL
            .into_iter()
            .filter(|kind| !matches!(kind, Waiting::Unseen | Waiting::RateCap | Waiting::Cork));
        let mut colours: Vec<u8> = together.map(colour).collect();
        colours.sort_unstable();
        assert_eq!(colours, (0..16).collect::<Vec<u8>>());
    }

    #[test]
    fn few_waits_stay_as_they_were() {
        let spans = [(at(0), at(1), Waiting::Handshake), (at(1), at(900), Waiting::Timeout)];
        assert_eq!(sliced(&spans), spans);
        assert!(sliced(&[]).is_empty());
    }
}
