//! The graph of Vegas' congestion avoidance mechanism (Brakmo and Peterson 1995, fig. 8).

use ackclock_core::Instant;

use super::timeline::{Sent, Timeline};
use super::windows::{KB, corners};
use super::{axis, noted, panel, point, series};
use crate::chart::{Figure, Point, Style};
use crate::file::TracedSource;

/// What Vegas compares at the end of a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) at: f64,
    /// Bytes a second.
    pub(super) expected: f64,
    pub(super) actual: f64,
    /// The smallest round trip so far, in seconds.
    pub(super) base: f64,
}

/// α and β in segments, of the controllers that have them.
pub(super) fn thresholds(congestion: &str) -> Option<(f64, f64)> {
    match congestion {
        "vegas-2-4" => Some((2.0, 4.0)),
        name if name.starts_with("vegas") => Some((1.0, 3.0)),
        _ => None,
    }
}

/// Expected, Actual and the thresholds α and β, in segments, with a mark at each comparison.
///
/// The four are worked out from what left and what was acknowledged, as §III-B says: BaseRTT is the smallest round trip so
/// far; a round trip ends when the first segment that left in it is acknowledged; Actual is what left during it, divided
/// by its smallest sample, since an acknowledgement may have been delayed; Expected is cwnd divided by BaseRTT.
#[must_use]
pub fn congestion_avoidance(source: &TracedSource, zero: Instant, (alpha, beta): (f64, f64)) -> Figure {
    let line = Timeline::new(source, zero);
    let segment = f64::from(line.segment_bytes());
    let decisions = decisions(&line);
    let rate =
        |of: fn(&Decision) -> f64| corners(decisions.iter().map(|now| point(now.at, of(now) / KB)).collect());
    let below = |segments: f64| {
        let threshold =
            |now: &Decision| point(now.at, (now.expected - segments * segment / now.base).max(0.0) / KB);
        corners(decisions.iter().map(threshold).collect())
    };
    let marks: Vec<Point> = decisions
        .iter()
        .map(|now| {
            let extra = (now.expected - now.actual) * now.base / segment;
            let verdict = match extra {
                _ if extra < alpha => "below α: one segment more",
                _ if extra > beta => "above β: one segment less",
                _ => "between α and β: as it is",
            };
            noted(now.at, f64::NEG_INFINITY, format!("{extra:.2} segments in queues, {verdict}"))
        })
        .collect();
    Figure {
        title: format!("Congestion avoidance: {}", source.source),
        caption: format!(
            "Expected and Actual once a round trip, and below Expected the thresholds α and β of {alpha} and {beta} \
             segments of {segment} bytes: Vegas keeps Actual between them. After figure 8 of Brakmo and Peterson 1995."
        ),
        x: axis("time (s)"),
        panels: vec![panel(
            1.0,
            axis("rate (KB/s)"),
            vec![
                series("Expected", Style::Line, 6, rate(|now| now.expected)),
                series("α", Style::Dashed, 2, below(alpha)),
                series("β", Style::Dashed, 1, below(beta)),
                series("Actual", Style::Line, 0, rate(|now| now.actual)),
                series("comparison", Style::Hashes, 3, marks),
            ],
        )],
    }
}

/// The comparisons of a connection, by their time.
pub(super) fn decisions(line: &Timeline) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let mut base = f64::INFINITY;
    // The end of the first data of this round trip, what left since, and its smallest sample.
    let (mut round, mut bytes, mut least) = (None, 0.0, f64::INFINITY);
    let first: Vec<&Sent> = line.sent.iter().filter(|sent| !sent.again).collect();
    let mut sent = line.sent.iter().peekable();
    let mut windows = line.windows.iter().peekable();
    let (mut cwnd, mut before) = (0, 0);
    for acked in line.acked.iter().filter(|acked| !acked.duplicate) {
        // What left at the very time of an acknowledgement left because of it, and the comparison moves the window.
        while let Some(data) = sent.next_if(|data| data.at < acked.at) {
            round.get_or_insert(data.end());
            bytes += f64::from(data.len);
        }
        while let Some(now) = windows.next_if(|now| now.at < acked.at) {
            cwnd = now.cwnd;
        }
        // Every segment has a clock (§III-A): the newest that this acknowledges is timed, unless it left twice.
        let newest = first.partition_point(|data| data.end() <= acked.bytes);
        if acked.bytes > before
            && let Some(timed) = first[..newest].last().filter(|data| data.repeated_at.is_none())
        {
            least = least.min(acked.at - timed.at);
            base = base.min(least);
        }
        before = before.max(acked.bytes);
        if round.is_some_and(|end| acked.bytes >= end) {
            if least.is_finite() && least > 0.0 {
                let expected = f64::from(cwnd) / base;
                decisions.push(Decision { at: acked.at, expected, actual: bytes / least, base });
            }
            (round, bytes, least) = (None, 0.0, f64::INFINITY);
        }
    }
    decisions
}
