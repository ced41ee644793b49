//! The graph of Vegas' congestion avoidance mechanism (Brakmo and Peterson 1995, fig. 8).

use ackclock_core::Instant;
use ackclock_core::trace::Entry;

use super::timeline::{self, Timeline};
use super::windows::{KB, corners};
use super::{axis, noted, panel, point, series};
use crate::file::{Source, TracedSource};
use ackclock_chart::{Figure, Point, Style};

/// The controller's comparison at the end of a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// When it was recorded: up to an eighth of a round trip later.
    pub at: f64,
    /// Bytes a second.
    pub expected: f64,
    pub actual: f64,
    /// (Expected - Actual) * BaseRTT, α and β, in segments.
    pub diff: f64,
    pub alpha: f64,
    pub beta: f64,
    /// BaseRTT in seconds.
    pub base: f64,
}

/// Expected, Actual and the thresholds α and β, with a mark at each comparison: the controller's own numbers.
/// `None` if it has no such numbers, or never compared.
#[must_use]
pub fn congestion_avoidance(source: &TracedSource, zero: Instant) -> Option<Figure> {
    let all = comparisons(source, zero);
    let last = all.last()?;
    let segment = segment_bytes(&all).unwrap_or_else(|| Timeline::new(source, zero).segment_bytes().into());
    let rate =
        |of: fn(&Comparison) -> f64| corners(all.iter().map(|now| point(now.at, of(now) / KB)).collect());
    let below = |segments: f64| {
        let threshold =
            |now: &Comparison| point(now.at, (now.expected - segments * segment / now.base).max(0.0) / KB);
        corners(all.iter().map(threshold).collect())
    };
    let marks: Vec<Point> = all
        .iter()
        .map(|now| {
            let verdict = match now.diff {
                diff if diff < now.alpha => "below α: one segment more",
                diff if diff > now.beta => "above β: one segment less",
                _ => "between α and β: as it is",
            };
            noted(now.at, f64::NEG_INFINITY, format!("{:.2} segments in queues, {verdict}", now.diff))
        })
        .collect();
    let Comparison { alpha, beta, .. } = last;
    Some(Figure {
        title: format!("Congestion avoidance: {}", source.source),
        caption: format!(
            "Expected and Actual once a round trip, and below Expected the thresholds α and β of {alpha} and \
             {beta} segments of {segment:.0} bytes: Vegas keeps Actual between them. After figure 8 of \
             Brakmo and Peterson 1995."
        ),
        x: axis("time (s)"),
        panels: vec![panel(
            1.0,
            axis("rate (KB/s)"),
            vec![
                series("Expected", Style::Line, 6, rate(|now| now.expected)),
                series("α", Style::Dashed, 2, below(*alpha)),
                series("β", Style::Dashed, 1, below(*beta)),
                series("Actual", Style::Line, 0, rate(|now| now.actual)),
                series("comparison", Style::Hashes, 3, marks),
            ],
        )],
    })
}

/// The segment size, computed from the numbers of the largest Diff. The trace only has the lengths of
/// transmissions, which may be trains.
fn segment_bytes(all: &[Comparison]) -> Option<f64> {
    let largest = all.iter().max_by(|one, other| one.diff.total_cmp(&other.diff))?;
    (largest.diff > 0.0).then(|| (largest.expected - largest.actual) * largest.base / largest.diff)
}

/// The comparisons of a connection, in order of time.
pub(super) fn comparisons(source: &TracedSource, zero: Instant) -> Vec<Comparison> {
    let Source::Connection { names, .. } = &source.source else { return Vec::new() };
    let places = NUMBERS.map(|number| names.iter().position(|name| name == number));
    let mut values = [0.0; NUMBERS.len()];
    let mut all: Vec<Comparison> = Vec::new();
    for &(at, entry) in &source.entries {
        let Entry::Controller { name, value } = entry else { continue };
        let Some(number) = places.iter().position(|place| *place == Some(name.into())) else { continue };
        values[number] = value as f64;
        let [expected, actual, diff, alpha, beta, base, _] = values;
        // The count is the last number to change with a comparison, and is zero before the first.
        if number != COUNT || value == 0 {
            continue;
        }
        all.push(Comparison {
            at: timeline::seconds(zero, at),
            expected,
            actual,
            diff: diff / 100.0,
            alpha,
            beta,
            base: base / 1e6,
        });
    }
    all
}

/// The controller's numbers.
const NUMBERS: [&str; 7] = [
    "expected_bytes_per_second",
    "actual_bytes_per_second",
    "diff_hundredths",
    "alpha",
    "beta",
    "base_rtt_us",
    "comparisons",
];
/// The index of the last.
const COUNT: usize = NUMBERS.len() - 1;
