//! The papers' graphs, made from a trace: Brakmo and Peterson 1995 (figs. 1 to 3, 8 and 13), Awadallah and
//! Rai 1998 (figs. 13 to 26), Jacobson and Karels 1988 (figs. 3 to 6).
//!
//! Time is in seconds since the first entry of a trace's earliest source, so graphs of several sources fit
//! together. A KB is 1000 bytes.

mod cam;
mod lives;
mod page;
mod paths;
mod progress;
mod queue;
#[cfg(test)]
mod tests;
mod timeline;
mod waiting;
mod windows;
mod worst;

use std::collections::BTreeSet;

use ackclock_core::Instant;

use crate::file::{Source, Trace, TracedSource};
use ackclock_chart::{Axis, Figure, Panel, Point, Series, Style};

pub use cam::congestion_avoidance;
pub use page::{HEAD, report, row};
pub use paths::{round_trips, round_trips_by_window, sequence};
pub use progress::progress;
pub use queue::queue;
pub use windows::windows;
pub use worst::{lost_time, worst};

/// The time of the first entry of all sources: time zero of the graphs.
#[must_use]
pub fn beginning(trace: &Trace) -> Instant {
    let firsts = trace.sources.iter().filter_map(|source| source.entries.first());
    firsts.map(|&(at, _)| at).min().unwrap_or(Instant::ZERO)
}

/// The graphs of a trace, each with a stem for its file name: `N-windows` and so on for the connections that
/// sent data and whose numbers are in `shown`, and `queue-N` for all queues.
#[must_use]
pub fn all(trace: &Trace, shown: &BTreeSet<usize>) -> Vec<(String, Figure)> {
    let zero = beginning(trace);
    let sources = chosen(trace, shown);
    let graphs = sources.flat_map(|source| {
        let stem = |name| match source.source {
            Source::Queue { .. } => format!("{name}-{}", source.number),
            Source::Connection { .. } => format!("{}-{name}", source.number),
        };
        of(trace, source, zero).into_iter().map(move |(name, graph)| (stem(name), graph))
    });
    graphs.collect()
}

/// The graphs of a connection or a queue for a page. Those over time come first, marked by `true`, and have
/// the same ends, so that they can share an axis. None for a connection that sent no data.
#[must_use]
pub fn of_source(trace: &Trace, source: &TracedSource) -> Vec<(bool, Figure)> {
    let zero = beginning(trace);
    let mut graphs: Vec<Figure> = of(trace, source, zero).into_iter().map(|(_, graph)| graph).collect();
    if let (false, Some(progress)) = (graphs.is_empty(), progress(source, zero)) {
        graphs.insert(1, progress);
    }
    let seconds = |entry: Option<&(Instant, _)>| entry.map(|(at, _)| timeline::seconds(zero, *at));
    let ends = seconds(source.entries.first()).zip(seconds(source.entries.last()));
    let mut all: Vec<(bool, Figure)> =
        graphs.into_iter().map(|graph| (graph.x.label == "time (s)", graph)).collect();
    for (_, graph) in all.iter_mut().filter(|(over_time, _)| *over_time) {
        graph.x.range = ends.map(|(from, to)| {
            let room = ((to - from) * 0.01).max(1e-6);
            (from - room, to + room)
        });
    }
    all.sort_by_key(|(over_time, _)| !over_time);
    all
}

/// All queues, and the connections in `shown`.
fn chosen<'a>(trace: &'a Trace, shown: &BTreeSet<usize>) -> impl Iterator<Item = &'a TracedSource> {
    trace.sources.iter().filter(|source| !source.source.is_connection() || shown.contains(&source.number))
}

/// The graphs of one source; none for a connection that sent no data.
fn of(trace: &Trace, source: &TracedSource, zero: Instant) -> Vec<(&'static str, Figure)> {
    match &source.source {
        Source::Queue { .. } => vec![("queue", queue(source, zero))],
        Source::Connection { .. } if timeline::has_data(source) => {
            let mut first = windows(source, zero);
            first.panels.insert(0, waiting::waiting(source, peer(trace, source), zero));
            let mut graphs = vec![("windows", first)];
            graphs.extend(congestion_avoidance(source, zero).map(|graph| ("cam", graph)));
            graphs.extend([
                ("sequence", sequence(source, zero)),
                ("rtt", round_trips(source)),
                ("rtt-by-window", round_trips_by_window(source)),
            ]);
            // A graph without points says nothing.
            graphs.retain(|(_, graph)| graph.panels.iter().any(|panel| !panel.series.is_empty()));
            graphs
        }
        Source::Connection { .. } => Vec::new(),
    }
}

/// The other end of a connection, where the trace has both.
fn peer<'a>(trace: &'a Trace, source: &TracedSource) -> Option<&'a TracedSource> {
    let Source::Connection { local, remote, .. } = &source.source else { return None };
    trace.connections().find(|other| {
        matches!(&other.source, Source::Connection { local: theirs, remote: ours, .. } if (theirs, ours) == (remote, local))
    })
}

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

fn series(name: &str, style: Style, colour: u8, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), style, colour, points }
}

fn panel(height: f64, y: Axis, mut series: Vec<Series>) -> Panel {
    // A series without points takes no room in the legend.
    series.retain(|series| !series.points.is_empty());
    Panel { height, y, series }
}

fn point(x: f64, y: f64) -> Point {
    Point { x, y, ..Point::default() }
}

fn noted(x: f64, y: f64, note: impl Into<String>) -> Point {
    Point { x, y, note: note.into(), ..Point::default() }
}
