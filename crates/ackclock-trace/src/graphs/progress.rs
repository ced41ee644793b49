//! Round trips and throughput against time.

use ackclock_core::Instant;

use super::timeline::{Acked, Timeline};
use super::windows::KB;
use super::{axis, noted, panel, point, series};
use crate::file::TracedSource;
use ackclock_chart::{Axis, Figure, Point, Style};

/// The number of intervals over which throughput is taken.
const INTERVALS: usize = 100;

/// Each timed round trip with the retransmission timeout that followed it, and the rate at which data was
/// acknowledged, against time. `None` if nothing was acknowledged.
#[must_use]
pub fn progress(source: &TracedSource, zero: Instant) -> Option<Figure> {
    let line = Timeline::new(source, zero);
    let rate = throughput(&line.acked)?;
    let highest = rate.iter().map(|point| point.y).fold(0.0, f64::max);
    let samples = || line.samples.iter();
    let rtt = samples().map(|sample| noted(sample.at, sample.rtt * 1e3, "the acknowledgement ended it"));
    let rto = samples().map(|sample| point(sample.at, sample.rto * 1e3));
    let mut panels = Vec::new();
    if !line.samples.is_empty() {
        let trips = vec![
            series("timeout (RTO)", Style::Steps, 1, rto.collect()),
            series("round trip", Style::Dots, 0, rtt.collect()),
        ];
        panels.push(panel(0.9, axis("round trip (ms)"), trips));
    }
    let y = Axis { range: Some((0.0, (highest * 1.05).max(1e-3))), ..axis("throughput (KB/s)") };
    panels.push(panel(0.7, y, vec![series("acknowledged", Style::Steps, 2, rate)]));
    Some(Figure {
        title: format!("Round trips and throughput: {}", source.source),
        caption: format!(
            "Each timed round trip and the retransmission timeout after it; below, the data acknowledged in \
             each of {INTERVALS} intervals."
        ),
        x: axis("time (s)"),
        panels,
    })
}

/// The rate in each interval from the first to the last acknowledgement.
fn throughput(acked: &[Acked]) -> Option<Vec<Point>> {
    let (first, last) = (acked.first()?, acked.last()?);
    let length = (last.at - first.at) / INTERVALS as f64;
    if length <= 0.0 || last.bytes == 0 {
        return None;
    }
    let mut rates: Vec<Point> = Vec::with_capacity(INTERVALS + 1);
    let (mut before, mut index) = (first.bytes, 0);
    for interval in 0..INTERVALS {
        let from = first.at + interval as f64 * length;
        let until = if interval + 1 == INTERVALS { last.at } else { from + length };
        while acked.get(index).is_some_and(|acked| acked.at <= until) {
            index += 1;
        }
        let bytes = acked[..index].last().map_or(before, |acked| acked.bytes);
        rates.push(point(from, (bytes - before) as f64 / length / KB));
        before = bytes;
    }
    rates.push(point(last.at, rates.last()?.y));
    Some(rates)
}
