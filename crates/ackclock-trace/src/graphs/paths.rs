//! Sequence numbers against time, and round trips: against the packet's number, with the timer (Jacobson and
//! Karels 1988, figs. 3 to 6), and against the window (Awadallah and Rai 1998, figs. 14 to 26).

use std::collections::BTreeMap;

use ackclock_core::Instant;
use ackclock_core::trace::LossRule;

use super::lives::lives;
use super::timeline::{Sample, Timeline, Transmission};
use super::windows::{KB, changes};
use super::{axis, noted, panel, point, series};
use crate::file::TracedSource;
use ackclock_chart::{Figure, Point, Style};

/// Data sent, retransmitted by cause, declared lost and acknowledged, by its position in the stream. The note
/// of each transmission says why it left and what became of it.
#[must_use]
pub fn sequence(source: &TracedSource, zero: Instant) -> Figure {
    let line = Timeline::new(source, zero);
    let place = |bytes: u64| bytes as f64 / KB;
    let lives = lives(&line);
    let mut first = Vec::new();
    let mut again: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for (sent, life) in line.sent.iter().zip(&lives) {
        let shown = noted(sent.at, place(sent.start), life.sentence(sent));
        if sent.again { again.entry(life.cause(sent)).or_default().push(shown) } else { first.push(shown) }
    }
    let acked = changes(line.acked.iter().map(|acked| point(acked.at, place(acked.bytes))));
    let lost = line
        .lost
        .iter()
        .map(|&(at, rule, start, end)| noted(at, place(start), format!("{rule}, to byte {end}")));
    let mut all = vec![series("acknowledged", Style::Steps, 2, acked), series("sent", Style::Dots, 0, first)];
    all.extend(again.into_iter().zip(AGAIN.into_iter().cycle()).map(|((cause, points), colour)| {
        let colour = if cause == LossRule::Timeout.name() { 1 } else { colour };
        series(&format!("again: {cause}"), Style::Crosses, colour, points)
    }));
    all.push(series("declared lost", Style::Circles, 4, lost.collect()));
    Figure {
        title: format!("Sequence: {}", source.source),
        caption: "Where in the stream data lay that was sent, sent again (by its cause) or declared lost, \
                  and what was acknowledged, against time. After figures 3 and 4 of Jacobson and Karels 1988."
            .to_owned(),
        x: axis("time (s)"),
        panels: vec![panel(1.2, axis("place in the stream (KB)"), all)],
    }
}

/// The colours of causes for which data was sent again; timeouts have their own.
const AGAIN: [u8; 4] = [3, 7, 5, 6];

/// Each timed round trip, and the retransmission timeout after it, by the number of the timed packet.
#[must_use]
pub fn round_trips(source: &TracedSource) -> Figure {
    let line = Timeline::new(source, Instant::ZERO);
    let ends: Vec<u64> = first_ends(&line.sent);
    let number = |sample: &Sample| ends.partition_point(|&end| end <= sample.acked) as f64;
    let rtt = line.samples.iter().map(|sample| point(number(sample), sample.rtt * 1e3)).collect();
    let rto = line.samples.iter().map(|sample| point(number(sample), sample.rto * 1e3)).collect();
    Figure {
        title: format!("Round trips: {}", source.source),
        caption:
            "The round trip of packets and the retransmission timeout that followed, against the number \
                  of the packet. After figures 5 and 6 of Jacobson and Karels 1988."
                .to_owned(),
        x: axis("packet"),
        panels: vec![panel(
            1.0,
            axis("time (ms)"),
            vec![series("round trip", Style::Dots, 0, rtt), series("timeout (RTO)", Style::Steps, 1, rto)],
        )],
    }
}

/// Each timed round trip, by the congestion window at its end.
#[must_use]
pub fn round_trips_by_window(source: &TracedSource) -> Figure {
    let line = Timeline::new(source, Instant::ZERO);
    let points = line.samples.iter().filter(|sample| sample.acked > 0).map(|sample| {
        noted(
            f64::from(sample.cwnd) / KB,
            sample.rtt * 1e3,
            format!("{:.3} s into the trace's clock", sample.at),
        )
    });
    Figure {
        title: format!("Round trip by window: {}", source.source),
        caption: "The round trip against the congestion window: up to the knee a larger window costs no \
                  delay, beyond it each byte waits in a queue. After figures 14 to 26 of Awadallah and Rai \
                  1998."
            .to_owned(),
        x: axis("cwnd (KB)"),
        panels: vec![panel(1.0, axis("round trip (ms)"), vec![series("", Style::Dots, 0, points.collect())])],
    }
}

/// The ends of data sent for the first time, in order.
fn first_ends(sent: &[Transmission]) -> Vec<u64> {
    let mut ends: Vec<u64> = sent.iter().filter(|sent| !sent.again).map(|sent| sent.end()).collect();
    ends.sort_unstable();
    ends
}
