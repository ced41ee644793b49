//! The queue of a bottleneck and what it dropped (Brakmo and Peterson 1995, §II-B, the lower graphs of figs.
//! 5 to 11).

use ackclock_core::Instant;
use ackclock_core::trace::Entry;

use super::timeline::seconds;
use super::{axis, noted, panel, point, series};
use crate::file::{Source, TracedSource};
use ackclock_chart::{Figure, Style};

/// The length of a simulated router's queue against time, with a cross for each packet that it dropped.
#[must_use]
pub fn queue(source: &TracedSource, zero: Instant) -> Figure {
    let mut lengths = Vec::new();
    let mut drops = Vec::new();
    let mut waiting = 0;
    for &(at, entry) in &source.entries {
        let at = seconds(zero, at);
        match entry {
            Entry::Queue { packets, bytes } => {
                waiting = packets;
                lengths.push(noted(at, f64::from(packets), format!("{bytes} bytes")));
            }
            Entry::Dropped { rule, len } => {
                let note = format!("{}, {len} bytes", source.source.name(rule));
                drops.push(noted(at, f64::from(waiting), note));
            }
            _ => {}
        }
    }
    let (most, dropped) = (lengths.iter().map(|length| length.y).fold(0.0, f64::max), drops.len());
    // A queue that never changed was empty.
    if lengths.is_empty() {
        lengths.push(point(0.0, 0.0));
    }
    Figure {
        title: format!("Queue before the link {}", link(&source.source)),
        caption: format!("Packets in the queue against time: at most {most}; it dropped {dropped}."),
        x: axis("time (s)"),
        panels: vec![panel(
            1.0,
            axis("queue (packets)"),
            vec![
                series("in the queue", Style::Steps, 0, lengths),
                series("dropped", Style::Crosses, 1, drops),
            ],
        )],
    }
}

fn link(source: &Source) -> String {
    match source {
        Source::Queue { link, .. } => link.clone(),
        other => other.to_string(),
    }
}
