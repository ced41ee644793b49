//! An observed run, and its picture.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_chart::{Panel, Style};
use ackclock_sim::observe::Series as Samples;
use ackclock_sim::units::Span;
use ackclock_sim::{Report, Scenario};

use super::network::{KB, Sender, until_over};
use crate::draw::{OTHER, colour, panel, series};

/// The sampling interval of observed runs.
pub(super) const SAMPLE: Span = Span::millis(20);

/// A run with its samples.
pub(super) struct Watched {
    pub(super) report: Report,
    samples: Samples,
    /// The number of the bottleneck's direction.
    link: usize,
}

/// Runs and samples until these transfers are over.
pub(super) fn watch(mut scenario: Scenario, names: &[&str]) -> anyhow::Result<Watched> {
    scenario.sample_every = Some(SAMPLE);
    let samples = Rc::new(RefCell::new(Samples::default()));
    let mut simulation = crate::changes::simulation(&scenario)?;
    simulation.observe(samples.clone());
    let link = simulation.link("left", "right").unwrap_or_default() as usize;
    let report = until_over(&mut simulation, &scenario, names)?;
    let samples = samples.take();
    Ok(Watched { report, samples, link })
}

impl Watched {
    /// A point for each sample.
    fn points(&self, value: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
        self.samples.at_ns.iter().enumerate().map(|(n, at)| (*at as f64 / 1e9, value(n))).collect()
    }

    fn flow(&self, name: &str) -> usize {
        self.report.flows.iter().position(|flow| flow.name == name).unwrap_or_default()
    }

    /// When the last byte of a traffic arrived, in seconds.
    pub fn end_of(&self, name: &str) -> f64 {
        self.report.flow(name).and_then(|flow| flow.last_byte).unwrap_or(self.report.time)
    }

    /// The congestion window of a traffic, in KB.
    pub fn cwnd(&self, name: &str) -> Vec<(f64, f64)> {
        let flow = self.flow(name);
        self.points(|n| self.samples.flows[n][flow].cwnd as f64 / KB as f64)
    }

    /// The KB that a traffic has in transit.
    pub fn in_transit(&self, name: &str) -> Vec<(f64, f64)> {
        let flow = self.flow(name);
        self.points(|n| self.samples.flows[n][flow].in_flight as f64 / KB as f64)
    }

    /// Packets in the bottleneck's queue.
    pub fn queue(&self) -> Vec<(f64, f64)> {
        self.points(|n| self.samples.links[n][self.link].queue_packets.into())
    }

    /// Samples before which the bottleneck dropped packets, with the number of packets.
    pub fn drops(&self) -> Vec<(f64, f64)> {
        let dropped = |n: usize| self.samples.links[n][self.link].dropped;
        let points = self.points(|n| (dropped(n) - n.checked_sub(1).map_or(0, dropped)) as f64);
        points.into_iter().filter(|(_, drops)| *drops > 0.0).collect()
    }

    /// KB/s that the receiver of a traffic got in order, over this many samples.
    pub fn rate(&self, name: &str, samples: usize) -> Vec<(f64, f64)> {
        let flow = self.flow(name);
        self.slope(samples, |n| {
            let point = self.samples.flows[n][flow];
            point.bytes + point.bytes_back
        })
    }

    /// KB/s that left the bottleneck, over this many samples.
    pub fn output(&self, samples: usize) -> Vec<(f64, f64)> {
        self.slope(samples, |n| self.samples.links[n][self.link].sent_bytes)
    }

    fn slope(&self, samples: usize, count: impl Fn(usize) -> u64) -> Vec<(f64, f64)> {
        let seconds = samples as f64 * SAMPLE.0 as f64 / 1e9;
        let points = self.samples.at_ns.iter().enumerate().step_by(samples);
        points
            .map(|(n, at)| {
                let before = n.checked_sub(samples).map_or(0, &count);
                (*at as f64 / 1e9, (count(n) - before) as f64 / KB as f64 / seconds)
            })
            .collect()
    }
}

/// Windows, queue and rate of one transfer by a sender, as in figs. 5 and 7.
pub(super) fn windows(watched: &Watched, name: &str, sender: Sender, until: f64) -> Vec<Panel> {
    let early = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
        points.into_iter().filter(|(at, _)| *at <= until).collect()
    };
    let cwnd = series("congestion window", Style::Steps, colour(sender.name), early(watched.cwnd(name)));
    let in_transit = series("in transit", Style::Line, OTHER, early(watched.in_transit(name)));
    let rate = series("received", Style::Line, colour(sender.name), early(watched.rate(name, 5)));
    let queue = series("queue", Style::Steps, OTHER, early(watched.queue()));
    let drops = series("dropped in 20 ms", Style::Crosses, 15, early(watched.drops()));
    vec![
        panel("window (KB)", vec![cwnd, in_transit]),
        panel("rate (KB/s)", vec![rate]),
        panel("packets", vec![queue, drops]),
    ]
}
