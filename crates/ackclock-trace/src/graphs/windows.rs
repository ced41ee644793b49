//! The windows graph and the sending rate (Brakmo and Peterson 1995, figs. 1 to 3 and 13).

use std::collections::BTreeSet;

use ackclock_core::Instant;
use ackclock_core::trace::Timer;

use super::lives::lives;
use super::timeline::{Timeline, Transmission};
use super::{axis, noted, panel, point, series};
use crate::file::TracedSource;
use ackclock_chart::{Axis, Figure, Point, Series, Style};

/// The number of segments over which the sending rate is taken (§II-B: "calculated from the last 12
/// segments").
const RATE_SEGMENTS: usize = 12;
/// Bytes of a KB.
pub(super) const KB: f64 = 1000.0;

/// The windows graph, above the sending rate.
///
/// Above the frame, from the top: KB sent, checks of timers (diamonds), retransmission timeouts (circles),
/// segments sent (hash marks). Below the frame: acknowledgements. In it: cwnd, ssthresh, the peer's window,
/// bytes in transit, and a vertical line where a segment left that was later retransmitted.
///
/// The paper's diamonds are the checks of a periodic timer; here a diamond is an expired timer.
#[must_use]
pub fn windows(source: &TracedSource, zero: Instant) -> Figure {
    let line = Timeline::new(source, zero);
    let highest = highest(&line);
    let y = Axis { range: Some((0.0, highest)), ..axis("windows (KB)") };
    let in_sight = |series: &Series| series.points.iter().any(|point| point.y <= highest);
    let (sizes, above): (Vec<_>, Vec<_>) = sizes(&line).into_iter().partition(in_sight);
    let mut all = vec![repeated(&line)];
    all.extend(sizes);
    all.extend(marks(&line));
    let rate = rate(&line.sent);
    let mut panels = vec![panel(1.5, y, all)];
    if !rate.is_empty() {
        let y = Axis { range: Some(usual(&rate)), ..axis("sending rate (KB/s)") };
        panels.push(panel(0.8, y, vec![series("over the last 12 segments", Style::Line, 9, rate)]));
    }
    Figure {
        title: format!("Windows: {}", source.source),
        caption: format!(
            "Congestion window, threshold, the peer's window and bytes in transit against time, and below \
             the rate at which data left; after figures 1 to 3 of Brakmo and Peterson 1995. {} segments \
             left, {} of them carried bytes again; timeouts (circles): {} (a diamond is \
             any timer that guards data).{}",
            line.sent.len(),
            line.sent.iter().filter(|sent| sent.again).count(),
            timeouts(&line).count(),
            above.iter().filter_map(far_above).collect::<String>(),
        ),
        x: axis("time (s)"),
        panels,
    }
}

/// The upper end of the axis. A peer's window or a threshold far above what is used would flatten everything
/// else.
fn highest(line: &Timeline) -> f64 {
    let cwnd = line.windows.iter().map(|windows| windows.cwnd).max().unwrap_or(0);
    let transit = line.in_transit.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0);
    let used = (transit as f64).max(f64::from(cwnd).min(4.0 * transit as f64)).max(1.0);
    let limits = line
        .acked
        .iter()
        .map(|acked| acked.window)
        .chain(line.windows.iter().filter_map(|windows| windows.ssthresh));
    let near = limits.map(f64::from).filter(|&limit| limit <= 2.0 * used).fold(used, f64::max);
    near * 1.05 / KB
}

/// An axis from zero, up to the 99th percentile of the rate if single trains of segments are several times as
/// fast: they would flatten everything else.
fn usual(rate: &[Point]) -> (f64, f64) {
    let mut heights: Vec<f64> = rate.iter().map(|point| point.y).collect();
    heights.sort_by(f64::total_cmp);
    let (high, top) =
        (heights[(heights.len() * 99 / 100).min(heights.len() - 1)], heights[heights.len() - 1]);
    (0.0, 1.05 * if top > 3.0 * high { high } else { top })
}

/// A note on a quantity that lies above the axis all the time.
fn far_above(series: &Series) -> Option<String> {
    let least = series.points.iter().map(|point| point.y).fold(f64::NAN, f64::min);
    (!least.is_nan()).then(|| format!(" The {}, at least {least} KB, lies above the graph.", series.name))
}

fn sizes(line: &Timeline) -> Vec<Series> {
    let kb = |bytes: u32| f64::from(bytes) / KB;
    // Each holds until the end.
    let held = |mut points: Vec<Point>| {
        if let Some(last) = points.last() {
            points.push(point(line.end, last.y));
        }
        points
    };
    let cwnd = line.windows.iter().map(|windows| noted(windows.at, kb(windows.cwnd), windows.cause.name()));
    let ssthresh =
        line.windows.iter().map(|windows| point(windows.at, windows.ssthresh.map_or(f64::NAN, kb)));
    let window = line.acked.iter().map(|acked| point(acked.at, kb(acked.window)));
    let transit = line.in_transit.iter().map(|&(at, bytes)| point(at, bytes as f64 / KB));
    let mut ssthresh = changes(ssthresh);
    if ssthresh.iter().all(|point| point.y.is_nan()) {
        ssthresh.clear();
    }
    vec![
        series("send window", Style::Steps, 6, held(changes(window))),
        series("in transit", Style::Steps, 5, held(changes(transit))),
        series("cwnd", Style::Steps, 0, held(changes(cwnd))),
        // Drawn above cwnd, because the two are often equal.
        series("ssthresh", Style::Dashed, 1, corners(held(ssthresh))),
    ]
}

/// The points at which the value differs from the previous one.
pub(super) fn changes(points: impl Iterator<Item = Point>) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    for point in points {
        if kept.last().is_none_or(|last| last.y.to_bits() != point.y.to_bits()) {
            kept.push(point);
        }
    }
    kept
}

/// Steps as the corners of a line, for styles that join points directly.
pub(super) fn corners(points: Vec<Point>) -> Vec<Point> {
    let mut corners: Vec<Point> = Vec::with_capacity(2 * points.len());
    for next in points {
        if let Some(last) = corners.last() {
            corners.push(point(next.x, last.y));
        }
        corners.push(next);
    }
    corners
}

fn marks(line: &Timeline) -> Vec<Series> {
    let (above, below) = (f64::INFINITY, f64::NEG_INFINITY);
    let lives = lives(line);
    let sent = line.sent.iter().zip(&lives).map(|(sent, life)| noted(sent.at, above, life.sentence(sent)));
    let acked = line.acked.iter().map(|acked| {
        let kind = if acked.duplicate { "duplicate, " } else { "" };
        noted(acked.at, below, format!("{kind}{} bytes acknowledged", acked.bytes))
    });
    let guards = || line.fired.iter().filter(|(_, timer, ..)| watches(*timer));
    let checks = guards()
        .map(|&(at, timer, late, _)| noted(at, above, format!("{timer} timer, {:.3} ms late", late * 1e3)));
    // "timer ran out" beside "0 timeouts" would be a riddle: not every timer is the retransmission timer.
    let timers: BTreeSet<String> = guards().map(|(_, timer, ..)| timer.to_string()).collect();
    let timers: Vec<String> = timers.into_iter().collect();
    let ran_out = format!("timer ran out ({})", timers.join(", "));
    vec![
        series("KB sent", Style::Labels, 8, kilobytes(&line.sent)),
        series(&ran_out, Style::Diamonds, 4, checks.collect()),
        series("timeout", Style::Circles, 1, timeouts(line).collect()),
        series("sent", Style::Hashes, 3, sent.collect()),
        series("acknowledgement", Style::Hashes, 2, acked.collect()),
    ]
}

/// Whether a timer guards sent data.
fn watches(timer: Timer) -> bool {
    matches!(timer, Timer::Retransmission | Timer::TailProbe | Timer::Reordering | Timer::Persist)
}

fn timeouts(line: &Timeline) -> impl Iterator<Item = Point> + '_ {
    let ran_out = line.fired.iter().filter(|(_, timer, ..)| *timer == Timer::Retransmission);
    ran_out.map(|&(at, _, _, count)| noted(at, f64::INFINITY, format!("timeout {count} in a row")))
}

fn repeated(line: &Timeline) -> Series {
    let lost = line.sent.iter().filter_map(|sent| {
        let again = sent.repeated_at?;
        Some(noted(sent.at, 0.0, format!("byte {} and on, sent again at {again:.6} s", sent.start)))
    });
    series("sent again later", Style::Verticals, 10, lost.collect())
}

/// Labels at about 16 positions: when that many KB were first sent.
fn kilobytes(sent: &[Transmission]) -> Vec<Point> {
    let ends = || sent.iter().map(|sent| (sent.at, sent.end()));
    let total = ends().map(|(_, end)| end).max().unwrap_or(0) / KB as u64;
    let step = [1, 2, 5]
        .into_iter()
        .cycle()
        .zip([1_u64, 1, 1, 10, 10, 10, 100, 100, 100, 1000, 1000, 1000, 10_000, 10_000]);
    let step =
        step.map(|(multiple, power)| multiple * power).find(|step| total / step <= 16).unwrap_or(100_000);
    let mut next = step;
    let mut points = Vec::new();
    for (at, end) in ends() {
        if end >= next * KB as u64 {
            let reached = end / KB as u64 / step * step;
            points.push(noted(at, f64::INFINITY, reached.to_string()));
            next = reached + step;
        }
    }
    points
}

fn rate(sent: &[Transmission]) -> Vec<Point> {
    let over = |train: &[Transmission]| {
        let ([first, .., last], time) = (train, train.last()?.at - train.first()?.at) else { return None };
        let bytes: f64 = train.iter().map(|sent| f64::from(sent.len)).sum::<f64>() - f64::from(first.len);
        (time > 0.0).then(|| point(last.at, bytes / time / KB))
    };
    sent.windows(RATE_SEGMENTS + 1).filter_map(over).collect()
}
